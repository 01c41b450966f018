/* print_data.c - a comparison for programs: JSON and CSV. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "compare/print.h"
#include "print/table.h"
#include "text/json_write.h"

static const char *const verdict_words[] = {[WS_CHANGE_SAME] = "no_change",
					    [WS_CHANGE_SLOWER] = "slower",
					    [WS_CHANGE_FASTER] = "faster",
					    [WS_CHANGE_NEW] = "new",
					    [WS_CHANGE_GONE] = "gone"};

/* null where it is not a number. */
static void put_real(struct ws_text *out, const char *key, double value)
{
	ws_put_json_key(out, key);
	if (isfinite(value))
		ws_text_printf(out, "%.6g", value);
	else
		ws_text_puts(out, "null");
}

static void put_pair(struct ws_text *out, const char *key, double base, double fresh)
{
	ws_put_json_key(out, key);
	ws_text_printf(out, "[%.15g,%.15g]", base, fresh);
}

/* ---- JSON ---- */

static void put_run(const struct ws_run_facts *run, struct ws_text *out)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "report", run->path);
	ws_put_json_int(out, "steps", run->step_name ? (int64_t)run->steps : 0);
	ws_put_json_int(out, "window_ns", (int64_t)run->window);
	put_real(out, "waiting_for_cores_share", run->waiting);
	ws_put_json_string(out, "gpus", run->gpus);
	ws_text_puts(out, "}");
}

static void put_runs(const struct ws_comparison *comparison, struct ws_text *out)
{
	static const char *const keys[WS_SIDES] = {"base", "new"};

	for (size_t side = 0, run = 0; side < WS_SIDES; side++) {
		ws_put_json_key(out, keys[side]);
		ws_text_puts(out, "[");
		for (size_t i = 0; i < comparison->counts[side]; i++)
			put_run(&comparison->runs[run++], out);
		ws_text_puts(out, "]");
	}
}

/* The lower end of the interval; not a number where there is none. */
static double find_low(const struct ws_change *change)
{
	if (isfinite(change->high))
		return change->low;
	return NAN;
}

/* Shares are of the base: 0.05 is 5 % more. */
static void put_figures(const struct ws_change *change, struct ws_text *out)
{
	ws_put_json_string(out, "verdict", verdict_words[change->verdict]);
	put_pair(out, "ns", round(change->ns[0]), round(change->ns[1]));
	put_real(out, "change_ns", round(change->ns[1]) - round(change->ns[0]));
	put_real(out, "change", ws_compute_change(change->ns));
	put_real(out, "typical_change", change->change);
	put_real(out, "low", find_low(change));
	put_real(out, "high", change->high);
	put_real(out, "probability", change->judged ? change->probability : NAN);
	put_pair(out, "count", change->count[0], change->count[1]);
}

static void put_item(const struct ws_change *change, struct ws_text *out)
{
	struct ws_text id = {0};

	ws_put_change_id(change, &id);
	ws_put_json_comma(out);
	ws_text_puts(out, "\n{");
	ws_put_json_string(out, "id", id.text);
	ws_put_json_string(out, "kind", ws_item_descs[change->kind].name);
	ws_put_json_string(out, "name", change->name);
	if (change->renamed)
		ws_put_json_string(out, "new_name", change->renamed);
	put_pair(out, "names", (double)change->names[0], (double)change->names[1]);
	put_figures(change, out);
	ws_text_puts(out, "}");
	ws_text_free(&id);
}

static void put_explained(const struct ws_explained_row *row, struct ws_text *out)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "cause", row->cause);
	if (row->what)
		ws_put_json_string(out, "what", row->what);
	ws_put_json_key(out, "ns");
	ws_text_printf(out, "[%" PRId64 ",%" PRId64 "]", row->ns[0], row->ns[1]);
	ws_put_json_int(out, "change_ns", row->ns[1] - row->ns[0]);
	ws_text_puts(out, "}");
}

static void put_explanation(const struct ws_explanation *explanation, struct ws_text *out)
{
	ws_text_puts(out, "{");
	ws_put_json_string(out, "of", explanation->title);
	ws_put_json_key(out, "ns");
	ws_text_printf(out, "[%" PRId64 ",%" PRId64 "]", explanation->total[0],
		       explanation->total[1]);
	ws_put_json_int(out, "change_ns", explanation->total[1] - explanation->total[0]);
	ws_put_json_key(out, "causes");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < explanation->cause_count; i++)
		put_explained(&explanation->causes[i], out);
	ws_text_puts(out, "]");
	ws_put_json_key(out, "rows");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < explanation->count; i++)
		put_explained(&explanation->rows[i], out);
	ws_text_puts(out, "]}");
}

static void put_shifts(const struct ws_comparison *comparison, struct ws_text *out)
{
	ws_put_json_key(out, "common_change");
	ws_text_puts(out, "{");
	for (int kind = 0; kind < WS_ITEM_KINDS; kind++)
		if (comparison->shift[kind] != 0)
			put_real(out, ws_item_descs[kind].name, expm1(comparison->shift[kind]));
	ws_text_puts(out, "}");
}

