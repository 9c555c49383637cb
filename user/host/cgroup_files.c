/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of the memory cgroup's files. */
#include <errno.h>
#include <string.h>

#include "host/cgroup_files.h"

/* The first token of a file of one line. */
static bool cgroup_files_first(const char *buf, size_t len_bytes, struct scan *ret_token)
{
	struct scan text = { buf, buf + len_bytes };
	struct scan line;

	return scan_line(&text, &line) > 0 && scan_token(&line, ret_token);
}

int cgroup_files_usage(const char *buf, size_t len_bytes, uint64_t *ret_bytes)
{
	struct scan token;

	if (!cgroup_files_first(buf, len_bytes, &token) || !scan_u64(token, ret_bytes))
		return -EBADMSG;
	return 0;
}

int cgroup_files_limit(const char *buf, size_t len_bytes, uint64_t *ret_bytes)
{
	struct scan token;
	uint64_t bytes;

	if (!cgroup_files_first(buf, len_bytes, &token))
		return -EBADMSG;
	if (scan_is(token, "max"))
		bytes = CGROUP_NO_LIMIT;
	else if (!scan_u64(token, &bytes))
		return -EBADMSG;
	*ret_bytes = bytes >= CGROUP_V1_NO_LIMIT_BYTES ? CGROUP_NO_LIMIT : bytes;
	return 0;
}

int cgroup_files_stat(const char *buf, size_t len_bytes, const char *key, uint64_t *ret_bytes)
{
	struct scan text = { buf, buf + len_bytes };
	struct scan line, token;

	while (scan_line(&text, &line) > 0) {
		if (!scan_token(&line, &token) || !scan_is(token, key))
			continue;
		return scan_token(&line, &token) && scan_u64(token, ret_bytes) ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

/* Takes everything before the next colon, and the colon. */
static bool cgroup_files_field(struct scan *line, struct scan *ret_field)
{
	const char *colon = memchr(line->at, ':', (size_t)(line->end - line->at));

	if (!colon)
		return false;
	*ret_field = (struct scan){ line->at, colon };
	line->at = colon + 1;
	return true;
}

/* Is "memory" one of the comma-separated controllers? */
static bool cgroup_files_has_memory(struct scan controllers)
{
	while (controllers.at < controllers.end) {
		size_t left = (size_t)(controllers.end - controllers.at);
		const char *comma = memchr(controllers.at, ',', left);
		const char *end = comma ? comma : controllers.end;

		if (scan_is((struct scan){ controllers.at, end }, "memory"))
			return true;
		controllers.at = comma ? comma + 1 : controllers.end;
	}
	return false;
}

int cgroup_files_paths(const char *buf, size_t len_bytes, struct cgroup_paths *ret)
{
	struct scan text = { buf, buf + len_bytes };
	struct cgroup_paths paths = { 0 };
	struct scan line, id, controllers;
	bool any = false;
	int more;

	while ((more = scan_line(&text, &line)) > 0) {
		uint64_t number;

		if (!cgroup_files_field(&line, &id) || !cgroup_files_field(&line, &controllers) ||
		    !scan_u64(id, &number) || line.at == line.end || *line.at != '/')
			return -EBADMSG;
		if (number == 0 && controllers.at == controllers.end)
			paths.v2 = line;
		else if (cgroup_files_has_memory(controllers))
			paths.v1_memory = line;
		any = true;
	}
	if (more < 0 || !any)
		return -EBADMSG;
	*ret = paths;
	return 0;
}
