/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_nvml.c - what comes from the child that runs the driver's library, at any time and in any order: packets cut
 * out of the input, to the very function that takes them. What passes is a whole record of a kind that GPUs have.
 */
#include "tracers/gpu/nvml.c" /* the function is its own */

#include "tests/fuzz/fuzz.h"

static int emitted(void *to, const struct wire_hdr *rec)
{
	(void)to;
	if (rec->tracer != WIRE_COLLECTOR || rec->kind < RECORD_GPU_DEVICE || rec->kind > RECORD_GPU_STATE)
		abort();
	return 0;
}

static bool none_traced(const void *of, const struct target_proc *p)
{
	(void)of;
	return !p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target_set *targets;
	struct feed f = { data, size };
	uint64_t now_ns = SEC;

	if (!targets && target_set_new(NULL, NULL, 0, &targets))
		abort();
	struct sampler_ctx ctx = { .targets = targets, .emit = emitted, .is_traced = none_traced };
	struct nvml_sampler s = { .ctx = &ctx, .fd = -1 };

	while (f.left) {
		union {
			struct wire_hdr hdr;
			char bytes[1024];
		} u;
		size_t n = feed_number(&f, 1) * 4;

		feed_bytes(&f, &u, n);
		if (n % 8 == 0 && n >= sizeof(u.hdr)) { /* else few would have the right size */
			u.hdr.size = n;
			u.hdr.tracer = WIRE_COLLECTOR;
			u.hdr.kind = RECORD_GPU_DEVICE + u.hdr.kind % 5;
		}
		s.asked.what = 1u << feed_number(&f, 1) % 4;
		s.asked.number = n == sizeof(struct nvml_end) ? ((struct nvml_end *)&u)->number : 0;
		packet_take(&s, &u, n, now_ns += SEC / 2);
		if (s.n_gpus < 0 || s.n_gpus > NVML_DEVICES_MAX)
			abort();
	}
	return 0;
}
