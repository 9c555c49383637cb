// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a trace of a made-up model load, to standard output: trace_make [OPTION...] RECORDS
 * [SECONDS]. The same arguments give the same bytes. On a host of 16 GiB, a loader takes memory
 * from second 10 on until the reserve is reached and the kernel reclaims; one request is capped and
 * later ones are refused; a task in the loader's cgroup is killed; then the memory comes back. The
 * levels are those that core derives from the numbers, so that a replay with the file's settings
 * agrees with it. Stall records fill the file up to RECORDS.
 *   --newer     a file of a later version, with a kind of its own
 *   --hostile   with names that a terminal would act on
 *   --odd       with five records that hold a value out of range, which readers leave out
 *   --ended     with a view that is CRITICAL for a second and then ends
 *   --gone      with engines that took memory fast, and end or fall silent before it is CRITICAL
 *   --view N    the loader's view has this number
 *   --short N   with N views of a moment each, which up to 900 have one number after the other
 *   --names-first  all names at the start, with their times, as a flight recorder's file has them
 *   --names-at-end  of the short views only the last one's name at the start, the others' when they
 *               end, as in a flight recorder's file whose names were overwritten
 *   --refused   requests of 1 GiB, no limit: first there is no memory, then it stalls for long
 *   --reserved  others have reserved nearly all of the host at second 6
 *   --quiet     no verdicts
 *   --bare      as without an agent: no settings, no verdicts; a counter falls
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admission.h"
#include "core/merge.h"
#include "core/trace.h"

#define GIB            (1ull << 30)
#define S_NS           1000000000ull
#define START_NS       (1000 * S_NS)
#define ENDED_VIEW     2
#define QUIET_VIEW     3
#define LOADER_PID     4242
#define REFUSED_TOKENS 962 /* 1 GiB */
#define LOADER_CG      77
#define OTHER_CG       33

static uint64_t record_count;
static bool newer, hostile, odd, ended, gone, refused, reserved, quiet, bare, names_first,
	names_at_end;
static uint32_t view_id = 1, short_count;
static uint64_t span_ns = 90 * S_NS;

static void put(uint16_t kind, uint64_t ts_ns, const void *fixed, size_t bytes, const char *text)
{
	static unsigned char buf[TRACE_RECORD_MAX];
	size_t n = trace_put(buf, kind, ts_ns, fixed, bytes, text);

	trace_seal(buf);
	if (fwrite(buf, n, 1, stdout) != 1)
		exit(1);
	record_count++;
}

static void put_name_at(uint64_t now_ns, uint32_t of, uint64_t id, const char *text)
{
	struct trace_name name = { .of = of, .id = id };

	put(TRACE_NAME, now_ns, &name, sizeof(name), text);
}

static void put_name(uint32_t of, uint64_t id, const char *text)
{
	put_name_at(START_NS, of, id, text);
}

static const char *short_name(uint64_t i)
{
	static char name[32];

	snprintf(name, sizeof(name), "/short/%llu", (unsigned long long)i);
	return name;
}

/* Up to 900 of them have one number after the other. */
static void put_short_name(uint64_t now_ns, uint64_t i)
{
	put_name_at(now_ns, TRACE_NAME_VIEW, ENDED_VIEW + (short_count > 900 ? i : 0),
		    short_name(i));
}

static void put_start(void)
{
	struct trace_head head = {
		.n_cpus = 2,
		.mono_ns = START_NS,
		.wall_ns = 1767225600 * S_NS,
		.total_bytes = 16 * GIB,
		.agent = "trace_make",
		.kernel = "6.18.0",
		.host = "example",
	};
	const struct level_config *level = &level_config_default;
	struct trace_config config = {
		.die_reserve_bytes = level->die_reserve_bytes,
		.hold_ns = level->hold_ns,
		.psi_full_reject_pct = level->psi_full_reject_pct,
		.cgroup_level = level->cgroup_level,
		.mode = PN_MODE_FENTRY,
	};
	static unsigned char start[TRACE_START_BYTES];
	size_t bytes = trace_put_start(start, &head, &record_count);

	if (newer) {
		memcpy(&head, start, sizeof(head));
		head.version = TRACE_VERSION + 1;
		head.check = trace_check(&head, sizeof(head), offsetof(struct trace_head, check));
		memcpy(start, &head, sizeof(head));
	}
	if (fwrite(start, bytes, 1, stdout) != 1)
		exit(1);
	if (!bare)
		put(TRACE_CONFIG, START_NS, &config, sizeof(config), NULL);
	put_name(TRACE_NAME_VIEW, view_id, "/engines/loader");
	for (uint64_t step = 0, i = 0; names_first && step < 900; step++)
		for (; i < short_count * (step + 1) / 900; i++)
			put_short_name(START_NS + span_ns / 900 * step, i);
	if (names_at_end && short_count)
		put_short_name(START_NS + span_ns, short_count - 1);
	if (gone) {
		put_name(TRACE_NAME_VIEW, ENDED_VIEW, "/engines/gone");
		put_name(TRACE_NAME_VIEW, QUIET_VIEW, "/engines/silent");
	}
	if (ended)
		put_name(TRACE_NAME_VIEW, ENDED_VIEW, "/engines/ended");
	put_name(TRACE_NAME_CGROUP, LOADER_CG,
		 hostile ? "/\033[2J\033]0;title\007\xff\xfe\"\\</script><script>alert(1)</script>"
			 : "/engines/loader");
	if (newer) {
		struct trace_schema schema = { .kind = 99, .payload_bytes = 8 };

		put(TRACE_SCHEMA, START_NS, &schema, sizeof(schema), "future u64 value");
		put(99, START_NS, &schema, sizeof(schema), NULL);
	}
	put_name(TRACE_NAME_CGROUP, OTHER_CG, "/system.slice/db.service");
}

