/* hot_code.c - where a program that computes spends its time. A note: computing is not a fault. */
#include "analyze/java.h"
#include "analyze/hot_loop.h"
#include "analyze/rules/rules.h"
#include "analyze/same_things.h"
#include "analyze/source_line.h"
#include "analyze/stack_sums.h"
#include "analyze/tasks.h"
#include "analyze/works.h"
#include "base/map.h"
#include "lanes/row_tree.h"

static bool is_code(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.leaf;
}

/* All time on the path at one line of user code, whatever it called. */
static uint64_t sum_line(const struct ws_analysis *analysis, const struct ws_code_place *place)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (is_code(analysis, row) && row->place.function == place->function &&
		    row->place.file == place->file && row->place.line == place->line)
			sum += row->ns;
	}
	return sum;
}

static const struct ws_breakdown_row *find_hottest(const struct ws_analysis *analysis,
						   uint64_t *most)
{
	enum { ROWS_TRIED = 200 };
	const struct ws_breakdown_row *hottest = NULL;

	*most = 0;
	for (size_t i = 0; i < analysis->breakdown.count && i < ROWS_TRIED; i++)
		if (is_code(analysis, &analysis->breakdown.rows[i])) {
			uint64_t sum = sum_line(analysis, &analysis->breakdown.rows[i].place);

			if (sum > *most) {
				*most = sum;
				hottest = &analysis->breakdown.rows[i];
			}
		}
	return hottest;
}

static bool is_in_library(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return row->module &&
	       ws_code_is_system_path(ws_stacks_get_module(stacks, row->module)->path);
}

/* The time on the path of a function's loop, with those of functions that were compiled into it:
 * they lie within the same few instructions. */
static uint64_t sum_around(const struct ws_analysis *analysis, uint32_t function)
{
	enum { NEAR = 64 };
	const struct ws_usage *usage = &analysis->usage;
	const struct ws_usage_row *loop = NULL;
	struct ws_map within = {0};
	uint64_t sum = 0;

	for (size_t i = 0; i < usage->count; i++) {
		const struct ws_usage_row *row = &usage->rows[i];

		if (row->kind != WS_USAGE_CODE || !row->module)
			continue;
		if (!loop && row->place.function == function)
			loop = row;
		if (loop && row->module == loop->module && row->lowest + NEAR >= loop->lowest &&
		    row->highest <= loop->highest + NEAR)
			ws_map_set(&within, row->place.function, 1);
	}
	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_code_place *place = &analysis->breakdown.rows[i].place;

		if (is_code(analysis, &analysis->breakdown.rows[i]) &&
		    place->leaf == place->function && ws_map_get(&within, place->function, NULL))
			sum += analysis->breakdown.rows[i].ns;
	}
	ws_map_free(&within);
	return sum;
}

/* How many threads run the same few instructions of a function at the same time: the longest of
 * them and those that overlap it. */
static uint64_t count_same_loops(const struct ws_analysis *analysis, uint32_t function)
{
	enum { FEW_BYTES = 64, LEAST_SAMPLES = 50 };
	const struct ws_usage_row *longest = NULL;
	uint64_t count = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind != WS_USAGE_CODE || row->place.function != function ||
		    row->samples < LEAST_SAMPLES || row->highest - row->lowest > FEW_BYTES ||
		    is_in_library(analysis, row))
			continue;
		longest = ws_or(longest, row);
		count += row->ns > longest->ns / 2 && row->span.start < longest->span.end &&
			 row->span.end > longest->span.start;
	}
	return count;
}

/* ---- what the loop is bound by ---- */

/* How much goes where the advice is followed. */
#define MOST_OF_IT 0.75
#define HALF 0.5
#define NEARLY_ALL 0.85

/* What is said of work that libraries do has its price there. */
static void put_price(const struct ws_code_place *code, struct ws_finding *finding,
		      double avoidable)
{
	if (avoidable <= 0 || code->work != WS_WORK_NONE)
		return;
	finding->gain_ns = (uint64_t)(avoidable * (double)finding->cost_ns);
	free(finding->assumption);
	finding->assumption = ws_format("%.0f %% of it can be avoided", 100 * avoidable);
}

