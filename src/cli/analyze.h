/* analyze.h - what other commands use of `analyze`. */
#ifndef WS_CLI_ANALYZE_H
#define WS_CLI_ANALYZE_H

/* Say on standard error what costs most in a report: three findings at most, nothing where there is
 * none of weight. A report that cannot be analysed is skipped. */
void ws_say_findings(const char *path);

#endif
