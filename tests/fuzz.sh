#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Each fuzz target for a few seconds: FUZZ_SECONDS, 5 by default. Seeds are tests/data/TARGET, if
# there is such a folder; what libFuzzer finds stays in a temporary one. What strangers can reach,
# the agent's message handler and a running agent, gets FUZZ_SERVE_SECONDS, 60 by default, at the
# same time as the others.
set -u
. tests/tap.sh
build=${BUILD:-build}
long_s=${FUZZ_SERVE_SECONDS:-60}
dir=$(mktemp -d)
end() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	rm -rf "$dir"
}
trap end EXIT

# Bytes that are no text are kept as hex.
seeds() { # NAME CORPUS
	local hex
	[ -d "tests/data/$1" ] && cp -r "tests/data/$1/." "$2"
	for hex in "$2"/*.hex; do
		[ -f "$hex" ] || continue
		# shellcheck disable=SC2059
		printf "$(tr -d '\n' <"$hex" | sed 's/../\\x&/g')" >"${hex%.hex}"
		rm "$hex"
	done
	case $1 in
	trace*) "$build/tests/trace_make" 40 | head -c 5000 >"$2/cut" ;;
	esac
}

fuzz() {
	local target=$1 seconds=$2 corpus status
	local name=${target#fuzz_}
	corpus=$(mktemp -d)
	seeds "$name" "$corpus"
	"$build/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
		-error_exitcode=1 -timeout_exitcode=1 \
		-artifact_prefix="$corpus/" -print_final_stats=0 -verbosity=0 "$corpus"
	status=$?
	[ $status -eq 0 ] || for artifact in "$corpus"/crash-* "$corpus"/oom-* "$corpus"/timeout-*; do
		[ -f "$artifact" ] && base64 "$artifact"
	done
	rm -rf "$corpus"
	return $status
}
live_fuzz() {
	PNMEMD=$build/asan/pnmemd "$build/tests/live_fuzz" "$long_s"
}

ended() { # OUTPUT STATUS
	cat "$dir/$1"
	return "$2"
}

fuzz fuzz_serve "$long_s" >"$dir/serve" 2>&1 &
serve=$!
live_fuzz >"$dir/live" 2>&1 &
live=$!
for source in tests/fuzz/fuzz_*.c; do
	target=$(basename "$source" .c)
	[ "$target" = fuzz_serve ] || check "$target" fuzz "$target" "${FUZZ_SECONDS:-5}"
done
wait $serve # here: check runs its command in a shell of its own
check "fuzz_serve" ended serve $?
wait $live
check "a running agent" ended live $?
tap_end
