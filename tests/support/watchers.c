/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines that check what they see. See watchers.h. */
#include "support/watchers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/clock.h"

#define DIGITS      10
#define DIGIT_BYTES (1000000ull * 1024)
#define DIGIT_AT    49 /* in the text below */
#define READERS     2
#define READ_BURST  100
/* The agent publishes every 2 s at least, a poll every 250 ms. */
#define WAIT_MAX_NS      10000000000ull
#define DIE_BUDGET_BYTES (64ull << 30)

/* Of this total the reserve is 1,485,000 kB: CRITICAL at digit 0 and 1, WATCH at 2, OK above. */
static const char meminfo_text[] =
	"MemTotal: 9900000 kB\nMemFree: 0 kB\nMemAvailable: 0000000 kB\n";
static const char pressure_text[] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
				    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

/* In the engine's process. */
static struct {
	struct watcher *self;
	int die;
	/* The newest that any of its threads has been shown. */
	_Atomic uint64_t publish_ns, seq, die_free_bytes;
	_Atomic uint64_t pushed_bytes; /* the newest push that has been acknowledged */
} e;

static void nap_us(unsigned us)
{
	const struct timespec time = { .tv_nsec = us * 1000l };

	nanosleep(&time, NULL);
}

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list ap;

	if (atomic_load(&e.self->failed))
		return;
	va_start(ap, format);
	vsnprintf(e.self->why, sizeof(e.self->why), format, ap);
	va_end(ap);
	atomic_store(&e.self->failed, true);
}

/* What had been seen before a read began, by any thread: the read must not show less. */
struct seen {
	uint64_t publish_ns, seq, die_free_bytes, pushed_bytes;
};

static struct seen seen_now(void)
{
	return (struct seen){ atomic_load(&e.publish_ns), atomic_load(&e.seq),
			      atomic_load(&e.die_free_bytes), atomic_load(&e.pushed_bytes) };
}

static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t old = atomic_load(word);

	while (old < value && !atomic_compare_exchange_weak(word, &old, value))
		continue;
}

/* One step on is new, the same is the same; everything else is old. */
static void check_digit(uint32_t digit)
{
	uint32_t last = atomic_load(&e.self->digit);

	if (digit == last)
		return;
	if (digit != (last + 1) % DIGITS)
		fail("free memory went from digit %u back to %u", last, digit);
	atomic_store(&e.self->digit, digit);
}

static pn_mem_level level_of(uint32_t digit)
{
	return digit < 2 ? PN_MEM_LEVEL_CRITICAL : digit < 3 ? PN_MEM_LEVEL_WATCH : PN_MEM_LEVEL_OK;
}

static void check_state(const struct seen *before, const pn_mem_state *state, const pn_mem_ext *ext)
{
	pn_mem_level level = level_of((uint32_t)(state->host_avail_bytes / DIGIT_BYTES));
	uint64_t die_free = state->per_die_free[e.die];

	if (state->seq < before->seq)
		fail("seq went from %llu back to %llu", (unsigned long long)before->seq,
		     (unsigned long long)state->seq);
	if (ext->publish_ns < before->publish_ns)
		fail("publish time went back by %llu ns",
		     (unsigned long long)(before->publish_ns - ext->publish_ns));
	/* Real stalls, which the hooks see, may add to what the made-up files say. */
	if (state->level != level &&
	    (state->level < level || !(ext->reasons & (PN_REASON_PSI_SOME | PN_REASON_PSI_FULL))))
		fail("level %d with %llu bytes available", (int)state->level,
		     (unsigned long long)state->host_avail_bytes);
	if (die_free < before->die_free_bytes || die_free < before->pushed_bytes)
		fail("free bytes of its die went from %llu (%llu pushed) back to %llu",
		     (unsigned long long)before->die_free_bytes,
		     (unsigned long long)before->pushed_bytes, (unsigned long long)die_free);
}

/*
 * Reads one snapshot and checks it. The digit is only checked by one thread: a thread that loses
 * its CPU between reading and checking may come with an old one when the others have moved on.
 */
