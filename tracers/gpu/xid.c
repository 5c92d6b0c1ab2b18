/* SPDX-License-Identifier: Apache-2.0
 *
 * xid.c - XIDs by the driver's tracepoints. The same ones come by the kernel log (klog.c) where there are none; the
 * model joins what both report.
 */
#include "tracer.h"
#include "xid.skel.h"

static const void *xid_object(size_t *ret_size)
{
	return xid_bpf__elf_bytes(ret_size);
}

const struct tracer tracer_xid = {
	.name = "xid",
	.help = "errors that the NVIDIA driver reports",
	.id = WIRE_XID,
	.of_machine = true,
	.object = xid_object,
};
