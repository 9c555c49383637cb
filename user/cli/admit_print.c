/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer of pnmem admit: every number that was compared, for people and as JSON. */
#include "cli/admit_print.h"

#include <jansson.h>
#include <stdio.h>

#include "cli/admit.h"
#include "cli/format.h"
#include "pn_memwatch.h"

static const char *verdict_name(pn_admit_verdict verdict)
{
	static const char *const names[] = { "admit", "cap", "reject" };

	return names[verdict];
}

static const char *check_name(pn_admit_check check)
{
	static const char *const names[] = { "none", "psi_full", "host",  "cgroup",
					     "die",  "no_die",   "window" };

	return names[check];
}

static const char *kv_name(pn_kv_type type)
{
	static const char *const names[] = { "f32", "f16", "q8", "q4" };

	return names[type];
}

/* Returns false if the answer was clear before any bytes were compared. */
static bool bytes_compared(const pn_admit_result *result)
{
	return result->check != PN_CHECK_PSI_FULL && result->check != PN_CHECK_NO_DIE;
}

/* ---- for people --------------------------------------------------------------------------- */

static void print_bytes(const char *name, uint64_t bytes, const char *end)
{
	char buf[FORMAT_BYTES];

	printf("%-9s %s (%llu bytes)%s", name, format_bytes(buf, bytes), (unsigned long long)bytes,
	       end);
}

static void print_compared(const struct admit_question *q, const struct admit_verdict *v)
{
	const pn_admit_result *result = &v->result;
	char buf[FORMAT_BYTES];

	print_bytes("needs", result->need_bytes, "");
	for (const struct admit_part *part = v->parts; part->name; part++)
		printf("%s%s %s", part == v->parts ? ": " : " + ", part->name,
		       format_bytes(buf, part->bytes));
	putchar('\n');
	print_bytes("has", result->have_bytes, "");
	if (q->kind == ASK_LOAD || q->kind == ASK_LOAD_DIE || result->check == PN_CHECK_DIE)
		printf(", die %d\n", result->die_id);
	else if (result->check == PN_CHECK_HOST || result->check == PN_CHECK_CGROUP)
		printf(", %s\n", check_name(result->check));
	else if (result->die_id >= 0)
		printf(", the scarcest of host, cgroup and die %d\n", result->die_id);
	else
		printf(", the scarcer of host and cgroup\n");
	print_bytes("reserve", result->reserve_bytes, ", taken off what it has\n");
	if (result->claimed_bytes)
		print_bytes("claimed", result->claimed_bytes, " by others, taken off as well\n");
}

static void print_verdict(const struct admit_question *q, const struct admit_verdict *v)
{
	const pn_admit_result *result = &v->result;
	char buf[FORMAT_BYTES];

	if (v->slice.n_layers)
		printf("die %-5d layers %u to %u\n", result->die_id, v->slice.first_layer,
		       v->slice.first_layer + v->slice.n_layers - 1);
	else if (q->split && result->die_id >= 0)
		printf("die %-5d no layer, only what is beside them\n", result->die_id);
	printf("verdict   %s", verdict_name(result->verdict));
	printf(result->check == PN_CHECK_NONE ? "\n" : " (%s)\n", check_name(result->check));
	if (bytes_compared(result))
		print_compared(q, v);
	if (q->kind == ASK_REQUEST)
		printf("PSI full  %.2f %%, limit %.2f %%\n", result->psi_full_pct,
		       result->psi_limit_pct);
	if (q->kind == ASK_REQUEST || q->kind == ASK_LOAD)
		printf("fits      %d tokens\n", result->fit_tokens);
	if (result->verdict == PN_VERDICT_REJECT)
		printf("retry     %s%s\n", result->retry_after_ms ? "in " : "",
		       result->retry_after_ms
			       ? format_duration(buf, result->retry_after_ms * 1000000ull)
			       : "no: waiting does not help");
	printf("reason    %s\n", result->reason);
}

