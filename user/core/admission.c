/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SPEC's "Admission control": each decision compares one need with the scarcest of the sources
 * that it may use. The activation table is activation.c, the words are admission_text.c.
 */
#include "core/admission.h"

#include <limits.h>
#include <math.h>

#include "core/activation.h"
#include "core/level.h"
#include "core/u64.h"

/* Time constant of avg10, and the period in which the kernel updates it. */
#define PSI_AVG10_MS     10000.0
#define PSI_UPDATE_MS    2000.0
#define PSI_RETRY_MAX_MS 60000.0

/* Where memory may be taken from. */
struct source {
	uint64_t have_bytes;    /* now, above the reserve */
	uint64_t at_most_bytes; /* if all else were freed: what needs more never fits */
	uint64_t reserve_bytes;
	uint64_t claimed_bytes; /* reserved by others; both are off have_bytes */
	pn_admit_check check;
};

static uint64_t kv_cost_bytes(const struct admission_config *config, bool kv_q4)
{
	return kv_q4 ? config->kv_q4_bytes_per_token : config->kv_fp32_bytes_per_token;
}

uint64_t admission_host_cost_bytes(const struct admission_config *config, int n_tokens, bool kv_q4)
{
	if (n_tokens <= 0)
		return 0;
	return u64_add(u64_mul(kv_cost_bytes(config, kv_q4), (uint64_t)n_tokens),
		       activation_peak_bytes(&config->lut, n_tokens));
}

bool admission_die_known(const pn_mem_state *state, int die_id)
{
	return die_id >= 0 && die_id < state->n_dies && die_id < PN_MEM_MAX_DIES &&
	       state->per_die_budget[die_id] > 0;
}

static struct source host_source(const struct admission_config *config, const pn_mem_state *state,
				 const pn_mem_ext *ext)
{
	struct source host = {
		.reserve_bytes =
			level_reserve_bytes(state->host_total_bytes, config->host_reserve_bytes),
		.check = PN_CHECK_HOST,
	};

	host.claimed_bytes = ext ? ext->host_reserved_bytes : 0;
	host.have_bytes =
		u64_sub(u64_sub(state->host_avail_bytes, host.reserve_bytes), host.claimed_bytes);
	host.at_most_bytes = u64_sub(state->host_total_bytes, host.reserve_bytes);
	if (config->cgroup && ext && ext->cgroup_limit_bytes) {
		uint64_t reserve_bytes = level_cgroup_reserve_bytes(ext->cgroup_limit_bytes);
		uint64_t have_bytes = u64_sub(u64_sub(ext->cgroup_headroom_bytes, reserve_bytes),
					      ext->cgroup_reserved_bytes);

		if (have_bytes < host.have_bytes)
			return (struct source){
				.have_bytes = have_bytes,
				.at_most_bytes = u64_sub(ext->cgroup_limit_bytes, reserve_bytes),
				.reserve_bytes = reserve_bytes,
				.claimed_bytes = ext->cgroup_reserved_bytes,
				.check = PN_CHECK_CGROUP,
			};
	}
	return host;
}

uint64_t admission_host_room_bytes(const struct admission_config *config, const pn_mem_state *state,
				   const pn_mem_ext *ext)
{
	return host_source(config, state, ext).have_bytes;
}

/* A known die; its total is the budget and the reserve that was taken off it. */
static struct source die_source(const struct admission_config *config, const pn_mem_state *state,
				const pn_mem_ext *ext, int die_id, uint64_t reserve_bytes)
{
	uint64_t total_bytes = u64_add(state->per_die_budget[die_id], config->die_reserve_bytes);
	uint64_t claimed_bytes = ext ? ext->die_reserved_bytes[die_id] : 0;

	return (struct source){
		.have_bytes =
			u64_sub(u64_sub(state->per_die_free[die_id], reserve_bytes), claimed_bytes),
		.at_most_bytes = u64_sub(total_bytes, reserve_bytes),
		.reserve_bytes = reserve_bytes,
		.claimed_bytes = claimed_bytes,
		.check = PN_CHECK_DIE,
	};
}

static void result_begin(pn_admit_result *out, const struct admission_config *config,
			 const pn_mem_state *state)
{
	*out = (pn_admit_result){
		.die_id = -1,
		.level = state->level,
		.psi_full_pct = state->host_psi_full_avg10,
		.psi_limit_pct = config->psi_full_reject_pct,
		.reason = "it fits",
	};
}

static void result_compared(pn_admit_result *out, const struct source *source, uint64_t need_bytes)
{
	out->need_bytes = need_bytes;
	out->have_bytes = source->have_bytes;
	out->reserve_bytes = source->reserve_bytes;
	out->claimed_bytes = source->claimed_bytes;
}