static void read_and_check(bool digits)
{
	struct seen before = seen_now();
	pn_mem_state state;
	pn_mem_ext ext;
	int r = pn_memwatch_read_ext(&state, &ext);

	if (r == -EAGAIN)
		return;
	if (r) {
		fail("a read gave %s", strerror(-r));
		return;
	}
	check_state(&before, &state, &ext);
	raise_to(&e.seq, state.seq);
	raise_to(&e.publish_ns, ext.publish_ns);
	raise_to(&e.die_free_bytes, state.per_die_free[e.die]);
	if (digits)
		check_digit((uint32_t)(state.host_avail_bytes / DIGIT_BYTES));
	atomic_fetch_add(&e.self->reads, 1);
}

static void *reader_main(void *arg)
{
	for (;;) {
		for (int i = 0; i < READ_BURST; i++)
			read_and_check(arg != NULL);
		nap_us(1000);
	}
	return NULL;
}

static void *waiter_main(void *arg)
{
	pn_mem_state seen, now;
	int r = pn_memwatch_read(&seen);

	while (!r) {
		r = pn_memwatch_wait(PN_WAIT_SNAPSHOT, &seen, clock_now_ns() + WAIT_MAX_NS, &now);
		if (r)
			break;
		if (now.seq <= seen.seq)
			fail("a wait ended with seq %llu after %llu", (unsigned long long)now.seq,
			     (unsigned long long)seen.seq);
		seen = now;
		atomic_fetch_add(&e.self->waits, 1);
	}
	fail("a wait gave %s", strerror(-r));
	return NULL;
}

static void *event_loop_main(void *arg)
{
	struct pollfd fd = { .fd = pn_memwatch_fd(), .events = POLLIN };
	uint64_t count;

	while (fd.fd >= 0 && poll(&fd, 1, -1) >= 0)
		if (read(fd.fd, &count, sizeof(count)) == sizeof(count))
			atomic_fetch_add(&e.self->level_wakes, 1);
	fail("no eventfd");
	return NULL;
}

/* Each push says more free than the one before, so that an old one shows. */
static void *pusher_main(void *arg)
{
	for (uint64_t n = 1;; n++) {
		uint64_t free_bytes = DIE_BUDGET_BYTES / 2 + n;

		pn_memwatch_set_die(e.die, free_bytes, DIE_BUDGET_BYTES, 0);
		raise_to(&e.pushed_bytes, free_bytes);
		atomic_fetch_add(&e.self->pushes, 1);
		nap_us(2000);
	}
	return NULL;
}

static void note_source(void)
{
	pn_memwatch_source_t source = pn_memwatch_source();
	pn_agent_info agent;

	if (source == PN_SOURCE_POLL && atomic_load(&e.self->source) != PN_SOURCE_POLL)
		atomic_fetch_add(&e.self->polls, 1);
	atomic_store(&e.self->agent_pid, source == PN_SOURCE_AGENT && !pn_memwatch_agent(&agent)
						 ? (uint32_t)agent.pid
						 : 0);
	atomic_store(&e.self->source, source);
}

__attribute__((noreturn)) static void engine_main(struct watcher *self, int die)
{
	void *(*const threads[])(void *) = { waiter_main, event_loop_main, pusher_main };
	pthread_t thread;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	e.self = self;
	e.die = die;
	r = pn_memwatch_start();
	for (size_t i = 0; !r && i < READERS; i++)
		r = -pthread_create(&thread, NULL, reader_main, i ? NULL : self);
	for (size_t i = 0; !r && i < sizeof(threads) / sizeof(threads[0]); i++)
		r = -pthread_create(&thread, NULL, threads[i], NULL);
	if (r)
		fail("cannot start: %s", strerror(-r));
	for (;;) {
		note_source();
		nap_us(1000);
	}
}

/* ---- in the test's process ------------------------------------------------------------------ */

static int put_file(const char *dir, const char *name, const char *text)
{
	char path[160];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		r = -EIO;
	close(fd);
	return r;
}

/* One byte in place: whoever reads meanwhile has the old digit or the new. */
static int put_digit(const struct watchers *w)
{
	char path[160], digit = (char)('0' + w->digit);
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/meminfo", w->dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (pwrite(fd, &digit, 1, DIGIT_AT) != 1)
		r = -EIO;
	close(fd);
	return r;
}