/* The loop of the thread that spends most time in a function. How a library's loop works is not the
 * user's to change. */
static bool find_loop(const struct ws_analysis *analysis, uint32_t function,
		      struct ws_hot_loop *loop)
{
	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind == WS_USAGE_CODE && row->place.function == function &&
		    !row->place.python)
			return !is_in_library(analysis, row) &&
			       ws_look_at_loop(analysis->model, row, loop);
	}
	return false;
}

static const struct {
	const char *what, *advice;
	double avoidable; /* the part that goes where the advice is followed; 0 if nobody knows */
} loops[] = {
	[WS_LOOP_ATOMIC] = {"most of it at atomic instructions",
			    "Change the variable less often: count in a local variable and add "
			    "up at the end, hand a shared_ptr on by reference.",
			    MOST_OF_IT},
	[WS_LOOP_CHASE] = {"each read waits for the address that the one before has brought, as "
			   "in a linked list or a tree",
			   "Keep the items side by side (an array, std::vector, indexes instead of "
			   "pointers): the processor cannot read ahead along pointers, and each "
			   "step waits for memory.",
			   HALF},
	[WS_LOOP_STRIDE] = {"",
			    "Go through memory in order: exchange the loops, so that the inner "
			    "one runs over neighbours (the last index of a matrix in C), work "
			    "in blocks that fit the cache, or store the data the other way "
			    "round. Each access needs a cache line of its own, of which the "
			    "rest is not used, and far steps one of the page table's entries.",
			    MOST_OF_IT},
	[WS_LOOP_DIVISION] = {"most of it at divisions or square roots",
			      "Divide less: multiply by a reciprocal that is computed once, "
			      "compare squares, use shifts or masks for powers of two, or "
			      "vectors.",
			      HALF},
	[WS_LOOP_PLACE] = {"it reads and writes the same place in memory in each round",
			   "Sum up in a local variable, which stays in a register, and store it "
			   "once at the end.",
			   HALF},
	[WS_LOOP_FLOAT] = {"arithmetic on single floating-point numbers",
			   "Let the compiler use vectors (-O3 -march=native, -ffast-math where the "
			   "order of sums does not matter). If values come close to zero (below "
			   "1e-38 for float, 1e-308 for double), each operation takes a hundred "
			   "times as long: set them to zero (-ffast-math, "
			   "_MM_SET_FLUSH_ZERO_MODE).",
			   0},
};

static void put_loop(const struct ws_hot_loop *loop, struct ws_text *text)
{
	if (loop->kind != WS_LOOP_STRIDE)
		ws_text_puts(text, loops[loop->kind].what);
	else if (loop->step)
		ws_text_printf(text,
			       "bound by memory, since each round goes %lld bytes on, to another "
			       "cache line",
			       (long long)loop->step);
	else
		ws_text_puts(text,
			     "perhaps bound by memory, since each round goes on by a step that "
			     "is computed at run time, as down the columns of a matrix");
}

/* What a function calls in a loop is a comparison: hardly anything, or one of texts. */
static bool only_compares(const struct ws_analysis *analysis, uint32_t function)
{
	const double most = 0.2;
	uint64_t all = 0, other = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause != WS_CAUSE_CPU || row->place.function != function)
			continue;
		all += row->ns;
		if (row->place.leaf != function && !ws_is_comparing_work(row->place.work))
			other += row->ns;
	}
	return (double)other <= most * (double)all;
}

static const struct {
	const char *what, *advice;
} searches[] = {
	{"it looks at one item of an array after the other until one fits (a linear search)",
	 "Where that is asked for often: a hash table or an index finds an item at once, a sorted "
	 "array (bsearch, std::lower_bound) in a few steps. Or remember where the last one was."},
	{"it goes from item to item along a linked list, or a long chain of a hash table, until "
	 "one fits",
	 "Let a hash table grow with its items (a bucket for each item or two) and its hash "
	 "function use the whole key, so that chains stay short; instead of a list that is "
	 "searched, or a tree that has become a chain since its items came in order, use a hash "
	 "table or a balanced tree. Each step waits for memory, as the processor "
	 "cannot read ahead along pointers."},
};

