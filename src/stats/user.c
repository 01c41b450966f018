/* user.c - see user.h. */
#include "stats/user.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sql/print.h"

enum { MOST_BYTES = 1 << 20 };

static struct ws_user_report *add(struct ws_user_reports *reports, const char *name, size_t len)
{
	ws_grow(reports->reports, reports->cap, reports->n + 1);
	reports->reports[reports->n] = (struct ws_user_report){.name = ws_strndup(name, len)};
	return &reports->reports[reports->n++];
}

/* ---- files ---- */

static char *read_file(const char *path, struct ws_err *err)
{
	FILE *file = fopen(path, "re");
	struct ws_text text = {0};
	struct stat st;
	char buf[4096];
	size_t n;

	if (!file || fstat(fileno(file), &st) < 0) {
		ws_fail_errno(err, "cannot read %s", path);
	} else if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
		ws_fail(err, "%s is not a query: it is %s", path,
			S_ISREG(st.st_mode) ? "larger than 1 MiB" : "not a file");
	} else {
		ws_text_puts(&text, "");
		while ((n = fread(buf, 1, sizeof(buf), file)) > 0 && text.len <= MOST_BYTES)
			ws_text_add(&text, buf, n);
		if (memchr(text.text, 0, text.len)) {
			ws_fail(err, "%s is not a query: it has a NUL in it", path);
			ws_text_free(&text);
		}
	}
	if (file)
		fclose(file);
	return text.text;
}

/* Text after "-- KEY:" when a line begins so. */
static char *said(const char *line, size_t n, const char *key)
{
	size_t k = strlen(key), at = 2;

	while (at < n && line[at] == ' ')
		at++;
	if (n < 2 || memcmp(line, "--", 2) || n - at < k + 1 || memcmp(line + at, key, k) ||
	    line[at + k] != ':')
		return NULL;
	for (at += k + 1; at < n && line[at] == ' ';)
		at++;
	while (n > at && (line[n - 1] == ' ' || line[n - 1] == '\r'))
		n--;
	return ws_strndup(line + at, n - at);
}

static void keep(char **to, char *text)
{
	if (!text)
		return;
	free(*to);
	*to = text;
}

static void read_comments(struct ws_user_report *report)
{
	const char *text = report->sql;

	for (size_t n; !strncmp(text, "--", 2) || *text == '\n'; text += n + (text[n] == '\n')) {
		char *parameter;

		n = strcspn(text, "\n");
		keep(&report->title, said(text, n, "title"));
		keep(&report->about, said(text, n, "about"));
		parameter = said(text, n, "parameter");
		if (!parameter)
			continue;
		ws_grow(report->parameters, report->parameter_cap, report->parameter_count + 1);
		report->parameters[report->parameter_count++] = parameter;
	}
}

static bool is_name(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
			return false;
	return n > 0;
}

static int by_name(const void *first, const void *second)
{
	return strcmp(((const struct ws_user_report *)first)->name,
		      ((const struct ws_user_report *)second)->name);
}

int ws_user_reports_folder(struct ws_user_reports *reports, const char *folder, struct ws_err *err)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t first = reports->n;
	int rc = 0;

	if (!dir)
		return ws_fail_errno(err, "--report-dir: cannot read %s", folder);
	while (!rc && (entry = readdir(dir))) {
		size_t n = strlen(entry->d_name);
		struct ws_user_report *report;
		char *path;

		if (n > 3 && !strcmp(entry->d_name + n - 3, ".py") &&
		    is_name(entry->d_name, n - 3)) {
			ws_grow(reports->scripts, reports->script_cap, reports->script_count + 1);
			reports->scripts[reports->script_count++] =
				ws_strndup(entry->d_name, n - 3);
		}
		if (n <= 4 || strcmp(entry->d_name + n - 4, ".sql") ||
		    !is_name(entry->d_name, n - 4))
			continue;
		report = add(reports, entry->d_name, n - 4);
		path = ws_format("%s/%s", folder, entry->d_name);
		report->sql = read_file(path, err);
		free(path);
		rc = report->sql ? 0 : -1;
		if (!rc)
			read_comments(report);
	}
	closedir(dir);
	if (reports->n > first)
		qsort(reports->reports + first, reports->n - first, sizeof(*reports->reports),
		      by_name);
	return rc;
}

const char *ws_user_reports_sql(struct ws_user_reports *reports, const char *sql)
{
	char name[32] = "sql";
	struct ws_user_report *report;

	for (int i = 2; ws_user_report_find(reports, name); i++)
		snprintf(name, sizeof(name), "sql%d", i);
	report = add(reports, name, strlen(name));
	report->sql = ws_strdup(sql);
	read_comments(report);
	return report->name;
}

