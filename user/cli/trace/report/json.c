/* SPDX-License-Identifier: BSD-2-Clause */
/* The report as JSON: the same numbers, in bytes, nanoseconds and percent. */
#include "cli/trace/report/json.h"

#include <jansson.h>
#include <string.h>

#include "cli/format.h"
#include "cli/trace/report/words.h"
#include "cli/trace/words.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define TOP 20

/* Times are from the trace's start, as in the text. */
static json_t *at(const struct story *story, uint64_t ts_ns)
{
	return json_integer(ts_ns > story->first_ns ? (json_int_t)(ts_ns - story->first_ns) : 0);
}

static json_t *bytes(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *head_json(const struct story *story)
{
	char kernel[64], host[64], agent[32];
	const struct trace_head *head = &story->head;

	return json_pack("{sI sI ss ss ss sI si sI}", "version", (json_int_t)head->version,
			 "wall_ns", (json_int_t)(head->wall_ns + story->first_ns - head->mono_ns),
			 "host", trace_printable(host, sizeof(host), head->host), "kernel",
			 trace_printable(kernel, sizeof(kernel), head->kernel), "agent",
			 trace_printable(agent, sizeof(agent), head->agent), "total_bytes",
			 (json_int_t)head->total_bytes, "n_cpus", (int)head->n_cpus, "span_ns",
			 (json_int_t)(story->last_ns - story->first_ns));
}

static json_t *level_json(const struct story *story)
{
	char view[REPORT_TEXT], reasons[160];
	json_t *levels = json_object();

	for (int level = 0; level < 4; level++)
		json_object_set_new(levels, pn_mem_level_name((pn_mem_level)level),
				    bytes(story->levels.level_ns[level]));
	return json_pack("{so si ss so ss ss}", "time_ns", levels, "level",
			 (int)story->levels.worst_level, "level_name",
			 pn_mem_level_name((pn_mem_level)story->levels.worst_level), "first_ns",
			 at(story, story->levels.worst_ns), "view",
			 report_view(view, story, story->levels.worst_view), "reasons",
			 format_reasons(reasons, sizeof(reasons), story->levels.worst_reasons));
}

static json_t *views_json(const struct story *story)
{
	json_t *views = json_array();
	char name[REPORT_TEXT];

	for (uint32_t i = 0; i < trace_views_count(story->views); i++) {
		const struct memory_view *view = &story->memory.view[i];

		if (view->used)
			json_array_append_new(
				views,
				json_pack("{ss so so so sf}", "view", report_view(name, story, i),
					  "peak_bytes", bytes(view->peak_bytes), "limit_bytes",
					  bytes(view->limit_bytes), "peak_ns",
					  at(story, view->peak_ns), "growth_bytes_per_s",
					  view->growth_bytes_per_s));
	}
	return views;
}

static json_t *stallers_json(const struct story *story, const struct staller_table *table)
{
	const struct staller *top[TOP];
	unsigned n = stallers_top(table, top, TOP);
	json_t *list = json_array();
	char cgroup[REPORT_TEXT];

	for (unsigned i = 0; i < n; i++) {
		const struct durations *stalls = &top[i]->stalls;
		json_t *entry = json_pack("{ss so so so so}", "cgroup",
					  report_cgroup(cgroup, story, top[i]->cgroup_id), "count",
					  bytes(stalls->count), "total_ns", bytes(stalls->total_ns),
					  "p99_ns", bytes(durations_percentile_ns(stalls, 0.99)),
					  "longest_ns", bytes(stalls->longest_ns));

		if (top[i]->tid) {
			json_object_set_new(entry, "comm", json_string(top[i]->comm));
			json_object_set_new(entry, "tid", json_integer(top[i]->tid));
			json_object_set_new(entry, "pid", json_integer(top[i]->pid));
			json_object_set_new(
				entry, "of_command",
				json_boolean(recorded_has_process(&story->recorded, top[i]->pid)));
		}
		json_array_append_new(list, entry);
	}
	return list;
}

static json_t *faults_json(const struct story *story)
{
	json_t *list = json_array();
	char cgroup[REPORT_TEXT];

	for (unsigned i = 0; i < MEMORY_WORST && story->memory.worst_fault[i].count; i++)
		json_array_append_new(
			list,
			json_pack("{ss sI ss so}", "comm", story->memory.worst_fault[i].comm, "tid",
				  (json_int_t)story->memory.worst_fault[i].tid, "cgroup",
				  report_cgroup(cgroup, story,
						story->memory.worst_fault[i].cgroup_id),
				  "faults", bytes(story->memory.worst_fault[i].count)));
	return list;
}

static json_t *reclaim_json(const struct story *story)
{
	uint64_t scan_limits, steal_limits;
	struct trace_vmstat did;

	if (story->reclaim.sample_count < 2)
		return json_null(); /* not known */
	reclaim_did(&story->reclaim, &did);
	reclaim_for_limits(&story->reclaim, &scan_limits, &steal_limits);
	return json_pack("{so so so so so so}", "scan_limits_pages", bytes(scan_limits),
			 "steal_limits_pages", bytes(steal_limits), "scan_direct_pages",
			 bytes(did.scan_direct_pages), "steal_direct_pages",
			 bytes(did.steal_direct_pages), "scan_kswapd_pages",
			 bytes(did.scan_kswapd_pages), "steal_kswapd_pages",
			 bytes(did.steal_kswapd_pages));
}

static json_t *dies_json(const struct story *story)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < story->memory.die_count; i++)
		json_array_append_new(
			list,
			json_pack("{ss so so so}", "pci", story->memory.die[i].pci,
				  "least_free_bytes", bytes(story->memory.die[i].least_free_bytes),
				  "budget_bytes", bytes(story->memory.die[i].budget_bytes),
				  "least_ns", at(story, story->memory.die[i].least_ns)));
	return list;
}

