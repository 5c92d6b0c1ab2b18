/* SPDX-License-Identifier: Apache-2.0
 *
 * nats_stream.c - the streams and the tables, made by the first hub, and cursors on them. Reports are in memory of one
 * server: agents send a whole one every second. All else is in files, on three servers where there are three.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bus/nats_private.h"

#define SEC INT64_C(1000000000)
#define REPORTS_BYTES (INT64_C(512) << 20) /* older ones go */
#define INCIDENTS_S (30 * 86400)
#define INCIDENTS_OF_JOB 100000 /* what a hub that takes a job over may have to read */
#define REPLICAS 3
#define CONNECT_TRIES 20 /* of BUS_WAIT_MS / 4: a server that starts at the same time */
#define REMAKE_NS \
	8000000000ull          /* gone for so long, reports are kept by another server: they are in the memory of one */
#define QUIET_NS 3000000000ull /* then a cursor without messages asks whether the server still knows it */
#define MESSAGES_WAITING 100000
#define BYTES_WAITING (256 << 20)

void nats_subject(enum bus_stream stream, const char *token, char to[NATS_SUBJECT_MAX])
{
	snprintf(to, NATS_SUBJECT_MAX, "ranktrace.%s.%s", stream == BUS_REPORTS ? "report" : "incident",
		 token ? token : "*");
}

/* --- making them --- */

int nats_stream_add(struct nats_bus *b, jsStreamConfig *c)
{
	jsErrCode code = 0;
	natsStatus s = b->lib->js_AddStream(NULL, b->js, c, NULL, &code);

	if (code == JSStreamReplicasNotSupportedErr) { /* one server */
		c->Replicas = 1;
		code = 0;
		s = b->lib->js_AddStream(NULL, b->js, c, NULL, &code);
	}
	return code == JSStreamNameExistErr ? 0 : nats_errno(s, code);
}

static int stream_make(struct nats_bus *b, enum bus_stream stream)
{
	bool reports = stream == BUS_REPORTS;
	char subject[NATS_SUBJECT_MAX];
	const char *subjects[] = { subject };
	jsStreamConfig c;

	nats_subject(stream, NULL, subject);
	b->lib->jsStreamConfig_Init(&c);
	c.Name = reports ? NATS_REPORTS : NATS_INCIDENTS;
	c.Subjects = subjects;
	c.SubjectsLen = 1;
	c.Storage = reports ? js_MemoryStorage : js_FileStorage;
	c.Replicas = reports ? 1 : REPLICAS;
	c.MaxAge = (reports ? BUS_KEPT_S : INCIDENTS_S) * SEC;
	c.MaxBytes = reports ? REPORTS_BYTES : -1;
	c.Duplicates = BUS_SAME_WINDOW_S * SEC;
	c.MaxMsgsPerSubject = reports ? -1 : INCIDENTS_OF_JOB;
	return nats_stream_add(b, &c);
}

static const char *const buckets[BUS_TABLES] = {
	[BUS_LEASES] = "RANKTRACE_LEASES",
	[BUS_MARKS] = "RANKTRACE_MARKS",
	[BUS_SETTINGS] = "RANKTRACE_SETTINGS",
};

int nats_table_open(struct nats_bus *b, enum bus_table table)
{
	if (b->tables[table])
		return 0;
	if (b->lib->natsConnection_Status(b->connection) != NATS_CONN_STATUS_CONNECTED)
		return -ENOTCONN;
	return nats_errno(b->lib->js_KeyValue(&b->tables[table], b->js, buckets[table]), 0);
}

void nats_table_names(enum bus_table table, const char *key, char stream[NATS_SUBJECT_MAX],
		      char subject[NATS_SUBJECT_MAX])
{
	snprintf(stream, NATS_SUBJECT_MAX, "KV_%s", buckets[table]);
	snprintf(subject, NATS_SUBJECT_MAX, "$KV.%s.%s", buckets[table], key);
}

static int bucket_make(struct nats_bus *b, enum bus_table table)
{
	natsStatus s;
	kvConfig c;

	if (!nats_table_open(b, table))
		return 0;
	b->lib->kvConfig_Init(&c);
	c.Bucket = buckets[table];
	c.History = 1;
	c.StorageType = js_FileStorage;
	c.Replicas = REPLICAS;
	s = b->lib->js_CreateKeyValue(&b->tables[table], b->js, &c);
	if (s) { /* one server; or another hub was faster */
		c.Replicas = 1;
		s = b->lib->js_CreateKeyValue(&b->tables[table], b->js, &c);
	}
	return s ? nats_table_open(b, table) : 0;
}

int nats_streams_make(struct nats_bus *b, const struct bus_cfg *cfg, char *error, size_t size)
{
	int err = -ENOTCONN;
	const char *text;

	for (int i = 0; i < CONNECT_TRIES; i++) {
		if (b->lib->natsConnection_Status(b->connection) == NATS_CONN_STATUS_CONNECTED)
			err = stream_make(b, BUS_REPORTS);
		err = err ? err : stream_make(b, BUS_INCIDENTS);
		err = err ? err : nats_files_make(b);
		for (int t = 0; t < BUS_TABLES && !err; t++)
			err = bucket_make(b, (enum bus_table)t);
		if (!err)
			return 0;
		usleep(BUS_WAIT_MS * 1000 / 4);
	}
	text = b->lib->nats_GetLastError(NULL);
	snprintf(error, size, "%s: %s; is a nats-server there, with JetStream (-js), and may this account use it?",
		 cfg->url,
		 err == -ENOTCONN ? "no connection"
		 : text && *text  ? text
				  : strerror(-err));
	return err;
}

