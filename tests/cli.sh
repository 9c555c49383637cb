#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The command line as people and scripts use it, with an agent (without BPF) and without one.
set -u
. tests/tap.sh
build=${BUILD:-build}
pnmem=$build/pnmem
dir=$(mktemp -d)
export PN_SOCKET=$dir/s
agent=
end() {
	[ -n "$agent" ] && kill "$agent" 2>/dev/null && wait "$agent" 2>/dev/null
	rm -rf "$dir"
}
trap end EXIT

expect_status() { # STATUS COMMAND...
	local want=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	[ $got -eq "$want" ] || { echo "exit $got, not $want"; cat "$dir/out" "$dir/err"; return 1; }
}
is_json() { # every line of the file, or the whole, is JSON; level fields are there
	"$build/tests/json_check" "$@"
}

usage() {
	expect_status 2 "$pnmem" &&
		expect_status 2 "$pnmem" no-such-command &&
		expect_status 2 "$pnmem" status --no-such-option &&
		expect_status 2 "$pnmem" status surplus &&
		expect_status 2 "$build/pnmemd" --no-such-option &&
		expect_status 2 "$build/pnmemd" --stall-hook magic &&
		[ ! -s "$dir/out" ]
}
help_and_version() {
	local command
	expect_status 0 "$pnmem" --help && grep -q doctor "$dir/out" &&
		expect_status 0 "$pnmem" --version && grep -q '^pnmem [0-9]' "$dir/out" &&
		expect_status 0 "$build/pnmemd" --version || return 1
	for command in $("$pnmem" --help | awk '/^  [a-z]/ {print $1}'); do
		expect_status 0 "$pnmem" "$command" --help && grep -q -- --socket "$dir/out" &&
			expect_status 0 "$pnmem" "$command" --version || return 1
	done
}
status_without_agent() {
	expect_status 0 "$pnmem" status && grep -q '^level   [A-Z]' "$dir/out" &&
		grep -q 'source  poll' "$dir/out" && grep -q 'no agent' "$dir/err"
}
status_json() {
	expect_status 0 "$pnmem" status --json && is_json --keys "$dir/out"
}
status_with_agent() {
	expect_status 0 "$pnmem" status && grep -q 'source  agent' "$dir/out" && [ ! -s "$dir/err" ] &&
		PN_SOCKET=/nonexistent expect_status 0 "$pnmem" status --socket "$dir/s" &&
		grep -q 'source  agent' "$dir/out"
}
doctor() {
	local subject
	expect_status 1 "$pnmem" doctor || return 1
	for subject in kernel lockdown btf kallsyms kprobes meminfo psi layout cgroup swap socket agent; do
		grep -qE "^(ok|degraded|missing) +$subject " "$dir/out" ||
			{ echo "no line: $subject"; cat "$dir/out"; return 1; }
	done
	"$pnmem" doctor --json >"$dir/out" 2>/dev/null
	is_json "$dir/out" && grep -q '"findings"' "$dir/out"
}
doctor_of_the_agent() {
	doctor || return 1
	"$pnmem" doctor >"$dir/out" 2>/dev/null
	grep -qE "^ok +agent +pnmemd [0-9.]+; stalls|^degraded +agent +pnmemd [0-9.]+; stalls" "$dir/out" &&
		grep -qE '^ok +socket ' "$dir/out" && grep -qE ' memlock ' "$dir/out" &&
		grep -qE ' sampler ' "$dir/out" && ! grep -q ' version ' "$dir/out"
}
doctor_without_proc() { # nothing can work: 2
	unshare -m true 2>/dev/null || { echo "# skip: doctor without /proc: no mount namespace"; return 77; }
	expect_status 2 unshare -m sh -c "mount -t tmpfs none /proc && exec $pnmem doctor" &&
		grep -qE '^missing +meminfo ' "$dir/out"
}
# One line at once; ended by a signal with status 0.
watch_lines() {
	"$pnmem" watch "$@" >"$dir/out" 2>"$dir/err" &
	local pid=$! i
	for i in $(seq 100); do
		[ -s "$dir/out" ] && break
		sleep 0.05
	done
	kill -INT $pid
	wait $pid || return 1
	grep -qE "$watch_pattern" "$dir/out"
}
watch_text() { watch_pattern='^[0-9:.]+ (OK|WATCH|TIGHT|CRITICAL) ' watch_lines; }
watch_table_piped() { watch_pattern='^[0-9:.]+ (OK|WATCH|TIGHT|CRITICAL) ' watch_lines --table --all; }
watch_json() {
	watch_pattern='^\{.*"level_name":"' watch_lines --json --all && is_json --lines "$dir/out"
}
watch_redraws_in_a_terminal() {
	command -v script >/dev/null || { echo "# skip: watch in a terminal: no script(1)"; return 77; }
	timeout --foreground -s INT 2 script -qec "$pnmem watch --table" /dev/null >"$dir/out" 2>&1
	grep -q $'\033\[H' "$dir/out" && grep -q 'level   ' "$dir/out"
}
closed_stdout() {
	"$pnmem" status >/dev/full 2>/dev/null
	[ $? -eq 1 ]
}

check "usage errors exit 2" usage
check "--help and --version everywhere" help_and_version
check "status without an agent polls, and says so" status_without_agent
check "status --json has the SPEC's keys" status_json
check "doctor without an agent is degraded" doctor
check "doctor without meminfo cannot work" doctor_without_proc
check "watch prints lines without an agent" watch_text

"$build/pnmemd" --foreground --no-bpf 2>"$dir/agent.log" &
agent=$!
for _ in $(seq 100); do
	"$pnmem" status 2>/dev/null | grep -q 'source  agent' && break
	sleep 0.05
done
check "status with an agent, by PN_SOCKET or --socket" status_with_agent
check "status --json with an agent" status_json
check "doctor with an agent that has no hooks is degraded" doctor_of_the_agent
check "watch prints a line and ends on SIGINT" watch_text
check "watch --table prints lines when piped" watch_table_piped
check "watch --json prints an object a line" watch_json
check "watch --table redraws in a terminal" watch_redraws_in_a_terminal
check "a full stdout is an error" closed_stdout
tap_end
