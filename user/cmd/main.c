/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - picks the subcommand from commands.def; each command has its own file.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "command.h"
#include "tracers/gpu/nvml_child.h"

static const struct {
	const char *name, *help;
	int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(id, name, help) { name, help, cmd_##id },
#include "commands.def"
#undef COMMAND
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *to)
{
	fprintf(to, "usage: ranktrace COMMAND [ARGS]\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n'ranktrace COMMAND --help' lists the options. Exit codes: 0 no finding, 1 finding, 2 usage,\n"
		    "3 missing privilege or kernel feature, 4 internal error.\n");
}

/* What was printed may still wait in the buffer: a full disk shows now. */
static int stdout_check(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	log_error("standard output: %s", strerror(errno));
	return code <= EXIT_FINDING ? EXIT_OUTPUT : code;
}

int main(int argc, char **argv)
{
	argp_err_exit_status = EXIT_USAGE;
	if (argc == 2 && !strcmp(argv[0], NVML_CHILD_NAME)) /* started by tracers/gpu/nvml.c */
		return nvml_child_main(NVML_CHILD_FD, argv[1]);
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name))
			return stdout_check(commands[i].run(argc - 1, argv + 1));
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return EXIT_CLEAN;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("ranktrace %s\n", RANKTRACE_VERSION);
		return EXIT_CLEAN;
	}
	fprintf(stderr, "ranktrace: '%s' is not a command; 'ranktrace --help' lists them\n", argv[1]);
	return EXIT_USAGE;
}
