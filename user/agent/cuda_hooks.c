// SPDX-License-Identifier: BSD-2-Clause
/* Loading and reading bpf/cuda.bpf.c. See cuda_hooks.h. */
#include "agent/cuda_hooks.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cuda.skel.h"

/* A call's record and the ends of processes are few at a time. */
#define RING_BYTES 16384
/* They wait for the same grace periods of the kernel, so side by side. */
#define DETACH_THREADS     8
#define DETACH_STACK_BYTES 65536

struct cuda_hooks {
	struct cuda_bpf *skel;
	struct bpf_link *exit_link;
	struct ring_buffer *ring;
	cuda_hooks_fn fn;
	void *arg;
};

static int ring_record(void *arg, void *data, size_t data_bytes)
{
	struct cuda_hooks *hooks = arg;

	if (data_bytes >= sizeof(struct pn_event))
		hooks->fn(hooks->arg, data);
	return 0;
}

static int load(struct cuda_hooks *hooks, const char *btf_path)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .btf_custom_path = btf_path);
	int r;

	hooks->skel = cuda_bpf__open_opts(&open_opts);
	if (!hooks->skel)
		return -errno;
	bpf_map__set_max_entries(hooks->skel->maps.ring, RING_BYTES);
	bpf_program__set_autoload(hooks->skel->progs.cuda_call, true);
	bpf_program__set_autoload(hooks->skel->progs.cuda_exit, true);
	r = cuda_bpf__load(hooks->skel);
	if (r)
		return r;
	hooks->exit_link = bpf_program__attach(hooks->skel->progs.cuda_exit);
	if (!hooks->exit_link)
		return -errno;
	hooks->ring =
		ring_buffer__new(bpf_map__fd(hooks->skel->maps.ring), ring_record, hooks, NULL);
	return hooks->ring ? 0 : -errno;
}

int cuda_hooks_open(struct cuda_hooks **ret, const char *btf_path, cuda_hooks_fn fn, void *arg)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct cuda_hooks *hooks = calloc(1, sizeof(*hooks));
	int r = -ENOMEM;

	if (hooks) {
		hooks->fn = fn;
		hooks->arg = arg;
		r = load(hooks, btf_path);
	}
	libbpf_set_print(print);
	malloc_trim(0); /* the load parsed some 5 MB of kernel BTF */
	if (r)
		cuda_hooks_close(hooks);
	else
		*ret = hooks;
	return r;
}

int cuda_hooks_fd(const struct cuda_hooks *hooks)
{
	return ring_buffer__epoll_fd(hooks->ring);
}

void cuda_hooks_consume(struct cuda_hooks *hooks)
{
	ring_buffer__consume(hooks->ring);
}

void cuda_hooks_ignore(struct cuda_hooks *hooks, pid_t pid)
{
	__atomic_store_n(&hooks->skel->bss->cuda_sampler_pid, (__u32)pid, __ATOMIC_SEQ_CST);
}

void cuda_hooks_know(struct cuda_hooks *hooks, pid_t pid)
{
	__u32 key = (__u32)pid;
	__u8 one = 1;

	bpf_map_update_elem(bpf_map__fd(hooks->skel->maps.cuda_pids), &key, &one, BPF_NOEXIST);
}

uint64_t cuda_hooks_calls(const struct cuda_hooks *hooks)
{
	return __atomic_load_n(&hooks->skel->bss->cuda_calls, __ATOMIC_SEQ_CST);
}

void cuda_hooks_arm(struct cuda_hooks *hooks, bool armed)
{
	__atomic_store_n(&hooks->skel->bss->cuda_call_armed, armed, __ATOMIC_SEQ_CST);
}

int cuda_hooks_attach(struct cuda_hooks *hooks, const char *path, uint64_t offset,
		      struct cuda_probe **ret)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct bpf_link *link;
	int r;

	link = bpf_program__attach_uprobe(hooks->skel->progs.cuda_call, true, -1, path, offset);
	r = link ? 0 : -errno;
	libbpf_set_print(print);
	if (!r)
		*ret = (struct cuda_probe *)link;
	return r;
}

/* ---- detaching: the kernel takes some 100 ms for each ------------------------------------------
 */

struct share {
	size_t count;
	struct cuda_probe *probe[];
};

static _Atomic int detaching; /* threads */

static void share_run(struct share *share)
{
	for (size_t i = 0; i < share->count; i++)
		bpf_link__destroy((struct bpf_link *)share->probe[i]);
	free(share);
}

static void *detach_thread(void *arg)
{
	share_run(arg);
	detaching--;
	return NULL;
}

/* On a small stack of its own: the agent's memory is locked. Where there is no thread, here. */
static void share_start(struct share *share)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, DETACH_STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	detaching++;
	r = pthread_create(&thread, &attr, detach_thread, share);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		return;
	detaching--;
	share_run(share);
}

void cuda_hooks_detach(struct cuda_probe *const probes[], size_t count)
{
	size_t each = (count + DETACH_THREADS - 1) / DETACH_THREADS;

	for (size_t i = 0; i < count; i += each) {
		size_t n = count - i < each ? count - i : each;
		struct share *share = malloc(sizeof(*share) + n * sizeof(share->probe[0]));

		if (!share)
			return; /* they stay until the agent ends, and count calls of nobody */
		share->count = n;
		memcpy(share->probe, probes + i, n * sizeof(share->probe[0]));
		share_start(share);
	}
}

void cuda_hooks_close(struct cuda_hooks *hooks)
{
	const struct timespec step = { .tv_nsec = 1000000 };

	if (!hooks)
		return;
	while (detaching)
		nanosleep(&step, NULL);
	ring_buffer__free(hooks->ring);
	bpf_link__destroy(hooks->exit_link);
	cuda_bpf__destroy(hooks->skel);
	free(hooks);
}
