/*
 * keys.c - one id for equal bytes.
 *
 * In the usual report, whose writer never had to restart its dictionary, every id is its own key,
 * and nothing is computed. Otherwise (many names that never repeat) several threads hash all
 * strings, a few blocks at a time, and distribute them by a part of the hash over lots whose hash
 * tables fit in the cache; strings are compared only when their hashes agree.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "base/mem.h"
#include "store/report.h"

enum { LOT_BITS = 15, MAX_THREADS = 16, MAX_PIECES = 64 };

struct ws_string_keys {
	uint32_t **key; /* by block, by string */
};

struct string_entry {
	uint32_t hash, id;
};

struct unifier {
	const struct ws_report *report;
	struct ws_string_keys *keys;
	struct string_entry *entries;
	size_t *lot;	  /* where each begins in entries; one more for the end */
	uint32_t *places; /* by piece and lot: how many strings; then where its next one goes */
	uint32_t lots, shift, pieces;
	size_t next; /* piece or lot */
};

/* ---- threads ---- */

static uint32_t count_threads(void)
{
	cpu_set_t set;
	int cores;
	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	cores = ws_max(CPU_COUNT(&set), 1);
	return (uint32_t)ws_min(cores, (int)MAX_THREADS);
}

static void run_threads(struct unifier *unifier, void *(*work)(void *))
{
	pthread_t thread[MAX_THREADS];
	uint32_t threads = count_threads(), started = 0;

	unifier->next = 0;
	while (started + 1 < threads && !pthread_create(&thread[started], NULL, work, unifier))
		started++;
	work(unifier);
	while (started)
		pthread_join(thread[--started], NULL);
}

/* ---- hashing ---- */

/* A piece is a run of blocks: returns its first one; *end gets the one after its last. */
static size_t piece_blocks(const struct unifier *unifier, size_t piece, size_t *end)
{
	*end = (piece + 1) * unifier->report->strings.count / unifier->pieces;
	return piece * unifier->report->strings.count / unifier->pieces;
}

/* Hashes are kept where the keys will be. */
static void hash_block(struct unifier *unifier, size_t index, uint32_t *count)
{
	const struct ws_block_head *head = &unifier->report->strings.blocks[index].head;
	const struct ws_text_block *block = ws_report_texts(unifier->report, index);
	uint32_t *key = unifier->keys->key[index] = ws_malloc((size_t)head->rows * sizeof(*key));

	for (uint32_t row = 0; row < head->rows; row++) {
		const char *text;
		size_t len;

		if (block->state == WS_TEXT_READY) {
			len = block->at[row + 1] - block->at[row] - 1;
			text = block->text + block->at[row];
		} else {
			text = ws_report_string(unifier->report, block->first + row, &len);
		}

		key[row] = (uint32_t)(XXH3_64bits(text, len) >> 32);
		count[(uint64_t)key[row] >> unifier->shift]++;
	}
}

static void *hash_pieces(void *arg)
{
	struct unifier *unifier = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&unifier->next, 1, __ATOMIC_RELAXED)) < unifier->pieces)
		for (size_t i = piece_blocks(unifier, piece, &end); i < end; i++)
			hash_block(unifier, i, unifier->places + piece * unifier->lots);
	return NULL;
}

static void *deal_pieces(void *arg)
{
	struct unifier *unifier = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&unifier->next, 1, __ATOMIC_RELAXED)) < unifier->pieces)
		for (size_t i = piece_blocks(unifier, piece, &end); i < end; i++)
			for (uint32_t row = 0; row < unifier->report->strings.blocks[i].head.rows;
			     row++) {
				uint32_t hash = unifier->keys->key[i][row];

				unifier->entries[unifier->places[piece * unifier->lots +
								 ((uint64_t)hash >>
								  unifier->shift)]++] =
					(struct string_entry){
						hash, (uint32_t)unifier->report->strings.blocks[i]
								      .head.first +
							      row};
			}
	return NULL;
}

/* Sorts the ids into lots. There are fewer than 2^32 strings. */
static void sort_into_lots(struct unifier *unifier, size_t count)
{
	size_t sum = 0;

	for (unifier->lots = 1; unifier->lots < (1u << 20) && (count >> LOT_BITS) > unifier->lots;)
		unifier->lots *= 2;
	unifier->shift = 32 - (uint32_t)__builtin_ctz(unifier->lots);
	unifier->pieces = (uint32_t)ws_min(unifier->report->strings.count, (size_t)MAX_PIECES);
	unifier->lot = ws_calloc((size_t)unifier->lots + 1, sizeof(*unifier->lot));
	unifier->places =
		ws_calloc((size_t)unifier->pieces * unifier->lots, sizeof(*unifier->places));
	run_threads(unifier, hash_pieces);
	for (uint32_t lot = 0; lot < unifier->lots; lot++) {
		for (uint32_t piece = 0; piece < unifier->pieces; piece++) {
			uint32_t strings = unifier->places[(size_t)piece * unifier->lots + lot];

			unifier->places[(size_t)piece * unifier->lots + lot] = (uint32_t)sum;
			sum += strings;
		}
		unifier->lot[lot + 1] = sum;
	}
	unifier->entries = ws_malloc(count * sizeof(*unifier->entries));
	run_threads(unifier, deal_pieces);
	free(unifier->places);
}

