/*
 * explain.h - what makes a step (or the run) take longer or shorter: where its time went before and
 * after, by the causes of analyze/breakdown.h and by code, call or kernel. All figures are whole
 * nanoseconds a step whose sums are exactly the time of a step, and whose differences add up to its
 * change.
 */
#ifndef WS_COMPARE_EXPLAIN_H
#define WS_COMPARE_EXPLAIN_H

#include "analyze/analysis.h"
#include "compare/match.h"

struct ws_explained_row {
	char *cause; /* "code on a core"; of a GPU "computation", "idle: sleeping" */
	char *what;  /* code, call, kernel; "" where nothing more is known */
	uint64_t sum[WS_SIDES];
	int64_t ns[WS_SIDES]; /* a step, mean of the runs */
};

struct ws_explanation {
	char *title;		       /* "critical path", "GPU 0" */
	struct ws_explained_row *rows; /* by how much they changed, most first */
	size_t count, cap;
	struct ws_explained_row *causes; /* the same by cause only; `what` is NULL */
	size_t cause_count, cause_cap;
	int64_t total[WS_SIDES];
};

/* Add the contents of a run's critical path. */
void ws_explain_path(const struct ws_analysis *analysis, size_t side,
		     struct ws_explanation *explanation);
/* Add how a GPU's time was spent. */
void ws_explain_gpu(const struct ws_analysis *analysis, size_t gpu, size_t side,
		    struct ws_explanation *explanation);
/* When all runs have been added: `runs` of each side. */
void ws_explanation_finish(struct ws_explanation *explanation, const size_t runs[WS_SIDES]);
void ws_explanation_free(struct ws_explanation *explanation);

#endif
