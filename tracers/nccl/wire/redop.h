/* SPDX-License-Identifier: Apache-2.0
 *
 * redop.h - the number of a reduction: ncclRedOp_t, and one for all that programs make. NCCL mixes the handle of such a
 * one with its communicator's address, so that each rank has another. Whatever brings handles, a probe or what an older
 * version wrote, goes through redop_decode().
 */
#ifndef RANKTRACE_WIRE_REDOP_H
#define RANKTRACE_WIRE_REDOP_H

#define REDOP_OWN 5 /* ncclNumOps */

/* -1 (none) stays. */
static inline int redop_decode(int redop)
{
	return redop < REDOP_OWN ? redop : REDOP_OWN;
}

#endif
