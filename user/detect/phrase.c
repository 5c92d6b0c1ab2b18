/* SPDX-License-Identifier: Apache-2.0
 *
 * phrase.c - appends words and numbers to a text of fixed room.
 */
#include "detect/phrase.h"

#include <string.h>

void phrase_add(char *buf, size_t cap, const char *text)
{
	size_t n = strlen(buf);

	if (n + strlen(text) < cap)
		strcpy(buf + n, text);
}

void phrase_number(char *buf, size_t cap, uint64_t number)
{
	char digits[24];
	int at = sizeof(digits) - 1;

	digits[at] = 0;
	do
		digits[--at] = '0' + number % 10;
	while ((number /= 10) > 0);
	phrase_add(buf, cap, digits + at);
}

void phrase_comm(char *buf, size_t cap, uint64_t hash)
{
	char digits[19] = "0x";

	for (int i = 0; i < 16; i++)
		digits[2 + i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
	phrase_add(buf, cap, digits);
}

void phrase_place(char *buf, size_t cap, uint64_t hash, uint64_t seq)
{
	char one[64] = "";

	phrase_add(one, sizeof(one), *buf ? "," : "");
	phrase_comm(one, sizeof(one), hash);
	phrase_add(one, sizeof(one), "#");
	phrase_number(one, sizeof(one), seq);
	phrase_add(buf, cap, one);
}

void phrase_list(char *buf, size_t cap, int number)
{
	char one[24] = "";

	if (*buf)
		phrase_add(one, sizeof(one), ",");
	if (number < 0)
		phrase_add(one, sizeof(one), "?");
	else
		phrase_number(one, sizeof(one), number);
	phrase_add(buf, cap, one);
}
