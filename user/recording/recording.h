/* SPDX-License-Identifier: Apache-2.0
 *
 * recording.h - the .rtr file: the sorted stream of records in compressed chunks with checksums, readable up to the
 * last whole chunk whatever happened to the writer. Format: schemas/recording.md.
 */
#ifndef RANKTRACE_RECORDING_H
#define RANKTRACE_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/wire.h"

struct recording;

/* Creates `path`; "-" is stdout. 0 or -errno. */
int recording_create(const char *path, struct recording **ret);
/* Appends a record; writes a chunk when it is full. 0 or -errno (-ENOSPC: the file stays readable). */
int recording_put(struct recording *r, const struct wire_hdr *rec);
/* Writes the held records as a chunk of their own. 0 or -errno. */
int recording_flush(struct recording *r);
/* Records in whole chunks of the file. */
uint64_t recording_written(const struct recording *r);
/* Flushes and closes; frees `r` also on error. */
int recording_close(struct recording *r);

struct recording_reader;

/* Opens for reading; "-" is stdin. -EPROTO: not a recording; -EPROTONOSUPPORT: a newer format; or -errno. */
int recording_open(const char *path, struct recording_reader **ret);
/* Reads the next record, valid until the next call: 1 and *ret_rec; 0 at the clean end; -EBADMSG where a chunk is cut
 * off or damaged (all records before it were returned). */
int recording_next(struct recording_reader *r, const struct wire_hdr **ret_rec);
/* The same of an open file, from where it stands; takes `fd`, also on error. */
int recording_open_fd(int fd, struct recording_reader **ret);
/* The next record is in memory: recording_next() waits for nothing. */
bool recording_ready(const struct recording_reader *r);
/* From its first record on again. 0; -ESPIPE: it is no file. */
int recording_rewind(struct recording_reader *r);
void recording_reader_free(struct recording_reader *r);

#endif
