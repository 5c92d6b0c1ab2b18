/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_kernel_log.c - lines of /dev/kmsg, to which any user's program may write.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/reader/reader.h"
#include "tracers/gpu/klog.h"

/* The job of a parser: lines in, whole records out that fit. */
static void lines(const uint8_t *data, size_t size)
{
	static uint64_t out[512];
	struct reader_job job = { .arg = data, .arg_len = size, .out = (char *)out, .out_max = sizeof(out) };
	size_t at = 0;

	if (klog_lines_op(&job) || job.out_len > sizeof(out))
		abort();
	while (at < job.out_len) {
		const struct record_kernel_log *f = (const void *)(job.out + at);

		if (f->hdr.size < sizeof(*f) || sizeof(*f) + f->text_len > f->hdr.size || f->text[f->text_len - 1])
			abort();
		at += f->hdr.size;
	}
	if (at != job.out_len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_text(data, size), text[64];
	struct record_kernel_log f;

	if (klog_line_parse(line, &f, text, sizeof(text)) && strnlen(text, sizeof(text)) == sizeof(text))
		abort();
	lines(data, size);
	free(line);
	return 0;
}
