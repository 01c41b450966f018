/*
 * html.c - one HTML file with the page and the events of a window in it, to mail or to keep with a
 * build.
 *
 * Style and script stand in the file; a content security policy names their digests, so that
 * nothing else runs and nothing is loaded. What the server would answer at first (session, rows) is
 * there as it is; events are there by lane and level as arrays in base64, from which the page
 * answers the rest itself (viewer/src/static.ts says how they lie).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "export/export.h"
#include "base/choose.h"
#include "text/text.h"
#include "export/html_detail.h"
#include "lanes/row_tree.h"
#include "lanes/tile.h"
#include "page/page.h"

enum { MOST_EVENTS = 500000, MOST_DETAILED = 100000, MOST_NAME = 2000 };

struct page {
	const char *path;
	struct ws_lanes *lanes_l;
	int64_t t0, t1;
	FILE *file;
	struct ws_text events; /* bytes, before base64 */
	struct ws_text lanes;  /* JSON */
	struct ws_map names;
	struct ws_page_rows rows[WS_PAGE_SOURCES];
	struct ws_page_states states;
	uint64_t n;
};

static const struct ws_asset *asset(const char *name)
{
	for (const struct ws_asset *asset_a = ws_assets; asset_a->bytes; asset_a++)
		if (!strcmp(asset_a->name, name))
			return asset_a;
	return NULL;
}

/* JSON inside of a script element: only '<' could end that. */
static void put_json(FILE *file, const struct ws_text *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->text[i] == '<')
			fputs("\\u003c", file);
		else
			putc(text->text[i], file);
}

static void put_base64(FILE *file, const struct ws_text *text)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *bytes = (const uint8_t *)text->text;

	for (size_t i = 0; i < text->len; i += 3) {
		size_t n = text->len - i < 3 ? text->len - i : 3;
		uint32_t v = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
			     (n > 2 ? bytes[i + 2] : 0);

		putc(digit[v >> 18], file);
		putc(digit[v >> 12 & 63], file);
		putc(n > 1 ? digit[v >> 6 & 63] : '=', file);
		putc(n > 2 ? digit[v & 63] : '=', file);
	}
}

/* ---- events ---- */

static void put_double(struct ws_text *text, double v)
{
	ws_text_add(text, &v, 8);
}

static void pad(struct ws_text *text, size_t from)
{
	ws_text_add(text, "\0\0\0\0\0\0\0", (8 - (text->len - from) % 8) % 8);
}

/* Its number among the states. */
static uint32_t add_state(struct page *page, const struct ws_lane *lane,
			  const struct ws_level *level, uint32_t i)
{
	struct ws_page_states *states = &page->states;

	ws_grow(states->page_states, states->cap, states->n + 1);
	states->source = level->src[i] & WS_EVENT_SOURCE;
	states->page_states[states->n] = (struct ws_page_state){.thread = lane->key[0],
								.ref = level->ref[i],
								.start = level->start[i],
								.end = ws_level_end(level, i)};
	return (uint32_t)states->n++;
}

static void add_columns(struct page *page, const struct ws_lane *lane, const struct ws_level *level,
			uint32_t from, uint32_t to)
{
	struct ws_text *text = &page->events;
	size_t begin;

	for (uint32_t i = from; i < to; i++)
		put_double(text, (double)(int64_t)(level->start[i] - page->lanes_l->zero));
	for (uint32_t i = from; i < to; i++)
		put_double(text, level->value ? level->value[i] : (double)ws_level_dur(level, i));
	if (level->value)
		return;
	begin = text->len;
	for (uint32_t i = from; i < to; i++) {
		ws_text_add(text, &level->name[i], 4);
		ws_map_set(&page->names, level->name[i], 1);
	}
	for (uint32_t i = from; i < to; i++) {
		struct ws_page_rows *rows = &page->rows[level->src[i] & WS_EVENT_SOURCE];

		uint32_t number = lane->kind == WS_LANE_STATE ? add_state(page, lane, level, i)
							      : level->ref[i];

		ws_text_add(text, &number, 4);
		if (lane->kind == WS_LANE_STATE)
			continue;
		ws_grow(rows->row, rows->cap, rows->n + 1);
		rows->row[rows->n++] = level->ref[i];
	}
	ws_text_add(text, level->src + from, to - from);
	ws_text_add(text, level->paint + from, to - from);
	for (uint32_t i = from; i < to; i++) {
		uint8_t color = ws_tile_color(page->lanes_l, level, i);

		ws_text_add(text, &color, 1);
	}
	pad(text, begin);
}

