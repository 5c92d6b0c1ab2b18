/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.h - what the processes of each user may cost the collector. One user's may be thousands, or made to be
 * expensive: work for them waits then, in every stage of the loop, and the others' turn comes all the same. Root's is
 * never limited. The idea: a bucket of time for each user, and a bound on what one turn of the loop gives.
 */
#ifndef RANKTRACE_BASE_SHARES_H
#define RANKTRACE_BASE_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#define SHARES_PROCS_MAX 1024 /* processes of one user that are scanned; as many as are traced (bpf/target.h) */

struct shares;

struct shares *shares_new(void); /* NULL: out of memory */
void shares_free(struct shares *s);
/* A turn of the loop begins: each user may cost so much again. */
void shares_turn(struct shares *s, uint64_t now_ns);
/* May the next piece of work for a process of this user be done in this turn? `s` NULL: no limit. */
bool shares_may(struct shares *s, uint32_t uid);
void shares_spend(struct shares *s, uint32_t uid, uint64_t ns);

/* How many processes of a user are scanned: counted anew from `begin` on. */
void shares_count_begin(struct shares *s);
void shares_count(struct shares *s, uint32_t uid);
bool shares_are_many(struct shares *s, uint32_t uid); /* more than an ordinary job has */
bool shares_are_full(struct shares *s, uint32_t uid);

#endif
