/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_child.h - the process that calls NVML, and what it and the collector say to each other over a SOCK_SEQPACKET
 * pair: a question is one packet, the answer is a record a packet (without its time) and an NVML_ASK_END behind them.
 */
#ifndef RANKTRACE_NVML_CHILD_H
#define RANKTRACE_NVML_CHILD_H

#include <stdint.h>

#define NVML_CHILD_NAME "ranktrace-nvml" /* argv[0] by which main() knows that it is the child */
#define NVML_CHILD_FD 3

enum {                       /* bits */
       NVML_ASK_DEVICES = 1, /* what does not change */
       NVML_ASK_ACTIVITY = 2,
       NVML_ASK_HEALTH = 4,
       NVML_ASK_PROCS = 8,
};

struct nvml_question {
	uint32_t number, what;
};
struct nvml_end {
	uint32_t number;
	int32_t n_gpus;
	uint64_t cpu_ns;
}; /* n_gpus -errno: no library, or no driver (any more); cpu_ns: of this answer */

/* Serves until the other end is closed. `library`: a path or soname. The exit status. */
int nvml_child_main(int fd, const char *library);

#endif
