/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * xid.h - records of tracer xid: an error that the NVIDIA driver reported. Kernel side and collector share it.
 */
#ifndef RANKTRACE_XID_H
#define RANKTRACE_XID_H

#include "schemas/wire.h"

#define XID_DEVICE_LEN 32
#define XID_MESSAGE_LEN 192

enum xid_kind { XID_REPORTED = 1 };

struct xid_record { /* of no process: tid and tgid are 0 */
	struct wire_hdr hdr;
	__u32 number;
	__u8 of_switch; /* 1: an NVSwitch's (SXID) */
	__u8 reserved[3];
	char device[XID_DEVICE_LEN];   /* "0000:3b:00.0"; zero-terminated, "" unknown */
	char message[XID_MESSAGE_LEN]; /* cut to fit */
};
_Static_assert(sizeof(struct xid_record) == 256, "xid_record");

#endif
