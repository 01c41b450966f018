/*
 * opts.c - the option parser: one pass over the words, driven by a command's table.
 *
 * Not getopt_long: that prints by itself, knows no optional booleans in the next word, no lists, no
 * suggestions, and would need its own tables made from ours. A word is an option, the value of one,
 * or an operand; options are moved before operands, each kind in its order, so that a caller sees
 * operands in one piece. With stop_at_operand (profile) the first operand ends the options, for all
 * that follows belongs to the application.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/text.h"

struct parse {
	const struct ws_command *c;
	char **argv;
	int argc, at; /* at: the word in hand; values in the next word move it on */
	char *values;
	struct ws_err *e;
};

static const struct ws_opt *find_long(const struct ws_command *c, const char *name, size_t len)
{
	for (const struct ws_opt *o = c->opts; o && o->name; o++)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

static const struct ws_opt *find_short(const struct ws_command *c, char name)
{
	for (const struct ws_opt *o = c->opts; o && o->name; o++)
		if (o->short_name == name)
			return o;
	return NULL;
}

size_t ws_word_next(const char **list, const char **word, bool *later)
{
	const char *s = *list;
	size_t n;

	if (*s == ',' || *s == '|') {
		*later |= *s == '|';
		s++;
	}
	n = strcspn(s, ",|");
	*word = s;
	*list = s + n;
	return n;
}

/* The values of an ENUM or SET as a sentence part: "a, b, c". */
static void list_values(struct ws_text *t, const char *values)
{
	const char *word;
	bool later = false;
	size_t n;

	while ((n = ws_word_next(&values, &word, &later)) && !later) {
		ws_text_puts(t, t->len ? ", " : "");
		ws_text_add(t, word, n);
	}
}

/* Is this one of the words that the option takes? */
static int check_word(const struct ws_opt *o, const char *s, size_t len, struct ws_err *e)
{
	struct ws_text all = {0};
	char *given = ws_strndup(s, len);
	struct ws_nearest near = {.word = given};
	const char *list = o->values, *word;
	bool later = false;
	size_t n;
	int rc = -1;

	list_values(&all, o->values);
	while ((n = ws_word_next(&list, &word, &later))) {
		if (n == len && !memcmp(word, s, n)) {
			rc = later ? ws_fail(e, "--%s: '%s' is not built yet; choose from %s",
					     o->name, given, all.s)
				   : 0;
			goto out;
		}
		ws_nearest_try(&near, word, n);
	}
	if (ws_nearest_found(&near))
		ws_fail(e, "--%s: '%s' is not one of %s; did you mean %.*s?", o->name, given, all.s,
			(int)near.best_len, near.best);
	else
		ws_fail(e, "--%s: '%s' is not one of %s", o->name, given, all.s);
out:
	ws_text_free(&all);
	free(given);
	return rc;
}

/* Is it a word that asks an option which is not there for nothing? */
static bool is_nothing(const struct ws_opt *o, const char *s)
{
	const char *list = o->values, *word;
	bool later = false;
	size_t n;

	while (s && list && (n = ws_word_next(&list, &word, &later)))
		if (!strncmp(word, s, n) && !s[n])
			return true;
	return false;
}

static int check_set(const struct ws_opt *o, const char *s, struct ws_err *e)
{
	for (;;) {
		size_t n = strcspn(s, ",");

		if (check_word(o, s, n, e))
			return -1;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

static int read_bool(const struct ws_opt *o, const char *s, bool *v, struct ws_err *e)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		for (int k = 0; k < 2; k++)
			if (!strcmp(s, words[i][k])) {
				*v = k;
				return 0;
			}
	return ws_fail(e, "--%s: '%s' is neither true nor false", o->name, s);
}

static int read_int(const struct ws_opt *o, const char *s, int64_t *v, struct ws_err *e)
{
	char *end;

	errno = 0;
	*v = strtoll(s, &end, 10);
	if (end == s || *end || strchr(" \t\n\v\f\r", *s))
		return ws_fail(e, "--%s: '%s' is not a whole number", o->name, s);
	if (errno == ERANGE)
		return ws_fail(e, "--%s: '%s' is out of range", o->name, s);
	return 0;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_seconds(const struct ws_opt *o, const char *s, double *v, struct ws_err *e)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"", 1},	   {"s", 1},  {"ms", 1e-3}, {"us", 1e-6},
		     {"ns", 1e-9}, {"m", 60}, {"min", 60},  {"h", 3600}};
	char *end;
	double d;

	/* strtod would also take hexadecimal, nan and inf, which nobody means here. */
	if (!digit(s[0] == '.' ? s[1] : s[0]) || (s[0] == '0' && (s[1] | 32) == 'x'))
		goto bad;
	d = strtod(s, &end);
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (!strcmp(end, units[i].name) && isfinite(d)) {
			*v = d * units[i].seconds;
			return 0;
		}
bad:
	return ws_fail(e,
		       "--%s: '%s' is not a time; write seconds, or a number with ns, us, ms, s, m "
		       "or h, such as 1.5 or 500ms",
		       o->name, s);
}

