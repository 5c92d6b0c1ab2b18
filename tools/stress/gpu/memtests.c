/* SPDX-License-Identifier: Apache-2.0
 *
 * memtests.c - the patterns of memtests.def as steps. A pass is one call; 0, or -EIO: the device is lost.
 */
#include "base/clock.h"
#include "tools/stress/gpu/memory.h"

#define ONES (~0ull)
#define FADE_NS 3000000000ull
#define FADE_SHARE 8 /* a window's pauses take at most a quarter of it */

static int write_and_check(struct memory *m, struct memory_value value)
{
	int err = memory_write(m, value);

	return err ? err : memory_check(m, value, false);
}

static struct memory_value constant(uint64_t p)
{
	return (struct memory_value){ .mode = MODE_CONSTANT, .p = p };
}

static struct memory_value complement(struct memory_value value)
{
	value.flip = ~value.flip;
	return value;
}

/* A value, then behind each check its complement, and back. */
static int inversions(struct memory *m, struct memory_value value)
{
	int err = memory_write(m, value);

	err = err ? err : memory_check(m, value, true);
	err = err ? err : memory_check(m, complement(value), true);
	return err ? err : memory_check(m, value, false);
}

static uint64_t twice(uint32_t pattern)
{
	return (uint64_t)pattern << 32 | pattern;
}

static uint64_t random_of(const struct memory *m, int pass)
{
	return (m->gpu->run->options->seed + pass + 1) * 0x9e3779b97f4a7c15ull;
}

/* Of four places of a bit the one whose turn it is. */
static int place_of(const struct memory *m, int pass)
{
	return 4 * pass + m->gpu->memory_turns % 4;
}

static int pass_walking(struct memory *m, int pass)
{
	return write_and_check(m, (struct memory_value){ .mode = MODE_WALKING, .p = place_of(m, pass) });
}

static int pass_address(struct memory *m, int pass)
{
	return write_and_check(m, (struct memory_value){ .mode = MODE_ADDRESS, .flip = pass ? ONES : 0 });
}

static int pass_inversions(struct memory *m, int pass)
{
	return inversions(m, constant(pass ? ONES : 0));
}

static int pass_bytes(struct memory *m, int pass)
{
	return inversions(m, constant(0x0101010101010101ull << pass));
}

static int pass_random32(struct memory *m, int pass)
{
	return inversions(m, constant(twice(random_of(m, pass) >> 32)));
}

static int pass_block_move(struct memory *m, int pass)
{
	struct memory_value value = { .mode = MODE_RANDOM, .p = random_of(m, pass) };
	int err = memory_write(m, value);

	err = err ? err : memory_move(m);
	value.mode = MODE_MOVED;
	value.half = MOVE_HALF;
	return err ? err : memory_check(m, value, false);
}

static int pass_shifted(struct memory *m, int pass)
{
	return inversions(m, constant(twice(1u << place_of(m, pass))));
}

static int pass_sequence(struct memory *m, int pass)
{
	return inversions(m, (struct memory_value){ .mode = MODE_RANDOM, .p = random_of(m, pass + 8) });
}

/* Every twentieth word, then its complement twice in all others: the check finds who writes to neighbours. */
static int pass_modulo20(struct memory *m, int pass)
{
	struct memory_value value = constant(pass % 2 ? random_of(m, pass) : twice(random_of(m, pass) >> 32));
	int err;

	value.select = SELECT_ONLY;
	value.offset = pass * 5;
	err = memory_write(m, value);
	for (int i = 0; !err && i < 2; i++) {
		struct memory_value others = complement(value);

		others.select = SELECT_OTHERS;
		err = memory_write(m, others);
	}
	return err ? err : memory_check(m, value, false);
}

static int pass_fade(struct memory *m, int pass)
{
	struct memory_value value = constant(pass ? ONES : 0);
	uint64_t now_ns = clock_monotonic_ns(), end_ns = m->gpu->run->window_end_ns;
	uint64_t share_ns = (end_ns > now_ns ? end_ns - now_ns : 0) / FADE_SHARE;
	int err = memory_write(m, value);

	err = err ? err : memory_pause(m, share_ns < FADE_NS ? share_ns : FADE_NS);
	return err ? err : memory_check(m, value, false);
}

static const struct {
	const char *name;
	int passes;
	int (*run)(struct memory *m, int pass);
} tests[] = {
#define MEMTEST(id, name, passes) { name, passes, pass_##id },
#include "tools/stress/gpu/memtests.def"
#undef MEMTEST
};
#define N_TESTS (sizeof(tests) / sizeof(tests[0]))

static bool is_over(struct memory *m)
{
	struct stress_run *run = m->gpu->run;

	m->stopped = run_stopping(run) || clock_monotonic_ns() >= run->window_end_ns;
	return m->stopped;
}

int memtests_run(struct memory *m)
{
	int err = 0;

	for (size_t i = 0; !err && !m->stopped; i = (i + 1) % N_TESTS) {
		m->pattern = tests[i].name;
		for (int pass = 0; !err && pass < tests[i].passes; pass++) {
			err = tests[i].run(m, pass);
			if (!err && i == N_TESTS - 1 && pass == tests[i].passes - 1)
				m->gpu->memory_turns++;
			if (!err && is_over(m))
				return 0;
		}
	}
	return err;
}
