/*
 * analysis.h - the data that all rules use: the model, the critical path through its window, where
 * the time of that path went, and how each GPU's time was spent.
 */
#ifndef WS_ANALYZE_ANALYSIS_H
#define WS_ANALYZE_ANALYSIS_H

#include "analyze/breakdown.h"
#include "analyze/facts.h"
#include "analyze/launches.h"
#include "analyze/measured.h"
#include "analyze/model.h"
#include "analyze/parallel.h"
#include "analyze/path.h"
#include "analyze/phases.h"
#include "analyze/ranges.h"
#include "analyze/slow_steps.h"
#include "analyze/usage.h"

/*
 * One GPU's time within the window; the parts add up to the window. Idle time is time with neither
 * a kernel nor a copy. `idle` divides it by what the GPU waited for, which is the path from the
 * work that ended each gap back to the gap's beginning. Before the first and after the last piece
 * of work the cause is that of the path through the window.
 */
struct ws_gpu_budget {
	uint64_t compute;	 /* computation, alone or overlapping anything else */
	uint64_t overlapped;	 /* the part that overlaps communication or copies */
	uint64_t exposed_comm;	 /* communication without computation */
	uint64_t exposed_copies; /* copies without either */
	uint64_t idle_total;
	struct ws_breakdown idle;
};

struct ws_graph;
struct ws_launch_places;

struct ws_analysis {
	struct ws_model *model;
	struct ws_graph *graph;			/* for estimate.h, which builds it on first use */
	struct ws_launch_places *launch_places; /* the same for launch_places.h */
	struct ws_path path;
	struct ws_breakdown breakdown;
	struct ws_gpu_budget *gpus; /* model->work.gpus entries */
	struct ws_facts facts;
	struct ws_gpu_measures measured;
	struct ws_range_facts ranges; /* where there was work on GPUs */
	struct ws_usage usage;
	struct ws_parallel parallel;
	struct ws_phases phases;
	struct ws_launches launches;
	struct ws_slow_steps slow;
	uint64_t window; /* ns */
	/* The time that findings are measured by: the window without the time in which threads on
	 * the path waited for a core that other programs used. */
	uint64_t rated;
	double demand;	/* cores that the program's threads wanted on average */
	uint32_t cores; /* of the machine; 0 when not known */
	size_t steps;	/* steps that count, at least 1 */
};

/* Analyse a report. Returns NULL with a message. */
struct ws_analysis *ws_analysis_open(const struct ws_report *report,
				     const struct ws_model_options *options, struct ws_err *err);
void ws_analysis_close(struct ws_analysis *analysis); /* NULL is fine */

/* How a GPU (its number in model->work.gpu) spent a part of the window. Free with
 * ws_breakdown_free(&budget->idle). */
void ws_analysis_measure_gpu(const struct ws_analysis *analysis, size_t gpu, uint64_t from,
			     uint64_t to, struct ws_gpu_budget *budget);

/* How long the busiest GPU worked within the window, ns: no step can be shorter. */
uint64_t ws_analysis_gpu_busy(const struct ws_analysis *analysis);
/* How long threads computed on the path, calls of CUDA included. */
uint64_t ws_analysis_cpu_on_path(const struct ws_analysis *analysis);
/* Append "3.21 ms", with as many units as needed. */
void ws_put_rounded_time(struct ws_text *text, uint64_t ns);

/* `ns` as a share of the window, 0 to 1: for tables. */
double ws_analysis_part(const struct ws_analysis *analysis, uint64_t ns);
/* `ns` as a share of `rated`, 0 to 1: for thresholds and findings. */
double ws_analysis_share(const struct ws_analysis *analysis, uint64_t ns);
/* The part of the GPU's computation on the critical path that kernels of this kind are, by their
 * share of the time of all kernels, in ns. */
uint64_t ws_analysis_kind_cost(const struct ws_analysis *analysis, enum ws_kernel_kind kind);
/* "GPU 0", with the rank of the process that uses it where there are ranks. */
void ws_analysis_put_gpu(const struct ws_analysis *analysis, size_t gpu, struct ws_text *text);

#endif
