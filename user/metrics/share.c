/* SPDX-License-Identifier: Apache-2.0
 *
 * share.c - see share.h.
 */
#include "metrics/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define COPIES_MAX 8

int share_new(struct share **ret, int *ret_fd)
{
	int fd = memfd_create("ranktrace-metrics", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;
	void *at = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct share)))
		err = -errno;
	if (!err)
		at = mmap(NULL, sizeof(struct share), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && (at == MAP_FAILED ||
		     fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)))
		err = -errno;
	if (err) {
		share_free(at == MAP_FAILED ? NULL : at);
		close(fd);
		return err;
	}
	*ret = at;
	*ret_fd = fd;
	return 0;
}

const struct share *share_map(int fd)
{
	void *at = mmap(NULL, sizeof(struct share), PROT_READ, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

void share_free(struct share *s)
{
	if (s)
		munmap(s, sizeof(*s));
}

size_t share_publish(struct share *s, const struct page *p, uint64_t now_ns)
{
	uint64_t turn = s->turn + 1;
	struct shared_page *to = &s->places[turn % 2];
	size_t at = 0, left_out = 0;

	to->made_ns = now_ns;
	for (size_t i = 0; i < METRICS; i++) {
		const struct page_family *f = &p->of[i];
		size_t len = f->len <= SHARE_TEXT_MAX - at ? f->len : 0;

		left_out += len != f->len;
		if (len)
			memcpy(to->text + at, f->text, len);
		to->of[i] = (struct shared_part){ .at = (uint32_t)at, .len = (uint32_t)len };
		at += len;
	}
	__atomic_store_n(&s->turn, turn, __ATOMIC_RELEASE);
	return left_out;
}

uint64_t share_turn(const struct share *s)
{
	return __atomic_load_n(&s->turn, __ATOMIC_ACQUIRE);
}

/* What a place holds; where it is written meanwhile, anything, and the copy does not count. */
static void place_copy(struct shared_page *to, const struct shared_page *from)
{
	size_t head = offsetof(struct shared_page, text), used;

	memcpy(to, from, head);
	used = (size_t)to->of[METRICS - 1].at + to->of[METRICS - 1].len;
	memcpy(to->text, from->text, used < SHARE_TEXT_MAX ? used : SHARE_TEXT_MAX);
}

uint64_t share_copy(const struct share *s, struct shared_page *ret)
{
	uint64_t turn = share_turn(s), after;

	for (int i = 0; turn && i < COPIES_MAX; i++) {
		place_copy(ret, &s->places[turn % 2]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = share_turn(s);
		if (after == turn)
			return turn;
		turn = after;
	}
	return 0;
}
