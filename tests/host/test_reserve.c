/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reservations against a running agent on a machine that is made up: what it promises to several
 * engine processes, and what every reader sees while they come and go. How they end is
 * test_reserve_ends.c's, the race test_reserve_race.c's.
 */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
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
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/peer_proc.h"
#include "support/reserve_host.h"
#include "reserve_fixture.h"

#define NOBODY 65534

/* ---- what is promised ----------------------------------------------------------------------- */

/* 15 GiB above the reserve: 10 fit once, and who holds them is not in its own way. */
static void test_one_of_two(void **state)
{
	struct peer_answer got, other;

	start_both();
	got = peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.source, PN_SOURCE_AGENT);
	assert_int_equal(got.fit_bytes, 15 * GIB);
	assert_int_equal(got.host_reserved_bytes, 0);
	assert_int_equal(got.spike.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(got.spike.have_bytes, 15 * GIB);

	other = peer_reserve(&b, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(other.r, -ENOSPC);
	assert_int_equal(other.fit_bytes, 5 * GIB);
	assert_int_equal(other.host_reserved_bytes, 10 * GIB);
	assert_int_equal(other.spike.have_bytes, 5 * GIB);
	assert_int_equal(other.spec.have_bytes, 15 * GIB); /* the SPEC's own knows of none */
	/* Its own second one neither: it has not allocated the first yet. */
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 5 * GIB).r, 0);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 1).r, -ENOSPC);

	got = peer_end(&a, PEER_RELEASE, got.id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.host_reserved_bytes, 5 * GIB);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 10 * GIB).r, 0);
}

/* Admission of a burst of 2.4 GiB with 2 GiB left by others, refused and then not. */
static void test_admission_counts_others(void **state)
{
	struct peer_answer got;

	start_both();
	got = peer_reserve(&a, PN_RESERVE_HOST, 13 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.spike.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(peer_look(&b).spike.verdict, PN_VERDICT_REJECT);
	assert_int_equal(peer_look(&b).spike.check, PN_CHECK_HOST);
	assert_int_equal(peer_look(&b).spec.verdict, PN_VERDICT_ADMIT);
	peer_end(&a, PEER_RELEASE, got.id);
	assert_int_equal(peer_look(&b).spike.verdict, PN_VERDICT_ADMIT);
}

static void test_refusals(void **state)
{
	static const struct {
		int die;
		uint64_t bytes;
		uint32_t ttl_ms;
		int r;
	} rows[] = {
		{ PN_RESERVE_HOST, 0, 1000, -EINVAL },
		{ PN_RESERVE_HOST, 1, 0, -EINVAL },
		{ PN_RESERVE_HOST, 1, PN_RESERVE_TTL_MAX_MS + 1, -EINVAL },
		{ PN_RESERVE_HOST, 1, PN_RESERVE_TTL_MAX_MS, 0 },
		{ PN_RESERVE_HOST, UINT64_MAX, 1000, -ENOSPC },
		{ -2, 1, 1000, -EINVAL },
		{ 32, 1, 1000, -EINVAL },
		{ 31, 1, 1000, -ENODEV },
		{ 0, 1, 1000, -ENODEV },
	};
	uint64_t id = 0;

	start_both();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct peer_answer got =
			peer_proc_do(&a, (struct peer_ask){ .op = PEER_RESERVE,
							    .die = rows[i].die,
							    .bytes = rows[i].bytes,
							    .ttl_ms = rows[i].ttl_ms });

		assert_int_equal(got.r, rows[i].r);
		if (!got.r)
			id = got.id;
	}
	assert_int_equal(peer_end(&a, PEER_COMMIT, id + 1).r, -ESTALE);
	/* Only whose it is may end it; ids are each process's own. */
	assert_int_equal(peer_end(&b, PEER_RELEASE, id).r, -ESTALE);
	assert_int_equal(peer_look(&b).host_reserved_bytes, 1);
	assert_int_equal(peer_end(&a, PEER_RELEASE, id).r, 0);
	assert_int_equal(peer_end(&a, PEER_RELEASE, id).r, -ESTALE);
}

