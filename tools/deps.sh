#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the Debian packages that the build and the tests need and that are missing. It says what
# it installs. When nothing is missing it does nothing, quickly. Without root, and where there is no
# apt-get, it names what is missing and the build goes on with what is there.
# Arguments: test (for the tests), optional (for single tests, which are skipped without), vm (for
# the tests of other kernels under qemu).
set -eu
export DEBIAN_FRONTEND=noninteractive

# What is needed, as Debian, Fedora and Arch name it.
debian=(gcc make clang bpftool libbpf-dev libelf-dev zlib1g-dev libsystemd-dev libseccomp-dev
	libjansson-dev libcmocka-dev pkg-config)
fedora=(gcc make clang bpftool libbpf-devel elfutils-libelf-devel zlib-devel systemd-devel
	libseccomp-devel jansson-devel libcmocka-devel pkgconf-pkg-config)
arch=(gcc make clang bpf libbpf libelf zlib systemd-libs libseccomp jansson cmocka pkgconf)
optional=()
runtime=
for what in "$@"; do
	case $what in
	test)
		debian+=(g++ libmicrohttpd-dev procps)
		fedora+=(gcc-c++ compiler-rt libasan libubsan libtsan libmicrohttpd-devel procps-ng)
		arch+=(compiler-rt libmicrohttpd procps-ng)
		runtime=yes
		;;
	optional)
		optional=(chromium fonts-dejavu-core librsvg2-bin mmdebstrap)
		fedora+=(chromium dejavu-sans-fonts librsvg2-tools)
		arch+=(chromium ttf-dejavu librsvg)
		;;
	vm)
		debian+=(qemu-system-x86 busybox-static cpio xz-utils e2fsprogs)
		fedora+=(qemu-system-x86-core busybox cpio xz e2fsprogs)
		arch+=(qemu-system-x86 busybox cpio xz e2fsprogs)
		;;
	esac
done

name_missing() { # COMMAND PACKAGE...
	[ $# -eq 1 ] || echo "missing packages, install them by: $*" >&2
}

has() { command -v "$1" >/dev/null; }

name_for_others() {
	local package missing=()
	if has rpm; then
		for package in "${fedora[@]}"; do
			rpm -q --whatprovides "$package" >/dev/null 2>&1 || missing+=("$package")
		done
		name_missing "dnf install" "${missing[@]}"
	elif has pacman; then
		mapfile -t missing < <(pacman -T "${arch[@]}")
		name_missing "pacman -S --needed" "${missing[@]}"
	else
		echo "no apt-get here; what the build needs is named" >&2
		echo "  by Fedora: ${fedora[*]}" >&2
		echo "  by Arch: ${arch[*]}" >&2
	fi
}

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

has apt-get || { name_for_others; exit 0; }
install_missing "${debian[@]}"
# The sanitizers' runtime of the clang that is installed now: each Debian has another version.
if [ -n "$runtime" ] && has clang; then
	version=$(clang -dumpversion)
	install_missing "libclang-rt-${version%%.*}-dev"
fi
[ ${#optional[@]} -ne 0 ] || exit 0
for package in "${optional[@]}"; do
	install_missing "$package" || echo "without $package" >&2
done
"${0%/*}/fetch-libsystemd" --cached >/dev/null 2>&1 || "${0%/*}/fetch-libsystemd" >/dev/null || true
