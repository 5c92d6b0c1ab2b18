/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_io.h - what all sinks do alike: open the output, write a piece whole (base/write_whole.h), and make
 * foreign bytes fit to print (base/utf8.h).
 */
#ifndef RANKTRACE_SINK_IO_H
#define RANKTRACE_SINK_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/utf8.h"
#include "base/write_whole.h"

/* File for writing, emptied; "-" is stdout, "/dev/stderr" stderr (close_output() leaves both open). Descriptor or
 * -errno. */
int open_output(const char *path);
/* 0 or -errno of close(2), which is where some file systems report a full disk. */
int close_output(int fd);

#endif
