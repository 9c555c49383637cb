// SPDX-License-Identifier: BSD-2-Clause
/*
 * Picks, loads, attaches and reads the BPF programs. Each hook is first tried alone in a skeleton
 * of its own, because one program that the kernel refuses fails the whole object and libbpf does
 * not say which; the chosen set then goes into one final skeleton. What a record means is in
 * pn_event.h, when one is made in bpf/, what to do about it is the agent's loop's business.
 */
#include "agent/hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/hooks/hooks_why.h"
#include "host/clock.h"
#include "pnmem.skel.h"

/*
 * Page faults per sample. 64 faults are 256 KiB of 4 KiB pages, far below any reserve, and cost a
 * program run for every 64 faults that cost a microsecond or so each.
 */
#define FAULT_PERIOD 64

/* No stall begins or ends for this long: a task that still counts as stalled was lost. */
#define STALL_LOST_NS 2000000000ull

/* Programs of one unit are used together or not at all. */
enum unit {
	UNIT_FENTRY,
	UNIT_KPROBE,
	UNIT_DIRECT,
	UNIT_SWITCH,
	UNIT_MEMCG,
	UNIT_COMPACT,
	UNIT_NOTIFY_FENTRY,
	UNIT_NOTIFY_KPROBE,
	UNIT_RECLAIM,
	UNIT_OOM,
	UNIT_KSWAPD,
	UNIT_FAULTS,
	UNIT_MOVES,
	UNIT_COUNT,
};

struct hook {
	enum unit unit;
	uint32_t mode; /* rung, PN_MODE_NONE for the subjects that have none */
	const char *subject;
	const char *name;    /* section of the program, for the report */
	const char *program; /* its function */
};

/*
 * Best first by subject. The first unit of a rung decides whether the rung is used; its
 * other units are extras, which a kernel without PSI, BTF, MEMCG or COMPACTION lacks. Within a
 * unit the end of a stall is attached first, so that no begin goes without it.
 */
static const struct hook hook_table[] = {
	{ UNIT_FENTRY, PN_MODE_FENTRY, "stall", "fexit/psi_memstall_leave", "stall_fexit_leave" },
	{ UNIT_FENTRY, PN_MODE_FENTRY, "stall", "fentry/psi_memstall_enter", "stall_fentry_enter" },
	{ UNIT_KPROBE, PN_MODE_KPROBE, "stall", "kretprobe/psi_memstall_leave",
	  "stall_kretprobe_leave" },
	{ UNIT_KPROBE, PN_MODE_KPROBE, "stall", "kprobe/psi_memstall_enter", "stall_kprobe_enter" },
	{ UNIT_DIRECT, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_vmscan_direct_reclaim_end",
	  "stall_direct_end" },
	{ UNIT_DIRECT, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_vmscan_direct_reclaim_begin",
	  "stall_direct_begin" },
	{ UNIT_SWITCH, PN_MODE_TRACEPOINT, "stall", "tp_btf/sched_switch", "stall_sched_switch" },
	{ UNIT_MEMCG, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_vmscan_memcg_reclaim_end",
	  "stall_memcg_end" },
	{ UNIT_MEMCG, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_vmscan_memcg_reclaim_begin",
	  "stall_memcg_begin" },
	{ UNIT_COMPACT, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_compaction_end",
	  "stall_compact_end" },
	{ UNIT_COMPACT, PN_MODE_TRACEPOINT, "stall", "raw_tp/mm_compaction_begin",
	  "stall_compact_begin" },
	{ UNIT_NOTIFY_FENTRY, PN_MODE_FENTRY, "memcg", "fentry/cgroup_file_notify",
	  "memcg_fentry_notify" },
	{ UNIT_NOTIFY_KPROBE, PN_MODE_KPROBE, "memcg", "kprobe/cgroup_file_notify",
	  "memcg_kprobe_notify" },
	{ UNIT_RECLAIM, PN_MODE_NONE, "reclaim", "raw_tp/mm_vmscan_memcg_reclaim_begin",
	  "memcg_reclaim" },
	{ UNIT_OOM, PN_MODE_NONE, "oom", "raw_tp/mark_victim", "oom_mark_victim" },
	{ UNIT_FAULTS, PN_MODE_NONE, "avail", "perf_event/page-faults", "avail_page_faults" },
	{ UNIT_KSWAPD, PN_MODE_NONE, "avail", "raw_tp/mm_vmscan_kswapd_wake", "avail_kswapd_wake" },
	{ UNIT_MOVES, PN_MODE_NONE, "moves", "raw_tp/cgroup_attach_task", "moves_attach_task" },
};

