/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What reading the snapshot costs, beside a memcpy of the same bytes from a shared page, which
 * gives no protection against a writer. There are two of those: the one that gcc writes in place
 * where it knows the size, as it does for an engine that copies a struct, and libc's, with a size
 * that the compiler does not see: vector registers, the fastest copy that this machine has. The
 * goal is against the first; the second is the hard floor. Then the same read while a writer
 * publishes as fast as it can, on a page of our own.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "core/page.h"
#include "host/clock.h"
#include "ops.h"
#include "pn_memwatch.h"

struct copier {
	const struct page_payload *from; /* in a page mapped as an engine maps the agent's */
	size_t bytes;
	struct page_payload to;
};

static void loop_copy_state(void *arg, size_t n)
{
	struct copier *c = arg;

	while (n--) {
		memcpy(&c->to.state, &c->from->state, sizeof(c->to.state));
		op_keep(&c->to);
	}
}

static void loop_copy_both(void *arg, size_t n)
{
	struct copier *c = arg;

	while (n--) {
		memcpy(&c->to, c->from, sizeof(c->to));
		op_keep(&c->to);
	}
}

static void loop_libc(void *arg, size_t n)
{
	struct copier *c = arg;
	size_t bytes = c->bytes;

	__asm__("" : "+r"(bytes));
	while (n--) {
		memcpy(&c->to, c->from, bytes);
		op_keep(&c->to);
	}
}

static void loop_read(void *arg, size_t n)
{
	struct copier *c = arg;

	while (n--) {
		pn_memwatch_read(&c->to.state);
		op_keep(&c->to);
	}
}

static void loop_read_ext(void *arg, size_t n)
{
	struct copier *c = arg;

	while (n--) {
		pn_memwatch_read_ext(&c->to.state, &c->to.ext);
		op_keep(&c->to);
	}
}

/* A page in a memfd, with one snapshot. NULL if it cannot be had. */
static struct page *page_make(void)
{
	pn_mem_state state = { 0 };
	pn_mem_ext ext = { 0 };
	struct page *page;
	int fd = memfd_create("bench-page", MFD_CLOEXEC);

	if (fd < 0)
		return NULL;
	page = ftruncate(fd, PAGE_BYTES)
		       ? MAP_FAILED
		       : mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	page_init(page);
	page_publish(page, &state, &ext, 0);
	return page;
}

static void quiet_reads(struct bench *bench, const struct page *page)
{
	static struct copier state, both;
	static struct op ops[6];
	struct agent_proc agent;
	int r = watch_start(&agent);

	if (r) {
		rows_add_failed(&bench->rows, "pn_memwatch_read", "no agent to read from: %s",
				bench_why(r));
		return;
	}
	state = (struct copier){ .from = &page->copy[0], .bytes = sizeof(pn_mem_state) };
	both = (struct copier){ .from = &page->copy[0], .bytes = sizeof(struct page_payload) };
	ops[0] = (struct op){ loop_read, &state, { 0 } };
	ops[1] = (struct op){ loop_copy_state, &state, { 0 } };
	ops[2] = (struct op){ loop_libc, &state, { 0 } };
	ops[3] = (struct op){ loop_read_ext, &both, { 0 } };
	ops[4] = (struct op){ loop_copy_both, &both, { 0 } };
	ops[5] = (struct op){ loop_libc, &both, { 0 } };
	ops_measure(ops, 6, bench->quick ? OPS_ROUNDS_QUICK : OPS_ROUNDS);
	watch_stop(&agent);
	rows_add_samples(&bench->rows, "pn_memwatch_read", "ns", &ops[0].ns, "memcpy, 464 B",
			 &ops[1].ns, GOAL_RATIO, 2);
	rows_add_samples(&bench->rows, "pn_memwatch_read, by libc", "ns", &ops[0].ns,
			 "libc's memcpy, 464 B", &ops[2].ns, GOAL_NONE, 0);
	rows_add_samples(&bench->rows, "pn_memwatch_read_ext", "ns", &ops[3].ns, "memcpy, 2688 B",
			 &ops[4].ns, GOAL_RATIO, 2);
	rows_add_samples(&bench->rows, "pn_memwatch_read_ext, by libc", "ns", &ops[3].ns,
			 "libc's memcpy, 2688 B", &ops[5].ns, GOAL_NONE, 0);
}

