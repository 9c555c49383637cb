#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel matrix: Debian's cloud kernels, each booted in several ways under qemu (tools/vm/run)
# with the portable bundle (tools/bundle) and the host tests in it; cases.sh says what runs in which.
# One line for each kernel and case. A machine is emulated by one thread, and waits for timers and
# decay a good part of the time: as many at a time as there are CPUs, and one more.
#
# A boot in which a case fails is repeated, alone, and what it said the first time is printed as a
# comment: an emulated CPU can stand still for longer than a case allows. Two may need that, no more.
#
# A kernel that cannot be had is a skip with its reason, unless none can be.
#   PN_KERNELS   suites, "bullseye bookworm trixie sid"
#   PN_VARIANTS  ways to boot, "exhausted plain no-cgroup psi=0 integrity"; exhausted is a plain boot
#                too: it runs out of memory, and then waits for pressure to decay; integrity is
#                raised to confidentiality at its end
set -u
build=${BUILD:-build}
read -ra suites <<<"${PN_KERNELS:-bullseye bookworm trixie sid}"
read -ra variants <<<"${PN_VARIANTS:-exhausted plain no-cgroup psi=0 integrity}"
declare -A kernel_args=(
	[exhausted]= [plain]= [integrity]=lockdown=integrity [psi=0]=psi=0
	[no-cgroup]=cgroup_disable=memory
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
failed_lines=0
repeats_left=2

line() { # ok|not-ok NAME
	if [ -n "${first_boot:-}" ]; then
		[ "$1" = ok ] || echo "# in the first boot: not ok - $2"
		return
	fi
	n=$((n + 1))
	[ "$1" = ok ] || failed_lines=1
	echo "${1/-/ } $n - $2"
}

# Once more if it did not get as far as the first case: an emulated boot can crash by itself.
boot() { # SUITE VARIANT
	boot_once "$@"
	local status=$?
	[ "$status" -eq 0 ] || grep -q '^@kernel' "$work/$1-$2.out" || {
		boot_once "$@"
		status=$?
	}
	echo "$status" >"$work/$1-$2.status"
}

boot_once() { # SUITE VARIANT
	PN_VM_TIMEOUT_S=${PN_VM_TIMEOUT_S:-400} tools/vm/run "$1" -k "${kernel_args[$2]}" -d "$work/pnmem" \
		tests/vm/cases.sh "$2" >"$work/$1-$2.out" 2>"$work/$1-$2.err"
}

# A case's TAP in one line: what failed in it, or what passed and which rungs it got.
report_case() { # SUITE-VARIANT CASE STATUS TAP
	local name="$1: $2" passed failed skipped figures
	passed=$(grep -c '^ok ' "$4")
	skipped=$(grep -cE '^(not )?ok .*# ?SKIP' "$4")
	failed=$(grep -E '^not ok ' "$4" | grep -cvE '# ?SKIP')
	figures=$(sed -n 's/^# rung: //p' "$4" | sed 's/ after / /' | paste -sd';' | sed 's/;/; /g')
	if [ "$failed" -eq 0 ] && [ "$3" -eq 0 ] && [ "$passed" -gt 0 ]; then
		line ok "$name: $passed passed, $skipped not here${figures:+ ($figures)}"
	else
		line not-ok "$name (status $3)"
		sed 's/^/#   /' "$4" | tail -n 40
	fi
}

report_boot() { # SUITE VARIANT
	local out=$work/$1-$2.out name= release=$1 variant=$2 status seconds
	while IFS= read -r text; do
		text=${text%$'\r'}
		case $text in
		@kernel\ *) release=$(cut -d. -f1,2 <<<"${text#@kernel }") ;;
		@variant\ *) variant=${text#@variant } ;;
		@case\ *) name=${text#@case } && : >"$work/case" ;;
		@end\ *)
			read -r status seconds <<<"${text#@end }"
			report_case "$release $variant" "$name, ${seconds} s" "$status" "$work/case"
			name=
			;;
		*) echo "$text" >>"$work/case" ;;
		esac
	done <"$out"
	status=$(<"$work/$1-$2.status")
	if [ "$status" -ne 0 ] || [ -n "$name" ]; then
		line not-ok "$release $variant: the machine ended (status $status)${name:+ in: $name}"
		tail -n 20 "$work/$1-$2.err" | sed 's/^/#   /'
	fi
}

has_failed() { # SUITE VARIANT
	[ "$(<"$work/$1-$2.status")" -ne 0 ] || grep -qE '^@end [^0]' "$work/$1-$2.out"
}

tools/bundle "$work/pnmem" "$build/pnmemd" "$build/pnmem" "$build"/tests/host/test_* || exit 1
cp tests/vm/doctor.sh "$work/pnmem"

had=()
for suite in "${suites[@]}"; do
	if tools/vm/fetch-kernel "$suite" >"$work/fetch" 2>&1; then
		had+=("$suite")
	else
		n=$((n + 1))
		echo "ok $n - $suite # SKIP"
		echo "# skip: kernel of $suite: $(tail -n 1 "$work/fetch")"
	fi
done
if [ ${#had[@]} -eq 0 ]; then
	line not-ok "not one kernel could be had"
	echo "1..$n"
	exit 1
fi

# A kernel's ways together: those that wait go beside those that compute.
for suite in "${had[@]}"; do
	for variant in "${variants[@]}"; do
		while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do
			wait -n
		done
		boot "$suite" "$variant" &
	done
done
wait
for suite in "${had[@]}"; do
	for variant in "${variants[@]}"; do
		if has_failed "$suite" "$variant" && ((repeats_left-- > 0)); then
			first_boot=1 report_boot "$suite" "$variant"
			boot "$suite" "$variant"
		fi
		report_boot "$suite" "$variant"
	done
done
echo "1..$n"
echo "# $SECONDS s in all"
exit $failed_lines
