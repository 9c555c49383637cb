/* SPDX-License-Identifier: BSD-2-Clause */
/* The finder's own loop: its children, their limits, and what the agent is told. See finder.h. */
#include "agent/gpu/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/gpu/child.h"
#include "agent/gpu/finder_children.h"
#include "core/finder_hung.h"
#include "core/probe_files.h"
#include "host/clock.h"

#define S_NS 1000000000ull

#define ROUND_NS (10 * S_NS)
/* For one process's maps, for a file until it is parsed, and for each probe. */
#define LIMIT_NS (2 * S_NS)

#define ASKED_MAX 64

/* Two readers, and workers: those that probe, that try, and that are ending. */
#define TASKS_MAX (2 + PROBE_USED_MAX + PROBE_TRIES_MAX + 16)
/* So many that do not end: no other is started. */
#define STUCK_MAX 8

enum kind { READ_ALL, READ_ASKED, WORK };

/* A child of the finder. */
struct task {
	pid_t pid; /* 0: none */
	int sock;  /* -1: nothing is heard of it any more */
	enum kind kind;
	bool reaped; /* it may still have left words in its socket */
	bool killed;
	bool late; /* it was killed because it was past its limit */
	uint64_t limit_ns;
	uint32_t step;           /* of a reader, when the limit was set */
	struct probe_file *file; /* of a worker; NULL: it has left its place */
	uint32_t probes;
};

struct finder {
	bool has_begun;
	uint64_t round_ns; /* when the next one begins */
	struct probe_files files;
	struct finder_hung hung;
	struct task task[TASKS_MAX];
	volatile struct reader_place *place; /* for each task */
	int32_t asked[ASKED_MAX];            /* to be looked at */
	size_t asked_count;
	int32_t asking[ASKED_MAX]; /* by the reader that runs */
	size_t asking_count;
	struct finder_report told;
};

static struct finder finder;

#define FOR_EACH(t) for (struct task *t = finder.task; t < finder.task + TASKS_MAX; t++)

/* ---- what the agent is told ------------------------------------------------------------------ */

static void report(enum finder_about about, int pid, int err)
{
	struct finder_report report = { .about = about, .pid = pid, .err = err };

	FOR_EACH(t)
	{
		report.probes += t->pid && t->file ? t->probes : 0;
		report.stuck += t->pid && t->late;
	}
	report.files = (uint32_t)probe_files_count(&finder.files, PROBE_USED);
	report.bad = (uint32_t)probe_files_count(&finder.files, PROBE_BAD);
	report.left_out = (uint32_t)finder_hung_count(&finder.hung, finder.files.round);
	if (about == FINDER_COUNTS && report.files == finder.told.files &&
	    report.probes == finder.told.probes && report.bad == finder.told.bad &&
	    report.stuck == finder.told.stuck && report.left_out == finder.told.left_out)
		return;
	finder.told = report;
	if (send(CHILD_FD, &report, sizeof(report), MSG_NOSIGNAL) < 0)
		_exit(0);
}

/* ---- children -------------------------------------------------------------------------------- */

static size_t stuck_count(void)
{
	size_t n = 0;

	FOR_EACH(t)
	n += t->pid && t->late;
	return n;
}

static struct task *find_reader(enum kind kind)
{
	FOR_EACH(t)
	if (t->pid && t->kind == kind && !t->killed)
		return t;
	return NULL;
}

static struct task *find_worker(const struct probe_file *file)
{
	FOR_EACH(t)
	if (t->pid && t->kind == WORK && t->file == file)
		return t;
	return NULL;
}

static bool is_hung(int pid, uint32_t uid)
{
	return finder_hung_has(&finder.hung, pid, uid, finder.files.round);
}

static _Noreturn void run_child(const struct task *task, int sock, pid_t parent)
{
	struct reader_task reader = {
		.place = finder.place + (task - finder.task),
		.skip = is_hung,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup3(sock, CHILD_FD, O_CLOEXEC) < 0)
		_exit(0);
	child_close_above(FINDER_PROGRAM_FD);
	if (task->kind == READ_ASKED) {
		reader.pids = finder.asking;
		reader.pid_count = finder.asking_count;
	}
	if (task->kind == WORK)
		finder_worker_run(task->file);
	else
		finder_reader_run(&reader);
	_exit(0);
}

/* NULL where it cannot be made now. */
static struct task *start(enum kind kind, struct probe_file *file)
{
	struct task *task = NULL;
	pid_t self = getpid();
	int pair[2];

