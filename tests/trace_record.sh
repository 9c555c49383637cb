#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem trace record on the real kernel: what it records of a command, how it ends, and what becomes
# of it when the disk is full, the agent goes or it is killed itself.
set -u
. tests/tap.sh
. tests/expect.sh
build=${BUILD:-build}
pnmem=$build/pnmem
dir=$(mktemp -d)
export PN_SOCKET=$dir/s PN_TRACE_DIR=$dir/traces
agent=
end() {
	[ -n "$agent" ] && kill "$agent" 2>/dev/null && wait "$agent" 2>/dev/null
	rm -rf "$dir"
}
trap end EXIT

report_says() { # PATTERN...: in the report of $dir/f
	"$pnmem" trace report "$dir/f" >"$dir/report" 2>&1
	says_in "$dir/report" "$@"
}
until_recording() { # waits until the agent's snapshots are in $dir/f
	for _ in $(seq 200); do
		"$pnmem" trace report "$dir/f" 2>/dev/null | grep -q '^level  .* OK' && return
		sleep 0.05
	done
	echo "no snapshot in $dir/f"
	return 1
}
record_until() { # SIGNAL: starts a recording in the background, and ends it
	rm -f "$dir/f"
	"$pnmem" trace record -o "$dir/f" 2>"$dir/err" &
	local recorder=$!
	until_recording || return 1
	kill "-$1" $recorder
	wait $recorder
}

