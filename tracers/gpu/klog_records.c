/* SPDX-License-Identifier: Apache-2.0
 *
 * klog_records.c - lines of the kernel log. Not one struct: the class is a number in the record and a word in the
 * event.
 */
#include "record.h"
#include "tracers/gpu/klog.h"

static const char *const log_classes[] = {
	[KERNEL_LOG_XID] = "xid",   [KERNEL_LOG_NVLINK] = "nvlink",
	[KERNEL_LOG_RDMA] = "rdma", [KERNEL_LOG_HUNG_TASK] = "hung_task",
	[KERNEL_LOG_OOM] = "oom",   [KERNEL_LOG_MCE] = "mce",
	[KERNEL_LOG_PCIE] = "pcie", [KERNEL_LOG_NVIDIA] = "nvidia",
	[KERNEL_LOG_SXID] = "sxid",
};
#define LOG_CLASSES (sizeof(log_classes) / sizeof(log_classes[0]))

static int kernel_log(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_kernel_log *f = (const void *)rec;

	e->kind = f->xid ? EV_XID : EV_KERNEL_LOG;
	e->kernel_log.xid = f->xid;
	e->kernel_log.pid = f->pid;
	e->kernel_log.pci = f->pci;
	e->kernel_log.of_switch = f->class == KERNEL_LOG_SXID;
	e->kernel_log.class = f->class < LOG_CLASSES && log_classes[f->class] ? log_classes[f->class] : "other";
	e->kernel_log.text = record_text(rec, sizeof(*f), f->text_len, strings);
	return e->kernel_log.text ? 1 : -EINVAL;
}

const struct record_kind source_records_klog[] = { { "kernel_log", .tracer = WIRE_COLLECTOR, .kind = RECORD_KERNEL_LOG,
						     .size = sizeof(struct record_kernel_log), .decode = kernel_log },
						   {} };
