/* SPDX-License-Identifier: Apache-2.0
 *
 * checked.h - a timeline of the fixture's job in a folder of its own, read back by tools/check_pftrace.py. With
 * PFTRACE_OUT=dir the files stay there, for tests/perfetto/test_perfetto.sh.
 */
#ifndef RANKTRACE_PERFETTO_CHECKED_H
#define RANKTRACE_PERFETTO_CHECKED_H

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/perfetto/fixture.h"

static char dir[100];

static inline const char *path_of(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* Exit status of the check of one file; -1 when there is nothing to check with. */
static inline int check(const char *options, const char *path)
{
	char command[700];
	int status;

	if (getenv("PFTRACE_OUT") && !strstr(options, "--inflate"))
		return 0; /* test_perfetto.sh wants the files, and reads them itself */
	if (system("python3 -c '' >/dev/null 2>&1") || access("tools/check_pftrace.py", R_OK))
		return -1;
	snprintf(command, sizeof(command), "python3 tools/check_pftrace.py %s '%s'", options, path);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline void check_or_skip(const char *options, const char *path)
{
	int status = check(options, path);

	if (status < 0)
		skip();
	assert_int_equal(status, 0);
}

static inline void fixture_open(struct fixture *f, int n_ranks, const char *path)
{
	fixture_init(f, n_ranks);
	f->procs[0].container = "0123456789ab";
	f->procs[2].container = "0123456789ab";
	f->procs[2].pod = "6a1e5c3b-0f6d-4b7e-9d55-2f1d8a2c9e10";
	assert_int_equal(sink_perfetto.open(path, &f->sink), 0);
	fixture_start(f);
}

static inline size_t count_in_file(const char *path, const char *what)
{
	size_t n = 0, len = strlen(what), size;
	FILE *in = fopen(path, "r");
	char *all = malloc(1 << 22);

	assert_non_null(in);
	assert_non_null(all);
	size = fread(all, 1, 1 << 22, in);
	for (char *at = all; (at = memmem(at, size - (size_t)(at - all), what, len)); at += len)
		n++;
	fclose(in);
	free(all);
	return n;
}

static inline int make_dir(void **state)
{
	const char *keep = getenv("PFTRACE_OUT");

	(void)state;
	snprintf(dir, sizeof(dir), "%s", keep ? keep : "/tmp/pftrace.XXXXXX");
	return keep ? (mkdir(dir, 0755) && errno != EEXIST) : !mkdtemp(dir);
}

static inline int remove_dir(void **state)
{
	char command[300];

	(void)state;
	if (getenv("PFTRACE_OUT"))
		return 0;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

#endif
