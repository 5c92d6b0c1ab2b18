/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_away.c - the collector's heartbeat, which the BPF programs read: a collector that is stopped costs its targets
 * little more than the traps.
 *
 * What threads were in the middle of when it began is not known after it: each target begins a new generation before
 * the programs go on.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "attach/loader_internal.h"
#include "schemas/ring.h"

int heartbeat_map(struct loader *l)
{
	void *at =
		mmap(NULL, sizeof(*l->heartbeat), PROT_READ | PROT_WRITE, MAP_SHARED, loader_map_fd(l, "heartbeat"), 0);

	if (at == MAP_FAILED)
		return -errno;
	l->heartbeat = at;
	l->heartbeat->until_ns = clock_monotonic_ns() + COLLECTOR_AWAY_NS;
	l->heartbeat->clip_ns = OWN_CLIP_NS;
	return 0;
}

void heartbeat_unmap(struct loader *l)
{
	if (l->heartbeat)
		munmap(l->heartbeat, sizeof(*l->heartbeat));
	l->heartbeat = NULL;
}

void heartbeat_beat(struct loader *l)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns > l->heartbeat->until_ns) {
		l->away_ns += now_ns - l->heartbeat->until_ns;
		targets_generation_begin(l);
	}
	__atomic_store_n(&l->heartbeat->until_ns, now_ns + COLLECTOR_AWAY_NS, __ATOMIC_RELEASE);
}

uint64_t loader_away_ns(struct loader *l)
{
	uint64_t ns = l->away_ns;

	l->away_ns = 0;
	return ns;
}
