// SPDX-License-Identifier: BSD-2-Clause
/*
 * The BPF programs and their loader on the running kernel: every program is loaded here or
 * refused for a reason that can be checked, and real stalls, an OOM kill and page faults give the
 * records and counts that they should. Other programs may stall at the same time, so figures of
 * the whole machine are compared with the kernel's own, never with what this test did.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "agent/hooks/hooks.h"
#include "host/clock.h"
#include "support/consume.h"
#include "support/pressure.h"

#define MIB       (1024 * 1024ul)
#define MS_NS     1000000ull
#define HOOKS_MAX 32

#define HOST_PRESSURE "/proc/pressure/memory"

/* What hooks_consume has delivered. */
struct seen {
	uint64_t count[PN_EVENT_KIND_COUNT];
	uint64_t firsts;
	uint64_t bad;      /* records that break their own format */
	uint32_t want_pid; /* the process that the rest is about, 0: any */
	uint64_t of_pid[PN_EVENT_KIND_COUNT];
	uint64_t want_cgroup_id; /* the cgroup that the rest is about, 0: any */
	uint64_t of_cgroup[PN_EVENT_KIND_COUNT];
	uint64_t value_bits[PN_EVENT_KIND_COUNT]; /* every value, or-ed */
	struct pn_event last[PN_EVENT_KIND_COUNT];
};

static void seen_add(void *arg, const struct pn_event *event)
{
	struct seen *seen = arg;

	if (event->kind == 0 || event->kind >= PN_EVENT_KIND_COUNT ||
	    event->size != sizeof(*event) || event->ts_ns > clock_now_ns()) {
		seen->bad++;
		return;
	}
	seen->count[event->kind]++;
	if (event->flags & PN_EVENT_F_FIRST)
		seen->firsts++;
	if (seen->want_pid && event->pid != seen->want_pid)
		return;
	seen->of_pid[event->kind]++;
	if (seen->want_cgroup_id && event->cgroup_id != seen->want_cgroup_id)
		return;
	seen->of_cgroup[event->kind]++;
	seen->value_bits[event->kind] |= event->value;
	seen->last[event->kind] = *event;
}

/* total= of the "some" line of a pressure file in ns; false without PSI. */
static bool psi_file_total_ns(const char *path, uint64_t *ret)
{
	FILE *file = fopen(path, "re");
	unsigned long long total_us;
	bool ok;

	if (!file)
		return false;
	ok = fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &total_us) == 1;
	fclose(file);
	if (ok)
		*ret = total_us * 1000;
	return ok;
}

static bool psi_some_total_ns(uint64_t *ret)
{
	return psi_file_total_ns(HOST_PRESSURE, ret);
}

static const char *mode_name(uint32_t mode)
{
	return mode == PN_MODE_FENTRY       ? "fentry"
	       : mode == PN_MODE_KPROBE     ? "kprobe"
	       : mode == PN_MODE_TRACEPOINT ? "tracepoint"
					    : "none";
}

/* As the kernel has it: of a program started by its loader (make bundle) that is the loader's. */
static const char *own_name(void)
{
	static char name[16];

	prctl(PR_GET_NAME, name);
	return name;
}

/* What a test holds; given back by teardown also when it fails or skips. */
static struct seen seen;
static struct hooks *hooks;
static struct pressure_group group;
static pid_t reader;

static void close_hooks(void)
{
	hooks_close(hooks);
	hooks = NULL;
}

static void open_hooks(uint32_t mode)
{
	struct hooks_options options = { .best_mode = mode };

	close_hooks();
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(hooks_open(&hooks, &options, seen_add, &seen), 0);
}

static void create_group(void)
{
	int err = pressure_group_create(&group, 20 * MIB);

	if (err)
		skip_because("no memory cgroup can be made: %s", strerror(-err));
}

static void start_reader(void)
{
	reader = pressure_start_reader(&group, 50 * MIB);
	assert_true(reader > 0);
}

static void stop_reader(void)
{
	pressure_stop(reader);
	reader = 0;
}

static int teardown(void **state)
{
	stop_reader();
	close_hooks();
	pressure_group_destroy(&group);
	return 0;
}

/* ---- every program -------------------------------------------------------------------------- */

static bool file_is_readable(const char *path)
{
	return access(path, R_OK) == 0;
}

