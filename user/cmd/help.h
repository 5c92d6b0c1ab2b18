/* SPDX-License-Identifier: Apache-2.0
 *
 * help.h - the command line of every command: argp parses it; -h, --help, -V, --version and the help text are the same
 * everywhere.
 */
#ifndef RANKTRACE_CMD_HELP_H
#define RANKTRACE_CMD_HELP_H

#include <argp.h>
#include <stdio.h>

struct help {
	const char *command; /* "record" */
	const char *usage;   /* what follows "ranktrace record", a line each; '\n' between two */
	const char *doc;     /* a sentence or two */
};

/* Parses into `input` what `of` understands, as argp_parse() does. Ends the process on -h, -V and errors. */
void command_line_parse(const struct argp *of, const struct help *help, int argc, char **argv, unsigned flags,
			void *input);

/* "--help": the usage lines, the sentences, the options of `of` and its children. */
void help_print(FILE *to, const struct argp *of, const struct help *help);
/* Prints `text` in lines of 80 columns; the first begins at column `at`, the others are indented by `indent`. */
void help_wrap(FILE *to, const char *text, int at, int indent);
void version_print(void);

#endif
