/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who notices that a machine runs out of memory, and when: an engine asleep in libpnmem, and beside
 * it what one would use without pnmem. Each is a process of its own with its memory locked and out
 * of the OOM killer's reach, so that what is compared is how they learn of it. What they have seen
 * lies in memory that all share; the clock is CLOCK_MONOTONIC.
 */
#ifndef PNMEM_SUPPORT_OBSERVERS_H
#define PNMEM_SUPPORT_OBSERVERS_H

#include <stdint.h>
#include <sys/types.h>

#define OBSERVERS_POLL_MS   250
#define OBSERVERS_WAKES_MAX 100000

/* One return of the engine's pn_memwatch_wait, and what its snapshot said. */
struct engine_wake {
	uint64_t awake_ns;
	uint64_t publish_ns;
	uint64_t event_ns;    /* kernel record that caused the look, 0 none */
	uint64_t avail_bytes; /* of the host */
	uint64_t some_total_us;
	uint32_t level;
};

struct observers {
	uint64_t line_bytes; /* MemAvailable at most this: crossed */
	_Atomic int ready;   /* observers that are */
	_Atomic int failed;  /* observers that cannot work; no round is valid then */

	/* The round: what was seen before it began does not count. */
	_Atomic uint64_t begin_ns;
	_Atomic uint64_t begin_total_us; /* total= of some */
	/* First time in it, 0 not yet. */
	_Atomic uint64_t poll_line_ns;
	_Atomic uint64_t poll_stall_ns; /* total= of some has grown */
	_Atomic uint64_t trigger_ns;
	_Atomic uint64_t earlyoom_ns; /* its message; it kills nobody here */

	unsigned window_ms; /* of the trigger; 0: there is none */

	/* Every wake-up of the engine since the start; entries below n_wakes are complete. */
	_Atomic uint32_t n_wakes;
	struct engine_wake wakes[OBSERVERS_WAKES_MAX];
};

enum { OBSERVER_ENGINE, OBSERVER_POLL, OBSERVER_TRIGGER, OBSERVER_EARLYOOM, OBSERVER_COUNT };

/* Shared with children that are forked from here on; *line_bytes is set. NULL on failure. */
struct observers *observers_new(uint64_t line_bytes);
void observers_free(struct observers *observers);

/*
 * Starts one of them and returns its pid when it is ready, or -errno; -ETIMEDOUT after 10 s, and
 * -ENOENT for an earlyoom that is not installed. It dies with its parent; pressure_stop ends it.
 * The engine attaches to the agent at PN_SOCKET.
 */
pid_t observers_start(struct observers *observers, int which);

/* A new round, from now on: 0 or -errno. */
int observers_begin(struct observers *observers);

/* Locks this process's memory and tells the OOM killer never to take it. 0 or -errno. */
int process_protect(void);

/* The reverse, in a child of such a process: as any other process. 0 or -errno. */
int process_expose(void);

#endif
