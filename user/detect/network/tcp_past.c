/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_past.c - see tcp_past.h.
 */
#include "detect/network/tcp_past.h"

#include <string.h>

#include "base/sorted.h"

#define KNOWN_ROUNDS 8

void tcp_past_take(struct tcp_past *p, struct tcp_round r, bool habit)
{
	if (p->n_now == TCP_ROUNDS && habit)
		p->before[p->n_before++ % TCP_PAST] = p->now[TCP_ROUNDS - 1];
	memmove(p->now + 1, p->now, sizeof(p->now) - sizeof(p->now[0]));
	p->now[0] = r;
	p->n_now += p->n_now < TCP_ROUNDS;
}

static int n_kept(const struct tcp_past *p)
{
	return p->n_before < TCP_PAST ? (int)p->n_before : TCP_PAST;
}

bool tcp_past_known(const struct tcp_past *p)
{
	return p->n_before >= KNOWN_ROUNDS;
}

double tcp_past_rtt_us(const struct tcp_past *p)
{
	double v[TCP_PAST];
	int n = n_kept(p);

	for (int i = 0; i < n; i++)
		v[i] = p->before[i].rtt_us;
	return n ? doubles_nth(v, n, n / 2) : 0;
}

double tcp_past_rtt_most_us(const struct tcp_past *p)
{
	double most = 0;

	for (int i = 0; i < n_kept(p); i++)
		most = p->before[i].rtt_us > most ? p->before[i].rtt_us : most;
	return most;
}

/* Of `n` rounds from the `from`-th on of those kept, oldest first. */
static double cost_of(const struct tcp_past *p, int from, int n)
{
	double busy_us = 0, bytes = 0;

	for (int i = from; i < from + n; i++) {
		const struct tcp_round *r = &p->before[(p->n_before - n_kept(p) + i) % TCP_PAST];

		busy_us += r->busy_us;
		bytes += r->bytes;
	}
	return bytes > 0 ? busy_us / bytes : 0;
}

double tcp_past_cost(const struct tcp_past *p)
{
	return cost_of(p, 0, n_kept(p));
}

double tcp_past_cost_most(const struct tcp_past *p)
{
	double most = 0, cost;

	for (int i = 0; i + TCP_ROUNDS <= n_kept(p); i++) {
		cost = cost_of(p, i, TCP_ROUNDS);
		most = cost > most ? cost : most;
	}
	return most;
}

double tcp_past_busy_now_us(const struct tcp_past *p)
{
	double busy_us = 0;

	for (int i = 0; i < p->n_now; i++)
		busy_us += p->now[i].busy_us;
	return busy_us;
}

double tcp_past_cost_now(const struct tcp_past *p)
{
	double bytes = 0;

	for (int i = 0; i < p->n_now; i++)
		bytes += p->now[i].bytes;
	return bytes > 0 ? tcp_past_busy_now_us(p) / bytes : 0;
}

double tcp_past_comes(const struct tcp_past *p, int end)
{
	double sum = 0;
	int n = n_kept(p);

	for (int i = 0; i < n; i++)
		sum += p->before[i].comes_per_s[end];
	return n ? sum / n : 0;
}
