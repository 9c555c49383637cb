/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which system calls the agent and its children may make once it serves: lists of what is allowed,
 * installed by libseccomp. Anything else fails with EPERM and is told to the kernel's audit log, so
 * that what the lists forgot degrades the agent and does not end it.
 */
#ifndef PNMEM_AGENT_FILTER_H
#define PNMEM_AGENT_FILTER_H

#include <stdbool.h>

/*
 * For the calling thread and all that it starts, for good; it sets no_new_privs. bpf: bpf(2) stays
 * allowed. Programs cannot be started, and memory not be made executable.
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

/*
 * The same for the finder and its children: reading files, opening them to read only, uprobes,
 * making processes that have this filter too; no program can be started, no namespace or socket
 * made, no file written or removed. Returns as above.
 */
int filter_finder(void);

/* In addition, for a child of the finder that parses a file which is open already. As above. */
int filter_parser(void);

#endif
