/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent may still do once its hooks are attached. It starts as root and then keeps only
 * the capabilities that it goes on needing, each with its reason in privileges.c, and the system
 * calls of filter.c. Its user stays root: the files in /proc that belong to it do too.
 */
#ifndef PNMEM_AGENT_PRIVILEGES_H
#define PNMEM_AGENT_PRIVILEGES_H

#include <stdbool.h>

/*
 * Before the agent serves, with one thread. For good. bpf: with hooks or uprobes, maps are read.
 * What the kernel refuses is logged, one line each, and the rest still done: nothing the agent does
 * depends on having less.
 */
void privileges_drop(bool bpf);

/*
 * For the finder: its capabilities stay permitted for its own children, and none is effective. Logs
 * as above.
 */
void privileges_drop_to_finder(void);

/* What a child of the finder does next. A later step cannot be followed by an earlier one. */
enum privileges_step {
	PRIVILEGES_READ,  /* reads the maps of other users' processes; then nothing else */
	PRIVILEGES_OPEN,  /* opens a file that another user's process has mapped */
	PRIVILEGES_PROBE, /* attaches uprobes */
	PRIVILEGES_NONE,
};

/* The calling process keeps what this step and later ones need. 0 or -errno. */
int privileges_step(enum privileges_step step);

/* For the process that starts samplers: no capability, no way to get one, and a filter. Logs as
 * above. */
void privileges_drop_all(void);

#endif
