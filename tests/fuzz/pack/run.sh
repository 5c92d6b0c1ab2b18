#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh SECONDS OUTDIR [JOBS_PER_TARGET [NAME...]]: starts every fuzz target of this pack (or those named) at once,
# each job on its own copy of the corpus, and returns; they run on without a terminal, at the lowest priority. In
# OUTDIR are logs, what crashed a target, and the corpora as they grow. `cluster` is the slowest target and has three
# jobs at least. summary.sh OUTDIR says how far they are.
here=$(cd "$(dirname "$0")" && pwd) || exit 2
seconds=$1 out=$2 jobs=${3:-1}
if [[ ! $seconds =~ ^[1-9][0-9]*$ || -z $out || ! $jobs =~ ^[1-9][0-9]*$ ]]; then
	echo "usage: run.sh SECONDS OUTDIR [JOBS_PER_TARGET [NAME...]]" >&2
	exit 2
fi
shift $(($# < 3 ? $# : 3))
if ! mkdir -p "$out"/{bin,logs,crashes,corpus} || compgen -G "$out/logs/*.log" > /dev/null; then
	echo "$out: cannot be written, or has results of another run: name another folder" >&2
	exit 2
fi
out=$(cd "$out" && pwd)
. "$here/target.sh"
export LD_LIBRARY_PATH=$here/lib detect_leaks=1

# The sanitizer's memory map may collide with addresses that the kernel draws; where that can be switched off, it is.
fixed=()
setarch -R true 2> /dev/null && fixed=(setarch -R)

targets=("$here"/bin/fuzz_*.gz)
(($#)) && targets=("${@/#/$here/bin/fuzz_}") && targets=("${targets[@]/%/.gz}")
for packed in "${targets[@]}"; do
	name=${packed##*/}
	gzip -dc "$packed" > "$out/bin/${name%.gz}" && chmod +x "$out/bin/${name%.gz}" || exit 2
done
targets=("$out"/bin/fuzz_*)

# A container that refuses ptrace has no search for leaks; another failure is the pack's (a library, the C library's
# version), and each target would have it.
tried=$(target_run "${targets[0]}" "$out/crashes/none-" -runs=1 2>&1) || {
	detect_leaks=0
	tried=$(target_run "${targets[0]}" "$out/crashes/none-" -runs=1 2>&1) ||
		{ echo "${targets[0]} does not run here: $(tail -n 5 <<< "$tried")" >&2; exit 1; }
	echo "leaks are not looked for: the sanitizer may not trace here"
}

n=0
for target in "${targets[@]}"; do
	name=${target##*/fuzz_} wanted=$jobs
	[[ $name == cluster ]] && ((wanted < 3)) && wanted=3
	for ((i = 1; i <= wanted; i++)); do
		setsid nice -n 19 "${fixed[@]}" bash "$here/job.sh" "$name" "$i" "$seconds" "$out" \
			< /dev/null > "$out/logs/$name.$i.sh" 2>&1 &
		((++n))
	done
done
echo "$n jobs of ${#targets[@]} targets run for $seconds s on $(nproc) cores; then: $here/summary.sh $out"
