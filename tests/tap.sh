# SPDX-License-Identifier: BSD-2-Clause
# TAP for shell tests: source this, call `check NAME COMMAND...` for each test, end with tap_end.
# A command passes with status 0 and is skipped with 77 after printing "# skip: reason".
tap_n=0
tap_failed=0

check() {
	local name=$1 output status
	shift
	tap_n=$((tap_n + 1))
	output=$("$@" 2>&1)
	status=$?
	case $status in
	0) echo "ok $tap_n - $name" ;;
	77)
		echo "ok $tap_n - $name # SKIP"
		grep '^# skip: ' <<<"$output" || echo "# skip: $name: no reason given"
		;;
	*)
		tap_failed=1
		echo "not ok $tap_n - $name"
		sed 's/^/# /' <<<"$output" | tail -n 40
		;;
	esac
}

tap_end() {
	echo "1..$tap_n"
	exit $tap_failed
}
