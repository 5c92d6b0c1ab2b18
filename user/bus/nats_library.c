/* SPDX-License-Identifier: Apache-2.0
 *
 * nats_library.c - see nats_library.h. Debian names the file by its version; from 3.5 on the name may be another, and
 * is tried as well.
 */
#include "bus/nats_library.h"

#include <dlfcn.h>
#include <stdio.h>

static void *file_open(void)
{
	static const char *const names[] = { "libnats.so.3.4", "libnats.so.3", "libnats.so" };
	void *file = NULL;

	for (size_t i = 0; !file && i < sizeof(names) / sizeof(names[0]); i++)
		file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return file;
}

const struct nats_library *nats_library_open(char *error, size_t size)
{
	static struct nats_library lib;
	static void *file;

	if (file)
		return &lib;
	file = file_open();
	if (!file) {
		snprintf(error, size, "libnats: %s; install it (Debian: libnats3.4), or leave --nats out", dlerror());
		return NULL;
	}
#define X(name) \
	*(void **)&lib.name = dlsym(file, #name); \
	if (!lib.name) { \
		snprintf(error, size, "libnats lacks " #name "(): 3.4 or newer is needed"); \
		dlclose(file); \
		file = NULL; \
		return NULL; \
	}
	NATS_FUNCTIONS(X)
#undef X
	return &lib;
}
