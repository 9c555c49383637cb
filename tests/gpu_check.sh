#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/gpu-check, rehearsed whole on the stand-in driver, from the bundle that it ships in: what
# agrees, what it has to catch, and what it says where a step is not possible.
set -u
. tests/tap.sh
. tests/expect.sh
build=${BUILD:-build}
dir=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill $pid 2>/dev/null; rm -rf "$dir"' EXIT
chmod 755 "$dir"

# machine NAME LIBRARY DIES: a folder with a stand-in driver of so many dies under that name, and an
# nvidia-smi that reads the same script.
machine() {
	local at=$dir/$1
	mkdir -p "$at/bin"
	cp "$build/tests/libcuda.so.1" "$at/$2"
	"$build/tests/fake-cuda" "$at/script" create "$3"
	cat >"$at/bin/nvidia-smi" <<-END
		#!/bin/sh
		show() { "$PWD/$build/tests/fake-cuda" "$at/script" show; }
		case \$1 in
		--query-gpu=uuid,pci.bus_id,name,memory.total) show | cut -d, -f1-4 ;;
		--query-gpu=pci.bus_id,memory.used) show | cut -d, -f2,5 | sed 's/^ //' ;;
		*) exit 2 ;;
		esac
	END
	chmod 755 "$at/bin/nvidia-smi"
}
fake() { "$build/tests/fake-cuda" "$dir/$1/script" "${@:2}"; }
# gpu_check NAME LIBRARY [PREFIX...]: on that machine, without a library on the one that the loader
# finds; its words go to NAME/out, its status to NAME/status.
gpu_check() {
	local at=$dir/$1 options=()
	[ -z "$2" ] || options=(--cuda-lib "$at/$2")
	shift 2
	FAKE_CUDA=$at/script PATH=$at/bin:$PATH "$@" "$dir/bundle/${program:-gpu-check}" \
		"${options[@]}" \
		>"$at/out" 2>&1
	echo $? >"$at/status"
}
# ended NAME STATUS LINE...: its exit status, and patterns of lines that are among its output
ended() {
	local at=$dir/$1 status=0
	[ "$(cat "$at/status")" -eq "$2" ] || { echo "exit status $(cat "$at/status")"; status=1; }
	shift 2
	says_in "$at/out" "$@" || status=1
	[ "$status" -eq 0 ] || grep -v '^  *|' "$at/out"
	return $status
}

needs_probes() {
	grep -q '^not here *uprobes' "$dir/well/out" || return 1
	echo "# skip: gpu-check: no uprobes here: $(sed -n 's/^not here *uprobes *//p' "$dir/well/out")"
}