/* What the host looks like at this share, 0..1, of the whole time. */
static void sample_at(double share, uint64_t now_ns, pn_host_sample *ret)
{
	double load = share < 0.1   ? 0
		      : share < 0.6 ? (share - 0.1) / 0.5
		      : share < 0.7 ? 1
				    : fmax(0, 1 - (share - 0.7) * 10);
	uint64_t taken = (uint64_t)(load * 12.5 * (double)GIB);
	double stall = load > 0.9 ? (load - 0.9) * 300 : 0;

	if (refused)
		stall = share < 0.65 ? 0 : share < 0.7 ? 20 : share < 0.95 ? 60 : 0;
	*ret = (pn_host_sample){
		.total_bytes = 16 * GIB,
		.avail_bytes = 14 * GIB - taken,
		.psi_some_avg10 = fmin(stall * 2, 90),
		.psi_full_avg10 = stall,
		.psi_some_total_us = (uint64_t)(share * 1e7),
		.psi_full_total_us = (uint64_t)(share * 5e6),
		.cgroup_current_bytes = GIB + taken,
		.cgroup_max_bytes = 15 * GIB,
		.cgroup_headroom_bytes = 14 * GIB - taken,
		.cgroup_limit_bytes = 15 * GIB,
	};
	if (refused)
		ret->cgroup_max_bytes = ret->cgroup_headroom_bytes = ret->cgroup_limit_bytes = 0;
	for (int i = 0; i < PN_SRC_DIES; i++) {
		ret->source_ns[i] = now_ns;
		ret->source_state[i] = PN_SRC_OK;
	}
}

static void put_die(double share, uint64_t now_ns, struct die_table *dies)
{
	struct trace_die die = {
		.view = view_id,
		.free_bytes = (uint64_t)((1 - fmin(share, 0.6)) * 23 * (double)GIB),
		.budget_bytes = 23 * GIB,
		.used_bytes = (uint64_t)(fmin(share, 0.6) * 23 * (double)GIB),
		.sample_ns = now_ns,
		.uuid = { 1, 2, 3, 4 },
		.pci = "0000:3b:00.0",
		.state = PN_SRC_OK,
	};

	dies->die[0] = (struct die){
		.free_bytes = die.free_bytes,
		.budget_bytes = die.budget_bytes,
		.used_bytes = die.used_bytes,
		.sample_ns = now_ns,
	};
	memcpy(dies->die[0].id.uuid, die.uuid, sizeof(die.uuid));
	memcpy(dies->die[0].id.pci, die.pci, sizeof(die.pci));
	put(TRACE_DIE, now_ns, &die, sizeof(die), NULL);
}

static void put_verdict(uint64_t now_ns, const pn_mem_state *state, const pn_mem_ext *look_ext)
{
	pn_mem_ext with_others = *look_ext, *ext = &with_others;
	struct trace_verdict verdict = {
		.view = view_id,
		.pid = LOADER_PID,
		.ask = TRACE_ASK_REQUEST,
		.n_tokens = refused ? REFUSED_TOKENS : 4096,
		.max_window = 16384,
		.comm = "loader",
	};
	struct admission_config config;
	pn_admit_result result;

	if (reserved && now_ns - START_NS > 6 * S_NS && now_ns - START_NS < 7 * S_NS)
		with_others.host_reserved_bytes = 15 * GIB;
	admission_settings(&config, NULL, NULL, NULL, NULL);
	admission_request(&config, verdict.n_tokens, false, false, -1, 16384, state, ext, &result);
	verdict.verdict = result.verdict;
	verdict.check = result.check;
	verdict.fit_tokens = result.fit_tokens;
	verdict.die_id = result.die_id;
	verdict.level = result.level;
	verdict.retry_after_ms = result.retry_after_ms;
	verdict.need_bytes = result.need_bytes;
	verdict.have_bytes = result.have_bytes;
	verdict.reserve_bytes = result.reserve_bytes;
	verdict.psi_full_pct = result.psi_full_pct;
	verdict.psi_limit_pct = result.psi_limit_pct;
	put(TRACE_VERDICT, now_ns, &verdict, sizeof(verdict), NULL);
}

