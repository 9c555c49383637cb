/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files to probe, and what their calls lead to. See cuda_watch.h. */
#include "agent/cuda_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cuda_hooks.h"
#include "agent/log.h"
#include "agent/privileges.h"
#include "agent/recorder.h"
#include "host/clock.h"
#include "host/cuda_calls.h"
#include "host/cuda_maps.h"
#include "host/elf_symbols.h"

#define MS_NS 1000000ull
#define S_NS  1000000000ull

/* A round through /proc, in slices with pauses: reading a process's maps takes some 50 us. */
#define ROUND_NS       (10 * S_NS)
#define SLICE_NS       (1 * MS_NS)
#define SLICE_PAUSE_NS (20 * MS_NS)
/* Not seen in so many whole rounds, it is in use no more. */
#define UNUSED_ROUNDS 1

#define LIBRARIES_MAX    16
#define MAPS_PER_PROCESS 4

#define NAME(symbol, name, version, flags) #symbol,
static const char *const names[] = { CUDA_MEMORY_CALLS(NAME) };

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

struct library {
	unsigned dev_major, dev_minor;
	uint64_t inode;
	unsigned round; /* last one that it was seen in */
	int fd;         /* while it is being probed, else -1 */
	size_t next;    /* name to be probed */
	uint64_t offset[NAME_COUNT];
	struct cuda_probe *probe[NAME_COUNT];
	size_t probe_count;
};

struct cuda_watch {
	struct agent *agent;
	struct cuda_watch_calls calls;
	struct cuda_hooks *hooks;
	sd_event_source *ring;
	sd_event_source *timer;
	pid_t sampler_pid;
	uint64_t calls_marked;

	struct library library[LIBRARIES_MAX];
	size_t library_count;
	bool full_logged;
	bool attach_logged;

	DIR *proc; /* NULL between rounds */
	unsigned round;
	uint64_t round_ns; /* when the next one begins */
};

static void on_event(void *arg, const struct pn_event *event)
{
	struct cuda_watch *watch = arg;

	recorder_event(watch->agent, event);
	if (event->kind == PN_EVENT_CUDA_CALL)
		watch->calls.call(watch->calls.arg);
	else if (event->kind == PN_EVENT_CUDA_EXIT)
		watch->calls.exit(watch->calls.arg);
}

static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct cuda_watch *watch = userdata;

	cuda_hooks_consume(watch->hooks);
	return 0;
}

/* ---- libraries ---------------------------------------------------------------------------------
 */

static struct library *library_find(struct cuda_watch *watch, const struct cuda_map *map)
{
	for (size_t i = 0; i < watch->library_count; i++) {
		struct library *lib = &watch->library[i];

		if (lib->inode == map->inode && lib->dev_major == map->dev_major &&
		    lib->dev_minor == map->dev_minor)
			return lib;
	}
	return NULL;
}

