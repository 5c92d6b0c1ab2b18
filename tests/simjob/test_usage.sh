#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage errors: status 2, one line on stderr that names the object, and nothing started.
. "$(dirname "$0")/job.bash"

refused() { # text that the message has to contain, arguments...
	local text=$1
	shift
	"$simjob" "$@" > "$dir/out" 2> "$dir/err"
	local status=$?
	((status == 2)) || fail "$*: status $status"
	grep -qF -- "$text" "$dir/err" || fail "$*: does not say '$text'"
	[[ -s $dir/out ]] && fail "$*: talks on stdout"
}
refused "--ranks '0'" --ranks 0
refused "--ranks 'many'" --ranks many
refused "--ranks '1.5'" --ranks 1.5
refused "is not the number of ranks, 8" --ranks 8 --layout tp=2,dp=2
refused "is not the number of ranks, 8" --ranks 8 --layout tp=3
refused "is not tp=N, dp=N or pp=N" --layout tp=2,xp=2
refused "no fault 'sleep'" --fault sleep:rank=1
refused "fault hang takes no 'percent='" --fault hang:percent=3
refused "rank=9 does not exist" --ranks 8 --fault hang:rank=9
refused "fault phase needs what=" --fault phase:rank=1
refused "what='lunch'" --fault phase:what=lunch
refused "there are stop, hang, hang-busy, kill, " --fault sleep
refused "rank='1.5'" --fault hang:rank=1.5
refused "how='poison'" --fault kill:how=poison
refused "fault kill takes no 'sec='" --fault kill:sec=3
refused "host='away'" --fault deadlock:host=away
refused "--fault deadlock: there is no second communicator" --ranks 2 --layout tp=2 --fault deadlock
refused "--fault deadlock: given more than once" --fault deadlock --fault deadlock:host=blocked
refused "--fault p2p: there is no pipeline" --layout tp=2 --fault p2p
refused "what='neither'" --layout pp=2 --fault p2p:what=neither
refused "--fault init: what=start is before the first step" --fault init:what=start,step=3
refused "--fault init: the dead do not come back" --fault init:how=dead,sec=3
refused "--fault dstate-child: there is no dataloader" --no-dataloader --fault dstate-child
refused "wait='2'" --fault dstate-child:wait=2
refused "percent= is of how=quota" --fault cpu:percent=5
refused "n= is of how=hog" --fault cpu:how=quota,n=5
refused "n=0 is no hog" --fault cpu:n=0
refused "n='65'" --fault cpu:n=65
refused "percent=0.5: a quota is at least" --fault cpu:how=quota,percent=0.5
refused "rank 1 has two quotas" --fault cpu:how=quota,rank=1 --fault cpu:how=quota,rank=1,percent=30
refused "fault gc takes no 'rank='" --fault gc:rank=1
refused "rate='1.1'" --fault gc:rate=1.1
refused "fault imbalance needs what=stage|sequence" --fault imbalance
refused "--fault imbalance: there is no pipeline" --fault imbalance:what=stage
refused "--fault io: there is no dataloader" --no-dataloader --fault io
refused "--host-ms '-1'" --host-ms=-1
refused "--sync 'never'" --sync never
refused "with --graph step its operations are captured" --layout pp=2,dp=4 --graph step --fault p2p
refused "--graph 'tensor': neither step nor layers" --graph tensor
refused "there are only options" hello
refused "cannot write /nonexistent/log: No such file or directory" --log /nonexistent/log
refused "unrecognized option" --no-such-option
"$simjob" --help | grep -q -- --fault || fail "no help"

# Each fault is in the help, with its own line, once.
"$simjob" --help > "$dir/out"
for name in $(sed -n 's/^FAULT([a-z0-9_]*, "\([^"]*\)".*/\1/p' tools/simjob/faults/faults.def); do
	[[ $(grep -c "^  $name  " "$dir/out") == 1 ]] || fail "fault $name is not in --help once"
done
