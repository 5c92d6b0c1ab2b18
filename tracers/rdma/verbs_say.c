/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_say.c - see verbs_say.h.
 */
#include "tracers/rdma/verbs_say.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

/* Libraries that write work requests into the device's queues themselves, past any function of a provider. */
static const struct {
	const char *file, *what;
} bypasses[] = {
	{ "/libuct_ib", "UCX posts to mlx5 devices directly" },
	{ "_ibgda", "NVSHMEM's IBGDA posts from the GPU" },
	{ "/libdoca_", "DOCA posts by itself (DevX, GPUNetIO)" },
	{ "/libdpdk", "DPDK posts by itself" },
};

void verbs_say_bypass(const struct target_proc *proc)
{
	for (size_t i = 0; i < proc->n_files; i++)
		for (size_t k = 0; k < sizeof(bypasses) / sizeof(bypasses[0]); k++)
			if (strstr(proc->libs[i].path, bypasses[k].file)) {
				log_info("pid %u has %s mapped: %s; what it sends so is seen in the port counters only",
					 proc->tgid, proc->libs[i].path, bypasses[k].what);
				return;
			}
}

static bool has_entries(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool any = false;

	while (d && !any && (e = readdir(d)))
		any = e->d_name[0] != '.';
	if (d)
		closedir(d);
	return any;
}

bool verbs_say_no_device(const struct target_proc *proc)
{
	const char *root = getenv("RANKTRACE_SYSFS");
	char path[512];

	snprintf(path, sizeof(path), "%s/class/infiniband", root ? root : "/sys");
	if (has_entries(path))
		return false;
	log_info("pid %u can use RDMA (libibverbs is mapped), but this host has no RDMA device: %s is empty. Nothing "
		 "of RDMA is to be seen; where there should be a device, look at the driver's module and at the kernel "
		 "log",
		 proc->tgid, path);
	return true;
}

void verbs_say_unopened(const struct verbs_unopened *u)
{
	char path[96], proc[32];
	struct stat device, target;

	snprintf(path, sizeof(path), "/dev/infiniband/%.*s", VERBS_DEVICE_LEN - 1, u->node);
	snprintf(proc, sizeof(proc), "/proc/%u", u->tgid);
	if (stat(path, &device))
		log_warn("pid %u: ibv_open_device(%s) failed: there is no %s; is the module ib_uverbs loaded, and udev "
			 "running?",
			 u->tgid, u->device, path);
	else if (stat(proc, &target))
		log_warn("pid %u: ibv_open_device(%s) failed; %s is of mode %03o and uid %u, the process is gone",
			 u->tgid, u->device, path, device.st_mode & 0777, device.st_uid);
	else if (target.st_uid && target.st_uid != device.st_uid && !(device.st_mode & 0006))
		log_warn("pid %u: ibv_open_device(%s) failed: it runs as uid %u and may not open %s (mode %03o, uid "
			 "%u, gid %u); a udev rule, a group or a container's device list gives it the device",
			 u->tgid, u->device, target.st_uid, path, device.st_mode & 0777, device.st_uid, device.st_gid);
	else
		log_warn("pid %u: ibv_open_device(%s) failed, though %s is of mode %03o and uid %u: look at the "
			 "container's device list, at the limit of locked memory (ulimit -l) and at whether the "
			 "provider's library fits the kernel",
			 u->tgid, u->device, path, device.st_mode & 0777, device.st_uid);
}
