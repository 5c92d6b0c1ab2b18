/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elf_find.c - functions by the begin of their name, and virtual functions that no symbol names any more: in a
 * stripped library made here, with both forms of relocations, in damaged copies of it, and in libtorch where it is;
 * static marks, in that library and in an interpreter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/elf/elf_file.h"

#define TORCH "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"
#define PYTHON "/usr/bin/python3.11"
#define DAMAGES 3000

/* What a compiler makes of a class with a destructor (slots 0, 1) and two virtual functions, and of another one that is
 * derived from it; `twice` is a class of which two tables exist that do not agree. */
static const char source[] =
	"typedef void fn(void);\n"
	"#define F(n) static __attribute__((noinline)) void n(void) { static volatile int v; v += 3 + sizeof(#n); }\n"
	"F(d1) F(d0)\nF(release)\nF(other)\nF(e1)\nF(e0)\n"
	"static const struct { char zero, name[12]; } a = { 0, \"N4test5thing\" }, c = { 0, \"N4test5twice\" };\n"
	"static const struct { char zero[4]; char name[16]; } b = { {0}, \"N4test7derived\" };\n"
	"struct type { void *table; const char *name; const void *base; };\n"
	"static struct type ta = { 0, a.name }, tb = { 0, b.name, &ta }, tc = { 0, c.name };\n"
	"struct table { long top; struct type *type; fn *f[4]; };\n"
	"struct table va = { 0, &ta, { d1, d0, release, other } }, vb = { 0, &tb, { e1, e0, release, other } };\n"
	"struct table vc = { 0, &tc, { d1, d0, release, other } }, vc2 = { 0, &tc, { e1, e0, release, other } };\n"
	"void *catches[] = { &ta, 0, d1, e1 };\n" /* a pointer to the type that is no table */
	"fn *const truth[] = { d0, e0 };\n"
	"volatile unsigned short counter __attribute__((section(\".probes\")));\n"
	"const unsigned short unwritten = 1;\n"
	"#define MARK(base, name, semaphore) __asm__ volatile(\"990: \" base \"\\n\"\\\n"
	"\".pushsection .note.stapsdt, \\\"\\\", \\\"note\\\"\\n.balign 4\\n.4byte 8, 994f - 993f, 3\\n\"\\\n"
	"\".asciz \\\"stapsdt\\\"\\n993: .8byte 990b, 0, \" semaphore \"\\n.asciz \\\"test\\\"\\n\"\\\n"
	"\".asciz \\\"\" name \"\\\"\\n.asciz \\\"\\\"\\n994: .balign 4\\n.popsection\\n\")\n"
	"void marks(void)\n"
	"{ MARK(\"nop\", \"seen\", \"counter\"); MARK(\"nop\", \"plain\", \"0\"); MARK(\"nop\", \"twice\", \"0\");\n"
	"  MARK(\"nop\", \"twice\", \"0\"); MARK(\"ret\", \"code\", \"0\"); MARK(\"nop\", \"far\", \"unwritten\"); }\n"
	"void _ZN4test4workEiRKSs(void) { d1(); }\n"
	"void _ZN4test7workingEv(void) { d0(); }\n";

static char dir[64], plain[96], packed[96];

static int compile(const char *flags, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "cc -O1 -shared -fPIC -fvisibility=default -s -Wl,-Bsymbolic %s -o %s %s/a.c", flags, to, dir);
	return system(command);
}

