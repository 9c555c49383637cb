/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many engines attached to one agent. Each has a connection and a mapping of its page, which is all
 * that an agent knows of an engine, and a thread that sleeps or reads; they live in a few
 * processes, since a thousand would be a load of their own. What that leaves out of a wake-up is
 * part of the switch of address spaces: here two threads of one process may run one after the
 * other.
 */
#ifndef PNMEM_BENCH_FLEET_H
#define PNMEM_BENCH_FLEET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FLEET_PROCESSES 10
#define FLEET_MAX       1000

enum fleet_task {
	FLEET_IDLE,  /* sleep until the level changes, for ever */
	FLEET_TURNS, /* in turns: sleep on the bare word, sleep until the level changes */
	FLEET_READ,  /* sleep on the bare word, then read the snapshot often */
};

/* Shared with the engines. */
struct fleet_shared {
	_Atomic uint32_t bare;        /* futex word: the baseline, and the command to read */
	_Atomic uint32_t ready;       /* times an engine has come to the end of a round's sleep, */
	_Atomic uint32_t awake;       /* and has run again after it: of all engines and rounds */
	_Atomic uint32_t failed;      /* engines that could not attach */
	uint64_t awake_ns[FLEET_MAX]; /* CLOCK_MONOTONIC of the last round */
	double read_ns[FLEET_MAX];    /* of the last round, by the thread's CPU time */
};

struct fleet {
	struct fleet_shared *shared;
	pid_t pid[FLEET_PROCESSES];
	unsigned processes;
	unsigned engines;
	unsigned round; /* the next one, from 0 */
};

/*
 * Attaches so many engines (few, or a multiple of FLEET_PROCESSES; at most FLEET_MAX) to the agent
 * at this path, before this process has any threads. Returns when all are at their task: 0,
 * -ETIMEDOUT, -ECONNREFUSED (some could not attach), another -errno. End with fleet_stop in any
 * case.
 */
int fleet_start(struct fleet *fleet, const char *socket_path, enum fleet_task task,
		unsigned engines);

/* True when all engines sleep at the beginning of the next round: none has been woken early. */
bool fleet_is_asleep(const struct fleet *fleet);

/* Wakes the sleepers of the bare word, as an agent those of its page. */
void fleet_wake_bare(struct fleet *fleet);

/* Waits until all have run again and sleep anew. Returns when the last one ran, 0 on a time-out. */
uint64_t fleet_end_round(struct fleet *fleet);

void fleet_stop(struct fleet *fleet);

#endif
