/*
 * html.c - one HTML file with the page and the events of a time range, to mail or to keep with a
 * build.
 *
 * Style and script are part of the file; a content security policy names their digests, so that
 * nothing else runs and nothing is loaded. The server's first answers (session, rows) are included
 * unchanged. Events are stored by lane and level, as arrays in base64, from which the page answers
 * all other requests itself (viewer/src/static.ts describes their layout). Findings and the
 * critical path of the range are computed here, because the page has no code for that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analyze/page_json.h"
#include "export/export.h"
#include "base/choose.h"
#include "text/text.h"
#include "export/html_detail.h"
#include "kernel/page_json.h"
#include "lanes/row_tree.h"
#include "lanes/tile.h"
#include "page/page.h"

enum { PATH_PIECES = 8000 }; /* a few hundred KiB at most */
enum { MOST_EVENTS = 500000, MOST_DETAILED = 100000, MOST_NAME = 2000 };
enum { MOST_KERNELS = 200 }; /* measured ones with their sections, some 60 KiB each */

struct html_page {
	const char *path;
	struct ws_lanes *lanes;
	int64_t start, end;
	FILE *file;
	struct ws_text events;	   /* bytes, before base64 */
	struct ws_text lanes_json; /* JSON */
	struct ws_map names;
	struct ws_page_rows rows[WS_PAGE_SOURCES];
	struct ws_page_states states;
	uint64_t event_count;
};

static const struct ws_asset *find_asset(const char *name)
{
	for (const struct ws_asset *asset = ws_assets; asset->bytes; asset++)
		if (!strcmp(asset->name, name))
			return asset;
	return NULL;
}

/* Write JSON inside a script element, which only '<' could end. */
static void put_script_json(FILE *file, const struct ws_text *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->text[i] == '<')
			fputs("\\u003c", file);
		else
			putc(text->text[i], file);
}

static void put_base64(FILE *file, const struct ws_text *text)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < text->len; i += 3) {
		uint8_t bytes[3] = {0};
		char out[4];
		size_t count = ws_min(text->len - i, sizeof(bytes));
		uint32_t bits;

		memcpy(bytes, text->text + i, count);
		bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
		for (size_t k = 0; k < sizeof(out); k++)
			out[k] = digits[bits >> (18 - 6 * k) & 63];
		memset(out + count + 1, '=', sizeof(bytes) - count);
		fwrite(out, 1, sizeof(out), file);
	}
}

/* ---- events ---- */

static void put_double(struct ws_text *text, double number)
{
	ws_text_add(text, &number, 8);
}

static void pad_to_words(struct ws_text *text, size_t from)
{
	ws_text_add(text, "\0\0\0\0\0\0\0", (8 - (text->len - from) % 8) % 8);
}

/* Add the event to the states; returns its number there. */
static uint32_t add_state(struct html_page *page, const struct ws_lane *lane,
			  const struct ws_level *level, uint32_t i)
{
	struct ws_page_states *states = &page->states;

	ws_grow(states->states, states->capacity, states->count + 1);
	states->source = level->src[i] & WS_EVENT_SOURCE;
	states->states[states->count] = (struct ws_page_state){.thread = lane->key[0],
							       .ref = level->ref[i],
							       .start = level->start[i],
							       .end = ws_level_end(level, i)};
	return (uint32_t)states->count++;
}

/* The times of events, and their values (of counters) or durations. */
static void add_event_times(struct html_page *page, const struct ws_level *level, uint32_t from,
			    uint32_t to)
{
	struct ws_text *text = &page->events;

	for (uint32_t i = from; i < to; i++)
		put_double(text, (double)(int64_t)(level->start[i] - page->lanes->zero));
	for (uint32_t i = from; i < to; i++) {
		if (level->value)
			put_double(text, level->value[i]);
		else
			put_double(text, (double)ws_level_dur(level, i));
	}
}

/* The number by which the page asks for the event's details: its row, or its number among states.
 */
static uint32_t add_event_reference(struct html_page *page, const struct ws_lane *lane,
				    const struct ws_level *level, uint32_t i)
{
	struct ws_page_rows *rows = &page->rows[level->src[i] & WS_EVENT_SOURCE];

	if (lane->kind == WS_LANE_STATE)
		return add_state(page, lane, level, i);
	ws_grow(rows->rows, rows->capacity, rows->count + 1);
	rows->rows[rows->count++] = level->ref[i];
	return level->ref[i];
}