static json_t *kills_json(const struct story *story)
{
	json_t *list = json_array();
	char cgroup[REPORT_TEXT];

	for (uint64_t i = 0; i < story->kills.count && i < KILLS_MAX; i++)
		json_array_append_new(
			list,
			json_pack("{ss sI ss so}", "comm", story->kills.kill[i].comm, "pid",
				  (json_int_t)story->kills.kill[i].pid, "cgroup",
				  report_cgroup(cgroup, story, story->kills.kill[i].cgroup_id),
				  "at_ns", at(story, story->kills.kill[i].ts_ns)));
	return list;
}

/* The settings that would have admitted all of them, null where none is known. */
static json_t *settings_json(const struct refusal *refusal)
{
	const struct replay_policy *with = &refusal->with;
	json_t *settings;

	if (!report_has_settings(refusal))
		return json_null();
	settings = json_object();
	if (with->given & REPLAY_PSI_FULL_REJECT)
		json_object_set_new(settings, "psi_full_reject",
				    json_real(with->with.psi_full_reject_pct));
	if (with->given & REPLAY_HOST_RESERVE)
		json_object_set_new(settings, "host_reserve_bytes",
				    bytes(with->with.host_reserve_bytes));
	if (with->given & REPLAY_DIE_RESERVE)
		json_object_set_new(settings, "die_reserve_bytes",
				    bytes(with->with.die_reserve_bytes));
	return settings;
}

