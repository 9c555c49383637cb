/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The activation table. Its defaults are derived, not measured: an upper estimate for a plain CPU
 * path, which an engine that knows better replaces (pn_engine.lut) and an operator too
 * (PN_ADMIT_LUT).
 *
 * Reference model: Qwen3.5-35B-A3B, the model of the SPEC's KV constants. As published of it: 16
 * query heads, hidden size 2048, vocabulary 248320. All in f32, 4 bytes. Live at the peak:
 *
 *   scores   one attention layer at a time, all heads, the whole N x N matrix, softmax in place:
 *            16 * 4                  = 64 bytes      * N * N
 *   hidden   the residual stream and the block's output: 2 * 2048 * 4
 *                                    = 16384 bytes   * N
 *   logits   a row for every position (echo, scoring; an engine that computes the last row only
 *            needs none of it): 248320 * 4
 *                                    = 993280 bytes  * N
 *
 * Scores and logits are added, though not in use at the same time: buffer pools keep both.
 * Anchors double, so that a straight line between two is never below the curve and at most 12.5 %
 * above its quadratic part (3x - 2 over x * x is largest at x = 4/3). 1024 to 32768 tokens are
 * 1.0 GiB to 95 GiB: shorter is small, longer is beyond the hosts that prefill on their CPU.
 */
#include "core/activation.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/settings.h"

#define SCORES_BYTES (16ull * 4)
#define HIDDEN_BYTES (2ull * 2048 * 4)
#define LOGITS_BYTES (248320ull * 4)

#define ANCHOR(n)                                                                                  \
	{                                                                                          \
		(n), SCORES_BYTES *(n) * (n) + (HIDDEN_BYTES + LOGITS_BYTES) * (n)                 \
	}

const pn_admit_lut activation_lut_default = {
	{ ANCHOR(1024), ANCHOR(2048), ANCHOR(4096), ANCHOR(8192), ANCHOR(16384), ANCHOR(32768) },
};

/* On the line from (0, p0) to (span, p1) at x in 1..span; exact, rounded down, no overflow. */
static uint64_t on_line(uint64_t p0, uint64_t p1, uint64_t span, uint64_t x)
{
	uint64_t rise = p1 > p0 ? p1 - p0 : 0;

	/* rise / span * x <= rise, and both factors of the second product are below 2^31. */
	return p0 + rise / span * x + rise % span * x / span;
}

/* Monotonic: so is every rounding on the way. */
static uint64_t beyond(const pn_admit_anchor *last, int n_tokens)
{
	double ratio = (double)n_tokens / (last->n_tokens > 0 ? last->n_tokens : 1);
	double peak = ratio * ratio * (double)last->peak_bytes;

	if (peak >= 0x1p64)
		return UINT64_MAX;
	/* The conversion of peak_bytes to double may have rounded down. */
	return (uint64_t)peak > last->peak_bytes ? (uint64_t)peak : last->peak_bytes;
}

uint64_t activation_peak_bytes(const pn_admit_lut *lut, int n_tokens)
{
	const pn_admit_anchor *a = lut->anchor;
	int i = 0;

	if (n_tokens <= 0)
		return 0;
	while (i < PN_ADMIT_LUT_ANCHORS && a[i].n_tokens < n_tokens)
		i++;
	if (i == PN_ADMIT_LUT_ANCHORS)
		return beyond(&a[i - 1], n_tokens);
	if (i == 0)
		return on_line(0, a[0].peak_bytes, a[0].n_tokens, n_tokens);
	return on_line(a[i - 1].peak_bytes, a[i].peak_bytes,
		       (uint64_t)((int64_t)a[i].n_tokens - a[i - 1].n_tokens),
		       (uint64_t)((int64_t)n_tokens - a[i - 1].n_tokens));
}

/* Parses the number in text[0..length), which ends at a comma, a colon or the string's end. */
static int parse_number(const char *text, size_t length, uint64_t *ret)
{
	char number[32];

	if (length >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, length);
	number[length] = '\0';
	return settings_parse_bytes(number, ret) ? -EINVAL : 0;
}

int activation_lut_parse(const char *text, pn_admit_lut *ret_lut)
{
	pn_admit_lut lut;
	const char *p = text;

	for (int i = 0; i < PN_ADMIT_LUT_ANCHORS; i++) {
		pn_admit_anchor *a = &lut.anchor[i];
		size_t length = strcspn(p, ":,");
		uint64_t tokens;

		if (p[length] != ':' || parse_number(p, length, &tokens) || tokens > INT_MAX)
			return -EINVAL;
		p += length + 1;
		length = strcspn(p, ":,");
		if (parse_number(p, length, &a->peak_bytes))
			return -EINVAL;
		a->n_tokens = (int)tokens;
		if (i && (a->n_tokens <= a[-1].n_tokens || a->peak_bytes < a[-1].peak_bytes))
			return -EINVAL;
		p += length;
		if (*p != (i < PN_ADMIT_LUT_ANCHORS - 1 ? ',' : '\0'))
			return -EINVAL;
		p += *p == ',';
	}
	*ret_lut = lut;
	return 0;
}
