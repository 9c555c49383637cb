#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the Debian packages that building and testing need and that are missing. Says what it
# does; does nothing, quickly, when all are there. Without root it names them and goes on.
# Arguments: test (the tests), vm (other kernels under qemu).
set -eu
export DEBIAN_FRONTEND=noninteractive

packages=(gcc make clang bpftool libbpf-dev libelf-dev zlib1g-dev libsystemd-dev libseccomp-dev
	libjansson-dev libcmocka-dev pkg-config)
browser=()
for what in "$@"; do
	case $what in
	test)
		packages+=(g++ libclang-rt-14-dev libmicrohttpd-dev procps)
		browser=(chromium fonts-dejavu-core)
		;;
	vm) packages+=(qemu-system-x86 busybox-static cpio xz-utils e2fsprogs) ;;
	esac
done

install_missing() { # PACKAGE...
	local package missing=()
	for package in "$@"; do
		dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || missing+=("$package")
	done
	[ ${#missing[@]} -ne 0 ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		echo "missing packages, run as root or install them: ${missing[*]}" >&2
		return 0
	fi
	echo "installing: ${missing[*]}"
	apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
		{ apt-get update -q >/dev/null &&
			apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; }
}

install_missing "${packages[@]}"
[ ${#browser[@]} -ne 0 ] || exit 0
# What single tests need, which are skipped where it cannot be had.
install_missing "${browser[@]}" || echo "without a browser" >&2
"${0%/*}/fetch-libsystemd" --cached >/dev/null 2>&1 || "${0%/*}/fetch-libsystemd" >/dev/null || true
