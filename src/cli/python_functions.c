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
#include "base/choose.h"

#define MOST_BYTES (1u << 20)
#define DEEPEST 32

struct reader {
	const char *file, *start, *p;
	struct ws_err *err;
};

static int bad(struct reader *reader, const char *what)
{
	int line = 1;

	for (const char *c = reader->start; c < reader->p; c++)
		line += *c == '\n';
	return ws_fail(reader->err, "--python-functions-trace: %s:%d: %s", reader->file, line,
		       what);
}

static void blanks(struct reader *reader)
{
	reader->p += strspn(reader->p, " \t\r\n");
}

static bool take(struct reader *reader, char letter)
{
	blanks(reader);
	if (*reader->p != letter)
		return false;
	reader->p++;
	return true;
}

/* ---- values ---- */

static int put_unicode(struct reader *reader, struct ws_text *text)
{
	char hex[5] = "", *end;
	unsigned long c;

	strncat(hex, reader->p + 1, 4);
	c = strtoul(hex, &end, 16);
	if (strlen(hex) < 4 || *end || !isxdigit((unsigned char)hex[0]) || !c ||
	    (c >= 0xd800 && c < 0xe000))
		return bad(reader, "\\u takes four hexadecimal digits of a character");
	reader->p += 4;
	if (c < 0x80)
		ws_text_printf(text, "%c", (int)c);
	else if (c < 0x800)
		ws_text_printf(text, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
	else
		ws_text_printf(text, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
			       (int)(0x80 | (c & 63)));
	return 0;
}

/* A string; owned by the caller. */
static int text(struct reader *reader, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	struct ws_text buffer = {0};
	int rc = 0;

	*out = NULL;
	if (!take(reader, '"'))
		return bad(reader, "a text in quotation marks is expected");
	ws_text_add(&buffer, "", 0);
	for (; !rc && *reader->p && *reader->p != '"'; reader->p++) {
		const char *k;

		if (*reader->p != '\\') {
			ws_text_add(&buffer, reader->p, 1);
			continue;
		}
		reader->p++;
		if (*reader->p == 'u')
			rc = put_unicode(reader, &buffer);
		else if (*reader->p && (k = strchr(from, *reader->p)))
			ws_text_add(&buffer, &to[k - from], 1);
		else
			rc = bad(reader, "no such escape");
	}
	if (!rc && !take(reader, '"'))
		rc = bad(reader, "a text does not end");
	if (rc)
		ws_text_free(&buffer);
	else
		*out = buffer.text ? buffer.text : ws_strdup("");
	return rc;
}

/* Step over a value of any kind. */
static int skip(struct reader *reader, int depth)
{
	char close, *one;

	blanks(reader);
	if (depth > DEEPEST)
		return bad(reader, "nested too deeply");
	if (*reader->p == '"') {
		int rc = text(reader, &one);

		free(one);
		return rc;
	}
	if (*reader->p != '[' && *reader->p != '{') {
		size_t n = strcspn(reader->p, ",]} \t\r\n\"");

		reader->p += n;
		return n ? 0 : bad(reader, "a value is expected");
	}
	close = *reader->p++ == '[' ? ']' : '}';
	if (take(reader, close))
		return 0;
	do {
		if (close == '}' && (skip(reader, depth + 1) || !take(reader, ':')))
			return bad(reader, "NAME: VALUE is expected");
		if (skip(reader, depth + 1))
			return -1;
	} while (take(reader, ','));
	return take(reader, close)
		       ? 0
		       : bad(reader, close == ']' ? "']' is expected" : "'}' is expected");
}

/* The value as it stands in the file. */
static int raw(struct reader *reader, char **out)
{
	const char *from;
	int rc;

	blanks(reader);
	from = reader->p;
	rc = skip(reader, 0);
	*out = rc ? NULL : ws_strndup(from, (size_t)(reader->p - from));
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

static int field(struct reader *reader, struct entry *en, bool function)
{
	char *key, **into = NULL;
	int rc = text(reader, &key);

	if (rc)
		return rc;
	if (!take(reader, ':'))
		rc = bad(reader, "':' is expected");
	else if (!function && !strcmp(key, "module"))
		into = &en->module;
	else if (function && (!strcmp(key, "function") || !strcmp(key, "name")))
		into = &en->function;
	else if (!strcmp(key, "domain"))
		into = &en->domain;
	if (into) {
		free(*into);
		rc = text(reader, into);
	} else if (!rc && !strcmp(key, "color")) {
		free(en->color);
		rc = raw(reader, &en->color);
	} else if (!rc && !function && !strcmp(key, "functions")) {
		blanks(reader);
		en->functions = reader->p;
		rc = skip(reader, 0);
	} else if (!rc) {
		if (key[0] != '_')
			ws_warn("--python-functions-trace: %s: '%s' is not known and not looked at",
				reader->file, key);
		rc = skip(reader, 0);
	}
	free(key);
	return rc;
}

static int fields(struct reader *reader, struct entry *en, bool function)
{
	if (!take(reader, '{'))
		return bad(reader, "'{' is expected");
	if (take(reader, '}'))
		return 0;
	do {
		if (field(reader, en, function))
			return -1;
	} while (take(reader, ','));
	return take(reader, '}') ? 0 : bad(reader, "',' or '}' is expected");
}

static int add(struct reader *reader, const struct entry *en, const struct entry *own,
	       struct ws_python_opts *out)
{
	const char *domain = own->domain ? own->domain : en->domain,
		   *color = own->color ? own->color : en->color;
	struct ws_python_function *function;

	if (!own->function || !*own->function)
		return bad(reader, "a function has no name");
	if (out->function_n == WS_PYTHON_FUNCTIONS_MOST)
		return bad(reader, "more than 512 functions");
	out->functions =
		ws_realloc(out->functions, (out->function_n + 1) * sizeof(*out->functions));
	function = &out->functions[out->function_n++];
	*function = (struct ws_python_function){.module = ws_strdup(en->module),
						.name = ws_strdup(own->function),
						.category = domain ? ws_strdup(domain) : NULL,
						.args = color ? ws_format("{\"color\":%s}", color)
							      : NULL};
	return 0;
}

static int functions(struct reader *reader, const struct entry *en, struct ws_python_opts *out)
{
	if (!take(reader, '['))
		return bad(reader, "\"functions\" is not a list");
	if (take(reader, ']'))
		return 0;
	do {
		struct entry own = {0};
		int rc;

		blanks(reader);
		rc = *reader->p == '{' ? fields(reader, &own, true) : text(reader, &own.function);
		rc = rc ? rc : add(reader, en, &own, out);
		free_entry(&own);
		if (rc)
			return rc;
	} while (take(reader, ','));
	return 0;
}

static int entry(struct reader *reader, struct ws_python_opts *out)
{
	struct entry en = {0};
	const char *behind;
	int rc = fields(reader, &en, false);

	if (!rc && (!en.module || !*en.module || !en.functions))
		rc = bad(reader, "an entry needs \"module\" and \"functions\"");
	behind = reader->p;
	if (!rc) {
		reader->p = en.functions;
		rc = functions(reader, &en, out);
		if (!rc)
			reader->p = behind;
	}
	free_entry(&en);
	return rc;
}

static int parse(struct reader *reader, struct ws_python_opts *out)
{
	size_t bytes = 0;

	if (!take(reader, '['))
		return bad(reader, "a list, [...], is expected");
	if (!take(reader, ']')) {
		do {
			if (entry(reader, out))
				return -1;
		} while (take(reader, ','));
		if (!take(reader, ']'))
			return bad(reader, "',' or ']' is expected");
	}
	blanks(reader);
	if (*reader->p)
		return bad(reader, "something follows the list");
	if (!out->function_n)
		return ws_fail(reader->err, "--python-functions-trace: %s names no function",
			       reader->file);
	for (size_t i = 0; i < out->function_n; i++)
		bytes += strlen(out->functions[i].module) + strlen(out->functions[i].name) + 2;
	return bytes > 8000 ? ws_fail(reader->err,
				      "--python-functions-trace: %s: the names are longer than "
				      "8000 bytes together",
				      reader->file)
			    : 0;
}

int ws_python_functions_read(const char *file, struct ws_python_opts *out, struct ws_err *err)
{
	FILE *f = fopen(file, "re");
	struct ws_text text = {0};
	struct reader reader = {.file = file, .err = err};
	char buf[4096];
	size_t n;
	int rc;

	if (!f)
		return ws_fail_errno(err, "--python-functions-trace: cannot read %s", file);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && text.len <= MOST_BYTES)
		ws_text_add(&text, buf, n);
	rc = ferror(f) ? ws_fail_errno(err, "--python-functions-trace: cannot read %s", file) : 0;
	fclose(f);
	if (!rc && (text.len > MOST_BYTES || (text.text && strlen(text.text) != text.len)))
		rc = ws_fail(err, "--python-functions-trace: %s is not a list of functions", file);
	reader.start = reader.p = ws_text_or(text.text, "");
	if (!rc)
		rc = parse(&reader, out);
	ws_text_free(&text);
	return rc;
}

void ws_python_functions_free(struct ws_python_opts *options)
{
	for (size_t i = 0; i < options->function_n; i++) {
		free(options->functions[i].module);
		free(options->functions[i].name);
		free(options->functions[i].category);
		free(options->functions[i].args);
	}
	free(options->functions);
}
