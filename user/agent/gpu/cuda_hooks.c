// SPDX-License-Identifier: BSD-2-Clause
/* Loading and reading bpf/cuda.bpf.c. See cuda_hooks.h. */
#include "agent/gpu/cuda_hooks.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cuda.skel.h"

/* A call's record and the ends of processes are few at a time. */
#define RING_BYTES 16384

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

int cuda_hooks_follow_ends(struct cuda_hooks *hooks)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	int r;

	hooks->exit_link = bpf_program__attach(hooks->skel->progs.cuda_exit);
	r = hooks->exit_link ? 0 : -errno;
	libbpf_set_print(print);
	return r;
}

int cuda_hooks_program_fd(const struct cuda_hooks *hooks)
{
	return bpf_program__fd(hooks->skel->progs.cuda_call);
}

void cuda_hooks_close(struct cuda_hooks *hooks)
{
	if (!hooks)
		return;
	ring_buffer__free(hooks->ring);
	bpf_link__destroy(hooks->exit_link);
	cuda_bpf__destroy(hooks->skel);
	free(hooks);
}