/* Siblings under a limit: each other's reservations count there, and those from outside do not. */
static void test_group_limit(void **state)
{
	struct peer_answer got;

	reserve_host_limit(&host, "pod", 20 * GIB, 7 * GIB); /* 1 GiB of reserve: 12 left */
	assert_int_equal(peer_proc_start(&a, 0), 0);
	assert_int_equal(peer_proc_start(&b, 0), 0);
	assert_int_equal(peer_proc_start(&c, 0), 0);
	reserve_host_place(&host, a.pid, "/pod/a");
	reserve_host_place(&host, b.pid, "/pod/b");
	reserve_host_place(&host, c.pid, "/podium");
	peer_proc_do(&a, (struct peer_ask){ .op = PEER_START });
	peer_proc_do(&b, (struct peer_ask){ .op = PEER_START });
	peer_proc_do(&c, (struct peer_ask){ .op = PEER_START });

	got = peer_reserve(&c, PN_RESERVE_HOST, 2 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 15 * GIB);
	got = peer_reserve(&a, PN_RESERVE_HOST, 8 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 12 * GIB); /* the group's, not the host's 13 */
	assert_int_equal(got.cgroup_reserved_bytes, 0);
	got = peer_reserve(&b, PN_RESERVE_HOST, 5 * GIB);
	assert_int_equal(got.r, -ENOSPC);
	assert_int_equal(got.fit_bytes, 4 * GIB);
	assert_int_equal(got.cgroup_reserved_bytes, 8 * GIB);
	assert_int_equal(got.host_reserved_bytes, 10 * GIB);
	assert_int_equal(got.spike.check, PN_CHECK_NONE);
	assert_int_equal(got.spike.have_bytes, 4 * GIB);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 4 * GIB).r, 0);
	got = peer_look(&c);
	assert_int_equal(got.spike.have_bytes, 3 * GIB); /* 15 less the group's 12 */
}

/* A die with a name is one die to every group; one without is each group's own. */
static void test_dies_of_two_groups(void **state)
{
	struct peer_ask ask = { .ttl_ms = PEER_TTL_MS };
	struct peer_answer got;

	assert_int_equal(peer_proc_start(&a, 0), 0);
	assert_int_equal(peer_proc_start(&b, 0), 0);
	reserve_host_place(&host, a.pid, "/one");
	reserve_host_place(&host, b.pid, "/two");
	peer_proc_do(&a, (struct peer_ask){ .op = PEER_START });
	peer_proc_do(&b, (struct peer_ask){ .op = PEER_START });
	peer_set_die(&a, 0, 20 * GIB);
	peer_set_die(&b, 0, 20 * GIB);
	for (int i = 0; i < 2; i++) {
		ask = (struct peer_ask){ .op = PEER_SET_DIE, .uuid = 7, .bytes = 30 * GIB };
		assert_int_equal(peer_proc_do(i ? &a : &b, ask).r, 1);
	}
	assert_int_equal(peer_reserve(&a, 0, 15 * GIB).r, 0);
	got = peer_reserve(&b, 0, 15 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 20 * GIB);
	assert_int_equal(got.die_reserved_bytes[0], 0);

	ask = (struct peer_ask){
		.op = PEER_RESERVE, .uuid = 7, .bytes = 20 * GIB, .ttl_ms = PEER_TTL_MS
	};
	assert_int_equal(peer_proc_do(&a, ask).r, 0);
	got = peer_proc_do(&b, ask);
	assert_int_equal(got.r, -ENOSPC);
	assert_int_equal(got.fit_bytes, 10 * GIB);
	assert_int_equal(got.die_reserved_bytes[1], 20 * GIB);
	/* Its place means the same die. */
	assert_int_equal(peer_reserve(&b, 1, 20 * GIB).r, -ENOSPC);
	assert_int_equal(peer_reserve(&b, 1, 10 * GIB).r, 0);
}

/* Reserves a byte at a time until that is refused; how many it got. */
static int fill(const struct peer_proc *peer)
{
	int held = 0, r;

	while (!(r = peer_reserve(peer, PN_RESERVE_HOST, 1).r))
		held++;
	assert_int_equal(r, -EDQUOT);
	return held;
}

static void test_bounds(void **state)
{
	struct peer_answer got;

	if (geteuid())
		skip_because("needs root to be several users");
	start_both();
	assert_int_equal(fill(&a), 64);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 1).r, 0); /* another's is not touched */
	peer_proc_kill(&b);

	assert_int_equal(chmod(host.agent.dir, 0711), 0);
	start_peer(&b, NOBODY);
	start_peer(&c, NOBODY);
	assert_int_equal(fill(&b), 64);
	assert_int_equal(fill(&c), 64);
	/* Another user sees its own; root all. */
	assert_int_equal(peer_proc_do(&a, (struct peer_ask){ .op = PEER_LIST }).r, 64 + 128);
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_int_equal(got.r, 128);
	assert_int_equal(got.line[0].uid, NOBODY);
	/* That user has as many as a user may have, whatever process asks. */
	peer_proc_kill(&a);
	start_peer(&a, NOBODY);
	assert_int_equal(fill(&a), 0);
}

