/* SPDX-License-Identifier: BSD-2-Clause */
/* What pnmem doctor finds out about the agent's privileges. */
#ifndef PNMEM_CLI_DOCTOR_PRIVILEGES_H
#define PNMEM_CLI_DOCTOR_PRIVILEGES_H

#include "cli/doctor.h"

/* pid: the agent's. */
void doctor_privileges(struct doctor *report, int pid);

#endif