static void put_event(uint64_t now_ns, uint32_t kind, uint64_t value, unsigned who)
{
	static const struct {
		uint64_t cgroup_id;
		uint32_t tid, pid;
		const char *comm;
	} tasks[] = {
		{ LOADER_CG, 4243, LOADER_PID, "loader-io" },
		{ LOADER_CG, LOADER_PID, LOADER_PID, "loader" },
		{ OTHER_CG, 900, 900, "db" },
	};
	struct pn_event event = {
		.kind = kind,
		.size = sizeof(event),
		.ts_ns = now_ns,
		.value = value,
		.cgroup_id = tasks[who].cgroup_id,
		.tid = tasks[who].tid,
		.pid = tasks[who].pid,
		.cpu = who % 2,
	};

	strcpy(event.comm, hostile ? "\033[31m\xc3" : tasks[who].comm);
	put(TRACE_EVENT, now_ns, &event, sizeof(event), NULL);
}

static void put_end(uint64_t now_ns, uint32_t view, const char *name)
{
	struct trace_mark mark = { .of = TRACE_MARK_VIEW_END, .value = view };

	put(TRACE_MARK, now_ns, &mark, sizeof(mark), name);
}

static void put_view(uint64_t now_ns, struct trace_look look, uint32_t view, uint32_t level,
		     uint64_t current_bytes)
{
	look.view = view;
	look.level = look.wanted_level = level;
	look.n_dies = 0;
	look.cgroup_current_bytes = current_bytes;
	put(TRACE_LOOK, now_ns, &look, sizeof(look), NULL);
}

/* Two views that take 1 GiB a second. */
static void put_gone(uint64_t now_ns, const struct trace_look *look, uint64_t step)
{
	if (step >= 400 && step < 470)
		put_view(now_ns, *look, ENDED_VIEW, PN_MEM_LEVEL_OK, (step - 400) * GIB / 10);
	if (step == 470)
		put_end(now_ns, ENDED_VIEW, "");
	if (step < 70)
		put_view(now_ns, *look, QUIET_VIEW, PN_MEM_LEVEL_OK, step * GIB / 10);
}

/* Each view has another level than the one before it. */
static void put_short(uint64_t now_ns, const struct trace_look *look, uint64_t step)
{
	uint64_t next = short_count * (step + 1) / 900;

	for (uint64_t i = short_count * step / 900; i < next; i++) {
		uint32_t view = ENDED_VIEW + (uint32_t)(short_count > 900 ? i : 0);

		if (!names_first && !names_at_end)
			put_short_name(now_ns, i);
		put_view(now_ns, *look, view, (uint32_t)(i % 3), (i + 1) << 20);
		put_end(now_ns + 1, view, names_at_end ? short_name(i) : "");
	}
}

/* They lie among the others. Their numbers would show in what the readers print. */
static void put_odd(uint64_t now_ns)
{
	struct trace_verdict verdict = { .ask = TRACE_ASK_REQUEST, .verdict = 3, .comm = "odd" };
	struct trace_look look = { .level = PN_MEM_LEVEL_CRITICAL + 1 };
	struct trace_mark mark = { .of = TRACE_MARK_VIEW_END + 1 };
	struct pn_event event = { .kind = PN_EVENT_KIND_COUNT, .value = S_NS, .tid = 1 };
	struct trace_die die = { .budget_bytes = GIB, .pci = "odd", .index = 1000 };

	put(TRACE_VERDICT, now_ns, &verdict, sizeof(verdict), NULL);
	put(TRACE_LOOK, now_ns, &look, sizeof(look), NULL);
	put(TRACE_MARK, now_ns, &mark, sizeof(mark), "odd");
	put(TRACE_EVENT, now_ns, &event, sizeof(event), NULL);
	put(TRACE_DIE, now_ns, &die, sizeof(die), NULL);
}

