#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The sampler's and the stand-in driver's side of the CUDA interface: what the one needs, what the
# other exports, and, where the toolkit is installed, whether both have its prototypes.
set -u
. tests/tap.sh
build=${BUILD:-build}

# The entry points of a real driver that pnmem knows: those it calls and those it puts uprobes on.
known='cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid
cuDeviceGetUuid_v2 cuDeviceGetPCIBusId cuDeviceTotalMem_v2 cuDeviceGetAttribute
cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxSetFlags_v2
cuDevicePrimaryCtxGetState cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuMemGetInfo_v2 cuGetErrorName
cuGetErrorString
cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemAllocManaged cuMemFree_v2 cuMemCreate cuMemRelease cuMemUnmap
cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync cuMemAllocAsync_ptsz
cuMemAllocFromPoolAsync_ptsz cuMemFreeAsync_ptsz cuMemPoolTrimTo cuMemPoolDestroy cuMemHostAlloc
cuMemAllocHost_v2 cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister cuCtxCreate_v2
cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2'

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

check "the stand-in exports what a driver is asked for, and nothing else" stand_in_exports
check "the stand-in has the driver's name" stand_in_name
check "pnmem-dies needs libc only, and links nothing of CUDA" sampler_needs_libc_only
check "prototypes are those of cuda.h" prototypes
tap_end
