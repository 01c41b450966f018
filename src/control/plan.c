/* plan.c - see plan.h. */
#include "control/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* USER is what `launch` uses in place of a capture range; PROGRAM and STEPS have options of their
 * own. */
static const struct {
	const char *name;
	bool is_word; /* a value of --capture-range */
} captures[WS_CAPTURES] = {
	[WS_CAPTURE_NONE] = {"none", true},	[WS_CAPTURE_CUDA] = {"cudaProfilerApi", true},
	[WS_CAPTURE_NVTX] = {"nvtx", true},	[WS_CAPTURE_PROGRAM] = {"program", true},
	[WS_CAPTURE_HOTKEY] = {"hotkey", true}, [WS_CAPTURE_STEPS] = {"steps", false},
	[WS_CAPTURE_USER] = {"start", false},
};

static const struct {
	const char *name;
	bool may_count, must_count;
} range_ends[WS_RANGE_ENDS] = {
	[WS_RANGE_END_NONE] = {"none", false, false},
	[WS_RANGE_END_STOP] = {"stop", false, false},
	[WS_RANGE_END_STOP_SHUTDOWN] = {"stop-shutdown", false, false},
	[WS_RANGE_END_REPEAT] = {"repeat", true, false},
	[WS_RANGE_END_REPEAT_SHUTDOWN] = {"repeat-shutdown", true, true},
};

const char *ws_plan_capture_name(enum ws_capture capture)
{
	return captures[capture].name;
}

const char *ws_plan_range_end_name(enum ws_range_end end)
{
	return range_ends[end].name;
}

int ws_plan_read_capture(const char *text, enum ws_capture *capture, struct ws_err *err)
{
	for (int i = 0; i < WS_CAPTURES; i++)
		if (captures[i].is_word && !strcasecmp(text, captures[i].name)) {
			*capture = (enum ws_capture)i;
			return 0;
		}
	return ws_fail(
		err,
		"--capture-range: '%s' is none of none, cudaProfilerApi, nvtx, program, hotkey",
		text);
}

int ws_plan_read_key(const char *name)
{
	char *end;
	long number;

	if ((name[0] != 'F' && name[0] != 'f') || name[1] < '1' || name[1] > '9')
		return 0;
	number = strtol(name + 1, &end, 10);
	return !*end && number <= WS_FUNCTION_KEYS ? (int)number : 0;
}

static int read_count(const char *text, uint32_t *count)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !value || value > UINT32_MAX)
		return -1;
	*count = (uint32_t)value;
	return 0;
}

int ws_plan_read_range_end(const char *text, struct ws_plan *plan, struct ws_err *err)
{
	size_t len = strcspn(text, ":");
	const char *count = text[len] ? text + len + 1 : NULL;
	int found = -1;

	for (int i = 0; i < WS_RANGE_ENDS; i++)
		if (strlen(range_ends[i].name) == len &&
		    !strncasecmp(text, range_ends[i].name, len))
			found = i;
	if (found < 0)
		return ws_fail(err,
			       "--capture-range-end: '%s' is none of none, stop, stop-shutdown, "
			       "repeat[:N], repeat-shutdown:N",
			       text);
	plan->repeats = 0;
	if ((count && !range_ends[found].may_count) || (!count && range_ends[found].must_count) ||
	    (count && read_count(count, &plan->repeats)))
		return ws_fail(
			err,
			"--capture-range-end: '%s': repeat and repeat-shutdown take a number "
			"of ranges from 1, as in repeat:3",
			text);
	plan->range_end = (enum ws_range_end)found;
	return 0;
}

/* Read a number, 0 or more, up to `*end`; -1 when there is none. */
static int read_step(const char *text, const char **end, uint32_t *step)
{
	char *after;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return -1;
	value = strtoul(text, &after, 10);
	*end = after;
	*step = (uint32_t)value;
	return value < UINT32_MAX ? 0 : -1;
}

int ws_plan_read_steps(const char *text, struct ws_plan *plan, struct ws_err *err)
{
	const char *end = text;

	if (!read_step(text, &end, &plan->first_step)) {
		plan->last_step = plan->first_step;
		if (*end == '-' && !*++end)
			plan->last_step = UINT32_MAX;
		else if (*end && read_step(end, &end, &plan->last_step))
			end = "-";
		if (!*end && plan->last_step >= plan->first_step) {
			plan->capture = WS_CAPTURE_STEPS;
			return 0;
		}
	}
	return ws_fail(err,
		       "--steps: '%s' is not a range of steps: 10-19 are ten, 10 is one, 10- all "
		       "from there on",
		       text);
}
