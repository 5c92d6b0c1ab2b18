/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_guess.c - see gpu_guess.h.
 */
#include "tracers/gpu/gpu_guess.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 4096 /* read of one process */

int gpu_guess(const char *visible_devices, int local_rank)
{
	const char *at = visible_devices;
	char *end;
	long index;

	if (local_rank < 0)
		return -1;
	if (!*at)
		return local_rank;
	for (int i = 0; i < local_rank && strchr(visible_devices, ',');
	     i++) { /* one GPU alone: each rank sees its own */
		at = strchr(at, ',');
		if (!at++)
			return -1;
	}
	if (!isdigit((unsigned char)*at))
		return -1;
	index = strtol(at, &end, 10);
	return (*end && *end != ',') || index > 1023 ? -1 : (int)index;
}

bool gpu_in_use(uint32_t pid)
{
	char path[300], file[64];
	struct dirent *e;
	bool is = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	d = opendir(path);
	for (int i = 0; d && !is && i < FILES_MAX && (e = readdir(d)); i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%u/fd/%.20s", pid, e->d_name);
		n = readlink(path, file, sizeof(file) - 1);
		file[n > 0 ? n : 0] = 0;
		is = !strncmp(file, "/dev/nvidia", 11) && isdigit((unsigned char)file[11]);
	}
	if (d)
		closedir(d);
	return is;
}
