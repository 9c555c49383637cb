/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of the stand-in driver. See libcuda_state.h. A process owns slot i of the script while its
 * open file holds a lock on byte i: the kernel drops the lock when the process ends, however it
 * ends, and with it the slot's memory counts no more. (An open-file lock, so that it survives other
 * descriptors of the same file being closed in the process.)
 */
#include "libcuda_state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)
#define ADD(place, value)   __atomic_add_fetch(&(place), value, __ATOMIC_RELAXED)

static struct {
	struct fake_cuda *fake;
	int fd;
	int slot;
} state = { .fd = -1, .slot = -1 };

static struct flock slot_lock(int slot)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1
	};
}

static int take_slot(int fd)
{
	for (int i = 0; i < FAKE_MAX_PROCS; i++) {
		struct flock lock = slot_lock(i);

		if (!fcntl(fd, F_OFD_SETLK, &lock))
			return i;
	}
	return -1;
}

static void open_once(void)
{
	const char *path = getenv(FAKE_CUDA_ENV);
	struct fake_process *process;

	state.fake = path ? fake_cuda_open(path) : NULL;
	if (!state.fake)
		return;
	state.fd = open(path, O_RDWR | O_CLOEXEC);
	state.slot = take_slot(state.fd);
	if (state.slot < 0) {
		state.fake = NULL;
		return;
	}
	process = &state.fake->process[state.slot];
	for (int i = 0; i < FAKE_MAX_DIES; i++) {
		STORE(process->contexts[i], 0);
		STORE(process->allocated_bytes[i], 0);
	}
	STORE(process->pid, (int32_t)getpid());
}

CUresult state_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_once);
	return state.fake ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

struct fake_cuda *state_fake(void)
{
	return state.fake;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static void delay(const struct fake_fault *fault)
{
	if (LOAD(fault->delay_ns) != FAKE_FOR_EVER_NS)
		sleep_ns(LOAD(fault->delay_ns));
	while (LOAD(fault->delay_ns) == FAKE_FOR_EVER_NS)
		sleep_ns(1000000);
}

/* Uses up one time of a limited fault; false if another caller had the last. */
static bool use_fault(struct fake_fault *fault)
{
	int64_t times = __atomic_load_n(&fault->times, __ATOMIC_ACQUIRE);

	while (times > 0) {
		if (__atomic_compare_exchange_n(&fault->times, &times, times - 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
	}
	return times == FAKE_ALWAYS;
}

CUresult state_enter(enum fake_function function, int die)
{
	struct fake_fault *fault;
	CUresult result;
	int only;

	if (state_open())
		return CUDA_ERROR_NO_DEVICE;
	ADD(state.fake->calls[function], 1);
	fault = &state.fake->fault[function];
	only = LOAD(fault->die);
	if ((only != FAKE_ANY_DIE && only != die) || !use_fault(fault))
		return CUDA_SUCCESS;
	result = (CUresult)LOAD(fault->result);
	delay(fault);
	return result;
}

static bool is_alive(int slot)
{
	struct flock lock = slot_lock(slot);

	if (slot == state.slot)
		return true;
	return !fcntl(state.fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Summed over living processes; *ret_others: how many other than ours have a context there. */
static uint64_t used_bytes(int die, int *ret_others)
{
	struct fake_die *d = &state.fake->die[die];
	uint64_t used = LOAD(d->system_bytes) + LOAD(d->other_bytes);
	int others = 0;

	for (int i = 0; i < FAKE_MAX_PROCS; i++) {
		struct fake_process *process = &state.fake->process[i];

		if (!LOAD(process->pid) || !is_alive(i))
			continue;
		used += LOAD(process->allocated_bytes[die]);
		if (!LOAD(process->contexts[die]))
			continue;
		used += LOAD(d->context_bytes);
		others += i != state.slot;
	}
	if (ret_others)
		*ret_others = others;
	return used;
}

uint64_t state_free_bytes(int die)
{
	uint64_t total_bytes = LOAD(state.fake->die[die].total_bytes);
	uint64_t used = used_bytes(die, NULL);

	return used < total_bytes ? total_bytes - used : 0;
}

CUresult state_take(int die, int64_t bytes)
{
	if (bytes > 0 && (uint64_t)bytes > state_free_bytes(die))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ADD(state.fake->process[state.slot].allocated_bytes[die], (uint64_t)bytes);
	return CUDA_SUCCESS;
}

CUresult state_context(int die, int by)
{
	int32_t *contexts = &state.fake->process[state.slot].contexts[die];
	int mode = LOAD(state.fake->die[die].compute_mode);
	int others;

	if (by < 0 && LOAD(*contexts) <= 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (by > 0 && !LOAD(*contexts)) {
		used_bytes(die, &others);
		if (mode == CU_COMPUTEMODE_PROHIBITED ||
		    (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS && others))
			return CUDA_ERROR_DEVICE_UNAVAILABLE;
		if (state_free_bytes(die) < LOAD(state.fake->die[die].context_bytes))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (by > 0 && !LOAD(*contexts))
		ADD(state.fake->die[die].other_bytes, LOAD(state.fake->die[die].leak_bytes));
	ADD(*contexts, by);
	return CUDA_SUCCESS;
}

int state_contexts(int die)
{
	return LOAD(state.fake->process[state.slot].contexts[die]);
}
