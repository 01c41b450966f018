/*
 * rules.h - what limits a measured kernel: findings, each with its evidence, what could be gained
 * and what to change.
 */
#ifndef WS_KERNEL_RULES_H
#define WS_KERNEL_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/result.h"

enum { WS_KERNEL_MOST_EVIDENCE = 8 };

enum ws_kernel_finding_kind {
	WS_KERNEL_VERDICT, /* what the kernel is bound by; without an estimate */
	WS_KERNEL_CAUSE,   /* a fault that can be removed */
	WS_KERNEL_SYMPTOM, /* an effect of a problem whose cause is another finding, or unknown */
	WS_KERNEL_NOTE,	   /* worth knowing */
};

struct ws_kernel_evidence {
	const char *label; /* in words */
	const char *metric;
	const char *unit;
	double value;
};

struct ws_kernel_finding {
	const char *rule;    /* identifier, as in Nsight Compute where it has one */
	const char *section; /* the section that it belongs to */
	enum ws_kernel_finding_kind kind;
	double estimate;  /* share of the kernel's time that could be saved, 0 to 1; NAN: none */
	char *title;	  /* one sentence: what is wrong */
	char *advice;	  /* what to change */
	char *assumption; /* what the estimate assumes; NULL when there is no estimate */
	struct ws_kernel_evidence evidence[WS_KERNEL_MOST_EVIDENCE];
	size_t evidence_count;
	const char *file; /* where most of it is; NULL when not known */
	uint32_t line;
};

struct ws_kernel_findings {
	struct ws_kernel_finding *findings; /* most important first; verdicts before all others */
	size_t count, capacity;
};

struct ws_kernel_rule {
	const char *identifier, *section, *about;
	void (*check)(const struct ws_kernel_result *result, struct ws_kernel_findings *findings);
};

extern const struct ws_kernel_rule *const ws_kernel_rules[]; /* ended by NULL */

/* Apply all rules to a result; `findings` is zeroed by the caller, who frees it. A rule whose
 * metrics were not measured adds no finding. */
void ws_kernel_judge(const struct ws_kernel_result *result, struct ws_kernel_findings *findings);
void ws_kernel_findings_free(struct ws_kernel_findings *findings);
/* The finding to begin with: the first with an estimate; NULL when there is none. */
const struct ws_kernel_finding *ws_kernel_first_finding(const struct ws_kernel_findings *findings);

/* What warps wait for that are stalled for this reason (long_scoreboard), in words; NULL for no
 * reason to wait. */
const char *ws_kernel_stall_words(const char *reason);

#endif
