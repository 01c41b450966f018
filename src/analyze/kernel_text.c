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
		if (*c == '{')
			depth++;
		else if (*c == '}' && depth)
			depth--;
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

static uint32_t find_line(const char *text, const char *at)
{
	uint32_t line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* The first argument of a call whose bracket opens at `open`; to NULL where it does not end. */
static struct part find_target(const char *open, const char *end)
{
	struct part target = {open + 1, open + 1};

	for (; target.to < end && *target.to != ','; target.to++)
		if (*target.to == '(' || *target.to == '[') {
			target.to = find_closing(target.to);
			if (!target.to)
				return target;
		}
	return trim_target(target);
}

/* Whether a target is a place in what a parameter points to: bins[key], bins + key. */
static bool is_in_parameter(const char *text, struct part target, struct part parameters)
{
	size_t length = 0;

	while (target.from + length < target.to && is_word_part(target.from[length]))
		length++;
	return length && find_word(text, parameters, target.from, length);
}

static bool find_atomic(const char *text, struct part parameters, struct part body,
			struct ws_kernel_atomic *out)
{
	bool found = false;

	for (const char *at = body.from; at < body.to && !(found && out->one_address); at++) {
		size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		struct part target;
		bool one;

		if (strncmp(at, "atomic", 6) != 0 || !isupper((unsigned char)at[6]) ||
		    !is_word_at(text, at, length) || at[length] != '(')
			continue;
		target = find_target(at + length, body.to);
		if (!target.to)
			return found;
		one = is_shared_by_all(text, target, parameters, (struct part){body.from, at});
		if ((!one && (found || !is_in_parameter(text, target, parameters))) ||
		    is_chosen(text, &body, at))
			continue;
		found = true;
		out->one_address = one;
		out->line = find_line(text, at);
		snprintf(out->function, sizeof(out->function), "%.*s", (int)length, at);
		snprintf(out->target, sizeof(out->target), "%.*s", (int)(target.to - target.from),
			 target.from);
	}
	return found;
}

/* ---- accesses that lie apart in neighbouring threads ---- */

enum { MOST_VARIABLES = 16, FEW = 8 };

struct variables {
	struct part name[MOST_VARIABLES]; /* whose values are neighbours in neighbouring threads */
	size_t count;
};

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t\n");
}

static const char *skip_blanks_back(const char *text, const char *at)
{
	while (at > text && isspace((unsigned char)at[-1]))
		at--;
	return at;
}

/* Whether the word in [from, to) is multiplied by something that is not known to be small. */
static bool is_multiplied(const char *text, struct part word)
{
	const char *after = skip_blanks(word.to), *before = skip_blanks_back(text, word.from);

	if (*after == '*') {
		after = skip_blanks(after + 1);
		return !isdigit((unsigned char)*after) || atoi(after) >= FEW;
	}
	if (before == text || before[-1] != '*')
		return false;
	before = skip_blanks_back(text, before - 1);
	if (before > text && isdigit((unsigned char)before[-1])) {
		while (before > text && isdigit((unsigned char)before[-1]))
			before--;
		return is_word_part(before[-1]) || atoi(before) >= FEW;
	}
	return before > text && (is_word_part(before[-1]) || before[-1] == ')');
}

/* "i = blockIdx.x * blockDim.x + threadIdx.x": a variable that counts threads. */
static void find_variables(const char *text, struct part body, struct variables *variables)
{
	struct part rest = body;
	const char *at;

	while (variables->count < MOST_VARIABLES &&
	       (at = find_word(text, rest, "threadIdx.x", 11))) {
		const char *after = skip_blanks(at + 11), *before = skip_blanks_back(text, at);
		struct part name;

		rest.from = at + 11;
		while (before > body.from && !strchr(";{}=<>", before[-1]))
			before--;
		if (before[-1] != '=' || (*after != ';' && *after != ',' && *after != '+'))
			continue;
		name.to = skip_blanks_back(text, before - 1);
		for (name.from = name.to; name.from > body.from && is_word_part(name.from[-1]);)
			name.from--;
		if (is_one_word(name))
			variables->name[variables->count++] = name;
	}
}

/* The first of these variables, or threadIdx.x itself, in an index, or none. */
static struct part find_variable(const char *text, struct part index,
				 const struct variables *variables)
{
	const char *at = find_word(text, index, "threadIdx.x", 11);

	if (at)
		return (struct part){at, at + 11};
	for (size_t i = 0; i < variables->count; i++) {
		size_t length = (size_t)(variables->name[i].to - variables->name[i].from);

		at = find_word(text, index, variables->name[i].from, length);
		if (at)
			return (struct part){at, at + length};
	}
	return (struct part){NULL, NULL};
}

/* How many values a list of members declares: float x, y, more[16]; */
static uint32_t count_values(struct part members)
{
	uint32_t count = 0;

	for (const char *at = members.from; at < members.to; at++) {
		count += *at == ',' || *at == ';';
		if (*at == '[' && atoi(at + 1) > 1)
			count += (uint32_t)atoi(at + 1) - 1;
	}
	return count;
}