#define HOOK_COUNT (sizeof(hook_table) / sizeof(hook_table[0]))

/* Rungs, best first by subject, each with the unit that decides whether it is used. */
static const struct rung {
	const char *subject;
	uint32_t mode;
	enum unit unit;
} rung_table[] = {
	{ "stall", PN_MODE_FENTRY, UNIT_FENTRY },
	{ "stall", PN_MODE_KPROBE, UNIT_KPROBE },
	{ "stall", PN_MODE_TRACEPOINT, UNIT_DIRECT },
	{ "memcg", PN_MODE_FENTRY, UNIT_NOTIFY_FENTRY },
	{ "memcg", PN_MODE_KPROBE, UNIT_NOTIFY_KPROBE },
};

#define RUNG_COUNT (sizeof(rung_table) / sizeof(rung_table[0]))

/* A skeleton and what of it is attached. */
struct image {
	struct pnmem_bpf *skel;
	struct bpf_link **links;
	size_t link_count;
};

struct hooks {
	struct image image;
	struct ring_buffer *ring;
	hooks_event_fn fn;
	void *arg;
	bool record_all;
	uint32_t ring_bytes;
	uint32_t stall_mode;
	uint32_t memcg_mode;
	pn_hook_status status[HOOK_COUNT];
	int program_fd[HOOK_COUNT]; /* -1: not active; owned by the skeleton */
	int cpu_count;              /* possible CPUs */
	struct pn_event_cpu *cpus;  /* room for one value of each, for hooks_counters */
	int batch_left;             /* records that hooks_consume may still take */
	uint64_t misses;            /* as of the last hooks_refresh_misses */
};

/* ---- one image ------------------------------------------------------------------------------ */

static void image_close(struct image *image)
{
	for (size_t i = 0; i < image->link_count; i++)
		bpf_link__destroy(image->links[i]);
	free(image->links);
	pnmem_bpf__destroy(image->skel);
	memset(image, 0, sizeof(*image));
}

/* A pressure file that cannot be read means that PSI is off or not built in. */
static bool psi_is_on(void)
{
	int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	char byte;
	bool on;

	if (fd < 0)
		return false;
	on = read(fd, &byte, 1) == 1;
	close(fd);
	return on;
}

/* Loads the programs with want[] set; also makes the maps, and before 5.11 raises RLIMIT_MEMLOCK
 * for them (libbpf does). Returns 0 or -errno; image_close either way. */
static int image_load(struct image *image, const struct hooks *hooks, const char *btf_path,
		      const bool want[HOOK_COUNT])
{
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .btf_custom_path = btf_path);

	memset(image, 0, sizeof(*image));
	image->skel = pnmem_bpf__open_opts(&open_opts);
	if (!image->skel)
		return -errno;
	image->skel->rodata->psi_on = psi_is_on();
	image->skel->rodata->fault_period = FAULT_PERIOD;
	image->skel->rodata->lost_ns = STALL_LOST_NS;
	image->skel->rodata->record_all = hooks->record_all;
	if (hooks->ring_bytes)
		bpf_map__set_max_entries(image->skel->maps.ring, hooks->ring_bytes);
	for (size_t i = 0; i < HOOK_COUNT; i++) {
		struct bpf_program *program =
			bpf_object__find_program_by_name(image->skel->obj, hook_table[i].program);

		bpf_program__set_autoload(program, want[i]);
	}
	return pnmem_bpf__load(image->skel);
}

