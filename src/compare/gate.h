/*
 * gate.h - conditions under which a comparison fails, for continuous integration.
 *
 *     [time|count|mean] step|own|total|KIND NAME  >|<  NUMBER[%|ns|us|ms|s]
 *
 * such as 'step>3%', 'kernel gemm>5%', 'count api cudaMalloc>0%', 'mean range forward>2ms'. KIND is
 * that of struct ws_item_desc. NAME is a name, a pattern with * and ?, or a word of the name; all
 * items that it fits are tried. Times are a step's (of the whole run without steps), 'own' is a
 * step without waits for a core, 'total' the time of all steps, 'mean' that of one instance. With a
 * unit of time the limit is a difference.
 *
 * A condition that the measured change meets fails if it is certain that there is a change in that
 * direction (the 95 % interval excludes 0), otherwise the result is "cannot tell". One that it does
 * not meet passes if a change of the size of the limit would have been noticed (half the interval
 * is not wider than the limit, or all of it is on the safe side), otherwise the result is "cannot
 * tell".
 */
#ifndef WS_COMPARE_GATE_H
#define WS_COMPARE_GATE_H

#include "compare/compare.h"

enum ws_gate_result { WS_GATE_PASS, WS_GATE_UNKNOWN, WS_GATE_FAIL }; /* by severity */
const char *ws_name_gate_result(enum ws_gate_result result); /* "pass", "cannot tell", "fail" */

struct ws_gate {
	char *text; /* as it was given */
	enum ws_measure measure;
	enum ws_item_kind kind;
	char *name; /* pattern; NULL for step and total */
	bool total, below, relative;
	double limit; /* a share, or ns or instances */
};

/* An item that a gate judged. */
struct ws_gate_finding {
	const struct ws_gate *gate;
	const struct ws_change *change;
	struct ws_measured measured;
	enum ws_gate_result result;
};

struct ws_gate_findings {
	struct ws_gate_finding *findings;
	size_t count, cap;
	enum ws_gate_result result; /* the most severe */
};

/* Returns 0, or -1 with a message that says what is wrong. Free with ws_gate_free in any case. */
int ws_gate_parse(const char *text, struct ws_gate *gate, struct ws_err *err);
void ws_gate_free(struct ws_gate *gate);
/* Add the results of a gate. -1 with a message where nothing has that name. */
int ws_gate_judge(const struct ws_gate *gate, const struct ws_comparison *comparison,
		  struct ws_gate_findings *findings, struct ws_err *err);
void ws_gate_findings_free(struct ws_gate_findings *findings);

#endif
