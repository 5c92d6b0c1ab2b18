/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - every operation as a JSON line, with the keys that the simulated job's own log uses, so that the two
 * can be compared line by line. Of foreign text there is the name of a process group: printf is enough.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink/line_sink.h"
#include "sink/sink_io.h"

static int ops_open(const char *path, struct sink **ret_sink)
{
	return line_sink_open(&sink_ops, path, ret_sink);
}

/* JSON of a number that may be unknown (`known` false: null), in `buf`. */
static const char *number_or_null(char buf[24], bool known, uint64_t v)
{
	if (!known)
		return "null";
	snprintf(buf, 24, "%" PRIu64, v);
	return buf;
}

static const char *net_text(char *to, size_t size, const struct op_net *net)
{
	if (!net->posts)
		return "";
	snprintf(to, size,
		 ",\"net\":{\"posts\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"first_post_ns\":%" PRIu64
		 ",\"last_post_ns\":%" PRIu64 ",\"done_ns\":%" PRIu64 ",\"whole\":%s}",
		 net->posts, net->bytes, net->first_ns, net->last_ns, net->done_ns, net->shared ? "false" : "true");
	return to;
}

/* The name is foreign text, without control characters (torch_groups_records.c). */
static void quoted_put(char *to, const char *text)
{
	for (; *text; *to++ = *text++) /* lint: its caller's is an array */
		if (*text == '"' || *text == '\\')
			*to++ = '\\';
	*to = '\0';
}

static const char *group_text(char *to, size_t size, const struct op *op)
{
	char name[2 * TORCH_GROUP_TEXT];

	if (!op->in_process_group)
		return "";
	quoted_put(name, op->member->comm->process_group); /* lint: an array */
	snprintf(to, size, ",\"process_group\":\"%s\",\"process_group_seq\":%" PRIu64, name, op->process_group_seq);
	return to;
}

static int ops_op(struct sink *base, const struct op *op, const struct model *m)
{
	struct line_sink *s = (struct line_sink *)base;
	const struct member *mb = op->member;
	const struct proc *p = mb->proc;
	uint64_t hash = mb->comm ? mb->comm->hash : 0;
	const char *dtype = dtype_name(op->dtype), *use = mb->comm ? parallelism_name(mb->comm->parallelism) : NULL;
	char gpu[24], comm_rank[24], comm[24], rank[24], peer[24], end[24], error[24], net[208], group[160], line[1040];
	int n, global = p->rank >= 0 ? p->rank : member_rank(mb);

	(void)m;
	if (op->captured) /* runs in launches of its graph, which are reported one by one */
		return 0;
	snprintf(comm, sizeof(comm), "\"0x%016" PRIx64 "\"", hash);
	n = snprintf(line, sizeof(line),
		     "{\"rank\":%s,\"pid\":%u,\"gpu\":%s,\"comm_rank\":%s,\"comm\":%s,\"seq\":%" PRIu64
		     ",\"op\":\"%s\",\"count\":%" PRIu64 ",\"dtype\":%s%s%s,\"peer\":%s,\"t_ns\":%" PRIu64
		     ",\"end_ns\":%s,\"end_error_ns\":%s%s%s%s%s%s%s%s}\n",
		     number_or_null(rank, global >= 0, (uint64_t)global), p->tgid,
		     number_or_null(gpu, member_gpu(mb) >= 0, (uint64_t)member_gpu(mb)),
		     number_or_null(comm_rank, mb->rank >= 0, (uint64_t)mb->rank), hash ? comm : "null", op->seq,
		     op_kind_name(op->kind), op->count, dtype ? "\"" : "", dtype ? dtype : "null", dtype ? "\"" : "",
		     number_or_null(peer, op->peer >= 0, (uint64_t)op->peer), op->call_ns,
		     number_or_null(end, op->end_ns, op->end_ns), number_or_null(error, op->end_ns, op->end_error_ns),
		     op->seq_from_attach ? ",\"seq_from_attach\":true" : "", op->graph_exec ? ",\"graph\":true" : "",
		     use ? ",\"parallelism\":\"" : "", use ? use : "", use ? "\"" : "",
		     group_text(group, sizeof(group), op), net_text(net, sizeof(net), &op->net));
	return lines_out_put(&s->out, line, (size_t)n);
}

const struct sink_class sink_ops = {
	.name = "ops",
	.help = "every operation as a JSON line",
	.lines = true,
	.open = ops_open,
	.op = ops_op,
	.close = line_sink_close,
};