void admit_print(const struct admit_question *q, const struct admit_answer *answer)
{
	printf("asked     %s", q->name);
	if (answer->arch)
		printf(", model %s", answer->arch);
	if (q->kind == ASK_REQUEST || q->kind == ASK_LOAD || q->split)
		printf(", %d tokens, %s KV", answer->n_tokens, kv_name(q->kv));
	if (q->max_window > 0)
		printf(", window %d at most", q->max_window);
	if (q->gpu_resident)
		printf(", on a GPU");
	printf("\nlevel     %s\n", pn_mem_level_name(answer->verdicts[0].result.level));
	if (q->split)
		printf("verdict   %s, of all dies\n", verdict_name(answer->verdict));
	for (int i = 0; i < answer->n_verdicts; i++) {
		if (q->split)
			putchar('\n');
		print_verdict(q, &answer->verdicts[i]);
	}
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* Bytes. A need that is too large becomes the largest number that jansson can hold. */
static json_t *bytes_json(uint64_t bytes)
{
	return json_integer(bytes > INT64_MAX ? INT64_MAX : (json_int_t)bytes);
}

static void add_compared(json_t *object, const struct admit_verdict *v)
{
	char key[32];

	json_object_set_new(object, "need_bytes", bytes_json(v->result.need_bytes));
	json_object_set_new(object, "have_bytes", bytes_json(v->result.have_bytes));
	json_object_set_new(object, "reserve_bytes", bytes_json(v->result.reserve_bytes));
	json_object_set_new(object, "claimed_bytes", bytes_json(v->result.claimed_bytes));
	for (const struct admit_part *part = v->parts; part->name; part++) {
		snprintf(key, sizeof(key), "%s_bytes", part->name);
		json_object_set_new(object, key, bytes_json(part->bytes));
	}
}

static json_t *verdict_json(const struct admit_question *q, const struct admit_verdict *v)
{
	const pn_admit_result *result = &v->result;
	json_t *object = json_object();

	json_object_set_new(object, "verdict", json_string(verdict_name(result->verdict)));
	json_object_set_new(object, "check", json_string(check_name(result->check)));
	json_object_set_new(object, "die_id",
			    result->die_id < 0 ? json_null() : json_integer(result->die_id));
	if (v->slice.n_layers) {
		json_object_set_new(object, "first_layer", json_integer(v->slice.first_layer));
		json_object_set_new(object, "n_layers", json_integer(v->slice.n_layers));
	}
	if (bytes_compared(result))
		add_compared(object, v);
	if (q->kind == ASK_REQUEST) {
		json_object_set_new(object, "psi_full_pct", json_real(result->psi_full_pct));
		json_object_set_new(object, "psi_limit_pct", json_real(result->psi_limit_pct));
	}
	if (q->kind == ASK_REQUEST || q->kind == ASK_LOAD)
		json_object_set_new(object, "fit_tokens", json_integer(result->fit_tokens));
	json_object_set_new(object, "retry_after_ms", json_integer(result->retry_after_ms));
	json_object_set_new(object, "reason", json_string(result->reason));
	return object;
}

json_t *admit_json(const struct admit_question *q, const struct admit_answer *answer)
{
	pn_mem_level level = answer->verdicts[0].result.level;
	json_t *object = json_pack("{s:s, s:s, s:i, s:s}", "question", q->name, "verdict",
				   verdict_name(answer->verdict), "level", (int)level, "level_name",
				   pn_mem_level_name(level));
	json_t *rest;

	if (q->kind == ASK_REQUEST || q->kind == ASK_LOAD || q->split) {
		json_object_set_new(object, "n_tokens", json_integer(answer->n_tokens));
		json_object_set_new(object, "kv", json_string(kv_name(q->kv)));
	}
	if (q->max_window > 0)
		json_object_set_new(object, "max_window", json_integer(q->max_window));
	if (answer->arch)
		json_object_set_new(object, "arch", json_string(answer->arch));
	if (q->split) {
		rest = json_array();
		for (int i = 0; i < answer->n_verdicts; i++)
			json_array_append_new(rest, verdict_json(q, &answer->verdicts[i]));
		json_object_set_new(object, "dies", rest);
	} else {
		rest = verdict_json(q, &answer->verdicts[0]);
		json_object_update(object, rest);
		json_decref(rest);
	}
	return object;
}