int watchers_init(struct watchers *w, const char *under)
{
	char path[128];
	int r;

	memset(w, 0, sizeof(*w));
	w->digit = 5;
	snprintf(w->dir, sizeof(w->dir), "%s/proc", under);
	snprintf(path, sizeof(path), "%s/pressure", w->dir);
	if (mkdir(w->dir, 0700) || mkdir(path, 0700))
		return -errno;
	r = put_file(w->dir, "meminfo", meminfo_text);
	if (!r)
		r = put_file(w->dir, "pressure/memory", pressure_text);
	if (!r)
		r = put_digit(w);
	return r || !setenv("PN_PROCFS", w->dir, 1) ? r : -errno;
}

int watchers_start(struct watchers *w, unsigned count)
{
	w->watcher = mmap(NULL, sizeof(*w->watcher) * WATCHERS_MAX, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->watcher == MAP_FAILED) {
		w->watcher = NULL;
		return -errno;
	}
	for (; w->count < count; w->count++) {
		struct watcher *self = &w->watcher[w->count];
		pid_t pid;

		self->digit = w->digit;
		pid = fork();
		if (pid < 0)
			return -errno;
		if (!pid)
			engine_main(self, (int)w->count);
		self->pid = pid;
	}
	return 0;
}

int watchers_next_digit(struct watchers *w)
{
	w->digit = (w->digit + 1) % DIGITS;
	return put_digit(w);
}

bool watchers_see_digit(const struct watchers *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (atomic_load(&w->watcher[i].digit) != w->digit)
			return false;
	return true;
}

bool watchers_on_agent(const struct watchers *w, pid_t agent_pid)
{
	for (unsigned i = 0; i < w->count; i++)
		if (atomic_load(&w->watcher[i].agent_pid) != (uint32_t)agent_pid)
			return false;
	return true;
}

bool watchers_poll(const struct watchers *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (atomic_load(&w->watcher[i].source) != PN_SOURCE_POLL)
			return false;
	return true;
}

bool watchers_are_well(const struct watchers *w)
{
	bool well = true;

	for (unsigned i = 0; i < w->count; i++) {
		if (!atomic_load(&w->watcher[i].failed))
			continue;
		printf("# engine %u: %s\n", i, w->watcher[i].why);
		well = false;
	}
	return well;
}

static long count_entries(pid_t pid, const char *name)
{
	char path[64];
	long n = -2; /* "." and ".." */
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Lines of the file, and the number behind `key` in it (NULL: none). */
static long count_lines(pid_t pid, const char *name, const char *key, long *ret_value)
{
	char path[64], line[512];
	FILE *file;
	long n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	for (; file && fgets(line, sizeof(line), file); n++)
		if (key && !strncmp(line, key, strlen(key)))
			*ret_value = strtol(line + strlen(key), NULL, 10);
	if (file)
		fclose(file);
	return n;
}

struct watcher_held watcher_held(const struct watcher *watcher)
{
	struct watcher_held held = {
		.descriptors = count_entries(watcher->pid, "fd"),
		.threads = count_entries(watcher->pid, "task"),
		.mappings = count_lines(watcher->pid, "maps", NULL, NULL),
	};

	count_lines(watcher->pid, "status", "RssAnon:", &held.anon_kib);
	return held;
}

bool watchers_soak(void)
{
	const char *soak = getenv("PN_SOAK");

	return soak && !strcmp(soak, "1");
}

void watchers_stop(struct watchers *w)
{
	static const char *const names[] = { "/pressure/memory", "/pressure", "/meminfo", "" };
	char path[160];

	for (unsigned i = 0; i < w->count; i++) {
		kill(w->watcher[i].pid, SIGKILL);
		waitpid(w->watcher[i].pid, NULL, 0);
	}
	if (w->watcher)
		munmap(w->watcher, sizeof(*w->watcher) * WATCHERS_MAX);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", w->dir, names[i]);
		remove(path);
	}
	unsetenv("PN_PROCFS");
}
