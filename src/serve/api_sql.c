/*
 * api_sql.c - a query for what is on the screen: with it, `warpsight query`, or SQLite over the
 * export, finds the same rows.
 *
 * Lanes are rows of tables that agree in some columns, so a query is made from the same
 * declarations as the lanes: one SELECT for each table and kind of lane, with the columns that
 * distinguish lanes as conditions. Ranges as GPUs saw them are in no table, so there is no query
 * for them; functions of samples and threads on cores are no column of theirs, so that these cannot
 * be searched by name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "base/choose.h"
#include "serve/api.h"
#include "serve/where.h"

struct query {
	struct ws_api_call *call;
	struct ws_text *text;
	const struct ws_event_kind *kind;
	int64_t t0, t1; /* of the page */
	bool windowed;
	int64_t at_least, below; /* durations, ns; `below` -1: any */
	struct ws_where *where;	 /* NULL: no conditions */
};

/* ---- tables and columns as the export calls them ---- */

static const char *table_name(const struct ws_event_kind *kind)
{
	return ws_text_or(kind->sql_table, ws_tables[kind->table].sqlite);
}

static const char *column_name(const struct ws_event_kind *kind, int column)
{
	return ws_tables[kind->table].columns[column].sqlite;
}

/* When an event was over, as lanes have it. */
static void put_end(struct query *query)
{
	const struct ws_event_kind *kind = query->kind;
	int64_t last = (int64_t)(query->call->lanes->last - query->call->lanes->zero);
	const char *start = column_name(kind, 0);

	if (!kind->end) {
		ws_text_puts(query->text, start);
		return;
	}
	ws_text_puts(query->text, "CASE ");
	if (kind->shaping == WS_SHAPED_BY_TYPE)
		ws_text_printf(query->text, "WHEN %s = %d THEN start ",
			       column_name(kind, kind->shaped_by), WS_NVTX_MARK);
	if (kind->shaping == WS_SHAPED_BY_FLAGS)
		ws_text_printf(query->text, "WHEN %s & %d THEN start ",
			       column_name(kind, kind->shaped_by), WS_SLICE_INSTANT);
	ws_text_printf(query->text,
		       "WHEN \"end\" >= start THEN \"end\" ELSE max(start, %" PRId64 ") END", last);
}

/* A text is stored as a number of StringIds where the column's name says so; the names of kernel
 * columns do not. */
static bool is_id(const struct ws_event_kind *kind, const char *column)
{
	size_t n = strlen(column);

	return kind->is_name_id || (n > 2 && !strcmp(column + n - 2, "Id"));
}

/* When several full names share a short form, use the full one, as lanes do. */
static void put_full_name(struct query *query)
{
	const struct ws_event_kind *kind = query->kind;
	const char *name = column_name(kind, kind->name),
		   *full = column_name(kind, kind->full_name);

	ws_text_printf(
		query->text,
		"(SELECT value FROM StringIds WHERE id = CASE WHEN %s IN (SELECT %s FROM %s "
		"GROUP BY %s HAVING count(DISTINCT %s) > 1) THEN ifnull(%s, %s) ELSE %s END)",
		name, name, table_name(kind), name, full, full, name, name);
}

