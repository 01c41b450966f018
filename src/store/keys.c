/*
 * keys.c - one id for equal bytes.
 *
 * For the usual report, whose writer never had to start its dictionary over, every id is its own
 * key, and nothing is computed. Else (many names that never repeat) all strings are hashed, which
 * several threads do, some blocks after the other, and dealt out by a part of the hash to lots
 * whose hash tables fit in the cache; strings are compared only when their hashes agree.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/report.h"

enum { LOT_BITS = 15, MOST_THREADS = 16, PIECES = 64 };

struct ws_string_keys {
	uint32_t **key; /* by block, by string */
};

struct entry {
	uint32_t hash, id;
};

struct unify {
	const struct ws_report *report;
	struct ws_string_keys *keys;
	struct entry *entries;
	size_t *lot;  /* where each begins in entries; one more for the end */
	uint32_t *at; /* by piece and lot: how many strings; then where its next one goes */
	uint32_t lots, shift, pieces;
	size_t next; /* piece or lot */
};

/* ---- threads ---- */

static uint32_t thread_count(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : (uint32_t)n;
}

static void run(struct unify *unify, void *(*work)(void *))
{
	pthread_t thread[MOST_THREADS];
	uint32_t n = thread_count(), started = 0;

	unify->next = 0;
	while (started + 1 < n && !pthread_create(&thread[started], NULL, work, unify))
		started++;
	work(unify);
	while (started)
		pthread_join(thread[--started], NULL);
}

/* ---- hashing ---- */

/* A piece is some blocks, one after the other: *end gets the one after them. */
static size_t piece_blocks(const struct unify *unify, size_t piece, size_t *end)
{
	*end = (piece + 1) * unify->report->strings.n / unify->pieces;
	return piece * unify->report->strings.n / unify->pieces;
}

/* Hashes stand where the keys will. */
static void hash_block(struct unify *unify, size_t i, uint32_t *count)
{
	const struct ws_block_head *head = &unify->report->strings.blocks[i].head;
	const struct ws_text_block *block = ws_report_text(unify->report, i);
	uint32_t *key = unify->keys->key[i] = ws_malloc((size_t)head->rows * sizeof(*key));

	for (uint32_t n = 0; n < head->rows; n++) {
		size_t len =
			block->state == WS_TEXT_READY ? block->at[n + 1] - block->at[n] - 1 : 0;
		const char *text = len ? block->text + block->at[n]
				       : ws_report_string(unify->report, block->first + n, &len);

		key[n] = (uint32_t)(XXH3_64bits(text, len) >> 32);
		count[(uint64_t)key[n] >> unify->shift]++;
	}
}

static void *hash_pieces(void *arg)
{
	struct unify *unify = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&unify->next, 1, __ATOMIC_RELAXED)) < unify->pieces)
		for (size_t i = piece_blocks(unify, piece, &end); i < end; i++)
			hash_block(unify, i, unify->at + piece * unify->lots);
	return NULL;
}

static void *deal_pieces(void *arg)
{
	struct unify *unify = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&unify->next, 1, __ATOMIC_RELAXED)) < unify->pieces)
		for (size_t i = piece_blocks(unify, piece, &end); i < end; i++)
			for (uint32_t n = 0; n < unify->report->strings.blocks[i].head.rows; n++) {
				uint32_t hash = unify->keys->key[i][n];

				unify->entries[unify->at[piece * unify->lots +
							 ((uint64_t)hash >> unify->shift)]++] =
					(struct entry){hash,
						       (uint32_t)unify->report->strings.blocks[i]
								       .head.first +
							       n};
			}
	return NULL;
}

/* There are less than 2^32 strings. */
static void make_lots(struct unify *unify, size_t count)
{
	size_t sum = 0;

	for (unify->lots = 1; unify->lots < (1u << 20) && (count >> LOT_BITS) > unify->lots;)
		unify->lots *= 2;
	unify->shift = 32 - (uint32_t)__builtin_ctz(unify->lots);
	unify->pieces =
		unify->report->strings.n < PIECES ? (uint32_t)unify->report->strings.n : PIECES;
	unify->lot = ws_calloc((size_t)unify->lots + 1, sizeof(*unify->lot));
	unify->at = ws_calloc((size_t)unify->pieces * unify->lots, sizeof(*unify->at));
	run(unify, hash_pieces);
	for (uint32_t l = 0; l < unify->lots; l++) {
		for (uint32_t p = 0; p < unify->pieces; p++) {
			uint32_t n = unify->at[(size_t)p * unify->lots + l];

			unify->at[(size_t)p * unify->lots + l] = (uint32_t)sum;
			sum += n;
		}
		unify->lot[l + 1] = sum;
	}
	unify->entries = ws_malloc(count * sizeof(*unify->entries));
	run(unify, deal_pieces);
	free(unify->at);
}

