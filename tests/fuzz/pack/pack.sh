#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs the fuzz targets of $O/fuzz into $O/fuzz-pack, with their corpora, first inputs and libraries (not the C
# library), for another machine with more cores: run.sh there (beside this file). What crashes a target there is to be
# given to the target here, which has line numbers; an address of its log (+0x...) is the same there.
cd "$(dirname "$0")/../../.." || exit 2
O=${O:-build}
MIB_MAX=55
pack=$O/fuzz-pack
. tests/fuzz/seed_files.sh
rm -rf "$pack" && mkdir -p "$pack"/{bin,lib,corpus} || exit 2
targets=("$O"/fuzz/fuzz_*)
[[ -x ${targets[0]} ]] || { echo "no fuzz target was built: clang's libFuzzer is needed" >&2; exit 2; }
for target in "${targets[@]}"; do
	name=${target##*/fuzz_}
	strip -o "$pack/bin/${target##*/}" "$target" && gzip "$pack/bin/${target##*/}" || exit 2
	first_inputs "$pack/corpus/$name" "$name"
	cp "$O/fuzz/corpus/$name"/* "$pack/corpus/$name/" 2> /dev/null # those of earlier runs here
done
ldd "${targets[@]}" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libpthread)\.so' | sort -u |
	xargs -I{} cp -L {} "$pack/lib/"
cp tests/fuzz/target.sh tests/fuzz/pack/{run,job,summary}.sh "$pack/" || exit 2
mib=$(($(du -s --apparent-size "$pack" | cut -f 1) / 1024 + 1))
echo "$pack: $mib MiB; there: $pack/run.sh SECONDS OUTDIR [JOBS_PER_TARGET]"
((mib <= MIB_MAX)) || { echo "$pack: more than $MIB_MAX MiB, what a lent machine takes" >&2; exit 1; }