static int add_lane(struct page *page, uint32_t number, struct ws_err *err)
{
	const struct ws_lane *lane = page->lanes_l->lane[number];
	uint32_t from, to;

	ws_put_comma(&page->lanes);
	ws_text_puts(&page->lanes, "{");
	ws_put_int(&page->lanes, "lane", number);
	ws_put_string(&page->lanes, "kind", ws_lane_descs[lane->kind].name);
	ws_put_int(&page->lanes, "counter", ws_lane_descs[lane->kind].counter);
	ws_put_key(&page->lanes, "levels");
	ws_text_puts(&page->lanes, "[");
	for (uint32_t k = 0; k < lane->levels; k++) {
		ws_level_range(&lane->level[k], page->t0, page->t1, &from, &to);
		page->n += to - from;
		if (page->n > MOST_EVENTS)
			return ws_fail(err,
				       "more than %d events are too many for one page; choose a "
				       "shorter time by --times",
				       MOST_EVENTS);
		ws_put_comma(&page->lanes);
		ws_text_printf(&page->lanes, "%" PRIu32, to - from);
		add_columns(page, lane, &lane->level[k], from, to);
	}
	ws_text_puts(&page->lanes, "]}");
	return 0;
}

static int add_lanes(struct page *page, struct ws_err *err)
{
	ws_text_puts(&page->lanes, "[");
	for (uint32_t i = 0; i < page->lanes_l->n; i++)
		if (add_lane(page, i, err))
			return -1;
	ws_text_puts(&page->lanes, "]");
	return 0;
}

static void put_names(struct page *page, struct ws_text *text)
{
	ws_put_key(text, "names");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < page->names.size; i++) {
		size_t n;
		const char *word;

		if (!page->names.used[i])
			continue;
		word = ws_lane_name(page->lanes_l, (uint32_t)page->names.slots[i].key, &n);
		ws_put_comma(text);
		ws_text_printf(text, "[%" PRIu64 ",", page->names.slots[i].key);
		ws_text_json(text, word, ws_min(n, MOST_NAME));
		ws_text_puts(text, "]");
	}
	ws_text_puts(text, "]");
}

static void put_palette(const struct page *page, struct ws_text *text)
{
	ws_put_key(text, "palette");
	ws_text_puts(text, "[");
	for (uint32_t i = 0; i < page->lanes_l->palette_n; i++) {
		ws_put_comma(text);
		ws_text_printf(text, "%" PRIu32, page->lanes_l->palette[i]);
	}
	ws_text_puts(text, "]");
}

/* ---- the file ---- */

/* What the server answers to "session" when this is its only report. */
static void put_session(const struct page *page, struct ws_text *text)
{
	struct ws_shown_report shown = {page->path, page->lanes_l,
					ws_lanes_realtime(page->lanes_l->report,
							  page->lanes_l->zero)};

	ws_put_key(text, "session");
	ws_text_puts(text, "{");
	ws_put_string(text, "version", WS_VERSION);
	ws_put_key(text, "reports");
	ws_text_puts(text, "[");
	ws_put_report_facts(text, &shown, 0);
	ws_text_puts(text, "]");
	ws_put_int(text, "record", 0);
	ws_text_puts(text, "}");
}

static void put_details(struct page *page, struct ws_text *text)
{
	size_t n = ws_page_rows_unify(page->rows) + page->states.n;

	if (n <= MOST_DETAILED) {
		ws_page_put_details(text, page->lanes_l, page->rows, &page->states);
		return;
	}
	ws_say("the page's %zu events have names and times only: up to %d carry their columns and "
	       "stacks; choose a shorter time by "
	       "--times "
	       "for these",
	       n, MOST_DETAILED);
}

