/* SPDX-License-Identifier: Apache-2.0
 *
 * io_stall.h - storage that several ranks wait for, as the cause of what is said of each of them.
 */
#ifndef RANKTRACE_IO_STALL_H
#define RANKTRACE_IO_STALL_H

#include "detect/detect.h"

/* The key of the finding of this tick about the storage that a blocked task waits for; 0 there is none. */
uint64_t io_stall_of(const struct finding_list *found, const struct task *t);

#endif
