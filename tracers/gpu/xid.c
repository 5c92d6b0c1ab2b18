/* SPDX-License-Identifier: Apache-2.0
 *
 * xid.c - XIDs by the driver's tracepoints. The same ones come by the kernel log (klog.c) where there are none; the
 * model joins what both report.
 */
#include "source.h"
#include "xid.skel.h"

static const void *xid_object(size_t *ret_size)
{
	return xid_bpf__elf_bytes(ret_size);
}

static const struct tracer xid_tracer = {
	.name = "xid",
	.id = WIRE_XID,
	.of_machine = true,
	.object = xid_object,
};

const struct source_live source_xid = { .tracer = &xid_tracer };
