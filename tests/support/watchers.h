/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines for the tests of an agent that comes and goes: processes that use the library from many
 * threads at once (reading, sleeping, pushing a die, an eventfd) and check, at every snapshot, that
 * no thread is ever shown anything older than what its process has seen.
 *
 * Agent and engines look at a made-up /proc, in which one digit is the host's free memory. The
 * test moves it on, 0 to 9 and round again, and only once every engine has seen the last move: so
 * an old level shows by its digit, whatever its publisher claims of its time.
 */
#ifndef PNMEM_SUPPORT_WATCHERS_H
#define PNMEM_SUPPORT_WATCHERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pn_memwatch.h"

#define WATCHERS_MAX 8

/* What one engine says of itself, in memory shared with the test. */
struct watcher {
	pid_t pid;
	_Atomic int source;           /* pn_memwatch_source_t */
	_Atomic uint32_t agent_pid;   /* of the agent that it is attached to, 0: none */
	_Atomic uint32_t digit;       /* as its newest snapshot says */
	_Atomic uint64_t reads;       /* snapshots checked */
	_Atomic uint64_t waits;       /* sleeps that ended with a newer snapshot */
	_Atomic uint64_t level_wakes; /* times its eventfd became readable */
	_Atomic uint64_t pushes;      /* of its die, each acknowledged */
	_Atomic uint64_t polls;       /* times its source was seen to have become its own poll */
	_Atomic bool failed;
	char why[160]; /* what it saw first that must not be, if failed */
};

struct watchers {
	struct watcher *watcher; /* [count] */
	unsigned count;
	char dir[96]; /* stands for /proc: for the agent's --procfs too */
	uint32_t digit;
};

/* Makes the /proc in the folder `under`, and sets PN_PROCFS for this process. 0 or -errno. */
int watchers_init(struct watchers *w, const char *under);

/* Starts count engines on PN_SOCKET, before this process has any threads. 0 or -errno. */
int watchers_start(struct watchers *w, unsigned count);

/* Free memory moves on by one digit. Not again before all have seen it. 0 or -errno. */
int watchers_next_digit(struct watchers *w);

/*
 * Whether all engines see the newest digit; are attached to this agent; poll for themselves; have
 * failed at nothing (with a comment line for each that has).
 */
bool watchers_see_digit(const struct watchers *w);
bool watchers_on_agent(const struct watchers *w, pid_t agent_pid);
bool watchers_poll(const struct watchers *w);
bool watchers_are_well(const struct watchers *w);

/* What an engine holds, from its /proc/PID. */
struct watcher_held {
	long descriptors;
	long mappings;
	long threads;
	long anon_kib;
};

struct watcher_held watcher_held(const struct watcher *watcher);

/* PN_SOAK=1 in the environment: run at whole length. */
bool watchers_soak(void);

/* Ends the engines and removes the folder. Allowed after a failed init or start. */
void watchers_stop(struct watchers *w);

#endif
