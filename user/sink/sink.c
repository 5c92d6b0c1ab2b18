/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.c - the table of sinks, made from sinks.def, and how one is chosen.
 */
#include "sink/sink.h"

#include <string.h>

static const struct sink_class *const classes[] = {
#define SINK(id, name, help) &sink_##id,
#include "sink/sinks.def"
#undef SINK
};
#define N_CLASSES (sizeof(classes) / sizeof(classes[0]))

const struct sink_class *sink_class_by_path(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < N_CLASSES; i++) {
		const char *suffix = classes[i]->suffix;
		size_t n = suffix ? strlen(suffix) : 0;

		if (n && len > n && !strcmp(path + len - n, suffix))
			return classes[i];
	}
	return NULL;
}

const struct sink_class *sink_class_by_name(const char *name)
{
	for (size_t i = 0; i < N_CLASSES; i++)
		if (!strcmp(name, classes[i]->name))
			return classes[i];
	return NULL;
}
