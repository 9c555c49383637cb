# SPDX-License-Identifier: BSD-2-Clause
# For tests of commands: runs one, keeps what it says in $dir, the script's own folder.

expect_status() { # STATUS COMMAND...
	local want=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	[ $got -eq "$want" ] || { echo "exit $got, not $want"; head -c 4000 "$dir/out" "$dir/err"; return 1; }
}
says() { # PATTERN...: in stdout
	local pattern
	for pattern in "$@"; do
		grep -qE -e "$pattern" "$dir/out" || { echo "no $pattern in:"; head -c 4000 "$dir/out"; return 1; }
	done
}
start_agent() { # [OPTION...]: with $build and $pnmem; its pid is in $agent
	"$build/pnmemd" --foreground "$@" 2>>"$dir/agent.log" &
	agent=$!
	for _ in $(seq 200); do
		"$pnmem" status 2>/dev/null | grep -q 'source  agent' && return
		sleep 0.05
	done
	return 1
}
complains() { # PATTERN: on stderr
	grep -qE -e "$1" "$dir/err" || { echo "no $1 in:"; cat "$dir/err"; return 1; }
}