static int setup(void **state)
{
	char path[96];
	FILE *f;

	(void)state;
	strcpy(dir, "/tmp/ranktrace-find-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(plain, sizeof(plain), "%s/plain.so", dir);
	snprintf(packed, sizeof(packed), "%s/packed.so", dir);
	snprintf(path, sizeof(path), "%s/a.c", dir);
	f = fopen(path, "w");
	fputs(source, f);
	fclose(f);
	return compile("", plain) || compile("-Wl,-z,pack-relative-relocs", packed) ? -1 : 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int find(const char *path, const char *const *names, size_t n, struct elf_symbol *ret)
{
	struct elf_file *f = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC), found = elf_file_open(fd, &f);

	close(fd);
	if (found)
		return found;
	found = elf_file_find(f, names, n, ret);
	elf_file_free(f);
	return found;
}

static void by_the_begin_of_a_name(void **state)
{
	static const char *const names[] = { "_ZN4test4work*", "_ZN4test7workingEv", "_ZN4test5other*", "*",
					     "_ZN4test4work" };
	struct elf_symbol s[5];

	(void)state;
	assert_int_equal(find(plain, names, 4, s), 2);
	assert_true(s[0].found && s[1].found && !s[2].found);
	assert_int_not_equal(s[0].offset, s[1].offset);
	assert_int_equal(find(plain, &names[4], 1, s), 0); /* without the star the whole name counts */
}

/* The truth: the file's own table of pointers to d0 and e0, as the loader would see it. */
static void finds_slot(const char *path)
{
	static const char *const names[] = { "_ZN4test4work*",  "N4test5thing[1]", "N4test7derived[1]",
					     "N4test5thing[0]", "N4test5thing[2]", "N4test7derived[2]" };
	struct elf_symbol s[6];

	assert_int_equal(find(path, names, 6, s), 6);
	assert_int_not_equal(s[1].vaddr, s[2].vaddr);
	assert_int_not_equal(s[1].vaddr, s[3].vaddr);
	assert_int_equal(s[4].vaddr, s[5].vaddr); /* inherited */
}

static void by_class_and_slot(void **state)
{
	(void)state;
	finds_slot(plain);
	finds_slot(packed);
}

static bool has_relr(const char *path)
{
	char command[160];

	snprintf(command, sizeof(command), "readelf -d %s | grep -q RELR", path);
	return !system(command);
}

static void both_forms_of_relocations_were_there(void **state)
{
	(void)state;
	assert_true(has_relr(packed));
	assert_false(has_relr(plain));
}

/* d0 is called by working() alone, and its address is what the file's `truth` holds: the first call in it. */
static void is_the_function_that_the_table_holds(void **state)
{
	static const char *const names[] = { "_ZN4test7workingEv", "N4test5thing[1]" };
	struct elf_symbol s[2];
	unsigned char code[32];
	int fd = open(plain, O_RDONLY), at = 0;
	int32_t distance;

	(void)state;
	assert_int_equal(find(plain, names, 2, s), 2);
	assert_int_equal(pread(fd, code, sizeof(code), (off_t)s[0].offset), sizeof(code));
	close(fd);
#if defined(__x86_64__)
	while (at < 20 && code[at] != 0xe8 && code[at] != 0xe9) /* call or jmp */
		at++;
	assert_true(at < 20);
	memcpy(&distance, &code[at + 1], 4);
	assert_int_equal(s[0].vaddr + at + 5 + distance, s[1].vaddr);
#else
	(void)at;
	(void)distance;
#endif
}

static void what_is_not_for_sure_is_not_found(void **state)
{
	static const char *const names[] = {
		"_ZN4test4work*", "N4test5twice[1]", "4test5thing[1]", "N4test5thing[9]", "N4test5thing[99]", "[1]", "]"
	};
	static const char *const alone[] = { "N4test5thing[1]", "d0" };
	struct elf_symbol s[7];

	(void)state;
	assert_int_equal(find(plain, names, 7, s), 1);
	assert_int_equal(find(plain, alone, 2, s), 0); /* no C++ function of the list is in it: not searched */
}

/* A mark is found by its note in the stripped file, with the counter that it asks; not where it is in two places, is no
 * empty instruction, or has its counter where nothing may be written. */
static void static_marks(void **state)
{
	static const char *const names[] = { "test:seen", "test:plain", "test:twice", "test:code",
					     "test:far",  "test:see",   "tes:seen",   "test:" };
	struct elf_symbol s[8];
	unsigned char code[2] = { 0 };
	int fd = open(plain, O_RDONLY);

	(void)state;
	assert_int_equal(find(plain, names, 8, s), 2);
	assert_true(s[0].found && s[0].semaphore && !(s[0].semaphore % 2) && s[1].found && !s[1].semaphore);
	assert_int_equal(pread(fd, code, sizeof(code), (off_t)s[0].semaphore), sizeof(code));
	assert_true(!code[0] && !code[1]); /* nobody looks */
	assert_int_not_equal(s[0].offset, s[1].offset);
	close(fd);
	assert_int_equal(find(packed, names, 8, s), 2);
}

static void debians_python(void **state)
{
	static const char *const names[] = { "python:gc__start", "python:gc__done", "PyGC_Collect", "gc_collect_main" };
	struct elf_symbol s[4];

	(void)state;
	if (access(PYTHON, R_OK))
		skip();
	assert_int_equal(find(PYTHON, names, 4, s), 3);
	assert_true(s[0].semaphore && s[1].semaphore && s[0].semaphore != s[1].semaphore && !s[3].found);
}

static void damaged_copies_are_survived(void **state)
{
	static const char *const names[] = { "_ZN4test4work*", "N4test5thing[1]", "N4test7derived[1]", "test:seen" };
	const char *seed = getenv("SEED");
	struct elf_symbol s[4];
	uint8_t *bytes = malloc(1 << 16);
	char path[96];

	(void)state;
	srand(seed ? atoi(seed) : 1);
	snprintf(path, sizeof(path), "%s/damaged.so", dir);
	for (int i = 0; i < DAMAGES; i++) {
		int fd = open(i % 2 ? plain : packed, O_RDONLY);
		ssize_t n = read(fd, bytes, 1 << 16);

		close(fd);
		for (int k = rand() % 24; k >= 0; k--) { /* headers and the dynamic section more often */
			size_t at = rand() % (rand() % 2 ? n : 0x400);

			bytes[at] = rand() % 3 ? rand() : 0xff;
		}
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(write(fd, bytes, n), n);
		close(fd);
		if (find(path, names, 4, s) > 0)
			for (int k = 0; k < 4; k++)
				assert_true(s[k].offset < (uint64_t)n && s[k].semaphore < (uint64_t)n);
	}
	free(bytes);
}

static void libtorch(void **state)
{
	static const char *const names[] = { "_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112*",
					     "_ZN5torch8autograd8profiler25record_function_enter_newERKSs*",
					     "_ZN5torch8autograd6Engine7executeERKSt6vector*",
					     "N5torch8autograd8profiler20PythonRecordFunctionE[1]" };
	struct elf_symbol s[4];

	(void)state;
	if (access(TORCH, R_OK))
		skip();
	assert_int_equal(find(TORCH, names, 4, s), 3);
	assert_true(s[0].found && !s[1].found && s[2].found && s[3].found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_begin_of_a_name),
		cmocka_unit_test(by_class_and_slot),
		cmocka_unit_test(both_forms_of_relocations_were_there),
		cmocka_unit_test(is_the_function_that_the_table_holds),
		cmocka_unit_test(what_is_not_for_sure_is_not_found),
		cmocka_unit_test(static_marks),
		cmocka_unit_test(debians_python),
		cmocka_unit_test(damaged_copies_are_survived),
		cmocka_unit_test(libtorch),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
