#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernels' text assembles for every kind of GPU that this ptxas knows, and asks for no newer driver than it says:
# version 6.5, sm_52 (sm_75 in its place where ptxas has forgotten sm_52). PTXAS=path.
ptx=tools/stress/kernels/stress.ptx
ptxas=${PTXAS:-$(command -v ptxas || ls /usr/local/cuda/bin/ptxas 2> /dev/null)}
[[ -x $ptxas ]] || { echo "skipped: no ptxas (CUDA's assembler) on this machine"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -qx '.version 6.5' $ptx && grep -qx '.target sm_52' $ptx || { echo "not version 6.5 and sm_52"; exit 1; }
n=0
for arch in 52 60 70 75 80 86 89 90 100 103 120; do
	echo ".version 6.5
.target sm_52
.address_size 64" > "$work/nothing.ptx"
	text=$ptx
	if ((arch < 75)); then
		"$ptxas" -arch=sm_$arch "$work/nothing.ptx" -o "$work/o" 2> /dev/null || continue
	elif ! "$ptxas" -arch=sm_$arch "$work/nothing.ptx" -o "$work/o" 2> /dev/null; then
		sed 's/^\.target sm_52$/.target sm_75/' "$work/nothing.ptx" > "$work/75.ptx"
		"$ptxas" -arch=sm_$arch "$work/75.ptx" -o "$work/o" 2> /dev/null || continue
		sed 's/^\.target sm_52$/.target sm_75/' $ptx > "$work/text.ptx"
		text=$work/text.ptx
	fi
	"$ptxas" -arch=sm_$arch "$text" -o "$work/o" || { echo "sm_$arch: does not assemble"; exit 1; }
	n=$((n + 1))
done
((n)) || { echo "$ptxas assembles for none of the known kinds"; exit 1; }
# an instruction that came later must not pass
later="ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];"
sed "s/\\bbar\.sync\b.*/nanosleep.u32 100; $later/" $ptx > "$work/new.ptx"
! "$ptxas" -arch=sm_80 "$work/new.ptx" -o "$work/o" 2> /dev/null || { echo "a newer instruction passes"; exit 1; }
echo "assembles for $n kinds of GPU"
