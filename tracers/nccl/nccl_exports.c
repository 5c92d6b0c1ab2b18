/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_exports.c - see nccl_exports.h.
 */
#include "tracers/nccl/nccl_exports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inspect/elf/elf_file.h"

#define SHOWN_MAX 8
#define DEADLINE_MS 1000

/* Questions, settings and memory, of NCCL 2.18 to 2.30: nothing runs on a stream. Begins of names. */
static const char *const quiet[] = {
	"ncclGet",
	"ncclCommCount",
	"ncclCommCuDevice",
	"ncclCommUserRank",
	"ncclCommGet",
	"ncclCommMem",
	"ncclCommQuery",
	"ncclCommRegister",
	"ncclCommDeregister",
	"ncclCommWindow",
	"ncclCommSuspend",
	"ncclCommResume",
	"ncclDevComm",
	"ncclGin",
	"ncclLsa",
	"ncclLLA2A",
	"ncclTeam",
	"ncclMem",
	"ncclParam",
	"ncclRedOp",
	"ncclResetDebug",
	"ncclWin",
	"ncclGroupSimulateEnd",
};

static bool is_quiet(const char *name)
{
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		if (!strncmp(name, quiet[i], strlen(quiet[i])))
			return true;
	return false;
}

int nccl_untraced(struct reader *reader, int fd, bool (*is_traced)(const char *name), char *to, size_t size)
{
	struct elf_exports exports;
	size_t at = 0;
	int n = 0, err = elf_fetch_exports(reader, fd, "nccl", DEADLINE_MS, &exports);

	*to = '\0';
	for (uint32_t i = 0; !err && i < exports.n; i++) {
		if (is_quiet(exports.names[i]) || is_traced(exports.names[i]))
			continue;
		if (n++ < SHOWN_MAX && at < size)
			at += snprintf(to + at, size - at, "%s%s", at ? ", " : "", exports.names[i]);
	}
	if (n > SHOWN_MAX && at < size)
		snprintf(to + at, size - at, " and %d more", n - SHOWN_MAX);
	return err ? err : n;
}
