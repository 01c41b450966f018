/* um_sum.c - unified memory by address: the pages that moved or faulted most. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/unified_memory.h"
#include "base/choose.h"

static const struct ws_column columns[] = {
	{"Virtual Address", WS_KIND_TEXT},     {"HtoD Migration Size", WS_KIND_SIZE},
	{"DtoH Migration Size", WS_KIND_SIZE}, {"CPU Page Faults", WS_KIND_COUNT},
	{"GPU Page Faults", WS_KIND_COUNT},    {"Migration Throughput", WS_KIND_RATE},
};

static const char *const args[] = {"rows=", NULL};

static int compare_traffic(const void *first, const void *second)
{
	const struct ws_unified_memory_sums *left = first, *right = second;
	uint64_t left_bytes = left->to_device + left->to_host,
		 right_bytes = right->to_device + right->to_host;
	uint64_t left_faults = left->cpu_faults + left->gpu_faults,
		 right_faults = right->cpu_faults + right->gpu_faults;

	if (left_bytes != right_bytes)
		return ws_compare(right_bytes, left_bytes);
	if (left_faults != right_faults)
		return ws_compare(right_faults, left_faults);
	if (left->address != right->address)
		return ws_compare(left->address, right->address);
	return ws_compare(left->process, right->process);
}

static void sift_heap_down(struct ws_unified_memory_sums *heap, size_t count)
{
	struct ws_unified_memory_sums um = heap[0];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < count; i = k) {
		if (k + 1 < count && compare_traffic(&heap[k + 1], &heap[k]) > 0)
			k++;
		if (compare_traffic(&heap[k], &um) <= 0)
			break;
		heap[i] = heap[k];
	}
	heap[i] = um;
}

/* Move the first `most` in order to the beginning, usually few of millions: a heap holds the best
 * so far, with the last of them on top. Returns how many there are. */
static size_t select_first(struct ws_unified_memory_sums *um, size_t count, size_t most)
{
	if (!most || !count)
		return 0;
	if (count > most) {
		qsort(um, most, sizeof(*um), compare_traffic);
		for (size_t i = 0; i < most / 2; i++) { /* in reverse order they are a heap */
			struct ws_unified_memory_sums swapped = um[i];

			um[i] = um[most - 1 - i];
			um[most - 1 - i] = swapped;
		}
		for (size_t i = most; i < count; i++)
			if (compare_traffic(&um[i], &um[0]) < 0) {
				um[0] = um[i];
				sift_heap_down(um, most);
			}
		count = most;
	}
	qsort(um, count, sizeof(*um), compare_traffic);
	return count;
}

static int make_um_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	size_t most = ws_get_stats_arg_number(stats, "rows=", 10), count;
	struct ws_unified_memory_sums *um = ws_load_unified_memory(stats, &count);

	(void)err;
	count = select_first(um, count, most);
	for (size_t i = 0; i < count; i++) {
		char address[32];

		snprintf(address, sizeof(address), "0x%" PRIX64, um[i].address);
		stats->row(stats, (struct ws_cell[]){
					  ws_cell_text(address, strlen(address)),
					  ws_cell_real_if(um[i].moved, um[i].to_device),
					  ws_cell_real_if(um[i].moved, um[i].to_host),
					  ws_cell_int((int64_t)um[i].cpu_faults),
					  ws_cell_int((int64_t)um[i].gpu_faults),
					  ws_cell_real_if(um[i].ns, (long double)um[i].bytes *
									    1000000000 / um[i].ns),
				  });
	}
	free(um);
	return 0;
}

const struct ws_stats_report ws_stat_um_sum = {
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
	.run = make_um_sum_rows,
};
