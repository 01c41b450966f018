/*
 * stretches.h - the critical path of a part of the window in pieces that can be drawn: each lies in
 * a row of the time line (a thread, or a stream of a GPU) and has one cause.
 *
 * They are in order of time, touch each other and cover the part exactly; where the next one lies
 * in another row, the path moves to that row.
 */
#ifndef WS_ANALYZE_STRETCHES_H
#define WS_ANALYZE_STRETCHES_H

#include "analyze/analysis.h"

struct ws_stretch {
	uint64_t start, end; /* session clock, ns */
	uint64_t pieces; /* number of pieces in it: more than one where short ones were joined */
	enum ws_cause cause; /* cause of the longest of them, as are the row and the name */
	bool on_gpu;	     /* it lies on a stream, else on `thread` */
	uint32_t thread;  /* id of the thread; for a stream's work the one that launched it; 0 for
			     none */
	uint32_t process; /* id of the process */
	uint32_t gpu;	  /* number in model->work.gpu, where `on_gpu` */
	uint32_t stream;  /* where `on_gpu` */
	uint32_t name;	  /* string: the kernel, the call, the function it waits in; 0 for none */
};

struct ws_stretches {
	struct ws_stretch *stretches;
	size_t count, cap;
	uint64_t from, to; /* what they cover: the part asked for, cut to the model's window */
};

/* The path from `from` to `to`. Neighbours that together take no longer than `least_ns` are joined,
 * so that there are no more than about 2 * (to - from) / least_ns; 0 joins none. Free with
 * ws_stretches_free. */
void ws_stretches_list(const struct ws_analysis *analysis, uint64_t from, uint64_t to,
		       uint64_t least_ns, struct ws_stretches *stretches);
void ws_stretches_free(struct ws_stretches *stretches);

#endif