/* What a command prints, up to so many bytes. */
static const char *output_of(const char *command)
{
	static char text[16384];
	FILE *out = popen(command, "re");
	size_t n;

	assert_non_null(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = 0;
	assert_int_equal(pclose(out), 0);
	return text;
}

static void test_commands(void **state)
{
	json_t *list, *line;
	const char *text;
	json_error_t error;

	start_both();
	peer_set_die(&a, 0, 20 * GIB);
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, 0);
	assert_int_equal(peer_reserve(&b, 0, 3 * GIB).r, 0);
	text = output_of("build/pnmem reservations");
	assert_non_null(strstr(text, "10.0 GiB"));
	assert_non_null(strstr(text, "die 0"));
	text = output_of("build/pnmem status");
	assert_non_null(strstr(text, "reserved host 10.0 GiB, die 0 3.0 GiB"));
	text = output_of("build/pnmem admit spike --json; true");
	assert_non_null(strstr(text, "\"claimed_bytes\": 10737418240"));

	list = json_loads(output_of("build/pnmem reservations --json"), 0, &error);
	assert_non_null(list);
	line = json_array_get(json_object_get(list, "reservations"), 0);
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), a.pid);
	assert_int_equal(json_integer_value(json_object_get(line, "bytes")), 10 * GIB);
	assert_true(json_is_true(json_object_get(line, "host")));
	assert_string_equal(json_string_value(json_object_get(line, "state")), "held");
	assert_in_range(json_integer_value(json_object_get(line, "left_ms")), 1, PEER_TTL_MS);
	line = json_array_get(json_object_get(list, "reservations"), 1);
	assert_int_equal(json_integer_value(json_object_get(line, "die")), 0);
	json_decref(list);
}

/* ---- commit --------------------------------------------------------------------------------- */

/*
 * What a thread reads without pause: extremes of what admission may give away, and of others' part.
 */
struct reader {
	pthread_t thread;
	_Atomic bool stop;
	uint64_t n_reads;
	uint64_t most_room_bytes;
	uint64_t least_reserved_bytes;
};

static void *read_on(void *arg)
{
	struct reader *reader = arg;

	while (!reader->stop) {
		pn_admit_result room;
		pn_mem_state state;
		pn_mem_ext ext;

		if (pn_memwatch_read_ext(&state, &ext))
			continue;
		pn_admit_load_spike_ext(&state, &ext, &room);
		if (room.have_bytes > reader->most_room_bytes)
			reader->most_room_bytes = room.have_bytes;
		if (ext.host_reserved_bytes < reader->least_reserved_bytes)
			reader->least_reserved_bytes = ext.host_reserved_bytes;
		reader->n_reads++;
	}
	return NULL;
}

static void reader_start(struct reader *reader)
{
	*reader = (struct reader){ .least_reserved_bytes = UINT64_MAX };
	assert_int_equal(pthread_create(&reader->thread, NULL, read_on, reader), 0);
}

static void reader_stop(struct reader *reader)
{
	reader->stop = true;
	pthread_join(reader->thread, NULL);
}

/* Whatever a process does with its own, it never sees less of others' than there is. */
static void test_own_part(void **state)
{
	struct reader reader;
	pn_mem_state s;
	pn_mem_ext ext;

	start_both();
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 3 * GIB).r, 0);
	reader_start(&reader);
	for (int i = 0; i < 1000; i++) {
		uint64_t id;
		/* Some of them end by their time to live, while the next ones come and go. */
		uint32_t ttl_ms = i % 10 ? PEER_TTL_MS : 1;

		if (pn_reserve(PN_RESERVE_HOST, GIB / 128, ttl_ms, &id, NULL))
			continue; /* as many are held as may be */
		assert_int_equal(pn_memwatch_read_ext(&s, &ext), 0);
		assert_true(ext.host_reserved_bytes >= 3 * GIB);
		if (ttl_ms > 1)
			assert_int_equal(i % 2 ? pn_release(id) : pn_commit(id), 0);
	}
	reader_stop(&reader);
	assert_true(reader.n_reads > 1000);
	assert_int_equal(reader.least_reserved_bytes, 3 * GIB); /* and its own taken off exactly */
}

/*
 * The bytes are never free to others twice: whoever reads meanwhile sees at most the 5 GiB that are
 * left.
 */
