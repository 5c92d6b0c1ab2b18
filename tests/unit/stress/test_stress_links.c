/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_links.c - the table of links against the physical limits; which links are compared with which.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/stress/lib/node.h"
#include "tools/stress/p2p/boards.h"
#include "tools/stress/p2p/links.h"

/* NVLink one way and PCIe x16 one way, of NVIDIA's data sheets. */
static void test_rows_near_the_limit(void **state)
{
	static const struct {
		const char *device;
		double nvlink, pcie;
	} limits[] = { { "*H200", 450, 64 }, { "*H100 80GB HBM3*", 450, 64 }, { "*A100-SXM4*", 300, 32 } };

	(void)state;
	for (int i = 0; i < n_link_rows; i++) {
		double peak = 0;

		for (size_t j = 0; j < sizeof(limits) / sizeof(limits[0]); j++)
			if (!strcmp(limits[j].device, link_rows[i].device))
				peak = link_rows[i].measure == LINK_HOST ? limits[j].pcie : limits[j].nvlink;
		assert_true(link_rows[i].least <= peak && link_rows[i].least >= peak / 2);
		assert_true(strlen(link_rows[i].source) > 8 && strlen(link_rows[i].date) == 7);
	}
	assert_non_null(link_row_find("NVIDIA H200", LINK_COPY));
	assert_null(link_row_find("NVIDIA H200", LINK_SM));
	assert_null(link_row_find("some GPU", LINK_COPY));
	assert_null(link_row_find("NVIDIA H200 NVL", LINK_COPY)); /* a card: bridges, or none */
	assert_null(link_row_find("NVIDIA H200 NVL", LINK_HOST)); /* whose slot may be of generation 4 */
	assert_null(link_row_find("NVIDIA A100-SXM4-80GB MIG 1g.10gb", LINK_HOST));
	assert_non_null(link_row_find("NVIDIA A100-SXM4-80GB", LINK_HOST));
	assert_int_equal(board_kind_find("NVIDIA A100-SXM4-80GB"), BOARD_MODULE);
	assert_int_equal(board_kind_find("NVIDIA A100-SXM4-80GB MIG 1g.10gb"), BOARD_UNKNOWN);
}

static struct stress_run run;
static struct p2p p;

static void links_make(int n)
{
	memset(&run, 0, sizeof(run));
	memset(&p, 0, sizeof(p));
	p.run = &run;
	p.n_nodes = 1;
	run.n_gpus = n;
	for (int i = 0; i < n; i++) {
		run.gpus[i] = (struct stress_gpu){ .run = &run, .index = i, .ordinal = i };
		for (int j = 0; j < n; j++)
			for (int m = 0; m < N_LINK_MEASURES && i != j; m++) {
				p.links[i][j].direct = true;
				p.links[i][j].way = WAY_SWITCH;
				p.links[i][j].rates[m] =
					(struct link_rate){ .judged = { .measured = true, .value = 100 } };
			}
	}
}

static void judge(void)
{
	p2p_hold(&p, NULL);
	p2p_judge(&p);
}

static void test_kinds_are_apart(void **state)
{
	(void)state;
	links_make(4);
	for (int i = 0; i < 2; i++) /* bridges between 0 and 1, 2 and 3: four times as fast */
		for (int m = 0; m < LINK_LATENCY; m++) {
			p.links[2 * i][2 * i + 1].rates[m].judged.value =
				p.links[2 * i + 1][2 * i].rates[m].judged.value = 400;
			p.links[2 * i][2 * i + 1].rank = p.links[2 * i + 1][2 * i].rank = 1;
		}
	judge();
	assert_int_equal(run.n_faults, 0);
	p.links[2][3].rates[LINK_COPY].judged.value = 300;
	judge();
	assert_int_equal(run.n_faults, 1);
	assert_non_null(strstr(run.faults[0].text, "link GPU 2 to GPU 3, copy engine"));
}

/* Of three GPUs one bad one makes two thirds of the links slow, and a median with them. */
static void test_a_gpu(void **state)
{
	(void)state;
	for (int n = 3; n <= 8; n++) {
		links_make(n);
		for (int i = 0; i < n; i++)
			if (i != 1)
				p.links[i][1].rates[LINK_COPY].judged.value =
					p.links[1][i].rates[LINK_COPY].judged.value = 50;
		judge();
		assert_int_equal(run.n_faults, 1);
		assert_int_equal(run.faults[0].gpu, 1);
	}
}