static bool lockdown_is(const char *mode)
{
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");
	char text[128] = "", want[32];

	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	snprintf(want, sizeof(want), "[%s]", mode);
	return strstr(text, want);
}

/* The only refusals that a kernel may give to root; anything else is a fault of the programs. */
static bool refusal_is_known(const pn_hook_status *status)
{
	if (lockdown_is("confidentiality"))
		return status->err == -EPERM;
	if (!file_is_readable(HOST_PRESSURE) &&
	    (strstr(status->hook, "psi_memstall") || strstr(status->hook, "sched_switch")))
		return true; /* built without CONFIG_PSI */
	if (strstr(status->hook, "kprobe/") || strstr(status->hook, "kretprobe/"))
		return !file_is_readable("/sys/bus/event_source/devices/kprobe/type");
	if (status->err != -EPERM ||
	    (strncmp(status->hook, "fentry/", 7) != 0 && strncmp(status->hook, "fexit/", 6) != 0))
		return false;
	return !lockdown_is("none");
}

/* No hook at all, and each says why. */
static void expect_nothing(const char *btf_path, const char *why)
{
	struct hooks_options options = { .btf_path = btf_path };
	pn_hook_status status[HOOKS_MAX];
	struct hooks_counters counters;
	size_t count;

	close_hooks();
	assert_true(hooks_open(&hooks, &options, seen_add, &seen) < 0);
	assert_non_null(hooks);
	count = hooks_report(hooks, status, HOOKS_MAX);
	assert_true(count > 10);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(status[i].state, PN_HOOK_REFUSED);
		assert_non_null(strstr(status[i].why, why));
	}
	assert_int_equal(hooks_stall_mode(hooks), PN_MODE_NONE);
	assert_int_equal(hooks_fd(hooks), -1);
	hooks_counters(hooks, &counters);
	assert_int_equal(counters.events, 0);
}

/* All there are, in the order of the report: one that is lost from the source is missed here. */
static const char *const every_hook[] = {
	"fexit/psi_memstall_leave",
	"fentry/psi_memstall_enter",
	"kretprobe/psi_memstall_leave",
	"kprobe/psi_memstall_enter",
	"raw_tp/mm_vmscan_direct_reclaim_end",
	"raw_tp/mm_vmscan_direct_reclaim_begin",
	"tp_btf/sched_switch",
	"raw_tp/mm_vmscan_memcg_reclaim_end",
	"raw_tp/mm_vmscan_memcg_reclaim_begin",
	"raw_tp/mm_compaction_end",
	"raw_tp/mm_compaction_begin",
	"fentry/cgroup_file_notify",
	"kprobe/cgroup_file_notify",
	"raw_tp/mm_vmscan_memcg_reclaim_begin",
	"raw_tp/mark_victim",
	"perf_event/page-faults",
	"raw_tp/mm_vmscan_kswapd_wake",
	"raw_tp/cgroup_attach_task",
};

static void test_every_program(void **state)
{
	static const uint32_t modes[] = { PN_MODE_FENTRY, PN_MODE_KPROBE, PN_MODE_TRACEPOINT };
	pn_hook_status all[HOOKS_MAX] = { 0 };
	bool locked = lockdown_is("confidentiality");
	size_t count = 0, active = 0;

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		pn_hook_status status[HOOKS_MAX];

		if (locked)
			expect_nothing(NULL, "lockdown=confidentiality");
		else
			open_hooks(modes[m]);
		count = hooks_report(hooks, status, HOOKS_MAX);
		for (size_t i = 0; i < count; i++)
			if (status[i].state != PN_HOOK_UNTRIED || !all[i].hook[0])
				all[i] = status[i];
	}
	assert_int_equal(count, sizeof(every_hook) / sizeof(every_hook[0]));
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(all[i].hook, every_hook[i]);
		print_message("# hook: %-8s %-40s %s %d %s\n", all[i].subject, all[i].hook,
			      all[i].state == PN_HOOK_ACTIVE    ? "active"
			      : all[i].state == PN_HOOK_REFUSED ? "refused"
								: "untried",
			      all[i].err, all[i].why);
		switch (all[i].state) {
		case PN_HOOK_ACTIVE:
			active++;
			assert_int_equal(all[i].err, 0);
			assert_string_equal(all[i].why, "");
			break;
		case PN_HOOK_REFUSED:
			assert_true(all[i].err < 0);
			assert_string_not_equal(all[i].why, "");
			assert_true(refusal_is_known(&all[i]));
			break;
		default:
			fail_msg("%s was never tried", all[i].hook);
		}
	}
	assert_true((active > 0) != locked);
}

