/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * cookie.h - the 64 bits that a probe hands to its program: which row of the tracer's table, which library, what a call
 * costs the process, and whether that has return probes at all. Made by user/attach.c, read by the programs.
 */
#ifndef RANKTRACE_COOKIE_H
#define RANKTRACE_COOKIE_H

/* A filter that the target installs later takes its return probes away: a program that sees one counts on none. */
#define COOKIE_RETURNS_END_BY_SECCOMP (1ull << 62)
#define COOKIE_ROW_MAX 0xffffu
#define COOKIE_NO_RETURNS (1ull << 63) /* return probes were left out: what is in flight ends with the next call */
#define COOKIE(row, lib) ((row) | (__u64)(lib) << 16)
#define COOKIE_ROW(cookie) ((__u32)(cookie)&COOKIE_ROW_MAX)
#define COOKIE_LIB(cookie) ((__u32)((cookie) >> 16) & 0xffffu)
/* The group for which a call is counted; its traps, 1 at its entry and one more if its return is probed, too; and their
 * price. */
#define COOKIE_PAYS(group, traps, price) ((__u64)(group) << 32 | (__u64)(traps) << 35 | (__u64)(price) << 37)
#define COOKIE_GROUP(cookie) ((__u32)((cookie) >> 32) & 7u)
#define COOKIE_TRAPS(cookie) ((__u32)((cookie) >> 35) & 3u)
#define COOKIE_PRICE_MAX 0xffffu
#define COOKIE_PRICE(cookie) ((__u32)((cookie) >> 37) & COOKIE_PRICE_MAX)
#define COOKIE_NONE 0xffffffffull /* no table has as many rows and libraries */

/* Where the kernel hands no cookie over (before 5.15) the program finds it by the probe's address. */
#define COOKIES_MAX 262144
struct cookie_key {
	__u64 ip;
	__u32 tgid, reserved;
};

#endif
