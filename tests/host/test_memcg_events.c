/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last rung for cgroup events, polling memory.events: an event makes the agent look, one more
 * event makes it look again, a burst is bounded, and a group that is removed does not keep it busy.
 * The agent here is its loop alone, without a view, but in test_agent_watches.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/agent.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB   (1024 * 1024ul)
#define MS_NS 1000000ull

static struct agent_options options;
static struct agent agent;
static struct pressure_group group;
static struct memcg_events *events;

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	return 0;
}

static int setup(void **state)
{
	memset(&agent, 0, sizeof(agent));
	agent.options = &options;
	agent.config = level_config_default;
	agent.mode = PN_MODE_PSI_TRIGGER;
	agent.memcg_poll = true;
	agent.procfs_fd = open("/proc", O_PATH | O_CLOEXEC);
	assert_true(sd_event_new(&agent.event) >= 0);
	assert_true(sd_event_add_time(agent.event, &agent.timer, CLOCK_MONOTONIC, 0, 1, on_timer,
				      NULL) >= 0);
	sd_event_source_set_enabled(agent.timer, SD_EVENT_OFF);
	return host_source_open(&agent.source, agent.procfs_fd);
}

static int teardown(void **state)
{
	memcg_events_close(events);
	events = NULL;
	host_source_close(&agent.source);
	sd_event_source_disable_unref(agent.timer);
	sd_event_unref(agent.event);
	close(agent.procfs_fd);
	pressure_group_destroy(&group);
	return 0;
}

static struct memcg_events *watch(void)
{
	int dir_fd = open(group.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct memcg_events *ret = memcg_events_open(&agent, dir_fd);

	close(dir_fd);
	return ret;
}

/* The looks that the loop makes until there are max of them or this long has passed. */
static uint64_t looks_within(uint64_t max, uint64_t limit_ms)
{
	uint64_t end_ns = clock_now_ns() + limit_ms * MS_NS, before = agent.looks;

	for (uint64_t now_ns; agent.looks - before < max && (now_ns = clock_now_ns()) < end_ns;) {
		assert_true(sd_event_run(agent.event, (end_ns - now_ns) / 1000 + 1) >= 0);
		sd_event_source_set_enabled(agent.timer, SD_EVENT_OFF); /* not what is tested */
	}
	return agent.looks - before;
}

static void create_v2_group(void)
{
	int r = pressure_group_create(&group, 20 * MIB);

	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	if (group.is_v1)
		skip_because("the memory controller is on cgroup v1");
}

static void test_events(void **state)
{
	pid_t reader;

	create_v2_group();
	events = watch();
	assert_non_null(events);
	assert_int_equal(looks_within(1, 300), 0); /* nothing has happened yet */

	assert_true(pressure_oom(&group) > 0);
	assert_int_equal(looks_within(1, 5000), 1);
	print_message("# rung: cgroup events by poll: oom\n");
	looks_within(10, 300);
	assert_true(pressure_oom(&group) > 0);
	assert_int_equal(looks_within(1, 5000), 1);

	/* All the time at its limit: two looks in 100 ms, and not one less. */
	reader = pressure_start_reader(&group, 100 * MIB);
	assert_true(reader > 0);
	assert_true(looks_within(10, 10000) >= 10);
	assert_in_range(looks_within(1000, 1000), 5, 24);
	pressure_stop(reader);
}

static void test_removed(void **state)
{
	create_v2_group();
	events = watch();
	assert_non_null(events);
	pressure_group_destroy(&group);
	assert_in_range(looks_within(100, 500), 0, 2);
	assert_int_equal(looks_within(100, 300), 0);
}

/* An engine in the group: it attaches, says so, and stays. */
static void engine_run(int ready_fd)
{
	if (pressure_group_join(&group) || pn_memwatch_start() ||
	    pn_memwatch_source() != PN_SOURCE_AGENT || write(ready_fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static bool agent_has_events_file(void *arg)
{
	const struct agent_proc *process = arg;
	char path[128], target[512], want[300];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(want, sizeof(want), "%s/memory.events", group.path);
	snprintf(path, sizeof(path), "/proc/%d/fd", process->pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		found = !strcmp(target, want);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool agent_has_no_events_file(void *arg)
{
	return !agent_has_events_file(arg);
}

/* The agent itself, without hooks, watches the group that an engine attached from. */
static void test_agent_watches(void **state)
{
	static const char *const args[] = { "--no-bpf", NULL };
	struct agent_proc process;
	int ready[2];
	char byte;
	pid_t engine;

	create_v2_group();
	assert_int_equal(agent_proc_init(&process), 0);
	assert_int_equal(agent_proc_start(&process, args), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	engine = fork();
	if (engine == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		engine_run(ready[1]);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_true(agent_has_events_file(&process));
	pressure_stop(engine);
	assert_true(test_until(agent_has_no_events_file, &process, 5000));
	agent_proc_destroy(&process);
}

/* A hook tells of them, or there is no such file: nothing to do, and nothing breaks. */
static void test_not_needed(void **state)
{
	int dir_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_null(memcg_events_open(&agent, dir_fd));
	assert_null(memcg_events_open(&agent, -1));
	close(dir_fd);
	memcg_events_close(NULL);
	create_v2_group();
	agent.memcg_poll = false;
	assert_null(watch());
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_agent_watches, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_needed, setup, teardown),
	};

	return cmocka_run_group_tests_name("memcg_events", tests, NULL, NULL);
}
