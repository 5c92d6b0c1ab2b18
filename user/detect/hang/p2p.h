/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p.h - Send and Recv: the two sides of a transfer, and which side waits for a call of the other.
 */
#ifndef RANKTRACE_P2P_H
#define RANKTRACE_P2P_H

#include "model/ahead.h"

#define SPACE_P2P (-1)   /* besides SEQ_*: a transfer's number counts its Sends or Recvs between two members */
#define OPEN_SCANNED 256 /* open operations of a member: where ends are not seen all are open */

/* The operations of one NCCL group, in the order of their calls; of an operation in no group, itself. */
const struct op *group_first(const struct op *op);
const struct op *group_next(const struct op *op);
/* The member that is rank `peer` of its communicator; NULL: not seen. */
const struct member *member_peer(const struct member *mb, int peer);
/* Sends to that peer, or (recv) Recvs from it, that the member called. */
uint64_t p2p_entered(const struct member *mb, int peer, int recv);
/* The operation's number means the same on both sides. */
bool p2p_numbered(const struct op *op);
/* The peer's own call of this transfer; NULL: none, or not kept. */
const struct op *p2p_other_side(const struct op *op);
/* The peer of this open Send or Recv did not call its side, and this side is known to wait for that. */
bool p2p_unanswered(const struct model *m, const struct op *op);
/* The operation of `o` that waits for a Recv (recv) or a Send of `mb`; NULL: none. */
const struct op *p2p_waiting_op(const struct model *m, const struct member *mb, const struct member *o, int recv);
/* When the peer came to the last of these transfers that both sides called; 0: not known. */
uint64_t p2p_free_ns(const struct member *mb, int peer, int recv);
/* The rank left this Send or Recv out: it called what comes after it, by what it did before. False where not known. */
bool p2p_passed(const struct proc *p, const struct member *mb, enum op_kind kind, int peer);

#endif
