/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples, pushes, and the table that each view is given. See dies.h. */
#include "agent/gpu/dies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/gpu/cuda_watch.h"
#include "agent/gpu/launcher.h"
#include "agent/log.h"
#include "agent/gpu/sampler.h"
#include "agent/views/views.h"
#include "core/settings.h"
#include "host/clock.h"

#define MS_NS 1000000ull
#define S_NS  1000000000ull

/* Two slow passes without an answer. */
#define DIE_LIMIT_NS (2 * SAMPLER_SLOW_NS)
/* A driver may be loaded after the agent has started; the looks that are made anyway notice. */
#define DRIVER_CHECK_NS (10 * S_NS)
/*
 * A process gives its memory back some time after it was seen to end, the later the more it had:
 * passes at growing distances until then.
 */
#define EXIT_TAIL_NS      (2 * S_NS)
#define EXIT_TAIL_STEP_NS (8 * MS_NS)

/* What one engine of a view pushed. */
struct engine_dies {
	struct engine_dies *next;
	const void *owner;
	struct die_pushes pushes;
};

/* What is known of a die besides its numbers, and what the log was told of it. */
struct die_facts {
	char name[64];
	uint64_t total_bytes; /* as of its first sample: the budget does not move */
	/* Measured once: a sampler that came later may find too little free to do it again. */
	uint64_t own_context_bytes;
	int32_t compute_mode;
	int32_t board_group;
	uint32_t state; /* enum die_state */
	int32_t cuda_error;
	char error_name[32];
	unsigned logged; /* a bit for each enum die_state */
};

struct dies {
	struct agent *agent;
	enum die_source source;
	struct launcher *launcher; /* NULL: no sampler can be started */
	struct sampler *sampler;   /* NULL: there is nothing to sample */
	pid_t sampler_pid;
	uint64_t driver_check_ns;
	struct cuda_watch *watch; /* NULL: libcuda calls are not seen */
	bool watch_loaded;
	int watch_err;          /* why not */
	struct die_table table; /* sampled; a die keeps its place as long as the agent lives */
	struct die_facts facts[DIE_TABLE_MAX];
	bool changed; /* since the views were given theirs */
	bool full_logged;
	bool has_integrated;
	uint64_t exit_ns; /* a CUDA process ended; 0: none lately */
};

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_full(const struct die_sample *sample)
{
	return sample->state == DIE_ERROR && sample->cuda_error == DIE_CUDA_OUT_OF_MEMORY &&
	       sample->total_bytes;
}

static void log_die(const struct die_sample *sample, struct die_facts *facts)
{
	static const char *const texts[] = {
		[DIE_NO_CONTEXT] = "is exclusive or prohibited: not sampled, engines can push it",
		[DIE_MIG_PARENT] =
			"is divided by MIG: not sampled, engines can push their instances",
		[DIE_INTEGRATED] = "has the host's memory: MemAvailable stands for it",
		[DIE_ERROR] = "cannot be sampled",
	};
	const char *text = is_full(sample) ? "is full" : texts[sample->state];
	unsigned bit = 1u << sample->state;

	if (sample->state == DIE_OK || facts->logged & bit)
		return;
	log_line(sample->state == DIE_ERROR ? LOG_WARNING : LOG_NOTICE, "die %s %s %s%s%s%s",
		 sample->pci, sample->name, text, sample->error_name[0] ? " (" : "",
		 sample->error_name, sample->error_name[0] ? ")" : "");
	facts->logged |= bit;
}

/* Where this die is, or is to be; -1 if there is no room. */
static int find_place(struct dies *dies, const struct die_sample *sample)
{
	struct die_id id = { { 0 }, "" };
	int place;

	memcpy(id.uuid, sample->uuid, sizeof(id.uuid));
	memcpy(id.pci, sample->pci, sizeof(id.pci));
	if (!die_id_is_known(&id))
		return -1; /* an error of which not even the place is known: the sampler says it */
	place = die_table_find(&dies->table, &id);
	if (place < 0)
		place = die_table_place(&dies->table, sample->index);
	if (place < 0) {
		if (!dies->full_logged)
			log_line(LOG_WARNING, "more than %d dies: the others are not shown",
				 DIE_TABLE_MAX);
		dies->full_logged = true;
		return -1;
	}
	dies->table.die[place].id = id;
	return place;
}

