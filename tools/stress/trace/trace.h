/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - the tracer beside a test: `ranktrace record` around `ranktrace stress nccl`, then the question whether
 * every operation that the test issued is in the recording, with its bytes.
 */
#ifndef STRESS_TRACE_H
#define STRESS_TRACE_H

#include <stdbool.h>

/* `path` ends in .pftrace; argv: the command line of the test, with --trace, which is left out. The exit status: the
 * test's; STRESS_IMPOSSIBLE where it passed and the recording lacks an operation. */
int trace_run(const char *path, int argc, char **argv, bool json);

#endif
