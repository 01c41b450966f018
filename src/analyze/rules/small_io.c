/*
 * small_io.c - data read or written in small pieces: the calls cost more than the bytes.
 *
 * Most such calls are too short to be recorded one by one. Samples show how long the program was in
 * them, and how much of that time went into copying bytes: with large pieces, most of it.
 */
#include "analyze/rules/rules.h"

enum { MOST_TOTALS = 64, LEAST_NS = 20000000, LARGE_PIECE = 16384 };
#define LEAST_SHARE 0.15
#define MOST_COPYING 0.4

/* Even single bytes are copied: where no sample shows that, reads may return without any. Too few
 * bytes may be hardly seen, too. */
static const char *choose_advice(const struct ws_usage_row *row)
{
	enum { ENOUGH = 200 };
	bool reads = strstr(row->name, "read") || strstr(row->name, "recv");

	if (reads && row->samples >= ENOUGH && !row->copying_ns)
		return "Put a buffer between, or hand over many pieces at once (readv, recvmmsg). "
		       "If most calls find nothing (EAGAIN), wait with poll or epoll until there "
		       "is something.";
	return "Put a buffer between (stdio, std::ofstream with '\\n' instead of std::endl, "
	       "io.BufferedReader, writelines), or hand over many pieces at once (writev, "
	       "sendmmsg): 64 KiB a call cost next to nothing.";
}

static const char bigger_blocks[] =
	"dd reads and writes bs= bytes in each call (512 where nothing is said): take bs=1M, with "
	"iflag=skip_bytes,count_bytes where skip= and count= are meant in bytes, or head -c and "
	"tail -c.";

/* dd is told by the user how much it moves in each call. */
static bool is_dd(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	const struct ws_names_by_id *who = analysis->model->who;

	return !row->place.users &&
	       !strcmp(ws_find_process(who, ws_find_thread(who, row->thread)->process)->name, "dd");
}

static void report_calls(const struct ws_analysis *analysis, const struct ws_usage_total *total,
			 struct ws_findings *findings)
{
	uint64_t cost = total->row.path_ns;
	struct ws_finding *finding = ws_findings_add_fault(analysis, findings, &ws_rule_small_io,
							   cost, cost - cost / 10);
	struct ws_text place = {0};
	bool dd = is_dd(analysis, &total->row);

	ws_put_at_place(analysis, &total->row.place, &place);
	if (!place.text) {
		ws_text_puts(&place, " on thread ");
		ws_put_thread(analysis, total->row.thread, &place);
	}
	if (!dd)
		ws_limit_to_asked(analysis, finding, &total->row.place);
	finding->title = ws_format("Data go through %s in small pieces%s: %.0f %% of the time is "
				   "spent in the calls, hardly any on the bytes",
				   total->row.name, ws_text_or(place.text, ""),
				   100 * ws_analysis_share(analysis, cost));
	finding->advice = ws_strdup(dd ? bigger_blocks : choose_advice(&total->row));
	if (!total->row.place.users)
		ws_put_starting_line(analysis, total->row.thread, finding);
	finding->assumption = ws_strdup("a tenth of the calls or fewer remain");
	ws_finding_add_evidence(finding, "from the first sample in it to the last", NULL,
				total->row.span.start, total->row.span.end);
	ws_text_free(&place);
}

/* A function that opens and closes files for each piece: this is the main cost, which system-calls
 * reports. */
static bool is_opening_files(const struct ws_analysis *analysis, const struct ws_usage_row *row)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->usage.count; i++)
		if (analysis->usage.rows[i].kind == WS_USAGE_FILE &&
		    analysis->usage.rows[i].place.function == row->place.function)
			sum += analysis->usage.rows[i].path_ns;
	return sum > row->path_ns / 2;
}

/* Bytes per call, for calls long enough to be recorded; 0 where none were. */
static uint64_t measure_pieces(const struct ws_analysis *analysis, const char *call)
{
	const struct ws_model *model = analysis->model;
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	uint64_t bytes = 0, count = 0;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		int64_t result = (int64_t)values[ws_osrt_result];

		if (result <= 0 ||
		    strcmp(ws_report_string(model->report, (uint32_t)values[ws_osrt_name], NULL),
			   call))
			continue;
		bytes += (uint64_t)result;
		count++;
	}
	ws_cursor_close(cursor);
	if (!count)
		return 0;
	return bytes / count;
}

/* What a thread of a program without code of the user's reads and writes, or one function. */
static bool belong_together(const struct ws_usage_row *one, const struct ws_usage_row *other)
{
	if (!one->place.function && !other->place.function)
		return one->thread == other->thread;
	return one->place.function == other->place.function;
}

/* A function that moves to a place in a file and reads there makes two calls for each piece: they
 * are one finding, under the name of the one that takes longer. */
static size_t join_places(struct ws_usage_total *totals, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (k < kept && !belong_together(&totals[k].row, &totals[i].row))
			k++;
		if (k == kept) {
			totals[kept++] = totals[i];
			continue;
		}
		totals[k].row.ns += totals[i].row.ns;
		totals[k].row.path_ns += totals[i].row.path_ns;
		totals[k].row.copying_ns += totals[i].row.copying_ns;
	}
	return kept;
}

static void check_calls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_usage_total totals[MOST_TOTALS];
	size_t count = ws_total_usage(analysis, 1u << WS_USAGE_TRANSFER, totals, MOST_TOTALS);

	count = join_places(totals, count);

	for (size_t i = 0; i < count; i++) {
		const struct ws_usage_row *row = &totals[i].row;

		if (row->path_ns >= LEAST_NS &&
		    ws_analysis_share(analysis, row->path_ns) >= LEAST_SHARE &&
		    (double)row->copying_ns < MOST_COPYING * (double)row->ns &&
		    !is_opening_files(analysis, row) &&
		    measure_pieces(analysis, row->name) < LARGE_PIECE)
			report_calls(analysis, &totals[i], findings);
	}
}

const struct ws_rule ws_rule_small_io = {
	.name = "small-io",
	.title = "Data read or written in small pieces",
	.about = "15 % of the critical path or more is spent on cores in calls that read, write, "
		 "send or receive, and less than two fifths of that on copying the bytes: the "
		 "pieces are too small. Large pieces are mostly copying; where the calls that were "
		 "recorded moved 16 KiB or more on average, nothing is reported.",
	.find_obstacle = ws_need_kernel_samples,
	.by_samples = true,
	.query = ws_proof_waits,
	.check = check_calls,
};
