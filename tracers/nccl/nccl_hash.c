/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hash.c - see nccl_hash.h. The constants are NCCL's; with others the key would not match the memory's.
 */
#include "tracers/nccl/nccl_hash.h"

#include <string.h>

uint64_t nccl_id_hash(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint64_t a = 1 ^ size, b = 1, word;
	size_t n;

	for (; size; p += n, size -= n) {
		a += b;
		b ^= a;
		a = (a ^ a >> 31) * 0x9de62bbc8cef3ce3ull;
		b = (b ^ b >> 32) * 0x485cd6311b599e79ull;
		n = size < sizeof(word) ? size : sizeof(word);
		word = 0;
		memcpy(&word, p, n);
		a += word;
	}
	a = (a ^ a >> 31) * 0xbac3bd562846de6bull + b;
	return (a ^ a >> 32) * 0x995a187a14e7b445ull;
}
