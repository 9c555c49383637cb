/* SPDX-License-Identifier: BSD-2-Clause */
/* The report for people: a screenful. */
#include "cli/trace/report/print.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/format.h"
#include "cli/trace/report/words.h"
#include "cli/trace/words.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define TOP 5

typedef unsigned long long ull;

static void print_command(FILE *out, const struct story *story)
{
	int status = story->recorded.command_status;

	fprintf(out, "command  %s (%u)", story->recorded.command, story->recorded.command_pid);
	if (!story->recorded.command_ended)
		fprintf(out, ", still running at the end");
	else if (WIFEXITED(status))
		fprintf(out, ", exit %d", WEXITSTATUS(status));
	else
		fprintf(out, ", ended by signal %d", WTERMSIG(status));
	fprintf(out, "; %u of its processes are in the records, marked * below\n",
		story->recorded.process_count);
}

static void print_head(FILE *out, const char *path, const struct story *story,
		       enum trace_file_end end)
{
	uint64_t span_ns = story->last_ns - story->first_ns;
	uint64_t wall_ns = story->head.wall_ns + story->first_ns - story->head.mono_ns;
	char when[32], span[FORMAT_BYTES], total[FORMAT_BYTES], kernel[64], host[64], agent[32];
	time_t wall_s = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime_r(&wall_s, &tm));
	fprintf(out, "trace    %s, %s\n", path, words_end(end));
	fprintf(out, "span     %s from %s UTC on %s: %u CPUs, %s, Linux %s, %s\n",
		format_duration(span, span_ns), when,
		trace_printable(host, sizeof(host), story->head.host), story->head.n_cpus,
		format_bytes(total, story->head.total_bytes),
		trace_printable(kernel, sizeof(kernel), story->head.kernel),
		trace_printable(agent, sizeof(agent), story->head.agent));
	if (story->recorded.why[0])
		fprintf(out, "written  %s\n", story->recorded.why);
	if (story->recorded.command_pid)
		print_command(out, story);
	fprintf(out,
		"records  %llu; lost: %llu by the kernel's hooks, %llu by the recorder, %llu "
		"verdicts; %llu older ones were overwritten\n",
		(ull)story->record_count, (ull)story->recorded.drops.kernel_count,
		(ull)story->recorded.drops.recorder_count, (ull)story->recorded.drops.verdict_count,
		(ull)story->recorded.drops.old_count);
	if (trace_views_left_out(story->views))
		fprintf(out, "         %llu records of views beyond the first %u are left out\n",
			(ull)trace_views_left_out(story->views), TRACE_VIEWS_MAX);
	for (unsigned i = 0; i < story->recorded.unknown_count; i++)
		if (story->recorded.unknown[i].count)
			fprintf(out, "         %llu records of an unknown kind: %u %s\n",
				(ull)story->recorded.unknown[i].count,
				story->recorded.unknown[i].kind, story->recorded.unknown[i].name);
}

static void print_levels(FILE *out, const struct story *story)
{
	char text[FORMAT_BYTES], at[REPORT_TEXT], view[REPORT_TEXT], reasons[160];

	if (!story->levels.look_ns) {
		fprintf(out, "level    no snapshot in this trace\n");
		return;
	}
	fprintf(out, "level   ");
	for (int level = 3; level >= 0; level--)
		fprintf(out, " %s %s%s", pn_mem_level_name((pn_mem_level)level),
			format_duration(text, story->levels.level_ns[level]), level ? "," : "\n");
	if (!story->levels.worst_level)
		return;
	fprintf(out, "         %s first at %s for %s, because: %s\n",
		pn_mem_level_name((pn_mem_level)story->levels.worst_level),
		report_at(at, story, story->levels.worst_ns),
		report_view(view, story, story->levels.worst_view),
		format_reasons(reasons, sizeof(reasons), story->levels.worst_reasons));
}

/* The cgroups with the largest numbers above 0, each by the largest number of its views. */
struct top_views {
	uint32_t place[TOP];
	unsigned shown, more;
};

static double peak_of(const struct story *story, uint32_t place)
{
	return (double)story->memory.view[place].peak_bytes;
}

