/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_private.h - what the parts of the reading share. A system call leads to descriptors, to children, to a word of
 * memory or to a timer (wait_call.c, pure); descriptors lead to ends (wait_fds.c), an end that is a socket to its peer
 * (wait_sockets.c), and that to a process (wait_owners.c). The last three run in the reader's worker.
 */
#ifndef RANKTRACE_INSPECT_WAIT_PRIVATE_H
#define RANKTRACE_INSPECT_WAIT_PRIVATE_H

#include "inspect/wait/wait.h"

#define WAIT_FDS_MAX 64

/* ---- wait.c ---- */
enum wait_depth {
	WAIT_WHOLE,  /* with who is waited for, and what that one does */
	WAIT_THREAD, /* the same of another thread, which is no further followed */
	WAIT_BRIEF,  /* no other process is looked for */
};
int wait_sample(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, enum wait_depth depth,
		struct target_wait *ret);
void wait_name_read(uint32_t pid, uint32_t tid, char *to, size_t size); /* of a thread; `to` stays where it is gone */

/* ---- wait_threads.c ---- */
/* It waits for a word of another thread, which cannot be read: finds the thread that waits for somebody else, if there
 * is one, and adds it. */
void wait_threads_follow(struct reader *r, unsigned deadline_ms, struct target_wait *w);

/* ---- wait_call.c: pure ---- */
enum wait_ask {
	ASK_NOTHING, /* not known to wait for anything that can be named */
	ASK_FD,      /* of argument 0 */
	ASK_POLL,
	ASK_SELECT,
	ASK_EPOLL,
	ASK_FILE, /* a path, or a descriptor in another call: as the evidence has it */
	ASK_WAIT4,
	ASK_WAITID,
	ASK_FUTEX,
	ASK_SLEEP, /* nanosleep, clock_nanosleep */
	ASK_LOCK,  /* of a file */
	ASK_FCNTL, /* the same, by one of its commands */
	ASK_SIGNAL,
	ASK_EVENT, /* `name` */
};
struct wait_call {
	enum wait_ask ask;
	enum waits_act act;
	const char *name; /* of an event */
};
struct wait_call wait_call_of(int syscall_nr);

struct wait_fd {
	int32_t fd;
	uint32_t act; /* enum waits_act */
};
/* An array of struct pollfd; the number of descriptors, at most `max`. */
size_t wait_pollfds_take(const void *bytes, size_t len, struct wait_fd *fds, size_t max);
/* A set of select(), `act` for each of its descriptors. */
size_t wait_fdset_take(const void *bytes, size_t len, enum waits_act act, struct wait_fd *fds, size_t max);
/* /proc/PID/fdinfo of an epoll descriptor. */
size_t wait_epoll_take(const char *text, struct wait_fd *fds, size_t max);
/* struct timespec or timeval (`unit_ns` 1 or 1000) as ns; 0: none, or no time. */
uint64_t wait_time_take(const void *bytes, size_t len, unsigned unit_ns);

struct wait_futex {
	enum waits_kind kind; /* LOCK, THREAD, CONDITION */
	uint32_t owner;       /* thread, as the process itself numbers it; 0 none or not known */
};
/* What the word that it sleeps on is: `bytes` from its address on, `op` and `val` as called. glibc's pthread_mutex_t
 * and pthread_join(); whether `owner` is a thread of the process is for the caller to check. */
struct wait_futex wait_futex_of(const void *bytes, size_t len, uint32_t op, uint32_t val);

/* ---- wait_fds.c, in the worker ---- */
enum end_kind {
	END_NONE,
	END_FILE,
	END_EVENT,
	END_TIMER,
	END_SOCKET, /* of another kind, or not found */
	END_LISTEN,
	END_FIFO,
	END_PIPE,
	END_UNIX,
	END_UDP,
	END_TCP,
	END_PROCESS
};
struct wait_end {
	struct wait_fd fd;
	enum end_kind kind;
	uint64_t inode, peer; /* of the file; of the socket at the other end, 0 not on this host, or not known */
	char what[256];
	bool has_peer;     /* of a UDP or TCP socket: `what` is its address */
	bool is_opening;   /* a connect() that has had no answer */
	uint64_t quiet_ns; /* since the last byte came; UINT64_MAX not known */
	uint64_t bytes;    /* that came and were acknowledged; 0 not known */
	uint32_t pid;      /* who has the other end; 0 not known */
	bool is_child, is_own;
	int n_pids, rank_of_pid;      /* processes that have it; how likely this one is the one */
	uint64_t length_ns, until_ns; /* of a timer */
};
struct wait_ends {
	uint32_t tgid;
	size_t n;
	struct wait_end ends[WAIT_FDS_MAX];
};
void wait_fds_sample(struct wait_ends *s, const struct wait_fd *fds, size_t n);

/* ---- wait_sockets.c, in the worker ---- */
struct wait_netline { /* of /proc/PID/net/tcp, udp and their like for IPv6 */
	uint64_t inode;
	int family;
	uint8_t remote[16];
	uint16_t local_port, remote_port;
	uint8_t state;
};
bool wait_netline_parse(const char *line, int family, struct wait_netline *ret); /* pure */
void wait_sockets_sample(struct wait_ends *s);

/* ---- wait_owners.c, in the worker ---- */
void wait_owners_sample(struct wait_ends *s, uint64_t until_ns);
struct wait_child {
	uint32_t pid, n; /* the likeliest of n; 0 there is none */
};
/* `ns_pid`: as the process itself numbers it; 0 any. */
struct wait_child wait_child_find(uint32_t tgid, int ns_pid);

/* ---- wait_worker.c: the job ---- */
struct wait_question {
	uint32_t tgid;
	uint32_t is_child; /* for children: `ns_pid`; else for `fds` */
	int32_t ns_pid;
	uint32_t budget_ms;
	uint32_t n;
	struct wait_fd fds[WAIT_FDS_MAX];
};
struct wait_answer {
	uint32_t kind, act, flags, pid, n;
	uint64_t quiet_ns; /* UINT64_MAX not known */
	uint64_t length_ns, until_ns, bytes;
	char what[256];
};
int wait_op(struct reader_job *job);

#endif
