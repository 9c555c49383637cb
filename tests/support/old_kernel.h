/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An agent on a kernel before 6.16, as far as SO_PASSRIGHTS goes: the test program starts itself in
 * the agent's place, has the kernel refuse that option (seccomp), and becomes the agent.
 */
#ifndef PNMEM_SUPPORT_OLD_KERNEL_H
#define PNMEM_SUPPORT_OLD_KERNEL_H

#include <stdbool.h>

/* First in main: does not return where this process is to become such an agent. */
void old_kernel_main(char **argv);

/* Agents that agent_proc_start starts from here on are such, or not. */
void old_kernel_use(bool on);

/* Whether this kernel has SO_PASSRIGHTS. */
bool old_kernel_is_new(void);

#endif
