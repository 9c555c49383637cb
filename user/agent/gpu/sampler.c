/* SPDX-License-Identifier: BSD-2-Clause */
/* The sampler child. See sampler.h. */
#include "agent/gpu/sampler.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/gpu/launcher.h"
#include "agent/log.h"
#include "core/die_retry.h"
#include "core/u64.h"
#include "host/clock.h"

#define MS_NS 1000000ull
#define S_NS  1000000000ull

/* cuInit alone takes up to 3 s for each GPU that nothing keeps awake. */
#define START_LIMIT_NS (60 * S_NS)
/* The launcher's answer takes a fork. After this it is told of, and still waited for. */
#define LAUNCH_LIMIT_NS (2 * S_NS)
/*
 * Between two messages of a pass: calls take microseconds, or, once in a while, milliseconds. With
 * the 5 s between slow passes before it and a new child after it, less than a die's limit of 10 s.
 */
#define PASS_LIMIT_NS (3 * S_NS)
/* Before a new child; the longest also where a new one would find the same: no device, a stub. */
#define BACKOFF_MIN_NS (250 * MS_NS)
#define BACKOFF_MAX_NS (64 * S_NS)
/* Messages of one wake-up of the loop: two passes of all the dies that there can be. */
#define BATCH_MAX 128

enum state {
	WAITING,  /* until due_ns, to be started; UINT64_MAX: for good */
	STARTING, /* the launcher has been asked, at started_ns */
	RUNNING,
	ENDING, /* killed or hung up; not reaped yet */
};

struct sampler {
	sd_event *event;
	struct launcher *launcher;
	const char *cuda_lib;
	struct sampler_calls calls;
	sd_event_source *timer;

	enum state state;
	uint64_t due_ns; /* WAITING */
	uint64_t backoff_ns;
	uint64_t started_ns;
	pid_t pid;
	sd_event_source *exit_source;
	int sock;            /* -1: none */
	sd_event_source *io; /* owns sock, but while STARTING */

	uint64_t want_ns;    /* next pass; UINT64_MAX: only the slow one */
	uint64_t asked_ns;   /* last request, 0 none of this child */
	uint64_t heard_ns;   /* last message of a pass */
	uint64_t pass;       /* of the last request */
	uint64_t passes;     /* that this child has ended */
	uint32_t dies_heard; /* in this pass */
	int32_t last_heard;  /* index of the last of them, -1 none */
	bool asked;          /* and not answered yet */
	bool driver_known;
	struct die_driver driver;

	struct die_request request; /* the last one */
	struct die_retry retry;
	/* PCI ids by index, of the newest pass that told them; n_order of them. */
	char order[DIE_MESSAGE_MAX_DIES][DIE_MESSAGE_PCI_BYTES];
	int32_t n_order;
	bool die_failed; /* this child's end is the doing of one die that it was to sample */

	char why[160];     /* of the last failure */
	bool failing;      /* and said so; until a child has lasted */
	bool start_failed; /* and said so; until a child has answered */
	bool recovered;    /* for now, and said so */
	bool pass_good;    /* some die of this pass could be sampled, or is not meant to be */
	bool pass_bad;     /* some die of this pass is in error */
};

/* PNMEM_DIES, else beside this program, else where it is installed. */
static int find_program(char *ret, size_t bytes)
{
	static const char *const places[] = { "pnmem-dies", "../libexec/pnmem/pnmem-dies" };
	const char *set = getenv("PNMEM_DIES");
	char self[PATH_MAX];
	ssize_t n;

	if (set && *set) {
		snprintf(ret, bytes, "%s", set);
		return access(ret, X_OK) ? -errno : 0;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return -errno;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(ret, bytes, "%s/%s", self, places[i]) >= (int)bytes)
			return -ENAMETOOLONG;
		if (!access(ret, X_OK))
			return 0;
	}
	return -ENOENT;
}

/* ---- its life -------------------------------------------------------------------------------- */

