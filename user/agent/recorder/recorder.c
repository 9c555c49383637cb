/* SPDX-License-Identifier: BSD-2-Clause */
/* Feeding the flight recorder. See recorder.h. */
#include "agent/recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/log.h"
#include "agent/recorder/recorder_memory.h"
#include "agent/views/views.h"
#include "core/settings.h"
#include "host/clock.h"
#include "host/vmstat.h"

#define BYTES_DEFAULT (8ull << 20)
#define BYTES_MIN     (1ull << 20)
#define BYTES_MAX     (1ull << 30)
/* The share of the memory that is for names. */
#define NAMES_SHARE 32

/* A view that stays as it is, but for its numbers, is recorded this often. */
#define LOOK_GAP_NS   20000000ull
#define VMSTAT_GAP_NS 1000000000ull
/* A die that does not change is repeated, or its record would be overwritten by newer ones. */
#define DIES_GAP_NS 10000000000ull

static void put(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
		size_t bytes, const char *text)
{
	trace_ring_put(&recorder->memory->records, recorder->records_block, kind, ts_ns, fixed,
		       bytes, text);
	if (recorder->stream_sock >= 0 && kind != TRACE_EVENT)
		recorder_stream(recorder, kind, ts_ns, fixed, bytes, text);
}

/* The record was left out for want of the user's share, or because its view has no number. */
static void leave_out(struct recorder *recorder)
{
	recorder->memory->drops.recorder_count++;
	recorder_stream_drops(recorder, 1);
}

/* Puts a record that a client has caused, if the share of its user allows it. */
static bool put_of(struct recorder *recorder, struct recorder_user *user, uint16_t kind,
		   uint64_t ts_ns, const void *fixed, size_t bytes, bool routine, uint64_t now_ns)
{
	enum recorder_share of = kind == TRACE_VERDICT ? RECORDER_VERDICTS : RECORDER_STATE;

	if (!recorder_users_take(recorder, user, of, trace_record_bytes(bytes), routine, now_ns))
		return false;
	put(recorder, kind, ts_ns, fixed, bytes, NULL);
	return true;
}

/* In a ring of their own, so that a name outlives the records that use it. */
static void keep_name(struct recorder *recorder, uint32_t of, uint64_t id, const char *text,
		      uint64_t ts_ns)
{
	struct trace_name name = { .of = of, .id = id };

	trace_ring_put(&recorder->memory->names, recorder->names_block, TRACE_NAME, ts_ns, &name,
		       sizeof(name), text);
}

/* The path of the group whose memory it is: v1's, where there is one. Of a long one the end. */
static void view_path(const struct agent_view *av, char path[static RECORDER_NAME_BYTES])
{
	const char *v1 = strchr(av->key, '\n');
	size_t bytes = v1 && v1[1] ? strlen(v1 + 1) : strcspn(av->key, "\n");
	const char *from = v1 && v1[1] ? v1 + 1 : av->key;

	if (bytes >= RECORDER_NAME_BYTES) {
		from += bytes - (RECORDER_NAME_BYTES - 1);
		bytes = RECORDER_NAME_BYTES - 1;
	}
	memcpy(path, from, bytes);
	path[bytes] = 0;
}

static void keep_view_name(struct recorder *recorder, struct agent_view *av)
{
	char path[RECORDER_NAME_BYTES];

	view_path(av, path);
	av->trace.name_pos = recorder->memory->names.head_pos;
	keep_name(recorder, TRACE_NAME_VIEW, av->trace.id, path, av->trace.begin_ns);
}

/*
 * Names that there still is a view for are written again before newer ones overwrite them: those
 * that lie a quarter of the ring back, whenever it has gone on by as much. So it is a rare turn,
 * and all of them are there as long as they fit in a half of the ring.
 */
static void keep_view_names(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	const struct trace_ring *names = &recorder->memory->names;
	uint64_t far_bytes = names->bytes / 4, head_pos = names->head_pos;

	if (head_pos - recorder->names_pos < far_bytes)
		return;
	for (struct agent_view *av = agent->views; av; av = av->next)
		if (av->trace.id && head_pos - av->trace.name_pos >= far_bytes)
			keep_view_name(recorder, av);
	recorder->names_pos = names->head_pos;
}

static void put_name(struct agent *agent, uint32_t of, uint64_t id, const char *text,
		     uint64_t now_ns)
{
	struct recorder *recorder = agent->recorder;
	struct trace_name name = { .of = of, .id = id };

	keep_name(recorder, of, id, text, now_ns);
	if (recorder->stream_sock >= 0)
		recorder_stream(recorder, TRACE_NAME, now_ns, &name, sizeof(name), text);
	keep_view_names(agent);
}

