/*
 * report_facts.c - what is shown of a report besides its rows: its name, times, facts, diagnostics,
 * losses, output, tables and damage.
 */
#include <inttypes.h>
#include <string.h>

#include "lanes/row_tree.h"
#include "base/choose.h"
#include "text/text.h"

int64_t ws_lanes_realtime(const struct ws_report *report, uint64_t zero)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_clock, 0, UINT64_MAX);
	uint64_t best = UINT64_MAX;
	const uint64_t *values;
	int64_t at = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t raw = values[ws_clock_raw], away = raw > zero ? raw - zero : zero - raw;

		if (away < best) {
			best = away;
			at = (int64_t)(values[ws_clock_realtime] - raw + zero);
		}
	}
	ws_cursor_close(cursor);
	return at;
}

enum { MOST_ROWS = 1000, MOST_OUTPUT = 1 << 20 };

struct bytes {
	const char *text;
	size_t n;
};

/* Only the beginning of texts that are too long for a page. */
static struct bytes get_bytes(const struct ws_report *report, uint64_t id)
{
	struct bytes bytes;

	bytes.text = ws_report_string(report, (uint32_t)id, &bytes.n);
	bytes.n = ws_min(bytes.n, 16384);
	return bytes;
}

static void string_at(struct ws_text *text, const char *key, const struct ws_report *report,
		      uint64_t id)
{
	struct bytes bytes = get_bytes(report, id);

	ws_put_json_text(text, key, bytes.text, bytes.n);
}

static void put_meta_facts(struct ws_text *text, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	ws_put_json_key(text, "facts");
	ws_text_puts(text, "[");
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(cursor, &values); i++) {
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		string_at(text, "name", report, values[ws_meta_name]);
		string_at(text, "value", report, values[ws_meta_value]);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	ws_cursor_close(cursor);
}

#define VIEW "view"
#define NOT_PROJECTED                                                                             \
	"The report has more CUDA API calls than are read at once: NVTX ranges are not shown on " \
	"GPUs. 'warpsight stats -r "                                                              \
	"nvtx_gpu_proj_sum' has them."

static void put_diagnostic(struct ws_text *out, const struct ws_shown_report *rep, uint64_t time,
			   uint64_t severity, struct bytes source, struct bytes text)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_time(out, "time", rep->lanes, time);
	ws_put_json_int(out, "severity", (int64_t)severity);
	ws_put_json_text(out, "source", source.text, source.n);
	ws_put_json_text(out, "text", text.text, text.n);
	ws_text_puts(out, "}");
}

#define BYTES(literal) ((struct bytes){literal, sizeof(literal) - 1})

static void put_diagnostics(struct ws_text *text, const struct ws_shown_report *rep)
{
	struct ws_cursor *cursor =
		ws_cursor_open(rep->lanes->report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;

	ws_put_json_key(text, "diagnostics");
	ws_text_puts(text, "[");
	if (!ws_lanes_projects(rep->lanes) &&
	    ws_report_count_rows(rep->lanes->report, WS_TABLE_nvtx))
		put_diagnostic(text, rep, rep->lanes->zero, WS_INFO, BYTES(VIEW),
			       BYTES(NOT_PROJECTED));
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(cursor, &values); i++)
		put_diagnostic(text, rep, values[ws_diagnostic_start],
			       values[ws_diagnostic_severity],
			       get_bytes(rep->lanes->report, values[ws_diagnostic_source]),
			       get_bytes(rep->lanes->report, values[ws_diagnostic_text]));
	ws_text_puts(text, "]");
	ws_cursor_close(cursor);
}

