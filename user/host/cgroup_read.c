/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the groups that cgroup.c has opened: own bytes, own pressure, and the headroom.
 *
 * Headroom of a group is limit - (current - inactive file pages): those the kernel gives up first,
 * so page cache is not usage. What a process can still take is the least over its ancestors.
 */
#include <errno.h>
#include <string.h>

#include "host/cgroup.h"

/* A number and a newline; the kernel writes at most 21 bytes. */
#define CGROUP_VALUE_TEXT_BYTES    128
#define CGROUP_STAT_TEXT_BYTES     16384
#define CGROUP_PRESSURE_TEXT_BYTES 512

static int cgroup_read_usage(const struct cgroup *cg, struct cgroup_group *group, uint64_t now_ns,
			     uint64_t *ret_bytes)
{
	const char *name = cg->v1 ? "memory.usage_in_bytes" : "memory.current";
	char text[CGROUP_VALUE_TEXT_BYTES];
	size_t len;
	int err = host_file_read(&group->current, group->dir_fd, name, now_ns, text, sizeof(text),
				 &len);

	return err ? err : cgroup_files_usage(text, len, ret_bytes);
}

static int cgroup_read_limit(struct cgroup_group *group, struct host_file *file, const char *name,
			     uint64_t now_ns, uint64_t *ret_bytes)
{
	char text[CGROUP_VALUE_TEXT_BYTES];
	size_t len;
	int err = host_file_read(file, group->dir_fd, name, now_ns, text, sizeof(text), &len);

	if (err == -ENOENT) {
		*ret_bytes = CGROUP_NO_LIMIT;
		return 0;
	}
	return err ? err : cgroup_files_limit(text, len, ret_bytes);
}

static int cgroup_read_limits(const struct cgroup *cg, struct cgroup_group *group, uint64_t now_ns,
			      uint64_t *ret_max_bytes, uint64_t *ret_high_bytes)
{
	const char *name = cg->v1 ? "memory.limit_in_bytes" : "memory.max";
	int err = cgroup_read_limit(group, &group->max, name, now_ns, ret_max_bytes);

	*ret_high_bytes = CGROUP_NO_LIMIT;
	if (err || cg->v1)
		return err;
	return cgroup_read_limit(group, &group->high, "memory.high", now_ns, ret_high_bytes);
}

static int cgroup_read_inactive(const struct cgroup *cg, struct cgroup_group *group,
				uint64_t now_ns, uint64_t *ret_bytes)
{
	char text[CGROUP_STAT_TEXT_BYTES];
	size_t len;
	int err = host_file_read(&group->stat, group->dir_fd, "memory.stat", now_ns, text,
				 sizeof(text), &len);

	if (err == -ENOENT) {
		*ret_bytes = 0;
		return 0;
	}
	if (err)
		return err;
	return cgroup_files_stat(text, len, cg->v1 ? "total_inactive_file" : "inactive_file",
				 ret_bytes);
}

/* Usage is not one instant's with the limit and the stat: both subtractions must stop at 0. */
static uint64_t cgroup_headroom(uint64_t limit_bytes, uint64_t current_bytes,
				uint64_t inactive_bytes)
{
	uint64_t used = current_bytes > inactive_bytes ? current_bytes - inactive_bytes : 0;

	return used < limit_bytes ? limit_bytes - used : 0;
}

/* In the sample 0 means unset, so a limit of 0 bytes is shown as 1. */
static uint64_t cgroup_shown_limit(uint64_t limit_bytes)
{
	if (limit_bytes == CGROUP_NO_LIMIT)
		return 0;
	return limit_bytes ? limit_bytes : 1;
}

/* Reads one group and lowers the headroom in *bytes to its own, if it has a limit. */
static int cgroup_read_group(struct cgroup *cg, struct cgroup_group *group, uint64_t now_ns,
			     struct cgroup_bytes *bytes)
{
	bool own = group == &cg->groups[0];
	uint64_t max, high, limit, headroom, inactive;
	uint64_t current = 0;
	int usage_err = 0;
	int err = cgroup_read_limits(cg, group, now_ns, &max, &high);

	if (err)
		return err;
	limit = max < high ? max : high;
	if (own || limit != CGROUP_NO_LIMIT)
		usage_err = cgroup_read_usage(cg, group, now_ns, &current);
	if (usage_err && (usage_err != -ENOENT || limit != CGROUP_NO_LIMIT))
		return usage_err == -ENOENT ? -EBADMSG : usage_err;
	if (own) {
		if (usage_err && cg->memory.has_usage)
			return -ENODEV;
		cg->memory.has_usage = !usage_err;
		bytes->current_bytes = current;
		bytes->max_bytes = cgroup_shown_limit(max);
		bytes->high_bytes = cgroup_shown_limit(high);
	}
	if (limit == CGROUP_NO_LIMIT)
		return 0;

	err = cgroup_read_inactive(cg, group, now_ns, &inactive);
	if (err)
		return err;
	headroom = cgroup_headroom(limit, current, inactive);
	if (headroom < bytes->headroom_bytes) {
		bytes->headroom_bytes = headroom;
		bytes->limit_bytes = cgroup_shown_limit(limit);
		bytes->limit_group = (int)(group - cg->groups);
	}
	return 0;
}

int cgroup_read_bytes(struct cgroup *cg, uint64_t now_ns, struct cgroup_bytes *ret)
{
	struct cgroup_bytes bytes = { .headroom_bytes = UINT64_MAX, .limit_group = -1 };

	cgroup_find(cg, now_ns);
	if (cg->memory.err)
		return cg->memory.err;
	for (int i = 0; i < cg->n_groups; i++) {
		int err = cgroup_read_group(cg, &cg->groups[i], now_ns, &bytes);

		if (err == -ENODEV)
			cg->memory.err = err; /* gone: cgroup_find looks for it again */
		if (err)
			return err;
	}
	if (!cg->memory.has_usage && !bytes.limit_bytes)
		return -ENOENT;
	cg->limit_group = bytes.limit_group;
	*ret = bytes;
	return 0;
}

bool cgroup_counts_within(const struct cgroup *cg, const struct cgroup *limited)
{
	const char *path = limited->memory.path;
	size_t len = strlen(path);

	if (limited->limit_group < 0)
		return false;
	if (limited->limit_group >= limited->n_groups - 1)
		return true; /* the root */
	for (int up = limited->limit_group; up > 0; up--)
		while (len && path[--len] != '/')
			;
	/* "/a" holds "/a" and "/a/b", but not "/ab". */
	return !strncmp(cg->memory.path, path, len) &&
	       (!cg->memory.path[len] || cg->memory.path[len] == '/');
}

int cgroup_read_pressure(struct cgroup *cg, uint64_t now_ns, struct pressure *ret)
{
	char text[CGROUP_PRESSURE_TEXT_BYTES];
	size_t len;
	int err;

	cgroup_find(cg, now_ns);
	if (cg->psi.err)
		return cg->psi.err;
	err = host_file_read(&cg->psi_file, cg->psi_dir_fd, "memory.pressure", now_ns, text,
			     sizeof(text), &len);
	if (err == -ENODEV)
		cg->psi.err = err;
	return err ? err : pressure_parse(text, len, ret);
}
