/* kernel_text.c - see kernel_text.h. */
#include "analyze/kernel_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/source_line.h"
#include "base/mem.h"

/* A part of a text. */
struct part {
	const char *from, *to;
};

static bool is_word_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool is_word_at(const char *text, const char *at, size_t length)
{
	return (at == text || !is_word_part(at[-1])) && !is_word_part(at[length]);
}

/* The first occurrence of a word in a part of `text`, or NULL. */
static const char *find_word(const char *text, struct part part, const char *word, size_t length)
{
	for (const char *at = part.from; at + length <= part.to; at++)
		if (!memcmp(at, word, length) && is_word_at(text, at, length))
			return at;
	return NULL;
}

/* Comments and what stands in quotes become blanks; lines stay as they are. */
static void blank_out(char *text)
{
	char end = 0; /* what ends it: a quote, '*' or '\n' for comments; 0: code */

	for (char *at = text; *at; at++) {
		char c = *at;

		if (!end) {
			if (c == '/' && (at[1] == '/' || at[1] == '*'))
				end = at[1] == '/' ? '\n' : '*';
			else if (c == '"' || (c == '\'' && (at == text || !is_word_part(at[-1]))))
				end = c;
			if (!end)
				continue;
			*at = ' ';
			if (end == '*')
				*++at = ' ';
			continue;
		}
		if (c != '\n')
			*at = ' ';
		if (end == '*' ? c == '*' && at[1] == '/' : c == end || c == '\n') {
			if (end == '*')
				*++at = ' ';
			end = 0;
		} else if (c == '\\' && end != '*' && at[1] && at[1] != '\n') {
			*++at = ' ';
		}
	}
}

/* Where the bracket closes that opens at `at`; NULL where it does not. */
static const char *find_closing(const char *at)
{
	int depth = 0;

	for (; *at; at++) {
		depth += *at == '(' || *at == '{' || *at == '[';
		depth -= *at == ')' || *at == '}' || *at == ']';
		if (!depth)
			return at;
	}
	return NULL;
}

/* The parameters and the body of a kernel. */
static bool find_kernel(const char *text, struct part name, struct part *parameters,
			struct part *body)
{
	size_t length = (size_t)(name.to - name.from);
	struct part rest = {text, text + strlen(text)};
	const char *at;

	while ((at = find_word(text, rest, "__global__", 10))) {
		const char *stop = at + strcspn(at, ";{"), *found, *end;

		rest.from = at + 10;
		found = find_word(text, (struct part){at, stop}, name.from, length);
		if (!found)
			continue;
		found += length;
		found += strspn(found, " \t\n");
		end = *found == '(' ? find_closing(found) : NULL;
		if (!end || end[1 + strspn(end + 1, " \t\n")] != '{')
			continue;
		*parameters = (struct part){found, end};
		body->from = end + 1 + strspn(end + 1, " \t\n");
		body->to = find_closing(body->from);
		return body->to != NULL;
	}
	return false;
}

/* Whether a condition lets only some threads pass, such as the first of each block or warp. */
static bool is_choice(const char *text, struct part head)
{
	const char *condition = find_word(text, head, "if", 2), *equal;

	if (!condition)
		return false;
	for (equal = condition; equal + 1 < head.to; equal++)
		if ((equal[0] == '=' && equal[1] == '=') ||
		    (equal[0] == '!' && equal[1] != '=' && is_word_part(equal[1])) ||
		    (equal[0] == '<' && equal[1] != '<'))
			break;
	if (equal + 1 >= head.to)
		return false;
	/* Of values in memory many may pass. */
	if (memchr(condition, '[', (size_t)(head.to - condition)))
		return false;
	return equal[0] != '<' || find_word(text, head, "threadIdx", 9);
}

/* Whether only some threads come to `at`: by the heads of the blocks that it is in, and of its own
 * statement. */