static void test_no_stall_hook(void **state)
{
	pn_hook_status status[HOOKS_MAX];
	size_t count;

	open_hooks(PN_MODE_PSI_TRIGGER);
	count = hooks_report(hooks, status, HOOKS_MAX);
	assert_int_equal(hooks_stall_mode(hooks), PN_MODE_NONE);
	for (size_t i = 0; i < count; i++)
		if (strcmp(status[i].subject, "stall") == 0)
			assert_int_equal(status[i].state, PN_HOOK_UNTRIED);
}

/* BTF that is not there, empty, text, and the first bytes of the kernel's own. */
static void test_bad_btf(void **state)
{
	static const size_t own_bytes[] = { 0, 20, 4096, 1000000 };
	char path[] = "/tmp/pnmem-btf-XXXXXX", own[1000000];
	FILE *file = fopen("/sys/kernel/btf/vmlinux", "re");
	size_t read_bytes = file ? fread(own, 1, sizeof(own), file) : 0;
	int fd = mkostemp(path, O_CLOEXEC);

	if (file)
		fclose(file);
	assert_true(fd >= 0);
	expect_nothing("/nonexistent", "BTF file");
	assert_int_equal(pwrite(fd, "#!/bin/sh\n", 10, 0), 10);
	expect_nothing(path, "BTF file");
	for (size_t i = 0; i < sizeof(own_bytes) / sizeof(own_bytes[0]); i++) {
		if (own_bytes[i] > read_bytes)
			continue;
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, own, own_bytes[i], 0), own_bytes[i]);
		expect_nothing(path, "BTF file");
	}
	close(fd);
	unlink(path);
}

/* ---- stalls, once for each rung ------------------------------------------------------------- */

static void test_stalls(void **state)
{
	uint32_t mode = *(const uint32_t *)*state;
	struct hooks_counters before, after;
	uint64_t psi_before_ns = 0, psi_after_ns = 0, begin_ns, stall_ns, some_ns, psi_ns;
	bool has_psi, quiet = false;

	create_group();
	open_hooks(mode);
	if (hooks_stall_mode(hooks) != mode)
		skip_because("this kernel refuses the %s rung, see the hook lines",
			     mode_name(mode));
	/* Made before the clock starts, so that writing the file is not in the figures. */
	start_reader();
	stop_reader();
	/* Quiet for 100 ms, so that the next stall is a first; others may not leave it at that. */
	for (int i = 0; i < 20 && !quiet; i++) {
		memset(&seen, 0, sizeof(seen));
		hooks_consume_until(hooks, NULL, 150);
		quiet = !seen.count[PN_EVENT_STALL] && !seen.count[PN_EVENT_STALL_END];
	}
	memset(&seen, 0, sizeof(seen));
	hooks_counters(hooks, &before);
	has_psi = psi_some_total_ns(&psi_before_ns);
	begin_ns = clock_now_ns();
	start_reader();
	seen.want_pid = reader;
	hooks_consume_until(hooks, &seen.of_pid[PN_EVENT_STALL], 20000);
	assert_true(seen.of_pid[PN_EVENT_STALL] > 0);
	hooks_consume_until(hooks, NULL, 2000);
	stop_reader();
	psi_some_total_ns(&psi_after_ns);
	hooks_counters(hooks, &after);
	hooks_consume_until(hooks, NULL, 0);

	stall_ns = after.stall_ns - before.stall_ns;
	some_ns = after.some_ns - before.some_ns;
	psi_ns = psi_after_ns - psi_before_ns;
	print_message(
		"# %s: %llu stalls, %llu us, some %llu us, psi some %llu us, %llu STALL %llu END "
		"%llu RECLAIM, %llu drops, stalled now %lld\n",
		mode_name(mode), (unsigned long long)(after.stalls - before.stalls),
		(unsigned long long)stall_ns / 1000, (unsigned long long)some_ns / 1000,
		(unsigned long long)psi_ns / 1000, (unsigned long long)seen.count[PN_EVENT_STALL],
		(unsigned long long)seen.count[PN_EVENT_STALL_END],
		(unsigned long long)seen.count[PN_EVENT_RECLAIM],
		(unsigned long long)(after.event_drops - before.event_drops),
		(long long)after.stalled_now);

	assert_int_equal(seen.bad, 0);
	assert_true(seen.firsts > 0 || !quiet);
	assert_true(seen.of_pid[PN_EVENT_RECLAIM] > 0);
	assert_true(seen.of_pid[PN_EVENT_STALL_END] > 0);
	assert_string_equal(seen.last[PN_EVENT_RECLAIM].comm, own_name());
	assert_int_not_equal(seen.last[PN_EVENT_RECLAIM].cgroup_id, 0);
	assert_true(after.stalls - before.stalls > 10);
	assert_true(after.last_stall_ns > begin_ns && after.last_stall_ns < clock_now_ns());
	assert_true(stall_ns > 0);
	assert_true(some_ns > 0 && some_ns <= stall_ns + 20 * MS_NS);
	assert_true(some_ns <= after.last_stall_ns - begin_ns + 20 * MS_NS);
	/* At most a record of a kind per millisecond and CPU. */
	assert_true(seen.count[PN_EVENT_STALL] <=
		    (after.last_stall_ns - begin_ns) / MS_NS * sysconf(_SC_NPROCESSORS_CONF) + 100);
	if (!has_psi)
		return;
	/*
	 * PSI weighs each CPU's stalled time by how busy that CPU was: never above the sum over
	 * tasks, and for one task as little as a CPU's share of it. File and counters are read at
	 * slightly different moments: 20 ms and 10 %. The tracepoints see no more than what is off
	 * the CPU or in reclaim: half must be there.
	 */
	if (mode == PN_MODE_TRACEPOINT)
		assert_true(stall_ns + 20 * MS_NS >= psi_ns / 2);
	else
		assert_true(some_ns + 20 * MS_NS >= psi_ns / 10 * 9);
	assert_true(stall_ns <= psi_ns * sysconf(_SC_NPROCESSORS_ONLN) * 3 / 2 + 20 * MS_NS);
}

