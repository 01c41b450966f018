/*
 * compare.h - compares two sets of runs of a program: which of its parts take longer or shorter,
 * beyond the usual difference between runs, what is new and gone, and what explains the change of
 * the step time.
 *
 * Runs are added one after the other and may be closed at once; ws_comparison_finish then matches
 * and judges. Everything is owned by the comparison.
 */
#ifndef WS_COMPARE_COMPARE_H
#define WS_COMPARE_COMPARE_H

#include "compare/estimate.h"
#include "compare/explain.h"
#include "compare/match.h"

enum ws_change_verdict {
	WS_CHANGE_SAME, /* no change beyond the noise */
	WS_CHANGE_SLOWER,
	WS_CHANGE_FASTER,
	WS_CHANGE_NEW,
	WS_CHANGE_GONE
};
/* "no change", "slower"... */
const char *ws_name_change_verdict(enum ws_change_verdict verdict);

/* One item before and after. */
struct ws_change {
	enum ws_item_kind kind;
	const char *name, *renamed; /* as in struct ws_match */
	size_t names[WS_SIDES];
	double ns[WS_SIDES]; /* per step, or per run where there are no steps; mean of the runs */
	double count[WS_SIDES];	     /* the same */
	struct ws_estimate estimate; /* of the time */
	/*
	 * (new - base) / base of the typical instance, after removing what all items of its kind
	 * have in common where the machine may have caused that, with its 95 % interval; the
	 * interval is infinite where not known.
	 */
	double change, low, high;
	double probability; /* probability that an unchanged item looks as much changed */
	bool judged;	    /* it was large enough to be judged */
	enum ws_change_verdict verdict;
	const struct ws_match *match;
};

struct ws_run_facts {
	char *path;
	size_t steps;	 /* steps that count; 1 without steps */
	uint64_t window; /* ns */
	double waiting;	 /* share of the time in which threads wanted a core but had none */
	double gpu;	 /* share of the critical path that was on GPUs */
	char *step_name; /* with # for numbers; "" for sequences of kernels; NULL without steps */
	char *gpus;	 /* names of the GPUs, joined; "" for none */
};

struct ws_comparison_options {
	const char *step_name; /* as in ws_model_options */
	bool whole;	       /* compare runs as wholes, whatever steps they have */
	bool other_gpu;	       /* also where the GPUs differ */
	double noise; /* by how much runs differ (standard deviation); 0: as items.h has it */
};

struct ws_comparison {
	struct ws_comparison_options options;
	struct ws_run_facts *runs; /* those of the base first */
	struct ws_items *items;	   /* by run */
	size_t run_count, run_cap, items_cap;
	size_t counts[WS_SIDES];
	bool has_steps;
	bool in_slices; /* parts of runs are slices of time, see ws_is_cut_in_slices */
	struct ws_matches matches;
	struct ws_change step;	   /* the time of a step, or of the run */
	struct ws_change own;	   /* the same without waits for a core on the critical path */
	struct ws_change *changes; /* all other items: changed ones first, by how much */
	size_t count, changed;
	/*
	 * By kind, for the logarithms of changes: what all items have in common where the machine
	 * may well have caused it, else 0; the standard error of that or, where it is not known, of
	 * what the machine may cause; how much noisier items are than assumed.
	 */
	double shift[WS_ITEM_KINDS], shift_error[WS_ITEM_KINDS], spread[WS_ITEM_KINDS];
	/* Where there are two kernels, too few to know what they have in common: both, each to be
	 * held against the other. */
	struct ws_control {
		const struct ws_match *match; /* NULL where there is none */
		struct ws_ratio ratio;
	} controls[2];
	/* With one run a side, where a shift is attributed to the machine: the same for each part
	 * of the runs, so that drift does not count either. */
	double common[WS_ITEM_KINDS][WS_UNITS];
	bool has_common[WS_ITEM_KINDS];
	struct ws_explanation path;
	struct ws_explanation *gpus;
	size_t gpu_count, gpu_cap;
};

void ws_comparison_begin(struct ws_comparison *comparison,
			 const struct ws_comparison_options *options);
/* Add a run of a side (0: base, added first; 1: new). 0, or -1 with a message. */
int ws_comparison_add(struct ws_comparison *comparison, size_t side, const struct ws_report *report,
		      const char *path, struct ws_err *err);
/* Judge. Returns -1 with a message where the runs cannot be compared. */
int ws_comparison_finish(struct ws_comparison *comparison, struct ws_err *err);
void ws_comparison_free(struct ws_comparison *comparison);

/* A measure of an item, or of the step, with its interval as in struct ws_change. */
struct ws_measured {
	double values[WS_SIDES]; /* ns, or how often */
	struct ws_estimate estimate;
	double change, low, high;
};
void ws_measure_change(const struct ws_comparison *comparison, const struct ws_change *change,
		       enum ws_measure measure, struct ws_measured *measured);
/* new / base - 1; infinite where the base has none. */
double ws_compute_change(const double values[WS_SIDES]);

#endif
