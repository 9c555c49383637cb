/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admission: may a request, or a model load, begin now? Each function compares what the work will
 * need with what a snapshot (pn_mem_state) says there is, and answers before any memory grows.
 *
 * Cost of a prompt of n tokens on the host: KV bytes per token * n + activation peak(n). Work that
 * runs on a GPU is declared to cost the host nothing.
 *
 * The functions here use only the state that the caller passes. The functions named _ext also take
 * the snapshot's extension, and with it they do three things more:
 *   - They count the container's limit, unless PN_CGROUP_LEVEL=0. Headroom is then the smaller of
 *     the host's and the cgroup's, each above its own reserve. The cgroup's headroom is the least
 *     over its ancestors, and page cache that the kernel can drop does not count as used.
 *   - They judge the memory stall by the larger of the file's "full avg10" and the live one, as the
 *     level does.
 *   - They subtract the bytes that other processes have reserved (pn_reserve.h).
 *
 * Settings come from the environment, once, at the first call of any function here: PN_ADMIT_LUT,
 * PN_LOAD_SPIKE_BYTES, PN_HOST_RESERVE_BYTES, PN_DIE_RESERVE_BYTES, PN_PSI_FULL_REJECT,
 * PN_CGROUP_LEVEL. Where a value cannot be parsed, the library uses the default, and
 * pn_admit_settings_check reports it. Later changes of the environment have no effect.
 *
 * Threads: every function may be called from any thread; after the first call none takes a lock,
 * allocates or makes a system call. That first call reads the environment: no other thread may
 * be in setenv during it.
 */
#ifndef PN_ADMISSION_H
#define PN_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pn_mem_state.h"
#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* KV cache bytes per token, the SPEC's constants: Qwen3.5-35B-A3B, 10 attention layers, 2 heads. */
#define PN_ADMIT_KV_BYTES_PER_TOKEN_Q4   5898
#define PN_ADMIT_KV_BYTES_PER_TOKEN_FP32 40960

/* Scratch of the GPU path per die, 1.5 GiB (the SPEC's figure). */
#define PN_ADMIT_DIE_SCRATCH_BYTES (3ull << 29)

/*
 * The burst of host memory while weights are unpacked and staged for upload, 2.4 GiB (the SPEC's
 * figure, measured on a K80 host); PN_LOAD_SPIKE_BYTES.
 */
#define PN_ADMIT_LOAD_SPIKE_BYTES_DEFAULT ((24ull << 30) / 10)

/* The smallest window worth a prefill: below it little but the chat template would be left. */
#define PN_ADMIT_MIN_WINDOW 256

/* Retry hint where memory may be freed at any moment: the least that HTTP's Retry-After can say. */
#define PN_ADMIT_RETRY_MS 1000

typedef enum {
	PN_VERDICT_ADMIT = 0,  /* go ahead with all of it */
	PN_VERDICT_CAP = 1,    /* go ahead with fit_tokens at most */
	PN_VERDICT_REJECT = 2, /* do not begin */
} pn_admit_verdict;

/* The check that decided against admitting all of the work. */
typedef enum {
	PN_CHECK_NONE = 0,     /* no check failed: admitted */
	PN_CHECK_PSI_FULL = 1, /* the whole box stalls on memory */
	PN_CHECK_HOST = 2,     /* host bytes above the reserve */
	PN_CHECK_CGROUP = 3,   /* bytes left in the cgroup above its reserve (_ext only) */
	PN_CHECK_DIE = 4,      /* free bytes of the die */
	PN_CHECK_NO_DIE = 5,   /* the snapshot has no such die */
	PN_CHECK_WINDOW = 6,   /* max_window */
} pn_admit_check;

typedef struct {
	pn_admit_verdict verdict;
	pn_admit_check check;
	/*
	 * Tokens that may be prefilled: all of them if admitted, the window if capped, 0 if
	 * rejected. For a rejected model load: the context that would fit instead, 0 if none would.
	 */
	int fit_tokens;
	int die_id;              /* the die that was compared, -1: none */
	pn_mem_level level;      /* of the state that was judged */
	uint32_t retry_after_ms; /* rejected: when to try again; 0: waiting does not help */
	uint64_t need_bytes;     /* compared: this, for the prompt cut to max_window, ... */
	uint64_t have_bytes;     /* ... with this, the scarcest source, its reserve taken off */
	uint64_t reserve_bytes;  /* what was taken off */
	double psi_full_pct;     /* compared: this ... */
	double psi_limit_pct;    /* ... with this */
	const char *reason;      /* what to do, one line, static, never NULL */
	uint64_t claimed_bytes;  /* taken off have_bytes too: reserved by others (_ext only) */
} pn_admit_result;

/*
 * Activation peak on the CPU path, given by anchors with straight lines between them. The tokens of
 * the anchors rise strictly and their bytes never fall. Below the first anchor the peak follows the
 * line from (0, 0) to it. Beyond the last anchor the peak is that anchor's bytes times
 * (n / its tokens) squared, because attention scores grow no faster. An anchor at 0 tokens states a
 * fixed part.
 */
#define PN_ADMIT_LUT_ANCHORS 6

