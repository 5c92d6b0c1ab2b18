/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_sampler.h - the sampler half of the source tcp (tcp.c has the other).
 */
#ifndef RANKTRACE_TCP_SAMPLER_H
#define RANKTRACE_TCP_SAMPLER_H

#include "sampler.h"

extern const struct sampler tcp_sampler;

#endif
