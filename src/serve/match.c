/*
 * match.c - searching by name: a plain text anywhere in the name, without regard to case unless asked, or an extended regular
 * expression. Each distinct name is asked once; long names count by their first 4 KiB.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "serve/api.h"

enum { MOST_TEXT = 4096, MOST_PATTERN = 1000 };

struct ws_matcher {
	const struct ws_lanes *l;
	bool all, is_regex;
	regex_t regex;
	struct ws_map seen;
};

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
	int64_t re, match_case;
	char *pattern;
	int rc;

	if (!ws_param_int(c, "re", 0, 1, 0, &re, e) || !ws_param_int(c, "case", 0, 1, 0, &match_case, e))
		return NULL;
	if (q && strlen(q) > MOST_PATTERN) {
		ws_fail(e, "what is searched for is too long");
		return NULL;
	}
	m = ws_calloc(1, sizeof(*m));
	m->l = c->l;
	m->all = !q || !*q;
	if (m->all)
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

bool ws_matches(struct ws_matcher *m, uint32_t name)
{
	char text[MOST_TEXT + 1];
	const char *s;
	uint64_t v;
	bool known;
	size_t n;

	if (m->all)
		return true;
	v = ws_map_get(&m->seen, name, &known);
	if (known)
		return v;
	s = ws_lane_name(m->l, name, &n);
	n = n < MOST_TEXT ? n : MOST_TEXT;
	memcpy(text, s, n);
	text[n] = 0;
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	v = !regexec(&m->regex, text, 0, NULL, 0);
	ws_map_set(&m->seen, name, v);
	return v;
}

bool ws_matcher_all(const struct ws_matcher *m)
{
	return m->all;
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
