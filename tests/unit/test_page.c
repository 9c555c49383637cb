/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshot page: whole states under a writer at full speed, a writer that stopped anywhere,
 * bounded tries, pages that are not ours, older and newer writers.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/page.h"

/* In a whole state every number is the same. */
static void fill(pn_mem_state *state, pn_mem_ext *ext, uint64_t n)
{
	memset(state, 0, sizeof(*state));
	memset(ext, 0, sizeof(*ext));
	state->host_total_bytes = state->host_avail_bytes = state->cgroup_max_bytes = n;
	state->n_dies = PN_MEM_MAX_DIES;
	for (int i = 0; i < PN_MEM_MAX_DIES; i++)
		state->per_die_free[i] = state->per_die_budget[i] = state->per_die_used[i] = n;
	state->level = (pn_mem_level)(n % 4);
	ext->publishes = ext->looks = n;
	for (int i = 0; i < PN_MEM_MAX_DIES; i++)
		ext->die_sample_ns[i] = n;
}

static void assert_whole(const pn_mem_state *state, const pn_mem_ext *ext)
{
	uint64_t n = state->host_total_bytes;

	assert_int_equal(state->host_avail_bytes, n);
	assert_int_equal(state->cgroup_max_bytes, n);
	for (int i = 0; i < PN_MEM_MAX_DIES; i++) {
		assert_int_equal(state->per_die_free[i], n);
		assert_int_equal(state->per_die_budget[i], n);
		assert_int_equal(state->per_die_used[i], n);
		assert_int_equal(ext->die_sample_ns[i], n);
	}
	assert_int_equal(state->level, n % 4);
	assert_int_equal(ext->publishes, n);
	assert_int_equal(ext->looks, n);
}

struct shared {
	_Alignas(4096) struct page page;
	_Atomic bool stop;
};

static struct shared *shared_new(void)
{
	struct shared *s = aligned_alloc(4096, (sizeof(*s) + 4095) / 4096 * 4096);

	assert_non_null(s);
	memset(s, 0, sizeof(*s));
	page_init(&s->page);
	return s;
}

static void *write_flat_out(void *arg)
{
	struct shared *s = arg;
	pn_mem_state state;
	pn_mem_ext ext;

	for (uint64_t n = 1; !s->stop; n++) {
		fill(&state, &ext, n);
		page_publish(&s->page, &state, &ext, 0);
	}
	return NULL;
}

static void test_whole_under_fast_writer(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state;
	pn_mem_ext ext;
	pthread_t writer;
	uint64_t last_seq = 0, failed = 0;
	const int reads = 200000;

	assert_int_equal(page_open(&view, &s->page, PAGE_BYTES), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_flat_out, s), 0);
	for (int i = 0; i < reads; i++) {
		if (page_read(&view, &state, &ext)) {
			failed++;
			continue;
		}
		assert_whole(&state, &ext);
		assert_true(state.seq >= last_seq && state.seq % 2 == 0);
		last_seq = state.seq;
	}
	s->stop = true;
	pthread_join(writer, NULL);
	/* Bounded tries may give up, but only rarely, and the last state is always there. */
	assert_true(failed < reads / 100);
	assert_int_equal(page_read(&view, &state, &ext), 0);
	assert_whole(&state, &ext);
	free(s);
}

/* The writer is killed after each step of a publish: readers keep the state before it. */
static void test_dead_writer(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state;
	pn_mem_ext ext;
	uint64_t k;

	assert_int_equal(page_open(&view, &s->page, PAGE_BYTES), 0);
	for (uint64_t n = 1; n <= 4; n++) {
		fill(&state, &ext, n);
		page_publish(&s->page, &state, &ext, 0);
		k = atomic_load(&s->page.seq) / 2;
		atomic_store(&s->page.seq, k * 2 + 1); /* began... */
		memset(&s->page.copy[(k + 1) % PAGE_COPIES], 0xee,
		       sizeof(s->page.copy[0]) / 2); /* half way */
		assert_int_equal(page_read(&view, &state, &ext), 0);
		assert_whole(&state, &ext);
		assert_int_equal(state.host_total_bytes, n);
		atomic_store(&s->page.seq, k * 2); /* for the next round */
	}
	free(s);
}