bool ws_say_search(const struct ws_analysis *analysis, uint32_t function,
		   struct ws_finding *finding)
{
	struct ws_hot_loop loop;
	char *title = finding->title;

	if (!find_loop(analysis, function, &loop) || !loop.state.searches ||
	    (loop.state.calls && !only_compares(analysis, function)))
		return false;
	finding->title = ws_format("%s: %s", title, searches[loop.state.follows].what);
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(searches[loop.state.follows].advice);
	return true;
}

static bool say_loop(const struct ws_analysis *analysis, const struct ws_code_place *code,
		     struct ws_finding *finding)
{
	struct ws_hot_loop loop;
	struct ws_text what = {0};
	char *title = finding->title;

	if (ws_say_search(analysis, code->function, finding)) {
		put_price(code, finding, NEARLY_ALL);
		return true;
	}
	if (!find_loop(analysis, code->function, &loop) || !loop.kind)
		return false;
	put_loop(&loop, &what);
	finding->title = ws_format("%s: %s", title, what.text);
	ws_text_free(&what);
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(loops[loop.kind].advice);
	put_price(code, finding,
		  loops[loop.kind].avoidable * (loop.kind == WS_LOOP_DIVISION ? loop.share : 1.0));
	return true;
}

/* ---- functions of Python that call themselves ---- */

struct recursion {
	uint32_t function;
	bool yields, cached; /* through generators, or through a cache of its results */
};

static bool is_generator_step(const struct ws_model *model, uint32_t frame)
{
	return ws_is_frame_of(model, frame, "gen_send_ex2") ||
	       ws_is_frame_of(model, frame, "gen_send_ex") ||
	       ws_is_frame_of(model, frame, "gen_iternext");
}

/* How often the function is on a stack, if it is. */
static uint64_t count_levels(const struct ws_model *model, const uint32_t *frames, size_t count,
			     void *context)
{
	struct recursion *recursion = context;
	uint64_t levels = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = 0; k < info->count; k++) /* compilers unroll recursion */
			levels += places[k].function == recursion->function;
		if (levels && is_generator_step(model, frames[i]))
			recursion->yields = true;
		if (levels && (ws_is_frame_of(model, frames[i], "bounded_lru_cache_wrapper") ||
			       ws_is_frame_of(model, frames[i], "infinite_lru_cache_wrapper")))
			recursion->cached = true;
	}
	return levels;
}

/* The average number of levels. */
static uint64_t measure_levels(const struct ws_model *model, struct recursion *recursion)
{
	struct ws_stack_sums sums;
	double levels = 0, ns = 0;

	ws_stack_sums_make(model, 0, count_levels, recursion, &sums);
	for (size_t i = 0; i < sums.count; i++) {
		levels += (double)sums.sums[i].key * (double)sums.sums[i].ns;
		ns += (double)sums.sums[i].ns;
	}
	ws_stack_sums_free(&sums);
	return ns > 0 ? (uint64_t)(levels / ns + 0.5) : 0;
}

/* ---- loops around a line of Python ---- */

/* A function of the user's, and the frames that called it, by their number from 1. */
struct callers {
	uint32_t function;
	bool within; /* it is a part of another function: a lambda, a generator expression */
	uint32_t frames[1000];
	size_t count;
};

static uint64_t number_caller(struct callers *callers, uint32_t frame)
{
	for (size_t i = 0; i < callers->count; i++)
		if (callers->frames[i] == frame)
			return i + 1;
	if (callers->count == WS_COUNT(callers->frames))
		return 0;
	callers->frames[callers->count] = frame;
	return ++callers->count;
}

