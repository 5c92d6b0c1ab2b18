// SPDX-License-Identifier: Apache-2.0
/* See store.h. */
#include "tools/simjob/job/store.h"

#include <sys/mman.h>
#include <sys/stat.h>

static struct store *store_map(int fd, size_t size_bytes)
{
	void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return base == MAP_FAILED ? NULL : base;
}

struct store *store_create(int nr_ids, int *ret_fd)
{
	size_t size_bytes = sizeof(struct store) + nr_ids * sizeof(struct store_id);
	int fd = memfd_create("simjob-store", 0);
	struct store *store;

	if (fd < 0)
		return NULL;
	store = ftruncate(fd, size_bytes) < 0 ? NULL : store_map(fd, size_bytes);
	if (!store) {
		close(fd);
		return NULL;
	}
	store->nr_ids = nr_ids;
	*ret_fd = fd;
	return store;
}

struct store *store_attach(int fd)
{
	struct stat st;
	struct store *store;

	if (fstat(fd, &st) < 0)
		return NULL;
	store = store_map(fd, st.st_size);
	close(fd);
	return store;
}

void store_set_id(struct store *store, int index, const ncclUniqueId *id)
{
	store->ids[index].id = *id;
	atomic_store(&store->ids[index].is_set, 1);
	futex_wake_all(&store->ids[index].is_set);
}

void store_get_id(struct store *store, int index, ncclUniqueId *ret_id)
{
	while (!atomic_load(&store->ids[index].is_set))
		futex_wait(&store->ids[index].is_set, 0, 0);
	*ret_id = store->ids[index].id;
}