static void test_seq_goes_on_above(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state = { 0 };
	pn_mem_ext ext = { 0 };

	page_open(&view, &s->page, PAGE_BYTES);
	for (uint64_t floor = 0; floor < 40; floor++) {
		uint64_t before = state.seq;

		fill(&state, &ext, floor);
		page_publish(&s->page, &state, &ext, floor * 5);
		assert_true(state.seq > before && state.seq % 2 == 0 && state.seq + 1 >= floor * 5);
		assert_int_equal(page_read(&view, &state, &ext), 0);
		assert_whole(&state, &ext);
	}
	assert_int_equal(page_seq_floor(5000), 10);
	free(s);
}

/* A page is read like network input. */
static void test_foreign_pages(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	struct page *p = &s->page, good = *p;

	assert_int_equal(page_open(&view, p, sizeof(*p) - 1), -EPROTO);
	assert_int_equal(page_open(&view, p, offsetof(struct page, copy) - 1), -EPROTO);
	p->magic++;
	assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	*p = good;
	p->abi++;
	assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	*p = good;
	p->state_bytes -= 8;
	assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	/* Anything that would lead a reader out of the mapping, or to words across a boundary. */
	for (uint32_t bad = 0; bad < 3; bad++) {
		static const uint32_t values[] = { 4, 0xfffffff8, 2052 };

		*p = good;
		p->copy_offset = (uint16_t)values[bad];
		assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
		*p = good;
		p->copy_stride = values[bad];
		assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
		*p = good;
		p->ext_offset = values[bad];
		assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
		*p = good;
		p->ext_bytes = values[bad];
		assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	}
	*p = good;
	p->copy_count = 1;
	assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	p->copy_count = PAGE_COPIES + 2;
	assert_int_equal(page_open(&view, p, PAGE_BYTES), -EPROTO);
	free(s);
}

/* Hostile values in a well-formed page do not leave their range. */
static void test_ranges(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state = { .n_dies = 99, .level = (pn_mem_level)77 };
	pn_mem_ext ext = { 0 };

	page_open(&view, &s->page, PAGE_BYTES);
	page_publish(&s->page, &state, &ext, 0);
	assert_int_equal(page_read(&view, &state, NULL), 0);
	assert_int_equal(state.n_dies, PN_MEM_MAX_DIES);
	assert_int_equal(state.level, PN_MEM_LEVEL_CRITICAL);
	state.n_dies = -5;
	page_publish(&s->page, &state, &ext, 0);
	ext.n_more_dies = UINT32_MAX;
	memset(ext.die_pci, 'x', sizeof(ext.die_pci));
	memset(ext.more_die[PN_MEM_MORE_DIES - 1].pci, 'x', sizeof(ext.more_die[0].pci));
	page_publish(&s->page, &state, &ext, 0);
	page_read(&view, &state, &ext);
	assert_int_equal(state.n_dies, 0);
	assert_int_equal(ext.n_more_dies, PN_MEM_MORE_DIES);
	assert_int_equal(strlen(ext.die_pci[0]), sizeof(ext.die_pci[0]) - 1);
	assert_int_equal(strlen(ext.more_die[PN_MEM_MORE_DIES - 1].pci),
			 sizeof(ext.more_die[0].pci) - 1);
	free(s);
}

/* Every byte that is told of n dies of the first 16. */
static void fill_dies(pn_mem_state *state, pn_mem_ext *ext, int n)
{
	memset(state, 0, sizeof(*state));
	memset(ext, 0, sizeof(*ext));
	state->n_dies = n;
	for (int i = 0; i < n; i++) {
		state->per_die_free[i] = state->per_die_budget[i] = state->per_die_used[i] = 7;
		ext->die_sample_ns[i] = ext->die_reserved_bytes[i] = 7;
		memset(ext->die_uuid[i], 7, sizeof(ext->die_uuid[i]));
		memset(ext->die_pci[i], '7', sizeof(ext->die_pci[i]) - 1);
		ext->die_state[i] = PN_SRC_OK;
	}
}

