/*
 * page_json.c - see page_json.h.
 *
 * Evidence names a stretch of time and seldom a thread. Where the stretch is a call or a piece of
 * work, its row is that of the call or work; otherwise it is the row in which the critical path ran
 * for most of the stretch, because the program was waiting for that.
 */
#include "analyze/page_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/row_finder.h"
#include "analyze/stretches.h"
#include "base/choose.h"
#include "base/sort.h"
#include "text/text.h"

enum { MOST_FINDINGS = 200, MOST_EVIDENCE = 20, MOST_ROWS = 100, MOST_TEXT = 300 };
enum { MOST_STRETCHES = 20000 };

#define UNASKED_ROWS UINT64_C(5000000)

bool ws_page_is_large(const struct ws_report *report)
{
	uint64_t count = 0;

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		count += ws_report_count_rows(report, (enum ws_table)table);
	return count > UNASKED_ROWS;
}

struct page_writer {
	const struct ws_analysis_view *view;
	struct ws_row_finder rows;
	struct ws_text *out;
};

static void put_text(struct ws_text *out, const char *key, const char *text)
{
	if (text)
		ws_put_json_string(out, key, text);
}

static void put_share(const struct page_writer *writer, const char *key, uint64_t ns)
{
	ws_put_json_key(writer->out, key);
	ws_text_printf(writer->out, "%.6g", ws_analysis_share(writer->view->analysis, ns));
}

/* The part of the report that was analysed. */
static void put_window(const struct ws_model *model, const struct ws_lanes *lanes,
		       struct ws_text *out)
{
	int64_t zero = (int64_t)lanes->zero;

	ws_put_json_key(out, "window");
	ws_text_printf(out, "[%" PRId64 ",%" PRId64 "]", (int64_t)model->from - zero,
		       (int64_t)model->to - zero);
}

static int compare_steps(const void *first, const void *second)
{
	const struct ws_step *left = *(const struct ws_step *const *)first,
			     *right = *(const struct ws_step *const *)second;

	if (left->end - left->start != right->end - right->start)
		return ws_compare(left->end - left->start, right->end - right->start);
	return ws_compare(left->start, right->start);
}

/* "typical": the step of median length, shown where a finding is about all steps. */
static void put_typical_step(const struct page_writer *writer)
{
	const struct ws_analysis *analysis = writer->view->analysis;
	const struct ws_step *const all = analysis->model->steps.steps, **steps, *typical;
	int64_t zero = (int64_t)writer->rows.lanes->zero;

	if (analysis->model->step_source == WS_STEPS_NONE)
		return;
	steps = ws_malloc(analysis->steps * sizeof(*steps));
	for (size_t i = 0; i < analysis->steps; i++)
		steps[i] = &all[analysis->model->first_step + i];
	qsort(steps, analysis->steps, sizeof(*steps), compare_steps);
	typical = steps[analysis->steps / 2];
	free(steps);
	ws_put_json_key(writer->out, "typical");
	ws_text_printf(writer->out, "[%" PRId64 ",%" PRId64 "]", (int64_t)typical->start - zero,
		       (int64_t)typical->end - zero);
}

static void put_steps(const struct page_writer *writer)
{
	static const char *const sources[] = {[WS_STEPS_NONE] = "none",
					      [WS_STEPS_MARKED] = "marked",
					      [WS_STEPS_REPEATED] = "repeated"};
	const struct ws_analysis *analysis = writer->view->analysis;

	ws_put_json_key(writer->out, "steps");
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "source", sources[analysis->model->step_source]);
	ws_put_json_int(writer->out, "count", (int64_t)analysis->steps);
	ws_put_json_int(writer->out, "warm_up", (int64_t)analysis->model->first_step);
	put_typical_step(writer);
	ws_text_puts(writer->out, "}");
}

