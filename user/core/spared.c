/* SPDX-License-Identifier: BSD-2-Clause */
/* The formula of spared.h. */
#include "core/spared.h"

#include "core/u64.h"

/* By how much two readings differ, in us. */
struct growth {
	uint64_t spared_us;
	uint64_t others_us;
	uint64_t last_skew_us;
	uint64_t skew_us;
};

/* Rounded down as a whole, so that the parts of it add up. */
static uint64_t growth_us(uint64_t before_ns, uint64_t now_ns)
{
	return u64_sub(now_ns / 1000, before_ns / 1000);
}

/* Rounded up, so that rounding loses nothing either. */
static uint64_t skew_us(uint64_t skew_ns)
{
	return skew_ns / 1000 + 1;
}

/* The result for one line of the file, which grew by host_us. */
static uint64_t left_us(uint64_t host_us, uint64_t *carry_us, const struct growth *by)
{
	uint64_t others_us = u64_add(by->others_us, *carry_us);
	uint64_t certain_us = u64_min(host_us, others_us);
	uint64_t off_us = u64_add(by->spared_us, by->spared_us / 8);

	/* What the clock counted in the moment of the skew is in both of these. */
	*carry_us = u64_min(others_us - certain_us, u64_min(by->skew_us, by->others_us));
	return u64_max(certain_us, u64_sub(host_us, u64_add(off_us, by->last_skew_us)));
}

static void start(struct spared_psi *psi, const struct spared_reading *reading)
{
	uint64_t most_us = skew_us(reading->skew_ns);

	psi->valid = true;
	psi->last = *reading;
	psi->carry = (struct stall_time){ most_us, most_us };
	psi->total = reading->host;
}

bool spared_psi_update(struct spared_psi *psi, const struct spared_reading *reading)
{
	const struct spared_reading *last = &psi->last;
	struct stall_time host, left;
	struct growth by;
	uint64_t any_us;

	if (!psi->valid) {
		start(psi, reading);
		return false;
	}
	any_us = growth_us(last->any_ns, reading->any_ns);
	by.others_us = growth_us(last->others_ns, reading->others_ns);
	by.spared_us = u64_sub(any_us, by.others_us);
	by.last_skew_us = skew_us(last->skew_ns);
	by.skew_us = skew_us(reading->skew_ns);
	host.some_us = u64_sub(reading->host.some_us, last->host.some_us);
	host.full_us = u64_sub(reading->host.full_us, last->host.full_us);
	left.some_us = left_us(host.some_us, &psi->carry.some_us, &by);
	left.full_us = left_us(host.full_us, &psi->carry.full_us, &by);
	psi->total.some_us += left.some_us;
	psi->total.full_us += left.full_us;
	psi->last = *reading;
	return left.some_us < host.some_us || left.full_us < host.full_us;
}

void spared_psi_follow(struct spared_psi *psi, const struct spared_reading *reading)
{
	uint64_t carry_us;

	if (!psi->valid) {
		start(psi, reading);
		return;
	}
	psi->total.some_us += u64_sub(reading->host.some_us, psi->last.host.some_us);
	psi->total.full_us += u64_sub(reading->host.full_us, psi->last.host.full_us);
	carry_us = u64_min(growth_us(psi->last.others_ns, reading->others_ns),
			   skew_us(reading->skew_ns));
	psi->carry = (struct stall_time){ carry_us, carry_us };
	psi->last = *reading;
}

static uint64_t own_us(uint64_t host_us, uint64_t others_us, uint64_t group_us)
{
	return u64_min(host_us, u64_add(others_us, group_us));
}

void spared_own_update(struct spared_own *own, struct stall_time host, struct stall_time others,
		       struct stall_time group)
{
	own->total.some_us += own_us(u64_sub(host.some_us, own->host.some_us),
				     u64_sub(others.some_us, own->others.some_us),
				     u64_sub(group.some_us, own->group.some_us));
	own->total.full_us += own_us(u64_sub(host.full_us, own->host.full_us),
				     u64_sub(others.full_us, own->others.full_us),
				     u64_sub(group.full_us, own->group.full_us));
	own->host = host;
	own->others = others;
	own->group = group;
}