static int image_add_link(struct image *image, struct bpf_link *link)
{
	struct bpf_link **links;

	if (!link)
		return -errno;
	links = reallocarray(image->links, image->link_count + 1, sizeof(*links));
	if (!links) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	image->links = links;
	links[image->link_count++] = link;
	return 0;
}

/* One sampling event per CPU that is online now. A CPU that comes later goes without: the level
 * does not depend on it. */
static int image_attach_faults(struct image *image, const struct bpf_program *program)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = FAULT_PERIOD,
	};
	int cpu_count = libbpf_num_possible_cpus();
	size_t before = image->link_count;

	for (int cpu = 0; cpu < cpu_count; cpu++) {
		int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		struct bpf_link *link;
		int err;

		if (fd < 0 && errno == ENODEV)
			continue; /* offline */
		if (fd < 0)
			return -errno;
		link = bpf_program__attach_perf_event(program, fd);
		err = image_add_link(image, link);
		if (err) {
			if (!link)
				close(fd);
			return err;
		}
	}
	return image->link_count > before ? 0 : -ENODEV;
}

static int image_attach(struct image *image, size_t i)
{
	struct bpf_program *program =
		bpf_object__find_program_by_name(image->skel->obj, hook_table[i].program);

	if (hook_table[i].unit == UNIT_FAULTS)
		return image_attach_faults(image, program);
	return image_add_link(image, bpf_program__attach(program));
}

/* ---- choosing ------------------------------------------------------------------------------- */

static void hook_set(struct hooks *hooks, size_t i, const char *btf_path, int err)
{
	pn_hook_status *status = &hooks->status[i];

	status->state = err ? PN_HOOK_REFUSED : PN_HOOK_ACTIVE;
	status->err = err;
	status->why[0] = '\0';
	if (err)
		hooks_why(status->hook, btf_path, err, status->why, sizeof(status->why));
}

/* Tries every program of a unit alone. True if all of them can be had. */
static bool unit_probe(struct hooks *hooks, enum unit unit, const char *btf_path)
{
	bool all = true;

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		bool want[HOOK_COUNT] = { false };
		struct image image;
		int err;

		if (hook_table[i].unit != unit)
			continue;
		want[i] = true;
		err = image_load(&image, hooks, btf_path, want);
		if (!err)
			err = image_attach(&image, i);
		image_close(&image);
		hook_set(hooks, i, btf_path, err);
		all = all && !err;
	}
	return all;
}

/* The other programs of a unit whose partner is refused: they would work, and are not used. */
static void unit_drop(struct hooks *hooks, enum unit unit)
{
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (hook_table[i].unit == unit && hooks->status[i].state == PN_HOOK_ACTIVE) {
			hooks->status[i].state = PN_HOOK_UNTRIED;
			snprintf(hooks->status[i].why, sizeof(hooks->status[i].why),
				 "works, and is of no use without the refused ones");
		}
}

static bool is_of(const struct hook *hook, const char *subject, uint32_t mode)
{
	return hook->mode == mode && (!subject || !strcmp(hook->subject, subject));
}

/* subject NULL: any. */
static void units_try(struct hooks *hooks, const char *subject, uint32_t mode, const char *btf_path)
{
	bool tried[UNIT_COUNT] = { false };

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		enum unit unit = hook_table[i].unit;

		if (!is_of(&hook_table[i], subject, mode) || tried[unit])
			continue;
		tried[unit] = true;
		if (!unit_probe(hooks, unit, btf_path))
			unit_drop(hooks, unit);
	}
}

static bool unit_is_active(const struct hooks *hooks, enum unit unit)
{
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (hook_table[i].unit == unit && hooks->status[i].state != PN_HOOK_ACTIVE)
			return false;
	return true;
}

/* The best rung that can be had, from best_mode down; lower ones stay untried. */
static uint32_t rung_choose(struct hooks *hooks, const char *subject, uint32_t best_mode,
			    const char *btf_path)
{
	for (size_t r = 0; r < RUNG_COUNT; r++) {
		const struct rung *rung = &rung_table[r];

		if (rung->mode < best_mode || strcmp(rung->subject, subject))
			continue;
		units_try(hooks, subject, rung->mode, btf_path);
		if (unit_is_active(hooks, rung->unit))
			return rung->mode;
		for (size_t i = 0; i < HOOK_COUNT; i++)
			if (is_of(&hook_table[i], subject, rung->mode))
				unit_drop(hooks, hook_table[i].unit);
	}
	return PN_MODE_NONE;
}

