/* SPDX-License-Identifier: Apache-2.0
 *
 * confine.h - what a process of ours gives up for good: its user, capabilities, system calls. Who keeps what is a table
 * in docs/security.md, which tests/hostile/test_privileges.py holds against /proc.
 */
#ifndef RANKTRACE_BASE_CONFINE_H
#define RANKTRACE_BASE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#define UNPRIVILEGED_ID 65534 /* the same user and group on every distribution of today */

/* A report of a sanitizer needs more than a filter leaves, and its shadow more memory than any limit. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer)
#define CONFINE_SANITIZED 1
#else
#define CONFINE_SANITIZED 0
#endif

/*
 * Each is for the calling thread, and for good: a process has one yet, but for the collector, whose second thread has
 * less already (confine_hurry()). 0, or -errno: it must end then. What it does not have it cannot keep; without the
 * right to change its user (a container of one user), or to signal another one, it stays who it is.
 */

/* The loop that attaches, reads rings, opens files: root, with the capabilities that this takes. *admin: CAP_SYS_ADMIN
 * stays, as the caller wants, or as this kernel (before 5.8), or container, has none of those that replace it. */
int confine_collector(bool *admin);
/* The thread that sees to the loop's turn (session/parts/hurry.h), and it alone: it begins before the loop gives up
 * what loading takes. It may change priorities. */
int confine_hurry(void);
/* Root of the workers, which it forks and confines. */
int confine_zygote(void);
/* A worker that looks into processes. */
int confine_reader(void);
/* One that looks at files it was handed: another user, and no capability. */
int confine_parser(void);
/* Has no capability. */
int confine_child(void);
/* What speaks to a bus, through a library of others. It has no capability, and stays its caller's user, whose files of
 * keys it reads again whenever it connects. */
int confine_bus(void);
/* Writes to no file but these (and below them), makes, removes, runs none: where the kernel has Landlock (5.13). */
int confine_writes(const char *const *paths, size_t n);
/* A command that reads recordings: as a parser. */
int confine_replay(void);
/* What it leaves behind to rename its outputs (keeper.h). */
int confine_keeper(void);
/* A server on the network: as a parser. */
int confine_server(void);

/* From here on any other call kills it. A reader may open for reading, read memory, ask the kernel about sockets,
 * sample threads; a parser may look at what it holds, and answer; a replay may write to it, too; a keeper may open for
 * reading, rename, unlink; a server may take connections on the socket that it has, read and answer; the thread of
 * hurry.h may wait, read what is open, and set who runs first. */
int confine_hurry_calls(void);
int confine_reader_calls(void);
int confine_parser_calls(void);
int confine_replay_calls(void);
int confine_keeper_calls(void);
int confine_server_calls(void);
/* As a replay, and what a terminal takes; a child process of its own may be waited for. */
int confine_screen_calls(void);
/* Fails, with EPERM, memory of others, tracing, files by handle, the machine. */
int confine_collector_calls(void);
/* Fails, with EPERM, what it takes to act on others: programs, processes, signals, sockets, new files, the machine. */
int confine_child_calls(void);
/* The same, but for sockets. */
int confine_bus_calls(void);

#endif
