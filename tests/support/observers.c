// SPDX-License-Identifier: BSD-2-Clause
/* The observers of a machine that runs out of memory. See observers.h. */
#include "support/observers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "support/agent_proc.h"
#include "support/file_write.h"
#include "host/clock.h"
#include "host/meminfo.h"
#include "host/pressure.h"
#include "host/psi_trigger.h"
#include "pn_memwatch.h"
#include "support/pressure.h"

#define EARLYOOM "build/earlyoom" /* put there by tests/vm/exhaustion.sh */
#define READY_MS 10000

int process_protect(void)
{
	int err = file_write("/proc/self", "oom_score_adj", "-1000");

	if (!err && mlockall(MCL_CURRENT | MCL_FUTURE))
		err = -errno;
	return err;
}

int process_expose(void)
{
	return file_write("/proc/self", "oom_score_adj", "0");
}

struct observers *observers_new(uint64_t line_bytes)
{
	/* Populated, so that nobody faults when memory is short. */
	struct observers *observers = mmap(NULL, sizeof(*observers), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (observers == MAP_FAILED)
		return NULL;
	observers->line_bytes = line_bytes;
	observers->begin_ns = UINT64_MAX;
	return observers;
}

void observers_free(struct observers *observers)
{
	if (observers)
		munmap(observers, sizeof(*observers));
}

static void note_first(const struct observers *observers, _Atomic uint64_t *first_ns,
		       uint64_t now_ns)
{
	if (now_ns >= observers->begin_ns && !*first_ns)
		*first_ns = now_ns;
}

static void engine_run(struct observers *observers)
{
	pn_mem_state state;
	pn_mem_ext ext;

	if (pn_memwatch_start() || pn_memwatch_source() != PN_SOURCE_AGENT ||
	    pn_memwatch_read(&state))
		return;
	observers->ready++;
	for (;;) {
		struct engine_wake wake;
		uint32_t n = observers->n_wakes;

		if (pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, UINT64_MAX, &state))
			return;
		wake.awake_ns = clock_now_ns();
		if (n == OBSERVERS_WAKES_MAX || pn_memwatch_read_ext(&state, &ext))
			return;
		wake.publish_ns = ext.publish_ns;
		wake.event_ns = ext.event_ns;
		wake.avail_bytes = state.host_avail_bytes;
		wake.some_total_us = ext.psi_some_total_us;
		wake.level = state.level;
		observers->wakes[n] = wake;
		observers->n_wakes = n + 1;
	}
}

static int pressure_read(int fd, struct pressure *ret)
{
	char text[512];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	return n < 0 ? -errno : pressure_parse(text, (size_t)n, ret);
}

static int meminfo_read(int fd, struct meminfo *ret)
{
	char text[4096];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	return n < 0 ? -errno : meminfo_parse(text, (size_t)n, ret);
}

int observers_begin(struct observers *observers)
{
	int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	struct pressure pressure;
	int err = fd < 0 ? -errno : pressure_read(fd, &pressure);

	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	observers->begin_ns = UINT64_MAX; /* of no round, until all is set */
	observers->poll_line_ns = 0;
	observers->poll_stall_ns = 0;
	observers->trigger_ns = 0;
	observers->earlyoom_ns = 0;
	observers->begin_total_us = pressure.some.total_us;
	observers->begin_ns = clock_now_ns();
	return 0;
}

static void poll_run(struct observers *observers)
{
	int pressure_fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	int meminfo_fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	struct timespec due;

	clock_gettime(CLOCK_MONOTONIC, &due);
	observers->ready++;
	for (;;) {
		struct pressure pressure;
		struct meminfo meminfo;
		uint64_t now_ns;

		if (pressure_read(pressure_fd, &pressure) || meminfo_read(meminfo_fd, &meminfo))
			return;
		now_ns = clock_now_ns();
		if (meminfo.avail_bytes <= observers->line_bytes)
			note_first(observers, &observers->poll_line_ns, now_ns);
		if (pressure.some.total_us > observers->begin_total_us)
			note_first(observers, &observers->poll_stall_ns, now_ns);
		due.tv_nsec += OBSERVERS_POLL_MS * 1000000;
		due.tv_sec += due.tv_nsec / 1000000000;
		due.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
}

static void trigger_run(struct observers *observers)
{
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct pollfd pollfd = { .events = POLLPRI };

	pollfd.fd = psi_trigger_open(proc_fd, &observers->window_ms);
	if (pollfd.fd < 0)
		return;
	observers->ready++;
	while (poll(&pollfd, 1, -1) == 1 && !(pollfd.revents & POLLERR))
		note_first(observers, &observers->trigger_ns, clock_now_ns());
}

/* Its message is timed when it is read from the pipe, where its notice to an engine would be. */
static void earlyoom_run(struct observers *observers)
{
	pid_t parent = getpid();
	char size[64], line[512];
	int pipe_fd[2];
	FILE *output;

	snprintf(size, sizeof(size), "%llu,1", (unsigned long long)observers->line_bytes / 1024);
	if (pipe(pipe_fd))
		return;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		dup2(pipe_fd[1], STDOUT_FILENO);
		dup2(pipe_fd[1], STDERR_FILENO);
		execl(EARLYOOM, EARLYOOM, "-p", "-r", "0", "-M", size, "--dryrun", NULL);
		_exit(127);
	}
	close(pipe_fd[1]);
	output = fdopen(pipe_fd[0], "r");
	while (output && fgets(line, sizeof(line), output)) {
		if (strstr(line, "sending SIGTERM when")) /* the last line of its start */
			observers->ready++;
		if (strstr(line, "low memory!"))
			note_first(observers, &observers->earlyoom_ns, clock_now_ns());
	}
}

struct start {
	struct observers *observers;
	int ready_before;
};

static bool has_started(void *arg)
{
	struct start *start = arg;

	return start->observers->ready > start->ready_before || start->observers->failed;
}

pid_t observers_start(struct observers *observers, int which)
{
	static void (*const mains[OBSERVER_COUNT])(struct observers *) = {
		[OBSERVER_ENGINE] = engine_run,
		[OBSERVER_POLL] = poll_run,
		[OBSERVER_TRIGGER] = trigger_run,
		[OBSERVER_EARLYOOM] = earlyoom_run,
	};
	struct start start = { observers, observers->ready };
	pid_t pid, parent = getpid();

	if (which == OBSERVER_EARLYOOM && access(EARLYOOM, X_OK))
		return -ENOENT;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent && !process_protect())
			mains[which](observers);
		observers->failed++;
		_exit(1);
	}
	if (test_until(has_started, &start, READY_MS) && !observers->failed)
		return pid;
	pressure_stop(pid);
	return -ETIMEDOUT;
}
