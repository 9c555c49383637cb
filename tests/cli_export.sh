#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem trace export: what it writes is compared with the trace that it was made of, and the page is
# rendered by a browser.
set -u
. tests/tap.sh
. tests/expect.sh
build=${BUILD:-build}
pnmem=$build/pnmem
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$build/tests/trace_make" 20000 >"$dir/spike"
"$build/tests/trace_make" --hostile 5000 >"$dir/hostile"
"$build/tests/trace_make" --newer 5000 >"$dir/newer"
head -c 300000 "$dir/spike" >"$dir/cut"

matches() { "$build/tests/trace_event_check" "$1" "$dir/out"; } # TRACE

usage() {
	expect_status 2 "$pnmem" trace export &&
		expect_status 2 "$pnmem" trace export "$dir/spike" &&
		expect_status 2 "$pnmem" trace export --perfetto &&
		expect_status 2 "$pnmem" trace export --perfetto a b &&
		expect_status 2 "$pnmem" trace export --perfetto --json "$dir/spike" &&
		[ ! -s "$dir/out" ]
}
perfetto() {
	expect_status 0 "$pnmem" trace export --perfetto "$dir/spike" && [ ! -s "$dir/err" ] &&
		matches "$dir/spike"
}
perfetto_to_a_file() {
	expect_status 0 "$pnmem" trace export --perfetto "$dir/spike" || return 1
	mv "$dir/out" "$dir/by-stdout"
	expect_status 0 "$pnmem" trace export --perfetto -o "$dir/by-name" - <"$dir/spike" &&
		[ ! -s "$dir/out" ] && cmp "$dir/by-name" "$dir/by-stdout"
}
hostile_perfetto() {
	expect_status 0 "$pnmem" trace export --perfetto "$dir/hostile" && matches "$dir/hostile" &&
		! LC_ALL=C grep -q $'[^\n -~]' "$dir/out"
}
readable_part() { # of a cut and a newer file, with status 1
	expect_status 1 "$pnmem" trace export --perfetto "$dir/cut" && complains 'has no end' &&
		matches "$dir/cut" &&
		expect_status 1 "$pnmem" trace export --perfetto "$dir/newer" &&
		complains 'newer version' && matches "$dir/newer"
}
nothing_to_read() {
	: >"$dir/empty"
	expect_status 1 "$pnmem" trace export --perfetto "$dir/empty" && complains 'is empty' &&
		expect_status 1 "$pnmem" trace export --perfetto "$pnmem" &&
		complains 'not a pnmem trace' &&
		expect_status 1 "$pnmem" trace export --perfetto "$dir/none" && complains 'cannot open'
}
no_room() { # for what is written
	"$pnmem" trace export --perfetto "$dir/spike" >/dev/full 2>"$dir/err"
	[ $? -eq 1 ] && complains 'cannot write' &&
		expect_status 1 "$pnmem" trace export --perfetto -o "$dir/none/x" "$dir/spike" &&
		complains 'cannot write'
}
bounded() { # memory, whatever the length
	"$build/tests/trace_make" 300000 >"$dir/long" &&
		(ulimit -v 65536 && exec "$pnmem" trace export --perfetto -o /dev/null "$dir/long")
}

check "usage errors exit 2" usage
check "--perfetto is valid and holds what the trace does" perfetto
check "--perfetto to a file, from a pipe" perfetto_to_a_file
check "--perfetto of hostile names" hostile_perfetto
check "the readable part of a cut or newer file is exported" readable_part
check "a file that is no trace" nothing_to_read
check "no room for the output" no_room
check "long files in 64 MiB" bounded
tap_end
