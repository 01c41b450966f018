/* process_data.c - Python processes that mostly pack up data for each other. */
#include <string.h>

#include "analyze/askers.h"
#include "analyze/rules/rules.h"
#include "analyze/works.h"

enum { TINY_MESSAGE_NS = 100000, LEAST_MESSAGES = 1000 };

/* Also in workers, whose code of the user's is the line that has started them. */
static bool is_packing(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	if (row->cause != WS_CAUSE_CPU || row->place.loader)
		return false;
	return row->place.library == WS_LIBRARY_PACKING ||
	       (row->place.work != WS_WORK_NONE && ws_get_work_kind(row->place.work)->is_packing &&
		ws_find_thread(analysis->model->who, row->thread)->process !=
			analysis->model->process);
}

/* What pools do on threads of their own goes with small messages. */
static bool is_handling(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return is_packing(analysis, row) ||
	       (row->cause == WS_CAUSE_CPU && row->thread && !row->place.users &&
		row->thread != analysis->model->thread && !row->place.loader);
}

/* Whether the messages are many and small: it is not the data that takes the time then. */
static bool are_messages_tiny(const struct ws_analysis *analysis, uint64_t cost)
{
	static const char *const transfers[] = {"write", "send*", "read", "recv*", NULL},
				 *const polls[] = {"poll", "select", NULL};
	uint64_t messages = ws_count_calls_of(analysis->model, transfers, true) +
			    ws_count_calls_of(analysis->model, polls, false);

	return messages >= LEAST_MESSAGES && cost / messages < TINY_MESSAGE_NS;
}

/* How many processes the program has started, if so many that a pool must have been made again. */
static uint64_t count_pools_processes(const struct ws_analysis *analysis)
{
	enum { LEAST_PROCESSES = 16 };
	const struct ws_names_by_id *who = analysis->model->who;
	uint64_t least = ws_max((uint64_t)LEAST_PROCESSES, (uint64_t)analysis->cores * 4),
		 count = 0;

	for (uint32_t id = 1; id <= ws_highest_process_id(who); id++)
		count += ws_find_process(who, id)->parent == analysis->model->process;
	return count >= least ? count : 0;
}

/* Whether a function of a pool waits for the result of one task before it takes the next. */
static bool takes_one_task(const struct ws_analysis *analysis, uint32_t id)
{
	static const char name[] = "Pool.apply";
	const struct ws_function *function = ws_stacks_get_function(analysis->model->stacks, id);
	size_t length = sizeof(name) - 1;

	return id && function->len >= length &&
	       !memcmp(function->name + function->len - length, name, length);
}

/* Pools send on threads of their own: the user's code waits for the results. Returns whether it
 * waits for each by itself. */
static bool put_waiting(const struct ws_analysis *analysis, struct ws_finding *finding,
			struct ws_text *text)
{
	struct ws_code_place code = ws_find_longest_wait(analysis->model, analysis->model->thread);

	if (!code.users)
		return false;
	ws_text_puts(text, ", while the program waits");
	ws_put_at_place(analysis, &code, text);
	ws_point_at(finding, &code);
	return takes_one_task(analysis, code.leaf);
}

static void check_packing(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = ws_sum_path_rows(analysis, is_packing);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_packing);
	struct ws_finding *finding;
	struct ws_code_place code;
	struct ws_text place = {0}, waiting = {0};
	uint64_t processes;
	bool inside, in_turn = false, tiny;

	if (!row || ws_analysis_share(analysis, cost) < 0.1)
		return;
	processes = count_pools_processes(analysis);
	code = row->place;
	code.leaf = code.function;
	inside = ws_find_thread(analysis->model->who, row->thread)->process ==
		 analysis->model->process;
	/* Below a fork, the user's code is the line that started the process. */
	if (inside || !code.users)
		ws_put_at_place(analysis, &code, &place);
	tiny = !processes && are_messages_tiny(analysis, cost);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_process_data, cost,
					tiny ? ws_sum_path_rows(analysis, is_handling)
					     : cost - cost / 4);
	if (!inside || !code.users)
		in_turn = put_waiting(analysis, finding, &waiting);
	ws_text_puts(&place, ws_text_or(waiting.text, ""));
	if (processes)
		ws_text_printf(&place, "; %llu processes are started for it",
			       (unsigned long long)processes);
	if (in_turn)
		finding->title = ws_format(
			"Workers of a pool work one at a time%s, for each task by itself; %.0f %% "
			"of the time goes into packing and sending data",
			ws_text_or(waiting.text, ""), 100 * ws_analysis_share(analysis, cost));
	else
		finding->title =
			ws_format("For %.0f %% of the time processes pack, send and unpack data "
				  "for each other%s%s",
				  100 * ws_analysis_share(analysis, cost),
				  inside || !code.users ? ", mostly" : "",
				  ws_text_or(place.text, ""));
	finding->advice = ws_format(
		"%s%s%sSend less: names, indexes or parts instead of whole objects; let the "
		"workers "
		"load the data themselves (an initializer), or share it "
		"(multiprocessing.shared_memory, memory-mapped arrays).",
		processes ? "Make the pool once, and keep it for all of the work. " : "",
		in_turn ? "Pool.apply returns when the task is done: hand over all tasks first "
			  "(map, "
			  "imap_unordered, apply_async and get at the end). "
			: "",
		tiny ? "The messages are many and small: hand over more work in each "
		       "(chunksize of map and imap, lists of items instead of single ones). "
		     : "");
	finding->assumption = ws_strdup(tiny ? "few large messages take hardly any time"
					     : "a quarter of the data has to be sent");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
	ws_text_free(&waiting);
}

const struct ws_rule ws_rule_process_data = {
	.name = "process-data",
	.title = "Data packed and sent between Python processes",
	.about = "10 % of the critical path or more is code on cores below functions of "
		 "multiprocessing or pickle that pack, send, receive and unpack objects.",
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_packing,
};
