/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - messages of commands on stderr: object, cause, remedy, once. Library code does not print.
 */
#ifndef RANKTRACE_LOG_H
#define RANKTRACE_LOG_H

#include <stdbool.h>

extern bool log_verbose, log_debugging, log_quiet; /* --verbose, --verbose twice, --quiet */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* not with --quiet */
void log_detail(const char *format, ...) __attribute__((format(printf, 1, 2))); /* only with --verbose */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* only with --verbose twice */

#endif
