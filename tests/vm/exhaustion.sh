#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exhaustion.sh [SUITE] [ROUNDS]: the whole machine out of memory, in figures: from the reserve line
# and from the first stall to an engine awake, beside a 250 ms poll, a PSI trigger and earlyoom, in
# one boot of Debian's kernel of SUITE (trixie); before that, one group over its memory.high beside
# the bare chain. The machine's clock counts instructions (tools/vm/run -c), which takes about 10 s a round.
#
# earlyoom is unpacked and not installed: its package would start it here, where it kills.
set -euo pipefail
build=${BUILD:-build}
suite=${1:-trixie}
rounds=${2:-24}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download earlyoom >&2 && dpkg-deb -x earlyoom_*.deb earlyoom) ||
	echo "# without earlyoom, which could not be fetched"
tools/bundle "$work/pnmem" "$build/pnmemd" "$build"/tests/host/test_{exhaustion,group_wake} \
	$(ls "$work/earlyoom/usr/bin/earlyoom" 2>/dev/null)
cat >"$work/figures.sh" <<END
#!/bin/sh
mkdir -p /work && cd /work && ln -sfn /pnmem build || exit 1
export CMOCKA_MESSAGE_OUTPUT=TAP PN_TEST_WHOLE_MACHINE=1
# First, because it begins at level OK.
PN_GROUP_ROUNDS=$rounds build/test_group_wake
PN_EXHAUSTION_ROUNDS=$rounds PN_TEST_FILTER=test_figures build/test_exhaustion
END
chmod +x "$work/figures.sh"
PN_VM_TIMEOUT_S=${PN_VM_TIMEOUT_S:-3600} tools/vm/run "$suite" -c -d "$work/pnmem" "$work/figures.sh"
