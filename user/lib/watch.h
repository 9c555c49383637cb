/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library's other calls need of the watch (memwatch.c). */
#ifndef PNMEM_LIB_WATCH_H
#define PNMEM_LIB_WATCH_H

#include <stddef.h>
#include <stdint.h>

/*
 * Asks the agent; its id is filled in. Returns 0; -ENODATA if the watch is not running; the
 * agent's refusal; -ENOTCONN. *reply is all 0 first, and stays so (0 is returned) while the watch
 * polls.
 */
int watch_ask(void *request, size_t request_bytes, uint16_t reply_type, void *reply,
	      size_t reply_bytes);

#endif
