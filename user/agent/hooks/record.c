/* SPDX-License-Identifier: BSD-2-Clause */
/* Every record of the hooks, to a pipe. See record.h. */
#include "agent/hooks/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/hooks/hooks.h"
#include "agent/recorder/recorder_names.h"
#include "core/trace.h"
#include "host/clock.h"

/* At two million records a second it is full after 100 ms. */
#define RING_BYTES (16u << 20)
#define CONSUME_MS 5
#define DROPS_NS   250000000ull
#define OUT_BYTES  (256u << 10)

struct record {
	struct hooks *hooks;
	struct recorder_names names;
	int procfs_fd;
	uint64_t drops_ns; /* when they were last told */
	bool output_gone;
	size_t used;
	unsigned char out[OUT_BYTES];
};

static void flush(struct record *record)
{
	size_t at = 0;

	/*
	 * Blocks while the reader does: what comes meanwhile is dropped by the kernel, and counted.
	 */
	while (at < record->used && !record->output_gone) {
		ssize_t n = write(STDOUT_FILENO, record->out + at, record->used - at);

		if (n > 0)
			at += (size_t)n;
		else if (errno != EINTR)
			record->output_gone = true;
	}
	record->used = 0;
}

static void put(struct record *record, uint16_t kind, uint64_t ts_ns, const void *fixed,
		size_t fixed_bytes, const char *text)
{
	unsigned char *to;

	if (OUT_BYTES - record->used < TRACE_RING_RECORD_MAX)
		flush(record);
	to = record->out + record->used;
	record->used += trace_put(to, kind, ts_ns, fixed, fixed_bytes, text);
	trace_seal(to);
}

static void on_event(void *arg, const struct pn_event *event)
{
	struct record *record = arg;
	char path[RECORDER_NAME_BYTES];

	put(record, TRACE_EVENT, event->ts_ns, event, sizeof(*event), NULL);
	if (recorder_names_find(&record->names, record->procfs_fd, event->cgroup_id,
				(int)event->pid, event->ts_ns, path)) {
		struct trace_name name = { .of = TRACE_NAME_CGROUP, .id = event->cgroup_id };

		put(record, TRACE_NAME, event->ts_ns, &name, sizeof(name), path);
	}
}

static void put_drops(struct record *record, uint64_t now_ns)
{
	struct hooks_counters counters;
	struct trace_drops drops = { 0 };

	hooks_refresh_misses(record->hooks);
	hooks_counters(record->hooks, &counters);
	drops.kernel_count = counters.event_drops;
	put(record, TRACE_DROPS, now_ns, &drops, sizeof(drops), NULL);
	record->drops_ns = now_ns;
}

/* Until standard input is closed. */
static void run(struct record *record)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	bool last = false;
	char byte;

	while (!record->output_gone && !last) {
		uint64_t now_ns;

		last = poll(&in, 1, CONSUME_MS) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
		hooks_consume(record->hooks);
		now_ns = clock_now_ns();
		if (last || now_ns - record->drops_ns >= DROPS_NS)
			put_drops(record, now_ns);
		flush(record);
	}
}

int record_main(void)
{
	const struct hooks_options options = {
		.record_all = true,
		.ring_bytes = RING_BYTES,
		.btf_path = getenv("PNMEM_BTF"),
	};
	struct record *record = calloc(1, sizeof(*record));
	int r = record ? 0 : -ENOMEM;

	prctl(PR_SET_NAME, "pnmem-record");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/*
	 * They are for the command that is recorded, and for who started us: we have a last word.
	 */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (!r)
		r = hooks_open(&record->hooks, &options, on_event, record);
	if (r) {
		fprintf(stderr, "pnmem: no kernel hook can be had (%s): pnmem doctor says why\n",
			strerror(-r));
	} else {
		record->procfs_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
		put_drops(record, clock_now_ns()); /* says that the hooks are attached */
		flush(record);
		run(record);
	}
	if (record)
		hooks_close(record->hooks);
	free(record);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