static void test_commit_of_the_host(void **state)
{
	struct peer_answer got;

	start_both();
	assert_int_equal(pn_memwatch_start(), 0);
	for (int i = 0; i < 100; i++) {
		struct reader reader;
		uint64_t id;

		got = peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB);
		assert_int_equal(got.r, 0);
		id = got.id;
		reader_start(&reader);
		reserve_host_avail(&host, 5 * GIB); /* allocated */
		got = peer_end(&a, PEER_COMMIT, id);
		assert_int_equal(got.r, 0);
		assert_int_equal(got.host_avail_bytes - RESERVE_HOST_RESERVE_BYTES, 5 * GIB);
		assert_int_equal(got.spike.have_bytes, 5 * GIB);
		assert_int_equal(peer_look(&b).host_reserved_bytes, 0);
		assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 6 * GIB).r, -ENOSPC);
		assert_int_equal(peer_end(&a, PEER_COMMIT, id).r, -ESTALE);
		reader_stop(&reader);
		assert_in_range(reader.most_room_bytes, 0, 5 * GIB);
		reserve_host_avail(&host, 15 * GIB); /* freed: the next one begins */
	}
}

static void test_commit_of_a_die(void **state)
{
	struct peer_answer got;
	uint64_t id;

	start_both();
	peer_set_die(&a, 0, 20 * GIB);
	got = peer_reserve(&a, 0, 15 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 20 * GIB);
	id = got.id;
	assert_int_equal(got.load.verdict, PN_VERDICT_ADMIT); /* its own is not in its way */
	assert_int_equal(got.load_die.verdict, PN_VERDICT_ADMIT);
	got = peer_look(&b);
	assert_int_equal(got.die_reserved_bytes[0], 15 * GIB);
	assert_int_equal(got.load.verdict, PN_VERDICT_REJECT);
	assert_int_equal(got.load_die.verdict, PN_VERDICT_REJECT);
	assert_int_equal(got.load_die.have_bytes, 5 * GIB);
	assert_int_equal(got.host_reserved_bytes, 0);

	/* Allocated, but no figure of the die is newer: it stays, for its owner now too. */
	got = peer_end(&a, PEER_COMMIT, id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.die_reserved_bytes[0], 15 * GIB);
	got = peer_reserve(&b, 0, 6 * GIB);
	assert_int_equal(got.r, -ENOSPC);
	assert_int_equal(got.fit_bytes, 5 * GIB);
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_int_equal(got.r, 1);
	assert_int_equal(got.line[0].state, PN_RESERVATION_COMMITTED);
	peer_set_die(&a, 0, 5 * GIB);
	got = peer_look(&b);
	assert_int_equal(got.die_reserved_bytes[0], 0);
	assert_int_equal(got.load_die.have_bytes, 5 * GIB);

	/* Pushed after it was allocated and before it is committed: gone at once. */
	got = peer_reserve(&b, 0, 4 * GIB);
	assert_int_equal(got.r, 0);
	peer_set_die(&b, 0, 1 * GIB);
	got = peer_end(&b, PEER_COMMIT, got.id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.die_reserved_bytes[0], 0);
	assert_int_equal(peer_reserve(&a, 0, 2 * GIB).fit_bytes, 1 * GIB);
}

/* ---- an engine ------------------------------------------------------------------------------ */

/*
 * Runs the reference engine until its first line, which says "ready" or why not; its exit status.
 */
static int run_engine(char line[static 256])
{
	int out[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		setenv("PN_LOAD_SPIKE_BYTES", "1M", 1);
		execl("build/tools/engine", "engine", "--weights=64M", "--port=0", NULL);
		_exit(127);
	}
	close(out[1]);
	n = read(out[0], line, 255);
	line[n > 0 ? n : 0] = 0;
	kill(pid, SIGTERM);
	close(out[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* It does not begin to load what another one has been promised, and does when that is over. */
static void test_engine(void **state)
{
	struct peer_answer got;
	char line[256];

	start_both();
	reserve_host_avail(&host, GIB / 8);
	got = peer_reserve(&a, PN_RESERVE_HOST, 100ull << 20);
	assert_int_equal(got.r, 0);
	assert_int_equal(run_engine(line), 4);
	assert_non_null(strstr(line, "host: 64 MiB wanted, 28 MiB neither in use nor reserved"));
	assert_int_equal(peer_end(&a, PEER_RELEASE, got.id).r, 0);
	assert_int_equal(run_engine(line), 0);
	assert_non_null(strstr(line, "ready on"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_of_two, setup, teardown),
		cmocka_unit_test_setup_teardown(test_admission_counts_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_of_two_groups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commands, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_part, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_of_the_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_of_a_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_engine, setup, teardown),
	};

	return cmocka_run_group_tests_name("reserve", tests, group_setup, group_teardown);
}
