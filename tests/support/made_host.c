/* SPDX-License-Identifier: BSD-2-Clause */
/* See made_host.h. */
#include "support/made_host.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In one step: a look in between reads the old or the new text. */
static int replace_file(const struct made_host *host, const char *name, const char *text)
{
	char path[160], next[160];
	FILE *f;
	int r;

	snprintf(path, sizeof(path), "%s/%s", host->dir, name);
	snprintf(next, sizeof(next), "%s/next.%d", host->dir, (int)getpid());
	f = fopen(next, "we");
	if (!f)
		return -errno;
	r = fputs(text, f) < 0 ? -EIO : 0;
	if (fclose(f))
		r = -EIO;
	if (!r && rename(next, path))
		r = -errno;
	return r;
}

int made_host_set_level(const struct made_host *host, pn_mem_level level)
{
	/* A reserve of 15 % is 9.6 GiB. */
	static const unsigned avail_gib[] = { 40, 15, 11, 5 };
	char text[256];

	snprintf(text, sizeof(text), "MemTotal: %llu kB\nMemFree: 1 kB\nMemAvailable: %llu kB\n",
		 64ull << 20, (unsigned long long)avail_gib[level] << 20);
	return replace_file(host, "meminfo", text);
}

int made_host_init(struct made_host *host)
{
	char path[160];
	int r;

	strcpy(host->dir, "/tmp/pnmem-proc-XXXXXX");
	if (!mkdtemp(host->dir))
		return -errno;
	snprintf(path, sizeof(path), "%s/pressure", host->dir);
	if (mkdir(path, 0700))
		return -errno;
	r = replace_file(host, "pressure/memory",
			 "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
			 "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	return r ? r : made_host_set_level(host, PN_MEM_LEVEL_OK);
}

int made_host_add_process(const struct made_host *host, int pid, const char *cgroup)
{
	char path[160], text[256];

	snprintf(path, sizeof(path), "%s/%d", host->dir, pid);
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%d/cgroup", pid);
	snprintf(text, sizeof(text), "0::%s\n", cgroup);
	return replace_file(host, path, text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void made_host_destroy(const struct made_host *host)
{
	nftw(host->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
