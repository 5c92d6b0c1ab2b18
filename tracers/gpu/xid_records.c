/* SPDX-License-Identifier: Apache-2.0
 *
 * xid_records.c - XIDs as the driver's tracepoints carry them.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "tracers/gpu/xid.h"

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

static int reported(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct xid_record *r = (const void *)rec;
	char device[XID_DEVICE_LEN + 1] = "", message[XID_MESSAGE_LEN + 1] = "";

	if (!r->number)
		return -EINVAL;
	memcpy(device, r->device, XID_DEVICE_LEN);
	memcpy(message, r->message, XID_MESSAGE_LEN);
	e->kind = EV_XID;
	e->kernel_log.xid = r->number;
	e->kernel_log.of_switch = r->of_switch;
	e->kernel_log.pci = pci_of(device);
	e->kernel_log.pid = pid_of(message);
	e->kernel_log.class = r->of_switch ? "sxid" : "xid";
	e->kernel_log.text = intern(strings, message);
	return 1;
}

const struct record_kind source_records_xid[] = {
	{ "xid", .tracer = WIRE_XID, .kind = XID_REPORTED, .size = sizeof(struct xid_record), .decode = reported }, {}
};
