/*
 * ranges.c - see ranges.h.
 *
 * One pass over the ranges on all cores. A worker's key is the style, the worker's own number of
 * the domain, and the stored id of the text. Only afterwards are keys mapped to what the user sees
 * (domains by name, texts by content): once for each distinct key, not for each row.
 */
#include "stats/ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "stats/domains.h"
#include "stats/group.h"
#include "stats/summary_rows.h"

struct range_worker {
	struct ws_groups groups;
	struct ws_spill *spill; /* values of names that came after many others; else NULL */
	const uint32_t *keys;	/* where there is a spill: `keys` of the pass */
	struct ws_domains domains;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct range_sums {
	struct ws_stats *stats;
	struct range_worker *workers;
	unsigned kinds;
	bool styled;
	struct ws_domain_table domains;
	uint32_t *keys;	      /* by string id: key of its text; made when there are many names */
	pthread_mutex_t lock; /* of `keys` */
};

enum { STYLE_SHIFT = 63, DOMAIN_SHIFT = 32 };

/* First values are kept in an array by string id, unless there are far more strings than ranges,
 * which happens only in a damaged report. */
static struct ws_spill *make_spill(const struct ws_report *report)
{
	struct ws_spill *spill = ws_calloc(1, sizeof(*spill));
	uint32_t strings = ws_report_string_count(report);

	spill->shift = ws_choose_spill_shift(strings);
	if (strings / 16 <= ws_report_count_rows(report, WS_TABLE_nvtx))
		spill->limit = (size_t)strings + 1;
	return spill;
}

/* The keys of all texts in one array, which can be prefetched: with many names, the text of each
 * row is looked up. */
static const uint32_t *get_text_keys(struct range_sums *range_sums)
{
	const uint32_t *keys;

	pthread_mutex_lock(&range_sums->lock);
	if (!range_sums->keys) {
		range_sums->keys =
			ws_malloc(((size_t)ws_report_string_count(range_sums->stats->report) + 1) *
				  sizeof(*range_sums->keys));
		ws_fold_keys(range_sums->stats->fold, range_sums->stats->report, range_sums->keys);
	}
	keys = range_sums->keys;
	pthread_mutex_unlock(&range_sums->lock);
	return keys;
}

enum { AHEAD = 24 }; /* rows between two steps of prefetching */

/* Add a value where there are many names already. `text` has the texts of the `left` rows from this
 * one on. */
static void add_spilled_value(struct range_sums *range_sums, struct range_worker *worker,
			      const uint64_t *text, size_t left, uint64_t key, uint64_t value)
{
	uint32_t strings = ws_report_string_count(range_sums->stats->report), id = (uint32_t)key;
	uint64_t upper = key - id;
	struct ws_dist *dist;

	if (!worker->spill) {
		worker->spill = make_spill(range_sums->stats->report);
		worker->keys = get_text_keys(range_sums);
	}
	if (left > 2 * AHEAD && text[2 * AHEAD] <= strings)
		__builtin_prefetch(&worker->keys[text[2 * AHEAD]]);
	if (left > AHEAD && text[AHEAD] <= strings)
		ws_spill_prefetch(worker->spill, worker->keys[text[AHEAD]]);
	if (id <= strings)
		id = worker->keys[id];
	if (ws_spill_add_first(worker->spill, upper | id, value))
		return;
	dist = ws_groups_find(&worker->groups, key);
	if (dist)
		ws_dist_add(dist, value);
	else
		ws_spill_add(worker->spill, upper | id, value);
}

static int scan_ranges(void *context, const struct ws_batch *batch)
{
	struct range_sums *range_sums = context;
	struct range_worker *worker = &range_sums->workers[batch->worker];
	const uint64_t *start = batch->col[ws_nvtx_start], *end = batch->col[ws_nvtx_end],
		       *type = batch->col[ws_nvtx_type];
	const uint64_t *text = batch->col[ws_nvtx_text], *domain = batch->col[ws_nvtx_domain],
		       *thread = batch->col[ws_nvtx_thread];

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t style = type[i] == WS_NVTX_STARTEND, key;

		if (ws_unlikely(type[i] != WS_NVTX_PUSHPOP && !style)) {
			if (type[i] == WS_NVTX_DOMAIN_CREATE)
				ws_domains_add_name(&worker->domains, range_sums->stats->who,
						    (uint32_t)thread[i], (uint32_t)domain[i],
						    (uint32_t)text[i]);
			continue;
		}
		if (!(range_sums->kinds & (style ? WS_RANGES_STARTEND : WS_RANGES_PUSHPOP)))
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			ws_count_left_out(end[i], &worker->unended, &worker->backwards);
			continue;
		}
		key = style << STYLE_SHIFT | text[i] |
		      (uint64_t)ws_domains_get_number(&worker->domains, range_sums->stats->who,
						      (uint32_t)thread[i], (uint32_t)domain[i])
			      << DOMAIN_SHIFT;
		if (ws_likely(worker->groups.count < WS_GROUPS_CROWDED))
			ws_dist_add(ws_groups_get(&worker->groups, key), end[i] - start[i]);
		else
			add_spilled_value(range_sums, worker, text + i, batch->rows - i, key,
					  end[i] - start[i]);
	}
	return 0;
}

