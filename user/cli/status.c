/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem status: one snapshot. */
#include <string.h>

#include "cli/cli.h"

int cmd_status(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = { .children = children,
					  .doc = "Prints one snapshot of memory pressure." };
	struct cli_common common = { 0 };
	pn_mem_state state;
	pn_mem_ext ext;
	int r;

	cli_parse(&argp, argc, argv, &common);
	r = cli_start();
	if (r)
		return r;
	r = pn_memwatch_read_ext(&state, &ext);
	if (r) {
		fprintf(stderr, "pnmem: cannot read the snapshot: %s\n", strerror(-r));
		r = CLI_FAILED;
	} else if (common.json) {
		r = json_print(snapshot_json(&state, &ext), true);
	} else {
		snapshot_print(stdout, &state, &ext, "\n");
		r = fflush(stdout) ? CLI_FAILED : CLI_OK;
	}
	pn_memwatch_stop();
	return r;
}
