/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference engine under a hard cgroup limit: without pnmem the kernel kills it, with pnmem it
 * lives, finishes what it admitted and refuses the rest in good form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent_proc.h"
#include "support/engine_proc.h"
#include "../skip.h"
#include "../unit/gguf_writer.h"

#define MIB              ((size_t)1 << 20)
#define LIMIT_BYTES      (256 * MIB)
#define RESERVE_BYTES    (LIMIT_BYTES / 100 * 15)
#define KILLED_BY_KERNEL (128 + SIGKILL)
#define EXIT_REFUSED     4

/*
 * The spike: each request takes 19 MiB of KV while it lives and 32 MiB more during its prefill,
 * 1.6 GiB in all; beside 48 MiB of weights and the reserve there is room for 6 or so at a time.
 */
#define SPIKE_REQUESTS 32
#define SPIKE_BODY     "{\"prompt_tokens\": 1024, \"max_tokens\": 64}"
#define SPIKE_ARGS                                                                                 \
	"--weights=48M", "--kv-bytes-per-token=128K", "--kv=q4", "--slots=32", "--ctx=8192",       \
		"--step-us=2000", "--queue-ms=3000"

#define SMALL_BODY "{\"prompt_tokens\": 100, \"max_tokens\": 4}"

static struct pressure_group group;
static struct engine_proc engine;
static struct agent_proc agent; /* dir "": none made */
static char model_path[32];     /* "": none written */

static int group_setup(void **state)
{
	int r = pressure_group_create(&group, LIMIT_BYTES);

	memset(&engine, 0, sizeof(engine));
	engine.stdout_fd = -1;
	*state = r == -ENOENT || r == -EACCES || r == -EPERM || r == -EROFS ? strerror(-r) : NULL;
	return r && !*state ? r : 0;
}

static int group_teardown(void **state)
{
	engine_proc_destroy(&engine);
	pressure_group_destroy(&group);
	if (*agent.dir)
		agent_proc_destroy(&agent);
	memset(&agent, 0, sizeof(agent));
	unsetenv("PN_PSI_FULL_REJECT");
	unsetenv("PN_HOST_RESERVE_BYTES");
	if (*model_path)
		unlink(model_path);
	*model_path = '\0';
	return 0;
}

static void need_group(void **state)
{
	if (*state)
		skip_because("no memory cgroup can be made: %s", (const char *)*state);
}

/* ---- what the kernel says of the group ---------------------------------------------------- */

/* The number after key in a file of the group ("": the file is the number). -1: not there. */
static long long group_number(const char *v1_name, const char *v2_name, const char *key)
{
	char path[512], line[128];
	long long number = -1;
	size_t key_length = strlen(key);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group.path, group.is_v1 ? v1_name : v2_name);
	file = fopen(path, "re");
	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, key_length))
			number = strtoll(line + key_length, NULL, 10);
	if (file)
		fclose(file);
	return number;
}

static long long oom_kills(void)
{
	return group_number("memory.oom_control", "memory.events", "oom_kill ");
}

static long long used_bytes(void)
{
	return group_number("memory.usage_in_bytes", "memory.current", "");
}

/* A neighbour in the group that leaves only headroom_bytes of the limit. */
static pid_t neighbour_start(size_t headroom_bytes)
{
	size_t bytes = LIMIT_BYTES - headroom_bytes - (size_t)used_bytes();
	pid_t pid = fork();
	uint8_t *ptr;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ptr == MAP_FAILED || pressure_group_join(&group))
		_exit(1);
	for (size_t at = 0; at < bytes; at += 4096)
		((volatile uint8_t *)ptr)[at] = 1;
	for (;;)
		pause();
}

/* ---- the spike ---------------------------------------------------------------------------- */

struct client {
	pthread_t thread;
	pthread_barrier_t *start;
	struct http_reply reply;
};

struct tally {
	unsigned finished, shortened, refused, lost;
};

static void *client_main(void *arg)
{
	struct client *client = arg;

	pthread_barrier_wait(client->start);
	client->reply = engine_ask(&engine, "/v1/completions", SPIKE_BODY);
	return NULL;
}

