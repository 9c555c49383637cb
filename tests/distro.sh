#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The two commands on other distributions: tools/deps.sh finds the packages of newer Debians, where
# the compilers give no warning and the unit tests pass. Where there is no apt-get it names the
# packages as Fedora and Arch do.
set -u
. tests/tap.sh
. tests/expect.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

skip() { # REASON
	echo "# skip: other Debians: $1"
	return 77
}

# Runs COMMAND in the tree's copy in the chroot ROOT. Mounts and processes end with it.
inside() { # ROOT COMMAND
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" &&
			mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
			cd "$1" && exec chroot . bash -c "cd /pnmem && $2"' inside "$1" "$2"
}

builds_and_passes() { # SUITE
	local root=$dir/$1 chroot
	[ "$(id -u)" -eq 0 ] || skip "needs root" || return
	command -v mmdebstrap >/dev/null || skip "no mmdebstrap" || return
	chroot=$(tools/fetch-chroot "$1" 2>"$dir/why") || skip "$(head -n 1 "$dir/why")" || return
	mkdir -p "$root/pnmem" && tar -xf "$chroot" -C "$root" --exclude='./dev/*' &&
		git ls-files -z | tar -c --null -T - | tar -x -C "$root/pnmem" || return
	inside "$root" 'set -e
		gcc --version | head -n 1; clang --version | head -n 1
		tools/deps.sh test
		make -j2 WERROR=1 all unit-tests build/fuzz/fuzz_meminfo
		tests/run build/tests/unit/test_*' >"$dir/out" 2>&1
	local status=$?
	rm -rf "$root"
	[ $status -eq 0 ] || { grep -E -A 5 'error|warning|not ok' "$dir/out"; tail -n 20 "$dir/out"; }
	return $status
}

# A folder of programs without apt-get, and with the package manager of another distribution.
without_apt_get() { # NAME: its script is stdin
	local tool
	rm -rf "$dir/bin"
	mkdir "$dir/bin"
	for tool in bash env id; do
		ln -s "$(command -v $tool)" "$dir/bin/$tool"
	done
	cat >"$dir/bin/$1" && chmod +x "$dir/bin/$1"
}
names_fedora() {
	without_apt_get rpm <<-'END' || return
		#!/usr/bin/env bash
		[ "$3" != libbpf-devel ] && [ "$3" != compiler-rt ]
	END
	PATH=$dir/bin expect_status 0 tools/deps.sh test &&
		complains '^missing packages, install them by: dnf install libbpf-devel compiler-rt$'
}
names_arch() {
	without_apt_get pacman <<-'END' || return
		#!/usr/bin/env bash
		[ "$1" = -T ] && printf '%s\n' cmocka libmicrohttpd && exit 127
	END
	PATH=$dir/bin expect_status 0 tools/deps.sh test &&
		complains '^missing packages, install them by: pacman -S --needed cmocka libmicrohttpd$'
}
says_nothing_when_all_are_there() {
	without_apt_get pacman <<-'END' || return
		#!/usr/bin/env bash
		exit 0
	END
	PATH=$dir/bin expect_status 0 tools/deps.sh test optional vm && [ ! -s "$dir/err" ]
}
names_both() {
	without_apt_get none <<<"" || return
	PATH=$dir/bin expect_status 0 tools/deps.sh && complains 'by Fedora: gcc' &&
		complains 'by Arch: gcc'
}

for suite in trixie sid; do
	check "Debian $suite builds without a warning and passes the unit tests" \
		builds_and_passes "$suite"
done
check "Fedora: missing packages are named and the build goes on" names_fedora
check "Arch: missing packages are named and the build goes on" names_arch
check "nothing is said when no package is missing" says_nothing_when_all_are_there
check "another distribution: the packages are named by both names" names_both
tap_end
