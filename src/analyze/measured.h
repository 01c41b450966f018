/*
 * measured.h - what GPU counters say about the window: the means of each GPU, and of its kernels by
 * name.
 */
#ifndef WS_ANALYZE_MEASURED_H
#define WS_ANALYZE_MEASURED_H

#include "analyze/facts.h"
#include "query/metered_gpu.h"

struct ws_measured_gpu {
	const struct ws_metered_gpu *metered; /* NULL: nothing is known of it */
	/* Over the window; NAN where not known, or for less than half of it. */
	double means[WS_GPU_METRICS];
	uint64_t sampled; /* ns of the window with SM Active */
	uint64_t known;	  /* the same, or 0 where that is less than half of the window */
	/* ns in which PCIe was at least WS_BUSY_LINK_PERCENT of its peak, in either direction */
	uint64_t busy_pcie;
};
enum { WS_BUSY_LINK_PERCENT = 70 };

struct ws_measured_kernel {
	double means[WS_GPU_METRICS]; /* NAN where known for less than half of its time */
	double own_share; /* the kernel's own share of the time of the samples that it was in */
	enum ws_gpu_bound bound;
};

struct ws_gpu_measures {
	struct ws_gpu_metrics metrics;
	struct ws_measured_gpu *gpus;	    /* one for each of model->work.gpus */
	struct ws_measured_kernel *kernels; /* one for each of facts->kernels, in their order */
	bool any;			    /* SM Active of any GPU is known */
	bool sampled;			    /* there are samples of it, even if too few */
};

/* Measure; `facts` is of the same model. Free with ws_gpu_measures_free. */
void ws_measure_model(const struct ws_model *model, const struct ws_facts *facts,
		      struct ws_gpu_measures *measured);
void ws_gpu_measures_free(struct ws_gpu_measures *measured);

#endif
