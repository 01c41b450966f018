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
	const struct ws_report *r;
	struct ws_string_keys *k;
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

static void run(struct unify *u, void *(*work)(void *))
{
	pthread_t thread[MOST_THREADS];
	uint32_t n = thread_count(), started = 0;

	u->next = 0;
	while (started + 1 < n && !pthread_create(&thread[started], NULL, work, u))
		started++;
	work(u);
	while (started)
		pthread_join(thread[--started], NULL);
}

/* ---- hashing ---- */

/* A piece is some blocks, one after the other: *end gets the one after them. */
static size_t piece_blocks(const struct unify *u, size_t piece, size_t *end)
{
	*end = (piece + 1) * u->r->strings.n / u->pieces;
	return piece * u->r->strings.n / u->pieces;
}

/* Hashes stand where the keys will. */
static void hash_block(struct unify *u, size_t i, uint32_t *count)
{
	const struct ws_block_head *h = &u->r->strings.v[i].head;
	const struct ws_text_block *t = ws_report_text(u->r, i);
	uint32_t *key = u->k->key[i] = ws_malloc((size_t)h->rows * sizeof(*key));

	for (uint32_t n = 0; n < h->rows; n++) {
		size_t len = t->state == WS_TEXT_READY ? t->at[n + 1] - t->at[n] - 1 : 0;
		const char *s =
			len ? t->text + t->at[n] : ws_report_string(u->r, t->first + n, &len);

		key[n] = (uint32_t)(XXH3_64bits(s, len) >> 32);
		count[(uint64_t)key[n] >> u->shift]++;
	}
}

static void *hash_pieces(void *arg)
{
	struct unify *u = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&u->next, 1, __ATOMIC_RELAXED)) < u->pieces)
		for (size_t i = piece_blocks(u, piece, &end); i < end; i++)
			hash_block(u, i, u->at + piece * u->lots);
	return NULL;
}

static void *deal_pieces(void *arg)
{
	struct unify *u = arg;
	size_t piece, end;

	while ((piece = __atomic_fetch_add(&u->next, 1, __ATOMIC_RELAXED)) < u->pieces)
		for (size_t i = piece_blocks(u, piece, &end); i < end; i++)
			for (uint32_t n = 0; n < u->r->strings.v[i].head.rows; n++) {
				uint32_t hash = u->k->key[i][n];

				u->entries[u->at[piece * u->lots +
						 ((uint64_t)hash >> u->shift)]++] = (struct entry){
					hash, (uint32_t)u->r->strings.v[i].head.first + n};
			}
	return NULL;
}

/* There are less than 2^32 strings. */
static void make_lots(struct unify *u, size_t count)
{
	size_t sum = 0;

	for (u->lots = 1; u->lots < (1u << 20) && (count >> LOT_BITS) > u->lots;)
		u->lots *= 2;
	u->shift = 32 - (uint32_t)__builtin_ctz(u->lots);
	u->pieces = u->r->strings.n < PIECES ? (uint32_t)u->r->strings.n : PIECES;
	u->lot = ws_calloc((size_t)u->lots + 1, sizeof(*u->lot));
	u->at = ws_calloc((size_t)u->pieces * u->lots, sizeof(*u->at));
	run(u, hash_pieces);
	for (uint32_t l = 0; l < u->lots; l++) {
		for (uint32_t p = 0; p < u->pieces; p++) {
			uint32_t n = u->at[(size_t)p * u->lots + l];

			u->at[(size_t)p * u->lots + l] = (uint32_t)sum;
			sum += n;
		}
		u->lot[l + 1] = sum;
	}
	u->entries = ws_malloc(count * sizeof(*u->entries));
	run(u, deal_pieces);
	free(u->at);
}

/* ---- comparing ---- */

static bool same_text(const struct ws_report *r, uint32_t a, uint32_t b)
{
	size_t n, m;
	const char *s = ws_report_string(r, a, &n), *t = ws_report_string(r, b, &m);

	return n == m && !memcmp(s, t, n);
}

