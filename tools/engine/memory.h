/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real memory, taken from the kernel and given back at once: mappings of their own, every page
 * touched. What malloc keeps in its arenas would blur the figures.
 */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes and their touched pages, or NULL without address space. bytes is not 0. */
uint8_t *memory_take(size_t bytes);
void memory_give(void *ptr, size_t bytes);

/* Gives back the whole pages of ptr[from..bytes); they stay mapped and read as 0. */
void memory_trim(uint8_t *ptr, size_t from, size_t bytes);

#endif
