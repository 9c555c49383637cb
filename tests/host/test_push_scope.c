/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing that a client sends changes another client's bytes, except through a real die's free
 * figure, bounded by its total. A real die comes from a scripted sampler; who is in which cgroup
 * from a made-up /proc.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

#define NOBODY 65534

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* The one real die. */
#define PCI         "0000:05:00.0"
#define FREE_BYTES  (8000 * MIB)
#define TOTAL_BYTES (12000 * MIB)

static struct agent_proc agent;
static struct made_host host;
static char script_path[96];
static pid_t others[4];
static int n_others;

static void write_script(const char *text)
{
	FILE *file = fopen(script_path, "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool die_is_there(void *arg)
{
	pn_mem_state state;

	pn_memwatch_poll_now();
	return !pn_memwatch_read(&state) && state.n_dies == 1 &&
	       state.per_die_free[0] == FREE_BYTES;
}

static int setup(void **state)
{
	static const char *args[] = { "--no-bpf",   "--procfs",           host.dir,
				      "--cuda-lib", "/fake/libcuda.so.1", NULL };
	char fake[4096];

	n_others = 0;
	if (agent_proc_init(&agent) || made_host_init(&host) ||
	    made_host_add_process(&host, getpid(), "/ours") ||
	    !realpath("build/tests/host/fake_dies", fake))
		return -1;
	snprintf(script_path, sizeof(script_path), "%s/dies", agent.dir);
	setenv("FAKE_DIES", script_path, 1);
	setenv("PNMEM_DIES", fake, 1);
	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	write_script("die 1 " PCI " 0 8000 12000 0\n");
	if (agent_proc_start(&agent, args) || pn_memwatch_start() ||
	    pn_memwatch_source() != PN_SOURCE_AGENT)
		return -1;
	return test_until(die_is_there, NULL, 10000) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const suffixes[] = { "", ".pid", ".log" };
	char path[128];

	for (int i = 0; i < n_others; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	pn_memwatch_stop();
	agent_proc_kill(&agent);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", script_path, suffixes[i]);
		unlink(path);
	}
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

/* ---- the other engine: a process of its own, in a cgroup, with a list of pushes -------------- */

struct push {
	int place; /* -1: by name */
	const char *pci;
	uint8_t uuid; /* its first byte */
	uint64_t free_bytes, budget_bytes, used_bytes;
};

static int send_push(int sock, const struct push *push)
{
	struct proto_set_die by_place = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(by_place), 1),
		.die_id = push->place,
		.free_bytes = push->free_bytes,
		.budget_bytes = push->budget_bytes,
		.used_bytes = push->used_bytes,
	};
	struct proto_set_die_id by_name = {
		.header = proto_header_make(PROTO_SET_DIE_ID, sizeof(by_name), 1),
		.uuid = { push->uuid },
		.free_bytes = push->free_bytes,
		.budget_bytes = push->budget_bytes,
		.used_bytes = push->used_bytes,
	};
	struct proto_die_place reply;
	int r;

	if (push->pci)
		snprintf(by_name.pci, sizeof(by_name.pci), "%s", push->pci);
	r = push->place >= 0 ? raw_send(sock, &by_place, sizeof(by_place), NULL, 0)
			     : raw_send(sock, &by_name, sizeof(by_name), NULL, 0);
	if (!r && raw_receive(sock, &reply, sizeof(reply), NULL, 10000) <= 0)
		r = -EPIPE;
	return r; /* the agent may refuse it: what it must not do is something else */
}

/* Reads what it has said of these dies, and the level that comes of it. */
static bool sees_its_own(int sock)
{
	int memfd = raw_page(sock);
	struct page_view view;
	pn_mem_state seen;
	void *page;

	if (memfd < 0)
		return false;
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	close(memfd);
	return page != MAP_FAILED && !page_open(&view, page, PAGE_BYTES) &&
	       !page_read(&view, &seen, NULL) && seen.n_dies == PN_MEM_MAX_DIES &&
	       seen.per_die_free[3] == 0 && seen.level == PN_MEM_LEVEL_CRITICAL;
}

static void run_other(uid_t uid, const char *cgroup, const struct push *pushes, int n, int ready_fd)
{
	int sock;

	if (made_host_add_process(&host, getpid(), cgroup) || (uid && (setgid(uid) || setuid(uid))))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	sock = raw_connect(agent.socket_path);
	if (sock < 0 || raw_hello(sock))
		_exit(2);
	for (int i = 0; i < n; i++)
		if (send_push(sock, &pushes[i]))
			_exit(3);
	if (uid && !sees_its_own(sock))
		_exit(5);
	if (write(ready_fd, "", 1) == 1)
		pause();
	_exit(4);
}

/* Returns when it has pushed it all. */
static void start_other_as(uid_t uid, const char *cgroup, const struct push *pushes, int n)
{
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	if (!pid)
		run_other(uid, cgroup, pushes, n, fds[1]);
	others[n_others++] = pid;
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
}

static void start_other(const char *cgroup, const struct push *pushes, int n)
{
	start_other_as(0, cgroup, pushes, n);
}

static pn_mem_state read_now(pn_mem_ext *ret_ext)
{
	pn_mem_state state;

	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(pn_memwatch_read_ext(&state, ret_ext), 0);
	return state;
}

/* As wrong as can be, about every die there is and might be. */
static int worst_pushes(struct push *ret, int max)
{
	static const uint64_t bytes[] = { 0, 1, UINT64_MAX };
	int n = 0;

	for (int place = 0; place < PN_MEM_MAX_DIES && n < max; place++)
		ret[n++] = (struct push){ place,      NULL,
					  0,          bytes[place % 3],
					  UINT64_MAX, bytes[(place + 1) % 3] };
	return n;
}

/*
 * An engine of another group, or of another user, can say what it likes: not a byte of ours moves.
 */
static void expect_unmoved(uid_t uid, const char *cgroup)
{
	struct push pushes[PN_MEM_MAX_DIES + 2];
	pn_mem_ext ext, ext_after;
	pn_mem_state before = read_now(&ext), after;
	int n = worst_pushes(pushes, PN_MEM_MAX_DIES);

	pushes[n++] = (struct push){ -1, PCI, 0, 0, 5, 0 };
	pushes[n++] = (struct push){ -1, NULL, 9, 0, 5, 0 };
	start_other_as(uid, cgroup, pushes, n);
	after = read_now(&ext_after);
	/* But for the sampler, which a push sets to work: the die is the same. */
	assert_int_equal(after.n_dies, 1);
	assert_memory_equal(after.per_die_free, before.per_die_free, sizeof(after.per_die_free));
	assert_memory_equal(after.per_die_budget, before.per_die_budget,
			    sizeof(after.per_die_budget));
	assert_memory_equal(after.per_die_used, before.per_die_used, sizeof(after.per_die_used));
	assert_memory_equal(ext_after.die_pci, ext.die_pci, sizeof(ext.die_pci));
	assert_memory_equal(ext_after.die_uuid, ext.die_uuid, sizeof(ext.die_uuid));
	assert_int_equal(after.level, before.level);
	assert_int_equal(after.level, PN_MEM_LEVEL_OK);
}

static void test_other_group(void **unused)
{
	expect_unmoved(0, "/theirs");
}

static void test_other_user(void **unused)
{
	if (geteuid())
		skip_because("needs root to become another user");
	assert_int_equal(chmod(agent.dir, 0711), 0);
	expect_unmoved(NOBODY, "/ours");
}

/* One of our own group moves a real die's free bytes, up to its total, and nothing else of it. */
static void test_same_group(void **unused)
{
	static const struct push lies[] = {
		{ 0, NULL, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX },
		{ -1, PCI, 0, UINT64_MAX, 1, 3 * GIB },
		{ -1, PCI, 9, UINT64_MAX, UINT64_MAX, UINT64_MAX }, /* under another UUID */
	};
	pn_mem_ext ext;
	pn_mem_state state;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		start_other("/ours", &lies[i], 1);
		state = read_now(&ext);
		assert_true(state.per_die_free[0] <= TOTAL_BYTES);
		assert_int_equal(state.per_die_budget[0], TOTAL_BYTES - GIB);
		assert_true(state.per_die_used[0] <= TOTAL_BYTES);
		assert_string_equal(ext.die_pci[0], PCI);
	}
}