/* The row in which the path was longest during a stretch. */
static uint32_t find_path_row(const struct ws_row_finder *rows, const struct ws_analysis *analysis,
			      uint64_t start, uint64_t end)
{
	const struct ws_path *path = &analysis->path;
	const struct ws_piece *longest = NULL;
	uint64_t most = 0;

	for (size_t i = ws_path_find(path, start); i < path->count && path->pieces[i].start < end;
	     i++) {
		const struct ws_piece *piece = &path->pieces[i];
		uint64_t ns = ws_min(piece->end, end) - ws_max(piece->start, start);

		if (ns <= most)
			continue;
		most = ns;
		longest = piece;
	}
	if (!longest)
		return WS_NO_ROW;
	return ws_find_piece_row(rows, analysis->model, longest);
}

/* The row of calls of the thread that was in a call of CUDA at that time. */
static uint32_t find_call_row(const struct page_writer *writer, const struct ws_evidence *evidence)
{
	const struct ws_model *model = writer->view->analysis->model;
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];

	for (uint32_t id = 1; id < model->thread_count; id++) {
		size_t i = model->threads[id].first_call, last = model->threads[id].end_call;
		uint32_t key[4] = {id};

		if (i == last)
			continue;
		i += ws_lower_bound(start + i, last - i, evidence->start);
		if (i < last && start[i] == evidence->start && end[i] == evidence->end)
			return ws_find_lane(writer->rows.lanes, WS_LANE_CUDA_API, key);
	}
	return WS_NO_ROW;
}

/* The row of the stream whose work it is. */
static uint32_t find_work_row(const struct page_writer *writer, const struct ws_evidence *evidence)
{
	const struct ws_work *work = &writer->view->analysis->model->work;

	for (size_t gpu = 0; gpu < work->gpus; gpu++) {
		const struct ws_work_gpu *of = &work->gpu[gpu];
		size_t i = 0;

		if (evidence->start)
			i = ws_model_find_op_after(of, evidence->start - 1);
		for (; i < of->count && of->op[i].start == evidence->start; i++)
			if (of->op[i].end == evidence->end)
				return ws_find_stream_row(&writer->rows, of->device,
							  of->op[i].process, of->op[i].stream);
	}
	return WS_NO_ROW;
}

static uint32_t find_evidence_row(const struct page_writer *writer,
				  const struct ws_evidence *evidence)
{
	uint32_t row = ws_find_thread_row(&writer->rows, evidence->thread);

	if (row == WS_NO_ROW)
		row = find_call_row(writer, evidence);
	if (row == WS_NO_ROW)
		row = find_work_row(writer, evidence);
	if (row == WS_NO_ROW)
		row = find_path_row(&writer->rows, writer->view->analysis, evidence->start,
				    evidence->end);
	return row;
}

static void put_place(const struct page_writer *writer, const struct ws_evidence *evidence)
{
	int64_t zero = (int64_t)writer->rows.lanes->zero;
	uint32_t row = find_evidence_row(writer, evidence);

	ws_put_json_int(writer->out, "start", (int64_t)evidence->start - zero);
	ws_put_json_int(writer->out, "end", (int64_t)evidence->end - zero);
	if (row != WS_NO_ROW)
		ws_put_json_int(writer->out, "lane", row);
}

static void put_evidence(const struct page_writer *writer, const struct ws_finding *finding)
{
	ws_put_json_key(writer->out, "evidence");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < finding->evidence_count && i < MOST_EVIDENCE; i++) {
		const struct ws_evidence *evidence = &finding->evidence[i];

		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "text", evidence->text);
		if (evidence->end)
			put_place(writer, evidence);
		put_text(writer->out, "query", evidence->query);
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
}

static void put_finding(const struct page_writer *writer, const struct ws_finding *finding)
{
	struct ws_text *out = writer->out, id = {0};
	char *next = NULL;

	if (finding->next)
		next = ws_fill_in_report(finding->next, writer->view->path);
	ws_put_finding_id(finding, &id);
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "id", id.text);
	ws_put_json_string(out, "rule", finding->rule->name);
	ws_put_json_string(out, "level", ws_name_level(finding->level));
	ws_put_json_string(out, "title", finding->title);
	ws_put_json_int(out, "cost", (int64_t)finding->cost_ns);
	ws_put_json_int(out, "gain", (int64_t)finding->gain_ns);
	put_share(writer, "cost_share", finding->cost_ns);
	put_share(writer, "gain_share", finding->gain_ns);
	put_text(out, "assumption", finding->assumption);
	put_text(out, "advice", finding->advice);
	put_text(out, "next", next);
	put_evidence(writer, finding);
	ws_text_puts(out, "}");
	ws_text_free(&id);
	free(next);
}

