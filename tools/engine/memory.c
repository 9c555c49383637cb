/* SPDX-License-Identifier: BSD-2-Clause */
/* See memory.h. */
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

uint8_t *memory_take(size_t bytes)
{
	size_t step = page_bytes();
	uint8_t *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (ptr == MAP_FAILED)
		return NULL;
	for (size_t at = 0; at < bytes; at += step)
		((volatile uint8_t *)ptr)[at] = 1;
	return ptr;
}

void memory_give(void *ptr, size_t bytes)
{
	if (ptr)
		munmap(ptr, bytes);
}

void memory_trim(uint8_t *ptr, size_t from, size_t bytes)
{
	size_t step = page_bytes();
	size_t first = (from + step - 1) / step * step;

	if (first < bytes)
		madvise(ptr + first, bytes - first, MADV_DONTNEED);
}
