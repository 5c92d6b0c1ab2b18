/* SPDX-License-Identifier: Apache-2.0
 *
 * klog_line.c - what a line of the kernel log says. Processes choose a part of many: this runs in a parser.
 */
#include "tracers/gpu/klog.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/reader.h"

#define LINE_MAX_BYTES 2048 /* longer than any of the kernel's */

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

/* As a record but for its time; false: no room. */
static bool record_add(struct reader_job *job, const struct record_kernel_log *f, const char *text)
{
	size_t len = strlen(text) + 1, size = (sizeof(*f) + len + 7) & ~7ul;
	struct record_kernel_log *to = (void *)(job->out + job->out_len);

	if (size > job->out_max - job->out_len)
		return false;
	memset(to, 0, size);
	*to = *f;
	memcpy(to->text, text, len);
	to->text_len = len;
	to->hdr = (struct wire_hdr){ .size = size, .tracer = WIRE_COLLECTOR, .kind = RECORD_KERNEL_LOG };
	job->out_len += size;
	return true;
}

int klog_lines_op(struct reader_job *job)
{
	const char *at = job->arg, *end = at + job->arg_len, *next;
	char line[LINE_MAX_BYTES], text[KLOG_TEXT_MAX];
	struct record_kernel_log f;

	for (; at < end && (next = memchr(at, '\n', end - at)); at = next + 1) {
		size_t len = next - at;

		if (len >= sizeof(line))
			continue;
		memcpy(line, at, len);
		line[len] = 0;
		if (klog_line_parse(line, &f, text, sizeof(text)) && !record_add(job, &f, text))
			break;
	}
	return 0;
}
