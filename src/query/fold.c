/*
 * fold.c - see fold.h.
 *
 * One pass over the texts hashes both forms of each text that has a number; a second counts how
 * many texts share each form. Equal 64-bit hashes are taken for equal forms. At worst, with a
 * probability of one in millions among millions of texts, two forms become one line of a table.
 */
#include "query/fold.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"

/* Longer texts are not names: arguments, environments, output. */
enum { MOST_LENGTH = 1024, PIECE = 1 << 14 };

enum form { ALONE, ALL, FORMS };

struct candidate { /* a text that has a number, or a # that could stand for one */
	uint32_t id;
	uint64_t hash[FORMS];
};

struct piece { /* of the ids, for one thread at a time */
	struct candidate *candidates;
	size_t count, capacity;
};

struct folded {
	char *text;
	size_t length;
};

struct ws_fold {
	const struct ws_report *report;
	enum ws_fold_mode mode;
	pthread_mutex_t lock;
	bool made;	/* atomic */
	bool used;	/* atomic: ws_fold_name has returned a form */
	uint32_t count; /* highest id */
	uint32_t *keys; /* by id; NULL when nothing is folded */
	struct piece *pieces;
	struct ws_map by_key; /* key of a form: its number + 1 */
	struct folded *forms;
	size_t form_count, form_capacity;
};

/* ---- the form of a name ---- */

static bool is_word(unsigned char c)
{
	return isalnum(c) || c == '_';
}

/* The length of the number at `text`, 0 for none: digits, or 0x and hexadecimal digits. */
static size_t measure_number(const char *text, const char *end)
{
	const char *at = text;

	if (end - text > 2 && text[0] == '0' && (text[1] | 32) == 'x' &&
	    isxdigit((unsigned char)text[2])) {
		for (at += 2; at < end && isxdigit((unsigned char)*at);)
			at++;
		return (size_t)(at - text);
	}
	while (at < end && isdigit((unsigned char)*at))
		at++;
	return (size_t)(at - text);
}

/* How deeply the next character is nested in template arguments. */
static unsigned count_brackets(const char *text, const char *from, unsigned depth)
{
	if (*text == '<' && text > from && is_word((unsigned char)text[-1]))
		return depth + 1;
	if (*text == '>' && depth && text[-1] != '-')
		return depth - 1;
	return depth;
}

/* Write the form of `name`, which is no longer than the name. Returns its length. */
static size_t fold_numbers(const char *name, size_t length, bool all, char *out)
{
	const char *end = name + length;
	unsigned depth = 0;
	size_t n = 0;

	for (const char *text = name; text < end;) {
		size_t number = measure_number(text, end);
		bool alone = number && !depth &&
			     (text == name || !is_word((unsigned char)text[-1])) &&
			     (text + number == end || !is_word((unsigned char)text[number]));

		if (number && (all || alone)) {
			out[n++] = '#';
			text += number;
			continue;
		}
		depth = count_brackets(text, name, depth);
		number = number ? number : 1;
		memcpy(out + n, text, number);
		n += number;
		text += number;
	}
	return n;
}

void ws_put_folded(struct ws_text *text, const char *name, size_t length, bool all)
{
	char *form = ws_malloc(length + 1);

	ws_text_add(text, form, fold_numbers(name, length, all, form));
	free(form);
}

/* ---- which names share a form ---- */

static bool may_be_folded(const char *text, size_t length)
{
	if (!length || length > MOST_LENGTH || *text == '{')
		return false;
	for (size_t i = 0; i < length; i++)
		if (isdigit((unsigned char)text[i]) || text[i] == '#')
			return true;
	return false;
}

static void add_candidate(struct piece *piece, uint32_t id, const char *text, size_t length)
{
	struct candidate candidate = {.id = id};
	char form[MOST_LENGTH];

	for (int i = 0; i < FORMS; i++)
		candidate.hash[i] = XXH3_64bits(form, fold_numbers(text, length, i == ALL, form));
	ws_grow(piece->candidates, piece->capacity, piece->count + 1);
	piece->candidates[piece->count++] = candidate;
}

static void hash_piece(void *context, unsigned worker, size_t number)
{
	struct ws_fold *fold = context;
	struct piece *piece = &fold->pieces[number];
	size_t from = number * PIECE;

	(void)worker;
	for (size_t id = from; id < from + PIECE && id <= fold->count; id++) {
		size_t length;
		const char *text;

		if (!id || fold->keys[id] != id)
			continue;
		text = ws_report_string(fold->report, (uint32_t)id, &length);
		if (may_be_folded(text, length))
			add_candidate(piece, (uint32_t)id, text, length);
	}
}

/* The key of a form is the id of its first name. */
static void set_form(struct ws_fold *fold, struct ws_map *first, const struct candidate *candidate,
		     enum form form)
{
	struct ws_text text = {0};
	size_t length;
	const char *name;
	bool known;
	uint32_t key = (uint32_t)ws_map_get(first, candidate->hash[form], &known);

	if (known) {
		fold->keys[candidate->id] = key;
		return;
	}
	ws_map_set(first, candidate->hash[form], candidate->id);
	name = ws_report_string(fold->report, candidate->id, &length);
	ws_put_folded(&text, name, length, form == ALL);
	ws_grow(fold->forms, fold->form_capacity, fold->form_count + 1);
	fold->forms[fold->form_count++] = (struct folded){text.text, text.len};
	ws_map_set(&fold->by_key, candidate->id, fold->form_count);
}

