/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine process that does what the test tells it, one call of the library at a time: what one
 * process holds, another must be asked about.
 */
#ifndef PNMEM_SUPPORT_PEER_PROC_H
#define PNMEM_SUPPORT_PEER_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pn_admission.h"
#include "pn_reserve.h"

/* Of peer_reserve: no test takes that long. */
#define PEER_TTL_MS 60000

struct peer_proc {
	pid_t pid; /* 0: not running */
	int sock;
};

enum peer_op {
	PEER_START, /* pn_memwatch_start */
	PEER_STOP,
	PEER_RESERVE, /* die, bytes, ttl_ms */
	PEER_COMMIT,  /* id */
	PEER_RELEASE, /* id */
	PEER_SET_DIE, /* die, bytes free of 100 GiB */
	PEER_READ,    /* looks first */
	PEER_LIST,
};

struct peer_ask {
	enum peer_op op;
	int die;
	uint8_t uuid; /* first byte of the die's, the others 0; 0: by its place */
	uint64_t bytes;
	uint32_t ttl_ms;
	uint64_t id;
};

struct peer_answer {
	int r;
	uint64_t id;
	uint64_t fit_bytes;
	/* After every call: what it reads, and what admission says to it. */
	pn_memwatch_source_t source;
	uint64_t host_avail_bytes;
	uint64_t host_reserved_bytes;
	uint64_t cgroup_reserved_bytes;
	uint64_t die_reserved_bytes[2];
	pn_admit_result spike;    /* pn_admit_load_spike_ext */
	pn_admit_result spec;     /* pn_admit_load_spike */
	pn_admit_result load;     /* pn_admit_model_load_ext: 8 GiB on die 0 */
	pn_admit_result load_die; /* pn_admit_model_load_die_ext: 8 GiB on die 0 */
	pn_reservation line[4];   /* PEER_LIST: r of them, the first four here */
};

/* Forks it. as_uid: the user that it becomes, 0: none. 0 or -errno. */
int peer_proc_start(struct peer_proc *peer, uid_t as_uid);

/* One call there. With .r -ESHUTDOWN it did not answer. */
struct peer_answer peer_proc_do(const struct peer_proc *peer, struct peer_ask ask);

/* The calls that tests make most. */
struct peer_answer peer_reserve(const struct peer_proc *peer, int die, uint64_t bytes);
struct peer_answer peer_end(const struct peer_proc *peer, enum peer_op op, uint64_t id);
struct peer_answer peer_look(const struct peer_proc *peer);
void peer_set_die(const struct peer_proc *peer, int die, uint64_t free_bytes);

/* SIGKILL and wait. Allowed when it is not running. */
void peer_proc_kill(struct peer_proc *peer);

#endif
