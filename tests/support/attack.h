/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that mean no good, each in processes of its own, until they are ended. */
#ifndef PNMEM_SUPPORT_ATTACK_H
#define PNMEM_SUPPORT_ATTACK_H

#include <stdbool.h>
#include <sys/types.h>

#include "support/made_host.h"

struct attack {
	const char *name;
	void (*run)(const char *socket_path); /* does not return but by a signal */
	bool as_nobody;                       /* as another user than the test's */
	bool settles;                         /* it says when it has taken what it wants to hold */
};

/* NULL name ends it. The first does nothing to the agent but keep the CPUs as busy. */
extern const struct attack attacks[];

#define ATTACKERS_MAX 10

struct attackers {
	pid_t group[ATTACKERS_MAX]; /* each leads a process group of all that it starts */
	int n;
};

/*
 * Starts n of them, in a cgroup of their own on this host; returns when each has begun or, if it
 * settles, has settled. 0 or -errno.
 */
int attack_start(struct attackers *attackers, const struct attack *attack, const char *socket_path,
		 const struct made_host *host, int n);

/*
 * Starts one more, as this user; uid 0: as the test's. The caller has set n to 0 before the first.
 */
int attack_add(struct attackers *attackers, const struct attack *attack, const char *socket_path,
	       const struct made_host *host, uid_t uid);

/* Kills them and all that they started. */
void attack_end(struct attackers *attackers);

#endif
