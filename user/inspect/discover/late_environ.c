/* SPDX-License-Identifier: Apache-2.0
 *
 * late_environ.c - variables a program sets after its start: /proc/PID/environ shows what it was started with, so
 * libc's `environ` is followed in its memory. One job in the helper; the target goes on meanwhile, so each pointer is
 * only a try, and a table that moved while it was read is read once more.
 */
#include "base/larger.h"
#include "inspect/discover/discover_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define PLACES_MAX 8 /* copies of `environ`: libc's, a program's, another libc's */
#define VARIABLES_MAX 4096
#define BATCH 64
#define VALUE_MAX 512 /* bytes of one variable, name included; longer ones are left out */
#define TEXT_MAX (1u << 20)
#define PAGE 4096ul

struct environ_arg {
	uint32_t pid, n;
	uint64_t places[PLACES_MAX]; /* addresses of the variable `environ` */
};

struct piece { /* of the target's memory */
	uint64_t addr;
	char *to;
	size_t len, got;
};

/* As much of each as is there: a hole ends its own piece only. */
static int pieces_read(pid_t pid, struct piece *pieces, size_t n)
{
	struct iovec to[BATCH], from[BATCH];

	for (size_t i = 0; i < n; i++) {
		to[i] = (struct iovec){ pieces[i].to, pieces[i].len };
		from[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].addr, pieces[i].len };
		pieces[i].got = 0;
	}
	for (size_t i = 0; i < n;) {
		ssize_t got = process_vm_readv(pid, to + i, n - i, from + i, n - i, 0);

		if (got < 0 && errno != EFAULT)
			return -errno;
		size_t left = got < 0 ? 0 : got;

		for (; i < n && left >= pieces[i].len; i++) {
			pieces[i].got = pieces[i].len;
			left -= pieces[i].len;
		}
		if (i < n)
			pieces[i++].got = left;
	}
	return 0;
}

static size_t word_read(pid_t pid, uint64_t addr, uint64_t *ret, size_t n)
{
	struct piece p = { addr, (char *)ret, n * sizeof(*ret), 0 };

	return pieces_read(pid, &p, 1) ? 0 : p.got / sizeof(*ret);
}

/* A variable that ran into the end of its page goes on on the next. Its length, 0 if it is none or too long. */
static size_t variable_finish(pid_t pid, struct piece *p)
{
	const char *end = memchr(p->to, 0, p->got);
	struct piece rest = { p->addr + p->got, p->to + p->got, VALUE_MAX - p->got, 0 };

	if (!end && p->got == p->len && rest.len && !pieces_read(pid, &rest, 1))
		end = memchr(p->to, 0, p->got + rest.got);
	return end && memchr(p->to, '=', end - p->to) ? end - p->to : 0;
}

static int variables_read(pid_t pid, const uint64_t *pointers, size_t n, struct reader_job *job)
{
	static char values[BATCH][VALUE_MAX];
	struct piece pieces[BATCH];

	for (size_t i = 0; i < n; i++) {
		size_t page = PAGE - pointers[i] % PAGE;

		pieces[i] = (struct piece){ pointers[i], values[i], smaller(page, VALUE_MAX), 0 };
	}
	int rc = pieces_read(pid, pieces, n);

	for (size_t i = 0; !rc && i < n; i++) {
		size_t len = variable_finish(pid, &pieces[i]);

		if (!len || job->out_len + len + 1 > job->out_max)
			continue;
		memcpy(job->out + job->out_len, values[i], len);
		job->out[job->out_len + len] = '\0';
		job->out_len += len + 1;
	}
	return rc;
}

/* The whole table behind one `environ`, behind what the job has; 0 also where there is none. */
static int table_read(pid_t pid, uint64_t table, struct reader_job *job)
{
	uint64_t pointers[BATCH];
	int rc = 0;

	for (size_t done = 0; !rc && table && table % 8 == 0 && done < VARIABLES_MAX; done += BATCH) {
		size_t n = word_read(pid, table + done * sizeof(*pointers), pointers, BATCH), last = 0;

		while (last < n && pointers[last])
			last++;
		rc = variables_read(pid, pointers, last, job);
		if (last < BATCH)
			break;
	}
	return rc;
}

static int op_environ(struct reader_job *job)
{
	const struct environ_arg *a = job->arg;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < a->n; i++) {
		uint64_t table = 0, again = 0;
		size_t before = job->out_len;

		for (int tries = 0; !rc && tries < 2; tries++) {
			job->out_len = before;
			if (!word_read(a->pid, a->places[i], &table, 1))
				break;
			rc = table_read(a->pid, table, job);
			if (word_read(a->pid, a->places[i], &again, 1) && again == table)
				break;
		}
	}
	return rc;
}

int late_environ_read(struct reader *r, const struct target_proc *p, struct proc_environ *ret)
{
	struct environ_arg a = { .pid = p->tgid };
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
	int rc =
		reader_run(r, p->tgid, op_environ, &a, offsetof(struct environ_arg, places) + a.n * sizeof(a.places[0]),
			   READER_DEADLINE_MS, text, TEXT_MAX, &len, NULL);

	if (!rc) {
		text[len] = '\0';
		proc_environ_parse(text, len, ret);
	}
	free(text);
	return rc;
}
