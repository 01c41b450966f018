/*
 * busy_waiting.c - threads that ask again and again instead of waiting.
 *
 * Calls that ask (sched_yield, poll without a timeout, trylock) are known by their names. A loop
 * that reads a variable calls nothing: where nearly all of a thread's samples lie within a few
 * bytes of code, while another thread of the program works elsewhere, it may be one. That is a
 * guess, and a note.
 */
#include "analyze/hot_loop.h"
#include "analyze/rules/rules.h"
#include "analyze/source_line.h"
#include "analyze/stack_sums.h"
#include "analyze/tasks.h"
#include "lanes/row_tree.h"

enum {
	MOST_TOTALS = 64,
	SPIN_BYTES = 12,
	NAMED_SPIN_BYTES = 32, /* of a function whose name says that it spins */
	ASKING_BYTES = 128,    /* of a function that has such a loop */
	TINY_BYTES = 8,	       /* a read, a comparison and a jump */
	LEAST_SAMPLES = 50,
	LEAST_QUERIES = 1000
};
#define LEAST_SHARE 0.2

#define ADVICE_ON_QUERIES                                                                         \
	"Wait once (cudaEventSynchronize, with cudaEventBlockingSync so that the core is free), " \
	"or "                                                                                     \
	"let a callback say so (cudaLaunchHostFunc)."

#define PYTHONS_LOOP "a loop that only asks"
#define ASKING_LOOP "a loop that only reads "
#define YIELDING_TASK "a task that only lets others go first (sleep(0)), and its event loop"

static const char *choose_advice(const char *call)
{
	if (strstr(call, "Query"))
		return ADVICE_ON_QUERIES;
	if (strstr(call, "poll") || strstr(call, "select"))
		return "Let the call itself wait: give it a time limit, or -1 for none, instead of "
		       "0.";
	if (strstr(call, "spin") || strstr(call, "trylock"))
		return "Use a lock that lets the thread sleep (pthread_mutex), or hold the spin "
		       "lock for a few instructions only.";
	if (!strcmp(call, YIELDING_TASK))
		return "Await what it waits for: asyncio.Queue, Event or a future; a thread hands "
		       "over by loop.call_soon_threadsafe or run_coroutine_threadsafe.";
	if (!strcmp(call, PYTHONS_LOOP))
		return "Let it sleep until there is something: get() of a queue, wait() of an "
		       "Event, a Condition or a process, result() of a future, join(). In Python a "
		       "thread that asks takes the GIL from those that it waits for.";
	if (strstr(call, ASKING_LOOP))
		return "Let it sleep until there is something: a condition variable, a semaphore, "
		       "join, std::atomic::wait (a futex); to show progress or to look now and "
		       "then, sleep between two looks.";
	return "Wait for the event itself: a condition variable, a futex, a descriptor, or join.";
}

/* What a busy core costs: only as much as the program itself waited for cores. */
static uint64_t estimate_gain(const struct ws_analysis *analysis, uint64_t spun)
{
	uint64_t waited = analysis->breakdown.by_cause[WS_CAUSE_CORE];

	if (!analysis->cores || analysis->demand < 0.9 * analysis->cores)
		return 0;
	return ws_min(waited, spun);
}

static void report_spinning(const struct ws_analysis *analysis, const struct ws_usage_total *total,
			    struct ws_findings *findings)
{
	uint64_t cost = ws_min(total->row.ns, analysis->window);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_busy_waiting, cost,
				      estimate_gain(analysis, total->row.ns));
	struct ws_text place = {0}, thread = {0};

	ws_put_at_place(analysis, &total->row.place, &place);
	ws_put_thread(analysis, total->row.thread, &thread);
	finding->level = ws_max(ws_rate_gain(analysis, cost), WS_LEVEL_WARNING);
	ws_limit_to_users(analysis, finding, &total->row.place);
	if (total->threads > 1)
		finding->title =
			ws_format("%llu threads wait busily: %.3g s on cores in %s%s (%s most)",
				  (unsigned long long)total->threads, (double)total->row.ns / 1e9,
				  total->row.name, ws_text_or(place.text, ""), thread.text);
	else
		finding->title = ws_format("Thread %s waits busily: %.3g s on a core in %s%s",
					   thread.text, (double)total->row.ns / 1e9,
					   total->row.name, ws_text_or(place.text, ""));
	finding->advice = ws_strdup(choose_advice(total->row.name));
	finding->assumption = ws_strdup("others can use the core meanwhile");
	ws_finding_add_evidence(finding, "from the first sample of it to the last", NULL,
				total->row.span.start, total->row.span.end);
	ws_text_free(&place);
	ws_text_free(&thread);
}

