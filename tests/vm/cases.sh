#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# cases.sh VARIANT: what kernels.sh runs inside a virtual machine that was booted in this way. The
# programs (tools/bundle) and doctor.sh are in /pnmem. Each case is framed for kernels.sh by
# "@case NAME" and "@end STATUS SECONDS"; what lies between is TAP. "@variant NAME": what follows is
# as if booted so.
export CMOCKA_MESSAGE_OUTPUT=TAP
export PN_HOST_RESERVE_BYTES=4K # or a machine this small would be CRITICAL from the start
# khugepaged compacts, and stalls for up to 200 ms in that: pressure that no test made.
echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/defrag
mkdir -p /work && cd /work && ln -sfn /pnmem build || exit 1

run() {
	echo "@case $1"
	shift
	start_s=$(cut -d. -f1 /proc/uptime)
	env "$@"
	echo "@end $? $(($(cut -d. -f1 /proc/uptime) - start_s))"
}

# Which rungs there have to be; others are tried and may be refused.
rungs() {
	run "$1" PN_TEST_RUNGS="$2" build/test_rungs
}

# Not of a kernel's doing, and slow in here: what opening again and again leaks, and idle records.
hooks() {
	for tests in every_program bad_btf 'stalls_*' some_clock 'memcg_events_*' oom_kill; do
		PN_TEST_FILTER="test_$tests" build/test_hooks || return
	done
}

[ "$1" = hooks ] && { hooks; exit; }

echo "@kernel $(uname -r)"
case $1 in
exhausted)
	export PN_TEST_WHOLE_MACHINE=1
	run 'out of memory, and the whole fall back' PN_TEST_FILTER=test_machine_out_of_memory \
		build/test_exhaustion
	case $(uname -r) in
	6.1.* | 6.12.*) run 'one group over memory.high' build/test_group_wake ;;
	esac
	case $(uname -r) in
	# On 5.10 the victim of the other test does not stall for long enough.
	5.10.*) run 'stalls at limits of others' PN_TEST_FILTER=test_raise build/test_group_stalls ;;
	6.12.*) run 'stalls at limits of others' build/test_group_stalls ;;
	esac
	run 'direct reclaim' PN_TEST_FILTER=test_direct_reclaim build/test_tracepoints
	;;
plain)
	run 'doctor' build/doctor.sh 0 '^ok +psi ' '^ok +layout +unified' '^ok +agent .*fentry'
	run 'hooks' "$0" hooks
	run 'hooks one by one' build/test_tracepoints
	run 'cgroup events by poll' build/test_memcg_events
	run 'agent' build/test_agent
	run 'sealed pages' build/test_seal
	case $(uname -r) in
	6.12.*)
		run 'views' build/test_views # of cgroup v2, which is the same on all
		run 'descriptors that users send' build/test_descriptors_sent
		run 'clients beside 100 groups at limits' build/test_many_limits
		;;
	esac
	rungs 'each rung' 'fentry kprobe tracepoint trigger poll'
	export PNMEM_BTF=/nonexistent
	rungs 'no BTF' 'trigger poll'
	;;
integrity)
	run 'hooks or why not' PN_TEST_FILTER=test_every_program build/test_hooks
	run 'best rung' PN_TEST_RUNGS=fentry PN_TEST_FILTER=test_fentry build/test_rungs
	run 'doctor' build/doctor.sh 0 '^ok +lockdown +integrity' '^ok +agent .*fentry'
	echo confidentiality >/sys/kernel/security/lockdown
	grep -q '\[confidentiality\]' /sys/kernel/security/lockdown || exit 1
	echo '@variant confidentiality'
	run 'hooks or why not' PN_TEST_FILTER=test_every_program build/test_hooks
	rungs 'rungs' 'trigger poll'
	run 'doctor' build/doctor.sh 1 'lockdown +confidentiality' '^degraded +agent .*trigger'
	;;
psi=0)
	run 'doctor' build/doctor.sh 1 '^degraded +psi .*estimates' '^ok +agent .*fentry'
	rungs 'rungs, some estimated' 'fentry kprobe'
	;;
no-cgroup)
	umount /sys/fs/cgroup
	run 'doctor' build/doctor.sh 1 '^degraded +layout' '^ok +agent .*fentry'
	run 'hooks or why not' PN_TEST_FILTER=test_every_program build/test_hooks
	export PN_TEST_WHOLE_MACHINE=1
	# Before it has been short of memory: the line is set by pressure as it is.
	run 'best rung' PN_TEST_RUNGS=fentry PN_TEST_FILTER=test_fentry build/test_rungs
	run 'kswapd' PN_TEST_FILTER=test_kswapd_wake build/test_tracepoints
	;;
esac
