/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - `ranktrace sim job ARGS`: runs the simulated job, a program of its own that knows nothing of the tracer.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/help.h"
#include "command.h"

#define SIMJOB "lib/ranktrace/sim/simjob"

/* Beside the binary in a build tree (build/ranktrace), one directory up when installed (bin/ranktrace). */
static int simjob_path(char *path, size_t size)
{
	static const char *const places[] = { "%s/" SIMJOB, "%s/../" SIMJOB };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (snprintf(path, size, places[i], self) < (int)size && !access(path, X_OK))
			return 0;
#pragma GCC diagnostic pop
	}
	return -ENOENT;
}

/* The short names that every command has; simjob knows the long one of help. */
static void options_translate(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "-h"))
			argv[i] = (char *)"--help";
}

static bool wants_version(int argc, char **argv)
{
	return argc == 3 && (!strcmp(argv[2], "-V") || !strcmp(argv[2], "--version"));
}

int cmd_sim(int argc, char **argv)
{
	static const struct help help = {
		"sim",
		"job [OPTIONS]",
		"Runs a simulated training job. 'ranktrace sim job --help' lists layouts and faults.",
	};
	static const struct argp none = { 0 };
	char path[PATH_MAX + 64];

	if (argc < 2 || strcmp(argv[1], "job")) {
		command_line_parse(&none, &help, argc, argv, 0, NULL);
		log_error("which simulation? ranktrace sim job [OPTIONS]");
		return EXIT_USAGE;
	}
	if (wants_version(argc, argv)) {
		version_print();
		return EXIT_CLEAN;
	}
	if (simjob_path(path, sizeof(path))) {
		log_error("the simulated job (" SIMJOB
			  ") is neither beside this binary nor installed; run 'make' or 'make install'");
		return EXIT_UNSUPPORTED;
	}
	options_translate(argc, argv);
	argv[1] = (char *)"ranktrace sim job";
	execv(path, argv + 1);
	log_error("%s: %s", path, strerror(errno));
	return EXIT_INTERNAL;
}
