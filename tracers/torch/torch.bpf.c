// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* torch.bpf.c - PyTorch passes a mark: what it is, its row of torch_symbols.def says. One program for all entries and
 * one for returns, which needs no row: backward alone has one.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "tracers/torch/torch.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(torch_record);

/* record_function_enter_new(name, args) returns an object by a hidden pointer, which takes the first register on
 * x86-64. */
#if defined(__TARGET_ARCH_x86)
#define NAME_ARG 1
#else
#define NAME_ARG 0
#endif

static const __u8 rows[] = {
#define ENTRY(symbol, what, ...) TORCH_##what,
#define CALL(symbol, what, ...) TORCH_##what, TORCH_##what,
#include "tracers/torch/torch_symbols.def"
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* A std::string begins with the pointer to its bytes, which end with a zero byte, in both ABIs. */
static __always_inline void name_read(struct pt_regs *ctx, char *to)
{
	__u64 bytes = 0;

	bpf_probe_read_user(&bytes, sizeof(bytes), (void *)user_arg(ctx, NAME_ARG));
	if (bpf_probe_read_user_str(to, TORCH_NAME_LEN, (void *)bytes) < 0)
		to[0] = 0;
}

static __always_inline struct torch_record *mark_begin(__u16 what)
{
	struct torch_record *r = record_reserve(RING_NORMAL, struct torch_record, WIRE_TORCH, TORCH_MARK);

	if (!r)
		return NULL;
	__builtin_memset(&r->body, 0, sizeof(r->body));
	r->body.what = what;
	return r;
}

UPROBE_ENTRY(torch_enter)
{
	__u64 cookie = probe_cookie(ctx), row = COOKIE_ROW(cookie);
	struct torch_record *r;

	if (!target_call(bpf_get_current_pid_tgid() >> 32, cookie, RING_NORMAL) || row >= N_ROWS)
		return 0;
	barrier_var(row);
	r = mark_begin(rows[row]);
	if (!r)
		return 0;
	if (r->body.what == TORCH_RANGE_BEGIN)
		name_read(ctx, r->body.name);
	if (r->body.what == TORCH_BACKWARD_BEGIN && lacks_returns(cookie))
		r->body.flags = TORCH_NO_END;
	record_submit(r);
	return 0;
}

UPROBE_RETURN(torch_exit)
{
	struct torch_record *r;

	private_stack_refuse(ctx);
	if (!target_of(bpf_get_current_pid_tgid() >> 32) || collector_is_away())
		return 0;
	r = mark_begin(TORCH_BACKWARD_END);
	if (r)
		record_submit(r);
	return 0;
}
