/*
 * work_in_turn.c - threads or processes that could work side by side, but are asked one after the
 * other: the program waits for each before it asks the next.
 *
 * The critical path leaves the thread that asks for one of the others, and comes back when it waits
 * no longer: a turn. Of each turn, who took most of it worked. Where these are several, and hardly
 * ever two of them were busy at once, they work in turn.
 */
#include "analyze/askers.h"
#include "analyze/java.h"
#include "analyze/rules/rules.h"
#include "base/map.h"

enum { LEAST_TURNS = 20, LEAST_TURN_NS = 200000, MOST_WAITING = 8 };
#define LEAST_SHARE 0.4
#define MOST_OF_ONE 0.8	  /* of the turns */
#define MOST_TOGETHER 1.6 /* of the turns' time: what all who took turns were busy */

struct turns {
	const struct ws_analysis *analysis;
	uint32_t asker;
	uint64_t count, ns, running; /* ns: without waiting for a core */
	struct ws_map workers;	     /* thread: turns */
	struct ws_span longest;
	/* The turn that is being read. */
	struct ws_map parts; /* thread: ns */
	uint64_t start, end, run, runnable;
};

static uint32_t find_most(const struct ws_map *map, uint64_t *most)
{
	uint32_t key = 0;

	*most = 0;
	for (size_t i = 0; i < map->size; i++)
		if (map->used[i] && map->slots[i].value > *most) {
			*most = map->slots[i].value;
			key = (uint32_t)map->slots[i].key;
		}
	return key;
}

static void end_turn(struct turns *turns)
{
	uint64_t most;
	uint32_t worker = find_most(&turns->parts, &most);

	if (worker && turns->end - turns->start >= LEAST_TURN_NS &&
	    !ws_is_java_helper(turns->analysis->model, worker) &&
	    !ws_is_java_main(turns->analysis->model, worker)) {
		ws_map_set(&turns->workers, worker, ws_map_get(&turns->workers, worker, NULL) + 1);
		turns->count++;
		turns->ns += turns->end - turns->start - turns->runnable;
		turns->running += turns->run;
		if (turns->end - turns->start > turns->longest.end - turns->longest.start)
			turns->longest = (struct ws_span){turns->start, turns->end};
	}
	ws_map_free(&turns->parts);
	turns->parts = (struct ws_map){0};
	turns->run = turns->runnable = turns->start = turns->end = 0;
}

static void read_turns(struct turns *turns)
{
	const struct ws_path *path = &turns->analysis->path;

	for (size_t i = 0; i < path->count; i++) {
		const struct ws_piece *piece = &path->pieces[i];
		uint64_t ns = piece->end - piece->start;

		if (piece->thread == turns->asker) {
			end_turn(turns);
			continue;
		}
		turns->start = ws_or(turns->start, piece->start);
		turns->end = piece->end;
		if (piece->kind == WS_PIECE_RUN)
			turns->run += ns;
		else if (piece->kind == WS_PIECE_RUNNABLE)
			turns->runnable += ns;
		if (piece->thread)
			ws_map_set(&turns->parts, piece->thread,
				   ws_map_get(&turns->parts, piece->thread, NULL) + ns);
	}
	end_turn(turns);
}

/* Whether a thread does something, or waits for what no other thread of the program does. One that
 * waits for a core may only have to go to sleep. */
static bool is_busy(const struct ws_model_state *state)
{
	if (state->doing != WS_DOING_WAIT)
		return state->doing == WS_DOING_RUN;
	return !state->waker && (state->wait == WS_WAIT_SLEEP || state->wait == WS_WAIT_IO ||
				 state->wait == WS_WAIT_POLL);
}

/* How long all who took turns were busy, within the window. */
static uint64_t sum_busy(const struct turns *turns)
{
	const struct ws_model *model = turns->analysis->model;
	uint64_t sum = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];

		if (!ws_map_get(&turns->workers, id, NULL))
			continue;
		for (size_t i = 0; i < thread->count; i++) {
			uint64_t start = ws_max(thread->states[i].start, model->from),
				 end = ws_min(thread->states[i].end, model->to);

			if (end > start && is_busy(&thread->states[i]))
				sum += end - start;
		}
	}
	return sum;
}

/* Whether a process, or the one that the program started for it, is soon over. */
static bool is_brief(const struct ws_model *model, uint32_t process)
{
	enum { LONGEST_NS = 1000000000, MOST_GENERATIONS = 64 };
	const struct ws_process_info *top = NULL;

	for (unsigned i = 0; process && process != model->process && i < MOST_GENERATIONS; i++) {
		top = ws_find_process(model->who, process);
		process = top->parent;
	}
	return top && process == model->process && top->end != WS_NO_TIME &&
	       top->end - top->start < LONGEST_NS;
}

