/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * cookie.h - the 64 bits that a probe hands to its program: which row of the tracer's table, which library, and
 * whether this process has return probes at all. Made by user/attach.c, read by the programs.
 */
#ifndef RANKTRACE_COOKIE_H
#define RANKTRACE_COOKIE_H

/* A filter that the target installs later takes its return probes away: a program that sees one counts on none. */
#define COOKIE_RETURNS_END_BY_SECCOMP (1ull << 62)
#define COOKIE_ROW_MAX 0xffffu
#define COOKIE_NO_RETURNS (1ull << 63) /* return probes were left out: what is in flight ends with the next call */
#define COOKIE(row, lib) ((row) | (__u64)(lib) << 16)
#define COOKIE_ROW(cookie) ((__u32)(cookie) & COOKIE_ROW_MAX)
#define COOKIE_LIB(cookie) ((__u32)((cookie) >> 16) & 0xffffu)
#define COOKIE_NONE 0xffffffffull /* no table has as many rows and libraries */

/* Where the kernel hands no cookie over (before 5.15) the program finds it by the probe's address. */
#define COOKIES_MAX 262144
struct cookie_key { __u64 ip; __u32 tgid, reserved; };

#endif
