/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - see memory.h.
 */
#include "tools/stress/gpu/memory.h"
#include "tools/stress/threshold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/stress/gpu/inject.h"

#define BLOCK 256
#define BLOCKS_PER_SM 8
#define LEAST_SHARE 0.9 /* of what was asked for: below, the test says that it did not see enough */
#define PAUSE_NS 20000000
#define ERROR_WORDS (1 + 3 * MEMORY_ERRORS)

static unsigned int blocks(const struct memory *m)
{
	return BLOCKS_PER_SM * m->gpu->sm_count;
}

/* Pieces until the share is had. Others may take memory meanwhile: then it is less. */
static int pieces_get(struct memory *m)
{
	struct stress_gpu *gpu = m->gpu;
	size_t free_bytes = 0, all;
	int err = gpu_try(gpu, gpu->run->cuda.memory(&free_bytes, &all), "its free memory");
	uint64_t wanted = (uint64_t)(free_bytes * gpu->run->options->memory_share) & ~((2ull << 20) - 1);
	uint64_t piece = MEMORY_PIECE;

	err = err ? err : gpu_alloc(gpu, ERROR_WORDS * sizeof(uint64_t), &m->errors);
	while (!err && m->total < wanted && m->n < MEMORY_PIECES_MAX) {
		uint64_t bytes = wanted - m->total < piece ? wanted - m->total : piece;

		err = gpu_alloc(gpu, bytes, &m->pieces[m->n]);
		if (!err) {
			m->bytes[m->n++] = bytes;
			m->total += bytes;
		} else if (err == -ENOMEM && bytes > 64ull << 20) { /* in smaller pieces */
			piece = bytes / 2 & ~((2ull << 20) - 1);
			err = 0;
		}
	}
	if (err == -ENOMEM && m->total >= wanted * LEAST_SHARE)
		err = 0;
	if (err == -ENOMEM || (!err && !m->total)) {
		snprintf(gpu->why, sizeof(gpu->why),
			 "GPU %d: out of memory: %llu of %llu MiB could be had for the memory test: free the memory "
			 "(nvidia-smi says who holds it), or a smaller --memory",
			 gpu->ordinal, (unsigned long long)m->total >> 20, (unsigned long long)wanted >> 20);
		err = -ENOMEM;
	}
	return err;
}

static int value_launch(struct memory *m, enum kernel_id kernel, int piece, struct memory_value *v, uint32_t *invert)
{
	uint64_t words = m->bytes[piece] / 8;
	uint32_t room = MEMORY_ERRORS;
	void *params[] = { &m->pieces[piece], &words,     &v->mode, &v->p,      &v->flip, &v->half,
			   &v->select,        &v->offset, invert,   &m->errors, &room };

	return gpu_launch(m->gpu, kernel, blocks(m), 1, BLOCK, params);
}

int memory_write(struct memory *m, struct memory_value value)
{
	uint64_t base = 0;
	int err = 0;

	for (int i = 0; !err && i < m->n; i++)
		err = value_launch(m, KERNEL_MEM_WRITE, i, &value, NULL);
	for (int i = 0; !err && i < m->n; base += m->bytes[i++])
		err = inject_memory(m->gpu, m->pieces[i], base, m->bytes[i], &m->injected);
	return err;
}

static uint64_t offset_of(const struct memory *m, uint64_t address)
{
	uint64_t base = 0;

	for (int i = 0; i < m->n; base += m->bytes[i++])
		if (address >= m->pieces[i] && address < m->pieces[i] + m->bytes[i])
			return base + address - m->pieces[i];
	return 0;
}

