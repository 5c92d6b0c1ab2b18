/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_kernel.c - see ps_kernel.h.
 */
#include "cmd/ps/ps_kernel.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "attach/kernel.h"
#include "attach/loader.h"
#include "inspect/discover/privilege.h"

#define LOAD_RING_BYTES 65536

static void json_line(cJSON *o)
{
	char *text = cJSON_PrintUnformatted(o);

	if (text)
		puts(text);
	free(text);
	cJSON_Delete(o);
}

static void feature_print(int i, bool has, bool json)
{
	const struct kernel_feature_text *f = &kernel_feature_texts[i];
	cJSON *o;

	if (!json) {
		printf("%-19s %s\n", f->name, has ? "yes" : "no");
		if (!has)
			printf("                    instead: %s\n                    lost: %s (mainline has it since "
			       "%s, %s)\n",
			       f->instead, f->lost, f->since, f->commit);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "feature", f->name);
	cJSON_AddBoolToObject(o, "has", has);
	cJSON_AddStringToObject(o, "since", f->since);
	cJSON_AddStringToObject(o, "commit", f->commit);
	cJSON_AddStringToObject(o, "instead", has ? "" : f->instead);
	cJSON_AddStringToObject(o, "lost", has ? "" : f->lost);
	json_line(o);
}

static void quirks_print(const struct utsname *u, bool json)
{
	const struct kernel_quirk *q;

	for (size_t i = 0; (q = kernel_quirk(i)); i++) {
		cJSON *o;

		if (!kernel_quirk_applies(q, u->release, u->machine))
			continue;
		if (!json) {
			printf("quirk               %s\n                    done: %s (%s)\n", q->what, q->done,
			       q->source);
			continue;
		}
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "quirk", q->id);
		cJSON_AddStringToObject(o, "what", q->what);
		cJSON_AddStringToObject(o, "done", q->done);
		cJSON_AddStringToObject(o, "source", q->source);
		json_line(o);
	}
}

static int record_ignore(void *to, const struct wire_hdr *rec)
{
	(void)to;
	(void)rec;
	return 0;
}

static void libbpf_line(const char *line)
{
	log_info("%s", line);
}

static void lacks_text(uint32_t lacks, char *to, size_t size)
{
	size_t at = snprintf(to, size, "%s", lacks ? "without" : "as it is");

	for (int i = 0; i < KERNEL_FEATURES; i++)
		if (lacks & 1u << i && at < size)
			at += snprintf(to + at, size - at, " %s", kernel_feature_texts[i].name);
}

static void load_line(const char *object, const char *variant, int n_programs, int err, bool json)
{
	cJSON *o;

	if (!json) {
		printf("load %-14s %d programs, %s: %s\n", object, n_programs, variant, err ? strerror(-err) : "ok");
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "load", object);
	cJSON_AddStringToObject(o, "variant", variant);
	cJSON_AddNumberToObject(o, "programs", n_programs);
	cJSON_AddNumberToObject(o, "error", -err);
	json_line(o);
}

/* Loads one variant of every program. Returns how many objects did not load, or not as they should. */
static int variant_load(uint32_t lacks, bool json)
{
	struct loader_cfg cfg = { .lacks = lacks, .tier = TIER_BURST, .emit = record_ignore, .log = libbpf_line };
	struct loader *l = NULL;
	char variant[128];
	int err, n_failed = 0, n_programs, n_private;
	const char *name;

	for (int i = 0; i < RING_CLASSES; i++)
		cfg.ring_bytes[i] = LOAD_RING_BYTES;
	lacks_text(lacks, variant, sizeof(variant));
	err = loader_open(&cfg, &l);
	if (err) {
		load_line("life", variant, 0, err, json);
		return 1;
	}
	for (int i = 0; (name = loader_tracer_error(l, i, &err)); i++) {
		n_programs = loader_tracer_programs(l, i);
		load_line(name, variant, n_programs, err, json);
		n_failed += !!err;
	}
	n_private = loader_private_stacks(l);
	if (n_private)
		log_error("%d uprobe programs have a stack per CPU: this kernel may panic", n_private);
	loader_free(l);
	return n_failed + n_private;
}

/* The kernel as it is, then without each of its features, then without all: loads each program in each of its
 * shapes. */
static int variants_load(uint32_t lacks, bool json)
{
	uint32_t all = (1u << KERNEL_FEATURES) - 1;
	int n_failed = variant_load(lacks, json);

	for (int i = 0; i < KERNEL_FEATURES; i++)
		if (!(lacks & 1u << i))
			n_failed += variant_load(lacks | 1u << i, json);
	return lacks == all ? n_failed : n_failed + variant_load(all, json);
}

static void head_print(const struct utsname *u, int missing, const char *privileges, bool json)
{
	bool btf = !access("/sys/kernel/btf/vmlinux", R_OK);
	cJSON *o;

	if (!json) {
		printf("kernel              %s %s\n", u->release, u->machine);
		printf("btf                 %s\n", btf ? "yes" : "missing");
		printf("privileges          %s\n", missing ? privileges : "enough to trace");
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "kernel", u->release);
	cJSON_AddStringToObject(o, "machine", u->machine);
	cJSON_AddBoolToObject(o, "btf", btf);
	cJSON_AddStringToObject(o, "privileges", missing ? privileges : "");
	json_line(o);
}

int ps_kernel_print(bool load, bool json)
{
	struct utsname u;
	char error[1024];
	int missing = privilege_check(NULL, 0, error, sizeof(error)), err;
	uint32_t lacks = 0;

	uname(&u);
	head_print(&u, missing, error, json);
	err = kernel_lacks_read(&lacks);
	if (err == -EDOM) {
		log_error("RANKTRACE_KERNEL_LACKS=%s: has a name that 'ranktrace ps --kernel' does not list",
			  getenv("RANKTRACE_KERNEL_LACKS"));
		return EXIT_USAGE;
	}
	if (err == -ENOTSUP)
		log_error("the kernel has no BPF ring buffer: tracing needs 5.8 or later");
	for (int i = 0; !err && i < KERNEL_FEATURES; i++)
		feature_print(i, !(lacks & 1u << i), json);
	quirks_print(&u, json);
	if (missing || err)
		return EXIT_UNSUPPORTED;
	return load && variants_load(lacks, json) ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}
