/* SPDX-License-Identifier: Apache-2.0
 *
 * lib_table.c - which files a process executes from and what is in them. A file is inspected once for all processes
 * and for good (by device, inode, size and mtime); a rescan costs one stat call per file, and only where the
 * executable mappings changed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "inspect/discover/discover_private.h"
#include "inspect/elf/lib_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSPECT_DEADLINE_MS 1000 /* a cold file on a slow disk */
#define INSPECT_HURRIED_MS 100   /* of a user's, beside other users': once more later, and warmer then */
#define REFUSED_SAID_MAX 16      /* of a set */
#define ROWS_MAX 2048            /* executable files read of one process */
#define OPEN_MAX 512             /* files kept open by one set for their names only */
#define FILES_MAX 16384
#define LATE_FILES_MAX 2 /* then the rest of the process waits */
#define LATE_RETRY_NS 5000000000ull
#define UNASKED_RETRY_NS 500000000ull /* no time for it was left in this second: says nothing about the file */

static int add_name(struct target_set *s, const char *name, size_t len)
{
	for (size_t i = 0; i < s->n_names; i++)
		if (!strncmp(s->names[i], name, len) && !s->names[i][len])
			return 0;
	if (s->n_names == ELF_WANTED_MAX)
		return -E2BIG;
	s->names[s->n_names] = strndup(name, len);
	return s->names[s->n_names] && ++s->n_names ? 0 : -ENOMEM;
}

static int add_markers(struct target_set *s, const char *alternatives)
{
	int rc = 0;

	for (const char *p = alternatives; !rc;) {
		size_t len = strcspn(p, "|");

		rc = add_name(s, p, len);
		if (!p[len])
			break;
		p += len + 1;
	}
	return rc;
}

int lib_table_init(struct target_set *s)
{
	int rc = 0;

	for (size_t i = 0; i < s->n_filters; i++) {
		const struct target_filter *w = &s->filters[i];

		if (w->tracer >= TARGET_TRACERS_MAX || !w->n_markers)
			return -EINVAL;
		for (size_t k = 0; !rc && k < w->n_markers; k++)
			rc = add_markers(s, w->markers[k]);
		for (size_t k = 0; !rc && k < w->n_symbols; k++)
			rc = add_name(s, w->symbols[k], strlen(w->symbols[k]));
	}
	return rc;
}

static void file_close(struct target_set *s, struct file_row *f)
{
	if (f->pub.fd < 0)
		return;
	close(f->pub.fd);
	f->pub.fd = -1;
	s->n_open--;
}

static void file_free(struct target_set *s, struct file_row *f)
{
	HASH_DEL(s->files, f);
	file_close(s, f);
	free(f->symbols);
	free(f);
}

void lib_table_free(struct target_set *s)
{
	struct file_row *f, *next;

	HASH_ITER (hh, s->files, f, next)
		file_free(s, f);
	for (size_t i = 0; i < s->n_names; i++)
		free(s->names[i]);
}

static const struct elf_symbol *find_symbol(const struct target_set *s, const struct elf_symbol *symbols,
					    const char *name, size_t len)
{
	for (size_t i = 0; i < s->n_names; i++)
		if (!strncmp(s->names[i], name, len) && !s->names[i][len])
			return symbols[i].found ? &symbols[i] : NULL;
	return NULL;
}

static bool marker_there(const struct target_set *s, const struct elf_symbol *symbols, const char *alternatives)
{
	for (const char *p = alternatives;;) {
		size_t len = strcspn(p, "|");

		if (find_symbol(s, symbols, p, len))
			return true;
		if (!p[len])
			return false;
		p += len + 1;
	}
}

static void filters_match(const struct target_set *s, const struct elf_symbol *symbols, struct target_file *f)
{
	f->tracers = 0;
	f->lists = false;
	for (size_t i = 0; i < s->n_filters; i++) {
		const struct target_filter *w = &s->filters[i];
		size_t k = 0;

		while (k < w->n_markers && marker_there(s, symbols, w->markers[k]))
			k++;
		if (k < w->n_markers)
			continue;
		f->tracers |= 1u << w->tracer;
		f->lists |= !w->of_many;
	}
}

const struct elf_symbol *target_file_symbol(const struct target_set *s, const struct target_file *file,
					    const char *name)
{
	const struct file_row *f = (const struct file_row *)file;

	return f->symbols ? find_symbol(s, f->symbols, name, strlen(name)) : NULL;
}

