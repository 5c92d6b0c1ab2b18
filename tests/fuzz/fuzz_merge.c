/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_merge.c - recordings of up to three hosts as `autopsy --merge` takes them. First byte: how many, and (128)
 * whether the rest is the files' own bytes; else it is records of anything, which become whole files with checksums
 * that are right.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "autopsy/merge.h"
#include "base/log.h"
#include "command.h"
#include "tests/fuzz/fuzz.h"
#include "recording/recording.h"

#define FILES_MAX 3
#define RECORDS_MAX 1000

struct files {
	int n;
	char path[FILES_MAX][48];
};

/* In place of base/log.c: every text is made, and none is printed. */
static void text_make(const char *format, va_list ap)
{
	char text[4096];

	vsnprintf(text, sizeof(text), format, ap);
}

void log_error(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	text_make(format, ap);
	va_end(ap);
}

void log_warn(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	text_make(format, ap);
	va_end(ap);
}

static char folder[] = "/dev/shm/fuzz_merge.XXXXXX"; /* ours alone: an output is never opened through a link */

static void folder_remove(void)
{
	char path[48];

	for (int i = 0; i < FILES_MAX; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
}

static void files_make(struct files *f, int n)
{
	static bool made;

	if (!made && (!mkdtemp(folder) || atexit(folder_remove)))
		abort();
	made = true;
	f->n = n;
	for (int i = 0; i < n; i++)
		snprintf(f->path[i], sizeof(f->path[i]), "%s/%d", folder, i);
}

/* Each file its share of the bytes. */
static void files_write(const struct files *f, struct feed *from)
{
	size_t share = from->left / f->n;

	for (int i = 0; i < f->n; i++, from->at += share) {
		FILE *to = fopen(f->path[i], "w");

		if (!to || fwrite(from->at, 1, share, to) != share || fclose(to))
			abort();
	}
}

/* As in fuzz_records.c; the host is in `who`, and each has a clock of its own. */
static int record_next(struct feed *f, uint64_t *now, int n, struct wire_hdr *h)
{
	uint8_t what = feed_number(f, 1), kind = feed_number(f, 1), size = feed_number(f, 1), who = feed_number(f, 1);
	int host = (who >> 5) % n;

	now[host] += 1000000ull * feed_number(f, 1) * (what & 128 ? 1000 : 1);
	feed_bytes(f, h + 1, size);
	memset((char *)(h + 1) + size, 0, 512 - size);
	*h = (struct wire_hdr){ .size = sizeof(*h) + (what & 64 ? (size + 7) / 8 * 8 : 512),
				.tracer = what & 7,
				.kind = kind & 63,
				.tid = 10 + who / 4 % 8,
				.tgid = 10 + who % 4,
				.ts_ns = now[host] };
	return host;
}

static void files_record(const struct files *f, struct feed *from)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} rec;
	uint64_t now[FILES_MAX] = { 1000000000, 5000000000, 1000 };
	struct recording *to[FILES_MAX];

	for (int i = 0; i < f->n; i++)
		if (recording_create(f->path[i], &to[i]))
			abort();
	for (int k = 0; from->left && k < RECORDS_MAX; k++) {
		int host = record_next(from, now, f->n, &rec.h);

		if (recording_put(to[host], &rec.h))
			abort();
	}
	for (int i = 0; i < f->n; i++)
		if (recording_close(to[i]))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = { data, size };
	uint8_t how = feed_number(&f, 1);
	const char *paths[FILES_MAX];
	struct files files;
	struct pipeline *p;
	int code;

	files_make(&files, 1 + how % FILES_MAX);
	if (how & 128)
		files_write(&files, &f);
	else
		files_record(&files, &f);
	for (int i = 0; i < files.n; i++)
		paths[i] = files.path[i];
	p = pipeline_new();
	if (!p)
		abort();
	code = autopsy_merge(paths, files.n, p);
	if (code != EXIT_CLEAN && code != EXIT_USAGE) /* nothing that a file holds is our own failure */
		abort();
	pipeline_free(p);
	return 0;
}
