/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_file.c - batches and packets of perfetto_file.h. A batch is a zlib stream of some tens of kilobytes and
 * is written whole or cut off again, so the file can be read up to its last whole batch whatever happens.
 */
#include "sink/perfetto/perfetto_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/intern.h"
#include "sink/sink_io.h"

#define BATCH_BYTES (256 * 1024) /* Perfetto wants compressed batches below 512 kB */
#define BATCH_AGE_NS 2000000000u /* the most that a kill -9 costs */
#define DEFLATE_LEVEL 1 /* 471 MB/s to 0.222 of the size; 4: 243 MB/s, 0.213; zlib at level 3: 151 MB/s, 0.219 */

enum { SEQ_STATE_CLEARED = 1, SEQ_NEEDS_STATE = 2 };

int trace_open(struct trace_file *f, const char *path)
{
	*f = (struct trace_file){ .flags = SEQ_STATE_CLEARED | SEQ_NEEDS_STATE };
	f->deflate = libdeflate_alloc_compressor(DEFLATE_LEVEL);
	f->texts = intern_new();
	f->fd = f->deflate && f->texts ? open_output(path) : -ENOMEM;
	if (f->fd >= 0)
		return 0;
	libdeflate_free_compressor(f->deflate);
	intern_free(f->texts);
	return f->fd;
}

static int batch_deflate(struct trace_file *f, size_t *ret_len)
{
	size_t bound = libdeflate_zlib_compress_bound(f->deflate, f->batch.len);

	if (bound > f->deflated_cap) {
		uint8_t *grown = realloc(f->deflated, bound);

		if (!grown)
			return -ENOMEM;
		f->deflated = grown;
		f->deflated_cap = bound;
	}
	*ret_len = libdeflate_zlib_compress(f->deflate, f->batch.data, f->batch.len, f->deflated, bound);
	return *ret_len ? 0 : -EIO;
}

static int batch_write(struct trace_file *f)
{
	size_t len, at;
	int err = f->batch.failed || f->name.failed ? -ENOMEM : batch_deflate(f, &len);

	if (err)
		return err;
	pb_reset(&f->out);
	at = pb_open(&f->out, TRACE_PACKET);
	pb_bytes(&f->out, PACKET_COMPRESSED, f->deflated, len);
	pb_close(&f->out, at);
	if (f->out.failed)
		return -ENOMEM;
	return write_whole(f->fd, f->out.data, f->out.len);
}

int trace_flush(struct trace_file *f)
{
	if (f->err || !f->batch.len)
		return 0;
	f->err = batch_write(f);
	pb_reset(&f->batch);
	return f->err;
}

int trace_flush_due(struct trace_file *f, uint64_t now_ns)
{
	if (f->batch.len < BATCH_BYTES && now_ns < f->flushed_ns + BATCH_AGE_NS)
		return 0;
	f->flushed_ns = now_ns;
	return trace_flush(f);
}

int trace_close(struct trace_file *f)
{
	int err = trace_flush(f), closed = close_output(f->fd);

	libdeflate_free_compressor(f->deflate);
	intern_free(f->texts);
	pb_free(&f->batch);
	pb_free(&f->name);
	pb_free(&f->out);
	free(f->deflated);
	for (int i = 0; i < NAME_TABLES; i++) {
		free(f->names[i].keys);
		free(f->names[i].iids);
	}
	return err ? err : closed;
}

void packet_head(struct trace_file *f, struct pb *b)
{
	pb_u64(b, PACKET_TRUSTED_SEQUENCE, PACKET_SEQUENCE_ID);
	pb_u64(b, PACKET_SEQUENCE_FLAGS, f->flags);
	f->flags = SEQ_NEEDS_STATE;
}

void packet_open(struct trace_file *f, uint64_t ts_ns)
{
	f->packet_at = f->batch.len;
	f->packet = pb_open(&f->batch, TRACE_PACKET);
	if (ts_ns)
		pb_u64(&f->batch, PACKET_TIMESTAMP, ts_ns);
	packet_head(f, &f->batch);
}

void packet_close(struct trace_file *f)
{
	pb_close(&f->batch, f->packet);
	if (f->err)
		f->batch.len = f->packet_at;
}

static void clock_add(struct pb *b, uint32_t id, uint64_t ns)
{
	size_t at = pb_open(b, SNAPSHOT_CLOCKS);

	pb_u64(b, CLOCK_ID, id);
	pb_u64(b, CLOCK_TIMESTAMP, ns);
	pb_close(b, at);
}

/* How the clocks stand to each other from `ts_ns` on. */
static void clocks_write(struct pb *b, uint64_t ts_ns, uint64_t realtime_offset_ns)
{
	size_t at = pb_open(b, PACKET_CLOCK_SNAPSHOT);

	clock_add(b, CLOCK_ID_MONOTONIC, ts_ns);
	if (realtime_offset_ns)
		clock_add(b, CLOCK_ID_REALTIME, ts_ns + realtime_offset_ns);
	/* Nothing here is stamped with BOOTTIME, but trace_processor calls it an error when that relates to no other
	 * clock. The two are the same on a machine that was never suspended, as training nodes are not. */
	clock_add(b, CLOCK_ID_BOOTTIME, ts_ns);
	pb_u64(b, SNAPSHOT_PRIMARY_CLOCK, CLOCK_ID_MONOTONIC);
	pb_close(b, at);
}

void trace_start(struct trace_file *f, uint64_t ts_ns, uint64_t realtime_offset_ns, uint64_t default_track)
{
	struct pb *b = &f->batch;
	size_t at, inner;

	packet_open(f, 0); /* a time of its own would come before the clock that it is in */
	at = pb_open(b, PACKET_DEFAULTS);
	pb_u64(b, DEFAULTS_CLOCK_ID, CLOCK_ID_MONOTONIC);
	inner = pb_open(b, DEFAULTS_TRACK_EVENT);
	pb_u64(b, EVENT_DEFAULTS_TRACK, default_track);
	pb_close(b, inner);
	pb_close(b, at);
	clocks_write(b, ts_ns, realtime_offset_ns);
	packet_close(f);
}

void trace_clock_set(struct trace_file *f, uint64_t ts_ns, uint64_t realtime_offset_ns)
{
	packet_open(f, 0);
	clocks_write(&f->batch, ts_ns, realtime_offset_ns);
	packet_close(f);
}
