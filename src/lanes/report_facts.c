/*
 * report_facts.c - what is told of a report beside its rows: its name, times, facts, diagnostics,
 * losses, output, tables and damage.
 */
#include <inttypes.h>
#include <string.h>

#include "lanes/row_tree.h"
#include "text/text.h"

int64_t ws_lanes_realtime(const struct ws_report *r, uint64_t zero)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_clock, 0, UINT64_MAX);
	uint64_t best = UINT64_MAX;
	const uint64_t *v;
	int64_t at = 0;

	while (ws_cursor_next(c, &v)) {
		uint64_t raw = v[ws_clock_raw], away = raw > zero ? raw - zero : zero - raw;

		if (away < best) {
			best = away;
			at = (int64_t)(v[ws_clock_realtime] - raw + zero);
		}
	}
	ws_cursor_close(c);
	return at;
}

enum { MOST_ROWS = 1000, MOST_OUTPUT = 1 << 20 };

struct bytes {
	const char *s;
	size_t n;
};

/* Of texts that are too long for a page the beginning. */
static struct bytes bytes_of(const struct ws_report *r, uint64_t id)
{
	struct bytes b;

	b.s = ws_report_string(r, (uint32_t)id, &b.n);
	b.n = b.n < 16384 ? b.n : 16384;
	return b;
}

static void string_at(struct ws_text *t, const char *key, const struct ws_report *r, uint64_t id)
{
	struct bytes b = bytes_of(r, id);

	ws_put_text(t, key, b.s, b.n);
}

static void facts(struct ws_text *t, const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *v;

	ws_put_key(t, "facts");
	ws_text_puts(t, "[");
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(c, &v); i++) {
		ws_put_comma(t);
		ws_text_puts(t, "{");
		string_at(t, "name", r, v[ws_meta_name]);
		string_at(t, "value", r, v[ws_meta_value]);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
	ws_cursor_close(c);
}

#define VIEW "view"
#define NOT_PROJECTED                                                                             \
	"The report has more CUDA API calls than are read at once: NVTX ranges are not shown on " \
	"GPUs. 'warpsight stats -r "                                                              \
	"nvtx_gpu_proj_sum' has them."

static void put_diagnostic(struct ws_text *t, const struct ws_shown_report *rep, uint64_t time,
			   uint64_t severity, struct bytes source, struct bytes text)
{
	ws_put_comma(t);
	ws_text_puts(t, "{");
	ws_put_time(t, "time", rep->lanes, time);
	ws_put_int(t, "severity", (int64_t)severity);
	ws_put_text(t, "source", source.s, source.n);
	ws_put_text(t, "text", text.s, text.n);
	ws_text_puts(t, "}");
}

#define BYTES(literal) ((struct bytes){literal, sizeof(literal) - 1})

static void diagnostics(struct ws_text *t, const struct ws_shown_report *rep)
{
	struct ws_cursor *c = ws_cursor_open(rep->lanes->r, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *v;

	ws_put_key(t, "diagnostics");
	ws_text_puts(t, "[");
	if (!ws_lanes_projects(rep->lanes) && ws_report_rows(rep->lanes->r, WS_TABLE_nvtx))
		put_diagnostic(t, rep, rep->lanes->zero, WS_INFO, BYTES(VIEW),
			       BYTES(NOT_PROJECTED));
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(c, &v); i++)
		put_diagnostic(t, rep, v[ws_diagnostic_start], v[ws_diagnostic_severity],
			       bytes_of(rep->lanes->r, v[ws_diagnostic_source]),
			       bytes_of(rep->lanes->r, v[ws_diagnostic_text]));
	ws_text_puts(t, "]");
	ws_cursor_close(c);
}