static void put_asset(FILE *file, const char *name)
{
	const struct ws_asset *asset_a = asset(name);

	fwrite(asset_a->bytes, 1, asset_a->size, file);
}

static void put_page(struct page *page)
{
	struct ws_text text = {0};

	fprintf(page->file,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
		"http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; "
		"form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, "
		"initial-scale=1\">\n<title>warpsight</title>\n<style>",
		asset("app.js")->sha256, asset("app.css")->sha256);
	put_asset(page->file, "app.css");
	fputs("</style>\n</head>\n<body>\n<noscript>This page needs JavaScript.</noscript>\n<div "
	      "id=\"app\"></div>\n"
	      "<script type=\"application/json\" id=\"warpsight-data\">",
	      page->file);
	ws_text_puts(&text, "{");
	put_session(page, &text);
	ws_put_key(&text, "tree");
	ws_put_row_tree(&text, page->lanes_l);
	ws_put_key(&text, "window");
	ws_text_printf(&text, "[%" PRId64 ",%" PRId64 "]", page->t0 - (int64_t)page->lanes_l->zero,
		       page->t1 - (int64_t)page->lanes_l->zero);
	ws_put_key(&text, "lanes");
	ws_text_add(&text, page->lanes.text, page->lanes.len);
	put_names(page, &text);
	put_palette(page, &text);
	put_details(page, &text);
	ws_text_puts(&text, "}");
	put_json(page->file, &text);
	ws_text_free(&text);
	fputs("</script>\n<script type=\"text/plain\" id=\"warpsight-events\">", page->file);
	put_base64(page->file, &page->events);
	fputs("</script>\n<script>", page->file);
	put_asset(page->file, "app.js");
	fputs("</script>\n</body>\n</html>\n", page->file);
}

/* The one range of --times, or the whole report. */
static int set_window(struct page *page, const struct ws_export *export, struct ws_err *err)
{
	int64_t zero = (int64_t)page->lanes_l->zero, from = 0,
		to = (int64_t)page->lanes_l->last + 1 - zero;

	if (export->span_count > 1)
		return ws_fail(err, "--times: the type %s takes one range, but %zu are given",
			       export->type, export->span_count);
	if (export->span_count) {
		from = ws_max(export->spans[0].from, from);
		to = ws_min(export->spans[0].to, to);
	}
	page->t0 = zero + from;
	page->t1 = zero + (ws_max(to, from));
	return 0;
}

int ws_xformat_write_html(struct ws_export *export, FILE *file, struct ws_err *err)
{
	const char *path = ws_report_path(export->report);
	struct ws_lanes_opts all = WS_LANES_ALL_EVENTS; /* in the blocks that the stretch touches */
	struct page page = {.file = file, .path = path};
	struct ws_report *report;
	int rc;

	if (!ws_assets[0].bytes)
		return ws_fail(err,
			       "this warpsight was built without its page: esbuild was missing");
	if (export->span_count == 1) {
		uint64_t zero = ws_time_zero(export->report);

		all.from = export->spans[0].from > 0 || zero > (uint64_t) - export->spans[0].from
				   ? zero + (uint64_t) export->spans[0].from
				   : 0;
		all.to = zero + (uint64_t)(ws_max(export->spans[0].to, 0));
	}
	report = ws_report_open(path, err); /* its own, which reads only what the stretch needs */
	if (!report)
		return -1;
	page.lanes_l = ws_lanes_open(report, &all);
	ws_lanes_wait(page.lanes_l);
	rc = set_window(&page, export, err);
	if (!rc)
		rc = add_lanes(&page, err);
	if (!rc)
		put_page(&page);
	export->rows = page.n;
	ws_lanes_close(page.lanes_l);
	ws_report_close(report);
	ws_text_free(&page.events);
	ws_text_free(&page.lanes);
	ws_map_free(&page.names);
	for (int i = 0; i < WS_PAGE_SOURCES; i++)
		free(page.rows[i].row);
	free(page.states.page_states);
	return rc;
}
