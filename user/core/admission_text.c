/* SPDX-License-Identifier: BSD-2-Clause */
/* An admission result in words. */
#include <stdio.h>

#include "core/admission.h"

struct admission_text admission_bytes_text(uint64_t bytes)
{
	struct admission_text ret;

	if (bytes >= 1ull << 30)
		snprintf(ret.text, sizeof(ret.text), "%.2f GiB", (double)bytes / (1ull << 30));
	else
		snprintf(ret.text, sizeof(ret.text), "%.1f MiB", (double)bytes / (1ull << 20));
	return ret;
}

static struct admission_text verdict_text(const pn_admit_result *res)
{
	struct admission_text ret;

	switch (res->verdict) {
	case PN_VERDICT_ADMIT:
		snprintf(ret.text, sizeof(ret.text), "admit");
		break;
	case PN_VERDICT_CAP:
		snprintf(ret.text, sizeof(ret.text), "cap at %d tokens", res->fit_tokens);
		break;
	default:
		snprintf(ret.text, sizeof(ret.text), "reject");
		break;
	}
	return ret;
}

/* The source whose bytes have_bytes gives. */
static struct admission_text source_text(const pn_admit_result *res)
{
	struct admission_text ret;

	if (res->check == PN_CHECK_DIE)
		snprintf(ret.text, sizeof(ret.text), "die %d", res->die_id);
	else if (res->check == PN_CHECK_CGROUP)
		snprintf(ret.text, sizeof(ret.text), "cgroup");
	else if (res->check == PN_CHECK_HOST)
		snprintf(ret.text, sizeof(ret.text), "host");
	else
		snprintf(ret.text, sizeof(ret.text), "memory");
	return ret;
}

size_t pn_admit_explain(const pn_admit_result *res, char *buf, size_t buf_bytes)
{
	struct admission_text verdict = verdict_text(res), source = source_text(res);
	char claimed[64] = "";
	int length;

	if (res->claimed_bytes)
		snprintf(claimed, sizeof(claimed), " and %s that others have reserved",
			 admission_bytes_text(res->claimed_bytes).text);
	if (res->check == PN_CHECK_PSI_FULL)
		length = snprintf(buf, buf_bytes, "%s: PSI full avg10 %.2f %%, limit %.2f %%; %s",
				  verdict.text, res->psi_full_pct, res->psi_limit_pct, res->reason);
	else if (res->check == PN_CHECK_WINDOW ||
		 !(res->need_bytes | res->have_bytes | res->reserve_bytes)) /* no bytes compared */
		length = snprintf(buf, buf_bytes, "%s: %s", verdict.text, res->reason);
	else
		length = snprintf(
			buf, buf_bytes, "%s: %s: needs %s, has %s above a reserve of %s%s; %s",
			verdict.text, source.text, admission_bytes_text(res->need_bytes).text,
			admission_bytes_text(res->have_bytes).text,
			admission_bytes_text(res->reserve_bytes).text, claimed, res->reason);
	return length > 0 ? (size_t)length : 0;
}
