/* SPDX-License-Identifier: Apache-2.0
 *
 * op_size.h - how many bytes an operation moves, and how fast, in the words of nccl-tests: algbw is the size over the
 * time, busbw what each link has to carry for it. Pure.
 */
#ifndef RANKTRACE_OP_SIZE_H
#define RANKTRACE_OP_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "event.h"

/* Bytes as nccl-tests count them: of all ranks where each has a part. 0 for a type that is none. */
uint64_t op_size_bytes(enum op_kind kind, uint64_t count, int dtype, int nranks);
double op_bus_factor(enum op_kind kind, int nranks); /* busbw over algbw */
double three_digits(double v);                       /* v > 0, rounded */
/* Without printf, for names of millions of slices: each writes behind `to`, with a 0 at the end, and returns where
 * that lies. */
char *put_text(char *to, const char *text);
char *put_number(char *to, uint64_t v);
char *put_bytes(char *to, uint64_t bytes); /* "16 MiB" */

#endif
