/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's log: one line a message, on stderr (with a priority prefix under systemd), or to
 * syslog once the agent is in the background.
 */
#ifndef PNMEM_AGENT_LOG_H
#define PNMEM_AGENT_LOG_H

#include <syslog.h>

/* priority: LOG_ERR, LOG_WARNING, LOG_NOTICE or LOG_INFO. No newline in the format. */
__attribute__((format(printf, 2, 3))) void log_line(int priority, const char *format, ...);

/* From here on there is no stderr. */
void log_background(void);

#endif
