/* print_json.c - an analysis for programs: JSON and SARIF. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/print.h"
#include "base/choose.h"
#include "text/json_write.h"

static void put_number(struct ws_text *out, const char *key, double value)
{
	ws_put_json_key(out, key);
	ws_text_printf(out, "%.6g", value);
}

static void put_string_or_null(struct ws_text *out, const char *key, const char *value)
{
	if (value) {
		ws_put_json_string(out, key, value);
		return;
	}
	ws_put_json_key(out, key);
	ws_text_puts(out, "null");
}

static void put_slow_steps(const struct ws_analysis *analysis, struct ws_text *out)
{
	const struct ws_slow_steps *slow = &analysis->slow;

	ws_put_json_int(out, "slow_count", (int64_t)slow->count);
	ws_put_json_key(out, "slow");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < slow->shown; i++) {
		const struct ws_slow_step *step = &slow->steps[i];

		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_int(out, "step", analysis->model->steps.steps[step->step].number);
		ws_put_json_int(out, "ns", (int64_t)step->ns);
		put_string_or_null(out, "more_of", step->more ? ws_name_cause(step->cause) : NULL);
		ws_put_json_int(out, "more_ns", (int64_t)step->more);
		ws_put_json_string(out, "what",
				   ws_report_string(analysis->model->report, step->name, NULL));
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_steps(const struct ws_analysis *analysis, struct ws_text *out)
{
	static const char *const sources[] = {[WS_STEPS_NONE] = "none",
					      [WS_STEPS_MARKED] = "marked",
					      [WS_STEPS_REPEATED] = "repeated"};
	const struct ws_model *model = analysis->model;

	ws_put_json_key(out, "steps");
	ws_text_puts(out, "{");
	ws_put_json_string(out, "source", sources[model->step_source]);
	ws_put_json_int(out, "count", (int64_t)analysis->steps);
	ws_put_json_int(out, "warm_up", (int64_t)model->first_step);
	ws_put_json_key(out, "durations_ns");
	ws_text_puts(out, "[");
	for (size_t i = 0; model->step_source != WS_STEPS_NONE && i < analysis->steps; i++) {
		const struct ws_step *step = &model->steps.steps[model->first_step + i];

		ws_text_printf(out, "%s%" PRIu64, i ? "," : "", step->end - step->start);
	}
	ws_text_puts(out, "]");
	put_slow_steps(analysis, out);
	ws_text_puts(out, "}");
}

static void put_phases(const struct ws_analysis *analysis, struct ws_text *out)
{
	const struct ws_phases *phases = &analysis->phases;

	ws_put_json_key(out, "phases");
	if (!phases->known) {
		ws_text_puts(out, "null");
		return;
	}
	ws_text_puts(out, "{");
	ws_put_json_string(out, "source", phases->marked ? "marked" : "evidence");
	ws_put_json_int(out, "steps", (int64_t)phases->steps);
	ws_put_json_int(out, "total_ns", (int64_t)phases->total);
	ws_put_json_key(out, "ns");
	ws_text_puts(out, "{");
	for (int phase = 0; phase < WS_PHASES; phase++)
		ws_put_json_int(out, ws_name_phase((enum ws_phase)phase),
				(int64_t)phases->ns[phase]);
	ws_text_puts(out, "}");
	ws_put_json_key(out, "gpu_work_ns");
	ws_text_puts(out, "{");
	for (int phase = 0; phase < WS_PHASES; phase++)
		ws_put_json_int(out, ws_name_phase((enum ws_phase)phase),
				(int64_t)phases->gpu_ns[phase]);
	ws_text_puts(out, "}}");
}

static void put_causes(const struct ws_breakdown *breakdown, struct ws_text *out, const char *key)
{
	ws_put_json_key(out, key);
	ws_text_puts(out, "{");
	for (int cause = 0; cause < WS_CAUSES; cause++)
		if (breakdown->by_cause[cause])
			ws_put_json_int(out, ws_name_cause((enum ws_cause)cause),
					(int64_t)breakdown->by_cause[cause]);
	ws_text_puts(out, "}");
}

static void put_path_rows(const struct ws_analysis *analysis, struct ws_text *out)
{
	enum { MOST_ROWS = 50 };

	ws_put_json_key(out, "critical_path_rows");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < analysis->breakdown.count && i < MOST_ROWS; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		struct ws_text what = {0};

		ws_breakdown_put_row(analysis->model, row, &what);
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "cause", ws_name_cause((enum ws_cause)row->cause));
		ws_put_json_string(out, "what", ws_text_or(what.text, ""));
		ws_put_json_int(out, "ns", (int64_t)row->ns);
		ws_put_json_int(out, "pieces", (int64_t)row->pieces);
		ws_text_puts(out, "}");
		ws_text_free(&what);
	}
	ws_text_puts(out, "]");
}

static void put_gpus(const struct ws_analysis *analysis, struct ws_text *out)
{
	ws_put_json_key(out, "gpus");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		const struct ws_gpu_budget *budget = &analysis->gpus[i];
		struct ws_text name = {0};

		ws_analysis_put_gpu(analysis, i, &name);
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "name", name.text);
		ws_put_json_int(out, "computation_ns", (int64_t)budget->compute);
		ws_put_json_int(out, "exposed_communication_ns", (int64_t)budget->exposed_comm);
		ws_put_json_int(out, "exposed_copies_ns", (int64_t)budget->exposed_copies);
		ws_put_json_int(out, "overlapped_ns", (int64_t)budget->overlapped);
		ws_put_json_int(out, "idle_ns", (int64_t)budget->idle_total);
		put_causes(&budget->idle, out, "idle_by_cause_ns");
		ws_text_puts(out, "}");
		ws_text_free(&name);
	}
	ws_text_puts(out, "]");
}

static void put_evidence(const struct ws_analysis_view *view, const struct ws_finding *finding,
			 struct ws_text *out)
{
	uint64_t zero = ws_find_time_zero(view->analysis->model->report);

	ws_put_json_key(out, "evidence");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct ws_evidence *evidence = &finding->evidence[i];

		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "text", evidence->text);
		if (evidence->end) {
			ws_put_json_int(out, "start", (int64_t)(evidence->start - zero));
			ws_put_json_int(out, "end", (int64_t)(evidence->end - zero));
		}
		put_string_or_null(out, "query", evidence->query);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_finding(const struct ws_analysis_view *view, const struct ws_finding *finding,
			struct ws_text *out)
{
	struct ws_text id = {0};
	char *next = NULL;

	if (finding->next)
		next = ws_fill_in_report(finding->next, view->path);
	ws_put_finding_id(finding, &id);
	ws_put_json_comma(out);
	ws_text_puts(out, "\n{");
	ws_put_json_string(out, "id", id.text);
	ws_put_json_string(out, "rule", finding->rule->name);
	ws_put_json_string(out, "severity", ws_name_level(finding->level));
	ws_put_json_string(out, "title", finding->title);
	ws_put_json_int(out, "cost_ns", (int64_t)finding->cost_ns);
	ws_put_json_int(out, "gain_ns", (int64_t)finding->gain_ns);
	put_number(out, "gain_share", ws_analysis_share(view->analysis, finding->gain_ns));
	put_string_or_null(out, "assumption", finding->assumption);
	put_string_or_null(out, "advice", finding->advice);
	put_string_or_null(out, "next", next);
	put_evidence(view, finding, out);
	ws_text_puts(out, "}");
	ws_text_free(&id);
	free(next);
}

static void put_unlooked(const struct ws_findings *findings, struct ws_text *out)
{
	ws_put_json_key(out, "not_looked");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < findings->unlooked_count; i++) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "rule", findings->unlooked[i].rule->name);
		ws_put_json_string(out, "why", findings->unlooked[i].why);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_what_ifs(const struct ws_analysis_view *view, struct ws_text *out)
{
	ws_put_json_key(out, "what_if");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < view->what_if_count; i++) {
		const struct ws_what_if_answer *answer = &view->what_ifs[i];
		const struct ws_what_if *result = &answer->result;

		ws_put_json_comma(out);
		ws_text_puts(out, "\n{");
		ws_put_json_string(out, "change", answer->text);
		ws_put_json_int(out, "now_ns", (int64_t)result->now);
		ws_put_json_int(out, "then_ns", (int64_t)result->then);
		ws_put_json_int(out, "unchanged_ns", (int64_t)result->unchanged);
		ws_put_json_int(out, "steps", (int64_t)result->steps);
		ws_put_json_int(out, "step_now_ns", (int64_t)(result->now / result->steps));
		ws_put_json_int(out, "step_then_ns", (int64_t)(result->then / result->steps));
		ws_put_json_int(out, "changed_ns", (int64_t)result->changed);
		ws_put_json_int(out, "matches", (int64_t)result->matches);
		ws_put_json_string(out, "assumption", answer->assumption);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_checklist(const struct ws_analysis_view *view, struct ws_text *out)
{
	ws_put_json_key(out, "checklist");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < WS_CHECKS; i++) {
		const struct ws_check *check = &view->checklist->checks[i];
		char *next = NULL;

		if (check->next)
			next = ws_fill_in_report(check->next, view->path);
		ws_put_json_comma(out);
		ws_text_puts(out, "\n{");
		ws_put_json_string(out, "list", i < WS_CHECK_POINTS ? "points" : "self-checks");
		ws_put_json_string(out, "question", check->question);
		ws_put_json_string(out, "verdict", ws_name_verdict(check->verdict));
		ws_put_json_string(out, "answer", check->answer);
		put_string_or_null(out, "next", next);
		ws_text_puts(out, "}");
		free(next);
	}
	ws_text_puts(out, "]");
}

void ws_print_analysis_json(const struct ws_analysis_view *view)
{
	struct ws_text out = {0};

	ws_text_puts(&out, "{");
	ws_put_json_int(&out, "version", 1);
	ws_put_json_string(&out, "report", view->path);
	ws_put_json_int(&out, "window_ns", (int64_t)view->analysis->window);
	put_steps(view->analysis, &out);
	put_phases(view->analysis, &out);
	put_causes(&view->analysis->breakdown, &out, "critical_path_by_cause_ns");
	put_path_rows(view->analysis, &out);
	put_gpus(view->analysis, &out);
	ws_put_launches_json(view->analysis, &out);
	put_what_ifs(view, &out);
	ws_put_json_key(&out, "findings");
	ws_text_puts(&out, "[");
	for (size_t i = 0; i < view->findings->count; i++)
		put_finding(view, &view->findings->findings[i], &out);
	ws_text_puts(&out, "]");
	put_unlooked(view->findings, &out);
	if (view->checklist)
		put_checklist(view, &out);
	ws_text_puts(&out, "}\n");
	fwrite(out.text, 1, out.len, view->file);
	ws_text_free(&out);
}

/* ---- SARIF ---- */

