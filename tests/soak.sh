#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What make check runs shortened, at its whole length: the agent killed and restarted 1,000 times, and
# replaced 200 times, under engines. Some nine minutes.
set -u
export PN_SOAK=1 TEST_TIMEOUT=7200
build=${1:-build}
exec tests/run "$build/tests/host/test_restart" "$build/tests/host/test_replace"
