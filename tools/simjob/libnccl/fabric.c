// SPDX-License-Identifier: Apache-2.0
/*
 * See fabric.h. Cells come in pairs, used in turn: a rank posts operation n+2 only after n+1 is complete, and n+1 is
 * complete only when every peer has posted it, which a peer does after it has read n. So two cells are enough and
 * no rank overwrites what a peer still reads.
 */
#include "tools/simjob/libnccl/fabric.h"

#include "tools/simjob/libnccl/mix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

/* Opens for the n-th time when nr_ranks * n ranks have come. */
struct fabric_gate {
	_Atomic uint32_t arrived;
	_Atomic uint32_t opened; /* futex */
};

struct fabric_side {
	_Atomic uint32_t posted; /* futex: transfers posted so far */
	struct fabric_post posts[2];
};

struct fabric_pair {
	struct fabric_side send, recv;
	_Atomic uint32_t taken; /* futex: transfers that the receiver has copied, with SIM_CUDA_COMPUTE */
};

struct fabric_cell {
	struct fabric_post posts[2];
	int32_t colors[2], keys[2];
	_Atomic uint32_t published; /* futex: child_index of the child's key below */
	struct fabric_key child;
	char address[FABRIC_ADDRESS_BYTES] __attribute__((aligned(8)));
} __attribute__((aligned(64)));

struct fabric_segment {
	uint64_t nonce[2];
	_Atomic uint32_t nr_ranks;
	_Atomic uint32_t owner_closed;
	struct fabric_gate attach;
	struct fabric_gate meets[2];
	struct fabric_gate exchanges[2];
	struct fabric_cell cells[] __attribute__((aligned(64)));
	/* struct fabric_pair pairs[nr_ranks * nr_ranks], [from * nr_ranks + to] */
};

static size_t segment_size(int nr_ranks)
{
	size_t n = nr_ranks;

	return sizeof(struct fabric_segment) + n * sizeof(struct fabric_cell) + n * n * sizeof(struct fabric_pair);
}

static struct fabric_pair *segment_pair(const struct fabric *fabric, int from, int to)
{
	struct fabric_pair *pairs = (struct fabric_pair *)&fabric->segment->cells[fabric->nr_ranks];

	return &pairs[(size_t)from * fabric->nr_ranks + to];
}

int fabric_key_create(struct fabric_key *ret_key)
{
	struct fabric_key key = { .owner_pid = getpid() };
	int err;

	if (getrandom(key.nonce, sizeof(key.nonce), 0) != sizeof(key.nonce))
		return -errno;
	key.owner_fd = memfd_create("nccl-fabric", MFD_CLOEXEC);
	if (key.owner_fd < 0)
		return -errno;
	if (pwrite(key.owner_fd, key.nonce, sizeof(key.nonce), 0) != sizeof(key.nonce)) {
		err = -errno;
		close(key.owner_fd);
		return err;
	}
	*ret_key = key;
	return 0;
}

