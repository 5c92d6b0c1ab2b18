/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wire.c - every record is laid out alike for the kernel side (BTF of the BPF objects) and for the collector
 * (DWARF of the binary gcc made of the same headers).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <bpf/btf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/elf/struct_layout.h"

static const struct {
	const char *object, *source, *record;
} records[] = {
	{ "bpf/tracers/process/life.bpf.o", "ranktrace", "life_fork" },
	{ "bpf/tracers/process/life.bpf.o", "ranktrace", "life_exit" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_op" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_comm" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_init" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_ready" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_group" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_gone" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_signal" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_call" },
	{ "bpf/tracers/nccl/nccl.bpf.o", "ranktrace", "nccl_lib" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_sync" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_event_use" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_call" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_span" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_elapsed" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_capture" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_launch" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_in_flight" },
	{ "bpf/tracers/cuda/cuda.bpf.o", "ranktrace", "cuda_counts_value" },
	{ "bpf/tracers/sched/sched.bpf.o", "ranktrace", "sched_entry" },
	{ "bpf/tracers/sched/sched.bpf.o", "ranktrace", "sched_off" },
	{ "bpf/tracers/sched/sched.bpf.o", "ranktrace", "sched_storage_wait" },
	{ "bpf/tracers/torch/torch.bpf.o", "ranktrace", "torch_record" },
	{ "bpf/tracers/python/python.bpf.o", "ranktrace", "python_gc_record" },
	{ "bpf/tracers/torch/torch_groups.bpf.o", "ranktrace", "torch_group_record" },
	{ "bpf/tracers/gpu/xid.bpf.o", "ranktrace", "xid_record" },
	{ "bpf/tracers/tcp/tcp.bpf.o", "ranktrace", "tcp_record" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_qp_record" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_error" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_async" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_mr_record" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_cm" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_not_opened" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_burst" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_table_key" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_table" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_qp_key" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_counts" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_placed_key" },
	{ "bpf/tracers/rdma/verbs.bpf.o", "ranktrace", "verbs_placed" },
};

static const char *in_build(const char *file, char *path, size_t size)
{
	const char *o = getenv("O");

	snprintf(path, size, "%s/%s", o ? o : "build", file);
	return path;
}

static void record_compare(const char *object, const char *source, const char *record)
{
	char path[512];
	const char *names[STRUCT_FIELDS_MAX];
	struct struct_layout layout;
	struct btf *btf = btf__parse(in_build(object, path, sizeof(path)), NULL);
	const struct btf_type *t;
	int fd, id;

	assert_non_null(btf);
	id = btf__find_by_name_kind(btf, record, BTF_KIND_STRUCT);
	assert_true(id > 0);
	t = btf__type_by_id(btf, id);
	for (int i = 0; i < btf_vlen(t); i++)
		names[i] = btf__name_by_offset(btf, btf_members(t)[i].name_off);
	fd = open(in_build(source, path, sizeof(path)), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(struct_layout_read(fd, record, names, btf_vlen(t), &layout), 0);
	assert_int_equal(layout.size, t->size);
	for (int i = 0; i < btf_vlen(t); i++) {
		if (!layout.fields[i].found || layout.fields[i].offset * 8 != btf_member_bit_offset(t, i))
			fail_msg("%s.%s: kernel side at %u, collector at %u", record, names[i],
				 btf_member_bit_offset(t, i) / 8, layout.fields[i].offset);
	}
	close(fd);
	btf__free(btf);
}

static void records_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		record_compare(records[i].object, records[i].source, records[i].record);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(records_agree) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
