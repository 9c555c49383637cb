/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and names of tracks. See tracks.h. */
#include "cli/trace/export/tracks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/words.h"

#define GROUP_SLOTS 8192 /* powers of two, filled by half at most */
#define TASK_SLOTS  65536
#define GROUPS_MAX  (GROUP_SLOTS / 2 + 2) /* with the host's, and one for all others */

struct group {
	uint32_t of; /* 0: free */
	uint32_t pid;
	uint64_t id;
	uint64_t path_hash; /* 0: no name so far */
};

struct task {
	uint32_t pid; /* 0: free */
	uint32_t tid;
	char comm[16];
};

struct tracks {
	FILE *out;
	const struct trace_names *names;
	const struct trace_views *views;
	bool any; /* there is an event in the file */
	uint32_t next_pid;
	unsigned group_count, task_count;
	uint8_t own_named[GROUPS_MAX]; /* of each group, a bit for each enum tracks_of */
	uint32_t view_of[GROUPS_MAX];  /* of each group, its newest view, 0 none */
	struct group rest;             /* cgroups for which there was no room */
	struct group group[GROUP_SLOTS];
	struct task task[TASK_SLOTS];
};

static unsigned slot_of(uint64_t a, uint64_t b, unsigned slots)
{
	return (unsigned)((a * 31 + b) * 0x9e3779b97f4a7c15ull >> 32) % slots;
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash | 1;
}

void tracks_begin(struct tracks *tracks)
{
	fputs(tracks->any ? ",\n{" : "\n{", tracks->out);
	tracks->any = true;
}

static void write_name(struct tracks *tracks, const char *what, uint32_t pid, uint32_t tid,
		       const char *name)
{
	tracks_begin(tracks);
	fprintf(tracks->out,
		"\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what, pid,
		tid);
	words_json(tracks->out, name);
	fputs("}}", tracks->out);
}

/* Groups are numbered as they appear, the host first. Viewers show them in this order. */
static uint32_t group_number(uint32_t pid)
{
	return (pid - TRACKS_PID_HOST) / TRACKS_OF_COUNT;
}

static void write_order(struct tracks *tracks, uint32_t pid)
{
	tracks_begin(tracks);
	fprintf(tracks->out,
		"\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"tid\":%u,"
		"\"args\":{\"sort_index\":%u}}",
		pid, pid, group_number(pid));
}

struct tracks *tracks_new(FILE *out, const struct trace_names *names,
			  const struct trace_views *views)
{
	struct tracks *tracks = calloc(1, sizeof(*tracks));

	if (!tracks)
		return NULL;
	tracks->out = out;
	tracks->names = names;
	tracks->views = views;
	tracks->next_pid = TRACKS_PID_HOST + TRACKS_OF_COUNT;
	write_name(tracks, "process_name", TRACKS_PID_HOST, TRACKS_PID_HOST, "host");
	write_order(tracks, TRACKS_PID_HOST);
	return tracks;
}

void tracks_free(struct tracks *tracks)
{
	free(tracks);
}

static bool has_view(const struct tracks *tracks, uint32_t pid)
{
	uint32_t view = tracks->view_of[group_number(pid)];

	return view && !trace_views_ended(tracks->views, view);
}

/*
 * The group with this path, which a cgroup or view joins. Two views that live at the same time do
 * not share a group.
 */
static const struct group *group_to_join(const struct tracks *tracks, uint32_t of,
					 uint64_t path_hash)
{
	for (unsigned i = 0; i < GROUP_SLOTS; i++)
		if (tracks->group[i].of && tracks->group[i].path_hash == path_hash &&
		    (of != TRACE_NAME_VIEW || !has_view(tracks, tracks->group[i].pid)))
			return &tracks->group[i];
	return NULL;
}

static uint32_t new_pid(struct tracks *tracks)
{
	uint32_t pid = tracks->next_pid;

	tracks->next_pid += TRACKS_OF_COUNT;
	return pid;
}

