#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a tracer goes by: sonames, exported names, weak and strong aliases at one address, DWARF of struct ncclComm, and
# a layout that differs from build to build.
. "$(dirname "$0")/job.bash"
nccl=$sim_dir/libnccl.so.2
cuda=$sim_dir/libcuda.so.1

soname() { readelf -d "$1" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p'; }
[[ $(soname "$nccl") == libnccl.so.2 ]] || fail "soname of $nccl: $(soname "$nccl")"
[[ $(soname "$cuda") == libcuda.so.1 ]] || fail "soname of $cuda: $(soname "$cuda")"

nm -D --defined-only "$nccl" > "$dir/nccl"
for f in GetVersion GetUniqueId CommInitRank CommInitRankConfig CommInitRankScalable CommInitAll CommSplit CommShrink \
	CommFinalize CommDestroy CommAbort CommRevoke CommGetAsyncError CommCount CommCuDevice CommUserRank AllReduce \
	Broadcast Bcast Reduce AllGather ReduceScatter AlltoAll Gather Scatter Send Recv GroupStart GroupEnd \
	GetErrorString GetLastError CommRegister CommDeregister MemAlloc MemFree; do
	weak=$(awk -v n=nccl$f '$3 == n && $2 == "W" { print $1 }' "$dir/nccl")
	strong=$(awk -v n=pnccl$f '$3 == n && $2 == "T" { print $1 }' "$dir/nccl")
	[[ -n $weak && $weak == "$strong" ]] || fail "nccl$f at '$weak', pnccl$f at '$strong'"
done
[[ -z $(awk '$3 !~ /^(p?nccl|sim_)/' "$dir/nccl") ]] ||
	fail "exports more than NCCL: $(awk '$3 !~ /^(p?nccl|sim_)/' "$dir/nccl")"

nm -D --defined-only "$cuda" > "$dir/cuda"
for f in cuInit cuDeviceGet cuDeviceGetCount cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxGetDevice cuCtxSynchronize \
	cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize{,_ptsz} cuStreamQuery{,_ptsz} cuStreamWaitEvent{,_ptsz} \
	cuEventCreate cuEventDestroy_v2 cuEventRecord{,_ptsz} cuEventRecordWithFlags{,_ptsz} cuEventQuery \
	cuEventSynchronize cuEventElapsedTime cuLaunchKernel{,_ptsz} cuLaunchKernelEx{,_ptsz} cuMemAlloc_v2 \
	cuMemFree_v2 \
	cuMemcpyAsync{,_ptsz} cuMemcpyHtoDAsync_v2{,_ptsz} cuMemcpyDtoHAsync_v2{,_ptsz} cuMemcpyDtoH_v2 \
	cuLaunchHostFunc{,_ptsz} cuGetProcAddress_v2 cuGetErrorName cuStreamBeginCapture_v2{,_ptsz} \
	cuStreamBeginCaptureToGraph{,_ptsz} cuStreamEndCapture{,_ptsz} cuStreamIsCapturing{,_ptsz} \
	cuStreamGetCaptureInfo_v2{,_ptsz} cuStreamGetCaptureInfo_v3{,_ptsz} cuThreadExchangeStreamCaptureMode \
	cuGraphCreate cuGraphClone cuGraphGetNodes cuGraphInstantiateWithFlags cuGraphInstantiateWithParams{,_ptsz} \
	cuMemAllocHost_v2 cuMemHostAlloc cuMemFreeHost \
	cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressReserve cuMemAddressFree \
	cuMemGetInfo_v2 \
	cuMemAllocAsync{,_ptsz} cuMemFreeAsync{,_ptsz} cuMemcpyHtoD_v2{,_ptds} cuMemcpyDtoH_v2_ptds \
	cuMemcpyDtoDAsync_v2{,_ptsz} cuMemsetD8Async{,_ptsz} cuMemsetD32Async{,_ptsz} cuModuleLoadDataEx \
	cuLibraryLoadData cuLibraryUnload cuEventElapsedTime_v2 \
	cuGraphUpload{,_ptsz} cuGraphLaunch{,_ptsz} cuGraphExecUpdate_v2 cuGraphExecDestroy cuGraphDestroy; do
	awk -v n="$f" '$3 == n && $2 == "T" { found = 1 } END { exit !found }' "$dir/cuda" || fail "$f is not exported"
done

# Offsets of the fields from DWARF, one "name offset" a line.
offsets() {
	readelf --debug-dump=info "$1" 2> /dev/null | awk '
		/DW_TAG_/ { inside = /DW_TAG_structure_type/ ? 1 : inside; member = /DW_TAG_member/ }
		/DW_TAG_structure_type/ { wanted = 0 }
		/DW_AT_name/ && !member && inside { wanted = $NF == "ncclComm"; inside = 0 }
		/DW_AT_name/ && member { name = $NF }
		/DW_AT_data_member_location/ && wanted { print name, $NF }'
}
offsets "$nccl" | sort -u > "$dir/offsets"
for field in startMagic endMagic commHash rank nRanks cudaDev asyncResult abortFlag initState seqNumber; do
	grep -q "^$field " "$dir/offsets" || fail "no $field in the DWARF of struct ncclComm"
done
(($(awk '$1 == "endMagic" { print $2 }' "$dir/offsets") > 65536)) || fail "struct ncclComm is small"
for n in 0 1 2; do
	[[ -e $sim_dir/layout$n/libnccl.so.2 ]] || continue
	offsets "$sim_dir/layout$n/libnccl.so.2" | sort -u | cmp -s "$dir/offsets" &&
		fail "layout $n is the default one"
	[[ $(soname "$sim_dir/layout$n/libnccl.so.2") == libnccl.so.2 ]] || fail "soname of layout $n"
done

# Linked into the job: the names in both tables, or in .symtab only.
dynamic() { nm -D --defined-only "$sim_dir/$1" | grep -cE ' [WT] p?ncclAllReduce$'; }
symtab() { nm --defined-only "$sim_dir/$1" | grep -cE ' [WT] p?ncclAllReduce$'; }
[[ $(dynamic simjob-static) == 2 && $(symtab simjob-static) == 2 ]] || fail "simjob-static does not export NCCL"
[[ $(dynamic simjob-static-symtab) == 0 && $(symtab simjob-static-symtab) == 2 ]] || fail "simjob-static-symtab"
[[ $(symtab simjob) == 0 ]] || fail "simjob has NCCL inside"

# Installed, with the other layouts beside it, the job runs from where it is then.
make -s install O="${O:-build}" DESTDIR="$dir/root" PREFIX=/usr > "$dir/out" 2>&1 ||
	fail "make install: $(tail -n 3 "$dir/out")"
installed=$dir/root/usr/lib/ranktrace/sim
"$installed/simjob" -q --ranks 2 --steps 2 --step-ms 5 --nccl-lib "$installed/layout1/libnccl.so.2" ||
	fail "the installed job does not run"

# libraries_of options...: which libnccl files a rank has mapped.
libraries_of() {
	rm -f "$dir/log"
	job_start --ranks 2 --steps 1000 "$@"
	wait_for 10 eval '(($(log_lines) > 20))' || fail "$*: the job does not start"
	libraries=$(sed -n 's|.* /.*/sim/\(.*libnccl.*\)|\1|p' "/proc/$(head -n 1 "$dir/log" | jq .pid)/maps" |
		sort -u | xargs)
	job_kill TERM
}
libraries_of --rank-exe "$sim_dir/simjob-static"
[[ -z $libraries ]] || fail "simjob-static maps $libraries"
libraries_of --nccl-lib2 "$sim_dir/layout1/libnccl.so.2"
[[ $libraries == "layout1/libnccl.so.2 libnccl.so.2" ]] || fail "two copies: $libraries"
rm -f "$dir/log"

# The launcher is no training process: it has neither library mapped; a rank has both, and torchrun's environment.
job_start --ranks 2 --steps 1000
wait_for 10 eval '(($(log_lines) > 20))' || fail "the job does not start"
rank_pid=$(head -n 1 "$dir/log" | jq .pid)
grep -qE 'libnccl|libcuda' "/proc/$launcher/maps" && fail "the launcher maps the libraries"
grep -q 'libnccl.so.2' "/proc/$rank_pid/maps" && grep -q 'libcuda.so.1' "/proc/$rank_pid/maps" ||
	fail "not mapped in the rank"
for name in RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID; do
	tr '\0' '\n' < "/proc/$rank_pid/environ" | grep -q "^$name=." || fail "no $name in the rank's environment"
done
cat /proc/"$rank_pid"/task/*/comm | grep -q '^pt_nccl_watchdg$' || fail "no watchdog thread"
pgrep -P "$rank_pid" -x pt_data_worker > /dev/null || fail "no dataloader child"
job_kill TERM
[[ $? == 1 ]] || fail "a terminated job has to exit with 1"
