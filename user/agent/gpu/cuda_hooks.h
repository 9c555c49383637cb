/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF programs that see libcuda calls and the end of their processes: with hooks.c the only
 * file that knows libbpf. The finder probes the files (finder.h).
 *
 * Threads: one at a time. cuda_hooks_open also swaps libbpf's print callback.
 */
#ifndef PNMEM_AGENT_GPU_CUDA_HOOKS_H
#define PNMEM_AGENT_GPU_CUDA_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pn_event.h"

struct cuda_hooks;

typedef void (*cuda_hooks_fn)(void *arg, const struct pn_event *event);

/*
 * Loads the programs, which takes CAP_BPF and CAP_PERFMON; nothing is followed or seen yet.
 * btf_path as in hooks_options. Returns 0 or -errno (libbpf's), as hooks_open. fn is called from
 * cuda_hooks_consume alone.
 */
int cuda_hooks_open(struct cuda_hooks **ret, const char *btf_path, cuda_hooks_fn fn, void *arg);

/* NULL is allowed. Probes that others hold stay, and count calls of nobody. */
void cuda_hooks_close(struct cuda_hooks *hooks);

/* Follows the ends of processes from now on. 0 or -errno. */
int cuda_hooks_follow_ends(struct cuda_hooks *hooks);

/* The program for uprobe_open; it stays the hooks' own. */
int cuda_hooks_program_fd(const struct cuda_hooks *hooks);

/* Readable when there is a record. */
int cuda_hooks_fd(const struct cuda_hooks *hooks);
void cuda_hooks_consume(struct cuda_hooks *hooks);

/* Calls of this process do not count. */
void cuda_hooks_ignore(struct cuda_hooks *hooks, pid_t pid);

/* This process uses libcuda, whether it has been seen to or not: its end is told. */
void cuda_hooks_know(struct cuda_hooks *hooks, pid_t pid);

/* Calls seen. */
uint64_t cuda_hooks_calls(const struct cuda_hooks *hooks);

/* The next call gives a record. One that is about to return at this moment may or may not. */
void cuda_hooks_arm(struct cuda_hooks *hooks, bool armed);

#endif
