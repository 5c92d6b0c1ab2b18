# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the simulated job: where it is, a directory of one's own, and how to wait for things.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
sim_dir=$(realpath -m "${O:-build}/lib/ranktrace/sim")
simjob=$sim_dir/simjob
here=tests/simjob

skip() { echo "$*"; exit 77; }
fail() { echo "FAIL: $*"; [[ -s $dir/err ]] && tail -n 20 "$dir/err"; exit 1; }

[[ -x $simjob ]] || skip "no $simjob: run make simjob"
dir=$(mktemp -d)
launcher=
: > "$dir/log"
clean_up() {
	[[ -n $launcher ]] && kill -KILL "$launcher" 2> /dev/null
	rm -rf "$dir"
}
trap clean_up EXIT

seed=${SEED:-$RANDOM}
RANDOM=$seed # what a test draws comes of it
echo "SEED=$seed"

# Starts a job in the background: $launcher, $dir/err, $dir/faults (JSON), $dir/log (JSON).
job_start() {
	"$simjob" --seed "$seed" --log "$dir/log" --fault-log "$dir/faults" "$@" 2> "$dir/err" &
	launcher=$!
}

# Its exit status, after it has ended by itself.
job_wait() {
	wait "$launcher"
	local status=$?
	launcher=
	return $status
}

launcher_ended() { [[ $(task_state "$launcher") =~ ^[ZX]?$ ]]; }
# A job that does not end is reported with what its processes sit in, instead of waited for.
job_kill() {
	kill "-${1:-KILL}" "$launcher"
	wait_for 60 launcher_ended || fail "the job does not end on SIG${1:-KILL}:" \
		"$(ps -eLo pid,tid,ppid,stat,wchan:24,comm | grep -E "simjob|pt_|NCCL")"
	job_wait
}

# wait_for SECONDS command...: until it succeeds
wait_for() {
	local tries=$(($1 * 20))
	shift
	while ((tries-- > 0)); do
		"$@" && return 0
		sleep 0.05
	done
	return 1
}

# The value of a key in the first fault line of a phase: fault_value begin pid
fault_value() { jq -r "select(.phase == \"$1\") | .$2" "$dir/faults" 2> /dev/null | head -n 1; }
# Asked for twenty times a second: jq, which takes as long to start as all else, comes when there is something to read.
fault_phase() { grep -qF "\"phase\":\"$1\"" "$dir/faults" 2> /dev/null && [[ -n $(fault_value "$1" pid) ]]; }
fault_began() { fault_phase begin; }
fault_ended() { fault_phase end; }
# Starts a job with a fault and waits for it to begin: fault_job SPEC options...
fault_job() {
	local spec=$1
	shift
	rm -f "$dir/faults"
	: > "$dir/log"
	job_start --fault "$spec" "$@"
	wait_for 20 fault_began || fail "$spec does not begin"
	pid=$(fault_value begin pid)
}
# Nobody calls anything any more; on a busy machine the last ones take a while to come to where they wait.
quiet() {
	local lines tries
	sleep 0.2
	for tries in 1 2 3 4 5 6; do
		lines=$(log_lines)
		sleep 0.5
		(($(log_lines) == lines)) && return 0
	done
	return 1
}
# Whoever else uses the machine may spoil a comparison of times: three times in a row is wrong.
thrice() { "$@" || "$@" || "$@"; }
# As long as a fault may last that was to last so many seconds, in ms: whoever ends it may have to wait for a CPU.
at_most_ms() { echo $(($1 * 1000 + 5000)); }
# The rank of a process, from torchrun's environment.
rank_of() { tr '\0' '\n' < "/proc/$1/environ" 2> /dev/null | sed -n 's/^RANK=//p'; }
task_state() { sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -c 1; }
task_is() { [[ $(task_state "$1") == "$2" ]]; }
log_lines() { { wc -l < "$dir/log"; } 2> /dev/null || echo 0; }

# Processes of this test's jobs: their arguments name its directory, also those of forked children.
processes() { pgrep -f -- "$dir/" | sort -n; }
# Loop devices that the launcher has mounted, in its own mount namespace.
loops_mounted() { sed -n 's|.* - ext4 /dev/\(loop[0-9]*\) .*|\1|p' "/proc/$launcher/mountinfo" 2> /dev/null; }
loops_attached() { for d in /sys/block/loop*/loop; do [[ -e $d ]] && basename "${d%/loop}"; done; }
mounts_outside() { grep -E '^simjob |/dev/loop' /proc/mounts; }
# Nothing of what a job had is there any more; other users' jobs may be running meanwhile.
nothing_left() { # loop devices that were its own
	local loop
	[[ -z $(processes) && -z $(mounts_outside) && -z $(ls -d /dev/shm/*simjob* /dev/shm/*nccl* 2> /dev/null) ]] ||
		return 1
	for loop in "$@"; do
		loops_attached | grep -qx "$loop" && return 1
	done
	return 0
}
left() { echo "processes $(processes | xargs), mounts $(mounts_outside | xargs), loops $(loops_attached | xargs)"; }

command -v jq > /dev/null || skip "jq is not installed"
