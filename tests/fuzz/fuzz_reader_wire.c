/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_reader_wire.c - packets on the socket between collector and helper: cut, with files nobody asked for, empty. No
 * file stays open.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/reader/reader_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = { data, size };
	int pair[2], fds[READER_HELLO_FDS], own[READER_HELLO_FDS], before = dup(0), after;
	size_t n_send = feed_number(&f, 1) % (READER_HELLO_FDS + 1),
	       n_want = feed_number(&f, 1) % (READER_HELLO_FDS + 1), n = 0;
	union {
		char bytes[64];
		struct reader_answer a;
	} got;
	ssize_t len;

	close(before);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return 0;
	for (size_t i = 0; i < n_send; i++)
		own[i] = dup(0);
	reader_send(pair[0], f.at, f.left < 200 ? f.left : 200, own, n_send);
	len = reader_recv(pair[1], &got, sizeof(got), fds, n_want, &n);
	if (len > (ssize_t)sizeof(got) || n > n_want)
		abort();
	for (size_t i = 0; len >= 0 && i < n; i++)
		close(fds[i]);
	for (size_t i = 0; i < n_send; i++)
		close(own[i]);
	close(pair[0]);
	close(pair[1]);
	after = dup(0);
	if (after != before)
		abort();
	close(after);
	return 0;
}
