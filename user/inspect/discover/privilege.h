/* SPDX-License-Identifier: Apache-2.0
 *
 * privilege.h - what every command checks before it traces. Each check says one thing: a code, and a sentence of the
 * form object, cause, remedy. Prints nothing.
 */
#ifndef RANKTRACE_TARGET_PRIVILEGE_H
#define RANKTRACE_TARGET_PRIVILEGE_H

#include <stddef.h>
#include <stdint.h>

enum privilege_problem {
	PRIVILEGE_OK,
	PRIVILEGE_NO_CAPABILITY,  /* neither CAP_SYS_ADMIN nor CAP_BPF with CAP_PERFMON; or no CAP_SYS_PTRACE */
	PRIVILEGE_USER_NAMESPACE, /* capabilities that count only inside a container */
	PRIVILEGE_PID_NAMESPACE,  /* pids here are not the kernel's */
	PRIVILEGE_NO_BTF,         /* the kernel does not describe its types */
	PRIVILEGE_NO_PROCESS,     /* no such pid, or a thread's */
};

/* All: `message` (size bytes) is filled when the answer is not PRIVILEGE_OK, else emptied. */
enum privilege_problem privilege_capabilities(char *message, size_t size);
enum privilege_problem privilege_reading(char *message, size_t size); /* other users' processes, from outside */
enum privilege_problem privilege_namespaces(char *message, size_t size);
/* `path` NULL: $RANKTRACE_BTF if set (for tests), else /sys/kernel/btf/vmlinux. */
enum privilege_problem privilege_btf(const char *path, char *message, size_t size);
enum privilege_problem privilege_process(uint32_t pid, char *message, size_t size);
/* The first problem of all of the above, in this order: namespaces, capabilities, BTF, then each pid. */
enum privilege_problem privilege_check(const uint32_t *pids, size_t n, char *message, size_t size);

#endif
