/* rules.h - what all files of rules need. */
#ifndef WS_ANALYZE_RULES_H
#define WS_ANALYZE_RULES_H

#include <string.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "base/choose.h"
#include "base/mem.h"

#define RULE(name) extern const struct ws_rule ws_rule_##name;
#include "analyze/rules.def"

/* Obstacles that many rules share; NULL where there is none. */
const char *ws_need_cuda(const struct ws_analysis *analysis);
const char *ws_need_scheduling(const struct ws_analysis *analysis);
/* The sum of the path's rows for which `wanted` holds, ns. */
uint64_t ws_sum_path_rows(const struct ws_analysis *analysis,
			  bool (*wanted)(const struct ws_analysis *analysis,
					 const struct ws_breakdown_row *row));
/* The longest of them, or NULL. */
const struct ws_breakdown_row *ws_find_path_row(const struct ws_analysis *analysis,
						bool (*wanted)(const struct ws_analysis *analysis,
							       const struct ws_breakdown_row *row));
/* Whether a function of CUDA (a string, with its version) has one of these names. */
bool ws_is_call_named(const struct ws_analysis *analysis, uint32_t call, const char *const *names);
/* What of the window lies in calls of CUDA with these names on the path, ns; names as for
 * ws_facts_sum_calls. */
uint64_t ws_sum_path_calls(const struct ws_analysis *analysis, const char *const *names);
/* What kernels of this name take of the path, ns; the name as ws_report_string_key has it. */
uint64_t ws_sum_path_kernel(const struct ws_analysis *analysis, uint32_t name);
/* " at load (train.py:31)", or nothing where the place is not known. */
void ws_put_at_place(const struct ws_analysis *analysis, const struct ws_code_place *place,
		     struct ws_text *text);

#endif
