/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_file.h - a sink that writes to a file of its own, and a hang to write. Of one test program.
 */
#ifndef RANKTRACE_SINK_FILE_H
#define RANKTRACE_SINK_FILE_H

#include <unistd.h>

#include "tests/perfetto/fixture.h"

static char path[] = "/tmp/test_sink.XXXXXX";

static char *file_text(void)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
	fclose(f);
	return text;
}

static void fixture_open(struct fixture *f, const struct sink_class *class)
{
	fixture_init(f, 3);
	assert_int_equal(class->open(path, &f->sink), 0);
}

static struct incident hang_of(struct fixture *f)
{
	struct incident i = fixture_hang(f, 3, "node-a-9.3", f->m.now_ns, 2700000001);

	i.f.confidence = 0.9712345;
	i.f.subject = subject_rank(2, f->procs[2].key);
	finding_add_rank(&i.f, 2, f->procs[2].tgid);
	finding_note(&i.f, EVIDENCE_N_WAITING, 2);
	finding_note(&i.f, EVIDENCE_WAITING_S, 2.7);
	finding_note_text(&i.f, EVIDENCE_STACK, "clock_nanosleep\nmain \xff\xc3(\"\\\"\x01\x1b[31m)\n");
	return i;
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

#endif
