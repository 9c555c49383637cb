/* SPDX-License-Identifier: BSD-2-Clause */
/* See closer.h. */
#include "agent/serve/closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/log.h"
#include "agent/serve/peer_socket.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* No more than these can be held up at a time. */
#define THREADS_MAX 4
/* Locked memory, as all of the agent's. */
#define STACK_BYTES 65536
/* Sockets a thread closes. */
#define BATCH_MAX 64
/* Each is a descriptor of the agent's, beyond those that its clients may have. */
#define WAITING_MAX 1024
/* How long a close may wait. The signal stays pending over all that this one close drops. */
#define INTERRUPT_NS 200000
/* By default ignored, and of no use to the agent. */
#define INTERRUPT_SIGNAL SIGURG

struct dropped {
	struct dropped *next;
	int sock;
	void (*closed)(void *arg);
	void *arg;
};

struct batch {
	struct dropped *list; /* NULL: free */
	int event_fd;
	atomic_bool done;
};

struct closer {
	sd_event_source *io;
	int event_fd; /* a thread is done */
	struct dropped *waiting, **end;
	unsigned n_waiting;
	struct batch batches[THREADS_MAX];
	bool ended;
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void on_interrupt(int signal_number)
{
}

static bool start_interrupts(timer_t *ret)
{
	const struct itimerspec each = { .it_interval = { .tv_nsec = INTERRUPT_NS },
					 .it_value = { .tv_nsec = INTERRUPT_NS } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = INTERRUPT_SIGNAL };
	sigset_t set;

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&set);
	sigaddset(&set, INTERRUPT_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, ret))
		return false;
	timer_settime(*ret, 0, &each, NULL);
	return true;
}

