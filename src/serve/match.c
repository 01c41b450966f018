/*
 * match.c - searching by name: a plain text anywhere in the name, without regard to case unless
 * asked, or an extended regular expression; or by the whole of a name. Each distinct name is asked
 * once; long names count by their first 4 KiB.
 */
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/text.h"
#include "serve/api.h"

enum { MOST_TEXT = 4096, MOST_PATTERN = 1000 };

struct ws_matcher {
	const struct ws_lanes *l;
	const char *whole; /* of parameter `exact`: what names are, or with `cut` begin with; NULL:
			      a search */
	bool all, is_regex, cut;
	regex_t regex;
	struct ws_map seen;
};

/* Is this the text of a name, as the page was told it; or with `cut` the beginning of that of a
 * longer one? */
static bool is_called(const struct ws_lanes *l, uint32_t name, const char *q, size_t len, bool cut)
{
	struct ws_text text = {0};
	size_t n;
	const char *s = ws_lane_name(l, name, &n);
	bool is;

	ws_text_puts(&text, "");
	ws_text_utf8(&text, s, cut && n > MOST_TEXT ? MOST_TEXT : n);
	is = (cut ? text.len >= len : text.len == len) && !memcmp(text.s, q, len);
	ws_text_free(&text);
	return is;
}

/* A plain text as a regular expression that means just that. */
static char *quoted(const char *s)
{
	struct ws_text t = {0};

	ws_text_puts(&t, "");
	for (; *s; s++) {
		if (strchr("\\^$.[]|()*+?{}", *s))
			ws_text_add(&t, "\\", 1);
		ws_text_add(&t, s, 1);
	}
	return t.s ? t.s : ws_strdup("");
}

struct ws_matcher *ws_matcher_new(const struct ws_call *c, struct ws_err *e)
{
	const char *q = ws_param(c, "q");
	struct ws_matcher *m;
	int64_t re, match_case, exact;
	char *pattern;
	int rc;

	if (!ws_param_int(c, "re", 0, 1, 0, &re, e) ||
	    !ws_param_int(c, "case", 0, 1, 0, &match_case, e) ||
	    !ws_param_int(c, "exact", 0, 2, 0, &exact, e))
		return NULL;
	if (q && strlen(q) > MOST_PATTERN) {
		ws_fail(e, "what is searched for is too long");
		return NULL;
	}
	m = ws_calloc(1, sizeof(*m));
	m->l = c->l;
	m->whole = exact ? q ? q : "" : NULL;
	m->cut = exact == 2;
	m->all = !exact && (!q || !*q);
	if (m->all || exact)
		return m;
	pattern = re ? ws_strdup(q) : quoted(q);
	rc = regcomp(&m->regex, pattern, REG_EXTENDED | REG_NOSUB | (match_case ? 0 : REG_ICASE));
	free(pattern);
	if (rc) {
		char why[200];

		regerror(rc, &m->regex, why, sizeof(why));
		ws_fail(e, "the regular expression cannot be used: %s", why);
		free(m);
		return NULL;
	}
	m->is_regex = true;
	return m;
}

static bool is_found(const struct ws_matcher *m, uint32_t name)
{
	char text[MOST_TEXT + 1];
	size_t n;
	const char *s = ws_lane_name(m->l, name, &n);

	n = n < MOST_TEXT ? n : MOST_TEXT;
	memcpy(text, s, n);
	text[n] = 0;
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	return !regexec(&m->regex, text, 0, NULL, 0);
}

bool ws_matches(struct ws_matcher *m, uint32_t name)
{
	uint64_t v;
	bool known;

	if (m->all)
		return true;
	v = ws_map_get(&m->seen, name, &known);
	if (known)
		return v;
	v = m->whole ? is_called(m->l, name, m->whole, strlen(m->whole), m->cut)
		     : is_found(m, name);
	ws_map_set(&m->seen, name, v);
	return v;
}

void ws_matcher_free(struct ws_matcher *m)
{
	if (!m)
		return;
	if (m->is_regex)
		regfree(&m->regex);
	ws_map_free(&m->seen);
	free(m);
}

/* ---- which numbers a name has ---- */

enum { RECENT = 4096, MOST_IDS = 10000 };

struct ids {
	struct ws_call *c;
	const char *q;
	size_t len;
	bool cut; /* `q` is the beginning of a longer name */
	struct ws_map seen;
	uint32_t recent[RECENT];
	size_t n;
};

static void take_name(struct ids *x, uint32_t name)
{
	uint32_t *recent = &x->recent[(name * 0x9e3779b1u) % RECENT];
	bool known;

	if (*recent == name + 1)
		return;
	*recent = name + 1;
	ws_map_get(&x->seen, name, &known);
	if (known)
		return;
	ws_map_set(&x->seen, name, 1);
	if (x->n == MOST_IDS || !is_called(x->c->l, name, x->q, x->len, x->cut))
		return;
	x->n++;
	ws_put_comma(x->c->out);
	ws_text_printf(x->c->out, "%" PRIu32, name);
}

/* All numbers under which tiles speak of the name `q`: a text that was interned twice has two.
 * `cut`: of all that begin so. */
int ws_api_names(struct ws_call *c, struct ws_err *e)
{
	const char *q = ws_param(c, "q");
	struct ids x = {.c = c, .q = q ? q : "", .len = q ? strlen(q) : 0};
	int64_t cut;

	if (!ws_param_int(c, "cut", 0, 1, 0, &cut, e))
		return 400;
	x.cut = cut;
	ws_text_puts(c->out, "{\"ids\":[");
	for (size_t i = 0; i < c->l->n; i++) {
		const struct ws_lane *lane = c->l->lane[i];

		if (!ws_lane_ready(lane) || ws_lane_descs[lane->kind].counter)
			continue;
		for (uint32_t k = 0; k < lane->levels; k++)
			for (uint32_t j = 0; j < lane->level[k].n; j++)
				take_name(&x, lane->level[k].name[j]);
	}
	ws_text_puts(c->out, "]}");
	ws_map_free(&x.seen);
	return 0;
}
