/* SPDX-License-Identifier: Apache-2.0
 *
 * doctored_nccl.c - NCCL with one wrong element: what is not here comes from the real library that this one is linked
 * to. On the GPU that DOCTORED_GPU numbers, each all-reduce is followed by a write of one byte into what it received.
 * Built and used by stress_nccl.py on a GPU machine.
 */
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*all_reduce_fn)(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
typedef int (*memset_fn)(unsigned long long at, unsigned char value, size_t n, void *stream);
typedef int (*device_fn)(int *device);

#define AT 4099 /* inside of an element in the middle of the smallest size under test */

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *nccl = dlopen("libnccl.so.2", RTLD_NOW);
	const char *bad = getenv("DOCTORED_GPU");
	int device = -1;
	int rc = ((all_reduce_fn)dlsym(nccl, "ncclAllReduce"))(from, to, count, type, op, comm, stream);

	((device_fn)dlsym(driver, "cuCtxGetDevice"))(&device);
	if (!rc && bad && atoi(bad) == device)
		rc = ((memset_fn)dlsym(driver, "cuMemsetD8Async"))((unsigned long long)to + AT, 0x5a, 1, stream);
	return rc;
}
