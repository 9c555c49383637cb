/* SPDX-License-Identifier: BSD-2-Clause */
/* Seeing libcuda calls. See cuda_watch.h. Not there yet: dies are sampled by the slow pass alone. */
#include "agent/cuda_watch.h"

#include <errno.h>

int cuda_watch_open(struct cuda_watch **ret, struct agent *agent,
		    const struct cuda_watch_calls *calls)
{
	return -EOPNOTSUPP;
}

void cuda_watch_close(struct cuda_watch *watch)
{
}

void cuda_watch_start(struct cuda_watch *watch)
{
}

void cuda_watch_sampler(struct cuda_watch *watch, pid_t pid)
{
}

void cuda_watch_mark(struct cuda_watch *watch)
{
}

bool cuda_watch_rearm(struct cuda_watch *watch)
{
	return true;
}

void cuda_watch_describe(const struct cuda_watch *watch, char *ret, size_t bytes)
{
	*ret = 0;
}
