/*
 * java.h - what is known of programs that run in a Java machine (HotSpot): which of their threads
 * are the machine's own, and what threads wait for inside of it.
 */
#ifndef WS_ANALYZE_JAVA_H
#define WS_ANALYZE_JAVA_H

#include "analyze/model.h"

enum ws_java_wait {
	WS_JAVA_OTHER_WAIT,
	WS_JAVA_MONITOR, /* to enter a monitor: synchronized */
	WS_JAVA_PARKED,	 /* by the locks and queues of java.util.concurrent, among others */
};

/* Whether the explained process is a Java machine. */
bool ws_is_java(const struct ws_model *model);
/* Whether a thread of it collects garbage, compiles or serves it otherwise. */
bool ws_is_java_helper(const struct ws_model *model, uint32_t thread);
/* Whether it is the one that runs the program's main(). */
bool ws_is_java_main(const struct ws_model *model, uint32_t thread);
/* That thread, which the first one of the process waits for all the time; 0 where there is none. */
uint32_t ws_find_java_main(const struct ws_model *model);
/* What a wait for a condition with this call stack is for. */
enum ws_java_wait ws_classify_java_wait(const struct ws_model *model, uint32_t stack);

/* What a method of Java's library is known to cost where it is called in loops. */
struct ws_java_cost {
	const char *what, *advice;
	const char *names[12];
};
/* NULL for methods of which nothing is known. */
const struct ws_java_cost *ws_find_java_cost(const char *method);

#endif
