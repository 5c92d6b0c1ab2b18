// SPDX-License-Identifier: Apache-2.0
/*
 * What injections say of themselves when they begin and end, on stderr for people and in the fault log as JSON: tests
 * know the truth from there.
 */
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void line_write(int fd, const char *text, int length, int size)
{
	if (length >= size)
		length = size - 1;
	if (write(fd, text, length) != length)
		perror("simjob: cannot write the fault log");
}

/* For people: the same facts without the quotes, ,"a":[1,2] as " a=[1,2]". */
static void facts_print(char *ret_text, size_t size, const char *json)
{
	size_t length = 0;

	for (; *json && length + 1 < size; json++) {
		if (*json == '"')
			continue;
		ret_text[length++] = *json == ':' ? '=' : *json == ',' && json[1] == '"' ? ' ' : *json;
	}
	ret_text[length] = '\0';
}

void injection_report_with(struct rank *rank, const struct injection *injection, const char *phase, const char *facts)
{
	uint64_t now_ns = clock_now_ns();
	char plain[2048], text[4096];
	int length;

	facts_print(plain, sizeof(plain), facts);
	length = snprintf(text, sizeof(text), "simjob: fault %s%s rank=%d pid=%d step=%d t_ns=%" PRIu64 "%s\n",
			  injection->name, strcmp(phase, "begin") ? " end" : "", rank->rank, rank->pid, rank->step,
			  now_ns, plain);
	if (!injection->fault->recurs || !injection_state(rank, injection)->begun)
		line_write(STDERR_FILENO, text, length, sizeof(text));
	if (rank->fault_log_fd < 0)
		return;
	length = snprintf(text, sizeof(text),
			  "{\"fault\":\"%s\",\"phase\":\"%s\",\"rank\":%d,\"pid\":%d,\"step\":%d,\"t_ns\":%" PRIu64
			  "%s}\n",
			  injection->name, phase, rank->rank, rank->pid, rank->step, now_ns, facts);
	line_write(rank->fault_log_fd, text, length, sizeof(text));
}

void injection_report(struct rank *rank, const struct injection *injection, const char *phase,
		      const struct op_place *place)
{
	char facts[256] = "";

	if (place)
		snprintf(facts, sizeof(facts), ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64 "%s",
			 op_name(place->call->kind), place->comm->hash,
			 comm_next_seq(rank, place->comm, place->call, false),
			 rank->launching ? ",\"graph\":true" : "");
	injection_report_with(rank, injection, phase, facts);
}
