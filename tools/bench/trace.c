/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tracing costs: a record of the flight recorder beside the publish that it goes with, an
 * engine's verdict with and without its report, and a recording in full of a load that reclaims all
 * the time beside the same load without any tracing. And how long a report on a long file takes.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "core/page.h"
#include "core/proto.h"
#include "core/trace_decode.h"
#include "host/clock.h"
#include "lib/link.h"
#include "support/pressure.h"
#include "lib/verdict_log.h"
#include "ops.h"

#define RING_BYTES   (8 * MIB)
#define GROUP_BYTES  (40 * MIB)
#define LONG_RECORDS "1042000" /* of which trace_make writes some 960,000 */

/* ---- one record ------------------------------------------------------------------------------ */

struct memory {
	struct trace_ring ring;
	unsigned char *block;
	unsigned char *copy; /* as large: what the baseline writes to */
	struct page page;
	pn_mem_state state;
	pn_mem_ext ext;
};

static void event_loop(void *arg, size_t n)
{
	struct memory *m = arg;
	struct pn_event event = { .kind = PN_EVENT_STALL, .size = sizeof(event) };

	for (size_t i = 0; i < n; i++)
		trace_ring_put(&m->ring, m->block, TRACE_EVENT, i, &event, sizeof(event), NULL);
}

static void copy_loop(void *arg, size_t n)
{
	static size_t at;
	struct memory *m = arg;
	struct pn_event event = { .kind = PN_EVENT_STALL, .size = sizeof(event) };

	for (size_t i = 0; i < n; i++) {
		memcpy(m->copy + at, &event, sizeof(event));
		at = (at + sizeof(event)) % RING_BYTES;
		op_keep(m->copy);
	}
}

static void look_loop(void *arg, size_t n)
{
	struct memory *m = arg;
	struct trace_look look;

	for (size_t i = 0; i < n; i++) {
		trace_look_make(&look, 1, &m->state, &m->ext);
		trace_ring_put(&m->ring, m->block, TRACE_LOOK, i, &look, sizeof(look), NULL);
	}
}

static void publish_loop(void *arg, size_t n)
{
	struct memory *m = arg;

	for (size_t i = 0; i < n; i++)
		page_publish(&m->page, &m->state, &m->ext, 0);
}

static void records_bench(struct bench *bench)
{
	static struct memory memory;
	static struct op ops[4] = {
		{ .loop = event_loop, .arg = &memory },
		{ .loop = copy_loop, .arg = &memory },
		{ .loop = look_loop, .arg = &memory },
		{ .loop = publish_loop, .arg = &memory },
	};

	memory.block = bench_shared(RING_BYTES);
	memory.copy = bench_shared(RING_BYTES);
	if (!memory.block || !memory.copy) {
		rows_add_failed(&bench->rows, "recorder", "no memory");
		return;
	}
	memset(memory.block, 0, RING_BYTES);
	memset(memory.copy, 0, RING_BYTES);
	trace_ring_init(&memory.ring, RING_BYTES);
	page_init(&memory.page);
	ops_measure(ops, 4, bench->quick ? OPS_ROUNDS_QUICK : OPS_ROUNDS);
	rows_add_samples(&bench->rows, "recorder: a record of the hooks", "ns", &ops[0].ns,
			 "memcpy of its 64 bytes", &ops[1].ns, GOAL_NONE, 0);
	rows_add_samples(&bench->rows, "recorder: a snapshot", "ns", &ops[2].ns,
			 "its publish on the page alone", &ops[3].ns, GOAL_NONE, 0);
	munmap(memory.block, RING_BYTES);
	munmap(memory.copy, RING_BYTES);
}

/* ---- one verdict ----------------------------------------------------------------------------- */

#define VERDICTS 256 /* fewer than the ring of an engine holds */

static double verdicts_ns(const pn_mem_state *state)
{
	uint64_t start_ns = clock_now_ns();
	pn_admit_result result;

	for (int i = 0; i < VERDICTS; i++) {
		pn_admit_request(512, true, true, -1, 4096, state, &result);
		op_keep(&result);
	}
	return (double)(clock_now_ns() - start_ns) / VERDICTS;
}

