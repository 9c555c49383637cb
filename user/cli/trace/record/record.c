/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem trace record: writes every record of the kernel's hooks, which a helper reads, and the
 * agent's snapshots and verdicts into one file. It ends after a time, with a command, or at ^C.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/trace/record/file.h"
#include "cli/trace/record/helper.h"
#include "cli/trace/record/tasks.h"
#include "cli/trace/trace.h"
#include "core/trace_decode.h"
#include "pn_memwatch.h"
#include "pn_trace.h"

#define TICK_NS       100000000ull
#define STREAM_END_NS 2000000000ull

struct record_options {
	struct cli_common common;
	const char *path;
	double duration_s; /* 0: no limit */
	char **command;    /* NULL: none */
};

struct recording {
	const struct record_options *options;
	struct record_file file;
	struct record_helper helper;
	struct record_tasks tasks;
	int stream_fd; /* the agent's records; -1: there are none */
	bool polling;  /* there is no agent: this process takes snapshots itself */
	uint64_t seq;  /* the snapshot that was last recorded in this way */
	int signal_fd;
	bool progress; /* stderr is a terminal */
	uint64_t begin_ns, tick_ns;
	int command_status; /* wait status; -1: there is none, or it has not ended */
	bool asked_to_end;
};

static const struct argp_option option_table[] = {
	{ "output", 'o', "FILE", 0, "Write this file (pnmem-TIME.pntrace)", 0 },
	{ "duration", 'd', "SECONDS", 0, "End after this time", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_options *options = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case 'o':
		options->path = arg;
		return 0;
	case 'd':
		options->duration_s = strtod(arg, &end);
		if (*end || end == arg || !(options->duration_s > 0) || options->duration_s > 1e9)
			argp_error(state, "not a number of seconds: %s", arg);
		return 0;
	case ARGP_KEY_ARG:
		options->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- what comes in -------------------------------------------------------------------------- */

static void mark(struct recording *rec, uint32_t of, uint64_t value, const char *text)
{
	const struct trace_mark record = { .of = of, .value = value };

	record_file_put(&rec->file, TRACE_MARK, &record, sizeof(record), text);
}

/* Adds up what the helper and the agent say is lost, and writes the sum. */
static void take_drops(struct recording *rec, const struct trace_drops *drops, bool of_agent)
{
	struct trace_drops *sum = &rec->file.drops;

	if (of_agent) {
		sum->recorder_count = drops->recorder_count;
		sum->verdict_count = drops->verdict_count;
	} else {
		sum->kernel_count = drops->kernel_count;
	}
	record_file_put(&rec->file, TRACE_DROPS, sum, sizeof(*sum), NULL);
}

static unsigned long long lost_count(const struct recording *rec)
{
	const struct trace_drops *drops = &rec->file.drops;

	return drops->kernel_count + drops->recorder_count + drops->verdict_count;
}

/* A record that trace_decode refuses is written to the file like any other: the readers decide. */
static void take(struct recording *rec, const struct trace_record *record, const void *raw,
		 size_t bytes, bool of_agent)
{
	struct trace_item item;
	bool known = !trace_decode(record, &item);
	const struct pn_event *event = &item.event;

	if (known && item.kind == TRACE_DROPS) {
		take_drops(rec, &item.drops, of_agent);
		return;
	}
	if (known && item.kind == TRACE_EVENT && event->pid &&
	    record_tasks_is_new(&rec->tasks, (pid_t)event->pid))
		mark(rec, TRACE_MARK_TASK, event->pid, event->comm);
	if (known && item.kind == TRACE_LOOK) {
		rec->file.level = item.look.level;
		rec->file.has_level = true;
	}
	record_file_add(&rec->file, raw, bytes);
}

static void take_of_helper(void *arg, const struct trace_record *record, const void *raw,
			   size_t bytes)
{
	take(arg, record, raw, bytes, false);
}

/* Without the agent's records, this process records the levels that its own poll finds. */
static void begin_polling(struct recording *rec)
{
	rec->polling = !pn_memwatch_start();
}

static void record_poll(struct recording *rec)
{
	struct trace_look look;
	pn_mem_state state;
	pn_mem_ext ext;

	if (!rec->polling || pn_memwatch_read_ext(&state, &ext) || state.seq == rec->seq)
		return;
	rec->seq = state.seq;
	trace_look_make(&look, 0, &state, &ext);
	record_file_put(&rec->file, TRACE_LOOK, &look, sizeof(look), NULL);
	rec->file.level = look.level;
	rec->file.has_level = true;
}

/* Reads all packets that are there. Returns false at the stream's end. */
static bool read_packets(struct recording *rec)
{
	unsigned char packet[TRACE_RING_RECORD_MAX];
	struct trace_record record;
	size_t used;
	ssize_t n;

	while ((n = recv(rec->stream_fd, packet, sizeof(packet), MSG_DONTWAIT)) > 0)
		if (!trace_read_record(packet, (size_t)n, &record, &used))
			take(rec, &record, packet, used, true);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Reads the stream to its end, where the agent says what it had no room for. Waits 2 s at most. */
static void end_stream(struct recording *rec)
{
	uint64_t end_ns = now_ns() + STREAM_END_NS;
	struct pollfd fd = { .fd = rec->stream_fd, .events = POLLIN };

	shutdown(rec->stream_fd, SHUT_WR);
	while (read_packets(rec) && now_ns() < end_ns)
		poll(&fd, 1, (int)(TICK_NS / 1000000));
	close(rec->stream_fd);
	rec->stream_fd = -1;
}

static void read_stream(struct recording *rec)
{
	if (read_packets(rec))
		return;
	fprintf(stderr,
		"%spnmem: the agent has gone: from here on the trace has no verdicts, and a "
		"snapshot every %d ms\n",
		rec->progress ? "\n" : "", PN_MEMWATCH_POLL_MS);
	close(rec->stream_fd);
	rec->stream_fd = -1;
	begin_polling(rec);
}

static void read_signals(struct recording *rec)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(rec->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			rec->asked_to_end = true;
	/*
	 * The kernel gives the command's orphans to this process. The helper's end shows at its
	 * pipe.
	 */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == rec->tasks.command) {
			rec->command_status = status;
			mark(rec, TRACE_MARK_EXIT, (uint64_t)(unsigned)status,
			     rec->options->command[0]);
		} else if (pid == rec->helper.pid) {
			rec->helper.pid = 0;
			rec->helper.status = status;
		}
	}
}

static void show_progress(const struct recording *rec)
{
	char bytes[FORMAT_BYTES];

	if (!rec->progress)
		return;
	fprintf(stderr, "\r%.1f s  %llu records  %llu lost  %s  %s\033[K",
		(double)(now_ns() - rec->begin_ns) / 1e9,
		(unsigned long long)rec->file.record_count, lost_count(rec),
		format_bytes(bytes, rec->file.file_bytes),
		rec->file.has_level ? pn_mem_level_name((pn_mem_level)rec->file.level) : "");
}

/* ---- the recording -------------------------------------------------------------------------- */

static bool is_over(const struct recording *rec)
{
	if (rec->file.err || rec->helper.out_fd < 0)
		return true;
	if (rec->options->command)
		return rec->command_status >=
		       0; /* ^C ends the command, and its end ends the recording */
	return rec->asked_to_end;
}

static bool is_late(const struct recording *rec)
{
	return rec->options->duration_s > 0 &&
	       (double)(now_ns() - rec->begin_ns) / 1e9 >= rec->options->duration_s;
}

/* One turn of the loop. Waits for a tick at most. */
static void turn(struct recording *rec)
{
	struct pollfd fds[] = {
		{ .fd = rec->helper.out_fd, .events = POLLIN },
		{ .fd = rec->stream_fd, .events = POLLIN },
		{ .fd = rec->signal_fd, .events = POLLIN },
	};

	if (poll(fds, 3, (int)(TICK_NS / 1000000)) < 0)
		return;
	if (fds[1].revents)
		read_stream(rec);
	if (fds[0].revents && !record_helper_read(&rec->helper, take_of_helper, rec)) {
		close(rec->helper.out_fd);
		rec->helper.out_fd = -1;
	}
	if (fds[2].revents)
		read_signals(rec);
	if (now_ns() - rec->tick_ns >= TICK_NS) {
		rec->tick_ns = now_ns();
		record_poll(rec);
		record_file_flush(&rec->file);
		show_progress(rec);
	}
}

/* The helper's first record says that its hooks are attached. */
static bool wait_for_helper(struct recording *rec)
{
	while (rec->helper.out_fd >= 0 && !rec->helper.to && !rec->asked_to_end)
		turn(rec);
	return rec->helper.out_fd >= 0;
}

static int start_command(struct recording *rec)
{
	pid_t pid;

	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	pid = fork();
	if (!pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execvp(rec->options->command[0], rec->options->command);
		fprintf(stderr, "pnmem: cannot run %s: %s\n", rec->options->command[0],
			strerror(errno));
		_exit(127);
	}
	if (pid < 0) {
		fprintf(stderr, "pnmem: cannot fork: %s\n", strerror(errno));
		return CLI_FAILED;
	}
	rec->tasks.command = pid;
	mark(rec, TRACE_MARK_BEGIN, (uint64_t)pid, rec->options->command[0]);
	return 0;
}

/* Reads what the helper still has, and its last record of what was lost. */
static void finish(struct recording *rec)
{
	close(rec->helper.in_fd);
	rec->helper.in_fd = -1;
	while (rec->helper.out_fd >= 0 && record_helper_read(&rec->helper, take_of_helper, rec))
		continue;
	if (rec->stream_fd >= 0)
		end_stream(rec);
	record_poll(rec);
	if (rec->polling)
		pn_memwatch_stop();
	record_helper_end(&rec->helper);
}

static void wait_for_command(struct recording *rec)
{
	while (rec->tasks.command && rec->command_status < 0)
		if (waitpid(rec->tasks.command, &rec->command_status, 0) < 0 && errno != EINTR)
			return;
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void open_stream(struct recording *rec)
{
	rec->stream_fd = pn_trace_stream(NULL);
	if (rec->stream_fd >= 0)
		return;
	if (rec->stream_fd == -EBUSY)
		fprintf(stderr, "pnmem: another recording gets the agent's records: this one has "
				"no verdicts\n");
	else
		fprintf(stderr,
			"pnmem: no agent sends records (%s): this recording has no verdicts\n",
			strerror(-rec->stream_fd));
	begin_polling(rec);
}

/* The helper ended before it was asked to, or failed: later records are missing. */
static void say_cut(const struct recording *rec, const char *path)
{
	int status = rec->helper.status;
	bool killed = WIFSIGNALED(status);

	fprintf(stderr,
		"%spnmem: recording stopped: its helper (pnmemd --record-events) %s %d: %s is "
		"cut\n",
		rec->progress ? "\r\033[K" : "",
		killed ? "was ended by signal" : "ended with status",
		killed ? WTERMSIG(status) : WEXITSTATUS(status), path);
}

static int end_status(const struct recording *rec, bool whole)
{
	int status = rec->command_status;

	if (rec->file.err || !whole)
		return CLI_FAILED;
	if (status < 0)
		return CLI_OK;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int record(struct recording *rec, const char *path)
{
	char bytes[FORMAT_BYTES];
	bool hooks, whole;
	int r;

	r = record_helper_start(&rec->helper);
	if (r)
		return r;
	rec->tasks.helper = rec->helper.pid;
	r = record_file_open(&rec->file, path);
	if (r) {
		fprintf(stderr, "pnmem: cannot write %s: %s\n", path, strerror(-r));
		record_helper_end(&rec->helper);
		return CLI_FAILED;
	}
	rec->begin_ns = now_ns();
	hooks = wait_for_helper(rec);
	if (hooks) {
		open_stream(rec);
		rec->begin_ns = now_ns();
		r = rec->options->command ? start_command(rec) : 0;
		while (!r && !is_over(rec) && !is_late(rec))
			turn(rec);
		/* The recording may end before the command, which goes on. */
	}
	whole = rec->helper.out_fd >= 0;
	finish(rec);
	whole = whole && !rec->helper.status;
	if (!whole && (hooks || WIFSIGNALED(rec->helper.status)))
		say_cut(rec, path);
	wait_for_command(rec);
	record_file_close(&rec->file, whole);
	if (rec->progress)
		fprintf(stderr, "\r\033[K");
	if (rec->file.err)
		fprintf(stderr, "pnmem: recording stopped: cannot write %s: %s\n", path,
			strerror(-rec->file.err));
	else if (hooks)
		fprintf(stderr, "pnmem: %s: %llu records, %llu lost, %s\n", path,
			(unsigned long long)rec->file.record_count, lost_count(rec),
			format_bytes(bytes, rec->file.file_bytes));
	return r ? r : end_status(rec, whole);
}

int cmd_trace_record(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.children = children,
		.args_doc = "[-- COMMAND...]",
		.doc = "Records everything that happens to memory: for a time, while a command "
		       "runs, or until ^C. The command's processes are marked, and pnmem exits "
		       "with its status. For root.",
	};
	struct record_options options = { 0 };
	struct recording *rec;
	char path[64];
	time_t now = time(NULL);
	struct tm tm;
	int status;

	cli_parse(&argp, argc, argv, &options);
	if (geteuid()) {
		fprintf(stderr, "pnmem: only root may trace the whole machine\n");
		return CLI_FAILED;
	}
	if (!options.path) {
		strftime(path, sizeof(path), "pnmem-%Y%m%dT%H%M%SZ.pntrace", gmtime_r(&now, &tm));
		options.path = path;
	}
	rec = calloc(1, sizeof(*rec));
	if (!rec) {
		fprintf(stderr, "pnmem: no memory\n");
		return CLI_FAILED;
	}
	rec->options = &options;
	rec->stream_fd = -1;
	rec->command_status = -1;
	rec->progress = isatty(STDERR_FILENO);
	rec->signal_fd = open_signals();
	status = record(rec, options.path);
	if (rec->signal_fd >= 0)
		close(rec->signal_fd);
	free(rec);
	return status;
}
