/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detach.c - links that are closed beside the loop: as long as those of a process are in place, it is said so,
 * because what is attached beside them sees each call twice. The close stands in for the kernel's, which takes long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/detach.h"

#define LIB 3
#define TOUCHED 4 /* the same file, touched: a number of its own */
#define OTHER 5

static sem_t may_end;
static bool may_close;

int bpf_link__destroy(struct bpf_link *link);
int bpf_link__destroy(struct bpf_link *link)
{
	(void)link;
	sem_wait(&may_end);
	return 0;
}

static bool may(void *to, uint32_t lib_id)
{
	(void)to;
	(void)lib_id;
	return may_close;
}

static bool is_same(const void *to, uint32_t a, uint32_t b)
{
	(void)to;
	return a == b || a + b == LIB + TOUCHED;
}

static const struct detach_of of = { .lib_id = LIB, .tgid = 100, .start_ns = 7 };

static void close_one(struct detacher *d)
{
	detacher_close(d, calloc(1, sizeof(struct bpf_link *)), 1, &of);
}

static void check_closes(struct detacher *d)
{
	struct detach_of touched = of, lib = of, process = of, reused = of;

	touched.lib_id = TOUCHED;
	lib.lib_id = OTHER;
	process.tgid++;
	reused.start_ns++;
	assert_true(detacher_closes(d, &of, is_same, NULL));
	assert_true(detacher_closes(d, &touched, is_same, NULL));
	assert_false(detacher_closes(d, &lib, is_same, NULL));
	assert_false(detacher_closes(d, &process, is_same, NULL));
	assert_false(detacher_closes(d, &reused, is_same, NULL)); /* links are a process', not a pid's */
	assert_true(detacher_holds(d, LIB));
	assert_false(detacher_holds(d, OTHER));
}

/* Waits, then is being closed: the links are in place in both. */
static void test_in_place_until_closed(void **state)
{
	struct detacher *d = detacher_new(may, NULL);

	(void)state;
	may_close = false;
	close_one(d);
	check_closes(d);
	assert_true(detacher_waits_on(d, LIB));
	may_close = true;
	detacher_poll(d);
	assert_false(detacher_waits_on(d, LIB)); /* other processes need not wait */
	check_closes(d);
	sem_post(&may_end);
	for (int i = 0; i < 5000 && detacher_closes(d, &of, is_same, NULL); i++)
		usleep(1000);
	assert_false(detacher_closes(d, &of, is_same, NULL));
	assert_false(detacher_holds(d, LIB));
	detacher_free(d);
}

/* An attach that failed at its first link has none. */
static void test_no_links(void **state)
{
	struct detacher *d = detacher_new(may, NULL);

	(void)state;
	may_close = true;
	detacher_close(d, NULL, 0, &of);
	assert_false(detacher_closes(d, &of, is_same, NULL));
	detacher_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_place_until_closed),
		cmocka_unit_test(test_no_links),
	};

	sem_init(&may_end, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
