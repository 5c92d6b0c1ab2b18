/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.c - see kernel.h. Features are read from the kernel's type information or tried out, never derived from a
 * version.
 */
#include "attach/kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct kernel_feature_text kernel_feature_texts[KERNEL_FEATURES] = {
#define FEATURE(id, name, since, commit, instead, lost) { name, since, commit, instead, lost },
#include "bpf/kernel.def"
#undef FEATURE
};

static const struct kernel_quirk quirks[] = {
#define QUIRK(id, machine, a, b, c, d, what, done, source) { #id, machine, { a, b }, { c, d }, what, done, source },
#include "attach/kernel_quirks.def"
#undef QUIRK
};

/* Only a kernel that has uprobe.multi answers EBADF for a path that is not a regular file. */
static bool uprobe_multi_works(void)
{
	const struct bpf_insn prog[] = { { .code = 0xb7 }, { .code = 0x95 } }; /* r0 = 0; exit */
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, link);
	unsigned long offset = 0;
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", prog, 2, &load), link_fd, err;

	if (fd < 0)
		return false;
	link.uprobe_multi.path = "/";
	link.uprobe_multi.offsets = &offset;
	link.uprobe_multi.cnt = 1;
	link_fd = bpf_link_create(fd, -1, BPF_TRACE_UPROBE_MULTI, &link);
	err = link_fd < 0 ? -errno : 0;
	if (link_fd >= 0)
		close(link_fd);
	close(fd);
	return err == -EBADF;
}

static bool enum_has(const struct btf *btf, const char *type, const char *value)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_ENUM);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(t)[i].name_off), value))
			return true;
	return false;
}

/* Number of arguments that a tracepoint passes to its programs; the first parameter of its type belongs to the tracer.
 * -ENOENT: unknown. */
static int tracepoint_args(const struct btf *btf, const char *type)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;

	t = t ? btf__type_by_id(btf, t->type) : NULL;
	t = t && btf_is_ptr(t) ? btf__type_by_id(btf, t->type) : NULL;
	return t && btf_is_func_proto(t) ? btf_vlen(t) - 1 : -ENOENT;
}

int kernel_lacks_parse(const char *names, uint32_t *ret)
{
	uint32_t lacks = 0;
	size_t len;

	for (const char *at = names; *at; at += len + (at[len] == ',')) {
		int i = 0;

		len = strcspn(at, ",");
		while (i < KERNEL_FEATURES &&
		       (strlen(kernel_feature_texts[i].name) != len || strncmp(at, kernel_feature_texts[i].name, len)))
			i++;
		if (i == KERNEL_FEATURES)
			return -EINVAL;
		lacks |= 1u << i;
	}
	*ret = lacks;
	return 0;
}

int kernel_lacks_read(uint32_t *ret)
{
	const char *taken = getenv("RANKTRACE_KERNEL_LACKS");
	struct btf *btf = btf__load_vmlinux_btf();
	uint32_t lacks = 0;
	int err = 0;

	if (!btf)
		return -ENOENT;
	if (taken)
		err = kernel_lacks_parse(taken, &lacks) ? -EDOM : 0;
	if (!enum_has(btf, "bpf_map_type", "BPF_MAP_TYPE_RINGBUF"))
		err = -ENOTSUP;
	if (!uprobe_multi_works())
		lacks |= KERNEL_BIT(UPROBE_MULTI);
	if (!enum_has(btf, "bpf_func_id", "BPF_FUNC_get_attach_cookie"))
		lacks |= KERNEL_BIT(COOKIE);
	if (!enum_has(btf, "bpf_func_id", "BPF_FUNC_task_pt_regs"))
		lacks |= KERNEL_BIT(TASK_REGS);
	if (tracepoint_args(btf, "btf_trace_sched_switch") < 4)
		lacks |= KERNEL_BIT(PREV_STATE);
	/* Links of perf uprobes carry cookies, and links of uprobe.multi (added later) always do: no cookies means no
	 * uprobe.multi. */
	if (lacks & KERNEL_BIT(COOKIE))
		lacks |= KERNEL_BIT(UPROBE_MULTI);
	btf__free(btf);
	*ret = lacks;
	return err;
}

int kernel_lacks_set(struct bpf_object *o, uint32_t lacks)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, ".rodata");
	const struct btf *btf = bpf_object__btf(o);
	int id = btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC);
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, id) : NULL;
	size_t size = 0;
	char *data = map ? bpf_map__initial_value(map, &size) : NULL;

	for (int i = 0; data && section && i < btf_vlen(section); i++) {
		const struct btf_var_secinfo *v = btf_var_secinfos(section) + i;
		const struct btf_type *var = btf__type_by_id(btf, v->type);

		if (strcmp(btf__name_by_offset(btf, var->name_off), "kernel_lacks") || v->offset + sizeof(lacks) > size)
			continue;
		memcpy(data + v->offset, &lacks, sizeof(lacks));
		return 0;
	}
	return -ENOENT;
}

/* x86-64: the program begins with "add r9, gs:[this_cpu_off]" if it has one stack per CPU (emit_priv_frame_ptr). */
bool kernel_private_stack(int fd)
{
	static const unsigned char place[] = { 0x65, 0x4c, 0x03, 0x0c, 0x25 };
	unsigned char code[256] = {};
	struct bpf_prog_info info = { .jited_prog_insns = (__u64)(unsigned long)code, .jited_prog_len = sizeof(code) };
	__u32 size = sizeof(info);

	return !bpf_prog_get_info_by_fd(fd, &info, &size) && memmem(code, sizeof(code), place, sizeof(place));
}

const struct kernel_quirk *kernel_quirk(size_t i)
{
	return i < sizeof(quirks) / sizeof(quirks[0]) ? &quirks[i] : NULL;
}

static bool version_before(int major, int minor, const int than[2])
{
	return major < than[0] || (major == than[0] && minor < than[1]);
}

bool kernel_quirk_applies(const struct kernel_quirk *q, const char *release, const char *machine)
{
	int major = 0, minor = 0;

	if (*q->machine && strcmp(q->machine, machine))
		return false;
	if (sscanf(release, "%d.%d", &major, &minor) != 2)
		return true; /* unknown: assume the worse */
	return !version_before(major, minor, q->since) && (!q->until[0] || version_before(major, minor, q->until));
}