static void put_message(struct ws_text *out, const char *key, const char *text)
{
	ws_put_json_key(out, key);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "text", text);
	ws_text_puts(out, "}");
}

static void put_sarif_rules(struct ws_text *out)
{
	ws_put_json_key(out, "rules");
	ws_text_puts(out, "[");
	for (size_t i = 0; ws_rules[i]; i++) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "id", ws_rules[i]->name);
		put_message(out, "shortDescription", ws_rules[i]->title);
		put_message(out, "fullDescription", ws_rules[i]->about);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

/* Appends `path` as a URI: characters that may not stand in one are escaped. */
static void put_uri(struct ws_text *out, const char *path)
{
	struct ws_text uri = {0};

	for (; *path; path++) {
		unsigned char byte = (unsigned char)*path;

		if (byte > ' ' && byte < 0x7f && !strchr("\"%<>\\^`{|}#?[]", byte))
			ws_text_add(&uri, path, 1);
		else
			ws_text_printf(&uri, "%%%02X", byte);
	}
	ws_put_json_string(out, "uri", ws_text_or(uri.text, ""));
	ws_text_free(&uri);
}

/* `path` as seen from a folder that it lies in; else NULL. */
static const char *find_path_within(const char *path, const char *folder)
{
	size_t length = folder ? strlen(folder) : 0;

	if (length < 2 || strncmp(path, folder, length) || path[length] != '/')
		return NULL;
	return path + length + 1;
}

