#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem trace export: its output is compared with the trace, and a browser renders the page.
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
"$build/tests/trace_make" --ended 5000 >"$dir/ended"
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
ended_view() {
	expect_status 0 "$pnmem" trace export --perfetto "$dir/ended" && matches "$dir/ended" &&
		expect_status 0 "$pnmem" trace export --html "$dir/ended" &&
		says 'last engine left /engines/ended'
}
high_view() { # a view may have any number
	"$build/tests/trace_make" --view 300 5000 >"$dir/300" &&
		expect_status 0 "$pnmem" trace export --perfetto "$dir/300" && matches "$dir/300" &&
		[ "$(grep -c '"cat":"level"' "$dir/out")" -ge 10 ] &&
		expect_status 0 "$pnmem" trace export --html "$dir/300" &&
		says '"what":"level","text":"/engines/loader: OK to WATCH'
}
one_number() { # views have it one after the other: each has a group of tracks and a line
	"$build/tests/trace_make" --short 300 2000 >"$dir/short" &&
		expect_status 0 "$pnmem" trace export --perfetto "$dir/short" && matches "$dir/short" &&
		[ "$(grep -c '"process_name".*"/short/[0-9]*"' "$dir/out")" -eq 300 ] &&
		expect_status 0 "$pnmem" trace export --html "$dir/short" &&
		says 'last engine left /short/0"' 'last engine left /short/200"' &&
		"$build/tests/trace_make" --short 6000 2000 >"$dir/many" &&
		expect_status 0 "$pnmem" trace export --perfetto -o /dev/null "$dir/many" &&
		complains '1906 records of views beyond the first 4096'
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
		complains 'newer version' && matches "$dir/newer" &&
		expect_status 1 "$pnmem" trace export --html "$dir/cut" && says '"end":"cut"'
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
		(ulimit -v 65536 && exec "$pnmem" trace export --perfetto -o /dev/null "$dir/long") &&
		(ulimit -v 65536 && exec "$pnmem" trace export --html -o "$dir/long.html" "$dir/long") &&
		[ "$(stat -c %s "$dir/long.html")" -lt 2000000 ]
}

# ---- the page ------------------------------------------------------------------------------------
page() { # TRACE: as $dir/page.html
	expect_status 0 "$pnmem" trace export --html "$dir/$1" && cp "$dir/out" "$dir/page.html"
}
data() { # of the page, as JSON
	sed -n '/id="trace">/,/<\/script>/p' "$dir/page.html" | sed 's/.*id="trace">//; s/<\/script>.*//'
}
extreme() { # of a line: KEY least|most
	data | tr -d '\n' | sed -E "s/.*\"$1\":\[\{[^[]*\"data\":\[([^]]*)\].*/\1/" | tr , '\n' |
		awk -v how="$2" 'NR % 2 == 0 && $1 != "null" { if (!n++ || (how == "least" ? $1 < v : $1 > v)) v = $1 } END { print v }'
}
number() { # of the report: KEY
	"$pnmem" trace report --json "$dir/$1" | sed -nE "s/^.*\"$2\": ([0-9.]+),?/\1/p" | head -n 1
}
self_contained() {
	page hostile && data >"$dir/data" && "$build/tests/json_check" "$dir/data" || return 1
	! grep -v 'http://www.w3.org/2000/svg' "$dir/page.html" | grep -E '(https?:)?//[a-z]|src=|@import|url\(' &&
		grep -q "default-src 'none'" "$dir/page.html" &&
		[ "$(grep -o '</script>' "$dir/page.html" | wc -l)" -eq 2 ] &&
		! LC_ALL=C grep -q $'[^\n\t -~]' "$dir/page.html"
}
# What the bins keep of it is what the report finds in the records, however many share a bin.
same_as_the_report() {
	local trace counts
	"$build/tests/trace_make" 20000 7200 >"$dir/two-hours"
	for trace in spike two-hours; do
		page $trace || return 1
		[ "$(extreme memory least)" = $(($(number $trace least_avail_bytes) >> 20)) ] ||
			{ echo "$trace: $(extreme memory least) MiB"; return 1; }
		[ "$(extreme psi_full most)" = 30 ] && [ "$(extreme psi_some most)" = 60 ] &&
			[ "$(extreme levels most)" = 3 ] || { echo "$trace: PSI or level"; return 1; }
		counts=$(data | sed -nE 's/.*"name":"(admitted|capped|refused)","total":([0-9]+),.*/\2 \1/p' | sort)
		[ "$counts" = "$("$pnmem" trace report "$dir/$trace" |
			sed -nE 's/^verdicts ([^,]+), ([^,]+), ([^,]+),.*/\1\n\2\n\3/p' | sort)" ] ||
			{ echo "$trace: $counts"; return 1; }
	done
}
# A view without looks ends, and does not keep its last level.
gone_view() {
	"$build/tests/trace_make" 3000 30000 >"$dir/gaps" && page gaps &&
		data | tr -d '\n' | grep -qE '"levels":\[\{"name":"host","data":\[0,0,[0-9]+,null,'
}
browser() { # OPTION...: of the page in $dir/shown.html
	timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
		--user-data-dir="$dir/browser" --window-size=1280,1400 --hide-scrollbars \
		--force-color-profile=srgb --virtual-time-budget=5000 --enable-logging=stderr "$@" \
		"file://$dir/shown.html" >"$dir/out" 2>"$dir/err" || { tail -5 "$dir/err"; return 1; }
	! grep CONSOLE "$dir/err"
}
need_browser() {
	chromium=$(command -v chromium || command -v google-chrome) && return
	echo "# skip: the page in a browser: no chromium"
	return 77
}
# With keys pressed in the page, which says in the end what its view is.
script='<script>
const chart = document.getElementById("chart"), shown = [];
const press = (key) => {
	chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
	shown.push(chart.querySelectorAll("text").length + ":" + document.getElementById("tip").hidden);
};
for (const key of ["ArrowRight", "+", "+", "+", "PageDown", "-", "Escape", "0"])
	press(key);
