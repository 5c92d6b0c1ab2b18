/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.c - the kernel log, for lines about GPUs, links, memory and blocked tasks: what the driver has no tracepoint
 * for, and XIDs where it has none. Only what is logged from the session's start on; never waits, and takes a bounded
 * number of lines. They are bytes here: what they say is for a parser, and its answer is checked. While a parser is
 * late its lines stay here, and nothing more is read: the kernel keeps the rest, and says where it could not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "inspect/reader/reader.h"
#include "tracers/gpu/klog.h"
#include "source.h"

#define READS_MAX 256 /* of one sample: a line each from /dev/kmsg */
#define RECORDS_BYTES (128u << 10)
#define READ_ROOM 4096 /* a line of the kernel's fits */
#define DEVICES_MAX 64
#define NVIDIA "0x10de"
#define DIED_MAX 4 /* times that a parser died of the same lines, two parsers each; then they count as its end */
#define LATE_SAY_NS 10000000000ull
#define LOSS_EVERY_NS 60000000000ull /* losses are said */
#define LATER 1                      /* the lines are still to be parsed */

struct loss {
	size_t n, n_said;
	uint64_t said_ns;
};

struct klog {
	const struct sampler_ctx *ctx;
	int fd;
	char bytes[READER_ARG_MAX]; /* lines, the last of which may not be whole: only files other than /dev/kmsg have
				       such */
	size_t n;
	char records[RECORDS_BYTES]; /* what a parser makes of them */
	bool waits;                  /* lines for a parser that is late, since late_ns */
	bool late_said;
	uint64_t late_ns;
	int n_died;
	struct loss dropped, overrun;  /* lines; times */
	int dropped_err;               /* of the last ones */
	uint64_t devices[DEVICES_MAX]; /* of NVIDIA on this host when the session began */
	size_t n_devices;              /* 0: not known */
};

/* A GPU that falls off the bus may be gone by now: what counts is who was there. */
static void devices_read(struct klog *k, const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && k->n_devices < DEVICES_MAX && (e = readdir(d))) {
		unsigned int domain, bus, device;
		char path[512], vendor[16] = "";

		snprintf(path, sizeof(path), "%s/%.64s/vendor", dir, e->d_name);
		FILE *f = fopen(path, "re");

		if (f && fgets(vendor, sizeof(vendor), f) && !strncmp(vendor, NVIDIA, strlen(NVIDIA)) &&
		    sscanf(e->d_name, "%x:%x:%x", &domain, &bus, &device) == 3)
			k->devices[k->n_devices++] = GPU_PCI(domain, bus, device);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
}

static bool is_of_host(const struct klog *k, const struct record_kernel_log *f)
{
	for (size_t i = 0; i < k->n_devices; i++)
		if (k->devices[i] == f->pci)
			return true;
	return !k->n_devices || !f->xid;
}

/* A parser may answer anything. */
static bool record_sane(const struct record_kernel_log *f, size_t left)
{
	return left >= sizeof(*f) && f->hdr.size >= sizeof(*f) && f->hdr.size % 8 == 0 && f->hdr.size <= left &&
	       f->hdr.tracer == WIRE_COLLECTOR && f->hdr.kind == RECORD_KERNEL_LOG && f->text_len &&
	       f->text_len <= KLOG_TEXT_MAX && sizeof(*f) + f->text_len <= f->hdr.size &&
	       memchr(f->text, 0, f->text_len) == f->text + f->text_len - 1 && f->class >= KERNEL_LOG_XID &&
	       f->class <= KERNEL_LOG_SXID;
}

static bool records_sane(char *at, size_t left)
{
	for (struct record_kernel_log *f; left; at += f->hdr.size, left -= f->hdr.size) {
		f = (void *)at;
		if (!record_sane(f, left))
			return false;
	}
	return true;
}

static int records_emit(struct klog *k, size_t left, uint64_t now_ns)
{
	char *at = k->records;
	int err = 0;

	for (struct record_kernel_log *f; !err && left; at += f->hdr.size, left -= f->hdr.size) {
		f = (void *)at;
		f->hdr.ts_ns = now_ns;
		if (is_of_host(k, f))
			err = k->ctx->emit(k->ctx->emit_to, &f->hdr);
	}
	return err;
}

static int lines_parse(struct klog *k, size_t len, size_t *ret_n)
{
	int err = parser_run(k->ctx->reader, 0, klog_lines_op, k->bytes, len, NULL, 0, READER_DEADLINE_MS, k->records,
			     sizeof(k->records), ret_n);

	return !err && !records_sane(k->records, *ret_n) ? -EPROTO : err;
}

/* A parser without a CPU, or none yet, says nothing about the lines. One that died may have been killed by somebody. */
static bool is_later(struct klog *k, int err)
{
	return reader_is_late(err) || (err == -EIO && ++k->n_died < DIED_MAX);
}

static void late_begin(struct klog *k, uint64_t now_ns)
{
	if (!k->waits)
		k->late_ns = now_ns;
	k->waits = true;
	if (k->late_said || now_ns - k->late_ns < LATE_SAY_NS)
		return;
	k->late_said = true;
	log_warn("kernel log: its lines wait for %.0f s for a parser that has no CPU time or was stopped: XIDs and the "
		 "like are found late; give ranktrace CPU time",
		 (now_ns - k->late_ns) * 1e-9);
}

