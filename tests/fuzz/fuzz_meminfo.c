/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/meminfo from anywhere: no crash, and what is accepted is plausible. */
#include <errno.h>
#include <stdlib.h>

#include "host/meminfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	struct meminfo mi = { .total_bytes = 1, .avail_bytes = 2 };
	int err = meminfo_parse((const char *)data, len_bytes, &mi);

	if (err ? err != -EBADMSG || mi.avail_bytes != 2
		: !mi.total_bytes || mi.avail_bytes > mi.total_bytes || mi.total_bytes % 1024)
		abort();
	return 0;
}
