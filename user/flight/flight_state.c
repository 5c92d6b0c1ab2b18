/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_state.c - see flight_state.h. The file is replaced as a whole, so a reader never sees half of it.
 */
#include "flight/flight_state.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define ANSWERS_MAX 32

struct answer {
	int token;
	bool ok;
	char text[600];
};

static struct answer answers[ANSWERS_MAX]; /* of this process, which has one flight recorder */
static int n_answers;

static const char *state_dir(void)
{
	const char *dir = getenv("RANKTRACE_RUN_DIR");

	return dir && *dir ? dir : FLIGHT_STATE_DIR;
}

static void state_path(char *to, size_t size, pid_t pid, const char *suffix)
{
	snprintf(to, size, "%s/%d%s", state_dir(), pid, suffix);
}

/* 0: no such process. */
static unsigned long long start_ticks(pid_t pid)
{
	char path[64], text[1024], *at;
	unsigned long long ticks = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	at = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	if (at)
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		       &ticks);
	if (f)
		fclose(f);
	return ticks;
}

static int state_write(const char *dir)
{
	char path[600], temporary[600];
	FILE *f;
	int err;

	if (mkdir(state_dir(), 0755) && errno != EEXIST)
		return -errno;
	state_path(path, sizeof(path), getpid(), ".flight");
	state_path(temporary, sizeof(temporary), getpid(), ".new");
	f = fopen(temporary, "we");
	if (!f)
		return -errno;
	fprintf(f, "start %llu\ndir %s\n", start_ticks(getpid()), dir);
	for (int i = 0; i < n_answers; i++)
		fprintf(f, "%s %d %s\n", answers[i].ok ? "done" : "failed", answers[i].token, answers[i].text);
	err = ferror(f) ? -EIO : 0;
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err)
		unlink(temporary);
	return err;
}

void flight_state_open(const char *dir)
{
	int err;

	n_answers = 0;
	err = state_write(dir);
	if (err)
		log_warn("%s: %s; 'ranktrace dump' will not find this session (sending it SIGUSR1 works)", state_dir(),
			 strerror(-err));
}

void flight_state_served(const char *dir, const int *tokens, int n, bool ok, const char *text)
{
	for (int i = 0; i < n; i++) {
		if (n_answers == ANSWERS_MAX)
			memmove(answers, answers + 1, --n_answers * sizeof(answers[0]));
		answers[n_answers] = (struct answer){ .token = tokens[i], .ok = ok };
		snprintf(answers[n_answers++].text, sizeof(answers[0].text), "%s", text);
	}
	if (n)
		state_write(dir);
}

void flight_state_close(void)
{
	char path[600];

	state_path(path, sizeof(path), getpid(), ".flight");
	unlink(path);
}

/* Calls `each` for the file's lines. False: its process is gone. */
static bool state_read(pid_t pid, void (*each)(void *arg, char *line), void *arg)
{
	unsigned long long ticks = 0;
	char path[600], line[1024];
	FILE *f;

	state_path(path, sizeof(path), pid, ".flight");
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!sscanf(line, "start %llu", &ticks))
			each(arg, line);
	}
	if (f)
		fclose(f);
	return ticks && ticks == start_ticks(pid);
}

static void dir_take(void *arg, char *line)
{
	struct flight_session *s = arg;

	if (!strncmp(line, "dir ", 4))
		snprintf(s->dir, sizeof(s->dir), "%s", line + 4);
}

int flight_sessions(struct flight_session *to)
{
	DIR *d = opendir(state_dir());
	struct dirent *e;
	char path[600], *end;
	int n = 0;

	while (d && n < FLIGHT_SESSIONS_MAX && (e = readdir(d))) {
		to[n] = (struct flight_session){ .pid = strtol(e->d_name, &end, 10) };
		if (to[n].pid <= 0 || strcmp(end, ".flight"))
			continue;
		if (state_read(to[n].pid, dir_take, &to[n])) {
			n++;
			continue;
		}
		state_path(path, sizeof(path), to[n].pid, ".flight");
		unlink(path);
	}
	if (d)
		closedir(d);
	return n;
}

struct wanted {
	int token, found;
	char *text;
	size_t size;
};

static void answer_take(void *arg, char *line)
{
	struct wanted *w = arg;
	bool ok = !strncmp(line, "done ", 5);
	char *at = line + (ok ? 5 : 7);

	if ((!ok && strncmp(line, "failed ", 7)) || strtol(at, &at, 10) != w->token || *at != ' ')
		return;
	w->found = ok ? 1 : -1;
	snprintf(w->text, w->size, "%s", at + 1);
}

int flight_state_answer(pid_t pid, int token, char *text, size_t size)
{
	struct wanted w = { .token = token, .text = text, .size = size };

	if (state_read(pid, answer_take, &w) || w.found)
		return w.found;
	snprintf(text, size, "process %d is gone", pid);
	return -1;
}
