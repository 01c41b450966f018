/*
 * ranges.c - operators from NVTX ranges, for reports that hold no operators of a profiler.
 *
 * torch.autograd.profiler.emit_nvtx writes each operator as a push/pop range: "aten::mm, seq = 3,
 * op_id = 17, sizes = [[2, 3], [3, 4]]". The name ends where the first of these facts begins; sizes
 * are the shapes of the inputs. Ranges without any are annotations. GPU work belongs to the
 * innermost range around the call that launched it, on the thread of the call.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/ops.h"
#include "query/correlate.h"
#include "query/enclose.h"
#include "query/steps.h"

bool ws_are_ops_from_ranges(const struct ws_ops *ops)
{
	return !ws_report_count_rows(ops->report, WS_TABLE_op) &&
	       ws_report_count_rows(ops->report, WS_TABLE_nvtx);
}

uint32_t ws_add_op_text(struct ws_ops *ops, const char *text, size_t length)
{
	ops->scratch.len = 0;
	ws_text_add(&ops->scratch, text, length);
	ws_text_add(&ops->scratch, "", 1); /* texts end with a NUL, as the report's do */
	return ws_report_string_count(ops->report) + 1 +
	       ws_number_text(&ops->texts, ops->scratch.text, length + 1);
}

const char *ws_get_op_text(const struct ws_ops *ops, uint32_t id)
{
	uint32_t strings = ws_report_string_count(ops->report);
	size_t length;

	if (id > strings && id - strings <= ops->texts.count)
		return ws_get_numbered_text(&ops->texts, id - strings - 1, &length);
	return ws_report_string(ops->report, id, NULL);
}

/* Where the facts about an operator begin in the text of its range; NULL when it has none. */
static const char *find_facts(const char *text)
{
	static const char *const facts[] = {
		", seq = ", ", stashed seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
	const char *first = NULL;

	for (size_t i = 0; i < WS_COUNT(facts); i++) {
		const char *at = strstr(text, facts[i]);

		if (at && (!first || at < first))
			first = at;
	}
	return first;
}

/* The number of the text "[[2, 3], [3, 4]]" in the facts, up to the bracket that closes the first;
 * 0 when there is none. */
static uint32_t find_shapes(struct ws_ops *ops, const char *facts)
{
	const char *from = strstr(facts, ", sizes = ");
	size_t length = 0;
	int depth = 0;

	if (!from || *(from += strlen(", sizes = ")) != '[')
		return 0;
	do
		depth += (from[length] == '[') - (from[length] == ']');
	while (from[length++] && depth);
	if (depth)
		return 0;
	return ws_add_op_text(ops, from, length);
}

static void add_range_event(struct ws_ops *ops, const struct ws_ranges *ranges, uint32_t i)
{
	uint32_t thread = (uint32_t)ws_range_get(ranges, i, ws_nvtx_thread),
		 id = (uint32_t)ws_range_get(ranges, i, ws_nvtx_text);
	uint32_t process = ws_find_thread(ops->who, thread)->process;
	const char *text = ws_report_string(ops->report, id, NULL), *facts = find_facts(text);
	uint64_t start = ws_range_get(ranges, i, ws_nvtx_start),
		 end = ws_range_get(ranges, i, ws_nvtx_end);
	struct ws_ops_event *event;

	if (ws_range_get(ranges, i, ws_nvtx_type) != WS_NVTX_PUSHPOP || end == WS_NO_TIME ||
	    !ws_is_in_op_steps(ops, process, start))
		return;
	event = ws_ops_add_event(ops);
	event->start = start;
	event->end = end;
	event->thread = thread;
	event->process = process;
	if (facts) {
		event->kind = WS_OPS_CPU;
		event->name = ws_add_op_text(ops, text, (size_t)(facts - text));
		event->shapes = find_shapes(ops, facts);
	} else {
		event->kind = WS_OPS_ANNOTATION;
		event->name = ws_get_op_name_key(ops, text, id);
	}
	event->device_own = i + 1; /* the number that GPU work is linked to, see load.c */
	if (ws_ops_is_hidden(ws_get_op_name(ops, event->name)))
		ops->event_count--;
}

/* Link each call to the number of the innermost push/pop range around it. */
static void link_calls_to_ranges(struct ws_ops *ops, const struct ws_ranges *ranges,
				 const struct ws_calls *calls, const struct ws_enclose *enclose,
				 struct ws_map *links)
{
	for (size_t i = 0; i < calls->rows.rows; i++) {
		uint32_t node = enclose->node_of_call[i],
			 thread = (uint32_t)calls->rows.col[ws_cuda_api_thread][i];
		uint64_t correlation = calls->rows.col[ws_cuda_api_correlation][i];

		while (node && ws_range_get(ranges, enclose->node[node].range, ws_nvtx_type) !=
				       WS_NVTX_PUSHPOP)
			node = enclose->node[node].parent;
		if (node && correlation != WS_NO_U32)
			ws_map_set(links,
				   ws_make_op_owner_key(ws_find_thread(ops->who, thread)->process,
							correlation),
				   enclose->node[node].range + 1);
	}
}

int ws_ops_load_ranges(struct ws_ops *ops, struct ws_map *links, struct ws_err *err)
{
	struct ws_ranges ranges = {0};
	struct ws_calls calls = {0};
	struct ws_enclose enclose = {0};
	int status = ws_ranges_load(ops->report, &ranges, err);

	if (!status)
		status = ws_calls_load(ops->report, ops->who, 0, &calls, err);
	if (!status)
		status = ws_enclose_calls(&ranges, &calls, &enclose, err);
	for (uint32_t i = 0; !status && i < ranges.count; i++)
		add_range_event(ops, &ranges, i);
	if (!status)
		link_calls_to_ranges(ops, &ranges, &calls, &enclose, links);
	ops->damaged += ranges.rows.damaged + calls.rows.damaged;
	ws_enclose_free(&enclose);
	ws_calls_free(&calls);
	ws_ranges_free(&ranges);
	return status;
}

/* The number at the end of a step's name; without one, that of the step in its process. */
static uint64_t get_step_number(const struct ws_ops *ops, const struct ws_step *step)
{
	size_t text_length, length;
	const char *text = ws_report_string(ops->report, step->text, &text_length);

	for (length = text_length; length && text[length - 1] >= '0' && text[length - 1] <= '9';)
		length--;
	if (length == text_length)
		return step->number;
	return strtoull(text + length, NULL, 10);
}

int ws_ops_load_range_steps(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_steps steps = {0};
	int status = ws_steps_load(ops->report, ops->who, NULL, &steps, err);

	for (size_t i = 0; !status && i < steps.count; i++) {
		const struct ws_step *step = &steps.steps[i];

		ws_grow(ops->steps, ops->step_capacity, ops->step_count + 1);
		ops->steps[ops->step_count++] =
			(struct ws_ops_step){.start = step->start,
					     .end = step->end,
					     .number = get_step_number(ops, step),
					     .process = step->process};
	}
	ws_steps_free(&steps);
	return status;
}
