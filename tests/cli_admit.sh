#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pnmem admit, asked of snapshots in files: every verdict with its numbers and exit status, in text
# and JSON, a model file of its own making, and files that are no snapshot. Expected figures are
# worked out by hand from pn_admission.h: on 16 GiB the reserve is 15 %, 2576980377 bytes; 1024
# tokens with f32 KV are 41943040 bytes of KV and 1101004800 of activations.
set -u
. tests/tap.sh
. tests/expect.sh
pnmem=${BUILD:-build}/pnmem
states=tests/data/state
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for name in $(env | grep -o '^PN_[A-Z_]*'); do unset "$name"; done

# ask STATUS ARGUMENT...: leaves $dir/out and $dir/err.
ask() {
	local want=$1 status
	shift
	"$pnmem" admit "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	[ $status -eq "$want" ] && return
	echo "pnmem admit $*: exit $status, not $want"
	cat "$dir/out" "$dir/err"
	return 1
}
complains_alone() {
	[ ! -s "$dir/out" ] && grep -qF -- "$1" "$dir/err" && [ "$(wc -l <"$dir/err")" -eq 1 ] && return
	echo "not the one line on stderr, with: $1"
	cat "$dir/out" "$dir/err"
	return 1
}
# json STATUS STATE ARGUMENT... -- TEXT...: an object alone on stdout, silence on stderr, one die's
# or the only verdict with these members.
json() {
	local status=$1 state=$2 arguments=()
	shift 2
	while [ "$1" != -- ]; do
		arguments+=("$1")
		shift
	done
	shift
	ask "$status" "${arguments[@]}" --json --state "$state" && says -F "$@" && [ ! -s "$dir/err" ] &&
		[ "$(head -n 1 "$dir/out")" = "{" ] && [ "$(tail -n 1 "$dir/out")" = "}" ]
}

