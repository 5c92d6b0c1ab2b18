/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.h - of MPI what NVIDIA's nccl-tests ask for, so that they run as a process for each GPU on a machine without MPI.
 * Processes of one host: RANK, WORLD_SIZE, and MPI_SHARED, a file that is not there before, which they share as memory.
 * Each has a slot; a call is: all write theirs, all wait, all read. A whole message fits a slot, else the process ends.
 */
#ifndef MPI_H
#define MPI_H

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MPI_SLOT_BYTES (1 << 20)
#define MPI_RANKS_MAX 64
#define MPI_IN_PLACE ((void *)-1)
#define MPI_SUCCESS 0

enum { MPI_COMM_WORLD };
enum { MPI_DATATYPE_NULL, MPI_BYTE, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT64_T, MPI_DOUBLE };
enum { MPI_SUM = 1, MPI_MIN, MPI_MAX };
typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Op;

struct mpi_shared {
	int arrived, turn; /* of the barrier */
	char slots[MPI_RANKS_MAX][MPI_SLOT_BYTES];
};

/* Weak: one for all files of a program. */
__attribute__((weak)) struct mpi_shared *mpi_all;
__attribute__((weak)) int mpi_rank, mpi_n;

static inline void mpi_fail(const char *what)
{
	fprintf(stderr, "mpi.h: %s\n", what);
	exit(1);
}

static inline int mpi_number(const char *name)
{
	const char *text = getenv(name);

	if (!text)
		mpi_fail("RANK, WORLD_SIZE and MPI_SHARED are not set");
	return atoi(text);
}

static inline int MPI_Init(int *argc, char ***argv)
{
	const char *path = getenv("MPI_SHARED");
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	void *at;

	(void)argc;
	(void)argv;
	mpi_rank = mpi_number("RANK");
	mpi_n = mpi_number("WORLD_SIZE");
	if (fd < 0 || mpi_n > MPI_RANKS_MAX || ftruncate(fd, sizeof(*mpi_all)))
		mpi_fail("the file of MPI_SHARED cannot be made");
	at = mmap(NULL, sizeof(*mpi_all), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		mpi_fail("the file of MPI_SHARED cannot be mapped");
	mpi_all = (struct mpi_shared *)at;
	close(fd);
	return MPI_SUCCESS;
}

static inline int MPI_Finalize(void)
{
	return MPI_SUCCESS;
}

static inline int MPI_Comm_rank(MPI_Comm comm, int *ret)
{
	(void)comm;
	*ret = mpi_rank;
	return MPI_SUCCESS;
}

static inline int MPI_Comm_size(MPI_Comm comm, int *ret)
{
	(void)comm;
	*ret = mpi_n;
	return MPI_SUCCESS;
}

/* All are of one color. */
static inline int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *ret)
{
	(void)color;
	(void)key;
	*ret = comm;
	return MPI_SUCCESS;
}

static inline int MPI_Comm_free(MPI_Comm *comm)
{
	(void)comm;
	return MPI_SUCCESS;
}

static inline int MPI_Barrier(MPI_Comm comm)
{
	int turn = __atomic_load_n(&mpi_all->turn, __ATOMIC_ACQUIRE);

	(void)comm;
	if (__atomic_add_fetch(&mpi_all->arrived, 1, __ATOMIC_ACQ_REL) == mpi_n) {
		__atomic_store_n(&mpi_all->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&mpi_all->turn, turn + 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&mpi_all->turn, __ATOMIC_ACQUIRE) == turn)
		sched_yield();
	return MPI_SUCCESS;
}

static inline size_t mpi_bytes(int count, MPI_Datatype type)
{
	size_t bytes = (size_t)count * (type == MPI_BYTE ? 1 : type == MPI_INT ? 4 : 8);

	if (bytes > MPI_SLOT_BYTES)
		mpi_fail("a message is larger than its slot");
	return bytes;
}

/* Everybody's; valid until mpi_done(). */
static inline void mpi_give(const void *mine, size_t bytes)
{
	memcpy(mpi_all->slots[mpi_rank], mine, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
}

static inline int mpi_done(void)
{
	return MPI_Barrier(MPI_COMM_WORLD);
}

static inline int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	size_t bytes = mpi_bytes(count, type);

	(void)comm;
	mpi_give(data, bytes);
	memcpy(data, mpi_all->slots[root], bytes);
	return mpi_done();
}

static inline int mpi_gather(const void *mine, int count, MPI_Datatype type, void *all, int is_mine)
{
	size_t bytes = mpi_bytes(count, type);

	mpi_give(mine == MPI_IN_PLACE ? (const char *)all + mpi_rank * bytes : (const char *)mine, bytes);
	for (int r = 0; r < mpi_n && is_mine; r++)
		memcpy((char *)all + r * bytes, mpi_all->slots[r], bytes);
	return mpi_done();
}

static inline int MPI_Gather(const void *mine, int count, MPI_Datatype type, void *all, int count_all,
			     MPI_Datatype type_all, int root, MPI_Comm comm)
{
	(void)count_all;
	(void)type_all;
	(void)comm;
	return mpi_gather(mine, count, type, all, root == mpi_rank);
}

static inline int MPI_Allgather(const void *mine, int count, MPI_Datatype type, void *all, int count_all,
				MPI_Datatype type_all, MPI_Comm comm)
{
	(void)comm;
	if (mine == MPI_IN_PLACE)
		return mpi_gather(mine, count_all, type_all, all, 1);
	return mpi_gather(mine, count, type, all, 1);
}

static inline double mpi_value(const char *at, MPI_Datatype type)
{
	int32_t i;
	int64_t l;
	double d;

	memcpy(&i, at, 4);
	if (type == MPI_INT)
		return i;
	memcpy(&l, at, 8);
	memcpy(&d, at, 8);
	return type == MPI_DOUBLE ? d : (double)l;
}

static inline void mpi_value_put(char *at, MPI_Datatype type, double v)
{
	int32_t i = (int32_t)v;
	int64_t l = (int64_t)v;

	memcpy(at, type == MPI_INT ? (void *)&i : type == MPI_DOUBLE ? (void *)&v : (void *)&l, mpi_bytes(1, type));
}

static inline double mpi_join(double a, double b, MPI_Op op)
{
	if (op == MPI_SUM)
		return a + b;
	return (op == MPI_MIN) == (a < b) ? a : b;
}

/* Whole numbers up to 2^53 are exact. In place alone, as nccl-tests do it. */
static inline int MPI_Allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	size_t one = mpi_bytes(1, type);

	(void)comm;
	mpi_give(mine == MPI_IN_PLACE ? all : mine, mpi_bytes(count, type));
	for (int i = 0; i < count; i++) {
		double v = mpi_value(mpi_all->slots[0] + i * one, type);

		for (int r = 1; r < mpi_n; r++)
			v = mpi_join(v, mpi_value(mpi_all->slots[r] + i * one, type), op);
		mpi_value_put((char *)all + i * one, type, v);
	}
	return mpi_done();
}

#endif
