#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The command line as people and scripts use it, with an agent (without BPF) and without one.
set -u
. tests/tap.sh
. tests/expect.sh
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
		grep -qE '^(ok|degraded) +rights +the agent keeps: ' "$dir/out" &&
		grep -qE ' sampler ' "$dir/out" && ! grep -q ' version ' "$dir/out"
}
doctor_without_proc() { # nothing can work: 2
	unshare -m true 2>/dev/null || { echo "# skip: doctor without /proc: no mount namespace"; return 77; }
	expect_status 2 unshare -m sh -c "mount -t tmpfs none /proc && exec $pnmem doctor" &&
		grep -qE '^missing +meminfo ' "$dir/out"
}
# One line at once; ended by a signal with status 0.
watch_lines() {
	: >"$dir/out" # or what the last test left there is taken for its line
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
reservations() { # none here; with some it is tests/host/test_reserve.c's
	expect_status 0 "$pnmem" reservations && [ "$(cat "$dir/out")" = none ] &&
		expect_status 0 "$pnmem" reservations --json && is_json "$dir/out" &&
		grep -q '"reservations": \[\]' "$dir/out"
}
closed_stdout() {
	"$pnmem" status >/dev/full 2>/dev/null
	[ $? -eq 1 ]
}

wait_usage() {
	expect_status 2 "$pnmem" wait && expect_status 2 "$pnmem" wait --at-most MEDIUM &&
		expect_status 2 "$pnmem" wait --at-most OK --timeout soon &&
		expect_status 2 "$pnmem" wait --at-most OK --timeout -1 &&
		expect_status 2 "$pnmem" status --pid me && [ ! -s "$dir/out" ]
}
# Whatever the level of this machine, it is at most CRITICAL.
wait_runs_the_command() {
	expect_status 0 "$pnmem" wait --at-most CRITICAL &&
		expect_status 7 "$pnmem" wait --at-most critical --timeout 5 -- sh -c 'echo "$0 $1"; exit 7' a -b &&
		grep -qx 'a -b' "$dir/out" &&
		expect_status 127 "$pnmem" wait --at-most CRITICAL -- "$dir/none" &&
		expect_status 126 "$pnmem" wait --at-most CRITICAL -- "$dir" &&
		expect_status 0 "$pnmem" wait --json --at-most CRITICAL && is_json --keys "$dir/out"
}
# A /proc of our own, with the agent's or the command's own poll on it: too little, then enough.
made_proc() { # GIB available of 64
	mkdir -p "$dir/proc/pressure"
	printf 'MemTotal: 67108864 kB\nMemAvailable: %d kB\n' $(($1 << 20)) >"$dir/proc/next"
	mv "$dir/proc/next" "$dir/proc/meminfo"
	for line in some full; do
		echo "$line avg10=0.00 avg60=0.00 avg300=0.00 total=0"
	done >"$dir/proc/pressure/memory"
}
wait_gives_up() {
	made_proc 5
	expect_status 1 "$pnmem" wait --at-most WATCH --timeout 0.2 -- touch "$dir/ran" &&
		grep -q 'still CRITICAL (host_bytes) after 0.2 s, not WATCH' "$dir/err" &&
		[ ! -e "$dir/ran" ]
}
wait_holds_back() {
	local pid status
	made_proc 5
	"$pnmem" wait --at-most WATCH --timeout 60 -- sh -c "cat $dir/proc/meminfo; exit 9" \
		>"$dir/out" 2>"$dir/err" &
	pid=$!
	until grep -q 'no agent' "$dir/err"; do # it has looked
		sleep 0.02
	done
	made_proc 11 # TIGHT: not yet
	sleep 0.3
	kill -0 $pid && [ ! -s "$dir/out" ] || { kill $pid; return 1; }
	made_proc 40
	wait $pid
	status=$?
	[ $status -eq 9 ] && grep -q "$((40 << 20)) kB" "$dir/out"
}
wait_is_called_off() {
	made_proc 5
	timeout -s INT 0.3 "$pnmem" wait --at-most OK -- touch "$dir/ran"
	[ $? -eq 124 ] && [ ! -e "$dir/ran" ]
}
stats() {
	expect_status 0 "$pnmem" stats && grep -qE '^clients  1 of 1 users' "$dir/out" &&
		expect_status 0 "$pnmem" stats --json && is_json "$dir/out" &&
		grep -qE '"requests": [1-9]' "$dir/out" && grep -q '"uid": \[' "$dir/out"
}
stats_without_agent() {
	expect_status 1 "$pnmem" stats && grep -q 'no counters: no agent' "$dir/err" && [ ! -s "$dir/out" ]
}
of_pid() { # COMMAND JSON_CHECK_OPTION...
	local command=$1
	shift
	[ "$(id -u)" -eq 0 ] || { echo "# skip: $command --pid: needs root"; return 77; }
	expect_status 0 "$pnmem" "$command" --pid $$ --json && is_json "$@" "$dir/out" &&
		expect_status 1 "$pnmem" "$command" --pid 2147483647 && grep -q 'No such process' "$dir/err" &&
		expect_status 2 "$pnmem" "$command" --pid me && chmod 755 "$dir" &&
		expect_status 1 setpriv --reuid=65534 --regid=65534 --clear-groups "$pnmem" "$command" --pid $$ &&
		grep -q 'only the administrator' "$dir/err"
}
# The limit of that process's cgroup is told of, and not in our own view.
explain_of_a_cgroup() {
	local root=/sys/fs/cgroup limit=memory.max group pid
	[ ! -d /sys/fs/cgroup/memory ] || root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
	group=$root/pnmem-test-$$
	[ "$(id -u)" -eq 0 ] && mkdir "$group" 2>/dev/null && [ -e "$group/$limit" ] || {
		rmdir "$group" 2>/dev/null
		echo "# skip: explain --pid of a cgroup: no memory cgroup to be had"
		return 77
	}
	sleep 60 &
	pid=$!
	echo $((61 << 20)) >"$group/$limit" && echo $pid >"$group/cgroup.procs"
	expect_status 0 "$pnmem" explain --pid $pid && cp "$dir/out" "$dir/theirs"
	expect_status 0 "$pnmem" explain && cp "$dir/out" "$dir/ours"
	kill $pid
	wait $pid
	rmdir "$group"
	grep -qE '^[* ] cgroup .* of 61\.0 MiB' "$dir/theirs" && ! grep -q 'of 61\.0 MiB' "$dir/ours"
}
of_pid_without_agent() {
	expect_status 1 "$pnmem" "$1" --pid $$ && grep -q 'no agent' "$dir/err" && [ ! -s "$dir/out" ]
}

check "usage errors exit 2" usage
check "usage errors of wait" wait_usage
check "--help and --version everywhere" help_and_version
check "status without an agent polls, and says so" status_without_agent
check "status --json has the SPEC's keys" status_json
check "doctor without an agent is degraded" doctor
check "doctor without meminfo cannot work" doctor_without_proc
check "watch prints lines without an agent" watch_text
check "wait runs the command, with its status" wait_runs_the_command
check "stats without an agent says so" stats_without_agent
check "status --pid without an agent says so" of_pid_without_agent status
check "explain --pid without an agent says so" of_pid_without_agent explain
export PN_PROCFS=$dir/proc PN_LEVEL_HOLD_MS=0
check "wait gives up after its time with status 1" wait_gives_up
check "wait holds a command back until the level is low enough" wait_holds_back
check "wait can be called off by a signal" wait_is_called_off
unset PN_PROCFS PN_LEVEL_HOLD_MS
check "reservations without an agent" reservations

start_agent --no-bpf
check "status with an agent, by PN_SOCKET or --socket" status_with_agent
check "status --json with an agent" status_json
check "doctor with an agent that has no hooks is degraded" doctor_of_the_agent
check "watch prints a line and ends on SIGINT" watch_text
check "watch --table prints lines when piped" watch_table_piped
check "watch --json prints an object a line" watch_json
check "watch --table redraws in a terminal" watch_redraws_in_a_terminal
check "wait with an agent" wait_runs_the_command
check "stats counts" stats
check "status --pid is for root" of_pid status --keys
check "explain --pid is for root" of_pid explain
check "explain --pid is of that process's cgroup" explain_of_a_cgroup
check "reservations with an agent" reservations
check "a full stdout is an error" closed_stdout
tap_end
