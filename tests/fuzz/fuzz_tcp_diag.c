/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tcp_diag.c - answers of sock_diag, whose lengths the parser must not believe, and lines of /proc/net/dev.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/net/tcp_diag.h"
#include "tracers/tcp/tcp_net.h"

static uint64_t sum;

static void each(void *of, const struct diag_socket *s)
{
	uint64_t counters[TCP_COUNTERS];

	(void)of;
	tcp_diag_counters(s, counters);
	for (int i = 0; i < TCP_COUNTERS; i++)
		sum += counters[i];
	for (size_t i = 0; i < s->info_bytes; i++) /* all of it is ours to read */
		sum += s->info[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_text(data, size), name[16];
	uint64_t received, sent;
	int rc = tcp_diag_parse(data, size, each, NULL);

	if (rc > 1 || rc < -4095)
		abort();
	if (tcp_net_line(line, name, &received, &sent) && !memchr(name, 0, sizeof(name)))
		abort();
	free(line);
	return 0;
}
