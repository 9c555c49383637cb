/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seeing CUDA processes allocate, free and end. The finder (finder.h), a child of the agent, probes
 * the libcuda files that are in use; the records come to the agent through cuda_hooks. All of it
 * says when to sample, and nothing about how much: what it misses, the slow pass catches.
 */
#ifndef PNMEM_AGENT_GPU_CUDA_WATCH_H
#define PNMEM_AGENT_GPU_CUDA_WATCH_H

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

/*
 * Forks the finder, which sleeps, while the agent may still fork. 0 or -errno. Then, once: loads
 * the programs, while the agent may still load programs. 0 or -errno; after an error only
 * cuda_watch_close is allowed.
 */
int cuda_watch_open(struct cuda_watch **ret, struct agent *agent,
		    const struct cuda_watch_calls *calls);
int cuda_watch_load(struct cuda_watch *watch);
void cuda_watch_close(struct cuda_watch *watch);

/* There is a driver: ends of processes are followed and libcuda is looked for. 0 or -errno. */
int cuda_watch_begin(struct cuda_watch *watch);

/* This process may have just loaded one. */
void cuda_watch_process(struct cuda_watch *watch, pid_t pid);

/* The sampler's own calls do not count. */
void cuda_watch_sampler(struct cuda_watch *watch, pid_t pid);

/* A pass is about to be asked for: calls until now are in it. */
void cuda_watch_mark(struct cuda_watch *watch);

/* After a pass. True: the next call will tell; false: there were some since the mark. */
bool cuda_watch_rearm(struct cuda_watch *watch);

/* "3 files in use, 78 probes, 12345 calls seen". Returns whether calls are seen at all. */
bool cuda_watch_describe(const struct cuda_watch *watch, char *ret, size_t bytes);

#endif