static uint64_t measure_loop(const struct ws_usage_row *row)
{
	return row->highest - row->lowest;
}

/* Whether another thread worked elsewhere meanwhile, which the loop may wait for, and none ran the
 * same function, as threads that compute together would; unless all of them run a loop that is too
 * small to compute anything. A loop that waits only reads and compares:
 * of two, the one with less code may wait for the other. */
static bool may_wait_for_others(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	const struct ws_usage *usage = &analysis->usage;
	bool any = false;

	for (size_t i = 0; i < usage->count; i++) {
		const struct ws_usage_row *other = &usage->rows[i];

		if (other->thread == row->thread || other->ns < row->ns / 2)
			continue;
		if (other->place.function == row->place.function &&
		    ws_max(measure_loop(row), measure_loop(other)) <= TINY_BYTES)
			continue;
		if (other->place.function == row->place.function ||
		    (other->kind == WS_USAGE_CODE && measure_loop(other) < measure_loop(row)))
			return false;
		any |= other->span.start < row->span.end && other->span.end > row->span.start;
	}
	return any;
}

/* What writes does not only ask. */
static bool may_only_ask(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	struct ws_hot_loop loop;

	return !ws_look_at_loop(analysis->model, row, &loop) || !loop.writes;
}

static void guess_spinning(const struct ws_analysis *analysis, const struct ws_usage_row *row,
			   struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_busy_waiting, row->ns,
				      estimate_gain(analysis, row->ns));
	struct ws_text place = {0}, thread = {0};

	ws_put_at_place(analysis, &row->place, &place);
	ws_put_thread(analysis, row->thread, &thread);
	finding->level = WS_LEVEL_NOTE;
	finding->file = row->place.file;
	finding->line = row->place.line;
	finding->gain_ns = ws_max(finding->gain_ns, (uint64_t)1);
	finding->title =
		ws_format("Thread %s may be waiting busily: for %.3g s it ran a loop of a few "
			  "instructions%s while another thread worked",
			  thread.text, (double)row->ns / 1e9, ws_text_or(place.text, ""));
	finding->advice = ws_strdup("If the loop waits for another thread, wait on a condition "
				    "variable or a futex instead.");
	finding->assumption = ws_strdup("the loop computes nothing");
	ws_finding_add_evidence(finding, "from its first sample to its last", NULL, row->span.start,
				row->span.end);
	ws_text_free(&place);
	ws_text_free(&thread);
}

/* Calls that ask a stream or an event whether it is done. */
static void check_queries(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	static const char *const queries[] = {"cudaStreamQuery", "cudaEventQuery", "cuStreamQuery",
					      "cuEventQuery", NULL};
	struct ws_call_fact calls;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, queries, &calls) ||
	    calls.count < LEAST_QUERIES || calls.count < 20 * analysis->facts.kernel_instances)
		return;
	ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_busy_waiting, calls.ns, 0);
	finding->level = WS_LEVEL_WARNING;
	finding->title = ws_format(
		"The program asks the GPU %llu times whether work is done, %.0f times a "
		"kernel%s",
		(unsigned long long)calls.count,
		(double)calls.count / (double)ws_max(analysis->facts.kernel_instances, (uint64_t)1),
		ws_text_or(place.text, ""));
	finding->advice = ws_strdup(ADVICE_ON_QUERIES);
	ws_finding_add_evidence(finding, "the longest of these calls", NULL, calls.longest.start,
				calls.longest.end);
	ws_text_free(&place);
}

/*
 * Measured by the time that the program's threads ran, since a busy machine gives them cores only
 * part of the time. Loops over events also ask often; for a thread that only waits busily, half as
 * much counts.
 */
static bool is_much(const struct ws_analysis *analysis, const char *call, uint64_t ns)
{
	double least = LEAST_SHARE;

	if (!strcmp(call, "sched_yield") || strstr(call, "spin") || strstr(call, "trylock"))
		least /= 2;
	return analysis->demand >= LEAST_SHARE &&
	       (double)ns >= least * (double)analysis->parallel.running;
}

/* Whether the program's author says by a function's name that it waits busily. */
static bool says_it_spins(const char *name)
{
	if (strcasestr(name, "busy_wait") || strcasestr(name, "busywait"))
		return true;
	return strcasestr(name, "spin") && (strcasestr(name, "lock") || strcasestr(name, "wait") ||
					    strcasestr(name, "acquire"));
}

static bool is_named_spin(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return row->kind == WS_USAGE_CODE && !row->place.python && row->place.users &&
	       measure_loop(row) <= NAMED_SPIN_BYTES &&
	       says_it_spins(ws_stacks_get_function(stacks, row->place.function)->name);
}

