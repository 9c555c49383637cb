/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder of a running agent: when it writes a file, what is in it, what becomes of
 * older files, and that neither a full disk nor a killed agent loses the rest.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "../unit/host_tree.h"
#include "agent/recorder/recorder_memory.h"
#include "core/proto.h"
#include "core/trace_decode.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/pressure.h"
#include "support/raw_client.h"
#include "lib/verdict_log.h"
#include "pn_batch.h"
#include "pn_engine.h"
#include "pn_memwatch.h"
#include "pn_trace.h"

#define LIMIT_MS   10000
#define PATH_BYTES 300
#define DUMP_MS    10000
#define MIB        (1ull << 20)

static const char *const no_bpf[] = { "--no-bpf", NULL };
static struct agent_proc agent;
static struct host_tree dir; /* where the files go */

static int setup(void **state)
{
	tree_make(&dir);
	setenv("PN_TRACE_DIR", dir.path, 1);
	unsetenv("PN_RECORDER_BYTES");
	return agent_proc_init(&agent);
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	/* Not killed: its recorder would write a last file meanwhile. */
	if (agent.pid) {
		agent_proc_signal(&agent, SIGTERM);
		agent_proc_wait(&agent);
	}
	agent_proc_destroy(&agent);
	tree_free(&dir);
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct found {
	char path[400]; /* of the newest */
	int files;
	int others; /* what is not a whole file of ours */
};

static struct found find(void)
{
	struct found found = { 0 };
	struct dirent **names;
	int n = scandir(dir.path, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		size_t length = strlen(names[i]->d_name);

		if (!strncmp(names[i]->d_name, "pnmem-", 6) && length > 8 &&
		    !strcmp(names[i]->d_name + length - 8, ".pntrace")) {
			snprintf(found.path, sizeof(found.path), "%s/%s", dir.path,
				 names[i]->d_name);
			found.files++;
		} else if (names[i]->d_name[0] != '.') {
			found.others++;
		}
		free(names[i]);
	}
	free(names);
	return found;
}

static bool has_files(void *arg)
{
	return find().files >= *(int *)arg;
}

static void expect_files(int n)
{
	assert_true(test_until(has_files, &n, LIMIT_MS));
	assert_int_equal(find().files, n);
}

struct content {
	struct trace_head head;
	unsigned count[TRACE_KIND_COUNT];
	unsigned looks_of_host, looks_of_groups, stalls_with_time, names_of_stallers;
	uint32_t worst_level, last_level;
	uint64_t last_avail_bytes;
	uint64_t staller_cgroup;
	unsigned verdicts, refusals;
	unsigned dumps, ended_views, oom_kills;
	struct trace_verdict last_verdict;
	struct trace_drops drops;
	uint32_t highest_view;
	char why[128];
	char view[256], first_view[256], ended_view[256];
};

static void take(struct content *c, const struct trace_record *record)
{
	struct trace_item item;
	const struct trace_look *look = &item.look;
	const struct pn_event *event = &item.event;

	assert_int_equal(trace_decode(record, &item), 0);
	assert_in_range(record->kind, 1, TRACE_KIND_COUNT - 1);
	c->count[record->kind]++;
	switch (record->kind) {
	case TRACE_LOOK:
		if (look->view > c->highest_view)
			c->highest_view = look->view;
		if (look->view)
			c->looks_of_groups++;
		else
			c->looks_of_host++;
		if (look->level > c->worst_level)
			c->worst_level = look->level;
		c->last_level = look->level;
		c->last_avail_bytes = look->host_avail_bytes;
		break;
	case TRACE_VERDICT:
		c->last_verdict = item.verdict;
		c->verdicts++;
		c->refusals += c->last_verdict.verdict == PN_VERDICT_REJECT;
		break;
	case TRACE_DROPS:
		c->drops = item.drops;
		break;
	case TRACE_MARK:
		c->dumps += item.mark.of == TRACE_MARK_DUMP;
		c->ended_views += item.mark.of == TRACE_MARK_VIEW_END && item.mark.value;
		if (item.mark.of == TRACE_MARK_VIEW_END)
			snprintf(c->ended_view, sizeof(c->ended_view), "%s", item.text);
		if (item.mark.of == TRACE_MARK_DUMP)
			snprintf(c->why, sizeof(c->why), "%s", item.text);
		break;
	case TRACE_NAME:
		if (item.name.of == TRACE_NAME_VIEW)
			snprintf(c->view, sizeof(c->view), "%s", item.text);
		if (item.name.of == TRACE_NAME_VIEW && item.name.id == 1)
			snprintf(c->first_view, sizeof(c->first_view), "%s", item.text);
		if (item.name.of == TRACE_NAME_CGROUP && item.text[0] == '/')
			c->names_of_stallers++;
		break;
	case TRACE_EVENT:
		c->oom_kills += event->kind == PN_EVENT_OOM_KILL;
		c->stalls_with_time += event->kind <= PN_EVENT_STALL_END && event->value &&
				       event->pid && event->comm[0] && event->cgroup_id;
		break;
	default:
		break;
	}
}

/*
 * What there is so far, of which every record is good. Whole, then true: the last one says how
 * many there are.
 */
static bool read_records(const char *path, struct content *content)
{
	static unsigned char buf[16 << 20];
	FILE *file = fopen(path, "re");
	struct trace_record record = { 0 };
	struct trace_item item;
	size_t bytes, at, used;
	uint64_t count = 0;
	int r = 0;

	if (!file)
		return false;
	bytes = fread(buf, 1, sizeof(buf), file);
	fclose(file);
	if (trace_read_head(buf, bytes, &content->head, &used))
		return false;
	assert_true(content->head.total_bytes > 0 && content->head.wall_ns > 0);
	assert_true(content->head.kernel[0]);
	for (at = used; at < bytes; at += used) {
		r = trace_read_record(buf + at, bytes - at, &record, &used);
		assert_true(!r || r == -EAGAIN);
		if (r)
			break;
		take(content, &record);
		count++;
	}
	if (r || record.kind != TRACE_END)
		return false;
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(item.end.record_count, count - 1);
	return true;
}

static struct content read_file(const char *path)
{
	struct content content = { 0 };

	assert_true(read_records(path, &content));
	assert_int_equal(content.count[TRACE_CONFIG], 1);
	assert_int_equal(content.count[TRACE_DROPS], 1);
	assert_int_equal(content.dumps, 1);
	return content;
}

/* ---- asked for ------------------------------------------------------------------------------- */

static void test_signal(void **state)
{
	struct content content;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	agent_proc_signal(&agent, SIGUSR1);
	expect_files(1);
	content = read_file(find().path);
	assert_string_equal(content.why, "SIGUSR1");
	assert_true(content.looks_of_host > 0);
	assert_true(content.looks_of_groups > 0);
	assert_true(content.view[0] == '/');
	assert_int_equal(content.ended_views, 0);
	pn_memwatch_stop();
	/* The agent hears of the hang-up in its own time, and keeps only so many files. */
	for (int files = 2; !content.ended_views && files <= 8; files++) {
		usleep(20000);
		agent_proc_signal(&agent, SIGUSR1);
		expect_files(files);
		content = read_file(find().path);
	}
	assert_int_equal(content.ended_views, 1);
	assert_true(content.count[TRACE_VMSTAT] > 0);
	assert_int_equal(find().others, 0);
}

/* The pair of clocks is of the file, not of the agent's start. */
static void test_clocks(void **state)
{
	struct timespec wall;
	uint64_t before_ns;
	struct content content;
	char path[256];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	for (int i = 0; i < 2; i++) {
		before_ns = clock_now_ns();
		assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
		content = read_file(path);
		clock_gettime(CLOCK_REALTIME, &wall);
		assert_in_range(content.head.mono_ns, before_ns, clock_now_ns());
		assert_in_range(content.head.wall_ns / 1000000000,
				(uint64_t)wall.tv_sec - LIMIT_MS / 1000, (uint64_t)wall.tv_sec);
	}
}

static void test_request(void **state)
{
	char path[256], again[256];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	assert_string_equal(read_file(path).why, "pnmem trace dump");
	assert_int_equal(pn_trace_dump(agent.socket_path, DUMP_MS, again, sizeof(again)), 0);
	assert_string_not_equal(path, again);
	assert_int_equal(find().files, 2);
	assert_int_equal(pn_trace_dump("/nonexistent", DUMP_MS, path, sizeof(path)), -ENOENT);
}

static void test_request_of_another_user(void **state)
{
	char path[256];
	int status;
	pid_t pid;

	if (getuid())
		skip_because("needs root");
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(chmod(agent.dir, 0755), 0);
	pid = fork();
	if (!pid)
		_exit(setuid(65534) ? 99 : -pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), EPERM);
	assert_int_equal(find().files, 0);
}