static void late_end(struct klog *k, uint64_t now_ns)
{
	if (k->late_said)
		log_warn("kernel log: its lines are read again, after %.0f s", (now_ns - k->late_ns) * 1e-9);
	k->waits = k->late_said = false;
	k->n_died = 0;
}

static size_t lines_in(const char *bytes, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += bytes[i] == '\n';
	return n;
}

static void drop_count(struct klog *k, size_t n_lines, int err)
{
	k->dropped.n += n_lines;
	k->dropped_err = err;
}

static bool loss_due(struct loss *l, uint64_t now_ns)
{
	if (l->n == l->n_said || (l->said_ns && now_ns < l->said_ns + LOSS_EVERY_NS))
		return false;
	l->n_said = l->n;
	l->said_ns = now_ns;
	return true;
}

static void losses_say(struct klog *k, uint64_t now_ns)
{
	if (loss_due(&k->dropped, now_ns))
		log_warn("kernel log: %zu lines were dropped so far, as %s: what they say is not found here; dmesg has "
			 "them",
			 k->dropped.n,
			 k->dropped_err == -EIO      ? "their parsers died again and again"
			 : k->dropped_err == -EINVAL ? "they are too long"
						     : strerror(-k->dropped_err));
	if (loss_due(&k->overrun, now_ns))
		log_warn(
			"kernel log: it was overwritten before it was read, %zu times so far: what these lines said is "
			"not found here; a larger log (log_buf_len=) keeps more",
			k->overrun.n);
}

/* Whole lines of what is there; the rest waits for its end. 0, LATER, or what emit() returned. */
static int lines_take(struct klog *k, uint64_t now_ns)
{
	const char *last = memrchr(k->bytes, '\n', k->n);
	size_t len = last ? (size_t)(last + 1 - k->bytes) : 0, n = 0;
	int err = len ? lines_parse(k, len, &n) : 0;

	if (err && is_later(k, err)) {
		late_begin(k, now_ns);
		return LATER;
	}
	late_end(k, now_ns);
	if (err)
		drop_count(k, lines_in(k->bytes, len), err);
	k->n -= len;
	memmove(k->bytes, k->bytes + len, k->n);
	if (k->n > sizeof(k->bytes) - READ_ROOM) /* longer than any line: not one */
		k->n = 0;
	return err ? 0 : records_emit(k, n, now_ns);
}

/* More was there. */
static bool bytes_read(struct klog *k, int *err)
{
	ssize_t got = read(k->fd, k->bytes + k->n, sizeof(k->bytes) - k->n);

	*err = 0;
	if (got > 0)
		k->n += got;
	else if (got < 0 && errno == EINVAL)
		drop_count(k, 1, -EINVAL); /* longer than the room; the next read goes on behind it */
	else if (got < 0 && errno == EPIPE)
		k->overrun.n++; /* the next read goes on behind what was overwritten */
	else if (got < 0 && errno == EINTR)
		;
	else if (got < 0 && errno != EAGAIN)
		*err = -errno;
	else
		return false;
	return !*err;
}

static int klog_sample(void *state, uint64_t now_ns)
{
	struct klog *k = state;
	int read_err = 0, err = k->waits ? lines_take(k, now_ns) : 0;

	for (int i = 0; !err && i < READS_MAX && bytes_read(k, &read_err); i++)
		if (k->n > sizeof(k->bytes) - READ_ROOM)
			err = lines_take(k, now_ns);
	if (!err)
		err = lines_take(k, now_ns);
	losses_say(k, now_ns);
	return err == LATER ? 0 : err ? err : read_err;
}

static int klog_open(const struct sampler_ctx *ctx, void **ret)
{
	const char *path = getenv("RANKTRACE_KMSG"), *devices = getenv("RANKTRACE_PCI");
	struct klog *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	k->ctx = ctx;
	if (devices || !path) /* a log of a test's has GPUs of its own */
		devices_read(k, devices ? devices : "/sys/bus/pci/devices");
	k->fd = open(path ? path : "/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (k->fd >= 0 && lseek(k->fd, 0, SEEK_END) >= 0) {
		*ret = k;
		return 0;
	}
	err = -errno;
	if (k->fd >= 0)
		close(k->fd);
	free(k);
	return err == -ENOENT ? -ENOTSUP : err;
}

static void klog_close(void *state)
{
	struct klog *k = state;

	if (!k)
		return;
	if (k->waits)
		log_warn("kernel log: %zu lines were not read until the end, as their parser was late; dmesg has them",
			 lines_in(k->bytes, k->n));
	losses_say(k, UINT64_MAX);
	close(k->fd);
	free(k);
}

static const struct sampler klog_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = 500000000ull,
	.remedy = "run as root, or with CAP_SYSLOG",
	.open = klog_open,
	.sample = klog_sample,
	.close = klog_close,
};

const struct source_live source_klog = { .sampler = &klog_sampler };
