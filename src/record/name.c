/* name.c - see name.h. */
#include "record/name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
	struct stat st;
	size_t n = strlen(path);

	return (n && path[n - 1] == '/') || (!stat(path, &st) && S_ISDIR(st.st_mode));
}

/* An extension is a dot and one to eight letters or digits with a letter first: `run.v1` has one,
 * `lr0.001` has none. */
static bool has_extension(const char *path)
{
	const char *base = strrchr(path, '/'), *dot;
	size_t n;

	base = base ? base + 1 : path;
	dot = strrchr(base, '.');
	if (!dot || dot == base || !isalpha((unsigned char)dot[1]))
		return false;
	n = strlen(dot + 1);
	if (!strcmp(dot, ".nsys-rep"))
		return true;
	for (size_t i = 1; i <= n; i++)
		if (!isalnum((unsigned char)dot[i]))
			return false;
	return n <= 8;
}

static int expand_one(struct ws_text *t, const char **at, const char *name,
		      const struct ws_name_context *c, struct ws_err *e)
{
	const char *p = *at, *end;
	char host[256] = "";

	switch (p[1]) {
	case '%':
		ws_text_puts(t, "%");
		break;
	case 'p':
		ws_text_printf(t, "%d", c->pid);
		break;
	case 'n':
		ws_text_printf(t, "%u", c->number);
		break;
	case 'h':
		gethostname(host, sizeof(host) - 1);
		ws_text_puts(t, host);
		break;
	case 'q': {
		char *var;
		const char *value;

		if (p[2] != '{' || !(end = strchr(p + 3, '}')))
			return ws_fail(
				e,
				"the report name '%s' has %%q without a variable: write %%q{NAME}",
				name);
		var = ws_strndup(p + 3, (size_t)(end - p - 3));
		value = c->variable ? c->variable(c->ctx, var) : NULL;
		/* A value must not lead to another folder. */
		for (; value && *value; value++)
			ws_text_add(t, *value == '/' ? "_" : value, 1);
		free(var);
		*at = end + 1;
		return 0;
	}
	default:
		return ws_fail(e,
			       "the report name '%s' has an unknown %%%c: %%p, %%h, %%n, %%q{NAME} "
			       "and %%%% are understood",
			       name, p[1] ? p[1] : ' ');
	}
	*at = p + 2;
	return 0;
}

char *ws_report_name(const char *name, const struct ws_name_context *c, struct ws_err *e)
{
	struct ws_text t = {0};

	for (const char *p = name; *p;) {
		size_t n = strcspn(p, "%");

		ws_text_add(&t, p, n);
		p += n;
		if (*p && expand_one(&t, &p, name, c, e)) {
			ws_text_free(&t);
			return NULL;
		}
	}
	if (!t.len) {
		ws_text_free(&t);
		ws_fail(e, "the report name '%s' is empty", name);
		return NULL;
	}
	if (is_folder(t.s))
		ws_text_printf(&t, "%sreport%u", t.s[t.len - 1] == '/' ? "" : "/", c->number);
	if (!has_extension(t.s))
		ws_text_puts(&t, WS_EXTENSION);
	return t.s;
}

bool ws_name_counts(const char *name)
{
	for (const char *p = strchr(name, '%'); p && p[1]; p = strchr(p + 2, '%'))
		if (p[1] == 'n')
			return true;
	return is_folder(name);
}

void ws_name_variables(const char *name, struct ws_text *out)
{
	for (const char *p = strchr(name, '%'); p && p[1]; p = strchr(p + 2, '%')) {
		const char *end = p[1] == 'q' && p[2] == '{' ? strchr(p + 3, '}') : NULL;

		if (end && end > p + 3) {
			ws_text_add(out, p + 3, (size_t)(end - p - 3));
			ws_text_add(out, "", 1);
		}
	}
}
