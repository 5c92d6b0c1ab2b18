/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.c - see storage.h.
 */
#include "tracers/sched/storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "inspect/stack/mount.h"
#include "tracers/sched/sched.h"
#include "uthash.h"

#define MOUNT_LEN 512

struct storage_seen {
	struct storage_key key;
	uint64_t blocked_ns; /* as emitted */
	bool in_scan;
	char mount[MOUNT_LEN];
	UT_hash_handle hh;
};

/* Numbers come from the compiler's headers, so that each architecture has its own. Not here: what waits for other
 * programs and not for storage (flock, fcntl), and io_uring and libaio, whose work is no task's of the process. */
#define BY_FILE(name, act) [SYS_##name] = STORAGE_##act
#define BY_PATH(name, act) [SYS_##name] = STORAGE_##act | STORAGE_BY_PATH
static const uint32_t acts[STORAGE_CALLS_MAX] = {
	BY_FILE(read, READ),
	BY_FILE(pread64, READ),
	BY_FILE(readv, READ),
	BY_FILE(preadv, READ),
	BY_FILE(preadv2, READ),
	BY_FILE(readahead, READ),
	BY_FILE(write, WRITE),
	BY_FILE(pwrite64, WRITE),
	BY_FILE(writev, WRITE),
	BY_FILE(pwritev, WRITE),
	BY_FILE(pwritev2, WRITE),
	BY_FILE(fallocate, WRITE),
	BY_FILE(copy_file_range, WRITE),
	BY_FILE(sendfile, WRITE),
	BY_FILE(fsync, FLUSH),
	BY_FILE(fdatasync, FLUSH),
	BY_FILE(syncfs, FLUSH),
	BY_FILE(sync_file_range, FLUSH),
	BY_FILE(close, CLOSE),
	BY_FILE(ftruncate, NAMES),
	BY_FILE(getdents64, NAMES),
	BY_FILE(fstat, NAMES),
	BY_PATH(openat, OPEN),
	BY_PATH(openat2, OPEN),
	BY_PATH(newfstatat, NAMES),
	BY_PATH(statx, NAMES),
	BY_PATH(truncate, NAMES),
	BY_PATH(faccessat, NAMES),
	BY_PATH(faccessat2, NAMES),
	BY_PATH(renameat, NAMES),
	BY_PATH(renameat2, NAMES),
	BY_PATH(unlinkat, NAMES),
	BY_PATH(mkdirat, NAMES),
	BY_PATH(linkat, NAMES),
	BY_PATH(symlinkat, NAMES),
	BY_PATH(readlinkat, NAMES),
	BY_PATH(execve, OPEN),
#ifdef SYS_open /* the old calls that arm64 never had */
	BY_PATH(open, OPEN),
	BY_PATH(creat, OPEN),
	BY_PATH(stat, NAMES),
	BY_PATH(lstat, NAMES),
	BY_PATH(access, NAMES),
	BY_PATH(rename, NAMES),
	BY_PATH(unlink, NAMES),
	BY_PATH(mkdir, NAMES),
	BY_PATH(rmdir, NAMES),
	BY_PATH(link, NAMES),
	BY_PATH(symlink, NAMES),
	BY_PATH(readlink, NAMES),
	BY_FILE(getdents, NAMES),
#endif
};

uint32_t storage_call_act(uint32_t nr)
{
	return nr < STORAGE_CALLS_MAX ? acts[nr] : STORAGE_NONE;
}

int storage_start(struct tracer_handle *h)
{
	int err = 0;

	for (uint32_t nr = 0; nr < STORAGE_CALLS_MAX && !err; nr++)
		if (acts[nr])
			err = tracer_map_put(h, "storage_calls", &nr, &acts[nr]);
	return err;
}

/* Of a process that is gone, as another one has it. */
static void mount_of_others(const struct storage_scan *s, uint32_t device, char *to)
{
	for (const struct storage_seen *o = s->seen; o; o = o->hh.next)
		if (STORAGE_DEVICE(o->key.at) == device && *o->mount) {
			memcpy(to, o->mount, MOUNT_LEN);
			return;
		}
}

static struct storage_seen *seen_get(struct storage_scan *s, const struct storage_key *key)
{
	uint32_t device = STORAGE_DEVICE(key->at);
	struct storage_seen *t;
	char list[64];

	HASH_FIND(hh, s->seen, key, sizeof(*key), t);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = *key;
	snprintf(list, sizeof(list), "/proc/%u/mountinfo", key->tgid);
	if (device && !mount_of_device(list, device >> STORAGE_MINOR_BITS, device & ((1u << STORAGE_MINOR_BITS) - 1),
				       t->mount, sizeof(t->mount)))
		mount_of_others(s, device, t->mount);
	HASH_ADD(hh, s->seen, key, sizeof(*key), t);
	return t;
}

static int sum_emit(struct tracer_handle *h, const struct storage_seen *t, const struct storage_sum *sum,
		    uint64_t now_ns)
{
	union {
		struct sched_storage r;
		char bytes[sizeof(struct sched_storage) + MOUNT_LEN];
	} u = {};
	size_t len = strlen(t->mount) + 1;

	u.r.body = *sum;
	u.r.mount_len = len;
	memcpy(u.r.text, t->mount, len);
	u.r.hdr = (struct wire_hdr){ .size = (sizeof(u.r) + len + 7) & ~7ul,
				     .tracer = WIRE_SCHED,
				     .kind = SCHED_STORAGE,
				     .tid = t->key.tgid,
				     .tgid = t->key.tgid,
				     .ts_ns = now_ns };
	return tracer_emit(h, &u.r.hdr);
}

static int sum_scan(struct tracer_handle *h, struct storage_scan *s, const struct storage_key *key, uint64_t now_ns)
{
	struct storage_seen *t = seen_get(s, key);
	struct storage_sum sum;
	uint64_t since;

	if (!t)
		return -ENOMEM;
	t->in_scan = true;
	if (tracer_map_get(h, "storage_sums", key, &sum))
		return 0;
	if (!tracer_generation(h, key->tgid, &since))
		tracer_map_delete(h, "storage_sums", key); /* its last word */
	if (sum.blocked_ns <= t->blocked_ns)
		return 0;
	t->blocked_ns = sum.blocked_ns;
	return sum_emit(h, t, &sum, now_ns);
}

static void seen_sweep(struct storage_scan *s)
{
	struct storage_seen *t, *next;

	HASH_ITER (hh, s->seen, t, next) {
		if (!t->in_scan) {
			HASH_DELETE(hh, s->seen, t);
			free(t);
			continue;
		}
		t->in_scan = false;
	}
}

int storage_scan_tick(struct tracer_handle *h, struct storage_scan *s, uint64_t now_ns)
{
	struct storage_key key, next;
	int err = 0, more;

	more = tracer_map_next(h, "storage_sums", NULL, &next);
	while (!more && !err) {
		key = next;
		more = tracer_map_next(h, "storage_sums", &key, &next); /* before the key may go */
		err = sum_scan(h, s, &key, now_ns);
	}
	seen_sweep(s);
	return err;
}

void storage_scan_free(struct storage_scan *s)
{
	struct storage_seen *t, *next;

	HASH_ITER (hh, s->seen, t, next) {
		HASH_DELETE(hh, s->seen, t);
		free(t);
	}
}
