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

static struct ws_user_report *add_user_report(struct ws_user_reports *reports, const char *name,
					      size_t length)
{
	ws_grow(reports->reports, reports->capacity, reports->count + 1);
	reports->reports[reports->count] =
		(struct ws_user_report){.name = ws_strndup(name, length)};
	return &reports->reports[reports->count++];
}

/* ---- files ---- */

static char *read_query_file(const char *path, struct ws_err *err)
{
	FILE *file = fopen(path, "re");
	struct ws_text text = {0};
	struct stat state;
	char buffer[4096];
	size_t count;

	if (!file || fstat(fileno(file), &state) < 0) {
		ws_fail_errno(err, "cannot read %s", path);
	} else if (!S_ISREG(state.st_mode)) {
		ws_fail(err, "%s is not a query: it is not a file", path);
	} else if (state.st_size > MOST_BYTES) {
		ws_fail(err, "%s is not a query: it is larger than 1 MiB", path);
	} else {
		ws_text_puts(&text, "");
		while ((count = fread(buffer, 1, sizeof(buffer), file)) > 0 &&
		       text.len <= MOST_BYTES)
			ws_text_add(&text, buffer, count);
		if (memchr(text.text, 0, text.len)) {
			ws_fail(err, "%s is not a query: it has a NUL in it", path);
			ws_text_free(&text);
		}
	}
	if (file)
		fclose(file);
	return text.text;
}

/* A copy of the text after "-- KEY:" of a line that begins so; else NULL. */
static char *copy_comment_value(const char *line, size_t length, const char *key)
{
	size_t key_length = strlen(key), position = 2;

	while (position < length && line[position] == ' ')
		position++;
	if (length < 2 || memcmp(line, "--", 2) || length - position < key_length + 1 ||
	    memcmp(line + position, key, key_length) || line[position + key_length] != ':')
		return NULL;
	for (position += key_length + 1; position < length && line[position] == ' ';)
		position++;
	while (length > position && (line[length - 1] == ' ' || line[length - 1] == '\r'))
		length--;
	return ws_strndup(line + position, length - position);
}

/* Replace *to by `text`, unless that is NULL. */
static void replace_text(char **to, char *text)
{
	if (!text)
		return;
	free(*to);
	*to = text;
}

static void read_comments(struct ws_user_report *report)
{
	const char *text = report->sql;

	for (size_t length; !strncmp(text, "--", 2) || *text == '\n';
	     text += length + (text[length] == '\n')) {
		char *parameter;

		length = strcspn(text, "\n");
		replace_text(&report->title, copy_comment_value(text, length, "title"));
		replace_text(&report->about, copy_comment_value(text, length, "about"));
		parameter = copy_comment_value(text, length, "parameter");
		if (!parameter)
			continue;
		ws_grow(report->parameters, report->parameter_capacity,
			report->parameter_count + 1);
		report->parameters[report->parameter_count++] = parameter;
	}
}

static bool is_report_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
			return false;
	return length > 0;
}

static int compare_report_names(const void *first, const void *second)
{
	return strcmp(((const struct ws_user_report *)first)->name,
		      ((const struct ws_user_report *)second)->name);
}

int ws_add_report_folder(struct ws_user_reports *reports, const char *folder, struct ws_err *err)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t first = reports->count;
	int status = 0;

	if (!dir)
		return ws_fail_errno(err, "--report-dir: cannot read %s", folder);
	while (!status && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);
		struct ws_user_report *report;
		char *path;

		if (length > 3 && !strcmp(entry->d_name + length - 3, ".py") &&
		    is_report_name(entry->d_name, length - 3)) {
			ws_grow(reports->scripts, reports->script_capacity,
				reports->script_count + 1);
			reports->scripts[reports->script_count++] =
				ws_strndup(entry->d_name, length - 3);
		}
		if (length <= 4 || strcmp(entry->d_name + length - 4, ".sql") ||
		    !is_report_name(entry->d_name, length - 4))
			continue;
		report = add_user_report(reports, entry->d_name, length - 4);
		path = ws_format("%s/%s", folder, entry->d_name);
		report->sql = read_query_file(path, err);
		free(path);
		if (report->sql)
			read_comments(report);
		else
			status = -1;
	}
	closedir(dir);
	if (reports->count > first)
		qsort(reports->reports + first, reports->count - first, sizeof(*reports->reports),
		      compare_report_names);
	return status;
}

