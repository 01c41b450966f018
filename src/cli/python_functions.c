/*
 * python_functions.c - which functions of Python to trace, from a JSON file of the reference tool's
 * form:
 *
 *     [{"module": "torch.nn.functional", "functions": ["linear", "Module.method"], "domain": "nn",
 * "color": "0x00ff00"}]
 *
 * A function may also be an object {"function": NAME, "domain": ..., "color": ...} that says for
 * itself what differs. Names that begin with an underscore
 * (_comment) are not looked at; others that mean nothing here are said. The file is small and read
 * once: each value is taken where it stands, no tree is made.
 */
#include "cli/python_functions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MOST_BYTES (1u << 20)
#define DEEPEST 32

struct reader {
	const char *file, *start, *p;
	struct ws_err *e;
};

static int bad(struct reader *r, const char *what)
{
	int line = 1;

	for (const char *c = r->start; c < r->p; c++)
		line += *c == '\n';
	return ws_fail(r->e, "--python-functions-trace: %s:%d: %s", r->file, line, what);
}

static void blanks(struct reader *r)
{
	r->p += strspn(r->p, " \t\r\n");
}

static bool take(struct reader *r, char c)
{
	blanks(r);
	if (*r->p != c)
		return false;
	r->p++;
	return true;
}

/* ---- values ---- */

