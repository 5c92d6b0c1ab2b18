/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - `ranktrace sim job ARGS`: runs the simulated job, a program of its own that knows nothing of the tracer.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
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

int cmd_sim(int argc, char **argv)
{
	char path[PATH_MAX + 64];

	if (argc < 2 || strcmp(argv[1], "job")) {
		fprintf(argc < 2 ? stderr : stdout, "usage: ranktrace sim job [OPTIONS]\n"
						    "'ranktrace sim job --help' lists layouts and faults.\n");
		return argc > 1 && !strcmp(argv[1], "--help") ? EXIT_CLEAN : EXIT_USAGE;
	}
	if (simjob_path(path, sizeof(path))) {
		log_error("the simulated job (" SIMJOB
			  ") is neither beside this binary nor installed; run 'make' or 'make install'");
		return EXIT_UNSUPPORTED;
	}
	argv[1] = (char *)"simjob";
	execv(path, argv + 1);
	log_error("%s: %s", path, strerror(errno));
	return EXIT_INTERNAL;
}