/* A file as code hosts look for it: relative to the folder `started` (or NULL), that the program
 * was started in, or to the one that we run in, where it lies there. */
static void put_artifact(const char *started, struct ws_text *out, const char *path)
{
	const char *within = find_path_within(path, started);
	char *here = getcwd(NULL, 0), *absolute = NULL;

	if (!within)
		within = find_path_within(path, here);
	if (!within && *path != '/')
		within = path;
	ws_text_puts(out, "\"artifactLocation\":{");
	if (within) {
		put_uri(out, within);
		ws_put_json_string(out, "uriBaseId", "%SRCROOT%");
	} else {
		absolute = ws_format("file://%s", path);
		put_uri(out, absolute);
	}
	ws_text_puts(out, "}");
	free(absolute);
	free(here);
}

static void put_file_location(const struct ws_analysis_view *view, const char *path, uint32_t line,
			      struct ws_text *out)
{
	ws_text_puts(out, "{\"physicalLocation\":{");
	put_artifact(ws_find_meta(view->analysis->model->report, "session.directory"), out, path);
	if (line)
		ws_text_printf(out, ",\"region\":{\"startLine\":%u}", line);
	ws_text_puts(out, "}}");
}

/* Where the finding is: in the source, where that is known, with the report as a related file; else
 * in the report. */
