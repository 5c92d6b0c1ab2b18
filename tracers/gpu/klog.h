/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.h - lines of the kernel log: the record, and how /dev/kmsg shows them,
 * "priority,sequence,microseconds,flags;text".
 */
#ifndef RANKTRACE_KLOG_H
#define RANKTRACE_KLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/collector.h"
#include "tracers/gpu/wire/gpu.h"

enum kernel_log_class {
	KERNEL_LOG_XID = 1,
	KERNEL_LOG_NVLINK = 2,
	KERNEL_LOG_RDMA = 3,
	KERNEL_LOG_HUNG_TASK = 4,
	KERNEL_LOG_OOM = 5,
	KERNEL_LOG_MCE = 6,
	KERNEL_LOG_PCIE = 7,
	KERNEL_LOG_NVIDIA = 8,
	KERNEL_LOG_SXID = 9,
};

struct record_kernel_log {
	struct wire_hdr hdr; /* ts: when read */
	__u64 log_us;        /* the kernel's own time of the line */
	__u32 xid;           /* of class XID and SXID */
	__u32 pid;           /* that the line names, in the host's pid namespace; 0 none */
	__u64 pci;           /* address, GPU_PCI() or GPU_PCI_NONE */
	__u8 class;          /* enum kernel_log_class */
	__u8 level;          /* of syslog: 3 an error */
	__u16 text_len;      /* with its zero byte */
	__u32 reserved;
	char text[];
};
_Static_assert(sizeof(struct record_kernel_log) == 56, "record_kernel_log");

/* Is the line worth a record? Then fills all but header and text_len, and the text (cut at `size`). Any input is fine.
 */
bool klog_line_parse(const char *line, struct record_kernel_log *ret, char *ret_text, size_t size);

#define KLOG_TEXT_MAX 1016

struct reader_job;
/* A job of a parser: whole lines in, records out, which lack their time only. */
int klog_lines_op(struct reader_job *job);

#endif