static void append(struct ws_list *l, const char *s)
{
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = s;
}

/* Store the text of a value; s is NULL for a bare FLAG or BOOL. */
static int set_value(const struct ws_opt *o, const char *s, char *values, struct ws_err *e)
{
	char *at = values + o->offset;

	switch (o->kind) {
	case WS_OPT_FLAG:
	case WS_OPT_BOOL:
		if (s)
			return read_bool(o, s, (bool *)at, e);
		*(bool *)at = true;
		return 0;
	case WS_OPT_MAYBE:
		s = s ? s : "";
		break;
	case WS_OPT_INT:
		return read_int(o, s, (int64_t *)at, e);
	case WS_OPT_SECONDS:
		return read_seconds(o, s, (double *)at, e);
	case WS_OPT_ENUM:
		if (check_word(o, s, strlen(s), e))
			return -1;
		break;
	case WS_OPT_SET:
		if (check_set(o, s, e))
			return -1;
		break;
	case WS_OPT_LIST:
		append((struct ws_list *)at, s);
		return 0;
	case WS_OPT_STRING:
		break;
	case WS_OPT_LATER:
		return is_nothing(o, s) ? 0 : ws_fail(e, "--%s: %s", o->name, o->help);
	}
	*(const char **)at = s;
	return 0;
}

static bool is_flag(const struct ws_opt *o)
{
	return o->kind == WS_OPT_FLAG || o->kind == WS_OPT_BOOL || o->kind == WS_OPT_MAYBE ||
	       o->kind == WS_OPT_LATER;
}

static bool true_or_false(const char *s)
{
	return s && (!strcmp(s, "true") || !strcmp(s, "false"));
}

static const char *next_word(const struct parse *p)
{
	return p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
}

/* A value in the next word. Another option there is more likely a forgotten value than a value that
 * looks like an option. */
static int value_from_next(struct parse *p, const struct ws_opt *o, const char **value)
{
	const char *s = next_word(p);

	if (!s)
		return ws_fail(p->e, "--%s needs a value (%s)", o->name, o->arg ? o->arg : "VALUE");
	if (!strncmp(s, "--", 2) && (!s[2] || find_long(p->c, s + 2, strcspn(s + 2, "="))))
		return ws_fail(p->e,
			       "--%s needs a value (%s), but %s follows; if that is the value, "
			       "write --%s=%s",
			       o->name, o->arg ? o->arg : "VALUE", s, o->name, s);
	p->at++;
	*value = s;
	return 0;
}

/* The option stands alone: find its value, if it takes one, in the next word. */
static int take_bare(struct parse *p, const struct ws_opt *o)
{
	const char *value = NULL;

	if ((o->kind == WS_OPT_BOOL && true_or_false(next_word(p))) ||
	    (o->kind == WS_OPT_LATER && is_nothing(o, next_word(p))))
		value = p->argv[++p->at];
	else if (!is_flag(o) && value_from_next(p, o, &value))
		return -1;
	return set_value(o, value, p->values, p->e);
}

