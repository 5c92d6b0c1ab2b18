/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_config.c - a configuration file of `ranktrace watch`.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/fuzz/fuzz.h"
#include "session/config/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_args a = { 0 };
	char path[32], error[1200] = "";

	session_args_init(&a, TIER_WATCH);
	fuzz_file(data, size < 4096 ? size : 4096, path);
	if (config_file_read(&a, path, NULL, error, sizeof(error)) &&
	    (!*error || strnlen(error, sizeof(error)) == sizeof(error)))
		abort();
	config_values_free(&a);
	log_quiet = log_verbose = false;
	return 0;
}
