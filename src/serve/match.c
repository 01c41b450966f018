/*
 * match.c - searching by name: a plain text anywhere in the name, without regard to case unless
 * asked, or an extended regular expression; or by the whole of a name. Each distinct name is asked
 * once; long names count by their first 4 KiB.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "base/choose.h"
#include "text/pattern.h"
#include "text/text.h"
#include "serve/api.h"

enum { MOST_TEXT = 4096, MOST_PATTERN = 1000, MOST_SECONDS = 10 };

struct ws_matcher {
	const struct ws_lanes *lanes;
	const char *whole; /* of parameter `exact`: what names are, or with `cut` begin with; NULL:
			      a search */
	bool all, is_regex, cut;
	int64_t form; /* names of this form alone, whatever else; -1: all */
	struct ws_pattern regex;
	uint64_t deadline; /* ns of the clock that never goes back */
	bool expired;
	struct ws_map seen;
};

/* Whether this is the text of a name as it was sent to the page or, with `cut`, the beginning of
 * that of a longer one. */
static bool is_called(const struct ws_lanes *lanes, uint32_t name, const char *q, size_t len,
		      bool cut)
{
	struct ws_text text = {0};
	size_t n;
	const char *word = ws_lane_name(lanes, name, &n);
	bool is;

	ws_text_puts(&text, "");
	ws_put_valid_utf8(&text, word, cut && n > MOST_TEXT ? MOST_TEXT : n);
	is = (cut ? text.len >= len : text.len == len) && !memcmp(text.text, q, len);
	ws_text_free(&text);
	return is;
}

/* A plain text as a regular expression that means just that. */
static char *quote_pattern(const char *text)
{
	struct ws_text out = {0};

	ws_text_puts(&out, "");
	for (; *text; text++) {
		if (strchr("\\^$.[]|()*+?{}", *text))
			ws_text_add(&out, "\\", 1);
		ws_text_add(&out, text, 1);
	}
	return out.text ? out.text : ws_strdup("");
}

static uint64_t read_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct ws_matcher *ws_make_matcher(const struct ws_api_call *call, struct ws_err *err)
{
	const char *q = ws_param(call, "q");
	struct ws_matcher *matcher;
	int64_t re, match_case, exact, form;
	struct ws_err reason;
	char *pattern;
	int rc;

	if (!ws_param_int(call, "re", ws_make_range(0, 1, 0), &re, err) ||
	    !ws_param_int(call, "case", ws_make_range(0, 1, 0), &match_case, err) ||
	    !ws_param_int(call, "exact", ws_make_range(0, 2, 0), &exact, err) ||
	    !ws_param_int(call, "form", ws_make_range(0, UINT32_MAX, -1), &form, err))
		return NULL;
	if (q && strlen(q) > MOST_PATTERN) {
		ws_fail(err, "what is searched for is too long");
		return NULL;
	}
	matcher = ws_calloc(1, sizeof(*matcher));
	matcher->lanes = call->lanes;
	matcher->form = form;
	if (form >= 0)
		matcher->form = ws_lane_fold_key(call->lanes, (uint32_t)form);
	matcher->whole = exact ? q ? q : "" : NULL;
	matcher->cut = exact == 2;
	matcher->all = !exact && (!q || !*q);
	if (matcher->all || exact)
		return matcher;
	pattern = re ? ws_strdup(q) : quote_pattern(q);
	rc = ws_compile_pattern(&matcher->regex, pattern,
				REG_EXTENDED | (match_case ? 0 : REG_ICASE), &reason);
	free(pattern);
	if (rc) {
		ws_fail(err, "the regular expression cannot be used: %s", reason.msg);
		free(matcher);
		return NULL;
	}
	matcher->deadline = read_clock() + (uint64_t)MOST_SECONDS * 1000000000;
	matcher->is_regex = true;
	return matcher;
}

static bool is_found(struct ws_matcher *matcher, uint32_t name)
{
	char text[MOST_TEXT + 1];
	size_t n;
	const char *word = ws_lane_name(matcher->lanes, name, &n);

	n = ws_min(n, MOST_TEXT);
	memcpy(text, word, n);
	text[n] = 0;
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	return ws_match_pattern(&matcher->regex, text);
}

bool ws_match_name(struct ws_matcher *matcher, uint32_t name)
{
	uint64_t v;
	bool known;

	if (matcher->form >= 0 && ws_lane_fold_key(matcher->lanes, name) != matcher->form)
		return false;
	if (matcher->all)
		return true;
	v = ws_map_get(&matcher->seen, name, &known);
	if (known)
		return v;
	if (matcher->is_regex && !matcher->expired)
		matcher->expired = read_clock() > matcher->deadline;
	if (matcher->expired)
		return false;
	v = matcher->whole ? is_called(matcher->lanes, name, matcher->whole, strlen(matcher->whole),
				       matcher->cut)
			   : is_found(matcher, name);
	ws_map_set(&matcher->seen, name, v);
	return v;
}

bool ws_is_matcher_expired(const struct ws_matcher *matcher, struct ws_err *err)
{
	if (matcher->expired)
		ws_fail(err,
			"the search was stopped after %d seconds: the regular expression is too "
			"hard for so many names",
			MOST_SECONDS);
	return matcher->expired;
}

void ws_matcher_free(struct ws_matcher *matcher)
{
	if (!matcher)
		return;
	if (matcher->is_regex)
		ws_free_pattern(&matcher->regex);
	ws_map_free(&matcher->seen);
	free(matcher);
}

/* ---- which numbers a name has ---- */

enum { RECENT = 4096, MOST_IDS = 10000 };

struct ids {
	struct ws_api_call *call;
	const char *q;
	size_t len;
	bool cut; /* `q` is the beginning of a longer name */
	struct ws_map seen;
	uint32_t recent[RECENT];
	size_t n;
};

static void add_name(struct ids *ids, uint32_t name)
{
	uint32_t *recent = &ids->recent[(name * 0x9e3779b1u) % RECENT];
	bool known;

	if (*recent == name + 1)
		return;
	*recent = name + 1;
	ws_map_get(&ids->seen, name, &known);
	if (known)
		return;
	ws_map_set(&ids->seen, name, 1);
	if (ids->n == MOST_IDS || !is_called(ids->call->lanes, name, ids->q, ids->len, ids->cut))
		return;
	ids->n++;
	ws_put_json_comma(ids->call->out);
	ws_text_printf(ids->call->out, "%" PRIu32, name);
}

/* All numbers under which tiles speak of the name `q`: a text that was interned twice has two.
 * `cut`: of all that begin so. */
int ws_api_names(struct ws_api_call *call, struct ws_err *err)
{
	const char *q = ws_param(call, "q");
	struct ids ids = {.call = call, .q = ws_text_or(q, ""), .len = q ? strlen(q) : 0};
	int64_t cut;

	if (!ws_param_int(call, "cut", ws_make_range(0, 1, 0), &cut, err))
		return 400;
	ids.cut = cut;
	ws_text_puts(call->out, "{\"ids\":[");
	for (size_t i = 0; i < call->lanes->n; i++) {
		const struct ws_lane *lane = call->lanes->lane[i];

		if (!ws_lane_ready(lane) || ws_lane_descs[lane->kind].counter)
			continue;
		for (uint32_t k = 0; k < lane->levels; k++)
			for (uint32_t j = 0; j < lane->level[k].n; j++)
				add_name(&ids, lane->level[k].name[j]);
	}
	ws_text_puts(call->out, "]}");
	ws_map_free(&ids.seen);
	return 0;
}
