/*
 * ranges.c - see ranges.h.
 *
 * One pass over the ranges on all cores. A worker's key is style, its own number of the domain, and
 * the text's id as stored; only afterwards, once per distinct key and not per row, are these mapped
 * to what the user sees: domains by name, texts by content.
 */
#include "stats/ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"
#include "stats/group.h"
#include "stats/std8.h"

struct worker {
	struct ws_groups groups;
	struct ws_spill *spill; /* of names that came when there were many already */
	const uint32_t *keys;	/* the pass's, then */
	struct ws_domains domains;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *stats;
	struct worker *workers;
	unsigned kinds;
	bool styled;
	struct ws_domain_table domains;
	uint32_t *keys; /* by string id: that of its text; made when there are many names */
	pthread_mutex_t lock;
};

enum { STYLE_SHIFT = 63, DOMAIN_SHIFT = 32 };

/*
 * Values of names are kept by the number of the name as far as numbers are not much more than there
 * are ranges, which only a damaged report has.
 */
static struct ws_spill *new_spill(const struct ws_report *report)
{
	struct ws_spill *spill = ws_calloc(1, sizeof(*spill));
	uint32_t strings = ws_report_string_count(report);

	spill->shift = ws_spill_shift(strings);
	spill->limit =
		strings / 16 <= ws_report_rows(report, WS_TABLE_nvtx) ? (size_t)strings + 1 : 0;
	return spill;
}

/* Texts are looked up for each row then: in one array, which can be asked for ahead. */
static const uint32_t *make_keys(struct pass *pass)
{
	const uint32_t *keys;

	pthread_mutex_lock(&pass->lock);
	if (!pass->keys) {
		pass->keys = ws_malloc(((size_t)ws_report_string_count(pass->stats->report) + 1) *
				       sizeof(*pass->keys));
		ws_report_string_keys(pass->stats->report, pass->keys);
	}
	keys = pass->keys;
	pthread_mutex_unlock(&pass->lock);
	return keys;
}

enum { AHEAD = 24 }; /* rows */

/* Where there are many names already; `text` has `left` rows yet, this one the first. */
static void add_crowded(struct pass *pass, struct worker *worker, const uint64_t *text, size_t left,
			uint64_t key, uint64_t value)
{
	uint32_t strings = ws_report_string_count(pass->stats->report), id = (uint32_t)key;
	uint64_t upper = key - id;
	struct ws_dist *dist;

	if (!worker->spill) {
		worker->spill = new_spill(pass->stats->report);
		worker->keys = make_keys(pass);
	}
	if (left > 2 * AHEAD && text[2 * AHEAD] <= strings)
		__builtin_prefetch(&worker->keys[text[2 * AHEAD]]);
	if (left > AHEAD && text[AHEAD] <= strings)
		ws_spill_fetch(worker->spill, worker->keys[text[AHEAD]]);
	id = id <= strings ? worker->keys[id] : id;
	if (ws_spill_first(worker->spill, upper | id, value))
		return;
	dist = ws_groups_find(&worker->groups, key);
	if (dist)
		ws_dist_add(dist, value);
	else
		ws_spill_add(worker->spill, upper | id, value);
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	struct worker *worker = &pass->workers[batch->worker];
	const uint64_t *start = batch->col[ws_nvtx_start], *end = batch->col[ws_nvtx_end],
		       *type = batch->col[ws_nvtx_type];
	const uint64_t *text = batch->col[ws_nvtx_text], *domain = batch->col[ws_nvtx_domain],
		       *thread = batch->col[ws_nvtx_thread];

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t style = type[i] == WS_NVTX_STARTEND, key;

		if (ws_unlikely(type[i] != WS_NVTX_PUSHPOP && !style)) {
			if (type[i] == WS_NVTX_DOMAIN_CREATE)
				ws_domains_name(&worker->domains, pass->stats->who,
						(uint32_t)thread[i], (uint32_t)domain[i],
						(uint32_t)text[i]);
			continue;
		}
		if (!(pass->kinds & (style ? WS_RANGES_STARTEND : WS_RANGES_PUSHPOP)))
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &worker->unended : &worker->backwards) += 1;
			continue;
		}
		key = style << STYLE_SHIFT | text[i] |
		      (uint64_t)ws_domains_number(&worker->domains, pass->stats->who,
						  (uint32_t)thread[i], (uint32_t)domain[i])
			      << DOMAIN_SHIFT;
		if (ws_likely(worker->groups.n < WS_GROUPS_CROWDED))
			ws_dist_add(ws_groups_get(&worker->groups, key), end[i] - start[i]);
		else
			add_crowded(pass, worker, text + i, batch->rows - i, key,
				    end[i] - start[i]);
	}
	return 0;
}

