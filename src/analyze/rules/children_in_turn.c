/*
 * children_in_turn.c - a program that starts processes which compute, and waits for each before it
 * starts the next, while other cores have nothing to do.
 *
 * That they could run side by side is certain of none: it is assumed of those that run one program,
 * and that one place in the user's code waits for.
 */
#include "analyze/rules/rules.h"
#include "query/intervals.h"

enum { LEAST_CHILDREN = 4, LONG_CHILD_NS = 20000000 };
#define LEAST_SHARE 0.3

struct turns {
	uint32_t parent;
	const char *program; /* that all of them run */
	uint64_t count;
	uint64_t alive, any_alive; /* ns: the sum of all; with at least one */
	const struct ws_process_info *longest;
};

static uint64_t measure_life(const struct ws_process_info *info)
{
	return info->end == WS_NO_TIME ? 0 : info->end - ws_min(info->start, info->end);
}

static bool is_of_turns(const struct ws_names_by_id *who, const struct ws_process_info *info,
			const struct turns *turns)
{
	return measure_life(info) >= LONG_CHILD_NS && !strcmp(info->name, turns->program) &&
	       ws_find_first_image(who, info)->parent == turns->parent;
}

static void measure_turns(const struct ws_analysis *analysis, struct turns *turns)
{
	const struct ws_names_by_id *who = analysis->model->who;
	struct ws_spans spans = {0};

	for (uint32_t id = 1; id <= ws_highest_process_id(who); id++) {
		const struct ws_process_info *info = ws_find_process(who, id);

		if (!is_of_turns(who, info, turns))
			continue;
		turns->count++;
		turns->alive += measure_life(info);
		ws_spans_add(&spans, info->start, info->end);
		if (!turns->longest || measure_life(info) > measure_life(turns->longest))
			turns->longest = info;
	}
	ws_spans_merge(&spans);
	for (size_t i = 0; i < spans.count; i++)
		turns->any_alive += spans.spans[i].end - spans.spans[i].start;
	ws_spans_free(&spans);
}

/* The program that the explained process starts most often. */
static void find_turns(const struct ws_analysis *analysis, struct turns *most)
{
	const struct ws_names_by_id *who = analysis->model->who;
	uint64_t tried = 0;

	*most = (struct turns){0};
	for (uint32_t id = 1; id <= ws_highest_process_id(who) && tried < 16; id++) {
		const struct ws_process_info *info = ws_find_process(who, id);
		struct turns turns = {.parent = analysis->model->process, .program = info->name};

		if ((most->program && !strcmp(most->program, info->name)) ||
		    !is_of_turns(who, info, &turns))
			continue;
		measure_turns(analysis, &turns);
		tried++;
		if (turns.alive > most->alive)
			*most = turns;
	}
}

static bool is_child_work(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_model *model = analysis->model;

	if (row->cause == WS_CAUSE_CHILD || ws_is_wait_for_output(analysis, row))
		return true;
	return row->cause == WS_CAUSE_CPU && row->thread &&
	       ws_find_thread(model->who, row->thread)->process != model->process;
}

static void check_turns(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = ws_sum_path_rows(analysis, is_child_work), side_by_side;
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};
	struct turns turns;

	if (analysis->cores < 2 || analysis->model->has_cuda ||
	    ws_analysis_share(analysis, cost) < LEAST_SHARE ||
	    ws_findings_have(findings, &ws_rule_child_processes))
		return;
	find_turns(analysis, &turns);
	if (turns.count < LEAST_CHILDREN || turns.alive > turns.any_alive + turns.any_alive / 5)
		return;
	side_by_side = ws_min((uint64_t)analysis->cores, turns.count);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_children_in_turn, cost,
					cost - cost / side_by_side);
	code = ws_find_wait_place(analysis);
	ws_limit_to_users(analysis, finding, &code);
	ws_put_line_of_start(analysis->model, turns.longest, &place);
	if (!place.text)
		ws_put_at_place(analysis, &code, &place);
	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	finding->title = ws_format(
		"%llu processes (%s) run one after the other, %.3g s each, and each is waited "
		"for%s: they take %.0f %% of the time, on one of %u cores",
		(unsigned long long)turns.count, turns.program,
		(double)turns.alive / (double)turns.count / 1e9, ws_text_or(place.text, ""),
		100 * ws_analysis_share(analysis, cost), analysis->cores);
	finding->advice =
		ws_strdup("Start as many as there are cores before waiting for the first (Popen "
			  "and wait, a pool, xargs -P, & and wait in a shell), where none needs "
			  "what another one makes.");
	finding->assumption = ws_strdup("they run side by side on all cores");
	ws_finding_add_evidence(finding, "the longest of them", NULL, turns.longest->start,
				turns.longest->end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_children_in_turn = {
	.name = "children-in-turn",
	.title = "Processes that run one after the other",
	.about = "The program starts four processes or more of one program, which live for 20 ms "
		 "or longer and hardly ever side by side, and 30 % of the critical path or more "
		 "lies in processes that it waits for, on a machine with two cores or more. Never "
		 "more than a warning, since one may need what another one makes; a note for "
		 "programs of the system, such as shells and make.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_processes,
	.check = check_turns,
};