/* The structure that a parameter points to, with its members; false where the file has none. */
static bool find_structure(const char *text, struct part parameters, struct part name,
			   struct part *type, struct part *members)
{
	struct part whole = {text, text + strlen(text)};
	size_t length = (size_t)(name.to - name.from);
	const char *at = find_word(text, parameters, name.from, length);

	at = at ? skip_blanks_back(text, at) : text;
	while (at > parameters.from && (at[-1] == '*' || isspace((unsigned char)at[-1])))
		at--;
	type->to = at;
	while (at > parameters.from && is_word_part(at[-1]))
		at--;
	type->from = at;
	for (length = (size_t)(type->to - at); length; whole.from = members->from) {
		members->from = find_word(text, whole, "struct", 6);
		if (!members->from)
			return false;
		members->from = skip_blanks(members->from + 6);
		if (strncmp(members->from, type->from, length) != 0)
			continue;
		members->from = skip_blanks(members->from + length);
		if (*members->from++ != '{')
			continue;
		members->to = find_closing(members->from - 1);
		return members->to != NULL;
	}
	return false;
}

/* How many different members of the elements of an array a kernel's body names. */
static uint32_t count_used(const char *text, struct part body, struct part name)
{
	enum { MOST = 64 };
	size_t length = (size_t)(name.to - name.from);
	struct part used[MOST];
	uint32_t count = 0;

	for (const char *at; count < MOST && (at = find_word(text, body, name.from, length));) {
		const char *end = at[length] == '[' ? find_closing(at + length) : NULL;
		uint32_t same = 0;

		body.from = at + length;
		if (!end || end[1] != '.')
			return UINT32_MAX; /* a whole element */
		used[count] = (struct part){end + 2, end + 2};
		while (is_word_part(*used[count].to))
			used[count].to++;
		for (uint32_t i = 0; i < count; i++)
			same += used[i].to - used[i].from == used[count].to - used[count].from &&
				!memcmp(used[i].from, used[count].from,
					(size_t)(used[i].to - used[i].from));
		count += !same;
	}
	return count;
}

static bool is_apart(const char *text, struct part parameters, struct part body, struct part name,
		     const struct variables *variables, struct ws_kernel_stride *out)
{
	struct part index = {name.to + 1, find_closing(name.to)}, variable, type, members;
	const char *end;

	if (!index.to)
		return false;
	variable = find_variable(text, index, variables);
	*out = (struct ws_kernel_stride){0};
	if (!variable.from || memchr(index.from, '[', (size_t)(index.to - index.from)))
		return false;
	for (end = index.to + 1; is_word_part(*end) || (*end == '.' && end == index.to + 1);)
		end++;
	snprintf(out->access, sizeof(out->access), "%.*s", (int)(end - name.from), name.from);
	if (is_multiplied(text, variable))
		return true;
	if (index.to[1] != '.' || !find_structure(text, parameters, name, &type, &members))
		return false;
	snprintf(out->type, sizeof(out->type), "%.*s", (int)(type.to - type.from), type.from);
	out->values = count_values(members);
	out->used = count_used(text, body, name);
	return out->used <= out->values / 2;
}

static bool find_stride(const char *text, struct part parameters, struct part body,
			struct ws_kernel_stride *out)
{
	struct variables variables = {.count = 0};

	find_variables(text, body, &variables);
	for (const char *at = body.from; at < body.to; at++) {
		struct part name = {at, at};

		if (is_word_part(at[-1]) || !is_word_part(*at))
			continue;
		while (is_word_part(*name.to))
			name.to++;
		if (*name.to == '[' &&
		    find_word(text, parameters, name.from, (size_t)(name.to - name.from)) &&
		    is_apart(text, parameters, body, name, &variables, out)) {
			out->line = find_line(text, at);
			return true;
		}
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

/* The file with a kernel, without comments; NULL where it has none. The caller frees it. */
static char *read_kernel(const char *path, const char *kernel, uint64_t until,
			 struct part *parameters, struct part *body)
{
	char *text = ws_read_source(path, until);
	struct part name = shorten(kernel);

	if (!text)
		return NULL;
	blank_out(text);
	if (name.from < name.to && find_kernel(text, name, parameters, body))
		return text;
	free(text);
	return NULL;
}

bool ws_find_kernel_atomic(const char *path, const char *kernel, uint64_t until,
			   struct ws_kernel_atomic *out)
{
	struct part parameters, body;
	char *text = read_kernel(path, kernel, until, &parameters, &body);
	bool found = text && find_atomic(text, parameters, body, out);

	free(text);
	return found;
}

bool ws_find_kernel_stride(const char *path, const char *kernel, uint64_t until,
			   struct ws_kernel_stride *out)
{
	struct part parameters, body;
	char *text = read_kernel(path, kernel, until, &parameters, &body);
	bool found = text && find_stride(text, parameters, body, out);

	free(text);
	return found;
}
