/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the flight recorder share: the memory, and the messages with the child. */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_MEMORY_H
#define PNMEM_AGENT_RECORDER_RECORDER_MEMORY_H

#include <systemd/sd-event.h>

#include "agent/serve/peers.h"
#include "agent/recorder/recorder.h"
#include "agent/recorder/recorder_names.h"
#include "agent/recorder/recorder_users.h"

/* Shared with the child, which only reads. The blocks of the two rings follow. */
struct recorder_memory {
	struct trace_head head; /* but for its times; these two are whole once live is set */
	struct trace_config config;
	uint32_t live;
	uint32_t names_offset; /* from the start of this struct */
	uint32_t records_offset;
	struct trace_drops drops; /* but for old_count */
	struct trace_ring names;  /* so that a name outlives the records that use it */
	struct trace_ring records;
};

/* Views that have a number, and so records of their own: those of all clients and one more each. */
#define RECORDER_VIEWS_MAX (2 * CLIENTS_MAX)

/* To the child, which answers each. */
struct recorder_request {
	uint64_t number; /* 0: end, and no answer */
	char group[RECORDER_GROUP_BYTES];
	char name[RECORDER_FILE_BYTES]; /* the file to replace; "": a new one */
	char why[128];
};

struct recorder_answer {
	uint64_t number; /* of the request */
	int32_t status;  /* 0 or -errno */
	uint32_t reserved;
	uint64_t record_count;
	uint64_t file_bytes;
	char name[RECORDER_FILE_BYTES]; /* what was written */
};

struct recorder {
	struct agent *agent;
	struct recorder_memory *memory;
	size_t memory_bytes;
	void *names_block;
	void *records_block;
	struct recorder_names names;
	uint64_t view_used[RECORDER_VIEWS_MAX / 64]; /* a bit for each number, from 1 on */
	uint64_t names_pos; /* in the ring of names: so far all views' are new enough */

	int vmstat_fd;
	uint64_t vmstat_ns; /* when it was last read */

	char dir[RECORDER_PATH_BYTES - 64];
	int child_sock; /* -1: the child is gone */
	int child_pid;
	sd_event_source *child_io;
	bool busy;                     /* the child is writing */
	struct recorder_user *writing; /* whose episode; NULL: a dump */
	uint64_t request_number;       /* of the newest request */
	int failed_status;             /* of the newest file: the same is logged once */
	char why[128];
	int reply_sock;
	uint32_t reply_id;

	int stream_sock; /* who takes what is recorded as it comes; -1: nobody */
	sd_event_source *stream_io;
	struct trace_drops stream_drops; /* of it, since it began; but for kernel and old_count */
	bool stream_untold;              /* they are more than it has been told */
	bool stream_ending;              /* it asks for no more; it is told, and that is its end */

	struct recorder_user host; /* whose records are not limited; the users follow it */
	unsigned n_users;          /* without the host */
	struct share_limit limit[RECORDER_SHARE_COUNT];
	sd_event_source *episode_timer;
};

/* recorder_dump.c */
void recorder_dump_open(struct agent *agent);
void recorder_dump_close(struct agent *agent);
/* A view has been published, and what changed is in the ring. */
void recorder_level(struct agent *agent, struct agent_view *av, uint64_t now_ns);
/* An OOM kill. */
void recorder_kill(struct agent *agent);

/*
 * recorder_stream.c: sends a record, sealed, to who takes them; one that there is no room for is
 * counted, and their number told as soon as there is room.
 */
void recorder_stream(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
		     size_t fixed_bytes, const char *text);
/* Verdicts that an engine lost. */
void recorder_stream_verdict_drops(struct recorder *recorder, uint64_t count);
/* Records that were left out for want of a share. */
void recorder_stream_drops(struct recorder *recorder, uint64_t count);
void recorder_stream_close(struct recorder *recorder);

/* recorder_child.c: the child's life; returns when it is to end. */
void recorder_child_run(const struct recorder_memory *memory, int sock, const char *dir);

#endif
