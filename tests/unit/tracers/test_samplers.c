/* SPDX-License-Identifier: Apache-2.0
 *
 * test_samplers.c - the table of sources: every line says who it is, a sampler when it runs and what to do about a
 * failure; what runs belongs to the tier, and a failing one stops nobody.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "source.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"

static void test_every_line_is_whole(void **state)
{
	size_t n = 0;

	(void)state;
	for (const struct source *s = sources_all; s->name; s++, n++) {
		const struct sampler *sampler = s->live->sampler;
		const struct tracer *tracer = s->live->tracer;

		assert_true(*s->name && *s->help && s->records->name);
		if (tracer) {
			assert_string_equal(tracer->name, s->name);
			assert_non_null(tracer->object);
		}
		if (sampler) {
			assert_true(sampler->open && sampler->sample && sampler->close && sampler->remedy);
			assert_true(sampler->tiers & SAMPLER_ALWAYS);
			assert_in_range(sampler->period_ns, 10000000ull, 60000000000ull);
		}
		for (const struct source *other = sources_all; other < s; other++)
			assert_string_not_equal(s->name, other->name);
	}
	assert_true(n > 10);
	n = 0;
	for (const struct source *s = NULL; (s = source_next_sampler(s)); n++)
		assert_non_null(s->live->sampler);
	assert_int_equal(n, 7);
}

static int none_traced_emits(void *to, const struct wire_hdr *rec)
{
	(void)rec;
	++*(int *)to;
	return 0;
}

static bool nobody(const void *of, const struct target_proc *p)
{
	(void)of;
	(void)p;
	return false;
}

/* comms_sampler and its like look at traced processes only: with nobody traced, no communicator is reported. */
static void test_nobody_traced(void **state)
{
	struct reader *r = NULL;
	struct target_set *set = NULL;
	struct samplers *s = NULL;
	int emitted = 0;

	(void)state;
	log_quiet = true;
	assert_int_equal(reader_open(&r), 0);
	assert_int_equal(target_set_new(r, NULL, 0, &set), 0);
	for (int probes = 0; probes < 2; probes++) {
		struct sampler_ctx ctx = { .reader = r,
					   .targets = set,
					   .is_traced = nobody,
					   .emit = none_traced_emits,
					   .emit_to = &emitted,
					   .dstate_limit_ns = 5000000000ull,
					   .probes = probes };

		assert_int_equal(samplers_open(&ctx, &s), 0);
		for (uint64_t now = 1; now < 5000000000ull; now += 250000000ull)
			assert_int_equal(samplers_run(s, now, UINT64_MAX), 0);
		samplers_free(s);
	}
	samplers_free(NULL);
	target_set_free(set);
	reader_free(r);
}

/* A file of a port that answers nobody: a pipe without a writer. Its reader cannot be ended, only left behind. */
static char root[] = "/tmp/ranktrace-stuck-XXXXXX", port[128], file[192];

/* What a thread that does not come back uses stays: no leak, where one is looked for. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:ports_open\nleak:port_tree_scan\n";
}

static void fake_port(void)
{
	char path[160];

	if (*port) /* made by an earlier test */
		return;
	assert_non_null(mkdtemp(root));
	snprintf(port, sizeof(port), "%s/class/infiniband/mlx5_0/ports/1", root);
	snprintf(path, sizeof(path), "mkdir -p %s/counters", port);
	assert_int_equal(system(path), 0);
	snprintf(file, sizeof(file), "%s/state", port);
	assert_int_equal(mkfifo(file, 0600), 0);
	setenv("RANKTRACE_SYSFS", root, 1);
}

static int n_threads(void)
{
	struct dirent *d;
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	while ((d = readdir(dir)))
		n += *d->d_name != '.';
	closedir(dir);
	return n;
}

static int rounds(struct samplers *s, int n, uint64_t *now_ns)
{
	int most = 0, now;

	for (int i = 0; i < n; i++, *now_ns += 1000000000ull) {
		assert_int_equal(samplers_run(s, *now_ns, UINT64_MAX), 0);
		usleep(15000);
		now = n_threads();
		most = now > most ? now : most;
	}
	return most;
}

/* The ports' sampler renews its thread, which is stuck, when it has its turn: of calls whose time is up at once that of
 * its place in the table. */
static void test_what_waited_has_the_next_turn(void **state)
{
	struct sampler_ctx ctx = { .is_traced = nobody, .emit = none_traced_emits, .thread_limit_ns = 1 };
	const struct source *s = NULL;
	struct samplers *samplers = NULL;
	int emitted = 0, before;

	(void)state;
	fake_port();
	ctx.emit_to = &emitted;
	assert_int_equal(reader_open(&ctx.reader), 0);
	assert_int_equal(target_set_new(ctx.reader, NULL, 0, &ctx.targets), 0);
	assert_int_equal(samplers_open(&ctx, &samplers), 0);
	assert_int_equal(samplers_run(samplers, 1, UINT64_MAX), 0);
	usleep(300000); /* on a busy host its thread takes a while to get stuck: before that it ends when it is renewed
			 */
	before = n_threads();
	while (strcmp((s = source_next_sampler(s))->name, "ports")) {
		if (s->live->sampler->tiers & SAMPLER_WATCH)
			assert_int_equal(samplers_run(samplers, 100000000000ull, 1), 0);
		assert_int_equal(n_threads(), before);
	}
	assert_int_equal(samplers_run(samplers, 100000000000ull, 1), 0);
	assert_int_equal(n_threads(), before + 1);
	samplers_free(samplers);
	target_set_free(ctx.targets);
	reader_free(ctx.reader);
}

/* A thread that is stuck is left behind and a new one takes its place, four times; then the sampler is off, and the
 * others go on. */
static void test_stuck_thread_is_replaced(void **state)
{
	struct sampler_ctx ctx = { .is_traced = nobody, .emit = none_traced_emits, .thread_limit_ns = 40000000 };
	struct samplers *s = NULL;
	int emitted = 0, before, most, fd;
	uint64_t now_ns = 1;

	(void)state;
	fake_port();
	ctx.emit_to = &emitted;
	assert_int_equal(reader_open(&ctx.reader), 0);
	assert_int_equal(target_set_new(ctx.reader, NULL, 0, &ctx.targets), 0);
	assert_int_equal(samplers_open(&ctx, &s), 0);
	before = n_threads();
	most = rounds(s, 10, &now_ns);
	assert_true(most > before);
	most = rounds(s, 60, &now_ns);
	assert_true(most <= before + 4);
	assert_true(rounds(s, 10, &now_ns) == most);
	fd = open(file, O_RDWR | O_NONBLOCK); /* they come back, and find that nobody waits for them */
	assert_true(fd >= 0 && write(fd, "4: ACTIVE\n", 10) == 10);
	close(fd);
	samplers_free(s);
	target_set_free(ctx.targets);
	reader_free(ctx.reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_line_is_whole),
		cmocka_unit_test(test_nobody_traced),
		cmocka_unit_test(test_what_waited_has_the_next_turn),
		cmocka_unit_test(test_stuck_thread_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