/* ---- comparing ---- */

static bool same_text(const struct ws_report *report, uint32_t a, uint32_t b)
{
	size_t n, m;
	const char *text = ws_report_string(report, a, &n), *t = ws_report_string(report, b, &m);

	return n == m && !memcmp(text, t, n);
}

/* Entries are in order of their ids, so that the first of equal ones is the key, and blocks come
 * one after the other. */
static void unify_lot(struct unify *unify, const struct entry *entry, size_t n, struct entry *slot,
		      uint32_t mask)
{
	const struct ws_block_list *block_list = &unify->report->strings;
	size_t block = 0;

	memset(slot, 0, ((size_t)mask + 1) * sizeof(*slot));
	for (size_t i = 0; i < n; i++) {
		uint32_t at = (entry[i].hash * 0x9e3779b1u >> 7) & mask;

		while (slot[at].id && (slot[at].hash != entry[i].hash ||
				       !same_text(unify->report, slot[at].id, entry[i].id)))
			at = (at + 1) & mask;
		if (!slot[at].id)
			slot[at] = entry[i];
		while (entry[i].id - block_list->blocks[block].head.first >=
		       block_list->blocks[block].head.rows)
			block++;
		unify->keys->key[block][entry[i].id - block_list->blocks[block].head.first] =
			slot[at].id;
	}
}

static void *unify_lots(void *arg)
{
	struct unify *unify = arg;
	struct entry *slot = NULL;
	size_t cap = 0, i;

	while ((i = __atomic_fetch_add(&unify->next, 1, __ATOMIC_RELAXED)) < unify->lots) {
		size_t n = unify->lot[i + 1] - unify->lot[i], slots = 64;

		while (slots < n * 2)
			slots *= 2;
		ws_grow(slot, cap, slots);
		unify_lot(unify, unify->entries + unify->lot[i], n, slot, (uint32_t)slots - 1);
	}
	free(slot);
	return NULL;
}

static struct ws_string_keys *unify(const struct ws_report *report)
{
	struct ws_string_keys *keys = ws_calloc(1, sizeof(*keys));
	struct unify unify_u = {.report = report, .keys = keys};
	size_t count = 0;

	for (size_t i = 0; i < report->strings.n; i++)
		count += report->strings.blocks[i].head.rows;
	keys->key = ws_calloc(report->strings.n, sizeof(*keys->key));
	make_lots(&unify_u, count);
	run(&unify_u, unify_lots);
	free(unify_u.entries);
	free(unify_u.lot);
	return keys;
}

/* ---- the interface ---- */

/* NULL where every id is its own key. */
static const struct ws_string_keys *keys(const struct ws_report *report)
{
	struct ws_report *report_m = (struct ws_report *)report;
	struct ws_string_keys *string_keys;

	if (!report->strings.n || report->strings.blocks[0].head.table ==
					  report->strings.blocks[report->strings.n - 1].head.table)
		return NULL;
	string_keys = __atomic_load_n(&report_m->keys, __ATOMIC_ACQUIRE);
	if (!string_keys) {
		pthread_mutex_lock(&report_m->key_lock);
		if (!report_m->keys)
			__atomic_store_n(&report_m->keys, unify(report), __ATOMIC_RELEASE);
		string_keys = report_m->keys;
		pthread_mutex_unlock(&report_m->key_lock);
	}
	return string_keys;
}

uint32_t ws_report_string_key(const struct ws_report *report, uint32_t id)
{
	const struct ws_string_keys *string_keys = keys(report);
	ptrdiff_t i = string_keys ? ws_string_block(report, id) : -1;

	return i < 0 ? id : string_keys->key[i][id - report->strings.blocks[i].head.first];
}

void ws_report_string_keys(const struct ws_report *report, uint32_t *key)
{
	const struct ws_string_keys *string_keys = keys(report);
	uint32_t count = ws_report_string_count(report);

	for (uint32_t id = 0; id < count; id++)
		key[id] = id;
	key[count] = count;
	for (size_t i = 0; string_keys && i < report->strings.n; i++)
		memcpy(key + report->strings.blocks[i].head.first, string_keys->key[i],
		       report->strings.blocks[i].head.rows * sizeof(*key));
}

void ws_string_keys_free(struct ws_report *report)
{
	if (!report->keys)
		return;
	for (size_t i = 0; i < report->strings.n; i++)
		free(report->keys->key[i]);
	free(report->keys->key);
	free(report->keys);
}