static uint64_t find_caller(const struct ws_model *model, const uint32_t *frames, size_t count,
			    void *context)
{
	struct callers *callers = context;
	unsigned skipped = 0;
	size_t i = 0;

	while (i < count && ws_get_frame_function(model, frames[i]) != callers->function)
		i++;
	for (i++; i < count; i++) {
		struct ws_code_place place = ws_code_place_frames(model, &frames[i], 1);

		if (!place.python || !place.users || place.function == callers->function)
			continue;
		if (skipped++ == callers->within)
			return number_caller(callers, frames[i]);
	}
	return 0;
}

/* The line from which a function of Python is called most of the time; 0 for none. */
static uint32_t find_main_caller(const struct ws_model *model, uint32_t function)
{
	const double most = 0.8;
	struct callers *callers = ws_calloc(1, sizeof(*callers));
	struct ws_stack_sums sums;
	uint64_t all = 0;
	uint32_t frame = 0;

	callers->function = function;
	callers->within =
		strrchr(ws_stacks_get_function(model->stacks, function)->name, '<') != NULL;
	ws_stack_sums_make(model, 0, find_caller, callers, &sums);
	for (size_t i = 0; i < sums.count; i++)
		all += sums.sums[i].ns;
	if (sums.count && (double)sums.sums[0].ns >= most * (double)all)
		frame = callers->frames[sums.sums[0].key - 1];
	ws_stack_sums_free(&sums);
	free(callers);
	return frame;
}

static struct ws_line_around look_around(const struct ws_model *model,
					 const struct ws_code_place *place)
{
	return ws_look_around_line(ws_report_string(model->report, place->file, NULL), place->line,
				   (uint64_t)ws_lanes_realtime(model->report, model->to));
}

static const char *const comprehensions[] = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>",
					     NULL};

static bool starts_with_any(const char *text, const char *const *beginnings)
{
	for (; *beginnings; beginnings++)
		if (!strncmp(text, *beginnings, strlen(*beginnings)))
			return true;
	return false;
}

static bool is_comprehension(const struct ws_model *model, uint32_t function)
{
	const char *name = ws_stacks_get_function(model->stacks, function)->name;

	return strstr(name, "comp>") || strstr(name, "<genexpr>");
}

/* How many comprehensions a function is in: "by_day.<locals>.<dictcomp>.<listcomp>" is in two. */
static unsigned count_comprehensions(const struct ws_model *model, uint32_t function)
{
	const char *name = ws_stacks_get_function(model->stacks, function)->name;
	unsigned count = 0;

	for (const char *at = strchr(name, '<'); at; at = strchr(at + 1, '<'))
		count += starts_with_any(at, comprehensions);
	return count;
}

#define KEEP_PROPERTY                                                                           \
	"Keep the result in the object (functools.cached_property, or a value that is changed " \
	"where its parts change) instead of computing it at each access. "

/* How a function's samples are divided: within the searching one, or in its caller alone. */
struct search {
	uint32_t function, caller;
};

enum { SEARCH_WITHIN = 1, SEARCH_OUTSIDE };

static uint64_t find_search(const struct ws_model *model, const uint32_t *frames, size_t count,
			    void *context)
{
	const struct search *search = context;
	bool within = false, below = false;

	for (size_t i = 0; i < count; i++) {
		within |= ws_get_frame_function(model, frames[i]) == search->function;
		below |= ws_get_frame_function(model, frames[i]) == search->caller;
	}
	return !below ? 0 : within ? SEARCH_WITHIN : SEARCH_OUTSIDE;
}

/* Searches through few items, as in the rows of a small board, take hardly longer than to call for
 * them: through many, the caller has no time of its own. */
static bool is_long_search(const struct ws_model *model, uint32_t function, uint32_t caller)
{
	const double least = 0.9;
	struct search search = {.function = function, .caller = caller};
	struct ws_stack_sums sums;
	uint64_t parts[SEARCH_OUTSIDE + 1] = {0};

	ws_stack_sums_make(model, 0, find_search, &search, &sums);
	for (size_t i = 0; i < sums.count; i++)
		parts[sums.sums[i].key] += sums.sums[i].ns;
	ws_stack_sums_free(&sums);
	return (double)parts[SEARCH_WITHIN] >=
	       least * (double)(parts[SEARCH_WITHIN] + parts[SEARCH_OUTSIDE]);
}

