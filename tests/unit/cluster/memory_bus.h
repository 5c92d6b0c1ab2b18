/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_bus.h - a bus of two streams and its tables in this process, for tests: as the real one refuses, loses
 * answers, is away.
 */
#ifndef RANKTRACE_TESTS_MEMORY_BUS_H
#define RANKTRACE_TESTS_MEMORY_BUS_H

#include <stdbool.h>

#include "bus/bus.h"

struct memory_value {
	enum bus_table table;
	char key[BUS_TOKEN_MAX], value[1024];
	uint64_t revision;
};

struct memory_bus {
	struct bus base;
	char *log[256]; /* entry n at n - 1: incidents of one job */
	uint64_t n_log;
	struct memory_value values[32]; /* of all tables */
	int n_values;
	char asked[16][BUS_PIECE_MAX / 32]; /* questions, in order; whose they are is not kept */
	size_t asked_len[16];
	int n_asked;
	char piece_keys[16][BUS_KEY_MAX]; /* that were put */
	int n_pieces;
	bool away;      /* every call fails */
	bool is_behind; /* every other answer of a table is the one before, as of another replica */
	unsigned int n_read;
	int answers_lost; /* so many appends are stored, and not acknowledged */
	int appends_lost; /* so many are neither */
};

extern struct memory_bus memory_bus;

void memory_bus_begin(void);
void memory_bus_end(void);
/* How many entries of the log hold that text. */
int memory_bus_count(const char *text);

#endif