/* The canonical key of a key whose text is canonical already. */
static uint64_t make_canonical_domain_key(void *context, size_t worker, uint64_t key)
{
	struct range_sums *range_sums = context;
	uint32_t number = (uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX;
	uint64_t domain = range_sums->domains.canonical[worker][number];

	return (key & UINT64_C(1) << STYLE_SHIFT) | domain << DOMAIN_SHIFT | (uint32_t)key;
}

static uint64_t make_canonical_range_key(void *context, size_t worker, uint64_t key)
{
	const struct range_sums *range_sums = context;

	return make_canonical_domain_key(context, worker,
					 (key & ~(uint64_t)UINT32_MAX) |
						 ws_get_name_key(range_sums->stats, (uint32_t)key));
}

static const struct ws_text *get_prefix(const struct range_sums *range_sums, uint64_t key)
{
	return &range_sums->domains.prefixes[(uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX];
}

/*
 * ---- lines ----
 *
 * The number of a line is the canonical key of its name where the name has one value, which follows
 * from the line's sort key; otherwise it is SUMMED with the part and the index of its summary.
 * Indices of domains are below 2^30, since memory was allocated for each, so that keys leave that
 * bit clear.
 */

#define SUMMED (UINT64_C(1) << 62)

struct line_chunk {
	const struct ws_firsts *firsts; /* NULL for summaries of the part */
	size_t part, from, count;	/* how many, starting at index `from` */
};

struct range_lines {
	const struct range_sums *sums;
	const struct ws_group_part *parts;
	struct line_chunk *chunks;
	size_t count, capacity;
};

static const struct ws_group_sum *get_group_sum(const struct range_lines *lines, uint64_t number)
{
	return &lines->parts[number >> 32 & (WS_SPILL_PARTS - 1)].group_sums[(uint32_t)number];
}

static size_t make_line_chunk(const void *context, size_t chunk, struct ws_keyed_value *keyed)
{
	const struct range_lines *lines = context;
	const struct line_chunk *line_chunk = &lines->chunks[chunk];
	size_t count = 0;

	for (size_t i = line_chunk->from; i < line_chunk->from + line_chunk->count; i++)
		if (!line_chunk->firsts)
			keyed[count++] = (struct ws_keyed_value){
				ws_make_total_key(
					lines->parts[line_chunk->part].group_sums[i].summary.total),
				SUMMED | line_chunk->part << 32 | i};
		else if (line_chunk->firsts->values[i])
			keyed[count++] = (struct ws_keyed_value){
				ws_make_total_key(line_chunk->firsts->values[i] - 1),
				line_chunk->firsts->upper | i};
	return count;
}

/* Make a line, whose name is that of the domain, unless it is the default one, and the text. */
static void make_range_line(const void *context, const struct ws_keyed_value *keyed,
			    struct ws_summary_row *line, struct ws_summary *storage)
{
	const struct range_lines *lines = context;
	uint64_t key = keyed->value;
	const struct ws_text *prefix;

	*line = (struct ws_summary_row){.summary = storage};
	if (keyed->value & SUMMED) {
		const struct ws_group_sum *sum = get_group_sum(lines, keyed->value);

		key = sum->key;
		line->summary = &sum->summary;
	} else if (storage) {
		*storage = ws_summarise_single_value(~keyed->key);
	}
	prefix = get_prefix(lines->sums, key);
	line->head = prefix->text;
	line->head_length = prefix->len;
	if (lines->sums->styled)
		line->style = ws_get_range_style_name(key >> STYLE_SHIFT);
	line->name = ws_get_name(lines->sums->stats, (uint32_t)key, &line->name_length);
}

static void prefetch_range_line(const void *context, uint64_t number, unsigned step)
{
	const struct range_lines *lines = context;
	const struct ws_group_sum *sum;

	if (number & SUMMED) {
		sum = get_group_sum(lines, number);
		if (!step) {
			__builtin_prefetch(sum);
			__builtin_prefetch((const char *)(sum + 1) - 1);
			return;
		}
		number = sum->key;
	}
	if (step)
		ws_report_prefetch_string(lines->sums->stats->report, (uint32_t)number, step == 2);
}

/* Add `chunk`, from its index `from` up to `end`, in pieces that are small enough. */
static void add_line_chunks(struct range_lines *lines, struct line_chunk chunk, size_t end)
{
	for (; chunk.from < end; chunk.from += chunk.count) {
		chunk.count = ws_min(end - chunk.from, WS_SUMMARY_CHUNK);
		ws_grow(lines->chunks, lines->capacity, lines->count + 1);
		lines->chunks[lines->count++] = chunk;
	}
}

/* Add first values page by page: most pages of a worker may be empty. */
static void add_first_values(struct range_lines *lines, const struct ws_spill *spill)
{
	for (unsigned i = 0; i < spill->firsts; i++)
		for (size_t from = 0; from < spill->limit; from += WS_FIRSTS_PAGE)
			if (spill->first_values[i].used[from / WS_FIRSTS_PAGE])
				add_line_chunks(lines,
						(struct line_chunk){.firsts =
									    &spill->first_values[i],
								    .from = from},
						ws_min(spill->limit, from + WS_FIRSTS_PAGE));
}

static void print_range_sums(struct range_sums *range_sums, const struct ws_group_part *parts,
			     const struct ws_spill *spills, uint32_t workers)
{
	struct range_lines range_lines = {.sums = range_sums, .parts = parts};
	struct ws_summary_row_source lines = {&range_lines, 0, make_line_chunk, make_range_line,
					      prefetch_range_line};

	for (uint32_t worker = 0; worker < workers; worker++)
		add_first_values(&range_lines, &spills[worker]);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		add_line_chunks(&range_lines, (struct line_chunk){.part = i}, parts[i].count);
	lines.chunks = range_lines.count;
	ws_print_summary_source(range_sums->stats, &lines);
	free(range_lines.chunks);
}

static void merge_range_workers(struct range_sums *range_sums, uint32_t workers)
{
	struct ws_groups *groups = ws_calloc(workers, sizeof(*groups));
	struct ws_domains *domains = ws_calloc(workers, sizeof(*domains));
	struct ws_spill *spills = ws_calloc(workers, sizeof(*spills));
	struct ws_group_part parts[WS_SPILL_PARTS] = {{0}};
	bool spilled = false;

	for (uint32_t worker = 0; worker < workers; worker++) {
		struct ws_spill *spill = range_sums->workers[worker].spill;

		spilled |= spill != NULL;
		if (!spill)
			spill = make_spill(range_sums->stats->report);
		spills[worker] = *spill;
		free(spill);
		groups[worker] = range_sums->workers[worker].groups;
		domains[worker] = range_sums->workers[worker].domains;
		range_sums->stats->unended += range_sums->workers[worker].unended;
		range_sums->stats->backwards += range_sums->workers[worker].backwards;
	}
	ws_make_domain_table(&range_sums->domains, range_sums->stats->report, domains, workers);
	if (spilled)
		ws_groups_merge_spilled(groups, spills, workers,
					&(struct ws_spill_keys){make_canonical_range_key,
								make_canonical_domain_key,
								range_sums},
					parts);
	else
		parts[0].group_sums = ws_groups_merge(groups, workers, make_canonical_range_key,
						      range_sums, &parts[0].count);
	print_range_sums(range_sums, parts, spills, workers);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(parts[i].group_sums);
	ws_free_domain_table(&range_sums->domains);
	for (uint32_t i = 0; i < workers; i++) {
		ws_groups_free(&groups[i]);
		ws_spill_free(&spills[i]);
		ws_domains_free(&domains[i]);
	}
	free(groups);
	free(spills);
	free(domains);
}

int ws_make_range_summary(struct ws_stats *stats, unsigned kinds, bool styled, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
			   WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, text) |
			   WS_COLUMN_BIT(nvtx, domain) | WS_COLUMN_BIT(nvtx, type),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct range_sums range_sums = {.stats = stats,
					.kinds = kinds,
					.styled = styled,
					.lock = PTHREAD_MUTEX_INITIALIZER};

	range_sums.workers = aligned_alloc(128, workers * sizeof(*range_sums.workers));
	if (!range_sums.workers)
		return ws_fail(err, "out of memory");
	memset(range_sums.workers, 0, workers * sizeof(*range_sums.workers));
	ws_run_scan(stats->report, &scan, scan_ranges, &range_sums, &stats->damaged);
	merge_range_workers(&range_sums, workers);
	free(range_sums.keys);
	free(range_sums.workers);
	return 0;
}
