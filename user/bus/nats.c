/* SPDX-License-Identifier: Apache-2.0
 *
 * nats.c - the bus on NATS JetStream, through libnats 3.4 and any server from 2.9 on. The connection is the library's
 * to keep: it comes back by itself, and until then each call fails at once. Nothing is buffered there: what was not
 * acknowledged by the server is the caller's still.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bus.h"
#include "bus/nats_private.h"

#define RECONNECT_MS 500
#define PING_MS 5000 /* a server that does not answer is given up after twice that */
#define NO_BUFFER 1  /* bytes; 0 is the library's default of 8 MB */

int nats_errno(natsStatus s, jsErrCode code)
{
	if (s == NATS_OK)
		return 0;
	if (code == JSStreamWrongLastSequenceErr)
		return -ESTALE;
	if (code == JSStreamNotFoundErr || s == NATS_NO_RESPONDERS)
		return -ENOENT;
	switch (s) {
	case NATS_TIMEOUT: return -ETIMEDOUT;
	case NATS_NOT_FOUND: return -ENOENT;
	case NATS_NO_MEMORY: return -ENOMEM;
	case NATS_NOT_PERMITTED:
	case NATS_CONNECTION_AUTH_FAILED: return -EACCES;
	case NATS_MAX_PAYLOAD: return -EMSGSIZE;
	case NATS_INVALID_ARG: return -EINVAL;
	case NATS_ERR: return code ? -EPROTO : -ENOTCONN;
	default: return -ENOTCONN;
	}
}

/* --- reports --- */

static int publish(struct bus *base, const char *token, const void *data, size_t len, const char *id)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[NATS_SUBJECT_MAX];
	jsErrCode code = 0;
	jsPubOptions o;
	natsStatus s;

	if (b->lib->natsConnection_Status(b->connection) != NATS_CONN_STATUS_CONNECTED)
		return -ENOTCONN;
	nats_subject(BUS_REPORTS, token, subject);
	b->lib->jsPubOptions_Init(&o);
	o.MsgId = id;
	o.MaxWait = BUS_WAIT_MS;
	s = b->lib->js_Publish(NULL, b->js, subject, data, len, &o, &code);
	return nats_errno(s, code);
}

/* --- incidents --- */

static int last(struct bus *base, const char *token, uint64_t *ret_seq)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[NATS_SUBJECT_MAX];
	natsMsg *msg = NULL;
	jsErrCode code = 0;
	natsStatus s;

	nats_subject(BUS_INCIDENTS, token, subject);
	s = b->lib->js_GetLastMsg(&msg, b->js, NATS_INCIDENTS, subject, NULL, &code);
	*ret_seq = s ? BUS_NO_REVISION : b->lib->natsMsg_GetSequence(msg);
	b->lib->natsMsg_Destroy(msg);
	return s == NATS_NOT_FOUND || code == JSNoMessageFoundErr ? 0 : nats_errno(s, code);
}

static int append(struct bus *base, const char *token, const void *data, size_t len, uint64_t after, uint64_t *ret_seq)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char subject[NATS_SUBJECT_MAX];
	jsPubAck *ack = NULL;
	jsErrCode code = 0;
	jsPubOptions o;
	natsStatus s;

	nats_subject(BUS_INCIDENTS, token, subject);
	b->lib->jsPubOptions_Init(&o);
	o.MaxWait = BUS_WAIT_MS;
	o.ExpectLastSubjectSeq = after;
	o.ExpectNoMessage = after == BUS_NO_REVISION;
	s = b->lib->js_Publish(&ack, b->js, subject, data, len, &o, &code);
	if (!s)
		*ret_seq = ack->Sequence;
	b->lib->jsPubAck_Destroy(ack);
	return nats_errno(s, code);
}

/* --- tables --- */

/* Of a key's stream: what a KV client writes for "deleted". */
static bool is_marker(struct nats_bus *b, natsMsg *msg)
{
	const char *what = NULL;

	return !b->lib->natsMsgHeader_Get(msg, "KV-Operation", &what) && what && strcmp(what, "PUT");
}

