/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_config.c - a configuration file of `ranktrace watch`. Values are kept for the life of the process by design, so
 * this target runs without the leak check (tests/fuzz/run.sh).
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/fuzz/fuzz.h"
#include "session/config/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct session_args a;
	char path[32], error[1200] = "";

	memset(&a, 0, sizeof(a));
	session_args_init(&a, TIER_WATCH);
	fuzz_file(data, size < 4096 ? size : 4096, path);
	if (config_file_read(&a, path, NULL, error, sizeof(error)) &&
	    (!*error || strnlen(error, sizeof(error)) == sizeof(error)))
		abort();
	log_quiet = log_verbose = false;
	return 0;
}
