// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* torch_groups.bpf.c - PyTorch is about to call NCCL for a process group: the group's name and its own number of the
 * operation, from the arguments of what its flight recorder is given.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "tracers/torch/torch_groups.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(torch_group_record);

#define NOTHING 0
/* The pointer to a result that fits no two registers takes the first one on x86-64, one of its own on arm64. */
#if defined(__TARGET_ARCH_x86)
#define HIDDEN_RESULT 1
#else
#define HIDDEN_RESULT 0
#endif
#define OLD_STRING 8
#define NEW_STRING 32

static const struct {
	__u8 skipped, string_bytes;
} rows[] = {
#define RECORD(symbol, skipped, string_bytes) { skipped, string_bytes },
#include "tracers/torch/torch_groups.def"
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* A std::string begins with the pointer to its bytes, which end with a zero byte, in both ABIs. */
static __always_inline void string_read(__u64 string, char *to, __u32 size)
{
	__u64 bytes = 0;

	bpf_probe_read_user(&bytes, sizeof(bytes), (void *)string);
	if (bpf_probe_read_user_str(to, size, (void *)bytes) < 0)
		to[0] = 0;
}

UPROBE_ENTRY(torch_group_enter)
{
	__u64 cookie = probe_cookie(ctx), row = COOKIE_ROW(cookie), names;
	struct torch_group_record *r;
	__u32 skipped;

	if (!target_call(bpf_get_current_pid_tgid() >> 32, cookie, RING_NORMAL) || row >= N_ROWS)
		return 0;
	barrier_var(row);
	skipped = rows[row].skipped;
	r = record_reserve(RING_NORMAL, struct torch_group_record, WIRE_TORCH_GROUPS, TORCH_GROUP);
	if (!r)
		return 0;
	__builtin_memset(&r->body, 0, sizeof(r->body));
	names = user_arg(ctx, skipped + 2);
	r->body.seq = user_arg(ctx, skipped + 3);
	r->body.p2p_seq = user_arg(ctx, skipped + 4);
	/* libstdc++ lays a tuple out from its last element to its first. */
	string_read(names, r->body.desc, sizeof(r->body.desc));
	string_read(names + rows[row].string_bytes, r->body.name, sizeof(r->body.name));
	string_read(user_arg(ctx, skipped + 6), r->body.title, sizeof(r->body.title));
	record_submit(r);
	return 0;
}
