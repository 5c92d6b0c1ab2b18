/* SPDX-License-Identifier: Apache-2.0
 *
 * storm.c - process churn for test_churn.py: children that live for a moment, as fast as one loop can make them.
 * storm SECONDS exec: each execs this file again and exits. storm SECONDS LIBRARY: each maps the library and exits.
 * Prints how many there were. The parent of all is one process, so that its children are descendants of the traced one.
 */
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE 8

extern char **environ;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int child(char *what)
{
	if (strcmp(what, "exec") && !dlopen(what, RTLD_NOW | RTLD_LOCAL))
		return 3;
	return 0;
}

int main(int argc, char **argv)
{
	double end = argc > 1 ? now() + atof(argv[1]) : 0;
	long made = 0, bad = 0;
	int alive = 0, status;

	if (argc == 3 && !strcmp(argv[1], "child"))
		_exit(child(argv[2]));
	if (argc != 3)
		return 2;
	char *args[] = { argv[0], "child", argv[2], NULL };

	while (now() < end || alive) {
		pid_t pid;

		if (now() < end && alive < AT_ONCE) {
			if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ))
				return 1;
			made++;
			alive++;
			continue;
		}
		if (wait(&status) > 0) {
			alive--;
			bad += status != 0;
		}
	}
	printf("%ld children, %ld failed\n", made, bad);
	return bad != 0;
}
