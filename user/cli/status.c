/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem status: one snapshot, of this process's cgroup or of another process's. */
#include <jansson.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/of_pid.h"
#include "cli/snapshot.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"

int cmd_status(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_of_pid_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = { .children = children,
					  .doc = "Prints one snapshot of memory pressure." };
	struct cli_of_pid options = { 0 };
	pn_mem_state state;
	pn_mem_ext ext;
	int r;

	cli_parse(&argp, argc, argv, &options);
	r = cli_read_of_pid(&options, &state, &ext);
	if (r)
		return r;
	if (options.common.json) {
		r = json_print(snapshot_json(&state, &ext), true);
	} else {
		snapshot_print(stdout, &state, &ext, "\n");
		r = fflush(stdout) ? CLI_FAILED : CLI_OK;
	}
	pn_memwatch_stop();
	return r;
}
