/* um_total_sum.c - unified memory in one line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/unified_memory.h"
#include "base/choose.h"

static const struct ws_column columns[] = {
	{"Total HtoD Migration Size", WS_KIND_SIZE}, {"Total DtoH Migration Size", WS_KIND_SIZE},
	{"Total CPU Page Faults", WS_KIND_COUNT},    {"Total GPU PageFaults", WS_KIND_COUNT},
	{"Minimum Virtual Address", WS_KIND_TEXT},   {"Maximum Virtual Address", WS_KIND_TEXT},
};

static struct ws_cell make_address_cell(uint64_t value, bool there, char *buffer, size_t size)
{
	snprintf(buffer, size, "0x%" PRIX64, value);
	return ws_cell_text_if(there, buffer, strlen(buffer));
}

static int make_um_total_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_unified_memory_sums sum = {0};
	size_t count;
	struct ws_unified_memory_sums *um = ws_load_unified_memory(stats, &count);
	uint64_t min = UINT64_MAX, max = 0;
	char first[32], last[32];

	(void)err;
	for (size_t i = 0; i < count; i++) {
		sum.to_device += um[i].to_device;
		sum.to_host += um[i].to_host;
		sum.cpu_faults += um[i].cpu_faults;
		sum.gpu_faults += um[i].gpu_faults;
		if (!um[i].moved)
			continue;
		sum.moved = true;
		min = ws_min(um[i].address, min);
		max = ws_max(um[i].address, max);
	}
	free(um);
	if (count)
		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real(sum.to_device),
					  ws_cell_real(sum.to_host),
					  ws_cell_int((int64_t)sum.cpu_faults),
					  ws_cell_int((int64_t)sum.gpu_faults),
					  make_address_cell(min, sum.moved, first, sizeof(first)),
					  make_address_cell(max, sum.moved, last, sizeof(last)),
				  });
	return 0;
}

const struct ws_stats_report ws_stat_um_total_sum = {
	.name = "um_total_sum",
	.title = "Unified Memory Totals Summary",
	.about = "All traffic and page faults of unified memory, with the lowest and the highest "
		 "address of pages that moved.",
	.what = "unified-memory migrations or page faults",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_um_total_sum_rows,
};