/* A name may come later than its number. The kernel's root cgroup never has one. */
static void name_group(struct tracks *tracks, struct group *group, const char *path)
{
	char text[64], label[TRACE_VIEWS_LABEL];

	if (path) {
		group->path_hash = hash_of(path);
		write_name(tracks, "process_name", group->pid, group->pid, path);
		return;
	}
	if (group->of == TRACE_NAME_VIEW)
		snprintf(text, sizeof(text), "%s",
			 trace_views_label(tracks->views, (uint32_t)group->id, label));
	else
		snprintf(text, sizeof(text), "cgroup %llu", (unsigned long long)group->id);
	write_name(tracks, "process_name", group->pid, group->pid, text);
}

static struct group *add_group(struct tracks *tracks, struct group *group, uint32_t of, uint64_t id,
			       const char *path)
{
	const struct group *same;

	if (tracks->group_count == GROUP_SLOTS / 2) {
		if (!tracks->rest.pid) {
			tracks->rest.pid = new_pid(tracks);
			write_name(tracks, "process_name", tracks->rest.pid, tracks->rest.pid,
				   "other cgroups");
			write_order(tracks, tracks->rest.pid);
		}
		return &tracks->rest;
	}
	same = path ? group_to_join(tracks, of, hash_of(path)) : NULL;
	tracks->group_count++;
	*group = (struct group){ .of = of, .id = id };
	if (same) {
		group->pid = same->pid;
		group->path_hash = same->path_hash;
	} else {
		group->pid = new_pid(tracks);
		name_group(tracks, group, path);
		write_order(tracks, group->pid);
	}
	if (of == TRACE_NAME_VIEW)
		tracks->view_of[group_number(group->pid)] = (uint32_t)id;
	return group;
}

uint32_t tracks_group(struct tracks *tracks, uint32_t of, uint64_t id)
{
	unsigned i = slot_of(of, id, GROUP_SLOTS);
	struct group *group;
	const char *path;

	if (of == TRACE_NAME_VIEW && !id)
		return TRACKS_PID_HOST;
	while (tracks->group[i].of && (tracks->group[i].of != of || tracks->group[i].id != id))
		i = (i + 1) % GROUP_SLOTS;
	group = &tracks->group[i];
	if (group->of && group->path_hash)
		return group->pid;
	path = of == TRACE_NAME_VIEW ? trace_views_name(tracks->views, (uint32_t)id)
				     : trace_names_get(tracks->names, of, id);
	if (!group->of)
		return add_group(tracks, group, of, id, path)->pid;
	if (path)
		name_group(tracks, group, path);
	return group->pid;
}

uint32_t tracks_own(struct tracks *tracks, uint32_t pid, enum tracks_of of)
{
	static const char *const names[] = { "level", "events", "verdicts" };
	uint8_t *named = &tracks->own_named[group_number(pid)];

	if (!(*named & 1u << of)) {
		*named |= (uint8_t)(1u << of);
		write_name(tracks, "thread_name", pid, pid + of, names[of]);
	}
	return pid + of;
}

void tracks_task(struct tracks *tracks, uint32_t pid, uint32_t tid, const char comm[static 16])
{
	unsigned i = slot_of(pid, tid, TASK_SLOTS);
	struct task *task;
	char text[48];

	while (tracks->task[i].pid && (tracks->task[i].pid != pid || tracks->task[i].tid != tid))
		i = (i + 1) % TASK_SLOTS;
	task = &tracks->task[i];
	if (task->pid && !memcmp(task->comm, comm, sizeof(task->comm)))
		return;
	/* A task without room in the table is named again with each record. */
	if (task->pid || tracks->task_count < TASK_SLOTS / 2) {
		tracks->task_count += !task->pid;
		task->pid = pid;
		task->tid = tid;
		memcpy(task->comm, comm, sizeof(task->comm));
	}
	snprintf(text, sizeof(text), "%.16s (%u)", comm[0] ? comm : "task", tid);
	write_name(tracks, "thread_name", pid, tid, text);
}
