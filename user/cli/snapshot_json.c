/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A snapshot as JSON, and back. The keys are the names of the fields, and one table of the fields
 * serves both directions. Names and ages, which follow from the fields, are written and not read.
 */
#include "cli/snapshot_json.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/snapshot.h"
#include "pn_memwatch.h"

enum field_kind {
	FIELD_LEVEL,       /* pn_mem_level; its name is written beside it */
	FIELD_U32,         /* uint32_t */
	FIELD_U64,         /* uint64_t */
	FIELD_U64_OR_NONE, /* UINT64_MAX: none, and the default; null in JSON */
	FIELD_REAL,        /* double, 0..100: a percentage or a share */
	FIELD_N_DIES,      /* int */
	FIELD_PER_DIE,     /* uint64_t[16]: an array of n_dies, which precedes it in the table */
	FIELD_PER_DIE_NEW, /* the same, and may be missing: all 0 */
};

struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
};

#define STATE(name, kind)                                                                          \
	{                                                                                          \
#name, kind, offsetof(pn_mem_state, name)                                          \
	}
#define EXT(name, kind)                                                                            \
	{                                                                                          \
#name, kind, offsetof(pn_mem_ext, name)                                            \
	}

static const struct field state_fields[] = {
	STATE(level, FIELD_LEVEL),
	STATE(seq, FIELD_U64),
	STATE(host_total_bytes, FIELD_U64),
	STATE(host_avail_bytes, FIELD_U64),
	STATE(host_psi_some_avg10, FIELD_REAL),
	STATE(host_psi_full_avg10, FIELD_REAL),
	STATE(cgroup_current_bytes, FIELD_U64),
	STATE(cgroup_high_bytes, FIELD_U64),
	STATE(cgroup_max_bytes, FIELD_U64),
	STATE(n_dies, FIELD_N_DIES),
	STATE(per_die_free, FIELD_PER_DIE),
	STATE(per_die_budget, FIELD_PER_DIE),
	STATE(per_die_used, FIELD_PER_DIE),
	{ 0 },
};

static const struct field ext_fields[] = {
	EXT(wanted_level, FIELD_U32),
	EXT(level_changes, FIELD_U32),
	EXT(publish_ns, FIELD_U64),
	EXT(host_reserve_bytes, FIELD_U64),
	EXT(live_psi_some_avg10, FIELD_REAL),
	EXT(live_psi_full_avg10, FIELD_REAL),
	EXT(psi_some_total_us, FIELD_U64),
	EXT(psi_full_total_us, FIELD_U64),
	EXT(cgroup_psi_some_avg10, FIELD_REAL),
	EXT(cgroup_psi_full_avg10, FIELD_REAL),
	EXT(cgroup_headroom_bytes, FIELD_U64_OR_NONE),
	EXT(cgroup_limit_bytes, FIELD_U64),
	EXT(host_reserved_bytes, FIELD_U64),
	EXT(cgroup_reserved_bytes, FIELD_U64),
	EXT(die_reserved_bytes, FIELD_PER_DIE_NEW),
	EXT(saturation, FIELD_REAL),
	EXT(exhaustion_ns, FIELD_U64_OR_NONE),
	EXT(looks, FIELD_U64),
	EXT(publishes, FIELD_U64),
	EXT(wakeups, FIELD_U64),
	EXT(events, FIELD_U64),
	EXT(event_drops, FIELD_U64),
	EXT(stalls, FIELD_U64),
	EXT(stall_ns, FIELD_U64),
	EXT(oom_kills, FIELD_U64),
	{ 0 },
};

/* UINT64_MAX stands for "none" in the structs and is null in JSON. */
static json_t *json_u64(uint64_t value)
{
	return value == UINT64_MAX ? json_null() : json_integer((json_int_t)value);
}

/* ---- out ---------------------------------------------------------------------------------- */

static json_t *field_json(const void *at, enum field_kind kind, int n_dies)
{
	const uint64_t *values = at;
	json_t *array;

	switch (kind) {
	case FIELD_LEVEL:
		return json_integer(*(const pn_mem_level *)at);
	case FIELD_U32:
		return json_integer(*(const uint32_t *)at);
	case FIELD_REAL:
		return json_real(*(const double *)at);
	case FIELD_N_DIES:
		return json_integer(*(const int *)at);
	case FIELD_PER_DIE:
	case FIELD_PER_DIE_NEW:
		array = json_array();
		for (int i = 0; i < n_dies; i++)
			json_array_append_new(array, json_u64(values[i]));
		return array;
	default:
		return json_u64(*values);
	}
}

