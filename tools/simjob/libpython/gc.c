// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for CPython's collector: the static marks that a distribution compiles into the interpreter, with their
 * semaphores. As there, a mark at which no tracer looks is passed by.
 */
#include "tools/simjob/libpython/gc.h"

#include <time.h>

/* What <sys/sdt.h> makes of STAP_PROBE(python, gc__NAME): an empty instruction, and a note that says where it is. */
#define MARK(NAME) \
	__asm__ volatile("990: nop\n" \
			 ".pushsection .note.stapsdt, \"\", \"note\"\n" \
			 ".balign 4\n" \
			 ".4byte 992f - 991f, 994f - 993f, 3\n" \
			 "991: .asciz \"stapsdt\"\n" \
			 "992: .balign 4\n" \
			 "993: .8byte 990b, 0, sim_gc_" #NAME "_semaphore\n" \
			 ".asciz \"python\"\n.asciz \"gc__" #NAME "\"\n.asciz \"\"\n" \
			 "994: .balign 4\n" \
			 ".popsection\n")

volatile unsigned short sim_gc_start_semaphore __attribute__((section(".probes"), used));
volatile unsigned short sim_gc_done_semaphore __attribute__((section(".probes"), used));

static _Thread_local uint64_t total_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Never twice in the program: a mark in two places is none. */
__attribute__((noinline, noclone)) void sim_python_collect(uint64_t ns)
{
	uint64_t begin_ns = now_ns();

	if (sim_gc_start_semaphore)
		MARK(start);
	while (now_ns() < begin_ns + ns)
		;
	if (sim_gc_done_semaphore)
		MARK(done);
	total_ns += now_ns() - begin_ns;
}

uint64_t sim_python_collected_ns(void)
{
	return total_ns;
}
