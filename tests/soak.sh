#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What make check runs shortened, at its whole length: an agent killed and restarted 1,000 times.
set -u
export PN_SOAK=1 TEST_TIMEOUT=7200
exec tests/run "${1:-build}/tests/host/test_restart"
