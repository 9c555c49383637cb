/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which agents the library believes: root's, its own user's, and the one that PN_AGENT_UID names.
 * A set-user-id program is told nothing by its environment. With an argument this program prints
 * the source that the library has.
 */
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "pn_memwatch.h"
#include "support/agent_proc.h"

#define NOBODY 65534
#define OTHER  65533

static struct agent_proc agent;
static char lines[1024];

static void keep_line(void *arg, const char *line)
{
	snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
}

/* The source that the library begins with under this PN_AGENT_UID (NULL: none). */
static pn_memwatch_source_t source_with(const char *agent_uid)
{
	pn_memwatch_source_t source;

	lines[0] = 0;
	if (agent_uid)
		setenv("PN_AGENT_UID", agent_uid, 1);
	else
		unsetenv("PN_AGENT_UID");
	assert_int_equal(pn_memwatch_start(), 0);
	source = pn_memwatch_source();
	pn_memwatch_stop();
	unsetenv("PN_AGENT_UID");
	return source;
}

/* In a child that becomes this user. */
static pn_memwatch_source_t source_of_user(uid_t uid)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setgroups(0, NULL) || setgid(uid) || setuid(uid) ? 99
								       : (int)source_with(NULL));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 99);
	return (pn_memwatch_source_t)WEXITSTATUS(status);
}

/* An agent of this user; the child that started it ends with the test. */
static pid_t start_agent_of(uid_t uid)
{
	static const char *const args[] = { "--no-bpf", NULL };
	int fds[2];
	pid_t pid;

	assert_int_equal(chown(agent.dir, uid, uid), 0);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		int r = setgroups(0, NULL) || setgid(uid) || setuid(uid) ||
			agent_proc_start(&agent, args);

		if (r || write(fds[1], &agent.pid, sizeof(agent.pid)) != sizeof(agent.pid))
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &agent.pid, sizeof(agent.pid)), sizeof(agent.pid));
	close(fds[0]);
	return pid;
}

static void end_agent_of(pid_t pid)
{
	int status;

	kill(agent.pid, SIGKILL);
	agent.pid = 0;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void test_agent_of_another_user(void **state)
{
	pid_t pid;

	if (geteuid())
		skip_because("needs root to become others");
	pid = start_agent_of(NOBODY);
	pn_memwatch_log_to(keep_line, NULL);
	assert_int_equal(source_with(NULL), PN_SOURCE_POLL);
	assert_non_null(strstr(lines, "is not used"));
	assert_null(strstr(strstr(lines, "is not used") + 1, "is not used"));
	assert_int_equal(source_with("65533"), PN_SOURCE_POLL);
	assert_int_equal(source_with("65534 "), PN_SOURCE_POLL);
	assert_int_equal(source_with("65534"), PN_SOURCE_AGENT);
	assert_int_equal(source_with("any"), PN_SOURCE_AGENT);
	assert_int_equal(source_of_user(OTHER), PN_SOURCE_POLL);
	assert_int_equal(source_of_user(NOBODY), PN_SOURCE_AGENT);
	end_agent_of(pid);
}

/* As a copy of this program that belongs to root with the set-user-id bit, run by another user. */
static char source_of_copy(const char *path)
{
	int fds[2], status;
	char source = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		if (!setgroups(0, NULL) && !setgid(OTHER) && !setuid(OTHER))
			execl(path, path, "source", (char *)NULL);
		_exit(99);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &source, 1), 1);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return source;
}

static void test_set_user_id(void **state)
{
	char path[128], command[512], self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	static const char *const args[] = { "--no-bpf", NULL };

	if (geteuid())
		skip_because("needs root for a set-user-id program");
	assert_true(n > 0);
	self[n] = 0;
	assert_int_equal(chmod(agent.dir, 0755), 0);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	snprintf(path, sizeof(path), "%s/copy", agent.dir);
	snprintf(command, sizeof(command), "cp '%s' '%s'", self, path);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(path, 0755), 0);
	/* Its environment names the socket of an agent that it believes ... */
	assert_int_equal(source_of_copy(path), 'A');
	/* ... unless it runs with more rights than the user who chose that environment. */
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(source_of_copy(path), 'P');
	unlink(path);
	agent_proc_kill(&agent);
}

static int setup(void **state)
{
	return agent_proc_init(&agent) || chmod(agent.dir, 0755);
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	agent_proc_destroy(&agent);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_agent_of_another_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_user_id, setup, teardown),
	};

	if (argc > 1) {
		pn_memwatch_start();
		putchar(pn_memwatch_source() == PN_SOURCE_AGENT ? 'A' : 'P');
		return 0;
	}
	return cmocka_run_group_tests_name("agent_user", tests, NULL, NULL);
}
