#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The sampler's and the stand-in driver's side of the CUDA interface: what the one needs, what the
# other exports, and, where the toolkit is installed, whether both have its prototypes.
set -u
. tests/tap.sh
build=${BUILD:-build}

# The entry points of a real driver that pnmem knows: those it calls and those it puts uprobes on;
# and the one by which its check asks for them, as a CUDA runtime does.
known='cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid
cuDeviceGetUuid_v2 cuDeviceGetPCIBusId cuDeviceTotalMem_v2 cuDeviceGetAttribute
cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxSetFlags_v2
cuDevicePrimaryCtxGetState cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuMemGetInfo_v2 cuGetErrorName
cuGetErrorString
cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemAllocManaged cuMemFree_v2 cuMemCreate cuMemRelease cuMemUnmap
cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync cuMemAllocAsync_ptsz
cuMemAllocFromPoolAsync_ptsz cuMemFreeAsync_ptsz cuMemPoolTrimTo cuMemPoolDestroy cuMemHostAlloc
cuMemAllocHost_v2 cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister cuCtxCreate_v2
cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuGetProcAddress'

stand_in_exports() {
	diff <(tr ' ' '\n' <<<"$known" | sort) \
		<(nm -D --defined-only "$build/tests/libcuda.so.1" | awk '{print $3}' | sort)
}
stand_in_name() {
	readelf -d "$build/tests/libcuda.so.1" | grep -q 'SONAME.*\[libcuda\.so\.1\]'
}
sampler_needs_libc_only() {
	! readelf -d "$build/pnmem-dies" | grep NEEDED | grep -vE 'libc\.so|ld-linux' &&
		! nm -D --undefined-only "$build/pnmem-dies" | grep -E ' cu[A-Z]'
}

prototypes() {
	local folder version
	for folder in "${CUDA_HOME:-/nowhere}/include" /usr/local/cuda*/include /usr/include; do
		[ -f "$folder/cuda.h" ] || continue
		version=$(awk '/^#define CUDA_VERSION/ {print $3}' "$folder/cuda.h")
		[ "$version" -ge 12050 ] || continue # has no cuCtxCreate_v4
		${CC:-gcc} -std=gnu11 -Wall -fsyntax-only -I"$folder" -Iuser -Itests/cuda \
			tests/cuda/prototypes.c || return 1
		return 0
	done
	echo "# skip: prototypes: no cuda.h of CUDA 12.5 or later on this machine"
	return 77
}

# A CUDA program and the script, from a shell: every step is seen, and failures are told.
load_on_the_stand_in() {
	local dir got pci=0000:3f:00.0 gib=$((1 << 30)) status=0
	# 12 GiB less 768 MiB of the driver's own and 74 MiB of context.
	local free=$(((12288 - 768 - 74) << 20))
	dir=$(mktemp -d)
	export FAKE_CUDA=$dir/script
	fake() { "$build/tests/fake-cuda" "$FAKE_CUDA" "$@"; }
	load() { "$build/tools/gpu-probe" load "$build/tests/libcuda.so.1" "$pci" 1024; }
	fake create 2
	got=$(load <<<'++-' | cut -d' ' -f3-)
	diff - <(echo "$got") <<-EOF || status=1
		0 $free $((12 * gib))
		$gib $((free - gib)) $((12 * gib))
		$((2 * gib)) $((free - 2 * gib)) $((12 * gib))
		$gib $((free - gib)) $((12 * gib))
	EOF
	fake set 0 other 11G
	load <<<'+' >/dev/null 2>"$dir/err" && status=1
	grep -q 'CUresult 2$' "$dir/err" || status=1
	fake set 0 other 0
	fake fail cuMemAlloc_v2 999 0 1
	load <<<'+' >/dev/null 2>"$dir/err" && status=1
	grep -q 'cuMemAlloc: CUresult 999$' "$dir/err" || status=1
	load <<<'+' >/dev/null || status=1
	[ "$(fake calls cuMemAlloc_v2)" -eq 5 ] || status=1
	fake set 0 mode 2 && load </dev/null 2>"$dir/err" && status=1
	grep -q 'cuDevicePrimaryCtxRetain: CUresult 46$' "$dir/err" || status=1
	fake set 9999 mode 2 2>/dev/null && status=1
	rm -r "$dir"
	return $status
}

check "the stand-in exports what a driver is asked for, and nothing else" stand_in_exports
check "the stand-in has the driver's name" stand_in_name
check "pnmem-dies needs libc only, and links nothing of CUDA" sampler_needs_libc_only
check "a CUDA program on the stand-in, scripted from a shell" load_on_the_stand_in
check "prototypes are those of cuda.h" prototypes
tap_end
