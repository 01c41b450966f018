/*
 * round_trips.c - a program of Python that asks another process, waits for the answer, and asks
 * again: the time goes into the messages.
 *
 * The critical path goes to the process that answers and back each time.
 */
#include "analyze/askers.h"
#include "analyze/rules/rules.h"
#include "base/map.h"

enum { LEAST_TRIPS = 100, LEAST_SEEN = 20, LONGEST_TRIP_NS = 10000000, MESSAGES_NS = 300000 };
#define LEAST_SHARE 0.1
#define LEAST_ASKING 0.05 /* of the samples, at the line that asks */

/* Where both sides wait for cores, an answer may be there before anyone waits for it: the path does
 * not show all questions, but there is a connection for each. */
static uint64_t count_trips(const struct ws_analysis *analysis, uint64_t connections)
{
	uint64_t seen = ws_count_crossings(analysis->model, &analysis->path) / 2,
		 trips = ws_max(seen, connections);

	return seen < LEAST_SEEN || trips < LEAST_TRIPS ? 0 : trips;
}

/* Threads that ask at the same time wait side by side. */
static bool ask_side_by_side(const struct ws_analysis *analysis, const struct ws_asker *asker)
{
	enum { MOST_THREADS = 2 };
	struct ws_map threads = {0};
	size_t count;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->place.function == asker->place.function)
			ws_map_set(&threads, row->thread, 1);
	}
	count = threads.count;
	ws_map_free(&threads);
	return count > MOST_THREADS;
}

/* How long other processes sleep on the path before they answer. */
static uint64_t sum_pauses(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->path.count; i++) {
		const struct ws_piece *piece = &analysis->path.pieces[i];

		if (piece->kind == WS_PIECE_WAIT && piece->wait == WS_WAIT_SLEEP &&
		    ws_find_thread(model->who, piece->thread)->process != model->process)
			sum += piece->end - piece->start;
	}
	return sum;
}

static void check_trips(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	static const char *const connect[] = {"connect", NULL};
	uint64_t connections, trips, cost, pauses;
	struct ws_asker asker;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!analysis->model->python || analysis->model->has_cuda ||
	    ws_findings_have(findings, &ws_rule_handovers) ||
	    ws_findings_have(findings, &ws_rule_process_data))
		return;
	connections = ws_count_calls_of(analysis->model, connect, false);
	trips = count_trips(analysis, connections);
	if (!trips || analysis->window / trips > LONGEST_TRIP_NS ||
	    !ws_find_asker(analysis->model, &asker) || asker.share < LEAST_ASKING ||
	    ask_side_by_side(analysis, &asker))
		return;
	pauses = sum_pauses(analysis);
	cost = ws_min(trips * MESSAGES_NS, analysis->window / 10 * 9 - pauses / 10 * 9) + pauses;
	if (ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	ws_put_at_place(analysis, &asker.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_round_trips, cost,
					cost - cost / 5);
	ws_limit_to_users(analysis, finding, &asker.place);
	finding->title =
		ws_format("Another process is asked %llu times, one question at a time, and "
			  "each answer is waited for%s%s%s%s",
			  (unsigned long long)trips, ws_text_or(place.text, ""),
			  asker.by ? ", by " : "", ws_or(asker.by, ""),
			  connections > trips / 2 ? ", with a new connection each time" : "");
	finding->advice =
		ws_strdup(ws_or(asker.advice, "Ask for many things in one message, send several "
					      "before waiting for the first answer, or do the "
					      "work where the data are."));
	finding->assumption =
		ws_strdup("a question and its answer cost 300 us, and a fifth remain");
	finding->next = ws_strdup("warpsight stats -r thread_wait_sum REPORT");
	ws_text_free(&place);
}

const struct ws_rule ws_rule_round_trips = {
	.name = "round-trips",
	.title = "Another process that is asked one thing at a time",
	.about = "In a program of Python the critical path goes to another process and back 100 "
		 "times or more (20 where that many connections are made), every 10 ms or more "
		 "often, and at 300 us each this is 10 % of "
		 "the time or more; what the other one sleeps before its answers counts as well. "
		 "The line that sends and receives is named, rather than that "
		 "of the process that answers.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_trips,
};
