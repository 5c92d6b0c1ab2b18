# SPDX-License-Identifier: Apache-2.0
"""Threads that call the driver a few times and end, thousands of them, while another one sits in a call: each call is
recorded once with its own times, the open one is reported, and the places of threads that are gone are given back.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import bpf_objects
import cuda_records
import job
import rtr

THREADS, CALLS = 3000, 3
OPEN_S = 14
PLACES_MOST = 20
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define API __attribute__((noinline, visibility("default")))
API int cuStreamSynchronize(void *stream) { __asm__ volatile("" ::: "memory"); return stream != NULL; }
API int cuEventQuery(void *event) { __asm__ volatile("" ::: "memory"); return event ? 600 : 0; }
API int cuMemAlloc_v2(void **ptr, size_t bytes) { *ptr = NULL; sleep(bytes); return 0; }
static void *asker(void *event)
{
	for (int i = 0; i < %(calls)d; i++)
		cuEventQuery(event);
	return NULL;
}
static void *allocator(void *seconds)
{
	void *ptr;
	cuMemAlloc_v2(&ptr, (size_t)seconds);
	return NULL;
}
int main(void)
{
	pthread_t open, one;
	usleep(%(start_us)d);
	cuStreamSynchronize(NULL);
	pthread_create(&open, NULL, allocator, (void *)(size_t)%(open_s)d);
	for (size_t i = 1; i <= %(threads)d; i++) {
		pthread_create(&one, NULL, asker, (void *)i);
		pthread_join(one, NULL);
	}
	puts("called");
	fflush(stdout);
	pthread_join(open, NULL);
	return 0;
}
"""


def build(d):
    with open(f"{d}/p.c", "w") as f:
        f.write(PROGRAM % dict(calls=CALLS, threads=THREADS, open_s=OPEN_S, start_us=3000000))
    subprocess.run(["cc", "-O1", "-rdynamic", "-pthread", "-o", f"{d}/p", f"{d}/p.c"], check=True)
    return f"{d}/p"


def places(pid):
    """Threads that have one in the map of calls in flight."""
    maps = json.loads(subprocess.run(["bpftool", "-j", "map", "list"], capture_output=True, text=True).stdout)
    own = bpf_objects.of_process(pid)
    ids = [m["id"] for m in maps if m.get("name") == "cuda_in_flight" and ("map", m["id"]) in own]
    job.check(len(ids) == 1, f"maps of calls in flight: {ids}")
    dump = subprocess.run(["bpftool", "-j", "map", "dump", "id", str(ids[0])], capture_output=True, text=True)
    return len(json.loads(dump.stdout))


def main():
    job.need_root()
    job.seed()
    with tempfile.TemporaryDirectory(prefix="ranktrace-cuda-") as d:
        p = subprocess.Popen([job.RANKTRACE, "record", "--tier", "trace", "--budget=no", "-o", f"{d}/a.rtr", "--",
                              build(d)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            job.check(p.stdout.readline() == "called\n", "the program did not call")
            most = places(p.pid)
            end = time.monotonic() + OPEN_S - 3
            while (now := places(p.pid)) > PLACES_MOST and time.monotonic() < end:
                time.sleep(0.2)
            err = p.communicate(timeout=60)[1]
        finally:
            if p.poll() is None:
                os.kill(p.pid, signal.SIGINT)
        job.check(p.returncode == 0, f"exit {p.returncode}: {err}")
        records, lost = list(cuda_records.records(f"{d}/a.rtr")), rtr.losses(f"{d}/a.rtr")
    job.check(not lost, f"lost: {lost}")
    job.check(now <= PLACES_MOST, f"{now} threads have a place, most of them gone for 5 s and more ({most} at most)")
    asked = collections.Counter(r["event"] for r in records if r["kind"] == "query")
    job.check(asked == {i: CALLS for i in range(1, THREADS + 1)}, f"{sum(asked.values())} queries of {len(asked)}")
    opens = [r for r in records if r["kind"] == "open"]
    job.check([r["fn"] for r in opens] == ["cuMemAlloc"] * len(opens) and len({r["begin"] for r in opens}) == 1 and
              [round((r["ts"] - r["begin"]) / 1e9) // 5 for r in opens] == [0, 1, 2], f"open calls reported: {opens}")
    print(f"{THREADS} threads, {sum(asked.values())} queries, each once; places: {most}, then {now}")


main()
