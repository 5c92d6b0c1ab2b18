/* SPDX-License-Identifier: Apache-2.0
 *
 * token.c - names of hosts and jobs as parts of subjects, in which '.', '*', '>' and spaces have a meaning.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "bus/bus.h"

#define PLAIN_MAX 40

void bus_token(const char *text, char to[BUS_TOKEN_MAX])
{
	size_t n = 0;
	bool same = *text != 0;

	for (const char *c = text; *c && n < PLAIN_MAX; c++) {
		bool plain = isascii(*c) && (isalnum((unsigned char)*c) || *c == '-' || *c == '_');

		same &= plain;
		to[n++] = plain ? *c : '_';
	}
	same &= !text[n];
	to[n] = 0;
	if (!same)
		snprintf(to + n, BUS_TOKEN_MAX - n, "_h%016" PRIx64, hash_text(0, text));
}
