/*
 * items.h - the items of a run that are compared: each kernel, copy, call, range, operator and
 * function by its name, with its time and count in parts of the run.
 *
 * Names that differ only in numbers are folded into one (query/fold.h). Times are nanoseconds;
 * those of functions are what their CPU samples stand for.
 */
#ifndef WS_COMPARE_ITEMS_H
#define WS_COMPARE_ITEMS_H

#include "analyze/analysis.h"
#include "base/mem.h"
#include "compare/estimate.h"

enum ws_item_kind {
	WS_ITEM_STEP, /* the steps, or the whole run */
	WS_ITEM_OWN,  /* the same without the time that its critical path waited for a core */
	WS_ITEM_RANGE,
	WS_ITEM_KERNEL,
	WS_ITEM_COPY,
	WS_ITEM_API,
	WS_ITEM_CALL,
	WS_ITEM_OPERATOR,
	WS_ITEM_PYTHON,
	WS_ITEM_FUNCTION,
	WS_ITEM_KINDS
};

struct ws_item_desc {
	const char *name;   /* in answers and in --fail-on */
	const char *plural; /* "kernels" */
	/* By how much one run's figure differs from the next one's although nothing has changed and
	 * the parts of the runs do not show it: a standard deviation as a share. */
	double floor;
	/* The same in nanoseconds of one instance: a call takes some more or less in every run, by
	 * the core that it is on and by where memory lies, and for a short one that is much. */
	double floor_ns;
	/* The same for all items of the kind together, such as a machine that is faster today. */
	double shift;
	double least; /* share of a step by which an item must change to matter */
	/* How much noise other programs add where they want the same cores: a standard deviation,
	 * as a share of the share of time that threads waited for a core. */
	double crowding;
};
extern const struct ws_item_desc ws_item_descs[WS_ITEM_KINDS];

/* All functions of the kernel. They include interrupts that serve other programs, so this item is
 * shown but not judged. */
#define WS_KERNEL_ITEM "[kernel]"

struct ws_item {
	enum ws_item_kind kind;
	char *name;
	size_t length;
	struct ws_series series;
	struct ws_instances *instances; /* while they are collected, see items.c */
};

struct ws_items {
	struct ws_item **items;
	size_t count, cap;
	struct ws_series nothing; /* for something that did not happen: only lengths */
};

/* Whether a run has too few steps to be cut at them, or none: its parts are then slices of time. */
bool ws_is_cut_in_slices(const struct ws_model *model);
/* Read what happened in the window of an analysis. Blocks that cannot be read are passed over. Free
 * with ws_items_free. */
void ws_items_collect(const struct ws_analysis *analysis, struct ws_items *items);
void ws_items_free(struct ws_items *items);

/* Append a name with # for each of its numbers and hashes. */
void ws_put_name_form(struct ws_text *text, const char *name);
/* The form of the names of the steps: "" for sequences of kernels, NULL without steps. Owned by the
 * caller. */
char *ws_find_step_form(const struct ws_model *model);

#endif
