/* SPDX-License-Identifier: BSD-2-Clause */
/* Ten hostile clients, each of a kind of its own, of four users. */
#ifndef PNMEM_TESTS_HOSTILE_H
#define PNMEM_TESTS_HOSTILE_H

#include "support/attack.h"

#define HOSTILE_CLIENTS   10
#define HOSTILE_USERS     4
#define HOSTILE_FIRST_UID 61001

/* Starts all ten; attack_end ends them. 0 or -errno. */
int hostile_start(struct attackers *attackers, const char *socket_path,
		  const struct made_host *host);

/* The same number of processes of the same users that only keep the CPUs busy. 0 or -errno. */
int hostile_start_burners(struct attackers *attackers, const char *socket_path,
			  const struct made_host *host);

#endif
