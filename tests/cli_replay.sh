#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem trace replay, on made-up traces and on one of the agent with an engine under real stalls.
set -u
. tests/tap.sh
. tests/expect.sh
build=${BUILD:-build}
pnmem=$build/pnmem
dir=$(mktemp -d)
export PN_SOCKET=$dir/s PN_TRACE_DIR=$dir/traces
agent= engine=
end() {
	local pid
	for pid in $engine $agent; do
		kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	rm -rf "$dir"
}
trap end EXIT

"$build/tests/trace_make" 20000 >"$dir/spike"

usage() {
	expect_status 2 "$pnmem" trace replay &&
		expect_status 2 "$pnmem" trace replay a b &&
		expect_status 2 "$pnmem" trace replay "$dir/spike" --policy no_such=1 &&
		expect_status 2 "$pnmem" trace replay "$dir/spike" --policy cgroup_level &&
		expect_status 2 "$pnmem" trace replay "$dir/spike" --policy cgroup_level=2 &&
		complains 'cgroup_level cannot be 2' &&
		expect_status 2 "$pnmem" trace replay "$dir/spike" -p host_reserve_bytes=1G,psi_full_reject=0 &&
		[ ! -s "$dir/out" ]
}
changes() { grep -c '^+' "$dir/out"; }
nothing_differs() { # OPTION... FILE
	expect_status 0 "$pnmem" trace replay "$@" && [ ! -s "$dir/err" ] && [ "$(changes)" -eq 0 ] &&
		says 'differ 0 times, for 0 ms' 'verdicts +[0-9]+, 0 of them differ$' &&
		! grep -q 'could not be replayed\|taken as recorded' "$dir/out"
}
recorded_settings() {
	nothing_differs "$dir/spike" && says 'CRITICAL for 26.4 s -> 26.4 s' 'verdicts +20,' &&
		nothing_differs -p level_hold_ms=250,cgroup_level=1 -p psi_full_reject=15 "$dir/spike"
}
other_settings() {
	expect_status 0 "$pnmem" trace replay - <"$dir/spike" \
		--policy host_reserve_bytes=1G,psi_full_reject=40 && golden replay-1G &&
		expect_status 0 "$pnmem" trace replay - -p host_reserve_bytes=16G <"$dir/spike" &&
		golden replay-16G
}
high_view() { # a view may have any number
	"$build/tests/trace_make" --view 300 20000 >"$dir/300"
	nothing_differs "$dir/300" && says 'verdicts +20,' 'CRITICAL for 26.4 s -> 26.4 s'
}
one_number() { # views have it one after the other: each change names the view of that time
	local option
	for option in --quiet --names-first; do
		"$build/tests/trace_make" --short 300 $option 2000 >"$dir/short"
		expect_status 0 "$pnmem" trace replay "$dir/short" -p host_reserve_bytes=16G &&
			[ "$(grep -oE '/short/[0-9]+' "$dir/out" | sort -u | wc -l)" -eq 300 ] &&
			says '^\+0\.200 s  /short/0  OK' '^\+89\.900 s  /short/299  TIGHT' &&
			! grep -q 'taken as recorded' "$dir/out" || return 1
	done
}
too_many_views() {
	"$build/tests/trace_make" --short 6000 2000 >"$dir/many"
	expect_status 0 "$pnmem" trace replay "$dir/many" &&
		complains '1906 records of views beyond the first 4096' &&
		says '1906 looks taken as recorded: .*too many views' 'verdicts +20, 0 of them'
}
json() {
	expect_status 0 "$pnmem" trace replay "$dir/spike" -p host_reserve_bytes=1G && changes >"$dir/n"
	expect_status 0 "$pnmem" trace replay --json "$dir/spike" -p host_reserve_bytes=1G &&
		"$build/tests/json_check" "$dir/out" &&
		[ "$(grep -c '"ts_ns":' "$dir/out")" -eq "$(cat "$dir/n")" ] &&
		says '"host_reserve_bytes":1073741824' '"verdicts_not_replayed":0' || return 1
	expect_status 0 "$pnmem" trace replay --json "$dir/spike" && "$build/tests/json_check" "$dir/out" &&
		says '"differ_ns":0' '"verdicts_differ":0'
}
same_bytes() { # at another time, in another place and language
	local option locale
	locale=$(locale -a 2>/dev/null | grep -m 1 -E '^(de|fr)_')
	for option in --json -phost_reserve_bytes=1G; do
		"$pnmem" trace replay -p psi_full_reject=7.5 $option "$dir/spike" >"$dir/1" &&
			"$pnmem" trace replay -p psi_full_reject=7.5 $option "$dir/spike" >"$dir/2" &&
			TZ=Asia/Tokyo LC_ALL=${locale:-C.UTF-8} LANG=de_DE.UTF-8 PN_PSI_FULL_REJECT=3 \
				PN_HOST_RESERVE_BYTES=9G PN_CGROUP_LEVEL=0 "$pnmem" trace replay \
				-p psi_full_reject=7.5 $option "$dir/spike" >"$dir/3" &&
			cmp "$dir/1" "$dir/2" && cmp "$dir/1" "$dir/3" && [ -s "$dir/1" ] || return 1
	done
	[ "$("$pnmem" trace replay - <"$dir/spike")" = "$("$pnmem" trace replay "$dir/spike")" ]
}
bad_files() {
	head -c 1000000 "$dir/spike" >"$dir/cut"
	: >"$dir/empty"
	"$build/tests/trace_make" --newer 5000 >"$dir/newer"
	expect_status 1 "$pnmem" trace replay "$dir/cut" && complains 'has no end' &&
		says 'file cut: they differ 0 times' &&
		expect_status 1 "$pnmem" trace replay --json "$dir/cut" &&
		"$build/tests/json_check" "$dir/out" && says '"end":"cut"' &&
		expect_status 1 "$pnmem" trace replay "$dir/newer" && complains 'newer version' &&
		says 'differ 0 times' &&
		expect_status 1 "$pnmem" trace replay "$dir/empty" && complains 'is empty' &&
		expect_status 1 "$pnmem" trace replay "$pnmem" && complains 'not a pnmem trace'
}
full_stdout() {
	"$pnmem" trace replay "$dir/spike" >/dev/full 2>/dev/null
	[ $? -eq 1 ]
}
bounded() {
	"$build/tests/trace_make" 300000 >"$dir/long" &&
		(ulimit -v 65536 && exec "$pnmem" trace replay -p cgroup_level=0 "$dir/long") >/dev/null
}

