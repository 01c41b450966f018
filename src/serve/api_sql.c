/*
 * api_sql.c - what is on the screen as a query: `warpsight query`, or SQLite over the export, finds
 * the same rows with it.
 *
 * Lanes are rows of tables that agree in some columns, so a query is made from the same
 * declarations as the lanes: one SELECT for each table and kind of lane, with the columns that tell
 * lanes apart as conditions. Ranges as GPUs saw them are in no table, so there is no query for
 * them; functions of samples and threads on cores are no column of theirs, so that these cannot be
 * searched by name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "serve/api.h"

struct query {
	struct ws_call *c;
	struct ws_text *t;
	const struct ws_source *s;
	int64_t t0, t1; /* of the page */
	bool windowed;
};

/* ---- tables and columns as the export calls them ---- */

static const char *table_name(const struct ws_source *s)
{
	return s->table == WS_TABLE_sched
		       ? "WARPSIGHT_SCHED" /* spans; SCHED_EVENTS has their ends apart */
		       : ws_tables[s->table].sqlite;
}

static const char *column_name(const struct ws_source *s, int column)
{
	return ws_tables[s->table].columns[column].sqlite;
}

static void put_text(struct ws_text *t, const char *s)
{
	ws_text_puts(t, "'");
	for (; *s; s++)
		ws_text_puts(t, *s == '\'' ? "''" : (char[]){*s, 0});
	ws_text_puts(t, "'");
}

/* When an event was over, as lanes have it. */
static void put_end(struct query *q)
{
	const struct ws_source *s = q->s;
	int64_t last = (int64_t)(q->c->l->last - q->c->l->zero);
	const char *start = column_name(s, s->start);

	if (s->end < 0) {
		ws_text_puts(q->t, start);
		return;
	}
	ws_text_puts(q->t, "CASE ");
	if (s->table == WS_TABLE_nvtx)
		ws_text_printf(q->t, "WHEN eventType = %d THEN start ", WS_NVTX_MARK);
	if (s->table == WS_TABLE_slice)
		ws_text_printf(q->t, "WHEN flags & %d THEN start ", WS_SLICE_INSTANT);
	ws_text_printf(q->t, "WHEN \"end\" >= start THEN \"end\" ELSE max(start, %" PRId64 ") END",
		       last);
}

/* A text is a number of StringIds where the column's name says so; of kernels it does not. */
static bool is_id(const struct ws_source *s, const char *column)
{
	size_t n = strlen(column);

	return s->table == WS_TABLE_cuda_kernel || (n > 2 && !strcmp(column + n - 2, "Id"));
}

static void put_name(struct query *q)
{
	const struct ws_source *s = q->s;
	const char *column = s->name >= 0 ? column_name(s, s->name) : "";

	if (s->table == WS_TABLE_nvtx)
		ws_text_puts(q->t, "ifnull(text, (SELECT value FROM StringIds WHERE id = textId))");
	else if (s->naming == WS_NAMED_STR && is_id(s, column))
		ws_text_printf(q->t, "(SELECT value FROM StringIds WHERE id = %s)", column);
	else if (s->naming == WS_NAMED_STR)
		ws_text_puts(q->t, column);
	else if (s->naming == WS_NAMED_ENUM && s->ours_n == 1)
		put_text(q->t, ws_own_name(s->ours));
	else if (s->naming == WS_NAMED_ENUM) {
		ws_text_printf(q->t, "CASE %s ", column);
		for (uint32_t i = 1; i < s->ours_n; i++) {
			ws_text_printf(q->t, "WHEN %" PRIu32 " THEN ", i);
			put_text(q->t, ws_own_name(s->ours + i));
			ws_text_puts(q->t, " ");
		}
		ws_text_puts(q->t, "ELSE ");
		put_text(q->t, ws_own_name(s->ours));
		ws_text_puts(q->t, " END");
	} else
		ws_text_puts(q->t, "NULL");
}

/* ---- which rows ---- */

