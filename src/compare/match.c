/* match.c - see match.h. */
#include "compare/match.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

struct matcher {
	struct ws_matches *matches;
	struct ws_map index; /* hash of kind and text: match + 1 */
	size_t runs;
};

static uint64_t hash_name(enum ws_item_kind kind, const char *name)
{
	return XXH3_64bits_withSeed(name, strlen(name), (uint64_t)kind);
}

static struct ws_match *add_match(struct matcher *matcher, enum ws_item_kind kind, const char *name)
{
	struct ws_matches *matches = matcher->matches;
	struct ws_match *match;

	ws_grow(matches->matches, matches->cap, matches->count + 1);
	match = &matches->matches[matches->count++];
	*match = (struct ws_match){.kind = kind,
				   .name = ws_strdup(name),
				   .series = ws_calloc(matcher->runs, sizeof(struct ws_series *))};
	return match;
}

static struct ws_match *find_or_add_match(struct matcher *matcher, enum ws_item_kind kind,
					  const char *name)
{
	uint64_t hash = hash_name(kind, name), at;

	for (; (at = ws_map_get(&matcher->index, hash, NULL)); hash++) {
		struct ws_match *match = &matcher->matches->matches[at - 1];

		if (match->kind == kind && !strcmp(match->name, name))
			return match;
	}
	ws_map_set(&matcher->index, hash, matcher->matches->count + 1);
	return add_match(matcher, kind, name);
}

static void add_series(struct ws_series *to, const struct ws_series *from)
{
	for (size_t i = 0; i < WS_UNITS; i++) {
		to->time[i] += from->time[i];
		to->count[i] += from->count[i];
	}
}

static void put_series(struct ws_match *match, size_t run, struct ws_series *series)
{
	if (match->series[run])
		add_series(match->series[run], series);
	else
		match->series[run] = series;
}

static bool is_on_side(const struct ws_matches *matches, const struct ws_match *match, size_t side)
{
	size_t first = side ? matches->runs[0] : 0;

	for (size_t i = first; i < first + matches->runs[side]; i++)
		if (match->series[i])
			return true;
	return false;
}

/* ---- forms ---- */

/* Items with the same form, as long as they are on one side only. */
struct form_group {
	size_t first;		/* match that the others are added to */
	size_t names[WS_SIDES]; /* how many */
	char *form;
};

struct form_search {
	struct matcher *matcher;
	struct form_group *groups;
	size_t count, cap;
	struct ws_map index;
	size_t *group_of; /* by match: group + 1; 0: it is on both sides */
};

static size_t find_or_add_group(struct form_search *search, size_t number)
{
	const struct ws_match *match = &search->matcher->matches->matches[number];
	struct ws_text form = {0};
	uint64_t hash, at;

	ws_put_name_form(&form, match->name);
	hash = hash_name(match->kind, form.text);
	at = ws_map_get(&search->index, hash, NULL);
	if (!at) {
		ws_grow(search->groups, search->cap, search->count + 1);
		search->groups[search->count] =
			(struct form_group){.first = number, .form = ws_strdup(form.text)};
		at = ++search->count;
		ws_map_set(&search->index, hash, at);
	}
	ws_text_free(&form);
	return at;
}

static void gather_forms(struct form_search *search)
{
	const struct ws_matches *matches = search->matcher->matches;

	for (size_t i = 0; i < matches->count; i++) {
		bool base = is_on_side(matches, &matches->matches[i], 0),
		     fresh = is_on_side(matches, &matches->matches[i], 1);

		if (base && fresh)
			continue;
		search->group_of[i] = find_or_add_group(search, i);
		search->groups[search->group_of[i] - 1].names[fresh]++;
	}
}

static void merge_match(struct form_search *search, struct form_group *group,
			struct ws_match *match)
{
	struct ws_match *to = &search->matcher->matches->matches[group->first];
	bool single = group->names[0] == 1 && group->names[1] == 1;

	if (match != to)
		for (size_t i = 0; i < search->matcher->runs; i++)
			if (match->series[i])
				put_series(to, i, match->series[i]);
	if (match != to && single) {
		to->renamed = match->name;
		match->name = NULL;
	}
	memcpy(to->names, group->names, sizeof(to->names));
	if (!single && match == to) {
		free(to->name);
		to->name = ws_strdup(group->form);
	}
	if (match != to) {
		free(match->name);
		match->name = NULL;
	}
}

static void drop_merged(struct ws_matches *matches)
{
	size_t kept = 0;

	for (size_t i = 0; i < matches->count; i++) {
		if (matches->matches[i].name)
			matches->matches[kept++] = matches->matches[i];
		else
			free(matches->matches[i].series);
	}
	matches->count = kept;
}

static void merge_forms(struct matcher *matcher)
{
	struct form_search search = {.matcher = matcher,
				     .group_of = ws_calloc(matcher->matches->count + 1,
							   sizeof(*search.group_of))};

	gather_forms(&search);
	for (size_t i = 0; i < matcher->matches->count; i++) {
		struct form_group *group;

		if (!search.group_of[i])
			continue;
		group = &search.groups[search.group_of[i] - 1];
		if (group->names[0] && group->names[1])
			merge_match(&search, group, &matcher->matches->matches[i]);
	}
	drop_merged(matcher->matches);
	for (size_t i = 0; i < search.count; i++)
		free(search.groups[i].form);
	free(search.groups);
	free(search.group_of);
	ws_map_free(&search.index);
}

/* ---- the interface ---- */

void ws_match_items(struct ws_items *runs, const size_t counts[WS_SIDES],
		    struct ws_matches *matches)
{
	struct matcher matcher = {.matches = matches, .runs = counts[0] + counts[1]};

	memset(matches, 0, sizeof(*matches));
	memcpy(matches->runs, counts, sizeof(matches->runs));
	for (size_t run = 0; run < matcher.runs; run++)
		for (size_t i = 0; i < runs[run].count; i++) {
			struct ws_item *item = runs[run].items[i];

			put_series(find_or_add_match(&matcher, item->kind, item->name), run,
				   &item->series);
		}
	for (size_t i = 0; i < matches->count; i++)
		for (size_t side = 0; side < WS_SIDES; side++)
			matches->matches[i].names[side] =
				is_on_side(matches, &matches->matches[i], side);
	merge_forms(&matcher);
	ws_map_free(&matcher.index);
}

void ws_matches_free(struct ws_matches *matches)
{
	for (size_t i = 0; i < matches->count; i++) {
		free(matches->matches[i].name);
		free(matches->matches[i].renamed);
		free(matches->matches[i].series);
	}
	free(matches->matches);
	memset(matches, 0, sizeof(*matches));
}
