/* SPDX-License-Identifier: Apache-2.0
 *
 * places.h - where the main threads of many ranks sit, and how many sit in one place, without comparing each with each:
 * threads of which the same is known stand for each other.
 */
#ifndef RANKTRACE_PLACES_H
#define RANKTRACE_PLACES_H

#include "model/ahead.h"

#define PLACES_MAX 256 /* different ones: more are nowhere */

struct places {
	struct {
		const struct task *one;
		int n;
	} at[PLACES_MAX];
	int n;
};

const struct task *places_main_task(const struct proc *p); /* NULL not known */
bool places_runs(const struct task *t);
void places_add(struct places *s, const struct task *t);
/* Of those that were added, how many sit where `t` does; itself, if it was added, among them where `counts_self`. */
int places_alike(const struct places *s, const struct task *t, bool counts_self);

#endif
