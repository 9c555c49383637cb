/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmemd --replace: a new agent takes the socket over from the one that serves it. No connect ever
 * fails, engines that read and sleep all the while are back within a second and see nothing older
 * than they have seen (lib/watchers.h), what the old agent handed out stays readable and says that
 * it is retired; and an agent that does not end keeps its socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/raw_client.h"
#include "support/watchers.h"

#define ENGINES           3
#define REPLACEMENTS      8
#define REPLACEMENTS_SOAK 200
#define RETURN_MS         1000

static const char *const no_bpf[] = { "--no-bpf", NULL };
static const char *const replace_no_bpf[] = { "--replace", "--no-bpf", NULL };
static struct agent_proc agent;
static struct watchers watchers;

static int setup(void **state)
{
	int r = agent_proc_init(&agent);

	memset(&watchers, 0, sizeof(watchers));
	setenv("PN_LEVEL_HOLD_MS", "0", 1); /* the level is what the digit says, at once */
	return r;
}

static int teardown(void **state)
{
	if (watchers.count)
		watchers_stop(&watchers);
	agent_proc_destroy(&agent);
	unsetenv("PN_LEVEL_HOLD_MS");
	return 0;
}

static pid_t serving_pid(void)
{
	struct raw_client client;

	if (raw_client_open(&client, agent.socket_path))
		return -1;
	raw_client_close(&client);
	return (pid_t)client.agent_pid;
}

static bool new_one_serves(void *arg)
{
	return serving_pid() == *(pid_t *)arg;
}

/*
 * Starts a new agent in the place of `agent`, which ends by itself with status 0. The path is there
 * before and after, with nothing beside it.
 */
static void replace(const char *const args[])
{
	struct agent_proc old = agent;
	char next_path[128];

	assert_int_equal(agent_proc_start(&agent, args), 0); /* the old one answers, or the new */
	assert_int_equal(agent_proc_wait(&old), 0);
	assert_true(test_until(new_one_serves, &agent.pid, RETURN_MS));
	snprintf(next_path, sizeof(next_path), "%s.next", agent.socket_path);
	assert_int_equal(access(next_path, F_OK), -1);
}

/* ---- under engines -------------------------------------------------------------------------- */

/* Connects and says hello without a pause. */
static struct {
	_Atomic bool stop;
	_Atomic uint64_t connects, turned_away, hellos, unanswered;
	_Atomic uint64_t longest_ns; /* from the last good hello to the next one */
} knocker;