static void put_key(struct query *q, int column, uint32_t v)
{
	enum ws_type type = ws_tables[q->s->table].columns[column].type;
	const struct ws_who *who = q->c->l->who;

	ws_text_printf(q->t, " AND %s ", column_name(q->s, column));
	if ((type == WS_T_NU32 && v == WS_NO_U32) ||
	    ((type == WS_T_THREAD || type == WS_T_NTHREAD || type == WS_T_PROCESS) && !v))
		ws_text_puts(q->t, "IS NULL");
	else if (type == WS_T_THREAD || type == WS_T_NTHREAD)
		ws_text_printf(q->t, "= %" PRIu64, (uint64_t)ws_who_thread(who, v)->global_tid);
	else if (type == WS_T_PROCESS)
		ws_text_printf(q->t, "= %" PRIu64, (uint64_t)ws_who_process(who, v)->global_pid);
	else
		ws_text_printf(q->t, "= %" PRIu32, v);
}

/* Calls of one library, or slices of none: as ws_lane_is_library tells. */
static void put_library(struct query *q, uint32_t category)
{
	struct ws_text name = {0};
	const char *s;
	size_t n;

	if (!category) {
		ws_text_puts(q->t, " AND (categoryId IS NULL OR (SELECT value NOT GLOB '*[_]*' OR "
				   "value GLOB '*[^A-Z0-9_]*' FROM StringIds WHERE "
				   "id = categoryId))");
		return;
	}
	s = ws_report_string(q->c->l->r, category, &n);
	ws_text_add(&name, s, n);
	ws_text_puts(q->t, " AND (SELECT value FROM StringIds WHERE id = categoryId) = ");
	put_text(q->t, name.s);
	ws_text_free(&name);
}

/* What census.c tells lanes apart by beyond columns. */
static void put_kind(struct query *q, const struct ws_feed *f, const struct ws_lane *lane)
{
	const char *test = f->when ? column_name(q->s, f->test) : NULL;

	if (q->s->table == WS_TABLE_nvtx && lane)
		ws_text_printf(q->t,
			       lane->key[2] ? " AND eventType = %d" : " AND eventType IN (%d, %d)",
			       lane->key[2] ? WS_NVTX_STARTEND : WS_NVTX_PUSHPOP, WS_NVTX_MARK);
	else if (q->s->table == WS_TABLE_nvtx)
		ws_text_printf(q->t, " AND eventType IN (%d, %d, %d)", WS_NVTX_PUSHPOP,
			       WS_NVTX_STARTEND, WS_NVTX_MARK);
	if (q->s->table == WS_TABLE_op && lane)
		ws_text_printf(q->t, " AND kind %s %d", lane->key[1] ? "=" : "<>", WS_OP_PYTHON);
	if (f->kind == WS_LANE_SLICE && lane)
		put_library(q, lane->key[1]);
	if (f->when == WS_FEED_ZERO || f->when == WS_FEED_NONZERO)
		ws_text_printf(q->t, " AND %s %s 0", test, f->when == WS_FEED_ZERO ? "=" : "<>");
	else if (f->when == WS_FEED_NOT_NULL)
		ws_text_printf(q->t, " AND %s IS NOT NULL", test);
}

static void put_lane(struct query *q, const struct ws_feed *f, const struct ws_lane *lane)
{
	ws_text_puts(q->t, "(1");
	put_kind(q, f, lane);
	for (uint32_t k = 0; k < f->keys; k++)
		put_key(q, f->key[k], lane->key[k]);
	ws_text_puts(q->t, ")");
}

/* One SELECT: start, duration and name of the rows of a table that are in some of these lanes. */
static void put_select(struct query *q, const struct ws_feed *f, const uint32_t *lanes, size_t n,
		       bool all)
{
	const char *start = column_name(q->s, q->s->start);
	bool first = true;

	ws_text_printf(q->t, "SELECT %s AS start, ", start);
	put_end(q);
	ws_text_puts(q->t, " AS stop, ");
	put_name(q);
	ws_text_printf(q->t, " AS name FROM %s WHERE 1", table_name(q->s));
	if (q->windowed)
		ws_text_printf(q->t, " AND %s < %" PRId64, start, q->t1);
	if (all) {
		put_kind(q, f, NULL);
		return;
	}
	ws_text_puts(q->t, " AND (");
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = q->c->l->lane[lanes[i]];

		if (lane->kind != f->kind)
			continue;
		ws_text_puts(q->t, first ? "" : " OR ");
		first = false;
		put_lane(q, f, lane);
	}
	ws_text_puts(q->t, ")");
}

