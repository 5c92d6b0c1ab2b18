/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_rows.h - selects the rows of a tracer to probe in one file: those of the session's tier and groups, each
 * address once per side.
 */
#ifndef RANKTRACE_PROBE_ROWS_H
#define RANKTRACE_PROBE_ROWS_H

#include <stddef.h>

#include "inspect/elf/elf_file.h"
#include "tracer.h"

enum probe_group probe_group(const struct tracer *t, size_t row);
enum tier probe_group_tier(enum probe_group group);   /* the lowest tier that has the group */
const char *probe_group_name(enum probe_group group); /* "polls" */
/* `symbols` has one entry per row, as found in the file. Entries that must not be probed (above tier `upto`, or in none
 * of `groups`, one bit each) become !found. Returns how many stay; *ret_ambiguous: functions of the groups left out
 * because a different function shares their address. */
size_t probe_rows_pick(const struct tracer *t, enum tier upto, uint32_t groups, struct elf_symbol *symbols,
		       size_t *ret_ambiguous);
/* What is not visible of a library for want of its functions, of rows of `groups` (a bit each): "ends of ranges,
 * backward", or "". `defined`: the row's place in the file, as the caller knows it. */
void probe_rows_unseen(const struct tracer *t, uint32_t groups, bool (*defined)(void *arg, const struct probe *row),
		       void *arg, char *to, size_t size);
const char *tier_name(enum tier tier); /* "trace" */
/* 0, -ENOENT no such tier. */
int tier_parse(const char *name, enum tier *ret);
/* Prints every row of every tracer on stdout: tracer, symbol, side, tier, group. */
void probe_rows_print(bool json);

#endif