/* Entries are in order of their ids, so that the first of equal ones is the key, and blocks come
 * one after the other. */
static void unify_lot(struct unify *u, const struct entry *e, size_t n, struct entry *slot,
		      uint32_t mask)
{
	const struct ws_block_list *l = &u->r->strings;
	size_t block = 0;

	memset(slot, 0, ((size_t)mask + 1) * sizeof(*slot));
	for (size_t i = 0; i < n; i++) {
		uint32_t at = (e[i].hash * 0x9e3779b1u >> 7) & mask;

		while (slot[at].id &&
		       (slot[at].hash != e[i].hash || !same_text(u->r, slot[at].id, e[i].id)))
			at = (at + 1) & mask;
		if (!slot[at].id)
			slot[at] = e[i];
		while (e[i].id - l->v[block].head.first >= l->v[block].head.rows)
			block++;
		u->k->key[block][e[i].id - l->v[block].head.first] = slot[at].id;
	}
}

static void *unify_lots(void *arg)
{
	struct unify *u = arg;
	struct entry *slot = NULL;
	size_t cap = 0, i;

	while ((i = __atomic_fetch_add(&u->next, 1, __ATOMIC_RELAXED)) < u->lots) {
		size_t n = u->lot[i + 1] - u->lot[i], slots = 64;

		while (slots < n * 2)
			slots *= 2;
		ws_grow(slot, cap, slots);
		unify_lot(u, u->entries + u->lot[i], n, slot, (uint32_t)slots - 1);
	}
	free(slot);
	return NULL;
}

static struct ws_string_keys *unify(const struct ws_report *r)
{
	struct ws_string_keys *k = ws_calloc(1, sizeof(*k));
	struct unify u = {.r = r, .k = k};
	size_t count = 0;

	for (size_t i = 0; i < r->strings.n; i++)
		count += r->strings.v[i].head.rows;
	k->key = ws_calloc(r->strings.n, sizeof(*k->key));
	make_lots(&u, count);
	run(&u, unify_lots);
	free(u.entries);
	free(u.lot);
	return k;
}

/* ---- the interface ---- */

/* NULL where every id is its own key. */
static const struct ws_string_keys *keys(const struct ws_report *r)
{
	struct ws_report *m = (struct ws_report *)r;
	struct ws_string_keys *k;

	if (!r->strings.n ||
	    r->strings.v[0].head.table == r->strings.v[r->strings.n - 1].head.table)
		return NULL;
	k = __atomic_load_n(&m->keys, __ATOMIC_ACQUIRE);
	if (!k) {
		pthread_mutex_lock(&m->key_lock);
		if (!m->keys)
			__atomic_store_n(&m->keys, unify(r), __ATOMIC_RELEASE);
		k = m->keys;
		pthread_mutex_unlock(&m->key_lock);
	}
	return k;
}

uint32_t ws_report_string_key(const struct ws_report *r, uint32_t id)
{
	const struct ws_string_keys *k = keys(r);
	ptrdiff_t i = k ? ws_string_block(r, id) : -1;

	return i < 0 ? id : k->key[i][id - r->strings.v[i].head.first];
}

void ws_report_string_keys(const struct ws_report *r, uint32_t *key)
{
	const struct ws_string_keys *k = keys(r);
	uint32_t count = ws_report_string_count(r);

	for (uint32_t id = 0; id < count; id++)
		key[id] = id;
	key[count] = count;
	for (size_t i = 0; k && i < r->strings.n; i++)
		memcpy(key + r->strings.v[i].head.first, k->key[i],
		       r->strings.v[i].head.rows * sizeof(*key));
}

void ws_string_keys_free(struct ws_report *r)
{
	if (!r->keys)
		return;
	for (size_t i = 0; i < r->strings.n; i++)
		free(r->keys->key[i]);
	free(r->keys->key);
	free(r->keys);
}
