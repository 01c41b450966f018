/*
 * blocked_loop.c - tasks of an event loop of asyncio that wait in calls of the system, instead of
 * awaiting: the loop, with all other tasks, waits with them.
 *
 * The loop's own wait for descriptors is not below its calls of tasks. Short waits are recorded
 * without their stack: they count where the same call of the same thread was seen below a task, and
 * nowhere else.
 */
#include "analyze/rules/blocked_loop.h"

#include "analyze/tasks.h"
#include "base/map.h"

#define LEAST_SHARE 0.05

/* Waits of one thread in one call at one line. */
struct blocked {
	uint32_t thread, function, stack, step; /* the call; a stack; the task's frame on it */
	struct ws_code_place place;
	uint64_t ns, waits;
	struct ws_span longest;
};

struct blocked_sums {
	struct blocked *sums;
	size_t count, cap;
	struct ws_map steps; /* stack: the task's frame, 0 for none */
	struct ws_map calls; /* call of the thread: TASK, ELSEWHERE or both */
	uint64_t ns;	     /* of the thread at hand */
};
enum { TASK = 1, ELSEWHERE = 2 };

/* Turns with the interpreter and page faults are no calls of the task's. */
static bool is_blocking(const struct ws_model *model, const struct ws_model_state *state)
{
	if (state->doing != WS_DOING_WAIT || state->end <= model->from || state->start >= model->to)
		return false;
	switch (state->wait) {
	case WS_WAIT_LOCK:
	case WS_WAIT_CONDITION:
	case WS_WAIT_SEMAPHORE:
	case WS_WAIT_JOIN:
	case WS_WAIT_CHILD:
	case WS_WAIT_IO:
	case WS_WAIT_POLL:
	case WS_WAIT_SLEEP:
		return true;
	default:
		return false;
	}
}

static bool has_stack(const struct ws_wait_call *call)
{
	return call->callchain && call->callchain != WS_NO_U32;
}

static uint32_t find_step(const struct ws_model *model, struct ws_map *steps, uint32_t stack)
{
	bool known;
	uint64_t step = ws_map_get(steps, stack, &known);

	if (!known) {
		step = ws_find_task_step(model, 0, stack);
		ws_map_set(steps, stack, step);
	}
	return (uint32_t)step;
}

static struct blocked *find_sum(const struct ws_model *model, struct blocked_sums *sums,
				uint32_t thread, const struct ws_wait_call *call)
{
	struct ws_code_place place = ws_code_find_place(model, 0, call->callchain);

	for (size_t i = 0; i < sums->count; i++) {
		struct blocked *sum = &sums->sums[i];

		if (sum->thread == thread && sum->function == call->function &&
		    sum->place.function == place.function && sum->place.line == place.line)
			return sum;
	}
	ws_grow(sums->sums, sums->cap, sums->count + 1);
	sums->sums[sums->count] = (struct blocked){
		.thread = thread,
		.function = call->function,
		.stack = call->callchain,
		.step = find_step(model, &sums->steps, call->callchain),
		.place = place,
	};
	return &sums->sums[sums->count++];
}

static void add_wait(const struct ws_model *model, const struct ws_model_state *state,
		     struct blocked *sum)
{
	struct ws_span span = {ws_max(state->start, model->from), ws_min(state->end, model->to)};

	sum->ns += span.end - span.start;
	sum->waits++;
	if (span.end - span.start > sum->longest.end - sum->longest.start)
		sum->longest = span;
}

/* A call without a stack counts for the first place of the thread that has the same call. */
static struct blocked *find_alike(struct blocked_sums *sums, uint32_t thread, uint32_t function)
{
	if (ws_map_get(&sums->calls, function, NULL) != TASK)
		return NULL;
	for (size_t i = 0; i < sums->count; i++)
		if (sums->sums[i].thread == thread && sums->sums[i].function == function)
			return &sums->sums[i];
	return NULL;
}

/* The sum that a wait belongs to; NULL for none. */
static struct blocked *choose_sum(const struct ws_model *model, uint32_t id,
				  const struct ws_wait_call *call, struct blocked_sums *sums)
{
	bool below;

	if (!has_stack(call))
		return find_alike(sums, id, call->function);
	below = find_step(model, &sums->steps, call->callchain) != 0;
	ws_map_set(&sums->calls, call->function,
		   ws_map_get(&sums->calls, call->function, NULL) | (below ? TASK : ELSEWHERE));
	return below ? find_sum(model, sums, id, call) : NULL;
}

/* The waits with a stack, or those without: the former say what the latter are. */
static void add_waits(const struct ws_model *model, uint32_t id, bool stacks,
		      struct blocked_sums *sums)
{
	const struct ws_model_thread *thread = &model->threads[id];

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_wait_call *call = ws_model_get_call(model, &thread->states[i]);
		struct blocked *sum;

		if (!is_blocking(model, &thread->states[i]) || has_stack(call) != stacks)
			continue;
		sum = choose_sum(model, id, call, sums);
		if (sum)
			add_wait(model, &thread->states[i], sum);
	}
}