int main(int argc, char **argv)
{
	uint64_t wanted = 10000;
	struct merge_state carry[2] = { 0 };
	struct die_table dies = { 0 }, none = { 0 };
	pn_mem_state state;
	pn_mem_ext ext[2] = { 0 };
	uint64_t stalls = 0, stall_ns = 0;
	struct trace_drops drops = { .kernel_count = 12 };
	struct trace_end end;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		newer = newer || !strcmp(argv[1], "--newer");
		hostile = hostile || !strcmp(argv[1], "--hostile");
		odd = odd || !strcmp(argv[1], "--odd");
		ended = ended || !strcmp(argv[1], "--ended");
		gone = gone || !strcmp(argv[1], "--gone");
		refused = refused || !strcmp(argv[1], "--refused");
		reserved = reserved || !strcmp(argv[1], "--reserved");
		quiet = quiet || !strcmp(argv[1], "--quiet");
		bare = bare || !strcmp(argv[1], "--bare");
		names_first = names_first || !strcmp(argv[1], "--names-first");
		names_at_end = names_at_end || !strcmp(argv[1], "--names-at-end");
		if (strcmp(argv[1], "--view") && strcmp(argv[1], "--short"))
			continue;
		if (argc < 3)
			return 2;
		*(argv[1][2] == 'v' ? &view_id : &short_count) =
			(uint32_t)strtoul(argv[2], NULL, 10);
		argc--;
		argv++;
	}
	if (argc > 1)
		wanted = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		span_ns = strtoull(argv[2], NULL, 10) * S_NS;
	put_start();
	for (uint64_t step = 0; step < 900; step++) {
		double share = (double)step / 900;
		uint64_t now_ns = START_NS + span_ns / 900 * step;
		uint64_t left = wanted > record_count ? wanted - record_count : 0;
		bool pressed = share > 0.5 && share < 0.7;
		uint64_t events = pressed ? left * 5 / (900 - step) : 0;
		pn_host_sample sample;

		if (odd && step == 450)
			put_odd(now_ns);
		sample_at(share, now_ns, &sample);
		if (share > 0.1 && share < 0.6 && step % 5 == 0)
			put_event(now_ns, PN_EVENT_FAULTS, 3000 + step, 1);
		for (uint64_t i = 0; i < events; i++) {
			/* Up to 40 ms, the same every time; a task's next begins after it. */
			uint64_t gap_ns = span_ns / 900 / events;
			uint64_t long_ns = 100000 + (step * 7919 + i * 104729) % 39900000;

			long_ns = 1 + long_ns % (gap_ns < 39999999 ? gap_ns : 39999999);

			stalls++;
			stall_ns += long_ns;
			put_event(now_ns + i * gap_ns, PN_EVENT_STALL, long_ns,
				  (unsigned)(i % 7 ? i % 2 : 2));
		}
		if (pressed && step % 10 == 0)
			put_event(now_ns, PN_EVENT_MEMCG, 1 << PN_MEMCG_MAX, 0);
		if (step == 600)
			put_event(now_ns, PN_EVENT_OOM_KILL, 0, 0);
		if (step % 30 == 0)
			put_die(share, now_ns, &dies);
		if (step % 10 == 0 && !(bare && step)) {
			struct trace_vmstat vmstat = {
				.scan_direct_pages = stalls * 40,
				.steal_direct_pages = stalls * 25,
				.scan_kswapd_pages = stalls * 10,
				.steal_kswapd_pages = stalls * 9,
				.fault_count = step * 5000,
				.scan_all_pages = stalls * 90,
				.steal_all_pages = stalls * 54,
			};

			put(TRACE_VMSTAT, now_ns, &vmstat, sizeof(vmstat), NULL);
		}
		for (int view = 0; view < 2; view++) {
			struct merge_input in = {
				.now_ns = now_ns,
				.host = &sample,
				.cgroup = &sample,
				.live_some_pct = sample.psi_some_avg10,
				.live_full_pct = sample.psi_full_avg10,
				.dies = view ? &dies : &none,
			};
			struct trace_look look;
			pn_host_sample no_group = { 0 };

			in.n_dies = die_table_count(in.dies);
			if (!view)
				in.cgroup = &no_group;
			ext[view].stalls = bare && !step ? 1000 : stalls;
			ext[view].stall_ns = stall_ns;
			ext[view].mode = PN_MODE_FENTRY;
			merge_look(&carry[view], &level_config_default, &in, &state, &ext[view]);
			trace_look_make(&look, view ? view_id : 0, &state, &ext[view]);
			put(TRACE_LOOK, now_ns, &look, sizeof(look), NULL);
			if (!view)
				continue;
			if (ended && step >= 100 && step < 110)
				put_view(now_ns, look, ENDED_VIEW, PN_MEM_LEVEL_CRITICAL,
					 look.cgroup_current_bytes);
			if (ended && step == 110)
				put_end(now_ns, ENDED_VIEW, "");
			if (gone)
				put_gone(now_ns, &look, step);
			put_short(now_ns, &look, step);
		}
		if (step % 45 == 20 && !quiet && !bare)
			put_verdict(now_ns, &state, &ext[1]);
	}
	put(TRACE_DROPS, START_NS + span_ns, &drops, sizeof(drops), NULL);
	end.record_count = record_count;
	put(TRACE_END, START_NS + span_ns, &end, sizeof(end), NULL);
	return fflush(stdout) ? 1 : 0;
}
