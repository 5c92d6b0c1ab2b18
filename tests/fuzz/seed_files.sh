# SPDX-License-Identifier: Apache-2.0
# What the fuzz targets begin with, for run.sh and pack/pack.sh, which source it: honest inputs, most of them made here,
# with gcc, python3 and protoc, and those of found/.

# with unwind tables of every kind: plain, an expression (as a PLT has), a signal frame; stripped, too
unwound() {
	local at name
	cat > "$1/seed.c" << 'EOF'
int leaf(int *p) { return *p; }
int framed(int n) { int a[n]; a[0] = n; return leaf(a) + n; }
int deep(int a, int b, int c, int d, int e, int f, int g) { return framed(a + b) * framed(c + d) + e + f + g; }
__asm__(".text\n.globl restorer\n.type restorer,@function\nrestorer:\n.cfi_startproc\n.cfi_signal_frame\n"
	".cfi_escape 0x0f,0x0b,0x77,0x08,0x80,0x00,0x3f,0x1a,0x3b,0x2a,0x33,0x24,0x22\nnop\nnop\n.cfi_endproc\n");
EOF
	gcc -O1 -nostdlib -shared -fPIC "$1/seed.c" -o "$1/file.so" || return
	nm "$1/file.so" | while read -r at _ name; do
		[[ $name =~ ^(leaf|framed|deep|restorer)$ ]] && python3 -c 'import struct, sys
stack = [3 * (5 * i % 64) + (0, 2, 1)[i % 3] for i in range(64)]
stack[8:16] = [3 * (int(sys.argv[1], 16) + 6) + 1] * 8
sys.stdout.buffer.write(struct.pack("<H64Q", int(sys.argv[1], 16) + 2, *stack) + open(sys.argv[2], "rb").read())' \
			"$at" "$1/file.so" > "$1/$name"
	done
	rm -f "$1/seed.c" "$1/file.so"
}

# As in a library: with debug information, without, stripped, one of a program, one of another machine's byte order.
elf_files() {
	printf 'struct deep { int y; }; struct ncclComm { unsigned long long startMagic, commHash; int rank,
		nRanks, cudaDev, *abortFlag, asyncResult, initState; struct { int x; struct deep deep; } inner;
		int array[7]; unsigned long long seqNumber[6], opCount, endMagic; }; struct ncclComm f = { .rank = 1 };
		int ncclAllReduce(void) { return f.rank; } int main(void) { return ncclAllReduce(); }\n' > "$1/seed.c"
	gcc -g -c "$1/seed.c" -o "$1/object" && gcc -g -nostdlib -shared -fPIC "$1/seed.c" -o "$1/shared"
	gcc -g -gz -gdwarf-4 -nostdlib -shared -fPIC "$1/seed.c" -o "$1/packed"
	gcc -O1 -nostdlib -shared -fPIC -s -Wl,--hash-style=both,--build-id=sha1 "$1/seed.c" -o "$1/stripped"
	gcc -O1 -nostdlib -static -Wl,-e,main "$1/seed.c" -o "$1/program"
	cp "$O/lib/ranktrace/sim/libnvidia-ml.so.1" "$1/" 2> /dev/null
	rm -f "$1/seed.c"
}

# seed_files DIR NAME: a few honest inputs, made here
seed_files() {
	case $2 in
	maps) cat /proc/self/maps > "$1/maps" ;;
	proc_text)
		printf '\0%s' "$(cat /proc/self/stat)" > "$1/stat"
		printf '\1%s\n%s' "$(cat /proc/self/cgroup)" "$(cat /proc/self/mountinfo)" > "$1/cgroup"
		printf '\1%s\n%s' "0::/kubepods.slice/kubepods-pod5f1c2d3e_aaaa_bbbb_cccc_0123456789ab.slice/cri-$(
			printf '%064d' 7 | tr 0 a).scope" \
			"36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw" > "$1/pod"
		printf '\1%s\n%s' "4:cpu,cpuacct:/slurm/uid_1000/job_42/step_0" \
			'36 25 0:31 /slurm /sys/fs/cgroup/cpu\040x rw - cgroup cgroup rw,cpu,cpuacct' > "$1/slurm"
		python3 -c 'import json, os, sys
