#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What is shipped is built to stop an attack that got a foot in: read from the files themselves.
set -u
. tests/tap.sh
build=${BUILD:-build}
programs=("$build/pnmemd" "$build/pnmem" "$build/pnmem-dies")
shipped=("${programs[@]}" "$build/libpnmem.so")

# Fails at the first FILE in which `readelf ARGS` prints no line that matches PATTERN.
each_shows() { # PATTERN ARGS FILE...
	local pattern=$1 args=$2 file
	shift 2
	for file in "$@"; do
		# shellcheck disable=SC2086
		readelf -W $args "$file" 2>/dev/null | grep -qE "$pattern" || {
			echo "$file: no /$pattern/ in readelf $args"
			return 1
		}
	done
}

relocations_are_read_only() {
	each_shows '^ +GNU_RELRO ' -l "${shipped[@]}" && each_shows 'BIND_NOW|FLAGS.* NOW' -d "${shipped[@]}"
}
programs_are_position_independent() {
	each_shows 'Type: +DYN' -h "${programs[@]}" && each_shows '^ +INTERP ' -l "${programs[@]}" &&
		each_shows 'FLAGS_1.* PIE' -d "${programs[@]}"
}
stack_is_not_executable() {
	each_shows '^ +GNU_STACK .* RW +0x' -l "${shipped[@]}"
}
stack_is_protected() { each_shows '__stack_chk_fail' --dyn-syms "${shipped[@]}"; }
libc_calls_are_checked() { each_shows '__(mem|str|sn?printf|vsn?printf|read|pread|fprintf|printf)[a-z_0-9]*_chk' --dyn-syms "${shipped[@]}"; }
# The linker notes it in a program only if the C library's own start files have the note: Debian's do
# not, so the instructions are counted.
branches_are_protected() {
	local landing note start file
	case $(uname -m) in
	x86_64) landing=endbr64 note='IBT, SHSTK' ;;
	aarch64) landing='paciasp|bti' note='BTI, PAC' ;;
	*)
		echo "# skip: protected branches: none on $(uname -m)"
		return 77
		;;
	esac
	for file in "${shipped[@]}"; do
		[ "$(objdump -d "$file" | grep -cE "$landing")" -ge 20 ] || {
			echo "$file: hardly any $landing"
			return 1
		}
	done
	start=$(gcc -print-file-name=Scrt1.o)
	! readelf -Wn "$start" | grep -q "$note" || each_shows "$note" -n "${shipped[@]}"
}
library_stays_loaded() { each_shows 'FLAGS_1.* NODELETE' -d "$build/libpnmem.so"; }

check "the loader resolves all symbols at start and makes their table read-only" relocations_are_read_only
check "programs are position independent" programs_are_position_independent
check "the stack is not executable" stack_is_not_executable
check "functions check their stack's guard" stack_is_protected
check "the C library checks the sizes of buffers" libc_calls_are_checked
check "the processor checks where branches and returns go" branches_are_protected
check "the library stays in memory after a dlclose" library_stays_loaded
tap_end