static void add_fields(json_t *object, const struct field *fields, const void *base, int n_dies)
{
	for (const struct field *f = fields; f->key; f++) {
		const void *at = (const char *)base + f->offset;

		json_object_set_new(object, f->key, field_json(at, f->kind, n_dies));
		if (f->kind == FIELD_LEVEL)
			json_object_set_new(
				object, "level_name",
				json_string(pn_mem_level_name(*(const pn_mem_level *)at)));
	}
}

static json_t *reasons_json(uint32_t reasons)
{
	json_t *array = json_array();
	char name[32];

	for (unsigned bit = 0; bit < 32; bit++)
		if (reasons & 1u << bit)
			json_array_append_new(
				array, json_string(format_reasons(name, sizeof(name), 1u << bit)));
	return array;
}

static json_t *sources_json(const pn_mem_ext *e)
{
	static const char *const names[PN_SRC_COUNT] = { "meminfo", "psi", "cgroup", "cgroup_psi",
							 "dies" };
	json_t *object = json_object();

	for (int i = 0; i < PN_SRC_COUNT; i++)
		json_object_set_new(object, names[i],
				    json_pack("{s:s, s:o}", "state",
					      format_source_state(e->source_state[i]), "age_ns",
					      json_u64(snapshot_age_ns(e->source_ns[i]))));
	return object;
}

/* Every die, also beyond the 16 of pn_mem_state, with numbers that its arrays do not have. */
static json_t *dies_json(const pn_mem_state *s, const pn_mem_ext *e)
{
	json_t *array = json_array();

	for (int i = 0; i < snapshot_die_count(s, e); i++) {
		pn_mem_die die = snapshot_die(s, e, i);
		char uuid[2 * sizeof(die.uuid) + 1];

		for (size_t k = 0; k < sizeof(die.uuid); k++)
			sprintf(uuid + 2 * k, "%02x", die.uuid[k]);
		json_array_append_new(
			array, json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "index",
					 i, "state", format_source_state(die.state), "pci", die.pci,
					 "uuid", uuid, "free_bytes", json_u64(die.free_bytes),
					 "budget_bytes", json_u64(die.budget_bytes), "used_bytes",
					 json_u64(die.used_bytes), "age_ns",
					 json_u64(snapshot_age_ns(die.sample_ns)), "level_name",
					 die.budget_bytes
						 ? json_string(pn_mem_level_name(snapshot_die_level(
							   die.free_bytes, die.budget_bytes)))
						 : json_null()));
	}
	return array;
}

