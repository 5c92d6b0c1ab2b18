// SPDX-License-Identifier: Apache-2.0
/*
 * See frozen_fs.h. A frozen file system outlives its mount and its processes, so the guardian must be the last to go:
 * it takes no signal, watches the launcher, and thaws when a time is up, when the launcher is gone, or when no process
 * is left who could ask.
 */
#include "tools/simjob/faults/frozen_fs.h"

#include "tools/simjob/faults/faults.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IMAGE_BYTES (16 << 20)

/* What the injection's word in the store says; a futex. */
enum freeze_state { FREEZE_IDLE, FREEZE_FROZEN, FREEZE_THAWED, FREEZE_FAILED };

struct freeze_request {
	int32_t index; /* of the injection */
	double duration_s;
};

static struct {
	int request_fd; /* ranks ask the guardian through it; -1: there is no frozen file system */
	int guardian_pid;
	char path[256]; /* "path/N" is injection N's */
	bool is_mounted;
} fs = { .request_fd = -1 };

static int mkfs_run(const char *device)
{
	int status, pid = fork();

	if (pid == 0) {
		const char *path = getenv("PATH");
		char wider[4096];

		snprintf(wider, sizeof(wider), "%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin");
		setenv("PATH", wider, 1);
		execlp("mkfs.ext4", "mkfs.ext4", "-q", "-F", "-E", "nodiscard", device, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOENT;
	return status ? -EIO : 0;
}

/* An open loop device that clears itself with its last user, or -errno. */
static int loop_attach(int image_fd, char *ret_device, size_t size)
{
	struct loop_config config = { .fd = image_fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int fd = -1, number, tries, err = 0;

	if (control < 0)
		return -errno;
	/* Another process may take the free device before we do. */
	for (tries = 0; tries < 16; tries++) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		snprintf(ret_device, size, "/dev/loop%d", number);
		fd = number < 0 ? -1 : open(ret_device, O_RDWR | O_CLOEXEC);
		err = fd < 0 ? -errno : 0;
		if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			break;
		err = -errno;
		close(fd);
		fd = -1;
		if (err != -EBUSY)
			break;
	}
	close(control);
	return fd >= 0 ? fd : err;
}

static int image_mount(const char *mount_point)
{
	int image_fd = memfd_create("simjob-disk", MFD_CLOEXEC), loop_fd = -1, err;
	char device[32];

	if (image_fd < 0)
		return -errno;
	err = ftruncate(image_fd, IMAGE_BYTES) < 0 ? -errno : 0;
	if (!err)
		loop_fd = loop_attach(image_fd, device, sizeof(device));
	if (loop_fd < 0)
		err = loop_fd;
	if (!err)
		err = mkfs_run(device);
	if (!err && (mkdir(mount_point, 0700) < 0 || mount(device, mount_point, "ext4", MS_NOATIME, NULL) < 0))
		err = -errno;
	if (loop_fd >= 0)
		close(loop_fd);
	close(image_fd);
	return err;
}

/* A name space of our own, and in it a place for mount points that exists nowhere else. */
static int namespace_enter(const struct options *options)
{
	snprintf(fs.path, sizeof(fs.path), "%s", options->scratch_dir ? options->scratch_dir : "/mnt");
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mount("simjob", fs.path, "tmpfs", 0, "size=64k,mode=700") < 0)
		return -errno;
	fs.is_mounted = true;
	return 0;
}

static int images_mount(const struct options *options)
{
	char mount_point[300];
	int i, err = 0;

	for (i = 0; i < options->nr_injections && !err; i++) {
		if (options->injections[i].resource != &resource_frozen_fs)
			continue;
		snprintf(mount_point, sizeof(mount_point), "%s/%d", fs.path, i);
		err = image_mount(mount_point);
	}
	return err;
}

struct guardian {
	struct store *store;
	int dir_fds[MAX_INJECTIONS];      /* -1: the injection has no file system */
	uint64_t thaw_ns[MAX_INJECTIONS]; /* 0: not frozen */
};

static void freeze_set_state(struct guardian *guardian, int index, enum freeze_state state)
{
	atomic_store(&guardian->store->injections[index].resource, state); /* lint: the index was found by the caller */
	futex_wake_all(&guardian->store->injections[index].resource);
}

static void guardian_freeze(struct guardian *guardian, const struct freeze_request *request)
{
	int index = request->index;

	if (index < 0 || index >= MAX_INJECTIONS || guardian->dir_fds[index] < 0 ||
	    ioctl(guardian->dir_fds[index], FIFREEZE, 0) < 0) {
		freeze_set_state(guardian, index, FREEZE_FAILED);
		return;
	}
	guardian->thaw_ns[index] = clock_now_ns() + (uint64_t)(request->duration_s * NSEC_PER_SEC);
	freeze_set_state(guardian, index, FREEZE_FROZEN);
}

/* Thaws what is due, or all; returns how long until the next, in ms, or -1. */
static int guardian_thaw(struct guardian *guardian, bool all)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
	int i;

	for (i = 0; i < MAX_INJECTIONS; i++) {
		if (!guardian->thaw_ns[i])
			continue;
		if (all || guardian->thaw_ns[i] <= now_ns) {
			ioctl(guardian->dir_fds[i], FITHAW, 0);
			guardian->thaw_ns[i] = 0;
			freeze_set_state(guardian, i, FREEZE_THAWED);
		} else if (guardian->thaw_ns[i] < next_ns) {
			next_ns = guardian->thaw_ns[i];
		}
	}
	return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / NSEC_PER_MSEC) + 1;
}