/* A loop that nothing but another thread can end. */
static bool is_asking_loop(const struct ws_analysis *analysis, const struct ws_usage_row *row,
			   struct ws_hot_loop *loop)
{
	enum { ENOUGH_SAMPLES = 20 };

	return row->kind == WS_USAGE_CODE && !row->place.python && row->place.users &&
	       row->samples >= ENOUGH_SAMPLES && measure_loop(row) <= ASKING_BYTES &&
	       ws_look_at_loop(analysis->model, row, loop) && loop->state.only_asks;
}

static void put_spin(const struct ws_analysis *analysis, const struct ws_usage_row *row,
		     const struct ws_hot_loop *asking, struct ws_text *text)
{
	if (!asking->state.only_asks || is_named_spin(analysis, row)) {
		ws_text_puts(text, "a spin loop");
		return;
	}
	ws_text_puts(text, ASKING_LOOP);
	if (!ws_put_asked_variable(analysis->model, row, asking, text))
		ws_text_puts(text, "memory");
	ws_text_puts(text, " until another thread writes there,");
}

/* The program's own waiting: tiny loops in functions that say by their names what they are, or
 * whose machine code does. */
static void check_named_spins(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage *usage = &analysis->usage;
	struct ws_usage_total total = {0};
	struct ws_hot_loop loop = {0}, asking = {0};
	struct ws_text name = {0};

	for (size_t i = 0; i < usage->count; i++) {
		const struct ws_usage_row *row = &usage->rows[i];

		if (total.threads && row->place.function != total.row.place.function)
			continue;
		if (is_asking_loop(analysis, row, &loop))
			asking = loop;
		else if (!is_named_spin(analysis, row))
			continue;
		if (!total.threads)
			total.row = *row;
		else
			total.row.ns += row->ns;
		total.threads++;
	}
	if (!total.threads)
		return;
	put_spin(analysis, &total.row, &asking, &name);
	total.row.name = name.text;
	if (is_much(analysis, "", total.row.ns))
		report_spinning(analysis, &total, findings);
	ws_text_free(&name);
}

/* ---- loops of Python ---- */

/* Lines of the user's Python: the number of the function and the line. */
static uint64_t read_python_line(const struct ws_model *model, const uint32_t *frames, size_t count,
				 void *context)
{
	struct ws_map *files = context;
	struct ws_code_place place = ws_code_place_frames(model, frames, count);
	uint64_t key = (uint64_t)place.function << 32 | place.line;

	if (!place.python || !place.users)
		return 0;
	ws_map_set(files, key, place.file);
	return key;
}

/* The time on cores of Python of other threads of the process: they took turns with the loop. */
static uint64_t sum_other_python(const struct ws_analysis *analysis, uint32_t thread)
{
	const struct ws_names_by_id *who = analysis->model->who;
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind == WS_USAGE_CODE && row->place.python && row->thread != thread &&
		    ws_find_thread(who, row->thread)->process ==
			    ws_find_thread(who, thread)->process)
			sum += row->ns;
	}
	return sum;
}

static void report_python_loop(const struct ws_analysis *analysis, uint64_t key, uint64_t ns,
			       const char *what, struct ws_findings *findings)
{
	const struct ws_usage *usage = &analysis->usage;
	struct ws_usage_total total = {.threads = 1};
	struct ws_finding *finding;
	size_t i = 0;

	while (i < usage->count &&
	       (usage->rows[i].place.function != key >> 32 || !usage->rows[i].place.python))
		i++;
	if (i == usage->count)
		return;
	total.row = usage->rows[i];
	total.row.ns = ns;
	total.row.name = what;
	total.row.place.line = (uint32_t)key;
	total.row.place.leaf = total.row.place.function;
	report_spinning(analysis, &total, findings);
	finding = &findings->findings[findings->count - 1];
	finding->gain_ns =
		ws_max(finding->gain_ns, ws_min(ns, sum_other_python(analysis, total.row.thread)));
	ws_point_at(finding, &total.row.place);
}

/* The source says which loops only ask. */
static void check_python_loops(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to), most = 0, ns = 0;
	struct ws_map files = {0};
	struct ws_stack_sums sums;

	if (!model->python)
		return;
	ws_stack_sums_make(model, 0, read_python_line, &files, &sums);
	for (size_t i = 0; i < sums.count; i++) {
		uint64_t key = sums.sums[i].key;
		const char *path;

		if (most ? key >> 32 != most >> 32 : sums.sums[i].ns < sums.ns / 20)
			continue;
		path = ws_report_string(model->report, (uint32_t)ws_map_get(&files, key, NULL),
					NULL);
		if (!ws_is_asking_loop(path, (uint32_t)key, until))
			continue;
		most = ws_or(most, key);
		ns += sums.sums[i].ns;
	}
	if (most && is_much(analysis, "", ns))
		report_python_loop(analysis, most, ns, PYTHONS_LOOP, findings);
	ws_stack_sums_free(&sums);
	ws_map_free(&files);
}