document.querySelector("#notes button").click();
document.documentElement.dataset.shown = shown.join(" ");
document.documentElement.dataset.tip = document.getElementById("tip").textContent;
</script>'
in_a_browser() {
	need_browser || return
	page hostile && { cat "$dir/page.html" && echo "$script"; } >"$dir/shown.html" &&
		browser --dump-dom && says 'data-panels="1[0-9]"' 'data-tip="time.*level of host' &&
		says 'data-shown="[0-9]+:false .* [0-9]+:true [0-9]+:true"' &&
		! grep -q 'data-error' "$dir/out" && ! grep -q '<script>alert' "$dir/out"
}
scheme() { # NUMBER COLOUR...: of the background, the text, memory, a limit and CRITICAL
	local scheme=$1
	shift
	cp "$dir/page.html" "$dir/shown.html" &&
		browser --blink-settings=preferredColorScheme=$scheme --screenshot="$dir/shot.png" &&
		"$build/tests/png_check" "$dir/shot.png" "$@"
}
both_schemes() {
	need_browser || return
	page spike && scheme 1 ffffff 1c2128 0969da cf222e 2da44e &&
		scheme 0 0d1117 e6edf3 58a6ff ff7b72 ff6a64 &&
		! "$build/tests/png_check" "$dir/shot.png" 0969da # of the other scheme
}
check "usage errors exit 2" usage
check "--perfetto is valid and holds what the trace does" perfetto
check "a view that ends is seen to end" ended_view
check "a view with a high number is exported" high_view
check "views that have one number after the other" one_number
check "--perfetto to a file, from a pipe" perfetto_to_a_file
check "--perfetto of hostile names" hostile_perfetto
check "the readable part of a cut or newer file is exported" readable_part
check "a file that is no trace" nothing_to_read
check "no room for the output" no_room
check "long files in 64 MiB" bounded
check "--html is one page that needs nothing else, whatever is in the trace" self_contained
check "--html shows what the report tells" same_as_the_report
check "--html: what is not looked at any more is not known" gone_view
check "the page of a hostile trace in a browser: no error, and its keys work" in_a_browser
check "the page is drawn in light and in dark" both_schemes
tap_end
