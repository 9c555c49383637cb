/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of /proc/vmstat: "key VALUE" lines. */
#include <errno.h>

#include "host/scan.h"
#include "host/vmstat.h"

int vmstat_churn(const char *buf, size_t len_bytes, uint64_t *ret_pages)
{
	struct scan text = { buf, buf + len_bytes };
	struct scan line, key, value;
	uint64_t pages = 0, count;
	bool found = false;
	int more;

	while ((more = scan_line(&text, &line)) > 0) {
		if (!scan_token(&line, &key))
			continue;
		if (!scan_is(key, "pgactivate") && !scan_prefix(&key, "pgalloc_"))
			continue;
		if (!scan_token(&line, &value) || !scan_u64(value, &count))
			return -EBADMSG;
		pages += count; /* wraps as the kernel's own counters do */
		found = true;
	}
	if (more < 0 || !found)
		return -EBADMSG;
	*ret_pages = pages;
	return 0;
}