static int put_unicode(struct reader *r, struct ws_text *t)
{
	char hex[5] = "", *end;
	unsigned long c;

	strncat(hex, r->p + 1, 4);
	c = strtoul(hex, &end, 16);
	if (strlen(hex) < 4 || *end || !isxdigit((unsigned char)hex[0]) || !c ||
	    (c >= 0xd800 && c < 0xe000))
		return bad(r, "\\u takes four hexadecimal digits of a character");
	r->p += 4;
	if (c < 0x80)
		ws_text_printf(t, "%c", (int)c);
	else if (c < 0x800)
		ws_text_printf(t, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
	else
		ws_text_printf(t, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
			       (int)(0x80 | (c & 63)));
	return 0;
}

/* A string; owned by the caller. */
static int text(struct reader *r, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	struct ws_text t = {0};
	int rc = 0;

	*out = NULL;
	if (!take(r, '"'))
		return bad(r, "a text in quotation marks is expected");
	ws_text_add(&t, "", 0);
	for (; !rc && *r->p && *r->p != '"'; r->p++) {
		const char *k;

		if (*r->p != '\\') {
			ws_text_add(&t, r->p, 1);
			continue;
		}
		r->p++;
		if (*r->p == 'u')
			rc = put_unicode(r, &t);
		else if (*r->p && (k = strchr(from, *r->p)))
			ws_text_add(&t, &to[k - from], 1);
		else
			rc = bad(r, "no such escape");
	}
	if (!rc && !take(r, '"'))
		rc = bad(r, "a text does not end");
	if (rc)
		ws_text_free(&t);
	else
		*out = t.s ? t.s : ws_strdup("");
	return rc;
}

/* Step over a value of any kind. */
static int skip(struct reader *r, int depth)
{
	char close, *one;

	blanks(r);
	if (depth > DEEPEST)
		return bad(r, "nested too deeply");
	if (*r->p == '"') {
		int rc = text(r, &one);

		free(one);
		return rc;
	}
	if (*r->p != '[' && *r->p != '{') {
		size_t n = strcspn(r->p, ",]} \t\r\n\"");

		r->p += n;
		return n ? 0 : bad(r, "a value is expected");
	}
	close = *r->p++ == '[' ? ']' : '}';
	if (take(r, close))
		return 0;
	do {
		if (close == '}' && (skip(r, depth + 1) || !take(r, ':')))
			return bad(r, "NAME: VALUE is expected");
		if (skip(r, depth + 1))
			return -1;
	} while (take(r, ','));
	return take(r, close) ? 0 : bad(r, close == ']' ? "']' is expected" : "'}' is expected");
}

/* The value as it stands in the file. */
static int raw(struct reader *r, char **out)
{
	const char *from;
	int rc;

	blanks(r);
	from = r->p;
	rc = skip(r, 0);
	*out = rc ? NULL : ws_strndup(from, (size_t)(r->p - from));
	return rc;
}

/* ---- entries ---- */

struct entry {
	char *module, *function, *domain, *color;
	const char *functions; /* where their list begins */
};

static void free_entry(struct entry *en)
{
	free(en->module);
	free(en->function);
	free(en->domain);
	free(en->color);
}

static int field(struct reader *r, struct entry *en, bool function)
{
	char *key, **into = NULL;
	int rc = text(r, &key);

	if (rc)
		return rc;
	if (!take(r, ':'))
		rc = bad(r, "':' is expected");
	else if (!function && !strcmp(key, "module"))
		into = &en->module;
	else if (function && (!strcmp(key, "function") || !strcmp(key, "name")))
		into = &en->function;
	else if (!strcmp(key, "domain"))
		into = &en->domain;
	if (into) {
		free(*into);
		rc = text(r, into);
	} else if (!rc && !strcmp(key, "color")) {
		free(en->color);
		rc = raw(r, &en->color);
	} else if (!rc && !function && !strcmp(key, "functions")) {
		blanks(r);
		en->functions = r->p;
		rc = skip(r, 0);
	} else if (!rc) {
		if (key[0] != '_')
			ws_warn("--python-functions-trace: %s: '%s' is not known and not looked at",
				r->file, key);
		rc = skip(r, 0);
	}
	free(key);
	return rc;
}

static int fields(struct reader *r, struct entry *en, bool function)
{
	if (!take(r, '{'))
		return bad(r, "'{' is expected");
	if (take(r, '}'))
		return 0;
	do {
		if (field(r, en, function))
			return -1;
	} while (take(r, ','));
	return take(r, '}') ? 0 : bad(r, "',' or '}' is expected");
}

static int add(struct reader *r, const struct entry *en, const struct entry *own,
	       struct ws_python_opts *out)
{
	const char *domain = own->domain ? own->domain : en->domain,
		   *color = own->color ? own->color : en->color;
	struct ws_python_function *f;

	if (!own->function || !*own->function)
		return bad(r, "a function has no name");
	if (out->function_n == WS_PYTHON_FUNCTIONS_MOST)
		return bad(r, "more than 512 functions");
	out->functions =
		ws_realloc(out->functions, (out->function_n + 1) * sizeof(*out->functions));
	f = &out->functions[out->function_n++];
	*f = (struct ws_python_function){.module = ws_strdup(en->module),
					 .name = ws_strdup(own->function),
					 .category = domain ? ws_strdup(domain) : NULL,
					 .args = color ? ws_format("{\"color\":%s}", color) : NULL};
	return 0;
}

static int functions(struct reader *r, const struct entry *en, struct ws_python_opts *out)
{
	if (!take(r, '['))
		return bad(r, "\"functions\" is not a list");
	if (take(r, ']'))
		return 0;
	do {
		struct entry own = {0};
		int rc;

		blanks(r);
		rc = *r->p == '{' ? fields(r, &own, true) : text(r, &own.function);
		rc = rc ? rc : add(r, en, &own, out);
		free_entry(&own);
		if (rc)
			return rc;
	} while (take(r, ','));
	return 0;
}

static int entry(struct reader *r, struct ws_python_opts *out)
{
	struct entry en = {0};
	const char *behind;
	int rc = fields(r, &en, false);

	if (!rc && (!en.module || !*en.module || !en.functions))
		rc = bad(r, "an entry needs \"module\" and \"functions\"");
	behind = r->p;
	if (!rc) {
		r->p = en.functions;
		rc = functions(r, &en, out);
		if (!rc)
			r->p = behind;
	}
	free_entry(&en);
	return rc;
}

static int parse(struct reader *r, struct ws_python_opts *out)
{
	size_t bytes = 0;

	if (!take(r, '['))
		return bad(r, "a list, [...], is expected");
	if (!take(r, ']')) {
		do {
			if (entry(r, out))
				return -1;
		} while (take(r, ','));
		if (!take(r, ']'))
			return bad(r, "',' or ']' is expected");
	}
	blanks(r);
	if (*r->p)
		return bad(r, "something follows the list");
	if (!out->function_n)
		return ws_fail(r->e, "--python-functions-trace: %s names no function", r->file);
	for (size_t i = 0; i < out->function_n; i++)
		bytes += strlen(out->functions[i].module) + strlen(out->functions[i].name) + 2;
	return bytes > 8000 ? ws_fail(r->e,
				      "--python-functions-trace: %s: the names are longer than "
				      "8000 bytes together",
				      r->file)
			    : 0;
}

int ws_python_functions_read(const char *file, struct ws_python_opts *out, struct ws_err *e)
{
	FILE *f = fopen(file, "re");
	struct ws_text t = {0};
	struct reader r = {.file = file, .e = e};
	char buf[4096];
	size_t n;
	int rc;

	if (!f)
		return ws_fail_errno(e, "--python-functions-trace: cannot read %s", file);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && t.len <= MOST_BYTES)
		ws_text_add(&t, buf, n);
	rc = ferror(f) ? ws_fail_errno(e, "--python-functions-trace: cannot read %s", file) : 0;
	fclose(f);
	if (!rc && (t.len > MOST_BYTES || (t.s && strlen(t.s) != t.len)))
		rc = ws_fail(e, "--python-functions-trace: %s is not a list of functions", file);
	r.start = r.p = t.s ? t.s : "";
	if (!rc)
		rc = parse(&r, out);
	ws_text_free(&t);
	return rc;
}

void ws_python_functions_free(struct ws_python_opts *o)
{
	for (size_t i = 0; i < o->function_n; i++) {
		free(o->functions[i].module);
		free(o->functions[i].name);
		free(o->functions[i].category);
		free(o->functions[i].args);
	}
	free(o->functions);
}