static int segment_map(struct fabric *fabric, int fd)
{
	struct stat st;
	void *base;

	fabric->size_bytes = segment_size(fabric->nr_ranks);
	if (fstat(fd, &st) < 0)
		return -errno;
	/* All ranks grow it to the same size, in any order. */
	if ((size_t)st.st_size < fabric->size_bytes && ftruncate(fd, fabric->size_bytes) < 0)
		return -errno;
	base = mmap(NULL, fabric->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	fabric->segment = base;
	return 0;
}

static int segment_check(struct fabric *fabric, const struct fabric_key *key)
{
	uint32_t none = 0;

	if (memcmp(fabric->segment->nonce, key->nonce, sizeof(key->nonce)))
		return -ESTALE;
	if (!atomic_compare_exchange_strong(&fabric->segment->nr_ranks, &none, fabric->nr_ranks) &&
	    none != (uint32_t)fabric->nr_ranks)
		return -EINVAL;
	return 0;
}

int fabric_open(struct fabric *fabric, const struct fabric_key *key, int nr_ranks, int rank)
{
	char path[64];
	int fd, err;

	*fabric = (struct fabric){ .nr_ranks = nr_ranks, .rank = rank };
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", key->owner_pid, key->owner_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	err = segment_map(fabric, fd);
	close(fd);
	if (err)
		return err;
	err = segment_check(fabric, key);
	if (err)
		fabric_close(fabric);
	return err;
}

void fabric_close(struct fabric *fabric)
{
	if (fabric->segment)
		munmap(fabric->segment, fabric->size_bytes);
	fabric->segment = NULL;
}

void fabric_address_put(struct fabric *fabric, const void *address, size_t size)
{
	if (size > FABRIC_ADDRESS_BYTES) {
		fprintf(stderr, "libnccl stand-in: an address of %zu bytes, there is room for %d\n", size,
			FABRIC_ADDRESS_BYTES);
		abort();
	}
	memcpy(fabric->segment->cells[fabric->rank].address, address, size);
}

const void *fabric_address(const struct fabric *fabric, int rank)
{
	return fabric->segment->cells[rank].address;
}

static int word_wait(struct fabric *fabric, const _Atomic uint32_t *word, uint32_t seen)
{
	if (fabric->aborted)
		return -ECANCELED;
	futex_wait(word, seen, 0);
	return 0;
}

static int gate_pass(struct fabric *fabric, struct fabric_gate *gate, uint32_t generation)
{
	uint32_t arrived = atomic_fetch_add(&gate->arrived, 1) + 1;
	uint32_t opened;
	int err = 0;

	if (arrived == (uint32_t)fabric->nr_ranks * (generation + 1)) {
		atomic_store(&gate->opened, generation + 1);
		futex_wake_all(&gate->opened);
		return 0;
	}
	while (!err && (int32_t)((opened = gate->opened) - (generation + 1)) < 0)
		err = word_wait(fabric, &gate->opened, opened);
	return err;
}

/* The owner is the process that asked for the unique id, which need not be rank 0; several ranks may live in its
 * process. */
static void owner_close(struct fabric *fabric, const struct fabric_key *key)
{
	if (key->owner_pid == getpid() && !atomic_exchange(&fabric->segment->owner_closed, 1))
		close(key->owner_fd);
}

int fabric_attach(struct fabric *fabric, const struct fabric_key *key)
{
	int err = gate_pass(fabric, &fabric->segment->attach, 0);

	if (!err)
		owner_close(fabric, key);
	return err;
}

/* Where real NCCL would hang or corrupt memory, the simulated operation hangs. */
static int stay_blocked(struct fabric *fabric, const _Atomic uint32_t *word)
{
	int err = 0;

	while (!err)
		err = word_wait(fabric, word, *word);
	return err;
}

int fabric_meet(struct fabric *fabric, uint32_t index, const struct fabric_post *mine, struct fabric_post *ret_all)
{
	struct fabric_gate *gate = &fabric->segment->meets[index & 1];
	struct fabric_cell *cells = fabric->segment->cells;
	struct fabric_post all = *mine;
	int i, err;

	cells[fabric->rank].posts[index & 1] = *mine;
	err = gate_pass(fabric, gate, index >> 1);
	if (err)
		return err;
	all.value = 0;
	for (i = 0; i < fabric->nr_ranks; i++) {
		struct fabric_post *post = &cells[i].posts[index & 1];

		if (post->signature != mine->signature)
			return stay_blocked(fabric, &gate->opened);
		all.value = mix(all.value, post->value);
		if (post->ready_ns > all.ready_ns)
			all.ready_ns = post->ready_ns;
	}
	*ret_all = all;
	return 0;
}

const struct fabric_post *fabric_post_of(const struct fabric *fabric, int rank, uint32_t index)
{
	return &fabric->segment->cells[rank].posts[index & 1];
}

/* My side and the peer's of a transfer. */
static struct fabric_side *transfer_side(struct fabric *fabric, const struct fabric_transfer *mine, bool is_mine)
{
	int from = mine->is_send ? fabric->rank : mine->peer;
	int to = mine->is_send ? mine->peer : fabric->rank;
	struct fabric_pair *pair = segment_pair(fabric, from, to);

	return mine->is_send == is_mine ? &pair->send : &pair->recv;
}

void fabric_transfer_post(struct fabric *fabric, const struct fabric_transfer *mine)
{
	struct fabric_side *side = transfer_side(fabric, mine, true);

	side->posts[mine->index & 1] = mine->post;
	atomic_store(&side->posted, mine->index + 1);
	futex_wake_all(&side->posted);
}

int fabric_transfer_wait(struct fabric *fabric, const struct fabric_transfer *mine, struct fabric_post *ret_both)
{
	struct fabric_side *side = transfer_side(fabric, mine, false);
	struct fabric_post *post = &side->posts[mine->index & 1];
	uint32_t posted;
	int err = 0;

	while (!err && (int32_t)((posted = side->posted) - (mine->index + 1)) < 0)
		err = word_wait(fabric, &side->posted, posted);
	if (err)
		return err;
	if (post->signature != mine->post.signature)
		return stay_blocked(fabric, &side->posted);
	*ret_both = *post;
	if (mine->post.ready_ns > post->ready_ns)
		ret_both->ready_ns = mine->post.ready_ns;
	return 0;
}

void fabric_transfer_take(struct fabric *fabric, const struct fabric_transfer *mine)
{
	struct fabric_pair *pair = segment_pair(fabric, mine->peer, fabric->rank);

	atomic_store(&pair->taken, mine->index + 1);
	futex_wake_all(&pair->taken);
}

int fabric_transfer_taken(struct fabric *fabric, const struct fabric_transfer *mine)
{
	struct fabric_pair *pair = segment_pair(fabric, fabric->rank, mine->peer);
	uint32_t taken;
	int err = 0;

	while (!err && (int32_t)((taken = pair->taken) - (mine->index + 1)) < 0)
		err = word_wait(fabric, &pair->taken, taken);
	return err;
}

int fabric_exchange(struct fabric *fabric, uint32_t index, int color, int key, int *ret_colors, int *ret_keys)
{
	struct fabric_cell *cells = fabric->segment->cells;
	int i, err, turn = index & 1;

	cells[fabric->rank].colors[turn] = color;
	cells[fabric->rank].keys[turn] = key;
	err = gate_pass(fabric, &fabric->segment->exchanges[turn], index >> 1);
	for (i = 0; !err && i < fabric->nr_ranks; i++) {
		ret_colors[i] = cells[i].colors[turn];
		ret_keys[i] = cells[i].keys[turn];
	}
	return err;
}

void fabric_publish(struct fabric *fabric, uint32_t child_index, const struct fabric_key *child)
{
	struct fabric_cell *cell = &fabric->segment->cells[fabric->rank];

	cell->child = *child;
	atomic_store(&cell->published, child_index);
	futex_wake_all(&cell->published);
}

int fabric_learn(struct fabric *fabric, int leader, uint32_t child_index, struct fabric_key *ret_child)
{
	struct fabric_cell *cell = &fabric->segment->cells[leader];
	uint32_t published;
	int err = 0;

	while (!err && (published = cell->published) != child_index)
		err = word_wait(fabric, &cell->published, published);
	if (!err)
		*ret_child = cell->child;
	return err;
}

void fabric_abort(struct fabric *fabric)
{
	struct fabric_segment *segment = fabric->segment;
	int i;

	atomic_store(&fabric->aborted, 1);
	futex_wake_all(&segment->attach.opened);
	for (i = 0; i < 2; i++) {
		futex_wake_all(&segment->meets[i].opened);
		futex_wake_all(&segment->exchanges[i].opened);
	}
	for (i = 0; i < fabric->nr_ranks; i++) {
		futex_wake_all(&segment_pair(fabric, fabric->rank, i)->recv.posted);
		futex_wake_all(&segment_pair(fabric, i, fabric->rank)->send.posted);
		futex_wake_all(&segment_pair(fabric, fabric->rank, i)->taken);
		futex_wake_all(&segment->cells[i].published);
	}
}
