/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_struct_layout.c - DWARF of a mapped file. elfutils reads it, in a worker that may die of it: a crash inside
 * elfutils is that one's; what is ours must bear whatever it says.
 */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tracers/nccl/nccl_layout.h"
#include "inspect/elf/struct_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const fields[] = { "startMagic", "rank", "inner.x", "inner.deep.y", "array" };
	struct struct_layout l;
	struct nccl_layout nccl;
	char path[32];
	int fd = fuzz_file(data, size, path);

	if (!struct_layout_read(fd, "ncclComm", fields, 5, &l)) {
		if (l.n != 5 || l.n_found > 5)
			abort();
		for (int i = 0; i < 5; i++)
			if (l.fields[i].found && l.size && l.fields[i].offset > l.size && l.size > 1u << 30)
				abort();
	}
	if (!nccl_layout_fetch(NULL, fd, &nccl) && nccl.n_counters > NCCL_SEQ_MAX)
		abort();
	return 0;
}
