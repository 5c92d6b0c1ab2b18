/* SPDX-License-Identifier: Apache-2.0
 *
 * check_ranks.c - what the training processes of this host map, and what of that can be seen. By the same scan as ps,
 * record and watch; a host without a job shows nothing here, which is no fault of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/checks.h"
#include "inspect/discover/discover.h"
#include "inspect/elf/elf_file.h"

static const char *no_ranks(const struct doctor_host *h)
{
	return h->reads_all ? "no training process runs now: ask again while one does"
			    : "no training process that may be read: those of other users are not seen";
}

struct found {
	size_t n_ranks, n_denied, n_with, n_without_dwarf;
	char path[256]; /* the first one's */
};

static bool is_rank(const struct target_proc *p)
{
	return !p->is_child && p->status != TARGET_GONE && (p->rank >= 0 || p->n_libs);
}

/* The last part of a path begins so. */
static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Processes that map a file whose name begins so, or that defines a symbol that is looked for (`tracer_name`). */
static struct found files_find(const struct doctor_host *h, const char *begins)
{
	struct found f = { 0 };
	size_t n = 0;
	const struct target_proc *const *list = h->set ? target_set_list(h->set, &n) : NULL;

	for (size_t i = 0; i < n; i++) {
		bool has = false, dwarf = true;

		if (!is_rank(list[i]))
			continue;
		f.n_ranks++;
		f.n_denied += list[i]->status == TARGET_DENIED;
		for (size_t k = 0; k < list[i]->n_files && !has; k++) {
			const struct target_lib *lib = &list[i]->libs[k];

			if (strncmp(base_of(lib->path), begins, strlen(begins)) != 0)
				continue;
			has = true;
			dwarf = lib->file && lib->file->facts.has_dwarf;
			if (!*f.path)
				snprintf(f.path, sizeof(f.path), "%s", lib->path);
		}
		f.n_with += has;
		f.n_without_dwarf += has && !dwarf;
	}
	return f;
}

void check_ranks(struct check *c, const struct doctor_host *h)
{
	struct found f = files_find(h, "");

	if (!h->set) {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause), "/proc could not be read");
		return;
	}
	if (f.n_ranks)
		snprintf(c->found, sizeof(c->found), "%zu", f.n_ranks);
	else
		snprintf(c->found, sizeof(c->found), "%s", no_ranks(h));
	if (!f.n_ranks && !h->reads_all) {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause), "of other users' processes nothing can be read");
		snprintf(c->remedy, sizeof(c->remedy), "run as root, or with CAP_SYS_PTRACE");
	} else if (f.n_denied) {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause), "%zu of them may not be read", f.n_denied);
		snprintf(c->remedy, sizeof(c->remedy), "run as root, or with CAP_SYS_PTRACE");
	}
}

/* True: it is there, and said so; else that it is not, or that no process could show it. */
static bool file_say(struct check *c, const struct doctor_host *h, const struct found *f, const char *what)
{
	if (!f->n_ranks) {
		snprintf(c->found, sizeof(c->found), "%s", no_ranks(h));
	} else if (f->n_with) {
		snprintf(c->found, sizeof(c->found), "%zu of %zu processes: %s", f->n_with, f->n_ranks, f->path);
		return true;
	} else {
		snprintf(c->found, sizeof(c->found), "no file of that name in %zu processes: %s", f->n_ranks, what);
	}
	return false;
}

void check_nccl(struct check *c, const struct doctor_host *h)
{
	struct found f = files_find(h, "libnccl");

	if (!file_say(c, h, &f,
		      "linked in statically, or not loaded yet ('ranktrace ps -v' has what would be probed)") ||
	    !f.n_without_dwarf)
		return;
	c->status = CHECK_LIMITED;
	snprintf(c->cause, sizeof(c->cause),
		 "without debug information (DWARF) in %zu of them: its counters are not found, so an autopsy, watch "
		 "and late attaches show less",
		 f.n_without_dwarf);
	snprintf(c->remedy, sizeof(c->remedy), "NCCL's own wheels have it; build without strip");
}

void check_cuda(struct check *c, const struct doctor_host *h)
{
	struct found f = files_find(h, "libcuda.so");

	file_say(c, h, &f, "not loaded yet");
}

void check_python(struct check *c, const struct doctor_host *h)
{
	struct found f = files_find(h, "libpython"), program;

	if (!f.n_with) {
		program = files_find(h, "python");
		f = program.n_with ? program : f;
	}
	file_say(c, h, &f, "stacks show native frames only");
}

void check_torch(struct check *c, const struct doctor_host *h)
{
	struct found f = files_find(h, "libtorch");

	file_say(c, h, &f, "another framework, or not loaded yet");
}
