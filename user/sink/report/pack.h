/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.h - bytes as they stand in a page: deflated (zlib), then base64. Pure.
 */
#ifndef RANKTRACE_REPORT_PACK_H
#define RANKTRACE_REPORT_PACK_H

#include <stddef.h>
#include <stdint.h>

/* A text, to be freed; NULL without memory. */
char *pack_bytes(const uint8_t *data, size_t n);

#endif