static double growth_of(const struct story *story, uint32_t place)
{
	return story->memory.view[place].growth_bytes_per_s;
}

static void find_top(const struct story *story,
		     double (*value_of)(const struct story *story, uint32_t place),
		     struct top_views *ret)
{
	static uint32_t best[TRACE_VIEWS_MAX]; /* by the first place of a path; 0: none */
	uint32_t count = trace_views_count(story->views);

	memset(best, 0, sizeof(best));
	*ret = (struct top_views){ 0 };
	for (uint32_t i = 1; i < count; i++) {
		uint32_t *of_path = &best[trace_views_first(story->views, i)];

		if (value_of(story, i) > 0 &&
		    (!*of_path || value_of(story, i) > value_of(story, *of_path)))
			*of_path = i;
	}
	for (uint32_t first = 1; first < count; first++) {
		unsigned at = ret->shown;

		if (!best[first])
			continue;
		while (at && value_of(story, best[first]) > value_of(story, ret->place[at - 1]))
			at--;
		ret->more += ret->shown == TOP;
		if (at == TOP)
			continue;
		ret->shown += ret->shown < TOP;
		memmove(&ret->place[at + 1], &ret->place[at],
			(ret->shown - at - 1) * sizeof(ret->place[0]));
		ret->place[at] = best[first];
	}
}

static void print_peaks(FILE *out, const struct story *story)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], at[REPORT_TEXT], who[REPORT_TEXT];
	struct top_views top;

	if (story->memory.has_look) {
		fprintf(out, "peak     least available %s of %s at %s (reserve %s)\n",
			format_bytes(a, story->memory.least_avail_bytes),
			format_bytes(b, story->memory.total_bytes),
			report_at(at, story, story->memory.least_avail_ns),
			format_bytes(c, story->memory.reserve_bytes));
		fprintf(out, "         most PSI some %.2f, full %.2f", story->memory.most_some_pct,
			story->memory.most_full_pct);
		if (story->memory.most_full_ns)
			fprintf(out, " at %s", report_at(at, story, story->memory.most_full_ns));
		fprintf(out, "\n");
	}
	find_top(story, peak_of, &top);
	for (unsigned i = 0; i < top.shown; i++) {
		const struct memory_view *view = &story->memory.view[top.place[i]];

		fprintf(out, "         %s: %s", report_view(who, story, top.place[i]),
			format_bytes(a, view->peak_bytes));
		if (view->limit_bytes)
			fprintf(out, " of %s", format_bytes(b, view->limit_bytes));
		fprintf(out, " at %s\n", report_at(at, story, view->peak_ns));
	}
	if (top.more)
		fprintf(out, "         and %u more\n", top.more);
}

static void print_growth(FILE *out, const struct story *story)
{
	char a[FORMAT_BYTES], who[REPORT_TEXT];
	struct top_views top;

	if (!story->levels.worst_level)
		return;
	fprintf(out, "before   in the 10 s before %s%s",
		pn_mem_level_name((pn_mem_level)story->levels.worst_level),
		story->levels.worst_ns == story->first_ns ? ", which are not in the trace" : "");
	if (story->memory.view[0].growth_bytes_per_s > 0)
		fprintf(out, ": the host lost %s a second",
			format_bytes(a, (uint64_t)story->memory.view[0].growth_bytes_per_s));
	fprintf(out, "\n");
	find_top(story, growth_of, &top);
	for (unsigned i = 0; i < top.shown; i++)
		fprintf(out, "         %s took %s a second\n",
			report_view(who, story, top.place[i]),
			format_bytes(
				a, (uint64_t)story->memory.view[top.place[i]].growth_bytes_per_s));
	if (top.more)
		fprintf(out, "         and %u more\n", top.more);
	for (unsigned i = 0; i < MEMORY_WORST && story->memory.worst_fault[i].count; i++)
		fprintf(out,
			"         %s (%u) in %s had the last fault in bursts of %llu page faults\n",
			story->memory.worst_fault[i].comm, story->memory.worst_fault[i].tid,
			report_cgroup(who, story, story->memory.worst_fault[i].cgroup_id),
			(ull)story->memory.worst_fault[i].count);
}

