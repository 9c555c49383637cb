/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent under measurement and the library's watch on it. See bench.h. */
#include <errno.h>

#include "bench.h"
#include "host/clock.h"
#include "pn_memwatch.h"

int watch_start(struct agent_proc *agent)
{
	int r = agent_proc_init(agent);

	if (r)
		return r;
	r = agent_proc_start(agent, NULL);
	if (!r)
		r = pn_memwatch_start();
	if (!r && pn_memwatch_source() != PN_SOURCE_AGENT)
		r = -ENOTCONN;
	if (r)
		watch_stop(agent);
	return r;
}

void watch_stop(struct agent_proc *agent)
{
	pn_memwatch_stop();
	agent_proc_destroy(agent);
}

int watch_wait_ok(unsigned limit_s)
{
	uint64_t end_ns = clock_now_ns() + limit_s * NS_PER_S;
	pn_mem_state state;
	int r = pn_memwatch_read(&state);

	while (!r && state.level != PN_MEM_LEVEL_OK) {
		uint64_t now_ns = clock_now_ns();

		if (bench_stopped())
			return -EINTR;
		if (now_ns >= end_ns)
			return -ETIMEDOUT;
		r = pn_memwatch_wait(PN_WAIT_LEVEL, &state, now_ns + NS_PER_S, &state);
		if (r == -ETIMEDOUT)
			r = pn_memwatch_read(&state);
	}
	return r;
}
