/*
 * tables_foreign.c - tables that an import kept without knowing them, under the names they had.
 *
 * Spans of threads are slices, whose category is the table and whose arguments are its other
 * columns; other rows are rows of `foreign`; metrics are values of counters. A fact of the import
 * says of each table which columns it had, another of each counter which numbers it had (into.h).
 * From these the tables are made again, so that queries and tools that know MPI_P2P_EVENTS or
 * NET_NIC_METRIC find them. WARPSIGHT_SLICE and WARPSIGHT_FOREIGN have the rows too: an import of
 * the export reads those.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "views/tables.h"
#include "text/text.h"
#include "schema/foreign.h"
#include "text/json.h"

enum role { ROLE_NONE, ROLE_START = 's', ROLE_END = 'e', ROLE_THREAD = 't', ROLE_LABEL = 'n' };

struct ws_xforeign {
	struct ws_xtable t;
	struct ws_xcolumn *columns;
	enum role roles[WS_MAX_COLUMNS];
	bool pointer[WS_MAX_COLUMNS];
	char *name;
	bool slices;
	/* while it is written */
	struct ws_export *x;
	uint64_t last_label; /* string id of a table name that was compared last, and whether it is
				this table's */
	bool last_is;
	struct ws_text scratch;
};

/* ---- which there are ---- */

static bool is_name(const char *s, size_t n)
{
	bool good = n > 0 && n <= 100 && !(s[0] >= '0' && s[0] <= '9');

	for (size_t i = 0; good && i < n; i++)
		good = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		       (s[i] >= '0' && s[i] <= '9') || s[i] == '_';
	return good;
}

/* "globalTid/t textId/@n size": names, each with letters for what it is. False when it is no such
 * list. */
static bool parse_columns(struct ws_xforeign *f, const char *s)
{
	size_t cap = 0;

	while (*s) {
		size_t len = strcspn(s, " "), name = strcspn(s, "/ ");
		struct ws_xcolumn c = {.type = "INTEGER", .doc = ""};
		size_t at = f->t.column_count;

		if (!is_name(s, name) || at == WS_MAX_COLUMNS)
			return false;
		for (size_t i = 0; i < at; i++)
			if (strlen(f->columns[i].name) == name &&
			    !strncasecmp(f->columns[i].name, s, name))
				return false;
		for (size_t i = name + 1; i < len; i++) {
			if (s[i] == 'T' || s[i] == 'R')
				c.type = s[i] == 'T' ? "TEXT" : "REAL";
			else if (s[i] == '@')
				f->pointer[at] = true;
			else
				f->roles[at] = (enum role)s[i];
		}
		c.name = ws_strndup(s, name);
		ws_grow(f->columns, cap, at + 1);
		f->columns[f->t.column_count++] = c;
		s += len + (s[len] == ' ');
	}
	return f->t.column_count > 0;
}

static void free_foreign(struct ws_xforeign *f)
{
	for (size_t i = 0; i < f->t.column_count; i++)
		free((char *)f->columns[i].name);
	free(f->columns);
	free(f->name);
	ws_text_free(&f->scratch);
	free(f);
}

static struct ws_xforeign *make_foreign(const char *name, const char *columns)
{
	struct ws_xforeign *f = ws_calloc(1, sizeof(*f));

	f->name = ws_strdup(name);
	f->slices = *columns == 'S';
	if ((*columns != 'S' && *columns != 'F') || columns[1] != ' ' ||
	    !is_name(name, strlen(name)) || !parse_columns(f, columns + 2)) {
		free_foreign(f);
		return NULL;
	}
	f->t = (struct ws_xtable){f->name, "Read from another tool's export", f->columns,
				  f->t.column_count};
	return f;
}

bool ws_export_is_foreign(const struct ws_export *x, const char *name)
{
	for (size_t i = 0; i < x->foreign_count; i++)
		if (!strcasecmp(x->foreign[i]->name, name))
			return true;
	return false;
}

static void find_foreign(struct ws_export *x)
{
	enum { MOST = 512 };
	static const char fact[] = WS_FOREIGN_TABLE_FACT;
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *v;
	size_t cap = 0;

	x->foreign_known = true;
	while (ws_cursor_next(c, &v) && x->foreign_count < MOST) {
		const char *name =
			ws_report_string(x->r, (uint32_t)v[ws_meta_name], NULL) + sizeof(fact) - 1;
		struct ws_xforeign *f;

		if (strncmp(name - (sizeof(fact) - 1), fact, sizeof(fact) - 1) ||
		    ws_export_is_made(name) || ws_export_is_foreign(x, name))
			continue;
		f = make_foreign(name, ws_report_string(x->r, (uint32_t)v[ws_meta_value], NULL));
		if (!f)
			continue;
		f->x = x;
		ws_grow(x->foreign, cap, x->foreign_count + 1);
		x->foreign[x->foreign_count++] = f;
	}
	ws_cursor_close(c);
}

