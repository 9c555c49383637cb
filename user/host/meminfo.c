/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of /proc/meminfo: three of its lines, "Key: VALUE kB". */
#include <errno.h>

#include "host/meminfo.h"
#include "host/scan.h"

/* The value of a line whose key has been taken. The unit shows that the number is whole. */
static bool meminfo_value(struct scan line, uint64_t *ret_bytes)
{
	struct scan value, unit;
	uint64_t kib;

	return scan_token(&line, &value) && scan_u64(value, &kib) && scan_token(&line, &unit) &&
	       scan_is(unit, "kB") && !__builtin_mul_overflow(kib, 1024, ret_bytes);
}

int meminfo_parse(const char *buf, size_t len_bytes, struct meminfo *ret)
{
	struct scan text = { buf, buf + len_bytes };
	struct meminfo mi = { 0 };
	bool have_avail = false;
	struct scan line, key;
	int more;

	while ((more = scan_line(&text, &line)) > 0) {
		bool good = true;

		if (!scan_token(&line, &key))
			continue;
		if (scan_is(key, "MemTotal:"))
			good = meminfo_value(line, &mi.total_bytes);
		else if (scan_is(key, "MemAvailable:"))
			good = have_avail = meminfo_value(line, &mi.avail_bytes);
		else if (scan_is(key, "SwapFree:"))
			good = meminfo_value(line, &mi.swap_free_bytes);
		if (!good)
			return -EBADMSG;
	}
	if (more < 0 || !mi.total_bytes || !have_avail)
		return -EBADMSG;
	if (mi.avail_bytes > mi.total_bytes)
		mi.avail_bytes = mi.total_bytes;
	*ret = mi;
	return 0;
}