void lib_table_sweep(struct target_set *s)
{
	bool full = HASH_COUNT(s->files) >= FILES_MAX;
	struct file_row *f, *next;

	HASH_ITER (hh, s->files, f, next) {
		if (f->n_users)
			continue;
		if (full)
			file_free(s, f);
		else
			file_close(s, f);
	}
}

static struct file_row *file_find(struct target_set *s, const struct lib_stat *st)
{
	uint64_t key[4] = { st->dev, st->ino, st->size, st->mtime_ns };
	struct file_row *f = NULL;

	HASH_FIND(hh, s->files, key, sizeof(key), f);
	return f;
}

static struct file_row *file_add(struct target_set *s, const struct lib_stat *st)
{
	struct file_row *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->pub.dev = st->dev;
	f->pub.ino = st->ino;
	f->pub.size = st->size;
	f->pub.mtime_ns = st->mtime_ns;
	f->pub.fd = -1;
	HASH_ADD(hh, s->files, pub.dev, FILE_KEY_LEN, f);
	return f;
}

/* What the file says for good, as against what the moment did (deadlines, memory): only that is remembered. */
static bool is_lasting(int rc)
{
	return !rc || rc == -EFBIG || rc == -ENOEXEC || rc == -ENOTSUP || rc == -EBADMSG || rc == -EIO || rc == -EPROTO;
}

/* A session looks on for others, too. Root's files are trusted to be worth a wait. */
static bool is_hurried(const struct target_set *s, const struct proc_row *p)
{
	return s->shares && p->pub.uid;
}

static bool begins_with_one(const char *name, const char *alternatives)
{
	for (const char *p = alternatives; p;) {
		size_t len = strcspn(p, "|");

		if (!strncmp(name, p, len))
			return true;
		p = p[len] ? p + len + 1 : NULL;
	}
	return false;
}

/* By its name: what it is does not show before it was read. */
static enum reader_queue queue_of(const struct target_set *s, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < s->n_filters; i++)
		if (begins_with_one(name, s->filters[i].files))
			return s->filters[i].vital ? READER_FIRST : READER_NEXT;
	return READER_OTHERS;
}

/* The same inode is known with other contents: written to in place, as its owner can again and again. */
static bool is_rewritten(const struct target_set *s, const struct lib_stat *st)
{
	for (const struct file_row *f = s->files; f; f = f->hh.next)
		if (f->pub.dev == st->dev && f->pub.ino == st->ino)
			return true;
	return false;
}

static int file_inspect(struct target_set *s, const struct proc_row *p, const struct mapping *row,
			struct file_row **ret)
{
	uint32_t tgid = p->pub.tgid, deadline_ms = is_hurried(s, p) ? INSPECT_HURRIED_MS : INSPECT_DEADLINE_MS;
	enum reader_queue queue = queue_of(s, row->path);
	struct elf_symbol symbols[ELF_WANTED_MAX];
	struct elf_facts facts = { 0 };
	struct lib_stat st;
	int fd = -1,
	    rc = reader_queue_is_full(s->reader, queue) ? -ECANCELED : lib_open(s->reader, tgid, row, &st, &fd);

	if (rc)
		return rc;
	s->counts.files_inspected++;
	queue = is_rewritten(s, &st) ? READER_OTHERS : queue;
	reader_queue_use(s->reader, queue);
	rc = elf_fetch_facts(s->reader, fd, (const char *const *)s->names, s->n_names, deadline_ms, &facts, symbols);
	reader_queue_use(s->reader, READER_FIRST);
	struct file_row *f = is_lasting(rc) ? file_find(s, &st) : NULL;

	if (!f && is_lasting(rc)) {
		f = file_add(s, &st);
		if (queue == READER_FIRST)
			s->first_ns = clock_monotonic_ns();
	}
	close(fd);
	if (!f && rc == -EAGAIN) /* not asked, or not waited for */
		return -ECANCELED;
	if (!f) /* late because of the file, which says nothing about the process */
		return rc == -ETIMEDOUT ? -ETIME : rc ? rc : -ENOMEM;
	if (rc == -EFBIG && s->n_refused++ < REFUSED_SAID_MAX)
		log_warn("pid %u: %s is not inspected: %s. Its calls stay invisible; ranktrace looks at it again when "
			 "the file is another one",
			 tgid, row->path, elf_error_text(rc));
	f->pub.error = rc;
	f->pub.facts = facts;
	if (!rc)
		filters_match(s, symbols, &f->pub);
	if (f->pub.tracers && !f->symbols) {
		f->symbols = malloc(s->n_names * sizeof(*symbols));
		if (!f->symbols)
			return -ENOMEM;
		memcpy(f->symbols, symbols, s->n_names * sizeof(*symbols));
	}
	*ret = f;
	return 0;
}