static json_t *refusals_json(const struct story *story)
{
	json_t *list = json_array();
	char text[REPORT_TEXT];

	for (unsigned i = 0; i < story->refusals.count; i++) {
		const struct refusal *r = &story->refusals.refusal[i];
		const struct trace_verdict *v = &r->first;

		json_array_append_new(
			list,
			json_pack("{ss ss ss sI ss sI so si so so so sf sf so so ss}", "verdict",
				  v->verdict == PN_VERDICT_CAP ? "cap" : "reject", "ask",
				  words_ask(v->ask), "comm", v->comm, "pid", (json_int_t)v->pid,
				  "check", words_check(v->check), "count", (json_int_t)r->count,
				  "first_ns", at(story, r->first_ns), "fit_tokens",
				  (int)v->fit_tokens, "need_bytes", bytes(v->need_bytes),
				  "have_bytes", bytes(v->have_bytes), "reserve_bytes",
				  bytes(v->reserve_bytes), "psi_full_pct", v->psi_full_pct,
				  "psi_limit_pct", v->psi_limit_pct, "admitted_after_ns",
				  r->admitted_ns ? bytes(r->admitted_ns - r->first_ns)
						 : json_null(),
				  "settings", settings_json(r), "prevented_by",
				  report_prevented(text, story, r)));
	}
	return list;
}

json_t *report_json(const char *path, const struct story *story, enum trace_file_end end)
{
	char file[4096];
	bool any = story->refusals.verdict_count[PN_VERDICT_ADMIT] ||
		   story->refusals.verdict_count[PN_VERDICT_CAP] ||
		   story->refusals.verdict_count[PN_VERDICT_REJECT];
	json_t *drops =
		json_pack("{so so so so so}", "kernel", bytes(story->recorded.drops.kernel_count),
			  "recorder", bytes(story->recorded.drops.recorder_count), "verdicts",
			  bytes(story->recorded.drops.verdict_count), "overwritten",
			  bytes(story->recorded.drops.old_count), "views",
			  bytes(trace_views_left_out(story->views)));
	json_t *verdicts =
		json_pack("{sb so so so so}", "recorded", (int)(story->recorded.has_config || any),
			  "admitted", bytes(story->refusals.verdict_count[PN_VERDICT_ADMIT]),
			  "capped", bytes(story->refusals.verdict_count[PN_VERDICT_CAP]), "refused",
			  bytes(story->refusals.verdict_count[PN_VERDICT_REJECT]), "refusals",
			  refusals_json(story));
	json_t *stalls =
		json_pack("{so so so so so so}", "recorded", bytes(story->stallers.recorded_count),
			  "count", bytes(stallers_count(&story->stallers)), "total_ns",
			  bytes(stallers_ns(&story->stallers)), "tasks",
			  stallers_json(story, &story->stallers.tasks), "cgroups",
			  stallers_json(story, &story->stallers.cgroups), "kernel_threads",
			  bytes(story->stallers.kthreads.count));
	json_t *memory = json_pack(
		"{so so so so sf sf}", "total_bytes", bytes(story->memory.total_bytes),
		"reserve_bytes", bytes(story->memory.reserve_bytes), "least_avail_bytes",
		bytes(story->memory.least_avail_bytes), "least_avail_ns",
		at(story, story->memory.least_avail_ns), "most_psi_some",
		story->memory.most_some_pct, "most_psi_full", story->memory.most_full_pct);

	json_t *command =
		story->recorded.command_pid
			? json_pack("{ss sI so sI}", "name", story->recorded.command, "pid",
				    (json_int_t)story->recorded.command_pid, "wait_status",
				    story->recorded.command_ended
					    ? json_integer(story->recorded.command_status)
					    : json_null(),
				    "processes", (json_int_t)story->recorded.process_count)
			: json_null();

	return json_pack("{so ss ss so sI so so so so so so so so so so}", "command", command,
			 "file", trace_printable(file, sizeof(file), path), "end", words_end(end),
			 "trace", head_json(story), "records", (json_int_t)story->record_count,
			 "lost", drops, "level", level_json(story), "memory", memory, "views",
			 views_json(story), "faults", faults_json(story), "stalls", stalls,
			 "reclaim", reclaim_json(story), "kills", kills_json(story), "dies",
			 dies_json(story), "verdicts", verdicts);
}
