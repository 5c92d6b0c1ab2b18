/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.c - the kernel log, for lines about GPUs, links, memory and blocked tasks: what the driver has no tracepoint
 * for, and XIDs where it has none. Only what is logged from the session's start on; never waits, and takes a bounded
 * number of lines. They are bytes here: what they say is for a parser, and its answer is checked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/reader/reader.h"
#include "tracers/gpu/klog.h"
#include "source.h"

#define READS_MAX 256 /* of one sample: a line each from /dev/kmsg */
#define RECORDS_BYTES (128u << 10)
#define READ_ROOM 4096 /* a line of the kernel's fits */
#define DEVICES_MAX 64
#define NVIDIA "0x10de"

struct klog {
	const struct sampler_ctx *ctx;
	int fd;
	char bytes[READER_ARG_MAX]; /* lines, the last of which may not be whole: only files other than /dev/kmsg have
				       such */
	size_t n;
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

static int records_emit(struct klog *k, char *at, size_t left, uint64_t now_ns)
{
	int err = 0;

	while (!err && left) {
		struct record_kernel_log *f = (void *)at;

		if (!record_sane(f, left))
			return -EPROTO;
		at += f->hdr.size;
		left -= f->hdr.size;
		f->hdr.ts_ns = now_ns;
		if (is_of_host(k, f))
			err = k->ctx->emit(k->ctx->emit_to, &f->hdr);
	}
	return err;
}

static int lines_parse(struct klog *k, size_t len, uint64_t now_ns)
{
	char *out = malloc(RECORDS_BYTES);
	size_t n = 0;
	int err = out ? parser_run(k->ctx->reader, 0, klog_lines_op, k->bytes, len, NULL, 0, READER_DEADLINE_MS, out,
				   RECORDS_BYTES, &n)
		      : -ENOMEM;

	if (!err)
		err = records_emit(k, out, n, now_ns);
	free(out);
	return err;
}

/* Whole lines of what is there; the rest waits for its end. Lines that a parser could not take are gone. */
static int lines_take(struct klog *k, uint64_t now_ns)
{
	const char *last = memrchr(k->bytes, '\n', k->n);
	size_t len = last ? (size_t)(last + 1 - k->bytes) : 0;
	int err = len ? lines_parse(k, len, now_ns) : 0;

	k->n -= len;
	memmove(k->bytes, k->bytes + len, k->n);
	if (k->n > sizeof(k->bytes) - READ_ROOM) /* longer than any line: not one */
		k->n = 0;
	return err;
}

/* More was there. */
static bool bytes_read(struct klog *k, int *err)
{
	ssize_t got = read(k->fd, k->bytes + k->n, sizeof(k->bytes) - k->n);

	*err = 0;
	if (got > 0)
		k->n += got;
	else if (got < 0 && errno == EINVAL)
		k->n = 0; /* a line longer than the room */
	else if (got < 0 && (errno == EPIPE || errno == EINTR))
		; /* EPIPE: lines were overwritten before we came; the next read goes on behind them */
	else if (got < 0 && errno != EAGAIN)
		*err = -errno;
	else
		return false;
	return !*err;
}

static int klog_sample(void *state, uint64_t now_ns)
{
	struct klog *k = state;
	int err = 0, read_err = 0;

	for (int i = 0; !err && i < READS_MAX && bytes_read(k, &read_err); i++)
		if (k->n > sizeof(k->bytes) - READ_ROOM)
			err = lines_take(k, now_ns);
	if (!err)
		err = lines_take(k, now_ns);
	return err ? err : read_err;
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