static void put_name(struct query *query)
{
	const struct ws_event_kind *kind = query->kind;
	const char *column = column_name(kind, kind->name);

	if (ws_lanes_share_names(query->call->lanes, (uint32_t)(kind - ws_event_kinds))) {
		put_full_name(query);
		return;
	}
	if (kind->sql_name)
		ws_text_puts(query->text, kind->sql_name);
	else if (kind->naming == WS_NAMED_STR && is_id(kind, column))
		ws_text_printf(query->text, "(SELECT value FROM StringIds WHERE id = %s)", column);
	else if (kind->naming == WS_NAMED_STR)
		ws_text_puts(query->text, column);
	else if (kind->naming == WS_NAMED_ENUM && kind->own_n == 1)
		ws_put_sql_text(query->text, ws_get_own_text(kind->own));
	else if (kind->naming == WS_NAMED_ENUM) {
		ws_text_printf(query->text, "CASE %s ", column);
		for (uint32_t i = 1; i < kind->own_n; i++) {
			ws_text_printf(query->text, "WHEN %" PRIu32 " THEN ", i);
			ws_put_sql_text(query->text, ws_get_own_text(kind->own + i));
			ws_text_puts(query->text, " ");
		}
		ws_text_puts(query->text, "ELSE ");
		ws_put_sql_text(query->text, ws_get_own_text(kind->own));
		ws_text_puts(query->text, " END");
	} else
		ws_text_puts(query->text, "NULL");
}

/* ---- which rows ---- */

static void put_key(struct query *query, int column, uint32_t v)
{
	enum ws_type type = ws_tables[query->kind->table].columns[column].type;
	const struct ws_names_by_id *who = query->call->lanes->who;

	ws_text_printf(query->text, " AND %s ", column_name(query->kind, column));
	if ((type == WS_T_NU32 && v == WS_NO_U32) ||
	    ((type == WS_T_THREAD || type == WS_T_NTHREAD || type == WS_T_PROCESS) && !v))
		ws_text_puts(query->text, "IS NULL");
	else if (type == WS_T_THREAD || type == WS_T_NTHREAD)
		ws_text_printf(query->text, "= %" PRIu64,
			       (uint64_t)ws_find_thread(who, v)->global_tid);
	else if (type == WS_T_PROCESS)
		ws_text_printf(query->text, "= %" PRIu64,
			       (uint64_t)ws_find_process(who, v)->global_pid);
	else
		ws_text_printf(query->text, "= %" PRIu32, v);
}

/* Calls of one library, or slices of none, by ws_lane_is_library. */
static void put_library(struct query *query, uint32_t category)
{
	struct ws_text name = {0};
	const char *text;
	size_t n;

	if (!category) {
		ws_text_puts(query->text,
			     " AND (categoryId IS NULL OR (SELECT value NOT GLOB '*[_]*' OR "
			     "value GLOB '*[^A-Z0-9_]*' FROM StringIds WHERE "
			     "id = categoryId))");
		return;
	}
	text = ws_report_string(query->call->lanes->report, category, &n);
	ws_text_add(&name, text, n);
	ws_text_puts(query->text, " AND (SELECT value FROM StringIds WHERE id = categoryId) = ");
	ws_put_sql_text(query->text, name.text);
	ws_text_free(&name);
}

/* Rows of NVTX that are events: all of them, those that overlap as they like, or the others. */
static void put_types(struct query *query, const char *column, const struct ws_lane *lane,
		      uint32_t split)
{
	if (!lane)
		ws_text_printf(query->text, " AND %s IN (%d, %d, %d)", column, WS_NVTX_PUSHPOP,
			       WS_NVTX_STARTEND, WS_NVTX_MARK);
	else if (split)
		ws_text_printf(query->text, " AND %s = %d", column, WS_NVTX_STARTEND);
	else
		ws_text_printf(query->text, " AND %s IN (%d, %d)", column, WS_NVTX_PUSHPOP,
			       WS_NVTX_MARK);
}

static void put_split(struct query *query, const struct ws_feed *feed, const struct ws_lane *lane)
{
	const char *column = column_name(query->kind, feed->split_by);
	uint32_t split = 0;

	if (lane && feed->keys < WS_COUNT(lane->key))
		split = lane->key[feed->keys];
	if (feed->split == WS_SPLIT_LOOSE)
		put_types(query, column, lane, split);
	if (feed->split == WS_SPLIT_PYTHON && lane)
		ws_text_printf(query->text, " AND %s %s %d", column, split ? "=" : "<>",
			       WS_OP_PYTHON);
	if (feed->split == WS_SPLIT_LIBRARY && lane)
		put_library(query, split);
}

