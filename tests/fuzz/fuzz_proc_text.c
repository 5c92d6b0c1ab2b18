/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_proc_text.c - the other texts of /proc: stat, cgroup, mountinfo, environ, stack; CPython's line tables. What
 * comes out is terminated and within its bounds. The first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/discover/cgroup_path.h"
#include "tracers/sched/cpu_quota.h"
#include "inspect/stack/evidence.h"
#include "inspect/discover/launch_env.h"
#include "inspect/reader/proc_files.h"
#include "inspect/stack/stack_private.h"

static void must(int holds)
{
	if (!holds)
		abort();
}

static void stat_text(const char *text, size_t size)
{
	struct proc_stat st;

	(void)size;
	if (!proc_stat_parse(text, &st))
		must(strnlen(st.name, sizeof(st.name)) < sizeof(st.name));
}

static void cgroup_text(const char *text, size_t size)
{
	struct cgroup_names names;
	struct cgroup_mounts mounts;
	char path[32], dir[2 * CGROUP_PATH_MAX];
	bool v2;

	cgroup_names_parse(text, &names);
	must(strnlen(names.container, sizeof(names.container)) < sizeof(names.container) &&
	     strnlen(names.pod, sizeof(names.pod)) < sizeof(names.pod) &&
	     strnlen(names.slurm, sizeof(names.slurm)) < sizeof(names.slurm));
	fuzz_file((const uint8_t *)text, size, path);
	if (!cgroup_mounts_read(path, &mounts) && !cgroup_cpu_dir(&mounts, text, dir, &v2))
		must(strnlen(dir, sizeof(dir)) < sizeof(dir));
}

static void environ_text(const char *text, size_t size)
{
	struct proc_environ e = PROC_ENVIRON_NONE, live = PROC_ENVIRON_NONE;

	proc_environ_parse(text, size, &e);
	must(e.rank >= -1 && (e.world_size < 0 || e.rank < e.world_size));
	must(strnlen(e.job, sizeof(e.job)) < sizeof(e.job));
	proc_environ_parse(text + size / 2, size - size / 2, &live);
	proc_environ_update(&e, &live);
	must(strnlen(e.visible_devices, sizeof(e.visible_devices)) < sizeof(e.visible_devices));
}

static void stack_text(const char *text, size_t size)
{
	char to[200];

	(void)size;
	kernel_stack_clean(text, to, sizeof(to));
	must(strnlen(to, sizeof(to)) < sizeof(to));
}

static void line_table(const char *text, size_t size)
{
	static const int versions[] = { 0x030900, 0x030a00, 0x030b00, 0x030c01, 0x030e00 };
	uint8_t which = size ? text[0] : 0;

	for (int at = -4; at < 600; at += 2)
		python_line(versions[which % 5], (const uint8_t *)text, size, which, at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const each[])(const char *text, size_t size) = { stat_text, cgroup_text, environ_text, stack_text,
								       line_table };
	char *text;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	each[data[0] % 5](text, size - 1);
	free(text);
	return 0;
}
