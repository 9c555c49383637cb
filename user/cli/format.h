/* SPDX-License-Identifier: BSD-2-Clause */
/* Values as people read them. Functions with a buffer return it. */
#ifndef PNMEM_CLI_FORMAT_H
#define PNMEM_CLI_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "pn_memwatch.h"

#define FORMAT_BYTES 32

char *format_bytes(char buf[static FORMAT_BYTES], uint64_t bytes); /* "21.3 GiB" */
char *format_duration(char buf[static FORMAT_BYTES], uint64_t ns); /* "3.2 s", "never" */
const char *format_source(pn_memwatch_source_t source);            /* "agent" */
const char *format_mode(uint32_t mode);                            /* "tracepoint" */
const char *format_source_state(uint8_t state);                    /* "stale" */
/* The names of PN_REASON_* bits, separated by commas; "none" for 0. */
char *format_reasons(char *buf, size_t buf_bytes, uint32_t reasons);

#endif
