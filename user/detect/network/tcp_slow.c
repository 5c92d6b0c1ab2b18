/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_slow.c - see tcp_slow.h. Between two addresses of one host there is no path, and none of those is a measure of
 * others.
 */
#include "detect/network/tcp_slow.h"

#define SLOW_US 5000  /* longer than any path inside a data centre takes, and */
#define SLOW_TIMES 10 /* than the quickest pair's; or, longer than it was ever seen to take, and */
#define SLOW_PAST_TIMES \
	3 /* than it usually takes. Where nothing else shows that the job sends as it did: no delayed \
	   */
#define LATE_ANSWER_US \
	50000 /* acknowledgements, which take 40 ms (TCP_DELACK_MIN, include/net/tcp.h), and some; less than */
#define LATE_ANSWERS_US \
	30000 /* that is a mixture of theirs, which scatters by more than it is long (four of five are late at 32 ms) \
	       */
#define COST_TIMES 4        /* time a byte: of its own past, */
#define COST_MOST_TIMES 2   /* of the worst of that, and */
#define COST_OTHERS_TIMES 3 /* of a path that is as it was */
#define COST_SHARE 0.05     /* of the time something is on its way: less delays no rank */
#define STEADY 1.5          /* as it was */
#define NO_QUEUE_TIMES 1.5
#define NO_QUEUE_OTHERS_TIMES 3

static bool flows(const struct tcp_pair *p)
{
	return p->rtt_us && !tcp_pair_is_local(p);
}

static bool rtt_steady(const struct tcp_pair *p)
{
	double most = STEADY * tcp_past_rtt_most_us(&p->past);

	return p->rtt_us <= (most > SLOW_US ? most : SLOW_US);
}

static bool cost_steady(const struct tcp_pair *p)
{
	return tcp_past_cost_now(&p->past) <= STEADY * tcp_past_cost_most(&p->past);
}

/* Other paths that flow: is one of them as it was? *ret_cost: the least time a byte among those. */
static bool one_steady(const struct tcp_pairs *s, const struct tcp_pair *p, bool by_cost, int *ret_n, double *ret_cost)
{
	bool found = false;
	double cost;

	*ret_n = 0;
	for (const struct tcp_pair *o = s->table.all; o; o = o->keyed.next) {
		if (o == p || !flows(o))
			continue;
		++*ret_n;
		if (!tcp_past_known(&o->past) || !(by_cost ? cost_steady(o) : rtt_steady(o)))
			continue;
		cost = tcp_past_cost_now(&o->past);
		*ret_cost = !found || cost < *ret_cost ? cost : *ret_cost;
		found = true;
	}
	return found;
}

static bool by_others(const struct tcp_pairs *s, const struct tcp_pair *p)
{
	return p->rtt_low_us >= SLOW_US && p->rtt_low_us >= SLOW_TIMES * s->rtt_best_us;
}

static bool by_own_past(const struct tcp_pairs *s, const struct tcp_pair *p)
{
	double most, cost;
	bool steady;
	int n;

	if (!tcp_past_known(&p->past) || p->rtt_low_us < SLOW_PAST_TIMES * tcp_past_rtt_us(&p->past))
		return false;
	most = tcp_past_rtt_most_us(&p->past);
	steady = one_steady(s, p, false, &n, &cost);
	if (n && !steady)
		return false;
	return p->rtt_low_us >= most + (n || p->rtt_us < LATE_ANSWERS_US ? SLOW_US : LATE_ANSWER_US);
}

/* What is lost makes time pass, too. And a job that sends otherwise than before is seen on all its paths. */
static bool by_cost(const struct tcp_pairs *s, const struct tcp_pair *p)
{
	double now = tcp_past_cost_now(&p->past), others;
	int n;

	if (!tcp_past_known(&p->past) || tcp_pair_lost(p) ||
	    tcp_past_busy_now_us(&p->past) < COST_SHARE * p->seconds * p->past.n_now * 1e6)
		return false;
	if (now < COST_TIMES * tcp_past_cost(&p->past) || now < COST_MOST_TIMES * tcp_past_cost_most(&p->past))
		return false;
	return one_steady(s, p, true, &n, &others) && now >= COST_OTHERS_TIMES * others;
}

bool tcp_slow_judge(const struct tcp_pairs *s, const struct tcp_pair *p)
{
	return flows(p) && (by_others(s, p) || by_own_past(s, p) || by_cost(s, p));
}

static double times_usual(const struct tcp_pair *p)
{
	double usual = tcp_past_known(&p->past) ? tcp_past_rtt_us(&p->past) : 0;

	return flows(p) && usual > 0 ? p->rtt_us / usual : 0;
}

/* What makes all paths longer is no queue of this one: a machine that is busy answers late. */
bool tcp_slow_no_queue(const struct tcp_pairs *s, const struct tcp_pair *p)
{
	double mine = times_usual(p), others = 0, one;

	for (const struct tcp_pair *o = s->table.all; o; o = o->keyed.next) {
		one = o == p ? 0 : times_usual(o);
		others = one > 0 && (others <= 0 || one < others) ? one : others;
	}
	if (mine <= 0 || p->rtt_us >= SLOW_US || (others > 0 && p->rtt_us > NO_QUEUE_OTHERS_TIMES * s->rtt_best_us))
		return false;
	return mine <= NO_QUEUE_TIMES * (others > 1 ? others : 1);
}
