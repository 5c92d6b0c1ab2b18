// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* xid.bpf.c - the tracepoints of the NVIDIA drivers. Raw ones, by name: they need neither the modules' type information
 * nor tracefs, and a program for a tracepoint that is not there still loads.
 */
#include "bpf/record.bpf.h"
#include "tracers/gpu/xid.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(xid_record);

static __always_inline void device_name(struct pci_dev *dev, char *to)
{
	const char *name;

	to[0] = 0;
	if (!bpf_core_field_exists(dev->dev.kobj.name)) /* a kernel without PCI */
		return;
	name = BPF_CORE_READ(dev, dev.kobj.name);
	if (bpf_probe_read_kernel_str(to, XID_DEVICE_LEN, name) < 0)
		to[0] = 0;
}

/* Both are (struct pci_dev *, u32 number, const char *message), nv-tracepoint.h of the open kernel modules. */
static __always_inline int report(struct bpf_raw_tracepoint_args *ctx, bool of_switch)
{
	struct xid_record *r = record_reserve(RING_CRITICAL, struct xid_record, WIRE_XID, XID_REPORTED);

	if (!r)
		return 0;
	r->hdr.tid = r->hdr.tgid = 0;
	r->number = (__u32)ctx->args[1];
	r->of_switch = of_switch;
	__builtin_memset(r->reserved, 0, sizeof(r->reserved));
	__builtin_memset(r->device, 0, sizeof(r->device));
	__builtin_memset(r->message, 0, sizeof(r->message));
	device_name((struct pci_dev *)ctx->args[0], r->device);
	bpf_probe_read_kernel_str(r->message, sizeof(r->message), (const char *)ctx->args[2]);
	record_submit(r);
	return 0;
}

SEC("raw_tp/nvidia_dev_xid")
int xid_device(struct bpf_raw_tracepoint_args *ctx)
{
	return report(ctx, false);
}

SEC("raw_tp/nvswitch_dev_sxid")
int xid_switch(struct bpf_raw_tracepoint_args *ctx)
{
	return report(ctx, true);
}