static void test_missing(void **state)
{
	(void)state;
	links_make(3);
	p.links[0][2].rates[LINK_SM].judged.measured = false;
	judge();
	assert_int_equal(run.n_faults, 1);
	assert_int_equal(run.faults[0].kind, FAULT_MISSING);
}

static void gpus_are(const char *name, int links, int links_active)
{
	for (int i = 0; i < run.n_gpus; i++) {
		strcpy(run.gpus[i].name, name);
		p.gpus[i].links = links;
		p.gpus[i].links_active = p.gpus[i].links_switch = links_active;
	}
}

/* Every NVLink of a board is down: no other GPU is better, and the copies go over PCIe. */
static void test_nvlinks_down(void **state)
{
	(void)state;
	links_make(8);
	gpus_are("NVIDIA H100 80GB HBM3", 18, 0);
	judge();
	for (int i = 0; i < 8; i++) {
		assert_non_null(strstr(run.faults[i].text, "none of its 18 NVLinks is active"));
		assert_int_equal(run.faults[i].gpu, i);
		assert_int_equal(run.gpus[i].n_faults,
				 1); /* what sort of board it is cannot be seen, nor a row for it */
	}
	links_make(8);
	gpus_are("NVIDIA H100 80GB HBM3", 18, 18);
	p.gpus[5].links_active = p.gpus[5].links_switch = 0;
	for (int i = 0; i < 64; i++)
		p.links[i / 8][i % 8].rates[LINK_COPY].judged.value = i / 8 == 5 || i % 8 == 5 ? 25 : 390;
	judge();
	assert_int_equal(run.n_faults, 2);
	assert_int_equal(run.gpus[5].n_faults, 2);
	assert_non_null(strstr(run.faults[0].text, "0 of its NVLinks are active, of others of its kind 18"));
	assert_non_null(strstr(run.faults[1].text, "all its links to other GPUs are slow"));
	links_make(8);
	gpus_are("NVIDIA H100 80GB HBM3", 0, 0); /* NVML does not say: nothing is held to NVLink's rate */
	judge();
	assert_int_equal(run.n_faults, 0);
	assert_non_null(strstr(p.not_judged, "NVML shows none")); /* and it is no pass */
}

/* GPUs without a row of rates have boards, too. What says nothing of itself is no pass, and no fault. */
static void test_boards_down(void **state)
{
	static const char *const boards[] = { "NVIDIA B200",          "NVIDIA B300 SXM6 AC",  "NVIDIA GB200",
					      "NVIDIA H800",          "NVIDIA H20",           "NVIDIA GH200 120GB",
					      "Tesla V100-SXM2-32GB", "NVIDIA A800-SXM4-80GB" };

	(void)state;
	for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
		links_make(8);
		gpus_are(boards[i], 18, 0);
		judge();
		assert_int_equal(run.n_faults, 8);
		assert_non_null(strstr(run.faults[0].text, "none of its 18 NVLinks is active"));
	}
	for (int seen = 0; seen < 3; seen++) { /* nothing; its fabric; switches on the bus */
		links_make(8);
		gpus_are("NVIDIA X300", 18, 0);
		p.gpus[0].fabric = seen == 1 ? 1 : 0;
		p.n_switches = seen == 2 ? 4 : 0;
		judge();
		assert_int_equal(run.n_faults, seen ? 8 : 0);
		assert_int_equal(p.not_judged[0] != 0, !seen);
		assert_int_equal(p.gpus[7].links_not_judged, !seen);
	}
	links_make(8);
	gpus_are("NVIDIA X300", 0, 0); /* it has none, for all that is known */
	judge();
	assert_int_equal(run.n_faults + run.notes.n, 0);
	assert_false(p.not_judged[0]);
}