/* ---- a table of events ---- */

/* Texts are found in any case, as in the page: LIKE does so for letters of ASCII. */
static void put_filter(struct query *q, const char *text, int64_t exact)
{
	struct ws_text like = {0};

	if (exact) {
		ws_text_puts(q->t, exact == 2 ? " AND substr(ifnull(name, ''), 1, length("
					      : " AND ifnull(name, '') = ");
		put_text(q->t, text ? text : "");
		if (exact == 2) {
			ws_text_puts(q->t, ")) = ");
			put_text(q->t, text ? text : "");
		}
		return;
	}
	if (!text || !*text)
		return;
	ws_text_puts(&like, "%");
	for (; *text; text++)
		ws_text_printf(&like, strchr("%_\\", *text) ? "\\%c" : "%c", *text);
	ws_text_puts(&like, "%");
	ws_text_puts(q->t, " AND name LIKE ");
	put_text(q->t, like.s);
	ws_text_puts(q->t, " ESCAPE '\\'");
	ws_text_free(&like);
}

static bool has_kind(const struct ws_lanes *l, const uint32_t *lanes, size_t n, uint8_t kind)
{
	for (size_t i = 0; i < n; i++)
		if (l->lane[lanes[i]]->kind == kind)
			return true;
	return false;
}

static int put_selects(struct query *q, const uint32_t *lanes, size_t n, bool all, bool named,
		       struct ws_err *e)
{
	const struct ws_lanes *l = q->c->l;
	bool any = false;

	if (!all && has_kind(l, lanes, n, WS_LANE_PROJECTED))
		return ws_fail(
			e, "Ranges as the GPU saw them are computed; there is no query for them.");
	if (!all && has_kind(l, lanes, n, WS_LANE_STATE))
		return ws_fail(e, "States of threads are computed from several tables; there is no "
				  "query for them.");
	for (size_t i = 0; i < ws_source_count; i++) {
		q->s = &ws_sources[i];
		for (uint32_t f = 0; f < q->s->feeds; f++) {
			if (q->s->table == WS_TABLE_output || !ws_report_rows(l->r, q->s->table) ||
			    ws_lane_descs[q->s->feed[f].kind].counter ||
			    !has_kind(l, lanes, n, q->s->feed[f].kind))
				continue;
			if (named && q->s->naming != WS_NAMED_STR &&
			    q->s->naming != WS_NAMED_ENUM) {
				if (all) /* nothing of theirs has a name that the query could
					    compare */
					continue;
				return ws_fail(e, "Names of these rows are no column of their "
						  "table: there is no query that searches them.");
			}
			ws_text_puts(q->t, any ? "\n  UNION ALL " : "  ");
			any = true;
			put_select(q, &q->s->feed[f], lanes, n, all);
		}
	}
	return any ? 0 : ws_fail(e, "These rows are in no table that can be queried.");
}