static void put_unlooked(const struct page_writer *writer)
{
	const struct ws_findings *findings = writer->view->findings;

	ws_put_json_key(writer->out, "not_looked");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < findings->unlooked_count; i++) {
		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "rule", findings->unlooked[i].rule->name);
		ws_put_json_string(writer->out, "why", findings->unlooked[i].why);
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
}

/* What each rule looks for, applied or not: what --explain shows. */
static void put_rules(const struct page_writer *writer)
{
	ws_put_json_key(writer->out, "rules");
	ws_text_puts(writer->out, "{");
	for (size_t i = 0; ws_rules[i]; i++) {
		ws_put_json_key(writer->out, ws_rules[i]->name);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "title", ws_rules[i]->title);
		ws_put_json_string(writer->out, "about", ws_rules[i]->about);
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "}");
}

void ws_put_page_findings(const struct ws_analysis_view *view, const struct ws_lanes *lanes,
			  struct ws_text *out)
{
	struct page_writer writer = {.view = view, .out = out};

	ws_row_finder_open(lanes, &writer.rows);
	put_window(view->analysis->model, lanes, out);
	put_steps(&writer);
	ws_put_json_key(out, "findings");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < view->findings->count && i < MOST_FINDINGS; i++)
		put_finding(&writer, &view->findings->findings[i]);
	ws_text_puts(out, "]");
	put_unlooked(&writer);
	put_rules(&writer);
	ws_row_finder_close(&writer.rows);
}

/* ---- the critical path ---- */

/* Names of causes for the page, which translates them. */
static const char *const cause_words[WS_CAUSES] = {
	[WS_CAUSE_CPU] = "cpu",
	[WS_CAUSE_CUDA_CALL] = "cuda_call",
	[WS_CAUSE_CORE] = "core",
	[WS_CAUSE_LOCK] = "lock",
	[WS_CAUSE_GIL] = "gil",
	[WS_CAUSE_IO] = "io",
	[WS_CAUSE_POLL] = "poll",
	[WS_CAUSE_SLEEP] = "sleep",
	[WS_CAUSE_CHILD] = "child",
	[WS_CAUSE_FAULT] = "fault",
	[WS_CAUSE_OTHER_WAIT] = "other_wait",
	[WS_CAUSE_GPU_COMPUTE] = "compute",
	[WS_CAUSE_GPU_COMM] = "communicate",
	[WS_CAUSE_GPU_COPY] = "copy",
	[WS_CAUSE_LAUNCH] = "launch",
	[WS_CAUSE_GPU_DELAY] = "delay",
	[WS_CAUSE_UNKNOWN] = "unknown",
};

static const char *name_cause_word(unsigned cause)
{
	return ws_text_or(cause_words[cause], ws_name_cause((enum ws_cause)cause));
}

struct path_writer {
	const struct ws_analysis *analysis;
	struct ws_row_finder rows;
	struct ws_map texts; /* string: its number in `names` + 1 */
	struct ws_text names;
	struct ws_text *out;
	int64_t zero;
};

static void put_quoted(struct ws_text *out, const char *text)
{
	ws_put_quoted_json(out, text, ws_min(strlen(text), (size_t)MOST_TEXT));
}

static int64_t number_text(struct path_writer *writer, uint32_t string)
{
	uint64_t known;

	if (!string)
		return -1;
	known = ws_map_get(&writer->texts, string, NULL);
	if (known)
		return (int64_t)known - 1;
	ws_map_set(&writer->texts, string, writer->texts.count + 1);
	ws_put_json_comma(&writer->names);
	put_quoted(&writer->names, ws_report_string(writer->analysis->model->report, string, NULL));
	return (int64_t)writer->texts.count - 1;
}

static int64_t find_stretch_row(const struct path_writer *writer, const struct ws_stretch *stretch)
{
	uint32_t row;

	if (stretch->on_gpu)
		row = ws_find_stream_row(&writer->rows,
					 writer->analysis->model->work.gpu[stretch->gpu].device,
					 stretch->process, stretch->stream);
	else
		row = ws_find_thread_row(&writer->rows, stretch->thread);
	if (row == WS_NO_ROW)
		return -1;
	return row;
}

