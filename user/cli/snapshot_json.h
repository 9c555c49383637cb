/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole snapshot as JSON, and back. */
#ifndef PNMEM_CLI_SNAPSHOT_JSON_H
#define PNMEM_CLI_SNAPSHOT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "pn_memwatch.h"

/* The caller frees it. */
json_t *snapshot_json(const pn_mem_state *state, const pn_mem_ext *ext);

/*
 * Reads a file that snapshot_json's value was written to. Keys that it does not know are ignored.
 * Without host_total_bytes and host_avail_bytes it is no snapshot; the other keys have defaults.
 * Returns 0 or, with a message that names the key, CLI_FAILED.
 */
int snapshot_load(const char *path, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/* Writes a JSON value and a newline to stdout, flushes, and frees the value. pretty: indented. */
int json_print(json_t *value, bool pretty);

#endif
