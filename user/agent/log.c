/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's log. See log.h. */
#include "agent/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool in_background;

void log_background(void)
{
	openlog("pnmemd", LOG_PID, LOG_DAEMON);
	in_background = true;
}

void log_line(int priority, const char *format, ...)
{
	/* systemd's journal reads "<priority>" off the front of a line. */
	char line[512];
	va_list ap;
	int n, m;

	if (in_background) {
		va_start(ap, format);
		vsyslog(priority, format, ap);
		va_end(ap);
		return;
	}
	n = getenv("JOURNAL_STREAM") ? snprintf(line, sizeof(line), "<%d>", priority)
				     : snprintf(line, sizeof(line), "pnmemd: ");
	va_start(ap, format);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	va_end(ap);
	n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
	line[n++] = '\n';
	/* One write a line, unbuffered; nothing to be done where it fails. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
