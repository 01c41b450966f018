/*
 * finding.h - what a rule says: what is wrong, what it costs, what to do, and how to see it.
 *
 * Texts are owned by the finding. Costs and gains are nanoseconds of the window; per step they are
 * divided by the number of steps where they are shown.
 */
#ifndef WS_ANALYZE_FINDING_H
#define WS_ANALYZE_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* OK recognises a healthy case; a NOTE says something worth knowing that is not a fault; a WARNING
 * costs at least WS_WARNING_SHARE of the window, a CRITICAL finding WS_CRITICAL_SHARE. */
enum ws_finding_level { WS_LEVEL_OK, WS_LEVEL_NOTE, WS_LEVEL_WARNING, WS_LEVEL_CRITICAL };
#define WS_WARNING_SHARE 0.05
#define WS_CRITICAL_SHARE 0.25
/* As many give a share to a quarter of itself or so. */
enum { WS_LEAST_SAMPLES = 20 };
const char *ws_name_level(enum ws_finding_level level); /* "ok", "note", "warning", "critical" */

struct ws_evidence {
	char *text;  /* a sentence with figures */
	char *query; /* SQL that shows the rows (warpsight query REPORT '...'); or NULL */
	uint64_t start,
		end;	 /* where to look on the time line, session clock; 0 and 0 for nowhere */
	uint32_t thread; /* whose row; 0 for none */
};

struct ws_finding {
	const struct ws_rule *rule;
	enum ws_finding_level level;
	char *title;	  /* one sentence: what is wrong, where (thread, function, line, call) */
	char *advice;	  /* what to do, one or two sentences that fit the program */
	char *assumption; /* of the estimated gain */
	char *next;	  /* a command that shows more; or NULL */
	uint64_t cost_ns; /* the time that it takes in the window now */
	uint64_t gain_ns; /* estimate of how much shorter the window would be */
	struct ws_evidence *evidence;
	size_t evidence_count, evidence_cap;
	uint32_t file, line; /* of the source line that it is about; string id, 0 for none */
	bool start_up;	 /* of what is done once before longer work: after other faults, or other
			    notes */
	uint32_t number; /* distinguishes findings of one rule: its id is RULE or RULE-2... */
};

struct ws_findings {
	struct ws_finding *findings; /* by gain, most first; healthy cases last */
	size_t count, cap;
	struct ws_unlooked { /* rules that could not be applied, and why */
		const struct ws_rule *rule;
		char *why;
	} * unlooked;
	size_t unlooked_count, unlooked_cap;
};

struct ws_analysis;

/* One rule: a condition, a cost and sentences; it asks the analysis and reads no rows. rules.def
 * lists all rules. */
struct ws_rule {
	const char *name;  /* as --rule has it: words joined by hyphens */
	const char *title; /* what it looks for */
	const char *about; /* condition, threshold and why; shown by --explain */
	/* Shows the rows that the finding is about (proofs.h), for findings whose evidence has no
	 * query of its own; NULL where there is none. */
	const char *query;
	/* Its costs are sums of samples: with fewer than WS_LEAST_SAMPLES behind it, a finding is a
	 * note. */
	bool by_samples;
	/* Why the rule cannot judge this report (what was not recorded, and the option that records
	 * it), or NULL. The text is static. */
	const char *(*find_obstacle)(const struct ws_analysis *analysis);
	void (*check)(const struct ws_analysis *analysis, struct ws_findings *findings);
};

/* A new finding of a rule, zeroed except for the rule and the level, which follows from the gain's
 * share of the window unless the rule sets it. Valid until the next is added. */
struct ws_finding *ws_findings_add(struct ws_findings *findings, const struct ws_rule *rule);
/* Add evidence. `query` may be NULL; both are copied. */
void ws_finding_add_evidence(struct ws_finding *finding, const char *text, const char *query,
			     uint64_t start, uint64_t end);
/* The level that a gain deserves. */
enum ws_finding_level ws_rate_gain(const struct ws_analysis *analysis, uint64_t gain_ns);
/* Whether a rule has found a fault (not only a healthy case) so far. Rules run in the order of
 * rules.def: those for a particular fault before those that see only its effects. */
bool ws_findings_have(const struct ws_findings *findings, const struct ws_rule *rule);
/* The same, notes included. */
bool ws_findings_mention(const struct ws_findings *findings, const struct ws_rule *rule);
/* A finding with all its texts, which it takes ownership of (from ws_format or ws_strdup). */
struct ws_finding *ws_findings_add_fault(const struct ws_analysis *analysis,
					 struct ws_findings *findings, const struct ws_rule *rule,
					 uint64_t cost_ns, uint64_t gain_ns);
/* Apply all rules, or those named in `rules` (NULL-terminated), and sort the findings. */
void ws_findings_make(const struct ws_analysis *analysis, const char *const *rules,
		      struct ws_findings *findings);
void ws_findings_free(struct ws_findings *findings);

extern const struct ws_rule *const ws_rules[]; /* ended by NULL */
/* NULL when there is no rule of that name. */
const struct ws_rule *ws_find_rule(const char *name);

#endif