static void add_event_columns(struct html_page *page, const struct ws_lane *lane,
			      const struct ws_level *level, uint32_t from, uint32_t to)
{
	struct ws_text *text = &page->events;
	size_t begin;

	add_event_times(page, level, from, to);
	if (level->value)
		return;
	begin = text->len;
	for (uint32_t i = from; i < to; i++) {
		ws_text_add(text, &level->name[i], 4);
		ws_map_set(&page->names, level->name[i], 1);
	}
	for (uint32_t i = from; i < to; i++) {
		uint32_t number = add_event_reference(page, lane, level, i);

		ws_text_add(text, &number, 4);
	}
	ws_text_add(text, level->src + from, to - from);
	ws_text_add(text, level->paint + from, to - from);
	for (uint32_t i = from; i < to; i++) {
		uint8_t color = ws_choose_event_color(page->lanes, level, i);

		ws_text_add(text, &color, 1);
	}
	pad_to_words(text, begin);
}

static int add_lane(struct html_page *page, uint32_t number, struct ws_err *err)
{
	const struct ws_lane *lane = page->lanes->lane[number];
	uint32_t from, to;

	ws_put_json_comma(&page->lanes_json);
	ws_text_puts(&page->lanes_json, "{");
	ws_put_json_int(&page->lanes_json, "lane", number);
	ws_put_json_string(&page->lanes_json, "kind", ws_lane_descs[lane->kind].name);
	ws_put_json_int(&page->lanes_json, "counter", ws_lane_descs[lane->kind].counter);
	ws_put_json_key(&page->lanes_json, "levels");
	ws_text_puts(&page->lanes_json, "[");
	for (uint32_t depth = 0; depth < lane->levels; depth++) {
		ws_level_range(&lane->level[depth], page->start, page->end, &from, &to);
		page->event_count += to - from;
		if (page->event_count > MOST_EVENTS)
			return ws_fail(err,
				       "more than %d events are too many for one page; choose a "
				       "shorter time by --times",
				       MOST_EVENTS);
		ws_put_json_comma(&page->lanes_json);
		ws_text_printf(&page->lanes_json, "%" PRIu32, to - from);
		add_event_columns(page, lane, &lane->level[depth], from, to);
	}
	ws_text_puts(&page->lanes_json, "]}");
	return 0;
}

static int add_lanes(struct html_page *page, struct ws_err *err)
{
	ws_text_puts(&page->lanes_json, "[");
	for (uint32_t i = 0; i < page->lanes->n; i++)
		if (add_lane(page, i, err))
			return -1;
	ws_text_puts(&page->lanes_json, "]");
	return 0;
}

/* ",form,"text"" for a name that is shown as a form. */
static void put_form(const struct html_page *page, struct ws_text *text, uint32_t name)
{
	const char *form;
	size_t length;

	if (!ws_lane_is_form(page->lanes, name))
		return;
	form = ws_lane_fold_name(page->lanes, name, &length);
	ws_text_printf(text, ",%" PRIu32 ",", ws_lane_fold_key(page->lanes, name));
	ws_put_quoted_json(text, form, ws_min(length, MOST_NAME));
}

static void put_names(struct html_page *page, struct ws_text *text)
{
	ws_put_json_key(text, "names");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < page->names.size; i++) {
		size_t length;
		const char *name;

		if (!page->names.used[i])
			continue;
		name = ws_lane_name(page->lanes, (uint32_t)page->names.slots[i].key, &length);
		ws_put_json_comma(text);
		ws_text_printf(text, "[%" PRIu64 ",", page->names.slots[i].key);
		ws_put_quoted_json(text, name, ws_min(length, MOST_NAME));
		put_form(page, text, (uint32_t)page->names.slots[i].key);
		ws_text_puts(text, "]");
	}
	ws_text_puts(text, "]");
}

static void put_palette(const struct html_page *page, struct ws_text *text)
{
	ws_put_json_key(text, "palette");
	ws_text_puts(text, "[");
	for (uint32_t i = 0; i < page->lanes->palette_n; i++) {
		ws_put_json_comma(text);
		ws_text_printf(text, "%" PRIu32, page->lanes->palette[i]);
	}
	ws_text_puts(text, "]");
}

