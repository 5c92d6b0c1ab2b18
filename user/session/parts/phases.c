/* SPDX-License-Identifier: Apache-2.0
 *
 * phases.c - see phases.h. The file is JSON for people who want to see or forget a phase:
 * {"version": 1, "phases": [{"job", "site", "wait", "pauses", "longest_s", "usual_s", "interval_s", "interval_steps"}]}
 */
#include "session/parts/phases.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "flight/flight.h"
#include "record.h"
#include "schemas/collector.h"
#include "session/parts/side_write.h"

#define VERSION 1
#define FILE_MAX (4u << 20)
#define TEXT_MAX 256
#define WRITE_EVERY_NS 30000000000ull
#define CLOSE_MS 5000

/* --- reading --- */

static int file_read(const char *path, char **ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;
	ssize_t n = 0;
	char *text;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		close(fd);
		return -EPROTO;
	}
	text = calloc(1, st.st_size + 1);
	if (!text)
		err = -ENOMEM;
	for (off_t at = 0; text && at < st.st_size; at += n) {
		n = read(fd, text + at, st.st_size - at);
		if (n <= 0)
			break;
	}
	close(fd);
	*ret = text;
	return n < 0 ? -EIO : err;
}

static double number_of(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(v) && v->valuedouble > 0 && v->valuedouble < 1e9 ? v->valuedouble : 0;
}

static const char *text_of(const cJSON *o, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return text && strlen(text) < TEXT_MAX ? text : NULL;
}

static bool phase_take(const cJSON *o, struct known_phase_event *p)
{
	*p = (struct known_phase_event){ .job = text_of(o, "job"),
					 .site = text_of(o, "site"),
					 .wait = text_of(o, "wait"),
					 .n = number_of(o, "pauses"),
					 .longest_ns = number_of(o, "longest_s") * 1e9,
					 .usual_ns = number_of(o, "usual_s") * 1e9,
					 .interval_ns = number_of(o, "interval_s") * 1e9,
					 .interval_steps = number_of(o, "interval_steps") };
	return p->job && p->site && *p->site && p->wait && p->n && p->longest_ns;
}

static int phases_each(const cJSON *all, int (*each)(void *to, const struct known_phase_event *p), void *to)
{
	struct known_phase_event p;
	const cJSON *o;
	int err = 0;

	cJSON_ArrayForEach(o, all)
	{
		if (err)
			break;
		err = phase_take(o, &p) ? each(to, &p) : -EPROTO;
	}
	return err;
}

int phases_read(const char *path, int (*each)(void *to, const struct known_phase_event *p), void *to, char *error,
		size_t size)
{
	const cJSON *all;
	char *text = NULL;
	cJSON *root = NULL;
	int err = file_read(path, &text);

	if (!err)
		root = cJSON_Parse(text);
	all = cJSON_GetObjectItemCaseSensitive(root, "phases");
	if (!err && (!cJSON_IsArray(all) || number_of(root, "version") != VERSION))
		err = -EPROTO;
	if (!err)
		err = phases_each(all, each, to);
	if (err)
		snprintf(error, size, "%s",
			 err == -EPROTO ? "not a file of known phases, or of another version" : strerror(-err));
	cJSON_Delete(root);
	free(text);
	return err;
}

/* --- writing --- */

static void phase_add(cJSON *all, const struct known_phase *p)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "job", p->job);
	cJSON_AddStringToObject(o, "site", p->site);
	cJSON_AddStringToObject(o, "wait", p->wait);
	cJSON_AddNumberToObject(o, "pauses", p->n);
	cJSON_AddNumberToObject(o, "longest_s", p->longest_ns * 1e-9);
	cJSON_AddNumberToObject(o, "usual_s", phase_series_median(&p->lengths_ns) * 1e-9);
	cJSON_AddNumberToObject(o, "interval_s", phase_series_median(&p->intervals_ns) * 1e-9);
	cJSON_AddNumberToObject(o, "interval_steps", phase_series_median(&p->intervals_steps));
	cJSON_AddItemToArray(all, o);
}

static bool is_met(const struct pauses *own, const struct known_phase *given)
{
	for (size_t i = 0; i < own->n; i++)
		if (!strcmp(own->all[i].site, given->site) && !strcmp(own->all[i].job, given->job))
			return true;
	return false;
}