static void put_losses(struct ws_text *text, const struct ws_shown_report *rep)
{
	struct ws_cursor *cursor = ws_cursor_open(rep->lanes->report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;

	ws_put_json_key(text, "losses");
	ws_text_puts(text, "[");
	for (int i = 0; i < MOST_ROWS && ws_cursor_next(cursor, &values); i++) {
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_int(
			text, "tid",
			ws_find_thread(rep->lanes->who, (uint32_t)values[ws_loss_thread])->tid);
		string_at(text, "kind", rep->lanes->report, values[ws_loss_kind]);
		ws_put_json_int(text, "events", (int64_t)values[ws_loss_events]);
		string_at(text, "reason", rep->lanes->report, values[ws_loss_reason]);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	ws_cursor_close(cursor);
}

static void put_output(struct ws_text *text, const struct ws_shown_report *rep)
{
	struct ws_cursor *cursor =
		ws_cursor_open(rep->lanes->report, WS_TABLE_output, 0, UINT64_MAX);
	size_t sum = 0;
	const uint64_t *values;

	ws_put_json_key(text, "output");
	ws_text_puts(text, "[");
	while (sum < MOST_OUTPUT && ws_cursor_next(cursor, &values)) {
		size_t n;
		const char *word =
			ws_report_string(rep->lanes->report, (uint32_t)values[ws_output_bytes], &n);

		n = n < MOST_OUTPUT - sum ? n : MOST_OUTPUT - sum;
		sum += n;
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_time(text, "time", rep->lanes, values[ws_output_start]);
		ws_put_json_int(text, "stream", (int64_t)values[ws_output_stream]);
		ws_put_json_text(text, "text", word, n);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	ws_cursor_close(cursor);
}

static void put_tables(struct ws_text *text, const struct ws_report *report)
{
	ws_put_json_key(text, "tables");
	ws_text_puts(text, "[");
	for (uint32_t i = 0; i < WS_TABLE_COUNT; i++) {
		if (!ws_report_count_rows(report, (enum ws_table)i))
			continue;
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_string(text, "name", ws_tables[i].name);
		ws_put_json_string(text, "sqlite", ws_tables[i].sqlite);
		ws_put_json_int(text, "rows",
				(int64_t)ws_report_count_rows(report, (enum ws_table)i));
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
}

static void put_damage(struct ws_text *text, const struct ws_report *report)
{
	ws_put_json_key(text, "damage");
	ws_text_puts(text, "[");
	for (size_t i = 0; ws_report_get_damage(report, i); i++) {
		ws_put_json_comma(text);
		ws_put_quoted_json(text, ws_report_get_damage(report, i),
				   strlen(ws_report_get_damage(report, i)));
	}
	ws_text_puts(text, "]");
}

/* When the first event that is shown began, according to the index; the start of the recording when
 * there is none. */
static uint64_t first_event(const struct ws_shown_report *rep)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct ws_event_kind *kind = &ws_event_kinds[i];
		enum ws_table table = kind->table;

		if (kind->is_of_recording || !ws_event_has_lane(kind))
			continue;
		for (size_t k = 0; k < ws_report_count_blocks(rep->lanes->report, table); k++) {
			uint64_t min = ws_report_block_info(rep->lanes->report, table, k).time_min;

			first = ws_min(min, first);
		}
	}
	return first != UINT64_MAX ? first : rep->lanes->zero;
}

void ws_put_report_facts(struct ws_text *text, const struct ws_shown_report *rep, size_t number)
{
	const char *base = strrchr(rep->path, '/');

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	ws_put_json_int(text, "id", (int64_t)number);
	ws_put_json_string(text, "name", base ? base + 1 : rep->path);
	ws_put_json_string(text, "path", rep->path);
	ws_put_time(text, "first", rep->lanes, first_event(rep));
	ws_put_time(text, "last", rep->lanes, rep->lanes->last);
	ws_put_json_key(text, "realtime");
	ws_text_printf(text, "\"%" PRId64 "\"", rep->realtime);
	ws_put_json_int(text, "bytes", (int64_t)ws_report_file_size(rep->lanes->report));
	ws_put_json_int(text, "complete", ws_report_is_complete(rep->lanes->report));
	put_meta_facts(text, rep->lanes->report);
	put_diagnostics(text, rep);
	put_losses(text, rep);
	put_output(text, rep);
	put_tables(text, rep->lanes->report);
	put_damage(text, rep->lanes->report);
	ws_text_puts(text, "}");
}