for name, f in ("walk", os.walk), ("dumps", json.dumps), ("makedirs", os.makedirs):
    open(f"{sys.argv[1]}/{name}", "wb").write(b"\4" + f.__code__.co_linetable)' "$1"
		printf '\2RANK=3\0WORLD_SIZE=8\0SLURM_PROCID=3\0SLURM_NTASKS=8\0' > "$1/environ"
		printf '\3[<0>] futex_wait+0x1/0x2 [m]\n[<0>] do_syscall_64+0x3/0x4\n' > "$1/stack"
		;;
	elf | struct_layout) elf_files "$1" ;;
	eh_frame) unwound "$1" ;;
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
	nccl_proxy)
		head -c 4200 /dev/zero | tr '\0' '\7' > "$1/circle"
		python3 -B tests/fuzz/seed_memory.py "$2" "$1"
		;;
	nccl_state | python_frames) python3 -B tests/fuzz/seed_memory.py "$2" "$1" ;;
	merge) python3 -B tests/fuzz/seeds.py "$1" ;;
	report) # a rank in a communicator, asleep
		printf '%s\n' 'version: 1 host: "a" boot_id: "b" agent: 5 sequence: 1 now_ns: 9000000000' \
			'processes { pid: 7 rank: 0 world_size: 2 job: "j" comms { addr: 1 hash: 2 rank: 0 nranks: 2' \
			'counters: [1, 0, 0, 0, 9] sampled_age_ns: 5 same_age_ns: 9 } threads { tid: 7 state: 3' \
			'wchan: "f" waits_for { kind: 6 } } } gpus { index: 0 class_: IDLE pids: [7] }' \
			'findings { id: "x" kind: "hang" ranks: [1] }' |
			protoc --encode=cluster.NodeReport --proto_path=schemas cluster.proto > "$1/report"
		;;
	cluster) # two hosts, some seconds: a rank asleep, a finding, the same again; entries and settings
		local at
		for at in a1 b1 a2 b2 a3 b3; do
			printf '%s\n' "version: 1 host: \"${at:0:1}\" boot_id: \"b\" agent: 5 sequence: ${at:1}" \
				'now_ns: 9000000000 processes { pid: 7 start_ns: 9 rank: 0 job: "j" world_size: 2' \
				'comms { addr: 1 hash: 2 rank: 0 nranks: 2 counters: [1, 0, 0, 0, 9] ended: 7' \
				'sampled_age_ns: 5 same_age_ns: 9 } threads { tid: 7 state: 3 wchan: "f" } }' \
				'gpus { index: 0 n_gpus: 1 pids: [7] window_ns: 9 sm_bp: 1818 sampled_age_ns: 5 }' \
				'findings { id: "x" kind: "d_state" ranks: [0] pids: [7] subject { type: "rank"' \
				'rank: 0 pid: 7 } evidence { name: "syscall" text: "read" } }' |
				protoc --encode=cluster.NodeReport --proto_path=schemas cluster.proto \
					> "$1/message-$at"
		done
		python3 -c 'import struct, sys, glob
def step(what, data=b"", n=None):
    return struct.pack("<BH", what, len(data) if n is None else n) + data
reports = [open(f, "rb").read() for f in sorted(glob.glob(sys.argv[1] + "/message-*"))]
steps = b"".join(step(0, r) + step(1) + step(3, n=10) for r in reports) + step(2, reports[0])
log = b"{\"v\":1,\"hub\":\"h\",\"n\":1,\"key\":\"1\",\"id\":\"i\",\"closes\":false,\"incident\":{}}"
open(sys.argv[1] + "/life", "wb").write(steps + step(4, log) + step(5, b"raise=no\nbudget=2\n"))' "$1"
		rm -f "$1"/message-*
		;;
	recording) cp tests/replay/*.rtr "$1/" ;;
	config)
		printf '%s\n' '# a comment' 'hang-limit = 2' 'busy-limit = 5' 'dstate-limit = 3' 'json = yes' \
			'pid = 1' 'output = a.rtr' 'rotate = 1G' 'keep = 5' 'job = train' 'duration = 60' \
			'fail-on = warning' 'ring-size = 65536' 'flight = /tmp/f' 'flight-seconds = 60' \
			'flight-mb = 4' 'flight-keep = 3' 'phases = /tmp/p' 'budget = 2.5' 'budget-node = no' \
			'quiet = no' 'verbose = no' > "$1/config"
		;;
	esac
}

# first_inputs DIR NAME: all that a target begins with
first_inputs() {
	mkdir -p "$1"
	seed_files "$1" "$2"
	cp tests/fuzz/found/"$2"-* "$1/" 2> /dev/null # what once crashed it
	return 0
}
