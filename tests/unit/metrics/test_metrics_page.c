/* SPDX-License-Identifier: Apache-2.0
 *
 * test_metrics_page.c - samples of metrics as text: labels escaped and cut, series bounded; shared memory that one side
 * writes; both formats; addresses to listen on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <libdeflate.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>

#include "metrics/format.h"
#include "metrics/server.h"

static struct page page;

static const char *text_of(enum metric_id id)
{
	static char text[65536];

	assert_true(page.of[id].len < sizeof(text));
	memcpy(text, page.of[id].text, page.of[id].len);
	text[page.of[id].len] = 0;
	return text;
}

static void values_are_written(void **state)
{
	(void)state;
	page_clear(&page);
	page_put(&page, METRIC_PROCESSES, 8);
	page_put(&page, METRIC_STEP_SECONDS, 0.125, "job-1", "3");
	page_put(&page, METRIC_STEP_SECONDS, NAN, "job-1", "4");
	page_put(&page, METRIC_IO, 9007199254740991.0 / 2, "job-1", "3");
	page_put(&page, METRIC_START, 1795539970.123, NULL);
	assert_string_equal(text_of(METRIC_PROCESSES), "ranktrace_processes 8\n");
	assert_string_equal(text_of(METRIC_STEP_SECONDS),
			    "ranktrace_step_seconds{train_job=\"job-1\",rank=\"3\"} 0.125\n");
	assert_string_equal(text_of(METRIC_START), "ranktrace_start_timestamp_seconds 1795539970.123\n");
}

/* What a target calls itself ends no label and no line, and makes none long. */
static void labels_are_foreign(void **state)
{
	char name[4096], *end;

	(void)state;
	page_clear(&page);
	page_put(&page, METRIC_JOB_RANKS, 1, "a\"} 1\nx{b=\"\\");
	assert_string_equal(text_of(METRIC_JOB_RANKS),
			    "ranktrace_job_ranks{train_job=\"a\\\"} 1\\nx{b=\\\"\\\\\"} 1\n");
	memset(name, '"', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	page_clear(&page);
	page_put(&page, METRIC_FINDING_AGE, 1, name, name, name, name, name, name, name, name);
	end = strrchr(text_of(METRIC_FINDING_AGE), '}');
	assert_string_equal(end, "} 1\n");
	assert_true(strlen(text_of(METRIC_FINDING_AGE)) < 8 * (2 * PAGE_LABEL_MAX + 20) + 64);
}

static void series_are_bounded(void **state)
{
	size_t most = metric_of(METRIC_JOB_RANKS)->series_max;
	char name[24];

	(void)state;
	page_clear(&page);
	for (size_t i = 0; i < most + 5; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		page_put(&page, METRIC_JOB_RANKS, 1, name);
	}
	assert_int_equal(page.of[METRIC_JOB_RANKS].n, most);
	assert_int_equal(page.left_out, 5);
}

/* Buckets are sums of those below; what has no room for all its samples has none. */
static void histograms_are_whole(void **state)
{
	struct histogram h = { .sum_ns = 0 };
	const char *text;
	size_t most = metric_of(METRIC_LATENESS)->series_max / HISTOGRAM_SERIES;
	char rank[24];

	(void)state;
	histogram_add(&h, 1000000); /* a bound is its bucket's */
	histogram_add(&h, 1000001);
	histogram_add(&h, 20000000000);
	page_clear(&page);
	for (size_t i = 0; i <= most; i++) {
		snprintf(rank, sizeof(rank), "%zu", i);
		page_put_histogram(&page, METRIC_LATENESS, &h, "j", rank);
	}
	text = page.of[METRIC_LATENESS].text;
	assert_non_null(strstr(text, "_bucket{train_job=\"j\",rank=\"0\",le=\"0.0003\"} 0\n"));
	assert_non_null(strstr(text, "_bucket{train_job=\"j\",rank=\"0\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(text, "_bucket{train_job=\"j\",rank=\"0\",le=\"0.003\"} 2\n"));
	assert_non_null(strstr(text, "_bucket{train_job=\"j\",rank=\"0\",le=\"10.0\"} 2\n"));
	assert_non_null(strstr(text, "_bucket{train_job=\"j\",rank=\"0\",le=\"+Inf\"} 3\n"
				     "ranktrace_entry_lateness_seconds_sum{train_job=\"j\",rank=\"0\"} 20.002000001\n"
				     "ranktrace_entry_lateness_seconds_count{train_job=\"j\",rank=\"0\"} 3\n"));
	assert_int_equal(page.of[METRIC_LATENESS].n, most * HISTOGRAM_SERIES);
	assert_int_equal(page.left_out, HISTOGRAM_SERIES);
	page_clear(&page);
	page.of[METRIC_LATENESS].n = most * HISTOGRAM_SERIES - 1; /* room for one sample more */
	page_put_histogram(&page, METRIC_LATENESS, &h, "j", "0");
	assert_int_equal(page.of[METRIC_LATENESS].len, 0);
	assert_int_equal(page.of[METRIC_LATENESS].n, most * HISTOGRAM_SERIES - 1);
}

static void page_fill(void)
{
	page_clear(&page);
	page_put(&page, METRIC_STEPS, 5, "j", "0");
	page_put(&page, METRIC_STEP_SECONDS, 0.5, "j", "0");
	page_put(&page, METRIC_TIER, 1, "watch", "1");
}

static void formats_differ_in_heads(void **state)
{
	static struct shared_page shared;
	struct share *s;
	char *text;
	size_t len;
	int fd;

	(void)state;
	page_fill();
	assert_int_equal(share_new(&s, &fd), 0);
	assert_int_equal(share_copy(s, &shared), 0);
	assert_int_equal(share_publish(s, &page, 77), 0);
	assert_int_equal(share_copy(s, &shared), 1);
	assert_int_equal(shared.made_ns, 77);
	text = format_page(&shared, FORMAT_OPENMETRICS, &len);
	assert_int_equal(strlen(text), len);
	assert_non_null(strstr(text, "# TYPE ranktrace_steps counter\nranktrace_steps_total{"));
	assert_non_null(strstr(text, "# UNIT ranktrace_step_seconds seconds\n"));
	assert_non_null(strstr(text, "# TYPE ranktrace_tier info\nranktrace_tier_info{"));
	assert_string_equal(text + len - 6, "# EOF\n");
	assert_null(strstr(text, "ranktrace_gpu"));
	free(text);
	text = format_page(&shared, FORMAT_TEXT, &len);
	assert_non_null(strstr(text, "# TYPE ranktrace_steps_total counter\nranktrace_steps_total{"));
	assert_non_null(strstr(text, "# TYPE ranktrace_tier_info gauge\n"));
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
	free(text);
	assert_int_equal(format_wanted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
			 FORMAT_OPENMETRICS);
	assert_int_equal(format_wanted("text/plain"), FORMAT_TEXT);
	assert_int_equal(format_wanted(NULL), FORMAT_TEXT);
	share_free(s);
	close(fd);
}

/* Who serves may be taken over by a client, and still writes nothing that the collector has. */
static void gzip_is_for_who_takes_it(void **state)
{
	static const char *const takes[] = { "gzip",
					     "gzip, deflate, br",
					     "br;q=1.0, gzip;q=0.8, *;q=0.1",
					     "GZIP",
					     "x-gzip",
					     "*",
					     "identity, *;q=0.5",
					     "*;q=0, gzip",
					     " gzip ;q=1" };
	static const char *const not [] = { "",      "identity", "deflate, br", "gzip;q=0", "gzip; q=0.000, *",
					    "*;q=0", "gzipped",  "br;x=gzip",   ",,,",      ";q=" };

	(void)state;
	assert_false(format_takes_gzip(NULL));
	for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++)
		if (!format_takes_gzip(takes[i]))
			fail_msg("'%s' takes gzip", takes[i]);
	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
		if (format_takes_gzip(not [i]))
			fail_msg("'%s' does not take gzip", not [i]);
}

static void gzip_is_the_same_text(void **state)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	static char text[100000], back[sizeof(text)];
	size_t len, got = 0;
	char *packed;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "ranktrace_step_seconds{rank=\"7\"} 0.2\n"[i % 37];
	packed = format_gzip(text, sizeof(text), &len);
	assert_non_null(packed);
	assert_in_range(len, 1, sizeof(text) / 10);
	assert_int_equal(libdeflate_gzip_decompress(d, packed, len, back, sizeof(back), &got), LIBDEFLATE_SUCCESS);
	assert_int_equal(got, sizeof(text));
	assert_memory_equal(text, back, sizeof(text));
	free(packed);
	libdeflate_free_decompressor(d);
}