static void *knocker_main(void *arg)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	uint64_t good_ns = clock_now_ns();
	struct raw_client client;
	int sock;

	while (!atomic_load(&knocker.stop)) {
		atomic_fetch_add(&knocker.connects, 1);
		sock = raw_connect(agent.socket_path);
		if (sock < 0)
			atomic_fetch_add(&knocker.turned_away, 1);
		else
			close(sock);
		if (!raw_client_open(&client, agent.socket_path)) {
			uint64_t now_ns = clock_now_ns();

			raw_client_close(&client);
			atomic_fetch_add(&knocker.hellos, 1);
			if (now_ns - good_ns > atomic_load(&knocker.longest_ns))
				atomic_store(&knocker.longest_ns, now_ns - good_ns);
			good_ns = now_ns;
		} else {
			atomic_fetch_add(&knocker.unanswered, 1);
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static bool all_on_agent(void *arg)
{
	return watchers_on_agent(&watchers, agent.pid);
}

static bool all_see_digit(void *arg)
{
	return watchers_see_digit(&watchers);
}

static void expect(bool (*cond)(void *arg), int limit_ms, const char *what)
{
	bool came = test_until(cond, NULL, limit_ms);

	if (!watchers_are_well(&watchers))
		fail_msg("while waiting for: %s", what);
	if (!came)
		fail_msg("not within %d ms: %s", limit_ms, what);
}

static void test_under_engines(void **state)
{
	/* The folder's name is filled in by watchers_init. */
	const char *const first[] = { "--procfs", watchers.dir, NULL };
	const char *const hooks[] = { "--replace", "--procfs", watchers.dir, NULL };
	const char *const plain[] = { "--replace", "--procfs", watchers.dir, "--no-bpf", NULL };
	int replacements = watchers_soak() ? REPLACEMENTS_SOAK : REPLACEMENTS;
	uint64_t start_ns, longest_ns = 0;
	pthread_t thread;

	assert_int_equal(watchers_init(&watchers, agent.dir), 0);
	assert_int_equal(watchers_start(&watchers, ENGINES), 0);
	assert_int_equal(agent_proc_start(&agent, first), 0);
	expect(all_on_agent, RETURN_MS, "the first agent");
	memset(&knocker, 0, sizeof(knocker));
	assert_int_equal(pthread_create(&thread, NULL, knocker_main, NULL), 0);
	for (int i = 0; i < replacements; i++) {
		replace(i % 2 ? hooks : plain);
		start_ns = clock_now_ns();
		expect(all_on_agent, RETURN_MS, "the new agent");
		if (clock_now_ns() - start_ns > longest_ns)
			longest_ns = clock_now_ns() - start_ns;
		assert_int_equal(watchers_next_digit(&watchers), 0);
		expect(all_see_digit, RETURN_MS, "the level of now");
	}
	atomic_store(&knocker.stop, true);
	pthread_join(thread, NULL);
	print_message("# %d replacements: engines were on the new agent at most %llu ms after the "
		      "end of the old; %llu connects, %llu turned away; %llu hellos, %llu without "
		      "an answer, at most %llu ms from one to the next\n",
		      replacements, (unsigned long long)longest_ns / 1000000,
		      (unsigned long long)knocker.connects, (unsigned long long)knocker.turned_away,
		      (unsigned long long)knocker.hellos, (unsigned long long)knocker.unanswered,
		      (unsigned long long)knocker.longest_ns / 1000000);
	assert_true(knocker.hellos > (uint64_t)replacements);
	assert_int_equal(knocker.turned_away, 0);
	assert_true(knocker.longest_ns < RETURN_MS * 1000000ull);
}

/* ---- what is left of the old one ------------------------------------------------------------ */

static void test_old_page(void **unused)
{
	struct page_view view = { 0 };
	struct raw_client client;
	pn_mem_state before, after;
	const struct page *page;
	char byte;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(raw_client_open(&client, agent.socket_path), 0);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, client.memfd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &before, NULL), 0);
	assert_int_equal(atomic_load(&page->retired), 0);

	replace(replace_no_bpf);
	assert_int_equal(atomic_load(&page->retired), 1);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &after, NULL), 0);
	assert_true(after.seq >= before.seq);
	assert_int_equal(after.host_total_bytes, before.host_total_bytes);
	assert_int_equal(recv(client.sock, &byte, 1, 0), 0); /* hung up */

	/* A killed agent's page stays as well, but nobody is there to say so. */
	raw_client_close(&client);
	munmap((void *)page, PAGE_BYTES);
	assert_int_equal(raw_client_open(&client, agent.socket_path), 0);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, client.memfd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	agent_proc_kill(&agent);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &after, NULL), 0);
	assert_int_equal(after.host_total_bytes, before.host_total_bytes);
	assert_int_equal(atomic_load(&page->retired), 0);
	raw_client_close(&client);
	munmap((void *)page, PAGE_BYTES);
}

/* ---- with nobody to replace, or one that does not end ---------------------------------------- */

static void test_nobody(void **state)
{
	assert_int_equal(agent_proc_start(&agent, replace_no_bpf), 0);
	assert_int_equal(serving_pid(), agent.pid);
	agent_proc_kill(&agent); /* leaves its socket behind */
	assert_int_equal(agent_proc_start(&agent, replace_no_bpf), 0);
	assert_int_equal(serving_pid(), agent.pid);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(access(agent.socket_path, F_OK), -1);
}

