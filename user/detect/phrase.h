/* SPDX-License-Identifier: Apache-2.0
 *
 * phrase.h - evidence as text, put together without stdio: detectors do no I/O. What does not fit is left out whole.
 */
#ifndef RANKTRACE_PHRASE_H
#define RANKTRACE_PHRASE_H

#include <stddef.h>
#include <stdint.h>

void phrase_add(char *buf, size_t cap, const char *text);
void phrase_number(char *buf, size_t cap, uint64_t number);
void phrase_comm(char *buf, size_t cap, uint64_t hash); /* 0x and 16 digits, as in "comm" of a finding */
void phrase_list(char *buf, size_t cap, int number);    /* with a comma when it is not the first; below 0: "?" */
void phrase_place(char *buf, size_t cap, uint64_t hash,
		  uint64_t seq); /* "0x...#7": collective 7 of it; comma as above */

#endif
