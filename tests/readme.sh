#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# README and the man pages stay true: every command in README's sh blocks, and in the examples of
# tools/man that a comment marks with sh, is run here as written but for sudo, and every C block
# compiles and links against the library. A command that this file does not know how to end, or that
# fails, fails.
set -u
. tests/tap.sh
build=${BUILD:-build}
dir=$(mktemp -d)
export PN_SOCKET=$dir/s
trap 'rm -rf "$dir"' EXIT

# The lines of the blocks of one language, blocks separated by a line with "---". A line that ends in
# a backslash is joined with the next one in sh.
blocks() {
	awk -v open="^\`\`\`$1\$" '$0 ~ open {on=1; next} /^```$/ {if (on) print "---"; on=0} on' README.md
	awk -v mark=".\\\\\" $1" '$0 == mark {want=1; next} want && /^\.EX/ {on=1; want=0; next}
		/^\.EE/ {if (on) print "---"; on=0} on' tools/man/*.[1-8] |
		sed -e "s/\\\\-/-/g; s/\\\\(aq/'/g; s/\\\\(ga/\`/g; s/\\\\(ha/^/g; s/\\\\(ti/~/g" \
			-e 's/^\\&//; s/\\e/\\/g'
}

commands() {
	blocks sh | sed -e ':join' -e '/\\$/ {N; s/\\\n */ /; b join' -e '}'
}

with_agent() {
	local agent status
	"$build/pnmemd" --foreground --no-bpf >"$dir/agent" 2>&1 &
	agent=$!
	for _ in $(seq 100); do
		[ -S "$PN_SOCKET" ] && grep -q serving "$dir/agent" && break
		sleep 0.1
	done
	bash -c "$1"
	status=$?
	kill "$agent"
	wait "$agent"
	return "$status"
}

serves_until_killed() { # PID of an engine that writes to $dir/engine
	for _ in $(seq 200); do
		grep -q '127\.0\.0\.1:' "$dir/engine" && break
		sleep 0.1
	done
	cat "$dir/engine"
	kill "$1" && wait "$1"
	grep -q '127\.0\.0\.1:' "$dir/engine"
}

run_command() {
	local command=${1#sudo }
	case $command in
	*pressure*)
		[ "$(id -u)" -eq 0 ] || { echo "# skip: $command: needs root"; return 77; }
		timeout 60 bash -c "${command/--seconds 10/--seconds 1}"
		;;
	*" watch"*)
		timeout --preserve-status -s INT 2 bash -c "exec $command"
		;;
	*tools/engine*)
		bash -c "exec ${command/--weights=1G/--weights=16M} --port=0" >"$dir/engine" 2>&1 &
		serves_until_killed $!
		;;
	*" stats"*)
		with_agent "$command"
		;;
	*doctor*)
		bash -c "$command"
		[ $? -le 1 ] # degraded without an agent
		;;
	*"pnmem admit"*)
		bash -c "$command"
		case $? in 0 | 3 | 4) ;; *) return 1 ;; esac
		;;
	*"make bench"*)
		BENCH_QUICK=1 timeout 300 bash -c "$command"
		;;
	*)
		timeout 120 bash -c "$command"
		;;
	esac
}

compile_block() {
	gcc -std=c11 -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -Iinclude "$1" "$build/libpnmem.a" -pthread \
		-lm -o "$1.out" &&
		PN_SOCKET=/nonexistent timeout 20 "$1.out" # and runs
}

# `make run`: shows a line, and Ctrl-C ends agent and picture, with nothing left behind.
make_run() {
	timeout --preserve-status -s INT 6 make run >"$dir/run" 2>&1
	cat "$dir/run"
	grep -qE '^[0-9:.]+ (OK|WATCH|TIGHT|CRITICAL) ' "$dir/run" || return 1
	[ ! -e "$PN_SOCKET" ]
}

# Without root: the same picture, and one line on what is missing.
make_run_without_root() {
	[ "$(id -u)" -eq 0 ] || return 0 # then make_run above was just that
	timeout --preserve-status -s INT 3 setpriv --reuid=65534 --regid=65534 --clear-groups \
		tools/run.sh "$build" >"$dir/run" 2>"$dir/err"
	cat "$dir/run" "$dir/err"
	grep -qE '^[0-9:.]+ (OK|WATCH|TIGHT|CRITICAL) ' "$dir/run" &&
		[ "$(grep -c 'not root' "$dir/err")" -eq 1 ]
}

first_lines() {
	[ "$(sed -n 3p README.md | awk '{print $1, $2, $3}')" = "sudo make run" ] &&
		[ "$(sed -n 4p README.md | awk '{print $1, $2, $3}')" = "sudo make check" ]
}

check "README opens with the two commands" first_lines
check "make run" make_run
check "make run without root" make_run_without_root
while IFS= read -r command; do
	case $command in
	---|'') ;;
	*) check "$command" run_command "$command" ;;
	esac
done < <(commands)

n=0
while IFS= read -r line; do
	if [ "$line" = --- ]; then
		n=$((n + 1))
		check "C block $n compiles" compile_block "$dir/block$n.c"
	else
		printf '%s\n' "$line" >>"$dir/block$((n + 1)).c"
	fi
done < <(blocks c)
tap_end
