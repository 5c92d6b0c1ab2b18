/* SPDX-License-Identifier: Apache-2.0
 *
 * path_share.h - for how large a share of the time something is on its way from one rank to another: handed to the
 * network and not through, by samples of NCCL's proxies (transmitted, and not done). In a ring all send alike, so these
 * shares are as the times that a slice takes on each way. Docs: docs/findings.md.
 */
#ifndef RANKTRACE_PATH_SHARE_H
#define RANKTRACE_PATH_SHARE_H

#include "base/keyed.h"
#include "model/ahead.h"

#define PATH_SAMPLES 128
#define PATH_WINDOW_NS 12000000000ull

struct path { /* from one member of a communicator to another */
	struct keyed keyed;
	const struct member *from, *to;
	struct path *next;                            /* of the communicator */
	uint64_t n_samples, samples_ns[PATH_SAMPLES]; /* ring */
	bool busy[PATH_SAMPLES];
};

struct paths {
	struct keyed_table paths;
	struct keyed_table comms; /* struct comm_paths */
};

/* Takes in the newest samples of this communicator. 0 or -ENOMEM. */
int paths_take(struct paths *s, const struct comm *c);
/* Its paths, the others by `next`; NULL: none was seen. */
struct path *paths_of(const struct paths *s, const struct comm *c);
struct path_samples {
	int n, busy;
};
/* Those in the window. */
struct path_samples path_samples(const struct path *p, uint64_t now_ns);
/* Of the samples in the window; -1: fewer than `least`. */
double path_share(const struct path *p, uint64_t now_ns, int least);
/* How much likelier it is that one sort of path is busier than the other than that both are alike: twice the logarithm
 * of the ratio of the likelihoods, with one degree of freedom. 26: by chance once in some millions. */
double path_samples_differ(struct path_samples one, struct path_samples other);
/* Paths of members that are no more. */
void paths_forget(struct paths *s, const struct model *m);
void paths_free(struct paths *s);

#endif