/* What distinguishes lanes in census.c, beside columns. */
static void put_feed(struct query *query, const struct ws_feed *feed, const struct ws_lane *lane)
{
	const char *test = column_name(query->kind, feed->test);

	put_split(query, feed, lane);
	if (feed->when == WS_FEED_ZERO)
		ws_text_printf(query->text, " AND %s = 0", test);
	else if (feed->when == WS_FEED_NONZERO)
		ws_text_printf(query->text, " AND %s <> 0", test);
	else if (feed->when == WS_FEED_NOT_NULL)
		ws_text_printf(query->text, " AND %s IS NOT NULL", test);
}

static void put_lane(struct query *query, const struct ws_feed *feed, const struct ws_lane *lane)
{
	ws_text_puts(query->text, "(1");
	put_feed(query, feed, lane);
	for (uint32_t k = 0; k < feed->keys; k++)
		put_key(query, feed->key[k], lane->key[k]);
	ws_text_puts(query->text, ")");
}

/* A bar of the histogram that was chosen, and conditions on columns. */
static int put_conditions(struct query *query, struct ws_err *err)
{
	if (query->below >= 0) {
		ws_text_puts(query->text, " AND ");
		ws_put_sql_duration(query->text, query->kind);
		ws_text_printf(query->text, " BETWEEN %" PRId64 " AND %" PRId64, query->at_least,
			       query->below - 1);
	}
	if (!query->where)
		return 0;
	return ws_where_put_sql(query->where, query->kind, query->call->lanes->who, query->text,
				err);
}

/* One SELECT: start, duration and name of the rows of a table that are in some of these lanes. */
static int put_select(struct query *query, const struct ws_feed *feed, const uint32_t *lanes,
		      size_t n, bool all, struct ws_err *err)
{
	const char *start = column_name(query->kind, 0);
	bool first = true;

	ws_text_printf(query->text, "SELECT %s AS start, ", start);
	put_end(query);
	ws_text_puts(query->text, " AS stop, ");
	put_name(query);
	ws_text_printf(query->text, " AS name FROM %s WHERE 1", table_name(query->kind));
	if (query->windowed)
		ws_text_printf(query->text, " AND %s < %" PRId64, start, query->t1);
	if (put_conditions(query, err))
		return -1;
	if (all) {
		put_feed(query, feed, NULL);
		return 0;
	}
	ws_text_puts(query->text, " AND (");
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = query->call->lanes->lane[lanes[i]];

		if (lane->kind != feed->kind)
			continue;
		ws_text_puts(query->text, first ? "" : " OR ");
		first = false;
		put_lane(query, feed, lane);
	}
	ws_text_puts(query->text, ")");
	return 0;
}

/* ---- a table of events ---- */

/* Texts are found in any case, as in the page: LIKE does so for letters of ASCII. */
static void put_filter(struct query *query, const char *text, int64_t exact)
{
	struct ws_text like = {0};

	if (exact) {
		ws_text_puts(query->text, exact == 2 ? " AND substr(ifnull(name, ''), 1, length("
						     : " AND ifnull(name, '') = ");
		ws_put_sql_text(query->text, ws_text_or(text, ""));
		if (exact == 2) {
			ws_text_puts(query->text, ")) = ");
			ws_put_sql_text(query->text, ws_text_or(text, ""));
		}
		return;
	}
	if (!text || !*text)
		return;
	ws_text_puts(&like, "%");
	for (; *text; text++)
		ws_text_printf(&like, strchr("%_\\", *text) ? "\\%c" : "%c", *text);
	ws_text_puts(&like, "%");
	ws_text_puts(query->text, " AND name LIKE ");
	ws_put_sql_text(query->text, like.text);
	ws_text_puts(query->text, " ESCAPE '\\'");
	ws_text_free(&like);
}

