/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trace says of its own recording. See recorded.h. */
#include "cli/trace/report/recorded.h"

#include <string.h>

#include "cli/trace/names.h"

void recorded_unknown(struct recorded *recorded, uint16_t kind)
{
	for (unsigned i = 0; i < recorded->unknown_count; i++) {
		if (recorded->unknown[i].kind == kind) {
			recorded->unknown[i].count++;
			return;
		}
	}
	if (recorded->unknown_count == RECORDED_UNKNOWN)
		return;
	recorded->unknown[recorded->unknown_count].kind = kind;
	recorded->unknown[recorded->unknown_count++].count = 1;
}

/* The first word of a schema is the kind's name. */
void recorded_schema(struct recorded *recorded, const struct trace_schema *schema, const char *text)
{
	char name[32];

	if (trace_kind_name(schema->kind) || recorded->unknown_count == RECORDED_UNKNOWN)
		return;
	trace_printable(name, sizeof(name), text);
	name[strcspn(name, " ")] = 0;
	recorded->unknown[recorded->unknown_count].kind = schema->kind;
	strcpy(recorded->unknown[recorded->unknown_count++].name, name);
}

bool recorded_has_process(const struct recorded *recorded, uint32_t pid)
{
	for (unsigned i = 0; i < recorded->process_count; i++)
		if (recorded->process[i] == pid)
			return true;
	return false;
}

static void add_process(struct recorded *recorded, uint32_t pid)
{
	if (recorded->process_count < RECORDED_PROCESSES && !recorded_has_process(recorded, pid))
		recorded->process[recorded->process_count++] = pid;
}

void recorded_mark(struct recorded *recorded, const struct trace_mark *mark, const char *text)
{
	switch (mark->of) {
	case TRACE_MARK_DUMP:
		trace_printable(recorded->why, sizeof(recorded->why), text);
		break;
	case TRACE_MARK_BEGIN:
		trace_printable(recorded->command, sizeof(recorded->command), text);
		recorded->command_pid = (uint32_t)mark->value;
		break;
	case TRACE_MARK_EXIT:
		recorded->command_ended = true;
		recorded->command_status = (int)mark->value;
		break;
	case TRACE_MARK_TASK:
		add_process(recorded, (uint32_t)mark->value);
		break;
	default:
		break;
	}
}
