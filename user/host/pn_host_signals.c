/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_host_signals on Linux: which files make up a sample, and what becomes of a source whose read
 * fails. The rest of the world is in pn_host_signals_other.c.
 */
#if defined(__linux__) && !defined(PN_HOST_SIGNALS_OTHER)

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/cgroup.h"
#include "host/clock.h"
#include "host/host_file.h"
#include "host/meminfo.h"
#include "host/pressure.h"
#include "host/signals.h"

/* About 1.6 KiB today; a line more costs 28 bytes. */
#define HOST_MEMINFO_TEXT_BYTES  8192
#define HOST_PRESSURE_TEXT_BYTES 512

struct pn_host_signals {
	int procfs_fd;
	int cgroupfs_fd;
	int own_procfs_fd; /* to be closed, -1 where the descriptor is the caller's */
	int own_cgroupfs_fd;
	struct host_file meminfo;
	struct host_file pressure;
	bool has_pid;
	struct cgroup cgroup;
	pn_host_sample last;
};

/*
 * Notes the outcome of a read. Readers return -ENOENT only for what is not there at all (what has
 * gone is -ENODEV), so that one is not a failure. Returns whether the source's values hold: those
 * just read, or the last good ones.
 */
static bool signals_note(pn_host_sample *sample, int source, int err, uint64_t now_ns)
{
	sample->source_err[source] = err;
	switch (err) {
	case 0:
		sample->source_state[source] = PN_SRC_OK;
		sample->source_ns[source] = now_ns;
		return true;
	case -ENOENT:
		sample->source_state[source] = PN_SRC_ABSENT;
		return false;
	case -EOPNOTSUPP:
		sample->source_state[source] = PN_SRC_UNSUPPORTED;
		return false;
	case -ENODEV:
		if (source == PN_SRC_CGROUP || source == PN_SRC_CGROUP_PSI) {
			sample->source_state[source] = PN_SRC_GONE;
			return true;
		}
		/* fall through */
	default:
		sample->source_state[source] = PN_SRC_STALE;
		return true;
	}
}

static void signals_read_bytes(pn_host_signals *hs, uint64_t now_ns)
{
	char text[HOST_MEMINFO_TEXT_BYTES];
	struct meminfo mi;
	size_t len;
	int err = host_file_read(&hs->meminfo, hs->procfs_fd, "meminfo", now_ns, text, sizeof(text),
				 &len);

	if (!err)
		err = meminfo_parse(text, len, &mi);
	signals_note(&hs->last, PN_SRC_MEMINFO, err, now_ns);
	if (err)
		return;
	hs->last.total_bytes = mi.total_bytes;
	hs->last.avail_bytes = mi.avail_bytes;
	hs->last.swap_free_bytes = mi.swap_free_bytes;
}

static void signals_read_psi(pn_host_signals *hs, uint64_t now_ns)
{
	char text[HOST_PRESSURE_TEXT_BYTES];
	struct pressure psi;
	size_t len;
	int err = host_file_read(&hs->pressure, hs->procfs_fd, "pressure/memory", now_ns, text,
				 sizeof(text), &len);

	if (!err)
		err = pressure_parse(text, len, &psi);
	if (!signals_note(&hs->last, PN_SRC_PSI, err, now_ns))
		psi = (struct pressure){ 0 };
	else if (err)
		return;
	hs->last.psi_some_avg10 = psi.some.avg10;
	hs->last.psi_full_avg10 = psi.full.avg10;
	hs->last.psi_some_avg60 = psi.some.avg60;
	hs->last.psi_some_avg300 = psi.some.avg300;
	hs->last.psi_some_total_us = psi.some.total_us;
	hs->last.psi_full_total_us = psi.full.total_us;
}

static void signals_read_cgroup(pn_host_signals *hs, uint64_t now_ns)
{
	struct cgroup_bytes bytes;
	int err = cgroup_read_bytes(&hs->cgroup, now_ns, &bytes);

	if (!signals_note(&hs->last, PN_SRC_CGROUP, err, now_ns))
		bytes = (struct cgroup_bytes){ .headroom_bytes = UINT64_MAX };
	else if (err)
		return;
	hs->last.cgroup_current_bytes = bytes.current_bytes;
	hs->last.cgroup_high_bytes = bytes.high_bytes;
	hs->last.cgroup_max_bytes = bytes.max_bytes;
	hs->last.cgroup_headroom_bytes = bytes.headroom_bytes;
	hs->last.cgroup_limit_bytes = bytes.limit_bytes;
}

