/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The die sampler, pnmem-dies, as a child process: starting it, asking for passes, and noticing
 * when it dies, hangs, is stopped or talks nonsense. A libcuda call can block in the kernel for
 * good, so nothing here ever waits for it: it is killed, and once the kernel has let go of it
 * another is started, ever less often. One that stays stuck in the kernel is not replaced: its
 * successor would join it there. A die that fails or hangs is left out and tried again by itself
 * (core/die_retry.h), so that the others stay fresh. What samples mean is left to dies.c.
 */
#ifndef PNMEM_AGENT_GPU_SAMPLER_H
#define PNMEM_AGENT_GPU_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "core/die_message.h"

struct sampler;

/* All are called from the event loop; none may close the sampler. */
struct sampler_calls {
	/* A child is about to be started as pid, and knows nothing yet. */
	void (*started)(void *arg, pid_t pid);
	/* It said what driver it found. */
	void (*driver)(void *arg, const struct die_driver *driver);
	/* A pass is about to be asked for: what happens from now on may not be in it. */
	void (*asking)(void *arg);
	void (*die)(void *arg, const struct die_sample *die);
	void (*pass_end)(void *arg);
	void *arg;
};

/* Passes are at least so far apart, whatever asks for them. */
#define SAMPLER_GAP_NS 2000000ull
/* And at most so far: what no event announces. */
#define SAMPLER_SLOW_NS 5000000000ull

struct launcher;

/*
 * By the launcher, which stays the caller's and outlives the sampler. cuda_lib NULL: the sampler's
 * own default. The first child is started, and the first pass asked for, from the loop. 0 or
 * -errno.
 */
int sampler_open(struct sampler **ret, sd_event *event, struct launcher *launcher,
		 const char *cuda_lib, const struct sampler_calls *calls);

/* Kills the child; a stuck one is left to init. NULL is allowed. */
void sampler_close(struct sampler *sampler);

/* A pass at due_ns (CLOCK_MONOTONIC) or soon after: at once if that has passed. */
void sampler_want(struct sampler *sampler, uint64_t due_ns);

/*
 * How it is: true if it runs and answers. *ret_text says more ("pnmem-dies 1234, libcuda.so.1, ..."
 * or why not, and when it is tried again).
 */
bool sampler_describe(const struct sampler *sampler, char *ret_text, size_t bytes);

#endif