static void print_staller(FILE *out, const struct story *story, const struct staller *s)
{
	char total[FORMAT_BYTES], p99[FORMAT_BYTES], most[FORMAT_BYTES], cgroup[REPORT_TEXT];
	char task[48] = "";

	if (s->tid)
		snprintf(task, sizeof(task), "%s (%u)", s->comm, s->tid);
	fprintf(out, "       %c %8llu %9s %9s %9s  %-24s %s\n",
		s->tid && recorded_has_process(&story->recorded, s->pid) ? '*' : ' ',
		(ull)s->stalls.count, format_duration(total, s->stalls.total_ns),
		format_duration(p99, durations_percentile_ns(&s->stalls, 0.99)),
		format_duration(most, s->stalls.longest_ns), s->tid ? task : "all of",
		report_cgroup(cgroup, story, s->cgroup_id));
}

static void print_stalls(FILE *out, const struct story *story)
{
	const struct staller *top[TOP];
	char total[FORMAT_BYTES];
	unsigned n;

	if (stallers_count(&story->stallers))
		fprintf(out,
			"stalls   %llu, %s of task time in all, by the hooks' count; %llu are "
			"recorded\n",
			(ull)stallers_count(&story->stallers),
			format_duration(total, stallers_ns(&story->stallers)),
			(ull)story->stallers.recorded_count);
	else if (story->stallers.tasks.count)
		fprintf(out, "stalls\n");
	else
		fprintf(out, "stalls   none\n");
	if (!story->stallers.tasks.count)
		return;
	fprintf(out, "         %8s %9s %9s %9s  (those recorded)\n", "count", "total", "p99",
		"longest");
	n = stallers_top(&story->stallers.tasks, top, TOP);
	for (unsigned i = 0; i < n; i++)
		print_staller(out, story, top[i]);
	n = stallers_top(&story->stallers.cgroups, top, TOP);
	for (unsigned i = 0; i < n; i++)
		print_staller(out, story, top[i]);
}

static void print_share(FILE *out, const char *who, uint64_t scanned, uint64_t taken, bool *any)
{
	if (!scanned)
		return;
	fprintf(out, "%s %s %llu of %llu pages scanned (%.0f %%)", *any ? "," : "reclaim ", who,
		(ull)taken, (ull)scanned, (double)taken * 100 / (double)scanned);
	*any = true;
}

static void print_reclaim(FILE *out, const struct story *story)
{
	uint64_t scan_limits, steal_limits;
	struct trace_vmstat did;
	bool any = false;

	reclaim_did(&story->reclaim, &did);
	reclaim_for_limits(&story->reclaim, &scan_limits, &steal_limits);
	print_share(out, "tasks", did.scan_direct_pages, did.steal_direct_pages, &any);
	print_share(out, "kswapd", did.scan_kswapd_pages, did.steal_kswapd_pages, &any);
	print_share(out, "for cgroup limits", scan_limits, steal_limits, &any);
	if (any)
		fprintf(out, "\n");
	else if (story->reclaim.sample_count > 1)
		fprintf(out, "reclaim  none\n");
	else
		fprintf(out,
			"reclaim  not known: it takes two samples of /proc/vmstat, this trace "
			"has %llu\n",
			(ull)story->reclaim.sample_count);
	if (story->reclaim.memcg_count[PN_MEMCG_MAX] || story->reclaim.memcg_count[PN_MEMCG_HIGH] ||
	    story->reclaim.memcg_count[PN_MEMCG_OOM])
		fprintf(out,
			"cgroups  reported memory.max %llu, memory.high %llu, oom %llu times\n",
			(ull)story->reclaim.memcg_count[PN_MEMCG_MAX],
			(ull)story->reclaim.memcg_count[PN_MEMCG_HIGH],
			(ull)story->reclaim.memcg_count[PN_MEMCG_OOM]);
}

static void print_kills(FILE *out, const struct story *story)
{
	char at[REPORT_TEXT], cgroup[REPORT_TEXT];

	for (uint64_t i = 0; i < story->kills.count && i < KILLS_MAX; i++)
		fprintf(out, "%s %s (%u) in %s at %s\n", i ? "        " : "killed  ",
			story->kills.kill[i].comm, story->kills.kill[i].pid,
			report_cgroup(cgroup, story, story->kills.kill[i].cgroup_id),
			report_at(at, story, story->kills.kill[i].ts_ns));
	if (story->kills.count > KILLS_MAX)
		fprintf(out, "         and %llu more\n", (ull)(story->kills.count - KILLS_MAX));
}

