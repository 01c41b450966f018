/*
 * metered.h - what the reports on GPU metrics share: the means of all metrics over groups of spans
 * (the instances of a kernel, of a range), and the columns that show them.
 */
#ifndef WS_STATS_METERED_H
#define WS_STATS_METERED_H

#include "query/metered_gpu.h"
#include "stats/stats.h"

/* A span of time on a GPU that belongs to group `group`. */
struct ws_metered_span {
	uint64_t start, end;
	uint32_t group;
};

struct ws_metered_spans {
	struct ws_metered_span *spans;
	size_t count, capacity;
};

/* The sums of each group. Zeroed to begin with; free with ws_metered_sums_free. */
struct ws_metered_sums {
	size_t groups;
	double *sum[WS_GPU_METRICS];	 /* by group: value times ns */
	uint64_t *known[WS_GPU_METRICS]; /* by group: ns with a value */
	struct ws_metered_group {
		uint64_t time, count;		  /* length of its spans, ns; their number */
		struct ws_metric_samples samples; /* that its spans touch, each counted once */
		uint64_t own_time;		  /* length of its spans in these samples, ns */
	} * group;
};

/* Add up the spans, which may overlap; they are put in order of start and cut to the window of
 * `stats`. Instances outside the window do not count. */
void ws_measure_spans(const struct ws_stats *stats, const struct ws_metered_gpu *gpu,
		      struct ws_metered_spans *spans, size_t groups, struct ws_metered_sums *sums);
void ws_metered_sums_free(struct ws_metered_sums *sums);

#define WS_METERED_LEADING_COLUMNS(instances)                                                 \
	{"Total Time", WS_KIND_TIME}, {instances, WS_KIND_COUNT}, {"Samples", WS_KIND_COUNT}, \
	{                                                                                     \
		"Own Share", WS_KIND_SHARE                                                    \
	}
/* The columns of the means come from query/metered.def, followed by these: */
#define WS_METERED_LAST_COLUMNS          \
	{"Energy (J)", WS_KIND_VALUE},   \
	{                                \
		"Bound By", WS_KIND_TEXT \
	}
enum { WS_METERED_CELLS = 4 + WS_GPU_SHOWN_METRICS + 2 };

/* Set the cells of a group, WS_METERED_CELLS of them in the order of these columns. */
void ws_set_metered_cells(const struct ws_metered_gpu *gpu, const struct ws_metered_sums *sums,
			  size_t group, struct ws_cell *cells);

/* Add the floating-point operations of library calls, where they follow from the arguments, as the
 * metric WS_GPU_FLOPS. Returns 0, or -1 with a message. */
int ws_add_metered_flops(struct ws_stats *stats, struct ws_gpu_metrics *metrics,
			 struct ws_err *err);

/* For steps and ranges, which may hold many kernels: a low utilisation of all units says nothing
 * about them. */
void ws_drop_mixed_verdict(struct ws_cell *cells);
/* "NVIDIA H200 (0)" */
void ws_put_metered_gpu_name(const struct ws_stats *stats, const struct ws_metered_gpu *gpu,
			     struct ws_text *text);
/* Numbers of the groups, longest time first; owned by the caller. Groups without any time are left
 * out. */
uint32_t *ws_order_metered_groups(const struct ws_metered_sums *sums, size_t *count);
/* Why a report has no GPU metrics. */
const char *ws_explain_no_gpu_metrics(const struct ws_report *report);

#define WS_METERED_HELP                                                                            \
	"Means are weighted by time: a sample counts as long as it overlaps. Samples is how many " \
	"there were; Own Share is how much of their time was its own: where it is far below "      \
	"100 %, values are those of neighbours too, and nothing is said of what it is bound by. "  \
	"Kernels that run at the same time share what the GPU did. Energy is by the energy "       \
	"counter, where there is one. GFLOP/s are those of library calls whose operations follow " \
	"from their arguments (cuBLAS...)"

#endif