json_t *snapshot_json(const pn_mem_state *s, const pn_mem_ext *e)
{
	json_t *object = json_object();

	add_fields(object, state_fields, s, s->n_dies);
	json_object_set_new(object, "source", json_string(format_source(pn_memwatch_source())));
	json_object_set_new(object, "mode", json_string(format_mode(e->mode)));
	json_object_set_new(object, "reasons", reasons_json(e->reasons));
	json_object_set_new(object, "level_age_ns", json_u64(snapshot_age_ns(e->level_since_ns)));
	json_object_set_new(object, "age_ns", json_u64(snapshot_age_ns(e->publish_ns)));
	add_fields(object, ext_fields, e, s->n_dies);
	json_object_set_new(object, "sources", sources_json(e));
	json_object_set_new(object, "dies", dies_json(s, e));
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

/* ---- in: each of these returns NULL or what is wrong with the value ------------------------- */

static const char *read_integer(const json_t *value, json_int_t max, json_int_t *ret)
{
	if (!json_is_integer(value))
		return "is not a whole number";
	if (json_integer_value(value) < 0)
		return "is negative";
	if (json_integer_value(value) > max)
		return "is too large";
	*ret = json_integer_value(value);
	return NULL;
}

static const char *read_per_die(const json_t *value, int n_dies, uint64_t *ret)
{
	const char *wrong;
	json_int_t n;

	if (!json_is_array(value) || json_array_size(value) != (size_t)n_dies)
		return "is not an array of n_dies numbers";
	for (int i = 0; i < n_dies; i++) {
		wrong = read_integer(json_array_get(value, (size_t)i), INT64_MAX, &n);
		if (wrong)
			return "has an entry that is negative or no whole number";
		ret[i] = (uint64_t)n;
	}
	return NULL;
}

static const char *read_field(const json_t *value, enum field_kind kind, int n_dies, void *ret)
{
	const char *wrong = NULL;
	json_int_t n = 0;
	double real;

	switch (kind) {
	case FIELD_LEVEL:
		wrong = read_integer(value, PN_MEM_LEVEL_CRITICAL, &n);
		*(pn_mem_level *)ret = (pn_mem_level)n;
		return wrong;
	case FIELD_U32:
		wrong = read_integer(value, UINT32_MAX, &n);
		*(uint32_t *)ret = (uint32_t)n;
		return wrong;
	case FIELD_N_DIES:
		wrong = read_integer(value, PN_MEM_MAX_DIES, &n);
		*(int *)ret = (int)n;
		return wrong;
	case FIELD_PER_DIE:
	case FIELD_PER_DIE_NEW:
		return read_per_die(value, n_dies, ret);
	case FIELD_REAL:
		real = json_number_value(value);
		if (!json_is_number(value) || !(real >= 0 && real <= 100))
			return "is not a number from 0 to 100";
		*(double *)ret = real;
		return NULL;
	case FIELD_U64_OR_NONE:
		if (json_is_null(value))
			return NULL;
		/* fallthrough */
	case FIELD_U64:
		wrong = read_integer(value, INT64_MAX, &n);
		*(uint64_t *)ret = (uint64_t)n;
		return wrong;
	}
	return "is of no known kind";
}

/*
 * Reads the fields that are there and leaves the others as they are. n_dies is read at its place in
 * base.
 */
static const char *read_fields(const json_t *object, const struct field *fields, void *base,
			       const int *n_dies, const char **ret_key)
{
	for (const struct field *f = fields; f->key; f++) {
		void *at = (char *)base + f->offset;
		const json_t *value = json_object_get(object, f->key);
		const char *wrong = NULL;

		*ret_key = f->key;
		if (value)
			wrong = read_field(value, f->kind, *n_dies, at);
		else if (f->kind == FIELD_PER_DIE && *n_dies)
			wrong = "is missing, though n_dies is not 0";
		if (wrong)
			return wrong;
	}
	return NULL;
}

/* Checks what depends on several fields. */
static const char *read_whole(const json_t *object, const pn_mem_state *s, const pn_mem_ext *e,
			      const char **ret_key)
{
	*ret_key = "host_total_bytes";
	if (!json_object_get(object, *ret_key))
		return "is missing";
	*ret_key = "host_avail_bytes";
	if (!json_object_get(object, *ret_key))
		return "is missing";
	if (s->host_avail_bytes > s->host_total_bytes)
		return "is more than host_total_bytes";
	*ret_key = "cgroup_headroom_bytes";
	if (e->cgroup_limit_bytes && e->cgroup_headroom_bytes == UINT64_MAX)
		return "is missing, though cgroup_limit_bytes is not 0";
	return NULL;
}

int snapshot_load(const char *path, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	pn_mem_state state = { 0 };
	pn_mem_ext ext = { .cgroup_headroom_bytes = UINT64_MAX, .exhaustion_ns = UINT64_MAX };
	const char *wrong, *key;
	json_error_t error;
	json_t *object;

	object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!object) {
		fprintf(stderr, "pnmem: no snapshot in %s: %s", path, error.text);
		if (error.line > 0)
			fprintf(stderr, " (line %d)", error.line);
		fputc('\n', stderr);
		return CLI_FAILED;
	}
	wrong = read_fields(object, state_fields, &state, &state.n_dies, &key);
	if (!wrong)
		wrong = read_fields(object, ext_fields, &ext, &state.n_dies, &key);
	if (!wrong)
		wrong = read_whole(object, &state, &ext, &key);
	json_decref(object);
	if (wrong) {
		fprintf(stderr, "pnmem: no snapshot in %s: %s %s\n", path, key, wrong);
		return CLI_FAILED;
	}
	*ret_state = state;
	*ret_ext = ext;
	return CLI_OK;
}
