/* SPDX-License-Identifier: Apache-2.0
 *
 * check_devices.c - what of a host's devices can be seen: the kernel's log, the GPU driver, NVML, RDMA. NVML may hang
 * in a driver that is not well: it is asked in a child that has three seconds.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/checks.h"

#define NVML_MS 3000
#define NVML_FILE "libnvidia-ml.so.1"

void check_kernel_log(struct check *c, const struct doctor_host *h)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	(void)h;
	if (fd >= 0) {
		snprintf(c->found, sizeof(c->found), "/dev/kmsg can be read");
		close(fd);
		return;
	}
	c->status = CHECK_LIMITED;
	snprintf(c->cause, sizeof(c->cause), "/dev/kmsg: %s: XIDs and hung tasks are not seen", strerror(errno));
	snprintf(c->remedy, sizeof(c->remedy), "%s",
		 errno == ENOENT ? "give the container the host's /dev/kmsg" : "run as root, or with CAP_SYSLOG");
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  ..." */
void check_driver(struct check *c, const struct doctor_host *h)
{
	const char *path = getenv("RANKTRACE_NVIDIA_PROC");
	FILE *f = fopen(path ? path : "/proc/driver/nvidia/version", "re");
	char line[256] = "";

	(void)h;
	if (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(c->found, sizeof(c->found), "%s", line + strspn(line, "NVRM version: "));
	} else {
		c->status = CHECK_LIMITED;
		snprintf(c->cause, sizeof(c->cause), "NVIDIA's driver is not loaded: no GPU of this host is seen");
		snprintf(c->remedy, sizeof(c->remedy),
			 "on a GPU node: modprobe nvidia, and dmesg for why it does not load");
	}
	if (f)
		fclose(f);
}

/* --- NVML --- */

struct nvml_answer {
	int loaded, ret;
	unsigned int n;
	char error[200];
};

static void nvml_ask(int fd)
{
	struct nvml_answer a = { .ret = -1 };
	void *lib = dlopen(NVML_FILE, RTLD_LAZY);
	int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "nvmlInit_v2") : NULL;
	int (*count)(unsigned int *) = lib ? (int (*)(unsigned int *))dlsym(lib, "nvmlDeviceGetCount_v2") : NULL;

	if (!lib)
		snprintf(a.error, sizeof(a.error), "%s", dlerror());
	if (init && count) {
		a.loaded = true;
		a.ret = init();
		if (!a.ret)
			a.ret = count(&a.n);
	}
	if (write(fd, &a, sizeof(a)) != sizeof(a))
		_exit(1);
	_exit(0);
}

/* 0; -ETIMEDOUT: no answer; or -errno. */
static int nvml_answer_get(struct nvml_answer *a)
{
	int fds[2], err = pipe2(fds, O_CLOEXEC) ? -errno : 0;
	pid_t pid;

	if (err)
		return err;
	pid = fork();
	if (!pid)
		nvml_ask(fds[1]);
	close(fds[1]);
	if (pid < 0) {
		err = -errno;
	} else {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };

		if (poll(&p, 1, NVML_MS) != 1)
			err = -ETIMEDOUT;
		else if (read(fds[0], a, sizeof(*a)) != sizeof(*a))
			err = -EIO;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, err == -ETIMEDOUT ? WNOHANG : 0);
	}
	close(fds[0]);
	return err;
}

void check_nvml(struct check *c, const struct doctor_host *h)
{
	struct nvml_answer a = { 0 };
	int err = nvml_answer_get(&a);

	(void)h;
	if (!err && a.loaded && !a.ret) {
		snprintf(c->found, sizeof(c->found), "%u GPU%s", a.n, a.n == 1 ? "" : "s");
		return;
	}
	c->status = CHECK_LIMITED;
	if (err == -ETIMEDOUT)
		snprintf(c->cause, sizeof(c->cause), "NVML did not answer in %d s: the driver is not well",
			 NVML_MS / 1000);
	else if (err)
		snprintf(c->cause, sizeof(c->cause), "NVML could not be asked: %s", strerror(-err));
	else if (!a.loaded)
		snprintf(c->cause, sizeof(c->cause), "%s", *a.error ? a.error : NVML_FILE " lacks its functions");
	else
		snprintf(c->cause, sizeof(c->cause), "NVML returns error %d", a.ret);
	snprintf(c->remedy, sizeof(c->remedy), "on a GPU node: nvidia-smi has to work; it comes with the driver");
}

void check_rdma(struct check *c, const struct doctor_host *h)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *e;
	size_t at = 0;

	(void)h;
	while (d && (e = readdir(d)))
		if (*e->d_name != '.' && at < sizeof(c->found))
			at += (size_t)snprintf(c->found + at, sizeof(c->found) - at, "%s%s", at ? ", " : "", e->d_name);
	if (d)
		closedir(d);
	if (at)
		return;
	snprintf(c->found, sizeof(c->found),
		 "none on this host: NCCL uses TCP between hosts, whose connections are seen");
}
