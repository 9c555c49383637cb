/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Views of real cgroups, v1 or v2: each engine sees its own group, from within a container too;
 * limits of ancestors, page cache, groups that are removed, made again and moved out of; and that
 * one group at its limit raises its own view and no other.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/group.h"
#include "support/pressure.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

#define MIB      (1ull << 20)
#define GROUPS   34
#define LIMIT_MS 10000

static struct agent_proc agent;
static const char *const no_bpf[] = { "--no-bpf", NULL };
static struct group root;
static struct group groups[GROUPS];
static int n_groups;

/* What an engine answers. */
struct answer {
	int r;
	pn_memwatch_source_t source;
	unsigned level_wakes; /* times that it was woken for a level */
	pn_mem_state state;
	pn_mem_ext ext;
};

struct engine {
	pid_t pid;
	int sock;
};

static struct engine engines[3];

static int setup(void **state)
{
	n_groups = 0;
	memset(engines, 0, sizeof(engines));
	return agent_proc_init(&agent);
}

static void engine_stop(struct engine *engine)
{
	if (engine->pid <= 0)
		return;
	pressure_stop(engine->pid);
	close(engine->sock);
	engine->pid = 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 3; i++)
		engine_stop(&engines[i]);
	while (n_groups)
		group_destroy(&groups[--n_groups]);
	agent_proc_destroy(&agent);
	return 0;
}

static const struct group *make_group(const struct group *parent, const char *name)
{
	int r = group_root(&root);

	if (!r)
		r = group_create(&groups[n_groups], parent ? parent : &root, name);
	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	return &groups[n_groups++];
}

static void start_agent_with(const char *const args[])
{
	assert_int_equal(agent_proc_start(&agent, args), 0);
}

static void start_agent(void)
{
	start_agent_with(NULL);
}

/* ---- engines ------------------------------------------------------------------------------- */

static atomic_uint level_wakes;

static void *count_wakes(void *arg)
{
	pn_mem_state seen = { 0 };

	pn_memwatch_read(&seen);
	while (!pn_memwatch_wait(PN_WAIT_LEVEL, &seen, UINT64_MAX, &seen))
		level_wakes++;
	return NULL;
}

