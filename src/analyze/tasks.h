/*
 * tasks.h - what the tasks of an event loop of asyncio do: the coroutines that await each other, as
 * the samples between the loop's waits show them. While the loop waits, they are on no stack.
 */
#ifndef WS_ANALYZE_TASKS_H
#define WS_ANALYZE_TASKS_H

#include "analyze/code.h"

struct ws_task_place {
	struct ws_code_place place; /* of the line that awaits */
	bool loop, lock;	    /* the line is in a loop, or holds a lock or semaphore */
	bool single;		    /* which lets in one task at a time */
	bool polls;		    /* it sleeps in a loop until something has come */
	uint32_t taken, made;	    /* the lines that take that and make it; 0: not known */
};

enum { WS_TASK_DEEPEST = 8 };

/* The coroutines of the user's that were seen most, outermost first. */
struct ws_task_chain {
	struct ws_task_place places[WS_TASK_DEEPEST];
	size_t count;
};

/* Of a thread that runs an event loop. False where no sample shows a coroutine of the user's. */
bool ws_find_task_chain(const struct ws_model *model, uint32_t thread, struct ws_task_chain *chain);
/* How a program starts tasks that wait side by side, by its text. */
enum ws_tasks_start {
	WS_TASKS_NOT_TOGETHER,
	WS_TASKS_IN_GROUPS, /* gather in a loop: each round waits for the slowest one */
	WS_TASKS_TOGETHER,
};
/* Of the file that a chain begins in; `line` gets that of the statement. `own` is for those of the
 * chain's own coroutines alone: create_task(worker(queue)) in a loop. */
enum ws_tasks_start ws_find_tasks_start(const struct ws_model *model,
					const struct ws_task_chain *chain, bool own,
					uint32_t *line);
/* Whether any stack of the report shows a step of a task. */
bool ws_has_task_steps(const struct ws_model *model);
/* Whether frames, innermost first, are of a step of a task that runs code of the user's. */
bool ws_is_task_stack(const struct ws_model *model, const uint32_t *frames, size_t count);
/* Where a stack (`frame` on top of `stack`, 0 for none) is below the event loop's call of one step
 * of a task: the outermost frame of the user's there, or that of the loop's call itself; 0 where it
 * is not. */
uint32_t ws_find_task_step(const struct ws_model *model, uint32_t frame, uint32_t stack);

#endif