bundle_is_whole() {
	make -s B="$build" BUNDLE="$dir/bundle" bundle &&
		! ldd_missing "$dir"/bundle/lib/bin/*
}
# Every library that a program of the bundle needs is in it.
ldd_missing() {
	readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u |
		while read -r name; do [ -e "$dir/bundle/lib/$name" ] || echo "$name"; done | grep .
}

all_agrees() {
	needs_probes && return 77
	ended well 0 '^agrees *sampler *pnmem-dies: pid' '^agrees *dies *2, as nvidia-smi says' \
		'^agrees *die *0000:3e:00.0: UUID, name, 12288 MiB' \
		'^agrees *die *0000:3f:00.0: UUID, name, 12288 MiB' \
		'^agrees *uprobes .* 26 probes|^agrees *uprobes *libcuda: [2-9] files' \
		'^agrees *symbols *26 calls are where the uprobes are, 0 are not' \
		'^agrees *context *74 MiB says the sampler, 74 MiB a second one' \
		'^agrees *context *74 MiB says nvidia-smi' \
		'^measured latency *cuMemGetInfo: p50 [0-9.]+ us.*n = 20000' \
		'  held 5 GiB: published 6326 MiB, expected 6326, cuMemGetInfo 6252, after [0-9]+ us' \
		'^agrees *steps *211 calls of 1 GiB' '^measured published *p50 [0-9]+ us, p99 [0-9]+' \
		'^agrees *fired *the uprobes saw [0-9]+ calls, the program made 211' \
		'^agrees *end' '^11 agree, 0 differ, 0 not possible here'
}
# nvidia-smi knows another UUID for one die, and one more die.
other_dies_are_caught() {
	ended wrong 1 '^DIFFERS *dies *1, nvidia-smi has 2' \
		'^DIFFERS *die *0000:3f:00.0: UUID 01020304.*10, nvidia-smi says ff020304' \
		'^DIFFERS *die *0000:aa:00.0: nvidia-smi has it, pnmem has not'
}
# The driver gives engines functions that nobody probes.
unseen_calls_are_caught() {
	needs_probes && return 77
	ended wrong 1 '^DIFFERS *symbols' '^ *cuMemAlloc_v2 differs ([0-9a-f]+) \1 [0-9a-f]+$' \
		'^ *cuMemFree_v2 differs' '^DIFFERS *steps *4 of [0-9]+ calls were not published' \
		'^DIFFERS *fired *the uprobes saw [0-9]+ calls, the program made [0-9]+'
}
without_rights() {
	ended unprivileged 0 '^not here *uprobes *libcuda: calls are not seen \(Operation not permitted' \
		'^agrees *symbols *26' '^agrees *context *74 MiB says the sampler' \
		'^agrees *steps *3 calls .* by the slow pass, every 5 s' '^agrees *end' \
		'^[0-9]+ agree, 0 differ, 1 not possible here'
}
exclusive_die() {
	ended exclusive 0 '^not here *die *0000:3f:00.0: unsupported: exclusive compute mode' \
		'^not here *memory *no die may be sampled'
}
# nvidia-smi has no number for what is in use: that one comparison is left out, and no other.
no_number() {
	ended nonumber 0 '^agrees *context *74 MiB says the sampler' \
		'^not here *context *nvidia-smi is not here to compare with, or has no number' \
		'^measured latency' '^agrees *steps *3 calls' '^agrees *end' \
		'^[0-9]+ agree, 0 differ, 2 not possible here'
}
# A figure that nothing keeps out of an expression: the steps after it are missed.
unfinished() {
	ended unfinished 1 '^DIFFERS *gpu-check *an error of its own' '^[0-9]+ agree, 1 differ' &&
		! grep -q '^agrees *end' "$dir/unfinished/out"
}
# Two GPUs, one of them divided by MIG: CUDA shows an instance of that one.
mig_instance() {
	ended mig 0 '^not here *dies *1, nvidia-smi has 2: a process sees one MIG instance' \
		'^not here *die *0000:3f:00.0: divided by MIG' \
		'^not here *die *0000:aa:00.0: CUDA does not show it' \
		'^not here *memory *no die may be sampled'
}
# The host's memory has no size in nvidia-smi, and steps on it would be anybody's.
integrated_die() {
	ended integrated 0 '^agrees *dies *1' \
		"^not here *die *0000:3f:00.0: its memory is the host's.*not a size of its own" \
		'^not here *memory *no die may be sampled'
}
# CUDA works, by LD_LIBRARY_PATH, and the kernel's side of a driver is not where the agent looks.
undetected_driver() {
	[ ! -e /proc/driver/nvidia/version ] || {
		echo "# skip: gpu-check: there is a GPU driver here"
		return 77
	}
	ended undetected 1 '^DIFFERS *driver *CUDA works here and the agent sees no driver' \
		'^agrees *sampler *pnmem-dies: pid .*libcuda.so.1' '^agrees *dies *1'
}
no_driver() {
	local out
	out=$(FAKE_CUDA=/nonexistent "$dir/bundle/gpu-check" --cuda-lib "$dir/well/libcuda.so.1")
	[ $? -eq 2 ] && [[ $out == *'no CUDA here, nothing to check'* ]] || { echo "$out"; false; }
	"$dir/bundle/gpu-check" --no-such-option 2>/dev/null
	[ $? -eq 2 ]
}

rehearse() {
	machine well libcuda.so.1 2
	machine wrong libcuda.so.1 1
	fake wrong private 1
	sed -i 's/ show; }$/ show | sed "s|GPU-01|GPU-ff|p;s|00:3F|00:AA|"; }/' \
		"$dir/wrong/bin/nvidia-smi"
	# Under a name that no other agent takes for libcuda; without uprobes it waits for slow passes.
	machine unprivileged driver.so 1
	machine exclusive driver.so 1
	fake exclusive set 0 mode 3
	machine nonumber driver.so 1
	sed -i 's/| sed .* ;;/| sed "s,^ ,,;s|, .*|, [N\/A]|" ;;/' "$dir/nonumber/bin/nvidia-smi"
	machine unfinished driver.so 1
	cp "$dir/nonumber/bin/nvidia-smi" "$dir/unfinished/bin/"
	sed 's/^is_number() .*/is_number() { true; }/' "$dir/bundle/gpu-check" >"$dir/bundle/trusting"
	chmod 755 "$dir/bundle/trusting"
	machine mig driver.so 1
	fake mig set 0 mig 1
	sed -i 's/ show; }$/ show | sed "p;s|00:3F|00:AA|"; }/' "$dir/mig/bin/nvidia-smi"
	machine integrated driver.so 1
	fake integrated set 0 integrated 1
	sed -i 's/cut -d, -f1-4/cut -d, -f1-3 | sed "s|$|, [N\/A]|"/' "$dir/integrated/bin/nvidia-smi"
	machine undetected libcuda.so.1 1
	fake undetected set 0 mode 3
	setpriv=''
	[ "$(id -u)" -ne 0 ] || setpriv='setpriv --bounding-set=-all --inh-caps=-all'
	gpu_check unprivileged driver.so $setpriv &
	pid=$!
	gpu_check nonumber driver.so $setpriv &
	pid+=" $!"
	gpu_check exclusive driver.so $setpriv
	gpu_check mig driver.so $setpriv
	gpu_check integrated driver.so $setpriv
	program=trusting gpu_check unfinished driver.so $setpriv
	LD_LIBRARY_PATH=$dir/undetected gpu_check undetected '' $setpriv
	gpu_check well libcuda.so.1
	gpu_check wrong libcuda.so.1
	wait $pid
	pid=
}

check "the bundle holds what it needs" bundle_is_whole
rehearse
check "everything agrees on a machine as it should be" all_agrees
check "other dies than nvidia-smi's are caught" other_dies_are_caught
check "calls that no uprobe sees are caught" unseen_calls_are_caught
check "without rights: uprobes are not possible, the rest is checked" without_rights
check "a die that must not be sampled is left alone" exclusive_die
check "a number that nvidia-smi does not have is left out, and nothing else" no_number
check "what ended before its last step does not agree" unfinished
check "one instance of a GPU that MIG divides is no difference" mig_instance
check "a die with the host's memory is no difference" integrated_die
check "a driver that the agent does not see is caught" undetected_driver
check "without a driver nothing is checked, and it says so" no_driver
tap_end
