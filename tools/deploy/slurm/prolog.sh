#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prolog of slurm.conf (on each node, as root, before a job): ends a device test that the health check began, and starts
# no job on a node that has a finding for which the rules drain it: exit status 1 drains the node and queues the job
# again elsewhere.
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/deploy/slurm/findings.bash
. "$here/findings.bash"
TEST_ENDS_S=20 # it takes a second or two

if [[ -r $RANKTRACE_RUN/stress.pid ]]; then
	read -r pid < "$RANKTRACE_RUN/stress.pid"
	# `timeout` hands it on to the test
	[[ $(cat "/proc/$pid/comm" 2> /dev/null) = timeout ]] && kill "$pid"
	exec 9> "$RANKTRACE_RUN/stress.lock"
	flock -w "$TEST_ENDS_S" 9 ||
		say "a device test does not end within $TEST_ENDS_S s; job $SLURM_JOB_ID starts beside it"
	exec 9>&-
fi
findings open | act || exit 1
exit 0
