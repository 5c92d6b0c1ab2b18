/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_gpu.h - facts of the GPU, kernel log and pressure samplers -> events.
 */
#ifndef RANKTRACE_DECODE_GPU_H
#define RANKTRACE_DECODE_GPU_H

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

/* 1, or -EINVAL: too short, or no such fact. */
int decode_gpu_fact(const struct wire_hdr *h, struct intern *strings, struct event *e);

#endif