/* Where the rung in use for the rung's subject is kept. */
static uint32_t *rung_mode(struct hooks *hooks, const struct rung *rung)
{
	return strcmp(rung->subject, "stall") ? &hooks->memcg_mode : &hooks->stall_mode;
}

/*
 * Chooses all of the best rung and of what has none, if the kernel gives it together: two loads
 * instead of one for each hook. False leaves everything untried.
 */
static bool best_try(struct hooks *hooks, uint32_t best_mode, const char *btf_path)
{
	bool want[HOOK_COUNT];
	struct image image;
	int err;

	for (size_t i = 0; i < HOOK_COUNT; i++)
		want[i] = hook_table[i].mode == best_mode || hook_table[i].mode == PN_MODE_NONE;
	err = image_load(&image, hooks, btf_path, want);
	for (size_t i = 0; i < HOOK_COUNT && !err; i++)
		if (want[i])
			err = image_attach(&image, i);
	image_close(&image);
	if (err)
		return false;
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (want[i])
			hook_set(hooks, i, btf_path, 0);
	for (size_t r = 0; r < RUNG_COUNT; r++)
		if (rung_table[r].mode == best_mode)
			*rung_mode(hooks, &rung_table[r]) = best_mode;
	return true;
}

/* Loads what was chosen, together, and attaches it. What fails now is reported and left out. */
static int hooks_start(struct hooks *hooks, const char *btf_path)
{
	bool want[HOOK_COUNT];
	size_t active = 0;
	int err, first_err = -ENODEV;

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		want[i] = hooks->status[i].state == PN_HOOK_ACTIVE;
		active += want[i];
		if (hooks->status[i].state == PN_HOOK_REFUSED && first_err == -ENODEV)
			first_err = hooks->status[i].err;
	}
	if (!active)
		return first_err;
	err = image_load(&hooks->image, hooks, btf_path, want);
	active = 0;
	for (size_t i = 0; i < HOOK_COUNT; i++) {
		if (!want[i])
			continue;
		hook_set(hooks, i, btf_path, err ? err : image_attach(&hooks->image, i));
		if (hooks->status[i].state == PN_HOOK_ACTIVE) {
			hooks->program_fd[i] = bpf_program__fd(bpf_object__find_program_by_name(
				hooks->image.skel->obj, hook_table[i].program));
			active++;
		} else {
			first_err = hooks->status[i].err;
		}
	}
	for (size_t r = 0; r < RUNG_COUNT; r++) {
		uint32_t *mode = rung_mode(hooks, &rung_table[r]);

		if (rung_table[r].mode == *mode && !unit_is_active(hooks, rung_table[r].unit))
			*mode = PN_MODE_NONE;
	}
	return active ? 0 : first_err;
}

static int ring_record(void *arg, void *data, size_t data_bytes)
{
	struct hooks *hooks = arg;

	if (data_bytes >= sizeof(struct pn_event))
		hooks->fn(hooks->arg, data);
	return --hooks->batch_left > 0 ? 0 : -ENOBUFS; /* this one counts as consumed */
}

/* ---- public --------------------------------------------------------------------------------- */