/* ", in 2 nested loops", or ", called in a loop at fill (invoice.py:14)". */
struct ws_loops_said ws_put_loops(const struct ws_analysis *analysis,
				  const struct ws_code_place *code, struct ws_text *text)
{
	const struct ws_model *model = analysis->model;
	struct ws_line_around around = look_around(model, code);
	uint32_t frame;
	struct ws_code_place caller;

	if (around.property)
		ws_text_puts(text, ", a property, which is computed at each access");
	around.loops += count_comprehensions(model, code->function);
	if (around.loops >= 2) {
		ws_text_printf(text, ", in %u nested loops%s", around.loops,
			       around.compares ? ", which compare each item with each" : "");
		if (!around.compares)
			return (struct ws_loops_said){""};
		return (struct ws_loops_said){
			"Put one side into a dictionary, by what is compared, so that the inner "
			"loop becomes one look-up. ",
			around.joins};
	}
	frame = find_main_caller(model, code->function);
	caller = ws_code_place_frames(model, &frame, frame != 0);
	if (!frame ||
	    (!is_comprehension(model, caller.function) && !look_around(model, &caller).loop))
		return (struct ws_loops_said){around.property ? KEEP_PROPERTY : ""};
	caller.leaf = caller.function;
	ws_text_printf(text, "%s, called in a loop",
		       around.compares ? ", which compares items one by one" : "");
	ws_put_at_place(analysis, &caller, text);
	if (around.compares)
		return (struct ws_loops_said){
			"Put the items into a dictionary, by what is compared: each search becomes "
			"one look-up. ",
			around.searches && is_long_search(model, code->function, caller.function)};
	if (around.property)
		return (struct ws_loops_said){KEEP_PROPERTY};
	return (struct ws_loops_said){
		"If it computes the same, or nearly the same, each time that it is called: keep "
		"the result, and change it where the data change. "};
}

/* All time on the path in a function of the user's and what it called. */
static uint64_t sum_function(const struct ws_analysis *analysis, uint32_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++)
		if (is_code(analysis, &analysis->breakdown.rows[i]) &&
		    analysis->breakdown.rows[i].place.function == function)
			sum += analysis->breakdown.rows[i].ns;
	return sum;
}

/* Whether a function of Python has one of a library do the work: not only the interpreter. */
static bool is_library_call(const struct ws_analysis *analysis, const struct ws_code_place *code)
{
	const struct ws_function *called =
		ws_stacks_get_function(analysis->model->stacks, code->called);

	return code->python && code->called && code->leaf == code->called &&
	       called->kind == WS_FRAME_PYTHON && !ws_is_loops_own(analysis, code);
}

static void say_loops(const struct ws_analysis *analysis, const struct ws_code_place *code,
		      struct ws_finding *finding)
{
	const double nearly_all = 0.95, most = 0.5;
	struct ws_text text = {0};
	struct ws_loops_said loops = ws_put_loops(analysis, code, &text);
	uint64_t all = sum_function(analysis, code->function);
	char *title = finding->title;

	finding->title = ws_format("%s%s", title, ws_text_or(text.text, ""));
	if (loops.searches && !is_library_call(analysis, code) &&
	    ws_analysis_share(analysis, all) >= most) {
		finding->level = WS_LEVEL_WARNING;
		finding->cost_ns = all;
		finding->gain_ns = (uint64_t)((double)all * nearly_all);
		finding->assumption = ws_strdup("each search becomes one look-up");
		finding->advice = ws_strdup(loops.advice);
	} else {
		finding->advice = ws_format(
			"%sDo less in each round of the loop: look items up in a dictionary or set "
			"instead of searching in a loop, and keep what is the same in each round. "
			"Functions that work on whole lists or arrays (sorted, NumPy: a @ b) and "
			"compiled code (Cython, Numba) are ten to a hundred times as fast; threads "
			"of Python do not compute at once, processes do.",
			loops.advice);
	}
	ws_text_free(&text);
	free(title);
}

