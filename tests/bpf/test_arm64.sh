#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# arm64 without an arm64 machine: every program compiles for it, and the ABI fact that nccl.bpf.c relies on holds. A
# compiler for arm64 puts ncclCommInitRank's 128-byte id behind a pointer in x2 and the rank into w3; one for x86-64
# copies the id onto the stack and puts the rank into edx.
set -eu
cd "$(dirname "$0")/../.."
command -v clang > /dev/null || { echo "no clang"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for src in tracers/*/*.bpf.c; do
	clang -g -O2 -Wall -Werror -target bpf -D__TARGET_ARCH_arm64 -Ivmlinux -I. -Ischemas \
		-I"/usr/include/$(uname -m)-linux-gnu" -c "$src" -o "$out/x.o"
	echo "ok: $src compiles for arm64"
done

cat > "$out/call.c" << 'C'
struct id { char bytes[128]; };
int init_rank(void *comm, int nranks, struct id id, int rank);
extern struct id the_id;
int call(void *comm) { return init_rank(comm, 8, the_id, 5); }
C
clang -O1 -target aarch64-linux-gnu -S "$out/call.c" -o "$out/arm64.s"
grep -qE 'mov[[:space:]]+w3, #5' "$out/arm64.s" || { echo "arm64: the rank is not in w3"; cat "$out/arm64.s"; exit 1; }
grep -qE '(mov|add)[[:space:]]+x2, sp' "$out/arm64.s" ||
	{ echo "arm64: x2 does not point to the copy of the id"; cat "$out/arm64.s"; exit 1; }
clang -O1 -target x86_64-linux-gnu -S "$out/call.c" -o "$out/x86.s"
grep -qE 'movl[[:space:]]+\$5, %edx' "$out/x86.s" ||
	{ echo "x86-64: the rank is not in edx"; cat "$out/x86.s"; exit 1; }
echo "ok: the id by value lies where nccl.bpf.c looks, on both"
