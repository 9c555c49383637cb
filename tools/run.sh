#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What `make run` does once all is built: starts the agent in the foreground, its hooks attached,
# and shows the live snapshot until Ctrl-C, which ends both. Without root: the same picture from
# the in-process fallback.
set -u
build=${1:-build}

if [ "$(id -u)" -ne 0 ]; then
	echo "not root: no agent and no kernel hooks, so pressure is seen up to" \
		"250 ms late by polling; 'sudo make run' has them" >&2
	exec "$build/pnmem" watch --table
fi

agent= viewer=
end() {
	trap '' INT TERM
	for pid in $viewer $agent; do
		kill -TERM "$pid" 2>/dev/null
	done
	wait
}
trap end EXIT
trap 'exit 0' INT TERM

export PN_SOCKET=${PN_SOCKET:-/run/pnmem/pnmem.sock}
"$build/pnmemd" --foreground &
agent=$!
# Ready when it answers; it loads its hooks first, or fails with a line that says why.
until "$build/pnmem" status 2>/dev/null | grep -q '^source  agent'; do
	kill -0 "$agent" 2>/dev/null || {
		wait "$agent"
		exit
	}
	sleep 0.1
done
# A child like the agent, so that the shell can end both in order.
"$build/pnmem" watch --table --all &
viewer=$!
wait -n "$viewer" "$agent"