/* A virtual machine with some GPUs of a board may have their NVLinks off; whole boards and real machines may not. */
static void test_off_in_a_virtual_machine(void **state)
{
	static const struct {
		int n_gpus, n_gpus_host, n_switches, fabric;
		bool is_virtual, is_fault;
	} cases[] = { { 2, 2, 0, 0, true, false }, { 4, 4, 0, 1, true, false }, { 2, 2, 0, 0, false, true },
		      { 2, 8, 0, 1, true, true },  { 8, 8, 0, 0, true, true },  { 4, 4, 4, 0, true, true },
		      { 4, 4, 0, 3, true, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		links_make(cases[i].n_gpus);
		gpus_are("NVIDIA H100 80GB HBM3", 18, 0);
		p.is_virtual = cases[i].is_virtual;
		p.n_gpus_host = cases[i].n_gpus_host;
		p.n_switches = cases[i].n_switches;
		for (int g = 0; g < run.n_gpus; g++)
			p.gpus[g].fabric = cases[i].fabric;
		judge();
		assert_int_equal(run.n_faults, cases[i].is_fault ? cases[i].n_gpus : 0);
		assert_int_equal(strstr(p.not_judged, "off in this virtual machine") != NULL, !cases[i].is_fault);
	}
}

static void file_write(const char *folder, const char *path, const char *text)
{
	char at[256];
	FILE *f;

	snprintf(at, sizeof(at), "%s/%s", folder, path);
	for (char *c = at + strlen(folder) + 1; (c = strchr(c, '/')); c++) {
		*c = 0;
		mkdir(at, 0700);
		*c = '/';
	}
	f = fopen(at, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* A bridge and a network card of others, two GPUs, and two NVSwitches on the bus; flags of a CPU. */
static void test_host_facts(void **state)
{
	static const char *const devices[][2] = { { "0x8086", "0x068000" }, { "0x15b3", "0x020700" },
						  { "0x10de", "0x030200" }, { "0x10de", "0x030200" },
						  { "0x10de", "0x068000" }, { "0x10de", "0x068000" } };
	char folder[] = "/tmp/ranktrace-boards-XXXXXX", path[64], cpuinfo[96];

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "bus/pci/devices/0000:%02x:00.0/vendor", i);
		file_write(folder, path, devices[i][0]);
		snprintf(path, sizeof(path), "bus/pci/devices/0000:%02x:00.0/class", i);
		file_write(folder, path, devices[i][1]);
	}
	snprintf(cpuinfo, sizeof(cpuinfo), "%s/cpuinfo", folder);
	setenv("RANKTRACE_SYSFS", folder, 1);
	setenv("RANKTRACE_CPUINFO", cpuinfo, 1);
	for (int is_virtual = 0; is_virtual < 2; is_virtual++) {
		file_write(folder, "cpuinfo", "processor : 0\nmodel name : of a hypervisor\nflags : fpu vme");
		if (is_virtual)
			file_write(folder, "cpuinfo", "processor : 0\nflags : fpu vme hypervisor lahf_lm\n");
		links_make(3);
		p2p_board_look(&p);
		assert_int_equal(p.n_switches, 2);
		assert_int_equal(p.n_gpus_host, 3);
		assert_int_equal(p.is_virtual, is_virtual);
	}
	unsetenv("RANKTRACE_SYSFS");
	unsetenv("RANKTRACE_CPUINFO");
	snprintf(cpuinfo, sizeof(cpuinfo), "rm -r %s", folder);
	assert_int_equal(system(cpuinfo), 0);
}

/* A pair with a bridge beside cards with none; a bridge that is not whole; a board, and what is neither. */
static void test_bridges_of_some(void **state)
{
	static const struct {
		const char *name;
		int active, n_faults, n_notes;
		bool is_judged;
	} cases[] = { { "NVIDIA RTX A6000", 0, 0, 2, true },      { "NVIDIA A40", 0, 0, 2, true },
		      { "NVIDIA A100 80GB PCIe", 0, 0, 2, true }, { "NVIDIA H100 NVL", 0, 0, 2, true },
		      { "NVIDIA RTX A6000", 8, 2, 0, true },      { "NVIDIA A100-SXM4-40GB", 0, 2, 0, true },
		      { "NVIDIA X300", 8, 2, 0, true },           { "NVIDIA X300", 0, 0, 1, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		links_make(4);
		gpus_are(cases[i].name, 12, 12);
		for (int g = 0; g < 4; g++) {
			p.gpus[g].links_switch = 0;
			p.gpus[g].links_active = g < 2 ? 12 : cases[i].active;
		}
		judge();
		assert_int_equal(run.n_faults, cases[i].n_faults);
		assert_int_equal(run.notes.n, cases[i].n_notes);
		assert_int_equal(p.not_judged[0] == 0, cases[i].is_judged);
		for (int n = 0; n < cases[i].n_notes && cases[i].is_judged; n++)
			assert_non_null(
				strstr(run.notes.texts[n], "0 of its NVLinks are active, of others of its kind 12"));
	}
}

static void rates_are(double gb_s)
{
	for (int i = 0; i < run.n_gpus * run.n_gpus; i++)
		p.links[i / run.n_gpus][i % run.n_gpus].rates[LINK_COPY].judged.value = gb_s;
}

/* Boards of four have no switch: as many links to each other GPU. */
static void straight_links_make(const char *name, int links, double gb_s)
{
	links_make(4);
	gpus_are(name, links, links);
	rates_are(gb_s);
	for (int i = 0; i < 4; i++) {
		p.gpus[i].links_switch = 0;
		for (int j = 0; j < 4; j++)
			p.gpus[i].links_to[j] = i == j ? 0 : links / 3;
	}
}

static void test_rows_by_links_of_a_pair(void **state)
{
	(void)state;
	straight_links_make("NVIDIA A100-SXM4-40GB", 12, 93);
	judge();
	assert_int_equal(run.n_faults, 0);
	assert_int_equal(run.notes.n, 0);
	straight_links_make("NVIDIA H100 80GB HBM3", 18, 135);
	judge();
	assert_int_equal(run.n_faults, 0);
	straight_links_make("NVIDIA A100-SXM4-40GB", 12, 70); /* all alike: by the table */
	judge();
	assert_int_equal(run.n_faults, 4);
	assert_non_null(strstr(run.faults[0].text, "NVLink, one way, 4 of 12 links"));
	links_make(4); /* of a board of eight: through the switch a pair has all links */
	gpus_are("NVIDIA A100-SXM4-40GB", 12, 12);
	rates_are(93);
	judge();
	assert_int_equal(run.n_faults, 4);
	links_make(4); /* a driver that does not say where they lead */
	gpus_are("NVIDIA A100-SXM4-40GB", 12, 12);
	rates_are(93);
	for (int i = 0; i < 4; i++) {
		p.gpus[i].links_switch = 0;
		p.gpus[i].links_unknown = 12;
	}
	judge();
	assert_int_equal(run.n_faults, 0);
	assert_int_equal(run.notes.n, 1);
	assert_non_null(strstr(run.notes.texts[0], "does not say where its NVLinks lead"));
}

/* Cards with connectors that no bridge joins are healthy. */
static void test_no_bridge(void **state)
{
	static const char *const cards[] = { "NVIDIA A100 80GB PCIe",
					     "NVIDIA A100-PCIE-40GB",
					     "NVIDIA H100 PCIe",
					     "NVIDIA H100 NVL",
					     "NVIDIA H200 NVL",
					     "NVIDIA A30",
					     "NVIDIA RTX A6000",
					     "NVIDIA A40",
					     "NVIDIA A800 40GB Active",
					     "NVIDIA A100X",
					     "Quadro GV100",
					     "NVIDIA GeForce RTX 3090" };

	(void)state;
	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		links_make(4);
		gpus_are(cards[i], 12, 0);
		judge();
		assert_int_equal(run.n_faults, 0);
		assert_int_equal(run.notes.n, 1);
		assert_false(p.not_judged[0]);
		assert_non_null(strstr(run.notes.texts[0], "none of its 12 NVLinks is active"));
	}
}

static void host_is(int gpu, int node, int distance, double gb_s)
{
	p.gpus[gpu].distances[node] = distance;
	for (int way = 0; way < N_WAYS_HOST; way++)
		p.gpus[gpu].host[node][way] = (struct link_rate){ .judged = { .measured = true, .value = gb_s } };
}

/* Of four nodes the two of the other socket are slower for each GPU alike; a guest does not say which are its own. */
static void test_memory_of_nodes(void **state)
{
	static const double rates[] = { 55, 53, 40, 40 };
	static const int distances[] = { 10, 12, 32, 32 };

	(void)state;
	links_make(4);
	p.n_nodes = 4;
	for (int i = 0; i < 4; i++)
		for (int node = 0; node < 4; node++)
			host_is(i, node ^ i, distances[node], rates[node]);
	judge();
	assert_int_equal(run.n_faults, 0);
	host_is(2, 2, 10, 40); /* its own, as slow as another's */
	judge();
	assert_int_equal(run.faults[0].gpu, 2);
	assert_non_null(strstr(run.faults[0].text, "92 % of the upper quartile of 3 others"));
	links_make(4);
	p.n_nodes = 4;
	for (int i = 0; i < 4; i++)
		for (int node = 0; node < 4; node++)
			host_is(i, node ^ i, NODE_UNKNOWN, rates[node]);
	judge();
	assert_int_equal(run.n_faults, 0);
}

/* Without peer access copies go through the host, as fast as its CPUs are free, whatever the driver was asked for. */
static void test_through_the_host(void **state)
{
	(void)state;
	links_make(4);
	gpus_are("NVIDIA H100 80GB HBM3", 18, 18);
	for (int i = 0; i < 16; i++)
		p.links[i / 4][i % 4].direct = false;
	p.links[0][1].rates[LINK_OFF].judged.value = 40;
	p.links[0][2].rates[LINK_COPY].judged.value = 30;
	p.links[0][3].rates[LINK_BOTH].judged.value = p.links[3][0].rates[LINK_BOTH].judged.value = 50;
	judge();
	assert_int_equal(run.n_faults, 0);
	links_make(4); /* one way of one pair: that it lacks access is the fault, not its rate; the others are held */
	p.links[1][2].direct = false;
	p.links[1][2].rates[LINK_COPY].judged.value = 20;
	p.links[1][2].rates[LINK_BOTH].judged.value = p.links[2][1].rates[LINK_BOTH].judged.value = 30;
	p.links[0][3].rates[LINK_COPY].judged.value = 50;
	judge();
	assert_int_equal(run.n_faults, 2);
	assert_non_null(strstr(run.faults[0].text, "link GPU 1 to GPU 2: no peer access"));
	assert_non_null(strstr(run.faults[1].text, "link GPU 0 to GPU 3, copy engine"));
}

static void peers_are(int from, int to, bool direct, int way)
{
	p.links[from][to].direct = p.links[to][from].direct = direct;
	p.links[from][to].way = p.links[to][from].way = way;
}

/* A DGX-1: each GPU has NVLinks to four of the seven others, and peer access to these alone. */
static void test_access_to_some(void **state)
{
	(void)state;
	links_make(8);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < i; j++) {
			bool joined = i / 4 == j / 4 || i - j == 4;

			peers_are(i, j, joined, i / 4 == j / 4 ? NODE_OWN : NODE_OTHER);
			p.gpus[i].links_to[j] = p.gpus[j].links_to[i] = joined;
			p.gpus[i].links = p.gpus[i].links_active = 4;
		}
	p.gpus[0].links = p.gpus[0].links_active = 4;
	judge();
	assert_int_equal(run.n_faults, 0);
	p.links[5][1].direct = false; /* and this one it should have */
	judge();
	assert_int_equal(run.n_faults, 1);
	assert_non_null(strstr(run.faults[0].text, "link GPU 5 to GPU 1: no peer access"));
}