static bool has_kind(const struct ws_lanes *lanes_l, const uint32_t *lanes, size_t n, uint8_t kind)
{
	for (size_t i = 0; i < n; i++)
		if (lanes_l->lane[lanes[i]]->kind == kind)
			return true;
	return false;
}

static int put_selects(struct query *query, const uint32_t *lanes, size_t n, bool all, bool named,
		       struct ws_err *err)
{
	const struct ws_lanes *lanes_l = query->call->lanes;
	bool any = false;

	if (!all && has_kind(lanes_l, lanes, n, WS_LANE_PROJECTED))
		return ws_fail(
			err,
			"Ranges as the GPU saw them are computed; there is no query for them.");
	if (!all && has_kind(lanes_l, lanes, n, WS_LANE_STATE))
		return ws_fail(err,
			       "States of threads are computed from several tables; there is no "
			       "query for them.");
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		query->kind = &ws_event_kinds[i];
		for (uint32_t f = 0; f < query->kind->feeds; f++) {
			if (query->kind->is_not_queried ||
			    !ws_report_count_rows(lanes_l->report, query->kind->table) ||
			    ws_lane_descs[query->kind->feed[f].kind].counter ||
			    !has_kind(lanes_l, lanes, n, query->kind->feed[f].kind))
				continue;
			if (named && query->kind->naming != WS_NAMED_STR &&
			    query->kind->naming != WS_NAMED_ENUM) {
				if (all) /* nothing of theirs has a name that the query could
					    compare */
					continue;
				return ws_fail(err, "Names of these rows are no column of their "
						    "table: there is no query that searches them.");
			}
			ws_text_puts(query->text, any ? "\n  UNION ALL " : "  ");
			any = true;
			if (put_select(query, &query->kind->feed[f], lanes, n, all, err))
				return -1;
		}
	}
	return any ? 0 : ws_fail(err, "These rows are in no table that can be queried.");
}

/* The conditions on the whole table: window, durations, columns. */
static int param_table_query(struct query *query, struct ws_err *err)
{
	struct ws_api_call *call = query->call;
	struct ws_param_range durations = ws_make_range(0, INT64_MAX, -1);
	int64_t zero = (int64_t)call->lanes->zero;

	if (!ws_param_window(call, &query->t0, &query->t1, err) ||
	    !ws_param_int(call, "at_least", durations, &query->at_least, err) ||
	    !ws_param_int(call, "below", durations, &query->below, err))
		return 400;
	query->t0 -= zero;
	query->t1 -= zero;
	query->windowed = true;
	query->where = ws_make_where(call, err);
	return query->where ? 0 : WS_API_SAY;
}

static int list_sql(struct query *query, struct ws_err *err)
{
	const char *text = ws_param(query->call, "q"), *kind = ws_param(query->call, "lanes");
	int64_t sums, exact;
	uint32_t *lanes;
	size_t n;
	int rc;

	if (!ws_param_int(query->call, "sums", ws_make_range(0, 1, 0), &sums, err) ||
	    !ws_param_int(query->call, "exact", ws_make_range(0, 2, 0), &exact, err) ||
	    !ws_param_lanes(query->call, WS_LANES_ORIGINAL, &lanes, &n, err))
		return 400;
	rc = param_table_query(query, err);
	if (rc) {
		free(lanes);
		return rc;
	}
	if (sums)
		ws_text_printf(query->text,
			       "SELECT name, count(*) AS count, sum(d) AS total_ns, min(d) AS "
			       "min_ns, max(d) AS max_ns FROM (\n"
			       "SELECT name, max(0, min(stop, %" PRId64 ") - max(start, %" PRId64
			       ")) AS d FROM (\n",
			       query->t1, query->t0);
	else
		ws_text_puts(query->text, "SELECT start, stop - start AS duration, name FROM (\n");
	rc = put_selects(query, lanes, n, !kind, exact || (text && *text), err);
	ws_text_printf(query->text,
		       "\n) WHERE (stop > %" PRId64 " OR (stop = start AND start >= %" PRId64 "))",
		       query->t0, query->t0);
	put_filter(query, text, exact);
	ws_text_puts(query->text,
		     sums ? ") GROUP BY name ORDER BY total_ns DESC" : " ORDER BY start");
	free(lanes);
	return rc ? WS_API_SAY : 0;
}

