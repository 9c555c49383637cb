/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole snapshot for people. See snapshot.h. */
#include "cli/snapshot.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/format.h"
#include "pn_memwatch.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t snapshot_age_ns(uint64_t t_ns)
{
	uint64_t now = now_ns();

	if (!t_ns)
		return UINT64_MAX;
	return now > t_ns ? now - t_ns : 0;
}

int snapshot_die_count(const pn_mem_state *s, const pn_mem_ext *e)
{
	return s->n_dies + (int)e->n_more_dies;
}

/* An older agent leaves each die's state 0. */
pn_mem_die snapshot_die(const pn_mem_state *s, const pn_mem_ext *e, int i)
{
	pn_mem_die die = { 0 };

	if (i >= s->n_dies)
		return e->more_die[i - s->n_dies];
	die.free_bytes = s->per_die_free[i];
	die.budget_bytes = s->per_die_budget[i];
	die.used_bytes = s->per_die_used[i];
	die.sample_ns = e->die_sample_ns[i];
	die.state = die.budget_bytes && !e->die_state[i] ? PN_SRC_OK : e->die_state[i];
	memcpy(die.uuid, e->die_uuid[i], sizeof(die.uuid));
	memcpy(die.pci, e->die_pci[i], sizeof(die.pci));
	return die;
}

/* README's table. */
pn_mem_level snapshot_die_level(uint64_t free_bytes, uint64_t budget_bytes)
{
	if (!free_bytes)
		return PN_MEM_LEVEL_CRITICAL;
	if (free_bytes < budget_bytes / 16)
		return PN_MEM_LEVEL_TIGHT;
	return free_bytes < budget_bytes / 8 ? PN_MEM_LEVEL_WATCH : PN_MEM_LEVEL_OK;
}

static void print_cgroup(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], d[FORMAT_BYTES];

	if (e->source_state[PN_SRC_CGROUP] == PN_SRC_ABSENT) {
		fprintf(out, "cgroup  none%s", eol);
		return;
	}
	fprintf(out, "cgroup  current %s, high %s, max %s, headroom %s, PSI some %.2f full %.2f%s",
		format_bytes(a, s->cgroup_current_bytes),
		s->cgroup_high_bytes ? format_bytes(b, s->cgroup_high_bytes) : "unset",
		s->cgroup_max_bytes ? format_bytes(c, s->cgroup_max_bytes) : "unset",
		e->cgroup_limit_bytes ? format_bytes(d, e->cgroup_headroom_bytes) : "unlimited",
		e->cgroup_psi_some_avg10, e->cgroup_psi_full_avg10, eol);
}

static void print_die(FILE *out, int i, const pn_mem_die *die, const char *eol)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], d[FORMAT_BYTES];

	if (die->state == PN_SRC_ABSENT)
		return;
	if (!die->budget_bytes) {
		fprintf(out, "die %-3d %s%snot known, %s%s", i, die->pci, *die->pci ? " " : "",
			format_source_state(die->state), eol);
		return;
	}
	fprintf(out, "die %-3d %s%s%s, free %s, budget %s, used %s, %s%s ago%s", i, die->pci,
		*die->pci ? " " : "",
		pn_mem_level_name(snapshot_die_level(die->free_bytes, die->budget_bytes)),
		format_bytes(a, die->free_bytes), format_bytes(b, die->budget_bytes),
		format_bytes(c, die->used_bytes), die->state == PN_SRC_STALE ? "stale, " : "",
		format_duration(d, snapshot_age_ns(die->sample_ns)), eol);
}

static void print_reserved(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	char a[FORMAT_BYTES];
	bool any = false;

	if (e->host_reserved_bytes) {
		fprintf(out, "reserved host %s", format_bytes(a, e->host_reserved_bytes));
		any = true;
	}
	for (int i = 0; i < s->n_dies; i++) {
		if (!e->die_reserved_bytes[i])
			continue;
		fprintf(out, "%s die %d %s", any ? "," : "reserved", i,
			format_bytes(a, e->die_reserved_bytes[i]));
		any = true;
	}
	if (any)
		fprintf(out, " (pnmem reservations)%s", eol);
}

static void print_dies(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	int count = snapshot_die_count(s, e);

	for (int i = 0; i < count; i++) {
		pn_mem_die die = snapshot_die(s, e, i);

		print_die(out, i, &die, eol);
	}
	if (!count)
		fprintf(out, "dies    none%s", eol);
}

void snapshot_print(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], d[FORMAT_BYTES], reasons[160];

	fprintf(out, "level   %s (%s) for %s%s", pn_mem_level_name(s->level),
		format_reasons(reasons, sizeof(reasons), e->reasons),
		format_duration(a, snapshot_age_ns(e->level_since_ns)), eol);
	fprintf(out,
		"host    available %s of %s, reserve %s, saturation %.0f %%, exhausted in %s%s",
		format_bytes(a, s->host_avail_bytes), format_bytes(b, s->host_total_bytes),
		format_bytes(c, e->host_reserve_bytes), e->saturation * 100,
		format_duration(d, e->exhaustion_ns), eol);
	fprintf(out,
		"PSI     some %.2f (live %.2f), full %.2f (live %.2f), stalled %s some, %s full "
		"since boot%s",
		s->host_psi_some_avg10, e->live_psi_some_avg10, s->host_psi_full_avg10,
		e->live_psi_full_avg10, format_duration(a, e->psi_some_total_us * 1000),
		format_duration(b, e->psi_full_total_us * 1000), eol);
	print_cgroup(out, s, e, eol);
	print_dies(out, s, e, eol);
	print_reserved(out, s, e, eol);
	fprintf(out,
		"source  %s, woken by %s, snapshot %llu, %s ago; %llu looks, %llu wake-ups, "
		"%llu records (%llu dropped), %llu stalls, %llu OOM kills%s",
		format_source(pn_memwatch_source()), format_mode(e->mode),
		(unsigned long long)s->seq, format_duration(a, snapshot_age_ns(e->publish_ns)),
		(unsigned long long)e->looks, (unsigned long long)e->wakeups,
		(unsigned long long)e->events, (unsigned long long)e->event_drops,
		(unsigned long long)e->stalls, (unsigned long long)e->oom_kills, eol);
}
