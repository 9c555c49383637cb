/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A PSI trigger: the kernel's own notification of memory stalls, with the smallest window that it
 * grants to this process. The wake-up for where no BPF hook can be had.
 */
#ifndef PNMEM_HOST_PSI_TRIGGER_H
#define PNMEM_HOST_PSI_TRIGGER_H

#include <stdint.h>

/*
 * Arms one on <procfs>/pressure/memory. Poll the descriptor for POLLPRI; POLLERR means that it is
 * gone and must be closed. Returns the descriptor or -errno; *ret_window_ms is the window granted.
 * -EOPNOTSUPP: not the kernel's procfs, where the write would only spoil a made-up file.
 */
int psi_trigger_open(int procfs_fd, unsigned *ret_window_ms);

#endif
