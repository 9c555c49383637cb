/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of /proc/vmstat, "key VALUE" lines. See vmstat.h. */
#include "host/vmstat.h"

#include <errno.h>

#include "host/scan.h"

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

int vmstat_parse(const char *buf, size_t len_bytes, struct trace_vmstat *ret)
{
	struct scan text = { buf, buf + len_bytes }, line, key, value;
	struct trace_vmstat v = { 0 };
	const struct {
		const char *key;
		uint64_t *value;
	} wanted[] = {
		{ "pgscan_direct", &v.scan_direct_pages },
		{ "pgsteal_direct", &v.steal_direct_pages },
		{ "pgscan_kswapd", &v.scan_kswapd_pages },
		{ "pgsteal_kswapd", &v.steal_kswapd_pages },
		{ "pgfault", &v.fault_count },
		{ "pgmajfault", &v.major_fault_count },
		{ "pgscan_anon", &v.scan_all_pages },
		{ "pgscan_file", &v.scan_all_pages },
		{ "pgsteal_anon", &v.steal_all_pages },
		{ "pgsteal_file", &v.steal_all_pages },
	};
	uint64_t number;
	int more;

	while ((more = scan_line(&text, &line)) > 0) {
		if (!scan_token(&line, &key) || !scan_token(&line, &value))
			continue;
		/* All of them begin with it, and few others do. */
		if (key.end - key.at < 7 || key.at[0] != 'p' || key.at[1] != 'g')
			continue;
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (!scan_is(key, wanted[i].key))
				continue;
			if (!scan_u64(value, &number))
				return -EBADMSG;
			*wanted[i].value += number;
		}
	}
	if (more < 0)
		return -EBADMSG;
	*ret = v;
	return 0;
}
