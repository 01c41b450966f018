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
#include "text/text.h"
#include "export/html_detail.h"
#include "lanes/row_tree.h"
#include "lanes/tile.h"
#include "page/page.h"

enum { MOST_EVENTS = 500000, MOST_DETAILED = 100000, MOST_NAME = 2000 };

struct page {
	const char *path;
	struct ws_lanes *l;
	int64_t t0, t1;
	FILE *f;
	struct ws_text events; /* bytes, before base64 */
	struct ws_text lanes;  /* JSON */
	struct ws_map names;
	struct ws_page_rows rows[WS_PAGE_SOURCES];
	struct ws_page_states states;
	uint64_t n;
};

static const struct ws_asset *asset(const char *name)
{
	for (const struct ws_asset *a = ws_assets; a->bytes; a++)
		if (!strcmp(a->name, name))
			return a;
	return NULL;
}

/* JSON inside of a script element: only '<' could end that. */
static void put_json(FILE *f, const struct ws_text *t)
{
	for (size_t i = 0; i < t->len; i++)
		if (t->s[i] == '<')
			fputs("\\u003c", f);
		else
			putc(t->s[i], f);
}

static void put_base64(FILE *f, const struct ws_text *t)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = (const uint8_t *)t->s;

	for (size_t i = 0; i < t->len; i += 3) {
		size_t n = t->len - i < 3 ? t->len - i : 3;
		uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			     (n > 2 ? p[i + 2] : 0);

		putc(digit[v >> 18], f);
		putc(digit[v >> 12 & 63], f);
		putc(n > 1 ? digit[v >> 6 & 63] : '=', f);
		putc(n > 2 ? digit[v & 63] : '=', f);
	}
}

/* ---- events ---- */

static void put_double(struct ws_text *t, double v)
{
	ws_text_add(t, &v, 8);
}

static void pad(struct ws_text *t, size_t from)
{
	ws_text_add(t, "\0\0\0\0\0\0\0", (8 - (t->len - from) % 8) % 8);
}

/* Its number among the states. */
static uint32_t add_state(struct page *p, const struct ws_lane *lane, const struct ws_level *v,
			  uint32_t i)
{
	struct ws_page_states *s = &p->states;

	ws_grow(s->v, s->cap, s->n + 1);
	s->source = v->src[i] & WS_EVENT_SOURCE;
	s->v[s->n] = (struct ws_page_state){.thread = lane->key[0],
					    .ref = v->ref[i],
					    .start = v->start[i],
					    .end = ws_level_end(v, i)};
	return (uint32_t)s->n++;
}

static void add_columns(struct page *p, const struct ws_lane *lane, const struct ws_level *v,
			uint32_t from, uint32_t to)
{
	struct ws_text *t = &p->events;
	size_t begin;

	for (uint32_t i = from; i < to; i++)
		put_double(t, (double)(int64_t)(v->start[i] - p->l->zero));
	for (uint32_t i = from; i < to; i++)
		put_double(t, v->value ? v->value[i] : (double)ws_level_dur(v, i));
	if (v->value)
		return;
	begin = t->len;
	for (uint32_t i = from; i < to; i++) {
		ws_text_add(t, &v->name[i], 4);
		ws_map_set(&p->names, v->name[i], 1);
	}
	for (uint32_t i = from; i < to; i++) {
		struct ws_page_rows *r = &p->rows[v->src[i] & WS_EVENT_SOURCE];

		uint32_t number =
			lane->kind == WS_LANE_STATE ? add_state(p, lane, v, i) : v->ref[i];

		ws_text_add(t, &number, 4);
		if (lane->kind == WS_LANE_STATE)
			continue;
		ws_grow(r->row, r->cap, r->n + 1);
		r->row[r->n++] = v->ref[i];
	}
	ws_text_add(t, v->src + from, to - from);
	ws_text_add(t, v->paint + from, to - from);
	for (uint32_t i = from; i < to; i++) {
		uint8_t color = ws_tile_color(p->l, v, i);

		ws_text_add(t, &color, 1);
	}
	pad(t, begin);
}

