/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the flight recorder share: the memory, and the messages with the child. */
#ifndef PNMEM_AGENT_RECORDER_MEMORY_H
#define PNMEM_AGENT_RECORDER_MEMORY_H

#include <systemd/sd-event.h>

#include "agent/peers.h"
#include "agent/recorder.h"
#include "agent/recorder_names.h"
#include "core/episode.h"

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

/* Each client has its own view and at most one other. */
#define RECORDER_VIEWS_MAX (2 * CLIENTS_MAX)

/* To the child; it answers each. */
struct recorder_request {
	char path[RECORDER_PATH_BYTES]; /* "": end, and no answer */
	char why[128];
};

struct recorder_answer {
	int32_t status; /* 0 or -errno */
	uint32_t reserved;
	uint64_t record_count;
	uint64_t file_bytes;
};

struct recorder {
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
	bool busy;                      /* the child is writing */
	char path[RECORDER_PATH_BYTES]; /* the file that is or was last written */
	char why[128];
	int reply_sock;
	uint32_t reply_id;

	int stream_sock; /* who takes what is recorded as it comes; -1: nobody */
	sd_event_source *stream_io;
	struct trace_drops stream_drops; /* of it, since it began; but for kernel and old_count */
	bool stream_untold;              /* they are more than it has been told */
	bool stream_ending;              /* it asks for no more; it is told, and that is its end */

	struct episode episode; /* of a CRITICAL level, until all are below */
	char episode_path[RECORDER_PATH_BYTES];
	sd_event_source *episode_timer;
};

/* recorder_dump.c */
void recorder_dump_open(struct agent *agent);
void recorder_dump_close(struct agent *agent);
/* The level of a view has changed. */
void recorder_level(struct agent *agent, uint64_t now_ns);
/* An OOM kill. */
void recorder_kill(struct agent *agent);
/* A new file in dir, named by the time: to the microsecond, since no two are written within one. */
void recorder_path(char path[static RECORDER_PATH_BYTES], const char *dir);

/*
 * recorder_stream.c: sends a record, sealed, to who takes them; one that there is no room for is
 * counted, and their number told as soon as there is room.
 */
void recorder_stream(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
		     size_t fixed_bytes, const char *text);
/* Verdicts that an engine lost. */
void recorder_stream_verdict_drops(struct recorder *recorder, uint64_t count);
void recorder_stream_close(struct recorder *recorder);

/* recorder_child.c: the child's life; returns when it is to end. */
void recorder_child_run(const struct recorder_memory *memory, int sock, const char *dir);

#endif
