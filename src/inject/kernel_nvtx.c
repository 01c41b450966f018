/*
 * kernel_nvtx.c - the push/pop ranges of NVTX that a thread has open when it launches a kernel, and
 * the start/end ranges that any thread has open, as the NVTX hook keeps them, and filters by them
 * as users of Nsight Compute write them:
 *
 *     domain@outer/inner     names of ranges that follow each other in the stack of the domain;
 *                            without a domain, of the default one
 *     domain@one,other       without a slash: start/end ranges, all of which are open; a single
 *                            name is that of a push/pop range as well
 *     [  and  ]              the bottom and the top of that stack
 *     +  and  *              any one range; any ranges or none
 *     regex:EXPRESSION       a range in whose name the expression is found
 */
#include <regex.h>
#include <stdio.h>

#include "inject/kernel.h"

enum { STACK = WS_OPEN_DEPTH, PARTS = 32, PATTERN_ROOM = 1024, PATTERNS = 16, STARTED_MOST = 64 };

struct stack {
	const char *names[STACK];
	uint32_t domains[STACK];
	size_t depth;
};

/* The stack is in the thread's first ring; ranges too deep for its chunk are left out. */
static void read_stack(struct stack *stack)
{
	const struct ws_ring *ring = ws_self ? ws_self->nest[0].ring : NULL;
	uint32_t depth = ring ? atomic_load_explicit(&ring->open_depth, memory_order_relaxed) : 0;

	stack->depth = 0;
	for (uint32_t i = 0; i < ws_min(depth, (uint32_t)STACK); i++) {
		const struct ws_open *open = &ring->open[i];

		if (!open->start || open->flags & (WS_OPEN_LOST | WS_OPEN_IDLE))
			continue;
		stack->names[stack->depth] = "?";
		if (!(open->flags & WS_OPEN_LOCAL_TEXT))
			stack->names[stack->depth] =
				open->text ? ws_string_at(ws_rt->arena, open->text)->bytes : "";
		stack->domains[stack->depth++] = open->domain;
	}
}

void ws_kernel_name_ranges(char *out, size_t room)
{
	struct stack stack;
	size_t n = 0;

	*out = 0;
	read_stack(&stack);
	for (size_t i = 0; i < stack.depth && n < room; i++) {
		const char *domain = ws_nvtx_name_domain(stack.domains[i]);

		n += (size_t)snprintf(out + n, room - n, "%s%s%s%s", i ? "/" : "", domain,
				      *domain ? "@" : "", stack.names[i]);
	}
}

/* ---- patterns ---- */

struct part {
	const char *text;
	regex_t expression;
	bool is_expression;
};
struct pattern {
	char text[PATTERN_ROOM];
	const char *domain;
	struct part parts[PARTS];
	size_t count;
	bool bottom, top;
	bool started; /* start/end ranges, in any order */
};
struct patterns {
	struct pattern patterns[PATTERNS];
	size_t count;
};
static struct patterns includes, excludes;

static int add_part(struct pattern *pattern, const char *text)
{
	struct part *part = &pattern->parts[pattern->count++];

	part->text = text;
	part->is_expression = !strncmp(text, "regex:", 6);
	return part->is_expression && regcomp(&part->expression, text + 6, REG_EXTENDED | REG_NOSUB)
		       ? -1
		       : 0;
}

static int split_pattern(struct pattern *pattern, const char *text, size_t length)
{
	char *rest = pattern->text, *at, *part;

	pattern->domain = "";
	snprintf(pattern->text, sizeof(pattern->text), "%.*s", (int)length, text);
	at = strncmp(rest, "regex:", 6) ? strchr(rest, '@') : NULL;
	if (at) {
		*at = 0;
		pattern->domain = rest;
		rest = at + 1;
	}
	pattern->started = !strchr(rest, '/');
	while ((part = strsep(&rest, pattern->started ? "," : "/")) && pattern->count < PARTS) {
		if (!strcmp(part, "["))
			pattern->bottom = true;
		else if (!strcmp(part, "]"))
			pattern->top = true;
		else if (*part && add_part(pattern, part))
			return -1;
	}
	return 0;
}

static int read_patterns(struct patterns *patterns, const char *text)
{
	while (*text && patterns->count < PATTERNS) {
		size_t length = strcspn(text, "\n");

		if (split_pattern(&patterns->patterns[patterns->count++], text, length)) {
			ws_kernel_report(WS_ERROR,
					 "Kernels are not measured: '%.*s' of --nvtx-include or "
					 "--nvtx-exclude is no expression.",
					 (int)length, text);
			return -1;
		}
		text += length + (text[length] != 0);
	}
	return 0;
}

