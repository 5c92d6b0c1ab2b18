/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - a process with a library and so many threads that sleep: threads LIBRARY THREADS says "ready" when they
 * are there, and ends with its standard input.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *thread_run(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t small;
	pthread_t t;
	char byte;

	if (argc != 3 || !dlopen(argv[1], RTLD_NOW))
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = atoi(argv[2]); i > 0; i--)
		if (pthread_create(&t, &small, thread_run, NULL))
			return 3;
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) == 1)
		;
	return 0;
}
