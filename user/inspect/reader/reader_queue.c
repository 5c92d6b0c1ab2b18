/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_queue.c - see reader_queue.h.
 */
#include "inspect/reader/reader_queue.h"

#include "base/clock.h"

/* On a host without free CPUs the files of others delay none that is wanted. */
static const double shares[READER_QUEUES] = { 1, 0.5, 0.5 };

uint64_t allowance_left(struct allowance *a, uint64_t second_ns)
{
	uint64_t now = clock_monotonic_ns();

	a->left_ns += (now - a->at_ns) * (second_ns / 1e9);
	if (a->left_ns > second_ns)
		a->left_ns = second_ns;
	a->at_ns = now;
	return a->left_ns;
}

void allowance_spend(struct allowance *a, uint64_t ns)
{
	a->left_ns = a->left_ns > ns ? a->left_ns - ns : 0;
}

void queues_reset(struct file_queue queues[READER_QUEUES], uint64_t second_ns)
{
	for (int i = 0; i < READER_QUEUES; i++) {
		queues[i].share = shares[i];
		queues[i].running = (struct allowance){ second_ns * shares[i], clock_monotonic_ns() };
	}
}

uint64_t queue_left(struct file_queue *q, uint64_t second_ns)
{
	return allowance_left(&q->running, second_ns * q->share);
}

void queues_sweep(struct file_queue queues[READER_QUEUES])
{
	for (int i = 0; i < READER_QUEUES; i++)
		slow_sweep(&queues[i].slow);
}

void queues_free(struct file_queue queues[READER_QUEUES])
{
	for (int i = 0; i < READER_QUEUES; i++)
		slow_free(&queues[i].slow);
}
