/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_elf.c - ELF and DWARF facts: on this program, on a small library compiled here, on the real libnccl where
 * there is one, and on thousands of damaged copies, which must be refused or misread but never crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/elf/elf_file.h"
#include "inspect/reader/maps.h"
#include "inspect/reader/reader.h"
#include "inspect/elf/struct_layout.h"

#define NCCL "/usr/local/cuda/lib64/libnccl.so.2"

static const char source[] =
	"struct later; struct inner { char pad[24]; int deep[2][3]; };\n"
	"struct outer { long first; struct later *p; union { int u1; short u2; }; struct inner in; unsigned bits:3;\n"
	"               unsigned long seq[5]; char tail[]; };\n"
	"struct outer the_outer; struct later *the_later;\n"
	"__attribute__((weak)) int ncclAllReduce(void) { return the_outer.first; }\n"
	"static __attribute__((noinline,used)) int hidden(int x) { return x + 1; }\n"
	"extern int ncclSend(void); int calls_send(void) { return hidden(ncclSend()); }\n";

static char dir[64], lib[96];
static struct reader *reader;

static int setup(void **state)
{
	char command[512], path[96];

	(void)state;
	strcpy(dir, "/tmp/ranktrace-elf-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(lib, sizeof(lib), "%s/lib.so", dir);
	snprintf(path, sizeof(path), "%s/lib.c", dir);
	FILE *f = fopen(path, "w");

	fputs(source, f);
	fclose(f);
	snprintf(command, sizeof(command), "cc -g -O1 -shared -fPIC -Wl,--build-id=sha1 -o %s %s", lib, path);
	return system(command) ? -1 : reader_open(&reader);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	reader_free(reader);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int open_ro(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Not static, so that it has an entry in .symtab whatever the compiler does. */
int test_target_elf_landmark(int x);
__attribute__((noinline)) int test_target_elf_landmark(int x)
{
	__asm__ volatile("");
	return x + 3;
}

static void agrees_with_the_loader(void **state)
{
	static const char *const names[] = { "test_target_elf_landmark", "no_such_function", "open" };
	struct elf_symbol sym[3];
	struct elf_name name;
	struct elf_file *f = NULL;
	struct maps maps = { 0 };
	char *text = NULL;
	size_t len;
	int fd = open_ro("/proc/self/exe");

	(void)state;
	assert_int_equal(elf_file_open(fd, &f), 0);
	close(fd);
	assert_int_equal(elf_file_find(f, names, 3, sym), 1);
	assert_true(sym[0].found && !sym[1].found && !sym[2].found); /* open is only imported */
	assert_int_equal(reader_file(reader, getpid(), "maps", 1 << 20, 1000, &text, &len), 0);
	assert_int_equal(maps_parse(text, len, &maps), 0);
	uint64_t addr = (uintptr_t)test_target_elf_landmark;
	uint64_t offset = mapping_file_offset(maps_find(&maps, addr), addr) + 1;

	assert_int_equal(sym[0].offset + 1, offset);
	assert_true(elf_facts_in_text(elf_file_facts(f), offset));
	assert_false(elf_facts_in_text(elf_file_facts(f), 0));
	assert_int_equal(elf_file_name(f, &offset, 1, &name), 1);
	assert_string_equal(name.name, "test_target_elf_landmark");
	assert_int_equal(name.delta, 1);
	maps_free(&maps);
	free(text);
	elf_file_free(f);
}

static void reads_a_small_library(void **state)
{
	static const char *const names[] = { "ncclAllReduce", "ncclSend", "hidden", "the_outer" };
	struct elf_symbol sym[4];
	struct elf_facts facts;
	int fd = open_ro(lib);
	char id[41];

	(void)state;
	assert_int_equal(elf_fetch_facts(reader, fd, names, 4, 1000, &facts, sym), 0);
	assert_true(sym[0].found && sym[2].found);
	assert_false(sym[1].found); /* undefined here */
	assert_false(sym[3].found); /* data */
	assert_int_equal(facts.build_id_len, 20);
	assert_false(facts.build_id_made_up);
	assert_true(facts.has_dwarf && facts.has_symtab);
	elf_facts_build_id(&facts, id);
	assert_int_equal(strlen(id), 40);
	uint64_t offsets[2] = { sym[2].offset + 1, 1 };
	struct elf_name out[2];

	assert_int_equal(elf_fetch_names(reader, fd, offsets, 2, 1000, out), 0);
	assert_string_equal(out[0].name, "hidden");
	assert_string_equal(out[1].name, "");
	close(fd);
}

static void reads_struct_layout(void **state)
{
	static const char *const fields[] = { "first", "p",    "u2", "in",      "in.deep",
					      "seq",   "tail", "no", "first.x", "bits" };
	struct struct_layout s;
	int fd = open_ro(lib);

	(void)state;
	assert_int_equal(struct_layout_fetch(reader, fd, "outer", fields, 10, 2000, &s), 0);
	assert_true(s.fields[0].found && s.fields[0].offset == 0 && s.fields[0].size == 8 && s.fields[0].count == 1);
	assert_true(s.fields[1].offset == 8 && s.fields[1].size == 8);
	assert_true(s.fields[2].found && s.fields[2].offset == 16 && s.fields[2].size == 2);
	assert_true(s.fields[3].offset == 20 && s.fields[3].size == 48);
	assert_true(s.fields[4].found && s.fields[4].offset == 44 && s.fields[4].size == 24 && s.fields[4].count == 6);
	assert_true(s.fields[5].offset == 72 && s.fields[5].size == 40 && s.fields[5].count == 5);
	assert_true(s.fields[6].found && s.fields[6].offset == 112 && s.fields[6].size == 0);
	assert_false(s.fields[7].found || s.fields[8].found);
	assert_int_equal(s.size, 112);
	/* Only declared, and not there at all. */
	assert_int_equal(struct_layout_read(fd, "later", fields, 1, &s), -ENOENT);
	assert_int_equal(struct_layout_read(fd, "nothing", fields, 1, &s), -ENOENT);
	close(fd);
}

static void reads_the_real_nccl(void **state)
{
	static const char *const names[] = { "ncclAllReduce", "pncclAllReduce" };
	static const char *const fields[] = { "startMagic", "commHash",    "rank",      "nRanks",
					      "cudaDev",    "asyncResult", "seqNumber", "endMagic" };
	static const uint32_t offsets[] = { 0, 1066184, 1066192, 1066196, 1066200, 1069044, 1075728, 1082960 };
	struct elf_symbol sym[2];
	struct elf_facts facts;
	struct struct_layout s;
	char id[41] = "";
	int fd = open_ro(NCCL);

	(void)state;
	if (fd < 0) {
		print_message("skipped: no " NCCL " here\n");
		skip();
	}
	assert_int_equal(elf_fetch_facts(reader, fd, names, 2, 5000, &facts, sym), 0);
	assert_true(sym[0].found && sym[0].offset == sym[1].offset);
	int rc = struct_layout_fetch(reader, fd, "ncclComm", fields, 8, 10000, &s);

	close(fd);
	elf_facts_build_id(&facts, id);
	if (strcmp(id, "9fcf74d93a8c3605bf7718f594d0a24366e38536")) {
		print_message("skipped: another build of NCCL (%s): its offsets are not known beforehand\n", id);
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(s.n_found, 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(s.fields[i].offset, offsets[i]);
	assert_int_equal(s.fields[6].count, 5);
	assert_int_equal(s.size, 1082968);
}

static char *slurp(const char *path, size_t *len)
{
	struct stat st;
	int fd = open_ro(path);

	fstat(fd, &st);
	char *data = malloc(st.st_size);

	*len = read(fd, data, st.st_size);
	close(fd);
	return data;
}

static int as_fd(const void *data, size_t len)
{
	int fd = memfd_create("mutant", MFD_CLOEXEC);

	assert_int_equal(write(fd, data, len), len);
	return fd;
}

static int try_open(const void *data, size_t len)
{
	static const char *const names[] = { "ncclAllReduce", "hidden" };
	static const uint64_t offsets[] = { 0x1000, 0x1100, 0x1105, UINT64_MAX };
	struct elf_symbol sym[2];
	struct elf_name out[4];
	struct elf_file *f = NULL;
	int fd = as_fd(data, len), rc = elf_file_open(fd, &f);

	if (!rc) {
		elf_file_find(f, names, 2, sym);
		elf_file_name(f, offsets, 4, out);
	}
	elf_file_free(f);
	close(fd);
	return rc;
}

static void distinguishes_errors(void **state)
{
	size_t len;
	char *data = slurp(lib, &len);

	(void)state;
	assert_int_equal(try_open("#!/bin/sh\n", 10), -ENOEXEC);
	assert_int_equal(try_open("", 0), -ENOEXEC);
	assert_int_equal(try_open(data, 20), -EBADMSG);
	assert_int_equal(try_open(data, 100), -EBADMSG);
	data[18] ^= 0x55; /* e_machine */
	assert_int_equal(try_open(data, len), -ENOTSUP);
	data[18] ^= 0x55;
	data[EI_CLASS] = ELFCLASS32;
	assert_int_equal(try_open(data, len), -ENOTSUP);
	data[EI_CLASS] = ELFCLASS64;
	assert_int_equal(try_open(data, len), 0);
	free(data);
	struct elf_file *f = NULL;
	int fd = open_ro("/");

	assert_int_equal(elf_file_open(fd, &f), -EINVAL);
	close(fd);
}

static void makes_up_a_build_id(void **state)
{
	struct elf_file *f = NULL;
	size_t len;
	char *data = slurp(lib, &len);

	(void)state;
	for (size_t i = 0; i + 4 < len; i++) /* spoil the note's owner */
		if (!memcmp(data + i, "GNU", 4))
			data[i] = 'X';
	int fd = as_fd(data, len);

	assert_int_equal(elf_file_open(fd, &f), 0);
	assert_true(elf_file_facts(f)->build_id_made_up);
	assert_int_equal(elf_file_facts(f)->build_id_len, 16);
	elf_file_free(f);
	close(fd);
	free(data);
}

/* Headers and symbol tables are where the parser looks: half of the flips go to the first page and the last 8 KiB. */
static size_t flip_at(size_t len)
{
	switch (rand() % 4) {
	case 0: return rand() % 1024;
	case 1: return len - 1 - rand() % (len < 8192 ? len : 8192);
	default: return rand() % len;
	}
}

static void survives_damage(void **state)
{
	size_t len;
	char *data = slurp(lib, &len), *copy = malloc(len);
	int opened = 0;

	(void)state;
	srand(11);
	for (int i = 0; i < 6000; i++) {
		size_t cut = i % 3 ? len : (size_t)rand() % len;

		memcpy(copy, data, len);
		for (int k = rand() % 6; k >= 0; k--)
			copy[flip_at(len)] = rand();
		opened += !try_open(copy, cut);
	}
	assert_in_range(opened, 100, 6000);
	free(copy);
	free(data);
}

/* libdw is not ours: damaged DWARF may even kill the worker, and must not do more than that. */
static void survives_damaged_dwarf(void **state)
{
	static const char *const fields[] = { "seq", "in.deep" };
	size_t len;
	char *data = slurp(lib, &len), *copy = malloc(len);
	struct struct_layout s;
	int read = 0;

	(void)state;
	srand(13);
	for (int i = 0; i < 2000; i++) {
		memcpy(copy, data, len);
		for (int k = rand() % 8; k >= 0; k--)
			copy[i % 2 ? rand() % len : flip_at(len)] = rand();
		int fd = as_fd(copy, i % 5 ? len : (size_t)rand() % len), rc;

		rc = struct_layout_fetch(reader, fd, "outer", fields, 2, 1000, &s);
		read += !rc;
		assert_true(rc == 0 || rc == -ENOENT || rc == -ENODATA || rc == -EBADMSG || rc == -ETIME ||
			    rc == -EIO || rc == -ETIMEDOUT || rc == -EAGAIN);
		close(fd);
	}
	assert_in_range(read, 100, 2000);
	free(copy);
	free(data);
}

/* libibverbs keeps the functions of its first version beside today's, under the same names. */
static void test_default_version(void **state)
{
	const char *names[] = { "versioned", "new_one" };
	struct elf_symbol sym[2];
	struct elf_facts facts;
	char command[700];
	int fd;

	(void)state;
	snprintf(command, sizeof(command),
		 "cd %s && printf 'V1 {};\\nV2 {};\\n' > map && printf '"
		 "int old_one(void) { return 1; } int new_one(void) { return 2; }\\n"
		 "__asm__(\".symver old_one,versioned@V1\"); __asm__(\".symver new_one,versioned@@V2\");\\n' > v.c && "
		 "cc -shared -fPIC -O1 -Wl,--version-script=map -o v.so v.c",
		 dir);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s/v.so", dir);
	fd = open(command, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(elf_fetch_facts(reader, fd, names, 2, 5000, &facts, sym), 0);
	assert_true(sym[0].found && sym[1].found);
	assert_int_equal(sym[0].offset, sym[1].offset);
	close(fd);
}

/* A target's pointer may lead to any byte: only where functions begin there is one, named, static, or without any
 * symbol at all. */
static void only_functions_begin(void **state)
{
	static const char *const names[] = { "ncclAllReduce", "hidden" };
	static const char *const copies[] = { "cp lib.so e.so", "strip -s -o e.so lib.so",
					      "objcopy -w -R '.eh_frame*' -S lib.so e.so" };
	struct elf_symbol sym[2];
	struct elf_facts facts;
	char command[256];
	int fd = open_ro(lib);

	(void)state;
	assert_int_equal(elf_fetch_facts(reader, fd, names, 2, 1000, &facts, sym), 0);
	close(fd);
	for (int i = 0; i < 3; i++) {
		uint64_t offsets[] = {
			sym[0].offset, sym[0].offset + 1, sym[1].offset, sym[1].offset + 1, 0, 1ull << 40
		};
		bool begins[6] = { 0 };

		snprintf(command, sizeof(command), "cd %s && %s", dir, copies[i]);
		assert_int_equal(system(command), 0);
		snprintf(command, sizeof(command), "%s/e.so", dir);
		fd = open_ro(command);
		assert_int_equal(elf_fetch_entries(reader, fd, offsets, 6, 1000, begins), 0);
		close(fd);
		if (i < 2)
			assert_true(begins[0] && begins[2]);
		assert_false(begins[1] || begins[3] || begins[4] || begins[5]);
	}
}

/* Reading a hole would make it memory. */
static void refuses_holes(void **state)
{
	int fd = memfd_create("holes", MFD_CLOEXEC);
	struct elf_file *f = NULL;
	struct stat st;

	(void)state;
	assert_true(fd >= 0 && write(fd, "\177ELF\2\1\1", 7) == 7);
	assert_int_equal(ftruncate(fd, 32 << 20), 0);
	assert_int_not_equal(elf_file_open(fd, &f), -EFBIG);
	assert_int_equal(ftruncate(fd, 2l << 30), 0);
	assert_int_equal(elf_file_open(fd, &f), -EFBIG);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_blocks * 512 < 1 << 20);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_functions_begin),   cmocka_unit_test(test_default_version),
		cmocka_unit_test(agrees_with_the_loader), cmocka_unit_test(reads_a_small_library),
		cmocka_unit_test(reads_struct_layout),    cmocka_unit_test(reads_the_real_nccl),
		cmocka_unit_test(distinguishes_errors),   cmocka_unit_test(makes_up_a_build_id),
		cmocka_unit_test(refuses_holes),          cmocka_unit_test(survives_damage),
		cmocka_unit_test(survives_damaged_dwarf),
	};

	if (system("cc --version >/dev/null 2>&1")) {
		fprintf(stderr, "skipped: no C compiler (cc) here to make the test libraries\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