void ws_export_foreign_free(struct ws_export *x)
{
	for (size_t i = 0; i < x->foreign_count; i++)
		free_foreign(x->foreign[i]);
	free(x->foreign);
}

/* ---- rows ---- */

static bool is_of(struct ws_xforeign *f, uint64_t label)
{
	size_t len;
	const char *s;

	if (label != f->last_label) {
		s = ws_report_string(f->x->r, (uint32_t)label, &len);
		f->last_label = label;
		f->last_is = len == strlen(f->name) && !memcmp(s, f->name, len);
	}
	return f->last_is;
}

/* A text of the report's, or one that lives as long as the export. */
static struct ws_xcell text_cell(struct ws_xforeign *f, const struct ws_json_value *v, bool pointer)
{
	size_t n;
	const char *s = ws_json_text(v, &f->scratch, &n);

	if (pointer)
		return ws_x_extra(f->x, s, n);
	if (!v->escaped && ws_utf8_valid(s, n) && !memchr(s, 0, n))
		return (struct ws_xcell){.kind = WS_X_TEXT, .s = s, .n = n};
	if (s != f->scratch.s) {
		f->scratch.len = 0;
		ws_text_add(&f->scratch, s, n);
	}
	ws_text_add(&f->scratch, "", 1);
	return ws_x_own(f->x, f->scratch.s);
}

static struct ws_xcell value_cell(struct ws_xforeign *f, size_t column,
				  const struct ws_json_value *v)
{
	const struct ws_xcolumn *c = &f->columns[column];
	bool ok;

	if (v->type == WS_J_STRING && (f->pointer[column] || *c->type == 'T'))
		return text_cell(f, v, f->pointer[column]);
	if (v->type != WS_J_NUMBER && v->type != WS_J_STRING)
		return ws_x_null();
	if (*c->type == 'R') {
		double d = ws_json_double(v, &ok);

		return ok ? (struct ws_xcell){.kind = WS_X_REAL, .r = d} : ws_x_null();
	}
	if (*c->type == 'T')
		return (struct ws_xcell){.kind = WS_X_TEXT, .s = v->s, .n = v->n};
	return (struct ws_xcell){.kind = WS_X_INT, .i = ws_json_fixed(v, 0, &ok)};
}

static void fill_json(struct ws_xforeign *f, uint64_t id, struct ws_xcell *cells)
{
	size_t len, at = 0;
	const char *s = ws_report_string(f->x->r, (uint32_t)id, &len);
	struct ws_json_value object, key, value;
	struct ws_json_walk w;
	bool more;

	if (!ws_json_value(s, s + len, &object, &more) || object.type != WS_J_OBJECT)
		return;
	w = ws_json_walk(&object);
	while (ws_json_next(&w, &key, &value)) {
		size_t from = at;

		while (!ws_json_is(&key,
				   f->columns[at].name)) { /* they come in the columns' order */
			at = (at + 1) % f->t.column_count;
			if (at == from)
				break;
		}
		if (ws_json_is(&key, f->columns[at].name)) {
			cells[at] = value_cell(f, at, &value);
			at = (at + 1) % f->t.column_count;
		}
	}
}

static bool fill_slice(void *ctx, const uint64_t *v, struct ws_xcell *cells)
{
	struct ws_xforeign *f = ctx;

	if (!is_of(f, v[ws_slice_category]) ||
	    !ws_export_in_time(f->x, v[ws_slice_start], v[ws_slice_end]))
		return false;
	for (size_t c = 0; c < f->t.column_count; c++)
		cells[c] = f->roles[c] == ROLE_START	? ws_x_time(f->x, v[ws_slice_start])
			   : f->roles[c] == ROLE_END	? ws_x_ntime(f->x, v[ws_slice_end])
			   : f->roles[c] == ROLE_THREAD ? ws_x_thread(f->x, v[ws_slice_thread])
			   : f->roles[c] != ROLE_LABEL	? ws_x_null()
			   : f->pointer[c] ? ws_x_string(f->x, (uint32_t)v[ws_slice_name])
					   : ws_x_text(f->x, (uint32_t)v[ws_slice_name]);
	if (v[ws_slice_args])
		fill_json(f, v[ws_slice_args], cells);
	return true;
}