static void verdict_bench(struct bench *bench)
{
	static struct samples with, without;
	const pn_mem_state state = { .host_total_bytes = 16ull << 30,
				     .host_avail_bytes = 12ull << 30 };
	struct link link = LINK_CLOSED, closed = LINK_CLOSED;
	struct proto_verdicts packet;
	int socks[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks)) {
		rows_add_failed(&bench->rows, "pn_admit_request, reported", "%s", strerror(errno));
		return;
	}
	link.sock = socks[0];
	link.features = PROTO_TAKES_VERDICTS;
	for (int round = 0; round < (bench->quick ? 20 : 1000); round++) {
		verdict_log_send(&closed, 1);
		samples_add(&without, verdicts_ns(&state));
		verdict_log_send(&link, 1);
		samples_add(&with, verdicts_ns(&state));
		while (verdict_log_send(&link, 1000) != 1000)
			while (recv(socks[1], &packet, sizeof(packet), MSG_DONTWAIT) > 0)
				continue;
	}
	verdict_log_send(&closed, 1);
	close(socks[0]);
	close(socks[1]);
	rows_add_samples(&bench->rows, "pn_admit_request, reported", "ns", &with, "not reported",
			 &without, GOAL_VALUE, 150);
}

/* ---- a recording ----------------------------------------------------------------------------- */

struct grown {
	const char *path;
	pid_t pid;
};

/* Its start is some kilobytes; more comes when its hooks are attached. */
static bool has_grown(void *arg)
{
	const struct grown *grown = arg;
	struct stat st;

	return bench_stopped() || waitpid(grown->pid, NULL, WNOHANG) != 0 ||
	       (!stat(grown->path, &st) && st.st_size > 2048);
}

pid_t recording_start(const char *path)
{
	struct grown grown = { .path = path };

	unlink(path);
	grown.pid = fork();
	if (grown.pid < 0)
		return -errno;
	if (!grown.pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl("build/pnmem", "pnmem", "trace", "record", "-o", path, (char *)NULL);
		_exit(127);
	}
	if (!test_until(has_grown, &grown, 10000)) {
		recording_stop(grown.pid);
		return -ETIMEDOUT;
	}
	return kill(grown.pid, 0) ? -ECHILD : grown.pid;
}

void recording_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGINT);
	waitpid(pid, NULL, 0);
}

struct contents {
	uint64_t record_count;
	uint64_t drop_count;
	double seconds; /* between its first record of the hooks and its last */
};

static int read_contents(const char *path, struct contents *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t first_ns = 0, last_ns = 0;
	struct trace_record record;
	struct trace_head head;
	struct stat st;
	size_t at, used;
	unsigned char *p;

	*ret = (struct contents){ 0 };
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -errno;
	if (!trace_read_head(p, (size_t)st.st_size, &head, &used)) {
		for (at = used; !trace_read_record(p + at, (size_t)st.st_size - at, &record, &used);
		     at += used) {
			struct trace_item item;

			ret->record_count++;
			if (!trace_decode(&record, &item) && record.kind == TRACE_DROPS)
				ret->drop_count =
					item.drops.kernel_count + item.drops.recorder_count;
			if (record.kind != TRACE_EVENT)
				continue;
			first_ns = first_ns ? first_ns : record.ts_ns;
			last_ns = record.ts_ns > last_ns ? record.ts_ns : last_ns;
		}
	}
	munmap(p, (size_t)st.st_size);
	ret->seconds = (double)(last_ns - first_ns) / 1e9;
	return 0;
}

struct recorded {
	struct samples with, without; /* ns for each page of the load */
	struct samples per_s;         /* records */
	uint64_t drop_count;
};

