/* SPDX-License-Identifier: BSD-2-Clause */
/* Uprobes of a loaded BPF program, by its descriptor alone: what attaches them does not load it. */
#ifndef PNMEM_AGENT_GPU_UPROBE_H
#define PNMEM_AGENT_GPU_UPROBE_H

#include <stdint.h>

/*
 * Runs the program at the return of the function at this offset of a file, in every process.
 * Returns a descriptor, whose end is the probe's end, or -errno. Both its beginning and its end
 * write into processes that have the file mapped, and wait for their memory's lock.
 */
int uprobe_open(int program_fd, const char *path, uint64_t offset);

#endif