static void arm(struct sampler *s)
{
	uint64_t due_ns = UINT64_MAX;

	if (s->state == WAITING)
		due_ns = s->due_ns;
	else if (s->state == STARTING && !s->why[0])
		due_ns = s->started_ns + LAUNCH_LIMIT_NS;
	else if (s->state == RUNNING && s->asked)
		due_ns = s->passes ? u64_max(s->heard_ns, s->asked_ns) + PASS_LIMIT_NS
				   : u64_max(s->heard_ns, s->started_ns) + START_LIMIT_NS;
	else if (s->state == RUNNING)
		due_ns = u64_max(u64_min(u64_min(s->want_ns, s->asked_ns + SAMPLER_SLOW_NS),
					 die_retry_due_ns(&s->retry)),
				 s->asked_ns + SAMPLER_GAP_NS);
	if (due_ns == UINT64_MAX) {
		sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
		return;
	}
	sd_event_source_set_time(s->timer, due_ns / 1000);
	sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static void hang_up(struct sampler *s)
{
	if (!s->io && s->sock >= 0)
		close(s->sock);
	s->io = sd_event_source_disable_unref(s->io);
	s->sock = -1;
}

/* Whether the child's end leaves other dies as they were: a moment later they go on. */
static bool others_go_on(const struct sampler *s)
{
	return s->die_failed && s->n_order > s->retry.count;
}

/*
 * Once for each time that it is out of order: until a child has lasted, whatever befalls the next.
 */
static void say_failed(struct sampler *s)
{
	const char *what = "dies turn stale, it is tried again";

	if (s->failing)
		return;
	if (launcher_is_gone(s->launcher))
		what = "dies turn stale, until pnmemd is restarted";
	else if (others_go_on(s))
		what = "that die turns stale, it is tried again; the others go on";
	log_limited(LOG_KIND_SAMPLER, LOG_WARNING, "die sampler: %s; %s", s->why, what);
	s->failing = true;
	s->recovered = false;
}

/* That there is not even a child is said once more, whatever was said before. */
static void say_start_failed(struct sampler *s)
{
	s->failing = s->failing && s->start_failed;
	s->start_failed = true;
	say_failed(s);
}

static void wait_before_next(struct sampler *s, uint64_t now_ns, uint64_t delay_ns)
{
	s->state = WAITING;
	s->due_ns = now_ns + delay_ns;
	s->backoff_ns = u64_min(2 * s->backoff_ns, BACKOFF_MAX_NS);
}

/* It does not answer: the die that comes after the last one heard may be why. */
static void suspect(struct sampler *s, uint64_t now_ns)
{
	int32_t i = s->last_heard + 1;

	while (i < s->n_order && die_request_skips(&s->request, s->order[i]))
		i++;
	if (!s->asked || i >= s->n_order || !s->order[i][0])
		return;
	die_retry_failed(&s->retry, s->order[i], now_ns);
	s->die_failed = true;
}

/* The child is of no more use: it is killed, and reaped when the kernel lets go of it. */
static void fail(struct sampler *s, const char *why)
{
	snprintf(s->why, sizeof(s->why), "%s", why);
	say_failed(s);
	hang_up(s);
	kill(s->pid, SIGKILL);
	s->state = ENDING;
	arm(s);
}

static void describe_driver(const struct die_driver *driver, char *ret, size_t bytes)
{
	static const char *const texts[] = {
		[DIE_DRIVER_OK] = "",
		[DIE_DRIVER_NO_DEVICE] = "a driver, and no GPU that it serves",
		[DIE_DRIVER_NONE] = "no driver, or no libcuda",
		[DIE_DRIVER_STUB] = "libcuda is the toolkit's stub, not a driver",
		[DIE_DRIVER_MISMATCH] =
			"libcuda and the kernel driver are of different versions: reload or reboot",
		[DIE_DRIVER_ERROR] = "the driver fails",
	};

	snprintf(ret, bytes, "%s%s%s%s", texts[driver->state], driver->error_name[0] ? " (" : "",
		 driver->error_name, driver->error_name[0] ? ")" : "");
}

static void reaped(struct sampler *s, const siginfo_t *info, uint64_t now_ns)
{
	bool hopeless = s->driver_known && s->driver.state != DIE_DRIVER_OK &&
			s->driver.state != DIE_DRIVER_ERROR;

	if (s->state == RUNNING) { /* of its own accord */
		if (s->driver_known && s->driver.state != DIE_DRIVER_OK)
			describe_driver(&s->driver, s->why, sizeof(s->why));
		else if (info->si_code != CLD_EXITED)
			snprintf(s->why, sizeof(s->why), "killed by signal %d", info->si_status);
		else if (info->si_status == 127)
			snprintf(s->why, sizeof(s->why), "pnmem-dies cannot be run");
		else if (info->si_status == DIE_EXIT_CUDA)
			snprintf(s->why, sizeof(s->why),
				 "a CUDA error that only ends with its process");
		else
			snprintf(s->why, sizeof(s->why), "ended with status %d", info->si_status);
		say_failed(s);
	}
	hang_up(s);
	s->exit_source = sd_event_source_disable_unref(s->exit_source);
	s->pid = 0;
	if (now_ns - s->started_ns > BACKOFF_MAX_NS)
		s->backoff_ns = BACKOFF_MIN_NS;
	/* For the others' sake; how often that can be is what die_retry bounds. */
	if (others_go_on(s)) {
		wait_before_next(s, now_ns, BACKOFF_MIN_NS);
		s->backoff_ns = BACKOFF_MIN_NS;
	} else {
		wait_before_next(s, now_ns, hopeless ? BACKOFF_MAX_NS : s->backoff_ns);
	}
	s->die_failed = false;
	arm(s);
}

static int on_exit_of_child(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct sampler *s = userdata;

	/* What it said last is still in the socket; why it ended may be among it. */
	if (s->io) {
		struct die_message last;
		ssize_t n;

		while ((n = recv(s->sock, &last, sizeof(last), MSG_DONTWAIT)) > 0)
			if (!die_message_check(&last, (size_t)n, &last) &&
			    last.header.kind == DIE_KIND_DRIVER) {
				s->driver = last.driver;
				s->driver_known = true;
			}
	}
	reaped(s, info, clock_now_ns());
	return 0;
}

/* ---- what it says ---------------------------------------------------------------------------- */

static void ask(struct sampler *s, uint64_t now_ns)
{
	s->request = (struct die_request){ .header = die_header_make(DIE_SAMPLE_NOW, s->pass + 1) };
	die_retry_ask(&s->retry, !s->passes, now_ns, &s->request);
	s->calls.asking(s->calls.arg);
	/* Where this fails no answer comes, and that is noticed. */
	if (send(s->sock, &s->request, sizeof(s->request), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
	}
	s->pass++;
	s->asked = true;
	s->asked_ns = now_ns;
	s->want_ns = UINT64_MAX;
	s->dies_heard = 0;
	s->last_heard = -1;
	s->pass_good = s->pass_bad = false;
}

static void say_recovered(struct sampler *s)
{
	if (s->failing && !s->recovered)
		log_limited(LOG_KIND_SAMPLER, LOG_NOTICE, "die sampler: samples again");
	s->recovered = true;
}

/* What a sample says of the sampler and of how the die is to be sampled. */
static void take_die(struct sampler *s, const struct die_sample *die)
{
	s->last_heard = die->index;
	s->n_order = die->n_dies;
	snprintf(s->order[die->index], sizeof(s->order[0]), "%s", die->pci);
	if (die->state != DIE_ERROR) {
		s->pass_good = true;
		die_retry_good(&s->retry, die->pci);
		return;
	}
	/* A die that is full is an answer too. */
	s->pass_bad = s->pass_bad || die->cuda_error != DIE_CUDA_OUT_OF_MEMORY;
	if (!die_sample_ends_process(die))
		return;
	s->die_failed = s->die_failed || !die_request_skips(&s->request, die->pci);
	die_retry_failed(&s->retry, die->pci, s->heard_ns);
}

/* False if it is not what was asked for: a sampler out of its mind, or another program. */
static bool take(struct sampler *s, const struct die_message *m)
{
	if (m->header.kind == DIE_KIND_DRIVER) {
		if (s->driver_known)
			return false;
		s->driver_known = true;
		s->driver = m->driver;
		s->calls.driver(s->calls.arg, &s->driver);
		return true;
	}
	if (!s->driver_known || !s->asked || m->header.pass != s->pass)
		return false;
	s->heard_ns = clock_now_ns();
	if (m->header.kind == DIE_KIND_DIE) {
		if (s->dies_heard++ >= DIE_MESSAGE_MAX_DIES || m->die.sample_ns > s->heard_ns)
			return false;
		take_die(s, &m->die);
		s->calls.die(s->calls.arg, &m->die);
		return true;
	}
	s->asked = s->start_failed = false;
	s->passes++;
	if (s->heard_ns - s->started_ns > BACKOFF_MAX_NS && !s->retry.count)
		s->failing = false;
	if (s->pass_good && !s->pass_bad && !s->retry.count)
		say_recovered(s);
	s->calls.pass_end(s->calls.arg);
	return true;
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct sampler *s = userdata;
	struct {
		struct die_message message;
		char more; /* a longer packet shows by filling this too */
	} packet;
	ssize_t n = 0;
	int i;

	for (i = 0; i < BATCH_MAX; i++) {
		n = recv(fd, &packet, sizeof(packet), MSG_DONTWAIT);
		if (n <= 0)
			break;
		if (die_message_check(&packet, (size_t)n, &packet.message) ||
		    !take(s, &packet.message)) {
			fail(s, "said what no sampler says");
			break;
		}
	}
	/* It has closed its end: if that is not its end, it is one that does not answer. */
	if (s->state == RUNNING && n == 0 && i < BATCH_MAX) {
		sd_event_source_set_enabled(s->io, SD_EVENT_OFF);
		s->asked = true;
		s->heard_ns = clock_now_ns();
	}
	arm(s);
	return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Takes over its socket and watches for its end; kills it where that cannot be had. 0 or -errno:
 * the socket is still the caller's. */
static int follow(struct sampler *s, int sock)
{
	int r;

	r = sd_event_add_child(s->event, &s->exit_source, s->pid, WEXITED, on_exit_of_child, s);
	if (r >= 0) {
		/* After its socket: the last words come before the end. */
		sd_event_source_set_priority(s->exit_source, SD_EVENT_PRIORITY_NORMAL + 1);
		r = sd_event_add_io(s->event, &s->io, sock, EPOLLIN, on_message, s);
	}
	if (r < 0) {
		kill(s->pid, SIGKILL);
		return r;
	}
	sd_event_source_set_io_fd_own(s->io, true);
	s->sock = sock;
	return 0;
}

static void start_failed(struct sampler *s, int err, uint64_t now_ns)
{
	hang_up(s);
	if (launcher_is_gone(s->launcher)) {
		/* Which is in the log. */
		snprintf(s->why, sizeof(s->why), "the process that starts it has ended");
		s->state = WAITING;
		s->due_ns = UINT64_MAX;
		return;
	}
	if (!s->why[0])
		snprintf(s->why, sizeof(s->why), "cannot be started: %s", strerror(-err));
	say_start_failed(s);
	wait_before_next(s, now_ns, BACKOFF_MAX_NS);
}

/* The launcher's answer. */
static void on_launched(void *arg, pid_t pid)
{
	struct sampler *s = arg;
	uint64_t now_ns = clock_now_ns();
	int r = pid < 0 ? pid : 0;

	s->why[0] = 0;
	if (!r) {
		s->pid = pid;
		r = follow(s, s->sock);
	}
	if (r) {
		start_failed(s, r, now_ns);
		arm(s);
		return;
	}
	s->calls.started(s->calls.arg, s->pid);
	s->state = RUNNING;
	s->started_ns = now_ns;
	s->passes = s->asked_ns = s->heard_ns = 0;
	s->asked = s->driver_known = s->die_failed = false;
	ask(s, now_ns);
	arm(s);
}

static int start(struct sampler *s, uint64_t now_ns)
{
	char program[PATH_MAX];
	int pair[2], r;

	r = find_program(program, sizeof(program));
	if (r) {
		snprintf(s->why, sizeof(s->why), "pnmem-dies cannot be run: %s", strerror(-r));
		return r;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	s->sock = pair[0];
	r = launcher_start(s->launcher, program, s->cuda_lib, pair[1], on_launched, s);
	close(pair[1]);
	if (r)
		return r;
	s->state = STARTING;
	s->started_ns = now_ns;
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct sampler *s = userdata;
	uint64_t now_ns = clock_now_ns();
	int r;

	if (s->state == WAITING) {
		s->why[0] = 0;
		r = start(s, now_ns);
		if (r)
			start_failed(s, r, now_ns);
	} else if (s->state == STARTING) {
		snprintf(s->why, sizeof(s->why), "the process that starts it does not answer");
		say_start_failed(s);
	} else if (s->state == RUNNING && s->asked) {
		suspect(s, now_ns);
		fail(s, s->passes ? "does not answer: killed" : "does not start: killed");
	} else if (s->state == RUNNING) {
		ask(s, now_ns);
	}
	arm(s);
	return 0;
}

/* ---- public ---------------------------------------------------------------------------------- */

int sampler_open(struct sampler **ret, sd_event *event, struct launcher *launcher,
		 const char *cuda_lib, const struct sampler_calls *calls)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->event = event;
	s->launcher = launcher;
	s->cuda_lib = cuda_lib;
	s->calls = *calls;
	s->sock = -1;
	s->want_ns = UINT64_MAX;
	s->backoff_ns = BACKOFF_MIN_NS;
	r = sd_event_add_time(event, &s->timer, CLOCK_MONOTONIC, 0, 1, on_timer, s);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	if (s->pid > 0)
		kill(s->pid, SIGKILL);
	if (s->state == STARTING)
		launcher_forget(s->launcher);
	hang_up(s);
	sd_event_source_disable_unref(s->exit_source);
	sd_event_source_disable_unref(s->timer);
	free(s);
}

void sampler_want(struct sampler *s, uint64_t due_ns)
{
	uint64_t now_ns = clock_now_ns();

	s->want_ns = u64_min(s->want_ns, due_ns);
	/* Asked from here where it may be: the timer costs another turn of the loop. */
	if (s->state == RUNNING && !s->asked && s->want_ns <= now_ns &&
	    now_ns - s->asked_ns >= SAMPLER_GAP_NS)
		ask(s, now_ns);
	arm(s);
}

bool sampler_describe(const struct sampler *s, char *ret, size_t bytes)
{
	uint64_t now_ns = clock_now_ns();

	if (s->state == RUNNING && s->passes) {
		snprintf(ret, bytes, "pid %d, CUDA %d.%d, %d dies, %llu passes, %s", (int)s->pid,
			 s->driver.driver_version / 1000, s->driver.driver_version % 1000 / 10,
			 s->driver.n_dies, (unsigned long long)s->passes, s->driver.library_path);
		return true;
	}
	if (s->state == RUNNING)
		snprintf(ret, bytes, "starting%s%s", s->failing ? " again; before that: " : "",
			 s->failing ? s->why : "");
	else if (s->state == STARTING)
		snprintf(ret, bytes, "%s", s->why[0] ? s->why : "starting");
	else if (s->state == WAITING && s->due_ns == UINT64_MAX)
		snprintf(ret, bytes, "%s: restart pnmemd", s->why);
	else if (s->state == ENDING)
		snprintf(ret, bytes, "%s; it does not end, stuck in the kernel", s->why);
	else
		snprintf(ret, bytes, "%s; tried again in %llu s", s->why[0] ? s->why : "starting",
			 (unsigned long long)((s->due_ns - u64_min(s->due_ns, now_ns)) / S_NS));
	return false;
}
