/* pattern.c - see pattern.h. */
#include "text/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

/* ---- size ---- */

enum {
	ENOUGH = 1 << 20,   /* larger sizes are not distinguished */
	MOST_NESTING = 100, /* of parentheses */
	/* Characters times size after which states are dropped: some tens of megabytes of them. */
	MOST_WORK = 1 << 22,
};

struct measurer {
	const char *at;
	bool extended, has_reference;
};

/* Whether the text goes on with the operator `op`, which basic expressions write with a backslash.
 */
static bool is_operator(const struct measurer *measurer, char op)
{
	if (measurer->extended)
		return *measurer->at == op;
	return measurer->at[0] == '\\' && measurer->at[1] == op;
}

static void skip_operator(struct measurer *measurer)
{
	measurer->at += 2 - measurer->extended;
}

/* Go behind a bracket expression, which begins at the position. */
static void skip_bracket(struct measurer *measurer)
{
	const char *at = measurer->at + 1;

	at += *at == '^';
	at += *at == ']';
	while (*at && *at != ']') {
		const char *end = NULL;

		if (*at == '[' && at[1] && strchr(".:=", at[1]))
			end = strstr(at + 2, (char[]){at[1], ']', 0});
		at = end ? end + 2 : at + 1;
	}
	measurer->at = at + (*at == ']');
}

/* Skip repetitions; returns how often they repeat what precedes them. */
static size_t measure_repetition(struct measurer *measurer)
{
	size_t times = 1;

	for (;;) {
		if (is_operator(measurer, '{')) {
			size_t from, to;
			char *end;

			skip_operator(measurer);
			from = to = strtoul(measurer->at, &end, 10);
			if (*end == ',')
				to = strtoul(end + 1, &end, 10);
			measurer->at = end;
			if (is_operator(measurer, '}'))
				skip_operator(measurer);
			from = ws_min(ws_max(from + 1, to), (size_t)ENOUGH);
			times = ws_min(times * from, (size_t)ENOUGH);
		} else if (*measurer->at == '*' || is_operator(measurer, '+') ||
			   is_operator(measurer, '?')) {
			measurer->at += 1 + (*measurer->at == '\\');
		} else {
			return times;
		}
	}
}

static size_t measure_expression(struct measurer *measurer, unsigned depth);

static size_t measure_atom(struct measurer *measurer, unsigned depth)
{
	size_t size = 1;

	if (is_operator(measurer, '(')) {
		skip_operator(measurer);
		if (depth >= MOST_NESTING)
			return ENOUGH;
		size = measure_expression(measurer, depth + 1) + 2;
		if (is_operator(measurer, ')'))
			skip_operator(measurer);
	} else if (*measurer->at == '[') {
		skip_bracket(measurer);
	} else if (*measurer->at == '\\' && measurer->at[1]) {
		measurer->has_reference |= measurer->at[1] >= '1' && measurer->at[1] <= '9';
		measurer->at += 2;
	} else {
		measurer->at++;
	}
	return size;
}

/* The size of what is up to the closing parenthesis, or to the end at the outside. */
static size_t measure_expression(struct measurer *measurer, unsigned depth)
{
	size_t size = 0;

	while (*measurer->at && !(depth && is_operator(measurer, ')'))) {
		size_t atom = measure_atom(measurer, depth);

		atom = ws_min(atom, (size_t)ENOUGH) * measure_repetition(measurer);
		size = ws_min(size + atom, (size_t)ENOUGH);
		if (depth >= MOST_NESTING)
			break;
	}
	return size;
}

size_t ws_measure_pattern(const char *text, bool extended)
{
	struct measurer measurer = {.at = text, .extended = extended};
	size_t size = measure_expression(&measurer, 0);

	if (measurer.has_reference)
		return SIZE_MAX;
	return size;
}

/* ---- compiling and matching ---- */

static int compile(struct ws_pattern *pattern, const char *text, struct ws_err *err)
{
	int rc = regcomp(&pattern->regex, text, pattern->flags);
	char reason[200];

	if (!rc)
		return 0;
	regerror(rc, &pattern->regex, reason, sizeof(reason));
	return ws_fail(err, "%s", reason);
}

int ws_compile_pattern(struct ws_pattern *pattern, const char *text, int flags, struct ws_err *err)
{
	size_t size = ws_measure_pattern(text, flags & REG_EXTENDED);

	*pattern = (struct ws_pattern){.size = size, .flags = flags | REG_NOSUB};
	if (size == SIZE_MAX)
		return ws_fail(err, "back-references such as \\1 are not understood");
	if (size > WS_MOST_PATTERN_SIZE)
		return ws_fail(err,
			       "it is too large: with its repetitions written out it has more than "
			       "%d characters",
			       WS_MOST_PATTERN_SIZE);
	if (compile(pattern, text, err) < 0) /* as it stands, so that the reason is the user's */
		return -1;
	regfree(&pattern->regex);
	/* From the start of the text only, which is then read once and not from each character on.
	 */
	pattern->text = ws_format(flags & REG_EXTENDED ? "^.*(%s)" : "^.*\\(%s\\)", text);
	if (compile(pattern, pattern->text, err) == 0)
		return 0;
	free(pattern->text);
	return -1;
}

bool ws_match_pattern(struct ws_pattern *pattern, const char *text)
{
	bool found = !regexec(&pattern->regex, text, 0, NULL, 0);

	pattern->work += (uint64_t)(strlen(text) + 1) * (pattern->size + 1);
	if (pattern->work > MOST_WORK) {
		regfree(&pattern->regex);
		pattern->work = 0;
		if (compile(pattern, pattern->text, NULL) < 0) {
			ws_say("out of memory");
			ws_give_up_for_memory();
		}
	}
	return found;
}

void ws_free_pattern(struct ws_pattern *pattern)
{
	regfree(&pattern->regex);
	free(pattern->text);
	pattern->text = NULL;
}
