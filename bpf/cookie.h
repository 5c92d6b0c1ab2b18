/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * cookie.h - the 64 bits that a probe passes to its program: row in the tracer's table, library, cost of a call, and
 * whether the call has return probes. Made in user/attach, read by the BPF programs.
 */
#ifndef RANKTRACE_COOKIE_H
#define RANKTRACE_COOKIE_H

/* A filter that the target installs later removes its return probes: a program that sees one relies on none. */
#define COOKIE_RETURNS_END_BY_SECCOMP (1ull << 62)
#define COOKIE_ROW_MAX 0xffffu
#define COOKIE_NO_RETURNS (1ull << 63) /* return probes were left out: a call in flight ends with the next call */
#define COOKIE(row, lib) ((row) | (__u64)(lib) << 16)
#define COOKIE_ROW(cookie) ((__u32)(cookie)&COOKIE_ROW_MAX)
#define COOKIE_LIB(cookie) ((__u32)((cookie) >> 16) & 0xffffu)
/* The group that a call counts for; the number of traps (1 at the entry, one more for a probed return); their cost. */
#define COOKIE_PAYS(group, traps, price) ((__u64)(group) << 32 | (__u64)(traps) << 35 | (__u64)(price) << 37)
#define COOKIE_GROUP(cookie) ((__u32)((cookie) >> 32) & 7u)
#define COOKIE_TRAPS(cookie) ((__u32)((cookie) >> 35) & 3u)
#define COOKIE_PRICE_MAX 0xffffu
#define COOKIE_PRICE(cookie) ((__u32)((cookie) >> 37) & COOKIE_PRICE_MAX)
#define COOKIE_NONE 0xffffffffull /* no table has so many rows and libraries */

/* Where the kernel passes no cookie (before 5.15) the program finds it by the probe's address. */
#define COOKIES_MAX 262144
struct cookie_key {
	__u64 ip;
	__u32 tgid, reserved;
};

#endif