/* One odd card beside four; three GPUs at one socket and one at the other, where none reaches over. */
static void test_access_by_place(void **state)
{
	(void)state;
	links_make(5);
	run.gpus[4].class = 1;
	for (int i = 0; i < 4; i++)
		peers_are(4, i, false, WAY_SWITCH);
	judge();
	assert_int_equal(run.n_faults, 0);
	for (int way = WAY_UNKNOWN; way <= NODE_OTHER; way += NODE_OTHER) {
		links_make(4);
		for (int i = 0; i < 3; i++) {
			peers_are(i, (i + 1) % 3, true, way ? NODE_OWN : WAY_UNKNOWN);
			peers_are(3, i, false, way);
		}
		judge();
		assert_int_equal(run.n_faults, 0);
		if (way) { /* one that should have it */
			peers_are(0, 1, false, NODE_OWN);
			judge();
			assert_int_equal(run.n_faults, 0); /* two of three have one peer each: which is it? */
		}
	}
	links_make(4);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			peers_are(i, j, i != 2 || j != 1, WAY_UNKNOWN);
	judge();
	assert_int_equal(run.n_faults, 2);
}

/* Cards on two sockets, two by two behind a switch: rates by the way, one rank of the driver's. */
static void cards_make(void)
{
	links_make(8);
	gpus_are("NVIDIA L40S", 0, 0);
	for (int i = 0; i < 64; i++) {
		int a = i / 8, b = i % 8;

		p.links[a][b].way = a / 2 == b / 2 ? WAY_SWITCH : a / 4 == b / 4 ? NODE_OWN : NODE_OTHER;
		p.links[a][b].rates[LINK_COPY].judged.value = a / 2 == b / 2 ? 26 : a / 4 == b / 4 ? 22 : 12;
	}
}