/* What we declare by an index stays what we declared, whoever uses the same index. */
static void test_declared(void **unused)
{
	struct push pushes[PN_MEM_MAX_DIES];
	int n = worst_pushes(pushes, PN_MEM_MAX_DIES);
	pn_mem_ext ext;
	pn_mem_state state;

	pn_memwatch_set_die(5, 3 * GIB, 8 * GIB, GIB);
	pn_memwatch_set_die(0, 4 * GIB, 8 * GIB, 2 * GIB); /* the real one */
	start_other("/ours", pushes, n);
	state = read_now(&ext);
	assert_int_equal(state.per_die_free[5], 3 * GIB);
	assert_int_equal(state.per_die_budget[5], 8 * GIB);
	assert_int_equal(state.per_die_used[5], GIB);
	assert_int_equal(state.per_die_used[0], 2 * GIB);
	assert_int_equal(state.per_die_budget[0], TOTAL_BYTES - GIB);
	/* And it goes with who declared it. */
	kill(others[0], SIGKILL);
	waitpid(others[0], NULL, 0);
	n_others = 0;
	for (int i = 0; i < 1000 && state.n_dies > 6; i++)
		state = read_now(&ext);
	assert_int_equal(state.n_dies, 6);
	assert_int_equal(state.per_die_free[5], 3 * GIB);
	assert_int_equal(state.per_die_budget[4], 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_other_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_declared, setup, teardown),
	};

	return cmocka_run_group_tests_name("push_scope", tests, NULL, NULL);
}