/* What the event loop does for itself goes with the steps of tasks; false where it is not that. */
static bool say_loops_own(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
			  struct ws_finding *finding)
{
	const struct ws_task_place *task;
	struct ws_task_chain chain;
	struct ws_text place = {0};
	char *title = finding->title;

	if (!ws_is_loops_own(analysis, &row->place) ||
	    !ws_find_task_chain(analysis->model, row->thread, &chain))
		return false;
	task = &chain.places[chain.count - 1];
	ws_put_at_place(analysis, &task->place, &place);
	finding->title = ws_format("%s: it is the event loop's own work for the steps of its "
				   "tasks, most of them%s",
				   title, ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Each await that has to wait, and each task, costs a turn of the loop: hand over "
		"many items at once (lists, a queue with room for more), and do not make tasks, "
		"await sleep(0) or pass queues for what one function can do.");
	ws_point_at(finding, &task->place);
	ws_text_free(&place);
	free(title);
	return true;
}

static bool is_yielding_line(const struct ws_model *model, const struct ws_code_place *code)
{
	static const char *const yields[] = {"yield", NULL};

	return ws_has_statement_part(ws_report_string(model->report, code->file, NULL), code->line,
				     (uint64_t)ws_lanes_realtime(model->report, model->to), yields);
}

/* Where its text says that each call makes two or more for neighbouring numbers. */
static void price_recursion(const struct ws_analysis *analysis, const struct ws_code_place *code,
			    struct ws_finding *finding)
{
	const double nearly_all = 0.9, most = 0.5;
	const struct ws_model *model = analysis->model;
	const char *name = ws_stacks_get_function(model->stacks, code->function)->name;
	const char *dot = strrchr(name, '.');
	uint64_t all = sum_function(analysis, code->function);

	if (ws_analysis_share(analysis, all) < most ||
	    !ws_recurses_by_steps(ws_report_string(model->report, code->file, NULL), code->line,
				  (uint64_t)ws_lanes_realtime(model->report, model->to),
				  dot ? dot + 1 : name))
		return;
	finding->level = WS_LEVEL_WARNING;
	finding->cost_ns = all;
	finding->gain_ns = (uint64_t)((double)all * nearly_all);
	free(finding->assumption);
	finding->assumption = ws_strdup("each result is computed once");
}

bool ws_say_recursion(const struct ws_analysis *analysis, const struct ws_code_place *code,
		      struct ws_finding *finding)
{
	enum { LEAST_LEVELS = 5 };
	struct recursion recursion = {.function = code->function};
	uint64_t levels = measure_levels(analysis->model, &recursion);
	char *title = finding->title;

	if (levels < LEAST_LEVELS || recursion.cached)
		return false;
	finding->title = ws_format("%s, which calls itself, %llu levels deep on average", title,
				   (unsigned long long)levels);
	free(title);
	free(finding->advice);
	if (recursion.yields || (code->python && is_yielding_line(analysis->model, code)))
		finding->advice = ws_strdup(
			"Each item is handed on by the generators of all levels: walk with a list "
			"of what is left to visit, append to one list that is handed down, or "
			"leave out generators that only hand on.");
	else
		finding->advice = ws_format(
			"If it gets the same arguments again and again, let its results be kept%s, "
			"or compute them in a table from the smallest on: each is then computed "
			"once, rather than exponentially often.",
			code->python ? " (functools.cache)" : "");
	if (code->python && !recursion.yields)
		price_recursion(analysis, code, finding);
	return true;
}

/* What generated code does cannot be looked at. */
static bool is_generated(const struct ws_analysis *analysis, uint32_t function)
{
	return ws_stacks_get_function(analysis->model->stacks, function)->kind == WS_FRAME_JIT;
}

static void say_in_python(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
			  const struct ws_code_place *code, struct ws_finding *finding)
{
	if (!say_loops_own(analysis, row, finding) && !ws_say_recursion(analysis, code, finding))
		say_loops(analysis, code, finding);
}