# ---- a real one ----------------------------------------------------------------------------------
ask() { # of the engine, one request
	local body='{"prompt_tokens": 1024, "max_tokens": 16}'
	exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
	printf 'POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
	timeout 20 cat <&3 | head -n 1
	exec 3>&-
}
wait_for() { # COMMAND...
	local i
	for i in $(seq 200); do
		"$@" && return
		sleep 0.05
	done
	return 1
}
agent_is_there() { "$pnmem" status 2>/dev/null | grep -q 'source  agent'; }
engine_is_there() {
	port=$(sed -nE 's/.*127\.0\.0\.1:([0-9]+).*/\1/p' "$dir/engine.log" | head -n 1)
	[ -n "$port" ]
}
# Levels rise and are held under stalls; the engine asks before, during and after.
real_trace() {
	local stalls
	[ "$(id -u)" -eq 0 ] || { echo "# skip: a real trace replayed: not root"; return 77; }
	wait_for agent_is_there && wait_for engine_is_there ||
		{ cat "$dir/agent.log" "$dir/engine.log"; return 1; }
	ask
	"$build/tools/pressure" --seconds 2 >"$dir/pressure.log" 2>&1 &
	stalls=$!
	ask && ask
	wait $stalls || {
		echo "# skip: a real trace replayed: no stalls to be had: $(tail -n 1 "$dir/pressure.log")"
		return 77
	}
	ask
	expect_status 0 "$pnmem" trace dump && cp "$(cat "$dir/out")" "$dir/real" || return 1
	nothing_differs "$dir/real" && says '(TIGHT|CRITICAL|WATCH) for [0-9.]+ (m?s) -> ' &&
		says 'verdicts +([2-9]|[1-9][0-9]+),' || return 1
	expect_status 0 "$pnmem" trace replay -p host_reserve_bytes=1T "$dir/real" &&
		says 'admitted -> refused' &&
		expect_status 0 "$pnmem" trace export --perfetto "$dir/real" &&
		"$build/tests/trace_event_check" "$dir/real" "$dir/out"
}

check "usage errors exit 2" usage
check "with the recorded settings nothing differs" recorded_settings
check "other settings: where levels and verdicts differ" other_settings
check "a view with a high number is replayed" high_view
check "views that have one number after the other" one_number
check "views for which there is no room are counted" too_many_views
check "--json says the same" json
check "the same file and settings give the same bytes" same_bytes
check "the readable part of a bad file is replayed" bad_files
check "a full stdout is an error" full_stdout
check "long files in 64 MiB" bounded
# Not within a check, which waits for all that it starts.
"$build/pnmemd" --foreground >"$dir/agent.log" 2>&1 &
agent=$!
wait_for agent_is_there
"$build/tools/engine" --port=0 --weights=16M --slots=2 >"$dir/engine.log" 2>&1 &
engine=$!
check "a trace of the agent and an engine, replayed and exported" real_trace
tap_end