typedef struct {
	int n_tokens;
	uint64_t peak_bytes;
} pn_admit_anchor;

typedef struct {
	pn_admit_anchor anchor[PN_ADMIT_LUT_ANCHORS];
} pn_admit_lut;

/*
 * May a prompt of n_prompt tokens be prefilled? In this order:
 *   1. host "full avg10" >= PN_PSI_FULL_REJECT: reject.
 *   2. gpu_resident: the host cost is 0. Host memory inside the reserve: reject; n_prompt above
 *      max_window: cap at it; else admit.
 *   3. otherwise the cost must fit the host's bytes above the reserve and, where the state knows
 *      die_id (its budget is not 0), that die's free bytes. If it does not, the largest window
 *      that does: cap, or reject if that is below PN_ADMIT_MIN_WINDOW.
 * kv_q4: the KV cache's format is Q4, else f32. die_id out of range or unknown: no die is
 * compared. max_window <= 0: no limit, as in pn_ladder_plan. n_prompt <= 0 counts as 0 tokens.
 * *state and *out are the caller's and not NULL; *out is always filled.
 */
PN_API void pn_admit_request(int n_prompt, bool kv_q4, bool gpu_resident, int die_id,
			     int max_window, const pn_mem_state *state, pn_admit_result *out);

/* The same, with the extension of the same snapshot (see the top of this file); NULL: without. */
PN_API void pn_admit_request_ext(int n_prompt, bool kv_q4, bool gpu_resident, int die_id,
				 int max_window, const pn_mem_state *state, const pn_mem_ext *ext,
				 pn_admit_result *out);

/*
 * May a model be uploaded to die_id? weights_bytes + kv_bytes_per_token * max_ctx +
 * activation_bytes must fit into the die's free bytes less PN_DIE_RESERVE_BYTES.
 * kv_bytes_per_token is one of the two constants above, or a model's own
 * (pn_model_kv_bytes_per_token). activation_bytes is what the engine keeps for activations there
 * (pn_admit_activation_bytes(max_ctx) if it does not tile attention). Admits or rejects; a
 * reject's fit_tokens is the context that would fit.
 */
PN_API void pn_admit_model_load(uint64_t weights_bytes, int max_ctx, uint64_t kv_bytes_per_token,
				uint64_t activation_bytes, int die_id, const pn_mem_state *state,
				pn_admit_result *out);

/* The same, with the extension of the same snapshot (see the top of this file); NULL: without. */
PN_API void pn_admit_model_load_ext(uint64_t weights_bytes, int max_ctx,
				    uint64_t kv_bytes_per_token, uint64_t activation_bytes,
				    int die_id, const pn_mem_state *state, const pn_mem_ext *ext,
				    pn_admit_result *out);

/*
 * The same for one die of a model that is split over several: this die's slice of the weights and
 * of the KV cache + PN_ADMIT_DIE_SCRATCH_BYTES must fit into the die's free bytes. Admits or
 * rejects; fit_tokens is 0.
 */
PN_API void pn_admit_model_load_die(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes,
				    int die_id, const pn_mem_state *state, pn_admit_result *out);

/* The same, with the extension of the same snapshot (see the top of this file); NULL: without. */
PN_API void pn_admit_model_load_die_ext(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes,
					int die_id, const pn_mem_state *state,
					const pn_mem_ext *ext, pn_admit_result *out);

/*
 * May a weight upload begin? Its burst (PN_LOAD_SPIKE_BYTES) must fit into the host's bytes above
 * the reserve. Admits or rejects; fit_tokens is 0.
 */
PN_API void pn_admit_load_spike(const pn_mem_state *state, pn_admit_result *out);

/* The same, with the extension of the same snapshot (see the top of this file); NULL: without. */
PN_API void pn_admit_load_spike_ext(const pn_mem_state *state, const pn_mem_ext *ext,
				    pn_admit_result *out);

/* Activation peak of n_tokens on the CPU path, bytes; 0 for n_tokens <= 0, UINT64_MAX at most. */
PN_API uint64_t pn_admit_activation_bytes(int n_tokens);

/* Total host cost of n_tokens: KV and activation peak, bytes; saturates at UINT64_MAX. */
PN_API uint64_t pn_admit_host_cost_bytes(int n_tokens, bool kv_q4);

/*
 * Writes a result as one line for a log or an error reply, with the numbers compared and the
 * reason: "reject: host needs 2.1 GiB, has 0.4 GiB above a reserve of 1.2 GiB; free ...".
 * Returns its length; what does not fit into buf_bytes (NUL included) is cut off, as by snprintf.
 */
PN_API size_t pn_admit_explain(const pn_admit_result *res, char *buf, size_t buf_bytes);

/*
 * Checks the settings. Returns the number of environment values that the library could not parse
 * and replaced by their defaults, or 0 if it parsed them all. It writes a line for each such value
 * into buf, cut off at buf_bytes (NUL included). An engine should log these lines once. buf may be
 * NULL if buf_bytes is 0.
 */
PN_API int pn_admit_settings_check(char *buf, size_t buf_bytes);

#ifdef __cplusplus
}
#endif

#endif