static uint64_t memory_wanted(void)
{
	const char *text = getenv("PN_RECORDER_BYTES");
	uint64_t bytes = BYTES_DEFAULT;

	if (!text || !*text)
		return bytes;
	if (settings_parse_bytes(text, &bytes) || (bytes && bytes < BYTES_MIN) ||
	    bytes > BYTES_MAX) {
		log_line(LOG_WARNING, "PN_RECORDER_BYTES=%s is not valid, using %llu", text,
			 BYTES_DEFAULT);
		return BYTES_DEFAULT;
	}
	return bytes & ~4095ull;
}

static int memory_make(struct recorder *recorder, uint64_t bytes)
{
	struct recorder_memory *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t names_bytes = bytes / NAMES_SHARE;

	if (memory == MAP_FAILED)
		return -errno;
	memory->names_offset = (sizeof(*memory) + 63) & ~63u;
	memory->records_offset = memory->names_offset + (uint32_t)names_bytes;
	trace_ring_init(&memory->names, names_bytes);
	trace_ring_init(&memory->records, bytes - memory->records_offset);
	recorder->memory = memory;
	recorder->memory_bytes = bytes;
	recorder->names_block = (char *)memory + memory->names_offset;
	recorder->records_block = (char *)memory + memory->records_offset;
	return 0;
}

void recorder_open(struct agent *agent)
{
	uint64_t bytes = memory_wanted();
	struct recorder *recorder;
	int r;

	if (!bytes)
		return;
	recorder = calloc(1, sizeof(*recorder));
	r = recorder ? memory_make(recorder, bytes) : -ENOMEM;
	if (r) {
		log_line(LOG_WARNING, "no flight recorder: %s", strerror(-r));
		free(recorder);
		return;
	}
	recorder->agent = agent;
	agent->recorder = recorder;
	recorder_users_open(recorder);
	recorder->vmstat_fd = openat(agent->procfs_fd, "vmstat", O_RDONLY | O_CLOEXEC);
	recorder_dump_open(agent);
}

void recorder_close(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;

	if (!recorder)
		return;
	recorder_dump_close(agent);
	recorder_users_close(recorder);
	if (recorder->vmstat_fd >= 0)
		close(recorder->vmstat_fd);
	munmap(recorder->memory, recorder->memory_bytes);
	free(recorder);
	agent->recorder = NULL;
}

void recorder_event(struct agent *agent, const struct pn_event *event)
{
	struct recorder *recorder = agent->recorder;
	char path[RECORDER_NAME_BYTES];

	if (!recorder)
		return;
	/* A stall that ends is told then, with its duration; that it began, only where that woke
	 * us. */
	if (event->kind == PN_EVENT_STALL && !event->value &&
	    !(event->flags & (PN_EVENT_F_FIRST | PN_EVENT_F_WAKE)))
		return;
	put(recorder, TRACE_EVENT, event->ts_ns, event, sizeof(*event), NULL);
	if (event->kind == PN_EVENT_OOM_KILL)
		recorder_kill(agent);
	if (recorder_names_find(&recorder->names, agent->procfs_fd, event->cgroup_id,
				(int)event->pid, event->ts_ns, path))
		put_name(agent, TRACE_NAME_CGROUP, event->cgroup_id, path, event->ts_ns);
}

/* ---- what a look found ----------------------------------------------------------------------- */

/* What stands at the start of a file, once it is known. */
static void go_live(struct agent *agent, const struct view *view)
{
	struct recorder_memory *memory = agent->recorder->memory;
	struct utsname uts;

	uname(&uts);
	memory->head = (struct trace_head){
		.n_cpus = agent->n_cpus,
		.total_bytes = view->state.host_total_bytes,
		.agent = "pnmemd " PNMEM_VERSION,
	};
	/* They are one byte shorter than what uname may say: the last stays 0. */
	memcpy(memory->head.kernel, uts.release, sizeof(memory->head.kernel) - 1);
	memcpy(memory->head.host, uts.nodename, sizeof(memory->head.host) - 1);
	memory->config = (struct trace_config){
		.host_reserve_bytes = agent->config.host_reserve_bytes,
		.die_reserve_bytes = agent->config.die_reserve_bytes,
		.hold_ns = agent->config.hold_ns,
		.psi_full_reject_pct = agent->config.psi_full_reject_pct,
		.cgroup_level = agent->config.cgroup_level,
		.mode = agent->mode,
	};
	__atomic_store_n(&memory->live, 1, __ATOMIC_RELEASE);
}

