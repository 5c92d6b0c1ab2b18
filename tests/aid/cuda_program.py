# SPDX-License-Identifier: Apache-2.0
"""A program that defines and calls every driver function the tracer probes, for test_cuda_calls.py.

What the functions look like stands here a second time, from cuda.h of CUDA 13.0 and cudaTypedefs.h, so that an
argument misplaced in the tracer's own table shows. Each function logs its call itself: arguments, begin and end.
Parameters named stream, event, graph, exec, bytes, width ... are what the tracer is to find; every value is different
from all others. """
import os
import subprocess

# name(parameters) [variants]: the exported names are name + variant, "-" for the bare name
PROTOTYPES = """
cuStreamSynchronize(stream) - _ptsz
cuEventSynchronize(event) -
cuCtxSynchronize() -
cuCtxSynchronize(ctx) _v2
cuMemcpyDtoH(host, from, bytes) _v2 _v2_ptds
cuMemcpyHtoD(to, host, bytes) _v2 _v2_ptds
cuMemcpyDtoD(to, from, bytes) _v2 _v2_ptds
cuMemcpy(to, from, bytes) - _ptds
cuMemcpyPeer(to, toctx, from, fromctx, bytes) - _ptds
cuMemcpy2D(copy2d) _v2 _v2_ptds
cuMemcpy2DUnaligned(copy2d) _v2 _v2_ptds
cuMemcpy3D(copy3d) _v2 _v2_ptds
cuMemcpy3DPeer(copy3d) - _ptds
cuEventQuery(event) -
cuStreamQuery(stream) - _ptsz
cuEventElapsedTime(ms, start, end) - _v2
cuEventRecord(event, stream) - _ptsz
cuEventRecordWithFlags(event, stream, flags) - _ptsz
cuStreamWaitEvent(stream, event, flags) - _ptsz
cuStreamBeginCapture(stream) - _ptsz
cuStreamBeginCapture(stream, mode) _v2 _v2_ptsz
cuStreamBeginCaptureToGraph(stream, tograph, deps, data, n, mode) - _ptsz
cuStreamEndCapture(stream, newgraph) - _ptsz
cuGraphInstantiate(newexec, graph, node, log, size) - _v2
cuGraphInstantiateWithFlags(newexec, graph, flags) -
cuGraphInstantiateWithParams(newexec, graph, params) - _ptsz
cuGraphClone(newgraph, parent) -
cuGraphLaunch(exec, stream) - _ptsz
cuGraphExecUpdate(exec, graph, node, result) -
cuGraphExecUpdate(exec, graph, info) _v2
cuGraphDestroy(graph) -
cuGraphExecDestroy(exec) -
cuGraphUpload(exec, stream) - _ptsz
cuMemAlloc(ptr, bytes) _v2
cuMemAllocPitch(ptr, pitch, width, height, element) _v2
cuMemAllocHost(ptr, bytes) _v2
cuMemHostAlloc(ptr, bytes, flags) -
cuMemHostRegister(ptr, bytes, flags) _v2
cuMemAllocManaged(ptr, bytes, flags) -
cuMemCreate(handle, bytes, prop, flags) -
cuMemMap(ptr, bytes, offset, handle, flags) -
cuMemSetAccess(ptr, bytes, desc, count) -
cuMemImportFromShareableHandle(handle, os, type) -
cuIpcOpenMemHandle(ptr, handle) _v2
cuMemFree(ptr) _v2
cuMemFreeHost(ptr) -
cuMemHostUnregister(ptr) -
cuMemUnmap(ptr, bytes) -
cuMemRelease(handle) -
cuMemAllocAsync(ptr, bytes, onstream) - _ptsz
cuMemAllocFromPoolAsync(ptr, bytes, pool, onstream) - _ptsz
cuMemFreeAsync(ptr, onstream) - _ptsz
cuModuleLoad(module, name) -
cuModuleLoadData(module, image) -
cuModuleLoadDataEx(module, image, n, options, values) -
cuModuleLoadFatBinary(module, image) -
cuModuleUnload(module) -
cuLibraryLoadData(library, code, jit, jitvalues, n, options, values, m) -
cuLibraryLoadFromFile(library, name, jit, jitvalues, n, options, values, m) -
cuLibraryUnload(library) -
cuLinkComplete(state, cubin, size) -
cuInit(flags) -
cuCtxCreate(ctx, flags, device) _v2
cuCtxCreate(ctx, affinity, n, flags, device) _v3
cuCtxCreate(ctx, params, flags, device) _v4
cuCtxDestroy(ctx) _v2
cuDevicePrimaryCtxRetain(ctx, device) -
cuDevicePrimaryCtxRelease(device) _v2
cuDevicePrimaryCtxReset(device) _v2
cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra) - _ptsz
cuLaunchKernelEx(config, f, params, extra) - _ptsz
cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params) - _ptsz
cuMemcpyAsync(to, from, bytes, stream) - _ptsz
cuMemcpyHtoDAsync(to, host, bytes, stream) _v2 _v2_ptsz
cuMemcpyDtoHAsync(host, from, bytes, stream) _v2 _v2_ptsz
cuMemcpyDtoDAsync(to, from, bytes, stream) _v2 _v2_ptsz
cuMemcpyPeerAsync(to, toctx, from, fromctx, bytes, stream) - _ptsz
cuMemcpy2DAsync(copy2d, stream) _v2 _v2_ptsz
cuMemcpy3DAsync(copy3d, stream) _v2 _v2_ptsz
cuMemcpy3DPeerAsync(copy3d, stream) - _ptsz
cuMemsetD8Async(to, value, n1, stream) - _ptsz
cuMemsetD16Async(to, value, n2, stream) - _ptsz
cuMemsetD32Async(to, value, n4, stream) - _ptsz
cuMemsetD2D8Async(to, pitch, value, width1, height, stream) - _ptsz
cuMemsetD2D16Async(to, pitch, value, width2, height, stream) - _ptsz
cuMemsetD2D32Async(to, pitch, value, width4, height, stream) - _ptsz
"""