/* Where there is no timer, this thread waits for as long as the client chose. */
static void *close_batch(void *arg)
{
	struct batch *batch = arg;
	int event_fd = batch->event_fd;
	uint64_t one = 1;
	timer_t timer;
	bool interrupted = start_interrupts(&timer);
	sigset_t all;

	for (struct dropped *at = batch->list; at; at = at->next)
		close(at->sock); /* done, also where it says EINTR */
	if (interrupted)
		timer_delete(timer);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	atomic_store(&batch->done, true); /* and from here on it is the loop's */
	while (write(event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

static int start_thread(struct batch *batch)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, close_batch, batch);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static struct dropped *take_batch(struct closer *closer)
{
	struct dropped *list = closer->waiting, **end = &list;

	for (int i = 0; i < BATCH_MAX && *end; i++) {
		end = &(*end)->next;
		closer->n_waiting--;
	}
	closer->waiting = *end;
	*end = NULL;
	if (!closer->waiting)
		closer->end = &closer->waiting;
	return list;
}

static void put_back(struct closer *closer, struct dropped *list)
{
	struct dropped **end = &list;

	for (; *end; end = &(*end)->next)
		closer->n_waiting++;
	*end = closer->waiting;
	if (!closer->waiting)
		closer->end = end;
	closer->waiting = list;
}

/* Where no thread can be had they wait, for the next that is dropped or to be accepted. */
static void start_some(struct closer *closer)
{
	for (int i = 0; i < THREADS_MAX && closer->waiting; i++) {
		struct batch *batch = &closer->batches[i];

		if (batch->list)
			continue;
		batch->list = take_batch(closer);
		batch->event_fd = closer->event_fd;
		atomic_store(&batch->done, false);
		if (!start_thread(batch))
			continue;
		put_back(closer, batch->list);
		batch->list = NULL;
		return;
	}
}

static void tell_closed(struct dropped *at)
{
	if (at->closed)
		at->closed(at->arg);
	at->closed = NULL;
}

static void finish(struct batch *batch)
{
	struct dropped *next;

	for (struct dropped *at = batch->list; at; at = next) {
		next = at->next;
		tell_closed(at);
		free(at);
	}
	batch->list = NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct closer *closer = userdata;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return 0;
	for (int i = 0; i < THREADS_MAX; i++)
		if (closer->batches[i].list && atomic_load(&closer->batches[i].done))
			finish(&closer->batches[i]);
	start_some(closer);
	return 0;
}

static void wait_to_be_closed(struct closer *closer, int sock, void (*closed)(void *arg), void *arg)
{
	struct dropped *dropped = malloc(sizeof(*dropped));

	if (!dropped)
		return; /* it stays open, and its client's, until the agent ends */
	*dropped = (struct dropped){ .sock = sock, .closed = closed, .arg = arg };
	*closer->end = dropped;
	closer->end = &dropped->next;
	closer->n_waiting++;
	start_some(closer);
}

static void drop(struct agent *agent, int sock, bool empty, void (*closed)(void *arg), void *arg)
{
	struct closer *closer = agent->closer;

	if (empty || !closer) {
		close(sock);
	} else if (!closer->ended) {
		wait_to_be_closed(closer, sock, closed, arg);
		return;
	}
	if (closed)
		closed(arg);
}

void closer_drop(struct agent *agent, int sock, void (*closed)(void *arg), void *arg)
{
	drop(agent, sock, peer_socket_end(sock), closed, arg);
}

/*
 * Once the client's own descriptor is dropped nothing more comes, so what is empty stays empty.
 * Before that this is not the last descriptor, and closing it does not wait.
 */
void closer_drop_duplicate(struct agent *agent, int sock)
{
	drop(agent, sock, peer_socket_is_empty(sock), NULL, NULL);
}

void closer_drop_listener(struct agent *agent, int sock)
{
	int accepted;

	/* No more come. */
	shutdown(sock, SHUT_RDWR);
	while ((accepted = accept4(sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		peer_socket_accepted(accepted);
		closer_drop(agent, accepted, NULL, NULL);
	}
	/* That is what it says of one that is shut down and empty; else there is no descriptor. */
	if (errno == EINVAL)
		close(sock);
}

bool closer_is_full(struct agent *agent)
{
	struct closer *closer = agent->closer;

	if (!closer || closer->n_waiting < WAITING_MAX)
		return false;
	start_some(closer);
	return closer->n_waiting >= WAITING_MAX;
}

int closer_open(struct agent *agent)
{
	const struct sigaction interrupt = { .sa_handler = on_interrupt };
	struct closer *closer = calloc(1, sizeof(*closer));
	int r;

	if (!closer)
		return -ENOMEM;
	agent->closer = closer;
	closer->end = &closer->waiting;
	closer->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Without SA_RESTART. */
	if (closer->event_fd < 0 || sigaction(INTERRUPT_SIGNAL, &interrupt, NULL))
		return -errno;
	r = sd_event_add_io(agent->event, &closer->io, closer->event_fd, EPOLLIN, on_done, closer);
	return r < 0 ? r : 0;
}

void closer_end(struct agent *agent)
{
	struct closer *closer = agent->closer;

	if (!closer)
		return;
	closer->ended = true;
	while (closer->waiting) {
		struct dropped *at = closer->waiting;

		closer->waiting = at->next;
		tell_closed(at);
		free(at);
	}
	closer->end = &closer->waiting;
	closer->n_waiting = 0;
	for (int i = 0; i < THREADS_MAX; i++)
		for (struct dropped *at = closer->batches[i].list; at; at = at->next)
			tell_closed(at);
}

void closer_close(struct agent *agent)
{
	struct closer *closer = agent->closer;
	bool busy = false;

	if (!closer)
		return;
	closer->io = sd_event_source_disable_unref(closer->io);
	for (int i = 0; i < THREADS_MAX; i++) {
		struct batch *batch = &closer->batches[i];

		if (batch->list && atomic_load(&batch->done))
			finish(batch);
		busy |= batch->list != NULL;
	}
	if (busy)
		return; /* a thread still uses it; the end of the process ends both */
	if (closer->event_fd >= 0)
		close(closer->event_fd);
	free(closer);
	agent->closer = NULL;
}