/* Times in a row are the file's: they go where the export has the row's own. */
static bool fill_row(void *ctx, const uint64_t *v, struct ws_xcell *cells)
{
	struct ws_xforeign *f = ctx;
	int64_t by = 0;

	if (!is_of(f, v[ws_foreign_table]))
		return false;
	for (size_t c = 0; c < f->t.column_count; c++)
		cells[c] = ws_x_null();
	fill_json(f, v[ws_foreign_row], cells);
	for (size_t c = 0; c < f->t.column_count; c++)
		if (f->roles[c] == ROLE_START && cells[c].kind == WS_X_INT) {
			if (!ws_export_in_time(f->x, v[ws_foreign_start], v[ws_foreign_start]))
				return false;
			by = ws_x_time(f->x, v[ws_foreign_start]).i - cells[c].i;
		}
	for (size_t c = 0; c < f->t.column_count; c++)
		if ((f->roles[c] == ROLE_START || f->roles[c] == ROLE_END) &&
		    cells[c].kind == WS_X_INT)
			cells[c].i = (int64_t)((uint64_t)cells[c].i + (uint64_t)by);
	return true;
}

/* ---- metrics ---- */

struct metrics {
	struct ws_export *x;
	struct ws_map counters; /* counter -> index + 1 */
	struct metric {
		const char *table;
		int64_t numbers[3];
	} * v;
	size_t n, cap;
	const char *table; /* in hand */
	bool gpu;
};

static const char *const metric_tables[] = {"GPU_METRICS", "NET_NIC_METRIC",
					    "NET_IB_SWITCH_METRIC"};

static void find_metrics(struct metrics *m)
{
	static const char fact[] = WS_FOREIGN_COUNTER_FACT;
	struct ws_cursor *c = ws_cursor_open(m->x->r, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		const char *name = ws_report_string(m->x->r, (uint32_t)v[ws_meta_name], NULL),
			   *value, *p;
		struct metric one = {0};

		if (strncmp(name, fact, sizeof(fact) - 1))
			continue;
		value = ws_report_string(m->x->r, (uint32_t)v[ws_meta_value], NULL);
		p = value + strcspn(value, " ");
		for (size_t i = 0; i < WS_COUNT(metric_tables); i++)
			if (!strncmp(metric_tables[i], value, (size_t)(p - value)) &&
			    !metric_tables[i][p - value])
				one.table = metric_tables[i];
		for (size_t i = 0; i < 3; i++)
			one.numbers[i] = strtoll(p, (char **)&p, 10);
		ws_grow(m->v, m->cap, m->n + 1);
		m->v[m->n++] = one;
		ws_map_set(&m->counters, strtoull(name + sizeof(fact) - 1, NULL, 10), m->n);
	}
	ws_cursor_close(c);
}

static bool fill_metric(void *ctx, const uint64_t *v, struct ws_xcell *cells)
{
	struct metrics *m = ctx;
	uint64_t at = ws_map_get(&m->counters, v[ws_counter_value_counter], NULL);
	const struct metric *one = at ? &m->v[at - 1] : NULL;
	uint64_t start = v[ws_counter_value_start], end = start + v[ws_counter_value_span];
	size_t n = 0;
	double value;

	if (!one || one->table != m->table || !ws_export_in_time(m->x, start, end))
		return false;
	memcpy(&value, &v[ws_counter_value_value], sizeof(value));
	cells[n++] = ws_x_time(m->x, start);
	if (!m->gpu)
		cells[n++] = ws_x_time(m->x, end);
	for (size_t i = 0; i < (m->gpu ? 2 : 3); i++)
		cells[n++] = ws_x_int(one->numbers[i]);
	cells[n] = value >= -9.2e18 && value <= 9.2e18 ? ws_x_int((int64_t)value) : ws_x_null();
	return true;
}

static int export_metrics(struct ws_export *x, struct ws_err *e)
{
	struct metrics m = {.x = x};
	int rc = 0;

	find_metrics(&m);
	for (size_t i = 0; i < WS_COUNT(metric_tables) && !rc; i++) {
		struct ws_xtable t = {metric_tables[i], "Metrics read from another tool's export"};
		bool any = false;

		for (size_t k = 0; k < m.n; k++)
			any |= m.v[k].table == metric_tables[i];
		t.columns = ws_known_columns(t.name, &t.column_count);
		m.table = metric_tables[i];
		m.gpu = !i;
		rc = any ? ws_export_rows(x, &t, WS_TABLE_counter_value, fill_metric, &m, e)
			 : ws_export_table(x, &t, e);
	}
	ws_map_free(&m.counters);
	free(m.v);
	return rc;
}

bool ws_export_is_metrics(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(metric_tables); i++)
		if (!strcasecmp(metric_tables[i], name))
			return true;
	return false;
}

int ws_export_foreign(struct ws_export *x, struct ws_err *e)
{
	if (!x->foreign_known)
		find_foreign(x);
	for (size_t i = 0; i < x->foreign_count; i++) {
		struct ws_xforeign *f = x->foreign[i];
		int rc = f->slices ? ws_export_rows(x, &f->t, WS_TABLE_slice, fill_slice, f, e)
				   : ws_export_rows(x, &f->t, WS_TABLE_foreign, fill_row, f, e);

		if (rc < 0)
			return rc;
	}
	return export_metrics(x, e);
}