static void set_numbers(struct dies *dies, int place, uint64_t free_bytes, uint64_t total_bytes,
			uint64_t sample_ns)
{
	struct die *die = &dies->table.die[place];
	struct die_facts *facts = &dies->facts[place];

	if (!facts->total_bytes)
		facts->total_bytes = total_bytes;
	die->free_bytes = free_bytes;
	die->total_bytes = facts->total_bytes;
	die->budget_bytes =
		die_budget_bytes(facts->total_bytes, dies->agent->config.die_reserve_bytes);
	die->sample_ns = sample_ns;
	die->limit_ns = DIE_LIMIT_NS;
	die->closed = !die->budget_bytes; /* all of it is reserve: nothing to judge by */
}

/*
 * A die so full that not even a context fits, so that there is no sample: less than that is free,
 * and how much of it is not to be had. Its size is known all the same.
 */
static void set_full(struct dies *dies, int place, const struct die_sample *sample)
{
	struct die_facts *facts = &dies->facts[place];
	bool is_first = !facts->total_bytes;

	set_numbers(dies, place, 0, sample->total_bytes, sample->sample_ns);
	if (is_first)
		facts->total_bytes = 0; /* which the first sample says */
}

static void on_die(void *arg, const struct die_sample *sample)
{
	struct dies *dies = arg;
	int place = find_place(dies, sample);
	struct die_sample with_own;
	struct die_facts *facts;
	struct die *die;

	if (place < 0)
		return;
	die = &dies->table.die[place];
	facts = &dies->facts[place];
	snprintf(facts->name, sizeof(facts->name), "%s", sample->name);
	if (sample->own_context_bytes)
		facts->own_context_bytes = sample->own_context_bytes;
	facts->compute_mode = sample->compute_mode;
	facts->board_group = sample->board_group;
	facts->state = sample->state;
	facts->cuda_error = sample->cuda_error;
	snprintf(facts->error_name, sizeof(facts->error_name), "%s", sample->error_name);
	log_die(sample, facts);
	switch (sample->state) {
	case DIE_OK:
		with_own = *sample;
		with_own.own_context_bytes = facts->own_context_bytes;
		set_numbers(dies, place, die_sample_free_bytes(&with_own), sample->total_bytes,
			    sample->sample_ns);
		break;
	case DIE_NO_CONTEXT:
	case DIE_MIG_PARENT:
		/* Not old numbers but none: what is there now belongs to someone else. */
		*die = (struct die){ .id = die->id, .closed = true };
		break;
	case DIE_INTEGRATED:
		dies->has_integrated = true;
		break;
	default: /* DIE_ERROR: the last good numbers stay, and grow old */
		if (is_full(sample))
			set_full(dies, place, sample);
		break;
	}
	dies->changed = true;
}

/* Its free memory is the host's, and as fresh as that. */
static void set_integrated(struct dies *dies)
{
	const pn_host_sample *host = &dies->agent->source.sample;

	if (!host->source_ns[PN_SRC_MEMINFO])
		return;
	for (int i = 0; i < DIE_TABLE_MAX; i++)
		if (dies->facts[i].state == DIE_INTEGRATED)
			set_numbers(dies, i, host->avail_bytes, host->total_bytes,
				    host->source_ns[PN_SRC_MEMINFO]);
}

/* ---- when to sample -------------------------------------------------------------------------- */

static void want_now(struct dies *dies)
{
	if (dies->sampler)
		sampler_want(dies->sampler, clock_now_ns());
}

static void on_cuda_call(void *arg)
{
	want_now(arg);
}

static void on_cuda_exit(void *arg)
{
	struct dies *dies = arg;

	dies->exit_ns = clock_now_ns();
	want_now(dies);
}

static void on_asking(void *arg)
{
	struct dies *dies = arg;

	if (dies->watch)
		cuda_watch_mark(dies->watch);
}

/* Another pass if there were calls during this one, or a process that ended may not be done. */
static void after_pass(struct dies *dies)
{
	uint64_t now_ns = clock_now_ns(), since_ns = now_ns - dies->exit_ns;

	if (dies->watch && !cuda_watch_rearm(dies->watch))
		sampler_want(dies->sampler, now_ns);
	if (!dies->exit_ns)
		return;
	if (since_ns > EXIT_TAIL_NS)
		dies->exit_ns = 0;
	else
		sampler_want(dies->sampler,
			     now_ns +
				     (since_ns > EXIT_TAIL_STEP_NS ? since_ns : EXIT_TAIL_STEP_NS));
}

