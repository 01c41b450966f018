/* link_messages.c - from a call of MPI to the one at the other end of its message, which may be in
 * another report. */
#include <stdlib.h>
#include <string.h>

#include "lanes/lane.h"
#include "serve/links.h"
#include "text/text.h"
#include "views/mpi_messages.h"

/* More slices than this are not searched. */
enum { MESSAGES_SEARCHED = 1000000 };

bool ws_find_span_at(const struct ws_lanes *lanes, uint64_t thread, uint64_t track, uint64_t t,
		     struct ws_spot *spot)
{
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; t < INT64_MAX && i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (track ? lane->kind != WS_LANE_TRACK || lane->key[0] != track
			  : !ws_takes_arrows(lane->kind) || lane->key[0] != thread)
			continue;
		for (uint32_t k = 0; ws_lane_ready(lane) && k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t from, to;

			ws_level_range(level, (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from == to || level->src[from] & WS_EVENT_MOMENT ||
			    (found && level->start[from] < latest))
				continue;
			*spot = (struct ws_spot){i, k, from};
			latest = level->start[from];
			found = true;
		}
	}
	return found;
}

/* Reports in which messages are looked for: that of the call first. */
struct searched {
	struct ws_api_call *call;
	size_t *numbers; /* in the view */
	struct ws_mpi_source *sources;
	struct ws_lanes **lanes;
	size_t count;
};

static void add_report(struct searched *searched, size_t number)
{
	const struct ws_view_report *report = &searched->call->view->reports[number];

	searched->numbers[searched->count] = number;
	searched->lanes[searched->count] = report->lanes;
	searched->sources[searched->count++] =
		(struct ws_mpi_source){report->report, report->lanes->who};
}

/* Add the other reports, which stay locked until unlock_others. One that is being replaced, or
 * would take long to search, is left out. */
static void lock_others(struct searched *searched)
{
	struct ws_view *view = searched->call->view;
	uint64_t rows = ws_report_count_rows(searched->call->rep->report, WS_TABLE_slice);

	for (size_t i = 0, n = ws_view_count(view); i < n; i++) {
		struct ws_view_report *report = &view->reports[i];

		if (report == searched->call->rep || pthread_rwlock_tryrdlock(&report->use))
			continue;
		ws_lanes_wait_census(report->lanes);
		rows += ws_report_count_rows(report->report, WS_TABLE_slice);
		if (rows > MESSAGES_SEARCHED || pthread_rwlock_tryrdlock(&report->lanes->shown)) {
			pthread_rwlock_unlock(&report->use);
			continue;
		}
		add_report(searched, i);
	}
}

static void unlock_others(struct searched *searched)
{
	for (size_t i = 1; i < searched->count; i++) {
		pthread_rwlock_unlock(&searched->lanes[i]->shown);
		pthread_rwlock_unlock(&searched->call->view->reports[searched->numbers[i]].use);
	}
}

static void put_message_link(const struct searched *searched, const char *role,
			     const struct ws_mpi_message *there)
{
	struct ws_text *out = searched->call->out;
	const struct ws_lanes *lanes = searched->lanes[there->source];
	struct ws_spot spot;

	if (!ws_find_span_at(lanes, there->thread, 0, there->start, &spot))
		return;
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "role", role);
	if (there->source)
		ws_put_json_int(out, "report", (int64_t)searched->numbers[there->source]);
	ws_put_spot(out, lanes, &spot);
	ws_text_puts(out, "}");
}

static bool is_call(const struct ws_mpi_message *message, const uint64_t *values)
{
	return !message->source && message->start == values[ws_slice_start] &&
	       message->thread == values[ws_slice_thread];
}

static void put_links(const struct searched *searched, const uint64_t *values)
{
	struct ws_mpi_messages *messages = ws_join_mpi_messages(searched->sources, searched->count);
	size_t count;
	const struct ws_mpi_pair *pairs = ws_get_mpi_pairs(messages, &count);

	for (size_t i = 0; i < count; i++) {
		if (is_call(pairs[i].send, values))
			put_message_link(searched, "flow_to", pairs[i].receive);
		if (is_call(pairs[i].receive, values))
			put_message_link(searched, "flow_from", pairs[i].send);
	}
	ws_free_mpi_messages(messages);
}

void ws_put_message_links(struct ws_api_call *call, const uint64_t *values)
{
	const struct ws_report *report = call->rep->report;
	size_t room = ws_view_count(call->view) + 1;
	struct searched searched = {.call = call};

	if (strcmp(ws_report_string(report, (uint32_t)values[ws_slice_category], NULL),
		   WS_MPI_MESSAGE_TABLE) != 0 ||
	    ws_report_count_rows(report, WS_TABLE_slice) > MESSAGES_SEARCHED)
		return;
	searched.numbers = ws_calloc(room, sizeof(*searched.numbers));
	searched.sources = ws_calloc(room, sizeof(*searched.sources));
	searched.lanes = ws_calloc(room, sizeof(*searched.lanes));
	add_report(&searched, (size_t)(call->rep - call->view->reports));
	lock_others(&searched);
	put_links(&searched, values);
	unlock_others(&searched);
	free(searched.numbers);
	free(searched.sources);
	free(searched.lanes);
}
