/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stack_python.c - the table of CPython's offsets against the DWARF of every interpreter installed here; line
 * tables against what compilers wrote and against noise; a live interpreter whose memory is written full of noise.
 * (That the frames are right is tests/command/test_ps_stacks.py's business, where the interpreter itself says them.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/stack/stack.h"
#include "inspect/stack/stack_private.h"
#include "inspect/elf/struct_layout.h"

static uint64_t random_next(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return *s >> 33;
}

/* ---- the table ---- */

struct expectation {
	const char *name, *path; /* struct by its tag, member */
	uint32_t offset;
};

static unsigned compare(int fd, const char *file, const struct expectation *e, size_t n)
{
	unsigned checked = 0;

	for (size_t i = 0; i < n; i++) {
		struct struct_layout l;
		int rc = e[i].offset == PYTHON_NONE ? -ENOENT : struct_layout_read(fd, e[i].name, &e[i].path, 1, &l);

		if (e[i].offset == PYTHON_NONE)
			continue;
		if (rc || !l.fields[0].found || l.fields[0].offset != e[i].offset)
			fail_msg("%s: %s.%s at %u, the table says %u (%d)", file, e[i].name, e[i].path,
				 l.fields[0].offset, e[i].offset, rc);
		checked++;
	}
	return checked;
}

/* 3.9 to 3.12. */
static unsigned compare_table(int fd, const char *file, int minor, const struct python_layout *l)
{
	bool new = minor >= 11;
	const char *frame = new ? "_PyInterpreterFrame" : "_frame";
	const struct expectation e[] = {
		{ "pyruntimestate", "interpreters.head", l->interpreters_head },
		{ "_is", "next", l->interpreter_next },
		{ "_is", new ? "threads.head" : "tstate_head", l->threads_head },
		{ "_ts", "next", l->thread_next },
		{ "_ts", new ? "cframe" : "frame", l->thread_frame },
		{ "_PyCFrame", "current_frame", l->cframe_frame },
		{ "_ts", "thread_id", l->thread_pthread },
		{ "_ts", "native_thread_id", l->thread_tid },
		{ frame, "f_code", l->frame_code },
		{ frame, new ? "previous" : "f_back", l->frame_previous },
		{ frame, new ? "prev_instr" : "f_lasti", l->frame_instr },
		{ frame, "owner", l->frame_owner },
		{ frame, "is_entry", l->frame_entry },
		{ "PyCodeObject", "co_filename", l->code_file },
		{ "PyCodeObject", new ? "co_qualname" : "co_name", l->code_name },
		{ "PyCodeObject", "co_firstlineno", l->code_first_line },
		{ "PyCodeObject", minor == 9 ? "co_lnotab" : "co_linetable", l->code_lines },
		{ "PyCodeObject", "co_code_adaptive", l->code_bytes },
		{ "_object", "ob_type", l->object_type },
	};

	return compare(fd, file, e, sizeof(e) / sizeof(e[0]));
}

static void table_is_what_dwarf_says(void **state)
{
	unsigned checked = 0, files = 0;
	glob_t g = { 0 };

	(void)state;
	glob("/root/.pyenv/versions/*/lib/libpython3.*.so.1.0", 0, NULL, &g);
	glob("/usr/local/lib/libpython3.*.so.1.0", GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		int minor = 0, fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC);
		struct python_layout l;

		if (sscanf(strstr(g.gl_pathv[i], "libpython3."), "libpython3.%d", &minor) == 1 &&
		    python_layout_table(0x030000 | minor << 8, &l)) {
			checked += compare_table(fd, g.gl_pathv[i], minor, &l);
			files++;
		}
		close(fd);
	}
	globfree(&g);
	printf("%u offsets of %u interpreters with DWARF agree with the table\n", checked, files);
	if (!files)
		skip();
}

