/* gate.c - see gate.h. */
#include "compare/gate.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "text/suggest.h"

const char *ws_name_gate_result(enum ws_gate_result result)
{
	static const char *const names[] = {[WS_GATE_PASS] = "pass",
					    [WS_GATE_UNKNOWN] = "cannot tell",
					    [WS_GATE_FAIL] = "fail"};

	return names[result];
}

/* ---- reading a condition ---- */

static const struct {
	const char *name;
	double factor;
	bool relative;
} units[] = {{"%", 0.01, true},	 {"ns", 1, false},  {"us", 1e3, false},
	     {"ms", 1e6, false}, {"s", 1e9, false}, {"", 1, false}};

static int parse_limit(const char *text, struct ws_gate *gate, struct ws_err *err)
{
	char *end;
	double number = strtod(text, &end);

	while (isspace((unsigned char)*end))
		end++;
	for (size_t i = 0; i < WS_COUNT(units); i++) {
		if (strcmp(end, units[i].name))
			continue;
		gate->relative = units[i].relative;
		gate->limit = number * units[i].factor;
		if (!*end && gate->measure != WS_MEASURE_COUNT)
			break;
		if (*end && !gate->relative && gate->measure == WS_MEASURE_COUNT)
			break;
		return 0;
	}
	return ws_fail(err,
		       "'%s': the limit is a number and %%, ns, us, ms or s (%% or nothing for a "
		       "count), such as 3%%",
		       gate->text);
}

/* The comparison sign: the last one that a number follows, since names have < and > in them too. */
static const char *find_sign(const char *text)
{
	const char *sign = NULL;

	for (const char *at = text; *at; at++) {
		const char *number = at + 1;
		char *end;

		if (*at != '<' && *at != '>')
			continue;
		while (isspace((unsigned char)*number))
			number++;
		if (isalpha((unsigned char)*number))
			continue;
		(void)strtod(number, &end);
		if (end > number)
			sign = at;
	}
	return sign;
}

/* Removes the next word from the start of `*text`, if it is `word`. */
static bool take_word(const char **text, const char *end, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(end - *text) < length || strncmp(*text, word, length) ||
	    (*text + length < end && !isspace((unsigned char)(*text)[length])))
		return false;
	*text += length;
	while (*text < end && isspace((unsigned char)**text))
		(*text)++;
	return true;
}

static bool take_kind(const char **text, const char *end, struct ws_gate *gate)
{
	if (take_word(text, end, "total")) {
		gate->total = true;
		return true;
	}
	for (int kind = 0; kind < WS_ITEM_KINDS; kind++)
		if (take_word(text, end, ws_item_descs[kind].name)) {
			gate->kind = (enum ws_item_kind)kind;
			return true;
		}
	return false;
}

static int parse_metric(const char *text, const char *end, struct ws_gate *gate, struct ws_err *err)
{
	static const char *const measures[] = {[WS_MEASURE_TIME] = "time",
					       [WS_MEASURE_COUNT] = "count",
					       [WS_MEASURE_MEAN] = "mean"};
	bool named;

	for (size_t i = 0; i < WS_COUNT(measures); i++)
		if (take_word(&text, end, measures[i])) {
			gate->measure = (enum ws_measure)i;
			break;
		}
	if (!take_kind(&text, end, gate))
		return ws_fail(
			err,
			"'%s': name step, own, total, or one of range, kernel, copy, api, os, "
			"operator, python, function and a name behind it",
			gate->text);
	named = gate->kind != WS_ITEM_STEP && gate->kind != WS_ITEM_OWN;
	if (named != (text < end))
		return ws_fail(err,
			       named ? "'%s': the name is missing behind %s"
				     : "'%s': nothing may stand behind %s",
			       gate->text, gate->total ? "total" : ws_item_descs[gate->kind].name);
	if (!named && gate->measure != WS_MEASURE_TIME)
		return ws_fail(err, "'%s': of steps only the time is compared", gate->text);
	if (named)
		gate->name = ws_strndup(text, (size_t)(end - text));
	return 0;
}

int ws_gate_parse(const char *text, struct ws_gate *gate, struct ws_err *err)
{
	const char *sign, *end;

	while (isspace((unsigned char)*text))
		text++;
	*gate = (struct ws_gate){.text = ws_strdup(text), .kind = WS_ITEM_STEP};
	sign = find_sign(text);
	if (!sign)
		return ws_fail(err, "'%s' is no condition: write it as step>3%%", gate->text);
	for (end = sign; end > text && isspace((unsigned char)end[-1]);)
		end--;
	gate->below = *sign == '<';
	if (parse_metric(text, end, gate, err))
		return -1;
	return parse_limit(sign + 1, gate, err);
}

void ws_gate_free(struct ws_gate *gate)
{
	free(gate->text);
	free(gate->name);
	memset(gate, 0, sizeof(*gate));
}

/* ---- which items ---- */

enum fit { FIT_NOT, FIT_WORD, FIT_NAME };

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *name, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = name; (at = strstr(at, word)); at++)
		if ((at == name || !is_word(at[-1])) && !is_word(at[length]))
			return true;
	return false;
}

static enum fit fit_text(const char *name, const char *pattern)
{
	if (!name)
		return FIT_NOT;
	if (!strcmp(name, pattern) ||
	    (strpbrk(pattern, "*?") && !fnmatch(pattern, name, FNM_NOESCAPE)))
		return FIT_NAME;
	if (has_word(name, pattern))
		return FIT_WORD;
	return FIT_NOT;
}

