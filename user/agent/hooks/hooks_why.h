/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands in the way of the hooks: two checks before any is tried, and the likely reason for
 * the refusal of one. Part of hooks.c, which does the trying.
 */
#ifndef PNMEM_AGENT_HOOKS_HOOKS_WHY_H
#define PNMEM_AGENT_HOOKS_HOOKS_WHY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * lockdown=confidentiality: no program may read kernel memory. Later kernels refuse ours for that;
 * 5.10 loads them and lets them read zeros, so that none may be used there either.
 */
bool hooks_reading_is_locked_down(void);

/* Can libbpf make sense of the BTF file that was given? 0 (also for NULL) or -errno. */
int hooks_btf_check(const char *btf_path);

/* The likely reason why the kernel, or libbpf, refused the hook of this name with err < 0. */
void hooks_why(const char *name, const char *btf_path, int err, char *ret, size_t ret_bytes);

#endif