static void print_dies(FILE *out, const struct story *story)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], at[REPORT_TEXT];

	for (unsigned i = 0; i < story->memory.die_count; i++) {
		const struct memory_die *die = &story->memory.die[i];

		fprintf(out, "%s %u %s: least free %s of %s at %s\n", i ? "        " : "dies    ",
			i, die->pci[0] ? die->pci : "(no PCI id)",
			format_bytes(a, die->least_free_bytes), format_bytes(b, die->budget_bytes),
			report_at(at, story, die->least_ns));
	}
	if (story->memory.cuda_count)
		fprintf(out, "         %llu CUDA memory calls\n", (ull)story->memory.cuda_count);
}

static void print_refusal(FILE *out, const struct story *story, const struct refusal *r)
{
	const struct trace_verdict *v = &r->first;
	char at[REPORT_TEXT], need[FORMAT_BYTES], have[FORMAT_BYTES], text[REPORT_TEXT];

	fprintf(out, "         %llu x %s %s of %s (%u), first at %s: %s: ", (ull)r->count,
		v->verdict == PN_VERDICT_CAP ? "capped" : "refused", words_ask(v->ask), v->comm,
		v->pid, report_at(at, story, r->first_ns), words_check(v->check));
	if (v->check == PN_CHECK_PSI_FULL)
		fprintf(out, "full %.2f at a limit of %.2f", v->psi_full_pct, v->psi_limit_pct);
	else if (v->check == PN_CHECK_NONE)
		fprintf(out, "the level was CRITICAL");
	else if (v->check == PN_CHECK_WINDOW)
		fprintf(out, "%d tokens, window %d", v->n_tokens, v->max_window);
	else
		fprintf(out, "needed %s, had %s above the reserve",
			format_bytes(need, v->need_bytes), format_bytes(have, v->have_bytes));
	if (r->claimed_count)
		fprintf(out,
			" after others reserved memory, or took it since the snapshot, which had "
			"%s",
			format_bytes(have, r->room_bytes));
	fprintf(out, "\n           would have been admitted with: %s\n",
		report_prevented(text, story, r));
}

/* Only the agent records a config and verdicts. */
static void print_no_verdicts(FILE *out, const struct story *story)
{
	fprintf(out, "verdicts %s\n",
		story->recorded.has_config
			? "engines reported none"
			: "not known: the agent's records are not in this trace");
	if (story->levels.worst_level == PN_MEM_LEVEL_CRITICAL)
		fprintf(out, "         the tasks that took the memory may not have asked pn_admit, "
			     "which can refuse it\n");
}

static void print_verdicts(FILE *out, const struct story *story)
{
	if (!story->refusals.verdict_count[PN_VERDICT_ADMIT] &&
	    !story->refusals.verdict_count[PN_VERDICT_CAP] &&
	    !story->refusals.verdict_count[PN_VERDICT_REJECT]) {
		print_no_verdicts(out, story);
		return;
	}
	fprintf(out, "verdicts %llu admitted, %llu capped, %llu refused, as engines reported\n",
		(ull)story->refusals.verdict_count[PN_VERDICT_ADMIT],
		(ull)story->refusals.verdict_count[PN_VERDICT_CAP],
		(ull)story->refusals.verdict_count[PN_VERDICT_REJECT]);
	for (unsigned i = 0; i < story->refusals.count; i++)
		print_refusal(out, story, &story->refusals.refusal[i]);
	if (story->refusals.rest_count)
		fprintf(out, "         and %llu more\n", (ull)story->refusals.rest_count);
}

void report_print(FILE *out, const char *path, const struct story *story, enum trace_file_end end)
{
	print_head(out, path, story, end);
	print_levels(out, story);
	print_peaks(out, story);
	print_growth(out, story);
	print_stalls(out, story);
	print_reclaim(out, story);
	print_kills(out, story);
	print_dies(out, story);
	print_verdicts(out, story);
}