static enum fit fit_change(const struct ws_gate *gate, const struct ws_change *change)
{
	if (change->kind != gate->kind)
		return FIT_NOT;
	return ws_max(fit_text(change->name, gate->name), fit_text(change->renamed, gate->name));
}

/* ---- judging ---- */

static enum ws_gate_result judge_limit(const struct ws_gate *gate,
				       const struct ws_measured *measured)
{
	double change = measured->change, low = measured->low, high = measured->high,
	       limit = gate->limit;

	if (!gate->relative) {
		change *= measured->values[0];
		low *= measured->values[0];
		high *= measured->values[0];
	}
	if (gate->below) { /* the mirror image */
		double other = -low;

		change = -change;
		low = -high;
		high = other;
		limit = -limit;
	}
	if (change > limit)
		return low > 0 || low > limit ? WS_GATE_FAIL : WS_GATE_UNKNOWN;
	if (high <= limit || (high - low) / 2 <= fabs(limit))
		return WS_GATE_PASS;
	return WS_GATE_UNKNOWN;
}

/* What one side lacks entirely has certainly changed, unless that may be chance. */
static void judge_missing(struct ws_gate_finding *finding)
{
	const double certain = 0.01;
	struct ws_measured *measured = &finding->measured;

	measured->low = measured->high = measured->change = ws_compute_change(measured->values);
	if (finding->gate->relative || measured->values[0] > 0)
		finding->result = judge_limit(finding->gate, measured);
	else if ((measured->values[1] > finding->gate->limit) != finding->gate->below)
		finding->result = WS_GATE_FAIL;
	if (finding->result == WS_GATE_FAIL && finding->change->judged &&
	    finding->change->probability > certain)
		finding->result = WS_GATE_UNKNOWN;
}

static void measure_total(const struct ws_comparison *comparison, struct ws_measured *measured)
{
	double by_step = ws_compute_change(measured->values), ratio;

	measured->values[0] = measured->values[1] = 0;
	for (size_t i = 0; i < comparison->run_count; i++) {
		size_t side = i >= comparison->counts[0];

		measured->values[side] +=
			(double)comparison->runs[i].window / (double)comparison->counts[side];
	}
	measured->change = ws_compute_change(measured->values);
	ratio = (1 + measured->change) / (1 + by_step);
	measured->low = (1 + measured->low) * ratio - 1;
	measured->high = (1 + measured->high) * ratio - 1;
}

static void add_finding(const struct ws_gate *gate, const struct ws_comparison *comparison,
			const struct ws_change *change, struct ws_gate_findings *findings)
{
	struct ws_gate_finding *finding;

	ws_grow(findings->findings, findings->cap, findings->count + 1);
	finding = &findings->findings[findings->count++];
	*finding = (struct ws_gate_finding){.gate = gate, .change = change};
	ws_measure_change(comparison, change, gate->measure, &finding->measured);
	if (gate->total)
		measure_total(comparison, &finding->measured);
	if (finding->measured.values[0] <= 0 || finding->measured.values[1] <= 0)
		judge_missing(finding);
	else
		finding->result = judge_limit(gate, &finding->measured);
	findings->result = ws_max(findings->result, finding->result);
}

static int refuse_name(const struct ws_gate *gate, const struct ws_comparison *comparison,
		       struct ws_err *err)
{
	const char *kind = ws_item_descs[gate->kind].name;
	struct ws_nearest near = {.word = gate->name};

	for (size_t i = 0; i < comparison->count; i++)
		if (comparison->changes[i].kind == gate->kind)
			ws_try_name(&near, comparison->changes[i].name,
				    strlen(comparison->changes[i].name));
	if (ws_has_near_name(&near))
		return ws_fail(err, "'%s': neither side has a %s '%s'; did you mean '%.*s'?",
			       gate->text, kind, gate->name, (int)near.best_len, near.best);
	return ws_fail(err, "'%s': neither side has a %s '%s'", gate->text, kind, gate->name);
}

int ws_gate_judge(const struct ws_gate *gate, const struct ws_comparison *comparison,
		  struct ws_gate_findings *findings, struct ws_err *err)
{
	enum fit best = FIT_NOT;

	if (!gate->name) {
		if (!gate->total && !comparison->has_steps)
			return ws_fail(err,
				       "'%s': the runs have no steps; name them with --step, or "
				       "compare the whole runs ('total>3%%')",
				       gate->text);
		if (gate->kind == WS_ITEM_OWN)
			add_finding(gate, comparison, &comparison->own, findings);
		else
			add_finding(gate, comparison, &comparison->step, findings);
		return 0;
	}
	for (size_t i = 0; i < comparison->count; i++)
		best = ws_max(best, fit_change(gate, &comparison->changes[i]));
	if (best == FIT_NOT)
		return refuse_name(gate, comparison, err);
	for (size_t i = 0; i < comparison->count; i++)
		if (fit_change(gate, &comparison->changes[i]) == best)
			add_finding(gate, comparison, &comparison->changes[i], findings);
	return 0;
}

void ws_gate_findings_free(struct ws_gate_findings *findings)
{
	free(findings->findings);
	memset(findings, 0, sizeof(*findings));
}
