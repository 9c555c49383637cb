/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's log: one line a message, on stderr (with a priority prefix under systemd), or to
 * syslog once the agent is in the background.
 */
#ifndef PNMEM_AGENT_LOG_H
#define PNMEM_AGENT_LOG_H

#include <stdint.h>
#include <syslog.h>

/* priority: LOG_ERR, LOG_WARNING, LOG_NOTICE or LOG_INFO. No newline in the format. */
__attribute__((format(printf, 2, 3))) void log_line(int priority, const char *format, ...);

/*
 * What lines are about that a client, a group or another user's process can cause as often as it
 * likes. Each kind has LOG_LIMIT_LINES in LOG_LIMIT_NS, so that one kind cannot hide another.
 */
enum log_kind {
	LOG_KIND_GROUPS,    /* cgroups that cannot be read or have gone */
	LOG_KIND_REFUSALS,  /* connections that are turned away */
	LOG_KIND_LIBRARIES, /* files that are mapped as libcuda */
	LOG_KIND_SAMPLER,   /* dies and the sampler */
	LOG_KIND_TRACES,    /* traces of a user's engines */
	LOG_KIND_COUNT,
};

#define LOG_LIMIT_LINES 10
#define LOG_LIMIT_NS    60000000000ull

/*
 * As log_line, but a line beyond its kind's limit is counted instead. From the loop's thread only.
 */
__attribute__((format(printf, 3, 4))) void log_limited(enum log_kind kind, int priority,
						       const char *format, ...);

/*
 * Says how many lines were left out, for each kind whose time is over. Each look calls it, so that
 * no timer is needed. now_ns: CLOCK_MONOTONIC.
 */
void log_left_out(uint64_t now_ns);

/* From here on there is no stderr. */
void log_background(void);

#endif
