/* SPDX-License-Identifier: Apache-2.0
 *
 * flood.c - a process with a library of the job's kind, and children by the thousand: flood LIBRARY CHILDREN says
 * "ready" when it has the library, forks at a byte on its standard input, says "forked", and ends with that input. Its
 * children end with it.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

static int child_run(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		sleep(60);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t self = getpid(), pid = 1;
	char byte;

	if (argc != 3 || !dlopen(argv[1], RTLD_NOW)) {
		say(argc == 3 ? dlerror() : "usage: flood LIBRARY CHILDREN");
		return 2;
	}
	say("ready");
	if (read(0, &byte, 1) != 1)
		return 0;
	for (int i = atoi(argv[2]); pid > 0 && i > 0; i--)
		pid = fork();
	if (!pid)
		_exit(child_run(self));
	say(pid < 0 ? "no more processes" : "forked");
	while (read(0, &byte, 1) == 1)
		;
	return 0;
}
