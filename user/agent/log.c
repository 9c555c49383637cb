/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's log. See log.h. */
#include "agent/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/clock.h"

static bool in_background;

/* Of one kind, in the time that runs. */
struct kind_lines {
	uint64_t begin_ns; /* 0: none runs */
	unsigned written;
	unsigned left_out;
};

static struct kind_lines kinds[LOG_KIND_COUNT];

static const char *const kind_names[LOG_KIND_COUNT] = {
	[LOG_KIND_GROUPS] = "cgroups",
	[LOG_KIND_REFUSALS] = "connections that are turned away",
	[LOG_KIND_LIBRARIES] = "files called libcuda",
	[LOG_KIND_SAMPLER] = "the die sampler",
	[LOG_KIND_TRACES] = "traces",
};

void log_background(void)
{
	openlog("pnmemd", LOG_PID, LOG_DAEMON);
	in_background = true;
}

__attribute__((format(printf, 2, 0))) static void write_line(int priority, const char *format,
							     va_list ap)
{
	/* systemd's journal reads "<priority>" off the front of a line. */
	char line[512];
	int n, m;

	if (in_background) {
		vsyslog(priority, format, ap);
		return;
	}
	n = getenv("JOURNAL_STREAM") ? snprintf(line, sizeof(line), "<%d>", priority)
				     : snprintf(line, sizeof(line), "pnmemd: ");
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
	line[n++] = '\n';
	/* One write a line, unbuffered; nothing to be done where it fails. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

void log_line(int priority, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	write_line(priority, format, ap);
	va_end(ap);
}

/* The kind's time begins with its first line. */
static void begin_if_over(enum log_kind kind, uint64_t now_ns)
{
	struct kind_lines *lines = &kinds[kind];

	if (lines->begin_ns && now_ns - lines->begin_ns < LOG_LIMIT_NS)
		return;
	if (lines->left_out)
		log_line(LOG_NOTICE, "%u more lines about %s were left out", lines->left_out,
			 kind_names[kind]);
	*lines = (struct kind_lines){ 0 };
}

void log_limited(enum log_kind kind, int priority, const char *format, ...)
{
	struct kind_lines *lines = &kinds[kind];
	uint64_t now_ns = clock_now_ns();
	va_list ap;

	begin_if_over(kind, now_ns);
	if (!lines->begin_ns)
		lines->begin_ns = now_ns;
	if (lines->written == LOG_LIMIT_LINES) {
		lines->left_out++;
		return;
	}
	lines->written++;
	va_start(ap, format);
	write_line(priority, format, ap);
	va_end(ap);
}

void log_left_out(uint64_t now_ns)
{
	for (enum log_kind kind = 0; kind < LOG_KIND_COUNT; kind++)
		if (kinds[kind].left_out)
			begin_if_over(kind, now_ns);
}
