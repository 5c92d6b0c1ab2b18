/* SPDX-License-Identifier: Apache-2.0
 *
 * recording.h - bytes of the .rtr file that are not records; see recording.md.
 */
#ifndef RANKTRACE_SCHEMA_RECORDING_H
#define RANKTRACE_SCHEMA_RECORDING_H

#include <linux/types.h>

#define RECORDING_MAGIC 0x0a72744b4e415252ull /* "RRANKtr\n" in the file */
#define RECORDING_CHUNK_MAGIC 0x4b4e4843u     /* "CHNK" */
#define RECORDING_VERSION 1

struct recording_header {
	__u64 magic;
	__u32 version;
	__u32 reserved;
};
_Static_assert(sizeof(struct recording_header) == 16, "recording_header");

struct recording_chunk { /* then packed_bytes of zlib data: raw_bytes of records */
	__u32 magic;
	__u32 raw_bytes, packed_bytes;
	__u32 n_records;
	__u32 crc32; /* zlib's, of the packed bytes */
	__u32 reserved;
};
_Static_assert(sizeof(struct recording_chunk) == 24, "recording_chunk");

#endif
