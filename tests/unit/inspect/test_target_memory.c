/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_memory.c - a process' memory by its open files: what is read, what is not (pages that are not there, what
 * the program may not read itself, a device), and that the files are those of one address space.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/reader/memory.h"
#include "inspect/reader/reader.h"

#define PAGES 4

static size_t page;

static void *map(int prot, int flags, int fd, off_t at)
{
	void *p = mmap(NULL, PAGES * page, prot, flags, fd, at);

	return p == MAP_FAILED ? NULL : p;
}

struct own { /* of this process */
	int fds[MEMORY_FILES];
	struct memory m;
};

static void own_open(struct own *o)
{
	assert_int_equal(memory_files_open(getpid(), o->fds), 0);
	assert_int_equal(memory_open(o->fds, &o->m), 0);
}

static void fds_close(const int *fds)
{
	for (int i = 0; i < MEMORY_FILES; i++)
		close(fds[i]);
}

static void own_close(struct own *o)
{
	memory_free(&o->m);
	fds_close(o->fds);
}

static void reads_what_is_there_and_makes_no_page(void **state)
{
	char *p = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[64] = "";
	unsigned char in[PAGES];
	struct own o;

	(void)state;
	assert_non_null(p);
	strcpy(p + 2 * page - 3, "ab"); /* the second page; the third is not there */
	own_open(&o);
	assert_true(memory_read(&o.m, (uintptr_t)p + 2 * page - 3, got, 3));
	assert_string_equal(got, "ab");
	assert_int_equal(memory_read_part(&o.m, (uintptr_t)p + 2 * page - 3, got, 10), 3);
	assert_false(memory_read(&o.m, (uintptr_t)p, got, 1));
	assert_false(memory_read(&o.m, 0, got, 1));
	assert_false(memory_read(&o.m, UINT64_MAX - 3, got, 8));
	assert_int_equal(mincore(p, PAGES * page, in), 0);
	assert_true(!(in[0] & 1) && (in[1] & 1) && !(in[2] & 1) && !(in[3] & 1));
	own_close(&o);
	munmap(p, PAGES * page);
}

/* By /proc/PID/mem root could read both. */
static void reads_no_more_than_the_program_may(void **state)
{
	char *p = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[8];
	int fd = memfd_create("shared", 0), devmem = open("/dev/mem", O_RDONLY);
	char *shared, *device = devmem < 0 ? NULL : map(PROT_READ, MAP_SHARED, devmem, 0xf0000);
	struct own o;

	(void)state;
	memset(p, 1, PAGES * page);
	assert_int_equal(mprotect(p, PAGES * page, PROT_NONE), 0);
	assert_int_equal(ftruncate(fd, PAGES * page), 0);
	shared = map(PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(shared, 2, PAGES * page);
	own_open(&o);
	assert_int_equal(pread(o.fds[MEMORY_BYTES], got, 1, (uintptr_t)p), 1);
	assert_false(memory_read(&o.m, (uintptr_t)p, got, 1));
	assert_true(memory_read(&o.m, (uintptr_t)shared, got, 8));
	if (device && pread(o.fds[MEMORY_BYTES], got, 1, (uintptr_t)device) == 1)
		assert_false(memory_read(&o.m, (uintptr_t)device, got, 1));
	else
		print_message("no device whose registers could be read so\n");
	assert_true(write(o.fds[MEMORY_BYTES], got, 1) < 0);
	own_close(&o);
	munmap(p, PAGES * page);
	munmap(shared, PAGES * page);
	close(fd);
	close(devmem);
}

/* What a parser holds of a program says nothing of the next one. */
static void is_of_one_address_space(void **state)
{
	int fds[MEMORY_FILES], status, ready[2], go[2];
	char c = 0, *args[] = { "sleep", "60", NULL };
	struct memory m;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		close(ready[0]);
		read(go[0], &c, 1);
		execvp(args[0], args);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(memory_files_open(pid, fds), 0);
	assert_int_equal(memory_open(fds, &m), 0);
	assert_true(memory_read(&m, (uintptr_t)&page, &c, 1));
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(read(ready[0], &c, 1), 0); /* closed by exec */
	assert_false(memory_read(&m, (uintptr_t)&page, &c, 1));
	memory_free(&m);
	assert_int_equal(memory_open(fds, &m), -ESRCH);
	memory_free(&m);
	fds_close(fds);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(memory_files_open(pid, fds), -ESRCH);
}

static int job_word(struct reader_job *job)
{
	uint64_t addr;
	struct memory m;
	int rc = memory_open(job->fds, &m);

	memcpy(&addr, job->arg, sizeof(addr));
	if (!rc && !memory_read(&m, addr, job->out, 8))
		rc = -EFAULT;
	job->out_len = 8;
	memory_free(&m);
	return rc;
}

static int job_mapped(struct reader_job *job)
{
	uint64_t addr;
	struct memory m;
	int rc = memory_open(job->fds, &m), fd;

	memcpy(&addr, job->arg, sizeof(addr));
	const struct mapping *row = rc ? NULL : maps_find(&m.maps, addr);

	fd = row ? job_mapped_file(row->start, row->end) : -ENOENT;
	if (fd >= 0)
		job->out_len = pread(fd, job->out, 4, 0);
	memory_free(&m);
	return fd < 0 ? fd : job->n_fds == MEMORY_FILES + 1 ? 0 : -EPROTO;
}

static int job_mapped_endless(struct reader_job *job)
{
	while (job)
		job_mapped_file(4096, 8192);
	return 0;
}

static void a_parser_walks_it(void **state)
{
	uint64_t secret = 0x1122334455667788, addr = (uintptr_t)&secret, got = 0, heap = (uintptr_t)*state;
	struct reader *r = *state;
	size_t len = 0;
	int extra = open("/dev/null", O_RDONLY | O_CLOEXEC), after, before = dup(0);
	char magic[4] = "";

	close(before);
	assert_int_equal(parser_run_memory(r, getpid(), job_word, &addr, 8, NULL, 0, 1000, &got, sizeof(got), &len), 0);
	assert_int_equal(got, secret);
	/* What it maps it may have, and no more. */
	addr = (uintptr_t)a_parser_walks_it;
	assert_int_equal(parser_run_memory(r, getpid(), job_mapped, &addr, 8, &extra, 1, 1000, magic, 4, &len), 0);
	assert_memory_equal(magic, "\177ELF", 4);
	assert_int_not_equal(parser_run_memory(r, getpid(), job_mapped, &heap, 8, &extra, 1, 1000, magic, 4, &len), 0);
	assert_int_equal(parser_run_memory(r, getpid(), job_mapped_endless, NULL, 0, NULL, 0, 5000, NULL, 0, NULL),
			 -EIO);
	/* None where the question is about no process. */
	assert_int_equal(parser_run(r, getpid(), job_mapped_endless, NULL, 0, NULL, 0, 5000, NULL, 0, NULL), -EIO);
	assert_int_equal(parser_run_memory(r, 0x7ffffff, job_word, &addr, 8, NULL, 0, 1000, &got, 8, &len), -ESRCH);
	after = dup(0);
	close(after);
	close(extra);
	assert_int_equal(before, after);
}

static int setup(void **state)
{
	page = sysconf(_SC_PAGESIZE);
	return reader_open((struct reader **)state);
}

static int teardown(void **state)
{
	reader_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_there_and_makes_no_page),
		cmocka_unit_test(reads_no_more_than_the_program_may),
		cmocka_unit_test(is_of_one_address_space),
		cmocka_unit_test(a_parser_walks_it),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