static bool is_candidate(const struct mapping *m)
{
	return (m->prot & MAPPING_EXEC) && m->inode && m->path[0] == '/' && strncmp(m->path, "/dev/", 5) &&
	       strncmp(m->path, "/SYSV", 5);
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static size_t pick_some(const struct target_set *s, const struct maps *maps, enum reader_queue queue, size_t n,
			const struct mapping *rows[ROWS_MAX])
{
	for (size_t i = 0; i < maps->n && n < ROWS_MAX; i++) {
		const struct mapping *m = &maps->rows[i];
		size_t k = n;

		if (!is_candidate(m) || queue_of(s, m->path) != queue)
			continue;
		while (k && !same_file(rows[k - 1], m))
			k--;
		if (!k)
			rows[n++] = m;
	}
	return n;
}

/* The first executable mapping of each file. A PyTorch process may map 300, and a host without free CPUs inspects a
 * few of them a second: those that are probably wanted come first. */
static size_t pick_rows(const struct target_set *s, const struct maps *maps, const struct mapping *rows[ROWS_MAX])
{
	size_t n = 0;

	for (enum reader_queue q = READER_FIRST; q < READER_QUEUES; q++)
		n = pick_some(s, maps, q, n, rows);
	return n;
}

static uint64_t load_bias(const struct elf_facts *facts, const struct mapping *m)
{
	for (uint32_t i = 0; i < facts->n_text; i++) {
		const struct elf_text *t = &facts->text[i];

		/* The kernel maps whole pages, so a mapping may begin a little before its segment. */
		if (m->offset < t->offset + t->size && m->offset + (m->end - m->start) > t->offset)
			return m->start - m->offset + t->offset - t->vaddr;
	}
	return 0;
}

static void note_unreadable(struct target_proc *p, const struct mapping *m, int rc)
{
	if (p->n_unreadable++)
		return;
	p->unreadable_error = rc;
	snprintf(p->unreadable, sizeof(p->unreadable), "%s", m->path);
}

static void add_lib(struct target_proc *p, struct file_row *f, const struct mapping *m)
{
	struct target_lib *lib = &p->libs[p->n_files++];

	f->n_users++;
	*lib = (struct target_lib){
		.file = &f->pub,
		.tracers = f->pub.tracers,
		.map_start = m->start,
		.map_end = m->end,
		.map_offset = m->offset,
		.bias = load_bias(&f->pub.facts, m),
		.dev_major = m->dev_major,
		.dev_minor = m->dev_minor,
		.ino = m->inode,
		.deleted = m->deleted,
		.path = m->path,
	};
	if (!f->pub.lists)
		return;
	struct target_lib first = *lib;

	*lib = p->libs[p->n_libs];
	p->libs[p->n_libs++] = first;
}

/* Errors that end the sample of this process; any other concerns one file. */
static bool is_final(int rc)
{
	return rc == -ETIMEDOUT || rc == -EBUSY || rc == -EINPROGRESS || rc == -EAGAIN || rc == -EPIPE ||
	       rc == -ENOMEM || rc == -ESRCH;
}

static int load_rows(struct target_set *s, struct proc_row *p, const struct mapping *const rows[], size_t n,
		     const struct lib_stat *st)
{
	int late = 0;

	p->retry_ns = 0;
	p->starved = false;
	for (size_t i = 0; i < n && late < (is_hurried(s, p) ? 1 : LATE_FILES_MAX); i++) {
		struct file_row *f = st[i].rc ? NULL : file_find(s, &st[i]);
		int rc = st[i].rc;

		if (!f && !rc)
			rc = file_inspect(s, p, rows[i], &f);
		if (is_final(rc))
			return rc;
		if ((rc == -ETIME || rc == -ECANCELED) && ++late)
			p->retry_ns = clock_monotonic_ns() + (rc == -ETIME ? LATE_RETRY_NS : UNASKED_RETRY_NS);
		p->starved |= rc == -ECANCELED;
		if (rc && rc != -EINVAL && rc != -ENOENT) /* not a regular file; unmapped meanwhile */
			note_unreadable(&p->pub, rows[i], rc);
		if (f && f->pub.error && f->pub.error != -ENOEXEC)
			note_unreadable(&p->pub, rows[i], f->pub.error);
		if (f)
			add_lib(&p->pub, f, rows[i]);
	}
	return 0;
}

struct libs { /* what a sample of the files of a process came to */
	struct target_lib *rows;
	size_t n_libs, n_files, n_unreadable;
	int unreadable_error;
	char unreadable[256];
};

static struct libs libs_take(struct target_proc *p)
{
	struct libs l = { p->libs, p->n_libs, p->n_files, p->n_unreadable, p->unreadable_error, "" };

	memcpy(l.unreadable, p->unreadable, sizeof(l.unreadable));
	p->libs = NULL;
	p->n_libs = p->n_files = p->n_unreadable = 0;
	p->unreadable_error = 0;
	p->unreadable[0] = '\0';
	return l;
}

static void libs_put(struct target_proc *p, const struct libs *l)
{
	p->libs = l->rows;
	p->n_libs = l->n_libs;
	p->n_files = l->n_files;
	p->n_unreadable = l->n_unreadable;
	p->unreadable_error = l->unreadable_error;
	memcpy(p->unreadable, l->unreadable, sizeof(l->unreadable));
}

static void libs_free(struct libs *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		((struct file_row *)l->rows[i].file)->n_users--;
	free(l->rows);
}

int lib_table_load(struct target_set *s, struct proc_row *p)
{
	const struct mapping *rows[ROWS_MAX];
	size_t n = pick_rows(s, &p->pub.maps, rows);
	struct lib_stat *st = calloc(n ? n : 1, sizeof(*st));
	struct libs before = libs_take(&p->pub);

	p->pub.libs = calloc(n ? n : 1, sizeof(*p->pub.libs));
	int rc = st && p->pub.libs ? lib_stat(s->reader, p->pub.tgid, rows, n, st) : -ENOMEM;

	if (!rc)
		rc = load_rows(s, p, rows, n, st);
	if (rc) {
		struct libs half = libs_take(&p->pub);

		libs_free(&half);
		libs_put(&p->pub, &before);
	} else {
		p->pub.opened = false;
		libs_free(&before);
	}
	free(st);
	return rc;
}

void lib_table_unload(struct target_set *s, struct proc_row *p)
{
	struct libs libs = libs_take(&p->pub);

	(void)s;
	libs_free(&libs);
}

void lib_table_keep(struct target_set *s, struct proc_row *p)
{
	for (size_t i = 0; i < p->pub.n_files && !p->pub.opened; i++) {
		struct target_lib *lib = &p->pub.libs[i];
		struct mapping m = {
			.start = lib->map_start,
			.end = lib->map_end,
			.inode = lib->ino,
			.dev_major = lib->dev_major,
			.dev_minor = lib->dev_minor,
			.deleted = lib->deleted,
			.path = lib->path,
		};
		struct lib_stat st;
		int fd = -1;

		if (lib->file->fd >= 0 || (s->n_open >= OPEN_MAX && !lib->tracers))
			continue;
		int rc = lib_open(s->reader, p->pub.tgid, &m, &st, &fd);

		if (rc == -EBUSY || rc == -ETIMEDOUT || rc == -EINPROGRESS || rc == -EAGAIN)
			return; /* again at the next scan */
		if (rc)
			continue;
		struct target_file now = { .dev = st.dev, .ino = st.ino, .size = st.size, .mtime_ns = st.mtime_ns };

		if (target_file_same(&now, lib->file) && ++s->n_open)
			lib->file->fd = fd;
		else
			close(fd);
	}
	p->pub.opened = true;
}

/* What the kernel knows: a file system that asks somebody else first may never answer. */
bool target_file_unchanged(const struct target_file *file)
{
	struct statx st;

	if (file->fd < 0 || statx(file->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MTIME, &st))
		return false;
	return st.stx_size == file->size &&
	       (uint64_t)st.stx_mtime.tv_sec * 1000000000ull + st.stx_mtime.tv_nsec == file->mtime_ns;
}

void target_set_file_changed(struct target_set *s, const struct target_file *file)
{
	for (struct proc_row *p = s->procs; p; p = p->hh.next)
		for (size_t i = 0; i < p->pub.n_files; i++)
			p->stale |= p->pub.libs[i].file == file;
}

const struct target_lib *target_proc_lib(const struct target_proc *p, const struct mapping *m)
{
	for (size_t i = 0; i < p->n_files; i++)
		if (p->libs[i].ino == m->inode && p->libs[i].dev_major == m->dev_major &&
		    p->libs[i].dev_minor == m->dev_minor)
			return &p->libs[i];
	return NULL;
}