/* Processes that are started for one turn each: other rules tell what starting them costs. */
static bool are_started_for_it(const struct turns *turns)
{
	const struct ws_model *model = turns->analysis->model;
	uint64_t started = 0;

	for (size_t i = 0; i < turns->workers.size; i++) {
		const struct ws_map_slot *slot = &turns->workers.slots[i];

		if (turns->workers.used[i] && slot->value <= 1)
			started += is_brief(
				model, ws_find_thread(model->who, (uint32_t)slot->key)->process);
	}
	return started * 2 > turns->count;
}

static bool work_in_turn(const struct turns *turns)
{
	uint64_t most;

	find_most(&turns->workers, &most);
	return turns->count >= LEAST_TURNS && turns->workers.count > 1 &&
	       (double)most < MOST_OF_ONE * (double)turns->count &&
	       ws_analysis_share(turns->analysis, turns->ns) >= LEAST_SHARE &&
	       !are_started_for_it(turns) &&
	       (double)sum_busy(turns) < MOST_TOGETHER * (double)turns->ns;
}

/* What they do meanwhile is no fault of its own: that nobody else does anything is. */
static void take_in_effects(struct ws_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		struct ws_finding *other = &findings->findings[i];

		if (other->rule == &ws_rule_sleeping || other->rule == &ws_rule_child_processes)
			other->level = ws_min(other->level, WS_LEVEL_NOTE);
	}
}

static void report_turns(const struct turns *turns, const struct ws_code_place *place,
			 struct ws_findings *findings)
{
	const struct ws_analysis *analysis = turns->analysis;
	uint64_t workers = turns->workers.count, waiting = turns->ns - turns->running,
		 cores = ws_min((uint64_t)analysis->cores, workers);
	struct ws_text where = {0};
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_work_in_turn, turns->ns,
				      turns->ns - turns->running / ws_max(cores, (uint64_t)1) -
					      waiting / ws_min(workers, (uint64_t)MOST_WAITING));

	ws_limit_to_users(analysis, finding, place);
	ws_put_at_place(analysis, place, &where);
	finding->title = ws_format(
		"%llu threads or processes work one at a time: %llu times the program waits for "
		"one of them%s before it asks the next, %.0f %% of the time",
		(unsigned long long)workers, (unsigned long long)turns->count,
		ws_text_or(where.text, ""), 100 * ws_analysis_share(analysis, turns->ns));
	finding->advice = ws_strdup(
		"Let several be at work at once: hand over all tasks, or one to each, before you "
		"wait for the first result (submit all and then ask for results, map, a queue), "
		"and let a pool have several workers.");
	if (finding->level > WS_LEVEL_NOTE)
		take_in_effects(findings);
	finding->assumption = ws_strdup("they work side by side");
	ws_finding_add_evidence(finding, "the longest turn", NULL, turns->longest.start,
				turns->longest.end);
	ws_text_free(&where);
}

static void check_turns(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct turns turns = {.analysis = analysis,
			      .asker = ws_or(ws_find_java_main(model), model->thread)};
	struct ws_code_place place;

	if (model->has_cuda || model->step_source != WS_STEPS_NONE || analysis->cores < 2 ||
	    ws_code_is_system_program(model, model->process) ||
	    ws_findings_have(findings, &ws_rule_handovers) ||
	    ws_findings_have(findings, &ws_rule_gil) ||
	    ws_findings_have(findings, &ws_rule_busy_waiting) ||
	    ws_findings_have(findings, &ws_rule_thread_churn) ||
	    ws_findings_have(findings, &ws_rule_worker_start) ||
	    ws_findings_have(findings, &ws_rule_serial_section) ||
	    ws_findings_have(findings, &ws_rule_lock_contention))
		return;
	read_turns(&turns);
	place = ws_find_longest_wait(model, turns.asker);
	if (place.users && place.library != WS_LIBRARY_LOOP && work_in_turn(&turns))
		report_turns(&turns, &place, findings);
	ws_map_free(&turns.workers);
}

const struct ws_rule ws_rule_work_in_turn = {
	.name = "work-in-turn",
	.title = "Workers that are asked one after the other",
	.about = "The critical path leaves the main thread 20 times or more for other threads or "
		 "processes of the program, for 40 % of the time or more and 0.2 ms or more each, "
		 "and comes back to where it waits for them; these are several, and hardly ever "
		 "two of them are busy at once. Processes that are started for it, and locks, are "
		 "told by other rules.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_turns,
};