/* Those met in this session first: beyond the limit the others are forgotten. */
char *phases_print(const struct pauses *own, const struct known_phases *given)
{
	cJSON *root = cJSON_CreateObject(), *all;
	size_t n = own->n;
	char *text;

	cJSON_AddNumberToObject(root, "version", VERSION);
	all = cJSON_AddArrayToObject(root, "phases");
	for (size_t i = 0; i < own->n; i++)
		phase_add(all, &own->all[i]);
	for (size_t i = 0; i < given->n && n < KNOWN_PHASES_MAX; i++) {
		if (is_met(own, &given->all[i]))
			continue;
		phase_add(all, &given->all[i]);
		n++;
	}
	text = cJSON_Print(root);
	cJSON_Delete(root);
	return text;
}

/* --- a session --- */

struct session_phases {
	char *path; /* NULL: nothing is kept */
	struct side_write file;
	const struct pipeline *pipeline;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
	uint32_t n_given;
	uint64_t n_learnt, written_ns; /* as of the last file */
};

char *phases_path_default(void)
{
	const char *state = getenv("STATE_DIRECTORY"), *dir = state && *state ? state : FLIGHT_DIR;
	size_t len = strcspn(dir, ":"); /* systemd: several, with colons; the first is the service's own */
	char *path = NULL;

	if (!state && mkdir(dir, 0755) && errno != EEXIST)
		return NULL;
	if (asprintf(&path, "%.*s", (int)len, dir) < 0)
		return NULL;
	if (access(path, W_OK)) {
		free(path);
		return NULL;
	}
	free(path);
	return asprintf(&path, "%.*s/" PHASES_NAME, (int)len, dir) < 0 ? NULL : path;
}

static int phase_emit(void *to, const struct known_phase_event *p)
{
	struct session_phases *s = to;
	union {
		struct record_known_phase f;
		char bytes[sizeof(struct record_known_phase) + 3 * TEXT_MAX + 8];
	} u = {};

	u.f = (struct record_known_phase){
		.hdr = { .size = sizeof(u.f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_KNOWN_PHASE,
			 .ts_ns = clock_monotonic_ns() },
		.number = ++s->n_given,
		.n = p->n,
		.longest_ns = p->longest_ns,
		.usual_ns = p->usual_ns,
		.interval_ns = p->interval_ns,
		.interval_steps = p->interval_steps,
	};
	u.f.job_len = record_text_put(&u.f.hdr, sizeof(u), p->job);
	u.f.site_len = record_text_put(&u.f.hdr, sizeof(u), p->site);
	u.f.wait_len = record_text_put(&u.f.hdr, sizeof(u), p->wait);
	record_pad(&u.f.hdr);
	return s->emit(s->to, &u.f.hdr);
}

struct session_phases *session_phases_open(const char *path, const struct pipeline *p,
					   int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct session_phases *s = calloc(1, sizeof(*s));
	char error[256];
	int err;

	if (!s)
		return NULL;
	*s = (struct session_phases){ .path = strdup(path), .pipeline = p, .emit = emit, .to = to };
	err = s->path ? side_write_open(&s->file, s->path, "known phases are not kept over restarts") : -ENOMEM;
	snprintf(error, sizeof(error), "%s", strerror(-err));
	err = err ? err : phases_read(path, phase_emit, s, error, sizeof(error));
	if (!err || err == -ENOENT)
		return s;
	log_warn("%s: %s: it stays as it is, and no known phases are kept; move it away, or give another with --phases",
		 path, error);
	free(s->path);
	s->path = NULL;
	return s;
}

static void save(struct session_phases *s)
{
	const struct pauses *own = pipeline_pauses(s->pipeline);
	char *text;

	if (!own || own->n_learnt == s->n_learnt)
		return;
	text = phases_print(own, &pipeline_model(s->pipeline)->known_phases);
	if (!text)
		return; /* no memory: the next time */
	side_write_put(&s->file, text);
	s->n_learnt = own->n_learnt;
}

/* What could not be written is tried again, as a full disk gets room. */
void session_phases_tick(struct session_phases *s, uint64_t now_ns)
{
	if (!s->path)
		return;
	if (now_ns >= s->written_ns + WRITE_EVERY_NS) {
		s->written_ns = now_ns;
		save(s);
	}
	if (side_write_turn(&s->file, now_ns))
		s->n_learnt = 0;
}

void session_phases_close(struct session_phases *s)
{
	if (!s)
		return;
	if (s->path) {
		save(s);
		side_write_close(&s->file, CLOSE_MS);
	}
	free(s->path);
	free(s);
}
