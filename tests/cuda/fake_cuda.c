/* SPDX-License-Identifier: BSD-2-Clause */
/* The script of the stand-in driver, for tests. See fake_cuda.h. */
#include "fake_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fake_cuda *map(int fd)
{
	struct fake_cuda *fake;

	fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return fake == MAP_FAILED ? NULL : fake;
}

static void default_die(struct fake_die *die, int i)
{
	*die = (struct fake_die){
		.total_bytes = 12ull << 30,
		.system_bytes = 768ull << 20,
		.context_bytes = 74ull << 20,
		.name = "Tesla K80",
		.board_group = i / 2,
	};
	/* As CUDA prints it: capital hex digits. Ordinals go against the order of the bus. */
	snprintf(die->pci, sizeof(die->pci), "0000:%02X:00.0", 0x3f - i);
	for (int k = 0; k < 16; k++)
		die->uuid[k] = (uint8_t)(16 * i + k + 1);
}

struct fake_cuda *fake_cuda_create(const char *path, int n_dies)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct fake_cuda *fake = NULL;

	if (fd < 0)
		return NULL;
	/* Its users may be of another user than its maker. */
	if (!fchmod(fd, 0666) && !ftruncate(fd, sizeof(*fake)))
		fake = map(fd);
	close(fd);
	if (!fake)
		return NULL;
	fake->magic = FAKE_MAGIC;
	fake->driver_version = 11040;
	fake->n_dies = n_dies;
	for (int i = 0; i < FAKE_MAX_DIES; i++)
		default_die(&fake->die[i], i);
	return fake;
}

struct fake_cuda *fake_cuda_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct fake_cuda *fake = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_size == sizeof(*fake))
		fake = map(fd);
	close(fd);
	if (fake && fake->magic != FAKE_MAGIC) {
		fake_cuda_close(fake);
		fake = NULL;
		errno = EINVAL;
	}
	return fake;
}

void fake_cuda_close(struct fake_cuda *fake)
{
	if (fake)
		munmap(fake, sizeof(*fake));
}

void fake_cuda_fault(struct fake_cuda *fake, enum fake_function function, int die, int result,
		     uint64_t delay_ns, int64_t times)
{
	struct fake_fault *fault = &fake->fault[function];

	/* Off while it changes, so that nobody sees half of it. */
	__atomic_store_n(&fault->times, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&fault->result, result, __ATOMIC_RELAXED);
	__atomic_store_n(&fault->die, die, __ATOMIC_RELAXED);
	__atomic_store_n(&fault->delay_ns, delay_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&fault->times, times, __ATOMIC_RELEASE);
}

uint64_t fake_cuda_calls(const struct fake_cuda *fake, enum fake_function function)
{
	return __atomic_load_n(&fake->calls[function], __ATOMIC_RELAXED);
}
