/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hundred groups on cgroup v2 below a parent that is at its limit all the time, and no hook tells
 * the agent of it: each reclaim changes memory.events of the groups that it reaches, since each is
 * below its memory.low, and to read a hundred groups takes the agent long. A client still gets its
 * answers. The test counts them beside the same load in groups that the agent does not watch.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/group.h"
#include "support/pressure.h"
#include "support/raw_client.h"

#define GROUPS      100
#define MIB         (1ull << 20)
#define MAX_BYTES   (80 * MIB)
#define FILE_BYTES  (2 * MAX_BYTES)
#define BLOCK_BYTES (MIB / 8)

#define COUNT_NS (3000 * 1000000ull)
/*
 * A client gets at least one in so many of the answers that it gets where nothing is watched. One
 * that is starved gets none.
 */
#define SHARE 20

static struct agent_proc agent;
static struct group parent, groups[GROUPS];
static pid_t processes[GROUPS];
static int file_fd = -1, client = -1;

/* Reads more than the parent's limit holds, for ever or once. */
static void read_file(bool for_ever)
{
	static char block[BLOCK_BYTES];

	do
		for (uint64_t at = 0; at < FILE_BYTES; at += BLOCK_BYTES)
			if (pread(file_fd, block, sizeof(block), (off_t)at) != sizeof(block))
				_exit(1);
	while (for_ever);
}

/* Is in its group and says so. watched: it attaches. The first one is the load. */
static void process_run(int i, bool watched, int ready_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (group_join(&groups[i], 0) || (watched && raw_hello(raw_connect(agent.socket_path))))
		_exit(1);
	if (!i)
		read_file(false);
	if (write(ready_fd, "", 1) != 1)
		_exit(1);
	if (!i)
		read_file(true);
	for (;;)
		pause();
}

/* The load last, so that it slows no other one's start. */
static void load_start(bool watched)
{
	int ready[2];

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (int i = GROUPS - 1; i >= 0; i--) {
		processes[i] = fork();
		assert_true(processes[i] >= 0);
		if (!processes[i])
			process_run(i, watched, ready[1]);
		assert_int_equal(read(ready[0], &(char){ 0 }, 1), 1);
	}
	close(ready[0]);
	close(ready[1]);
}

static void load_stop(void)
{
	for (int i = 0; i < GROUPS; i++) {
		pressure_stop(processes[i]);
		processes[i] = 0;
	}
}

static uint64_t low_events(const struct group *group)
{
	char path[1100], name[32];
	unsigned long long n;
	uint64_t events = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/memory.events", group->memory);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fscanf(file, "%31s %llu", name, &n) == 2)
		if (!strcmp(name, "low"))
			events = n;
	fclose(file);
	return events;
}

struct count {
	uint64_t answers, looks;
	int changed; /* groups whose memory.events changed meanwhile */
};

static uint64_t looks(void)
{
	struct proto_stats_reply stats;

	assert_true(raw_ask(client, PROTO_STATS, &stats, sizeof(stats)) > 0);
	return stats.stats.looks;
}

static struct count count_answers(bool watched)
{
	static const char *const args[] = { "--no-bpf", NULL };
	uint64_t before[GROUPS], end_ns, looks_before;
	struct count count = { 0 };

	assert_int_equal(agent_proc_init(&agent), 0);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	client = raw_connect(agent.socket_path);
	assert_int_equal(raw_hello(client), 0);
	load_start(watched);
	for (int i = 0; i < GROUPS; i++)
		before[i] = low_events(&groups[i]);
	looks_before = looks();
	end_ns = clock_now_ns() + COUNT_NS;
	for (; clock_now_ns() < end_ns; count.answers++)
		assert_int_equal(raw_status(client, PROTO_STATS), 0);
	count.looks = looks() - looks_before;
	for (int i = 0; i < GROUPS; i++)
		count.changed += low_events(&groups[i]) > before[i];
	load_stop();
	close(client);
	client = -1;
	agent_proc_destroy(&agent);
	return count;
}

static int setup(void **state)
{
	char path[] = "/var/tmp/pnmem-limits-XXXXXX";

	file_fd = mkostemp(path, O_CLOEXEC);
	if (file_fd < 0)
		return -1;
	unlink(path);
	return ftruncate(file_fd, FILE_BYTES); /* holes are read without I/O */
}

static int teardown(void **state)
{
	load_stop();
	agent_proc_destroy(&agent);
	for (int i = 0; i < GROUPS; i++)
		group_destroy(&groups[i]);
	group_destroy(&parent);
	close(client);
	close(file_fd);
	return 0;
}

static void test_clients_are_served(void **state)
{
	struct count alone, watched;
	struct group root;
	char name[16];
	int r = geteuid() ? -EPERM : group_root(&root);

	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	if (root.is_v1)
		skip_because("the memory controller is on cgroup v1");
	assert_int_equal(group_create(&parent, &root, "limits"), 0);
	assert_int_equal(group_set_max(&parent, MAX_BYTES), 0);
	for (int i = 0; i < GROUPS; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		assert_int_equal(group_create(&groups[i], &parent, name), 0);
		/* Each reclaim for the parent's limit is then an event of the group. */
		assert_int_equal(group_set_low(&groups[i], 1024 * MIB), 0);
	}
	alone = count_answers(false);
	watched = count_answers(true);
	print_message("# a client got %llu answers beside %llu looks where nothing is watched, "
		      "and %llu beside %llu where the agent watches all groups\n",
		      (unsigned long long)alone.answers, (unsigned long long)alone.looks,
		      (unsigned long long)watched.answers, (unsigned long long)watched.looks);
	/* A reclaim reaches some of the groups, others the next time. */
	assert_true(alone.changed > 0 && watched.changed > 0);
	assert_true(watched.answers * SHARE >= alone.answers);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_clients_are_served, setup, teardown),
	};

	return cmocka_run_group_tests_name("many_limits", tests, NULL, NULL);
}