static void readers_cannot_write(void **state)
{
	struct share *s;
	int fd;

	(void)state;
	page_fill();
	assert_int_equal(share_new(&s, &fd), 0);
	share_publish(s, &page, 1);
	assert_true(mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	assert_true(ftruncate(fd, 0) < 0);
	assert_true(write(fd, "x", 1) < 0);
	assert_int_equal(share_turn(share_map(fd)), 1);
	share_free(s);
	close(fd);
}

static struct sockaddr_storage at;
static char error[256];

static int address(const char *text)
{
	socklen_t len;

	return server_address(text, &at, &len, error, sizeof(error));
}

static void addresses_are_numbers(void **state)
{
	static const char *const bad[] = {
		"",        "x",        "70000",     "-1",     "localhost:80",        "1.2.3:80",
		"[::1:80", "1.2.3.4:", "1.2.3.4:x", "::1 80", "99999999999999999999"
	};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at;

	(void)state;
	assert_int_equal(address("9978"), 0);
	assert_int_equal(v4->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(v4->sin_port, htons(9978));
	assert_int_equal(address("0.0.0.0:80"), 0);
	assert_int_equal(v4->sin_addr.s_addr, 0);
	assert_int_equal(address("[::1]:81"), 0);
	assert_int_equal(v6->sin6_family, AF_INET6);
	assert_int_equal(v6->sin6_port, htons(81));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(address(bad[i]), -EINVAL);
		assert_non_null(strstr(error, "is no address to listen on; give PORT"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_written),    cmocka_unit_test(labels_are_foreign),
		cmocka_unit_test(series_are_bounded),    cmocka_unit_test(formats_differ_in_heads),
		cmocka_unit_test(readers_cannot_write),  cmocka_unit_test(addresses_are_numbers),
		cmocka_unit_test(histograms_are_whole),  cmocka_unit_test(gzip_is_for_who_takes_it),
		cmocka_unit_test(gzip_is_the_same_text),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	page_free(&page);
	return failed;
}
