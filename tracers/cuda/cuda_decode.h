/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_decode.h - records to events and numbers to names: the part of the tracer that a replay needs too.
 */
#ifndef RANKTRACE_CUDA_DECODE_H
#define RANKTRACE_CUDA_DECODE_H

#include "event.h"
#include "tracer.h"

/* struct tracer.decode of the cuda tracer. */
int cuda_decode(const struct wire_hdr *h, struct intern *strings, struct event *out, int max);
/* "CUDA_ERROR_ILLEGAL_ADDRESS"; NULL: a number this version does not know. */
const char *cuda_error_name(int result);

#endif
