/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seeing CUDA processes allocate, free and end: the libcuda files that are in use are found in
 * /proc/PID/maps, and probed through cuda_hooks. All of it says when to sample, and nothing about
 * how much: what it misses, the slow pass catches.
 */
#ifndef PNMEM_AGENT_CUDA_WATCH_H
#define PNMEM_AGENT_CUDA_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct agent;
struct cuda_watch;

/* From the event loop; none may close the watch. */
struct cuda_watch_calls {
	void (*call)(void *arg); /* the first call since cuda_watch_rearm has returned */
	void (*exit)(void *arg); /* a process that had called has begun to end */
	void *arg;
};

/* Loads the programs; nothing is probed yet. 0 or -errno. */
int cuda_watch_open(struct cuda_watch **ret, struct agent *agent,
		    const struct cuda_watch_calls *calls);
void cuda_watch_close(struct cuda_watch *watch);

/* Begins to look for libcuda in use: in the sampler at once, elsewhere a little at a time. */
void cuda_watch_start(struct cuda_watch *watch);

/* This process may have just loaded one. */
void cuda_watch_process(struct cuda_watch *watch, pid_t pid);

/* The sampler's own calls do not count. */
void cuda_watch_sampler(struct cuda_watch *watch, pid_t pid);

/* A pass is about to be asked for: calls until now are in it. */
void cuda_watch_mark(struct cuda_watch *watch);

/* After a pass. True: the next call will tell; false: there were some since the mark. */
bool cuda_watch_rearm(struct cuda_watch *watch);

/* "3 libraries, 96 probes, 12345 calls seen" */
void cuda_watch_describe(const struct cuda_watch *watch, char *ret, size_t bytes);

#endif