/* What some time has given in each way of counting. */
struct some_clock {
	uint64_t wall_ns, host_ns;
	uint64_t group_ns; /* of the group's own file */
	uint64_t some_ns, least_ns;
};

/*
 * The files are read between two readings of the clock: whatever interrupts this, the file's time
 * is between least_ns and some_ns. False without PSI.
 */
static bool some_clock_take(struct some_clock *ret)
{
	uint64_t host_before_ns, host_after_ns, group_before_ns, group_after_ns, begin_ns;
	struct hooks_counters before, within, after;
	char group_file[300];

	snprintf(group_file, sizeof(group_file), "%s/memory.pressure", group.path);
	hooks_counters(hooks, &before);
	begin_ns = clock_now_ns();
	if (!psi_some_total_ns(&host_before_ns) || !psi_file_total_ns(group_file, &group_before_ns))
		return false;
	hooks_counters(hooks, &within);
	hooks_consume_until(hooks, NULL, 2000);
	hooks_counters(hooks, &after);
	ret->least_ns = after.some_ns - within.some_ns;
	psi_some_total_ns(&host_after_ns);
	psi_file_total_ns(group_file, &group_after_ns);
	hooks_counters(hooks, &after);
	ret->wall_ns = clock_now_ns() - begin_ns;
	ret->some_ns = after.some_ns - before.some_ns;
	ret->host_ns = host_after_ns - host_before_ns;
	ret->group_ns = group_after_ns - group_before_ns;
	print_message("# estimate: some %.1f to %.1f %%, psi of the group %.1f %%, of the host "
		      "%.1f %% of the time\n",
		      100.0 * ret->least_ns / ret->wall_ns, 100.0 * ret->some_ns / ret->wall_ns,
		      100.0 * ret->group_ns / ret->wall_ns, 100.0 * ret->host_ns / ret->wall_ns);
	assert_true(ret->some_ns + 5 * MS_NS >= ret->group_ns / 10 * 9);
	assert_true(ret->some_ns <= ret->wall_ns + 5 * MS_NS);
	return true;
}

/*
 * The clock of `some` against the kernel's own total=, with one task stalling and with several. It
 * is the time in which anyone stalls. PSI averages that over the CPUs in use: the same for a group
 * with one task that stays on one CPU, less for what runs on several, or moves between them.
 */
