/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - what fuzz targets share: the input taken apart, and the input as a file.
 */
#ifndef RANKTRACE_TESTS_FUZZ_H
#define RANKTRACE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct feed {
	const uint8_t *at;
	size_t left;
};

uint64_t feed_number(struct feed *f, size_t bytes);  /* 0 past the end */
void feed_bytes(struct feed *f, void *to, size_t n); /* zeros past the end */
char *fuzz_text(const uint8_t *data, size_t size);   /* zero-terminated copy, free() it */
/* The bytes as a file in memory; its number (kept, and used again by the next call). Its path under /proc in `path`. */
int fuzz_file(const uint8_t *data, size_t size, char path[32]);

#endif