static void put_gates(const struct ws_gate_findings *gates, struct ws_text *out)
{
	static const char *const words[] = {[WS_GATE_PASS] = "pass",
					    [WS_GATE_UNKNOWN] = "cannot_tell",
					    [WS_GATE_FAIL] = "fail"};

	if (!gates)
		return;
	ws_put_json_string(out, "result", words[gates->result]);
	ws_put_json_key(out, "conditions");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < gates->count; i++) {
		const struct ws_gate_finding *finding = &gates->findings[i];

		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "condition", finding->gate->text);
		ws_put_json_string(out, "name", finding->change->name);
		ws_put_json_string(out, "result", words[finding->result]);
		put_pair(out, "values", finding->measured.values[0], finding->measured.values[1]);
		put_real(out, "change", finding->measured.change);
		put_real(out, "low", finding->measured.low);
		put_real(out, "high", finding->measured.high);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

void ws_put_comparison_json(const struct ws_comparison_view *view, size_t most, struct ws_text *out)
{
	const struct ws_comparison *comparison = view->comparison;
	struct ws_text summary = {0};

	ws_put_comparison_summary(comparison, &summary);
	ws_text_puts(out, "{");
	ws_put_json_int(out, "version", 1);
	ws_put_json_string(out, "summary", summary.text);
	ws_put_json_string(out, "unit", comparison->has_steps ? "step" : "run");
	put_runs(comparison, out);
	put_gates(view->gates, out);
	ws_put_json_key(out, "step");
	ws_text_puts(out, "{");
	put_figures(&comparison->step, out);
	ws_text_puts(out, "}");
	ws_put_json_key(out, "own");
	ws_text_puts(out, "{");
	put_figures(&comparison->own, out);
	ws_text_puts(out, "}");
	ws_put_json_key(out, "explanation");
	put_explanation(&comparison->path, out);
	ws_put_json_key(out, "gpus");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < comparison->gpu_count; i++) {
		ws_put_json_comma(out);
		put_explanation(&comparison->gpus[i], out);
	}
	ws_text_puts(out, "]");
	put_shifts(comparison, out);
	ws_put_json_int(out, "changed", (int64_t)comparison->changed);
	ws_put_json_int(out, "compared", (int64_t)comparison->count);
	ws_put_json_key(out, "items");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < comparison->count && (!most || i < most); i++)
		put_item(&comparison->changes[i], out);
	ws_text_puts(out, "]}");
	ws_text_free(&summary);
}

void ws_print_comparison_json(const struct ws_comparison_view *view)
{
	struct ws_text out = {0};

	ws_put_comparison_json(view, 0, &out);
	ws_text_puts(&out, "\n");
	fwrite(out.text, 1, out.len, view->file);
	ws_text_free(&out);
}

/* ---- CSV ---- */

static const struct ws_column columns[] = {
	{"Verdict", WS_KIND_TEXT},
	{"Kind", WS_KIND_TEXT},
	{"Name", WS_KIND_TEXT},
	{"New Name", WS_KIND_TEXT},
	{"Base Time", WS_KIND_AVERAGE},
	{"New Time", WS_KIND_AVERAGE},
	{"Difference (ns)", WS_KIND_VALUE},
	{"Change", WS_KIND_SHARE},
	{"Typical Change", WS_KIND_SHARE},
	{"Change Low", WS_KIND_SHARE},
	{"Change High", WS_KIND_SHARE},
	{"Probability", WS_KIND_VALUE},
	{"Base Count", WS_KIND_VALUE},
	{"New Count", WS_KIND_VALUE},
	{"Id", WS_KIND_TEXT},
};

static struct ws_cell make_text_cell(const char *text)
{
	return ws_cell_text_if(text != NULL, text, text ? strlen(text) : 0);
}

static struct ws_cell make_share_cell(double share)
{
	return ws_cell_real_if(isfinite(share), 100 * (long double)share);
}

static void print_item(struct ws_printer *printer, const struct ws_change *change, const char *id)
{
	const struct ws_cell cells[] = {
		make_text_cell(verdict_words[change->verdict]),
		make_text_cell(ws_item_descs[change->kind].name),
		make_text_cell(change->name),
		make_text_cell(change->renamed),
		ws_cell_real(change->ns[0]),
		ws_cell_real(change->ns[1]),
		ws_cell_real(round(1000 * (change->ns[1] - change->ns[0])) / 1000),
		make_share_cell(ws_compute_change(change->ns)),
		make_share_cell(change->change),
		make_share_cell(find_low(change)),
		make_share_cell(change->high),
		ws_cell_real_if(change->judged, change->probability),
		ws_cell_real(change->count[0]),
		ws_cell_real(change->count[1]),
		make_text_cell(id),
	};

	ws_print_row(printer, cells);
}

void ws_print_comparison_csv(const struct ws_comparison_view *view)
{
	const struct ws_comparison *comparison = view->comparison;
	struct ws_printer printer = {.file = view->file,
				     .columns = columns,
				     .column_count = WS_COUNT(columns),
				     .unit = ws_find_timeunit("nsec")};

	printer.format = ws_find_format("csv", &printer.args, NULL);
	ws_print_begin(&printer);
	print_item(&printer, &comparison->step, "step");
	print_item(&printer, &comparison->own, "own");
	for (size_t i = 0; i < comparison->count; i++) {
		struct ws_text id = {0};

		ws_put_change_id(&comparison->changes[i], &id);
		print_item(&printer, &comparison->changes[i], id.text);
		ws_text_free(&id);
	}
	ws_print_end(&printer);
}
