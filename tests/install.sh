#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# make install: what it puts where, and that an engine builds against it and runs.
set -u
. tests/tap.sh
build=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

install_all() {
	local file
	make --no-print-directory install B="$build" DESTDIR="$dir" PREFIX=/usr >"$dir/log" 2>&1 || {
		cat "$dir/log"
		return 1
	}
	for file in bin/pnmem sbin/pnmemd lib/libpnmem.so.0 lib/libpnmem.so lib/libpnmem.a \
		lib/pkgconfig/pnmem.pc lib/systemd/system/pnmemd.service include/pnmem/pn_memwatch.h \
		share/man/man1/pnmem.1 share/man/man5/pnmem-trace.5 share/man/man8/pnmemd.8 \
		share/man/man7/pnmem-{protocol,integration,figures,kernels,security}.7; do
		[ -e "$dir/usr/$file" ] || { echo "no $file"; return 1; }
	done
	[ ! -e "$dir/usr/include/pnmem/pn_event.h" ] && ! grep -rI '@[A-Z]*@' "$dir/usr/lib"
}
cat >"$dir/engine.c" <<'C'
#include <pn_memwatch.h>
int main(void)
{
	pn_mem_state state;

	return pn_memwatch_start() || pn_memwatch_read(&state) || !state.host_total_bytes;
}
C
engine() { # extra flags for pkg-config
	local flags
	flags=$(PKG_CONFIG_PATH=$dir/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dir \
		pkg-config --cflags --libs "$@" pnmem) || return 1
	# shellcheck disable=SC2086
	gcc -Wall -Wextra -Werror "$dir/engine.c" $flags -o "$dir/engine" &&
		PN_SOCKET=/nonexistent LD_LIBRARY_PATH=$dir/usr/lib "$dir/engine"
}
static_engine() {
	rm "$dir/usr/lib"/libpnmem.so*
	engine --static
}
man_pages() {
	command -v man >/dev/null || { echo "# skip: man pages: no man(1)"; return 77; }
	local page said bad=0
	for page in tools/man/*; do
		said=$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 "$page" 2>&1 >/dev/null)
		[ -z "$said" ] || { echo "$page: $said"; bad=1; }
	done
	return $bad
}
# systemd's own checker, on the file as installed; without its program it would complain of that.
unit_file() {
	command -v systemd-analyze >/dev/null || { echo "# skip: unit file: no systemd-analyze"; return 77; }
	sed "s|/usr/sbin|$dir/usr/sbin|" "$dir/usr/lib/systemd/system/pnmemd.service" >"$dir/pnmemd.service"
	systemd-analyze verify --man=no "$dir/pnmemd.service" >"$dir/out" 2>&1 || { cat "$dir/out"; return 1; }
	! grep pnmemd "$dir/out" # only warnings of the machine's other units
}

make_help() {
	make help >"$dir/out" && for target in run check bench install bundle clean; do
		grep -qE "^(sudo )?make $target " "$dir/out" || { echo "no $target"; return 1; }
	done
}
# Each source once, as JSON that an editor can read. Fuzzers are compiled from several sources at once.
compile_commands() {
	command -v python3 >/dev/null || { echo "# skip: compile_commands.json: no python3"; return 77; }
	git ls-files '*.c' '*.bpf.c' | grep -vE '^tests/(fuzz/|cuda/prototypes)' | sort >"$dir/sources"
	make -s compile_commands.json B="$dir/b" || return
	python3 -c 'import json; print(*sorted(e["file"] for e in json.load(open("compile_commands.json"))),
			sep="\n")' >"$dir/listed" && rm compile_commands.json || return
	diff -u "$dir/sources" "$dir/listed"
}
# The picture has its colours in attributes: viewers without style sheets show them too.
picture() {
	! grep -nE 'var\(|<style|class=|style=' tools/spike.svg || return
	command -v rsvg-convert >/dev/null || { echo "# skip: the picture: no rsvg-convert"; return 77; }
	rsvg-convert tools/spike.svg -o "$dir/spike.png" &&
		"$build/tests/png_check" "$dir/spike.png" ffffff 1c2128 0969da cf222e 2da44e
}

check "make install puts everything in its place" install_all
check "an engine builds with pkg-config and runs on the shared library" engine
check "and on the static one" static_engine
check "systemd finds nothing wrong in the unit" unit_file
check "man pages format without a warning" man_pages
check "make help names the targets" make_help
check "make compile_commands.json lists every source once" compile_commands
check "the picture carries its colours in attributes" picture
tap_end
