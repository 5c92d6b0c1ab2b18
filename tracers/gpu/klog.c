/* SPDX-License-Identifier: Apache-2.0
 *
 * klog.c - the kernel log, for lines about GPUs, links, memory and blocked tasks: what the driver has no tracepoint
 * for, and XIDs where it has none. Only what is logged from the session's start on; never waits, and takes a bounded
 * number of lines.
 */
#include <ctype.h>
#include <dirent.h>
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
#define DEVICES_MAX 64
#define NVIDIA "0x10de"

struct klog {
	const struct sampler_ctx *ctx;
	int fd;
	char part[2048]; /* a line whose end is not there yet: only files other than /dev/kmsg have such */
	size_t n_part;
	uint64_t devices[DEVICES_MAX]; /* of NVIDIA on this host when the session began */
	size_t n_devices;              /* 0: not known */
};

/* The first row that matches says what a line is. `and`: a second word, NULL none. */
static const struct {
	const char *word, *and;
	enum kernel_log_class class;
} rows[] = {
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

/* "pid=1234,", "pid='<unknown>'", "pid=GPU:3" */
static uint32_t pid_of(const char *text)
{
	const char *at = strstr(text, "pid=");

	return at && isdigit((unsigned char)at[4]) ? strtoul(at + 4, NULL, 10) : 0;
}

/* The driver's own form from the first byte on: "NVRM: Xid (PCI:0000:3b:00): 79, pid=..."; "nvidia-nvswitch3: SXid
 * (PCI:0000:c1:00.0): 12028, ...". Elsewhere in a line, and at its begin, stands what processes call themselves. */
static enum kernel_log_class xid_parse(const char *text, struct record_kernel_log *ret)
{
	unsigned int domain, bus, device, function, number;
	int end = 0;

	if (sscanf(text, "NVRM: Xid (PCI:%8x:%2x:%2x): %u,%n", &domain, &bus, &device, &number, &end) == 4 && end)
		ret->class = KERNEL_LOG_XID;
	else if (sscanf(text, "nvidia-nvswitch%*u: SXid (PCI:%8x:%2x:%2x.%1x): %u,%n", &domain, &bus, &device,
			&function, &number, &end) == 5 &&
		 end)
		ret->class = KERNEL_LOG_SXID;
	if (!end || device > 0x1f || !number)
		return ret->class = 0;
	ret->xid = number;
	ret->pci = GPU_PCI(domain, bus, device);
	ret->pid = pid_of(text);
	return ret->class;
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
	if (priority >> 3) /* of a facility, which the kernel gives to what was written into its log from outside */
		return false;
	*ret = (struct record_kernel_log){ .log_us = us, .level = priority & 7, .pci = GPU_PCI_NONE };
	if (!xid_parse(text, ret))
		ret->class = class_of(text);
	if (!ret->class)
		return false;
	snprintf(ret_text, size, "%s", text);
	return true;
}

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

static int line_take(struct klog *k, const char *line, uint64_t now_ns)
{
	union {
		struct record_kernel_log f;
		char bytes[sizeof(struct record_kernel_log) + TEXT_MAX];
	} u;
	char text[TEXT_MAX - 8];
	size_t len;

	if (!klog_line_parse(line, &u.f, text, sizeof(text)) || !is_of_host(k, &u.f))
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
