/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of a made-up machine. See reserve_host.h. */
#include "support/reserve_host.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pn_reserve.h"

#define TOTAL_KB (64ull << 20)

/* In place, since readers keep files open, and in one write of a length that does not change. */
static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

int reserve_host_open(struct reserve_host *host)
{
	static const char *const quiet = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
					 "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
	char pressure_dir[128];
	int r;

	memset(host, 0, sizeof(*host));
	r = agent_proc_init(&host->agent);
	if (r)
		return r;
	snprintf(host->proc_dir, sizeof(host->proc_dir), "%s/proc", host->agent.dir);
	snprintf(host->cgroup_dir, sizeof(host->cgroup_dir), "%s/cgroup", host->agent.dir);
	snprintf(pressure_dir, sizeof(pressure_dir), "%s/pressure", host->proc_dir);
	if (mkdir(host->proc_dir, 0755) || mkdir(pressure_dir, 0755) ||
	    mkdir(host->cgroup_dir, 0755))
		return -errno;
	write_file(pressure_dir, "memory", quiet);
	write_file(host->cgroup_dir, "cgroup.controllers", "memory\n");
	reserve_host_avail(host, 15 * GIB);
	setenv("PN_HOST_RESERVE_BYTES", "10G", 1);
	setenv("PN_PROCFS", host->proc_dir, 1);
	setenv("PN_CGROUPFS", host->cgroup_dir, 1);
	host->args[0] = "--no-bpf";
	host->args[1] = "--stall-hook";
	host->args[2] = "poll";
	host->args[3] = "--procfs";
	host->args[4] = host->proc_dir;
	host->args[5] = "--cgroupfs";
	host->args[6] = host->cgroup_dir;
	return 0;
}

void reserve_host_start(struct reserve_host *host)
{
	if (agent_proc_start(&host->agent, host->args))
		abort();
	reserve_host_wait();
}

void reserve_host_wait(void)
{
	uint64_t id;
	int r;

	if (pn_memwatch_start())
		abort();
	r = pn_reserve(PN_RESERVE_HOST, 1, 1000, &id, NULL);
	if (r ? r != -ENOSPC : pn_release(id))
		abort();
	pn_memwatch_stop();
}

void reserve_host_avail(const struct reserve_host *host, uint64_t above_bytes)
{
	char text[160];

	snprintf(text, sizeof(text), "MemTotal: %llu kB\nMemFree: 1 kB\nMemAvailable: %012llu kB\n",
		 TOTAL_KB, (unsigned long long)(RESERVE_HOST_RESERVE_BYTES + above_bytes) / 1024);
	write_file(host->proc_dir, "meminfo", text);
}

void reserve_host_limit(const struct reserve_host *host, const char *name, uint64_t max_bytes,
			uint64_t current_bytes)
{
	char dir[200], text[32];

	snprintf(dir, sizeof(dir), "%s/%s", host->cgroup_dir, name);
	mkdir(dir, 0755);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)max_bytes);
	write_file(dir, "memory.max", text);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)current_bytes);
	write_file(dir, "memory.current", text);
}

void reserve_host_place(const struct reserve_host *host, pid_t pid, const char *path)
{
	char dir[200], text[128];

	snprintf(dir, sizeof(dir), "%s%s", host->cgroup_dir, path);
	mkdir(dir, 0755);
	write_file(dir, "memory.current", "0\n");
	snprintf(dir, sizeof(dir), "%s/%d", host->proc_dir, pid);
	mkdir(dir, 0755);
	snprintf(text, sizeof(text), "0::%s\n", path);
	write_file(dir, "cgroup", text);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

void reserve_host_close(struct reserve_host *host)
{
	unsetenv("PN_PROCFS");
	unsetenv("PN_CGROUPFS");
	unsetenv("PN_HOST_RESERVE_BYTES");
	nftw(host->proc_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	nftw(host->cgroup_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	agent_proc_destroy(&host->agent);
}
