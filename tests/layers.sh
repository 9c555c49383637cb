#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The layers of the tree, read from its include lines: which room may include which, which library
# each may use, and no circle of more than three files. A room is a folder. A file is a .c together
# with the .h of the same name. Prints what it found.
set -u
. tests/tap.sh

# Who may include whom: a room or a file, then what it may include besides itself. A line holds for
# the rooms inside too, unless they have a line of their own.
layers='
bpf                include/pn_event.h
include
user/core          include
user/host          include user/core
user/lib           include user/core user/host
user/dies          include user/core user/host/clock.h
user/agent         include user/core user/host
user/cli           include
user/cli/trace     include user/cli user/core
user/cli/explain.c include user/cli user/core
tools              include tests/support
tools/engine       include
tools/gpu          include user/host user/dies
tools/bench        include user/core user/host user/lib user/agent/hooks user/agent/gpu tests/support tests/cuda
tests/cuda         user/host tools/gpu
tests/support      include user/core user/host user/agent tests
tests              include user tests
'
# Which headers of libraries: others than libc and the kernel have are for these files alone.
libraries='
bpf/        user/agent/hooks/ user/agent/gpu/cuda_hooks.c tests/host/
seccomp     user/agent/filter.c
systemd/    user/agent/ tests/host/ tests/fuzz/ tests/support/
jansson     user/cli/ tools/engine/ tools/bench/ tests/
argp        user/cli/ user/agent/main.c user/dies/main.c tools/ tests/
microhttpd  tools/engine/
cmocka      tests/unit/ tests/host/ tests/support/
zlib        tests/png_check.c
'

# "FROM TO", a line for each include of a file of this tree. As the compiler does, it looks for a
# name beside the file that includes it, and then in the folders of -I.
arrows() {
	local from name to
	git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs grep -HoE '^#include "[^"]+"' |
		sed -E 's/^([^:]+):#include "([^"]+)"/\1 \2/' |
		while read -r from name; do
			for to in "${from%/*}/$name" "include/$name" "user/$name" "tests/$name"; do
				[ -e "$to" ] && break
			done
			[ -e "$to" ] && echo "$from $(realpath --relative-to=. "$to")"
		done
}

# Reads arrows; prints each that the table does not have.
forbidden() {
	awk -v layers="$layers" '
	function within(file, room) { return file == room || index(file, room "/") == 1 }
	BEGIN {
		n = split(layers, lines, "\n")
		for (i = 1; i <= n; i++)
			if (split(lines[i], word, " "))
				rooms[word[1]] = lines[i]
	}
	{
		row = ""
		for (room in rooms)
			if (within($1, room) && length(room) > length(row))
				row = room
		count = split(rooms[row], may, " ")
		allowed = 0
		for (i = 1; i <= count; i++)
			allowed = allowed || within($2, may[i])
		if (!allowed)
			print
	}'
}

# Reads arrows; prints how many files the largest circle has, and which.
largest_circle() {
	awk '
	function name(path) { sub(/\.[ch]$/, "", path); return path }
	function least(a, b) { return a < b ? a : b }
	# Tarjan: files that reach each other come off the stack together.
	function visit(v,    i, n, next_file, w, circle, size) {
		low[v] = number[v] = ++visited
		stack[++top] = v
		on_stack[v] = 1
		n = split(to[v], next_file, " ")
		for (i = 1; i <= n; i++) {
			w = next_file[i]
			if (!(w in number)) {
				visit(w)
				low[v] = least(low[v], low[w])
			} else if (on_stack[w]) {
				low[v] = least(low[v], number[w])
			}
		}
		if (low[v] != number[v])
			return
		do {
			w = stack[top--]
			on_stack[w] = 0
			circle = circle " " w
			size++
		} while (w != v)
		if (size > largest) {
			largest = size
			members = circle
		}
	}
	{
		a = name($1)
		b = name($2)
		files[a]; files[b]
		if (a != b)
			to[a] = to[a] " " b
	}
	END {
		for (v in files)
			if (!(v in number))
				visit(v)
		print largest members
	}'
}

all_arrows=$(arrows)

no_forbidden_arrow() {
	local found
	found=$(forbidden <<<"$all_arrows")
	[ -z "$found" ] && return
	echo "tests/layers.sh does not allow:"
	echo "$found"
	return 1
}
no_large_circle() {
	local circle
	circle=$(largest_circle <<<"$all_arrows")
	[ "${circle%% *}" -le 3 ] && return
	echo "a circle of $circle"
	return 1
}
libraries_stay_in_place() {
	local header files allowed found failed=0
	while read -r header files; do
		[ -n "$header" ] || continue
		allowed=$(printf '|^%s' $files)
		found=$(git ls-files -co --exclude-standard -- 'user/*.[ch]' 'tools/*.[ch]' 'tests/*.[ch]' |
			xargs grep -lE "^#include <$header" | grep -vE "${allowed#|}")
		[ -z "$found" ] && continue
		echo "<$header...> is not for: $found"
		failed=1
	done <<<"$libraries"
	return $failed
}

echo "# $(cut -d' ' -f1 <<<"$all_arrows" | xargs -n1 dirname | sort -u | wc -l) rooms," \
	"$(wc -l <<<"$all_arrows") arrows, largest circle: $(largest_circle <<<"$all_arrows")"
check "every include is one that the table of layers has" no_forbidden_arrow
check "no circle of includes has more than three files" no_large_circle
check "each library is used where it belongs" libraries_stay_in_place
tap_end
