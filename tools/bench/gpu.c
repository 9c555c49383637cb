/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dies, on the stand-in driver, where a call costs next to nothing and what is left is ours:
 *
 * - from an allocation (or free) in an engine until that engine, asleep on the snapshot, runs again
 *   with the die's new figure in hand: uprobe, ring, agent, sampler, agent, publish. Beside the
 * bare chain: the same uprobe in a process that does nothing but ring buffer -> epoll -> futex, and
 * the engine asleep on that. The clock is read before the call, which takes about a microsecond: at
 *   its return the process that it wakes may have the engine's CPU before the engine has read it;
 * - what a publish takes that is asked for while the sampler hangs in the driver, beside one while
 * it does not;
 * - what an attached uprobe adds to an allocation call, as CPU time of the process that makes it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../tests/cuda/fake_cuda.h"
#include "agent/gpu/cuda_hooks.h"
#include "agent/gpu/uprobe.h"
#include "bench.h"
#include "host/clock.h"
#include "host/cuda_calls.h"
#include "host/elf_symbols.h"
#include "host/futex.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define LIBRARY    "build/tests/libcuda.so.1"
#define STEP_BYTES (256 * MIB)
/* Longer than the 2 ms that passes stay apart, so that no call waits for the pass of the one
 * before. */
#define PAUSE_MS 5
#define LIMIT_MS 4000 /* less than the slow pass, which must not be measured for a lost call */
#define READY_MS 20000
/* Asked for in a row, before the sampler hangs, or goes on. */
#define PUBLISHES 20
/* Allocations in a row, of which the CPU time is taken. */
#define COST_CALLS 1000
#define COST_BYTES MIB

#define COUNT_ONE(symbol, name, version, flags) +1
#define PROBES                                  (0 CUDA_MEMORY_CALLS(COUNT_ONE))

struct gpu {
	char dir[64], script[96]; /* of the machine that the agent samples */
	char cost_script[96];     /* of another one, on which nobody else is */
	struct fake_cuda *fake;
	int calls; /* a round */
	_Atomic int err;
	_Atomic int bare_ready;
	_Atomic uint32_t bare_word;
	struct samples published_us, bare_us, hanging_us, quiet_us, probed_ns, plain_ns;
};

struct engine {
	cuMemAlloc_v2_fn *alloc;
	cuMemFree_v2_fn *release;
	CUdeviceptr ptr; /* 0: nothing allocated */
};

/* ---- engines, each in a process of its own --------------------------------------------------- */

static int engine_open(struct engine *engine, const char *script)
{
	CUcontext context;
	void *library;
	cuInit_fn *init;
	cuCtxCreate_v2_fn *create;

	setenv(FAKE_CUDA_ENV, script, 1);
	library = dlopen(LIBRARY, RTLD_NOW);
	if (!library)
		return -ENOENT;
	init = (cuInit_fn *)dlsym(library, "cuInit");
	create = (cuCtxCreate_v2_fn *)dlsym(library, "cuCtxCreate_v2");
	engine->alloc = (cuMemAlloc_v2_fn *)dlsym(library, "cuMemAlloc_v2");
	engine->release = (cuMemFree_v2_fn *)dlsym(library, "cuMemFree_v2");
	engine->ptr = 0;
	return init(0) || create(&context, 0, 0) ? -ENODEV : 0;
}

/* Allocates, or gives back what it has. */
static int engine_step(struct engine *engine)
{
	CUdeviceptr ptr = engine->ptr;

	engine->ptr = 0;
	if (ptr)
		return engine->release(ptr) ? -EIO : 0;
	return engine->alloc(&engine->ptr, STEP_BYTES) ? -ENOMEM : 0;
}

static int run_in_child(struct gpu *gpu, int (*run)(struct gpu *gpu))
{
	pid_t pid;

	gpu->err = -ECHILD;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		gpu->err = run(gpu);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return gpu->err;
}

/* ---- from a call's return to the published figure
 * ------------------------------------------------ */

