/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole snapshot, for people; as JSON it is snapshot_json.c. */
#include <time.h>

#include "cli/cli.h"

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

static void print_dies(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], d[FORMAT_BYTES];

	for (int i = 0; i < s->n_dies; i++)
		if (s->per_die_budget[i])
			fprintf(out, "die %-3d free %s, budget %s, used %s, %s ago%s", i,
				format_bytes(a, s->per_die_free[i]),
				format_bytes(b, s->per_die_budget[i]),
				format_bytes(c, s->per_die_used[i]),
				format_duration(d, snapshot_age_ns(e->die_sample_ns[i])), eol);
	if (!s->n_dies)
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
	fprintf(out,
		"source  %s, woken by %s, snapshot %llu, %s ago; %llu looks, %llu wake-ups, "
		"%llu records (%llu dropped), %llu stalls, %llu OOM kills%s",
		format_source(pn_memwatch_source()), format_mode(e->mode),
		(unsigned long long)s->seq, format_duration(a, snapshot_age_ns(e->publish_ns)),
		(unsigned long long)e->looks, (unsigned long long)e->wakeups,
		(unsigned long long)e->events, (unsigned long long)e->event_drops,
		(unsigned long long)e->stalls, (unsigned long long)e->oom_kills, eol);
}
