/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_rows.h - which rows of a tracer are probed in one file: of the session's tier, and each address once a side.
 */
#ifndef RANKTRACE_PROBE_ROWS_H
#define RANKTRACE_PROBE_ROWS_H

#include <stddef.h>

#include "target/elf_file.h"
#include "tracer.h"

/* `symbols` has an entry a row, as found in the file; those that are not to be probed, at or below tier `from` or above `upto`
 * among them, become !found. Returns how many stay; *ret_ambiguous: functions left out because others that mean something else share their address. */
size_t probe_rows_pick(const struct tracer *t, enum tier from, enum tier upto, struct elf_symbol *symbols, size_t *ret_ambiguous);
const char *tier_name(enum tier tier); /* "trace" */
/* 0, -ENOENT no such tier. */
int tier_parse(const char *name, enum tier *ret);
/* Every row of every tracer on stdout: tracer, symbol, side, tier. */
void probe_rows_print(bool json);

#endif