/*
 * One look for all dies. Those of a pass that hangs at a later one wait for a look of other cause.
 */
static void on_pass_end(void *arg)
{
	struct dies *dies = arg;

	if (dies->changed)
		agent_look(dies->agent, false);
	after_pass(dies);
}

static void on_started(void *arg, pid_t pid)
{
	struct dies *dies = arg;

	dies->sampler_pid = pid;
	if (dies->watch)
		cuda_watch_sampler(dies->watch, pid);
}

/* The library that the sampler has in use is one of those that engines use. */
static void on_driver(void *arg, const struct die_driver *driver)
{
	struct dies *dies = arg;

	if (dies->watch && driver->state == DIE_DRIVER_OK)
		cuda_watch_process(dies->watch, dies->sampler_pid);
}

/* ---- views ----------------------------------------------------------------------------------- */

static void give(const struct dies *dies, struct agent_view *av)
{
	struct die_table *table = &av->view.dies;

	*table = dies->table;
	/* By index first, since an id takes any place that is free. */
	for (int by_id = 0; by_id < 2; by_id++)
		for (const struct engine_dies *e = av->engines; e; e = e->next)
			for (int i = 0; i < e->pushes.count; i++)
				if ((e->pushes.push[i].index < 0) == by_id)
					die_table_push(table, &e->pushes.push[i]);
	view_dies_changed(&av->view);
	av->reserved_version = 0;
}

void dies_sample(struct agent *agent)
{
	want_now(agent->dies);
}

void dies_engine(struct agent *agent, int pid)
{
	if (agent->dies->watch && pid > 0)
		cuda_watch_process(agent->dies->watch, pid);
}

int dies_push(struct agent *agent, struct agent_view *av, const void *owner, struct die_push *push)
{
	struct dies *dies = agent->dies;
	struct engine_dies *e = av->engines;
	int r, place = push->index;

	if (dies->source != DIE_SOURCE_AUTO && dies->source != DIE_SOURCE_PUSH)
		return -EOPNOTSUPP;
	while (e && e->owner != owner)
		e = e->next;
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->owner = owner;
		e->next = av->engines;
		av->engines = e;
	}
	push->push_ns = clock_now_ns();
	r = die_pushes_set(&e->pushes, push, agent->config.die_reserve_bytes);
	if (r)
		return r;
	give(dies, av);
	want_now(dies);
	if (!push->budget_bytes)
		return 0;
	if (place < 0)
		place = die_table_find(&av->view.dies, &push->id);
	return place < 0 ? -ENOSPC : place;
}

