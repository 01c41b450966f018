/*
 * choose.c - see choose.h.
 *
 * Patterns are POSIX basic regular expressions, found anywhere in a table's name, without regard to
 * case. A time range is
 * [:][start]/[end][:], each time a row of numbers with units (1s500ms, nanoseconds without one); an
 * event must lie inside, and may cross an end that has a colon. Times are those that the export
 * shows, so they are compared after shifting.
 */
#include "views/choose.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "views/view.h"

struct ws_xpatterns {
	regex_t *v;
	size_t n, cap;
};

/* ---- patterns ---- */

static int add_pattern(struct ws_xpatterns *p, const char *text, struct ws_err *e)
{
	char why[128];
	regex_t re;
	int rc = regcomp(&re, text, REG_ICASE | REG_NOSUB);

	if (rc) {
		regerror(rc, &re, why, sizeof(why));
		return ws_fail(e, "--tables: '%s' is no pattern (a basic regular expression): %s",
			       text, why);
	}
	ws_grow(p->v, p->cap, p->n + 1);
	p->v[p->n++] = re;
	return 0;
}

bool ws_export_wants(const struct ws_export *x, const char *table)
{
	if (!x->patterns)
		return true;
	for (size_t i = 0; i < x->patterns->n; i++)
		if (!regexec(&x->patterns->v[i], table, 0, NULL, 0))
			return true;
	return false;
}

/* ---- times ---- */

/* One number with its unit at *s; adds it to *ns. */
static int add_number(const char **s, const char *end, long double *ns)
{
	static const struct {
		const char *name;
		long double ns;
	} units[] = {{"nsec", 1},  {"usec", 1e3}, {"msec", 1e6}, {"hour", 3600e9},
		     {"sec", 1e9}, {"min", 60e9}, {"ns", 1},	 {"us", 1e3},
		     {"ms", 1e6},  {"s", 1e9},	  {"m", 60e9},	 {"h", 3600e9}};
	char *after;
	long double v;

	if (strspn(*s, "+-.0123456789") == 0) /* strtold would take "nan" and "inf" */
		return -1;
	v = strtold(*s, &after);
	if (after == *s || after > end || !isfinite(v))
		return -1;
	*s = after;
	for (size_t i = 0; i < WS_COUNT(units); i++) {
		size_t n = strlen(units[i].name);

		if ((size_t)(end - *s) >= n && !memcmp(*s, units[i].name, n)) {
			*s += n;
			v *= units[i].ns;
			break;
		}
	}
	*ns += v;
	return 0;
}

static int read_time(const char *s, const char *end, int64_t *out)
{
	long double ns = 0;

	while (s < end)
		if (add_number(&s, end, &ns) < 0)
			return -1;
	ns = roundl(ns);
	*out = ns >= 0x1p63L ? INT64_MAX : ns <= -0x1p63L ? INT64_MIN : (int64_t)ns;
	return 0;
}

static int read_span(const char *text, struct ws_xspan *span, struct ws_err *e)
{
	const char *from = text, *slash = strchr(text, '/'), *end = text + strlen(text);

	*span = (struct ws_xspan){.from = INT64_MIN, .to = INT64_MAX};
	if (*from == ':') {
		span->open_from = true;
		from++;
	}
	if (end > from && end[-1] == ':') {
		span->open_to = true;
		end--;
	}
	if (!slash || slash < from || slash + 1 > end || (from == slash && slash + 1 == end) ||
	    (from < slash && read_time(from, slash, &span->from) < 0) ||
	    (slash + 1 < end && read_time(slash + 1, end, &span->to) < 0))
		return ws_fail(e,
			       "--times: '%s' is not start/end; give times in nanoseconds or with "
			       "ns, us, ms, s, m, h, such as 1s500ms/2s, "
			       "leave one out for no limit, and put a colon at an end that events "
			       "may cross",
			       text);
	if (span->from > span->to)
		return ws_fail(e, "--times: '%s' ends before it starts", text);
	return 0;
}

bool ws_export_in_time(const struct ws_export *x, uint64_t start, uint64_t end)
{
	int64_t from = (int64_t)(start - x->base),
		to = end == WS_NO_TIME ? from : (int64_t)(end - x->base);

	if (!x->span_count)
		return true;
	if (to < from)
		to = from;
	for (size_t i = 0; i < x->span_count; i++) {
		const struct ws_xspan *s = &x->spans[i];

		if ((s->open_from ? to : from) >= s->from && (s->open_to ? from : to) <= s->to)
			return true;
	}
	return false;
}

/* ---- lists ---- */

static int each_word(const char *const *lists, size_t n, const char *option,
		     int (*add)(struct ws_export *x, const char *word, struct ws_err *e),
		     struct ws_export *x, struct ws_err *e)
{
	for (size_t i = 0; i < n; i++) {
		const char *s = lists[i];

		for (;;) {
			size_t len = strcspn(s, ",");
			char *word = ws_strndup(s, len);
			int rc =
				len ? add(x, word, e)
				    : ws_fail(e, "%s: an entry of '%s' is empty", option, lists[i]);

			free(word);
			if (rc < 0)
				return -1;
			if (!s[len])
				break;
			s += len + 1;
		}
	}
	return 0;
}

static int add_table(struct ws_export *x, const char *word, struct ws_err *e)
{
	if (!x->patterns)
		x->patterns = ws_calloc(1, sizeof(*x->patterns));
	return add_pattern(x->patterns, word, e);
}

static int add_span(struct ws_export *x, const char *word, struct ws_err *e)
{
	x->spans = ws_realloc(x->spans, (x->span_count + 1) * sizeof(*x->spans));
	return read_span(word, &x->spans[x->span_count++], e);
}

int ws_choose(struct ws_export *x, const struct ws_choice *q, uint64_t epoch,
	      struct ws_err *e)
{
	x->base = x->zero - (uint64_t)q->shift;
	if (q->normalize && !epoch &&
	    !ws_report_rows(x->r, WS_TABLE_clock)) /* 0: times count from 1970 already */
		return ws_fail(e, "--ts-normalize: the report has no reading of the real time");
	if (q->normalize)
		x->base -= epoch;
	return each_word(q->tables, q->table_count, "--tables", add_table, x, e) < 0 ||
			       each_word(q->times, q->time_count, "--times", add_span, x, e) < 0
		       ? -1
		       : 0;
}

void ws_choose_free(struct ws_export *x)
{
	for (size_t i = 0; x->patterns && i < x->patterns->n; i++)
		regfree(&x->patterns->v[i]);
	if (x->patterns)
		free(x->patterns->v);
	free(x->patterns);
	free(x->spans);
	x->patterns = NULL;
	x->spans = NULL;
	x->span_count = 0;
}

int ws_choose_check(const struct ws_choice *q, struct ws_err *e)
{
	struct ws_export x = {0};
	int rc = ws_choose(&x, q, 1, e);

	ws_choose_free(&x);
	return rc;
}