/* Everything is probed, and the die's figure is of after since_ns. */
static bool is_watched(void *arg)
{
	const uint64_t *since_ns = arg;
	pn_hook_status lines[2];
	pn_mem_state state;
	unsigned files, probes;
	pn_mem_ext ext;

	if (pn_memwatch_source() != PN_SOURCE_AGENT || pn_memwatch_dies(lines, 2) != 2 ||
	    sscanf(lines[1].why, "%u files in use, %u probes", &files, &probes) != 2)
		return bench_stopped();
	if (pn_memwatch_read_ext(&state, &ext) || probes < PROBES || state.n_dies != 1)
		return bench_stopped();
	return ext.die_state[0] == PN_SRC_OK && ext.die_sample_ns[0] > *since_ns;
}

static int run_published(struct gpu *gpu)
{
	struct engine engine;
	pn_mem_state state;
	uint64_t free_bytes, now_ns, end_ns;
	int r = engine_open(&engine, gpu->script);

	if (!r)
		r = pn_memwatch_start();
	now_ns = clock_now_ns();
	if (!r && !test_until(is_watched, &now_ns, READY_MS))
		r = -ETIMEDOUT;
	if (r || pn_memwatch_read(&state))
		return r ? r : -EAGAIN;
	free_bytes = state.per_die_free[0];
	for (int i = 0; i < gpu->calls && !r && !bench_stopped(); i++) {
		bench_sleep_ms(PAUSE_MS);
		now_ns = clock_now_ns();
		r = engine_step(&engine);
		end_ns = now_ns + LIMIT_MS * NS_PER_MS;
		if (!r)
			r = pn_memwatch_read(&state);
		while (!r && state.per_die_free[0] != free_bytes - (engine.ptr ? STEP_BYTES : 0))
			r = pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, end_ns, &state);
		if (!r)
			samples_add(&gpu->published_us, (double)(clock_now_ns() - now_ns) / 1e3);
	}
	return r;
}

/* ---- the bare chain
 * -------------------------------------------------------------------------------- */

struct bare {
	struct gpu *gpu;
	struct cuda_hooks *hooks;
};

static void bare_record(void *arg, const struct pn_event *event)
{
	struct bare *bare = arg;

	if (event->kind != PN_EVENT_CUDA_CALL)
		return;
	bare->gpu->bare_word++;
	futex_wake(&bare->gpu->bare_word, FUTEX_WAKE_ANY);
	cuda_hooks_arm(bare->hooks, true);
}

static int bare_attach(struct bare *bare)
{
	static const char *const names[] = { "cuMemAlloc_v2", "cuMemFree_v2" };
	int fd = open(LIBRARY, O_RDONLY | O_CLOEXEC), r;
	uint64_t offsets[2];

	r = fd < 0 ? -errno : elf_symbols_find(fd, names, 2, offsets);
	if (fd >= 0)
		close(fd);
	if (r >= 0)
		r = cuda_hooks_open(&bare->hooks, getenv("PNMEM_BTF"), bare_record, bare);
	if (!r)
		r = cuda_hooks_follow_ends(bare->hooks);
	for (int i = 0; i < 2 && r >= 0; i++) /* they stay open */
		r = uprobe_open(cuda_hooks_program_fd(bare->hooks), LIBRARY, offsets[i]);
	return r < 0 ? r : 0;
}

static _Noreturn void bare_ring_run(struct gpu *gpu)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), r;
	struct bare bare = { gpu, NULL };

	r = bare_attach(&bare);
	if (!r && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, cuda_hooks_fd(bare.hooks), &event))
		r = -errno;
	if (r) {
		gpu->bare_ready = r;
		_exit(1);
	}
	cuda_hooks_arm(bare.hooks, true);
	mlockall(MCL_CURRENT | MCL_FUTURE); /* as the agent is */
	gpu->bare_ready = 1;
	for (;;)
		if (epoll_wait(epoll_fd, &event, 1, -1) > 0)
			cuda_hooks_consume(bare.hooks);
}

static int run_bare(struct gpu *gpu)
{
	struct engine engine;
	int r = engine_open(&engine, gpu->script);

	for (int i = 0; i < gpu->calls && !r && !bench_stopped(); i++) {
		uint32_t seen = gpu->bare_word;
		uint64_t now_ns;

		bench_sleep_ms(PAUSE_MS);
		now_ns = clock_now_ns();
		r = engine_step(&engine);
		while (!r && gpu->bare_word == seen)
			r = futex_wait(&gpu->bare_word, seen, FUTEX_WAKE_ANY,
				       now_ns + LIMIT_MS * NS_PER_MS) == -ETIMEDOUT
				    ? -ETIMEDOUT
				    : 0;
		if (!r)
			samples_add(&gpu->bare_us, (double)(clock_now_ns() - now_ns) / 1e3);
	}
	return r;
}