bool dies_forget(struct agent *agent, struct agent_view *av, const void *owner)
{
	struct engine_dies **at = &av->engines, *e;

	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	e = *at;
	if (!e)
		return false;
	*at = e->next;
	free(e);
	give(agent->dies, av);
	return true;
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool has_driver(const struct agent *agent)
{
	return agent->options->cuda_lib ||
	       !faccessat(agent->procfs_fd, "driver/nvidia/version", F_OK, 0) ||
	       !access("/dev/dxg", F_OK);
}

static void watch_failed(struct dies *dies, int err)
{
	cuda_watch_close(dies->watch);
	dies->watch = NULL;
	dies->watch_err = err;
}

/* Starts all that sampling takes, once there is a driver. */
static void check_driver(struct dies *dies, uint64_t now_ns)
{
	const struct sampler_calls calls = {
		.started = on_started,
		.driver = on_driver,
		.asking = on_asking,
		.die = on_die,
		.pass_end = on_pass_end,
		.arg = dies,
	};
	struct agent *agent = dies->agent;
	int r;

	dies->driver_check_ns = now_ns + DRIVER_CHECK_NS;
	if (!has_driver(agent) || !dies->launcher)
		return;
	dies->driver_check_ns = UINT64_MAX;
	r = sampler_open(&dies->sampler, agent->event, dies->launcher, agent->options->cuda_lib,
			 &calls);
	if (r) {
		log_line(LOG_ERR, "die sampler: %s", strerror(-r));
		return;
	}
	r = dies->watch ? cuda_watch_begin(dies->watch) : 0;
	if (r)
		watch_failed(dies, r);
	if (dies->watch_err)
		log_line(LOG_WARNING,
			 "libcuda calls are not seen (%s): dies are sampled every %llu s",
			 strerror(-dies->watch_err), SAMPLER_SLOW_NS / S_NS);
}

/* The first look is the last time that the agent may load programs of this kind. */
static void load_watch(struct dies *dies)
{
	int r;

	if (!dies->watch || dies->watch_loaded)
		return;
	r = cuda_watch_load(dies->watch);
	dies->watch_loaded = true;
	if (r)
		watch_failed(dies, r);
}

bool dies_look(struct agent *agent, bool all, uint64_t now_ns)
{
	struct dies *dies = agent->dies;
	bool changed;

	if (!dies)
		return false; /* a loop without them */
	load_watch(dies);
	if (now_ns >= dies->driver_check_ns)
		check_driver(dies, now_ns);
	if (dies->has_integrated)
		set_integrated(dies);
	changed = dies->changed;
	dies->changed = false;
	/* The host's bytes move at every look: new to those that are published, to no others. */
	for (struct agent_view *av = changed || dies->has_integrated ? agent->views : NULL; av;
	     av = av->next)
		if (changed || all || av->asked)
			give(dies, av);
	return changed;
}

void dies_give(struct agent *agent, struct agent_view *av)
{
	if (agent->dies)
		give(agent->dies, av);
}

static const char *get_env(void *arg, const char *name)
{
	return getenv(name);
}

static void warn_setting(void *arg, const char *name, const char *value, const char *fallback)
{
	log_line(LOG_WARNING, "%s=%s is not valid, using %s", name, value, fallback);
}

int dies_open(struct agent *agent)
{
	struct dies *dies = calloc(1, sizeof(*dies));
	const struct cuda_watch_calls watch_calls = {
		.call = on_cuda_call,
		.exit = on_cuda_exit,
		.arg = dies,
	};
	int r;

	if (!dies)
		return -ENOMEM;
	agent->dies = dies;
	dies->agent = agent;
	dies->source = settings_die_source(get_env, NULL, warn_setting, NULL);
	if (dies->source != DIE_SOURCE_AUTO && dies->source != DIE_SOURCE_CUDA) {
		dies->driver_check_ns = UINT64_MAX;
		return 0;
	}
	r = launcher_open(&dies->launcher, agent->event);
	if (r)
		log_line(LOG_ERR, "die sampler: cannot be started: %s", strerror(-r));
	else if (!agent->options->no_bpf)
		dies->watch_err = cuda_watch_open(&dies->watch, agent, &watch_calls);
	return 0;
}

bool dies_may_sample(const struct agent *agent)
{
	return agent->dies && agent->dies->launcher;
}

void dies_close(struct agent *agent)
{
	if (!agent->dies)
		return;
	sampler_close(agent->dies->sampler);
	cuda_watch_close(agent->dies->watch);
	launcher_close(agent->dies->launcher);
	free(agent->dies);
	agent->dies = NULL;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void line_set(pn_hook_status *line, const char *subject, const char *what, int32_t state,
		     const char *why)
{
	memset(line, 0, sizeof(*line));
	snprintf(line->subject, sizeof(line->subject), "%s", subject);
	snprintf(line->hook, sizeof(line->hook), "%s", what);
	snprintf(line->why, sizeof(line->why), "%s", why);
	line->state = state;
}

static void report_sampler(const struct dies *dies, pn_hook_status *line)
{
	static const char *const sources[] = { "auto", "cuda", "push", "off" };
	char why[sizeof(line->why)], what[sizeof(line->hook)] = "pnmem-dies";
	bool good;

	if (dies->sampler) {
		good = sampler_describe(dies->sampler, why, sizeof(why));
		line_set(line, "sampler", what, good ? PN_HOOK_ACTIVE : PN_HOOK_REFUSED, why);
		return;
	}
	if (dies->driver_check_ns != UINT64_MAX && !dies->launcher) {
		line_set(line, "sampler", what, PN_HOOK_REFUSED, "cannot be started: see the log");
		return;
	}
	if (dies->driver_check_ns == UINT64_MAX)
		snprintf(why, sizeof(why), "not wanted (PN_DIE_SOURCE=%s)", sources[dies->source]);
	else
		snprintf(why, sizeof(why), "no GPU driver here: nothing to sample");
	line_set(line, "sampler", what, PN_HOOK_UNTRIED, why);
}

static void report_watch(const struct dies *dies, pn_hook_status *line)
{
	char why[sizeof(line->why)];
	bool good;

	if (!dies->sampler) {
		line_set(line, "uprobe", "libcuda", PN_HOOK_UNTRIED, "nothing to sample");
	} else if (dies->watch) {
		good = cuda_watch_describe(dies->watch, why, sizeof(why));
		line_set(line, "uprobe", "libcuda", good ? PN_HOOK_ACTIVE : PN_HOOK_REFUSED, why);
	} else if (dies->watch_err) {
		snprintf(why, sizeof(why), "calls are not seen (%s): dies are sampled every %llu s",
			 strerror(-dies->watch_err), SAMPLER_SLOW_NS / S_NS);
		line_set(line, "uprobe", "libcuda", PN_HOOK_REFUSED, why);
		line->err = dies->watch_err;
	} else {
		line_set(line, "uprobe", "libcuda", PN_HOOK_UNTRIED,
			 "not wanted (--no-bpf): dies are sampled every 5 s");
	}
}

static void report_die(const struct dies *dies, int place, uint64_t now_ns, pn_hook_status *line)
{
	const struct die *die = &dies->table.die[place];
	const struct die_facts *facts = &dies->facts[place];
	char subject[sizeof(line->subject)], what[sizeof(line->hook)], why[sizeof(line->why)];
	uint8_t source_state = die_source_state(die, now_ns);
	bool good = source_state == PN_SRC_OK && facts->state != DIE_ERROR;
	int n = 0;

	snprintf(subject, sizeof(subject), "die %d", place);
	snprintf(what, sizeof(what), "%s %.*s", die->id.pci, 30, facts->name);
	if (facts->state == DIE_NO_CONTEXT)
		n = snprintf(why, sizeof(why),
			     "%s compute mode: a context would shut engines out; they can push it",
			     facts->compute_mode == 2 ? "prohibited" : "exclusive");
	else if (facts->state == DIE_MIG_PARENT)
		n = snprintf(why, sizeof(why),
			     "divided by MIG: engines can push their instances by UUID");
	else if (facts->state == DIE_INTEGRATED)
		n = snprintf(why, sizeof(why), "its memory is the host's: MemAvailable counts");
	else if (facts->state == DIE_ERROR && facts->cuda_error == DIE_CUDA_OUT_OF_MEMORY)
		n = snprintf(why, sizeof(why), "full: no context fits, taken as 0 free (%s)",
			     facts->error_name);
	else if (facts->state == DIE_ERROR && facts->cuda_error)
		n = snprintf(why, sizeof(why), "CUDA error %d %s", facts->cuda_error,
			     facts->error_name);
	else if (facts->state == DIE_ERROR)
		n = snprintf(why, sizeof(why), "the driver's answer cannot be: %s",
			     facts->error_name);
	else if (die->closed)
		n = snprintf(why, sizeof(why), "smaller than PN_DIE_RESERVE_BYTES: not judged");
	else if (!facts->own_context_bytes)
		n = snprintf(why, sizeof(why), "sampled, own context not measured yet");
	else
		n = snprintf(why, sizeof(why), "sampled, own context of %llu MiB added back",
			     (unsigned long long)(facts->own_context_bytes >> 20));
	if (facts->board_group >= 0)
		n += snprintf(why + n, sizeof(why) - (size_t)n, "; board %d", facts->board_group);
	if (source_state == PN_SRC_STALE)
		snprintf(why + n, sizeof(why) - (size_t)n, "; stale");
	line_set(line, subject, what, good ? PN_HOOK_ACTIVE : PN_HOOK_REFUSED, why);
	line->err = facts->cuda_error ? -EIO : 0;
}

size_t dies_report(const struct agent *agent, pn_hook_status *ret, size_t max)
{
	const struct dies *dies = agent->dies;
	uint64_t now_ns = clock_now_ns();
	size_t n = 0;

	if (n < max)
		report_sampler(dies, &ret[n++]);
	if (n < max)
		report_watch(dies, &ret[n++]);
	for (int i = 0; i < DIE_TABLE_MAX && n < max; i++)
		if (die_id_is_known(&dies->table.die[i].id))
			report_die(dies, i, now_ns, &ret[n++]);
	return n;
}
