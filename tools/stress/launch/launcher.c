/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.c - see launcher.h.
 */
#include "tools/stress/launch/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 29555
#define PORT_SLURM 20000
#define PORTS_SLURM 20000

struct launcher {
	const char *name, *rank, *size, *local, *local_size;
};

static const struct launcher launchers[] = {
#define LAUNCHER(...) { __VA_ARGS__ },
#include "tools/stress/launch/launchers.def"
#undef LAUNCHER
};

/* -1: not there, or no number. */
static int number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	long n = text && *text ? strtol(text, &end, 10) : -1;

	/* "8(x2)": Slurm's for two hosts of 8 each */
	return text && *text && (!*end || *end == '(' || *end == ',') && n >= 0 && n < 1 << 20 ? (int)n : -1;
}

int launcher_host_parse(const char *text, char host[128], int *port)
{
	const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
	size_t n;
	char *end;

	if (colon && (colon < bracket || (!bracket && strchr(text, ':') != colon)))
		colon = NULL; /* within an address of IPv6 */
	n = colon ? (size_t)(colon - text) : strlen(text);
	if (*text == '[' && n > 2 && text[n - 1] == ']')
		text++, n -= 2;
	if (!n || n >= 128)
		return -EINVAL;
	snprintf(host, 128, "%.*s", (int)n, text);
	if (colon)
		*port = strtol(colon + 1, &end, 10);
	return colon && (*end || end == colon + 1 || *port < 1 || *port > 65535) ? -EINVAL : 0;
}

/* The first of "node[01-04,7],other": "node01". */
static void first_host(const char *list, char host[128])
{
	size_t prefix = strcspn(list, "[,"), number = 0;

	if (list[prefix] == '[')
		number = strcspn(list + prefix + 1, "-,]");
	snprintf(host, 128, "%.*s%.*s", (int)prefix, list, (int)number, list + prefix + 1);
}

static int port_of(const struct launcher_place *p)
{
	const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
	int port = number_of("MASTER_PORT"), job = number_of("SLURM_JOB_ID");

	if (port > 0)
		return port + (agent && !strcmp(agent, "True")); /* torchrun itself listens there */
	return strncmp(p->launcher, "srun", 4) || job < 0 ? PORT_DEFAULT : PORT_SLURM + job % PORTS_SLURM;
}

static int host_find(const struct launcher *l, const char *given, struct launcher_place *p, char why[LIBRARY_WHY])
{
	const char *master = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");

	p->port = port_of(p);
	if (given && launcher_host_parse(given, p->host, &p->port)) {
		snprintf(why, LIBRARY_WHY, "--host: '%.80s' is no ADDRESS[:PORT]", given);
		return -EINVAL;
	}
	if (given)
		return 0;
	if (master && *master)
		snprintf(p->host, sizeof(p->host), "%s", master);
	else if (number_of(l->local_size) == p->size)
		snprintf(p->host, sizeof(p->host), "127.0.0.1");
	else if (!strncmp(l->name, "srun", 4) && nodes && *nodes)
		first_host(nodes, p->host);
	if (p->host[0])
		return 0;
	snprintf(why, LIBRARY_WHY,
		 "rank %d of %d by %s: where is rank 0? No MASTER_ADDR says it: --host ADDRESS[:PORT], on all ranks "
		 "alike",
		 p->rank, p->size, l->name);
	return -EINVAL;
}

int launcher_find(const char *host_option, struct launcher_place *p, char why[LIBRARY_WHY])
{
	const struct launcher *l = launchers;

	*p = (struct launcher_place){ .rank = -1 };
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && p->rank < 0; i++) {
		l = &launchers[i];
		p->rank = number_of(l->rank);
		p->size = number_of(l->size);
		if (p->size < 0)
			p->rank = -1;
	}
	if (p->rank < 0 || p->size == 1)
		return -ENOENT;
	p->launcher = l->name;
	p->local = number_of(l->local);
	if (p->rank >= p->size || p->size > NCCL_RANKS_MAX) {
		snprintf(why, LIBRARY_WHY, "rank %d of %d by %s: that cannot be (%s, %s; at most %d ranks)", p->rank,
			 p->size, l->name, l->rank, l->size, NCCL_RANKS_MAX);
		return -EINVAL;
	}
	if (p->local < 0) {
		snprintf(why, LIBRARY_WHY,
			 "rank %d of %d by %s: which GPU of its host? %s is missing: set it, or start with another "
			 "launcher",
			 p->rank, p->size, l->name, l->local);
		return -EINVAL;
	}
	return host_find(l, host_option, p, why);
}