static void unknown_versions_are_refused(void **state)
{
	static const int unknown[] = { 0, 0x020712, 0x030812, 0x030d00, 0x030f00, 0x040900, -1 };
	struct python_layout l;
	uint8_t bytes[1024] = "xdebugpy";
	uint64_t seed = 7, word;
	int version = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_false(python_layout_table(unknown[i], &l));
	assert_false(python_layout_debug(bytes, sizeof(bytes), &version, &l)); /* version 0 */
	word = 0x030f00f0;
	memcpy(bytes + 8, &word, 8);
	assert_false(python_layout_debug(bytes, sizeof(bytes), &version, &l));
	word = 0x030d02f0;
	memcpy(bytes + 8, &word, 8);
	assert_true(python_layout_debug(bytes, sizeof(bytes), &version, &l));
	assert_int_equal(version, 0x030d02);
	assert_false(python_layout_debug(bytes, 300, &version, &l));
	assert_false(python_layout_debug(bytes, 15, &version, &l));
	/* An offset of gigabytes is none. */
	for (int i = 16; i < 1024; i++)
		bytes[i] = random_next(&seed);
	assert_false(python_layout_debug(bytes, sizeof(bytes), &version, &l));
	bytes[0] = 'X';
	assert_false(python_layout_debug(bytes, sizeof(bytes), &version, &l));
}

/* ---- lines ---- */

/*
 * def f():        line 10
 *     a = 1       12
 *                 (the step back of a loop)
 *     b = 2       11
 * as 3.9, 3.10 and 3.11 write it down, 4 bytes of code a line.
 */
static void known_tables(void **state)
{
	static const uint8_t lnotab[] = { 0, 2, 4, 255 }, ranges[] = { 4, 2, 4, 255, 4, 128 };
	static const uint8_t locations[] = { 0x80 | 13 << 3 | 1,
					     4,
					     0x80 | 13 << 3 | 1,
					     3,
					     0x80 | 15 << 3 | 1,
					     0x80 | 14 << 3 | 0,
					     0x40 | 32,
					     1,
					     0,
					     1,
					     2,
					     0x80 | 11 << 3,
					     5,
					     9,
					     0x80 | 0 << 3,
					     7 };

	(void)state;
	assert_int_equal(python_line(0x030900, lnotab, 4, 10, 0), 12);
	assert_int_equal(python_line(0x030900, lnotab, 4, 10, 3), 12);
	assert_int_equal(python_line(0x030900, lnotab, 4, 10, 4), 11);
	assert_int_equal(python_line(0x030a00, ranges, 6, 10, 3), 12);
	assert_int_equal(python_line(0x030a00, ranges, 6, 10, 4), 11);
	assert_int_equal(python_line(0x030a00, ranges, 6, 10, 8), 0);  /* no line */
	assert_int_equal(python_line(0x030a00, ranges, 6, 10, 12), 0); /* beyond */
	assert_int_equal(python_line(0x030b00, locations, sizeof(locations), 10, 0), 12);
	assert_int_equal(python_line(0x030c00, locations, sizeof(locations), 10, 4), 11);
	assert_int_equal(python_line(0x030c00, locations, sizeof(locations), 10, 8), 0);
	assert_int_equal(python_line(0x030d00, locations, sizeof(locations), 10, 12), 11 + 48);
	assert_int_equal(python_line(0x030d00, locations, sizeof(locations), 10, 14), 11 + 49);
	assert_int_equal(python_line(0x030e00, locations, sizeof(locations), 10, 16), 11 + 49);
	assert_int_equal(python_line(0x030e00, locations, sizeof(locations), 10, 18), 0);
	assert_int_equal(python_line(0x030b00, locations, sizeof(locations), 10, -2), 10); /* not begun */
	assert_int_equal(python_line(0x030b00, locations, sizeof(locations), -5, 0), 0);
}

static void noisy_tables(void **state)
{
	static const int versions[] = { 0x030900, 0x030a00, 0x030b00 };
	uint64_t seed = 99;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		size_t len = random_next(&seed) % 48;
		uint8_t *exact = malloc(len ? len : 1); /* so that a sanitizer or valgrind sees a byte too many */

		for (size_t i = 0; i < len; i++)
			exact[i] = random_next(&seed) | (random_next(&seed) % 3 ? 128 : 0);
		python_line(versions[round % 3], exact, len, random_next(&seed) % 100000,
			    (int64_t)random_next(&seed) % 300 - 4);
		free(exact);
	}
}

/* ---- a live interpreter full of noise ---- */

static pid_t python_start(void)
{
	int out[2];
	char byte;

	if (pipe(out))
		return -1;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		execlp("python3", "python3", "-c",
		       "import threading, time\n"
		       "def f(n):\n"
		       "    if n: f(n - 1)\n"
		       "    else: time.sleep(1000)\n"
		       "for i in range(6): threading.Thread(target=f, args=(8 * i,)).start()\n"
		       "time.sleep(0.3); print('x', flush=True); time.sleep(1000)",
		       NULL);
		_exit(127);
	}
	close(out[1]);
	bool up = read(out[0], &byte, 1) == 1;

	close(out[0]);
	usleep(20000);
	return up ? pid : -1;
}