/* What was in a copy when there were more dies is not there when it is filled again. */
static void test_fewer_dies(void **unused)
{
	static const int counts[] = { 16, 3, 0, 1, 16, 0 };
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state, got_state;
	pn_mem_ext ext, got;

	assert_int_equal(page_open(&view, &s->page, PAGE_BYTES), 0);
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		fill_dies(&state, &ext, counts[k]);
		for (int i = 0; i < PAGE_COPIES; i++) {
			page_publish(&s->page, &state, &ext, 0);
			assert_int_equal(page_read(&view, &got_state, &got), 0);
			assert_memory_equal(&got_state, &state, sizeof(state));
			assert_memory_equal(&got, &ext, sizeof(ext));
		}
	}
	for (uint32_t n_more = PN_MEM_MORE_DIES + 1; n_more--;) {
		fill_dies(&state, &ext, PN_MEM_MAX_DIES);
		memset(ext.more_die, 0x77, n_more * sizeof(ext.more_die[0]));
		for (uint32_t j = 0; j < n_more; j++)
			ext.more_die[j].pci[sizeof(ext.more_die[j].pci) - 1] = 0;
		ext.n_more_dies = n_more;
		for (int i = 0; i < PAGE_COPIES; i++) {
			page_publish(&s->page, &state, &ext, 0);
			assert_int_equal(page_read(&view, NULL, &got), 0);
			assert_memory_equal(&got, &ext, sizeof(ext));
		}
	}
	free(s);
}

/* A writer of an earlier version has a shorter extension: what it does not know reads 0. */
static void test_older_writer(void **unused)
{
	struct shared *s = shared_new();
	struct page_view view;
	pn_mem_state state;
	pn_mem_ext ext;

	fill(&state, &ext, 5);
	page_publish(&s->page, &state, &ext, 0);
	s->page.ext_bytes = offsetof(pn_mem_ext, die_sample_ns);
	assert_int_equal(page_open(&view, &s->page, PAGE_BYTES), 0);
	memset(&ext, 0xff, sizeof(ext));
	assert_int_equal(page_read(&view, &state, &ext), 0);
	assert_int_equal(ext.looks, 5);
	for (int i = 0; i < PN_MEM_MAX_DIES; i++)
		assert_int_equal(ext.die_sample_ns[i], 0);
	/* One from before there were more than 16 dies, on a page of its size. */
	s->page.ext_bytes = offsetof(pn_mem_ext, die_state);
	s->page.copy_stride = sizeof(pn_mem_state) + offsetof(pn_mem_ext, die_state);
	assert_int_equal(page_open(&view, &s->page, 8192), 0);
	memset(&ext, 0xff, sizeof(ext));
	assert_int_equal(page_read(&view, &state, &ext), 0);
	assert_int_equal(ext.n_more_dies, 0);
	/* And a later one a longer: its end is left out, and its copies are further apart. */
	s->page.ext_bytes = sizeof(pn_mem_ext) + 64;
	s->page.copy_stride = sizeof(struct page_payload) + 64;
	s->page.copy_count = 2;
	fill(&state, &ext, 6);
	memcpy((char *)s->page.copy + s->page.copy_stride, &state, sizeof(state));
	memcpy((char *)s->page.copy + s->page.copy_stride + s->page.ext_offset, &ext, sizeof(ext));
	atomic_store(&s->page.seq, 2 * 5);
	assert_int_equal(page_open(&view, &s->page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &state, &ext), 0);
	assert_whole(&state, &ext);
	assert_int_equal(ext.looks, 6);
	free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_under_fast_writer),
		cmocka_unit_test(test_dead_writer),
		cmocka_unit_test(test_seq_goes_on_above),
		cmocka_unit_test(test_foreign_pages),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_fewer_dies),
		cmocka_unit_test(test_older_writer),
	};

	return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