static bool bare_is_ready(void *arg)
{
	const struct gpu *gpu = arg;

	return gpu->bare_ready || bench_stopped();
}

static int bare_round(struct gpu *gpu)
{
	pid_t ring;
	int r;

	gpu->bare_ready = 0;
	ring = fork();
	if (ring < 0)
		return -errno;
	if (!ring) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bare_ring_run(gpu);
	}
	r = test_until(bare_is_ready, gpu, READY_MS) ? gpu->bare_ready : -ETIMEDOUT;
	if (r > 0)
		r = run_in_child(gpu, run_bare);
	pressure_stop(ring);
	return r;
}

/* ---- publishing while the sampler hangs
 * ------------------------------------------------------------ */

struct asked {
	const struct fake_cuda *fake;
	uint64_t before;
};

static bool was_asked(void *arg)
{
	const struct asked *asked = arg;

	return fake_cuda_calls(asked->fake, FAKE_cuMemGetInfo_v2) > asked->before ||
	       bench_stopped();
}

/* Publishes that are asked for, after a pass has been: the push of a die asks for one. */
static int publish_round(struct gpu *gpu, struct samples *us)
{
	struct asked asked = { gpu->fake, fake_cuda_calls(gpu->fake, FAKE_cuMemGetInfo_v2) };

	pn_memwatch_set_die(15, MIB, 2 * MIB, 0);
	if (!test_until(was_asked, &asked, READY_MS))
		return -ETIMEDOUT;
	for (int i = 0; i < PUBLISHES && !bench_stopped(); i++) {
		uint64_t now_ns = clock_now_ns();

		pn_memwatch_poll_now();
		samples_add(us, (double)(clock_now_ns() - now_ns) / 1e3);
		bench_sleep_ms(1); /* one engine is heard 2000 times a second */
	}
	return pn_memwatch_source() == PN_SOURCE_AGENT ? 0 : -ENOTCONN;
}

static bool is_attached(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT || bench_stopped();
}

static int hang_round(struct gpu *gpu)
{
	int r = pn_memwatch_start();

	if (!r && !test_until(is_attached, NULL, READY_MS))
		r = -ENOTCONN;
	for (int i = 0; i < gpu->calls / 10 && !r && !bench_stopped(); i++) {
		r = publish_round(gpu, &gpu->quiet_us);
		fake_cuda_fault(gpu->fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS,
				FAKE_ALWAYS);
		if (!r)
			r = publish_round(gpu, &gpu->hanging_us);
		fake_cuda_fault(gpu->fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, 0, 0);
	}
	pn_memwatch_stop();
	return r;
}

/* ---- what the uprobe adds to a call
 * ---------------------------------------------------------------- */

static double process_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int run_cost(struct gpu *gpu, struct samples *ns)
{
	static CUdeviceptr ptr[COST_CALLS];
	struct engine engine;
	int r = engine_open(&engine, gpu->cost_script);

	for (int round = 0; round < 21 && !r; round++) {
		double start_ns = process_cpu_ns();

		for (int i = 0; i < COST_CALLS && !r; i++)
			r = engine.alloc(&ptr[i], COST_BYTES) ? -ENOMEM : 0;
		if (round && !r) /* the first one has the caches cold */
			samples_add(ns, (process_cpu_ns() - start_ns) / COST_CALLS);
		for (int i = 0; i < COST_CALLS && !r; i++)
			engine.release(ptr[i]);
	}
	return r;
}

static int run_plain(struct gpu *gpu)
{
	return run_cost(gpu, &gpu->plain_ns);
}

static int run_probed(struct gpu *gpu)
{
	return run_cost(gpu, &gpu->probed_ns);
}

/* ---- the rounds
 * ---------------------------------------------------------------------------------- */

