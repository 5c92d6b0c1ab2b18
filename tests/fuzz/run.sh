#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets, FUZZ_SECONDS (2) each: new inputs in $O/fuzz/corpus, which stay for the next run; what crashes
# a target in $O/fuzz/crashes, to be run again by giving it to the target. FUZZ_SEED=n: the same inputs again.
# ONLY=name.
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build}
seconds=${FUZZ_SECONDS:-2} seed=${FUZZ_SEED:-0} failed=0
export UBSAN_OPTIONS=print_stacktrace=1

# seed_files DIR NAME: a few honest inputs, made here
seed_files() {
	case $2 in
	maps) cat /proc/self/maps > "$1/maps" ;;
	proc_text)
		printf '\0%s' "$(cat /proc/self/stat)" > "$1/stat"
		printf '\1%s\n%s' "$(cat /proc/self/cgroup)" "$(cat /proc/self/mountinfo)" > "$1/cgroup"
		printf '\2RANK=3\0WORLD_SIZE=8\0SLURM_PROCID=3\0SLURM_NTASKS=8\0' > "$1/environ"
		printf '\3[<0>] futex_wait+0x1/0x2 [m]\n[<0>] do_syscall_64+0x3/0x4\n' > "$1/stack"
		;;
	elf | struct_layout)
		printf 'struct deep { int y; }; struct ncclComm { unsigned long long startMagic, commHash; int rank,
			nRanks; struct { int x; struct deep deep; } inner; int array[7]; unsigned long long endMagic; };
			struct ncclComm f = { .rank = 1 }; int main(void) { return f.rank; }\n' > "$1/seed.c"
		gcc -g -c "$1/seed.c" -o "$1/object" && gcc -g -nostdlib -shared -fPIC "$1/seed.c" -o "$1/shared"
		rm -f "$1/seed.c"
		;;
	kernel_log) printf '6,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.' \
		> "$1/xid" ;;
	records) python3 -B tests/fuzz/seeds.py tests/replay/*.rtr "$1" ;;
	tcp_diag) # two sockets and an end, with struct tcp_info as it is and as it was
		python3 -c 'import struct, sys
def one(info):
    head = struct.pack("<IHHII", 16 + 72 + 4 + info, 20, 2, 1, 0) + bytes([2, 1, 0, 0]) + bytes(64)
    return head + struct.pack("<IHH", 77, 4 + info, 2) + bytes(i % 256 for i in range(info))
sys.stdout.buffer.write(one(248) + one(192) + struct.pack("<IHHII", 16, 3, 2, 1, 0))' > "$1/answer"
		cat /proc/net/dev > "$1/dev"
		;;
	netlink) # a bound socket; a device and a queue pair; their end
		python3 -c 'import struct, sys
def attr(kind, body):
    return struct.pack("<HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)
def message(kind, body):
    return struct.pack("<IHHII", 16 + len(body), kind, 2, 1, 0) + body
def number(kind, value):
    return attr(kind, struct.pack("<I", value))
end = message(3, bytes(4))
qp = number(21, 77) + number(22, 78) + number(28, 1234) + attr(27, b"\3") + attr(26, b"\2")
for name, what, body in (("unix", 0, message(20, bytes([1, 1, 10, 0]) + bytes(12) + attr(0, b"\0name") + number(2, 9))),
                         ("devices", 1, message(0x1401, number(1, 0) + attr(2, b"mlx5_0\0")) + end),
                         ("qps", 2, message(0x140a, number(1, 0) + attr(19, attr(20, qp))) + end)):
    open(f"{sys.argv[1]}/{name}", "wb").write(bytes([what]) + body)' "$1" ;;
	nvml) # a device, a sample, the end of an answer: length in words, packet, question
		python3 -c 'import sys
for n in (24, 40, 80, 120, 200):
    open(f"{sys.argv[1]}/{n}", "wb").write((bytes([n]) + bytes(i % 7 for i in range(4 * n)) + b"\1") * 3)
for what in range(4):
    open(f"{sys.argv[1]}/end{what}", "wb").write(bytes([4, 1, 0, 0, 0, 8, 0, 0, 0]) + bytes(8) + bytes([what]))' "$1" ;;
	nccl_proxy) head -c 4200 /dev/zero | tr '\0' '\7' > "$1/circle" ;;
	merge) python3 -B tests/fuzz/seeds.py "$1" ;;
	recording) cp tests/replay/*.rtr "$1/" ;;
	config)
		printf '%s\n' '# a comment' 'hang-limit = 2' 'json = yes' 'pid = 1' 'output = a.rtr' \
			'ring-size = 65536' \
			'flight-mb = 4' 'budget = 2.5' 'budget-node = no' > "$1/config"
		;;
	esac
}

for target in "$O"/fuzz/fuzz_*; do
	name=${target##*/fuzz_}
	[[ -x $target && ( -z ${ONLY:-} || $name == "$ONLY" ) ]] || continue
	corpus=$O/fuzz/corpus/$name made=$O/fuzz/seeds/$name log=$O/fuzz/$name.log
	mkdir -p "$corpus" "$made" "$O/fuzz/crashes"
	((seed)) && corpus=$(mktemp -d "$O/fuzz/corpus/$name.XXXXXX")
	seed_files "$made" "$name"
	cp tests/fuzz/found/"$name"-* "$made/" 2> /dev/null # what once crashed it
	leaks=$([[ $name == config ]] && echo 0 || echo 1) # a configuration's values are kept, by design
	ASAN_OPTIONS=detect_leaks=$leaks:allocator_may_return_null=1 "$target" \
		-max_total_time="$seconds" -seed="$seed" -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
		-len_control=0 -print_final_stats=1 -artifact_prefix="$O/fuzz/crashes/$name-" "$corpus" "$made" \
		> "$log" 2>&1 < /dev/null
	status=$?
	((seed)) && rm -rf "$corpus"
	printf '%-16s %s inputs in %s s, coverage %s\n' "$name" \
		"$(grep -o 'number_of_executed_units: *[0-9]*' "$log" | tail -n 1 | grep -o '[0-9]*$')" "$seconds" \
		"$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -c6-)"
	if ((status)); then
		failed=1
		echo "FAILED: $name, log: $log"
		grep -vE '^#|^INFO' "$log" | head -n 40 | sed 's/^/    /'
	fi
done
exit $failed