/* "java.util.LinkedList.get", but not "UncommonTrapBlob". */
static bool is_method(const struct ws_analysis *analysis, uint32_t function)
{
	return is_generated(analysis, function) &&
	       strchr(ws_stacks_get_function(analysis->model->stacks, function)->name, '.');
}

/* The method of a library that a function calls for the longest time; 0 for none. */
static uint32_t find_called(const struct ws_analysis *analysis, uint32_t function)
{
	const struct ws_breakdown_row *longest = NULL;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_CPU && row->place.function == function &&
		    row->place.called && is_method(analysis, row->place.called) &&
		    (!longest || row->ns > longest->ns))
			longest = row;
	}
	return longest ? longest->place.called : 0;
}

/* The compiler puts most of what a method calls into it: what it called before tells, also of the
 * machine's own routines, which copy arrays. */
static void say_what_to_do_in_java(const struct ws_analysis *analysis,
				   const struct ws_code_place *code, struct ws_finding *finding)
{
	const struct ws_stacks *stacks = analysis->model->stacks;
	const char *leaf = ws_stacks_get_function(stacks, code->leaf)->name;
	bool is_own = code->leaf == code->function || strstr(leaf, "StubRoutines");
	uint32_t called = is_own ? find_called(analysis, code->function) : code->leaf;
	const char *name = called ? ws_stacks_get_function(stacks, called)->name : "";
	const struct ws_java_cost *cost = ws_find_java_cost(name);
	struct ws_text title = {0};

	ws_text_puts(&title, finding->title);
	if (is_own && called)
		ws_text_printf(&title, ", which calls %s", name);
	if (cost)
		ws_text_printf(&title, ", %s", cost->what);
	free(finding->title);
	finding->title = ws_strdup(title.text);
	ws_text_free(&title);
	if (cost) {
		finding->advice = ws_strdup(cost->advice);
		put_price(code, finding, MOST_OF_IT);
		return;
	}
	finding->advice = ws_strdup(
		"What it calls may be compiled into it. Look for lists that are searched or read "
		"by number in loops (contains, LinkedList.get: a HashSet, an ArrayList), texts "
		"joined by += (StringBuilder), boxed numbers (int[] instead of List<Integer>) and "
		"expressions or formats that are made anew each time.");
}

/* ---- what sorting calls back ---- */

/* The function that had something sorted of which `context`, a function, is the comparison. */
static uint64_t find_sorter(const struct ws_model *model, const uint32_t *frames, size_t count,
			    void *context)
{
	const uint32_t *compares = context;
	bool found = false, sorts = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = 0; k < info->count; k++) {
			const struct ws_function *function =
				ws_stacks_get_function(model->stacks, places[k].function);

			if (found && ws_is_sorting(model->stacks, function))
				sorts = true;
			else if (sorts && ws_code_is_users_function(model, &places[k]))
				return places[k].function;
			found |= places[k].function == *compares;
		}
	}
	return 0;
}

/* Of a function that compares items for sorting; false for others. */
static bool say_comparison(const struct ws_analysis *analysis, const struct ws_code_place *code,
			   struct ws_finding *finding)
{
	const double most = 0.5;
	uint32_t function = code->function;
	struct ws_stack_sums sums;
	struct ws_code_place sorter = {0};
	struct ws_text place = {0};
	char *title = finding->title;

	ws_stack_sums_make(analysis->model, 0, find_sorter, &function, &sums);
	if (sums.count && (double)sums.sums[0].ns >= most * (double)finding->cost_ns)
		sorter.function = sorter.leaf = (uint32_t)sums.sums[0].key;
	ws_stack_sums_free(&sums);
	if (!sorter.function)
		return false;
	ws_put_at_place(analysis, &sorter, &place);
	finding->title =
		ws_format("%s: it compares items for sorting%s", title, ws_text_or(place.text, ""));
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(
		"Each item is compared some twenty times: work out what is compared once for each "
		"item, before sorting, and keep it beside the item. Where the same list is sorted "
		"again and again, sort once, put new items where they belong, or use a heap "
		"(std::priority_queue), std::nth_element or a tree.");
	put_price(code, finding, MOST_OF_IT);
	ws_text_free(&place);
	return true;
}

