/* um_sum.c - unified memory by address: the pages that moved or faulted most. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/um.h"
#include "base/choose.h"

static const struct ws_column columns[] = {
	{"Virtual Address", WS_KIND_TEXT},     {"HtoD Migration Size", WS_KIND_SIZE},
	{"DtoH Migration Size", WS_KIND_SIZE}, {"CPU Page Faults", WS_KIND_COUNT},
	{"GPU Page Faults", WS_KIND_COUNT},    {"Migration Throughput", WS_KIND_RATE},
};

static const char *const args[] = {"rows=", NULL};

static int by_traffic(const void *first, const void *second)
{
	const struct ws_um *left = first, *right = second;
	uint64_t m = left->to_device + left->to_host, n = right->to_device + right->to_host;
	uint64_t f = left->cpu_faults + left->gpu_faults, g = right->cpu_faults + right->gpu_faults;

	if (m != n)
		return m > n ? -1 : 1;
	if (f != g)
		return f > g ? -1 : 1;
	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return ws_compare(left->process, right->process);
}

static void sift_down(struct ws_um *heap, size_t n)
{
	struct ws_um um = heap[0];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && by_traffic(&heap[k + 1], &heap[k]) > 0)
			k++;
		if (by_traffic(&heap[k], &um) <= 0)
			break;
		heap[i] = heap[k];
	}
	heap[i] = um;
}

/* The first `most` in order, at the beginning: few of millions, mostly. Of those so far the last is
 * on top of a heap. */
static size_t first_of(struct ws_um *um, size_t n, size_t most)
{
	if (!most || !n)
		return 0;
	if (n > most) {
		qsort(um, most, sizeof(*um), by_traffic);
		for (size_t i = 0; i < most / 2; i++) { /* last first: a heap */
			struct ws_um um_x = um[i];

			um[i] = um[most - 1 - i];
			um[most - 1 - i] = um_x;
		}
		for (size_t i = most; i < n; i++)
			if (by_traffic(&um[i], &um[0]) < 0) {
				um[0] = um[i];
				sift_down(um, most);
			}
		n = most;
	}
	qsort(um, n, sizeof(*um), by_traffic);
	return n;
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	const char *limit = ws_stats_arg(stats, "rows=");
	size_t most = limit ? strtoul(limit, NULL, 10) : 10, n;
	struct ws_um *um = ws_um_load(stats, &n);

	(void)err;
	n = first_of(um, n, most);
	for (size_t i = 0; i < n; i++) {
		char address[32];

		snprintf(address, sizeof(address), "0x%" PRIX64, um[i].address);
		stats->row(stats,
			   (struct ws_cell[]){
				   ws_cell_text(address, strlen(address)),
				   um[i].moved ? ws_cell_real(um[i].to_device) : ws_cell_null(),
				   um[i].moved ? ws_cell_real(um[i].to_host) : ws_cell_null(),
				   ws_cell_int((int64_t)um[i].cpu_faults),
				   ws_cell_int((int64_t)um[i].gpu_faults),
				   um[i].ns ? ws_cell_real((long double)um[i].bytes * 1000000000 /
							   um[i].ns)
					    : ws_cell_null(),
			   });
	}
	free(um);
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