/* An agent that hangs is not killed: the new one ends, and the socket is as it was. */
static void test_one_that_hangs(void **state)
{
	struct agent_proc new_agent;
	struct stat before, after;
	char next_path[128];

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(lstat(agent.socket_path, &before), 0);
	agent_proc_signal(&agent, SIGSTOP);
	new_agent = agent;
	assert_int_equal(agent_proc_start(&new_agent, replace_no_bpf), 0); /* it accepts, stopped */
	assert_int_equal(agent_proc_wait(&new_agent), 1);
	assert_int_equal(agent_proc_log_count(&agent, "does not end"), 1);
	assert_int_equal(lstat(agent.socket_path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	snprintf(next_path, sizeof(next_path), "%s.next", agent.socket_path);
	assert_int_equal(access(next_path, F_OK), -1);
	/* It has been asked to, so it ends as soon as it can, and takes its socket along. */
	agent_proc_signal(&agent, SIGCONT);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(access(agent.socket_path, F_OK), -1);
}

static bool inode_is_another(void *arg)
{
	const struct stat *before = arg;
	struct stat now;

	return !lstat(agent.socket_path, &now) && now.st_ino != before->st_ino;
}

/* Killed while it waits for one that hangs, a new agent leaves nothing that stops the next one. */
static void test_killed_while_it_waits(void **state)
{
	struct agent_proc new_agent;
	struct stat before;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(lstat(agent.socket_path, &before), 0);
	agent_proc_signal(&agent, SIGSTOP);
	new_agent = agent;
	assert_int_equal(agent_proc_start(&new_agent, replace_no_bpf), 0);
	assert_true(test_until(inode_is_another, &before, 5000));
	agent_proc_kill(&new_agent);
	agent_proc_signal(&agent, SIGCONT);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(agent_proc_start(&agent, replace_no_bpf), 0);
	assert_int_equal(serving_pid(), agent.pid);
	replace(replace_no_bpf); /* over what was left under the name beside it */
}

/*
 * As an agent did before there was --replace: at its end it removes what is at its path, whoever
 * made that, and then gives up the lock.
 */
static void old_agent_main(int ready_fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0), lock_fd, signal_number;
	char lock_path[128];
	sigset_t term;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	strcpy(addr.sun_path, agent.socket_path);
	snprintf(lock_path, sizeof(lock_path), "%s.lock", agent.socket_path);
	lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) ||
	    bind(sock, (struct sockaddr *)&addr, sizeof(addr)) || listen(sock, 8) ||
	    write(ready_fd, "", 1) != 1)
		_exit(1);
	sigwait(&term, &signal_number);
	unlink(agent.socket_path);
	_exit(0);
}

static bool serves(void *arg)
{
	return serving_pid() == agent.pid;
}

static void test_one_older_than_this(void **state)
{
	int ready[2], status;
	pid_t old;
	char byte;

	assert_int_equal(pipe(ready), 0);
	old = fork();
	if (!old)
		old_agent_main(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(agent_proc_start(&agent, replace_no_bpf), 0); /* the old one accepts */
	assert_int_equal(waitpid(old, &status, 0), old);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_true(test_until(serves, NULL, RETURN_MS));
}

static bool has_gone(void *arg)
{
	return serving_pid() != *(pid_t *)arg;
}

/* As it is told in the man page: into the background, and ready when the command returns. */
static void test_in_the_background(void **state)
{
	char command[256];
	pid_t pid;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	snprintf(command, sizeof(command), "build/pnmemd --no-bpf --replace --socket %s",
		 agent.socket_path);
	assert_int_equal(system(command), 0);
	assert_int_equal(agent_proc_wait(&agent), 0);
	pid = serving_pid();
	assert_true(pid > 0);
	kill(pid, SIGTERM);
	assert_true(test_until(has_gone, &pid, RETURN_MS));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_under_engines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_page, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_that_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_while_it_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_older_than_this, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_the_background, setup, teardown),
	};

	return cmocka_run_group_tests_name("replace", tests, NULL, NULL);
}
