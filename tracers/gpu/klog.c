/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.c - the kernel log, for lines about GPUs, links, memory and blocked tasks: what the driver has no tracepoint
 * for, and XIDs where it has none. Only what is logged from the session's start on; never waits, and takes a bounded
 * number of lines.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracers/gpu/klog.h"
#include "source.h"

#define READS_MAX 256 /* of one sample: a line each from /dev/kmsg */
#define TEXT_MAX 1024

struct klog {
	const struct sampler_ctx *ctx;
	int fd;
	char part[2048]; /* a line whose end is not there yet: only files other than /dev/kmsg have such */
	size_t n_part;
};

/* The first row that matches says what a line is. `and`: a second word, NULL none. */
static const struct {
	const char *word, *and;
	enum kernel_log_class class;
} rows[] = {
	{ "NVRM: Xid", NULL, KERNEL_LOG_XID },
	{ "SXid", NULL, KERNEL_LOG_SXID },
	{ "nvidia-nvlink", NULL, KERNEL_LOG_NVLINK },
	{ "NVRM:", NULL, KERNEL_LOG_NVIDIA },
	{ "mlx5_", NULL, KERNEL_LOG_RDMA },
	{ "infiniband", NULL, KERNEL_LOG_RDMA },
	{ "bnxt_re", NULL, KERNEL_LOG_RDMA },
	{ "blocked for more than", "seconds", KERNEL_LOG_HUNG_TASK },
	{ "Out of memory", NULL, KERNEL_LOG_OOM },
	{ "Memory cgroup out of memory", NULL, KERNEL_LOG_OOM },
	{ "oom-kill:", NULL, KERNEL_LOG_OOM },
	{ "Hardware Error", NULL, KERNEL_LOG_MCE },
	{ "mce: ", NULL, KERNEL_LOG_MCE },
	{ "AER:", NULL, KERNEL_LOG_PCIE },
	{ "PCIe Bus Error", NULL, KERNEL_LOG_PCIE },
	{ "pcieport", "error", KERNEL_LOG_PCIE },
};

static enum kernel_log_class class_of(const char *text)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strstr(text, rows[i].word) && (!rows[i].and || strstr(text, rows[i].and)))
			return rows[i].class;
	return 0;
}

uint64_t klog_pci(const char *text)
{
	unsigned int domain, bus, device;
	const char *at = strstr(text, "PCI:");

	if (!at)
		return GPU_PCI_NONE;
	at += 4;
	if (sscanf(at, "%x:%x:%x", &domain, &bus, &device) != 3 || bus > 0xff || device > 0x1f)
		return GPU_PCI_NONE;
	return GPU_PCI(domain, bus, device);
}

/* "pid=1234,", "pid='<unknown>'", "pid=GPU:3" */
static uint32_t pid_of(const char *text)
{
	const char *at = strstr(text, "pid=");

	return at && isdigit((unsigned char)at[4]) ? strtoul(at + 4, NULL, 10) : 0;
}

/* Behind the bracket with the address: "NVRM: Xid (PCI:0000:3b:00): 79, pid=..."; "nvidia-nvswitch3: SXid
 * (PCI:0000:c1:00.0): 12028, ..." */
static uint32_t number_of(const char *text, const char *word)
{
	const char *at = strstr(text, word), *end;

	at = at ? strchr(at, '(') : NULL;
	end = at ? strstr(at, "):") : NULL;
	return end ? strtoul(end + 2, NULL, 10) : 0;
}

bool klog_line_parse(const char *line, struct record_kernel_log *ret, char *ret_text, size_t size)
{
	unsigned long long us = 0;
	unsigned int priority = 6;
	const char *text = strchr(line, ';');

	if (*line == ' ') /* the dictionary of the line before */
		return false;
	if (!text || sscanf(line, "%u,%*u,%llu", &priority, &us) != 2)
		return false;
	text++;
	*ret = (struct record_kernel_log){
		.log_us = us, .level = priority & 7, .class = class_of(text), .pci = GPU_PCI_NONE
	};
	if (!ret->class)
		return false;
	snprintf(ret_text, size, "%s", text);
	if (ret->class == KERNEL_LOG_XID || ret->class == KERNEL_LOG_SXID) {
		ret->xid = number_of(text, ret->class == KERNEL_LOG_XID ? "Xid" : "SXid");
		ret->pci = klog_pci(text);
		ret->pid = pid_of(text);
	}
	return true;
}

static int line_take(struct klog *k, const char *line, uint64_t now_ns)
{
	union {
		struct record_kernel_log f;
		char bytes[sizeof(struct record_kernel_log) + TEXT_MAX];
	} u;
	char text[TEXT_MAX - 8];
	size_t len;

	if (!klog_line_parse(line, &u.f, text, sizeof(text)))
		return 0;
	len = strlen(text) + 1;
	memset(u.f.text, 0, (len + 7) & ~7ul);
	memcpy(u.f.text, text, len);
	u.f.text_len = len;
	u.f.hdr = (struct wire_hdr){ .size = (sizeof(u.f) + len + 7) & ~7ul,
				     .tracer = WIRE_COLLECTOR,
				     .kind = RECORD_KERNEL_LOG,
				     .ts_ns = now_ns };
	return k->ctx->emit(k->ctx->emit_to, &u.f.hdr);
}

/* Whole lines of what is there; the rest waits for its end. */
static int lines_take(struct klog *k, uint64_t now_ns)
{
	char *at = k->part, *end;
	int err = 0;

	k->part[k->n_part] = 0;
	while (!err && (end = strchr(at, '\n'))) {
		*end = 0;
		err = line_take(k, at, now_ns);
		at = end + 1;
	}
	k->n_part -= at - k->part;
	memmove(k->part, at, k->n_part);
	if (k->n_part == sizeof(k->part) - 1) /* longer than any line: not one */
		k->n_part = 0;
	return err;
}

static int klog_sample(void *state, uint64_t now_ns)
{
	struct klog *k = state;
	int err = 0;

	for (int i = 0; !err && i < READS_MAX; i++) {
		size_t room = sizeof(k->part) - 1 - k->n_part;
		ssize_t got = read(k->fd, k->part + k->n_part, room);

		if (got > 0) {
			k->n_part += got;
			err = lines_take(k, now_ns);
		} else if (got < 0 && (errno == EPIPE || errno == EINTR)) {
			continue; /* EPIPE: lines were overwritten before we came; the next read goes on behind them */
		} else if (got < 0 && errno == EINVAL) {
			k->n_part = 0; /* a line longer than the room */
		} else {
			return got < 0 && errno != EAGAIN ? -errno : 0;
		}
	}
	return err;
}

static int klog_open(const struct sampler_ctx *ctx, void **ret)
{
	const char *path = getenv("RANKTRACE_KMSG");
	struct klog *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	k->ctx = ctx;
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
