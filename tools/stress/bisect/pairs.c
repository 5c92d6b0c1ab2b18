/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs.c - see pairs.h.
 */
#include "tools/stress/bisect/pairs.h"

#include <stdlib.h>
#include <string.h>

#define RATES_MIN 3

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
	p->failed[i][j] = p->failed[j][i] = true;
	p->wrong[i][j] = p->wrong[j][i] = p->wrong[i][j] || wrong;
}

void pairs_pass(struct pairs *p, int i, int j, double rate)
{
	p->failed[i][j] = p->failed[j][i] = p->wrong[i][j];
	if (rate > p->rates[i][j])
		p->rates[i][j] = p->rates[j][i] = rate;
}

bool pairs_is_open(const struct pairs *p, int i, int j)
{
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
	int bad = 0, others_well = 0;

	for (int i = 0; i < p->n; i++) {
		if (i != member)
			bad += p->failed[member][i] || p->slow[member][i];
		for (int j = i + 1; j < p->n; j++)
			others_well += i != member && j != member && is_well(p, i, j);
	}
	if (bad < p->n - 1)
		return BISECT_GOOD;
	return others_well ? BISECT_BAD : BISECT_OPEN;
}