# ---- a model file: two layers of one 64-wide KV head, 3 tensors of 64 x 1024 f32 ----------------
le() { # VALUE BYTES
	local v=$1 i
	for ((i = 0; i < $2; i++)); do
		printf '%b' "\\x$(printf %02x $((v >> 8 * i & 255)))"
	done
}
string() { le ${#1} 8 && printf %s "$1"; }
key_u32() { string "$1" && le 4 4 && le "$2" 4; }
tensor() { string "$1" && le 2 4 && le 64 8 && le 1024 8 && le 0 4 && le "$2" 8; }
gguf() { # FILE CONTEXT, 0 for a file that does not tell
	{
		printf GGUF && le 3 4 && le 3 8 && le $((4 + ($2 > 0))) 8
		string general.architecture && le 8 4 && string llama
		key_u32 llama.block_count 2
		key_u32 llama.embedding_length 64
		key_u32 llama.attention.head_count 1
		[ "$2" -gt 0 ] && key_u32 llama.context_length "$2"
		tensor token_embd.weight 0
		tensor blk.0.attn_q.weight 262144
		tensor blk.1.attn_q.weight 524288
	} >"$1"
	truncate -s $(($(stat -c %s "$1") + 1048576)) "$1"
}
gguf "$dir/model.gguf" 1000
gguf "$dir/no-context.gguf" 0

# ---- request ------------------------------------------------------------------------------------
request_admit() {
	json 0 $states/ok.json request --tokens 1024 -- '"question": "request"' '"verdict": "admit"' \
		'"check": "none"' '"need_bytes": 1142947840' '"have_bytes": 10307921511' \
		'"reserve_bytes": 2576980377' '"kv_bytes": 41943040' '"activation_bytes": 1101004800' \
		'"psi_full_pct": 0.0' '"psi_limit_pct": 15.0' '"fit_tokens": 1024' '"level": 0' \
		'"level_name": "OK"' '"die_id": null'
}
request_q4() {
	json 0 $states/ok.json request --tokens 1024 --kv q4 -- '"kv": "q4"' '"kv_bytes": 6039552' \
		'"need_bytes": 1107044352'
}
request_cap() {
	json 3 $states/tight.json request --tokens 1024 -- '"verdict": "cap"' '"check": "host"' \
		'"have_bytes": 423019623' '"fit_tokens": 378' '"level_name": "TIGHT"'
}
request_reject() {
	sed 's/"host_avail_bytes": .*/"host_avail_bytes": 2700000000,/' $states/tight.json >"$dir/s"
	json 4 "$dir/s" request --tokens 1024 -- '"verdict": "reject"' '"check": "host"' \
		'"have_bytes": 123019623' '"fit_tokens": 0' '"retry_after_ms": 1000'
}
request_stall() { # live 30 %, file 12.5 %; 10 s * ln(30 / 15)
	json 4 $states/stall.json request --tokens 1 -- '"check": "psi_full"' '"psi_full_pct": 30.0' \
		'"retry_after_ms": 6932' '"level": 3' && ! grep -q need_bytes "$dir/out"
}
request_window() {
	json 3 $states/ok.json request --tokens 1024 --max-window 512 -- '"check": "window"' \
		'"fit_tokens": 512' '"max_window": 512' '"need_bytes": 571473920'
}
request_gpu() {
	json 0 $states/tight.json request --tokens 100000 --gpu-resident -- '"need_bytes": 0' \
		'"fit_tokens": 100000'
}
request_die() { # 2147483648 free of die 1, the scarcest; 2048 tokens need 2419064832
	json 3 $states/two-dies.json request --tokens 2048 --die 1 -- '"check": "die"' '"die_id": 1' \
		'"have_bytes": 2147483648' '"reserve_bytes": 0'
}
request_cgroup() {
	json 3 $states/cgroup.json request --tokens 1024 -- '"check": "cgroup"' \
		'"have_bytes": 429496730' '"reserve_bytes": 644245094' '"fit_tokens": 384' || return
	PN_CGROUP_LEVEL=0 json 0 $states/cgroup.json request --tokens 1024 -- '"check": "none"'
}
reserved_by_others() { # 10737418240 above the reserve, 6442450944 and 2147483648 free of the dies
	sed 's/"n_dies": 2,/&\n"host_reserved_bytes": 10000000000, "die_reserved_bytes": [0, 2000000000],/' \
		$states/two-dies.json >"$dir/s"
	json 4 "$dir/s" spike -- '"check": "host"' '"have_bytes": 307921511' \
		'"reserve_bytes": 2576980377' '"claimed_bytes": 10000000000' &&
		json 4 "$dir/s" load-die --weights 1 --kv-bytes 1 --die 1 -- '"check": "die"' \
			'"have_bytes": 147483648' '"claimed_bytes": 2000000000' &&
		json 4 "$dir/s" load --weights 4M --ctx 1 --die 1 -- '"have_bytes": 0' &&
		json 0 "$dir/s" load --weights 4M --ctx 1 --die 0 -- '"claimed_bytes": 0' &&
		ask 4 spike --state "$dir/s" &&
		says -F 'claimed   9.3 GiB (10000000000 bytes) by others, taken off as well'
}
request_lut() {
	json 0 $states/ok.json request --tokens 1024 --lut 1:1K,2:2K,3:3K,4:4K,5:5K,1024:1M -- \
		'"activation_bytes": 1048576'
}
request_huge() { # what cannot be counted is the largest number, and no small one
	json 4 $states/ok.json request --tokens 2147483647 \
		--lut 1:1T,2:2T,3:3T,4:4T,5:5T,6:9T -- '"need_bytes": 9223372036854775807'
}
request_text() {
	ask 3 request --tokens 1024 --state $states/tight.json || return
	says -F 'asked     request, 1024 tokens, f32 KV' 'level     TIGHT' 'verdict   cap (host)' \
		'needs     1.1 GiB (1142947840 bytes): kv 40.0 MiB + activation 1.0 GiB' \
		'has       403.4 MiB (423019623 bytes), host' 'reserve   2.4 GiB (2576980377 bytes)' \
		'PSI full  0.00 %, limit 15.00 %' 'fits      378 tokens' 'reason    the host has room' ||
		return
	ask 4 request --tokens 1024 --state $states/stall.json &&
		says -F 'verdict   reject (psi_full)' 'PSI full  30.00 %, limit 15.00 %' 'retry     in 6.9 s'
}
check "request: admitted, with all its numbers" request_admit
check "request: Q4 KV costs less" request_q4
check "request: capped at the window that fits the host" request_cap
check "request: rejected, with a retry hint" request_reject
check "request: a stall, the live one, rejects before bytes are compared" request_stall
check "request: capped at --max-window" request_window
check "request: on a GPU it costs the host nothing" request_gpu
check "request: the die can be the scarcest" request_die
check "request: the cgroup can be the scarcest, unless PN_CGROUP_LEVEL=0" request_cgroup
check "request: --lut replaces the activation table" request_lut
check "what others have reserved is not there" reserved_by_others
check "request: a cost beyond counting stays large" request_huge
check "request: the text has every number with name and unit" request_text

# ---- load, load-die, spike ----------------------------------------------------------------------
load_admit() {
	json 0 $states/two-dies.json load --weights 2G --ctx 4096 -- '"need_bytes": 3925868544' \
		'"have_bytes": 5368709120' '"reserve_bytes": 1073741824' '"weights_bytes": 2147483648' \
		'"kv_bytes": 167772160' '"activation_bytes": 1610612736' '"die_id": 0' \
		'"fit_tokens": 4096'
}
load_context() { # (5368709120 - 2147483648 - 1610612736) / 40960
	json 4 $states/two-dies.json load --weights 2G --ctx 65536 -- '"check": "die"' \
		'"need_bytes": 6442450944' '"fit_tokens": 39321' 'the weights fit' || return
	json 0 $states/two-dies.json load --weights 2G --ctx 39321 -- '"verdict": "admit"' || return
	json 4 $states/two-dies.json load --weights 2G --ctx 39322 -- '"fit_tokens": 39321'
}
load_kv() {
	json 0 $states/two-dies.json load --weights 2G --ctx 65536 --kv f16 -- \
		'"kv_bytes": 1342177280' || return
	json 0 $states/two-dies.json load --weights 2G --ctx 65536 --kv q8 -- \
		'"kv_bytes": 713031680' || return
	json 0 $states/two-dies.json load --weights 2G --ctx 65536 --kv q4 -- '"kv_bytes": 386531328'
}
load_die_1() {
	json 4 $states/two-dies.json load --weights 2G --ctx 4096 --die 1 -- '"die_id": 1' \
		'"have_bytes": 1073741824' '"fit_tokens": 0' '"retry_after_ms": 1000' || return
	json 4 $states/two-dies.json load --weights 20G --ctx 4096 -- '"retry_after_ms": 0' || return
	json 0 $states/two-dies.json load --weights 700M --ctx 100 --activation 64M --die 1 -- \
		'"need_bytes": 805208064'
}
load_no_die() {
	json 4 $states/ok.json load --weights 1 --ctx 1 -- '"check": "no_die"' '"die_id": null' &&
		! grep -q need_bytes "$dir/out"
}
load_gguf() { # 1024, 512, 272 and 144 bytes of KV a token
	local kv=(f32 1024000 f16 512000 q8 272000 q4 144000) i
	for ((i = 0; i < 8; i += 2)); do
		json 0 $states/two-dies.json load --gguf "$dir/model.gguf" --kv "${kv[i]}" -- \
			'"arch": "llama"' '"weights_bytes": 786432' "\"kv_bytes\": ${kv[i + 1]}" \
			'"n_tokens": 1000' '"fit_tokens": 1000' || return
	done
	# 5368709120 - 786432 - 1610612736 bytes are left for KV
	json 4 $states/two-dies.json load --gguf "$dir/model.gguf" --ctx 4000000 -- \
		'"fit_tokens": 3669248' 'the weights fit' || return
	ask 0 load --gguf "$dir/model.gguf" --state $states/two-dies.json &&
		says -F 'asked     load, model llama, 1000 tokens, f32 KV' 'weights 768.0 KiB + kv'
}
load_gguf_bad() {
	ask 2 load --gguf "$dir/no-context.gguf" --state $states/two-dies.json &&
		complains_alone '--ctx N is needed' || return
	json 0 $states/two-dies.json load --gguf "$dir/no-context.gguf" --ctx 10 -- \
		'"kv_bytes": 10240' || return
	head -c 60 "$dir/model.gguf" >"$dir/cut.gguf"
	ask 1 load --gguf "$dir/cut.gguf" --state $states/two-dies.json &&
		complains_alone "no model in $dir/cut.gguf: " || return
	ask 1 load-die --split --gguf "$dir/none.gguf" --state $states/two-dies.json &&
		complains_alone 'No such file'
}
slice() {
	json 0 $states/two-dies.json load-die --weights 2G --kv-bytes 1G -- \
		'"need_bytes": 4831838208' '"have_bytes": 6442450944' '"reserve_bytes": 0' \
		'"kv_bytes": 1073741824' '"scratch_bytes": 1610612736' || return
	json 4 $states/two-dies.json load-die --weights 2G --kv-bytes 1G --die 1 -- \
		'"check": "die"' '"die_id": 1' '"have_bytes": 2147483648' || return
	json 4 $states/two-dies.json load-die --weights 2G --kv-bytes 1G --die 2 -- \
		'"check": "no_die"'
}
sum_of() { grep -oE "\"$1\": [0-9]+" "$dir/out" | awk '{ sum += $2 } END { print sum }'; }
split() {
	sed 's/"per_die_free": .*/"per_die_free": [4294967296, 4294967296],/' $states/two-dies.json \
		>"$dir/even"
	json 0 "$dir/even" load-die --gguf "$dir/model.gguf" --split -- '"question": "load-die"' \
		'"dies": [' '"die_id": 0' '"die_id": 1' '"arch": "llama"' || return
	[ "$(sum_of weights_bytes)" = 786432 ] && [ "$(sum_of kv_bytes)" = 1024000 ] &&
		[ "$(sum_of n_layers)" = 2 ] || return
	json 4 "$dir/even" load-die --gguf "$dir/model.gguf" --split --ctx 6000000 -- \
		'"die_id": 0' '"die_id": 1' '"verdict": "reject"' '"check": "die"' || return
	ask 0 load-die --gguf "$dir/model.gguf" --split --state "$dir/even" &&
		says -F 'die 0     layers 0 to 0' 'die 1     layers 1 to 1' 'verdict   admit, of all dies'
}
split_no_room() {
	sed 's/"per_die_free": .*/"per_die_free": [1000, 0],/' $states/two-dies.json >"$dir/s"
	json 4 "$dir/s" load-die --gguf "$dir/model.gguf" --split -- '"have_bytes": 1000' \
		'"have_bytes": 0' || return
	sed 's/"per_die_budget": .*/"per_die_budget": [0, 11811160064],/' "$dir/even" >"$dir/s"
	json 0 "$dir/s" load-die --gguf "$dir/model.gguf" --split -- '"die_id": 1' &&
		! grep -q '"die_id": 0' "$dir/out" || return
	json 4 $states/ok.json load-die --gguf "$dir/model.gguf" --split -- '"check": "no_die"'
}
spike() {
	json 0 $states/ok.json spike -- '"need_bytes": 2576980377' '"have_bytes": 10307921511' ||
		return
	json 4 $states/tight.json spike -- '"check": "host"' '"retry_after_ms": 1000' || return
	json 4 $states/cgroup.json spike -- '"check": "cgroup"' '"have_bytes": 429496730' || return
	json 0 $states/tight.json spike --bytes 400M -- '"need_bytes": 419430400' || return
	PN_LOAD_SPIKE_BYTES=1K json 0 $states/tight.json spike -- '"need_bytes": 1024'
}
check "load: admitted, with all its numbers" load_admit
check "load: too long a context is refused with the one that fits" load_context
check "load: every KV type" load_kv
check "load: another die, one that can never hold it, other activations" load_die_1
check "load: no such die" load_no_die
check "load: the numbers of a model file, its context by default" load_gguf
check "load: a model file that cannot be used" load_gguf_bad
check "load-die: one slice" slice
check "load-die: a model split over all dies, nothing lost" split
check "load-die: a split without room, with an unknown die, without dies" split_no_room
check "spike: host, cgroup, --bytes and PN_LOAD_SPIKE_BYTES" spike

# ---- the snapshot -------------------------------------------------------------------------------
same() {
	ask 3 request --tokens 1024 --state $states/tight.json && cp "$dir/out" "$dir/first" &&
		ask 3 request --tokens 1024 --state $states/tight.json && cmp "$dir/out" "$dir/first"
}
round_trip() {
	local avail reserve
	PN_SOCKET=$dir/none "$pnmem" status --json >"$dir/live" 2>/dev/null || return
	avail=$(sed -n 's/.*"host_avail_bytes": \([0-9]*\).*/\1/p' "$dir/live")
	reserve=$(sed -n 's/.*"host_reserve_bytes": \([0-9]*\).*/\1/p' "$dir/live")
	PN_CGROUP_LEVEL=0 json 0 "$dir/live" spike --bytes 1 -- "\"reserve_bytes\": $reserve" \
		"\"have_bytes\": $((avail - reserve))"
}
live() {
	PN_SOCKET=$dir/none PN_LOAD_SPIKE_BYTES=1 PN_HOST_RESERVE_BYTES=1 PN_CGROUP_LEVEL=0 ask 0 spike &&
		says -F 'needs     1 B (1 bytes)' 'reserve   1 B (1 bytes)'
}
least() {
	echo '{"host_total_bytes": 17179869184, "host_avail_bytes": 12884901888, "new": [{}]}' >"$dir/s"
	json 0 "$dir/s" request --tokens 1024 -- '"have_bytes": 10307921511' '"level": 0'
}
bad_state() { # COMPLAINT, then a file's content, or FIELD=JSON to put into ok.json
	if [[ $2 == *=* ]]; then
		sed "s/\"${2%%=*}\": .*/\"${2%%=*}\": ${2#*=},/" $states/ok.json >"$dir/s"
	else
		printf %s "$2" >"$dir/s"
	fi
	ask 1 request --tokens 1 --state "$dir/s" && complains_alone "$1"
}
bad_states() {
	bad_state 'host_total_bytes is missing' '{}' &&
		bad_state 'host_avail_bytes is missing' '{"host_total_bytes": 5}' &&
		bad_state 'host_avail_bytes is more than' 'host_avail_bytes=17179869185' &&
		bad_state 'host_total_bytes is negative' 'host_total_bytes=-1' &&
		bad_state 'host_total_bytes is not a whole' 'host_total_bytes="16G"' &&
		bad_state 'host_total_bytes is not a whole' 'host_total_bytes=1e10' &&
		bad_state 'host_total_bytes is not a whole' 'host_total_bytes=null' &&
		bad_state 'no snapshot in' 'host_total_bytes=99999999999999999999' &&
		bad_state 'no snapshot in' 'host_psi_full_avg10=1e999' &&
		bad_state 'host_psi_full_avg10 is not a number from' 'host_psi_full_avg10=100.5' &&
		bad_state 'host_psi_full_avg10 is not a number from' 'host_psi_full_avg10=-0.5' &&
		bad_state 'live_psi_full_avg10 is not a number from' 'live_psi_full_avg10=true' &&
		bad_state 'level is too large' 'level=4' &&
		bad_state 'level_changes is too large' 'level_changes=4294967296' &&
		bad_state 'n_dies is too large' 'n_dies=17' &&
		bad_state 'per_die_free is not an array' 'n_dies=16' &&
		bad_state 'per_die_free is not an array' 'per_die_free={}' &&
		bad_state 'per_die_free is missing' \
			'{"host_total_bytes": 5, "host_avail_bytes": 5, "n_dies": 1}' &&
		bad_state 'per_die_budget has an entry' \
			'{"n_dies": 1, "per_die_free": [0], "per_die_budget": [-1]}' &&
		bad_state 'cgroup_headroom_bytes is missing' 'cgroup_limit_bytes=4096' &&
		bad_state 'duplicate' '{"host_total_bytes": 5, "host_total_bytes": 6}' &&
		bad_state 'no snapshot in' '' && bad_state 'no snapshot in' 'OK' &&
		bad_state 'no snapshot in' '{}{}' && bad_state 'host_total_bytes is missing' '[1, 2]'
}
no_state() {
	ask 1 spike --state "$dir/not-there" && complains_alone 'not-there' &&
		ask 1 spike --state "$dir" && complains_alone "no snapshot in $dir"
}
cut_state() { # a file cut anywhere is never a snapshot
	local bytes i
	bytes=$(grep -bo '}' $states/two-dies.json | tail -n 1 | cut -d: -f1)
	for ((i = 0; i <= bytes; i += 61)); do
		head -c $i $states/two-dies.json >"$dir/s"
		ask 1 spike --state "$dir/s" && complains_alone 'no snapshot in' || return
	done
}
check "the same file, the same answer" same
check "what status --json prints is read back" round_trip
check "without --state it is this host that is asked" live
check "two keys are enough, unknown ones are ignored" least
check "a file that is no snapshot is refused, with the key" bad_states
check "no file, and a folder" no_state
check "a file cut short is refused" cut_state

# ---- usage --------------------------------------------------------------------------------------
usage() { # COMPLAINT ARGUMENT...
	local text=$1
	shift
	ask 2 "$@" --state $states/ok.json && complains_alone "$text"
}
usages() {
	usage '--tokens N is needed' request && usage '--kv of a request' request --tokens 1 --kv q8 &&
		usage '--tokens -1' request --tokens -1 &&
		usage '--tokens 2147483648' request --tokens 2147483648 &&
		usage '--tokens 1x' request --tokens 1x && usage '--tokens :' request --tokens= &&
		usage '--die 16' request --tokens 1 --die 16 &&
		usage '--lut' request --tokens 1 --lut 1:2 &&
		usage '--weights BYTES or --gguf FILE' load --ctx 1 &&
		usage '--weights BYTES or --gguf FILE' load --weights 1 --gguf x &&
		usage '--ctx N' load --weights 1 && usage '--kv q5' load --weights 1 --ctx 1 --kv q5 &&
		usage '--weights 1.5G' load --weights 1.5G --ctx 1 &&
		usage '--weights -1' load --weights -1 --ctx 1 &&
		usage '--weights 1GB' load --weights 1GB --ctx 1 &&
		usage '--weights 16777216T' load --weights 16777216T --ctx 1 &&
		usage '--kv-bytes' load-die --weights 1 && usage '--split' load-die --gguf x &&
		usage 'no --die' load-die --gguf x --split --die 0 &&
		usage 'go with --split' load-die --weights 1 --kv-bytes 1 --ctx 1 &&
		usage '--bytes G' spike --bytes G && usage 'no such question: nope' nope
}
unknown_option() { # these are argp's own, with a hint on a second line
	ask 2 load --tokens 1 && grep -q "unrecognized option" "$dir/err" && [ ! -s "$dir/out" ] ||
		return
	ask 2 spike extra && grep -q "unexpected argument: extra" "$dir/err"
}
help() {
	local question
	ask 0 --help && says request load load-die spike --socket && ask 0 --version &&
		says -F "pnmem " || return
	for question in request load load-die spike; do
		ask 0 $question --help && says -F "Usage: pnmem admit $question" --state --json || return
	done
	ask 2 && grep -q '^Usage: pnmem admit' "$dir/err" && [ ! -s "$dir/out" ]
}
settings() { # a bad setting is told, and not used
	PN_LOAD_SPIKE_BYTES=much ask 0 spike --state $states/ok.json &&
		says -F '2576980377 bytes' && grep -q '^pnmem: PN_LOAD_SPIKE_BYTES=much' "$dir/err"
}
check "usage errors: one line and status 2" usages
check "an option of another question, an argument" unknown_option
check "--help" help
check "a setting that cannot be understood is told on stderr" settings
tap_end
