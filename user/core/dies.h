/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of dies before the merge: the sampler's samples, and over them the figures that engines
 * push for the dies that they use. A die is known by its UUID and PCI bus id; its place in the
 * table is the index under which it is published. Pure.
 */
#ifndef PNMEM_CORE_DIES_H
#define PNMEM_CORE_DIES_H

#include <stdbool.h>
#include <stdint.h>

#include "pn_mem_state.h"

#define DIE_TABLE_MAX (PN_MEM_MAX_DIES + PN_MEM_MORE_DIES)
#define DIE_PCI_BYTES 16

/* All zero: the die has no name but its index. */
struct die_id {
	uint8_t uuid[16];        /* all 0: unknown */
	char pci[DIE_PCI_BYTES]; /* "0000:3b:00.0"; "": unknown */
};

struct die {
	struct die_id id;
	uint64_t free_bytes;
	uint64_t total_bytes;  /* as sampled; 0: none but engines tell of it */
	uint64_t budget_bytes; /* 0: no such die, or nothing is known of its memory */
	uint64_t used_bytes;   /* of the engines that push */
	uint64_t sample_ns;    /* CLOCK_MONOTONIC of free_bytes */
	uint64_t limit_ns;     /* age at which a sample is stale; 0: never, an engine keeps it */
	uint64_t push_ns;      /* newest push, 0 none */
	uint32_t n_pushes;     /* engines that pushed it */
	bool closed;           /* it is there, and must not be sampled */
};

/* All zero is the empty table. */
struct die_table {
	struct die die[DIE_TABLE_MAX];
};

/* An engine's figures for one of its dies. */
struct die_push {
	struct die_id id;
	int32_t index; /* -1: by id */
	uint64_t free_bytes;
	uint64_t budget_bytes;
	uint64_t used_bytes;
	uint64_t push_ns;
};

/* All pushes of one engine, at most one for each die. */
struct die_pushes {
	int count;
	struct die_push push[PN_MEM_MAX_DIES];
};

bool die_id_is_known(const struct die_id *id);

/* The same UUID, or where one of the two is unknown the same PCI bus id. */
bool die_id_is_same(const struct die_id *a, const struct die_id *b);

/*
 * A PCI bus id as drivers and tools print it ("0000:3b:00.0", "00000000:3B:00.0", "3b:00.0") in the
 * first of these forms, whose domain has as many digits more as it needs, up to seven. Returns 0 or
 * -EINVAL.
 */
int die_pci_parse(const char *text, char ret_pci[static DIE_PCI_BYTES]);

/*
 * Remembers a push, in place of an earlier one of the same die; a budget of 0 takes that back.
 * *push is clamped to what can be: a die has no more free than budget + reserve_bytes, and no
 * engine uses more than that. Returns 0; -EINVAL (an index outside 0..PN_MEM_MAX_DIES-1, or neither
 * index nor id); -ENOSPC (an engine of more dies than a snapshot names).
 */
int die_pushes_set(struct die_pushes *pushes, struct die_push *push, uint64_t reserve_bytes);

/*
 * Lays a push over the table: by index at that place, by id at the die that has it, else at the
 * first free place. The newer of push and sample says what is free, of a sampled die no more than
 * its total; its budget stays, that of another is the newest push's. Used bytes add up. Returns the
 * place or -ENOSPC.
 */
int die_table_push(struct die_table *table, const struct die_push *push);

/* Place of a die, or -ENOENT. */
int die_table_find(const struct die_table *table, const struct die_id *id);

/* A place for a new die: wanted if it is free, else the first that is; -ENOSPC. */
int die_table_place(const struct die_table *table, int wanted);

/* Bit n: more than one engine pushed die n, so that its used bytes are no single engine's. */
uint32_t die_table_shared(const struct die_table *table);

/*
 * Bit n: die n has no name and nobody samples it. It is what engines say, each of them by its own
 * index perhaps of another die.
 */
uint32_t die_table_declared(const struct die_table *table);

/* Highest known die + 1. */
int die_table_count(const struct die_table *table);

/*
 * PN_SRC_*: absent; ok; stale (its sample is too old, or it never could be sampled); unsupported
 * for one that is closed and not pushed.
 */
uint8_t die_source_state(const struct die *die, uint64_t now_ns);

/* Usable budget of a die of total_bytes. */
uint64_t die_budget_bytes(uint64_t total_bytes, uint64_t reserve_bytes);

#endif
