/*
 * choose.c - see choose.h.
 *
 * Patterns are POSIX basic regular expressions that may match anywhere in a table's name, in any
 * case. A time range is [:][start]/[end][:], where each time is a sequence of numbers with units
 * (1s500ms; nanoseconds without one). An event must lie inside, but may cross an end that has a
 * colon. Times are those that the export shows, so they are compared after shifting.
 */
#include "views/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "text/pattern.h"
#include "views/view.h"

struct ws_table_patterns {
	struct ws_pattern *patterns;
	size_t count, capacity;
};

/* ---- patterns ---- */

static int add_pattern(struct ws_table_patterns *patterns, const char *text, struct ws_err *err)
{
	struct ws_pattern pattern;
	struct ws_err reason;

	if (ws_compile_pattern(&pattern, text, REG_ICASE, &reason) < 0)
		return ws_fail(err, "--tables: '%s' is no pattern (a basic regular expression): %s",
			       text, reason.msg);
	ws_grow(patterns->patterns, patterns->capacity, patterns->count + 1);
	patterns->patterns[patterns->count++] = pattern;
	return 0;
}

bool ws_is_table_wanted(const struct ws_cell_context *export, const char *table)
{
	if (!export->patterns)
		return true;
	for (size_t i = 0; i < export->patterns->count; i++)
		if (ws_match_pattern(&export->patterns->patterns[i], table))
			return true;
	return false;
}

/* ---- times ---- */

/* Read one number with its unit at *text and add it to *ns. */
static int read_duration(const char **text, const char *end, long double *ns)
{
	static const struct {
		const char *name;
		long double ns;
	} units[] = {{"nsec", 1},  {"usec", 1e3}, {"msec", 1e6}, {"hour", 3600e9},
		     {"sec", 1e9}, {"min", 60e9}, {"ns", 1},	 {"us", 1e3},
		     {"ms", 1e6},  {"s", 1e9},	  {"m", 60e9},	 {"h", 3600e9}};
	char *after;
	long double number;

	if (strspn(*text, "+-.0123456789") == 0) /* strtold would accept "nan" and "inf" */
		return -1;
	number = strtold(*text, &after);
	if (after == *text || after > end || !isfinite(number))
		return -1;
	*text = after;
	for (size_t i = 0; i < WS_COUNT(units); i++) {
		size_t length = strlen(units[i].name);

		if ((size_t)(end - *text) >= length && !memcmp(*text, units[i].name, length)) {
			*text += length;
			number *= units[i].ns;
			break;
		}
	}
	*ns += number;
	return 0;
}

static int read_time(const char *text, const char *end, int64_t *out)
{
	long double ns = 0;

	while (text < end)
		if (read_duration(&text, end, &ns) < 0)
			return -1;
	ns = roundl(ns);
	if (ns >= 0x1p63L)
		*out = INT64_MAX;
	else if (ns <= -0x1p63L)
		*out = INT64_MIN;
	else
		*out = (int64_t)ns;
	return 0;
}

static int read_span(const char *text, struct ws_time_span *span, struct ws_err *err)
{
	const char *from = text, *slash = strchr(text, '/'), *end = text + strlen(text);

	*span = (struct ws_time_span){.from = INT64_MIN, .to = INT64_MAX};
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

static bool is_in_span(const struct ws_time_span *span, int64_t start, int64_t end)
{
	int64_t must_follow = start, must_precede = end;

	if (span->open_from)
		must_follow = end;
	if (span->open_to)
		must_precede = start;
	return must_follow >= span->from && must_precede <= span->to;
}

bool ws_is_in_time(const struct ws_cell_context *export, uint64_t start, uint64_t end)
{
	int64_t from = (int64_t)(start - export->base), to = from;

	if (!export->span_count)
		return true;
	if (end != WS_NO_TIME)
		to = ws_max((int64_t)(end - export->base), from);
	for (size_t i = 0; i < export->span_count; i++)
		if (is_in_span(&export->spans[i], from, to))
			return true;
	return false;
}

/* ---- lists ---- */

static int add_list_words(const char *const *lists, size_t count, const char *option,
			  int (*add)(struct ws_cell_context *export, const char *word,
				     struct ws_err *err),
			  struct ws_cell_context *export, struct ws_err *err)
{
	for (size_t i = 0; i < count; i++) {
		const char *text = lists[i];

		for (;;) {
			size_t length = strcspn(text, ",");
			char *word = ws_strndup(text, length);
			int rc;

			if (length)
				rc = add(export, word, err);
			else
				rc = ws_fail(err, "%s: an entry of '%s' is empty", option,
					     lists[i]);
			free(word);
			if (rc < 0)
				return -1;
			if (!text[length])
				break;
			text += length + 1;
		}
	}
	return 0;
}

static int add_table(struct ws_cell_context *export, const char *word, struct ws_err *err)
{
	if (!export->patterns)
		export->patterns = ws_calloc(1, sizeof(*export->patterns));
	return add_pattern(export->patterns, word, err);
}

static int add_span(struct ws_cell_context *export, const char *word, struct ws_err *err)
{
	export->spans =
		ws_realloc(export->spans, (export->span_count + 1) * sizeof(*export->spans));
	return read_span(word, &export->spans[export->span_count++], err);
}

int ws_apply_choice(struct ws_cell_context *export, const struct ws_export_choice *choice,
		    uint64_t epoch, struct ws_err *err)
{
	export->base = export->zero - (uint64_t)choice->shift;
	if (choice->normalize && !epoch &&
	    !ws_report_count_rows(export->report,
				  WS_TABLE_clock)) /* 0: times count from 1970 already */
		return ws_fail(err, "--ts-normalize: the report has no reading of the real time");
	if (choice->normalize)
		export->base -= epoch;
	if (add_list_words(choice->tables, choice->table_count, "--tables", add_table, export,
			   err) < 0)
		return -1;
	return add_list_words(choice->times, choice->time_count, "--times", add_span, export, err);
}

void ws_free_choice(struct ws_cell_context *export)
{
	for (size_t i = 0; export->patterns && i < export->patterns->count; i++)
		ws_free_pattern(&export->patterns->patterns[i]);
	if (export->patterns)
		free(export->patterns->patterns);
	free(export->patterns);
	free(export->spans);
	export->patterns = NULL;
	export->spans = NULL;
	export->span_count = 0;
}

int ws_check_choice(const struct ws_export_choice *choice, struct ws_err *err)
{
	struct ws_cell_context export = {0};
	int rc = ws_apply_choice(&export, choice, 1, err);

	ws_free_choice(&export);
	return rc;
}