/* ---- comparing ---- */

static bool is_same_text(const struct ws_report *report, uint32_t first, uint32_t second)
{
	size_t first_length, second_length;
	const char *first_text = ws_report_string(report, first, &first_length),
		   *second_text = ws_report_string(report, second, &second_length);

	return first_length == second_length && !memcmp(first_text, second_text, first_length);
}

/* Entries are in the order of their ids, so that the first of equal ones is the key, and blocks
 * come one after the other. */
static void unify_lot(struct unifier *unifier, const struct string_entry *entry, size_t count,
		      struct string_entry *slot, uint32_t mask)
{
	const struct ws_block_list *block_list = &unifier->report->strings;
	size_t block = 0;

	memset(slot, 0, ((size_t)mask + 1) * sizeof(*slot));
	for (size_t i = 0; i < count; i++) {
		uint32_t at = (entry[i].hash * 0x9e3779b1u >> 7) & mask;

		while (slot[at].id && (slot[at].hash != entry[i].hash ||
				       !is_same_text(unifier->report, slot[at].id, entry[i].id)))
			at = (at + 1) & mask;
		if (!slot[at].id)
			slot[at] = entry[i];
		while (entry[i].id - block_list->blocks[block].head.first >=
		       block_list->blocks[block].head.rows)
			block++;
		unifier->keys->key[block][entry[i].id - block_list->blocks[block].head.first] =
			slot[at].id;
	}
}

static void *unify_lots(void *arg)
{
	struct unifier *unifier = arg;
	struct string_entry *slot = NULL;
	size_t cap = 0, lot;

	while ((lot = __atomic_fetch_add(&unifier->next, 1, __ATOMIC_RELAXED)) < unifier->lots) {
		size_t strings = unifier->lot[lot + 1] - unifier->lot[lot], slots = 64;

		while (slots < strings * 2)
			slots *= 2;
		ws_grow(slot, cap, slots);
		unify_lot(unifier, unifier->entries + unifier->lot[lot], strings, slot,
			  (uint32_t)slots - 1);
	}
	free(slot);
	return NULL;
}

static struct ws_string_keys *make_string_keys(const struct ws_report *report)
{
	struct ws_string_keys *keys = ws_calloc(1, sizeof(*keys));
	struct unifier unifier = {.report = report, .keys = keys};
	size_t count = 0;

	for (size_t i = 0; i < report->strings.count; i++)
		count += report->strings.blocks[i].head.rows;
	keys->key = ws_calloc(report->strings.count, sizeof(*keys->key));
	sort_into_lots(&unifier, count);
	run_threads(&unifier, unify_lots);
	free(unifier.entries);
	free(unifier.lot);
	return keys;
}

/* ---- the interface ---- */

/* NULL where every id is its own key. */
static const struct ws_string_keys *get_string_keys(const struct ws_report *report)
{
	struct ws_report *writable = (struct ws_report *)report;
	struct ws_string_keys *string_keys;

	if (!report->strings.count ||
	    report->strings.blocks[0].head.table ==
		    report->strings.blocks[report->strings.count - 1].head.table)
		return NULL;
	string_keys = __atomic_load_n(&writable->keys, __ATOMIC_ACQUIRE);
	if (!string_keys) {
		pthread_mutex_lock(&writable->key_lock);
		if (!writable->keys)
			__atomic_store_n(&writable->keys, make_string_keys(report),
					 __ATOMIC_RELEASE);
		string_keys = writable->keys;
		pthread_mutex_unlock(&writable->key_lock);
	}
	return string_keys;
}

uint32_t ws_report_string_key(const struct ws_report *report, uint32_t id)
{
	const struct ws_string_keys *string_keys = get_string_keys(report);
	ptrdiff_t i = -1;

	if (string_keys)
		i = ws_find_string_block(report, id);

	if (i < 0)
		return id;
	return string_keys->key[i][id - report->strings.blocks[i].head.first];
}

void ws_report_string_keys(const struct ws_report *report, uint32_t *key)
{
	const struct ws_string_keys *string_keys = get_string_keys(report);
	uint32_t count = ws_report_string_count(report);

	for (uint32_t id = 0; id < count; id++)
		key[id] = id;
	key[count] = count;
	for (size_t i = 0; string_keys && i < report->strings.count; i++)
		memcpy(key + report->strings.blocks[i].head.first, string_keys->key[i],
		       report->strings.blocks[i].head.rows * sizeof(*key));
}

void ws_free_string_keys(struct ws_report *report)
{
	if (!report->keys)
		return;
	for (size_t i = 0; i < report->strings.count; i++)
		free(report->keys->key[i]);
	free(report->keys->key);
	free(report->keys);
}