static void test_some_clock(void **state)
{
	struct hooks_counters before, after;
	struct some_clock took = { 0 };
	pid_t more[3] = { 0 };
	cpu_set_t one_cpu = { 0 };
	bool same = false, still = false, has_psi = true;

	create_group();
	open_hooks(0);
	if (hooks_stall_mode(hooks) == PN_MODE_TRACEPOINT)
		skip_because("needs fentry or kprobe");
	start_reader();
	CPU_SET(0, &one_cpu);
	sched_setaffinity(reader, sizeof(one_cpu), &one_cpu);
	hooks_consume_until(hooks, NULL, 300);
	/* Once of a few times, here and below: khugepaged stalls too, and is not in the group. */
	for (int i = 0; i < 5 && has_psi && !same; i++) {
		has_psi = some_clock_take(&took);
		same = took.least_ns <= took.group_ns / 10 * 11 + 5 * MS_NS;
	}
	assert_true(same);
	for (int i = 0; i < 3; i++)
		more[i] = pressure_start_reader(&group, 50 * MIB);
	hooks_consume_until(hooks, NULL, 300);
	if (has_psi)
		some_clock_take(&took);
	for (int i = 0; i < 3; i++)
		pressure_stop(more[i]);
	stop_reader();
	/* Nobody stalls: it stands still. */
	for (int i = 0; i < 5 && !still; i++) {
		hooks_consume_until(hooks, NULL, 100);
		hooks_counters(hooks, &before);
		hooks_consume_until(hooks, NULL, 300);
		hooks_counters(hooks, &after);
		still = after.some_ns - before.some_ns < 150 * MS_NS;
	}
	assert_true(still);
}

/* ---- cgroup memory events, once for each rung ------------------------------------------------ */

static uint64_t group_id(void)
{
	struct stat st;

	assert_int_equal(stat(group.path, &st), 0);
	return st.st_ino; /* of a kernfs folder: the cgroup's id */
}

static void test_memcg_events(void **state)
{
	uint32_t mode = *(const uint32_t *)*state;

	create_group();
	if (group.is_v1)
		skip_because("the memory controller is on cgroup v1");
	open_hooks(mode);
	if (hooks_memcg_mode(hooks) != mode)
		skip_because("this kernel refuses the %s rung, see the hook lines",
			     mode_name(mode));
	seen.want_cgroup_id = group_id();
	start_reader();
	hooks_consume_until(hooks, &seen.of_cgroup[PN_EVENT_MEMCG], 20000);
	assert_true(seen.of_cgroup[PN_EVENT_MEMCG] > 0);
	assert_int_equal(seen.last[PN_EVENT_MEMCG].value, 1 << PN_MEMCG_MAX);
	assert_int_equal(seen.last[PN_EVENT_MEMCG].pid, reader);
	assert_string_equal(seen.last[PN_EVENT_MEMCG].comm, own_name());
	print_message("# rung: cgroup events by %s: max\n", mode_name(mode));
	stop_reader();
	/* What the counters say now has been told: the kernel's timer repeats it in vain. */
	hooks_consume_until(hooks, NULL, 200);
	memset(&seen, 0, sizeof(seen));
	seen.want_cgroup_id = group_id();
	hooks_consume_until(hooks, NULL, 300);
	assert_true(seen.of_cgroup[PN_EVENT_MEMCG] <= 1);

	assert_true(pressure_oom(&group) > 0);
	hooks_consume_until(hooks, NULL, 100);
	assert_true(seen.value_bits[PN_EVENT_MEMCG] & 1 << PN_MEMCG_OOM);
	assert_true(seen.value_bits[PN_EVENT_MEMCG] & 1 << PN_MEMCG_OOM_KILL);
}

