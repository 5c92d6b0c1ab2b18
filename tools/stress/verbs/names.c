/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - words of rdma.h: operations, measures, shapes, places.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/stress/verbs/rdma.h"

#define TEXT_MAX 256

const char *const rdma_operation_names[] = { "write", "read", "send" };
const char *const rdma_measure_names[] = { "bandwidth", "latency", "rate" };
const char *const rdma_measure_units[] = { "Gb/s", "us", "Mmsg/s" };
const char *const rdma_shape_names[] = {
#define SHAPE(id, name, help) name,
#include "tools/stress/verbs/shapes.def"
#undef SHAPE
};

static int names_parse(const char *text, const char *const *names, int n, uint32_t *bits)
{
	char copy[TEXT_MAX], *rest = copy, *word;

	*bits = 0;
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		uint32_t bit = !strcmp(word, "all") ? (1u << n) - 1 : 0;

		for (int i = 0; i < n; i++)
			bit |= !strcmp(word, names[i]) ? 1u << i : 0;
		if (!bit)
			return -EINVAL;
		*bits |= bit;
	}
	return 0;
}

int rdma_operations_parse(const char *text, uint32_t *bits)
{
	return names_parse(text, rdma_operation_names, N_RDMA_OPERATIONS, bits);
}

int rdma_measures_parse(const char *text, uint32_t *bits)
{
	return names_parse(text, rdma_measure_names, N_RDMA_MEASURES, bits);
}

int rdma_shapes_parse(const char *text, uint32_t *bits)
{
	return names_parse(text, rdma_shape_names, N_RDMA_SHAPES, bits);
}

const char *rdma_case_name(const struct rdma_case *c, char *text, unsigned int size)
{
	snprintf(text, size, "%s of %u bytes", rdma_operation_names[c->operation], c->bytes);
	return text;
}

const char *rdma_place_name(const struct rdma_place *p, char *text, unsigned int size)
{
	if (p->gpu >= 0)
		snprintf(text, size, "GPU %d", p->gpu);
	else if (p->number >= 0)
		snprintf(text, size, "memory of node %d", p->number);
	else
		snprintf(text, size, "memory");
	return text;
}
