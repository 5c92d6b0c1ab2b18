/* SPDX-License-Identifier: Apache-2.0
 *
 * task_sample.c - see task_sample.h.
 */
#include "inspect/reader/task_sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inspect/reader/proc_files.h"

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t v = 0;

	if (at)
		sscanf(at + strlen(key), "%" SCNu64, &v);
	return v;
}

int task_sample_read(uint32_t tgid, uint32_t tid, struct task_sample *ret)
{
	struct task_sample l = { 0 };
	struct proc_stat st;
	char text[8192];
	int n = proc_read(text, sizeof(text), "/proc/%u/task/%u/stat", tgid, tid);

	if (n < 0)
		return n;
	if (proc_stat_parse(text, &st))
		return -EBADMSG;
	l.state = st.state;
	n = proc_read(text, sizeof(text), "/proc/%u/task/%u/schedstat", tgid, tid);
	if (n < 0 || sscanf(text, "%" SCNu64 " %" SCNu64, &l.run_ns, &l.wait_ns) != 2)
		return n < 0 ? n : -EBADMSG;
	n = proc_read(text, sizeof(text), "/proc/%u/task/%u/status", tgid, tid);
	if (n < 0)
		return n;
	l.n_switches =
		number_after(text, "\nvoluntary_ctxt_switches:") + number_after(text, "\nnonvoluntary_ctxt_switches:");
	*ret = l;
	return 0;
}

uint64_t task_sample_io_bytes(uint32_t tgid)
{
	char text[1024] = "\n";

	if (proc_read(text + 1, sizeof(text) - 1, "/proc/%u/io", tgid) < 0)
		return 0;
	return number_after(text, "\nrchar:") + number_after(text, "\nwchar:");
}
