/* SPDX-License-Identifier: BSD-2-Clause */
/* The cgroup files from anywhere: no crash, outputs only on success, paths inside the buffer. */
#include <errno.h>
#include <stdlib.h>

#include "host/cgroup_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void check_result(int err, uint64_t value)
{
	if (err && (err != -EBADMSG || value != 7))
		abort();
}

static void check_path(struct scan path, const char *buf, size_t len_bytes)
{
	if (path.at &&
	    (path.at < buf || path.end > buf + len_bytes || path.at >= path.end || *path.at != '/'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	const char *buf = (const char *)data;
	struct cgroup_paths paths = { 0 };
	uint64_t value = 7;

	check_result(cgroup_files_usage(buf, len_bytes, &value), value);
	value = 7;
	check_result(cgroup_files_limit(buf, len_bytes, &value), value);
	value = 7;
	check_result(cgroup_files_stat(buf, len_bytes, "inactive_file", &value), value);
	check_result(cgroup_files_paths(buf, len_bytes, &paths), 7);
	check_path(paths.v2, buf, len_bytes);
	check_path(paths.v1_memory, buf, len_bytes);
	return 0;
}
