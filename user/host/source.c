/* SPDX-License-Identifier: BSD-2-Clause */
/* The host-wide source. See source.h. */
#include "host/source.h"

#include <string.h>

#include "host/signals.h"

int host_source_open(struct host_source *source, int procfs_fd)
{
	memset(source, 0, sizeof(*source));
	return pn_host_signals_open(&source->signals, procfs_fd < 0 ? SIGNALS_NO_DIR : procfs_fd,
				    SIGNALS_NO_DIR, -1);
}

static void fold_reading(struct host_source *source, uint64_t now_ns)
{
	const pn_host_sample *s = &source->sample;
	struct psi_reading reading = {
		.some_avg10_pct = s->psi_some_avg10,
		.full_avg10_pct = s->psi_full_avg10,
		.some_avg60_pct = s->psi_some_avg60,
		.some_avg300_pct = s->psi_some_avg300,
		.some_total_us = s->psi_some_total_us,
		.full_total_us = s->psi_full_total_us,
	};

	psi_live_update(&source->live, now_ns, &reading);
}

/*
 * The clock takes the place of the file's total=, and the averages that the kernel would keep of it
 * never move by themselves. Reading it costs nothing, so that every look folds it in.
 */
static void estimate(struct host_source *source, uint64_t now_ns, uint64_t some_clock_ns)
{
	pn_host_sample *s = &source->sample;

	if (some_clock_ns == UINT64_MAX || (s->source_state[PN_SRC_PSI] != PN_SRC_ABSENT &&
					    s->source_state[PN_SRC_PSI] != PN_SRC_UNSUPPORTED))
		return;
	if (some_clock_ns > source->some_clock_ns)
		source->some_clock_ns = some_clock_ns;
	s->source_state[PN_SRC_PSI] = PN_SRC_ESTIMATED;
	s->source_ns[PN_SRC_PSI] = now_ns;
	s->psi_some_total_us = source->some_clock_ns / 1000;
	fold_reading(source, now_ns);
}

void host_source_look(struct host_source *source, uint64_t now_ns, uint64_t stall_ns,
		      uint64_t stall_clock_ns, uint64_t some_clock_ns, bool force)
{
	unsigned what = PN_HOST_READ_BYTES;

	psi_pace_stall(&source->pace, stall_ns);
	source->psi_was_read = force || psi_pace_allows(&source->pace, now_ns);
	if (source->psi_was_read) {
		what |= PN_HOST_READ_PSI;
		source->pace.read_ns = now_ns;
	}
	pn_host_signals_read(source->signals, what, now_ns, &source->sample);
	if (source->psi_was_read) {
		source->stall_clock_ns = stall_clock_ns;
		/* Only a good read has a new total; a failed one repeats the last. */
		if (source->sample.source_ns[PN_SRC_PSI] == now_ns)
			fold_reading(source, now_ns);
	}
	estimate(source, now_ns, some_clock_ns);
	psi_live_at(&source->live, now_ns, stall_clock_ns - source->stall_clock_ns,
		    &source->live_some_pct, &source->live_full_pct);
}

void host_source_close(struct host_source *source)
{
	pn_host_signals_close(source->signals);
	source->signals = NULL;
}
