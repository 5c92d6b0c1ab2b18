/* SPDX-License-Identifier: Apache-2.0
 *
 * parser_turn.h - CPU time for a parser on a host that has far more to run than CPUs. What it reads may be made to take
 * long: it goes before other work for a file's first moments alone, and all of them for a quarter of a second in each
 * second at most. Private to reader.c.
 */
#ifndef RANKTRACE_TARGET_PARSER_TURN_H
#define RANKTRACE_TARGET_PARSER_TURN_H

#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_queue.h"

struct parser_turn {
	struct allowance left; /* of the CPU time that parsers take before other work, in a second */
	pid_t pid;             /* which has its turn; 0 none */
	uint64_t cpu_ns;       /* what it had used by then */
};

/* A file was given to it. Without CAP_SYS_NICE it has no turn. */
void parser_turn_begin(struct parser_turn *t, struct worker *w);
/* Ends it once it took longer than an ordinary file does. */
void parser_turn_look(struct parser_turn *t, struct worker *w);
/* Before it has another question, or goes on while the loop does not wait for it. */
void parser_turn_end(struct parser_turn *t, struct worker *w);

#endif
