/* SPDX-License-Identifier: Apache-2.0
 *
 * load_error.c - see load_error.h.
 */
#include "session/load_error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attach/loader.h"
#include "base/log.h"
#include "base/shares.h"
#include "bpf/target.h"

int load_error_say(int err, char *error, size_t size)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
		snprintf(error, size,
			 "the kernel refused to load BPF programs (EPERM): run as root, or with CAP_BPF, "
			 "CAP_PERFMON and CAP_SYS_PTRACE");
		return -EPERM;
	case -ENOENT:
	case -ESRCH:
		snprintf(error, size,
			 "the kernel shows no type information or lacks a tracepoint: it needs "
			 "CONFIG_DEBUG_INFO_BTF=y (/sys/kernel/btf/vmlinux)");
		return -ENOENT;
	case -ENOTSUP:
		snprintf(error, size, "the kernel has no BPF ring buffer: 5.8 is the oldest that can be traced");
		return -ENOENT;
	case -EDOM:
		snprintf(error, size, "RANKTRACE_KERNEL_LACKS has a name that 'ranktrace ps --kernel' does not list");
		return -EINVAL;
	default:
		snprintf(error, size,
			 "loading the BPF programs: %s; 'ranktrace record --verbose' shows libbpf's messages",
			 strerror(-err));
		return err;
	}
}

int tracers_check(const struct loader *l, char *error, size_t size)
{
	const char *name;
	int err, n_loaded = 0;

	for (int i = 0; (name = loader_tracer_error(l, i, &err)); i++) {
		n_loaded += !err;
		if (err)
			log_warn("tracer '%s' did not load: %s; the others go on", name, strerror(-err));
	}
	if (n_loaded)
		return 0;
	snprintf(error, size, "no tracer could be loaded; 'ranktrace record --verbose' shows libbpf's messages");
	return -ENOTSUP;
}

void load_left_say(struct loader_left left)
{
	if (left.n_links && left.closer > 0)
		log_warn("%d groups of probes stay attached but inactive: pid %u maps their file and its address space "
			 "is locked (mmap_lock); process %d (ranktrace-close) removes them when the lock is free",
			 left.n_links, left.holder, left.closer);
	else if (left.n_links)
		log_warn("cannot wait for pid %u, whose address space is locked (mmap_lock): %s; removing %d groups of "
			 "probes now; until that is done, forks on this host may block",
			 left.holder, strerror(-left.closer), left.n_links);
}

void attach_wait_say(const char *path, uint32_t holder)
{
	log_warn("%s has no probes yet: pid %u uses it and its address space is locked (mmap_lock: a page fault or "
		 "munmap that does not end); attaching now would block every fork on this host. ranktrace tries again "
		 "until the lock is free: fix what pid %u waits for, or end it",
		 path, holder, holder);
}

void attach_shared_say(bool allowed)
{
	log_warn("this kernel cannot filter uprobes by process: every process that maps a probed library pays for it%s",
		 allowed ? ", other users', too (--shared-probes)"
			 : "; a library that another user's process maps is not probed");
}

void attach_other_say(const char *path, uint32_t tgid, uint32_t other_tgid, uint32_t other_uid)
{
	log_warn(
		"pid %u: %s gets no probes: pid %u of uid %u maps it, too, and would pay for each call; the process is "
		"watched from outside. --shared-probes probes it all the same, and so does kernel 6.6 or newer without "
		"a cost to others",
		tgid, path, other_tgid, other_uid);
}

void attach_crowd_say(const char *path, uint32_t uid)
{
	log_warn("%s gets no further probes: uid %u has more than the %d processes of a user that are scanned, some "
		 "map it, and a probe would wait for each of them; who maps it is watched from outside. ranktrace "
		 "tries again until there are fewer: end those that are not needed",
		 path, uid, SHARES_PROCS_MAX);
}

bool targets_refused_say(uint64_t n, bool said)
{
	if (n && !said)
		log_warn("processes were refused (%" PRIu64 " by now): %d of a user are traced at most, %d in all; "
			 "the others stay invisible until some of these end",
			 n, TARGETS_OF_USER, TARGETS_MAX);
	return said || n;
}

bool comms_refused_say(const struct model *m, bool said)
{
	const struct proc *most = NULL;

	for (const struct proc *p = m->n_refused && !said ? m->procs : NULL; p; p = p->next)
		if (p->n_refused && (!most || p->n_refused > most->n_refused))
			most = p;
	if (most)
		log_warn("pid %u (%s) is a member of %u communicators: what it calls in further ones is left out until "
			 "some of these end (%" PRIu64 " calls by now)",
			 most->tgid, most->name, most->n_members, most->n_refused);
	return said || most;
}

void away_say(uint64_t ns)
{
	if (ns)
		log_warn("this process was stopped, or got no CPU: for %.1f s probes returned at once; the calls of "
			 "that time are lost",
			 ns / 1e9);
}
