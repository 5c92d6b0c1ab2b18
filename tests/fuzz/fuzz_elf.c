/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_elf.c - a mapped file that says it is ELF: facts, functions by name and by class, names by offset; kernels, if
 * it says it is a core dump of CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/elf/elf_file.h"
#include "inspect/elf/gpu_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "main", "ncclAllReduce", "environ", "f", "", "_Z*", "N4test5thing[1]" };
	uint64_t offsets[16];
	struct elf_symbol symbols[7];
	struct elf_name found[16];
	static struct elf_exports exports;
	static struct gpu_core core;
	struct elf_file *f;
	char path[32], hex[2 * ELF_BUILD_ID_MAX + 1];
	struct feed feed = { data, size };

	gpu_core_read(fuzz_file(data, size, path), &core);
	if (core.n > GPU_CORE_KERNELS_MAX)
		abort();
	if (elf_file_open(fuzz_file(data, size, path), &f))
		return 0;
	elf_facts_build_id(elf_file_facts(f), hex);
	if (elf_file_find(f, names, 7, symbols) < 0)
		abort();
	for (int i = 0; i < 7; i++)
		if (symbols[i].found && !elf_facts_in_text(elf_file_facts(f), symbols[i].offset))
			abort();
	for (int i = 0; i < 16; i++)
		offsets[i] = i < 8 ? (uint64_t)i * size / 8 : feed_number(&feed, 8);
	elf_file_name(f, offsets, 16, found);
	for (int i = 0; i < 16; i++)
		if (strnlen(found[i].name, ELF_SYMBOL_NAME_MAX) == ELF_SYMBOL_NAME_MAX)
			abort();
	elf_file_exports(f, "n", &exports);
	if (exports.n > ELF_EXPORTS_MAX)
		abort();
	elf_file_free(f);
	return 0;
}
