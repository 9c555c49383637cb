#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Each fuzz target for a few seconds: FUZZ_SECONDS, 5 by default. Seeds are tests/data/TARGET, if
# there is such a folder; what libFuzzer finds stays in a temporary one.
set -u
. tests/tap.sh
build=${BUILD:-build}

fuzz() {
	local target=$1 corpus status
	local name=${target#fuzz_}
	corpus=$(mktemp -d)
	[ -d "tests/data/$name" ] && cp -r "tests/data/$name/." "$corpus"
	"$build/fuzz/$target" -max_total_time="${FUZZ_SECONDS:-5}" -timeout=10 -rss_limit_mb=1024 \
		-error_exitcode=1 -timeout_exitcode=1 \
		-artifact_prefix="$corpus/" -print_final_stats=0 -verbosity=0 "$corpus"
	status=$?
	[ $status -eq 0 ] || for artifact in "$corpus"/crash-* "$corpus"/oom-* "$corpus"/timeout-*; do
		[ -f "$artifact" ] && base64 "$artifact"
	done
	rm -rf "$corpus"
	return $status
}

for source in tests/fuzz/fuzz_*.c; do
	target=$(basename "$source" .c)
	check "$target" fuzz "$target"
done
tap_end
