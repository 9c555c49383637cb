/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_host_signals where there is no procfs: macOS, and any other system with sysconf(3). Total and
 * available bytes alone; PSI and cgroup fields read 0, which means no pressure. Needs no other
 * file of this folder. PN_HOST_SIGNALS_OTHER selects it on Linux, for its test.
 */
#if !defined(__linux__) || defined(PN_HOST_SIGNALS_OTHER)

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

#include "host/clock.h"
#include "pn_host_signals.h"

struct pn_host_signals {
	pn_host_sample last;
};

#if defined(__APPLE__)

/*
 * Free pages (speculative ones are counted among them) and inactive ones, which the system takes
 * back before it compresses or swaps: the nearest there is to MemAvailable.
 */
static int other_read_bytes(uint64_t *ret_total_bytes, uint64_t *ret_avail_bytes)
{
	mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
	mach_port_t host = mach_host_self();
	vm_statistics64_data_t vm;
	uint64_t total_bytes = 0;
	size_t len = sizeof(total_bytes);
	vm_size_t page_bytes = 0;
	kern_return_t kr;

	if (sysctlbyname("hw.memsize", &total_bytes, &len, NULL, 0))
		return -errno;
	kr = host_page_size(host, &page_bytes);
	if (kr == KERN_SUCCESS)
		kr = host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&vm, &count);
	mach_port_deallocate(mach_task_self(), host);
	if (kr != KERN_SUCCESS)
		return -EIO;
	*ret_total_bytes = total_bytes;
	*ret_avail_bytes = ((uint64_t)vm.free_count + vm.inactive_count) * page_bytes;
	return 0;
}

#elif defined(_SC_PHYS_PAGES) && defined(_SC_AVPHYS_PAGES)

static int other_read_bytes(uint64_t *ret_total_bytes, uint64_t *ret_avail_bytes)
{
	long page_bytes = sysconf(_SC_PAGESIZE);
	long total_pages = sysconf(_SC_PHYS_PAGES);
	long avail_pages = sysconf(_SC_AVPHYS_PAGES);

	if (page_bytes <= 0 || total_pages <= 0 || avail_pages < 0)
		return -ENOSYS;
	*ret_total_bytes = (uint64_t)total_pages * (uint64_t)page_bytes;
	*ret_avail_bytes = (uint64_t)avail_pages * (uint64_t)page_bytes;
	return 0;
}

#else

static int other_read_bytes(uint64_t *ret_total_bytes, uint64_t *ret_avail_bytes)
{
	return -ENOSYS;
}

#endif

int pn_host_signals_open(pn_host_signals **ret, int procfs_fd, int cgroupfs_fd, int pid)
{
	pn_host_signals *hs = calloc(1, sizeof(*hs));

	if (!hs)
		return -ENOMEM;
	hs->last.cgroup_headroom_bytes = UINT64_MAX;
	*ret = hs;
	return 0;
}

int pn_host_signals_read(pn_host_signals *hs, unsigned what, uint64_t now_ns, pn_host_sample *ret)
{
	pn_host_sample *last = &hs->last;
	uint64_t total_bytes, avail_bytes;
	int err;

	if (what & PN_HOST_READ_BYTES) {
		err = other_read_bytes(&total_bytes, &avail_bytes);
		last->source_err[PN_SRC_MEMINFO] = err;
		last->source_state[PN_SRC_MEMINFO] = err ? PN_SRC_STALE : PN_SRC_OK;
		if (!err) {
			last->total_bytes = total_bytes;
			last->avail_bytes = avail_bytes < total_bytes ? avail_bytes : total_bytes;
			last->source_ns[PN_SRC_MEMINFO] = now_ns;
		}
	}
	*ret = *last;
	if (last->total_bytes)
		return 0;
	return last->source_err[PN_SRC_MEMINFO] ? last->source_err[PN_SRC_MEMINFO] : -ENODATA;
}

void pn_host_signals_close(pn_host_signals *hs)
{
	free(hs);
}

int pn_host_signals_sample(pn_host_sample *ret)
{
	pn_host_signals *hs;
	int err;

	memset(ret, 0, sizeof(*ret));
	ret->cgroup_headroom_bytes = UINT64_MAX;
	err = pn_host_signals_open(&hs, -1, -1, -1);
	if (err)
		return err;
	err = pn_host_signals_read(hs, PN_HOST_READ_BYTES, clock_now_ns(), ret);
	pn_host_signals_close(hs);
	return err;
}

#endif
