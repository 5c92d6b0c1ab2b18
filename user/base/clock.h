/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the only place that reads the time. All times are in ns.
 */
#ifndef RANKTRACE_CLOCK_H
#define RANKTRACE_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_boottime_ns(void);        /* as in /proc/PID/stat: counts while the machine is suspended */
uint64_t clock_realtime_offset_ns(void); /* CLOCK_REALTIME - CLOCK_MONOTONIC */

#endif
