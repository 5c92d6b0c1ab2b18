/* SPDX-License-Identifier: Apache-2.0
 *
 * laps.c - see laps.h.
 */
#include "session/parts/laps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static struct lap_cpu cpu_read(void)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	char text[96] = "";
	struct lap_cpu c = { 0 };

	if (fd < 0)
		return c;
	if (read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%" SCNu64 " %" SCNu64, &c.on_ns, &c.ready_ns) != 2)
		c = (struct lap_cpu){ 0 };
	close(fd);
	return c;
}

void laps_add(struct laps *l, enum lap lap)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (l->at_ns)
		l->ns[lap] += now_ns - l->at_ns;
	else
		l->cpu = cpu_read();
	l->at_ns = now_ns;
}

void laps_gap(struct laps *l, uint64_t gap_ns)
{
	struct lap_cpu now = cpu_read();

	if (gap_ns > l->gap_ns) {
		l->gap_ns = gap_ns;
		l->most = LAP_IDLE;
		for (int i = 0; i < LAPS; i++)
			if (l->ns[i] > l->ns[l->most])
				l->most = i;
		l->most_ns = l->ns[l->most];
		l->gap_cpu = (struct lap_cpu){ now.on_ns - l->cpu.on_ns, now.ready_ns - l->cpu.ready_ns };
	}
	l->cpu = now;
	memset(l->ns, 0, sizeof(l->ns));
}

const char *lap_name(enum lap lap)
{
	static const char *const names[LAPS] = {
		[LAP_IDLE] = "waiting",      [LAP_RINGS] = "reading rings",
		[LAP_TARGETS] = "attaching", [LAP_SCAN] = "scanning processes",
		[LAP_SAMPLERS] = "sampling", [LAP_STACKS] = "reading stacks",
		[LAP_TICK] = "at a tick",    [LAP_RECORDS] = "in model and outputs",
		[LAP_WRITE] = "writing",
	};

	return names[lap];
}
