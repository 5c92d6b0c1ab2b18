/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.h - lines of the kernel log as /dev/kmsg shows them: "priority,sequence,microseconds,flags;text".
 */
#ifndef RANKTRACE_KLOG_H
#define RANKTRACE_KLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/facts.h"

/* Is the line worth telling? Then fills all but header and text_len, and the text (cut at `size`). Any input is fine.
 */
bool klog_line_parse(const char *line, struct fact_kernel_log *ret, char *ret_text, size_t size);
/* The address behind "PCI:", PCI_NONE without one. */
uint64_t klog_pci(const char *text);

#endif