static void value_take(struct nats_bus *b, natsMsg *msg, char *value, size_t size, uint64_t *ret_revision)
{
	size_t len = (size_t)b->lib->natsMsg_GetDataLength(msg);

	if (is_marker(b, msg))
		return;
	len = len < size ? len : size - 1;
	memcpy(value, b->lib->natsMsg_GetData(msg), len);
	value[len] = 0;
	*ret_revision = b->lib->natsMsg_GetSequence(msg);
}

/* Asks the leader. kvStore_Get() has any replica answer, also one that is behind: two in turn look like a lease that is
 * renewed, and no hub takes it. */
static int table_read(struct bus *base, enum bus_table table, const char *key, char *value, size_t size,
		      uint64_t *ret_revision)
{
	struct nats_bus *b = (struct nats_bus *)base;
	char stream[NATS_SUBJECT_MAX], subject[NATS_SUBJECT_MAX];
	int err = nats_table_open(b, table);
	natsMsg *msg = NULL;
	jsErrCode code = 0;
	natsStatus s;

	*ret_revision = BUS_NO_REVISION;
	*value = 0;
	if (err)
		return err;
	nats_table_names(table, key, stream, subject);
	s = b->lib->js_GetLastMsg(&msg, b->js, stream, subject, NULL, &code);
	if (!s)
		value_take(b, msg, value, size, ret_revision);
	b->lib->natsMsg_Destroy(msg);
	return s == NATS_NOT_FOUND || code == JSNoMessageFoundErr ? 0 : nats_errno(s, code);
}

/* Of 3.4 neither says with which code the server refused: then the revision is another one, or will be read again. */
static int table_write(struct bus *base, enum bus_table table, const char *key, const char *value, uint64_t revision,
		       uint64_t *ret_revision)
{
	struct nats_bus *b = (struct nats_bus *)base;
	int err = nats_table_open(b, table);
	kvStore *kv = b->tables[table];
	natsStatus s;

	if (err)
		return err;
	s = revision ? b->lib->kvStore_Update(ret_revision, kv, key, value, strlen(value), revision)
		     : b->lib->kvStore_Create(ret_revision, kv, key, value, strlen(value));
	return s == NATS_ERR ? -ESTALE : nats_errno(s, 0);
}

/* --- open --- */

static void nats_close(struct bus *base)
{
	struct nats_bus *b = (struct nats_bus *)base;

	for (int t = 0; t < BUS_TABLES; t++)
		b->lib->kvStore_Destroy(b->tables[t]);
	b->lib->jsCtx_Destroy(b->js);
	b->lib->natsConnection_Destroy(b->connection);
	free(b);
}

static const struct bus_class nats_class = {
	.publish = publish,
	.follow = nats_follow,
	.fetch = nats_fetch,
	.cursor_free = nats_cursor_free,
	.last = last,
	.append = append,
	.table_read = table_read,
	.table_write = table_write,
	.piece_put = nats_piece_put,
	.piece_get = nats_piece_get,
	.ask = nats_ask,
	.answer = nats_answer,
	.listen = nats_listen,
	.close = nats_close,
};

/* The library's own prints to standard error. */
static void error_ignore(natsConnection *c, natsSubscription *s, natsStatus err, void *of)
{
	(void)c;
	(void)s;
	(void)err;
	(void)of;
}

/* Without one the library would wait for a server. */
static void connected_ignore(natsConnection *c, void *of)
{
	(void)c;
	(void)of;
}

static natsStatus servers_set(const struct nats_library *lib, natsOptions *o, const char *urls)
{
	char *copy = strdup(urls), *rest = copy, *one;
	const char *list[16];
	int n = 0;
	natsStatus s;

	while (copy && n < 16 && (one = strsep(&rest, ",")))
		if (*one)
			list[n++] = one;
	s = !copy ? NATS_NO_MEMORY : n ? lib->natsOptions_SetServers(o, list, n) : NATS_INVALID_ARG;
	free(copy);
	return s;
}

