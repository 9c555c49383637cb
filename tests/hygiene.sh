#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The tree's own rules: what the library exports and needs, that the public headers stand alone in
# strict C and in C++, and what the manual tells. Who may include whom is in tests/layers.sh.
set -u
. tests/tap.sh
build=${BUILD:-build}

only_dies_calls_cuda() {
	! grep -rnE '\b(dlopen|dlsym|cu[A-Z][A-Za-z0-9_]*) ?\(|#include "dies/' user include --include='*.[ch]' |
		grep -v '^user/dies/'
}
core_is_pure() {
	! grep -nE '(^|[^>._a-z])(malloc|calloc|realloc|free|clock_gettime|getenv|open|read|write|printf)\(' \
		user/core/*.c
}

library_symbols() {
	! nm -D --defined-only "$build/libpnmem.so" | grep -vE ' (A|T|D|R|B) (pn_|bs_|PNMEM_)' &&
		! nm -D --undefined-only "$build/libpnmem.so" | grep -E ' (bpf_|cu[A-Z])' &&
		! nm --extern-only --defined-only "$build/libpnmem.a" |
			grep -E ' [A-Z] ' | grep -vE ' (pn_|bs_)'
}
library_needs_libc_only() {
	! readelf -d "$build/libpnmem.so" | grep NEEDED | grep -vE 'lib(c|m|pthread)\.so|ld-linux'
}

headers_in_c11() {
	local header
	for header in include/pn_*.h; do
		echo "#include \"$header\"" |
			gcc -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -I. -x c -fsyntax-only - ||
			return 1
	done
}
headers_in_cxx() {
	local header
	command -v g++ >/dev/null || {
		echo "# skip: headers in C++: no g++"
		return 77
	}
	for header in include/pn_*.h; do
		[ "$header" = include/pn_event.h ] && continue # not installed, kernel side
		echo "#include \"$header\"" |
			g++ -std=c++11 -pedantic -Wall -Wextra -Werror -Iinclude -I. -x c++ \
				-fsyntax-only - || return 1
	done
}
top_level() {
	! git ls-files | awk -F/ '{print $1}' | sort -u |
		grep -vxE '\..*|bpf|user|include|tests|tools|Makefile|README\.md|LICENSE'
}
# Each by its number and name.
manual_tells_of_every_message() {
	local name number
	sed -n '/^enum proto_type/,/^}/s/.*PROTO_\([A-Z_]*\) = \([0-9]*\),.*/\1 \2/p' user/core/proto.h |
		while read -r name number; do
			grep -qE "(B |fB)$number $name( |\\\\|$)" tools/man/pnmem-protocol.7 || {
				echo "# pnmem-protocol(7) does not tell of $number $name"
				return 1
			}
		done
}
# clang-format moves the end of a comment that is too long for its line to the next one.
comments_end_on_their_line() {
	! git ls-files '*.[ch]' | xargs awk 'FNR > 1 && /^[\t ]*\*\/$/ && open { print FILENAME ":" FNR }
		{ open = /^[\t ]*\/\* / && !/\*\// }' | grep .
}
scripts_parse() {
	local script
	for script in $(git ls-files | xargs grep -lE '^#!/usr/bin/env bash' --); do
		bash -n "$script" || return 1
	done
}

check "only dies opens libraries and calls CUDA" only_dies_calls_cuda
check "core does no I/O, no malloc, reads no clock" core_is_pure
check "libpnmem exports pn_ and bs_ only, and needs neither libbpf nor libcuda" library_symbols
check "libpnmem needs libc only" library_needs_libc_only
check "public headers compile as strict C11" headers_in_c11
check "public headers compile as C++" headers_in_cxx
check "the top level holds what it may" top_level
check "the manual tells of every message" manual_tells_of_every_message
check "one-line comments end on their line" comments_end_on_their_line
check "every script parses" scripts_parse
tap_end
