#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the Debian packages that building and testing need and that are missing. Says what it
# does; does nothing, quickly, when all are there. Without root it names them and goes on.
# Arguments: test (the tests), vm (other kernels under qemu).
set -eu

packages=(gcc make clang bpftool libbpf-dev libelf-dev zlib1g-dev libsystemd-dev libseccomp-dev
	libjansson-dev libcmocka-dev pkg-config)
for what in "$@"; do
	case $what in
	test) packages+=(g++ libclang-rt-14-dev libmicrohttpd-dev chromium fonts-dejavu-core) ;;
	vm) packages+=(qemu-system-x86 busybox-static cpio xz-utils e2fsprogs) ;;
	esac
done

# A newer library for one test, which does without where it cannot be had.
case " $* " in
*' test '*)
	"$(dirname "$0")/fetch-libsystemd" --cached >/dev/null 2>&1 ||
		"$(dirname "$0")/fetch-libsystemd" >/dev/null || true
	;;
esac

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
		missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "missing packages, run as root or install them: ${missing[*]}" >&2
	exit 0
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
	apt-get update -q >/dev/null
	apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null
}
