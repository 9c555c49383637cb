/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library's own. They take no signals: those are the engine's. */
#ifndef PNMEM_LIB_THREAD_H
#define PNMEM_LIB_THREAD_H

#include <pthread.h>
#include <signal.h>

/* name: at most 15 characters. 0 or -errno. */
static inline int thread_start(pthread_t *ret, void *(*fn)(void *), void *arg, const char *name)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		pthread_setname_np(*ret, name);
	return -r;
}

#endif