static bool is_chosen(const char *text, const struct part *body, const char *at)
{
	enum { DEEPEST = 64 };
	struct part heads[DEEPEST];
	const char *head = body->from + 1;
	int depth = 0, round = 0;

	for (const char *c = head; c < at; c++) {
		round += (*c == '(') - (*c == ')');
		if (round > 0 || (*c != '{' && *c != '}' && *c != ';'))
			continue;
		if (*c == '{' && depth < DEEPEST)
			heads[depth] = (struct part){head, c};
		depth += (*c == '{') - (*c == '}');
		head = c + 1;
	}
	for (int i = 0; i < depth && i < DEEPEST; i++)
		if (is_choice(text, heads[i]))
			return true;
	return is_choice(text, (struct part){head, at});
}

/* Cut blanks and an address operator off, and a constant index. */
static struct part trim_target(struct part target)
{
	while (target.from < target.to &&
	       (isspace((unsigned char)*target.from) || *target.from == '&' || *target.from == '('))
		target.from++;
	while (target.to > target.from &&
	       (isspace((unsigned char)target.to[-1]) || target.to[-1] == ')'))
		target.to--;
	if (target.to > target.from && target.to[-1] == ']') {
		const char *open = target.to - 1;

		while (open > target.from && (isdigit((unsigned char)open[-1])))
			open--;
		if (open > target.from && open[-1] == '[' && open < target.to - 1)
			target.to = open - 1;
	}
	return target;
}

static bool is_one_word(struct part part)
{
	if (part.from == part.to || isdigit((unsigned char)*part.from))
		return false;
	for (const char *at = part.from; at < part.to; at++)
		if (!is_word_part(*at))
			return false;
	return true;
}

/* Whether a target is the same for all threads. */
static bool is_shared_by_all(const char *text, struct part target, struct part parameters,
			     struct part before)
{
	size_t length = (size_t)(target.to - target.from);

	return is_one_word(target) && (find_word(text, parameters, target.from, length) ||
				       !find_word(text, before, target.from, length));
}

static bool find_atomic(const char *text, struct part parameters, struct part body,
			struct ws_kernel_atomic *out)
{
	for (const char *at = body.from; at < body.to; at++) {
		size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		struct part target;

		if (strncmp(at, "atomic", 6) != 0 || !isupper((unsigned char)at[6]) ||
		    !is_word_at(text, at, length) || at[length] != '(')
			continue;
		target.from = at + length + 1;
		for (target.to = target.from; target.to < body.to && *target.to != ','; target.to++)
			if (*target.to == '(' || *target.to == '[') {
				const char *end = find_closing(target.to);

				if (!end)
					return false;
				target.to = end;
			}
		target = trim_target(target);
		if (!is_shared_by_all(text, target, parameters, (struct part){body.from, at}) ||
		    is_chosen(text, &body, at))
			continue;
		out->line = 1;
		for (const char *c = text; c < at; c++)
			out->line += *c == '\n';
		snprintf(out->function, sizeof(out->function), "%.*s", (int)length, at);
		snprintf(out->target, sizeof(out->target), "%.*s", (int)(target.to - target.from),
			 target.from);
		return true;
	}
	return false;
}

/* The name without namespaces and arguments of templates. */
static struct part shorten(const char *kernel)
{
	struct part name = {kernel, kernel + strcspn(kernel, "<(")};

	for (const char *at = name.from; at < name.to; at++)
		if (*at == ':' || *at == ' ')
			name.from = at + 1;
	return name;
}

bool ws_find_kernel_atomic(const char *path, const char *kernel, uint64_t until,
			   struct ws_kernel_atomic *out)
{
	char *text = ws_read_source(path, until);
	struct part parameters, body, name = shorten(kernel);
	bool found = false;

	if (!text)
		return false;
	blank_out(text);
	if (name.from < name.to && find_kernel(text, name, &parameters, &body))
		found = find_atomic(text, parameters, body, out);
	free(text);
	return found;
}
