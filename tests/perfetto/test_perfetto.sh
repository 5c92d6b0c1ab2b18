#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_perfetto.sh - the Perfetto files. With arguments: checks those files. Without: those that test_sink_perfetto
# leaves (and the demo's, where it ran), each by check_pftrace.py and by protoc; then schemas/perfetto.proto against a
# trace that Chromium wrote. TRACE_PROCESSOR=path also has Perfetto's own reader load each file. Exit 77: a part was
# skipped.
set -u
cd "$(dirname "$0")/../.." || exit 4
O=${O:-build}
work=$(mktemp -d)
browser=
trap 'test -z "$browser" || kill "$browser" 2>/dev/null; rm -rf "$work"' EXIT
failed=0
skipped=
fail() { echo "FAIL $*"; failed=1; }
skip() { skipped="${skipped:+$skipped; }$*"; }

check_protoc() {
	command -v protoc >/dev/null || { skip "protoc is not installed (protobuf-compiler)"; return; }
	protoc --decode=perfetto.protos.Trace schemas/perfetto.proto <"$work/plain" >"$work/text" 2>"$work/log" ||
		fail "$1: protoc: $(cat "$work/log")"
	# protoc prints a field that is not in the schema by its number
	! grep -qE '^ *[0-9]+(:| \{)' "$work/text" || fail "$1: fields outside schemas/perfetto.proto"
	grep -q 'type: TYPE_SLICE_BEGIN' "$work/text" || fail "$1: protoc sees no slice"
}

check_trace_processor() {
	test -n "${TRACE_PROCESSOR:-}" || return 0
	echo "select name, value from stats where severity in ('error', 'data_loss') and value > 0;" >"$work/q.sql"
	"$TRACE_PROCESSOR" -q "$work/q.sql" "$1" >"$work/tp" 2>"$work/log" ||
		fail "$1: trace_processor: $(tail -1 "$work/log")"
	errors=$(grep -cE '^"[a-z_]+",[0-9]' "$work/tp")
	test "$errors" = 0 || fail "$1: trace_processor reports: $(cat "$work/tp")"
}

check_file() {
	python3 tools/check_pftrace.py --inflate "$work/plain" $2 "$1" || fail "$1"
	check_protoc "$1"
	check_trace_processor "$1"
}

check_own() {
	test -x "$O/tests/test_sink_perfetto" ||
		{ skip "$O/tests/test_sink_perfetto is not built (make unit)"; return; }
	PFTRACE_OUT=$work/own "$O/tests/test_sink_perfetto" >"$work/log" 2>&1 ||
		fail "test_sink_perfetto: $(cat "$work/log")"
	check_file "$work/own/small.pftrace" ""
	check_file "$work/own/calls.pftrace" ""
	check_file "$work/own/large.pftrace" "--max-bytes-per-slice 48"
	check_file "$work/own/killed.pftrace" ""
}

# A browser with nothing to show, its own trace on, no network in use; it stays after the trace, so it is ended by pid.
check_chromium() {
	command -v chromium >/dev/null ||
		{ skip "chromium is not installed: the schema's numbers are not checked against its trace"; return; }
	chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
		--disable-component-update --disable-sync --user-data-dir="$work/profile" --trace-startup \
		--trace-startup-format=proto --trace-startup-file="$work/chromium.pftrace" --trace-startup-duration=2 \
		about:blank >"$work/log" 2>&1 &
	browser=$!
	size=0
	for _ in $(seq 60); do
		sleep 0.5
		now=$(stat -c %s "$work/chromium.pftrace" 2>/dev/null || echo 0)
		test "$now" -gt 0 && test "$now" = "$size" && break
		size=$now
	done
	kill "$browser" 2>/dev/null
	wait "$browser" 2>/dev/null
	browser=
	test "$size" -gt 0 || { skip "chromium wrote no trace: $(tail -1 "$work/log")"; return; }
	python3 tools/check_pftrace.py --chromium "$work/chromium.pftrace" ||
		fail "schemas/perfetto.proto against chromium's trace"
}

command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
if test $# -gt 0; then
	for file; do check_file "$file" ""; done
else
	check_own
	test ! -f "$O/demo/demo.pftrace" || check_file "$O/demo/demo.pftrace" "--max-bytes-per-slice 48"
	check_chromium
fi
test "$failed" = 0 || exit 1
test -z "$skipped" || { echo "$skipped"; exit 77; }