static void put_pieces(struct path_writer *writer, const struct ws_stretches *list)
{
	ws_put_json_key(writer->out, "pieces");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < list->count; i++) {
		const struct ws_stretch *stretch = &list->stretches[i];

		ws_put_json_comma(writer->out);
		ws_text_printf(writer->out,
			       "[%" PRId64 ",%" PRId64 ",%d,%" PRId64 ",%" PRIu64 ",%" PRId64 "]",
			       (int64_t)stretch->start - writer->zero,
			       (int64_t)stretch->end - writer->zero, (int)stretch->cause,
			       find_stretch_row(writer, stretch), stretch->pieces,
			       number_text(writer, stretch->name));
	}
	ws_text_puts(writer->out, "]");
}

static void put_cause_words(struct ws_text *out)
{
	ws_put_json_key(out, "causes");
	ws_text_puts(out, "[");
	for (unsigned cause = 0; cause < WS_CAUSES; cause++) {
		ws_put_json_comma(out);
		put_quoted(out, name_cause_word(cause));
	}
	ws_text_puts(out, "]");
}

void ws_put_page_path(const struct ws_analysis *analysis, const struct ws_lanes *lanes,
		      const struct ws_page_stretch *stretch, struct ws_text *out)
{
	struct path_writer writer = {
		.analysis = analysis, .out = out, .zero = (int64_t)lanes->zero};
	uint64_t from = ws_max(stretch->from, analysis->model->from),
		 to = ws_max(ws_min(stretch->to, analysis->model->to), from),
		 least = ws_max(stretch->least_ns, (to - from) / MOST_STRETCHES);
	struct ws_stretches list;

	ws_row_finder_open(lanes, &writer.rows);
	ws_text_puts(&writer.names, "[");
	ws_stretches_list(analysis, from, to, least, &list);
	put_window(analysis->model, lanes, out);
	put_cause_words(out);
	put_pieces(&writer, &list);
	ws_put_json_key(out, "texts");
	ws_text_add(out, writer.names.text, writer.names.len);
	ws_text_puts(out, "]");
	ws_stretches_free(&list);
	ws_text_free(&writer.names);
	ws_map_free(&writer.texts);
	ws_row_finder_close(&writer.rows);
}

/* ---- where the time of a stretch went ---- */

/* The pieces of the path within a stretch, cut to it. */
static void cut_path(const struct ws_path *path, uint64_t from, uint64_t to, struct ws_path *part)
{
	memset(part, 0, sizeof(*part));
	for (size_t i = ws_path_find(path, from); i < path->count && path->pieces[i].start < to;
	     i++) {
		struct ws_piece piece = path->pieces[i];

		piece.start = ws_max(piece.start, from);
		piece.end = ws_min(piece.end, to);
		ws_grow(part->pieces, part->cap, part->count + 1);
		part->pieces[part->count++] = piece;
	}
}

static void put_by_cause(const struct ws_breakdown *breakdown, const char *key, struct ws_text *out)
{
	ws_put_json_key(out, key);
	ws_text_puts(out, "[");
	for (unsigned cause = 0; cause < WS_CAUSES; cause++) {
		if (!breakdown->by_cause[cause])
			continue;
		ws_put_json_comma(out);
		ws_text_printf(out, "[\"%s\",%" PRIu64 "]", name_cause_word(cause),
			       breakdown->by_cause[cause]);
	}
	ws_text_puts(out, "]");
}

static void put_row(const struct path_writer *writer, const struct ws_breakdown_row *row)
{
	uint32_t lane = find_path_row(&writer->rows, writer->analysis, row->longest.start,
				      row->longest.end);
	struct ws_text what = {0};

	ws_breakdown_put_row(writer->analysis->model, row, &what);
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "cause", name_cause_word(row->cause));
	ws_put_json_string(writer->out, "what", ws_text_or(what.text, ""));
	ws_put_json_int(writer->out, "ns", (int64_t)row->ns);
	ws_put_json_int(writer->out, "pieces", (int64_t)row->pieces);
	ws_put_json_int(writer->out, "start", (int64_t)row->longest.start - writer->zero);
	ws_put_json_int(writer->out, "end", (int64_t)row->longest.end - writer->zero);
	if (lane != WS_NO_ROW)
		ws_put_json_int(writer->out, "lane", lane);
	ws_text_puts(writer->out, "}");
	ws_text_free(&what);
}

