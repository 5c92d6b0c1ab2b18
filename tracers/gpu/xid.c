/* SPDX-License-Identifier: Apache-2.0
 *
 * xid.c - decodes XIDs. The same ones come by the kernel log (user/sample/klog.c) where there is no tracepoint; the
 * model joins what both tell.
 */
#include "tracers/gpu/xid.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer.h"
#include "xid.skel.h"

static const void *xid_object(size_t *ret_size)
{
	return xid_bpf__elf_bytes(ret_size);
}

static uint64_t pci_of(const char *device)
{
	unsigned int domain, bus, slot;

	if (sscanf(device, "%x:%x:%x", &domain, &bus, &slot) != 3 || bus > 0xff || slot > 0x1f)
		return GPU_PCI_NONE;
	return (uint64_t)domain << 16 | bus << 8 | slot;
}

static uint32_t pid_of(const char *message)
{
	const char *at = strstr(message, "pid=");

	return at && isdigit((unsigned char)at[4]) ? strtoul(at + 4, NULL, 10) : 0;
}

static int xid_decode(const struct wire_hdr *h, struct intern *strings, struct event *out, int max)
{
	const struct xid_record *r = (const void *)h;
	char device[XID_DEVICE_LEN + 1] = "", message[XID_MESSAGE_LEN + 1] = "";

	(void)max;
	if (h->kind != XID_REPORTED || h->size < sizeof(*r) || !r->number)
		return -EINVAL;
	memcpy(device, r->device, XID_DEVICE_LEN);
	memcpy(message, r->message, XID_MESSAGE_LEN);
	out->kind = EV_XID;
	out->kernel_log.xid = r->number;
	out->kernel_log.of_switch = r->of_switch;
	out->kernel_log.pci = pci_of(device);
	out->kernel_log.pid = pid_of(message);
	out->kernel_log.class = r->of_switch ? "sxid" : "xid";
	out->kernel_log.text = intern(strings, message);
	return 1;
}

const struct tracer tracer_xid = {
	.name = "xid",
	.help = "errors that the NVIDIA driver reports",
	.id = WIRE_XID,
	.of_machine = true,
	.object = xid_object,
	.decode = xid_decode,
	.events_max = 1,
};