/* least_bytes: the least need that would not be rejected. */
static void result_reject(pn_admit_result *out, const struct source *source, uint64_t least_bytes,
			  const char *reason)
{
	out->verdict = PN_VERDICT_REJECT;
	out->check = source->check;
	out->fit_tokens = 0;
	out->retry_after_ms = least_bytes > source->at_most_bytes ? 0 : PN_ADMIT_RETRY_MS;
	out->reason = reason;
}

static void result_no_die(pn_admit_result *out)
{
	out->verdict = PN_VERDICT_REJECT;
	out->check = PN_CHECK_NO_DIE;
	out->reason = "no such die in the snapshot; check its number, and that it is sampled or "
		      "pushed with pn_memwatch_set_die";
}

/* How long until avg10 has decayed to the limit if no one stalls from now on. */
static uint32_t psi_retry_ms(double psi_pct, double limit_pct)
{
	double ms = PSI_AVG10_MS * log(fmin(psi_pct, 100.0) / limit_pct);

	return (uint32_t)ceil(fmax(fmin(ms, PSI_RETRY_MAX_MS), PSI_UPDATE_MS));
}

/* All that max_window lets through fits. */
static void result_window(pn_admit_result *out, int n_prompt, int window)
{
	out->fit_tokens = window;
	if (window >= n_prompt)
		return;
	out->verdict = PN_VERDICT_CAP;
	out->check = PN_CHECK_WINDOW;
	out->reason = "the prompt is longer than the window allowed now; send a shorter one, or "
		      "let it be cut";
}

/* The search's bracket: `fits` costs have_bytes at most, `over` costs more. */
struct bracket {
	int fits, over;
	uint64_t fits_bytes, over_bytes;
};

static void bracket_probe(struct bracket *b, const struct admission_config *config, bool kv_q4,
			  uint64_t have_bytes, int window)
{
	uint64_t bytes;

	if (window <= b->fits || window >= b->over)
		return;
	bytes = admission_host_cost_bytes(config, window, kv_q4);
	if (bytes <= have_bytes) {
		b->fits = window;
		b->fits_bytes = bytes;
	} else {
		b->over = window;
		b->over_bytes = bytes;
	}
}

/*
 * Binary search: the largest window below `over`, which costs over_bytes, that costs have_bytes
 * at most; 0 if PN_ADMIT_MIN_WINDOW costs more. The anchors go first, then the point where the
 * line between two of them meets have_bytes, give or take a rounding: that leaves halving to what
 * lies beyond the last anchor, and keeps a search near 100 ns however large the window.
 */
static int window_largest(const struct admission_config *config, bool kv_q4, int over,
			  uint64_t over_bytes, uint64_t have_bytes)
{
	struct bracket b = { .over = over, .over_bytes = over_bytes };
	int guess;

	bracket_probe(&b, config, kv_q4, have_bytes, PN_ADMIT_MIN_WINDOW);
	if (b.fits < PN_ADMIT_MIN_WINDOW)
		return 0;
	for (int i = 0; i < PN_ADMIT_LUT_ANCHORS; i++)
		bracket_probe(&b, config, kv_q4, have_bytes, config->lut.anchor[i].n_tokens);
	guess = b.fits + (int)((double)(b.over - b.fits) * (double)(have_bytes - b.fits_bytes) /
			       (double)(b.over_bytes - b.fits_bytes));
	bracket_probe(&b, config, kv_q4, have_bytes, guess);
	bracket_probe(&b, config, kv_q4, have_bytes, guess < INT_MAX ? guess + 1 : guess);
	while (b.over - b.fits > 1)
		bracket_probe(&b, config, kv_q4, have_bytes, b.fits + (b.over - b.fits) / 2);
	return b.fits;
}

static const char *cap_reason(pn_admit_check check)
{
	if (check == PN_CHECK_DIE)
		return "the die has room for a shorter window only; shorten the prompt or free "
		       "die memory";
	if (check == PN_CHECK_CGROUP)
		return "the cgroup's limit leaves room for a shorter window only; shorten the "
		       "prompt or raise memory.max and memory.high";
	return "the host has room for a shorter window only; shorten the prompt or free host "
	       "memory";
}

static const char *reject_reason(pn_admit_check check)
{
	if (check == PN_CHECK_DIE)
		return "the die has no room for even the smallest window; free die memory and "
		       "retry";
	if (check == PN_CHECK_CGROUP)
		return "the cgroup's limit leaves no room above its reserve; raise memory.max and "
		       "memory.high, or retry later";
	return "the host has no room above its reserve; free host memory and retry";
}