int hooks_open(struct hooks **ret, const struct hooks_options *options, hooks_event_fn fn,
	       void *arg)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct hooks *hooks = calloc(1, sizeof(*hooks));
	uint32_t best_mode;
	int err = 0;

	*ret = hooks;
	if (!hooks) {
		err = -ENOMEM;
		goto out;
	}
	hooks->fn = fn;
	hooks->arg = arg;
	hooks->record_all = options->record_all;
	hooks->ring_bytes = options->ring_bytes;
	for (size_t i = 0; i < HOOK_COUNT; i++) {
		pn_hook_status *status = &hooks->status[i];

		hooks->program_fd[i] = -1;
		status->state = PN_HOOK_UNTRIED;
		snprintf(status->subject, sizeof(status->subject), "%s", hook_table[i].subject);
		snprintf(status->hook, sizeof(status->hook), "%s", hook_table[i].name);
	}
	hooks->cpu_count = libbpf_num_possible_cpus();
	if (hooks->cpu_count < 0) {
		err = hooks->cpu_count;
		goto out;
	}
	hooks->cpus = calloc(hooks->cpu_count, sizeof(*hooks->cpus));
	if (!hooks->cpus) {
		err = -ENOMEM;
		goto out;
	}

	best_mode = options->best_mode ? options->best_mode : PN_MODE_FENTRY;
	err = hooks_reading_is_locked_down() ? -EPERM : hooks_btf_check(options->btf_path);
	if (err) {
		for (size_t i = 0; i < HOOK_COUNT; i++)
			hook_set(hooks, i, options->btf_path, err);
	} else if (!best_try(hooks, best_mode, options->btf_path)) {
		hooks->stall_mode = rung_choose(hooks, "stall", best_mode, options->btf_path);
		hooks->memcg_mode = rung_choose(hooks, "memcg", best_mode, options->btf_path);
		units_try(hooks, NULL, PN_MODE_NONE, options->btf_path);
	}
	err = hooks_start(hooks, options->btf_path);
	if (err)
		goto out;
	hooks->ring = ring_buffer__new(bpf_map__fd(hooks->image.skel->maps.ring), ring_record,
				       hooks, NULL);
	if (!hooks->ring)
		err = -errno;
out:
	if (err && hooks) {
		image_close(&hooks->image);
		hooks->stall_mode = hooks->memcg_mode = PN_MODE_NONE;
		for (size_t i = 0; i < HOOK_COUNT; i++) {
			hooks->program_fd[i] = -1;
			if (hooks->status[i].state == PN_HOOK_ACTIVE)
				hook_set(hooks, i, options->btf_path, err);
		}
	}
	libbpf_set_print(print);
	malloc_trim(0); /* each load parsed some 5 MB of kernel BTF */
	return err;
}

void hooks_close(struct hooks *hooks)
{
	if (!hooks)
		return;
	ring_buffer__free(hooks->ring);
	image_close(&hooks->image);
	free(hooks->cpus);
	free(hooks);
}

uint32_t hooks_stall_mode(const struct hooks *hooks)
{
	return hooks->stall_mode;
}

uint32_t hooks_memcg_mode(const struct hooks *hooks)
{
	return hooks->memcg_mode;
}

int hooks_fd(const struct hooks *hooks)
{
	return hooks->ring ? ring_buffer__epoll_fd(hooks->ring) : -1;
}

int hooks_consume(struct hooks *hooks)
{
	int batch = bpf_map__max_entries(hooks->image.skel->maps.ring) / sizeof(struct pn_event);
	int err;

	hooks->batch_left = batch;
	err = ring_buffer__consume(hooks->ring);
	if (err < 0 && err != -ENOBUFS)
		return err;
	return batch - hooks->batch_left;
}

void hooks_set_fault_gate(struct hooks *hooks, uint64_t now_ns, uint64_t min_faults,
			  uint64_t min_interval_ns)
{
	struct pnmem_bpf__bss *bss = hooks->image.skel->bss;

	/* Disarmed meanwhile, so that no program sees half of it. */
	__atomic_store_n(&bss->gate_armed, 0, __ATOMIC_RELEASE);
	bss->gate_look_faults = __atomic_load_n(&bss->faults, __ATOMIC_RELAXED);
	bss->gate_look_ns = now_ns;
	bss->gate_min_faults = min_faults;
	bss->gate_min_interval_ns = min_interval_ns;
	__atomic_store_n(&bss->gate_armed, 1, __ATOMIC_RELEASE);
}

