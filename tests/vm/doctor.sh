#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# doctor.sh STATUS PATTERN...: pnmem doctor, beside an agent, exits so, has a line like each pattern,
# and says what to do about whatever is not well. TAP. Inside a virtual machine (cases.sh).
export PN_SOCKET=/tmp/doctor.sock PN_TRACE_DIR=/tmp/traces
n=0
bad=0

tell() { # NAME COMMAND...
	name=$1
	shift
	n=$((n + 1))
	if "$@"; then
		echo "ok $n - $name"
	else
		bad=1
		echo "not ok $n - $name"
	fi
}

each_has_a_fix() {
	awk '/^ *fix: ./ { open = 0; next }
		open { bad = 1 }
		{ open = /^(degraded|missing)/ }
		END { exit bad || open }' /tmp/doctor.out
}

build/pnmemd --foreground >/tmp/doctor.log 2>&1 &
agent=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	grep -q 'serving on' /tmp/doctor.log && break
	sleep 1
done
# At once, or a moment later where the machine is too busy to answer in time.
for _ in 1 2 3; do
	build/pnmem doctor >/tmp/doctor.out
	status=$?
	grep -q 'nobody answers' /tmp/doctor.out || break
	sleep 1
done
kill $agent
wait $agent

tell "exit status $status" [ $status -eq "$1" ]
shift
for pattern; do
	tell "$pattern" grep -qE "$pattern" /tmp/doctor.out
done
tell 'each has a fix' each_has_a_fix
echo "1..$n"
[ $bad -eq 0 ] || sed 's/^/# /' /tmp/doctor.out /tmp/doctor.log
exit $bad
