/* SPDX-License-Identifier: Apache-2.0
 *
 * nats_files.c - questions, and files in pieces. A piece is the newest message of its subject, and is read by the
 * subject's name alone: so the server knows who may read whose, which a consumer's filter does not allow on 2.9.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bus/nats_private.h"

#define SEC INT64_C(1000000000)
#define KEPT_S 86400
#define FILES_BYTES (INT64_C(1) << 30) /* older ones go */
#define REPLICAS 3
#define PREFIX "ranktrace.file."
#define PIECE_SUBJECT_MAX (sizeof(PREFIX) + BUS_KEY_MAX)

int nats_files_make(struct nats_bus *b)
{
	const char *subjects[] = { PREFIX ">" };
	jsStreamConfig c;

	b->lib->jsStreamConfig_Init(&c);
	c.Name = NATS_FILES;
	c.Subjects = subjects;
	c.SubjectsLen = 1;
	c.Storage = js_FileStorage;
	c.Replicas = REPLICAS;
	c.MaxAge = KEPT_S * SEC;
	c.MaxBytes = FILES_BYTES;
	c.MaxMsgsPerSubject = 1;
	c.AllowDirect = true;
	return nats_stream_add(b, &c);
}

static int piece_subject(const char *key, char to[PIECE_SUBJECT_MAX])
{
	return snprintf(to, PIECE_SUBJECT_MAX, PREFIX "%s", key) < (int)PIECE_SUBJECT_MAX ? 0 : -EINVAL;
}

int nats_piece_put(struct bus *base, const char *key, const void *data, size_t len)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[PIECE_SUBJECT_MAX];
	jsErrCode code = 0;
	jsPubOptions o;
	natsStatus s;
	int err = piece_subject(key, subject);

	if (err || len > BUS_PIECE_MAX)
		return err ? err : -EMSGSIZE;
	if (b->lib->natsConnection_Status(b->connection) != NATS_CONN_STATUS_CONNECTED)
		return -ENOTCONN;
	b->lib->jsPubOptions_Init(&o);
	o.MaxWait = BUS_WAIT_MS;
	s = b->lib->js_Publish(NULL, b->js, subject, data, (int)len, &o, &code);
	return nats_errno(s, code);
}

int nats_piece_get(struct bus *base, const char *key, void *to, size_t size, size_t *ret_len)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[PIECE_SUBJECT_MAX];
	jsDirectGetMsgOptions o;
	natsMsg *msg = NULL;
	int err = piece_subject(key, subject);

	if (err)
		return err;
	b->lib->jsDirectGetMsgOptions_Init(&o);
	o.LastBySubject = subject;
	err = nats_errno(b->lib->js_DirectGetMsg(&msg, b->js, NATS_FILES, NULL, &o), 0);
	if (err)
		return err;
	*ret_len = (size_t)b->lib->natsMsg_GetDataLength(msg);
	if (*ret_len <= size)
		memcpy(to, b->lib->natsMsg_GetData(msg), *ret_len);
	else
		err = -EMSGSIZE;
	b->lib->natsMsg_Destroy(msg);
	return err;
}

/* --- questions --- */

/* The server's word on what it refuses comes behind: what was published is through when it has answered a ping. */
static int flushed(struct nats_bus *b, natsStatus s)
{
	const char *text = NULL;

	s = s ? s : b->lib->natsConnection_FlushTimeout(b->connection, BUS_WAIT_MS);
	if (!s && b->lib->natsConnection_GetLastError(b->connection, &text) && text && strcasestr(text, "permissions"))
		return -EACCES;
	return nats_errno(s, 0);
}

static int plain_follow(struct nats_bus *b, const char *subject, struct bus_cursor **ret)
{
	struct bus_cursor *c = calloc(1, sizeof(*c));
	natsStatus s;

	if (!c)
		return -ENOMEM;
	c->b = b;
	c->plain = true;
	c->heard_ns = clock_monotonic_ns();
	s = b->lib->natsConnection_SubscribeSync(&c->sub, b->connection, subject);
	if (s)
		free(c);
	else
		*ret = c;
	return nats_errno(s, 0);
}

int nats_ask(struct bus *base, const char *whose, const void *data, size_t len, struct bus_cursor **ret_answers)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[NATS_SUBJECT_MAX];
	natsInbox *inbox = NULL;
	natsStatus s;
	int err = 0;

	if (b->lib->natsConnection_Status(b->connection) != NATS_CONN_STATUS_CONNECTED)
		return -ENOTCONN;
	snprintf(subject, sizeof(subject), "ranktrace.ask.%s", whose);
	if (!ret_answers)
		return flushed(b, b->lib->natsConnection_Publish(b->connection, subject, data, (int)len));
	if (b->lib->natsInbox_Create(&inbox))
		return -ENOMEM;
	err = plain_follow(b, (const char *)inbox, ret_answers);
	if (!err) {
		s = b->lib->natsConnection_PublishRequest(b->connection, subject, (const char *)inbox, data, (int)len);
		err = flushed(b, s);
	}
	b->lib->natsInbox_Destroy(inbox);
	return err;
}

int nats_answer(struct bus *base, const char *reply, const void *data, size_t len)
{
	struct nats_bus *b = (struct nats_bus *)base;

	return nats_errno(b->lib->natsConnection_Publish(b->connection, reply, data, (int)len), 0);
}

int nats_listen(struct bus *base, struct bus_cursor **ret)
{
	return plain_follow((struct nats_bus *)base, "ranktrace.ask.*", ret);
}
