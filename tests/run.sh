#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test that needs no GPU and counts. A test is a file found by listing: test_* scripts, the guests' first,
# then unit programs. Exit status of a test: 0 passed, 77 skipped (its last line says why), else failed. Three run at a
# time, and up to six while 50 % of the CPUs' time is free: most tests wait. SLOTS=n: so many, always. What has a line
# "# runs beside few: REASON" among its first 6 runs when these are through, at most four at a time and only while 60 %
# of the CPUs' time is free; then "# runs alone: REASON" (or "# runs alone with LONG=1: REASON"). Each test gets a seed
# of its own in SEED (a given SEED is everybody's); what it draws comes from that. A test that failed runs once more,
# alone, with the same seed: if it passes then, it counts as passed and is listed as flaky. ONLY='pattern ...' runs a
# part.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build}
WINDOW_TENTHS=20 # what a test takes of the CPUs shows so long after its begin
RETRY_S=${RETRY_S:-600} # begin no second run later than this after the first of them: enough for three slow tests
RETRY_MOST=8            # more failures than this are a broken build, which a second run does not mend
export LONG=${LONG:-} VM_CACHE=${VM_CACHE:-$O/vm}
# A wrapper that only chooses a version (pyenv's) takes as much CPU as a short test, at each start of python3.
python=$(python3 -c 'import sys; print(sys.executable)' 2> /dev/null)
[[ -z $python || $python == "$(command -v python3)" ]] || export PATH=${python%/*}:$PATH
export -n ONLY # a test's own variable of that name chooses among its cases
log_dir=$O/tests/log
mkdir -p "$log_dir"
slots=$O/slot.$$ # of this run: another may go on in the same tree
results=$(mktemp) # lines of "status seed seconds name"

clean_up() {
	local p
	for p in $(jobs -p); do pkill -TERM -P "$p"; done
	rm -rf "$results" "$slots"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

log_of() { echo "$log_dir/${1//\//_}.log"; }

run_one() { # name, build, seed, command...
	local name=$1 build=$2 seed=$3 log begin=$SECONDS status word cpu_s TIMEFORMAT='%U %S'
	log=$(log_of "$name")
	shift 3
	{
		time O=$build SEED=$seed timeout --kill-after=10 "${TEST_TIMEOUT:-900}" "$@" > "$log" 2>&1 < /dev/null
	} 2> "$log.cpu"
	status=$?
	cpu_s=$(awk '{ printf "%d", $1 + $2 + 0.5 }' "$log.cpu")
	rm -f "$log.cpu"
	case $status in
	0) word=ok ;;
	77) word="skip: $(tail -n 1 "$log")" ;;
	*) word=$(echo "FAILED ($status) with SEED=$seed, log: $log"; tail -n 40 "$log" | sed 's/^/    /') ;;
	esac
	printf '%-44s %4d s, CPU %3d s  %s\n' "$name" $((SECONDS - begin)) "$cpu_s" "$word"
	echo "$status $seed $((SECONDS - begin)) $name" >> "$results"
}

run_script() { # path below tests/, build, seed (a new one if there is none)
	local seed=${3:-${SEED:-$((SRANDOM % (1 << 30)))}}
	case $1 in
	unit/*) run_one "$1" "$2" "$seed" "$2/tests/${1#unit/}" ;;
	*.sh) run_one "$1" "$2" "$seed" bash "tests/$1" ;;
	*.py) run_one "$1" "$2" "$seed" python3 -B "tests/$1" ;;
	esac
}

# Probes go on inodes: jobs of two slots must not share a library, so each has a copy of the build (a link is no copy).
# And a test that holds an mmap_lock keeps probes out of every file of the same build-id: the copies' libraries have
# build-ids of their own. Unit programs probe nothing of another's.
slot_make() {
	local part id
	mkdir -p "$slots/$1" || exit 2
	for part in "$O"/*; do
		[[ $part =~ ^"$O"/(slot.*|tests|fuzz|fuzz-pack|obj|bpf|vm|covered|asan|.*\.a)$ ]] ||
			cp -a --reflink=auto "$part" "$slots/$1/" || exit 2
	done
	for part in tests fuzz obj bpf; do
		[[ ! -d $O/$part ]] || ln -s "$(realpath "$O/$part")" "$slots/$1/$part" || exit 2
	done
	find "$slots/$1/lib" -type f | while read -r part; do
		id=$(mktemp)
		objcopy -O binary --only-section=.note.gnu.build-id "$part" "$id" 2> /dev/null && [[ -s $id ]] &&
			{ head -c 16 "$id"; head -c 20 /dev/urandom; } | head -c "$(stat -c %s "$id")" > "$id.new" &&
			objcopy --update-section ".note.gnu.build-id=$id.new" "$part"
		rm -f "$id" "$id.new"
	done
}

# A free slot in $slot: one of the first `least`, or of `most` while `room` % of the CPUs' time were free since the last
# test began. What the guests take is not in the way (they are nice).
slot_wait() { # least, most, room
	local least=$1 most=$2 room=$3 tenths=0 all free_then all_then free_now now running
	read -r all_then free_then <<< "$(cpu_times)"
	while :; do
		running=" $(jobs -pr | tr '\n' ' ')"
		for ((slot = 1; slot <= most; slot++)); do
			[[ -n ${pid_of[slot]:-} && $running == *" ${pid_of[slot]} "* ]] || break
		done
		read -ra now <<< "$running"
		((${#now[@]} < least)) && return
		if ((${#now[@]} < most && tenths >= WINDOW_TENTHS)); then
			read -r all free_now <<< "$(cpu_times)"
			(((free_now - free_then) * 100 >= (all - all_then) * room)) && return
			all_then=$all free_then=$free_now tenths=0
		fi
		sleep 0.1
		tenths=$((tenths + 1))
	done
}

# Of all CPUs since boot: all time, and what nobody took but who is nice.
cpu_times() { awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print all, $3 + $5 + $6 }' /proc/stat; }

run_in_slots() { # least, most, room, scripts
	local least=${SLOTS:-$1} most=${SLOTS:-$2} room=$3 script slot pid_of=()
	shift 3
	for script; do
		slot_wait "$least" "$most" "$room"
		[[ -e $slots/$slot ]] || slot_make "$slot"
		run_script "$script" "$slots/$slot" &
		pid_of[slot]=$!
	done
	wait
}

# What runs alone judges speed, and others' load would be judged with it: wait while tasks wait for a CPU for a third of
# the time, for CALM_S seconds in all of the run.
calm_left=${CALM_S:-120}
cpu_wait_us() { sed -n 's/^some .*total=//p' /proc/pressure/cpu 2> /dev/null; }
wait_calm() {
	local before begin=$SECONDS
	while ((calm_left > SECONDS - begin)); do
		before=$(cpu_wait_us)
		sleep 0.3
		(($(cpu_wait_us) - before > 100000)) || break
	done
	calm_left=$((calm_left - SECONDS + begin))
}

# Of what failed, each once more with its seed, while there is time for it: a broken build shall not take twice as long.
run_again() {
	local name begin=$SECONDS status seed seconds failed
	failed=$(awk '$1 != 0 && $1 != 77' "$results")
	(($(wc -l <<< "$failed") <= RETRY_MOST)) || { echo "more than $RETRY_MOST failed: none runs again"; return; }
	while read -r status seed seconds name; do
		[[ -n $name ]] && ((SECONDS - begin < RETRY_S)) || break
		mv "$(log_of "$name")" "$(log_of "$name").first"
		echo "once more, alone, SEED=$seed:"
		wait_calm
		run_script "$name" "$O" "$seed"
	done <<< "$failed"
}

read -ra patterns <<< "${ONLY:-*}"
wanted() {
	local pattern
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $1 == $pattern ]] && return
	done
	return 1
}

kind_of() { # path
	local head
	head=$(head -n 6 "$1")
	if grep -qE "^# runs alone${LONG:+( with LONG=1)?}: " <<< "$head"; then
		echo alone
	elif grep -q '^# runs beside few: ' <<< "$head"; then
		echo few
	else
		echo many
	fi
}

for path in "$O"/slot.*; do kill -0 "${path##*.}" 2> /dev/null || rm -rf "$path"; done # a killed run's
many=() few=() alone=()
for path in tests/vm/test_*.sh tests/[!v]*/test_*.sh tests/[!v]*/test_*.py; do
	name=${path#tests/}
	[[ -e $path && $name != gpu/* ]] || continue
	wanted "$name" || continue
	case $(kind_of "$path") in
	alone) alone+=("$name") ;;
	few) few+=("$name") ;;
	*) many+=("$name") ;;
	esac
done
for t in "$O"/tests/test_*; do [[ -x $t && ! -d $t ]] && wanted "unit/${t##*/}" && many+=("unit/${t##*/}"); done
((${#many[@]})) && run_in_slots 3 6 50 "${many[@]}"
((${#few[@]})) && run_in_slots 1 4 60 "${few[@]}"
for name in "${alone[@]}"; do
	wait_calm
	run_script "$name" "$O"
done
run_again

# The last result of each test counts.
again() { echo "to repeat: ${LONG:+LONG=$LONG }SEED=$2 ONLY='$1' tests/run.sh"; }
awk '{ s[$4] = $1; seed[$4] = $2; n[$4]++ } END { for (t in s) print s[t], n[t], seed[t], t }' "$results" |
	sort -k4 > "$results.last"
while read -r status times seed name; do
	if ((status == 0 && times > 1)); then
		echo "flaky: $name, $(again "$name" "$seed") (it failed once: $(log_of "$name").first)"
	elif ((status != 0 && status != 77)); then
		echo "failed: $name, $times times, $(again "$name" "$seed")"
	fi
done < "$results.last"
awk '{ n[$1 == 0 ? "p" : $1 == 77 ? "s" : "f"]++ }
	END { printf "%d passed, %d failed, %d skipped\n", n["p"], n["f"], n["s"]; exit n["f"] > 0 }' "$results.last"
status=$?
rm -f "$results.last"
exit $status