/* ---- tasks of an event loop ---- */

enum { LOOPS_OWN = 1 };

/* Lines of tasks, and what the loop does between their steps. */
static uint64_t read_task_line(const struct ws_model *model, const uint32_t *frames, size_t count,
			       void *context)
{
	struct ws_code_place place = ws_code_place_frames(model, frames, count);
	uint64_t key = (uint64_t)place.function << 32 | place.line;

	if (place.library != WS_LIBRARY_LOOP || !place.users)
		return 0;
	if (!ws_is_task_stack(model, frames, count))
		return LOOPS_OWN;
	ws_map_set(context, key, place.file);
	return key;
}

/* A task that asks for something and then lets the others go first keeps the loop turning. */
static void check_tasks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to), most = 0, ns = 0,
		 others = 0;
	struct ws_map files = {0};
	struct ws_stack_sums sums;

	if (!ws_has_task_steps(model))
		return;
	ws_stack_sums_make(model, 0, read_task_line, &files, &sums);
	for (size_t i = 0; i < sums.count; i++) {
		uint64_t key = sums.sums[i].key;
		const char *path;

		if (key == LOOPS_OWN) {
			ns += sums.sums[i].ns;
			continue;
		}
		path = ws_report_string(model->report, (uint32_t)ws_map_get(&files, key, NULL),
					NULL);
		if ((most && key >> 32 == most >> 32) ||
		    (!most && ws_is_yielding_loop(path, (uint32_t)key, until))) {
			most = ws_or(most, key);
			ns += sums.sums[i].ns;
		} else {
			others += sums.sums[i].ns;
		}
	}
	if (most && others < ns / 4 && is_much(analysis, "", ns))
		report_python_loop(analysis, most, ns, YIELDING_TASK, findings);
	ws_stack_sums_free(&sums);
	ws_map_free(&files);
}

static void check_waiting(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_usage_total totals[MOST_TOTALS];
	size_t count = ws_total_usage(analysis, 1u << WS_USAGE_POLL, totals, MOST_TOTALS);
	uint32_t guessed = 0;

	check_queries(analysis, findings);
	for (size_t i = 0; i < count; i++)
		if (is_much(analysis, totals[i].row.name, totals[i].row.ns) &&
		    !ws_have_many_descriptors(findings, totals[i].row.name))
			report_spinning(analysis, &totals[i], findings);
	check_named_spins(analysis, findings);
	check_python_loops(analysis, findings);
	check_tasks(analysis, findings);
	if (ws_findings_have(findings, &ws_rule_busy_waiting))
		return;
	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->place.function == guessed)
			continue;
		if (row->kind == WS_USAGE_CODE && !row->place.python && row->place.users &&
		    row->samples >= LEAST_SAMPLES && measure_loop(row) <= SPIN_BYTES &&
		    is_much(analysis, "", row->ns) && may_wait_for_others(analysis, row) &&
		    may_only_ask(analysis, row)) {
			guess_spinning(analysis, row, findings);
			guessed = row->place.function;
		}
	}
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	const char *why = ws_need_scheduling(analysis);

	if (analysis->model->has_cuda) /* calls of CUDA are recorded in any case */
		return NULL;
	if (why)
		return why;
	return ws_need_samples(analysis);
}

const struct ws_rule ws_rule_busy_waiting = {
	.name = "busy-waiting",
	.title = "Threads that ask again and again instead of waiting",
	.about =
		"A fifth of the time that threads run, or more, is spent in calls that "
		"ask whether something has come, or let others go first: sched_yield, poll and "
		"select that return at once, spin locks, trylock, tiny sleeps (a tenth of "
		"sched_yield, spin locks and trylock). The price "
		"is the core; time is gained only where threads had to wait for cores. A tiny loop "
		"in a function of the program that is named so (spin_lock, busy_wait) counts as "
		"these calls do, and so does a loop whose machine code carries nothing from round "
		"to round and only reads memory that others write to, and one of Python whose "
		"source does nothing but to ask "
		"(while not done: pass), or a task of asyncio that asks between calls of "
		"sleep(0). Another tiny loop is reported as a note: "
		"nearly all samples of a thread "
		"within 12 bytes of code while another thread works elsewhere. A thousand calls "
		"of cudaStreamQuery or cudaEventQuery, 20 a kernel, are a warning.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_code,
	.check = check_waiting,
};
