/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plugin host closes the library while its watch still runs: the library's thread must find its
 * code, and the process lives.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "pn_mem_state.h"

/* In a child: exit status 0, or the line that failed. */
static void run_plugin(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*start)(void) = NULL, (*read_state)(pn_mem_state *) = NULL;
	pn_mem_state before, state;

	if (!library)
		_exit(1);
	*(void **)&start = dlsym(library, "pn_memwatch_start");
	*(void **)&read_state = dlsym(library, "pn_memwatch_read");
	if (!start || !read_state || start() || read_state(&before))
		_exit(2);
	if (dlclose(library))
		_exit(3);
	/*
	 * Its thread has run since, by the number of the snapshot. The code is still there to ask.
	 */
	do {
		usleep(10000);
		if (read_state(&state))
			_exit(4);
	} while (state.seq == before.seq);
	_exit(0);
}

static void test_close_without_stop(void **state)
{
	const char *build = getenv("BUILD");
	char path[256];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/libpnmem.so", build ? build : "build");
	setenv("PN_SOCKET", "/nonexistent/pnmem.sock", 1); /* so that the library polls */
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		run_plugin(path);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_close_without_stop) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
