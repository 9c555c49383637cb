/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where functions of a shared library lie in its file, for probing it. The file may be anyone's and
 * change meanwhile, so it is read and never mapped: a truncated mapping would be a SIGBUS.
 */
#ifndef PNMEM_HOST_ELF_SYMBOLS_H
#define PNMEM_HOST_ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

/*
 * For each of count names, the file offset of the dynamic function symbol of that name, 0 if there
 * is none. Returns how many were found, or -errno: -ENOEXEC (not a 64-bit ELF file of this
 * machine's byte order, or damaged), -EIO (it ends early), -ENOMEM, or read's own.
 */
int elf_symbols_find(int fd, const char *const names[], size_t count, uint64_t ret_offsets[]);

#endif
