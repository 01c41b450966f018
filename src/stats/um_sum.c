/* um_sum.c - unified memory by address: the pages that moved or faulted most. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/um.h"

static const struct ws_column columns[] = {
	{"Virtual Address", WS_KIND_TEXT},     {"HtoD Migration Size", WS_KIND_SIZE},
	{"DtoH Migration Size", WS_KIND_SIZE}, {"CPU Page Faults", WS_KIND_COUNT},
	{"GPU Page Faults", WS_KIND_COUNT},    {"Migration Throughput", WS_KIND_RATE},
};

static const char *const args[] = {"rows=", NULL};

static int by_traffic(const void *a, const void *b)
{
	const struct ws_um *x = a, *y = b;
	uint64_t m = x->to_device + x->to_host, n = y->to_device + y->to_host;
	uint64_t f = x->cpu_faults + x->gpu_faults, g = y->cpu_faults + y->gpu_faults;

	if (m != n)
		return m > n ? -1 : 1;
	if (f != g)
		return f > g ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

static void sift_down(struct ws_um *heap, size_t n)
{
	struct ws_um x = heap[0];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && by_traffic(&heap[k + 1], &heap[k]) > 0)
			k++;
		if (by_traffic(&heap[k], &x) <= 0)
			break;
		heap[i] = heap[k];
	}
	heap[i] = x;
}

/* The first `most` in order, at the beginning: few of millions, mostly. Of those so far the last is
 * on top of a heap. */
static size_t first_of(struct ws_um *v, size_t n, size_t most)
{
	if (!most || !n)
		return 0;
	if (n > most) {
		qsort(v, most, sizeof(*v), by_traffic);
		for (size_t i = 0; i < most / 2; i++) { /* last first: a heap */
			struct ws_um x = v[i];

			v[i] = v[most - 1 - i];
			v[most - 1 - i] = x;
		}
		for (size_t i = most; i < n; i++)
			if (by_traffic(&v[i], &v[0]) < 0) {
				v[0] = v[i];
				sift_down(v, most);
			}
		n = most;
	}
	qsort(v, n, sizeof(*v), by_traffic);
	return n;
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	const char *limit = ws_stats_arg(s, "rows=");
	size_t most = limit ? strtoul(limit, NULL, 10) : 10, n;
	struct ws_um *v = ws_um_load(s, &n);

	(void)e;
	n = first_of(v, n, most);
	for (size_t i = 0; i < n; i++) {
		char address[32];

		snprintf(address, sizeof(address), "0x%" PRIX64, v[i].address);
		s->row(s, (struct ws_cell[]){
				  ws_cell_text(address, strlen(address)),
				  v[i].moved ? ws_cell_real(v[i].to_device) : ws_cell_null(),
				  v[i].moved ? ws_cell_real(v[i].to_host) : ws_cell_null(),
				  ws_cell_int((int64_t)v[i].cpu_faults),
				  ws_cell_int((int64_t)v[i].gpu_faults),
				  v[i].ns ? ws_cell_real((long double)v[i].bytes * 1000000000 /
							 v[i].ns)
					  : ws_cell_null(),
			  });
	}
	free(v);
	return 0;
}

const struct ws_stat ws_stat_um_sum = {
	.name = "um_sum",
	.title = "Unified Memory Analysis Summary",
	.about = "Unified memory by address of the pages: bytes moved to devices and to the host, "
		 "page faults, and bytes a second while "
		 "they moved. The addresses with most traffic first, 10 of them unless "
		 ":rows=<number> is given",
	.what = "unified-memory migrations or page faults",
	.by_default = true,
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
