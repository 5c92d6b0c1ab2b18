#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Epilog of slurm.conf (on each node, as root, after a job): what was found in this job, also what ended with it, acts
# by the rules, before the node gets another job.
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/deploy/slurm/findings.bash
. "$here/findings.bash"

[[ -n ${SLURM_JOB_ID:-} ]] && findings job "$SLURM_JOB_ID" | act
exit 0
