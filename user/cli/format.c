/* SPDX-License-Identifier: BSD-2-Clause */
/* Values as people read them. See format.h. */
#include "cli/format.h"

#include <stdio.h>
#include <string.h>

#include "pn_memwatch.h"

char *format_bytes(char buf[static FORMAT_BYTES], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	snprintf(buf, FORMAT_BYTES, "%.*f %s", unit ? 1 : 0, value, units[unit]);
	return buf;
}

char *format_duration(char buf[static FORMAT_BYTES], uint64_t ns)
{
	if (ns == UINT64_MAX)
		snprintf(buf, FORMAT_BYTES, "never");
	else if (ns < 1000000000)
		snprintf(buf, FORMAT_BYTES, "%.0f ms", (double)ns / 1e6);
	else if (ns < 120 * 1000000000ull)
		snprintf(buf, FORMAT_BYTES, "%.1f s", (double)ns / 1e9);
	else if (ns < 2 * 3600 * 1000000000ull)
		snprintf(buf, FORMAT_BYTES, "%.0f min", (double)ns / 60e9);
	else
		snprintf(buf, FORMAT_BYTES, "%.0f h", (double)ns / 3600e9);
	return buf;
}

const char *format_source(pn_memwatch_source_t source)
{
	switch (source) {
	case PN_SOURCE_AGENT:
		return "agent";
	case PN_SOURCE_POLL:
		return "poll";
	default:
		return "none";
	}
}

static const char *pick(const char *const *names, unsigned count, unsigned i)
{
	return i < count ? names[i] : "?";
}

const char *format_mode(uint32_t mode)
{
	static const char *const names[] = { "none",       "fentry",      "kprobe",
					     "tracepoint", "psi_trigger", "poll" };

	return pick(names, 6, mode);
}

const char *format_source_state(uint8_t state)
{
	static const char *const names[] = { "absent",      "ok",        "stale",
					     "unsupported", "estimated", "gone" };

	return pick(names, 6, state);
}

char *format_reasons(char *buf, size_t buf_bytes, uint32_t reasons)
{
	static const char *const names[] = { "host_bytes", "psi_some", "psi_full", "cgroup",
					     "held",       "stale",    "more_dies" };
	size_t n = 0;

	snprintf(buf, buf_bytes, "none");
	for (unsigned bit = 0; bit < 32 && n < buf_bytes; bit++) {
		const char *comma = n ? "," : "";

		if (!(reasons & 1u << bit))
			continue;
		if (bit >= 16)
			n += (size_t)snprintf(buf + n, buf_bytes - n, "%sdie%u", comma, bit - 16);
		else
			n += (size_t)snprintf(buf + n, buf_bytes - n, "%s%s", comma,
					      pick(names, 7, bit));
	}
	return buf;
}