void admission_request(const struct admission_config *config, int n_prompt, bool kv_q4,
		       bool gpu_resident, int die_id, int max_window, const pn_mem_state *state,
		       const pn_mem_ext *ext, pn_admit_result *out)
{
	struct source source;
	int window, fit;

	result_begin(out, config, state);
	if (ext && ext->live_psi_full_avg10 > out->psi_full_pct)
		out->psi_full_pct = ext->live_psi_full_avg10;
	if (out->psi_full_pct >= config->psi_full_reject_pct) {
		out->verdict = PN_VERDICT_REJECT;
		out->check = PN_CHECK_PSI_FULL;
		out->retry_after_ms = psi_retry_ms(out->psi_full_pct, out->psi_limit_pct);
		out->reason = "sustained memory stall — retry";
		return;
	}

	n_prompt = n_prompt > 0 ? n_prompt : 0;
	window = max_window > 0 && max_window < n_prompt ? max_window : n_prompt;
	source = host_source(config, state, ext);
	if (gpu_resident) {
		result_compared(out, &source, 0);
		if (source.have_bytes == 0)
			result_reject(out, &source, 0, reject_reason(source.check));
		else
			result_window(out, n_prompt, window);
		return;
	}

	if (admission_die_known(state, die_id)) {
		struct source die = die_source(config, state, ext, die_id, 0);

		out->die_id = die_id;
		if (die.have_bytes < source.have_bytes)
			source = die;
	}
	result_compared(out, &source, admission_host_cost_bytes(config, window, kv_q4));
	if (out->need_bytes <= source.have_bytes) {
		result_window(out, n_prompt, window);
		return;
	}
	fit = window_largest(config, kv_q4, window, out->need_bytes, source.have_bytes);
	if (!fit) {
		int least = window < PN_ADMIT_MIN_WINDOW ? window : PN_ADMIT_MIN_WINDOW;

		result_reject(out, &source, admission_host_cost_bytes(config, least, kv_q4),
			      reject_reason(source.check));
		return;
	}
	out->verdict = PN_VERDICT_CAP;
	out->check = source.check;
	out->fit_tokens = fit;
	out->reason = cap_reason(source.check);
}

void admission_model_load(const struct admission_config *config, uint64_t weights_bytes,
			  int max_ctx, uint64_t kv_bytes_per_token, uint64_t activation_bytes,
			  int die_id, const pn_mem_state *state, const pn_mem_ext *ext,
			  pn_admit_result *out)
{
	uint64_t fixed_bytes = u64_add(weights_bytes, activation_bytes), left_bytes;
	struct source die;

	result_begin(out, config, state);
	if (!admission_die_known(state, die_id)) {
		result_no_die(out);
		return;
	}
	max_ctx = max_ctx > 0 ? max_ctx : 0;
	die = die_source(config, state, ext, die_id, config->die_reserve_bytes);
	out->die_id = die_id;
	result_compared(out, &die,
			u64_add(fixed_bytes, u64_mul(kv_bytes_per_token, (uint64_t)max_ctx)));
	if (out->need_bytes <= die.have_bytes) {
		out->fit_tokens = max_ctx;
		return;
	}
	left_bytes = u64_sub(die.have_bytes, fixed_bytes);
	if (kv_bytes_per_token == 0 || left_bytes < kv_bytes_per_token) {
		result_reject(out, &die, out->need_bytes,
			      "the die has no room for the weights and activations; free die "
			      "memory, split the model or use smaller weights");
		return;
	}
	result_reject(out, &die, out->need_bytes,
		      "the weights fit, the KV cache of this context does not; use a smaller "
		      "context or a smaller KV type");
	/* Below max_ctx, since max_ctx did not fit. */
	out->fit_tokens = (int)(left_bytes / kv_bytes_per_token);
}

void admission_model_load_die(const struct admission_config *config, uint64_t weights_slice_bytes,
			      uint64_t kv_slice_bytes, int die_id, const pn_mem_state *state,
			      const pn_mem_ext *ext, pn_admit_result *out)
{
	struct source die;

	result_begin(out, config, state);
	if (!admission_die_known(state, die_id)) {
		result_no_die(out);
		return;
	}
	die = die_source(config, state, ext, die_id, 0);
	out->die_id = die_id;
	result_compared(
		out, &die,
		u64_add(u64_add(weights_slice_bytes, kv_slice_bytes), PN_ADMIT_DIE_SCRATCH_BYTES));
	if (out->need_bytes > die.have_bytes)
		result_reject(out, &die, out->need_bytes,
			      "the die has no room for its slice and scratch; free die memory or "
			      "give it fewer layers");
}

void admission_load_spike(const struct admission_config *config, const pn_mem_state *state,
			  const pn_mem_ext *ext, pn_admit_result *out)
{
	struct source host = host_source(config, state, ext);

	result_begin(out, config, state);
	result_compared(out, &host, config->load_spike_bytes);
	if (out->need_bytes > host.have_bytes)
		result_reject(
			out, &host, out->need_bytes,
			host.check == PN_CHECK_CGROUP
				? "the cgroup's limit has no room for the burst of a weight "
				  "upload; raise memory.max and memory.high"
				: "the host has no room for the burst of a weight upload; free "
				  "host memory before loading");
}