int ws_kernel_prepare_ranges(void)
{
	return read_patterns(&includes, ws_kernel_settings.nvtx_include) ||
			       read_patterns(&excludes, ws_kernel_settings.nvtx_exclude)
		       ? -1
		       : 0;
}

static bool matches_part(const struct part *part, const char *name)
{
	if (!strcmp(part->text, "+"))
		return true;
	if (part->is_expression)
		return !regexec(&part->expression, name, 0, NULL, 0);
	return !strcmp(part->text, name);
}

/* Whether the parts from `part` on match the ranges from `from` on. */
static bool matches_from(const struct pattern *pattern, size_t part, const char *const *names,
			 size_t count, size_t from)
{
	for (; part < pattern->count; part++, from++) {
		if (!strcmp(pattern->parts[part].text, "*")) {
			for (size_t skip = from; skip <= count; skip++)
				if (matches_from(pattern, part + 1, names, count, skip))
					return true;
			return false;
		}
		if (from >= count || !matches_part(&pattern->parts[part], names[from]))
			return false;
	}
	return !pattern->top || from == count;
}

static bool matches_stack(const struct pattern *pattern, const struct stack *stack)
{
	const char *names[STACK];
	size_t count = 0;

	if (pattern->started && pattern->count > 1)
		return false;
	for (size_t i = 0; i < stack->depth; i++)
		if (!strcmp(ws_nvtx_name_domain(stack->domains[i]), pattern->domain))
			names[count++] = stack->names[i];
	for (size_t from = 0; from < ws_max(count, (size_t)1); from++) {
		if (matches_from(pattern, 0, names, count, from))
			return count || !pattern->count;
		if (pattern->bottom)
			break;
	}
	return false;
}

static bool is_started(const struct part *part, const char *domain,
		       const struct ws_nvtx_started *started, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(ws_nvtx_name_domain(started[i].domain), domain) &&
		    matches_part(part, started[i].name))
			return true;
	return false;
}

static bool matches_started(const struct pattern *pattern, const struct ws_nvtx_started *started,
			    size_t count)
{
	for (size_t i = 0; i < pattern->count; i++)
		if (!is_started(&pattern->parts[i], pattern->domain, started, count))
			return false;
	return pattern->started && pattern->count && count;
}

/* The first pattern that the thread's stack, or the start/end ranges, match; NULL for none. */
static const struct pattern *find_by_stack(const struct patterns *patterns)
{
	struct stack stack;

	if (!patterns->count)
		return NULL;
	read_stack(&stack);
	for (size_t i = 0; i < patterns->count; i++)
		if (matches_stack(&patterns->patterns[i], &stack))
			return &patterns->patterns[i];
	return NULL;
}

static const struct pattern *find_by_started(const struct patterns *patterns)
{
	struct ws_nvtx_started started[STARTED_MOST];
	size_t count;

	if (!patterns->count)
		return NULL;
	count = ws_nvtx_list_started(started, STARTED_MOST);
	for (size_t i = 0; i < patterns->count; i++)
		if (matches_started(&patterns->patterns[i], started, count))
			return &patterns->patterns[i];
	return NULL;
}

static bool matches_any(const struct patterns *patterns)
{
	return find_by_stack(patterns) || find_by_started(patterns);
}

bool ws_kernel_wants_ranges(void)
{
	return (!includes.count || matches_any(&includes)) && !matches_any(&excludes);
}

bool ws_kernel_is_in_pushed_range(char *name, size_t room)
{
	struct stack stack;
	const struct pattern *pattern = find_by_stack(&includes);

	if (!pattern || matches_any(&excludes))
		return false;
	read_stack(&stack);
	for (size_t i = 0; i < stack.depth; i++)
		if (!strcmp(ws_nvtx_name_domain(stack.domains[i]), pattern->domain))
			snprintf(name, room, "%s", stack.names[i]);
	return true;
}

bool ws_kernel_is_in_started_range(char *name, size_t room)
{
	const struct pattern *pattern = find_by_started(&includes);

	if (!pattern || matches_any(&excludes))
		return false;
	snprintf(name, room, "%s", pattern->parts[0].text);
	return true;
}
