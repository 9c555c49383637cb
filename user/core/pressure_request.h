/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses the text that a program writes to the pressure socket ($MEMORY_PRESSURE_WRITE): the lowest
 * level of which it wants to be notified. The protocol leaves the data open and has the service
 * manager choose it, so whatever is not the name of a level asks for the default.
 */
#ifndef PNMEM_CORE_PRESSURE_REQUEST_H
#define PNMEM_CORE_PRESSURE_REQUEST_H

#include <stddef.h>

#include "pn_mem_state.h"

/* The longest name, and room to see that more follows. */
#define PRESSURE_REQUEST_BYTES 16

#define PRESSURE_LEVEL_DEFAULT PN_MEM_LEVEL_TIGHT

/*
 * text: what was written so far, or its first PRESSURE_REQUEST_BYTES; not NUL-terminated. "WATCH",
 * "TIGHT" or "CRITICAL" in any case, with white space or a NUL after it or nothing, asks for that
 * level. Anything else, also "OK" and the triggers of the kernel's pressure files
 * ("some 200000 2000000", which systemd writes by itself), for PRESSURE_LEVEL_DEFAULT.
 */
pn_mem_level pressure_request_level(const char *text, size_t bytes);

#endif
