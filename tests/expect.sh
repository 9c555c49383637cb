# SPDX-License-Identifier: BSD-2-Clause
# For tests of commands: expect_status runs a command and keeps its output in $dir/out and $dir/err.
# $dir is the script's own folder.

expect_status() { # STATUS COMMAND...
	local want=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	[ $got -eq "$want" ] || { echo "exit $got, not $want"; head -c 4000 "$dir/out" "$dir/err"; return 1; }
}
says_in() { # FILE [-F] PATTERN...: each pattern, or with -F each text, is in the file
	local file=$1 how=-E pattern
	shift
	[ "$1" != -F ] || { how=-F && shift; }
	for pattern in "$@"; do
		grep -q $how -e "$pattern" "$file" || { echo "no $pattern in:"; head -c 4000 "$file"; return 1; }
	done
}
says() { says_in "$dir/out" "$@"; } # [-F] PATTERN...: in stdout
golden() { # NAME: stdout is what tests/data/golden/NAME holds. GOLDEN=write writes the file instead.
	[ "${GOLDEN:-}" != write ] || cp "$dir/out" "tests/data/golden/$1"
	diff -u "tests/data/golden/$1" "$dir/out"
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