/* ---- findings ---- */

/* The answers to "findings" and "path", for the range that the page holds. */
static void put_analysis_parts(const struct html_page *page, struct ws_analysis *analysis,
			       struct ws_text *text)
{
	struct ws_page_stretch stretch = {analysis->model->from, analysis->model->to, 0};
	struct ws_findings findings;
	struct ws_analysis_view view = {
		.analysis = analysis, .findings = &findings, .path = page->path};

	ws_findings_make(analysis, NULL, &findings);
	ws_put_json_key(text, "findings");
	ws_text_puts(text, "{");
	ws_put_json_string(text, "state", "made");
	ws_put_page_findings(&view, page->lanes, text);
	ws_text_puts(text, "}");
	ws_put_json_key(text, "path");
	ws_text_puts(text, "{");
	stretch.least_ns = analysis->window / PATH_PIECES;
	ws_put_page_path(analysis, page->lanes, &stretch, text);
	ws_put_page_times(analysis, page->lanes, &stretch, text);
	ws_text_puts(text, "}");
	ws_findings_free(&findings);
}

/* A report that cannot be analysed is shown without findings. */
static void put_analysis(const struct html_page *page, struct ws_text *text)
{
	struct ws_model_options options = {.from = (uint64_t)ws_max(page->start, INT64_C(0)),
					   .to = (uint64_t)page->end};
	struct ws_analysis *analysis;
	struct ws_err err;

	if (page->end <= page->start)
		return;
	if (ws_page_is_large(page->lanes->report)) {
		ws_say("the page has no findings: all of the report would have to be read for "
		       "them; 'warpsight analyze' does");
		return;
	}
	analysis = ws_analysis_open(page->lanes->report, &options, &err);
	if (!analysis) {
		ws_say("the page has no findings: %s", err.msg);
		return;
	}
	if (analysis->window)
		put_analysis_parts(page, analysis, text);
	ws_analysis_close(analysis);
}

/* ---- measured kernels ---- */

static void put_kernel_answers(const struct ws_kernel_view *view, struct ws_text *text)
{
	size_t count = ws_min(view->results->count, (size_t)MOST_KERNELS);

	ws_put_json_key(text, "kernels");
	ws_text_puts(text, "{");
	ws_put_kernel_summaries(text, view);
	ws_text_puts(text, "}");
	ws_put_json_key(text, "kernel");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < count; i++) {
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_kernel_details(text, view, i);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	if (count < view->results->count)
		ws_say("the page has the sections of the first %zu of %zu measured kernels; "
		       "'warpsight view' shows all",
		       count, view->results->count);
}

/* The answers to "kernels" and "kernel". */
static void put_kernels(const struct html_page *page, struct ws_text *text)
{
	struct ws_kernel_timeline timeline = {0};
	struct ws_kernel_results results;
	struct ws_kernel_view view = {&results, &timeline, 1};

	ws_kernel_results_load(page->lanes->report, &results);
	if (results.count) {
		timeline.launches = ws_calloc(results.count, sizeof(*timeline.launches));
		timeline.busy_ns =
			ws_count_kernel_launches(page->lanes->report, &results, timeline.launches);
		put_kernel_answers(&view, text);
	}
	free(timeline.launches);
	ws_kernel_results_free(&results);
}

/* ---- the file ---- */

/* The server's answer to "session" when this is its only report. */
static void put_session(const struct html_page *page, struct ws_text *text)
{
	struct ws_shown_report shown = {page->path, page->lanes,
					ws_lanes_realtime(page->lanes->report, page->lanes->zero)};

	ws_put_json_key(text, "session");
	ws_text_puts(text, "{");
	ws_put_json_string(text, "version", WS_VERSION);
	ws_put_json_key(text, "reports");
	ws_text_puts(text, "[");
	ws_put_report_facts(text, &shown, 0);
	ws_text_puts(text, "]");
	ws_put_json_int(text, "record", 0);
	ws_text_puts(text, "}");
}

static void put_details(struct html_page *page, struct ws_text *text)
{
	size_t count = ws_unify_page_rows(page->rows) + page->states.count;

	if (count <= MOST_DETAILED) {
		ws_put_page_details(text, page->lanes, page->rows, &page->states);
		return;
	}
	ws_say("the page's %zu events have names and times only: up to %d carry their columns and "
	       "stacks; choose a shorter time by "
	       "--times "
	       "for these",
	       count, MOST_DETAILED);
}