static void losses(struct ws_text *t, const struct ws_shown_report *rep)
{
	struct ws_cursor *c = ws_cursor_open(rep->lanes->r, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *v;

	ws_put_key(t, "losses");
	ws_text_puts(t, "[");
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(c, &v); i++) {
		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_int(t, "tid",
			   ws_who_thread(rep->lanes->who, (uint32_t)v[ws_loss_thread])->tid);
		string_at(t, "kind", rep->lanes->r, v[ws_loss_kind]);
		ws_put_int(t, "events", (int64_t)v[ws_loss_events]);
		string_at(t, "reason", rep->lanes->r, v[ws_loss_reason]);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
	ws_cursor_close(c);
}

static void output(struct ws_text *t, const struct ws_shown_report *rep)
{
	struct ws_cursor *c = ws_cursor_open(rep->lanes->r, WS_TABLE_output, 0, UINT64_MAX);
	size_t sum = 0;
	const uint64_t *v;

	ws_put_key(t, "output");
	ws_text_puts(t, "[");
	while (sum < MOST_OUTPUT && ws_cursor_next(c, &v)) {
		size_t n;
		const char *s = ws_report_string(rep->lanes->r, (uint32_t)v[ws_output_bytes], &n);

		n = n < MOST_OUTPUT - sum ? n : MOST_OUTPUT - sum;
		sum += n;
		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_time(t, "time", rep->lanes, v[ws_output_start]);
		ws_put_int(t, "stream", (int64_t)v[ws_output_stream]);
		ws_put_text(t, "text", s, n);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
	ws_cursor_close(c);
}

static void tables(struct ws_text *t, const struct ws_report *r)
{
	ws_put_key(t, "tables");
	ws_text_puts(t, "[");
	for (uint32_t i = 0; i < WS_TABLE_COUNT; i++) {
		if (!ws_report_rows(r, (enum ws_table)i))
			continue;
		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_string(t, "name", ws_tables[i].name);
		ws_put_string(t, "sqlite", ws_tables[i].sqlite);
		ws_put_int(t, "rows", (int64_t)ws_report_rows(r, (enum ws_table)i));
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
}

static void damage(struct ws_text *t, const struct ws_report *r)
{
	ws_put_key(t, "damage");
	ws_text_puts(t, "[");
	for (size_t i = 0; ws_report_damage(r, i); i++) {
		ws_put_comma(t);
		ws_text_json(t, ws_report_damage(r, i), strlen(ws_report_damage(r, i)));
	}
	ws_text_puts(t, "]");
}

/* When the first event that is shown began, by the index; the start of the recording when there is
 * none. */
static uint64_t first_event(const struct ws_shown_report *rep)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < ws_source_count; i++) {
		enum ws_table t = ws_sources[i].table;

		for (size_t k = 0; t != WS_TABLE_output && t != WS_TABLE_diagnostic &&
				   k < ws_report_blocks(rep->lanes->r, t);
		     k++) {
			uint64_t min = ws_report_block(rep->lanes->r, t, k).time_min;

			first = min < first ? min : first;
		}
	}
	return first != UINT64_MAX ? first : rep->lanes->zero;
}

void ws_put_report_facts(struct ws_text *t, const struct ws_shown_report *rep  , size_t number)
{
	const char *base = strrchr(rep->path, '/');

	ws_put_comma(t);
	ws_text_puts(t, "{");
	ws_put_int(t, "id", (int64_t)number);
	ws_put_string(t, "name", base ? base + 1 : rep->path);
	ws_put_string(t, "path", rep->path);
	ws_put_time(t, "first", rep->lanes, first_event(rep));
	ws_put_time(t, "last", rep->lanes, rep->lanes->last);
	ws_put_key(t, "realtime");
	ws_text_printf(t, "\"%" PRId64 "\"", rep->realtime);
	ws_put_int(t, "bytes", (int64_t)ws_report_file_size(rep->lanes->r));
	ws_put_int(t, "complete", ws_report_complete(rep->lanes->r));
	facts(t, rep->lanes->r);
	diagnostics(t, rep);
	losses(t, rep);
	output(t, rep);
	tables(t, rep->lanes->r);
	damage(t, rep->lanes->r);
	ws_text_puts(t, "}");
}