static int add_lane(struct page *p, uint32_t number, struct ws_err *e)
{
	const struct ws_lane *lane = p->l->lane[number];
	uint32_t from, to;

	ws_put_comma(&p->lanes);
	ws_text_puts(&p->lanes, "{");
	ws_put_int(&p->lanes, "lane", number);
	ws_put_string(&p->lanes, "kind", ws_lane_descs[lane->kind].name);
	ws_put_int(&p->lanes, "counter", ws_lane_descs[lane->kind].counter);
	ws_put_key(&p->lanes, "levels");
	ws_text_puts(&p->lanes, "[");
	for (uint32_t k = 0; k < lane->levels; k++) {
		ws_level_range(&lane->level[k], p->t0, p->t1, &from, &to);
		p->n += to - from;
		if (p->n > MOST_EVENTS)
			return ws_fail(e,
				       "more than %d events are too many for one page; choose a "
				       "shorter time by --times",
				       MOST_EVENTS);
		ws_put_comma(&p->lanes);
		ws_text_printf(&p->lanes, "%" PRIu32, to - from);
		add_columns(p, lane, &lane->level[k], from, to);
	}
	ws_text_puts(&p->lanes, "]}");
	return 0;
}

static int add_lanes(struct page *p, struct ws_err *e)
{
	ws_text_puts(&p->lanes, "[");
	for (uint32_t i = 0; i < p->l->n; i++)
		if (add_lane(p, i, e))
			return -1;
	ws_text_puts(&p->lanes, "]");
	return 0;
}

static void put_names(struct page *p, struct ws_text *t)
{
	ws_put_key(t, "names");
	ws_text_puts(t, "[");
	for (size_t i = 0; i < p->names.size; i++) {
		size_t n;
		const char *s;

		if (!p->names.used[i])
			continue;
		s = ws_lane_name(p->l, (uint32_t)p->names.slots[i].key, &n);
		ws_put_comma(t);
		ws_text_printf(t, "[%" PRIu64 ",", p->names.slots[i].key);
		ws_text_json(t, s, n < MOST_NAME ? n : MOST_NAME);
		ws_text_puts(t, "]");
	}
	ws_text_puts(t, "]");
}

static void put_palette(const struct page *p, struct ws_text *t)
{
	ws_put_key(t, "palette");
	ws_text_puts(t, "[");
	for (uint32_t i = 0; i < p->l->palette_n; i++) {
		ws_put_comma(t);
		ws_text_printf(t, "%" PRIu32, p->l->palette[i]);
	}
	ws_text_puts(t, "]");
}

/* ---- the file ---- */

/* What the server answers to "session" when this is its only report. */
static void put_session(const struct page *p, struct ws_text *t)
{
	struct ws_shown_report shown = {p->path, p->l, ws_lanes_realtime(p->l->r, p->l->zero)};

	ws_put_key(t, "session");
	ws_text_puts(t, "{");
	ws_put_string(t, "version", WS_VERSION);
	ws_put_key(t, "reports");
	ws_text_puts(t, "[");
	ws_put_report_facts(t, &shown, 0);
	ws_text_puts(t, "]");
	ws_put_int(t, "record", 0);
	ws_text_puts(t, "}");
}

static void put_details(struct page *p, struct ws_text *t)
{
	size_t n = ws_page_rows_unify(p->rows) + p->states.n;

	if (n <= MOST_DETAILED) {
		ws_page_put_details(t, p->l, p->rows, &p->states);
		return;
	}
	ws_say("the page's %zu events have names and times only: up to %d carry their columns and "
	       "stacks; choose a shorter time by "
	       "--times "
	       "for these",
	       n, MOST_DETAILED);
}