static void test_off(void **state)
{
	char path[256];

	setenv("PN_RECORDER_BYTES", "0", 1);
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), -EOPNOTSUPP);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	setenv("PN_RECORDER_BYTES", "12 parsecs", 1);
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(agent_proc_log_count(&agent, "PN_RECORDER_BYTES=12 parsecs is not valid"),
			 1);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
}

/* ---- by itself ------------------------------------------------------------------------------- */

static struct host_tree proc;

static void set_avail(uint64_t avail_mib)
{
	tree_write(&proc, "meminfo",
		   "MemTotal: %llu kB\nMemFree: 1 kB\nMemAvailable: %llu kB\nSwapFree: 0 kB\n",
		   16ull << 20, (unsigned long long)avail_mib << 10);
	pn_memwatch_poll_now();
}

static bool has_followed(void *arg)
{
	return strstr(read_file(find().path).why, "with what followed");
}

static bool ends_at(void *arg)
{
	return read_file(find().path).last_avail_bytes == *(uint64_t *)arg;
}

static void test_critical(void **state)
{
	const char *args[] = { "--no-bpf", "--procfs", proc.path, NULL };
	struct content content;

	tree_make(&proc);
	args[2] = proc.path;
	tree_write(&proc, "pressure/memory",
		   "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
		   "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(12000);
	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(find().files, 0);
	set_avail(1000);
	expect_files(1);
	content = read_file(find().path);
	assert_string_equal(content.why, "the level is CRITICAL");
	assert_int_equal(content.worst_level, PN_MEM_LEVEL_CRITICAL);
	assert_true(content.looks_of_host >= 2);
	/* Down and up again: the same story. */
	set_avail(12000);
	set_avail(900);
	set_avail(11000);
	assert_true(test_until(has_followed, NULL, LIMIT_MS));
	assert_int_equal(find().files, 1);
	content = read_file(find().path);
	assert_int_equal(content.last_level, PN_MEM_LEVEL_OK);
	assert_int_equal(content.last_avail_bytes, 11000 * MIB);
	/* And again, for longer: its end is in the file too. */
	set_avail(800);
	assert_true(test_until(ends_at, (uint64_t[]){ 800 * MIB }, LIMIT_MS));
	set_avail(10000);
	assert_true(test_until(ends_at, (uint64_t[]){ 10000 * MIB }, LIMIT_MS));
	assert_int_equal(find().files, 1);
	unsetenv("PN_LEVEL_HOLD_MS");
	tree_free(&proc);
}

/* ---- views ----------------------------------------------------------------------------------- */

#define VISITS 100

/* The agent goes by the made-up /proc: a process is in the group that this says. */
static void enter_group(const char *path)
{
	char name[32];

	snprintf(name, sizeof(name), "%d/cgroup", getpid());
	tree_write(&proc, name, "0::%s\n", path);
}

static void visit(int i)
{
	char group[402], path[256];
	int status;
	pid_t pid = fork();

	if (!pid) {
		memset(group, 'a' + i % 26, sizeof(group) - 1);
		group[sizeof(group) - 1] = 0;
		group[0] = '/';
		enter_group(group);
		_exit(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/*
 * Engines come and go beside one that stays. They take the numbers of those before them. Their
 * names are more than the ring of names holds, and the name of the one that stays is kept
 * nevertheless.
 */
static void test_views_come_and_go(void **state)
{
	const char *args[] = { "--no-bpf", "--procfs", proc.path, NULL };
	struct content content;
	char path[256];

	tree_make(&proc);
	args[2] = proc.path;
	tree_write(&proc, "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(12000);
	enter_group("/stays");
	setenv("PN_RECORDER_BYTES", "1M", 1);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	for (int i = 0; i < VISITS; i++)
		visit(i);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	content = read_file(path);
	/* Root's share of the names was used up before the ring had gone round. */
	assert_in_range(content.ended_views, 20, VISITS - 20);
	assert_true(content.drops.recorder_count >= VISITS - content.ended_views);
	assert_string_equal(content.first_view, "/stays");
	assert_in_range(content.highest_view, 2, 10);
	assert_int_equal(strlen(content.ended_view), sizeof(content.ended_view) - 1);
	unsetenv("PN_RECORDER_BYTES");
	tree_free(&proc);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void test_killed(void **state)
{
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	agent_proc_kill(&agent);
	expect_files(1);
	assert_string_equal(read_file(find().path).why, "the agent ended without saying so");
}

static void test_ended(void **state)
{
	char path[256];

	/* Said so: no last file. */
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(find().files, 1);
}

/* It says so, and is gone before it has read that the file is written. */
static void test_ended_with_an_answer_unread(void **state)
{
	static struct recorder_memory memory = { .live = 1 };
	struct recorder_request request = { .number = 1, .group = "dump", .why = "test" };
	struct pollfd answered = { .events = POLLIN };
	int socks[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	pid = fork();
	if (!pid) {
		close(socks[0]);
		recorder_child_run(&memory, socks[1], dir.path);
		_exit(0);
	}
	close(socks[1]);
	assert_true(send(socks[0], &request, sizeof(request), 0) > 0);
	answered.fd = socks[0];
	assert_int_equal(poll(&answered, 1, LIMIT_MS), 1);
	request.number = 0;
	assert_true(send(socks[0], &request, sizeof(request), 0) > 0);
	close(socks[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(find().files, 1);
}

/* ---- files that are too many, and no room ---------------------------------------------------- */

static bool is_there(const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	return !access(path, F_OK);
}

static void dump(char path[static 256])
{
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, 256), 0);
	assert_true(read_file(path).dumps == 1);
}

/* Files of an agent that named them by the time are older than all others. */
static void test_rotation(void **state)
{
	char path[256], name[64];

	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "pnmem-202001%02dT000000.000000Z.pntrace", i + 1);
		tree_write(&dir, name, "old");
	}
	tree_write(&dir, "notes.txt", "not ours");
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	dump(path);
	assert_int_equal(find().files, 8);
	assert_int_equal(find().others, 1);
	assert_true(is_there("pnmem-20200106T000000.000000Z.pntrace"));
	assert_false(is_there("pnmem-20200105T000000.000000Z.pntrace"));
}

/* The clock said another year when the files that are there were written. */
static void test_clock_set_back(void **state)
{
	char path[256], name[64];

	for (int i = 1; i <= 8; i++) {
		snprintf(name, sizeof(name), "pnmem-%08d-dump-2099010%dT000000Z.pntrace", i, i);
		tree_write(&dir, name, "later");
		snprintf(name, sizeof(name), "pnmem-2099010%dT000000.000000Z.pntrace", i);
		tree_write(&dir, name, "later");
	}
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	dump(path);
	assert_int_equal(find().files, 8);
	assert_false(is_there("pnmem-00000001-dump-20990101T000000Z.pntrace"));
	assert_true(is_there("pnmem-00000002-dump-20990102T000000Z.pntrace"));
}

/* A user has four files, and the last one of each other user stays. */
static void test_rotation_by_user(void **state)
{
	char path[256], name[64];
	int number = 0;

	tree_write(&dir, "pnmem-00000001-u7-20200101T000000Z.pntrace", "the only one");
	tree_write(&dir, "pnmem-00000002-host-20200101T000000Z.pntrace", "the only one");
	for (number = 3; number < 60; number++) {
		snprintf(name, sizeof(name), "pnmem-%08d-u%d-20200101T000000Z.pntrace", number,
			 1000 + number % 4);
		tree_write(&dir, name, "an attacker's");
	}
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	dump(path);
	assert_int_equal(find().files, 4 * 4 + 3);
	assert_true(is_there("pnmem-00000001-u7-20200101T000000Z.pntrace"));
	assert_true(is_there("pnmem-00000002-host-20200101T000000Z.pntrace"));
	/* More users than there are files in all: users with several files give theirs. */
	for (; number < 60 + 25; number++) {
		snprintf(name, sizeof(name), "pnmem-%08d-u%d-20200101T000000Z.pntrace", number,
			 2000 + number);
		tree_write(&dir, name, "its only one");
	}
	dump(path);
	assert_int_equal(find().files, 32);
	assert_true(is_there("pnmem-00000001-u7-20200101T000000Z.pntrace"));
	assert_true(is_there("pnmem-00000002-host-20200101T000000Z.pntrace"));
	assert_true(is_there("pnmem-00000060-u2060-20200101T000000Z.pntrace"));
}

/* Whoever has subordinate user numbers is many users, and each has one file only. */
static void test_rotation_by_many_users(void **state)
{
	char path[256], name[64];

	for (int i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "pnmem-%08d-host-20200101T000000Z.pntrace", i);
		tree_write(&dir, name, "an incident");
	}
	for (int i = 4; i < 60; i++) {
		snprintf(name, sizeof(name), "pnmem-%08d-u%d-20200101T000000Z.pntrace", i,
			 100000 + i);
		tree_write(&dir, name, "its only one");
	}
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	dump(path);
	assert_int_equal(find().files, 32);
	for (int i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "pnmem-%08d-host-20200101T000000Z.pntrace", i);
		assert_true(is_there(name));
	}
	assert_true(is_there("pnmem-00000059-u100059-20200101T000000Z.pntrace"));
}

/* ---- the folder ------------------------------------------------------------------------------ */

static void expect_refused(void)
{
	static const char said[] = "no flight recorder files: ";
	int count = agent_proc_log_count(&agent, said);
	char path[256];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_true(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)) < 0);
	agent_proc_signal(&agent, SIGUSR1);
	assert_int_equal(find().files, 0);
	assert_int_equal(agent_proc_log_count(&agent, said), count + 1);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(find().files, 0);
}

/* Who may write in the folder could put another file in the place of one that the agent makes. */
static void test_folder_of_others(void **state)
{
	char link[PATH_BYTES];

	if (getuid())
		skip_because("needs root");
	assert_int_equal(chmod(dir.path, 0777), 0);
	expect_refused();
	assert_int_equal(chmod(dir.path, 01777), 0);
	expect_refused();
	assert_int_equal(chmod(dir.path, 0770), 0);
	expect_refused();
	assert_int_equal(chmod(dir.path, 0700), 0);
	assert_int_equal(chown(dir.path, 65534, 65534), 0);
	expect_refused();
	assert_int_equal(chown(dir.path, 0, 0), 0);
	snprintf(link, sizeof(link), "%s.link", dir.path);
	assert_int_equal(symlink(dir.path, link), 0);
	setenv("PN_TRACE_DIR", link, 1);
	expect_refused();
	assert_int_equal(unlink(link), 0);
	/* Whoever may write to a folder above it can put another one in its place. */
	snprintf(link, sizeof(link), "%s/traces", dir.path);
	assert_int_equal(mkdir(link, 0700) || chmod(dir.path, 0777), 0);
	setenv("PN_TRACE_DIR", link, 1);
	expect_refused();
	setenv("PN_TRACE_DIR", dir.path, 1);
	assert_int_equal(rmdir(link) || chmod(dir.path, 0700), 0);
}

static bool has_others(void *arg)
{
	return find().others == *(int *)arg;
}

/* What an agent that was killed left half-written is removed; what is not such a file stays. */
static void test_stale_parts(void **state)
{
	char path[PATH_BYTES + 80];

	if (getuid())
		skip_because("needs root");
	tree_write(&dir, "pnmem-20200101T000000.000000Z.pntrace.part", "half");
	tree_write(&dir, "pnmem-00000007-u0-20200101T000000Z.pntrace.part", "half");
	tree_write(&dir, "other.pntrace.part", "not ours");
	tree_write(&dir, "pnmem-00000009-u0-20200101T000000Z.pntrace.part", "another user's");
	snprintf(path, sizeof(path), "%s/pnmem-00000009-u0-20200101T000000Z.pntrace.part",
		 dir.path);
	assert_int_equal(chown(path, 65534, 65534), 0);
	snprintf(path, sizeof(path), "%s/pnmem-00000008-u0-20200101T000000Z.pntrace.part",
		 dir.path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_true(test_until(has_others, (int[]){ 3 }, LIMIT_MS));
	assert_false(is_there("pnmem-20200101T000000.000000Z.pntrace.part"));
	assert_false(is_there("pnmem-00000007-u0-20200101T000000Z.pntrace.part"));
}

/* ---- the writer is killed -------------------------------------------------------------------- */

static pid_t child_of(pid_t parent)
{
	char path[64];
	int child = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		fclose(file);
	return child;
}

static bool is_recorder(pid_t pid)
{
	char path[64], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(comm, sizeof(comm), file))
		comm[0] = 0;
	fclose(file);
	return !strcmp(comm, "pnmem-recorder\n");
}

static bool has_another_writer(void *arg)
{
	pid_t *writer = arg, pid = child_of(writer[0]);

	if (!pid || pid == writer[1] || !is_recorder(pid))
		return false;
	writer[1] = pid;
	return true;
}

static bool newest_is_of(void *arg)
{
	struct found found = find();

	return found.files && !strcmp(read_file(found.path).why, arg);
}

/*
 * It is started again, and then finds the request at which it was killed. It writes the file of one
 * that was answered in that moment a second time.
 */
static void test_writer_killed(void **state)
{
	char path[256];
	pid_t writer[2] = { 0 };

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	/* The first child that the agent starts. */
	writer[0] = child_of(agent.pid);
	assert_true(writer[0] > 0);
	assert_true(test_until(has_another_writer, writer, LIMIT_MS));
	kill(writer[1], SIGKILL);
	dump(path);
	assert_true(test_until(has_another_writer, writer, LIMIT_MS));
	kill(writer[1], SIGSTOP);
	agent_proc_signal(&agent, SIGUSR1);
	usleep(20000); /* it is better, but not needed, that it is asked before it is killed */
	kill(writer[1], SIGKILL);
	assert_true(test_until(newest_is_of, "SIGUSR1", LIMIT_MS));
	assert_int_equal(agent_proc_log_count(&agent, "writer has ended"), 0);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_in_range(find().files, 2, 3);
}

/* ---- users who mean no good ------------------------------------------------------------------ */

/* In the child: a client of this user, whose own page it makes CRITICAL by a die without room. */
static int push(int sock, uint64_t free_bytes)
{
	struct proto_set_die request = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(request), 1),
		.free_bytes = free_bytes,
		.budget_bytes = 1ull << 40,
	};
	struct proto_die_place reply;
	int r = raw_send(sock, &request, sizeof(request), NULL, 0);

	return r ? r : raw_receive(sock, &reply, sizeof(reply), NULL, LIMIT_MS) <= 0;
}