bool ws_is_loop_blocked(const struct ws_analysis *analysis, const struct ws_findings *findings,
			const struct ws_breakdown_row *row)
{
	const struct ws_model *model = analysis->model;
	uint64_t at = row->longest.start + (row->longest.end - row->longest.start) / 2;

	if (!ws_findings_have(findings, &ws_rule_blocked_loop))
		return false;
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_state *state = ws_model_find_state(model, id, at);
		const struct ws_wait_call *call;

		if (!state || state->end < at || !is_blocking(model, state))
			continue;
		call = ws_model_get_call(model, state);
		if (has_stack(call) && ws_find_task_step(model, 0, call->callchain))
			return true;
	}
	return false;
}

void ws_rank_after_blocked_loop(const struct ws_analysis *analysis, struct ws_findings *findings,
				const struct ws_breakdown_row *row)
{
	struct ws_finding *last = &findings->findings[findings->count - 1];

	if (!ws_is_loop_blocked(analysis, findings, row))
		return;
	for (size_t i = 0; i + 1 < findings->count; i++)
		if (findings->findings[i].rule == &ws_rule_blocked_loop)
			last->gain_ns = ws_min(last->gain_ns, findings->findings[i].gain_ns - 1);
	last->level = ws_min(last->level, ws_rate_gain(analysis, last->gain_ns));
}

/* "handle (gateway.py:37) calls LegacyClient.lookup (gateway.py:32), which waits in recv". */
static void put_blocked(const struct ws_analysis *analysis, const struct blocked *blocked,
			struct ws_text *text)
{
	const struct ws_model *model = analysis->model;
	struct ws_code_place task = ws_code_place_frames(model, &blocked->step, 1),
			     place = blocked->place;

	task.leaf = task.function;
	if (place.users && task.users && place.function != task.function) {
		ws_code_put_place(model, &task, text);
		ws_text_puts(text, " calls ");
	}
	ws_code_put_place(model, &place, text);
	ws_text_printf(text, "%s %s",
		       place.function == task.function ? " waits in" : ", which waits in",
		       ws_report_string(model->report, blocked->function, NULL));
}

static void report_blocked(const struct ws_analysis *analysis, const struct blocked *blocked,
			   uint64_t cost, uint64_t waits, struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_blocked_loop, cost, cost);
	struct ws_text what = {0}, thread = {0};

	put_blocked(analysis, blocked, &what);
	ws_put_thread(analysis, blocked->thread, &thread);
	ws_limit_to_users(analysis, finding, &blocked->place);
	finding->title =
		ws_format("A task blocks the event loop, with all other tasks, %llu times, %.3g ms "
			  "each: %s [%s]",
			  (unsigned long long)waits, (double)cost / 1e6 / (double)waits, what.text,
			  thread.text);
	finding->advice = ws_strdup(
		"Await instead of waiting in a call: asyncio's streams, subprocesses, locks and "
		"sleep, or a library made for it (aiohttp, httpx, asyncpg); what has none runs on "
		"a thread (await asyncio.to_thread(...), loop.run_in_executor).");
	finding->assumption = ws_strdup("the tasks wait side by side");
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, blocked->longest.start,
				blocked->longest.end);
	ws_text_free(&what);
	ws_text_free(&thread);
}

/* The thread whose loop is blocked for longest, and its longest sum. */
static void check_loops(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct blocked_sums sums = {0};
	const struct blocked *most = NULL;
	uint64_t cost = 0, waits = 0;

	if (!ws_has_task_steps(model))
		return;
	for (uint32_t id = 1; id < model->thread_count; id++) {
		if (!ws_is_explained(model, ws_find_thread(model->who, id)->process))
			continue;
		ws_map_free(&sums.calls);
		add_waits(model, id, true, &sums);
		add_waits(model, id, false, &sums);
	}
	for (size_t i = 0; i < sums.count; i++)
		if (!most || sums.sums[i].ns > most->ns)
			most = &sums.sums[i];
	for (size_t i = 0; i < sums.count; i++)
		if (sums.sums[i].thread == most->thread) {
			cost += sums.sums[i].ns;
			waits += sums.sums[i].waits;
		}
	if (most && ws_analysis_share(analysis, cost) >= LEAST_SHARE)
		report_blocked(analysis, most, cost, waits, findings);
	ws_map_free(&sums.steps);
	ws_map_free(&sums.calls);
	free(sums.sums);
}

const struct ws_rule ws_rule_blocked_loop = {
	.name = "blocked-loop",
	.title = "Tasks that block their event loop",
	.about = "The thread of an event loop of asyncio waits for 5 % of the time or more in "
		 "calls that a task has made (recv, connect, sleep, waitpid, locks, files) rather "
		 "than in its own wait for descriptors: no other task goes on meanwhile. What the "
		 "other side of such a call waits for is not reported besides.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_loops,
};