static void put_asset(FILE *f, const char *name)
{
	const struct ws_asset *a = asset(name);

	fwrite(a->bytes, 1, a->size, f);
}

static void put_page(struct page *p)
{
	struct ws_text t = {0};

	fprintf(p->f,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
		"http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; "
		"form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, "
		"initial-scale=1\">\n<title>warpsight</title>\n<style>",
		asset("app.js")->sha256, asset("app.css")->sha256);
	put_asset(p->f, "app.css");
	fputs("</style>\n</head>\n<body>\n<noscript>This page needs JavaScript.</noscript>\n<div "
	      "id=\"app\"></div>\n"
	      "<script type=\"application/json\" id=\"warpsight-data\">",
	      p->f);
	ws_text_puts(&t, "{");
	put_session(p, &t);
	ws_put_key(&t, "tree");
	ws_put_row_tree(&t, p->l);
	ws_put_key(&t, "window");
	ws_text_printf(&t, "[%" PRId64 ",%" PRId64 "]", p->t0 - (int64_t)p->l->zero,
		       p->t1 - (int64_t)p->l->zero);
	ws_put_key(&t, "lanes");
	ws_text_add(&t, p->lanes.s, p->lanes.len);
	put_names(p, &t);
	put_palette(p, &t);
	put_details(p, &t);
	ws_text_puts(&t, "}");
	put_json(p->f, &t);
	ws_text_free(&t);
	fputs("</script>\n<script type=\"text/plain\" id=\"warpsight-events\">", p->f);
	put_base64(p->f, &p->events);
	fputs("</script>\n<script>", p->f);
	put_asset(p->f, "app.js");
	fputs("</script>\n</body>\n</html>\n", p->f);
}

/* The one range of --times, or the whole report. */
static int set_window(struct page *p, const struct ws_export *x, struct ws_err *e)
{
	int64_t zero = (int64_t)p->l->zero, from = 0, to = (int64_t)p->l->last + 1 - zero;

	if (x->span_count > 1)
		return ws_fail(e, "--times: the type %s takes one range, but %zu are given",
			       x->type, x->span_count);
	if (x->span_count) {
		from = x->spans[0].from > from ? x->spans[0].from : from;
		to = x->spans[0].to < to ? x->spans[0].to : to;
	}
	p->t0 = zero + from;
	p->t1 = zero + (to > from ? to : from);
	return 0;
}

int ws_xformat_write_html(struct ws_export *x, FILE *f, struct ws_err *e)
{
	const char *path = ws_report_path(x->r);
	struct ws_lanes_opts all = WS_LANES_ALL_EVENTS; /* in the blocks that the stretch touches */
	struct page p = {.f = f, .path = path};
	struct ws_report *r;
	int rc;

	if (!ws_assets[0].bytes)
		return ws_fail(e, "this warpsight was built without its page: esbuild was missing");
	if (x->span_count == 1) {
		uint64_t zero = ws_time_zero(x->r);

		all.from = x->spans[0].from > 0 || zero > (uint64_t)-x->spans[0].from
				   ? zero + (uint64_t)x->spans[0].from
				   : 0;
		all.to = zero + (uint64_t)(x->spans[0].to > 0 ? x->spans[0].to : 0);
	}
	r = ws_report_open(path, e); /* its own, which reads only what the stretch needs */
	if (!r)
		return -1;
	p.l = ws_lanes_open(r, &all);
	ws_lanes_wait(p.l);
	rc = set_window(&p, x, e);
	if (!rc)
		rc = add_lanes(&p, e);
	if (!rc)
		put_page(&p);
	x->rows = p.n;
	ws_lanes_close(p.l);
	ws_report_close(r);
	ws_text_free(&p.events);
	ws_text_free(&p.lanes);
	ws_map_free(&p.names);
	for (int i = 0; i < WS_PAGE_SOURCES; i++)
		free(p.rows[i].row);
	free(p.states.v);
	return rc;
}
