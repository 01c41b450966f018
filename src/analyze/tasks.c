/* tasks.c - see tasks.h. */
#include "analyze/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/source_line.h"
#include "analyze/stack_sums.h"
#include "lanes/row_tree.h"

enum { MOST_STACKS = 1000 };

/* The frames of the user's on one stack below the event loop, outermost first. */
struct task_stack {
	uint32_t frames[WS_TASK_DEEPEST];
	size_t count;
	uint64_t ns;
};

struct task_stacks {
	struct task_stack stacks[MOST_STACKS];
	size_t count;
};

/* Whether a function is the one by which the loop calls one step of a task, or another callback. */
static bool is_loops_function(const struct ws_model *model, const struct ws_function *function)
{
	return function->kind == WS_FRAME_PYTHON && !strcmp(function->name, "Handle._run") &&
	       strstr(ws_stacks_get_origin(model->stacks, function), "/asyncio/");
}

bool ws_has_task_steps(const struct ws_model *model)
{
	for (uint32_t i = 1; i <= ws_stacks_count_functions(model->stacks); i++)
		if (is_loops_function(model, ws_stacks_get_function(model->stacks, i)))
			return true;
	return false;
}

static bool is_loops_call(const struct ws_model *model, uint32_t frame)
{
	const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);
	const struct ws_place *place = ws_stacks_get_places(model->stacks, info);

	return is_loops_function(model, ws_stacks_get_function(model->stacks, place->function));
}

/* The loop's call among the frames: its place from the innermost, plus 1; 0 for none. */
static size_t find_loops_call(const struct ws_model *model, const uint32_t *frames, size_t count)
{
	while (count && !is_loops_call(model, frames[count - 1]))
		count--;
	return count;
}

bool ws_is_task_stack(const struct ws_model *model, const uint32_t *frames, size_t count)
{
	struct ws_code_place place;
	size_t call = find_loops_call(model, frames, count);

	if (!call)
		return false;
	place = ws_code_place_frames(model, frames, call - 1);
	return place.python && place.users;
}

uint32_t ws_find_task_step(const struct ws_model *model, uint32_t frame, uint32_t stack)
{
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count = ws_stacks_list_frames(model->stacks, frame, stack, frames, WS_CODE_DEEPEST),
	       call = find_loops_call(model, frames, count);

	if (!call)
		return 0;
	/* To start a thread takes a moment, as it must. */
	for (size_t i = 0; i < call; i++)
		if (ws_is_frame_of(model, frames[i], "Thread.start"))
			return 0;
	for (size_t i = call - 1; i--;) {
		struct ws_code_place place = ws_code_place_frames(model, &frames[i], 1);

		if (place.python && place.users)
			return frames[i];
	}
	return frames[call - 1];
}

static uint64_t number_stack(struct task_stacks *known, const struct task_stack *stack)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->stacks[i].count == stack->count &&
		    !memcmp(known->stacks[i].frames, stack->frames,
			    stack->count * sizeof(*stack->frames)))
			return i + 1;
	if (known->count == MOST_STACKS)
		return 0;
	known->stacks[known->count] = *stack;
	return ++known->count;
}

static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	struct task_stack stack = {.count = 0};

	count = find_loops_call(model, frames, count);
	while (count-- && stack.count < WS_TASK_DEEPEST) {
		struct ws_code_place place = ws_code_place_frames(model, &frames[count], 1);

		if (place.python && place.users)
			stack.frames[stack.count++] = frames[count];
	}
	return stack.count ? number_stack(context, &stack) : 0;
}

/* Whether a stack goes through the functions of `chain`, and further. */
static bool continues_chain(const struct ws_model *model, const struct task_stack *stack,
			    const struct ws_task_chain *chain)
{
	if (stack->count <= chain->count)
		return false;
	for (size_t i = 0; i < chain->count; i++)
		if (ws_get_frame_function(model, stack->frames[i]) !=
		    chain->places[i].place.function)
			return false;
	return true;
}

/* The frame with most time at the next level of the chain, or the time of all frames of its
 * function. */
static uint64_t sum_next(const struct ws_model *model, const struct task_stacks *known,
			 const struct ws_task_chain *chain, uint32_t frame, bool whole)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < known->count; i++) {
		const struct task_stack *stack = &known->stacks[i];

		if (!continues_chain(model, stack, chain))
			continue;
		if (whole ? ws_get_frame_function(model, stack->frames[chain->count]) ==
				    ws_get_frame_function(model, frame)
			  : stack->frames[chain->count] == frame)
			sum += stack->ns;
	}
	return sum;
}

/* The most seen function at the next level, by its most seen line; 0 for none. *ns gets its time.
 */
static uint32_t find_next(const struct ws_model *model, const struct task_stacks *known,
			  const struct ws_task_chain *chain, uint64_t *ns)
{
	uint32_t found = 0;
	uint64_t line_ns = 0;

	*ns = 0;
	for (size_t i = 0; i < known->count; i++) {
		const struct task_stack *stack = &known->stacks[i];
		uint32_t frame;
		uint64_t function, line;

		if (!continues_chain(model, stack, chain))
			continue;
		frame = stack->frames[chain->count];
		function = sum_next(model, known, chain, frame, true);
		line = sum_next(model, known, chain, frame, false);
		if (function > *ns || (function == *ns && line > line_ns)) {
			found = frame;
			*ns = function;
			line_ns = line;
		}
	}
	return found;
}

