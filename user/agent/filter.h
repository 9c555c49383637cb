/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which system calls the agent may make once it serves, and which its die sampler: lists of what is
 * allowed, installed by libseccomp. Anything else fails with EPERM and is told to the kernel's
 * audit log, so that what the lists forgot degrades the agent and does not end it.
 */
#ifndef PNMEM_AGENT_FILTER_H
#define PNMEM_AGENT_FILTER_H

#include <stdbool.h>

/*
 * For the calling thread and all that it starts, for good; it sets no_new_privs. bpf: bpf(2) and
 * perf_event_open(2) stay allowed. Programs cannot be started, and memory not be made executable.
 * 0; -EOPNOTSUPP: built without libseccomp, or with a sanitizer, whose runtime needs more; another
 * -errno from the kernel.
 */
int filter_agent(bool bpf);

/*
 * The same for what starts the sampler and the sampler itself: what a GPU driver's library is known
 * to call, which is much, and starting programs; not bpf(2), tracing, mounting, namespaces, kernel
 * modules, keys. Returns as above.
 */
int filter_sampler(void);

#endif