static int list_sql(struct query *q, struct ws_err *e)
{
	const char *text = ws_param(q->c, "q"), *kind = ws_param(q->c, "lanes");
	int64_t sums, exact, zero = (int64_t)q->c->l->zero;
	uint32_t *lanes;
	size_t n;
	int rc;

	if (!ws_param_int(q->c, "sums", 0, 1, 0, &sums, e) ||
	    !ws_param_int(q->c, "exact", 0, 2, 0, &exact, e) ||
	    !ws_param_window(q->c, &q->t0, &q->t1, e) ||
	    !ws_param_lanes(q->c, WS_LANES_ORIGINAL, &lanes, &n, e))
		return 400;
	q->t0 -= zero;
	q->t1 -= zero;
	q->windowed = true;
	if (sums)
		ws_text_printf(q->t,
			       "SELECT name, count(*) AS count, sum(d) AS total_ns, min(d) AS "
			       "min_ns, max(d) AS max_ns FROM (\n"
			       "SELECT name, max(0, min(stop, %" PRId64 ") - max(start, %" PRId64
			       ")) AS d FROM (\n",
			       q->t1, q->t0);
	else
		ws_text_puts(q->t, "SELECT start, stop - start AS duration, name FROM (\n");
	rc = put_selects(q, lanes, n, !kind, exact || (text && *text), e);
	ws_text_printf(q->t,
		       "\n) WHERE (stop > %" PRId64 " OR (stop = start AND start >= %" PRId64 "))",
		       q->t0, q->t0);
	put_filter(q, text, exact);
	ws_text_puts(q->t, sums ? ") GROUP BY name ORDER BY total_ns DESC" : " ORDER BY start");
	free(lanes);
	return rc ? WS_API_SAY : 0;
}

/* ---- one event ---- */

static int event_sql(struct query *q, int64_t lane_number, struct ws_err *e)
{
	const struct ws_lane *lane = q->c->l->lane[lane_number];
	int64_t level, event, zero = (int64_t)q->c->l->zero;
	const struct ws_level *v;
	const struct ws_feed *f = NULL;

	if (!ws_param_int(q->c, "level", 0, UINT32_MAX, 0, &level, e) ||
	    !ws_param_int(q->c, "event", 0, UINT32_MAX, 0, &event, e))
		return 400;
	if (!ws_lane_ready(lane) || ws_lane_descs[lane->kind].counter || level >= lane->levels ||
	    event >= lane->level[level].n) {
		ws_fail(e, "there is no such event");
		return 404;
	}
	v = &lane->level[level];
	q->s = &ws_sources[v->src[event] & WS_EVENT_SOURCE];
	for (uint32_t i = 0; i < q->s->feeds; i++)
		if (q->s->feed[i].kind == lane->kind)
			f = &q->s->feed[i];
	if (!f || q->s->table == WS_TABLE_output) {
		ws_fail(e, "This event is in no table that can be queried.");
		return WS_API_SAY;
	}
	ws_text_printf(q->t, "SELECT * FROM %s WHERE %s = %" PRId64, table_name(q->s),
		       column_name(q->s, q->s->start), (int64_t)v->start[event] - zero);
	if (q->s->end >= 0 && !(v->src[event] & (WS_EVENT_OPEN | WS_EVENT_MOMENT)))
		ws_text_printf(q->t, " AND \"end\" = %" PRId64,
			       (int64_t)ws_level_end(v, (uint32_t)event) - zero);
	put_kind(q, f, lane);
	for (uint32_t k = 0; k < f->keys; k++)
		put_key(q, f->key[k], lane->key[k]);
	if (q->s->naming == WS_NAMED_STR) {
		size_t len;
		const char *s = ws_lane_name(q->c->l, v->name[event], &len);

		if (len < 1000 && strlen(s) == len && ws_utf8_valid(s, len)) {
			ws_text_puts(q->t, " AND ifnull(");
			put_name(q);
			ws_text_puts(q->t, ", '') = ");
			put_text(q->t, s);
		}
	}
	return 0;
}

/* {"sql":...} for one event (lane, level, event), or for events (lanes, t0, t1, q, exact) as rows,
 * or with `sums` as sums by name.
 */
int ws_api_sql(struct ws_call *c, struct ws_err *e)
{
	struct ws_text sql = {0};
	struct query q = {.c = c, .t = &sql};
	int64_t lane;
	int rc;

	if (!ws_param_int(c, "lane", 0, (int64_t)c->l->n - 1, -1, &lane, e))
		return 400;
	ws_text_puts(&sql, "");
	rc = lane >= 0 ? event_sql(&q, lane, e) : list_sql(&q, e);
	if (!rc) {
		ws_text_puts(c->out, "{");
		ws_put_text(c->out, "sql", sql.s, sql.len);
		ws_text_puts(c->out, "}");
	}
	ws_text_free(&sql);
	return rc;
}
