/*
 * unused_messages.c - Python code that makes the texts of log messages which are not written, as
 * their level is off: log.debug(json.dumps(order)) makes the text before debug is called.
 *
 * The source line shows what the work is for. Where messages are written, some samples of such a
 * line show the logging module at it.
 */
#include "analyze/rules/rules.h"
#include "analyze/source_line.h"
#include "analyze/stack_sums.h"
#include "lanes/row_tree.h"

#define LEAST_SHARE 0.1
enum { LEAST_SAMPLES = 50, MOST_LINES = 500 };

struct log_lines {
	struct ws_map known;   /* frame: 1 more than whether its line logs */
	uint64_t until;	       /* files changed after that are not read */
	struct ws_map written; /* functions whose messages are written */
};

static bool is_logging_line(const struct ws_model *model, uint32_t frame, struct log_lines *lines)
{
	static const char *const calls[] = {".debug(",	    ".trace(",	   "log.info(",
					    "logger.info(", "LOG.info(",   "LOGGER.info(",
					    "logging.info", "log.verbose", NULL};
	uint64_t known = ws_map_get(&lines->known, frame, NULL);
	struct ws_code_place place;

	if (!known && lines->known.count < MOST_LINES) {
		place = ws_code_place_frames(model, &frame, 1);
		known = 1 +
			(place.python && place.users &&
			 ws_has_statement_part(ws_report_string(model->report, place.file, NULL),
					       place.line, lines->until, calls));
		ws_map_set(&lines->known, frame, known);
	}
	return known == 2;
}

/* Whether a message is written: by the logging module, another one, or the program's own. */
static bool writes_message(const struct ws_model *model, uint32_t frame)
{
	static const char *const names[] = {"Logger._log", "Logger.handle", "Logger.makeRecord",
					    "Logger.callHandlers"};
	const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);
	const struct ws_place *place = ws_stacks_get_places(model->stacks, info);
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->function);
	const char *origin = ws_stacks_get_origin(model->stacks, function);
	const char *dot = strrchr(function->name, '.'), *name = dot ? dot + 1 : function->name;

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (!strcmp(function->name, names[i]))
			return true;
	if (strstr(origin, "/loguru/") || strstr(origin, "/structlog/"))
		return true;
	return info->kind == WS_FRAME_PYTHON && !strstr(origin, "/logging/") &&
	       (!strcmp(name, "debug") || !strcmp(name, "trace") || !strcmp(name, "info"));
}

/* The outermost frame whose line logs. */
static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	struct log_lines *lines = context;
	size_t at = count;

	while (at && (ws_stacks_get_frame(model->stacks, frames[at - 1])->kind != WS_FRAME_PYTHON ||
		      !is_logging_line(model, frames[at - 1], lines)))
		at--;
	if (!at)
		return 0;
	for (size_t i = 0; i + 1 < at; i++)
		if (writes_message(model, frames[i])) {
			ws_map_set(&lines->written, ws_get_frame_function(model, frames[at - 1]),
				   1);
			return 0;
		}
	return frames[at - 1];
}

static void report_messages(const struct ws_analysis *analysis, uint32_t frame, uint64_t cost,
			    struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_unused_messages, cost, cost);
	struct ws_code_place code = ws_code_place_frames(analysis->model, &frame, 1);
	struct ws_text place = {0};

	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	ws_limit_to_users(analysis, finding, &code);
	finding->title =
		ws_format("%.0f %% of the time goes into making the text of a log message "
			  "that is not written%s",
			  100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"The text is made before the logger sees that the level is off: ask "
		"isEnabledFor(logging.DEBUG) first, hand over objects whose __str__ makes the text "
		"(log.debug(\"%s\", order)), or leave the message out.");
	finding->assumption = ws_strdup("no text is made");
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_text_free(&place);
}

static void check_messages(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct log_lines lines = {.until = (uint64_t)ws_lanes_realtime(model->report, model->to)};
	struct ws_stack_sums sums;

	if (!model->python)
		return;
	ws_stack_sums_make(model, 0, read_stack, &lines, &sums);
	if (sums.count && sums.sums[0].samples >= LEAST_SAMPLES &&
	    !ws_map_get(&lines.written, ws_get_frame_function(model, (uint32_t)sums.sums[0].key),
			NULL)) {
		double share = (double)sums.sums[0].ns / (double)sums.ns;
		uint64_t cost = (uint64_t)((double)ws_analysis_cpu_on_path(analysis) * share);

		if (ws_analysis_share(analysis, cost) >= LEAST_SHARE)
			report_messages(analysis, (uint32_t)sums.sums[0].key, cost, findings);
	}
	ws_stack_sums_free(&sums);
	ws_map_free(&lines.known);
	ws_map_free(&lines.written);
}

const struct ws_rule ws_rule_unused_messages = {
	.name = "unused-messages",
	.title = "Texts of log messages that are not written",
	.about = "10 % of the critical path or more is spent on what Python code works out for a "
		 "log message of the level debug or info, as the source line shows where its file "
		 "is here and unchanged, and no sample of that line shows the logging module "
		 "write a message.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_messages,
};
