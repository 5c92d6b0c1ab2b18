/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - `ranktrace sim job ARGS`: runs the simulated job, a program of its own that knows nothing of the tracer.
 * `ranktrace sim cluster ARGS`: a simulated job of thousands of ranks and the hub's library on it, another one.
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

#define SIM "lib/ranktrace/sim/"

struct simulation {
	const char *word, *program, *shown;
};

static const struct simulation simulations[] = {
	{ "job", SIM "simjob", "ranktrace sim job" },
	{ "cluster", SIM "simcluster", "ranktrace sim cluster" },
};

static const struct simulation *simulation_of(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(simulations) / sizeof(simulations[0]); i++)
		if (!strcmp(argv[1], simulations[i].word))
			return &simulations[i];
	return NULL;
}

/* Beside the binary in a build tree (build/ranktrace), one directory up when installed (bin/ranktrace). */
static int program_path(const char *program, char *path, size_t size)
{
	static const char *const places[] = { "%s/%s", "%s/../%s" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (snprintf(path, size, places[i], self, program) < (int)size && !access(path, X_OK))
			return 0;
#pragma GCC diagnostic pop
	}
	return -ENOENT;
}

/* The short names that every command has; the programs know the long one of help. */
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
		"job [OPTIONS]\ncluster [OPTIONS]",
		"Runs a simulated training job: 'job' on this host, seen by the real tracer; 'cluster' one of "
		"thousands of ranks in scripted time, judged as a hub does. With --help each lists layouts and faults.",
	};
	static const struct argp none = { 0 };
	const struct simulation *s = simulation_of(argc, argv);
	char path[PATH_MAX + 64];

	if (!s) {
		command_line_parse(&none, &help, argc, argv, 0, NULL);
		log_error("which simulation? ranktrace sim job [OPTIONS], or ranktrace sim cluster [OPTIONS]");
		return EXIT_USAGE;
	}
	if (wants_version(argc, argv)) {
		version_print();
		return EXIT_CLEAN;
	}
	if (program_path(s->program, path, sizeof(path))) {
		log_error(
			"the simulation (%s) is neither beside this binary nor installed; run 'make' or 'make install'",
			s->program);
		return EXIT_UNSUPPORTED;
	}
	options_translate(argc, argv);
	argv[1] = (char *)s->shown;
	execv(path, argv + 1);
	log_error("%s: %s", path, strerror(errno));
	return EXIT_INTERNAL;
}