static size_t frames_in(const struct target_stacks *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		assert_true(s->threads[i].n_python <= STACK_FRAMES_MAX && s->threads[i].n_native <= STACK_FRAMES_MAX);
		for (size_t k = 0; k < s->threads[i].n_python; k++)
			assert_true(s->threads[i].python[k].line >= 0);
		n += s->threads[i].n_python;
	}
	return n;
}

/* Where an interpreter's frames, threads and code live: its anonymous memory and its data. */
static size_t places_of(pid_t pid, struct mapping *ret, size_t max)
{
	static struct maps maps;
	static char text[1 << 20];
	char path[64];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	int fd = open(path, O_RDONLY);
	size_t len = 0;
	ssize_t got;

	while ((got = read(fd, text + len, sizeof(text) - len)) > 0)
		len += got;
	close(fd);
	assert_int_equal(maps_parse(text, len, &maps), 0);
	for (size_t i = 0; i < maps.n && n < max; i++)
		if ((maps.rows[i].prot & MAPPING_WRITE) && maps.rows[i].end - maps.rows[i].start < 4 << 20)
			ret[n++] = maps.rows[i];
	return n;
}

static void noisy_interpreter(void **state)
{
	struct mapping places[256];
	struct reader *reader;
	struct target_stacks s;
	uint64_t seed = 4242;
	size_t first = 0, last = 0, changed = 0;
	pid_t pid = python_start();

	(void)state;
	assert_true(pid > 0);
	assert_int_equal(reader_open(&reader), 0);
	size_t n = places_of(pid, places, 256);

	for (int round = 0; round < 150; round++) {
		uint64_t begin = clock_monotonic_ns();

		assert_int_equal(target_stacks_read(reader, pid, STACK_DEADLINE_MS, &s), 0);
		assert_true(clock_monotonic_ns() - begin < 6000000000ull);
		size_t frames = frames_in(&s);

		changed += round && frames != last;
		first = round ? first : frames;
		last = frames;
		target_stacks_free(&s);
		/* Words that are pointers elsewhere make better noise than plain randomness does. */
		for (int i = 0; i < 400; i++) {
			const struct mapping *m = &places[random_next(&seed) % n], *o = &places[random_next(&seed) % n];
			uint64_t at = m->start + random_next(&seed) % (m->end - m->start) / 8 * 8;
			uint64_t word = i & 1 ? o->start + random_next(&seed) % (o->end - o->start) / 8 * 8
					      : random_next(&seed);
			struct iovec from = { &word, 8 }, to = { (void *)(uintptr_t)at, 8 };

			process_vm_writev(pid, &from, 1, &to, 1, 0);
		}
	}
	printf("an interpreter full of noise: %zu frames at first, %zu at last, %zu changes\n", first, last, changed);
	assert_true(first >= 6 * 4 && changed > 3);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	reader_free(reader);
}

/* Stripped of every symbol: an interpreter that says nothing, at once. */
static void without_symbols(void **state)
{
	char path[64], command[160];
	struct reader *reader;
	struct target_stacks s;

	(void)state;
	/* A program of that name without a runtime in it stands for one whose symbols are gone. */
	snprintf(path, sizeof(path), "/tmp/ranktrace-%d-python3.12", getpid());
	snprintf(command, sizeof(command), "cp /bin/sleep %s && strip %s", path, path);
	assert_int_equal(system(command), 0);
	pid_t pid = fork();

	if (!pid) {
		execl(path, "python3.12", "1000", NULL);
		_exit(127);
	}
	usleep(100000);
	assert_int_equal(reader_open(&reader), 0);
	assert_int_equal(target_stacks_read(reader, pid, STACK_DEADLINE_MS, &s), 0);
	assert_true(s.python_unknown && !s.python_version && s.threads[0].python_end == STACK_UNKNOWN);
	assert_true(s.threads[0].n_native > 0);
	target_stacks_free(&s);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	reader_free(reader);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_what_dwarf_says),
		cmocka_unit_test(unknown_versions_are_refused),
		cmocka_unit_test(known_tables),
		cmocka_unit_test(noisy_tables),
		cmocka_unit_test(noisy_interpreter),
		cmocka_unit_test(without_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