/* Of a key whose text is the canonical one. */
static uint64_t canonical_domain(void *ctx, size_t worker, uint64_t key)
{
	struct pass *pass = ctx;
	uint32_t number = (uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX;
	uint64_t domain = number ? pass->domains.canonical[worker][number] : 0;

	return (key & UINT64_C(1) << STYLE_SHIFT) | domain << DOMAIN_SHIFT | (uint32_t)key;
}

static uint64_t canonical(void *ctx, size_t worker, uint64_t key)
{
	const struct pass *pass = ctx;

	return canonical_domain(ctx, worker,
				(key & ~(uint64_t)UINT32_MAX) |
					ws_report_string_key(pass->stats->report, (uint32_t)key));
}

static const struct ws_text *prefix_of(const struct pass *pass, uint64_t key)
{
	return &pass->domains.prefixes[(uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX];
}

/*
 * ---- lines ----
 *
 * What stands for a line is its key, where it has a single value, which is the total that
 * ws_std8_lines asks for beside it; or the part and place of its summary. Numbers of canonical
 * domains are below 2^30: there is memory behind each.
 */

#define SUMMED (UINT64_C(1) << 62)

struct chunk {
	const struct ws_firsts *firsts; /* NULL: summaries of the part */
	size_t part, from, n;
};

struct lines {
	const struct pass *pass;
	const struct ws_group_part *parts;
	struct chunk *chunks;
	size_t n, cap;
};

static const struct ws_group_sum *sum_of(const struct lines *lines, uint64_t number)
{
	return &lines->parts[number >> 32 & (WS_SPILL_PARTS - 1)].group_sums[(uint32_t)number];
}

static size_t make_chunk(const void *ctx, size_t chunk, struct ws_keyed_value *keyed)
{
	const struct lines *lines = ctx;
	const struct chunk *chunk_c = &lines->chunks[chunk];
	size_t n = 0;

	for (size_t i = chunk_c->from; i < chunk_c->from + chunk_c->n; i++)
		if (!chunk_c->firsts)
			keyed[n++] = (struct ws_keyed_value){
				ws_std8_key(
					lines->parts[chunk_c->part].group_sums[i].summary.total),
				SUMMED | chunk_c->part << 32 | i};
		else if (chunk_c->firsts->v[i])
			keyed[n++] = (struct ws_keyed_value){ws_std8_key(chunk_c->firsts->v[i] - 1),
							     chunk_c->firsts->upper | i};
	return n;
}

/* The name shown: the domain's before the text's, unless it is the default domain. */
static void make_line(const void *ctx, const struct ws_keyed_value *keyed,
		      struct ws_std8_line *line, struct ws_std8 *room)
{
	const struct lines *lines = ctx;
	const struct ws_group_sum *sum = keyed->value & SUMMED ? sum_of(lines, keyed->value) : NULL;
	uint64_t key = sum ? sum->key : keyed->value;
	const struct ws_text *prefix = prefix_of(lines->pass, key);

	*line = (struct ws_std8_line){.summary = sum ? &sum->summary : room,
				      .head = prefix->text,
				      .head_len = prefix->len};
	line->style = lines->pass->styled ? key >> STYLE_SHIFT ? "StartEnd" : "PushPop" : NULL;
	line->name = ws_report_string(lines->pass->stats->report, (uint32_t)key, &line->name_len);
	if (!sum && room)
		*room = ws_std8_single(~keyed->key);
}

static void fetch_line(const void *ctx, uint64_t number, unsigned step)
{
	const struct lines *lines = ctx;
	const struct ws_group_sum *sum = number & SUMMED ? sum_of(lines, number) : NULL;

	if (step)
		ws_report_string_fetch(lines->pass->stats->report,
				       (uint32_t)(sum ? sum->key : number), step == 2);
	else if (sum) {
		__builtin_prefetch(sum);
		__builtin_prefetch((const char *)(sum + 1) - 1);
	}
}

static void add_chunks(struct lines *lines, struct chunk chunk, size_t end)
{
	for (; chunk.from < end; chunk.from += chunk.n) {
		chunk.n = end - chunk.from < WS_STD8_CHUNK ? end - chunk.from : WS_STD8_CHUNK;
		ws_grow(lines->chunks, lines->cap, lines->n + 1);
		lines->chunks[lines->n++] = chunk;
	}
}

/* First values page by page: most of a worker's may be untouched. */
static void add_firsts(struct lines *lines, const struct ws_spill *spill)
{
	for (unsigned i = 0; i < spill->firsts; i++)
		for (size_t from = 0; from < spill->limit; from += WS_FIRSTS_PAGE)
			if (spill->first[i].used[from / WS_FIRSTS_PAGE])
				add_chunks(lines,
					   (struct chunk){.firsts = &spill->first[i], .from = from},
					   spill->limit - from < WS_FIRSTS_PAGE
						   ? spill->limit
						   : from + WS_FIRSTS_PAGE);
}

static void print(struct pass *pass, const struct ws_group_part *parts,
		  const struct ws_spill *spills, uint32_t workers)
{
	struct lines lines_m = {.pass = pass, .parts = parts};
	struct ws_std8_lines lines = {&lines_m, 0, make_chunk, make_line, fetch_line};

	for (uint32_t w = 0; w < workers; w++)
		add_firsts(&lines_m, &spills[w]);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		add_chunks(&lines_m, (struct chunk){.part = i}, parts[i].n);
	lines.chunks = lines_m.n;
	ws_std8_print_lines(pass->stats, &lines);
	free(lines_m.chunks);
}

static void together(struct pass *pass, uint32_t workers)
{
	struct ws_groups *groups = ws_calloc(workers, sizeof(*groups));
	struct ws_domains *domains = ws_calloc(workers, sizeof(*domains));
	struct ws_spill *spills = ws_calloc(workers, sizeof(*spills));
	struct ws_group_part parts[WS_SPILL_PARTS] = {{0}};
	bool spilled = false;

	for (uint32_t w = 0; w < workers; w++) {
		struct ws_spill *spill = pass->workers[w].spill ? pass->workers[w].spill
								: new_spill(pass->stats->report);

		spilled |= pass->workers[w].spill != NULL;
		spills[w] = *spill;
		free(spill);
		groups[w] = pass->workers[w].groups;
		domains[w] = pass->workers[w].domains;
		pass->stats->unended += pass->workers[w].unended;
		pass->stats->backwards += pass->workers[w].backwards;
	}
	ws_domain_table_make(&pass->domains, pass->stats->report, domains, workers);
	if (spilled)
		ws_groups_merge_spilled(groups, spills, workers, canonical, canonical_domain, pass,
					parts);
	else
		parts[0].group_sums =
			ws_groups_merge(groups, workers, canonical, pass, &parts[0].n);
	print(pass, parts, spills, workers);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(parts[i].group_sums);
	ws_domain_table_free(&pass->domains);
	for (uint32_t w = 0; w < workers; w++) {
		ws_groups_free(&groups[w]);
		ws_spill_free(&spills[w]);
		ws_domains_free(&domains[w]);
	}
	free(groups);
	free(spills);
	free(domains);
}

int ws_ranges_summary(struct ws_stats *stats, unsigned kinds, bool styled, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct pass pass = {.stats = stats,
			    .kinds = kinds,
			    .styled = styled,
			    .lock = PTHREAD_MUTEX_INITIALIZER};

	pass.workers = aligned_alloc(128, workers * sizeof(*pass.workers));
	if (!pass.workers)
		return ws_fail(err, "out of memory");
	memset(pass.workers, 0, workers * sizeof(*pass.workers));
	ws_scan_run(stats->report, &sc, scan, &pass, &stats->damaged);
	together(&pass, workers);
	free(pass.keys);
	free(pass.workers);
	return 0;
}
