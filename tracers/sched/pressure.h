/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure.h - the text of a PSI file.
 */
#ifndef RANKTRACE_PRESSURE_H
#define RANKTRACE_PRESSURE_H

#include "tracers/sched/wire/pressure.h"

/* Adds what the text says of one resource; lines that are not there stay unknown. Any input is fine. */
void pressure_parse(const char *text, int resource, struct pressure_totals *to);

#endif
