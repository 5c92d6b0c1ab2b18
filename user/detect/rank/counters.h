/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.h - members whose calls were not seen, only NCCL's launch counters, in two samples or more: how far they
 * are, how long they stay there, and what the peers' counters say of what comes next. (NCCL counts launches by
 * function.)
 */
#ifndef RANKTRACE_COUNTERS_H
#define RANKTRACE_COUNTERS_H

#include "model/ahead.h"

#define SAMPLES_APART_NS 1100000000ull /* of two members: read once a second */

/* Of this member counters are known, and no call. */
bool member_by_counters(const struct member *mb);
bool proc_by_counters(const struct proc *p); /* so is some member of it */
/* Since when the member stays in what it entered: the first sample that showed these counters, if a later one did so
 * too; 0: its counters moved, or its calls are seen. */
uint64_t counters_still_ns(const struct member *mb);
/* The collective that is pending: the one after those counted. Of a member that died, or cannot be read, since before
 * its peers did not move: the one that the last of these waits in, as it may have entered all before that. */
uint64_t counters_pending_seq(const struct member *mb);
/* The kinds, as bits, that the peer nearest ahead has entered and this member has not; 0: not known. */
unsigned int counters_pending_kinds(const struct member *mb);
/* Of these kinds the one that most launches are missing of. */
enum op_kind counters_kind(const struct member *mb, unsigned int kinds);
/* Since when some member stays in collective `seq` of the communicator; 0: none is known to. */
uint64_t counters_since_ns(const struct comm *c, uint64_t seq);
/* What collective `seq` is, by the counters of the members that did not enter it. False: there is a choice, or all
 * entered it. */
bool counters_op(const struct comm *c, uint64_t seq, enum op_kind *ret);

#endif
