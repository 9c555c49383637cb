/* SPDX-License-Identifier: BSD-2-Clause */
/* Dynamic symbols of an ELF file. See elf_symbols.h. */
#include "host/elf_symbols.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libcuda's symbol table is some 100 KB. Files are anyone's, and several are parsed at a time. */
#define PART_MAX_BYTES (2u << 20)
#define HEADERS_MAX    1024

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ELF_DATA ELFDATA2LSB
#else
#define ELF_DATA ELFDATA2MSB
#endif

static int read_at(int fd, uint64_t offset, void *buf, size_t bytes)
{
	size_t done = 0;
	ssize_t n;

	if (offset > INT64_MAX - bytes)
		return -ENOEXEC;
	while (done < bytes) {
		n = pread(fd, (char *)buf + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

/* Reads a part of the file into memory of its own, with a zero byte after it. */
static int read_part(int fd, uint64_t offset, uint64_t bytes, void **ret)
{
	char *part;
	int r;

	if (bytes > PART_MAX_BYTES)
		return -ENOEXEC;
	part = malloc(bytes + 1);
	if (!part)
		return -ENOMEM;
	r = read_at(fd, offset, part, bytes);
	if (r) {
		free(part);
		return r;
	}
	part[bytes] = 0;
	*ret = part;
	return 0;
}

struct image {
	Elf64_Phdr *segments;
	size_t n_segments;
	Elf64_Sym *symbols;
	size_t n_symbols;
	char *strings;
	size_t strings_bytes;
};

static int read_symbols(int fd, const Elf64_Shdr *sections, size_t n_sections, struct image *image)
{
	const Elf64_Shdr *symbols, *strings;
	size_t i = 0;
	int r;

	while (i < n_sections && sections[i].sh_type != SHT_DYNSYM)
		i++;
	if (i == n_sections || sections[i].sh_link >= n_sections ||
	    sections[i].sh_entsize != sizeof(Elf64_Sym))
		return -ENOEXEC;
	symbols = &sections[i];
	strings = &sections[symbols->sh_link];
	r = read_part(fd, symbols->sh_offset, symbols->sh_size, (void **)&image->symbols);
	if (!r)
		r = read_part(fd, strings->sh_offset, strings->sh_size, (void **)&image->strings);
	if (r)
		return r;
	image->n_symbols = symbols->sh_size / sizeof(Elf64_Sym);
	image->strings_bytes = strings->sh_size;
	return 0;
}

static int read_image(int fd, struct image *image)
{
	Elf64_Ehdr header;
	void *sections;
	int r;

	r = read_at(fd, 0, &header, sizeof(header));
	if (r)
		return r;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_ident[EI_DATA] != ELF_DATA || header.e_phentsize != sizeof(Elf64_Phdr) ||
	    header.e_shentsize != sizeof(Elf64_Shdr) || header.e_phnum > HEADERS_MAX ||
	    header.e_shnum > HEADERS_MAX)
		return -ENOEXEC;
	r = read_part(fd, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr),
		      (void **)&image->segments);
	if (r)
		return r;
	image->n_segments = header.e_phnum;
	r = read_part(fd, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), &sections);
	if (r)
		return r;
	r = read_symbols(fd, sections, header.e_shnum, image);
	free(sections);
	return r;
}

/* 0 if the address is in no executable segment. */
static uint64_t file_offset(const struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz)
			return address - segment->p_vaddr + segment->p_offset;
	}
	return 0;
}

int elf_symbols_find(int fd, const char *const names[], size_t count, uint64_t ret_offsets[])
{
	struct image image = { 0 };
	int r = read_image(fd, &image);

	if (r)
		goto out;
	memset(ret_offsets, 0, count * sizeof(*ret_offsets));
	for (size_t s = 0; s < image.n_symbols; s++) {
		const Elf64_Sym *symbol = &image.symbols[s];

		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
		    symbol->st_name >= image.strings_bytes)
			continue;
		for (size_t i = 0; i < count; i++) {
			if (ret_offsets[i] || strcmp(names[i], image.strings + symbol->st_name))
				continue;
			ret_offsets[i] = file_offset(&image, symbol->st_value);
			r += ret_offsets[i] != 0;
		}
	}
out:
	free(image.segments);
	free(image.symbols);
	free(image.strings);
	return r;
}