static int unknown_long(const struct parse *p, const char *word, size_t len)
{
	char *name = ws_strndup(word, len);
	struct ws_nearest near = {.word = name};

	for (const struct ws_opt *o = p->c->opts; o && o->name; o++)
		ws_nearest_try(&near, o->name, strlen(o->name));
	ws_nearest_try(&near, "help", 4);
	if (ws_nearest_found(&near))
		ws_fail(p->e, "unknown option --%s; did you mean --%s?", name, near.best);
	else
		ws_fail(p->e, "unknown option --%s; 'warpsight %s --help' lists them", name,
			p->c->name);
	free(name);
	return -1;
}

static int take_long(struct parse *p, const char *word)
{
	size_t len = strcspn(word, "=");
	const struct ws_opt *o = find_long(p->c, word, len);

	if (!o)
		return len == 4 && !memcmp(word, "help", 4) ? 1 : unknown_long(p, word, len);
	if (!word[len])
		return take_bare(p, o);
	if (o->kind == WS_OPT_FLAG)
		return ws_fail(p->e, "--%s takes no value", o->name);
	return set_value(o, word + len + 1, p->values, p->e);
}

/* "-w", "-wf", "-ofile", "-o=file", "-f true", "-ftrue". */
static int take_short(struct parse *p, const char *word)
{
	for (const char *s = word; *s; s++) {
		const struct ws_opt *o = find_short(p->c, *s);
		const char *rest = s + 1;
		int rc;

		if (!o)
			return *s == 'h' ? 1
					 : ws_fail(p->e,
						   "unknown option -%c; 'warpsight %s --help' "
						   "lists them",
						   *s, p->c->name);
		if (!*rest)
			return take_bare(p, o);
		if (*rest == '=' && o->kind == WS_OPT_FLAG)
			return ws_fail(p->e, "--%s takes no value", o->name);
		if (*rest == '=')
			return set_value(o, rest + 1, p->values, p->e);
		if (!is_flag(o) || (o->kind == WS_OPT_BOOL && true_or_false(rest)))
			return set_value(o, rest, p->values, p->e);
		rc = set_value(o, NULL, p->values, p->e);
		if (rc)
			return rc;
	}
	return 0;
}

static int set_defaults(const struct parse *p)
{
	for (const struct ws_opt *o = p->c->opts; o && o->name; o++)
		if (o->fallback && o->kind != WS_OPT_LATER &&
		    set_value(o, o->fallback, p->values, p->e))
			return -1;
	return 0;
}

/* Walk the words; option words are collected in `first`, operands in `last`. */
static int walk(struct parse *p, char **first, int *firsts, char **last, int *lasts)
{
	for (; p->at < p->argc; p->at++) {
		char *word = p->argv[p->at];
		int start = p->at, rc;

		if (word[0] != '-' || !word[1]) {
			last[(*lasts)++] = word;
			if (!p->c->stop_at_operand)
				continue;
			p->at++;
			break;
		}
		if (!strcmp(word, "--")) {
			first[(*firsts)++] = p->argv[p->at++];
			break;
		}
		rc = word[1] == '-' ? take_long(p, word + 2) : take_short(p, word + 1);
		if (rc)
			return rc;
		for (int i = start; i <= p->at; i++)
			first[(*firsts)++] = p->argv[i];
	}
	while (p->at < p->argc)
		last[(*lasts)++] = p->argv[p->at++];
	return 0;
}

int ws_opts_parse(const struct ws_command *c, int argc, char **argv, void *values, int *operands,
		  struct ws_err *e)
{
	struct parse p = {.c = c, .argv = argv, .argc = argc, .values = values, .e = e};
	char **first = ws_calloc((size_t)argc + 1, sizeof(*first)),
	     **last = ws_calloc((size_t)argc + 1, sizeof(*last));
	int firsts = 0, lasts = 0, rc = set_defaults(&p);

	if (!rc)
		rc = walk(&p, first, &firsts, last, &lasts);
	if (!rc) {
		memcpy(argv, first, (size_t)firsts * sizeof(*argv));
		memcpy(argv + firsts, last, (size_t)lasts * sizeof(*argv));
		*operands = firsts;
	}
	free(first);
	free(last);
	return rc;
}

void ws_opts_free(const struct ws_command *c, void *values)
{
	for (const struct ws_opt *o = c->opts; o && o->name; o++)
		if (o->kind == WS_OPT_LIST)
			free(((struct ws_list *)((char *)values + o->offset))->v);
}
