/* SPDX-License-Identifier: BSD-2-Clause */
/* What pnmem doctor finds out about the machine. */
#ifndef PNMEM_CLI_DOCTOR_MACHINE_H
#define PNMEM_CLI_DOCTOR_MACHINE_H

#include "cli/doctor.h"

void doctor_kernel(struct doctor *report); /* release, lockdown, BTF, kallsyms, kprobes */
void doctor_cgroup(struct doctor *report); /* layout, and this process's group */
void doctor_swap(struct doctor *report);

#endif