/* Answers with what it sees whenever it is asked. */
static void engine_run(int sock)
{
	struct answer answer = { .r = pn_memwatch_start() };
	pthread_t thread;
	char ask;

	if (!answer.r && pthread_create(&thread, NULL, count_wakes, NULL))
		_exit(1);
	while (read(sock, &ask, 1) == 1) {
		if (ask == 'p')
			pn_memwatch_poll_now();
		if (!answer.r)
			answer.r = pn_memwatch_read_ext(&answer.state, &answer.ext);
		answer.source = pn_memwatch_source();
		answer.level_wakes = level_wakes;
		if (write(sock, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

/* A root folder with nothing in it but the socket. */
static int enter_container(const char *dir)
{
	char path[128];
	int fd;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	snprintf(path, sizeof(path), "%s/root", dir);
	if ((mkdir(path, 0755) && errno != EEXIST) || mount("none", path, "tmpfs", 0, NULL))
		return -errno;
	snprintf(path, sizeof(path), "%s/root/s", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || mount(agent.socket_path, path, NULL, MS_BIND, NULL))
		return -errno;
	close(fd);
	snprintf(path, sizeof(path), "%s/root", dir);
	if (chroot(path) || chdir("/"))
		return -errno;
	setenv("PN_SOCKET", "/s", 1);
	return 0;
}

static void engine_start(struct engine *engine, const struct group *group, bool container)
{
	int sock[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	engine->pid = fork();
	assert_true(engine->pid >= 0);
	if (!engine->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock[0]);
		if (group_join(group, 0) || (container && enter_container(agent.dir)))
			_exit(1);
		engine_run(sock[1]);
	}
	close(sock[1]);
	engine->sock = sock[0];
}

static struct answer engine_ask(const struct engine *engine, char how)
{
	struct answer answer = { .r = -EPIPE };

	assert_int_equal(write(engine->sock, &how, 1), 1);
	assert_int_equal(recv(engine->sock, &answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
	assert_int_equal(answer.r, 0);
	return answer;
}

/* ---- the tests ----------------------------------------------------------------------------- */

static void test_own_group(void **state)
{
	const struct group *a = make_group(NULL, "a"), *b = make_group(NULL, "b");
	struct answer answer;

	assert_int_equal(group_set_max(a, 300 * MIB), 0);
	assert_int_equal(group_set_max(b, 500 * MIB), 0);
	start_agent();
	engine_start(&engines[0], a, false);
	engine_start(&engines[1], b, false);
	answer = engine_ask(&engines[0], 'r');
	assert_int_equal(answer.source, PN_SOURCE_AGENT);
	assert_int_equal(answer.state.cgroup_max_bytes, 300 * MIB);
	assert_int_equal(answer.ext.cgroup_limit_bytes, 300 * MIB);
	assert_in_range(answer.state.cgroup_current_bytes, 1, 300 * MIB);
	answer = engine_ask(&engines[1], 'r');
	assert_int_equal(answer.state.cgroup_max_bytes, 500 * MIB);
}

/* In its own mount namespace, without /proc and /sys: the agent finds its group by its pid. */
static void test_container(void **state)
{
	const struct group *group = make_group(NULL, "c");
	struct answer answer;
	char path[80];

	assert_int_equal(group_set_max(group, 200 * MIB), 0);
	start_agent();
	engine_start(&engines[0], group, true);
	answer = engine_ask(&engines[0], 'p');
	assert_int_equal(answer.source, PN_SOURCE_AGENT);
	assert_int_equal(answer.state.cgroup_max_bytes, 200 * MIB);
	assert_int_equal(answer.ext.source_state[PN_SRC_CGROUP], PN_SRC_OK);
	assert_true(answer.state.host_total_bytes > 0);
	engine_stop(&engines[0]);
	snprintf(path, sizeof(path), "%s/root", agent.dir);
	rmdir(path);
}

/* Field case 6, 30 deep: the leaf has no limit, an ancestor far above has, and others fill it. */
static void test_nested(void **state)
{
	const struct group *at = NULL, *limited = NULL, *sibling;
	struct answer before, after;
	char name[8];
	pid_t filler;

	for (int depth = 0; depth < 30; depth++) {
		snprintf(name, sizeof(name), "n%d", depth);
		at = make_group(at, name);
		if (depth == 14) {
			limited = at;
			assert_int_equal(group_set_max(at, 400 * MIB), 0);
		}
	}
	sibling = make_group(limited, "other");
	start_agent();
	engine_start(&engines[0], at, false);
	before = engine_ask(&engines[0], 'p');
	assert_int_equal(before.state.cgroup_max_bytes, 0);
	assert_int_equal(before.ext.cgroup_limit_bytes, 400 * MIB);
	assert_true(before.ext.cgroup_headroom_bytes > 350 * MIB);
	assert_false(before.ext.reasons & PN_REASON_CGROUP);

	filler = fork();
	if (!filler) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (group_join(sibling, 0))
			_exit(1);
		if (mmap(NULL, 340 * MIB, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
			_exit(1);
		kill(getpid(), SIGSTOP);
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(filler, NULL, WUNTRACED), filler);
	after = engine_ask(&engines[0], 'p');
	pressure_stop(filler);
	assert_true(after.ext.cgroup_headroom_bytes < 60 * MIB);
	assert_true(after.state.level >= PN_MEM_LEVEL_TIGHT);
	assert_true(after.ext.reasons & PN_REASON_CGROUP);
}

/* Field case 5: page cache up to the limit is not usage. */
static void test_page_cache(void **state)
{
	const struct group *group = make_group(NULL, "cache");
	char path[] = "/var/tmp/pnmem-cache-XXXXXX";
	static char block[1 << 20];
	struct answer answer;
	int fd, status;
	pid_t reader;

	assert_int_equal(group_set_max(group, 128 * MIB), 0);
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	unlink(path);
	for (int i = 0; i < 160; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	start_agent();
	engine_start(&engines[0], group, false);
	engine_ask(&engines[0], 'r');
	reader = fork();
	if (!reader) {
		if (group_join(group, 0))
			_exit(1);
		for (int i = 0; i < 160; i++)
			if (pread(fd, block, sizeof(block), (off_t)i << 20) != sizeof(block))
				_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(reader, &status, 0), reader);
	assert_int_equal(status, 0);
	close(fd);
	answer = engine_ask(&engines[0], 'p');
	assert_true(answer.state.cgroup_current_bytes > 100 * MIB);
	assert_true(answer.ext.cgroup_headroom_bytes > 80 * MIB);
	assert_false(answer.ext.reasons & PN_REASON_CGROUP);
}

/* A process that moves to another group sees that one, and those that stay are not taken along. */
static bool sees_other(void *arg)
{
	struct answer answer = engine_ask(arg, 'r');

	/* Who stayed asks more often than the agent's own timer goes off. */
	engine_ask(&engines[1], 'p');
	return answer.source == PN_SOURCE_AGENT && answer.state.cgroup_max_bytes == 500 * MIB;
}

static void test_moved(void **state)
{
	const struct group *a = make_group(NULL, "a"), *b = make_group(NULL, "b");

	assert_int_equal(group_set_max(a, 300 * MIB), 0);
	assert_int_equal(group_set_max(b, 500 * MIB), 0);
	start_agent();
	engine_start(&engines[0], a, false);
	engine_start(&engines[1], a, false);
	assert_int_equal(engine_ask(&engines[0], 'r').state.cgroup_max_bytes, 300 * MIB);
	assert_int_equal(engine_ask(&engines[1], 'r').state.cgroup_max_bytes, 300 * MIB);
	assert_int_equal(group_join(b, engines[0].pid), 0);
	assert_true(test_until(sees_other, &engines[0], LIMIT_MS));
	/* The one that stayed was not taken along. */
	assert_int_equal(engine_ask(&engines[1], 'p').state.cgroup_max_bytes, 300 * MIB);
}

/* The source's state in a fresh snapshot, which must have this memory.max. */
static uint8_t group_state(const struct page_view *view, uint64_t max_bytes)
{
	pn_mem_state state;
	pn_mem_ext ext;

	assert_int_equal(raw_status(engines[0].sock, PROTO_POLL_NOW), 0);
	assert_int_equal(page_read(view, &state, &ext), 0);
	assert_int_equal(state.cgroup_max_bytes, max_bytes);
	return ext.source_state[PN_SRC_CGROUP];
}

static bool is_back(void *arg)
{
	pn_mem_state state;

	return !raw_status(engines[0].sock, PROTO_POLL_NOW) && !page_read(arg, &state, NULL) &&
	       state.cgroup_max_bytes == 400 * MIB;
}

/* How many files memory.events of the group, as it is now, the agent has open. */
static int watched_events(const struct group *group)
{
	char dir_path[64], want[1100], target[1200];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	snprintf(want, sizeof(want), "%s/memory.events", group->memory);
	snprintf(dir_path, sizeof(dir_path), "/proc/%d/fd", agent.pid);
	dir = opendir(dir_path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		count += !strcmp(target, want);
	}
	closedir(dir);
	return count;
}

/*
 * Field case 8. A group can be removed only when nobody is in it: the process that attached has
 * ended, and its socket lives on with another, which the agent cannot know of.
 */
static void expect_removal(const char *const args[], int watched)
{
	const struct group *group = make_group(NULL, "gone");
	struct page_view view;
	pid_t opener;
	void *page;
	int memfd;

	start_agent_with(args);
	assert_int_equal(group_set_max(group, 300 * MIB), 0);
	engines[0].sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	opener = fork();
	if (!opener) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (group_join(group, 0) || raw_connect_with(engines[0].sock, agent.socket_path))
			_exit(1);
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(opener, NULL, WUNTRACED), opener);
	memfd = raw_page(engines[0].sock);
	assert_true(memfd >= 0);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	close(memfd);
	assert_true(page != MAP_FAILED);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(group_state(&view, 300 * MIB), PN_SRC_OK);
	assert_int_equal(watched_events(group), watched);
	pressure_stop(opener);

	group_destroy(&groups[--n_groups]);
	assert_int_equal(group_state(&view, 0), PN_SRC_GONE);
	assert_int_equal(group_state(&view, 0), PN_SRC_GONE);
	assert_int_equal(agent_proc_log_count(&agent, "the group was removed"), 1);

	group = make_group(NULL, "gone");
	assert_int_equal(group_set_max(group, 400 * MIB), 0);
	assert_true(test_until(is_back, &view, LIMIT_MS));
	assert_int_equal(watched_events(group), watched);
	munmap(page, PAGE_BYTES);
	close(engines[0].sock);
}

static void test_removed(void **state)
{
	expect_removal(NULL, 0);
}

/* Without hooks memory.events of the group is watched: of the new one when it is made again. */
static void test_removed_without_hooks(void **state)
{
	struct group probe;

	expect_removal(no_bpf, group_root(&probe) || probe.is_v1 ? 0 : 1);
}

/* ---- one group at its limit ------------------------------------------------------------------ */

static bool has_risen(void *arg)
{
	return engine_ask(arg, 'r').state.level >= PN_MEM_LEVEL_TIGHT;
}

/* A process in the group that stalls for as long as it runs, with 40 MiB of memory. */
static pid_t start_stalls(const struct group *group)
{
	struct pressure_group load = { .file_fd = -1, .is_v1 = group->is_v1 };
	pid_t launcher;
	int ready[2];

	assert_true(strlen(group->memory) < sizeof(load.path));
	strcpy(load.path, group->memory);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	launcher = fork();
	if (!launcher) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (group_join(group, 0) || pressure_start_reader(&load, 200 * MIB) < 0 ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &(char){ 0 }, 1), 1);
	close(ready[0]);
	return launcher;
}

/*
 * Field case 11: a group stalls at its own limit on a host with memory to spare. Its engine sees
 * that. Another group's engine is not woken, and in the numbers that it decides by is nothing of
 * it: there pressure from before goes on decaying.
 */
static void test_throttled(void **state)
{
	const struct group *a = make_group(NULL, "a"), *b = make_group(NULL, "b");
	struct answer before, risen, other;
	pid_t launcher;

	assert_int_equal(group_set_max(a, 40 * MIB), 0);
	assert_int_equal(group_set_max(b, 300 * MIB), 0);
	start_agent();
	engine_start(&engines[0], a, false);
	engine_start(&engines[1], b, false);
	if (engine_ask(&engines[0], 'p').ext.source_state[PN_SRC_CGROUP_PSI] != PN_SRC_OK)
		skip_because("no pressure files of cgroups here");
	before = engine_ask(&engines[1], 'p');
	launcher = start_stalls(a);
	assert_true(test_until(has_risen, &engines[0], LIMIT_MS));
	for (int i = 0; i < 20; i++) {
		usleep(100000); /* the load goes on: nothing is waited for, two seconds are judged
				 */
		risen = engine_ask(&engines[0], 'r');
		other = engine_ask(&engines[1], 'r');
		assert_true(risen.state.level >= PN_MEM_LEVEL_TIGHT);
		assert_true(other.state.level <= before.state.level);
		assert_true(other.ext.live_psi_full_avg10 <= before.ext.live_psi_full_avg10);
		assert_true(other.state.host_psi_full_avg10 <= before.ext.live_psi_full_avg10);
	}
	pressure_stop(launcher);
	printf("# throttled: some %.2f full %.2f there, %.2f %.2f elsewhere\n",
	       risen.ext.live_psi_some_avg10, risen.ext.live_psi_full_avg10,
	       other.ext.live_psi_some_avg10, other.ext.live_psi_full_avg10);
	assert_true(risen.ext.live_psi_full_avg10 > other.ext.live_psi_full_avg10 + 1);
	if (before.state.level == PN_MEM_LEVEL_OK)
		assert_int_equal(other.level_wakes, 0);
}

static bool has_stalls(void *arg)
{
	const struct answer *before = arg;

	return engine_ask(&engines[0], 'r').ext.live_psi_full_avg10 >
	       before->ext.live_psi_full_avg10 + 1;
}

/*
 * Memory on v1, and an engine that has a limit there and is in v2's root: its pressure file is the
 * whole host's, so the agent cannot tell its own stalls from others' and shows it all of them. An
 * engine without a limit is shown none of them.
 */
static void test_limit_without_pressure(void **state)
{
	const struct group *a = make_group(NULL, "a"), *b = make_group(NULL, "b");
	struct group limit = *a;
	struct answer before, other_before, other;
	pid_t launcher;

	if (!a->v2[0])
		skip_because("memory and pressure are in one hierarchy here");
	limit.v2[0] = '\0';
	assert_int_equal(group_set_max(a, 40 * MIB), 0);
	start_agent();
	engine_start(&engines[0], &limit, false);
	engine_start(&engines[1], b, false);
	before = engine_ask(&engines[0], 'p');
	other_before = engine_ask(&engines[1], 'p');
	launcher = start_stalls(&limit);
	assert_true(test_until(has_stalls, &before, LIMIT_MS));
	other = engine_ask(&engines[1], 'r');
	pressure_stop(launcher);
	assert_true(other.state.level <= other_before.state.level);
	assert_true(other.ext.live_psi_full_avg10 <= other_before.ext.live_psi_full_avg10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_container, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nested, setup, teardown),
		cmocka_unit_test_setup_teardown(test_page_cache, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_without_hooks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_throttled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit_without_pressure, setup, teardown),
	};

	return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