/* ---- one event ---- */

static int event_sql(struct query *query, int64_t lane_number, struct ws_err *err)
{
	const struct ws_lane *lane = query->call->lanes->lane[lane_number];
	int64_t level, event, zero = (int64_t)query->call->lanes->zero;
	const struct ws_level *level_v;
	const struct ws_feed *feed = NULL;

	if (!ws_param_int(query->call, "level", ws_make_range(0, UINT32_MAX, 0), &level, err) ||
	    !ws_param_int(query->call, "event", ws_make_range(0, UINT32_MAX, 0), &event, err))
		return 400;
	if (!ws_lane_ready(lane) || ws_lane_descs[lane->kind].counter || level >= lane->levels ||
	    event >= lane->level[level].n) {
		ws_fail(err, "there is no such event");
		return 404;
	}
	level_v = &lane->level[level];
	query->kind = &ws_event_kinds[level_v->src[event] & WS_EVENT_SOURCE];
	for (uint32_t i = 0; i < query->kind->feeds; i++)
		if (query->kind->feed[i].kind == lane->kind)
			feed = &query->kind->feed[i];
	if (!feed || query->kind->is_not_queried) {
		ws_fail(err, "This event is in no table that can be queried.");
		return WS_API_SAY;
	}
	ws_text_printf(query->text, "SELECT * FROM %s WHERE %s = %" PRId64, table_name(query->kind),
		       column_name(query->kind, 0), (int64_t)level_v->start[event] - zero);
	if (query->kind->end && !(level_v->src[event] & (WS_EVENT_OPEN | WS_EVENT_MOMENT)))
		ws_text_printf(query->text, " AND \"end\" = %" PRId64,
			       (int64_t)ws_level_end(level_v, (uint32_t)event) - zero);
	put_feed(query, feed, lane);
	for (uint32_t k = 0; k < feed->keys; k++)
		put_key(query, feed->key[k], lane->key[k]);
	if (query->kind->naming == WS_NAMED_STR) {
		size_t len;
		const char *text = ws_lane_name(query->call->lanes, level_v->name[event], &len);

		if (len < 1000 && strlen(text) == len && ws_is_valid_utf8(text, len)) {
			ws_text_puts(query->text, " AND ifnull(");
			put_name(query);
			ws_text_puts(query->text, ", '') = ");
			ws_put_sql_text(query->text, text);
		}
	}
	return 0;
}

/* {"sql":...} for one event (lane, level, event), or for events (lanes, t0, t1, q, exact) as rows,
 * or with `sums` as sums by name.
 */
int ws_api_sql(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_text sql = {0};
	struct query query = {.call = call, .text = &sql};
	int64_t lane;
	int rc;

	if (!ws_param_int(call, "lane", ws_make_range(0, (int64_t)call->lanes->n - 1, -1), &lane,
			  err))
		return 400;
	if (ws_param(call, "form")) {
		ws_fail(err, "Names that differ only in numbers have no query of their own; choose "
			     "one of them, or search by a part of the name.");
		return WS_API_SAY;
	}
	ws_text_puts(&sql, "");
	rc = lane >= 0 ? event_sql(&query, lane, err) : list_sql(&query, err);
	if (!rc) {
		ws_text_puts(call->out, "{");
		ws_put_json_text(call->out, "sql", sql.text, sql.len);
		ws_text_puts(call->out, "}");
	}
	ws_where_free(query.where);
	ws_text_free(&sql);
	return rc;
}
