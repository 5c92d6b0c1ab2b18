#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test that needs no GPU and counts. A test is a file found by listing: test_* scripts, then unit programs.
# Exit status of a test: 0 passed, 77 skipped (its last line says why), else failed. Three run at a time, and up to six
# while 50 % of the CPUs' time is free: most tests wait. The longest begin first, by tests/times.txt. Behind them, nice,
# one runs in what they leave of the CPUs: of those with a line "# runs behind others: REASON" among their first 6, then
# of the unit programs. SLOTS=n: so many of all these at a time, always. What says "# runs beside few: REASON" runs when
# all these are through, at most four at a time and only while 60 % of the CPUs' time is free; then "# runs alone:
# REASON" (or "# runs alone with LONG=1: REASON"). Each test gets a seed of its own in SEED (a given SEED is
# everybody's); what it draws comes from that. A test that failed runs once more, alone, with the same seed: if it
# passes then, it counts as passed and is listed as flaky. ONLY='pattern ...' runs a part.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build}
WINDOW_US=2000000 # what a test takes of the CPUs shows so long after its begin
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
results=$(mktemp) # lines of "status seed seconds cpu name"

clean_up() {
	local p
	for p in $(jobs -p); do
		pkill -TERM -P "$p"
		kill "$p" 2> /dev/null
	done
	rm -rf "$results" "$slots"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

log_of() { echo "$log_dir/${1//\//_}.log"; }

behind_others=() # how a command begins that takes only what others leave of the CPUs
run_one() { # name, build, seed, command...
	local name=$1 build=$2 seed=$3 log begin=$SECONDS status word cpu_s TIMEFORMAT='%U %S'
	log=$(log_of "$name")
	shift 3
	{
		time O=$build SEED=$seed "${behind_others[@]}" timeout --kill-after=10 "${TEST_TIMEOUT:-900}" "$@" \
			> "$log" 2>&1 < /dev/null
	} 2> "$log.cpu"
	status=$?
	cpu_s=$(awk '{ printf "%.1f", $1 + $2 }' "$log.cpu")
	rm -f "$log.cpu"
	case $status in
	0) word=ok ;;
	77) word="skip: $(tail -n 1 "$log")" ;;
	*) word=$(echo "FAILED ($status) with SEED=$seed, log: $log"; tail -n 40 "$log" | sed 's/^/    /') ;;
	esac
	printf '%-44s %4d s, CPU %5s s  %s\n' "$name" $((SECONDS - begin)) "$cpu_s" "$word"
	echo "$status $seed $((SECONDS - begin)) $cpu_s $name" >> "$results"
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

# A test that is through says which slot is free: to wait for that, or for the clock, takes no process.
ended=$(mktemp -u)
mkfifo "$ended" && exec {ended_fd}<> "$ended" && rm -f "$ended"
busy=() # slot -> pid of what runs there

# For $1 s, or until a test ends.
slot_end_wait() {
	local slot
	if read -rt "$1" -u "$ended_fd" slot; then
		wait "${busy[slot]}"
		unset "busy[slot]"
	else
		for slot in "${!busy[@]}"; do kill -0 "${busy[slot]}" 2> /dev/null || unset "busy[slot]"; done # killed
	fi
}