static void test_ways_are_apart(void **state)
{
	(void)state;
	cards_make();
	judge();
	assert_int_equal(run.n_faults, 0);
	p.links[1][6].rates[LINK_COPY].judged.value = 9;
	p.links[4][5].rates[LINK_COPY].judged.value = 12;
	judge();
	assert_int_equal(run.n_faults, 2);
	assert_non_null(strstr(run.faults[0].text, "link GPU 1 to GPU 6, copy engine"));
	assert_non_null(strstr(run.faults[1].text, "link GPU 4 to GPU 5, copy engine"));
	cards_make();
	for (int i = 0; i < 64; i++) /* nothing says who is where */
		p.links[i / 8][i % 8].way = WAY_UNKNOWN;
	judge();
	assert_int_equal(run.n_faults, 0);
}

static void device_put(const char *folder, int gpu, const char *bridges, int node)
{
	char at[200], link[200];

	snprintf(at, sizeof(at), "devices/%s/0000:%02x:00.0/class", bridges, 0xa0 + gpu);
	file_write(folder, at, "0x030200");
	snprintf(at, sizeof(at), "%s/devices/%s/0000:%02x:00.0", folder, bridges, 0xa0 + gpu);
	file_write(folder, "bus/pci/devices/none", "");
	snprintf(link, sizeof(link), "%s/bus/pci/devices/0000:%02x:00.0", folder, 0xa0 + gpu);
	assert_int_equal(symlink(at, link), 0);
	snprintf(run.gpus[gpu].pci, sizeof(run.gpus[gpu].pci), "0000:%02X:00.0", 0xa0 + gpu);
	p.gpus[gpu].node = node;
}