FLOOD_TURN = 4000  # calls of a flood with the collector stopped, then as many without
HEAD = r"""
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUlaunchConfig of cuda.h, by field */
struct copy2d { size_t sx, sy; int from; void *sh; uint64_t sd; void *sa; size_t sp, dx, dy;
                int to; void *dh; uint64_t dd;
	void *da; size_t dp, width, height; };
struct copy3d { size_t sx, sy, sz, sl; int from; void *sh; uint64_t sd; void *sa, *r0;
                size_t sp, shh, dx, dy, dz, dl; int to;
	void *dh; uint64_t dd; void *da, *r1; size_t dp, dhh, width, height, depth; };
struct config { unsigned g[3], b[3], shared; void *stream; void *attrs; unsigned n; };

static uint64_t serial = 0x1000, result, sleep_ns;
static FILE *out;
static int quiet; /* not logged: a call then takes no time but the probe's */

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void rest(uint64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };
	if (ns)
		nanosleep(&t, NULL);
}
"""

PLACES = ("newgraph", "newexec", "ms")  # pointers the function writes through
STRUCTS = ("copy2d", "copy3d", "config")


def functions():
    """(symbol, base name, parameters) of each exported function."""
    for line in filter(None, PROTOTYPES.splitlines()):
        head, variants = line.split(") ")
        name, parameters = head.split("(")
        parameters = [p.strip() for p in parameters.split(",") if p.strip()]
        for v in variants.split():
            yield name + ("" if v == "-" else v), name, parameters


def definition(symbol, parameters):
    lines = [f"__attribute__((noinline)) int {symbol}({', '.join('uint64_t ' + p for p in parameters) or 'void'})", "{",
             "\tuint64_t begin = now(), made = 0;"]
    for p in parameters:
        if p in ("newgraph", "newexec"):
            lines.append(f"\tmade = ++serial; if (!result) memcpy((void *){p}, &made, 8);")
        if p == "ms":
            lines.append("\tfloat f = 1.5f + (float)(++serial % 100); made = (uint64_t)((double)f * 1e6); if (!result) "
                         "memcpy((void *)ms, &f, 4);")
    lines.append("\trest(sleep_ns);\n\tif (quiet)\n\t\treturn result;")
    lines.append(f'\tfprintf(out, '
                 f'"{{\\"symbol\\":\\"{symbol}\\",\\"begin\\":%lu,\\"end\\":%lu,\\"made\\":%lu,\\"result\\":%lu", '
                 "begin, now(), made, result);")
    for p in parameters:
        if p in STRUCTS:
            fields = {"copy2d": ("from", "to", "width", "height"), "copy3d": ("from", "to", "width", "height", "depth"),
                      "config": ("stream",)}[p]
            for f in fields:
                lines.append(f'\tfprintf(out, ",\\"{p}.{f}\\":%lu", (uint64_t)((struct {p} *){p})->{f});')
        elif p not in PLACES:
            lines.append(f'\tfprintf(out, ",\\"{p}\\":%lu", {p});')
    lines += ['\tfprintf(out, "}\\n");', "\treturn result;", "}"]
    return "\n".join(lines)


