#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of docs/playbook from the recordings that it walks through:
#     scripts/playbook_pictures.sh --write     after a text or the drawing was changed
#     scripts/playbook_pictures.sh --check     exit status 1 where one differs: tests/replay/test_examples.py
# O is the build folder; TO=dir draws there, and compares with what lies there.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${O:-build}/ranktrace to=${TO:-docs/playbook}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

draw() { # recording, picture
	local status
	for what in ops json; do
		"$program" replay -q --$what "tests/replay/$1.rtr" > "$work/$what" && status=0 || status=$?
		((status <= 1)) || exit "$status" # 1: it found something
	done
	python3 -B tools/timeline_svg.py --source "tests/replay/$1.rtr" "$work/ops" "$work/json" "$work/$2.svg"
}

draw f08_dstate storage
draw f10_quota quota
case ${1:-} in
--write) cp "$work"/*.svg "$to/" ;;
--check)
	for picture in "$work"/*.svg; do
		cmp -s "$picture" "$to/$(basename "$picture")" ||
			{ echo "$to/$(basename "$picture"): run scripts/playbook_pictures.sh --write"; differs=1; }
	done
	exit "${differs:-0}"
	;;
*) sed -n '3,6s/^# //p' "$0" >&2; exit 2 ;;
esac
