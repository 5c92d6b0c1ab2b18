/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#include "top/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "top/draw.h"
#include "top/screen.h"

#define TURN_MS 250
#define MESSAGE_NS 8000000000ull /* then the keys are shown again */
#define ANSWER_NS 2000000000ull  /* no other message hides an answer for so long */
#define MESSAGES_MAX (64u << 10) /* the newest; older ones go by halves */

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void signals_take(void)
{
	static const int numbers[] = { SIGTERM, SIGHUP, SIGINT };
	struct sigaction on = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &on, NULL);
}

/* --- messages --- */

static void message_set(struct top_run *r, const char *text)
{
	size_t len = strcspn(text, "\n");

	len = len < sizeof(r->message) ? len : sizeof(r->message) - 1;
	memcpy(r->message, text, len);
	r->message[len] = 0;
	r->message_ns = clock_monotonic_ns();
}

/* What became of a key stays for a while: findings and tiers that come then would hide it at once. */
static void say(struct top_run *r, const char *text)
{
	message_set(r, text);
	r->answered_ns = r->message_ns;
}

/* Its newest line that begins something: what is indented belongs to that. */
static void newest_say(struct top_run *r, const char *text, size_t len)
{
	static const char own[] = "ranktrace: ";
	const char *found = NULL, *answer = NULL;

	for (const char *at = text; at < text + len; at = strchrnul(at, '\n') + 1) {
		if (*at && *at != ' ' && *at != '\n')
			found = at;
		if (r->asked && !answer && !strncmp(at, own, sizeof(own) - 1))
			answer = at;
	}
	if (answer) {
		r->asked = false;
		say(r, answer + sizeof(own) - 1);
	} else if (found && clock_monotonic_ns() - r->answered_ns > ANSWER_NS) {
		message_set(r, strncmp(found, own, sizeof(own) - 1) ? found : found + sizeof(own) - 1);
	}
}

static void messages_add(struct top_run *r, const char *text, size_t len)
{
	if (!r->messages || len > MESSAGES_MAX / 2)
		return;
	if (r->messages_len + len > MESSAGES_MAX) {
		size_t half = r->messages_len / 2;
		const char *from = strchrnul(r->messages + half, '\n');

		r->messages_len -= (size_t)(from - r->messages);
		memmove(r->messages, from, r->messages_len);
	}
	memcpy(r->messages + r->messages_len, text, len);
	r->messages_len += len;
	r->messages[r->messages_len] = 0;
	newest_say(r, text, len);
}

void top_messages_take(struct top_run *r)
{
	char text[4096];
	ssize_t n;

	while (r->child && (n = read(r->child->log_fd, text, sizeof(text) - 1)) > 0) {
		text[n] = 0;
		utf8_tame(text, "\n");
		messages_add(r, text, (size_t)n);
	}
}

/* --- what keys ask for --- */

static void ask(struct top_run *r, enum session_wish wish)
{
	const struct top_row *row = keyed_find(&r->table.rows, r->view.proc, (uint64_t)(int64_t)r->view.rank);

	if (r->refusals[wish]) {
		say(r, r->refusals[wish]);
		return;
	}
	if (wish != SESSION_DUMP && !row) {
		say(r, "select a rank first");
		return;
	}
	r->asked = !top_live_ask(r->child, wish, wish == SESSION_DUMP ? 0 : row->proc->tgid);
	if (!r->asked)
		say(r, "the session has ended");
	else if (wish == SESSION_STACKS)
		say(r, "its stack is being read");
}

static void acknowledge(struct top_run *r)
{
	char answer[256] = "select a finding first, or a rank that one names";

	if (*r->view.incident)
		r->acknowledge(r->acknowledge_of, r->view.incident, answer, sizeof(answer));
	r->asked |= !*answer;
	say(r, answer);
}

static void play(struct top_run *r)
{
	if (!r->source.seekable) {
		r->held = !r->held;
		say(r, r->held ? "held: Space goes on" : "goes on");
		return;
	}
	r->source.playing = !r->source.playing;
	r->played_ns = clock_monotonic_ns();
}

/* 1: the user leaves. 0 or -errno. */
static int want_do(struct top_run *r, enum top_want want)
{
	switch (want) {
	case TOP_WANT_QUIT: return 1;
	case TOP_WANT_SEEK: r->view.seeks = false; return top_feed_seek(r->file, r->view.seek_ns);
	case TOP_WANT_PLAY: play(r); return 0;
	case TOP_WANT_RAISE: ask(r, SESSION_RAISE); return 0;
	case TOP_WANT_STACKS:
		if (!r->refusals[SESSION_STACKS])
			ask(r, SESSION_STACKS);
		return 0;
	case TOP_WANT_DUMP: ask(r, SESSION_DUMP); return 0;
	case TOP_WANT_ACKNOWLEDGE: acknowledge(r); return 0;
	default: return 0;
	}
}

/* --- turns --- */

static int table_renew(struct top_run *r)
{
	const struct top_part *parts;
	size_t n = r->origin.parts(r->origin.of, &parts);

	return top_table_make(&r->table, parts, n);
}

