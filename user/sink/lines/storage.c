/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.c - at the end a JSON line for each rank, file system and kind of call: how long the rank and its children
 * were blocked there.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink/line_sink.h"
#include "model/storage/storage.h"

static int storage_open(const char *path, struct sink **ret_sink)
{
	return line_sink_open(&sink_storage, path, ret_sink);
}

static void text_add(struct cJSON *to, const char *name, const char *text)
{
	if (*text)
		cJSON_AddStringToObject(to, name, text);
	else
		cJSON_AddNullToObject(to, name);
}

static void lengths_add(struct cJSON *line, const struct storage_sum *sum)
{
	static const char *const up_to_s[STORAGE_BOUNDS + 1] = { "0.0003", "0.001", "0.003", "0.01",  "0.03",
								 "0.1",    "1",     "10",    "longer" };
	struct cJSON *lengths = cJSON_AddObjectToObject(line, "calls_up_to_s");

	for (int i = 0; i <= STORAGE_BOUNDS; i++)
		cJSON_AddNumberToObject(lengths, up_to_s[i], sum->by_length[i]);
}

static struct cJSON *storage_json(const struct proc *p, const struct storage *s)
{
	struct cJSON *line = cJSON_CreateObject();
	struct mount_parts mount;

	mount_split(storage_mount(p, s->sum.at), &mount);
	if (sink_rank(p) >= 0)
		cJSON_AddNumberToObject(line, "rank", sink_rank(p));
	else
		cJSON_AddNullToObject(line, "rank");
	cJSON_AddNumberToObject(line, "pid", p->tgid);
	text_add(line, "mount", mount.point);
	text_add(line, "type", mount.type);
	text_add(line, "source", mount.source);
	cJSON_AddStringToObject(line, "call", storage_act_name(s->sum.at));
	cJSON_AddNumberToObject(line, "blocked_ns", (double)s->sum.blocked_ns);
	cJSON_AddNumberToObject(line, "calls", (double)s->sum.calls);
	cJSON_AddNumberToObject(line, "longest_ns", (double)s->sum.longest_ns);
	text_add(line, "longest_file", s->file);
	lengths_add(line, &s->sum);
	return line;
}

static int storage_put(struct line_sink *to, const struct proc *p, const struct storage *s)
{
	struct cJSON *json = storage_json(p, s);
	char *text = cJSON_PrintUnformatted(json), *line = NULL;
	int n = text ? asprintf(&line, "%s\n", text) : -1, err = n < 0 ? -ENOMEM : lines_out_put(&to->out, line, n);

	cJSON_Delete(json);
	free(text);
	if (n >= 0)
		free(line);
	return err;
}

static int storage_close(struct sink *base, const struct model *m)
{
	struct line_sink *to = (struct line_sink *)base;
	int err = 0, closed;

	for (const struct proc *p = m->procs; p && !err; p = p->next)
		for (const struct storage *s = p->storage_of_rank; s && !err; s = s->next)
			err = storage_put(to, p, s);
	closed = line_sink_close(base, m);
	return err ? err : closed;
}

const struct sink_class sink_storage = {
	.name = "storage",
	.help = "how long each rank was blocked on which file system, as JSON lines",
	.lines = true,
	.open = storage_open,
	.close = storage_close,
};
