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
	regex_t *regexes;
	size_t n, cap;
};

/* ---- patterns ---- */

static int add_pattern(struct ws_xpatterns *patterns, const char *text, struct ws_err *err)
{
	char why[128];
	regex_t re;
	int rc = regcomp(&re, text, REG_ICASE | REG_NOSUB);

	if (rc) {
		regerror(rc, &re, why, sizeof(why));
		return ws_fail(err, "--tables: '%s' is no pattern (a basic regular expression): %s",
			       text, why);
	}
	ws_grow(patterns->regexes, patterns->cap, patterns->n + 1);
	patterns->regexes[patterns->n++] = re;
	return 0;
}

bool ws_export_wants(const struct ws_export *export, const char *table)
{
	if (!export->patterns)
		return true;
	for (size_t i = 0; i < export->patterns->n; i++)
		if (!regexec(&export->patterns->regexes[i], table, 0, NULL, 0))
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

static int read_time(const char *text, const char *end, int64_t *out)
{
	long double ns = 0;

	while (text < end)
		if (add_number(&text, end, &ns) < 0)
			return -1;
	ns = roundl(ns);
	*out = ns >= 0x1p63L ? INT64_MAX : ns <= -0x1p63L ? INT64_MIN : (int64_t)ns;
	return 0;
}

static int read_span(const char *text, struct ws_xspan *span, struct ws_err *err)
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
		return ws_fail(err,
			       "--times: '%s' is not start/end; give times in nanoseconds or with "
			       "ns, us, ms, s, m, h, such as 1s500ms/2s, "
			       "leave one out for no limit, and put a colon at an end that events "
			       "may cross",
			       text);
	if (span->from > span->to)
		return ws_fail(err, "--times: '%s' ends before it starts", text);
	return 0;
}

bool ws_export_in_time(const struct ws_export *export, uint64_t start, uint64_t end)
{
	int64_t from = (int64_t)(start - export->base),
		to = end == WS_NO_TIME ? from : (int64_t)(end - export->base);

	if (!export->span_count)
		return true;
	if (to < from)
		to = from;
	for (size_t i = 0; i < export->span_count; i++) {
		const struct ws_xspan *span = &export->spans[i];

		if ((span->open_from ? to : from) >= span->from &&
		    (span->open_to ? from : to) <= span->to)
			return true;
	}
	return false;
}

/* ---- lists ---- */

static int each_word(const char *const *lists, size_t n, const char *option,
		     int (*add)(struct ws_export *export, const char *word, struct ws_err *err),
		     struct ws_export *export, struct ws_err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *text = lists[i];

		for (;;) {
			size_t len = strcspn(text, ",");
			char *word = ws_strndup(text, len);
			int rc = len ? add(export, word, err)
				     : ws_fail(err, "%s: an entry of '%s' is empty", option,
					       lists[i]);

			free(word);
			if (rc < 0)
				return -1;
			if (!text[len])
				break;
			text += len + 1;
		}
	}
	return 0;
}

static int add_table(struct ws_export *export, const char *word, struct ws_err *err)
{
	if (!export->patterns)
		export->patterns = ws_calloc(1, sizeof(*export->patterns));
	return add_pattern(export->patterns, word, err);
}

static int add_span(struct ws_export *export, const char *word, struct ws_err *err)
{
	export->spans =
		ws_realloc(export->spans, (export->span_count + 1) * sizeof(*export->spans));
	return read_span(word, &export->spans[export->span_count++], err);
}

int ws_choose(struct ws_export *export, const struct ws_choice *choice, uint64_t epoch,
	      struct ws_err *err)
{
	export->base = export->zero - (uint64_t)choice->shift;
	if (choice->normalize && !epoch &&
	    !ws_report_rows(export->report, WS_TABLE_clock)) /* 0: times count from 1970 already */
		return ws_fail(err, "--ts-normalize: the report has no reading of the real time");
	if (choice->normalize)
		export->base -= epoch;
	return each_word(choice->tables, choice->table_count, "--tables", add_table, export, err) <
				       0 ||
			       each_word(choice->times, choice->time_count, "--times", add_span,
					 export, err) < 0
		       ? -1
		       : 0;
}

void ws_choose_free(struct ws_export *export)
{
	for (size_t i = 0; export->patterns && i < export->patterns->n; i++)
		regfree(&export->patterns->regexes[i]);
	if (export->patterns)
		free(export->patterns->regexes);
	free(export->patterns);
	free(export->spans);
	export->patterns = NULL;
	export->spans = NULL;
	export->span_count = 0;
}

int ws_choose_check(const struct ws_choice *choice, struct ws_err *err)
{
	struct ws_export export = {0};
	int rc = ws_choose(&export, choice, 1, err);

	ws_choose_free(&export);
	return rc;
}
