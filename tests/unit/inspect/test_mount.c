/* SPDX-License-Identifier: Apache-2.0
 *
 * test_mount.c - which mount a file is on, by lists as the kernel writes them, and of this very process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inspect/stack/evidence.h"
#include "inspect/stack/mount.h"

static const char LIST[] =
	"22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"
	"30 22 0:52 / /data rw,relatime shared:7 master:3 - nfs4 filer:/export rw,vers=4.2,addr=10.0.0.9\n"
	"31 30 0:60 /job /data/ckpt\\040new rw - lustre 10.0.0.1@tcp:/scratch rw\n"
	"not a mount at all\n"
	"34 22 259:2 /etc/hosts /h rw - ext4 /dev/nvme0n1p2 rw\n"
	"35 22 259:2 / /a/longer/path rw - ext4 /dev/nvme0n1p2 rw\n"
	"36 22 259:2 / /disk rw - ext4 /dev/nvme0n1p2 rw\n"
	"37 22 259:2 /x /y rw - ext4 /dev/nvme0n1p2 rw\n"
	"32 22 0:61 / /over rw - tmpfs tmpfs rw\n"
	"33 22 0:62 / /over rw shared:9 - fuse.s3fs s3fs rw,user_id=0\n";

static char path[] = "/tmp/ranktrace-mount-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd >= 0 && write(fd, LIST, strlen(LIST)) == (ssize_t)strlen(LIST) && !close(fd) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static void by_path(void **state)
{
	static const struct {
		const char *file, *mount;
	} cases[] = {
		{ "/data/set/0.bin", "/data (nfs4 filer:/export, 0:52)" },
		{ "/data", "/data (nfs4 filer:/export, 0:52)" },
		{ "/database/0.bin", "/ (ext4 /dev/nvme0n1p1, 259:1)" },
		{ "/data/ckpt new/1.pt", "/data/ckpt new (lustre 10.0.0.1@tcp:/scratch, 0:60)" },
		{ "/over/x", "/over (fuse.s3fs s3fs, 0:62)" },
		{ "/", "/ (ext4 /dev/nvme0n1p1, 259:1)" },
	};
	char to[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(mount_find(path, MOUNT_ID_UNKNOWN, cases[i].file, to, sizeof(to)));
		assert_string_equal(to, cases[i].mount);
	}
}

/* An open file's number says it, also of one that others lie over. */
static void by_number(void **state)
{
	char to[256], cut[8];

	(void)state;
	assert_true(mount_find(path, 32, "/over/x", to, sizeof(to)));
	assert_string_equal(to, "/over (tmpfs tmpfs, 0:61)");
	assert_true(mount_find(path, 30, "/elsewhere", cut, sizeof(cut)));
	assert_string_equal(cut, "/data (");
	assert_false(mount_find(path, 99, "/data/x", to, sizeof(to)));
	assert_string_equal(to, "");
	assert_false(mount_find("/nonexistent", MOUNT_ID_UNKNOWN, "/data/x", to, sizeof(to)));
}

/* Of several mounts of one file system that of all of it, of these the one with the shortest path. */
static void by_device(void **state)
{
	char to[256];

	(void)state;
	assert_true(mount_of_device(path, 0, 60, to, sizeof(to)));
	assert_string_equal(to, "/data/ckpt new (lustre 10.0.0.1@tcp:/scratch, 0:60)");
	assert_true(mount_of_device(path, 259, 2, to, sizeof(to)));
	assert_string_equal(to, "/disk (ext4 /dev/nvme0n1p2, 259:2)");
	assert_false(mount_of_device(path, 25, 92, to, sizeof(to)));
	assert_string_equal(to, "");
	assert_false(mount_of_device("/nonexistent", 0, 60, to, sizeof(to)));
}

/* Both ways lead to the same mount of this process: by an open file, and by a path. */
static void of_a_call(void **state)
{
	struct target_evidence by_fd = { .syscall_nr = SYS_fsync, .file = "/proc/self/status" },
			       by_name = { .syscall_nr = SYS_openat, .file = "/proc/self/status" },
			       pipe = { .syscall_nr = SYS_read, .file = "pipe:[7]" }, none = { .syscall_nr = -1 };
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char a[256], b[256];

	(void)state;
	assert_true(fd >= 0);
	by_fd.args[0] = fd;
	mount_of_evidence(getpid(), &by_fd, a, sizeof(a));
	mount_of_evidence(getpid(), &by_name, b, sizeof(b));
	assert_memory_equal(a, "/proc (proc ", strlen("/proc (proc "));
	assert_string_equal(a, b);
	strcpy(by_fd.file, "/moved/elsewhere"); /* as another mount namespace shows it */
	mount_of_evidence(getpid(), &by_fd, b, sizeof(b));
	assert_string_equal(a, b);
	mount_of_evidence(getpid(), &pipe, b, sizeof(b));
	assert_string_equal(b, "");
	mount_of_evidence(getpid(), &none, b, sizeof(b));
	assert_string_equal(b, "");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_path),
		cmocka_unit_test(by_number),
		cmocka_unit_test(by_device),
		cmocka_unit_test(of_a_call),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
