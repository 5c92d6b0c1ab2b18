/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - picks the subcommand from commands.def; each command has its own file.
 */
#include <argp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/help.h"
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
#define HELP_INDENT 13
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *to)
{
	fprintf(to, "Usage: ranktrace COMMAND [ARGUMENTS]\n\nCommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		fprintf(to, "  %-10s ", commands[i].name);
		help_wrap(to, commands[i].help, HELP_INDENT, HELP_INDENT);
	}
	fprintf(to, "\n'ranktrace COMMAND --help' has the options of a command. -V, --version: the version.\n"
		    "\nExit codes:\n"
		    "  0          no critical finding\n"
		    "  1          a critical finding; with --fail-on=warning, and from an autopsy, a warning too\n"
		    "  2          usage; an input cannot be read; CMD could not start\n"
		    "  3          privilege, device or kernel feature missing\n"
		    "  4          an output could not be written, or ranktrace failed\n"
		    "  other      record -- CMD: the status of CMD, if it failed and there is no finding\n");
}

static int command_run(const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return stdout_check(commands[i].run(argc, argv));
	fprintf(stderr, "ranktrace: '%s' is not a command; 'ranktrace --help' lists them\n", name);
	return EXIT_USAGE;
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
	return !strcmp(text, a) || !strcmp(text, b);
}

/* "help record" is "record --help". */
static int help_run(int argc, char **argv)
{
	char *of_command[] = { argv[1], (char *)"--help", NULL };

	if (argc > 1)
		return command_run(argv[1], 2, of_command);
	usage(stdout);
	return stdout_check(EXIT_CLEAN);
}

int main(int argc, char **argv)
{
	argp_err_exit_status = EXIT_USAGE;
	signal(SIGCHLD, SIG_DFL); /* ignored over exec: no end of a child would be seen, and its pid be another's */
	if (argc == 2 && !strcmp(argv[0], NVML_CHILD_NAME)) /* started by tracers/gpu/nvml.c */
		return nvml_child_main(NVML_CHILD_FD, argv[1]);
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (is_one_of(argv[1], "--help", "-h") || !strcmp(argv[1], "help"))
		return help_run(argc - 1, argv + 1);
	if (is_one_of(argv[1], "--version", "-V")) {
		version_print();
		return stdout_check(EXIT_CLEAN);
	}
	return command_run(argv[1], argc - 1, argv + 1);
}