/* By the mapping itself, which is the file whatever its name means where the process lives. */
static int open_mapped(const struct cuda_watch *watch, int pid, const struct cuda_map *map)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%d/map_files/%llx-%llx", pid, (unsigned long long)map->start,
		 (unsigned long long)map->end);
	fd = openat(watch->agent->procfs_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void library_add(struct cuda_watch *watch, int pid, const struct cuda_map *map)
{
	struct library *lib = &watch->library[watch->library_count];
	int fd, r;

	if (watch->library_count == LIBRARIES_MAX) {
		if (!watch->full_logged)
			log_line(LOG_WARNING,
				 "more than %d libcuda files in use: the others are "
				 "not probed",
				 LIBRARIES_MAX);
		watch->full_logged = true;
		return;
	}
	fd = open_mapped(watch, pid, map);
	if (fd < 0)
		return; /* it may have ended meanwhile: the next round tells */
	memset(lib, 0, sizeof(*lib));
	lib->dev_major = map->dev_major;
	lib->dev_minor = map->dev_minor;
	lib->inode = map->inode;
	lib->round = watch->round;
	lib->fd = fd;
	watch->library_count++;
	r = elf_symbols_find(fd, names, NAME_COUNT, lib->offset);
	if (r <= 0)
		log_line(LOG_NOTICE, "a libcuda that process %d uses cannot be probed: %s", pid,
			 r ? strerror(-r) : "it has none of the memory calls");
	if (r <= 0)
		memset(lib->offset, 0, sizeof(lib->offset));
}

static void library_drop(struct cuda_watch *watch, struct library *lib)
{
	cuda_hooks_detach(lib->probe, lib->probe_count);
	if (lib->fd >= 0)
		close(lib->fd);
	*lib = watch->library[--watch->library_count];
}

/* One more probe. False if the library has all that it is to have. */
static bool library_probe(struct cuda_watch *watch, struct library *lib)
{
	char path[32];
	uint64_t offset;
	int r;

	if (lib->fd < 0)
		return false;
	while (lib->next < NAME_COUNT && !lib->offset[lib->next])
		lib->next++;
	if (lib->next == NAME_COUNT) {
		close(lib->fd);
		lib->fd = -1;
		return false;
	}
	offset = lib->offset[lib->next++];
	for (size_t i = 0; i + 1 < lib->next; i++)
		if (lib->offset[i] == offset)
			return true; /* another name of the same function */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", lib->fd);
	privileges_admin(true);
	r = cuda_hooks_attach(watch->hooks, path, offset, &lib->probe[lib->probe_count]);
	privileges_admin(false);
	if (!r)
		lib->probe_count++;
	else if (!watch->attach_logged)
		log_line(LOG_WARNING, "%s cannot be probed: %s", names[lib->next - 1],
			 strerror(-r));
	watch->attach_logged = watch->attach_logged || r;
	return true;
}

/* ---- the search --------------------------------------------------------------------------------
 */

void cuda_watch_process(struct cuda_watch *watch, pid_t pid)
{
	struct cuda_map maps[MAPS_PER_PROCESS];
	struct library *lib;
	int n = cuda_maps_read(watch->agent->procfs_fd, pid, maps, MAPS_PER_PROCESS);
	bool added = false;

	for (int i = 0; i < n; i++) {
		lib = library_find(watch, &maps[i]);
		if (lib)
			lib->round = watch->round;
		else
			library_add(watch, pid, &maps[i]);
		added = added || !lib;
	}
	if (n > 0 && pid != watch->sampler_pid)
		cuda_hooks_know(watch->hooks, pid);
	if (added) {
		sd_event_source_set_time(watch->timer, 0);
		sd_event_source_set_enabled(watch->timer, SD_EVENT_ONESHOT);
	}
}

static void round_end(struct cuda_watch *watch)
{
	closedir(watch->proc);
	watch->proc = NULL;
	for (size_t i = watch->library_count; i--;)
		if (watch->round - watch->library[i].round >= UNUSED_ROUNDS)
			library_drop(watch, &watch->library[i]);
	watch->round++;
}

/* Goes on with the round for a slice. */
static void search(struct cuda_watch *watch, uint64_t now_ns)
{
	uint64_t end_ns = now_ns + SLICE_NS;
	struct dirent *entry;
	int fd;

	if (!watch->proc) {
		if (now_ns < watch->round_ns)
			return;
		watch->round_ns = now_ns + ROUND_NS;
		fd = openat(watch->agent->procfs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		watch->proc = fd < 0 ? NULL : fdopendir(fd);
		if (!watch->proc && fd >= 0)
			close(fd);
		if (!watch->proc)
			return;
	}
	do {
		entry = readdir(watch->proc);
		if (!entry)
			return round_end(watch);
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			cuda_watch_process(watch, atoi(entry->d_name));
	} while (clock_now_ns() < end_ns);
}

static bool any_to_probe(const struct cuda_watch *watch)
{
	for (size_t i = 0; i < watch->library_count; i++)
		if (watch->library[i].fd >= 0)
			return true;
	return false;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct cuda_watch *watch = userdata;
	uint64_t now_ns = clock_now_ns(), next_ns;
	bool probed = false;

	for (size_t i = 0; i < watch->library_count && !probed; i++)
		probed = library_probe(watch, &watch->library[i]);
	if (!probed)
		search(watch, now_ns);
	/* What the search has found is probed at once, not when the next round begins. */
	next_ns = any_to_probe(watch) ? 0 : watch->proc ? now_ns + SLICE_PAUSE_NS : watch->round_ns;
	sd_event_source_set_time(source, next_ns / 1000);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

void cuda_watch_start(struct cuda_watch *watch)
{
	cuda_watch_process(watch, watch->sampler_pid);
	sd_event_source_set_time(watch->timer, 0);
	sd_event_source_set_enabled(watch->timer, SD_EVENT_ONESHOT);
}

/* ---- calls -------------------------------------------------------------------------------------
 */

void cuda_watch_sampler(struct cuda_watch *watch, pid_t pid)
{
	watch->sampler_pid = pid;
	cuda_hooks_ignore(watch->hooks, pid);
}

void cuda_watch_mark(struct cuda_watch *watch)
{
	watch->calls_marked = cuda_hooks_calls(watch->hooks);
	cuda_hooks_arm(watch->hooks, false);
}

bool cuda_watch_rearm(struct cuda_watch *watch)
{
	cuda_hooks_arm(watch->hooks, true);
	/* After arming: a call in between is in the count, or gives a record, or both. */
	if (cuda_hooks_calls(watch->hooks) == watch->calls_marked)
		return true;
	cuda_hooks_arm(watch->hooks, false);
	return false;
}

void cuda_watch_describe(const struct cuda_watch *watch, char *ret, size_t bytes)
{
	size_t probes = 0;

	for (size_t i = 0; i < watch->library_count; i++)
		probes += watch->library[i].probe_count;
	snprintf(ret, bytes, "%zu files in use, %zu probes, %llu calls seen", watch->library_count,
		 probes, (unsigned long long)cuda_hooks_calls(watch->hooks));
}

/* ---- start and end -----------------------------------------------------------------------------
 */

int cuda_watch_open(struct cuda_watch **ret, struct agent *agent,
		    const struct cuda_watch_calls *calls)
{
	struct cuda_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->agent = agent;
	watch->calls = *calls;
	r = cuda_hooks_open(&watch->hooks, getenv("PNMEM_BTF"), on_event, watch);
	if (!r)
		r = sd_event_add_io(agent->event, &watch->ring, cuda_hooks_fd(watch->hooks),
				    EPOLLIN, on_ring, watch);
	if (r >= 0)
		r = sd_event_add_time(agent->event, &watch->timer, CLOCK_MONOTONIC, 0, 1, on_timer,
				      watch);
	if (r < 0) {
		cuda_watch_close(watch);
		return r;
	}
	/* Behind everything else: what it finds is late by nature. */
	sd_event_source_set_priority(watch->timer, SD_EVENT_PRIORITY_IDLE + 1);
	sd_event_source_set_enabled(watch->timer, SD_EVENT_OFF);
	*ret = watch;
	return 0;
}

void cuda_watch_close(struct cuda_watch *watch)
{
	if (!watch)
		return;
	sd_event_source_disable_unref(watch->ring);
	sd_event_source_disable_unref(watch->timer);
	while (watch->library_count)
		library_drop(watch, &watch->library[0]);
	if (watch->proc)
		closedir(watch->proc);
	cuda_hooks_close(watch->hooks);
	free(watch);
}
