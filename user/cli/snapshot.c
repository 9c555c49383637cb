/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole snapshot, for people and as JSON. The JSON keys are the field names. */
#include <string.h>
#include <time.h>

#include "cli/cli.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* How long ago t was; never if it never was. */
static uint64_t age_ns(uint64_t t)
{
	uint64_t now = now_ns();

	if (!t)
		return UINT64_MAX;
	return now > t ? now - t : 0;
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
				format_duration(d, age_ns(e->die_sample_ns[i])), eol);
	if (!s->n_dies)
		fprintf(out, "dies    none%s", eol);
}

void snapshot_print(FILE *out, const pn_mem_state *s, const pn_mem_ext *e, const char *eol)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], d[FORMAT_BYTES], reasons[160];

	fprintf(out, "level   %s (%s) for %s%s", pn_mem_level_name(s->level),
		format_reasons(reasons, sizeof(reasons), e->reasons),
		format_duration(a, age_ns(e->level_since_ns)), eol);
	fprintf(out, "host    available %s of %s, reserve %s, saturation %.0f %%, exhausted in %s%s",
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
		(unsigned long long)s->seq, format_duration(a, age_ns(e->publish_ns)),
		(unsigned long long)e->looks, (unsigned long long)e->wakeups,
		(unsigned long long)e->events, (unsigned long long)e->event_drops,
		(unsigned long long)e->stalls, (unsigned long long)e->oom_kills, eol);
}

/* UINT64_MAX stands for "none" in the structs and is null in JSON. */
static json_t *json_u64(uint64_t value)
{
	return value == UINT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static json_t *json_u64_array(const uint64_t *values, int n)
{
	json_t *array = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(array, json_u64(values[i]));
	return array;
}

static json_t *json_reasons(uint32_t reasons)
{
	json_t *array = json_array();
	char name[32];

	for (unsigned bit = 0; bit < 32; bit++)
		if (reasons & 1u << bit)
			json_array_append_new(array, json_string(format_reasons(name, sizeof(name),
										1u << bit)));
	return array;
}

static json_t *json_sources(const pn_mem_ext *e)
{
	static const char *const names[PN_SRC_COUNT] = { "meminfo", "psi", "cgroup", "cgroup_psi",
							 "dies" };
	json_t *object = json_object();

	for (int i = 0; i < PN_SRC_COUNT; i++)
		json_object_set_new(object, names[i],
				    json_pack("{s:s, s:o}", "state",
					      format_source_state(e->source_state[i]), "age_ns",
					      json_u64(age_ns(e->source_ns[i]))));
	return object;
}

json_t *snapshot_json(const pn_mem_state *s, const pn_mem_ext *e)
{
	const struct {
		const char *key;
		json_t *value;
	} fields[] = {
		{ "level", json_integer(s->level) },
		{ "level_name", json_string(pn_mem_level_name(s->level)) },
		{ "seq", json_u64(s->seq) },
		{ "host_total_bytes", json_u64(s->host_total_bytes) },
		{ "host_avail_bytes", json_u64(s->host_avail_bytes) },
		{ "host_psi_some_avg10", json_real(s->host_psi_some_avg10) },
		{ "host_psi_full_avg10", json_real(s->host_psi_full_avg10) },
		{ "cgroup_current_bytes", json_u64(s->cgroup_current_bytes) },
		{ "cgroup_high_bytes", json_u64(s->cgroup_high_bytes) },
		{ "cgroup_max_bytes", json_u64(s->cgroup_max_bytes) },
		{ "n_dies", json_integer(s->n_dies) },
		{ "per_die_free", json_u64_array(s->per_die_free, s->n_dies) },
		{ "per_die_budget", json_u64_array(s->per_die_budget, s->n_dies) },
		{ "per_die_used", json_u64_array(s->per_die_used, s->n_dies) },
		{ "source", json_string(format_source(pn_memwatch_source())) },
		{ "mode", json_string(format_mode(e->mode)) },
		{ "reasons", json_reasons(e->reasons) },
		{ "wanted_level", json_integer(e->wanted_level) },
		{ "level_changes", json_integer(e->level_changes) },
		{ "level_age_ns", json_u64(age_ns(e->level_since_ns)) },
		{ "publish_ns", json_u64(e->publish_ns) },
		{ "age_ns", json_u64(age_ns(e->publish_ns)) },
		{ "host_reserve_bytes", json_u64(e->host_reserve_bytes) },
		{ "live_psi_some_avg10", json_real(e->live_psi_some_avg10) },
		{ "live_psi_full_avg10", json_real(e->live_psi_full_avg10) },
		{ "psi_some_total_us", json_u64(e->psi_some_total_us) },
		{ "psi_full_total_us", json_u64(e->psi_full_total_us) },
		{ "cgroup_psi_some_avg10", json_real(e->cgroup_psi_some_avg10) },
		{ "cgroup_psi_full_avg10", json_real(e->cgroup_psi_full_avg10) },
		{ "cgroup_headroom_bytes", json_u64(e->cgroup_headroom_bytes) },
		{ "cgroup_limit_bytes", json_u64(e->cgroup_limit_bytes) },
		{ "saturation", json_real(e->saturation) },
		{ "exhaustion_ns", json_u64(e->exhaustion_ns) },
		{ "sources", json_sources(e) },
		{ "looks", json_u64(e->looks) },
		{ "publishes", json_u64(e->publishes) },
		{ "wakeups", json_u64(e->wakeups) },
		{ "events", json_u64(e->events) },
		{ "event_drops", json_u64(e->event_drops) },
		{ "stalls", json_u64(e->stalls) },
		{ "stall_ns", json_u64(e->stall_ns) },
		{ "oom_kills", json_u64(e->oom_kills) },
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		json_object_set_new(object, fields[i].key, fields[i].value);
	return object;
}

int json_print(json_t *value, bool pretty)
{
	size_t flags = JSON_REAL_PRECISION(6) | (pretty ? JSON_INDENT(2) : JSON_COMPACT);
	int r = json_dumpf(value, stdout, flags);

	json_decref(value);
	if (r || putchar('\n') == EOF || fflush(stdout))
		return CLI_FAILED;
	return CLI_OK;
}
