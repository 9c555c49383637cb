/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe symbols LIBRARY: whether the functions that engines call are those that the agent
 * probes. For each of its calls, a line
 *
 *	SYMBOL VERDICT PROBED DLSYM ASKED
 *
 * with the places in the library's file (hexadecimal, - if there is none) where the agent's reading
 * of the ELF symbols puts the uprobe, where dlsym's address lies, and where cuGetProcAddress's
 * does. VERDICT: same; absent (this driver has none); differs (a call would go unseen).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "probe.h"
#include "host/cuda_calls.h"
#include "host/elf_symbols.h"

#define NONE      UINT64_MAX
#define ELSEWHERE (UINT64_MAX - 1) /* in another file */

static const struct call {
	const char *symbol, *name;
	int version;
	uint64_t flags;
} calls[] = {
#define CALL(symbol, name, version, flags) { #symbol, #name, version, flags },
	CUDA_MEMORY_CALLS(CALL)
#undef CALL
};

#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

/* The mapped library, and an address of which we want to know the place in its file. */
struct place {
	const char *path;
	uintptr_t address;
	uint64_t offset;
};

static int look_in(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct place *place = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || place->address < start ||
		    place->address - start >= segment->p_memsz)
			continue;
		place->offset = strcmp(info->dlpi_name, place->path)
					? ELSEWHERE
					: segment->p_offset + (place->address - start);
		return 1;
	}
	return 0;
}

static uint64_t file_offset(const char *path, const void *address)
{
	struct place place = { path, (uintptr_t)address, ELSEWHERE };

	if (!address)
		return NONE;
	dl_iterate_phdr(look_in, &place);
	return place.offset;
}

static const char *text(char buffer[static 24], uint64_t offset)
{
	if (offset == NONE)
		return "-";
	if (offset == ELSEWHERE)
		return "elsewhere";
	snprintf(buffer, 24, "%llx", (unsigned long long)offset);
	return buffer;
}

/* True if a call of it cannot go unseen. */
static bool compare(const struct driver *driver, const char *path, const struct call *call,
		    uint64_t elf_offset)
{
	uint64_t probed = elf_offset ? elf_offset : NONE, asked = NONE;
	uint64_t found = file_offset(path, dlsym(driver->library, call->symbol));
	char a[24], b[24], c[24];
	void *address = NULL;
	bool same;

	if (driver->cuGetProcAddress &&
	    !driver->cuGetProcAddress(call->name, &address, call->version, call->flags))
		asked = file_offset(path, address);
	/* A driver without this version of a call answers with the one before it. */
	if (probed == NONE && found == NONE)
		asked = NONE;
	same = probed == found && (asked == NONE || asked == probed);
	printf("%s %s %s %s %s\n", call->symbol,
	       !same           ? "differs"
	       : found == NONE ? "absent"
			       : "same",
	       text(a, probed), text(b, found), text(c, asked));
	return same;
}

int probe_symbols(char **argv)
{
	const char *names[CALL_COUNT];
	uint64_t offsets[CALL_COUNT];
	struct driver driver;
	struct link_map *map;
	bool same = true;
	int fd, r;

	driver_open(&driver, argv[1]);
	if (dlinfo(driver.library, RTLD_DI_LINKMAP, &map))
		return 1;
	fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < CALL_COUNT; i++)
		names[i] = calls[i].symbol;
	r = fd < 0 ? -1 : elf_symbols_find(fd, names, CALL_COUNT, offsets);
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		fprintf(stderr, "gpu-probe: %s: %s\n", map->l_name,
			fd < 0 ? "cannot be opened" : strerror(-r));
		return 1;
	}
	for (size_t i = 0; i < CALL_COUNT; i++)
		same = compare(&driver, map->l_name, &calls[i], offsets[i]) && same;
	return same ? 0 : 1;
}