/* False for a function that is no coroutine: it runs on a core, and waits for nothing. */
static bool add_place(const struct ws_model *model, uint32_t frame, struct ws_task_chain *chain)
{
	struct ws_code_place place = ws_code_place_frames(model, &frame, 1);
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	struct ws_line_around around = ws_look_around_line(
		ws_report_string(model->report, place.file, NULL), place.line, until);

	place.leaf = place.function;
	if (around.plain)
		return false;
	chain->places[chain->count++] =
		(struct ws_task_place){place,	     around.loop,  around.lock, around.single,
				       around.polls, around.taken, around.made};
	return true;
}

/* Returns the time of its first function. */
static uint64_t build_chain(const struct ws_model *model, const struct task_stacks *known,
			    struct ws_task_chain *chain)
{
	uint64_t ns = 0, before = 0, first = 0;

	*chain = (struct ws_task_chain){.count = 0};
	while (chain->count < WS_TASK_DEEPEST) {
		uint32_t frame = find_next(model, known, chain, &ns);

		/* What it does only now and then is not where it waits. */
		if (!frame || (chain->count && ns < before / 2) || !add_place(model, frame, chain))
			break;
		before = ns;
		if (chain->count == 1)
			first = ns;
	}
	return first;
}

static bool awaits_in_turn(const struct ws_task_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++)
		if (chain->places[i].loop || chain->places[i].lock)
			return true;
	return false;
}

/* Leaves out the tasks that a chain shows. */
static void forget_tasks(const struct ws_model *model, struct task_stacks *known,
			 const struct ws_task_chain *chain)
{
	for (size_t i = 0; i < known->count; i++)
		if (ws_get_frame_function(model, known->stacks[i].frames[0]) ==
		    chain->places[0].place.function)
			known->stacks[i].ns = 0;
}

/* Where tasks that answer others in the same program were seen most, those that ask one after the
 * other still say more. */
static void look_for_turns(const struct ws_model *model, struct task_stacks *known, uint64_t most,
			   struct ws_task_chain *chain)
{
	enum { TRIED = 3, LEAST_PART = 5 };
	struct ws_task_chain other = *chain;

	for (unsigned i = 0; i < TRIED && other.count && !awaits_in_turn(&other); i++) {
		forget_tasks(model, known, &other);
		if (build_chain(model, known, &other) < most / LEAST_PART)
			return;
	}
	if (other.count && awaits_in_turn(&other))
		*chain = other;
}

bool ws_find_task_chain(const struct ws_model *model, uint32_t thread, struct ws_task_chain *chain)
{
	struct task_stacks *known = ws_calloc(1, sizeof(*known));
	struct ws_stack_sums sums;
	uint64_t most;

	ws_stack_sums_make(model, thread, read_stack, known, &sums);
	for (size_t i = 0; i < sums.count; i++)
		known->stacks[sums.sums[i].key - 1].ns = sums.sums[i].ns;
	most = build_chain(model, known, chain);
	if (chain->count && !awaits_in_turn(chain))
		look_for_turns(model, known, most, chain);
	ws_stack_sums_free(&sums);
	free(known);
	return chain->count > 0;
}

/* The last part of a coroutine's name: "ask" of "Client.ask". */
static const char *find_short_name(const struct ws_model *model, uint32_t function)
{
	const char *name = ws_stacks_get_function(model->stacks, function)->name;
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* Whether a statement has the name of one of the chain's coroutines, as a call. */
static bool calls_chain(const struct ws_model *model, const struct ws_task_chain *chain,
			const char *text)
{
	for (size_t i = 0; i < chain->count; i++) {
		char *call =
			ws_format("%s(", find_short_name(model, chain->places[i].place.function));
		bool found = strstr(text, call) != NULL;

		free(call);
		if (found)
			return true;
	}
	return false;
}

/* gather(...) in a loop, but not in a comprehension; create_task(...) in either. */
static enum ws_tasks_start classify_start(const char *text, const struct ws_line_around *around)
{
	bool in_loop = around->loop && !(around->head && around->loops < 2);
	bool waits = strstr(text, "gather(") || strstr(text, "asyncio.wait(") ||
		     strstr(text, "TaskGroup(");

	if (waits)
		return in_loop ? WS_TASKS_IN_GROUPS : WS_TASKS_TOGETHER;
	return in_loop || strstr(text, " for ") ? WS_TASKS_TOGETHER : WS_TASKS_NOT_TOGETHER;
}

enum ws_tasks_start ws_find_tasks_start(const struct ws_model *model,
					const struct ws_task_chain *chain, bool own, uint32_t *line)
{
	enum { MOST = 16 };
	static const char *const words[] = {"gather",	    "asyncio.wait",
					    "as_completed", "TaskGroup",
					    "create_task",  "ensure_future",
					    "start_soon",   NULL};
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	const char *path = ws_report_string(model->report, chain->places[0].place.file, NULL);
	enum ws_tasks_start found = WS_TASKS_NOT_TOGETHER;
	uint32_t lines[MOST];
	size_t count = ws_find_statements(path, until, words, lines, MOST);

	for (size_t i = 0; i < count && found != WS_TASKS_IN_GROUPS; i++) {
		struct ws_line_around around = ws_look_around_line(path, lines[i], until);
		struct ws_text text = {0};
		enum ws_tasks_start start = WS_TASKS_NOT_TOGETHER;

		if (ws_put_source_line(path, lines[i], until, &text) &&
		    (!own || calls_chain(model, chain, text.text)))
			start = classify_start(text.text, &around);
		ws_text_free(&text);
		if (!start || (found && start != WS_TASKS_IN_GROUPS))
			continue;
		found = start;
		*line = lines[i];
	}
	return found;
}
