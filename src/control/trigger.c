/* trigger.c - see trigger.h. One table declares the kinds of triggers. */
#include "control/trigger.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "control/flight.h"

#define LEAST_FACTOR 1.05
#define MOST_FACTOR 1000.0

static const struct kind {
	const char *words, *form;
	bool has_name, has_time, has_factor;
} kinds[WS_TRIGGER_KINDS] = {
	[WS_TRIGGER_ON_RANGE] = {"range", "range NAME > TIME, or > 1.5x", true, true, true},
	[WS_TRIGGER_ON_STEP] = {"step", "step > TIME, or > 1.5x", false, true, true},
	[WS_TRIGGER_ON_MARK] = {"mark", "mark TEXT", true, false, false},
	[WS_TRIGGER_ON_GPU_IDLE] = {"gpu idle", "gpu idle > TIME", false, true, false},
	[WS_TRIGGER_ON_XID] = {"xid", "xid", false, false, false},
};

const char *ws_trigger_form(size_t i)
{
	return i < WS_TRIGGER_KINDS ? kinds[i].form : NULL;
}

/* A text being read, without blanks around it. */
struct part {
	const char *text;
	size_t length;
};

static struct part trim(const char *text, size_t length)
{
	while (length && isspace((unsigned char)*text))
		text++, length--;
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	return (struct part){text, length};
}

/* The length of `words` at the beginning of the part, however many blanks separate them; 0 when the
 * part begins otherwise. */
static size_t match_words(struct part part, const char *words)
{
	size_t at = 0;

	for (; *words; words++) {
		if (*words == ' ') {
			size_t blanks = 0;

			while (at < part.length && isspace((unsigned char)part.text[at]))
				at++, blanks++;
			if (!blanks)
				return 0;
		} else if (at == part.length || tolower((unsigned char)part.text[at++]) != *words) {
			return 0;
		}
	}
	if (at < part.length && !isspace((unsigned char)part.text[at]))
		return 0;
	return at;
}

static int refuse(const char *text, const char *why, struct ws_err *err)
{
	return ws_fail(err, "--trigger: '%s': %s", text, why);
}

static int refuse_form(const char *text, struct ws_err *err)
{
	struct ws_text forms = {0};

	for (size_t i = 0; i < WS_TRIGGER_KINDS; i++)
		ws_text_printf(&forms, "%s'%s'", i ? "; " : "", kinds[i].form);
	ws_fail(err, "--trigger: '%s' is none of %s", text, forms.text);
	ws_text_free(&forms);
	return -1;
}

static int read_factor(struct part limit, double *factor)
{
	size_t digits = strspn(limit.text, "0123456789.");
	char *end;

	if (!digits || digits + 1 != limit.length || (limit.text[digits] | 32) != 'x')
		return -1;
	*factor = strtod(limit.text, &end);
	return end == limit.text + digits ? 0 : -1;
}

/* What follows the ">". */
static int read_limit(const char *text, struct part limit, struct ws_flight_trigger *trigger,
		      struct ws_err *err)
{
	const struct kind *kind = &kinds[trigger->kind];
	const char *end;

	if (kind->has_factor && !read_factor(limit, &trigger->factor)) {
		if (trigger->factor < LEAST_FACTOR || trigger->factor > MOST_FACTOR)
			return refuse(text, "give a factor from 1.05x to 1000x", err);
		return 0;
	}
	if (ws_flight_read_time(limit.text, &trigger->ns, &end) ||
	    end != limit.text + limit.length || !trigger->ns)
		return refuse(text,
			      kind->has_factor ? "behind the > stands a time (500ms) or a factor "
						 "of the median (1.5x)"
					       : "behind the > stands a time, such as 100ms",
			      err);
	return 0;
}

static void fill_label(struct ws_flight_trigger *trigger)
{
	size_t n = 0;

	for (const char *at = kinds[trigger->kind].words; *at; at++)
		trigger->label[n++] = isalnum((unsigned char)*at) ? *at : '-';
	if (trigger->name)
		trigger->label[n++] = '-';
	for (const char *at = trigger->name; at && *at && n + 1 < sizeof(trigger->label); at++) {
		bool plain = isalnum((unsigned char)*at) || *at == '_';

		if (plain || trigger->label[n - 1] != '-')
			trigger->label[n++] = plain ? *at : '-';
	}
	while (n && trigger->label[n - 1] == '-')
		n--;
	trigger->label[n] = 0;
}

/* The kind whose words begin the part; -1 for none. *used gets their length. */
static int find_kind(struct part part, size_t *used)
{
	for (int i = 0; i < WS_TRIGGER_KINDS; i++) {
		*used = match_words(part, kinds[i].words);
		if (*used)
			return i;
	}
	return -1;
}

/* The last > separates a name from its limit, since a name may itself contain one. */
static size_t find_limit(struct part part)
{
	size_t at = part.length;

	while (at && part.text[at - 1] != '>')
		at--;
	return at;
}

static int read_parts(const char *text, struct ws_flight_trigger *trigger, struct ws_err *err)
{
	struct part all = trim(text, strlen(text)), name = all, limit = {0};
	size_t used, at = find_limit(all);
	int kind;

	/* Marks have no limit: a > is part of their text. */
	if (at && match_words(all, kinds[WS_TRIGGER_ON_MARK].words))
		at = 0;
	if (at) {
		limit = trim(all.text + at, all.length - at);
		name = trim(all.text, at - 1);
	}
	kind = find_kind(name, &used);
	if (kind < 0 || kinds[kind].has_time != (at > 0))
		return refuse_form(text, err);
	trigger->kind = (enum ws_flight_trigger_kind)kind;
	name = trim(name.text + used, name.length - used);
	if (kinds[kind].has_name != (name.length > 0))
		return refuse_form(text, err);
	if (name.length)
		trigger->name = ws_strndup(name.text, name.length);
	return at ? read_limit(text, limit, trigger, err) : 0;
}

int ws_trigger_read(const char *text, struct ws_flight_triggers *list, struct ws_err *err)
{
	struct ws_flight_trigger trigger = {0};

	if (list->count == WS_TRIGGERS_MOST)
		return ws_fail(err, "--trigger: there may be %d", WS_TRIGGERS_MOST);
	if (read_parts(text, &trigger, err)) {
		free(trigger.name);
		return -1;
	}
	fill_label(&trigger);
	trigger.text = ws_strdup(text);
	ws_grow(list->triggers, list->cap, list->count + 1);
	list->triggers[list->count++] = trigger;
	return 0;
}

void ws_trigger_free(struct ws_flight_triggers *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->triggers[i].name);
		free(list->triggers[i].text);
	}
	free(list->triggers);
	*list = (struct ws_flight_triggers){0};
}
