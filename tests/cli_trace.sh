#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem trace and explain as people and scripts use them: on made-up trace files, good and bad.
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

json() { "$build/tests/json_check" "$dir/out"; }

"$build/tests/trace_make" 20000 >"$dir/spike"

usage() {
	local command
	expect_status 2 "$pnmem" trace && expect_status 2 "$pnmem" trace no-such &&
		expect_status 2 "$pnmem" trace report && expect_status 2 "$pnmem" trace report a b ||
		return 1
	for command in $("$pnmem" trace --help | awk '/^  [a-z]/ {print $1}'); do
		expect_status 0 "$pnmem" trace "$command" --help && says -- --socket &&
			expect_status 0 "$pnmem" trace "$command" --version || return 1
	done
}
report() { # [OPTION...]: of a made-up trace
	"$build/tests/trace_make" "$@" >"$dir/made" && expect_status 0 "$pnmem" trace report - <"$dir/made"
}
report_of_a_spike() {
	report 20000 && [ ! -s "$dir/err" ] && golden report
}
report_of_an_ended_view() { # it was CRITICAL for a second, and for no longer
	report --ended 20000 && golden report-ended
}
# The settings that the report names admit all of them in a replay. Slightly stricter ones do not.
confirmed() { # N CHECK PSI_PCT RESERVE_MIB: the numbers of a line of the report
	local n=$1 check=$2 psi=$3 reserve=$4 admitted
	admitted() { # POLICY
		"$pnmem" trace replay "$dir/refused" --policy "$1" | grep -c "refused ($check) -> admitted"
	}
	[ "$(admitted "host_reserve_bytes=${reserve}M${psi:+,psi_full_reject=$psi}")" -eq "$n" ] &&
		[ "$(admitted "host_reserve_bytes=$((reserve + 1))M${psi:+,psi_full_reject=$psi}")" -lt "$n" ] &&
		{ [ -z "$psi" ] || [ "$(admitted "host_reserve_bytes=${reserve}M,psi_full_reject=60")" -lt "$n" ]; }
}
report_of_settings() {
	report --refused 5000 && golden report-refused && cp "$dir/made" "$dir/refused" &&
		confirmed 2 host '' "$(sed -nE 's/.*with: PN_HOST_RESERVE_BYTES=([0-9]+)M.*/\1/p' "$dir/out")" &&
		confirmed 6 psi_full "$(sed -nE 's/.*PN_PSI_FULL_REJECT=([0-9.]+) .*/\1/p' "$dir/out")" \
			"$(sed -nE 's/.* and PN_HOST_RESERVE_BYTES=([0-9]+)M.*/\1/p' "$dir/out")" &&
		expect_status 0 "$pnmem" trace report --json "$dir/refused" && json &&
		says '"host_reserve_bytes": 535822336' '"psi_full_reject": 60\.0' \
			'"admitted_after_ns": 34000000000'
}
report_of_reservations() { # what others hold is in no record: the report names no reserve for it
	report --reserved 5000 && golden report-reserved
}
report_of_the_dead() { # an engine that is gone took nothing in the 10 s before
	report --gone 5000 && golden report-gone
}
report_without_verdicts() {
	report --bare 5000 && golden report-bare &&
		expect_status 0 "$pnmem" trace report --json "$dir/made" && json &&
		says '"reclaim": null' '"recorded": false' && ! grep -q -- ': -' "$dir/out" &&
		report --quiet 5000 && golden report-quiet
}
many_views() { # each for a moment, all with one number: a screenful, the largest of them
	report --short 300 5000 && golden report-short &&
		expect_status 0 "$pnmem" trace report --json "$dir/made" && json &&
		[ "$(grep -c '"view": "/short/' "$dir/out")" -eq 300 ]
}
names_at_end() { # each number had one view after another
	"$build/tests/trace_make" --short 300 --names-at-end 5000 >"$dir/short" &&
		expect_status 0 "$pnmem" trace report --json "$dir/short" && json &&
		[ "$(grep -oE '"view": "/short/[0-9]+' "$dir/out" | sort -u | wc -l)" -eq 300 ]
}
too_many_views() {
	"$build/tests/trace_make" --short 6000 5000 >"$dir/many" &&
		expect_status 0 "$pnmem" trace report "$dir/many" &&
		says '1906 records of views beyond the first 4096' '/engines/loader: 13\.5 GiB'
}
high_view() { # a view may have any number
	"$build/tests/trace_make" --view 300 20000 | "$pnmem" trace report - >"$dir/1" &&
		"$pnmem" trace report - <"$dir/spike" >"$dir/2" && cmp "$dir/1" "$dir/2"
}
report_from_a_pipe() {
	expect_status 0 "$pnmem" trace report - <"$dir/spike" && says '12 admitted'
}
screenful() {
	"$pnmem" trace report "$dir/spike" | awk 'END { exit NR > 40 }'
}
report_json() {
	expect_status 0 "$pnmem" trace report --json "$dir/spike" && json &&
		says '"CRITICAL": 13200000000' '"prevented_by"' '"admitted_after_ns": 33800000000' \
			'"least_free_bytes"' '"p99_ns"'
}
report_twice() { # a file tells the same story every time
	"$pnmem" trace report "$dir/spike" >"$dir/1" && "$pnmem" trace report "$dir/spike" >"$dir/2" &&
		cmp "$dir/1" "$dir/2"
}
cut_file() {
	local bytes
	for bytes in 300 5000 100001 300000; do
		head -c $bytes "$dir/spike" >"$dir/cut"
		expect_status 1 "$pnmem" trace report "$dir/cut" && says 'cut' && complains 'has no end' ||
			return 1
	done
	says 'WATCH' && expect_status 1 "$pnmem" trace report --json "$dir/cut" && json &&
		says '"end": "cut"'
}
cut_in_the_head() {
	head -c 100 "$dir/spike" >"$dir/cut"
	expect_status 1 "$pnmem" trace report "$dir/cut" && complains 'cut within its first 100 bytes'
}
empty_file() {
	: >"$dir/empty"
	expect_status 1 "$pnmem" trace report "$dir/empty" && complains 'is empty'
}
foreign_file() {
	expect_status 1 "$pnmem" trace report "$pnmem" && complains 'not a pnmem trace' &&
		[ ! -s "$dir/out" ]
}
no_file() {
	expect_status 1 "$pnmem" trace report "$dir/none" && complains 'cannot open' &&
		expect_status 1 "$pnmem" trace report "$dir" && complains 'cannot read'
}
damaged_file() {
	cp "$dir/spike" "$dir/bad"
	printf 'XXXX' | dd of="$dir/bad" bs=1 seek=200000 conv=notrunc 2>/dev/null
	expect_status 1 "$pnmem" trace report "$dir/bad" && says 'damaged' 'WATCH' &&
		complains 'damaged at byte 1[0-9]{5}'
}
newer_file() {
	"$build/tests/trace_make" --newer 20000 >"$dir/newer" &&
		expect_status 1 "$pnmem" trace report - <"$dir/newer" && complains 'newer version, 2' &&
		golden report-newer
}
odd_values() { # every reader leaves the same records out, and says how many
	"$build/tests/trace_make" --odd 0 >"$dir/odd" && "$build/tests/trace_make" 0 >"$dir/even" || return 1
	local command
	for command in "report" "report --json" "replay" "replay -p host_reserve_bytes=2G" "replay --json" \
		"export --perfetto" "export --html"; do
		# shellcheck disable=SC2086
		"$pnmem" trace $command - <"$dir/even" >"$dir/want" &&
			expect_status 0 "$pnmem" trace $command - <"$dir/odd" && diff -u "$dir/want" "$dir/out" &&
			complains ' 5 records are left out: a value in each' || { echo "$command"; return 1; }
	done
	"$pnmem" trace export --perfetto "$dir/odd" >"$dir/out.json" 2>/dev/null &&
		"$build/tests/trace_event_check" "$dir/odd" "$dir/out.json"
}
hostile_names() { # the terminal gets no control characters
	"$build/tests/trace_make" --hostile 20000 >"$dir/hostile" &&
		expect_status 0 "$pnmem" trace report "$dir/hostile" && ! grep -q $'\033' "$dir/out" &&
		expect_status 0 "$pnmem" trace report --json "$dir/hostile" && json
}
full_stdout() {
	"$pnmem" trace report "$dir/spike" >/dev/full 2>/dev/null
	[ $? -eq 1 ]
}
long_file() { # 1,000,000 records: the issue's bounds, 2 s and 256 MiB, on a machine that is busy
	"$build/tests/trace_make" 1042000 >"$dir/long" || return 1
	(ulimit -v 262144 && ulimit -t 2 && exec "$pnmem" trace report "$dir/long") >"$dir/out" || return 1
	says 'records +(9[5-9]|10)[0-9]{4,5}'
	rm -f "$dir/long"
}
dump_without_agent() {
	expect_status 1 "$pnmem" trace dump && complains 'no agent'
}
dump() {
	expect_status 0 "$pnmem" trace dump && [ -f "$(cat "$dir/out")" ] || return 1
	cp "$(cat "$dir/out")" "$dir/dumped"
	expect_status 0 "$pnmem" trace report "$dir/dumped" && says 'written +pnmem trace dump' &&
		expect_status 0 "$pnmem" trace dump --json && json
}

fake_proc() { # AVAILABLE_GIB SOME FULL: a host of 16 GiB for the poll of this process
	mkdir -p "$dir/proc/pressure"
	printf 'MemTotal: %d kB\nMemAvailable: %d kB\n' $((16 << 20)) $(($1 << 20)) >"$dir/proc/meminfo"
	printf '%s avg10=%s avg60=0.00 avg300=0.00 total=9\n' some "$2" full "$3" >"$dir/proc/pressure/memory"
}
explain() { # with made-up numbers; the time since the level changed is left out
	PN_PROCFS=$dir/proc expect_status 0 "$pnmem" explain &&
		sed -i 's/ since [^,]*, / since T, /' "$dir/out"
}
explain_bytes() {
	fake_proc 3 0.00 0.00
	explain && golden explain-bytes
}
explain_stalls() {
	fake_proc 12 30.00 20.00
	explain && golden explain-stalls && PN_PSI_FULL_REJECT=25 explain && golden explain-stalls-25
}
explain_json() {
	PN_PROCFS=$dir/proc expect_status 0 "$pnmem" explain --json && json &&
		says '"level_name": "CRITICAL"' '"reason": "psi_full"' '"decides": true' '"distance": 5'
}

check "usage errors exit 2; every trace command has --help and --version" usage
check "report tells the story of a load spike" report_of_a_spike
check "report: a view that has ended has no level" report_of_an_ended_view
check "report: the settings that it names admit in a replay, less does not" report_of_settings
check "report: what others have reserved" report_of_reservations
check "report: an engine that is gone took nothing" report_of_the_dead
check "report names what it does not know" report_without_verdicts
check "report: hundreds of views in a screenful" many_views
check "report: the mark of a view's end tells its name" names_at_end
check "report: views for which there is no room are counted" too_many_views
check "report: a view with a high number is reported like any other" high_view
check "report reads a pipe" report_from_a_pipe
check "report fits on a screen" screenful
check "report --json has the same numbers" report_json
check "report says the same twice" report_twice
check "a cut file is reported up to the cut" cut_file
check "a file cut in its head" cut_in_the_head
check "an empty file" empty_file
check "a foreign file" foreign_file
check "a file that cannot be read" no_file
check "a damaged file is reported up to the damage" damaged_file
check "a file of a newer version is reported, with a message" newer_file
check "values out of range: every reader leaves the record out" odd_values
check "names cannot reach the terminal's controls" hostile_names
check "a full stdout is an error" full_stdout
check "a million records in 2 s and 256 MiB" long_file
check "explain shows bytes" explain_bytes
check "explain shows stalls" explain_stalls
check "explain --json has the same numbers" explain_json
check "dump without an agent" dump_without_agent
start_agent --no-bpf
check "dump writes a file that report reads" dump
tap_end