/* The rows with most time; the rest as one number, so that they add up. */
static void put_rows(const struct path_writer *writer, const struct ws_breakdown *breakdown)
{
	uint64_t rest = breakdown->total;

	ws_put_json_key(writer->out, "rows");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < breakdown->count && i < MOST_ROWS; i++) {
		put_row(writer, &breakdown->rows[i]);
		rest -= breakdown->rows[i].ns;
	}
	ws_text_puts(writer->out, "]");
	ws_put_json_int(writer->out, "rest", (int64_t)rest);
}

static void put_budget(const struct path_writer *writer, size_t gpu,
		       const struct ws_gpu_budget *budget)
{
	struct ws_text name = {0};

	ws_analysis_put_gpu(writer->analysis, gpu, &name);
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "name", name.text);
	ws_put_json_int(writer->out, "compute", (int64_t)budget->compute);
	ws_put_json_int(writer->out, "overlapped", (int64_t)budget->overlapped);
	ws_put_json_int(writer->out, "communicate", (int64_t)budget->exposed_comm);
	ws_put_json_int(writer->out, "copy", (int64_t)budget->exposed_copies);
	put_by_cause(&budget->idle, "idle", writer->out);
	ws_text_puts(writer->out, "}");
	ws_text_free(&name);
}

static void put_breakdown(const struct path_writer *writer, const struct ws_breakdown *breakdown)
{
	ws_put_json_int(writer->out, "total", (int64_t)breakdown->total);
	put_by_cause(breakdown, "by_cause", writer->out);
	put_rows(writer, breakdown);
	ws_put_json_key(writer->out, "gpus");
	ws_text_puts(writer->out, "[");
}

/* The whole window that rules were given. */
static void put_whole_times(const struct path_writer *writer)
{
	const struct ws_analysis *analysis = writer->analysis;

	put_breakdown(writer, &analysis->breakdown);
	for (size_t gpu = 0; gpu < analysis->model->work.gpus; gpu++)
		put_budget(writer, gpu, &analysis->gpus[gpu]);
}

static void put_part_times(const struct path_writer *writer, uint64_t from, uint64_t to)
{
	const struct ws_analysis *analysis = writer->analysis;
	struct ws_breakdown breakdown;
	struct ws_path part;

	cut_path(&analysis->path, from, to, &part);
	ws_breakdown_sum(analysis->model, &part, NULL, &breakdown);
	put_breakdown(writer, &breakdown);
	for (size_t gpu = 0; gpu < analysis->model->work.gpus && to > from; gpu++) {
		struct ws_gpu_budget budget;

		ws_analysis_measure_gpu(analysis, gpu, from, to, &budget);
		put_budget(writer, gpu, &budget);
		ws_breakdown_free(&budget.idle);
	}
	ws_breakdown_free(&breakdown);
	ws_path_free(&part);
}

void ws_put_page_times(const struct ws_analysis *analysis, const struct ws_lanes *lanes,
		       const struct ws_page_stretch *stretch, struct ws_text *out)
{
	const struct ws_model *model = analysis->model;
	struct path_writer writer = {
		.analysis = analysis, .out = out, .zero = (int64_t)lanes->zero};
	uint64_t from = ws_max(stretch->from, model->from), to = ws_min(stretch->to, model->to);

	to = ws_max(to, from);
	ws_row_finder_open(lanes, &writer.rows);
	ws_put_json_key(out, "spent");
	ws_text_puts(out, "{");
	ws_put_json_int(out, "from", (int64_t)from - writer.zero);
	ws_put_json_int(out, "to", (int64_t)to - writer.zero);
	if (from == model->from && to == model->to)
		put_whole_times(&writer);
	else
		put_part_times(&writer, from, to);
	ws_text_puts(out, "]}");
	ws_row_finder_close(&writer.rows);
}
