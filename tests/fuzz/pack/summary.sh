#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# summary.sh OUTDIR: a line for each target of run.sh: its jobs, their executions, the most coverage of one of them
# (edges, and edges with their counts), their crashes, the highest exit status; then the inputs that crashed one. Exits
# with 1 where there are any, with 3 where a job still runs.
out=$1
compgen -G "$out/logs/*.log" > /dev/null || { echo "usage: summary.sh OUTDIR (of run.sh)" >&2; exit 2; }

# executions, edges and features of a job, which may have been started more than once
job_numbers() {
	awk '/^INFO: Seed/ { total += n; n = 0 }
		/^#[0-9]/ { n = substr($1, 2) + 0
			for (i = 2; i < NF; i++) {
				if ($i == "cov:" && $(i + 1) > cov) cov = $(i + 1)
				if ($i == "ft:" && $(i + 1) > ft) ft = $(i + 1) } }
		/number_of_executed_units/ { n = $2 }
		END { print total + n, cov + 0, ft + 0 }' "$1"
}

left=0
for first in "$out"/logs/*.1.log; do
	name=${first##*/} executions=0 edges=0 features=0 jobs=0 crashes=0 status=0 state=''
	name=${name%.1.log}
	for log in "$out/logs/$name".*.log; do
		read -r n cov ft <<< "$(job_numbers "$log")"
		((++jobs, executions += n, edges = cov > edges ? cov : edges, features = ft > features ? ft : features))
		if read -r code times 2> /dev/null < "${log%.log}.exit"; then
			((crashes += times, status = code > status ? code : status))
		else
			state=', still running' left=1
		fi
	done
	printf '%-16s %d jobs, %12d executions, coverage %5d, %6d; %d crashes, exit %d%s\n' "$name" "$jobs" \
		"$executions" "$edges" "$features" "$crashes" "$status" "$state"
done
find "$out/crashes" -type f | sort
[[ -z $(find "$out/crashes" -type f) ]] || exit 1
((left)) && exit 3
exit 0
