/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types and constants that the programs use. CO-RE takes the real offsets from the
 * running kernel's BTF, so only the names matter here: a wrong one compiles and fails at load,
 * which is why tests/host/test_hooks loads every program. Instead of a generated vmlinux.h, so
 * that the tree builds where the kernel has no BTF.
 */
#ifndef PNMEM_CORE_TYPES_H
#define PNMEM_CORE_TYPES_H

#include <linux/bpf.h>

#include "pn_event.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h, the same in 5.10 to 7.3 */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
	const char *name;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_file {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

typedef struct {
	__s64 counter;
} atomic_long_t;

/* In pages. On cgroup v1 high is never set. */
struct page_counter {
	atomic_long_t usage;
	unsigned long max;
	unsigned long high;
	struct page_counter *parent;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
	atomic_long_t memory_events_local[PN_MEMCG_COUNT];
	struct cgroup_file events_local_file;
};

/* Only the name counts: CO-RE takes the value from the running kernel. */
enum cgroup_subsys_id {
	memory_cgrp_id = 4,
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by enum cgroup_subsys_id; as many as there are */
	struct cgroup *dfl_cgrp;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
};

struct task_struct {
	unsigned int flags;
	int pid;  /* the thread */
	int tgid; /* the process */
	unsigned int in_memstall : 1;
	struct css_set *cgroups;
	struct signal_struct *signal;
	char comm[16];
};

#pragma clang attribute pop

#endif