/* Several seeks that wait are one: the last says where to. */
static int keys_take(struct top_run *r, bool *ret_some)
{
	enum top_want seek = TOP_WANT_NOTHING, want;
	int key, err = 0;

	while (!err && (key = screen_key()) != SCREEN_NO_KEY) {
		*ret_some = true;
		if (key == SCREEN_RESIZED)
			screen_spoilt();
		if (key <= 0)
			continue;
		want = top_view_key(&r->view, key, &r->table, &r->source);
		if (want == TOP_WANT_SEEK) {
			seek = want;
			continue;
		}
		err = want_do(r, want);
		top_settle(&r->view, &r->table, &r->source, r->rows, r->cols); /* what the next key is about */
	}
	return !err && seek == TOP_WANT_SEEK ? want_do(r, seek) : err;
}

/* Records may lie further apart than turns: what was played counts, not the newest record's time. */
static int play_on(struct top_run *r)
{
	uint64_t now_ns = clock_monotonic_ns(), at_ns;
	int err;

	if (!r->source.playing)
		return 0;
	at_ns = pipeline_model(r->file->p)->now_ns;
	if (at_ns != r->play_shown_ns) /* it began, or the user went elsewhere meanwhile */
		r->play_at_ns = at_ns;
	r->play_at_ns += now_ns - r->played_ns;
	r->played_ns = now_ns;
	err = top_feed_seek(r->file, r->play_at_ns);
	r->play_shown_ns = pipeline_model(r->file->p)->now_ns;
	if (r->play_at_ns >= r->source.end_ns)
		r->source.playing = false;
	return err;
}

static bool is_over(const struct top_run *r)
{
	return r->stream_fd >= 0 && r->origin.is_over(r->origin.of);
}

static void source_renew(struct top_run *r)
{
	if (r->message_ns && clock_monotonic_ns() - r->message_ns > MESSAGE_NS) {
		*r->message = 0;
		r->message_ns = 0;
	}
	r->source.message = r->message;
	r->source.messages = r->messages ? r->messages : "";
	r->source.ended = is_over(r);
}

static int draw(struct top_run *r, struct canvas *c)
{
	int err;

	screen_size(&r->rows, &r->cols);
	err = canvas_begin(c, r->rows, r->cols);
	if (err)
		return err;
	source_renew(r);
	top_draw(c, &r->view, &r->table, &r->source);
	screen_show(c);
	return 0;
}

/* What comes within that time, or is there. *ret_key: a key was pressed. 1: the terminal is gone. 0 or -errno. */
static int wait_take(struct top_run *r, int wait_ms, bool *ret_key)
{
	bool waits = r->held || is_over(r);
	struct pollfd fds[] = { { .fd = screen_fd(), .events = POLLIN },
				{ .fd = r->child && !r->silent ? r->child->log_fd : -1, .events = POLLIN },
				{ .fd = waits ? -1 : r->stream_fd, .events = POLLIN } };

	if (poll(fds, 3, wait_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[1].revents)
		top_messages_take(r);
	r->silent |= fds[1].revents == POLLHUP;
	*ret_key = fds[0].revents & POLLIN;
	if (fds[0].revents & (POLLHUP | POLLERR))
		return 1;
	return fds[2].revents ? r->origin.take(r->origin.of) : 0;
}

/* For a while, or until there is a key: what comes is not drawn more often than it can be read. */
static int gather(struct top_run *r, uint64_t until_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool key = false;
	int err;

	do {
		err = wait_take(r, now_ns < until_ns ? (int)((until_ns - now_ns) / 1000000) + 1 : 0, &key);
		now_ns = clock_monotonic_ns();
	} while (!err && !key && !stop && now_ns < until_ns);
	return err;
}

/* Keys are about what is drawn; so something is taken only behind them, where the table is made again: its rows point
 * into the model. */
static int turn(struct top_run *r)
{
	bool keys = false;
	int err = keys_take(r, &keys);

	if (!err)
		err = gather(r, clock_monotonic_ns() + (keys ? 0 : TURN_MS * 1000000ull));
	if (!err)
		err = play_on(r);
	return err ? err : table_renew(r);
}

static int own_make(struct top_run *r)
{
	top_view_init(&r->view);
	r->messages = calloc(1, MESSAGES_MAX + 1);
	return r->messages ? table_renew(r) : -ENOMEM;
}

int top_run(struct top_run *r)
{
	struct canvas c = { 0 };
	int err = own_make(r);

	signals_take();
	while (!err && !stop) {
		err = draw(r, &c);
		err = err ? err : turn(r);
	}
	canvas_free(&c);
	return err < 0 ? err : 0;
}

int top_print(struct top_run *r, int cols)
{
	struct canvas c = { 0 };
	char line[CANVAS_COLS_MAX + 1];
	int err = own_make(r);

	r->view.grouping_set = true;
	err = err ? err : canvas_begin(&c, (int)r->table.n + 8, cols);
	if (err)
		return err;
	source_renew(r);
	top_draw(&c, &r->view, &r->table, &r->source);
	for (int i = 0; i + 1 < c.rows; i++) {
		canvas_line(&c, i, line);
		if (*line || i < 4)
			printf("%s\n", line);
	}
	canvas_free(&c);
	return 0;
}

void top_run_free(struct top_run *r)
{
	top_table_free(&r->table);
	top_view_free(&r->view);
	free(r->messages);
	r->messages = NULL;
}