struct writer {
	struct page *page;
	_Atomic bool stop;
	_Atomic uint64_t publishes;
};

static void *publish_all_the_time(void *arg)
{
	struct writer *writer = arg;
	pn_mem_state state = { 0 };
	pn_mem_ext ext = { 0 };

	while (!atomic_load_explicit(&writer->stop, memory_order_relaxed)) {
		page_publish(writer->page, &state, &ext, 0);
		atomic_fetch_add_explicit(&writer->publishes, 1, memory_order_relaxed);
	}
	return NULL;
}

struct reads {
	struct samples ns; /* of every SAMPLE_EVERY-th read */
	uint64_t longest_ns;
	size_t count;
	size_t gave_up; /* -EAGAIN after PAGE_READ_TRIES */
};

/* The clock is in it too: about 20 ns a read, both with and without a writer. */
static void read_often(const struct page_view *view, size_t count, struct reads *reads)
{
	size_t sample_every = count / SAMPLES_MAX + 1;
	static struct page_payload to;

	for (size_t i = 0; i < count && !bench_stopped(); i++) {
		uint64_t start_ns = clock_now_ns(), ns;
		int r = page_read(view, &to.state, &to.ext);

		ns = clock_now_ns() - start_ns;
		op_keep(&to);
		reads->count++;
		reads->gave_up += r == -EAGAIN;
		if (ns > reads->longest_ns)
			reads->longest_ns = ns;
		if (i % sample_every == 0)
			samples_add(&reads->ns, (double)ns);
	}
}

/*
 * A read is bounded by PAGE_READ_TRIES copies and then says so, whatever the writer does; how
 * often that happens is the row "gave up". The longest read is a figure of the machine's too: a
 * reader that loses its CPU in the middle is in it.
 */
static void contended_reads(struct bench *bench, struct page *page)
{
	static struct reads quiet, contended;
	size_t count = bench->quick ? 20000 : 1000000;
	struct writer writer = { .page = page };
	struct page_view view = { 0 };
	struct row row = { .value_p99 = NAN, .baseline_p99 = NAN, .against = "without writer" };
	pthread_t thread;
	int r = page_open(&view, page, PAGE_BYTES);

	if (!r) {
		read_often(&view, count, &quiet);
		r = -pthread_create(&thread, NULL, publish_all_the_time, &writer);
	}
	if (r) {
		rows_add_failed(&bench->rows, "page_read, fast writer", "%s", bench_why(r));
		return;
	}
	while (!atomic_load(&writer.publishes))
		sched_yield();
	read_often(&view, count, &contended);
	writer.stop = true;
	pthread_join(thread, NULL);

	rows_add_samples(&bench->rows, "page_read, writer publishing flat out", "ns", &contended.ns,
			 row.against, &quiet.ns, GOAL_NONE, 0);
	row.unit = "us";
	row.count = contended.count;
	row.value = (double)contended.longest_ns / 1e3;
	row.baseline = (double)quiet.longest_ns / 1e3;
	strcpy(row.name, "page_read, the longest of all");
	rows_add(&bench->rows, &row);
	row.unit = "reads";
	row.value = (double)contended.gave_up;
	row.baseline = (double)quiet.gave_up;
	strcpy(row.name, "page_read, gave up after its 64 tries");
	rows_add(&bench->rows, &row);
}

void snapshot_bench(struct bench *bench)
{
	struct page *page = page_make();

	if (!page) {
		rows_add_failed(&bench->rows, "snapshot", "no shared page: %s", strerror(errno));
		return;
	}
	quiet_reads(bench, page);
	contended_reads(bench, page);
	munmap(page, PAGE_BYTES);
}
