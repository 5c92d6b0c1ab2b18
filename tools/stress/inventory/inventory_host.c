/* SPDX-License-Identifier: Apache-2.0
 *
 * inventory_host.c - the host's own parts: kernel, system, CPUs and memory, and its RDMA devices with their firmware.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/stress/inventory/inventory.h"

#define DEVICES_MAX 64
#define FIELD 64

static void system_say(struct inventory *v)
{
	FILE *f = fopen("/etc/os-release", "re");
	char line[256], name[FIELD] = "not known";

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "PRETTY_NAME=\"%63[^\"]", name);
	if (f)
		fclose(f);
	inventory_say(v, "system", "%s", name);
}

void inventory_host(struct inventory *v)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname name;

	if (!uname(&name))
		inventory_say(v, "kernel", "%s %s", name.release, name.machine);
	system_say(v);
	inventory_say(v, "host", "%ld CPUs, %.0f GiB of memory", cpus, (double)pages * page / (1 << 30));
}

struct nic {
	char name[FIELD], board[FIELD], firmware[FIELD];
};

static void field_read(const char *folder, const char *name, char text[FIELD])
{
	char path[512];

	snprintf(path, sizeof(path), "%.400s/%.64s", folder, name);
	if (!first_line(path, text, FIELD))
		snprintf(text, FIELD, "not known");
}

static void nic_read(struct inventory *v, const char *root, struct nic *nic)
{
	char folder[400], state[FIELD], rate[FIELD];

	snprintf(folder, sizeof(folder), "%.200s/class/infiniband/%.60s", root, nic->name);
	field_read(folder, "board_id", nic->board);
	field_read(folder, "fw_ver", nic->firmware);
	field_read(folder, "ports/1/state", state);
	field_read(folder, "ports/1/rate", rate);
	inventory_say(v, nic->name, "firmware %s, board %s, port 1 %s, %s", nic->firmware, nic->board, state, rate);
}

/* Boards of one kind with several firmwares: allowed, and worth a line where one of them behaves otherwise. */
static void firmware_compare(struct inventory *v, const struct nic *nics, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = 0; j < i; j++)
			if (strcmp(nics[i].board, "not known") && !strcmp(nics[i].board, nics[j].board) &&
			    strcmp(nics[i].firmware, nics[j].firmware)) {
				inventory_say(v, "firmware", "%s has %s where %s, the same board, has %s", nics[i].name,
					      nics[i].firmware, nics[j].name, nics[j].firmware);
				return;
			}
}

void inventory_nics(struct inventory *v)
{
	const char *given = getenv("RANKTRACE_SYSFS"), *root = given ? given : "/sys";
	struct nic nics[DEVICES_MAX];
	struct dirent **entries;
	char path[256];
	int n, found = 0;

	snprintf(path, sizeof(path), "%.200s/class/infiniband", root);
	n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.' && found < DEVICES_MAX) {
			struct nic *nic = &nics[found++];

			snprintf(nic->name, sizeof(nic->name), "%.63s", entries[i]->d_name);
			nic_read(v, root, nic);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	if (!found)
		inventory_say(v, "RDMA", "no device");
	firmware_compare(v, nics, found);
}
