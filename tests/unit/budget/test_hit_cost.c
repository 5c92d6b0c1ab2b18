/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hit_cost.c - what a probe hit costs here: plausible, also the second time, with and without uprobe.multi, and
 * nothing of it is left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "attach/kernel.h"
#include "attach/loader.h"

static int record_ignore(void *to, const struct wire_hdr *rec)
{
	(void)to;
	(void)rec;
	return 0;
}

static struct loader *loader_here(uint32_t lacks)
{
	struct loader_cfg cfg = { .lacks = lacks,
				  .tier = TIER_TRACE,
				  .prices = true,
				  .emit = record_ignore,
				  .ring_bytes = { 1 << 16, 1 << 16, 1 << 16 } };
	struct loader *l = NULL;

	if (geteuid())
		skip();
	assert_int_equal(loader_open(&cfg, &l), 0);
	return l;
}

static int files_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static bool is_mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	bool found = false;

	while (fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

static void measure(uint32_t lacks)
{
	struct loader *l = loader_here(lacks);
	uint64_t begin_ns = clock_monotonic_ns(), took_ns;
	clock_t begin = clock(); /* time on a CPU: what it waits for one is the machine's */
	struct hit_prices first, again;
	int files;

	loader_prices(l, &first);
	took_ns = clock_monotonic_ns() - begin_ns;
	loader_prices(l, &again);
	files = files_open();
	print_message("push %.2f, landing %.2f, other %.2f, return %.2f us; measured in %.1f ms\n",
		      first.ns[HIT_PUSH] / 1e3, first.ns[HIT_LANDING] / 1e3, first.ns[HIT_OTHER] / 1e3,
		      first.ns[HIT_RETURN] / 1e3, took_ns / 1e6);
	assert_false(first.assumed || again.assumed);
	for (int i = 0; i < HIT_CLASSES; i++) {
		assert_in_range(first.ns[i], i == HIT_RETURN ? 1 : 100,
				1000000); /* a return costs what both do beyond the entry */
		assert_in_range(again.ns[i], i == HIT_RETURN ? 1 : 100,
				1000000); /* of the first it may be a multiple, on a busy machine */
	}
	/* The same kind of trap as an entry's: cheaper than a part of one it cannot be. */
	assert_true(first.ns[HIT_RETURN] >= first.ns[HIT_PUSH] / 4);
	assert_true(first.idle_ns && first.own_ns);
	assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
	assert_false(is_mapped("ranktrace-hit"));
	loader_detach(l); /* links are closed beside us */
	loader_free(l);
	assert_true(files_open() < files);
	l = loader_here(lacks);
	assert_int_equal(loader_probes(l), 0);
	loader_free(l);
}

static void one_process_probed(void **state)
{
	(void)state;
	measure(0);
}

static void every_process_probed(void **state)
{
	(void)state;
	measure(KERNEL_BIT(UPROBE_MULTI));
}

static void files_do_not_add_up(void **state)
{
	struct hit_prices p;
	struct loader *l;
	int before;

	(void)state;
	l = loader_here(0);
	loader_free(l);
	before = files_open();
	l = loader_here(0);
	loader_prices(l, &p);
	loader_free(l);
	assert_int_equal(files_open(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process_probed),
		cmocka_unit_test(every_process_probed),
		cmocka_unit_test(files_do_not_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