static natsStatus options_set(const struct nats_library *lib, natsOptions *o, const struct bus_cfg *cfg)
{
	natsStatus s = servers_set(lib, o, cfg->url);

	s = s ? s : lib->natsOptions_SetName(o, cfg->name);
	s = s ? s : lib->natsOptions_SetTimeout(o, BUS_WAIT_MS);
	s = s ? s : lib->natsOptions_SetMaxReconnect(o, -1);
	s = s ? s : lib->natsOptions_SetReconnectWait(o, RECONNECT_MS);
	s = s ? s : lib->natsOptions_SetReconnectBufSize(o, NO_BUFFER);
	s = s ? s : lib->natsOptions_SetPingInterval(o, PING_MS);
	s = s ? s : lib->natsOptions_SetMaxPingsOut(o, 2);
	s = s ? s : lib->natsOptions_SetErrorHandler(o, error_ignore, NULL);
	s = s ? s : lib->natsOptions_SetRetryOnFailedConnect(o, true, connected_ignore, NULL);
	return s;
}

/* With the file that it was about: the library names none. */
static natsStatus files_set(const struct nats_library *lib, natsOptions *o, const struct bus_cfg *cfg,
			    const char **ret_file)
{
	natsStatus s = NATS_OK;

	if ((*ret_file = cfg->credentials))
		s = lib->natsOptions_SetUserCredentialsFromFiles(o, cfg->credentials, NULL);
	if (!s && (*ret_file = cfg->ca)) {
		s = lib->natsOptions_LoadCATrustedCertificates(o, cfg->ca);
		s = s ? s : lib->natsOptions_SetSecure(o, true);
	}
	if (!s && (*ret_file = cfg->cert))
		s = lib->natsOptions_LoadCertificatesChain(o, cfg->cert, cfg->key);
	return s;
}

static int connect_options(struct nats_bus *b, const struct bus_cfg *cfg, natsOptions *o, char *error, size_t size)
{
	const char *file = NULL, *text;
	natsStatus s = options_set(b->lib, o, cfg);

	s = s ? s : files_set(b->lib, o, cfg, &file);
	if (!s) {
		s = b->lib->natsConnection_Connect(&b->connection, o);
		s = s == NATS_NOT_YET_CONNECTED ? NATS_OK : s;
		file = NULL;
	}
	text = s ? b->lib->nats_GetLastError(NULL) : NULL;
	if (s)
		snprintf(error, size, "%s: %s; check --nats and its options", file ? file : cfg->url,
			 text && *text ? text : b->lib->natsStatus_GetText(s));
	return s ? -EINVAL : 0;
}

static int connection_open(struct nats_bus *b, const struct bus_cfg *cfg, char *error, size_t size)
{
	natsOptions *o = NULL;
	jsOptions js;
	int err = b->lib->natsOptions_Create(&o) ? -ENOMEM : connect_options(b, cfg, o, error, size);

	b->lib->natsOptions_Destroy(o);
	if (err)
		return err;
	b->lib->jsOptions_Init(&js);
	js.Wait = BUS_WAIT_MS;
	return b->lib->natsConnection_JetStream(&b->js, b->connection, &js) ? -ENOMEM : 0;
}

int bus_nats_open(const struct bus_cfg *cfg, struct bus **ret, char *error, size_t error_size)
{
	const struct nats_library *lib = nats_library_open(error, error_size);
	struct nats_bus *b = lib ? calloc(1, sizeof(*b)) : NULL;
	int err;

	if (!b)
		return lib ? -ENOMEM : -ENOTSUP;
	b->base.class = &nats_class;
	b->lib = lib;
	b->owns_streams = cfg->owns_streams;
	snprintf(error, error_size, "out of memory");
	err = connection_open(b, cfg, error, error_size);
	if (!err && cfg->owns_streams)
		err = nats_streams_make(b, cfg, error, error_size);
	if (err)
		nats_close(&b->base); /* lint: frees it; else it is the caller's */
	else
		*ret = &b->base;
	return err;
}