void hooks_set_wake_gap(struct hooks *hooks, uint64_t gap_ns)
{
	__atomic_store_n(&hooks->image.skel->data->stall_wake_gap_ns, gap_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&hooks->image.skel->data->memcg_wake_gap_ns, gap_ns, __ATOMIC_RELAXED);
}

static uint64_t program_misses(int program_fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 info_bytes = sizeof(info);

	if (bpf_obj_get_info_by_fd(program_fd, &info, &info_bytes))
		return 0;
	return info.recursion_misses; /* 0 before 5.12, which does not know the field */
}

void hooks_refresh_misses(struct hooks *hooks)
{
	hooks->misses = 0;
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (hooks->program_fd[i] >= 0)
			hooks->misses += program_misses(hooks->program_fd[i]);
}

/* A clock of stall.bpf.c, with what has run since it was last brought forward. */
static uint64_t stall_clock_ns(const struct pn_stall_clock *clock, uint64_t lost_ns)
{
	uint64_t since_ns = __atomic_load_n(&clock->since_ns, __ATOMIC_RELAXED);
	uint64_t last_ns = __atomic_load_n(&clock->last_ns, __ATOMIC_RELAXED);
	uint64_t ns = __atomic_load_n(&clock->ns, __ATOMIC_RELAXED);
	uint64_t until_ns = clock_now_ns();

	if (__atomic_load_n(&clock->stalled_now, __ATOMIC_RELAXED) <= 0)
		return ns;
	if (until_ns > last_ns + lost_ns)
		until_ns = last_ns + lost_ns;
	return ns + (until_ns > since_ns ? until_ns - since_ns : 0);
}

bool hooks_stall_clocks(const struct hooks *hooks, uint64_t *ret_any_ns, uint64_t *ret_others_ns)
{
	const struct pnmem_bpf__bss *bss;

	if (!hooks->image.skel || hooks->stall_mode == PN_MODE_NONE ||
	    (hooks->stall_mode == PN_MODE_TRACEPOINT && !unit_is_active(hooks, UNIT_SWITCH)))
		return false;
	bss = hooks->image.skel->bss;
	*ret_others_ns = stall_clock_ns(&bss->others_clock, STALL_LOST_NS * PN_STALL_OTHERS_LOST);
	*ret_any_ns = stall_clock_ns(&bss->any_clock, STALL_LOST_NS);
	return true;
}

void hooks_counters(const struct hooks *hooks, struct hooks_counters *ret)
{
	const struct pnmem_bpf__bss *bss;
	__u32 key = 0;

	memset(ret, 0, sizeof(*ret));
	if (!hooks->image.skel)
		return;
	bss = hooks->image.skel->bss;
	ret->last_stall_ns = __atomic_load_n(&bss->last_stall_ns, __ATOMIC_RELAXED);
	ret->stalled_now = __atomic_load_n(&bss->any_clock.stalled_now, __ATOMIC_RELAXED);
	ret->some_ns = stall_clock_ns(&bss->any_clock, STALL_LOST_NS);
	ret->event_drops = hooks->misses;
	if (bpf_map_lookup_elem(bpf_map__fd(hooks->image.skel->maps.cpus), &key, hooks->cpus))
		return;
	for (int cpu = 0; cpu < hooks->cpu_count; cpu++) {
		ret->events += hooks->cpus[cpu].events;
		ret->event_drops += hooks->cpus[cpu].drops;
		ret->stalls += hooks->cpus[cpu].stalls;
		ret->stall_ns += hooks->cpus[cpu].stall_ns;
		ret->oom_kills += hooks->cpus[cpu].oom_kills;
	}
}

bool hooks_moves(const struct hooks *hooks, uint64_t *ret)
{
	if (!hooks->image.skel || !unit_is_active(hooks, UNIT_MOVES))
		return false;
	*ret = __atomic_load_n(&hooks->image.skel->bss->moves, __ATOMIC_RELAXED);
	return true;
}

size_t hooks_report(const struct hooks *hooks, pn_hook_status *ret, size_t max)
{
	size_t n = max < HOOK_COUNT ? max : HOOK_COUNT;

	memcpy(ret, hooks->status, n * sizeof(*ret));
	return n;
}
