/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ask.c - questions and the heads of files, to bytes and back; whose they are; what is none is refused, whatever
 * its bytes. And an answer: passed on once, in pieces, the head last, over a bus that is away for a while.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/answers.h"
#include "cluster/ask.h"

static struct ask question(void)
{
	struct ask a = { .kind = ASK_WINDOW, .user = ASK_ANY_USER, .n_hosts = 2 };

	strcpy(a.id, "hub-train-1");
	strcpy(a.job, "train");
	strcpy(a.hosts[0], "node-a");
	strcpy(a.hosts[1], "node-b");
	return a;
}

static void there_and_back(void **state)
{
	char bytes[ASK_BYTES_MAX], whose[ASK_WHOSE_MAX], key[BUS_KEY_MAX];
	struct ask a = question(), b;
	struct file_head h = { .host = "node a", .bytes = 300000, .pieces = 2 }, k;
	size_t len = ask_pack(&a, bytes);

	(void)state;
	assert_true(ask_unpack("u1000", bytes, len, &b));
	assert_int_equal(b.user, 1000);
	assert_true(b.kind == ASK_WINDOW && !strcmp(b.id, a.id) && !strcmp(b.job, "train") && b.n_hosts == 2);
	assert_true(ask_is_for(&b, "node-b") && !ask_is_for(&b, "node-c"));
	b.n_hosts = 0;
	assert_true(ask_is_for(&b, "node-c"));
	assert_true(file_head_unpack(bytes, file_head_pack(&h, bytes), &k));
	assert_true(!strcmp(k.host, "node a") && k.bytes == 300000 && k.pieces == 2 && !*k.error);
	ask_whose(ASK_ANY_USER, whose);
	assert_string_equal(whose, "all");
	file_key(key, 0, "a.b", "node-a", 3);
	assert_true(!strncmp(key, "u0.a_b_h", 8) && strstr(key, ".node-a.3"));
}

static void what_is_none_is_refused(void **state)
{
	static const char *const strangers[] = { "", "u", "u-1", "root", "u1x", "u99999999999", "All" };
	char bytes[ASK_BYTES_MAX], cut[ASK_BYTES_MAX];
	struct ask a = question(), b;
	size_t len = ask_pack(&a, bytes);

	(void)state;
	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
		assert_false(ask_unpack(strangers[i], bytes, len, &b));
	for (size_t i = 0; i < len; i++) /* and nothing is read behind its end */
		ask_unpack("all", memcpy(cut, bytes, i), i, &b);
	assert_false(ask_unpack("all", bytes, ASK_BYTES_MAX + 1, &b));
	*a.id = 0;
	assert_false(ask_unpack("all", bytes, ask_pack(&a, bytes), &b));
	a = question();
	a.kind = (enum ask_kind)9;
	assert_false(ask_unpack("all", bytes, ask_pack(&a, bytes), &b));
}

/* --- an answer --- */

struct bus_cursor {
	int unused;
};
static struct bus_cursor cursor;
static struct bus_message questions[4];
static int n_questions, n_fetched, fails;
static char put[512];

static int listen_(struct bus *b, struct bus_cursor **ret)
{
	(void)b;
	*ret = &cursor;
	return 0;
}

static int fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret)
{
	(void)c;
	(void)wait_ms;
	if (n_fetched == n_questions)
		return 0;
	*ret = questions[n_fetched++];
	return 1;
}

static int piece_put(struct bus *b, const char *key, const void *data, size_t len)
{
	(void)b;
	(void)data;
	if (fails)
		return fails--, -ETIMEDOUT;
	snprintf(put + strlen(put), sizeof(put) - strlen(put), "%s %zu;", strrchr(key, '.') + 1,
		 len < 1000 ? (size_t)0 : len);
	return 0;
}

static int answer(struct bus *b, const char *reply, const void *data, size_t len)
{
	(void)b;
	snprintf(put + strlen(put), sizeof(put) - strlen(put), "%s %.*s", reply, (int)len, (const char *)data);
	return 0;
}

static void free_(struct bus_cursor *c)
{
	(void)c;
}

static const struct bus_class class = {
	.listen = listen_, .fetch = fetch, .cursor_free = free_, .piece_put = piece_put, .answer = answer
};

static void an_answer_in_pieces(void **state)
{
	static struct answers answers;
	char bytes[ASK_BYTES_MAX];
	struct publisher_file note = { .number = 1, .host = "node-a" };
	struct bus bus = { &class };
	struct ask a = question();
	struct publisher_word w;
	int pair[2], file = memfd_create("test", 0);
	size_t len = ask_pack(&a, bytes);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(ftruncate(file, BUS_PIECE_MAX + 5000), 0);
	questions[0] = (struct bus_message){ .token = "u7", .data = bytes, .len = len, .reply = "inbox" };
	questions[1] = questions[0];
	questions[2] = (struct bus_message){ .token = "u7", .data = bytes, .len = 3 };
	n_questions = 3;
	answers_init(&answers);
	answers_hear(&answers, &bus, "node-a", pair[0]);
	assert_true(publisher_hear(pair[1], &w) && w.kind == WORD_ASK && w.ask.user == 7 && w.ask.number == 1);
	assert_false(publisher_hear(pair[1], &w)); /* the second is the same one, the third is none */
	assert_false(answers_put(&answers, &bus, "node-a"));
	answers_take(&answers, &note, file);
	fails = 1;
	assert_false(answers_put(&answers, &bus, "node-a"));
	while (answers_put(&answers, &bus, "node-a"))
		;
	assert_string_equal(put, "1 262144;2 5000;0 0;inbox node-a");
	answers_free(&answers, &bus);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(an_answer_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