const char *ws_add_report_query(struct ws_user_reports *reports, const char *sql)
{
	char name[32] = "sql";
	struct ws_user_report *report;

	for (int i = 2; ws_find_user_report(reports, name); i++)
		snprintf(name, sizeof(name), "sql%d", i);
	report = add_user_report(reports, name, strlen(name));
	report->sql = ws_strdup(sql);
	read_comments(report);
	return report->name;
}

const struct ws_user_report *ws_find_user_report(const struct ws_user_reports *reports,
						 const char *spec)
{
	size_t length = strcspn(spec, ":");

	for (size_t i = 0; reports && i < reports->count; i++)
		if (strlen(reports->reports[i].name) == length &&
		    !memcmp(reports->reports[i].name, spec, length))
			return &reports->reports[i];
	return NULL;
}

bool ws_has_report_script(const struct ws_user_reports *reports, const char *spec)
{
	size_t length = strcspn(spec, ":");

	for (size_t i = 0; reports && i < reports->script_count; i++)
		if (strlen(reports->scripts[i]) == length &&
		    !memcmp(reports->scripts[i], spec, length))
			return true;
	return false;
}

void ws_user_reports_free(struct ws_user_reports *reports)
{
	for (size_t i = 0; i < reports->script_count; i++)
		free(reports->scripts[i]);
	free(reports->scripts);
	for (size_t i = 0; i < reports->count; i++) {
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

int ws_check_user_report(const struct ws_user_report *report, const char *spec, struct ws_err *err)
{
	size_t length;

	for (const char *arg = spec + strcspn(spec, ":"); *arg; arg += length) {
		size_t name;
		bool known = false;

		length = strcspn(++arg, ":");
		name = strcspn(arg, "=");
		for (size_t i = 0; i < report->parameter_count && name < length; i++)
			known |= strcspn(report->parameters[i], "=") == name &&
				 !memcmp(report->parameters[i], arg, name);
		if (!known)
			return ws_fail(err,
				       "'%s': the report %s has no parameter '%.*s'; its file "
				       "declares one as '-- parameter: name=default'",
				       spec, report->name, (int)length, arg);
	}
	return 0;
}

/* Set a parameter from the letters "name=value"; without a value, it keeps its default. */
static void bind_parameter(struct ws_sql *sql, const char *word, size_t length)
{
	size_t name = strcspn(word, "=");
	char *key, *value;

	if (name >= length)
		return;
	key = ws_strndup(word, name);
	value = ws_strndup(word + name + 1, length - name - 1);
	ws_sql_bind_parameter(sql, key, value);
	free(key);
	free(value);
}

/* Set a parameter to a limit of the window; open limits become the extreme integers. */
static void bind_time_limit(struct ws_sql *sql, const char *name, uint64_t time, uint64_t zero)
{
	int64_t ns = (int64_t)(time - zero);
	char number[32];

	if (time == UINT64_MAX)
		ns = INT64_MAX;
	else if (!time)
		ns = INT64_MIN;
	snprintf(number, sizeof(number), "%" PRId64, ns);
	ws_sql_bind_parameter(sql, name, number);
}

static int bind_arguments(struct ws_sql *sql, const struct ws_user_report *report, const char *spec,
			  const struct ws_stats *stats, struct ws_err *err)
{
	size_t length;

	for (size_t i = 0; i < report->parameter_count; i++)
		bind_parameter(sql, report->parameters[i], strlen(report->parameters[i]));
	for (const char *arg = spec + strcspn(spec, ":"); *arg; arg += length) {
		length = strcspn(++arg, ":");
		bind_parameter(sql, arg, length);
	}
	bind_time_limit(sql, "start", stats->time_min, stats->zero);
	bind_time_limit(sql, "end", stats->time_max, stats->zero);
	if (stats->windowed) {
		int uses = ws_sql_has_parameter(sql, report->sql, "start", err);

		if (!uses)
			uses = ws_sql_has_parameter(sql, report->sql, "end", err);
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

int ws_run_user_report(const struct ws_user_report *report, const char *spec,
		       const struct ws_stats *stats, struct ws_sql_print *print, struct ws_err *err)
{
	const struct ws_report *reports[] = {stats->report};
	struct ws_sql *sql = ws_sql_open(reports, 1, err);
	struct ws_sql_sink sink = ws_sql_make_print_sink(print);
	int status;

	if (!sql)
		return -1;
	print->late = true;
	status = bind_arguments(sql, report, spec, stats, err);
	if (!status)
		status = ws_sql_run_query(sql, report->sql, &sink, err);
	ws_sql_end_print(print);
	ws_sql_close(sql);
	return status;
}