static void put_sarif_locations(const struct ws_analysis_view *view,
				const struct ws_finding *finding, struct ws_text *out)
{
	const char *source = ws_report_string(view->analysis->model->report, finding->file, NULL);
	bool known = finding->file && *source && *source != '<';

	ws_put_json_key(out, "locations");
	ws_text_puts(out, "[");
	if (known)
		put_file_location(view, source, finding->line, out);
	else
		put_file_location(view, view->path, 0, out);
	ws_text_puts(out, "]");
	if (!known)
		return;
	ws_put_json_key(out, "relatedLocations");
	ws_text_puts(out, "[");
	put_file_location(view, view->path, 0, out);
	ws_text_puts(out, "]");
}

static const char *const sarif_levels[] = {[WS_LEVEL_OK] = "none",
					   [WS_LEVEL_NOTE] = "note",
					   [WS_LEVEL_WARNING] = "warning",
					   [WS_LEVEL_CRITICAL] = "error"};

static void put_sarif_result(const struct ws_analysis_view *view, const struct ws_finding *finding,
			     struct ws_text *out)
{
	char *text = ws_format("%s. %s", finding->title, ws_text_or(finding->advice, ""));

	ws_put_json_comma(out);
	ws_text_puts(out, "\n{");
	ws_put_json_string(out, "ruleId", finding->rule->name);
	ws_put_json_string(out, "level", sarif_levels[finding->level]);
	put_message(out, "message", text);
	put_sarif_locations(view, finding, out);
	ws_put_json_key(out, "properties");
	ws_text_puts(out, "{");
	ws_put_json_int(out, "cost_ns", (int64_t)finding->cost_ns);
	ws_put_json_int(out, "gain_ns", (int64_t)finding->gain_ns);
	ws_text_puts(out, "}}");
	free(text);
}

/* What a run of SARIF begins with, up to its results. */
static void begin_sarif_run(struct ws_text *out)
{
	ws_text_puts(out, "{\"tool\":{\"driver\":{");
	ws_put_json_string(out, "name", "warpsight");
	ws_put_json_string(out, "version", WS_VERSION);
	put_sarif_rules(out);
	ws_text_puts(out, "}}");
	ws_put_json_key(out, "results");
	ws_text_puts(out, "[");
}

/* The reports of all ranks but the late one, or only that one's. */
static void put_rank_locations(const struct ws_together *together, bool late, struct ws_text *out)
{
	ws_text_puts(out, "[");
	for (size_t i = 0; i < together->count; i++) {
		if ((i == together->late) != late)
			continue;
		ws_put_json_comma(out);
		ws_text_puts(out, "{\"physicalLocation\":{");
		put_artifact(NULL, out, together->ranks[i].path);
		ws_text_puts(out, "}}");
	}
	ws_text_puts(out, "]");
}

static void put_late_rank_result(const struct ws_together *together, struct ws_text *out)
{
	struct ws_text title = {0};
	char *text;

	ws_put_together_title(together, &title);
	text = ws_format("%s. %s", title.text, ws_together_advice);
	ws_text_puts(out, "\n{");
	ws_put_json_string(out, "ruleId", "late-rank");
	ws_put_json_string(out, "level", sarif_levels[together->level]);
	put_message(out, "message", text);
	ws_put_json_key(out, "locations");
	put_rank_locations(together, true, out);
	ws_put_json_key(out, "relatedLocations");
	put_rank_locations(together, false, out);
	ws_put_json_key(out, "properties");
	ws_text_puts(out, "{");
	ws_put_json_int(out, "cost_ns", (int64_t)together->cost);
	ws_text_puts(out, "}}");
	free(text);
	ws_text_free(&title);
}

void ws_print_together_sarif(const struct ws_together *together, FILE *file)
{
	struct ws_text out = {0};

	ws_text_puts(&out, ",\n");
	begin_sarif_run(&out);
	if (together->level != WS_LEVEL_OK)
		put_late_rank_result(together, &out);
	ws_text_puts(&out, "]");
	ws_put_json_key(&out, "properties");
	ws_text_puts(&out, "{");
	ws_put_json_key(&out, "ranks_together");
	ws_put_together_json(together, &out);
	ws_text_puts(&out, "}}\n");
	fwrite(out.text, 1, out.len, file);
	ws_text_free(&out);
}

void ws_print_analysis_sarif(const struct ws_analysis_view *view)
{
	struct ws_text out = {0};

	begin_sarif_run(&out);
	for (size_t i = 0; i < view->findings->count; i++)
		put_sarif_result(view, &view->findings->findings[i], &out);
	ws_text_puts(&out, "]");
	ws_put_json_key(&out, "properties");
	ws_text_puts(&out, "{");
	put_what_ifs(view, &out);
	ws_text_puts(&out, "}}\n");
	fwrite(out.text, 1, out.len, view->file);
	ws_text_free(&out);
}
