/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_kernel_log.c - lines of /dev/kmsg, to which any user's program may write.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tracers/gpu/klog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_text(data, size), text[64];
	struct record_kernel_log f;

	if (klog_line_parse(line, &f, text, sizeof(text)) && strnlen(text, sizeof(text)) == sizeof(text))
		abort();
	free(line);
	return 0;
}
