/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libcuda out of anyone's container: no crash, no large allocation, and an offset only inside of
 * the file. The input is the file, in a memfd.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	static const char *const names[] = { "cuMemAlloc_v2", "cuMemFree_v2", "a", "" };
	uint64_t offsets[4];
	int fd = memfd_create("elf", MFD_CLOEXEC), n;

	if (fd < 0 || write(fd, data, len_bytes) != (ssize_t)len_bytes)
		abort();
	n = elf_symbols_find(fd, names, 4, offsets);
	if (n > 4)
		abort();
	for (int i = 0; n >= 0 && i < 4; i++)
		if (offsets[i] > len_bytes)
			abort();
	close(fd);
	return 0;
}