# A free slot in $slot: one of the first `least`, or of `most` while `room` % of the CPUs' time were free since the last
# test began. What those take who are nice is not in the way.
slot_wait() { # least, most, room
	local least=$1 most=$2 room=$3 all free_then all_then free_now begin_us=${EPOCHREALTIME/./}
	read -r all_then free_then <<< "$(cpu_times)"
	while ((${#busy[@]} >= least)); do
		slot_end_wait 0.25
		if ((${#busy[@]} < most && ${EPOCHREALTIME/./} - begin_us >= WINDOW_US)); then
			read -r all free_now <<< "$(cpu_times)"
			(((free_now - free_then) * 100 >= (all - all_then) * room)) && break
			all_then=$all free_then=$free_now begin_us=${EPOCHREALTIME/./}
		fi
	done
	for ((slot = 1; ; slot++)); do [[ -n ${busy[slot]:-} ]] || break; done
}

# Of all CPUs since boot: all time, and what was free: what those took, too, who are nice, unless this run is.
is_nice=$(($(nice) > 0))
cpu_times() {
	local user nice system idle iowait irq softirq steal rest
	read -r rest user nice system idle iowait irq softirq steal rest < /proc/stat
	local taken=$((user + system + irq + softirq + steal)) free=$((idle + iowait))
	if ((is_nice)); then taken=$((taken + nice)); else free=$((free + nice)); fi
	echo $((taken + free)) $free
}

run_in_slots() { # least, most, room, scripts
	local least=${SLOTS:-$1} most=${SLOTS:-$2} room=$3 script slot
	shift 3
	for script; do
		slot_wait "$least" "$most" "$room"
		[[ -e $slots/$slot ]] || slot_make "$slot"
		{
			run_script "$script" "$slots/$slot"
			echo "$slot" >&"$ended_fd"
		} &
		busy[slot]=$!
	done
	while ((${#busy[@]})); do slot_end_wait 60; done
}

# One after the other, with a build of its own: what does not wait for much takes nothing from what needs a CPU when it
# wants it. Where sessions share the CPUs (autogroup), nice alone counts only within one.
run_behind() { # scripts
	local script
	behind_others=(setsid bash -c '{ echo 19 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 19 "$@"' behind)
	slot_make behind
	for script; do run_script "$script" "$slots/behind"; done
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
	local name begin=$SECONDS status seed failed
	failed=$(awk '$1 != 0 && $1 != 77' "$results")
	(($(wc -l <<< "$failed") <= RETRY_MOST)) || { echo "more than $RETRY_MOST failed: none runs again"; return; }
	while read -r status seed _ _ name; do
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
	elif [[ -z ${SLOTS:-} ]] && grep -q '^# runs behind others: ' <<< "$head"; then
		echo behind
	else
		echo many
	fi
}

# The longest first: a test that takes minutes and begins last runs beside nothing. Of what is not in the list (it is
# new) half a minute is assumed.
declare -A takes_s
while read -r seconds _ name; do takes_s[$name]=$seconds; done < <(grep -v '^#' tests/times.txt)
longest_first() { # names
	local name
	for name; do echo "${takes_s[$name]:-30} $name"; done | sort -srn -k1,1 | cut -d' ' -f2-
}

for path in "$O"/slot.*; do kill -0 "${path##*.}" 2> /dev/null || rm -rf "$path"; done # a killed run's
many=() behind=() units=() few=() alone=()
for path in tests/vm/test_*.sh tests/[!v]*/test_*.sh tests/[!v]*/test_*.py; do
	name=${path#tests/}
	[[ -e $path && $name != gpu/* ]] || continue
	wanted "$name" || continue
	case $(kind_of "$path") in
	alone) alone+=("$name") ;;
	few) few+=("$name") ;;
	behind) behind+=("$name") ;;
	*) many+=("$name") ;;
	esac
done
for t in "$O"/tests/test_*; do [[ -x $t && ! -d $t ]] && wanted "unit/${t##*/}" && units+=("unit/${t##*/}"); done
[[ -z ${SLOTS:-} ]] || { many+=("${units[@]}"); units=(); }
for of in many behind units few; do
	declare -n names=$of
	mapfile -t names < <(longest_first "${names[@]}")
done
behind+=("${units[@]}")
((!${#behind[@]})) || run_behind "${behind[@]}" &
((${#many[@]})) && run_in_slots 3 6 50 "${many[@]}"
wait
((${#few[@]})) && run_in_slots 1 4 60 "${few[@]}"
for name in "${alone[@]}"; do
	wait_calm
	run_script "$name" "$O"
done
run_again

awk '$1 == 0 { print $3, $4, $5 }' "$results" | sort -k3 > "$O/tests/times" # after a whole run: for tests/times.txt

# The last result of each test counts.
again() { echo "to repeat: ${LONG:+LONG=$LONG }SEED=$2 ONLY='$1' tests/run.sh"; }
awk '{ s[$5] = $1; seed[$5] = $2; n[$5]++ } END { for (t in s) print s[t], n[t], seed[t], t }' "$results" |
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
