/* SPDX-License-Identifier: Apache-2.0
 *
 * python_layout.c - the offsets of one CPython, from its own _Py_DebugOffsets (3.13 on) or from the table.
 */
#include "inspect/stack/stack_private.h"

#include <string.h>

#define COOKIE "xdebugpy"
#define OFFSET_MAX (8u << 20) /* the runtime and an interpreter state are hundreds of kilobytes */

union layout_words { /* the layout as a row of numbers */
	struct python_layout layout;
	uint32_t words[sizeof(struct python_layout) / sizeof(uint32_t)];
};

static const struct {
	int minor;
	union layout_words row;
} known[] = {
#define PYTHON_LAYOUT(minor, ...) { minor, { { __VA_ARGS__ } } },
#include "inspect/stack/python_layout.def"
#undef PYTHON_LAYOUT
};

/* Where each offset is written down. */
static const struct {
	int minor;
	union layout_words row;
} layouts[] = {
#define PYTHON_DEBUG(minor, ...) { minor, { { __VA_ARGS__ } } },
#include "inspect/stack/python_layout.def"
#undef PYTHON_DEBUG
};

bool python_layout_table(int version, struct python_layout *ret)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (version >> 16 == 3 && (version >> 8 & 0xff) == known[i].minor) {
			*ret = known[i].row.layout;
			return true;
		}
	return false;
}

static bool words_take(const uint8_t *bytes, size_t len, const union layout_words *where, union layout_words *ret)
{
	for (size_t k = 0; k < sizeof(ret->words) / sizeof(ret->words[0]); k++) {
		uint64_t v;

		if (!where->words[k]) {
			ret->words[k] = PYTHON_NONE;
			continue;
		}
		if (where->words[k] + sizeof(v) > len)
			return false;
		memcpy(&v, bytes + where->words[k], sizeof(v));
		if (v > OFFSET_MAX)
			return false;
		ret->words[k] = v;
	}
	return true;
}

bool python_layout_debug(const uint8_t *bytes, size_t len, int *ret_version, struct python_layout *ret)
{
	union layout_words out;
	uint64_t version;

	if (len < 16 || memcmp(bytes, COOKIE, 8))
		return false;
	memcpy(&version, bytes + 8, sizeof(version));
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (version >> 24 != 3 || (int)(version >> 16 & 0xff) != layouts[i].minor)
			continue;
		if (!words_take(bytes, len, &layouts[i].row, &out))
			return false;
		*ret = out.layout;
		/* A str that is not ASCII has its UTF-8 copy's length and address before its characters. */
		ret->str_compact = ret->str_ascii + 2 * sizeof(uint64_t);
		*ret_version = version >> 8;
		return true;
	}
	return false;
}