static void take_vmstat(struct recorder *recorder, uint64_t now_ns)
{
	struct trace_vmstat vmstat;
	char text[16384];
	ssize_t n;

	if (recorder->vmstat_fd < 0 || now_ns - recorder->vmstat_ns < VMSTAT_GAP_NS)
		return;
	recorder->vmstat_ns = now_ns;
	n = pread(recorder->vmstat_fd, text, sizeof(text), 0);
	if (n > 0 && !vmstat_parse(text, (size_t)n, &vmstat))
		put(recorder, TRACE_VMSTAT, now_ns, &vmstat, sizeof(vmstat), NULL);
}

/* A die that is left out is recorded later: its record still differs from the newest one. */
static void take_die(struct recorder *recorder, struct recorder_view *seen, uint32_t index,
		     const pn_mem_die *die, bool routine, uint64_t now_ns)
{
	struct trace_die record = {
		.view = seen->id,
		.index = index,
		.free_bytes = die->free_bytes,
		.budget_bytes = die->budget_bytes,
		.used_bytes = die->used_bytes,
		.sample_ns = die->sample_ns,
		.state = die->state,
	};
	uint32_t check;

	memcpy(record.uuid, die->uuid, sizeof(record.uuid));
	memcpy(record.pci, die->pci, sizeof(record.pci));
	check = trace_check(&record, sizeof(record), SIZE_MAX);
	if (check == seen->die_check[index])
		return;
	if (put_of(recorder, seen->user, TRACE_DIE, now_ns, &record, sizeof(record), routine,
		   now_ns))
		seen->die_check[index] = check;
	else
		leave_out(recorder);
}

static void take_dies(struct recorder *recorder, struct recorder_view *seen,
		      const pn_mem_state *state, const pn_mem_ext *ext, bool routine,
		      uint64_t now_ns)
{
	uint32_t n_dies = (uint32_t)state->n_dies + ext->n_more_dies;

	if (now_ns - seen->dies_ns >= DIES_GAP_NS) {
		memset(seen->die_check, 0, sizeof(seen->die_check));
		seen->dies_ns = now_ns;
	}
	for (uint32_t i = 0; i < DIE_TABLE_MAX; i++) {
		pn_mem_die die = { 0 };

		if (i >= n_dies) {
			seen->die_check[i] = 0; /* the look says how many there are */
			continue;
		}
		if (i >= PN_MEM_MAX_DIES) {
			die = ext->more_die[i - PN_MEM_MAX_DIES];
		} else {
			die.free_bytes = state->per_die_free[i];
			die.budget_bytes = state->per_die_budget[i];
			die.used_bytes = state->per_die_used[i];
			die.sample_ns = ext->die_sample_ns[i];
			die.state = ext->die_state[i];
			memcpy(die.uuid, ext->die_uuid[i], sizeof(die.uuid));
			memcpy(die.pci, ext->die_pci[i], sizeof(die.pci));
		}
		take_die(recorder, seen, i, &die, routine, now_ns);
	}
}

/*
 * The lowest that is free, 0: none. They stay small, so that readers need not have room for many.
 */
static uint32_t take_view_id(struct recorder *recorder)
{
	for (uint32_t i = 0; i < RECORDER_VIEWS_MAX / 64; i++) {
		uint64_t unused = ~recorder->view_used[i];

		if (unused) {
			recorder->view_used[i] |= unused & -unused;
			return i * 64 + (uint32_t)__builtin_ctzll(unused) + 1;
		}
	}
	return 0;
}

static void free_view_id(struct recorder *recorder, uint32_t id)
{
	recorder->view_used[(id - 1) / 64] &= ~(1ull << (id - 1) % 64);
}

/* Of the user: the name, and the record of the view's end, which is put whatever happens. */
static bool take_name(struct recorder *recorder, struct recorder_user *user, const char *path,
		      uint64_t now_ns)
{
	uint64_t bytes = trace_record_bytes(sizeof(struct trace_mark) + strlen(path) + 1);

	return recorder_users_take(recorder, user, RECORDER_NAMES, bytes, false, now_ns) &&
	       recorder_users_take(recorder, user, RECORDER_STATE, bytes, false, now_ns);
}

/*
 * Gives a view its number. Without one it has no records: when the user has named too many, or all
 * numbers are taken. It is tried again as often as snapshots are recorded.
 */
static bool number_view(struct agent *agent, struct agent_view *av, const char *path,
			uint64_t now_ns)
{
	struct recorder *recorder = agent->recorder;
	struct recorder_view *seen = &av->trace;
	uint32_t id;

	if (!take_name(recorder, seen->user, path, now_ns))
		return false;
	id = take_view_id(recorder);
	if (!id)
		return false;
	seen->id = id;
	seen->begin_ns = now_ns;
	return true;
}