/* A refusal in good form: when to come back, and why. */
static void refusal_check(const struct http_reply *reply)
{
	json_t *json = json_loads(reply->body, 0, NULL);
	const char *reason = "", *verdict = "";
	int admitted = 1;

	assert_true(reply->retry_after_s >= 1);
	assert_non_null(json);
	assert_int_equal(json_unpack(json, "{s:b, s:s, s:s}", "admitted", &admitted, "verdict",
				     &verdict, "reason", &reason),
			 0);
	assert_false(admitted);
	assert_string_equal(verdict, "reject");
	assert_true(strlen(reason) > 10);
	json_decref(json);
}

static void reply_count(const struct http_reply *reply, struct tally *tally)
{
	switch (reply->status) {
	case 200:
		assert_non_null(strstr(reply->body, "\"admitted\":true"));
		tally->finished++;
		tally->shortened += strstr(reply->body, "\"verdict\":\"cap\"") != NULL;
		break;
	case 503:
		refusal_check(reply);
		tally->refused++;
		break;
	case 0:
		tally->lost++;
		break;
	default:
		fail_msg("status %d: %s", reply->status, reply->body);
	}
}

/* All at once; returns when each has its reply, or has lost its connection. */
static struct tally spike_run(void)
{
	static struct client clients[SPIKE_REQUESTS];
	struct tally tally = { 0 };
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, SPIKE_REQUESTS);
	for (int i = 0; i < SPIKE_REQUESTS; i++) {
		clients[i].start = &start;
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]),
				 0);
	}
	for (int i = 0; i < SPIKE_REQUESTS; i++)
		pthread_join(clients[i].thread, NULL);
	pthread_barrier_destroy(&start);
	for (int i = 0; i < SPIKE_REQUESTS; i++)
		reply_count(&clients[i].reply, &tally);
	return tally;
}

/* A row of the README's table. */
static void table_print(const char *name, const struct tally *tally)
{
	long long peak = group_number("memory.max_usage_in_bytes", "memory.peak", "");

	printf("# %-12s requests %d  finished %u (%u shortened)  refused %u  lost %u  "
	       "peak %lld of %zu MiB  killed by the kernel: %s\n",
	       name, SPIKE_REQUESTS, tally->finished, tally->shortened, tally->refused, tally->lost,
	       peak / (long long)MIB, LIMIT_BYTES / MIB, oom_kills() > 0 ? "yes" : "no");
}

static void test_spike_kills_the_unguarded(void **state)
{
	const char *const args[] = { SPIKE_ARGS, "--no-guard", NULL };
	struct tally tally;
	int status;

	need_group(state);
	assert_int_equal(engine_proc_start(&engine, &group, NULL, args), 0);
	tally = spike_run();
	status = engine_proc_wait(&engine);
	table_print("--no-guard", &tally);
	assert_int_equal(status, KILLED_BY_KERNEL);
	assert_true(oom_kills() >= 1);
	assert_true(tally.lost > 0);
	assert_int_equal(tally.refused, 0);
}

static void spike_survive(const char *name, const char *socket_path)
{
	const char *const args[] = { SPIKE_ARGS, NULL };
	struct tally tally;
	char summary[128];

	assert_int_equal(engine_proc_start(&engine, &group, socket_path, args), 0);
	assert_non_null(strstr(engine.ready, socket_path ? "by pnmemd" : "by its own poll"));
	tally = spike_run();
	table_print(name, &tally);
	assert_int_equal(tally.lost, 0);
	assert_int_equal(tally.finished + tally.refused, SPIKE_REQUESTS);
	/* It neither refused all nor was the spike too small to show anything. */
	assert_true(tally.finished >= 4);
	assert_true(tally.refused >= 4);
	assert_int_equal(oom_kills(), 0);

	kill(engine.pid, SIGTERM);
	assert_int_equal(engine_proc_wait(&engine), 0);
	snprintf(summary, sizeof(summary),
		 "finished %u, of them shortened %u; refused %u, failed 0", tally.finished,
		 tally.shortened, tally.refused);
	assert_string_equal(engine.summary, summary);
}

static void test_spike_spares_the_guarded(void **state)
{
	need_group(state);
	spike_survive("guarded", NULL);
}