usage() {
	expect_status 2 "$pnmem" trace record --duration never &&
		expect_status 2 "$pnmem" trace record --duration -1 &&
		expect_status 2 "$pnmem" trace record -x
}
not_root() {
	command -v setpriv >/dev/null || { echo "# skip: record without root: no setpriv(1)"; return 77; }
	setpriv --reuid=65534 --clear-groups "$pnmem" --version >/dev/null 2>&1 ||
		{ echo "# skip: record without root: nobody may not run the build"; return 77; }
	expect_status 1 setpriv --reuid=65534 --clear-groups "$pnmem" trace record -o "$dir/f" &&
		complains 'only root'
}
no_helper() {
	PNMEM_AGENT=/nonexistent expect_status 1 "$pnmem" trace record -o "$dir/f" -- true &&
		complains 'no pnmemd' && [ ! -e "$dir/f" ]
}
command_status() {
	expect_status 7 "$pnmem" trace record -o "$dir/f" -- sh -c 'exit 7' && report_says 'whole' \
		'command  sh \([0-9]+\), exit 7' 'lost: 0 by the kernel' &&
		expect_status 143 "$pnmem" trace record -o "$dir/f" -- sh -c 'kill $$' &&
		report_says 'ended by signal 15' &&
		expect_status 127 "$pnmem" trace record -o "$dir/f" -- /nonexistent
}
# The hooks count as many stalls as the file has, others' too: none is left out.
pressure() {
	expect_status 0 "$pnmem" trace record -o "$dir/f" -- "$build/tools/pressure" --seconds 2 ||
		{ grep -q 'memory controller\|cgroup' "$dir/err" &&
			{ echo "# skip: record under pressure: no memory cgroup"; return 77; }; return 1; }
	report_says 'TIGHT first' '^       \* +[0-9]+ .* pressure \(' 'for cgroup limits [0-9]+ of' || return 1
	awk '/^stalls/ { hooks = $2 + 0; recorded = $(NF - 2) }
		END { print "recorded", recorded, "of", hooks
			exit !(recorded > 50 && recorded >= 0.95 * hooks && recorded <= 1.05 * hooks + 20) }' \
		"$dir/report"
}
children() { # a grandchild whose parent has gone is still the command's
	expect_status 0 "$pnmem" trace record -o "$dir/f" -- \
		sh -c "(sh -c 'head -c 60000000 /dev/zero | tail >/dev/null; sleep 0.1' &) ; sleep 0.7" &&
		report_says 'command  sh' && grep -qE '; ([2-9]|[1-9][0-9]+) of its processes' "$dir/report" ||
		{ cat "$dir/report"; return 1; }
}
duration() {
	local before after
	before=$(date +%s%N)
	expect_status 0 "$pnmem" trace record -o "$dir/f" --duration 0.5 || return 1
	after=$(date +%s%N)
	[ $((after - before)) -ge 500000000 ] && report_says whole
}
interrupt() {
	record_until INT && report_says whole && complains 'records, 0 lost'
}
killed() { # what has been written is readable, and the helper is gone
	local helper
	record_until KILL
	report_says 'cut' 'records' || return 1
	for _ in $(seq 100); do
		helper=$(pgrep -x pnmem-record)
		[ -z "$helper" ] && return
		sleep 0.05
	done
	echo "still there: $helper"
	return 1
}
helper_of() { # RECORDER: the pid of its helper, once it has it
	local helper
	for _ in $(seq 200); do
		helper=$(pgrep -P "$1" -x pnmem-record) && echo "$helper" && return
		sleep 0.05
	done
	return 1
}
helper_killed() { # the command goes on; that the rest is missing is said, and seen in the file
	local recorder helper
	rm -f "$dir/f" "$dir/done"
	"$pnmem" trace record -o "$dir/f" -- sh -c "sleep 2; touch '$dir/done'" 2>"$dir/err" &
	recorder=$!
	helper=$(helper_of $recorder) && until_recording && kill -KILL "$helper"
	wait $recorder
	[ $? -eq 1 ] || { echo "no failure"; cat "$dir/err"; return 1; }
	[ -e "$dir/done" ] && complains 'recording stopped: its helper .* signal 9: .* is cut' &&
		report_says 'cut'
}
group_ended() { # as a service manager ends all of a service at once
	local recorder helper
	rm -f "$dir/f"
	"$pnmem" trace record -o "$dir/f" 2>"$dir/err" &
	recorder=$!
	helper=$(helper_of $recorder) && until_recording && kill -TERM "$helper" $recorder
	wait $recorder && report_says whole
}
full_disk() { # the recording ends, the command and the agent do not
	unshare -m true 2>/dev/null || { echo "# skip: a full disk: no mount namespace"; return 77; }
	mkdir -p "$dir/small"
	rm -f "$dir/done"
	unshare -m sh -c "mount -t tmpfs -o size=64k none '$dir/small' &&
		'$pnmem' trace record -o '$dir/small/f' -- sh -c 'for i in 1 2 3 4 5 6; do
			head -c 400000000 /dev/zero | tail -c 100000000 >/dev/null; done; touch $dir/done'" \
		>"$dir/out" 2>"$dir/err"
	[ $? -eq 1 ] || { echo "no failure"; cat "$dir/err"; return 1; }
	complains 'recording stopped: cannot write .*No space left' && [ -e "$dir/done" ] &&
		kill -0 "$agent"
}
two_at_once() {
	rm -f "$dir/f"
	"$pnmem" trace record -o "$dir/f" 2>/dev/null &
	local first=$!
	until_recording && expect_status 0 "$pnmem" trace record -o "$dir/g" --duration 0.3 && complains 'another recording'
	local status=$?
	kill -INT $first
	wait $first
	return $status
}
agent_goes() {
	rm -f "$dir/f"
	"$pnmem" trace record -o "$dir/f" 2>"$dir/err" &
	local recorder=$!
	until_recording || return 1
	kill "$agent"
	for _ in $(seq 200); do
		grep -q 'the agent has gone' "$dir/err" && break
		sleep 0.05
	done
	kill -INT $recorder
	wait $recorder && complains 'the agent has gone' && report_says whole
}
without_agent() {
	expect_status 0 "$pnmem" trace record -o "$dir/f" --duration 0.3 && complains 'no agent' &&
		report_says '^level  .* OK' 'least available'
}
progress() {
	command -v script >/dev/null || { echo "# skip: a progress line: no script(1)"; return 77; }
	timeout 20 script -qec "$pnmem trace record -o $dir/f --duration 0.6" /dev/null >"$dir/out" 2>&1
	grep -qE $'\r[0-9.]+ s  [0-9]+ records  0 lost' "$dir/out"
}

check "usage errors exit 2" usage
if [ "$(id -u)" -ne 0 ]; then
	check "record" sh -c 'echo "# skip: record: needs root"; exit 77'
	tap_end
fi
check "only root may record" not_root
check "without pnmemd there are no hooks" no_helper
timeout 10 "$build/pnmemd" --record-events </dev/null >/dev/null 2>&1 || {
	check "record" sh -c 'echo "# skip: record: no kernel hook can be had"; exit 77'
	tap_end
}
start_agent
check "the status of the command is passed on" command_status
check "every stall of a command is recorded" pressure
check "orphans belong to the command" children
check "a recording of a given time" duration
check "a signal ends it, and the file is whole" interrupt
check "a killed recorder leaves a file that can be read" killed
check "a recording whose helper is killed says so" helper_killed
check "a signal to the helper too ends it no other way" group_ended
check "a full disk ends the recording, not the command" full_disk
check "two recordings at once" two_at_once
check "a progress line in a terminal" progress
check "the agent may go" agent_goes
check "without an agent" without_agent
tap_end