static int errors_report(struct memory *m)
{
	uint64_t errors[ERROR_WORDS];
	int err = gpu_try(m->gpu, m->gpu->run->cuda.to_host(errors, m->errors, sizeof(errors)), "a copy");

	for (uint64_t i = 0; !err && i < errors[0] && i < MEMORY_ERRORS; i++) {
		const uint64_t *e = errors + 1 + 3 * i;
		struct fault fault = { .kind = FAULT_MEMORY, .gpu = m->gpu->index, .measure = MEASURE_MEMORY };

		fault.address = offset_of(m, e[0]);
		fault.bits = e[1] ^ e[2];
		snprintf(fault.text, sizeof(fault.text),
			 "memory did not keep '%s': word at 0x%llx of the memory under test (device address 0x%llx): "
			 "bits 0x%llx, read 0x%016llx for 0x%016llx; %llu such words in this pass",
			 m->pattern, (unsigned long long)fault.address, (unsigned long long)e[0],
			 (unsigned long long)fault.bits, (unsigned long long)e[2], (unsigned long long)e[1],
			 (unsigned long long)errors[0]);
		run_fault(m->gpu->run, &fault);
	}
	return err;
}

int memory_check(struct memory *m, struct memory_value value, bool invert)
{
	const struct cuda *cuda = &m->gpu->run->cuda;
	uint32_t inverted = invert;
	uint64_t n = 0;
	float ms = 0;
	int err = gpu_try(m->gpu, cuda->set_words(m->errors, 0, 2 * ERROR_WORDS, m->gpu->stream), "a memset");

	err = err ? err : gpu_try(m->gpu, cuda->event_record(m->begin, m->gpu->stream), "an event");
	for (int i = 0; !err && i < m->n; i++)
		err = value_launch(m, KERNEL_MEM_CHECK, i, &value, &inverted);
	err = err ? err : gpu_try(m->gpu, cuda->event_record(m->end, m->gpu->stream), "an event");
	err = err ? err : gpu_wait_event(m->gpu, m->end);
	err = err ? err : gpu_try(m->gpu, cuda->event_elapsed(&ms, m->begin, m->end), "a time");
	err = err ? err : gpu_try(m->gpu, cuda->to_host(&n, m->errors, sizeof(n)), "a copy");
	if (err)
		return err;
	if (!invert && value.select == SELECT_ALL && ms > 0) {
		m->gpu->rate_now = m->total / ms * 1e-6;
		series_add(&m->rates, m->total / ms * 1e-6);
	}
	m->gpu->checked[MEASURE_MEMORY] += m->total;
	return n ? errors_report(m) : 0;
}

int memory_move(struct memory *m)
{
	uint32_t half = MOVE_HALF;
	int err = 0;

	for (int i = 0; !err && i < m->n; i++) {
		uint64_t words = m->bytes[i] / 8;
		void *params[] = { &m->pieces[i], &words, &half };

		err = gpu_launch(m->gpu, KERNEL_MEM_MOVE, blocks(m), 1, BLOCK, params);
	}
	return err;
}

int memory_pause(struct memory *m, uint64_t ns)
{
	uint64_t end_ns = clock_monotonic_ns() + ns;
	int err = gpu_wait(m->gpu);

	while (!err && clock_monotonic_ns() < end_ns && !run_stopping(m->gpu->run))
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	return err;
}

static int memory_setup(struct memory *m)
{
	const struct cuda *cuda = &m->gpu->run->cuda;
	int err = gpu_try(m->gpu, cuda->event_create(&m->begin, 0), "an event");

	err = err ? err : gpu_try(m->gpu, cuda->event_create(&m->end, 0), "an event");
	return err ? err : pieces_get(m);
}

static void memory_release(struct memory *m)
{
	const struct cuda *cuda = &m->gpu->run->cuda;

	if (m->gpu->lost)
		return;
	for (int i = 0; i < m->n; i++)
		cuda->free(m->pieces[i]);
	if (m->errors)
		cuda->free(m->errors);
	if (m->begin)
		cuda->event_destroy(m->begin);
	if (m->end)
		cuda->event_destroy(m->end);
}

void memory_window(struct stress_gpu *gpu)
{
	struct memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		abort();
	m->gpu = gpu;
	err = memory_setup(m);
	if (err == -ENOMEM)
		gpu->impossible = true;
	err = err ? err : memtests_run(m);
	gpu->rate_now = 0;
	if (!err && m->rates.n)
		run_window_take(gpu, MEASURE_MEMORY, series_median(&m->rates));
	gpu->memory_bytes = m->total;
	memory_release(m);
	free(m);
	if (!gpu->lost)
		crew_meet(&gpu->run->crew, NULL, NULL);
}
