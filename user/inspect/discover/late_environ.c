/* SPDX-License-Identifier: Apache-2.0
 *
 * late_environ.c - variables a program sets after its start: /proc/PID/environ shows what it was started with, so
 * libc's `environ` is followed in its memory. One job of a parser; the target goes on meanwhile, so each pointer is
 * only a try, and a table that moved while it was read is read once more.
 */
#include "base/larger.h"
#include "inspect/discover/discover_private.h"
#include "inspect/reader/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX 8 /* copies of `environ`: libc's, a program's, another libc's */
#define VARIABLES_MAX 4096
#define BATCH 64
#define VALUE_MAX 512 /* bytes of one variable, name included; longer ones are left out */
#define TEXT_MAX (1u << 20)
#define PAGE 4096ul

struct environ_arg {
	uint64_t n;
	uint64_t places[PLACES_MAX]; /* addresses of the variable `environ` */
};

/* What stands at `addr`, whose page alone is read where that is enough. Its length, 0 if it is none or too long. */
static size_t variable_read(const struct memory *m, uint64_t addr, char *to)
{
	size_t first = smaller(PAGE - addr % PAGE, VALUE_MAX), got = memory_read_part(m, addr, to, first);
	const char *end = memchr(to, 0, got);

	if (!end && got == first && got < VALUE_MAX) {
		got += memory_read_part(m, addr + got, to + got, VALUE_MAX - got);
		end = memchr(to, 0, got);
	}
	return end && memchr(to, '=', end - to) ? end - to : 0;
}

static void variables_read(const struct memory *m, const uint64_t *pointers, size_t n, struct reader_job *job)
{
	char value[VALUE_MAX];

	for (size_t i = 0; i < n; i++) {
		size_t len = variable_read(m, pointers[i], value);

		if (!len || job->out_len + len + 1 > job->out_max)
			continue;
		memcpy(job->out + job->out_len, value, len);
		job->out[job->out_len + len] = '\0';
		job->out_len += len + 1;
	}
}

/* The whole table behind one `environ`, behind what the job has; nothing where there is none. */
static void table_read(const struct memory *m, uint64_t table, struct reader_job *job)
{
	uint64_t pointers[BATCH];

	for (size_t done = 0; table && table % 8 == 0 && done < VARIABLES_MAX; done += BATCH) {
		size_t n = memory_read_part(m, table + done * 8, pointers, sizeof(pointers)) / 8, last = 0;

		while (last < n && pointers[last])
			last++;
		variables_read(m, pointers, last, job);
		if (last < BATCH)
			break;
	}
}

static void environ_read(const struct memory *m, uint64_t place, struct reader_job *job)
{
	uint64_t table = 0, again = 0;
	size_t before = job->out_len;

	for (int tries = 0; tries < 2; tries++) {
		job->out_len = before;
		if (!memory_read(m, place, &table, sizeof(table)))
			break;
		table_read(m, table, job);
		if (memory_read(m, place, &again, sizeof(again)) && again == table)
			break;
	}
}

static int op_environ(struct reader_job *job)
{
	const struct environ_arg *a = job->arg;
	struct memory m;
	int rc = memory_open(job->fds, &m);

	if (rc)
		return rc;
	for (uint64_t i = 0; i < a->n; i++)
		environ_read(&m, a->places[i], job);
	memory_free(&m);
	return 0;
}

int late_environ_read(struct reader *r, const struct target_proc *p, struct proc_environ *ret)
{
	struct environ_arg a = { 0 };
	size_t len = 0;

	/* All of them: where the program has a copy, libc's own stays empty, and a second libc has its own table. */
	for (size_t i = 0; i < p->n_files && a.n < PLACES_MAX; i++)
		if (p->libs[i].file->facts.environ_vaddr)
			a.places[a.n++] = p->libs[i].bias + p->libs[i].file->facts.environ_vaddr;
	if (!a.n)
		return -ENODATA;
	char *text = malloc(TEXT_MAX + 1);

	if (!text)
		return -ENOMEM;
	int rc = parser_run_memory(r, p->tgid, op_environ, &a,
				   offsetof(struct environ_arg, places) + a.n * sizeof(a.places[0]), NULL, 0,
				   READER_DEADLINE_MS, text, TEXT_MAX, &len);

	if (!rc) {
		text[len] = '\0';
		proc_environ_parse(text, len, ret);
	}
	free(text);
	return rc;
}