	FOR_EACH(t)
	if (!t->pid)
		task = t;
	if (!task || stuck_count() >= STUCK_MAX ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return NULL;
	*task = (struct task){ .sock = pair[0], .kind = kind, .file = file };
	finder.place[task - finder.task] = (struct reader_place){ .uid = NO_UID };
	task->pid = fork();
	if (!task->pid)
		run_child(task, pair[1], self);
	close(pair[1]);
	if (task->pid < 0) {
		close(task->sock);
		task->pid = 0;
		return NULL;
	}
	task->limit_ns = clock_now_ns() + LIMIT_NS;
	return task;
}

/* The place is free again. */
static void release(struct task *task)
{
	/* The user of a file whose worker hung has no other file tried until now. */
	if (task->file)
		probe_files_bad(&finder.files, task->file, NULL);
	*task = (struct task){ .sock = -1 };
}

/* Nothing is heard of it any more; it is released when the kernel has let go of it. */
static void end(struct task *task, bool late)
{
	if (task->sock >= 0)
		close(task->sock);
	task->sock = -1;
	task->killed = true;
	task->late = late;
	task->limit_ns = 0;
	if (task->reaped)
		release(task);
	else
		kill(task->pid, SIGKILL);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void leave(struct probe_file *file)
{
	struct task *task = find_worker(file);

	if (task) {
		task->file = NULL;
		end(task, false);
	}
	probe_files_forget(file);
}

static void refuse(struct task *task, const struct probe_mark *mark)
{
	probe_files_bad(&finder.files, task->file, mark);
	task->file = NULL;
	end(task, false);
}

/* The worker waits for a place. */
static void admit(struct task *task)
{
	struct probe_file *leaves;
	bool first = !task->file->tries;

	if (!probe_files_has_place(&finder.files, task->file, &leaves)) {
		if (first)
			report(FINDER_NO_ROOM, task->file->mapping.pid, 0);
		/* Nothing is wrong with it, so that its mark is not kept. */
		return refuse(task, NULL);
	}
	if (leaves)
		leave(leaves);
	if (send(task->sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return refuse(task, NULL);
	task->limit_ns = clock_now_ns() + LIMIT_NS;
}

static void on_worker(struct task *task, const struct worker_said *said)
{
	struct probe_file *file = task->file;
	bool first = !file->tries;
	int pid = file->mapping.pid;

	switch (said->about) {
	case WORKER_GONE:
		probe_files_forget(file);
		task->file = NULL;
		end(task, false);
		break;
	case WORKER_SAME:
		refuse(task, &said->mark);
		break;
	case WORKER_BAD:
		refuse(task, &said->mark);
		if (first)
			report(FINDER_BAD, pid, said->err);
		break;
	case WORKER_READY:
		admit(task);
		break;
	case WORKER_PROBING:
		task->probes = said->probes;
		task->limit_ns = clock_now_ns() + LIMIT_NS;
		break;
	default: /* WORKER_DONE */
		task->probes = said->probes;
		task->limit_ns = 0;
		if (said->err)
			report(FINDER_BAD, pid, said->err);
		if (!said->probes) {
			refuse(task, NULL);
			break;
		}
		probe_files_use(file);
		report(FINDER_USES, pid, 0);
		break;
	}
}

/* ---- processes ------------------------------------------------------------------------------- */

static void on_found(const struct task *task, const struct reader_found *found)
{
	bool uses = false;

	for (uint32_t i = 0; i < found->count && i < READER_MAPS_MAX; i++) {
		const struct cuda_map *map = &found->map[i];
		const struct probe_key key = { map->dev_major, map->dev_minor, map->inode };
		const struct probe_mapping mapping = { found->pid, found->uid, map->start,
						       map->end };
		const struct probe_file *file =
			probe_files_see(&finder.files, &key, &mapping, task->kind == READ_ASKED);

		uses = uses || (file && file->state == PROBE_USED);
	}
	if (uses)
		report(FINDER_USES, found->pid, 0);
}

/* The reader has said its last words. */
static void on_read(enum kind kind, const struct reader_found *last)
{
	struct probe_file *file;

	if (kind != READ_ALL)
		return;
	while (!last->skipped && (file = probe_files_unused(&finder.files)))
		leave(file);
	finder.files.round++;
}

/* It hangs, or has ended without its last words, at some process: that one is left out. */
static void on_reader_lost(const struct task *task, enum kind kind)
{
	const volatile struct reader_place *place = finder.place + (task - finder.task);
	int pid = place->pid;

	if (pid)
		finder_hung_add(&finder.hung, pid, place->uid, finder.files.round);
	if (kind == READ_ALL) {
		finder.round_ns = clock_now_ns(); /* once more, without it */
	} else {
		for (size_t i = 0; i < finder.asking_count && finder.asked_count < ASKED_MAX; i++)
			if (finder.asking[i] != pid)
				finder.asked[finder.asked_count++] = finder.asking[i];
	}
	if (pid)
		report(FINDER_SLOW, pid, 0);
}

static void on_late(struct task *task)
{
	int pid = task->kind == WORK ? task->file->mapping.pid : 0;
	enum kind kind = task->kind;

	end(task, true);
	if (kind == WORK)
		report(FINDER_SLOW, pid, 0);
	else
		on_reader_lost(task, kind);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* One packet of a child's, or its end. */
static void on_child(struct task *task)
{
	union {
		struct worker_said said;
		struct reader_found found;
	} packet;
	ssize_t n = recv(task->sock, &packet, sizeof(packet), MSG_DONTWAIT);
	enum kind kind;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (task->kind == WORK) {
		if (n == sizeof(packet.said))
			return on_worker(task, &packet.said);
		refuse(task, NULL); /* it has ended by itself */
		return;
	}
	if (n == sizeof(packet.found) && packet.found.pid)
		return on_found(task, &packet.found);
	kind = task->kind;
	end(task, false);
	if (n == sizeof(packet.found))
		on_read(kind, &packet.found);
	else
		on_reader_lost(task, kind);
}

static void reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		FOR_EACH(t)
		{
			if (t->pid != pid || t->reaped)
				continue;
			t->reaped = true;
			if (t->killed)
				release(t);
		}
}

/* A reader that goes on gets a new limit. */
static bool goes_on(struct task *task)
{
	uint32_t step = finder.place[task - finder.task].step;

	if (task->kind == WORK || step == task->step)
		return false;
	task->step = step;
	task->limit_ns = clock_now_ns() + LIMIT_NS;
	return true;
}

static void start_what_is_due(uint64_t now_ns)
{
	struct probe_file *file;

	if (!finder.has_begun)
		return;
	if (finder.asked_count && !find_reader(READ_ASKED)) {
		memcpy(finder.asking, finder.asked, sizeof(finder.asking));
		finder.asking_count = finder.asked_count;
		finder.asked_count = 0;
		start(READ_ASKED, NULL);
	}
	if (now_ns >= finder.round_ns && !find_reader(READ_ALL)) {
		finder.round_ns = now_ns + ROUND_NS;
		start(READ_ALL, NULL);
	}
	while ((file = probe_files_next(&finder.files)))
		if (!start(WORK, file)) {
			probe_files_forget(file); /* the next round finds it again */
			break;
		}
}

static void take_request(void)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct finder_request request;
	struct iovec iov = { .iov_base = &request, .iov_len = sizeof(request) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(CHILD_FD, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(request))
		_exit(0); /* the agent has ended */
	if (request.kind == FINDER_BEGIN && CMSG_FIRSTHDR(&msg)) {
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
		if (fd != FINDER_PROGRAM_FD) {
			dup3(fd, FINDER_PROGRAM_FD, O_CLOEXEC);
			close(fd);
		}
		finder.has_begun = true;
	} else if (request.kind == FINDER_PROCESS && finder.asked_count < ASKED_MAX) {
		finder.asked[finder.asked_count++] = request.pid;
	}
}

/* Until something is heard, a child ends, or a limit or a round has come. */
static void wait_and_serve(const sigset_t *but_children)
{
	struct pollfd fds[TASKS_MAX + 1] = { { .fd = CHILD_FD, .events = POLLIN } };
	struct task *task[TASKS_MAX + 1];
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
	struct timespec ts;
	nfds_t n = 1;

	FOR_EACH(t)
	{
		if (!t->pid || t->sock < 0)
			continue;
		if (t->limit_ns && t->limit_ns < next_ns)
			next_ns = t->limit_ns;
		task[n] = t;
		fds[n++] = (struct pollfd){ .fd = t->sock, .events = POLLIN };
	}
	if (finder.has_begun && !find_reader(READ_ALL) && finder.round_ns < next_ns)
		next_ns = finder.round_ns;
	next_ns = next_ns > now_ns ? next_ns - now_ns : 0;
	ts.tv_sec = (time_t)(next_ns / S_NS);
	ts.tv_nsec = (long)(next_ns % S_NS);
	if (ppoll(fds, n, &ts, but_children) < 0)
		return;
	if (fds[0].revents)
		take_request();
	for (nfds_t i = 1; i < n; i++)
		if (fds[i].revents && task[i]->sock == fds[i].fd)
			on_child(task[i]);
}

static void on_signal(int number)
{
}

void finder_run(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t but_children;

	finder.place = mmap(NULL, TASKS_MAX * sizeof(*finder.place), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (finder.place == MAP_FAILED)
		return;
	sigaction(SIGCHLD, &action, NULL);
	sigfillset(&but_children);
	sigdelset(&but_children, SIGCHLD);
	for (;;) {
		uint64_t now_ns = clock_now_ns();

		reap();
		FOR_EACH(t)
		if (t->pid && t->limit_ns && now_ns >= t->limit_ns && !goes_on(t))
			on_late(t);
		start_what_is_due(now_ns);
		report(FINDER_COUNTS, 0, 0);
		wait_and_serve(&but_children);
	}
}