/* Two behind a switch, one on the same node, one on the other; one whose bridges a guest does not show. */
static void test_ways_of_the_host(void **state)
{
	static const int want[5] = { WAY_UNKNOWN, WAY_SWITCH, NODE_OWN, 32, WAY_UNKNOWN };
	char folder[] = "/tmp/ranktrace-ways-XXXXXX", command[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	links_make(5);
	device_put(folder, 0, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", 0);
	device_put(folder, 1, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", 0);
	device_put(folder, 2, "pci0000:00/0000:00:02.0", 0);
	device_put(folder, 3, "pci0000:80/0000:80:01.0", 1);
	device_put(folder, 4, "pci0000:80", 1);
	file_write(folder, "devices/system/node/node0/distance", "10 32\n");
	setenv("RANKTRACE_SYSFS", folder, 1);
	p.n_nodes = 2;
	p2p_ways_find(&p);
	for (int i = 1; i < 5; i++)
		assert_int_equal(p.links[0][i].way, want[i]);
	p.n_nodes = 1;
	for (int is_virtual = 0; is_virtual < 2; is_virtual++) {
		p.is_virtual = is_virtual;
		p2p_ways_find(&p);
		assert_int_equal(p.links[0][1].way, WAY_SWITCH);
		assert_int_equal(p.links[0][2].way, is_virtual ? WAY_UNKNOWN : NODE_OWN);
	}
	unsetenv("RANKTRACE_SYSFS");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_near_the_limit),
		cmocka_unit_test(test_kinds_are_apart),
		cmocka_unit_test(test_a_gpu),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_nvlinks_down),
		cmocka_unit_test(test_rows_by_links_of_a_pair),
		cmocka_unit_test(test_boards_down),
		cmocka_unit_test(test_off_in_a_virtual_machine),
		cmocka_unit_test(test_host_facts),
		cmocka_unit_test(test_bridges_of_some),
		cmocka_unit_test(test_no_bridge),
		cmocka_unit_test(test_through_the_host),
		cmocka_unit_test(test_memory_of_nodes),
		cmocka_unit_test(test_access_to_some),
		cmocka_unit_test(test_access_by_place),
		cmocka_unit_test(test_ways_are_apart),
		cmocka_unit_test(test_ways_of_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