def call(symbol, parameters):
    """One call with values that no other call has; copies go to the host, to the device and around, in turn."""
    setup, arguments = [], []
    for p in parameters:
        if p in PLACES:
            arguments.append("(uint64_t)&place")
        elif p in STRUCTS:
            arguments.append(f"(uint64_t)&{p}")
            if p == "config":
                setup.append("config.stream = (void *)++serial;")
            else:
                setup += [f"{p}.width = ++serial % 97 + 1; {p}.height = ++serial % 89 + 1;",
                          f"{p}.from = 1 + serial % 4; {p}.to = 1 + serial / 4 % 4;"]
            if p == "copy3d":
                setup.append("copy3d.depth = ++serial % 7 + 1;")
        elif p == "height":
            arguments.append("++serial % 89 + 1")
        elif p in ("stream", "onstream") and symbol.endswith(("_ptsz", "_ptds")):
            arguments.append("serial % 2 ? 0 : ++serial")  # 0 is the thread's own default stream here
        else:
            arguments.append("++serial")
    # arguments are evaluated in any order: fix it
    names = [f"a{i}" for i in range(len(arguments))]
    decls = "".join(f"\t\tuint64_t {n} = {a};\n" for n, a in zip(names, arguments))
    return "".join(f"\t\t{s}\n" for s in setup) + decls + f"\t\t{symbol}({', '.join(names)});\n"


def source(counts):
    parts = [HEAD] + [definition(s, p) for s, _, p in functions()]
    main = ["int main(int argc, char **argv)", "{",
            "\tuint64_t place = 0; struct copy2d copy2d = {0}; struct copy3d copy3d = {0};",
            "\tstruct config config = {{0}};", "\tout = fopen(argv[1], \"w\"); usleep(atoi(argv[2]) * 1000);"]
    for symbol, _, parameters in functions():
        # the last call of each fails; the first lasts, so that a duration is more than noise
        main += [f"\tfor (int i = 0; i < {counts[symbol]}; i++) {{",
                 f"\t\tresult = i && i == {counts[symbol]} - 1 ? 719 : 0; sleep_ns = i ? 0 : 1500000;",
                 call(symbol, parameters) + "\t}"]
    main += ["\tresult = 0; sleep_ns = atoi(argv[3]) * 1000000ull;", "\tif (sleep_ns) {",
             "\t\tcuMemAlloc_v2(1, 0x77777);",
             "\t\tcuStreamSynchronize(0x88888);", "\t\tsleep_ns = 0;", "\t\tcuInit(0);",
             "\t\trest(1700000000); /* out of every call: cuInit may not be reported as open */", "\t}",
             "\tfclose(out); quiet = 1;",
             # who takes the records is stopped again and again: how fast it is decides nothing
             "\tfor (int i = atoi(argv[4]); i > 0; i--) {",
             f"\t\tif (i % {FLOOD_TURN} == 0)", f"\t\t\tkill(getppid(), i / {FLOOD_TURN} % 2 ? SIGCONT : SIGSTOP);",
             "\t\tcuMemcpyHtoDAsync_v2(1, 2, 3, 4);", "\t}", "\tif (atoi(argv[4]))", "\t\tkill(getppid(), SIGCONT);",
             "\tusleep(300000); return 0;", "}"]
    return "\n".join(parts + main) + "\n"


def build(directory, counts):
    path = os.path.join(directory, "driver")
    with open(path + ".c", "w") as f:
        f.write(source(counts))
    # without -fno-ipa-icf equal functions would be one
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-w", "-fno-ipa-icf", "-o", path, path + ".c"], check=True)
    return path