static void run_pusher(uid_t uid, bool floods, int ready_fd)
{
	uint64_t turn = 0;
	int sock;

	if (setgid(uid) || setuid(uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	sock = raw_connect(agent.socket_path);
	if (sock < 0 || raw_hello(sock) || push(sock, 0) || write(ready_fd, "", 1) != 1)
		_exit(2);
	while (floods) {
		if (push(sock, turn++ % 2 ? 0 : turn << 30))
			_exit(3);
		if (turn % 64)
			continue;
		close(sock);
		sock = raw_connect(agent.socket_path);
		if (sock < 0 || raw_hello(sock))
			_exit(4);
	}
	pause();
	_exit(0);
}

/* Returns when it has pushed. */
static pid_t start_pusher(uid_t uid, bool floods)
{
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(chmod(agent.dir, 0711), 0);
	pid = fork();
	if (!pid)
		run_pusher(uid, floods, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static void stop_pusher(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The file of this user's episode, whose name says whose it is; "": none. */
static const char *file_of(const char *group)
{
	static char path[700];
	struct dirent **names;
	int n = scandir(dir.path, &names, NULL, alphasort);
	char middle[32];

	path[0] = 0;
	snprintf(middle, sizeof(middle), "-%s-", group);
	for (int i = 0; i < n; i++) {
		size_t length = strlen(names[i]->d_name);

		if (strstr(names[i]->d_name, middle) && length > 8 &&
		    !strcmp(names[i]->d_name + length - 8, ".pntrace"))
			snprintf(path, sizeof(path), "%s/%s", dir.path, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return path;
}

static bool has_file_of(void *arg)
{
	return file_of(arg)[0];
}

static bool ended_in_file_of(void *arg)
{
	return strstr(read_file(file_of(arg)).why, "to the end of an engine");
}

/* A pusher's page stays CRITICAL. What happens to others is written at once all the same. */
static void test_critical_of_another_user(void **state)
{
	const char *args[] = { "--no-bpf", "--procfs", proc.path, NULL };
	pid_t first, second;

	if (getuid())
		skip_because("needs root to become another user");
	tree_make(&proc);
	args[2] = proc.path;
	tree_write(&proc, "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(12000);
	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	first = start_pusher(65534, false);
	assert_true(test_until(has_file_of, "u65534", LIMIT_MS));
	second = start_pusher(1000, false);
	assert_true(test_until(has_file_of, "u1000", LIMIT_MS));
	set_avail(900);
	assert_true(test_until(has_file_of, "host", LIMIT_MS));
	/* Its engine dies: its file is completed, though another's level is still CRITICAL. */
	stop_pusher(second);
	assert_true(test_until(ended_in_file_of, "u1000", LIMIT_MS));
	assert_int_equal(read_file(file_of("u1000")).ended_views, 1);
	assert_string_equal(file_of("u0"), ""); /* our own view had no level of its own */
	stop_pusher(first);
	unsetenv("PN_LEVEL_HOLD_MS");
	tree_free(&proc);
}

/* A client without a cgroup, here of a process that /proc does not have, whose user is root's. */
static void test_critical_of_root_without_a_cgroup(void **state)
{
	const char *args[] = { "--no-bpf", "--procfs", proc.path, NULL };
	pid_t pid;

	if (getuid())
		skip_because("needs root");
	tree_make(&proc);
	args[2] = proc.path;
	tree_write(&proc, "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(12000);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	pid = start_pusher(0, false);
	assert_true(test_until(has_file_of, "u0", LIMIT_MS));
	assert_string_equal(file_of("host"), "");
	stop_pusher(pid);
	tree_free(&proc);
}

/* How many bytes of the dump are records that these clients caused; the host's stay in it. */
static void test_flood_of_records(void **state)
{
	const char *args[] = { "--no-bpf", NULL };
	struct content content;
	uint64_t begin_ns, now_ns, allowed_bytes, bytes;
	pid_t pid[10];
	char path[256];

	if (getuid())
		skip_because("needs root to become another user");
	setenv("PN_RECORDER_BYTES", "1M", 1);
	begin_ns = clock_now_ns();
	assert_int_equal(agent_proc_start(&agent, args), 0);
	for (int i = 0; i < 10; i++)
		pid[i] = start_pusher(1000 + (uid_t)i % 4, true);
	usleep(6000000); /* more is only more of the same: the agent's share is compared */
	for (int i = 0; i < 10; i++)
		stop_pusher(pid[i]);
	do
		usleep(10000);
	while (pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)) == -EBUSY);
	now_ns = clock_now_ns();
	content = read_file(path);
	bytes = content.looks_of_groups * trace_record_bytes(sizeof(struct trace_look)) +
		content.count[TRACE_DIE] * trace_record_bytes(sizeof(struct trace_die));
	/* As in recorder_users.c: 2.1 bursts and what came back since. */
	allowed_bytes = MIB / 8 * 21 / 10 + MIB / 4 * ((now_ns - begin_ns) / 1000000) / 60000;
	print_message("# %llu bytes of clients, %llu allowed, %llu left out\n",
		      (unsigned long long)bytes, (unsigned long long)allowed_bytes,
		      (unsigned long long)content.drops.recorder_count);
	assert_true(bytes > 0 && bytes <= allowed_bytes);
	assert_true(content.drops.recorder_count > 0);
	assert_int_equal(content.drops.old_count, 0); /* all of the span is there */
}

static void test_full_disk(void **state)
{
	static const char filler[16384];
	char path[256];
	int fd;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir.path, "tmpfs", 0, "mode=700,size=16k"))
		skip_because("no file system to fill: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/filler", dir.path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, filler, sizeof(filler)), sizeof(filler));
	close(fd);
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), -ENOSPC);
	assert_int_equal(agent_proc_log_count(&agent, "cannot write the trace"), 1);
	assert_int_equal(find().files, 0);
	assert_int_equal(find().others, 1); /* the filler: no half of a file */
	/* The agent goes on, and so does its recorder. */
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	snprintf(path, sizeof(path), "%s/filler", dir.path);
	unlink(path);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	read_file(path);
	pn_memwatch_stop();
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(umount2(dir.path, MNT_DETACH), 0);
}

/* ---- what engines were answered -------------------------------------------------------------- */

/* From the first turn of the watch's thread on. */
static bool log_is_on(void *arg)
{
	return verdict_log_on;
}

/* At an engine's end all that it was answered has been sent. */
static void test_verdicts(void **state)
{
	pn_engine model = { .max_window = 4096 };
	pn_admit_result result;
	struct content content;
	pn_mem_state s;
	char path[256];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_read(&s), 0);
	assert_true(test_until(log_is_on, NULL, LIMIT_MS));
	for (int i = 0; i < 20; i++)
		pn_admit(&model, 16, NULL);
	s.host_avail_bytes = 0;
	pn_admit_load_spike(&s, &result);
	assert_int_equal(result.verdict, PN_VERDICT_REJECT);
	pn_memwatch_stop();
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	content = read_file(path);
	assert_int_equal(content.verdicts, 21);
	assert_int_equal(content.refusals, 1);
	assert_int_equal(content.last_verdict.ask, TRACE_ASK_SPIKE);
	assert_int_equal(content.last_verdict.need_bytes, result.need_bytes);
	assert_int_equal(content.last_verdict.pid, getpid());
	assert_true(content.last_verdict.view > 0);
	assert_string_equal(content.last_verdict.comm, "test_recorder");
}

/* ---- a recording of the agent's -------------------------------------------------------------- */

/* A recording, whose helper is no more than told to: kernel hooks are not what is tested. */
static pid_t start_recording(const char *path)
{
	char helper[300], drops_path[300], said_path[300];
	struct trace_drops drops = { .kernel_count = 7 };
	unsigned char record[64];
	size_t bytes = trace_put(record, TRACE_DROPS, 1, &drops, sizeof(drops), NULL);
	FILE *file;
	pid_t pid;

	trace_seal(record);
	snprintf(drops_path, sizeof(drops_path), "%s/drops", dir.path);
	file = fopen(drops_path, "we");
	assert_int_equal(fwrite(record, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
	snprintf(said_path, sizeof(said_path), "%s/said", dir.path);
	tree_write(&dir, "helper", "#!/bin/sh\ncat %s; exec cat\n", drops_path);
	snprintf(helper, sizeof(helper), "%s/helper", dir.path);
	assert_int_equal(chmod(helper, 0700), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("PNMEM_AGENT", helper, 1);
		dup2(open(said_path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
		execl("build/pnmem", "pnmem", "trace", "record", "-o", path, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static const char *said_by_recording(void)
{
	static char text[4096];
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/said", dir.path);
	file = fopen(path, "re");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	return text;
}

static bool has_drops(void *arg)
{
	struct content content = { 0 };

	read_records(arg, &content);
	return content.drops.recorder_count > 0;
}

static bool has_looks(void *arg)
{
	struct content content = { 0 };

	read_records(arg, &content);
	return content.count[TRACE_LOOK] > 0;
}

struct asked {
	uint64_t total;
	struct content dump;
};

static bool agent_has_all(void *arg)
{
	struct asked *asked = arg;
	char path[256];

	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	asked->dump = read_file(path);
	unlink(path);
	return asked->dump.verdicts + asked->dump.drops.verdict_count == asked->total;
}

/* Questions of an engine, until the agent has them all: the engine has room for 512. */
static void ask(struct asked *asked, int n)
{
	pn_engine model = { .max_window = 4096 };

	for (int i = 0; i < n; i++)
		pn_admit(&model, 16, NULL);
	asked->total += (uint64_t)n;
	assert_true(test_until(agent_has_all, asked, LIMIT_MS));
}

/* With an agent; it has begun to write, and is stopped. */
static pid_t stopped_recording(char ret_path[static PATH_BYTES])
{
	pid_t pid;

	if (getuid())
		skip_because("needs root");
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	snprintf(ret_path, PATH_BYTES, "%s/recording", dir.path);
	pid = start_recording(ret_path);
	assert_true(test_until(has_looks, ret_path, LIMIT_MS));
	kill(pid, SIGSTOP);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_true(test_until(log_is_on, NULL, LIMIT_MS));
	return pid;
}

/*
 * A recording that is stopped for a while: what the agent could not send it, and what the engine
 * could not send the agent, is told by the file and by what the recording says.
 */
static void test_recording_behind(void **state)
{
	struct asked asked = { 0 };
	struct content content = { 0 };
	char path[PATH_BYTES], said[80];
	uint64_t lost;
	int status;
	pid_t pid;

	pid = stopped_recording(path);
	for (int i = 0; i < 3; i++)
		ask(&asked, 400);
	ask(&asked, 2000);
	assert_true(asked.dump.drops.verdict_count > 0);
	kill(pid, SIGCONT);
	kill(pid, SIGINT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read_records(path, &content));
	lost = content.drops.recorder_count;
	assert_true(content.verdicts < asked.dump.verdicts);
	assert_true(lost >= asked.dump.verdicts - content.verdicts);
	assert_true(lost <= asked.dump.verdicts - content.verdicts + 1000); /* snapshots */
	assert_int_equal(content.drops.verdict_count, asked.dump.drops.verdict_count);
	assert_int_equal(content.drops.kernel_count, 7);
	snprintf(said, sizeof(said), " %llu lost, ",
		 (unsigned long long)(lost + content.drops.verdict_count + 7));
	assert_non_null(strstr(said_by_recording(), said));
	/* What it had to leave out is not lost to the agent. */
	assert_int_equal(asked.dump.drops.recorder_count, 0);
}

/* A client can add only so much to what the recorder says is lost. */
static void test_losses_claimed(void **state)
{
	struct proto_verdicts claim = {
		.header = proto_header_make(PROTO_VERDICT, sizeof(claim), 1),
		.dropped = UINT32_MAX,
	};
	struct raw_client client;
	struct content dump;
	char path[256];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(raw_client_open(&client, agent.socket_path), 0);
	for (int i = 0; i < 64; i++)
		assert_true(send(client.sock, &claim, sizeof(claim), MSG_NOSIGNAL) ==
			    sizeof(claim));
	/* It is answered behind the claims. */
	assert_int_equal(raw_hello(client.sock), 0);
	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	dump = read_file(path);
	unlink(path);
	assert_int_equal(dump.drops.verdict_count, 64 * 4096);
	raw_client_close(&client);
}

/* It is told once it reads again, not only at its end. */
static void test_recording_catches_up(void **state)
{
	struct asked asked = { 0 };
	char path[PATH_BYTES];
	int status;
	pid_t pid;

	pid = stopped_recording(path);
	ask(&asked, 400);
	ask(&asked, 400);
	kill(pid, SIGCONT);
	assert_true(test_until(has_drops, path, LIMIT_MS));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* ---- the gate -------------------------------------------------------------------------------- */

static bool dumps(void *arg)
{
	int r = pn_trace_dump(NULL, DUMP_MS, arg, 256);

	assert_true(!r || r == -EBUSY); /* the file for the level that is CRITICAL */
	return !r;
}

/* A request that the gate refuses, which no admission was asked for. */
static void test_refused_by_the_gate(void **state)
{
	const char *args[] = { "--no-bpf", "--procfs", NULL, NULL };
	struct content content;
	bs_grant grant;
	bs_sched *queue;
	char path[256];

	tree_make(&proc);
	args[2] = proc.path;
	tree_write(&proc, "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(900);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_true(test_until(log_is_on, NULL, LIMIT_MS));
	assert_int_equal(bs_new(&queue, 1, 1), 0);
	bs_notify_pressure(queue, PN_MEM_LEVEL_CRITICAL);
	assert_int_equal(bs_slot_acquire(queue, NULL, UINT64_MAX, &grant), BS_REFUSED);
	assert_true(grant.retry_after_ms > 0);
	bs_free(queue);
	pn_memwatch_stop();
	assert_true(test_until(dumps, path, LIMIT_MS));
	content = read_file(path);
	assert_int_equal(content.verdicts, 1);
	assert_int_equal(content.refusals, 1);
	assert_int_equal(content.last_verdict.ask, TRACE_ASK_SLOT);
	assert_int_equal(content.last_verdict.level, PN_MEM_LEVEL_CRITICAL);
	assert_int_equal(content.last_verdict.retry_after_ms, grant.retry_after_ms);
	tree_free(&proc);
}

/* ---- the kernel's records -------------------------------------------------------------------- */

static bool has_hook(const char *subject)
{
	pn_hook_status hooks[32];
	int n = pn_memwatch_hooks(hooks, 32), active = 0;

	for (int i = 0; i < n; i++)
		active += !strcmp(hooks[i].subject, subject) && hooks[i].state == PN_HOOK_ACTIVE;
	return active;
}

static bool has_kill(void *arg)
{
	struct content content = read_file(find().path);

	return content.oom_kills && strstr(content.why, "with an OOM kill");
}

/* In the middle of a time at CRITICAL: the file of that is written again with it. */
static void test_kill_at_critical(void **state)
{
	const char *args[] = { "--procfs", NULL, NULL };
	struct pressure_group group;
	int r;

	r = pressure_group_create(&group, 32 * MIB);
	if (r)
		skip_because("no memory cgroup: %s", strerror(-r));
	tree_make(&proc);
	args[1] = proc.path;
	tree_write(&proc, "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	set_avail(12000);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	if (!has_hook("oom")) {
		pressure_group_destroy(&group);
		tree_free(&proc);
		skip_because("no hook for OOM kills can be had here");
	}
	set_avail(900);
	expect_files(1);
	assert_true(pressure_oom(&group) > 0);
	assert_true(test_until(has_kill, NULL, LIMIT_MS));
	assert_int_equal(find().files, 1);
	pressure_group_destroy(&group);
	tree_free(&proc);
}

static bool has_stalls(void *arg)
{
	char path[256];

	assert_int_equal(pn_trace_dump(NULL, DUMP_MS, path, sizeof(path)), 0);
	*(struct content *)arg = read_file(path);
	unlink(path);
	return ((struct content *)arg)->stalls_with_time >= 5;
}

static void test_stalls(void **state)
{
	struct pressure_group group;
	struct content content;
	pid_t pid;
	int r;

	r = pressure_group_create(&group, 32 * MIB);
	if (r)
		skip_because("no memory cgroup: %s", strerror(-r));
	assert_int_equal(agent_proc_start(&agent, NULL), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	if (!has_hook("stall")) {
		pressure_group_destroy(&group);
		skip_because("no stall hook can be had here");
	}
	pid = pressure_start_reader(&group, 96 * MIB);
	assert_true(pid > 0);
	assert_true(test_until(has_stalls, &content, LIMIT_MS));
	pressure_stop(pid);
	pressure_group_destroy(&group);
	assert_true(content.names_of_stallers > 0);
}

#define recorder_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		recorder_test(test_signal),
		recorder_test(test_clocks),
		recorder_test(test_request),
		recorder_test(test_request_of_another_user),
		recorder_test(test_off),
		recorder_test(test_critical),
		recorder_test(test_views_come_and_go),
		recorder_test(test_killed),
		recorder_test(test_ended),
		recorder_test(test_ended_with_an_answer_unread),
		recorder_test(test_rotation),
		recorder_test(test_clock_set_back),
		recorder_test(test_rotation_by_user),
		recorder_test(test_rotation_by_many_users),
		recorder_test(test_folder_of_others),
		recorder_test(test_stale_parts),
		recorder_test(test_writer_killed),
		recorder_test(test_critical_of_another_user),
		recorder_test(test_critical_of_root_without_a_cgroup),
		recorder_test(test_flood_of_records),
		recorder_test(test_full_disk),
		recorder_test(test_verdicts),
		recorder_test(test_losses_claimed),
		recorder_test(test_recording_behind),
		recorder_test(test_recording_catches_up),
		recorder_test(test_refused_by_the_gate),
		recorder_test(test_kill_at_critical),
		recorder_test(test_stalls),
	};

	return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}