static void test_spike_spares_it_with_the_agent(void **state)
{
	const char *const args[] = { "--no-bpf", NULL };

	need_group(state);
	/* The agent sees the host's PSI, to which other programs add: not what is tested. */
	setenv("PN_PSI_FULL_REJECT", "100", 1);
	setenv("PN_HOST_RESERVE_BYTES", "64M", 1);
	assert_int_equal(agent_proc_init(&agent), 0);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	spike_survive("with agent", agent.socket_path);
}

/* ---- a load that does not fit ------------------------------------------------------------- */

static void load_check(const char *guard_arg, int want_status, bool want_oom_kill)
{
	const char *const args[] = { "--weights=512M", guard_arg, NULL };

	assert_int_equal(engine_proc_start(&engine, &group, NULL, args), -ECHILD);
	assert_int_equal(engine_proc_wait(&engine), want_status);
	assert_int_equal(oom_kills() > 0, want_oom_kill);
}

static void test_load_kills_the_unguarded(void **state)
{
	need_group(state);
	load_check("--no-guard", KILLED_BY_KERNEL, true);
}

static void test_load_is_refused_in_time(void **state)
{
	need_group(state);
	load_check(NULL, EXIT_REFUSED, false);
}

/* One layer of one head of 64: 512 bytes of f32 KV a token, no weights. */
static void model_write(void)
{
	static struct file gguf;
	FILE *file;

	strcpy(model_path, "/tmp/pnmem-model-XXXXXX");
	file = fdopen(mkstemp(model_path), "w");

	minimal(&gguf);
	finish(&gguf, 32, 0);
	assert_non_null(file);
	assert_int_equal(fwrite(gguf.bytes, 1, gguf.n, file), gguf.n);
	assert_int_equal(fclose(file), 0);
}

/* By 262144 tokens of KV in all: 10 GiB of the made-up model's, 128 MiB of the file's. */
static void test_dies(void **state)
{
	static const struct {
		const char *args[4];
		int status; /* EXIT_SUCCESS: it loads, serves and ends when told */
	} cases[] = {
		{ { "--die=4G", NULL }, EXIT_REFUSED },
		{ { "--die=4G", "--no-guard", NULL }, EXIT_FAILURE },
		{ { "--die=8G", "--die=8G", NULL }, EXIT_SUCCESS },
		{ { "--die=4G", "--model=MODEL", NULL }, EXIT_SUCCESS },
		{ { "--model=/nonexistent", NULL }, EXIT_FAILURE },
	};
	char model_arg[64];

	need_group(state);
	model_write();
	snprintf(model_arg, sizeof(model_arg), "--model=%s", model_path);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *args[4] = { 0 };
		bool starts;

		for (int j = 0; cases[i].args[j]; j++)
			args[j] = strcmp(cases[i].args[j], "--model=MODEL") ? cases[i].args[j]
									    : model_arg;
		starts = !engine_proc_start(&engine, &group, NULL, args);
		if (starts && engine_ask(&engine, "/v1/completions", SMALL_BODY).status == 200)
			kill(engine.pid, SIGTERM);
		if (engine_proc_wait(&engine) != cases[i].status ||
		    starts != (cases[i].status == EXIT_SUCCESS))
			fail_msg("case %zu: %s, %s", i, starts ? "started" : "not started",
				 engine.summary);
		engine_proc_destroy(&engine);
	}
}

/* ---- a neighbour -------------------------------------------------------------------------- */

static bool unready(void *arg)
{
	return engine_ask(&engine, "/readyz", NULL).status == 503;
}

static bool serves(void *arg)
{
	return engine_ask(&engine, "/v1/completions", SMALL_BODY).status == 200 && !unready(NULL);
}

static void test_neighbour_makes_it_shed(void **state)
{
	const char *const args[] = { "--weights=16M", NULL };
	struct http_reply reply;
	pid_t neighbour;

	need_group(state);
	assert_int_equal(engine_proc_start(&engine, &group, NULL, args), 0);
	assert_true(serves(NULL));

	neighbour = neighbour_start(RESERVE_BYTES / 2);
	assert_true(test_until(unready, NULL, 20000));
	assert_int_equal(engine_ask(&engine, "/healthz", NULL).status, 200);
	/* The first is denied by admission, the second by the gate, which that closed. */
	for (int i = 0; i < 2; i++) {
		reply = engine_ask(&engine, "/v1/completions", SMALL_BODY);
		assert_int_equal(reply.status, 503);
		refusal_check(&reply);
		assert_non_null(strstr(reply.body, "\"level_name\":\"CRITICAL\""));
		assert_non_null(strstr(reply.body, i ? "the queue is shed" : "cgroup"));
	}

	pressure_stop(neighbour);
	assert_true(test_until(serves, NULL, 20000));
	assert_int_equal(oom_kills(), 0);
}

