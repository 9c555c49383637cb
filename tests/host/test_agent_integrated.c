/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A die with the host's memory moves with it, and is no reason to publish to engines that did not
 * ask. The die comes from a scripted sampler; who is in which cgroup from a made-up /proc.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "../skip.h"
#include "support/agent_dies.h"
#include "support/made_host.h"

#define ASKING_MS 500

static struct made_host host;

static int setup_host(void **unused)
{
	if (made_host_init(&host) || setup(unused))
		return -1;
	return made_host_add_process(&host, getpid(), "/ours");
}

static int teardown_host(void **unused)
{
	int r = teardown(unused);

	made_host_destroy(&host);
	return r;
}

static void start_integrated(void)
{
	const char *const args[] = { "--no-bpf",   "--procfs",           host.dir,
				     "--cuda-lib", "/fake/libcuda.so.1", NULL };

	script("die 1 0000:05:00.0 3 0 0 0\n");
	start_agent(args);
}

static bool is_the_hosts(void *arg)
{
	pn_memwatch_poll_now();
	read_snapshot();
	return state.n_dies == 1 && ext.die_state[0] == PN_SRC_OK &&
	       state.per_die_free[0] == state.host_avail_bytes;
}

/* In each snapshot the same as MemAvailable, and never stale. */
static void test_follows_the_host(void **unused)
{
	uint64_t end_ns, before_bytes;

	start_integrated();
	assert_true(test_until(is_the_hosts, NULL, 5000));
	before_bytes = state.host_avail_bytes;
	assert_int_equal(made_host_set_level(&host, PN_MEM_LEVEL_TIGHT), 0);
	assert_true(is_the_hosts(NULL));
	assert_true(state.host_avail_bytes < before_bytes);
	assert_int_equal(made_host_set_level(&host, PN_MEM_LEVEL_OK), 0);
	end_ns = clock_now_ns() + 12 * S; /* its limit is 10 s */
	while (clock_now_ns() < end_ns) {
		read_snapshot();
		assert_int_equal(ext.die_state[0], PN_SRC_OK);
		assert_true(state.per_die_free[0] == state.host_avail_bytes);
		usleep(50000);
	}
}

/* An engine of another group that asks all the time; says how often. */
static void run_asking(int out)
{
	uint64_t end_ns;
	unsigned n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (made_host_add_process(&host, getpid(), "/theirs") || pn_memwatch_start())
		_exit(1);
	if (write(out, &n, sizeof(n)) != sizeof(n))
		_exit(2);
	end_ns = clock_now_ns() + ASKING_MS * MS;
	for (; clock_now_ns() < end_ns; n++) {
		pn_memwatch_poll_now();
		usleep(500);
	}
	_exit(write(out, &n, sizeof(n)) != sizeof(n));
}

static void test_asking_is_for_oneself(void **unused)
{
	uint64_t last_looks = 0, end_ns;
	unsigned asked, published = 0;
	int fds[2], status;
	pid_t pid;

	start_integrated();
	assert_true(test_until(is_the_hosts, NULL, 5000));
	pn_memwatch_stop();
	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	if (!pid)
		run_asking(fds[1]);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(read(fds[0], &asked, sizeof(asked)), sizeof(asked));
	end_ns = clock_now_ns() + ASKING_MS * MS;
	while (clock_now_ns() < end_ns) {
		read_snapshot();
		published += ext.looks != last_looks;
		last_looks = ext.looks;
		usleep(100);
	}
	assert_int_equal(read(fds[0], &asked, sizeof(asked)), sizeof(asked));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
	print_message("# asked for %u looks, %u of them were published to all\n", asked, published);
	if (asked < 3 * ASKING_MS / 10)
		skip_because("too slow a machine for many looks");
	assert_true(published <= ASKING_MS / 10 + 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_follows_the_host, setup_host, teardown_host),
		cmocka_unit_test_setup_teardown(test_asking_is_for_oneself, setup_host,
						teardown_host),
	};

	return cmocka_run_group_tests_name("agent_integrated", tests, NULL, NULL);
}