/* Fold the names whose form `least` or more share; the others stay candidates. */
static void fold_shared(struct ws_fold *fold, size_t pieces, enum form form, uint64_t least)
{
	struct ws_map counts = {0}, first = {0};

	for (size_t i = 0; i < pieces; i++)
		for (size_t k = 0; k < fold->pieces[i].count; k++) {
			uint64_t hash = fold->pieces[i].candidates[k].hash[form];

			ws_map_set(&counts, hash, ws_map_get(&counts, hash, NULL) + 1);
		}
	for (size_t i = 0; i < pieces; i++) {
		struct piece *piece = &fold->pieces[i];
		size_t left = 0;

		for (size_t k = 0; k < piece->count; k++)
			if (ws_map_get(&counts, piece->candidates[k].hash[form], NULL) >= least)
				set_form(fold, &first, &piece->candidates[k], form);
			else
				piece->candidates[left++] = piece->candidates[k];
		piece->count = left;
	}
	ws_map_free(&counts);
	ws_map_free(&first);
}

/* Texts that are stored twice are treated like the first copy. */
static void spread_keys(struct ws_fold *fold)
{
	for (size_t id = 0; id <= fold->count; id++)
		fold->keys[id] = fold->keys[fold->keys[id]];
}

static void find_forms(struct ws_fold *fold)
{
	size_t pieces;

	fold->count = ws_report_string_count(fold->report);
	if (fold->mode == WS_FOLD_NO ||
	    (fold->mode == WS_FOLD_AUTO && fold->count <= WS_FOLD_NAMES))
		return;
	fold->keys = ws_malloc(((size_t)fold->count + 1) * sizeof(*fold->keys));
	ws_report_string_keys(fold->report, fold->keys);
	pieces = fold->count / PIECE + 1;
	fold->pieces = ws_calloc(pieces, sizeof(*fold->pieces));
	ws_run_parallel(ws_count_workers(), pieces, hash_piece, fold);
	fold_shared(fold, pieces, ALONE, fold->mode == WS_FOLD_YES ? 2 : WS_FOLD_NAMES + 1);
	fold_shared(fold, pieces, ALL, WS_FOLD_NAMES + 1);
	for (size_t i = 0; i < pieces; i++)
		free(fold->pieces[i].candidates);
	free(fold->pieces);
	if (fold->form_count) {
		spread_keys(fold);
		return;
	}
	free(fold->keys);
	fold->keys = NULL;
}

/* ---- look-ups ---- */

struct ws_fold *ws_fold_open(const struct ws_report *report, enum ws_fold_mode mode)
{
	struct ws_fold *fold = ws_calloc(1, sizeof(*fold));

	fold->report = report;
	fold->mode = mode;
	pthread_mutex_init(&fold->lock, NULL);
	return fold;
}

void ws_fold_close(struct ws_fold *fold)
{
	if (!fold)
		return;
	for (size_t i = 0; i < fold->form_count; i++)
		free(fold->forms[i].text);
	free(fold->forms);
	free(fold->keys);
	ws_map_free(&fold->by_key);
	pthread_mutex_destroy(&fold->lock);
	free(fold);
}

/* The keys of all ids, made when first asked for; NULL when names are shown as they are. */
static const uint32_t *get_keys(const struct ws_fold *asked)
{
	struct ws_fold *fold = (struct ws_fold *)asked;

	if (!fold)
		return NULL;
	if (__atomic_load_n(&fold->made, __ATOMIC_ACQUIRE))
		return fold->keys;
	pthread_mutex_lock(&fold->lock);
	if (!fold->made) {
		find_forms(fold);
		__atomic_store_n(&fold->made, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&fold->lock);
	return fold->keys;
}

bool ws_fold_any(const struct ws_fold *fold)
{
	return get_keys(fold) != NULL;
}

bool ws_fold_was_used(const struct ws_fold *fold)
{
	return fold && __atomic_load_n(&fold->used, __ATOMIC_RELAXED);
}

uint32_t ws_fold_key(const struct ws_fold *fold, const struct ws_report *report, uint32_t id)
{
	const uint32_t *keys = get_keys(fold);

	if (keys && id <= fold->count)
		return keys[id];
	return ws_report_string_key(report, id);
}

void ws_fold_keys(const struct ws_fold *fold, const struct ws_report *report, uint32_t *keys)
{
	const uint32_t *known = get_keys(fold);

	if (known)
		memcpy(keys, known, ((size_t)fold->count + 1) * sizeof(*keys));
	else
		ws_report_string_keys(report, keys);
}

static const struct folded *find_form(const struct ws_fold *fold, uint32_t id)
{
	const uint32_t *keys = get_keys(fold);
	uint64_t number;

	if (!keys || id > fold->count)
		return NULL;
	number = ws_map_get(&fold->by_key, keys[id], NULL);
	return number ? &fold->forms[number - 1] : NULL;
}

bool ws_fold_is_form(const struct ws_fold *fold, uint32_t id)
{
	return find_form(fold, id) != NULL;
}

const char *ws_fold_name(const struct ws_fold *fold, const struct ws_report *report, uint32_t id,
			 size_t *length)
{
	const struct folded *form = find_form(fold, id);

	if (!form)
		return ws_report_string(report, id, length);
	__atomic_store_n((bool *)&fold->used, true, __ATOMIC_RELAXED);
	*length = form->length;
	return form->text;
}
