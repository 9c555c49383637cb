#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# table.sh <OUTPUT: what each kernel gave, as a table in Markdown, from the lines of kernels.sh: what
# passed cases name (a rung that brought its level, a hook that told of events), "none" if they name
# none of it, "-" for a boot that was not tried.
set -euo pipefail

awk '
function put(key, value) {
	if (!(key in cell) || value == "failed")
		cell[key] = value
}
$3 == "-" && $5 ~ /:$/ {
	kernel = $4; boot = $5; sub(/:$/, "", boot)
	if (!(kernel in known)) { known[kernel] = 1; kernels[++n] = kernel }
	good = $1 == "ok"
	text = $0; sub(/^[^:]*: /, "", text)
	if (!good) { put(kernel "|" boot "|case", "failed"); next }
	put(kernel "|" boot "|case", "yes")
	if (!match(text, /\(.*\)$/)) next
	m = split(substr(text, RSTART + 1, RLENGTH - 2), parts, "; ")
	for (i = 1; i <= m; i++) {
		name = parts[i]; sub(/: .*/, "", name)
		put(kernel "|" boot "|" name, "yes")
	}
}
function row(title, boot, names,    i, j, m, list, line, key, value) {
	line = "| " title " |"
	for (i = 1; i <= n; i++) {
		value = ""
		m = split(names, list, ",")
		for (j = 1; j <= m; j++) {
			key = kernels[i] "|" boot "|" list[j]
			if (key in cell) {
				sub(/^cgroup events by /, "", list[j])
				value = value (value ? ", " : "") list[j]
			}
		}
		key = kernels[i] "|" boot "|case"
		if ((key in cell) && cell[key] == "failed")
			value = value (value ? "; " : "") "a case failed"
		line = line " " (value ? value : (key in cell ? "none" : "-")) " |"
	}
	print line
}
END {
	stalls = "fentry,kprobe,tracepoint,trigger,poll"
	events = "cgroup events by fentry,cgroup events by kprobe,cgroup events by poll"
	line = "| boot |"; rule = "|---|"
	for (i = 1; i <= n; i++) { line = line " " kernels[i] " |"; rule = rule "---|" }
	print line; print rule
	row("plain, stalls", "plain", stalls)
	row("plain, cgroup events", "plain", events)
	row("plain, out of memory", "exhausted", "whole machine")
	row("`lockdown=integrity`", "integrity", stalls)
	row("`lockdown=confidentiality`", "confidentiality", stalls)
	row("`psi=0`", "psi=0", stalls)
	row("no memory cgroups", "no-cgroup", stalls)
}
'
