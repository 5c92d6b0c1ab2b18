/* SPDX-License-Identifier: Apache-2.0
 *
 * check_host.c - what of a host decides whether and how it can be traced: kernel, rights, programs, confinement.
 */
#include <errno.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/kernel.h"
#include "attach/loader.h"
#include "doctor/checks.h"
#include "inspect/discover/privilege.h"

#define LOAD_RING_BYTES 65536

static void lacks_add(struct check *c, uint32_t lacks)
{
	size_t at = 0;

	for (int i = 0; i < KERNEL_FEATURES; i++)
		if (lacks & 1u << i && at < sizeof(c->cause))
			at += (size_t)snprintf(c->cause + at, sizeof(c->cause) - at, "%sno %s (mainline %s): %s",
					       at ? "; " : "", kernel_feature_texts[i].name,
					       kernel_feature_texts[i].since, kernel_feature_texts[i].lost);
}

/* What a kernel lacks shows by programs that it loads, for which it takes the rights to. */
void check_kernel(struct check *c, const struct doctor_host *h)
{
	char message[1024];
	bool able = !privilege_capabilities(message, sizeof(message));
	struct utsname u;
	uint32_t lacks = 0;
	int err = kernel_lacks_read(&lacks);

	uname(&u);
	snprintf(c->found, sizeof(c->found), "%s %s%s", u.release, u.machine,
		 able ? "" : " (what it lacks shows only with the right to trace)");
	lacks = able ? lacks : h->kernel_lacks;
	if (able && err == -ENOTSUP) {
		c->status = CHECK_MISSING;
		snprintf(c->cause, sizeof(c->cause), "no BPF ring buffer: tracing needs 5.8 or later");
		snprintf(c->remedy, sizeof(c->remedy), "a newer kernel; autopsy and ps work without");
	} else if (able && !err && lacks) {
		c->status = CHECK_LIMITED;
		lacks_add(c, lacks);
		snprintf(c->remedy, sizeof(c->remedy),
			 "a newer kernel; 'ranktrace ps --kernel' has what is used instead");
	}
}

/* A problem, and the sentence that record and autopsy have for it, remedy included. */
static void privilege_put(struct check *c, enum privilege_problem problem, const char *message, const char *fine)
{
	c->status = problem ? CHECK_MISSING : CHECK_OK;
	snprintf(c->found, sizeof(c->found), "%s", problem ? "" : fine);
	snprintf(c->cause, sizeof(c->cause), "%s", message);
}

void check_namespaces(struct check *c, const struct doctor_host *h)
{
	char message[1024];

	(void)h;
	privilege_put(c, privilege_namespaces(message, sizeof(message)), message, "the host's own");
}

void check_btf(struct check *c, const struct doctor_host *h)
{
	char message[1024];

	(void)h;
	privilege_put(c, privilege_btf(NULL, message, sizeof(message)), message, "/sys/kernel/btf/vmlinux");
}

void check_rights(struct check *c, const struct doctor_host *h)
{
	char message[1024];

	(void)h;
	privilege_put(c, privilege_capabilities(message, sizeof(message)), message, "enough to trace");
}

/* Without them one's own processes are still seen. */
void check_reading(struct check *c, const struct doctor_host *h)
{
	char message[1024];
	enum privilege_problem problem = privilege_reading(message, sizeof(message));

	(void)h;
	privilege_put(c, problem, message, "processes of all users");
	c->status = problem ? CHECK_LIMITED : CHECK_OK;
}

static int record_ignore(void *to, const struct wire_hdr *rec)
{
	(void)to, (void)rec;
	return 0;
}

static void programs_count(struct check *c, const struct loader *l)
{
	int n = 0, n_failed = 0, err;
	size_t at = 0;
	const char *name;

	for (int i = 0; (name = loader_tracer_error(l, i, &err)); i++) {
		n += loader_tracer_programs(l, i);
		n_failed += err != 0;
		if (err && at < sizeof(c->cause))
			at += (size_t)snprintf(c->cause + at, sizeof(c->cause) - at, "%stracer %s did not load: %s",
					       at ? "; " : "", name, strerror(-err));
	}
	snprintf(c->found, sizeof(c->found), "%d programs load, and their rings", n);
	if (!n_failed)
		return;
	c->status = n ? CHECK_LIMITED : CHECK_MISSING;
	snprintf(c->remedy, sizeof(c->remedy), "'ranktrace record --verbose' shows libbpf's messages");
}

void check_programs(struct check *c, const struct doctor_host *h)
{
	struct loader_cfg cfg = { .lacks = h->kernel_lacks, .tier = TIER_BURST, .emit = record_ignore };
	struct loader *l = NULL;
	char message[1024];
	int err;

	if (privilege_check(NULL, 0, message, sizeof(message))) {
		c->status = CHECK_MISSING;
		snprintf(c->cause, sizeof(c->cause), "not tried, for what is missing above");
		return;
	}
	for (int i = 0; i < RING_CLASSES; i++)
		cfg.ring_bytes[i] = LOAD_RING_BYTES;
	err = loader_open(&cfg, &l);
	if (err) {
		c->status = CHECK_MISSING;
		snprintf(c->cause, sizeof(c->cause), "they do not load: %s", strerror(-err));
		snprintf(c->remedy, sizeof(c->remedy), "'ranktrace ps --kernel --load' has each of them");
		return;
	}
	programs_count(c, l);
	loader_free(l);
}

void check_confinement(struct check *c, const struct doctor_host *h)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint32_t action = SECCOMP_RET_KILL_PROCESS;
	bool filters = !syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);

	(void)h;
	snprintf(c->found, sizeof(c->found), "seccomp %s, Landlock %s", filters ? "yes" : "no", abi > 0 ? "yes" : "no");
	if (!filters) {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause),
			 "no seccomp filters: replay, report and autopsy --merge do not run");
		snprintf(c->remedy, sizeof(c->remedy),
			 "a kernel with CONFIG_SECCOMP_FILTER, or another container profile");
	} else if (abi <= 0) {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause),
			 "no Landlock: a session's right to write is bounded by file modes only");
		snprintf(c->remedy, sizeof(c->remedy), "5.13 or later with lsm=landlock");
	}
}
