/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent may still do once its hooks are attached. It starts as root and then keeps only
 * the capabilities that it goes on needing, each with its reason in privileges.c, and the system
 * calls of filter.c. Its user stays root: the files in /proc that belong to it do too.
 */
#ifndef PNMEM_AGENT_PRIVILEGES_H
#define PNMEM_AGENT_PRIVILEGES_H

#include <stdbool.h>

struct privileges_need {
	bool bpf;     /* hooks or uprobes: maps are read, programs may still be loaded */
	bool libcuda; /* libcuda is looked for in other processes, and probed */
};

/*
 * Before the agent serves, with one thread. For good. What the kernel refuses is logged, one line
 * each, and the rest still done: nothing the agent does depends on having less.
 */
void privileges_drop(const struct privileges_need *need);

/* Around each attachment of a uprobe: on, and off again. Nothing where no kernel asks for it. */
void privileges_admin(bool on);

/* For the process that starts samplers: no capability, no way to get one, and a filter. Logs as
 * above. */
void privileges_drop_all(void);

#endif
