/* print.h - the forms in which an analysis is written. */
#ifndef WS_ANALYZE_PRINT_H
#define WS_ANALYZE_PRINT_H

#include <stdio.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"

/* For people. Times are a step's where there are steps, else those of the run. */
void ws_print_analysis_text(const struct ws_analysis *analysis, const struct ws_findings *findings,
			    FILE *file);

#endif
