/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.c - see answers.h. One piece a turn, so that reports go out in between; the head last, as what has a head is
 * whole.
 */
#include "cluster/answers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

void answers_init(struct answers *a)
{
	memset(a, 0, sizeof(*a));
	for (int i = 0; i < ANSWERS_MAX; i++)
		a->all[i].fd = -1;
}

static void asked_end(struct asked *q)
{
	if (q->fd >= 0)
		close(q->fd);
	*q = (struct asked){ .fd = -1 };
}

void answers_free(struct answers *a, struct bus *b)
{
	for (int i = 0; i < ANSWERS_MAX; i++)
		asked_end(&a->all[i]);
	if (a->questions)
		b->class->cursor_free(a->questions);
}

/* --- questions --- */

static bool is_seen(const struct answers *a, const char *id)
{
	for (size_t i = 0; i < a->n_seen && i < ANSWERS_SEEN; i++)
		if (!strcmp(a->seen[i], id))
			return true;
	return false;
}

static struct asked *asked_free(struct answers *a)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (int i = 0; i < ANSWERS_MAX; i++) {
		if (a->all[i].number && now_ns - a->all[i].at_ns > ANSWER_LIMIT_NS)
			asked_end(&a->all[i]);
		if (!a->all[i].number)
			return &a->all[i];
	}
	return NULL;
}

static void question_take(struct answers *a, const struct bus_message *msg, const char *host_token, int fd)
{
	struct publisher_word w = { .kind = WORD_ASK };
	struct asked *q;
	struct ask ask;

	if (!ask_unpack(msg->token, msg->data, msg->len, &ask) || !ask_is_for(&ask, host_token) || is_seen(a, ask.id))
		return;
	q = asked_free(a);
	if (!q)
		return;
	w.ask = (struct agent_ask){ .number = a->n_asked + 1, .look = ask.kind == ASK_LOOK, .user = ask.user };
	memcpy(w.ask.job, ask.job, sizeof(w.ask.job));
	if (send(fd, &w, sizeof(w), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(w))
		return; /* it is asked again */
	*q = (struct asked){ .number = ++a->n_asked, .at_ns = clock_monotonic_ns(), .ask = ask, .fd = -1 };
	snprintf(q->reply, sizeof(q->reply), "%s", msg->reply ? msg->reply : "");
	memcpy(a->seen[a->n_seen++ % ANSWERS_SEEN], ask.id, sizeof(ask.id));
}

void answers_hear(struct answers *a, struct bus *b, const char *host_token, int fd)
{
	struct bus_message msg;
	int n = 1;

	if (!a->questions && b->class->listen && b->class->listen(b, &a->questions))
		return;
	while (a->questions && (n = b->class->fetch(a->questions, 0, &msg)) == 1)
		question_take(a, &msg, host_token, fd);
	if (n < 0) {
		b->class->cursor_free(a->questions);
		a->questions = NULL;
	}
}

/* --- files --- */

void answers_take(struct answers *a, const struct publisher_file *note, int file)
{
	struct asked *q = NULL;
	struct stat st;

	for (int i = 0; i < ANSWERS_MAX && !q; i++)
		q = a->all[i].number == note->number && note->number && !a->all[i].made ? &a->all[i] : NULL;
	if (q && file < 0 && !*note->error) { /* it has nothing to say */
		asked_end(q);
		return;
	}
	if (!q) {
		if (file >= 0)
			close(file);
		return;
	}
	q->fd = file;
	q->made = true;
	memcpy(q->head.host, note->host, sizeof(q->head.host));
	memcpy(q->head.error, note->error, sizeof(q->head.error));
	if (file < 0)
		return;
	if (fstat(file, &st) || st.st_size > (off_t)FILE_BYTES_MAX) {
		snprintf(q->head.error, sizeof(q->head.error), "its window is larger than %u MB", FILE_BYTES_MAX >> 20);
		return;
	}
	q->head.bytes = (uint64_t)st.st_size;
	q->head.pieces = (uint32_t)((st.st_size + BUS_PIECE_MAX - 1) / BUS_PIECE_MAX);
}

static int piece_put(struct asked *q, struct bus *b, const char *host_token)
{
	static char bytes[BUS_PIECE_MAX];
	char key[BUS_KEY_MAX];
	ssize_t n;

	if (q->sent == q->head.pieces) {
		file_key(key, q->ask.user, q->ask.id, host_token, 0);
		return b->class->piece_put(b, key, bytes, file_head_pack(&q->head, bytes));
	}
	n = pread(q->fd, bytes, sizeof(bytes), (off_t)q->sent * BUS_PIECE_MAX);
	if (n < 0)
		return -errno;
	file_key(key, q->ask.user, q->ask.id, host_token, q->sent + 1);
	return b->class->piece_put(b, key, bytes, (size_t)n);
}

/* What an account may not, or a server will not have, is not tried again. */
static bool is_final(int err)
{
	return err && err != -ENOTCONN && err != -ETIMEDOUT && err != -ENOENT;
}

bool answers_put(struct answers *a, struct bus *b, const char *host_token)
{
	struct asked *q = NULL;
	int err;

	for (int i = 0; i < ANSWERS_MAX && !q; i++)
		q = a->all[i].made ? &a->all[i] : NULL;
	if (!q)
		return false;
	err = piece_put(q, b, host_token);
	if (is_final(err) || clock_monotonic_ns() - q->at_ns > ANSWER_LIMIT_NS) {
		log_warn("what was asked for (%s) does not reach the bus: %s", q->ask.id,
			 err ? strerror(-err) : "it took too long");
		asked_end(q);
		return true;
	}
	if (err)
		return false;
	if (q->sent++ < q->head.pieces)
		return true;
	if (*q->reply)
		b->class->answer(b, q->reply, host_token, strlen(host_token));
	asked_end(q);
	return true;
}