static void guardian_run(struct guardian *guardian, int request_fd, int launcher_fd)
{
	struct pollfd fds[] = { { request_fd, POLLIN, 0 }, { launcher_fd, POLLIN, 0 } };
	struct freeze_request request;

	for (;;) {
		poll(fds, 2, guardian_thaw(guardian, false));
		if (fds[0].revents & POLLIN) {
			if (read(request_fd, &request, sizeof(request)) == sizeof(request))
				guardian_freeze(guardian, &request);
		} else if (fds[0].revents || fds[1].revents) {
			break;
		}
		if (fds[1].revents)
			break;
	}
	guardian_thaw(guardian, true);
}

static void guardian_main(struct store *store, int request_fd, int launcher_pid)
{
	struct guardian guardian = { .store = store };
	int i, launcher_fd = syscall(SYS_pidfd_open, launcher_pid, 0);
	char path[300];
	sigset_t all;

	prctl(PR_SET_NAME, "simjob-guardian");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	for (i = 0; i < MAX_INJECTIONS; i++) {
		snprintf(path, sizeof(path), "%s/%d", fs.path, i);
		guardian.dir_fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	/* The launcher may have died before the pidfd: then there is nothing to guard. */
	if (launcher_fd >= 0 && getppid() == launcher_pid)
		guardian_run(&guardian, request_fd, launcher_fd);
	_exit(0);
}

static int guardian_start(struct store *store)
{
	int fds[2], launcher_pid = getpid();

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fs.guardian_pid = fork();
	if (fs.guardian_pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return -errno;
	}
	if (fs.guardian_pid == 0) {
		close(fds[1]);
		guardian_main(store, fds[0], launcher_pid);
	}
	close(fds[0]);
	fcntl(fds[1], F_SETFD, 0);
	fs.request_fd = fds[1];
	return 0;
}

static void frozen_fs_create(const struct options *options, struct store *store)
{
	int err = namespace_enter(options);

	if (!err)
		err = images_mount(options);
	if (!err)
		err = guardian_start(store);
	if (err)
		fprintf(stderr,
			"simjob: no frozen file system at %s: %s (it takes root, loop devices and mkfs.ext4); D state "
			"comes from vfork instead\n",
			fs.path, strerror(-err));
}

static void frozen_fs_destroy(void)
{
	char mount_point[300];
	int i;

	if (fs.request_fd >= 0) {
		close(fs.request_fd);
		waitpid(fs.guardian_pid, NULL, 0);
	}
	if (!fs.is_mounted)
		return;
	for (i = 0; i < MAX_INJECTIONS; i++) {
		snprintf(mount_point, sizeof(mount_point), "%s/%d", fs.path, i);
		umount2(mount_point, MNT_DETACH);
	}
	umount2(fs.path, MNT_DETACH);
}

static void frozen_fs_set_env(void)
{
	char text[16];

	if (fs.request_fd < 0)
		return;
	snprintf(text, sizeof(text), "%d", fs.request_fd);
	setenv("SIMJOB_FREEZE_FD", text, 1);
	setenv("SIMJOB_FREEZE_PATH", fs.path, 1);
}

bool frozen_fs_freeze(const struct rank *rank, const struct injection *injection)
{
	const char *fd_text = getenv("SIMJOB_FREEZE_FD");
	struct freeze_request request = { .index = injection->index, .duration_s = injection->duration_s };
	_Atomic uint32_t *state = &injection_shared(rank, injection)->resource;

	atomic_store(state, FREEZE_IDLE);
	if (!fd_text || write(atoi(fd_text), &request, sizeof(request)) != sizeof(request))
		return false;
	while (atomic_load(state) == FREEZE_IDLE)
		futex_wait(state, FREEZE_IDLE, 0);
	return atomic_load(state) != FREEZE_FAILED;
}

void frozen_fs_path(const struct injection *injection, const char *name, char *ret_path, size_t size)
{
	const char *base = getenv("SIMJOB_FREEZE_PATH");

	snprintf(ret_path, size, "%s/%d/%s", base ? base : "/nonexistent", injection->index, name);
}

const struct resource resource_frozen_fs = {
	.create = frozen_fs_create,
	.set_env = frozen_fs_set_env,
	.destroy = frozen_fs_destroy,
};
