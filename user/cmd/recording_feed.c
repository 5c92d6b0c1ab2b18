/* SPDX-License-Identifier: Apache-2.0
 *
 * recording_feed.c - see recording_feed.h.
 */
#include "cmd/recording_feed.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "command.h"
#include "recording/recording.h"
#include "session/outputs.h"

static const char *shown(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

static const char *open_remedy(int err)
{
	switch (err) {
	case -EPROTO: return "not a ranktrace recording (.rtr)";
	case -EPROTONOSUPPORT: return "the recording was made by a newer ranktrace; use that version";
	default: return strerror(-err);
	}
}

int recording_feed_open(const char *path, struct recording_reader **ret)
{
	int err = recording_open(path, ret);

	if (err)
		log_error("%s: %s", shown(path), open_remedy(err));
	return err ? EXIT_USAGE : EXIT_CLEAN;
}

/* 0: clean end, -EBADMSG: torn chunk, other -errno. */
static int records_feed(struct recording_reader *r, struct pipeline *p)
{
	const struct wire_hdr *rec;
	int more = 0, err = 0;

	while (!err && pipeline_has_output(p) && (more = recording_next(r, &rec)) == 1)
		err = pipeline_feed(p, rec);
	return err ? err : more < 0 ? more : 0;
}

int recording_feed(struct recording_reader *r, const char *path, struct pipeline *p)
{
	int err = records_feed(r, p);

	pipeline_flush(p);
	outputs_errors_say(p);
	if (err == -EBADMSG)
		log_warn("%s ends in a torn chunk (the writer was killed or the disk was full); all records before it "
			 "were used",
			 shown(path));
	else if (err)
		log_error("%s: %s", shown(path), strerror(-err));
	if (pipeline_undecoded(p))
		log_warn("%" PRIu64
			 " records are of a kind that this version does not know, or say what cannot be: skipped",
			 pipeline_undecoded(p));
	log_detail("%" PRIu64 " records, %" PRIu64 " operations, %" PRIu64 " findings", pipeline_records(p),
		   pipeline_model(p)->n_ops, incidents_opened(pipeline_incidents(p)));
	return err && err != -EBADMSG ? EXIT_INTERNAL : EXIT_CLEAN;
}