/* --- cursors --- */

/* Does the stream of reports answer? */
static bool reports_answer(struct nats_bus *b)
{
	jsStreamInfo *info = NULL;
	jsErrCode code = 0;
	natsStatus s = b->lib->js_GetStreamInfo(&info, b->js, NATS_REPORTS, NULL, &code);

	b->lib->jsStreamInfo_Destroy(info);
	return !s;
}

/* Its server is gone, the others are there: what it had is lost, and what comes is not to be. */
static void reports_tend(struct nats_bus *b)
{
	uint64_t now_ns = clock_monotonic_ns();
	jsErrCode code = 0;

	if (b->lib->natsConnection_Status(b->connection) != NATS_CONN_STATUS_CONNECTED || reports_answer(b)) {
		b->no_reports_ns = 0;
		return;
	}
	if (!b->no_reports_ns)
		b->no_reports_ns = now_ns;
	if (now_ns - b->no_reports_ns < REMAKE_NS)
		return;
	log_warn("the server that has the reports is gone for %llu s: their stream is begun anew",
		 REMAKE_NS / 1000000000ull);
	b->lib->js_DeleteStream(b->js, NATS_REPORTS, NULL, &code);
	stream_make(b, BUS_REPORTS);
	b->no_reports_ns = 0;
}

int nats_follow(struct bus *base, enum bus_stream stream, const char *token, uint64_t from, int past_s,
		struct bus_cursor **ret)
{
	struct nats_bus *b = (struct nats_bus *)base;
	struct bus_cursor *c = calloc(1, sizeof(*c));
	char subject[NATS_SUBJECT_MAX];
	jsErrCode code = 0;
	jsSubOptions o;
	natsStatus s;

	if (!c)
		return -ENOMEM;
	c->b = b;
	nats_subject(stream, token, subject);
	b->lib->jsSubOptions_Init(&o);
	o.Stream = stream == BUS_REPORTS ? NATS_REPORTS : NATS_INCIDENTS;
	o.Ordered = true; /* the library finds gaps, and begins anew behind the last one */
	o.Config.DeliverPolicy = from ? js_DeliverByStartSequence : js_DeliverByStartTime;
	o.Config.OptStartSeq = from;
	o.Config.OptStartTime = from ? 0 : (time(NULL) - past_s) * SEC;
	s = b->lib->js_SubscribeSync(&c->sub, b->js, subject, NULL, &o, &code);
	if (s) {
		free(c);
		if (stream == BUS_REPORTS && b->owns_streams)
			reports_tend(b);
		return nats_errno(s, code);
	}
	c->heard_ns = clock_monotonic_ns();
	b->lib->natsSubscription_SetPendingLimits(c->sub, MESSAGES_WAITING, BYTES_WAITING);
	*ret = c;
	return 0;
}

static int message_read(struct bus_cursor *c, struct bus_message *ret)
{
	const struct nats_library *lib = c->b->lib;
	const char *subject = lib->natsMsg_GetSubject(c->msg), *dot = subject ? strrchr(subject, '.') : NULL;
	jsMsgMetaData *meta = NULL;

	if (dot && c->plain) {
		*ret = (struct bus_message){ .token = dot + 1,
					     .data = lib->natsMsg_GetData(c->msg),
					     .len = lib->natsMsg_GetDataLength(c->msg),
					     .reply = lib->natsMsg_GetReply(c->msg) };
		return 1;
	}
	if (!dot || lib->natsMsg_GetMetaData(&meta, c->msg))
		return -EBADMSG;
	*ret = (struct bus_message){ .token = dot + 1,
				     .data = lib->natsMsg_GetData(c->msg),
				     .len = lib->natsMsg_GetDataLength(c->msg),
				     .seq = meta->Sequence.Stream,
				     .n_behind = meta->NumPending,
				     .stored_ns = meta->Timestamp };
	lib->jsMsgMetaData_Destroy(meta);
	return 1;
}

/* A consumer is in one server's memory: where that started again, nothing would ever come, and nothing says so. */
static int cursor_check(struct bus_cursor *c)
{
	uint64_t now_ns = clock_monotonic_ns();
	jsConsumerInfo *info = NULL;
	jsErrCode code = 0;
	natsStatus s;

	if (now_ns - c->heard_ns < QUIET_NS)
		return 0;
	s = c->b->lib->natsSubscription_GetConsumerInfo(&info, c->sub, NULL, &code);
	c->b->lib->jsConsumerInfo_Destroy(info);
	c->heard_ns = now_ns;
	return s ? nats_errno(s, code) : 0;
}

int nats_fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret)
{
	const struct nats_library *lib = c->b->lib;
	natsStatus s;

	lib->natsMsg_Destroy(c->msg);
	c->msg = NULL;
	s = lib->natsSubscription_NextMsg(&c->msg, c->sub, wait_ms);
	if (s == NATS_TIMEOUT)
		return c->plain ? 0 : cursor_check(c);
	c->heard_ns = clock_monotonic_ns();
	if (s == NATS_SLOW_CONSUMER || s == NATS_MISMATCH) /* what it passed over is lost to us; it goes on */
		return 0;
	return s ? nats_errno(s, 0) : message_read(c, ret);
}

void nats_cursor_free(struct bus_cursor *c)
{
	if (!c)
		return;
	c->b->lib->natsMsg_Destroy(c->msg);
	c->b->lib->natsSubscription_Destroy(c->sub);
	free(c);
}
