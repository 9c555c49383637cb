/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of pages is the agent's as long as anybody has them open: clients that keep their
 * descriptors and come again are given the same pages, and new ones within a budget of their user
 * and of their group. Other users and groups are served meanwhile.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/page.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

#define USER     65534
#define FIRST_ID 70000
/* Of view_pages.c: what one user or group can have at once, which is half of all. */
#define SHARE 2048
/* What waits for a next view. */
#define KEPT 1024
/* While the test runs the budget grows: one in a second in all, of which a half. */
#define TRIES (SHARE + 400)

static struct agent_proc agent;
static struct made_host host;

static int setup(void **state)
{
	const char *const args[] = { "--no-bpf", "--procfs", host.dir, NULL };
	struct rlimit descriptors;

	getrlimit(RLIMIT_NOFILE, &descriptors);
	descriptors.rlim_cur = descriptors.rlim_max;
	setrlimit(RLIMIT_NOFILE, &descriptors);
	if (agent_proc_init(&agent) || chmod(agent.dir, 0711) || made_host_init(&host))
		return -1;
	if (made_host_add_process(&host, getpid(), "/here"))
		return -1;
	return agent_proc_start(&agent, args);
}

static int teardown(void **state)
{
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

static int agent_pages(void)
{
	int n = 0;

	assert_true(agent_proc_descriptors(&agent, &n) > 0);
	return n;
}

/* Connects, says hello and hangs up. The descriptor of the page or -errno. */
static int take_page(void)
{
	int sock = raw_connect(agent.socket_path), memfd;

	if (sock < 0)
		return sock;
	memfd = raw_page(sock);
	close(sock);
	return memfd;
}

static uint64_t inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static unsigned n_distinct(uint64_t *inodes, unsigned n)
{
	unsigned distinct = 0;

	qsort(inodes, n, sizeof(*inodes), compare);
	for (unsigned i = 0; i < n; i++)
		distinct += !i || inodes[i] != inodes[i - 1];
	return distinct;
}

/* What an attacker was given. */
struct taken {
	unsigned n_pages; /* distinct */
	unsigned n_refused;
	int refusal; /* the last */
	bool polls;  /* libpnmem in the same place goes by itself */
	bool others_served;
	bool admin_served;
};

/* In a child: the test process stays root. Its answer. */
static struct taken run_in_child(void (*fn)(struct taken *taken))
{
	struct taken *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		     taken;
	int status;
	pid_t pid;

	assert_true(shared != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(shared);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	taken = *shared;
	munmap(shared, sizeof(*shared));
	return taken;
}

static bool is_served_as(uid_t uid)
{
	int memfd;

	if (seteuid(0) || seteuid(uid))
		return false;
	memfd = take_page();
	if (memfd >= 0)
		close(memfd);
	return memfd >= 0;
}

static bool is_served_as_admin(void)
{
	const struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	struct proto_welcome welcome = { 0 };
	int sock;
	bool served;

	if (seteuid(0))
		return false;
	sock = raw_connect(agent.socket_path);
	served = sock >= 0 && !raw_send_as_admin(sock, &hello, sizeof(hello)) &&
		 raw_receive(sock, &welcome, sizeof(welcome), NULL, 10000) == sizeof(welcome) &&
		 !welcome.header.status;
	close(sock);
	return served;
}

/* ---- one group, one user --------------------------------------------------------------------- */

static void come_again(struct taken *taken)
{
	static uint64_t inodes[1000];
	unsigned n = 0;

	if (setuid(USER))
		_exit(1);
	for (int i = 0; i < 1000; i++) {
		int memfd = take_page();

		if (memfd < 0)
			taken->refusal = memfd;
		else
			inodes[n++] = inode(memfd);
	}
	taken->n_pages = n_distinct(inodes, n);
}

static void test_come_again(void **state)
{
	struct taken taken = run_in_child(come_again);

	assert_int_equal(taken.refusal, 0);
	assert_int_equal(taken.n_pages, 1);
}

/* The page says when it is not published, and is live again for the next client. */
static void test_retired_meanwhile(void **state)
{
	int sock = raw_connect(agent.socket_path), memfd = raw_page(sock), again;
	const struct page *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	uint64_t seq;

	assert_true(page != MAP_FAILED);
	assert_int_equal(page->retired, 0);
	seq = page->seq;
	close(sock);
	/* Whatever this one waits for comes after the agent has seen the end of the first. */
	for (int i = 0; i < 10000 && !page->retired; i++)
		usleep(1000);
	assert_int_equal(page->retired, 1);
	sock = raw_connect(agent.socket_path);
	again = raw_page(sock);
	assert_int_equal(inode(again), inode(memfd));
	assert_int_equal(page->retired, 0);
	assert_true(page->seq > seq);
	close(sock);
	close(memfd);
	close(again);
	munmap((void *)page, PAGE_BYTES);
}

/* ---- one group, many users ------------------------------------------------------------------- */

static void come_as_many(struct taken *taken)
{
	static uint64_t inodes[TRIES];
	unsigned n = 0;

	if (made_host_add_process(&host, getpid(), "/here/a"))
		_exit(1);
	for (int i = 0; i < TRIES; i++) {
		int memfd;

		if (seteuid(0) || seteuid(FIRST_ID + i))
			_exit(1);
		memfd = take_page();
		if (memfd >= 0) {
			inodes[n++] = inode(memfd);
			continue;
		}
		taken->n_refused++;
		taken->refusal = memfd;
	}
	taken->n_pages = n_distinct(inodes, n);
	if (pn_memwatch_start())
		_exit(2);
	taken->polls = pn_memwatch_source() != PN_SOURCE_AGENT;
	pn_memwatch_stop();
	taken->admin_served = is_served_as_admin();
	/* The group beside it, and the one that all are in, have shares of their own. */
	if (seteuid(0) || made_host_add_process(&host, getpid(), "/here/b"))
		_exit(3);
	taken->others_served = is_served_as(USER) && is_served_as(0);
	if (seteuid(0) || made_host_add_process(&host, getpid(), "/here"))
		_exit(3);
	taken->others_served &= is_served_as(USER);
}

static void test_many_users(void **state)
{
	struct taken taken = run_in_child(come_as_many);

	printf("# %d users of one group were given %u pages, %u were refused\n", TRIES,
	       taken.n_pages, taken.n_refused);
	assert_true(taken.n_pages >= SHARE - 1);
	assert_true(taken.n_refused > 0);
	assert_int_equal(taken.refusal, -EAGAIN);
	assert_true(taken.polls);
	assert_true(taken.others_served);
	assert_true(taken.admin_served);
}

/* ---- many groups, one user ------------------------------------------------------------------- */

static void come_from_many(struct taken *taken)
{
	static uint64_t inodes[TRIES];
	unsigned n = 0;

	for (int i = 0; i < TRIES; i++) {
		char cgroup[32];
		int memfd;

		/* Not all in one folder, so that the folder's budget is not what refuses. */
		snprintf(cgroup, sizeof(cgroup), "/%d/a", i);
		if (seteuid(0) || made_host_add_process(&host, getpid(), cgroup) || seteuid(USER))
			_exit(1);
		memfd = take_page();
		if (memfd >= 0) {
			inodes[n++] = inode(memfd);
			continue;
		}
		taken->n_refused++;
		taken->refusal = memfd;
	}
	taken->n_pages = n_distinct(inodes, n);
	taken->others_served = is_served_as(USER - 1);
}

static void test_many_groups(void **state)
{
	struct taken taken = run_in_child(come_from_many);

	printf("# one user was given %u pages from %d groups, and refused %u\n", taken.n_pages,
	       TRIES, taken.n_refused);
	assert_true(taken.n_pages >= SHARE - 1);
	assert_true(taken.n_refused > 0);
	assert_int_equal(taken.refusal, -EAGAIN);
	assert_true(taken.others_served);
	/* Of those that no view has, the agent keeps no more than this. */
	assert_in_range(agent_pages(), 1, KEPT + 2);
}

/* Nobody is given the page of a client that asks for none: it counts no longer than its view. */
static void subscribe_from_many(struct taken *taken)
{
	struct proto_subscribe ask = { .what = PROTO_TELL_CHANGE };

	for (int i = 0; i < TRIES; i++) {
		struct proto_header reply;
		char cgroup[32];
		int sock;

		snprintf(cgroup, sizeof(cgroup), "/%d/a", i);
		if (seteuid(0) || made_host_add_process(&host, getpid(), cgroup) || seteuid(USER))
			_exit(1);
		ask.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask), 1);
		sock = raw_connect(agent.socket_path);
		if (sock < 0 || raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
		    raw_receive(sock, &reply, sizeof(reply), NULL, 10000) < (ssize_t)sizeof(reply))
			_exit(2);
		taken->n_refused += reply.status != 0;
		close(sock);
	}
}

static bool has_one_page(void *arg)
{
	return agent_pages() == 1;
}

static void test_subscribers(void **state)
{
	assert_int_equal(run_in_child(subscribe_from_many).n_refused, 0);
	/* The host's own. */
	assert_true(test_until(has_one_page, NULL, 10000));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_come_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retired_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_users, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_groups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_subscribers, setup, teardown),
	};

	if (geteuid()) {
		printf("1..0 # SKIP not root\n# skip: test_view_pages: not root\n");
		return 0;
	}
	return cmocka_run_group_tests_name("view_pages", tests, NULL, NULL);
}