static void signals_read_cgroup_psi(pn_host_signals *hs, uint64_t now_ns)
{
	struct pressure psi;
	int err = cgroup_read_pressure(&hs->cgroup, now_ns, &psi);

	if (!signals_note(&hs->last, PN_SRC_CGROUP_PSI, err, now_ns))
		psi = (struct pressure){ 0 };
	else if (err)
		return;
	hs->last.cgroup_psi_some_avg10 = psi.some.avg10;
	hs->last.cgroup_psi_full_avg10 = psi.full.avg10;
	hs->last.cgroup_psi_some_total_us = psi.some.total_us;
	hs->last.cgroup_psi_full_total_us = psi.full.total_us;
}

/* Uses the caller's directory, or opens path where there is one. Returns 0 or -errno. */
static int signals_open_dir(int callers_fd, const char *path, int *ret_fd, int *ret_own_fd)
{
	int fd;

	*ret_own_fd = -1;
	*ret_fd = callers_fd == SIGNALS_NO_DIR ? -1 : callers_fd;
	if (callers_fd == SIGNALS_NO_DIR)
		return 0;
	if (callers_fd != -1)
		return fcntl(callers_fd, F_GETFD) < 0 ? -errno : 0;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	*ret_fd = *ret_own_fd = fd;
	return 0;
}

int pn_host_signals_open(pn_host_signals **ret, int procfs_fd, int cgroupfs_fd, int pid)
{
	pn_host_signals *hs;
	int err;

	if (pid < -1)
		return -EINVAL;
	hs = calloc(1, sizeof(*hs));
	if (!hs)
		return -ENOMEM;
	hs->own_cgroupfs_fd = -1;
	hs->meminfo = hs->pressure = HOST_FILE_INIT;
	hs->last.cgroup_headroom_bytes = UINT64_MAX;
	err = signals_open_dir(procfs_fd, "/proc", &hs->procfs_fd, &hs->own_procfs_fd);
	if (!err)
		err = signals_open_dir(cgroupfs_fd, "/sys/fs/cgroup", &hs->cgroupfs_fd,
				       &hs->own_cgroupfs_fd);
	if (err) {
		pn_host_signals_close(hs);
		return err;
	}
	hs->has_pid = pid >= 0;
	if (hs->has_pid)
		cgroup_init(&hs->cgroup, hs->procfs_fd, hs->cgroupfs_fd, pid);
	*ret = hs;
	return 0;
}

int pn_host_signals_read(pn_host_signals *hs, unsigned what, uint64_t now_ns, pn_host_sample *ret)
{
	if (what & PN_HOST_READ_BYTES)
		signals_read_bytes(hs, now_ns);
	if (what & PN_HOST_READ_PSI)
		signals_read_psi(hs, now_ns);
	if (hs->has_pid && (what & PN_HOST_READ_CGROUP))
		signals_read_cgroup(hs, now_ns);
	if (hs->has_pid && (what & PN_HOST_READ_CGROUP_PSI))
		signals_read_cgroup_psi(hs, now_ns);
	*ret = hs->last;
	if (hs->last.total_bytes)
		return 0;
	return hs->last.source_err[PN_SRC_MEMINFO] ? hs->last.source_err[PN_SRC_MEMINFO] : -ENODATA;
}

void signals_pin(pn_host_signals *hs)
{
	if (hs->has_pid)
		cgroup_pin(&hs->cgroup);
}

bool signals_within(const pn_host_signals *hs, uint64_t cgroup_id)
{
	return hs->has_pid && cgroup_is_within(&hs->cgroup, cgroup_id);
}

bool signals_limit_pressure(const pn_host_signals *hs)
{
	return hs->has_pid && cgroup_limits_pressure(&hs->cgroup);
}

void pn_host_signals_close(pn_host_signals *hs)
{
	if (!hs)
		return;
	host_file_close(&hs->meminfo);
	host_file_close(&hs->pressure);
	if (hs->has_pid)
		cgroup_close(&hs->cgroup);
	if (hs->own_procfs_fd >= 0)
		close(hs->own_procfs_fd);
	if (hs->own_cgroupfs_fd >= 0)
		close(hs->own_cgroupfs_fd);
	free(hs);
}

bool signals_count_within(const pn_host_signals *hs, const pn_host_signals *limited)
{
	return hs->has_pid && limited->has_pid &&
	       cgroup_counts_within(&hs->cgroup, &limited->cgroup);
}

int pn_host_signals_sample(pn_host_sample *ret)
{
	pn_host_signals *hs;
	int err;

	*ret = (pn_host_sample){ .cgroup_headroom_bytes = UINT64_MAX };
	err = pn_host_signals_open(&hs, -1, -1, 0);
	if (err)
		return err;
	err = pn_host_signals_read(hs, PN_HOST_READ_ALL, clock_now_ns(), ret);
	pn_host_signals_close(hs);
	return err;
}

#endif