/* Records go on while the agent is woken by few of them. */
static void test_stall_wake_gap(void **state)
{
	static const uint64_t gaps_ns[2] = { 1 * MS_NS, 400 * MS_NS };
	uint64_t wakes[2], records[2];

	create_group();
	open_hooks(0);
	start_reader();
	hooks_consume_until(hooks, &seen.count[PN_EVENT_STALL], 20000);
	for (int i = 0; i < 2; i++) {
		hooks_set_wake_gap(hooks, gaps_ns[i]);
		hooks_consume_until(hooks, NULL, 20);
		memset(&seen, 0, sizeof(seen));
		wakes[i] = hooks_consume_until(hooks, NULL, 1200);
		records[i] = seen.count[PN_EVENT_STALL];
		print_message("# gap %llu ms: %llu stall records, %llu wake-ups\n",
			      (unsigned long long)(gaps_ns[i] / MS_NS),
			      (unsigned long long)records[i], (unsigned long long)wakes[i]);
	}
	stop_reader();
	assert_true(records[1] > 20);
	assert_true(wakes[0] > 10);
	/* 3 for the gap; a descriptor polled while a record happens to be there counts as one. */
	assert_true(wakes[1] * 3 < wakes[0] || wakes[1] < 10);
}

static void test_idle(void **state)
{
	for (int tries = 0; tries < 10; tries++) {
		uint64_t before_ns, after_ns;
		uint64_t total = 0;

		open_hooks(0);
		if (!psi_some_total_ns(&before_ns))
			skip_because("no PSI here to tell whether the machine is idle");
		hooks_consume_until(hooks, NULL, 500);
		psi_some_total_ns(&after_ns);
		if (after_ns != before_ns)
			continue; /* someone else stalled */
		for (int kind = 0; kind < PN_EVENT_KIND_COUNT; kind++)
			total += seen.count[kind];
		assert_int_equal(total + seen.bad, 0);
		return;
	}
	skip_because("something else keeps this machine under memory pressure");
}

/* ---- OOM kill ------------------------------------------------------------------------------- */

static void test_oom_kill(void **state)
{
	struct hooks_counters counters;
	pid_t pid;

	create_group();
	open_hooks(0);
	pid = pressure_oom(&group);
	assert_true(pid > 0);
	seen.want_pid = pid;
	hooks_consume_until(hooks, &seen.of_pid[PN_EVENT_OOM_KILL], 5000);
	hooks_counters(hooks, &counters);
	assert_int_equal(seen.of_pid[PN_EVENT_OOM_KILL], 1);
	assert_int_equal(seen.last[PN_EVENT_OOM_KILL].tid, pid);
	assert_string_equal(seen.last[PN_EVENT_OOM_KILL].comm, own_name());
	assert_true(counters.oom_kills >= 1);
}

/* ---- the loader's own footprint ------------------------------------------------------------- */

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static unsigned long rss_kib(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void test_open_close_leaks_nothing(void **state)
{
	int before = open_descriptors();
	uint64_t begin_ns = clock_now_ns();

	for (int i = 0; i < 5; i++)
		open_hooks(0);
	close_hooks();
	print_message("# open and close: %llu ms\n",
		      (unsigned long long)((clock_now_ns() - begin_ns) / MS_NS / 5));
	assert_int_equal(open_descriptors(), before);

	open_hooks(0);
	print_message("# RSS with hooks open: %lu KiB\n", rss_kib());
	/* The agent's whole budget, which this test's process with its libraries must keep too. */
	assert_true(rss_kib() < 12 * 1024);
}

static uint32_t stall_modes[] = { PN_MODE_FENTRY, PN_MODE_KPROBE, PN_MODE_TRACEPOINT };

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_every_program, teardown),
		cmocka_unit_test_teardown(test_no_stall_hook, teardown),
		cmocka_unit_test_teardown(test_bad_btf, teardown),
		{ "test_stalls_fentry", test_stalls, NULL, teardown, &stall_modes[0] },
		{ "test_stalls_kprobe", test_stalls, NULL, teardown, &stall_modes[1] },
		{ "test_stalls_tracepoint", test_stalls, NULL, teardown, &stall_modes[2] },
		cmocka_unit_test_teardown(test_some_clock, teardown),
		{ "test_memcg_events_fentry", test_memcg_events, NULL, teardown, &stall_modes[0] },
		{ "test_memcg_events_kprobe", test_memcg_events, NULL, teardown, &stall_modes[1] },
		cmocka_unit_test_teardown(test_stall_wake_gap, teardown),
		cmocka_unit_test_teardown(test_idle, teardown),
		cmocka_unit_test_teardown(test_oom_kill, teardown),
		cmocka_unit_test_teardown(test_open_close_leaks_nothing, teardown),
	};

	if (geteuid() != 0) {
		printf("1..0 # SKIP not root\n# skip: test_hooks: not root\n");
		return 0;
	}
	filter_from_environment();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
