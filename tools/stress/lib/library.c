/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - see library.h. A library stays open for good: NVIDIA's do not survive being unloaded.
 */
#include "tools/stress/lib/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *first_open(const char *const *names, char why[LIBRARY_WHY])
{
	size_t at = 0;

	why[0] = 0;
	for (; *names; names++) {
		void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);

		if (handle)
			return handle;
		if (at < LIBRARY_WHY)
			at += snprintf(why + at, LIBRARY_WHY - at, "%s%s", at ? "; " : "", dlerror());
	}
	return NULL;
}

int library_open(const char *const *names, const struct library_symbol *symbols, size_t n, void *functions,
		 char why[LIBRARY_WHY])
{
	void *handle = first_open(names, why);

	if (!handle)
		return -ENOENT;
	for (size_t i = 0; i < n; i++) {
		void *symbol = dlsym(handle, symbols[i].name);

		memcpy((char *)functions + symbols[i].at, &symbol, sizeof(symbol));
		if (!symbol && symbols[i].required) {
			snprintf(why, LIBRARY_WHY, "%s has no %s", names[0], symbols[i].name);
			return -ENOSYS;
		}
	}
	return 0;
}
