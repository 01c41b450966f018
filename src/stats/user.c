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

static struct ws_user_report *add(struct ws_user_reports *u, const char *name, size_t len)
{
	ws_grow(u->v, u->cap, u->n + 1);
	u->v[u->n] = (struct ws_user_report){.name = ws_strndup(name, len)};
	return &u->v[u->n++];
}

/* ---- files ---- */

static char *read_file(const char *path, struct ws_err *e)
{
	FILE *f = fopen(path, "re");
	struct ws_text t = {0};
	struct stat st;
	char buf[4096];
	size_t n;

	if (!f || fstat(fileno(f), &st) < 0) {
		ws_fail_errno(e, "cannot read %s", path);
	} else if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
		ws_fail(e, "%s is not a query: it is %s", path,
			S_ISREG(st.st_mode) ? "larger than 1 MiB" : "not a file");
	} else {
		ws_text_puts(&t, "");
		while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && t.len <= MOST_BYTES)
			ws_text_add(&t, buf, n);
		if (memchr(t.s, 0, t.len)) {
			ws_fail(e, "%s is not a query: it has a NUL in it", path);
			ws_text_free(&t);
		}
	}
	if (f)
		fclose(f);
	return t.s;
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

static void keep(char **to, char *s)
{
	if (!s)
		return;
	free(*to);
	*to = s;
}

static void read_comments(struct ws_user_report *r)
{
	const char *s = r->sql;

	for (size_t n; !strncmp(s, "--", 2) || *s == '\n'; s += n + (s[n] == '\n')) {
		char *parameter;

		n = strcspn(s, "\n");
		keep(&r->title, said(s, n, "title"));
		keep(&r->about, said(s, n, "about"));
		parameter = said(s, n, "parameter");
		if (!parameter)
			continue;
		ws_grow(r->parameters, r->parameter_cap, r->parameter_count + 1);
		r->parameters[r->parameter_count++] = parameter;
	}
}

static bool is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '-')
			return false;
	return n > 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct ws_user_report *)a)->name,
		      ((const struct ws_user_report *)b)->name);
}

int ws_user_reports_folder(struct ws_user_reports *u, const char *folder, struct ws_err *e)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	size_t first = u->n;
	int rc = 0;

	if (!d)
		return ws_fail_errno(e, "--report-dir: cannot read %s", folder);
	while (!rc && (entry = readdir(d))) {
		size_t n = strlen(entry->d_name);
		struct ws_user_report *r;
		char *path;

		if (n > 3 && !strcmp(entry->d_name + n - 3, ".py") &&
		    is_name(entry->d_name, n - 3)) {
			ws_grow(u->scripts, u->script_cap, u->script_count + 1);
			u->scripts[u->script_count++] = ws_strndup(entry->d_name, n - 3);
		}
		if (n <= 4 || strcmp(entry->d_name + n - 4, ".sql") ||
		    !is_name(entry->d_name, n - 4))
			continue;
		r = add(u, entry->d_name, n - 4);
		path = ws_format("%s/%s", folder, entry->d_name);
		r->sql = read_file(path, e);
		free(path);
		rc = r->sql ? 0 : -1;
		if (!rc)
			read_comments(r);
	}
	closedir(d);
	if (u->n > first)
		qsort(u->v + first, u->n - first, sizeof(*u->v), by_name);
	return rc;
}

const char *ws_user_reports_sql(struct ws_user_reports *u, const char *sql)
{
	char name[32] = "sql";
	struct ws_user_report *r;

	for (int i = 2; ws_user_report_find(u, name); i++)
		snprintf(name, sizeof(name), "sql%d", i);
	r = add(u, name, strlen(name));
	r->sql = ws_strdup(sql);
	read_comments(r);
	return r->name;
}

const struct ws_user_report *ws_user_report_find(const struct ws_user_reports *u, const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; u && i < u->n; i++)
		if (strlen(u->v[i].name) == n && !memcmp(u->v[i].name, spec, n))
			return &u->v[i];
	return NULL;
}

bool ws_user_report_script(const struct ws_user_reports *u, const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; u && i < u->script_count; i++)
		if (strlen(u->scripts[i]) == n && !memcmp(u->scripts[i], spec, n))
			return true;
	return false;
}

void ws_user_reports_free(struct ws_user_reports *u)
{
	for (size_t i = 0; i < u->script_count; i++)
		free(u->scripts[i]);
	free(u->scripts);
	for (size_t i = 0; i < u->n; i++) {
		struct ws_user_report *r = &u->v[i];

		for (size_t k = 0; k < r->parameter_count; k++)
			free(r->parameters[k]);
		free(r->parameters);
		free(r->name);
		free(r->title);
		free(r->about);
		free(r->sql);
	}
	free(u->v);
	memset(u, 0, sizeof(*u));
}

/* ---- running ---- */

int ws_user_report_check(const struct ws_user_report *r, const char *spec, struct ws_err *e)
{
	size_t n;

	for (const char *a = spec + strcspn(spec, ":"); *a; a += n) {
		size_t name;
		bool known = false;

		n = strcspn(++a, ":");
		name = strcspn(a, "=");
		for (size_t i = 0; i < r->parameter_count && name < n; i++)
			known |= strcspn(r->parameters[i], "=") == name &&
				 !memcmp(r->parameters[i], a, name);
		if (!known)
			return ws_fail(e,
				       "'%s': the report %s has no parameter '%.*s'; its file "
				       "declares one as '-- parameter: name=default'",
				       spec, r->name, (int)n, a);
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

static int bind(struct ws_sql *sql, const struct ws_user_report *r, const char *spec,
		const struct ws_stats *s, struct ws_err *e)
{
	size_t n;

	for (size_t i = 0; i < r->parameter_count; i++)
		bind_word(sql, r->parameters[i], strlen(r->parameters[i]));
	for (const char *a = spec + strcspn(spec, ":"); *a; a += n) {
		n = strcspn(++a, ":");
		bind_word(sql, a, n);
	}
	bind_time(sql, "start", s->time_min, s->zero);
	bind_time(sql, "end", s->time_max, s->zero);
	if (s->windowed) {
		int uses = ws_sql_has_parameter(sql, r->sql, "start", e);

		uses = uses ? uses : ws_sql_has_parameter(sql, r->sql, "end", e);
		if (uses < 0)
			return -1;
		if (!uses)
			return ws_fail(e,
				       "the report %s uses neither :start nor :end, so no filter "
				       "can be applied to it",
				       r->name);
	}
	return 0;
}

int ws_user_report_run(const struct ws_user_report *r, const char *spec, const struct ws_stats *s,
		       struct ws_sql_print *p, struct ws_err *e)
{
	const struct ws_report *reports[] = {s->r};
	struct ws_sql *sql = ws_sql_open(reports, 1, e);
	struct ws_sql_sink sink = ws_sql_print_sink(p);
	int rc;

	if (!sql)
		return -1;
	p->late = true;
	rc = bind(sql, r, spec, s, e);
	if (!rc)
		rc = ws_sql_run(sql, r->sql, &sink, e);
	ws_sql_print_end(p);
	ws_sql_close(sql);
	return rc;
}