static int record_round(struct recorded *recorded, const struct agent_proc *agent,
			const struct pressure_group *group, _Atomic double *result)
{
	struct contents contents;
	char path[128];
	pid_t pid;
	int r;

	snprintf(path, sizeof(path), "%s/recording", agent->dir);
	pid = recording_start(path);
	if (pid < 0)
		return (int)pid;
	r = hook_cost_reclaim(group, result, &recorded->with);
	recording_stop(pid);
	if (!r)
		r = read_contents(path, &contents);
	if (!r && contents.seconds > 0)
		samples_add(&recorded->per_s, (double)contents.record_count / contents.seconds);
	if (!r)
		recorded->drop_count += contents.drop_count;
	unlink(path);
	return r;
}

static int record_rounds(struct recorded *recorded, int rounds, const struct pressure_group *group,
			 _Atomic double *result)
{
	struct agent_proc agent;
	int r = agent_proc_init(&agent);

	for (int i = 0; i < rounds && !r && !bench_stopped(); i++) {
		r = hook_cost_reclaim(group, result, &recorded->without);
		if (!r)
			r = agent_proc_start(&agent, NULL);
		if (!r)
			r = record_round(recorded, &agent, group, result);
		agent_proc_signal(&agent, SIGTERM);
		agent_proc_wait(&agent);
	}
	agent_proc_destroy(&agent);
	return r;
}

static void record_bench(struct bench *bench)
{
	static struct recorded recorded;
	_Atomic double *result = bench_shared(sizeof(*result));
	struct pressure_group group;
	char name[64];
	int r = geteuid() ? -EPERM : !result ? -ENOMEM : pressure_group_create(&group, GROUP_BYTES);

	if (!r) {
		r = record_rounds(&recorded, bench->quick ? 1 : 9, &group, result);
		pressure_group_destroy(&group);
	}
	if (bench_stopped())
		return;
	if (r) {
		rows_add_failed(&bench->rows, "recording: a page read by reclaim",
				"could not record: %s", bench_why(r));
		return;
	}
	rows_add_samples(&bench->rows, "recording: a page read by reclaim", "ns", &recorded.with,
			 "without agent and recording", &recorded.without, GOAL_NONE, 0);
	snprintf(name, sizeof(name), "recording: records, %llu of them lost",
		 (unsigned long long)recorded.drop_count);
	rows_add_samples(&bench->rows, name, "1/s", &recorded.per_s, NULL, NULL, GOAL_NONE, 0);
}

/* ---- a report -------------------------------------------------------------------------------- */

static int report_once(double *ret_s, double *ret_mib)
{
	struct rusage usage;
	uint64_t start_ns = clock_now_ns();
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, STDOUT_FILENO);
		execl("build/pnmem", "pnmem", "trace", "report", "build/bench.pntrace",
		      (char *)NULL);
		_exit(127);
	}
	if (wait4(pid, &status, 0, &usage) < 0)
		return -errno;
	*ret_s = (double)(clock_now_ns() - start_ns) / 1e9;
	*ret_mib = (double)usage.ru_maxrss / 1024;
	return status ? -EIO : 0;
}

static void report_bench(struct bench *bench)
{
	static struct samples seconds, mib;
	double s = NAN, m = NAN;
	int r = 0;

	if (system("build/tests/trace_make " LONG_RECORDS " >build/bench.pntrace"))
		r = -EIO;
	for (int i = 0; i < (bench->quick ? 1 : 15) && !r; i++) {
		r = report_once(&s, &m);
		samples_add(&seconds, s);
		samples_add(&mib, m);
	}
	unlink("build/bench.pntrace");
	if (r) {
		rows_add_failed(&bench->rows, "report on a million records", "%s", bench_why(r));
		return;
	}
	rows_add_samples(&bench->rows, "report on a million records", "s", &seconds, NULL, NULL,
			 GOAL_VALUE, 2);
	rows_add_samples(&bench->rows, "report on a million records, memory", "MiB", &mib, NULL,
			 NULL, GOAL_VALUE, 256);
}

void trace_bench(struct bench *bench)
{
	records_bench(bench);
	verdict_bench(bench);
	report_bench(bench);
	record_bench(bench);
}