static bool name_view(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	char path[RECORDER_NAME_BYTES];

	if (!av->trace.id && now_ns - av->trace.look_ns < LOOK_GAP_NS)
		return false;
	view_path(av, path);
	if (!av->trace.id && !number_view(agent, av, path, now_ns)) {
		leave_out(agent->recorder);
		av->trace.look_ns = now_ns;
		return false;
	}
	av->trace.name_pos = agent->recorder->memory->names.head_pos;
	put_name(agent, TRACE_NAME_VIEW, av->trace.id, path, av->trace.begin_ns);
	return true;
}

/* Records the snapshot, if there is something new in it. */
static void take_look(struct recorder *recorder, const struct agent_view *av,
		      struct recorder_view *seen)
{
	const pn_mem_state *state = &av->view.state;
	const pn_mem_ext *ext = &av->view.ext;
	uint64_t now_ns = ext->publish_ns;
	bool routine = seen->known && state->level == seen->level;
	struct trace_look look;

	if (routine && ext->wanted_level == seen->wanted_level && ext->reasons == seen->reasons &&
	    now_ns - seen->look_ns < LOOK_GAP_NS)
		return;
	take_dies(recorder, seen, state, ext, routine, now_ns);
	trace_look_make(&look, seen->id, state, ext);
	seen->look_ns = now_ns;
	if (!put_of(recorder, seen->user, TRACE_LOOK, now_ns, &look, sizeof(look), routine,
		    now_ns)) {
		leave_out(recorder);
		return;
	}
	seen->known = true;
	seen->level = state->level;
	seen->wanted_level = ext->wanted_level;
	seen->reasons = ext->reasons;
}

static struct recorder_user *user_of(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	struct recorder_user *user;

	if (av == agent->views)
		return &agent->recorder->host;
	user = recorder_users_get(agent->recorder, av->uid, now_ns);
	if (user)
		user->n_views++;
	return user;
}

void recorder_publish(struct agent *agent, struct agent_view *av)
{
	struct recorder *recorder = agent->recorder;
	struct recorder_view *seen = &av->trace;
	uint64_t now_ns = av->view.ext.publish_ns;

	if (!recorder)
		return;
	if (!recorder->memory->live)
		go_live(agent, &av->view);
	recorder->memory->drops.kernel_count = av->view.ext.event_drops;
	if (!seen->user)
		seen->user = user_of(agent, av, now_ns);
	if (!seen->user)
		return;
	if (av == agent->views)
		take_vmstat(recorder, now_ns);
	if (av == agent->views || seen->known || name_view(agent, av, now_ns))
		take_look(recorder, av, seen);
	recorder_level(agent, av, now_ns);
}

void recorder_view_end(struct agent *agent, struct agent_view *av)
{
	struct trace_mark mark = { .of = TRACE_MARK_VIEW_END, .value = av->trace.id };
	struct recorder *recorder = agent->recorder;
	char path[RECORDER_NAME_BYTES];

	if (!recorder || !av->trace.user)
		return;
	if (av->trace.id) {
		/* Its name too: that of the number may be another's by the time of a file. */
		view_path(av, path);
		put(recorder, TRACE_MARK, clock_now_ns(), &mark, sizeof(mark), path);
		free_view_id(recorder, av->trace.id);
	}
	recorder_view_left(agent, av);
	av->trace.user->n_views--;
	av->trace = (struct recorder_view){ 0 };
}

/*
 * A view without a number has no records: a verdict of it would be taken for the host's, which no
 * client has.
 */
void recorder_verdict(struct agent *agent, struct agent_view *av, int pid, uint64_t ts_ns,
		      const struct trace_verdict *verdict)
{
	struct recorder *recorder = agent->recorder;
	struct trace_verdict record = *verdict;
	uint64_t now_ns = clock_now_ns();

	if (!recorder)
		return;
	record.view = av->trace.id;
	record.pid = (uint32_t)pid;
	record.comm[sizeof(record.comm) - 1] = 0;
	if (!av->trace.user || !record.view ||
	    !put_of(recorder, av->trace.user, TRACE_VERDICT, ts_ns, &record, sizeof(record), false,
		    now_ns))
		recorder_verdict_drops(agent, 1);
}

void recorder_verdict_drops(struct agent *agent, uint64_t count)
{
	if (!agent->recorder || !count)
		return;
	agent->recorder->memory->drops.verdict_count += count;
	recorder_stream_verdict_drops(agent->recorder, count);
}