static int with_agent(struct gpu *gpu)
{
	const char *const args[] = { "--cuda-lib", LIBRARY, NULL };
	struct agent_proc agent;
	int r = agent_proc_init(&agent);

	if (r)
		return r;
	r = agent_proc_start(&agent, args);
	if (!r) {
		r = run_in_child(gpu, run_published); /* ends when all probes are on */
		if (!r && !bench_stopped())
			r = run_in_child(gpu, run_probed);
		if (!r && !bench_stopped())
			r = hang_round(gpu);
		/* Its end detaches the probes, so it is waited for before the next round. */
		agent_proc_signal(&agent, SIGTERM);
		agent_proc_wait(&agent);
	}
	agent_proc_destroy(&agent);
	return r;
}

static int one_round(struct gpu *gpu)
{
	int r = run_in_child(gpu, run_plain);

	if (!r && !bench_stopped())
		r = bare_round(gpu);
	return r || bench_stopped() ? r : with_agent(gpu);
}

static int machine_make(struct gpu *gpu)
{
	struct fake_cuda *other;

	strcpy(gpu->dir, "/tmp/pnmem-bench-XXXXXX");
	if (!mkdtemp(gpu->dir))
		return -errno;
	snprintf(gpu->script, sizeof(gpu->script), "%s/script", gpu->dir);
	snprintf(gpu->cost_script, sizeof(gpu->cost_script), "%s/cost", gpu->dir);
	gpu->fake = fake_cuda_create(gpu->script, 1);
	other = fake_cuda_create(gpu->cost_script, 1);
	if (!gpu->fake || !other)
		return -errno;
	fake_cuda_close(other);
	/* Too little free for the sampler to measure its own context: numbers stand still. */
	gpu->fake->die[0].other_bytes = 7 * 1024 * (uint64_t)MIB;
	return setenv(FAKE_CUDA_ENV, gpu->script, 1) ? -errno : 0;
}

static void machine_remove(struct gpu *gpu)
{
	fake_cuda_close(gpu->fake);
	unlink(gpu->script);
	unlink(gpu->cost_script);
	rmdir(gpu->dir);
	unsetenv(FAKE_CUDA_ENV);
}

static void add_rows(struct bench *bench, const struct gpu *gpu)
{
	struct row added = {
		.name = "gpu: added by the uprobe to an allocation",
		.unit = "ns",
		.value = samples_percentile(&gpu->probed_ns, 50) -
			 samples_percentile(&gpu->plain_ns, 50),
		.value_p99 = NAN,
		.baseline = NAN,
		.baseline_p99 = NAN,
		.goal_of = GOAL_NONE,
		.count = gpu->probed_ns.count,
	};

	rows_add_samples(&bench->rows, "gpu: an allocation -> published", "us", &gpu->published_us,
			 "bare uprobe chain", &gpu->bare_us, GOAL_NONE, 0);
	rows_add_samples(&bench->rows, "gpu: a publish while the sampler hangs", "us",
			 &gpu->hanging_us, "while it does not", &gpu->quiet_us, GOAL_NONE, 0);
	rows_add_samples(&bench->rows, "gpu: an allocation call, probed", "ns", &gpu->probed_ns,
			 "not probed", &gpu->plain_ns, GOAL_NONE, 0);
	if (added.count)
		rows_add(&bench->rows, &added);
}

void gpu_bench(struct bench *bench)
{
	struct gpu *gpu = bench_shared(sizeof(*gpu));
	int r = geteuid() ? -EPERM : !gpu ? -ENOMEM : access(LIBRARY, R_OK) ? -errno : 0;

	if (r) {
		rows_add_failed(&bench->rows, "gpu", "no uprobes or no " LIBRARY ": %s",
				bench_why(r));
		return;
	}
	gpu->calls = bench->quick ? 20 : 150;
	r = machine_make(gpu);
	for (int i = 0; i < (bench->quick ? 1 : 2) && !r && !bench_stopped(); i++)
		r = one_round(gpu);
	machine_remove(gpu);
	if (r && !bench_stopped())
		rows_add_failed(&bench->rows, "gpu", "a round failed: %s", bench_why(r));
	else if (!bench_stopped())
		add_rows(bench, gpu);
	munmap(gpu, sizeof(*gpu));
}
