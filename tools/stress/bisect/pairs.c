/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs.c - see pairs.h.
 */
#include "tools/stress/bisect/pairs.h"

#include <stdlib.h>
#include <string.h>

#define RATES_MIN 3
#define HUNG_MIN 2

int pairs_rounds(int n)
{
	return n + n % 2 - 1;
}

/* The circle method. With an odd number one place of the circle is empty, and its partner has a rest. */
int pairs_round(int n, int round, int (*pairs)[2])
{
	int places = n + n % 2, found = 0;

	for (int i = 0; i < places / 2; i++) {
		int a = i ? (round + i) % (places - 1) : places - 1, b = (round + places - 1 - i) % (places - 1);

		if (a < n && b < n) {
			pairs[found][0] = a;
			pairs[found++][1] = b;
		}
	}
	return found;
}

static int rate_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

bool pairs_compare(struct pairs *p, double share)
{
	double all[PAIRS_MEMBERS_MAX * PAIRS_MEMBERS_MAX];
	int n = 0;

	for (int i = 0; i < p->n; i++)
		for (int j = i + 1; j < p->n; j++)
			if (p->rates[i][j] > 0 && !p->failed[i][j])
				all[n++] = p->rates[i][j];
	p->n_rates = n;
	memset(p->slow, 0, sizeof(p->slow));
	if (n < RATES_MIN)
		return false;
	qsort(all, n, sizeof(*all), rate_compare);
	p->usual = all[n - 1 - n / 4];
	for (int i = 0; i < p->n * p->n; i++) {
		double rate = p->rates[i / p->n][i % p->n];

		p->slow[i / p->n][i % p->n] = rate > 0 && rate < share * p->usual;
	}
	return true;
}

void pairs_fail(struct pairs *p, int i, int j, bool wrong)
{
	p->untried[i][j] = p->untried[j][i] = false;
	p->failed[i][j] = p->failed[j][i] = true;
	p->wrong[i][j] = p->wrong[j][i] = p->wrong[i][j] || wrong;
}

void pairs_pass(struct pairs *p, int i, int j, double rate)
{
	p->untried[i][j] = p->untried[j][i] = false;
	p->failed[i][j] = p->failed[j][i] = p->wrong[i][j];
	if (rate > p->rates[i][j])
		p->rates[i][j] = p->rates[j][i] = rate;
}

void pairs_leave(struct pairs *p, int i, int j)
{
	p->untried[i][j] = p->untried[j][i] = true;
}

static bool is_hung(const struct pairs *p, int i, int j)
{
	return p->failed[i][j] && !p->wrong[i][j];
}

static bool has_passed(const struct pairs *p, int i, int j)
{
	return !p->failed[i][j] && !p->untried[i][j] && p->rates[i][j] > 0;
}

/* With how many outside of `set`. */
static int n_passed(const struct pairs *p, int member, unsigned int set)
{
	int n = 0;

	for (int i = 0; i < p->n; i++)
		n += i != member && !(set >> i & 1) && has_passed(p, member, i);
	return n;
}

static int n_hung_with_good(const struct pairs *p, int member, unsigned int set)
{
	int n = 0;

	for (int i = 0; i < p->n; i++)
		n += is_hung(p, member, i) && !(set >> i & 1) && n_passed(p, i, set);
	return n;
}

unsigned int pairs_hung(const struct pairs *p)
{
	unsigned int set = 0, before;

	for (int i = 0; i < p->n; i++)
		set |= n_passed(p, i, 0) ? 0 : 1u << i;
	do {
		before = set;
		for (int i = 0; i < p->n; i++)
			if (set >> i & 1 && n_hung_with_good(p, i, set) < HUNG_MIN)
				set &= ~(1u << i);
	} while (set != before);
	for (int i = 0; i < p->n; i++)
		for (int j = 0; j < i; j++)
			if (is_hung(p, i, j) && !((set >> i | set >> j) & 1))
				return 0;
	return set;
}

void pairs_doubt(struct pairs *p, int i, int j)
{
	for (int k = 0; k < p->n; k++) {
		if (has_passed(p, i, k))
			pairs_leave(p, i, k);
		if (has_passed(p, j, k))
			pairs_leave(p, j, k);
	}
}

void pairs_doubt_mixed(struct pairs *p)
{
	bool mixed[PAIRS_MEMBERS_MAX] = { false };

	for (int i = 0; i < p->n; i++) {
		int n = 0;

		for (int j = 0; j < p->n; j++)
			n += p->failed[i][j] && n_passed(p, j, 0);
		mixed[i] = n > 1 && n_passed(p, i, 0);
	}
	for (int i = 0; i < p->n; i++)
		if (mixed[i])
			pairs_doubt(p, i, i);
}

void pairs_doubt_end(struct pairs *p)
{
	unsigned int hung = pairs_hung(p);

	for (int i = 0; i < p->n; i++)
		for (int j = 0; j < p->n; j++)
			if (p->rates[i][j] > 0 && !((hung >> i | hung >> j) & 1))
				p->untried[i][j] = false;
}

bool pairs_is_open(const struct pairs *p, int i, int j)
{
	if (p->untried[i][j])
		return true;
	if (p->failed[i][j])
		return !p->wrong[i][j];
	return p->slow[i][j] && (pairs_member(p, i) != BISECT_GOOD || pairs_member(p, j) != BISECT_GOOD);
}

static bool is_well(const struct pairs *p, int i, int j)
{
	return !p->failed[i][j] && !p->slow[i][j] && p->rates[i][j] > 0;
}

enum bisect_verdict pairs_member(const struct pairs *p, int member)
{
	int bad = 0, tried = 0, others_well = 0;

	for (int i = 0; i < p->n; i++) {
		if (i != member && !p->untried[member][i]) {
			bad += p->failed[member][i] || p->slow[member][i];
			tried++;
		}
		for (int j = i + 1; j < p->n; j++)
			others_well += i != member && j != member && is_well(p, i, j);
	}
	if (!bad || bad < tried)
		return BISECT_GOOD;
	return others_well ? BISECT_BAD : BISECT_OPEN;
}
