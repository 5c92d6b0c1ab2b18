#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A fault is added by a file and a line: the one that README.md shows, in a copy of the sources, is listed, strikes
# where it is to, and refuses the keys that it does not take.
. "$(dirname "$0")/job.bash"
tree=$dir/tree sources=tools/simjob
mkdir -p "$tree/tools" "$dir/sim" && cp -r "$sources" "$tree/tools/" && cp -r "$sim_dir"/lib*.so* "$dir/sim/" ||
	fail "cannot copy"
{
	printf '#include "%s/faults/faults.h"\n#include "%s/job/rank.h"\n' "$sources" "$sources"
	sed -n '/^    .*faults\/nap\.c/,/^    const struct fault fault_nap/s/^    //p' "$sources/README.md"
} > "$tree/$sources/faults/nap.c"
echo 'FAULT(nap, "nap", "sleeps a second before a step")' >> "$tree/$sources/faults/faults.def"
changed=$(diff -rq "$sources" "$tree/$sources" | wc -l)
((changed == 2)) || fail "$changed files had to be touched"
(cd "$tree" && ${CC:-gcc} -std=gnu11 -g -D_GNU_SOURCE -Wall -Wextra -Werror -I. -o "$dir/sim/simjob" \
	"$sources"/job/*.c \
	"$sources"/faults/*.c "$sources"/life/*.c "$sources"/libpython/*.c -pthread -ldl -lm) ||
	fail "the job with one more fault does not build"

simjob=$dir/sim/simjob
"$simjob" --help | grep -A 1 '^  nap ' | xargs | grep -qF "sleeps a second before a step (rank, step)" ||
	fail "not in --help"
"$simjob" --fault nap:op=1 2>&1 | grep -qF "fault nap takes no 'op='" || fail "takes what it does not take"
fault_job nap:rank=1,step=2 --ranks 2 --steps 4 --step-ms 5
job_wait || fail "the job exited with $?"
ms=$((($(fault_value end t_ns) - $(fault_value begin t_ns)) / 1000000))
[[ $(fault_value begin rank) == 1 && $(fault_value begin step) == 2 ]] || fail "strikes elsewhere"
((ms >= 1000 && ms <= $(at_most_ms 1))) || fail "lasted $ms ms"