static void put_asset(FILE *file, const char *name)
{
	const struct ws_asset *asset = find_asset(name);

	fwrite(asset->bytes, 1, asset->size, file);
}

static void put_page(struct html_page *page)
{
	struct ws_text text = {0};

	fprintf(page->file,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
		"http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; "
		"form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, "
		"initial-scale=1\">\n<title>warpsight</title>\n<style>",
		find_asset("app.js")->sha256, find_asset("app.css")->sha256);
	put_asset(page->file, "app.css");
	fputs("</style>\n</head>\n<body>\n<noscript>This page needs JavaScript.</noscript>\n<div "
	      "id=\"app\"></div>\n"
	      "<script type=\"application/json\" id=\"warpsight-data\">",
	      page->file);
	ws_text_puts(&text, "{");
	put_session(page, &text);
	ws_put_json_key(&text, "tree");
	ws_put_row_tree(&text, page->lanes);
	ws_put_json_key(&text, "window");
	ws_text_printf(&text, "[%" PRId64 ",%" PRId64 "]", page->start - (int64_t)page->lanes->zero,
		       page->end - (int64_t)page->lanes->zero);
	ws_put_json_key(&text, "lanes");
	ws_text_add(&text, page->lanes_json.text, page->lanes_json.len);
	put_names(page, &text);
	put_palette(page, &text);
	put_analysis(page, &text);
	put_kernels(page, &text);
	put_details(page, &text);
	ws_text_puts(&text, "}");
	put_script_json(page->file, &text);
	ws_text_free(&text);
	fputs("</script>\n<script type=\"text/plain\" id=\"warpsight-events\">", page->file);
	put_base64(page->file, &page->events);
	fputs("</script>\n<script>", page->file);
	put_asset(page->file, "app.js");
	fputs("</script>\n</body>\n</html>\n", page->file);
}

/* The one range of --times, or the whole report. */
static int set_time_range(struct html_page *page, const struct ws_cell_context *export,
			  struct ws_err *err)
{
	int64_t zero = (int64_t)page->lanes->zero, start = 0,
		end = (int64_t)page->lanes->last + 1 - zero;

	if (export->span_count > 1)
		return ws_fail(err, "--times: the type %s takes one range, but %zu are given",
			       export->type, export->span_count);
	if (export->span_count) {
		start = ws_max(export->spans[0].from, start);
		end = ws_min(export->spans[0].to, end);
	}
	page->start = zero + start;
	page->end = zero + (ws_max(end, start));
	return 0;
}

int ws_write_format_html(struct ws_cell_context *export, FILE *file, struct ws_err *err)
{
	const char *path = ws_report_path(export->report);
	struct ws_lanes_opts options =
		WS_LANES_ALL_EVENTS; /* in the blocks that the range touches */
	struct html_page page = {.file = file, .path = path};
	struct ws_report *report;
	int rc;

	if (!ws_assets[0].bytes)
		return ws_fail(err,
			       "this warpsight was built without its page: esbuild was missing");
	if (export->span_count == 1) {
		uint64_t zero = ws_find_time_zero(export->report);

		options.from = 0;
		if (export->spans[0].from > 0 || zero > (uint64_t) - export->spans[0].from)
			options.from = zero + (uint64_t) export->spans[0].from;
		options.to = zero + (uint64_t)(ws_max(export->spans[0].to, 0));
	}
	report = ws_report_open(path,
				err); /* a separate one, which reads only what the range needs */
	if (!report)
		return -1;
	page.lanes = ws_lanes_open(report, &options);
	ws_lanes_wait(page.lanes);
	rc = set_time_range(&page, export, err);
	if (!rc)
		rc = add_lanes(&page, err);
	if (!rc)
		put_page(&page);
	export->rows = page.event_count;
	ws_lanes_close(page.lanes);
	ws_report_close(report);
	ws_text_free(&page.events);
	ws_text_free(&page.lanes_json);
	ws_map_free(&page.names);
	for (int i = 0; i < WS_PAGE_SOURCES; i++)
		free(page.rows[i].rows);
	free(page.states.states);
	return rc;
}
