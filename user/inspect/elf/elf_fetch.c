/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_fetch.c - elf_file's questions, asked in a parser: packs names and offsets, unpacks fixed-size answers.
 */
#include "base/utf8.h"
#include "inspect/elf/elf_file.h"
#include "inspect/reader/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct facts_arg {
	uint32_t n;
	char names[READER_ARG_MAX - sizeof(uint32_t)]; /* n strings, each with its zero byte */
};

struct facts_out {
	struct elf_facts facts;
	struct elf_symbol symbols[ELF_WANTED_MAX];
};

static int op_facts(struct reader_job *job)
{
	const struct facts_arg *a = job->arg;
	struct facts_out *out = (struct facts_out *)job->out;
	const char *names[ELF_WANTED_MAX], *p = a->names;
	struct elf_file *f = NULL;

	for (uint32_t i = 0; i < a->n; i++) {
		names[i] = p;
		p += strlen(p) + 1;
	}
	int rc = elf_file_open(job->fds[0], &f);

	if (rc)
		return rc;
	out->facts = *elf_file_facts(f);
	rc = elf_file_find(f, names, a->n, out->symbols);
	elf_file_free(f);
	job->out_len = offsetof(struct facts_out, symbols) + a->n * sizeof(out->symbols[0]);
	return rc < 0 ? rc : 0;
}

int elf_fetch_facts(struct reader *r, int fd, const char *const names[], size_t n, unsigned deadline_ms,
		    struct elf_facts *ret_facts, struct elf_symbol *ret_symbols)
{
	struct facts_arg a = { .n = n };
	struct facts_out out;
	size_t used = 0, got = 0;

	if (n > ELF_WANTED_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]) + 1;

		if (len > sizeof(a.names) - used)
			return -E2BIG;
		memcpy(a.names + used, names[i], len);
		used += len;
	}
	int rc = parser_run(r, 0, op_facts, &a, offsetof(struct facts_arg, names) + used, &fd, 1, deadline_ms, &out,
			    sizeof(out), &got);

	if (rc)
		return rc;
	if (got != offsetof(struct facts_out, symbols) + n * sizeof(out.symbols[0]) ||
	    out.facts.n_text > ELF_TEXTS_MAX || out.facts.build_id_len > ELF_BUILD_ID_MAX)
		return -EPROTO;
	*ret_facts = out.facts;
	memcpy(ret_symbols, out.symbols, n * sizeof(*ret_symbols));
	return 0;
}

static int op_names(struct reader_job *job)
{
	size_t n = job->arg_len / sizeof(uint64_t);
	struct elf_file *f = NULL;
	int rc = elf_file_open(job->fds[0], &f);

	if (rc)
		return rc;
	rc = elf_file_name(f, job->arg, n, (struct elf_name *)job->out);
	elf_file_free(f);
	job->out_len = n * sizeof(struct elf_name);
	return rc < 0 ? rc : 0;
}

int elf_fetch_names(struct reader *r, int fd, const uint64_t offsets[], size_t n, unsigned deadline_ms,
		    struct elf_name *ret)
{
	size_t got = 0;
	int rc = parser_run(r, 0, op_names, offsets, n * sizeof(*offsets), &fd, 1, deadline_ms, ret, n * sizeof(*ret),
			    &got);

	if (!rc && got != n * sizeof(*ret))
		return -EPROTO;
	for (size_t i = 0; !rc && i < n; i++)
		ret[i].name[ELF_SYMBOL_NAME_MAX - 1] = '\0';
	return rc;
}

static int op_exports(struct reader_job *job)
{
	struct elf_file *f = NULL;
	int rc = elf_file_open(job->fds[0], &f);

	if (rc)
		return rc;
	elf_file_exports(f, job->arg, (struct elf_exports *)job->out);
	elf_file_free(f);
	job->out_len = sizeof(struct elf_exports);
	return 0;
}

int elf_fetch_exports(struct reader *r, int fd, const char *begins, unsigned deadline_ms, struct elf_exports *ret)
{
	size_t got = 0;
	int rc = parser_run(r, 0, op_exports, begins, strlen(begins) + 1, &fd, 1, deadline_ms, ret, sizeof(*ret), &got);

	if (!rc && (got != sizeof(*ret) || ret->n > ELF_EXPORTS_MAX))
		return -EPROTO;
	for (uint32_t i = 0; !rc && i < ret->n; i++) {
		ret->names[i][ELF_EXPORT_LEN - 1] = '\0';
		utf8_tame(ret->names[i], "");
	}
	return rc;
}

static int op_entries(struct reader_job *job)
{
	size_t n = job->arg_len / sizeof(uint64_t);
	struct elf_file *f = NULL;
	int rc = elf_file_open(job->fds[0], &f);

	if (rc)
		return rc;
	rc = elf_file_entries(f, job->arg, n, (bool *)job->out);
	elf_file_free(f);
	job->out_len = n * sizeof(bool);
	return rc;
}

int elf_fetch_entries(struct reader *r, int fd, const uint64_t offsets[], size_t n, unsigned deadline_ms, bool ret[])
{
	uint8_t out[READER_ARG_MAX / sizeof(uint64_t)];
	size_t got = 0;
	int rc = n > sizeof(out) ? -E2BIG
				 : parser_run(r, 0, op_entries, offsets, n * sizeof(*offsets), &fd, 1, deadline_ms, out,
					      n, &got);

	if (!rc && got != n)
		return -EPROTO;
	for (size_t i = 0; !rc && i < n; i++)
		ret[i] = out[i] == 1;
	return rc;
}
