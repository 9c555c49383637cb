/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trace says of its own recording: the command, what is lost, what is not known. */
#ifndef PNMEM_CLI_TRACE_REPORT_RECORDED_H
#define PNMEM_CLI_TRACE_REPORT_RECORDED_H

#include "core/trace_decode.h"

#define RECORDED_UNKNOWN   16
#define RECORDED_PROCESSES 1024

struct recorded {
	bool has_config; /* the agent's records are in the trace */
	struct trace_drops drops;
	char why[128]; /* why the flight recorder was written out */

	/* The command that was recorded, and the processes that belong to it. */
	char command[64];
	uint32_t command_pid; /* 0: there was none */
	bool command_ended;
	int command_status; /* as wait gives it */
	uint32_t process[RECORDED_PROCESSES];
	unsigned process_count;

	/* Kinds that this program does not know, by their schema. */
	struct {
		uint32_t kind;
		uint64_t count;
		char name[32];
	} unknown[RECORDED_UNKNOWN];
	unsigned unknown_count;
};

void recorded_mark(struct recorded *recorded, const struct trace_mark *mark, const char *text);
void recorded_schema(struct recorded *recorded, const struct trace_schema *schema,
		     const char *text);
/* A record of a kind that this program does not know. */
void recorded_unknown(struct recorded *recorded, uint16_t kind);

/* Does this process belong to the command that was recorded? */
bool recorded_has_process(const struct recorded *recorded, uint32_t pid);

#endif