const struct ws_user_report *ws_user_report_find(const struct ws_user_reports *reports,
						 const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; reports && i < reports->n; i++)
		if (strlen(reports->reports[i].name) == n &&
		    !memcmp(reports->reports[i].name, spec, n))
			return &reports->reports[i];
	return NULL;
}

bool ws_user_report_script(const struct ws_user_reports *reports, const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; reports && i < reports->script_count; i++)
		if (strlen(reports->scripts[i]) == n && !memcmp(reports->scripts[i], spec, n))
			return true;
	return false;
}

void ws_user_reports_free(struct ws_user_reports *reports)
{
	for (size_t i = 0; i < reports->script_count; i++)
		free(reports->scripts[i]);
	free(reports->scripts);
	for (size_t i = 0; i < reports->n; i++) {
		struct ws_user_report *report = &reports->reports[i];

		for (size_t k = 0; k < report->parameter_count; k++)
			free(report->parameters[k]);
		free(report->parameters);
		free(report->name);
		free(report->title);
		free(report->about);
		free(report->sql);
	}
	free(reports->reports);
	memset(reports, 0, sizeof(*reports));
}

/* ---- running ---- */

int ws_user_report_check(const struct ws_user_report *report, const char *spec, struct ws_err *err)
{
	size_t n;

	for (const char *a = spec + strcspn(spec, ":"); *a; a += n) {
		size_t name;
		bool known = false;

		n = strcspn(++a, ":");
		name = strcspn(a, "=");
		for (size_t i = 0; i < report->parameter_count && name < n; i++)
			known |= strcspn(report->parameters[i], "=") == name &&
				 !memcmp(report->parameters[i], a, name);
		if (!known)
			return ws_fail(err,
				       "'%s': the report %s has no parameter '%.*s'; its file "
				       "declares one as '-- parameter: name=default'",
				       spec, report->name, (int)n, a);
	}
	return 0;
}

static void bind_word(struct ws_sql *sql, const char *word, size_t n)
{
	size_t name = strcspn(word, "=");
	char *key, *value;

	if (name >= n)
		return;
	key = ws_strndup(word, name);
	value = ws_strndup(word + name + 1, n - name - 1);
	ws_sql_bind(sql, key, value);
	free(key);
	free(value);
}

static void bind_time(struct ws_sql *sql, const char *name, uint64_t t, uint64_t zero)
{
	char s[32];

	snprintf(s, sizeof(s), "%" PRId64,
		 t == UINT64_MAX ? INT64_MAX
		 : t		 ? (int64_t)(t - zero)
				 : INT64_MIN);
	ws_sql_bind(sql, name, s);
}

static int bind(struct ws_sql *sql, const struct ws_user_report *report, const char *spec,
		const struct ws_stats *stats, struct ws_err *err)
{
	size_t n;

	for (size_t i = 0; i < report->parameter_count; i++)
		bind_word(sql, report->parameters[i], strlen(report->parameters[i]));
	for (const char *a = spec + strcspn(spec, ":"); *a; a += n) {
		n = strcspn(++a, ":");
		bind_word(sql, a, n);
	}
	bind_time(sql, "start", stats->time_min, stats->zero);
	bind_time(sql, "end", stats->time_max, stats->zero);
	if (stats->windowed) {
		int uses = ws_sql_has_parameter(sql, report->sql, "start", err);

		uses = uses ? uses : ws_sql_has_parameter(sql, report->sql, "end", err);
		if (uses < 0)
			return -1;
		if (!uses)
			return ws_fail(err,
				       "the report %s uses neither :start nor :end, so no filter "
				       "can be applied to it",
				       report->name);
	}
	return 0;
}

int ws_user_report_run(const struct ws_user_report *report, const char *spec,
		       const struct ws_stats *stats, struct ws_sql_print *print, struct ws_err *err)
{
	const struct ws_report *reports[] = {stats->report};
	struct ws_sql *sql = ws_sql_open(reports, 1, err);
	struct ws_sql_sink sink = ws_sql_print_sink(print);
	int rc;

	if (!sql)
		return -1;
	print->late = true;
	rc = bind(sql, report, spec, stats, err);
	if (!rc)
		rc = ws_sql_run(sql, report->sql, &sink, err);
	ws_sql_print_end(print);
	ws_sql_close(sql);
	return rc;
}
