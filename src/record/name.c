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

static bool ends_with(const char *path, const char *end)
{
	size_t length = strlen(path), n = strlen(end);

	return length > n && !strcmp(path + length - n, end);
}

/* Whether the name that a template has made has an extension. The result of a placeholder, such as
 * the rank in `run.rank%q{RANK}` or the domain of a host, does not count as one unless it is the
 * extension of a report. */
static bool has_own_extension(const char *name, const char *path)
{
	const char *last = strrchr(name, '%');

	if (!last || strchr(last, '.'))
		return has_extension(path);
	return ends_with(path, WS_EXTENSION) || ends_with(path, ".nsys-rep");
}

static int expand_placeholder(struct ws_text *text, const char **at, const char *name,
			      const struct ws_name_context *context, struct ws_err *err)
{
	const char *from = *at, *end;
	char host[256] = "";

	switch (from[1]) {
	case '%':
		ws_text_puts(text, "%");
		break;
	case 'p':
		ws_text_printf(text, "%d", context->pid);
		break;
	case 'n':
		ws_text_printf(text, "%u", context->number);
		break;
	case 'h':
		gethostname(host, sizeof(host) - 1);
		ws_text_puts(text, host);
		break;
	case 'q': {
		char *var;
		const char *value;

		if (from[2] != '{' || !(end = strchr(from + 3, '}')))
			return ws_fail(err,
				       "the name '%s' has %%q without a variable: write %%q{NAME}",
				       name);
		var = ws_strndup(from + 3, (size_t)(end - from - 3));
		value = context->variable ? context->variable(context->ctx, var) : NULL;
		/* A value must not lead into another folder. */
		for (; value && *value; value++)
			ws_text_add(text, *value == '/' ? "_" : value, 1);
		free(var);
		*at = end + 1;
		return 0;
	}
	default:
		return ws_fail(err,
			       "the name '%s' has an unknown %%%c: %%p, %%h, %%n, %%q{NAME} "
			       "and %%%% are understood",
			       name, from[1] ? from[1] : ' ');
	}
	*at = from + 2;
	return 0;
}

static int expand_template(struct ws_text *text, const char *name,
			   const struct ws_name_context *context, struct ws_err *err)
{
	for (const char *at = name; *at;) {
		size_t n = strcspn(at, "%");

		ws_text_add(text, at, n);
		at += n;
		if (*at && expand_placeholder(text, &at, name, context, err)) {
			ws_text_free(text);
			return -1;
		}
	}
	return 0;
}

char *ws_expand_name(const char *name, const struct ws_name_context *context, struct ws_err *err)
{
	struct ws_text text = {0};

	if (expand_template(&text, name, context, err))
		return NULL;
	ws_text_puts(&text, "");
	return text.text;
}

/* The name with a suffix before its extension; frees `path`. */
static char *insert_suffix(char *path, const char *suffix)
{
	const char *dot = strrchr(path, '.');
	char *longer = ws_format("%.*s%s%s", (int)(dot - path), path, suffix, dot);

	free(path);
	return longer;
}

char *ws_report_name(const char *name, const struct ws_name_context *context, struct ws_err *err)
{
	struct ws_text text = {0};

	if (expand_template(&text, name, context, err))
		return NULL;
	if (!text.len) {
		ws_text_free(&text);
		ws_fail(err, "the report name '%s' is empty", name);
		return NULL;
	}
	if (is_folder(text.text))
		ws_text_printf(&text, "%sreport%u", text.text[text.len - 1] == '/' ? "" : "/",
			       context->number);
	if (!has_own_extension(name, text.text))
		ws_text_puts(&text, WS_EXTENSION);
	if (context->suffix && *context->suffix)
		return insert_suffix(text.text, context->suffix);
	return text.text;
}

/* Whether the template has one of these placeholders. */
static bool has_placeholder(const char *name, const char *letters)
{
	for (const char *at = strchr(name, '%'); at && at[1]; at = strchr(at + 2, '%'))
		if (strchr(letters, at[1]))
			return true;
	return false;
}

bool ws_name_differs(const char *name, bool hosts)
{
	return has_placeholder(name, hosts ? "pqnh" : "pqn");
}

bool ws_name_counts(const char *name)
{
	return has_placeholder(name, "n") || is_folder(name);
}

void ws_name_variables(const char *name, struct ws_text *out)
{
	for (const char *at = strchr(name, '%'); at && at[1]; at = strchr(at + 2, '%')) {
		const char *end = at[1] == 'q' && at[2] == '{' ? strchr(at + 3, '}') : NULL;

		if (end && end > at + 3) {
			ws_text_add(out, at + 3, (size_t)(end - at - 3));
			ws_text_add(out, "", 1);
		}
	}
}
