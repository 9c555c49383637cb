/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of a running watch share: a made-up host whose files change under it, bounded
 * waits for a condition, and counts of what may leak. Include after cmocka.h.
 */
#ifndef PNMEM_TESTS_WATCH_TREE_H
#define PNMEM_TESTS_WATCH_TREE_H

#include <time.h>

#include "host/clock.h"
#include "host_tree.h"

#define MS_NS 1000000ull
#define GIB   (1ull << 30)
/* A reserve of 15 % is 9.6 GiB: OK at 40 GiB free, WATCH at 15, TIGHT at 11, CRITICAL at 5. */
#define HOST_TOTAL_BYTES (64 * GIB)

/* A time limit of the product's, with what a sanitizer on a busy machine may add. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_MS(ms) ((ms)*3)
#else
#define LIMIT_MS(ms) (ms)
#endif

/* Replaces a file in one step: a poll in between reads the old or the new text, never half. */
__attribute__((format(printf, 3, 4))) static inline void
tree_replace(struct host_tree *tree, const char *name, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tree_mkdirs(tree, name);
	tree_write(tree, "next", "%s", text);
	assert_int_equal(renameat(tree->fd, "next", tree->fd, name), 0);
}

static inline void tree_set_avail(struct host_tree *tree, uint64_t avail_bytes)
{
	tree_replace(tree, "meminfo",
		     "MemTotal: %llu kB\nMemFree: 1 kB\nMemAvailable: %llu kB\nSwapFree: 0 kB\n",
		     HOST_TOTAL_BYTES / 1024, (unsigned long long)avail_bytes / 1024);
}

static inline void tree_set_some(struct host_tree *tree, double avg10_pct)
{
	tree_replace(tree, "pressure/memory",
		     "some avg10=%.2f avg60=0.00 avg300=0.00 total=1000\n"
		     "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		     avg10_pct);
}

/* A quiet host without cgroups, and the environment that points the watch at it. */
static inline void tree_make_host(struct host_tree *tree)
{
	char path[128];

	tree_make(tree);
	tree_set_avail(tree, 40 * GIB);
	tree_set_some(tree, 0);
	setenv("PN_PROCFS", tree->path, 1);
	snprintf(path, sizeof(path), "%s/no-cgroups", tree->path);
	setenv("PN_CGROUPFS", path, 1);
	snprintf(path, sizeof(path), "%s/pnmem.sock", tree->path);
	setenv("PN_SOCKET", path, 1);
}

static inline uint64_t deadline_in_ms(unsigned ms)
{
	return clock_now_ns() + ms * MS_NS;
}

/* Waits for condition(arg); false when it has not come true within limit_ms. */
static inline bool comes_true(bool (*condition)(void *arg), void *arg, unsigned limit_ms)
{
	const struct timespec pause = { .tv_nsec = 500000 };
	uint64_t deadline_ns = deadline_in_ms(limit_ms);

	while (!condition(arg)) {
		if (clock_now_ns() > deadline_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Threads this process has. */
static inline int tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = -2; /* "." and ".." */

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* What may leak; a joined thread and a peer's end of a socket go a moment later. */
struct held {
	int descriptors, threads;
};

static inline struct held held_now(void)
{
	return (struct held){ open_descriptors(), tasks() };
}

static inline bool held_no_more(void *arg)
{
	const struct held *before = arg;

	return open_descriptors() <= before->descriptors && tasks() <= before->threads;
}

static inline void assert_held_no_more(struct held before)
{
	if (!comes_true(held_no_more, &before, 5000))
		fail_msg("descriptors %d -> %d, threads %d -> %d", before.descriptors,
			 open_descriptors(), before.threads, tasks());
}

#endif