/* Whether threads write to the same cache line is not recorded, but a loop of a few instructions in
 * which several threads spend their time is where it shows. */
static void say_what_to_do(const struct ws_analysis *analysis, const struct ws_code_place *code,
			   struct ws_finding *finding)
{
	uint32_t function = code->function;
	uint64_t own = is_generated(analysis, function) ? 0 : sum_around(analysis, function),
		 threads = own > finding->cost_ns / 2 ? count_same_loops(analysis, function) : 0;
	struct ws_hot_loop loop = {0};
	char *title = finding->title;

	if (code->users && say_comparison(analysis, code, finding))
		return;
	if (is_generated(analysis, function) && ws_is_java(analysis->model)) {
		say_what_to_do_in_java(analysis, code, finding);
		return;
	}
	finding->advice = ws_strdup("Look there first: a better algorithm, less work, vectors, or "
				    "more threads.");
	if (threads < 2 || (find_loop(analysis, function, &loop) && !loop.writes)) {
		if (code->users && !say_loop(analysis, code, finding))
			ws_say_recursion(analysis, code, finding);
		return;
	}
	finding->cost_ns = ws_max(finding->cost_ns, own);
	finding->title = ws_format("%.0f %s: %llu threads run the same few instructions%s",
				   100 * ws_analysis_share(analysis, finding->cost_ns),
				   strchr(title, '%'), (unsigned long long)threads,
				   loop.writes ? ", which write through pointers, perhaps to one "
						 "cache line (false sharing)"
					       : "");
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(
		"If they write to one atomic variable, or to variables side by side (false "
		"sharing: "
		"64 bytes are one cache line), each write waits for the other cores: give each "
		"thread a variable of its own (a local one, alignas(64)) and add up at the end. "
		"Else look for a better algorithm.");
	finding->gain_ns = finding->cost_ns / 5 * 4;
	finding->assumption =
		ws_strdup("they write to the same cache lines, and a write to a line of its own "
			  "costs a fifth");
}

static void check_code(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t most;
	const struct ws_breakdown_row *row = find_hottest(analysis, &most);
	struct ws_finding *finding;
	struct ws_text place = {0};
	struct ws_code_place code;

	if (!row || ws_analysis_share(analysis, most) < 0.1 ||
	    ws_findings_mention(findings, &ws_rule_script_work))
		return;
	code = row->place;
	if (row->ns < most / 2)
		code.leaf = code.function; /* it called several */
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add(findings, &ws_rule_hot_code);
	finding->cost_ns = most;
	if (ws_is_start_up(&code))
		ws_mark_start_up(analysis, finding);
	finding->file = code.file;
	finding->line = code.line;
	finding->title =
		ws_format("%.0f %% of the time %s%s", 100 * ws_analysis_share(analysis, most),
			  is_library_call(analysis, &code) ? "goes into calls of a library"
							   : "the CPU computes",
			  ws_text_or(place.text, ""));
	if (code.python)
		say_in_python(analysis, row, &code, finding);
	else
		say_what_to_do(analysis, &code, finding);
	ws_say_blocked_loop(analysis, &code, finding);
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_hot_code = {
	.name = "hot-code",
	.title = "Where the CPU's time is spent",
	.about = "The place in the user's code that takes most of the critical path, from 10 % on, "
		 "and "
		 "whether several threads run the same few instructions there, or a function of "
		 "Python "
		 "calls itself, five levels deep on average or more. The machine code "
		 "of the loop says, on x86-64 and where the program's file is unchanged, whether "
		 "a quarter of its samples or more wait for atomic instructions or for memory "
		 "that each round reads 128 bytes or more further on, or 40 % for addresses that "
		 "are read one from the other, divisions or floating-point arithmetic; and whether "
		 "it only goes from item to item, along an array or a linked list, until one "
		 "fits. A "
		 "note; but a warning where half of the time or more goes into a loop of Python "
		 "that searches for one item after the other, as its text says.",
	.query = ws_proof_code,
	.check = check_code,
};
