/* SPDX-License-Identifier: Apache-2.0
 *
 * web_watch.h - has anyone written a new web configuration, certificate, key? It looks at the files' times and inodes,
 * not at what is in them. A change counts when it is the same at two looks: a new certificate and its key are two
 * files, and are written one after the other.
 */
#ifndef RANKTRACE_METRICS_WEB_WATCH_H
#define RANKTRACE_METRICS_WEB_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "metrics/web/web_config.h"

#define WEB_LOOK_NS 1000000000ull

struct web_stamp { /* zeroed: no such file */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec written, changed;
};

struct web_watch { /* zeroed at first */
	char *config;
	char *pems[WEB_PEMS];
	struct web_stamp read[1 + WEB_PEMS], seen[1 + WEB_PEMS]; /* the configuration's first */
	uint64_t looked_ns;
};

/* Reads the configuration `path` and its files (web_config_load()), and remembers how they were then. The same results
 * as these; web_config_free() either way. */
int web_watch_read(struct web_watch *w, const char *path, struct web_config *ret, char *error, size_t size);
/* They changed since, and it is time to read them. `now_ns`: CLOCK_MONOTONIC; looks every WEB_LOOK_NS. */
bool web_watch_changed(struct web_watch *w, uint64_t now_ns);
void web_watch_free(struct web_watch *w);

#endif