/* Slack above the reserve below the reserve, and not below a quarter of it. */
static bool at_watch(void *arg)
{
	return LIMIT_BYTES - (size_t)used_bytes() <= RESERVE_BYTES / 8 * 15;
}

/* Rung 4a: at WATCH a cache configured as f32 is laid out as Q4. */
static void test_watch_forces_q4(void **state)
{
	const char *const args[] = { "--weights=0", NULL };
	pid_t neighbour;

	need_group(state);
	neighbour = neighbour_start(RESERVE_BYTES / 4 * 7);
	assert_true(test_until(at_watch, NULL, 20000));
	assert_int_equal(engine_proc_start(&engine, &group, NULL, args), 0);
	pressure_stop(neighbour);
	assert_non_null(strstr(engine.ready, "Q4 KV"));
	/* As allocated, not as the level would have it now. */
	assert_true(test_until(serves, NULL, 20000));
	assert_non_null(
		strstr(engine_ask(&engine, "/v1/completions", SMALL_BODY).body, "\"kv\":\"q4_0\""));
}

/* ---- the front ---------------------------------------------------------------------------- */

static void test_front(void **state)
{
	static const struct {
		const char *path, *body;
		int status;
		const char *text;
	} cases[] = {
		{ "/healthz", NULL, 200, "alive" },
		{ "/readyz", NULL, 200, "\"ready\":true" },
		{ "/nothing", NULL, 404, "no such resource" },
		{ "/v1/completions", NULL, 404, "no such resource" },
		{ "/v1/completions", "", 400, "want" },
		{ "/v1/completions", "{", 400, "want" },
		{ "/v1/completions", "[1, 2]", 400, "want" },
		{ "/v1/completions", "{\"prompt_tokens\": 10}", 400, "want" },
		{ "/v1/completions", "{\"prompt_tokens\": \"10\", \"max_tokens\": 1}", 400,
		  "want" },
		{ "/v1/completions", "{\"prompt_tokens\": 0, \"max_tokens\": 1}", 400, "want" },
		{ "/v1/completions", "{\"prompt_tokens\": 1, \"max_tokens\": 0}", 400, "want" },
		{ "/v1/completions", "{\"prompt_tokens\": 4000, \"max_tokens\": 97}", 400, "want" },
		{ "/v1/completions", "{\"prompt_tokens\": 9223372036854775807, \"max_tokens\": 1}",
		  400, "want" },
		{ "/v1/completions", SMALL_BODY, 200,
		  "\"fit_tokens\":100,\"generated_tokens\":4,\"kv_rows\":104" },
		/* Rung 4b: SnapKV's cap of 2048 rows, and those since. */
		{ "/v1/completions", "{\"prompt_tokens\": 3000, \"max_tokens\": 8}", 200,
		  "\"kv_rows\":2056" },
	};
	const char *const args[] = { "--weights=16M", "--kv-bytes-per-token=4K", "--ctx=4096",
				     "--kv-evict", NULL };

	need_group(state);
	assert_int_equal(engine_proc_start(&engine, &group, NULL, args), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_reply reply = engine_ask(&engine, cases[i].path, cases[i].body);

		if (reply.status != cases[i].status || !strstr(reply.body, cases[i].text))
			fail_msg("%s %s: %d %s", cases[i].path, cases[i].body ? cases[i].body : "",
				 reply.status, reply.body);
	}
}

int main(void)
{
#define in_group(test) cmocka_unit_test_setup_teardown(test, group_setup, group_teardown)
	const struct CMUnitTest tests[] = {
		in_group(test_spike_kills_the_unguarded),
		in_group(test_spike_spares_the_guarded),
		in_group(test_spike_spares_it_with_the_agent),
		in_group(test_load_kills_the_unguarded),
		in_group(test_load_is_refused_in_time),
		in_group(test_dies),
		in_group(test_neighbour_makes_it_shed),
		in_group(test_watch_forces_q4),
		in_group(test_front),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
