/*
 * cuda_sum.c - summaries of CUDA calls and of work on GPUs; see cuda.h.
 *
 * One pass over each table on all cores. A worker's keys are what is stored (ids of strings, kinds,
 * sizes of grids); only afterwards, once per distinct key and not per row, are they mapped to what
 * the user sees.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/std8.h"
#include "text/texts.h"

/* Words of a key. The grid is there with WS_CUDA_SUM_GRID, the label of the innermost range with
 * :nvtx-name. */
enum { KEY_NAME, KEY_RANGE, KEY_GRID, KEY_WORDS = KEY_GRID + 3 };
enum { SOURCE_SHIFT = 56, AHEAD = 16 };

struct worker {
	struct ws_keyed keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *stats;
	unsigned how;
	enum ws_cuda_source source; /* being scanned */
	const struct ws_cuda_columns *columns;
	int name;
	struct worker *workers;
	struct ws_launches *launches; /* with :nvtx-name */
	struct ws_texts texts;	      /* names of calls */
};

static uint32_t key_words(const struct pass *pass)
{
	return pass->how & WS_CUDA_SUM_GRID ? KEY_WORDS
	       : pass->launches		    ? KEY_RANGE + 1
					    : KEY_NAME + 1;
}

static void grid_key(const struct ws_batch *batch, size_t i, uint64_t *key)
{
	key[KEY_GRID] = batch->col[ws_cuda_kernel_grid_x][i] | batch->col[ws_cuda_kernel_grid_y][i]
								       << 32;
	key[KEY_GRID + 1] =
		batch->col[ws_cuda_kernel_grid_z][i] | batch->col[ws_cuda_kernel_block_x][i] << 32;
	key[KEY_GRID + 2] =
		batch->col[ws_cuda_kernel_block_y][i] | batch->col[ws_cuda_kernel_block_z][i] << 32;
}

static uint64_t name_key(const struct pass *pass, const struct ws_batch *batch, size_t i)
{
	uint64_t name = pass->name < 0 ? 0 : batch->col[pass->name][i];

	if (pass->source == WS_CUDA_KERNEL && !name)
		name = batch->col[ws_cuda_kernel_demangled][i];
	return (uint64_t)pass->source << SOURCE_SHIFT | name;
}

/* The key of row i, and what looking it up will touch fetched. */
static void make_key(const struct pass *pass, const struct worker *worker,
		     const struct ws_batch *batch, size_t i, uint64_t *key)
{
	memset(key, 0, KEY_WORDS * sizeof(*key));
	key[KEY_NAME] = name_key(pass, batch, i);
	if (pass->how & WS_CUDA_SUM_GRID)
		grid_key(batch, i, key);
	if (!pass->launches || pass->source != WS_CUDA_KERNEL)
		return;
	key[KEY_RANGE] =
		pass->launches->label[ws_launches_node(pass->launches,
						       batch->col[pass->columns->process][i],
						       batch->col[pass->columns->correlation][i])];
	ws_keyed_prefetch(&worker->keyed, key);
}

/* Rows go by some at a time: with names that never repeat, each key is a miss of the cache. */
static int scan(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	struct worker *worker = &pass->workers[batch->worker];
	const uint64_t *start = batch->col[pass->columns->start],
		       *end = batch->col[pass->columns->end];
	const uint64_t *bytes =
		pass->how & WS_CUDA_SUM_BYTES ? batch->col[pass->columns->bytes] : NULL;

	for (size_t from = 0, n; from < batch->rows; from += n) {
		uint64_t keys[AHEAD][KEY_WORDS];

		n = batch->rows - from < AHEAD ? batch->rows - from : AHEAD;
		for (size_t i = 0; i < n; i++)
			make_key(pass, worker, batch, from + i, keys[i]);
		for (size_t i = from; i < from + n; i++) {
			if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i]) && !bytes)
				*(end[i] == WS_NO_TIME ? &worker->unended : &worker->backwards) +=
					1;
			else
				ws_dist_add(ws_keyed_get(&worker->keyed, keys[i - from]),
					    bytes ? bytes[i] : end[i] - start[i]);
		}
	}
	return 0;
}

static uint64_t bit(int column)
{
	return column < 0 ? 0 : UINT64_C(1) << column;
}

static void scan_source(struct pass *pass, enum ws_cuda_source source)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];
	struct ws_scan sc = {
		.table = columns->table,
		.columns = bit(columns->start) | bit(columns->end) | bit(columns->name),
		.time_min = pass->stats->time_min,
		.time_max = pass->stats->time_max,
	};
	uint64_t damaged = 0;

	pass->source = source;
	pass->columns = columns;
	pass->name = source == WS_CUDA_KERNEL ? ws_cuda_name_column(pass->stats) : columns->name;
	sc.columns |= bit(pass->name);
	if (pass->how & WS_CUDA_SUM_BYTES)
		sc.columns |= bit(columns->bytes);
	if (pass->how & WS_CUDA_SUM_GRID)
		sc.columns |= WS_COL(cuda_kernel, grid_x) | WS_COL(cuda_kernel, grid_y) |
			      WS_COL(cuda_kernel, grid_z) | WS_COL(cuda_kernel, block_x) |
			      WS_COL(cuda_kernel, block_y) | WS_COL(cuda_kernel, block_z);
	if (pass->launches && source == WS_CUDA_KERNEL)
		sc.columns |= bit(columns->process) | bit(columns->correlation);
	ws_scan_run(pass->stats->report, &sc, scan, pass, &damaged);
	pass->stats->damaged += damaged;
}

static void canonical(void *ctx, size_t worker, uint64_t *key)
{
	struct pass *pass = ctx;
	uint32_t id = (uint32_t)key[KEY_NAME];
	size_t len;

	(void)worker;
	switch (key[KEY_NAME] >> SOURCE_SHIFT) {
	case WS_CUDA_API: {
		const char *name = ws_cuda_function(pass->stats->report, id, &len);

		id = ws_texts_number(&pass->texts, name, len);
		break;
	}
	case WS_CUDA_KERNEL:
		id = ws_report_string_key(pass->stats->report, id);
		if (pass->launches)
			key[KEY_RANGE] = ws_launches_label_key(pass->launches, key[KEY_RANGE]);
		break;
	}
	key[KEY_NAME] = key[KEY_NAME] >> SOURCE_SHIFT << SOURCE_SHIFT | id;
}

/* ---- printing ---- */

/* Texts made for lines; freed when all is printed. Most lines need none. */
struct owned {
	char **v;
	size_t n, cap;
};

static char *own(struct owned *owned, char *text)
{
	ws_grow(owned->v, owned->cap, owned->n + 1);
	return owned->v[owned->n++] = text;
}

/* "range/kernel": in two parts, since there may be millions. */
static void name_range(const struct pass *pass, ws_range_key range, struct ws_std8_line *line,
		       struct owned *owned)
{
	char *made = NULL;

	line->tail = line->name;
	line->tail_len = line->name_len;
	line->name = ws_launches_range_text(pass->launches, range, &line->name_len, &made);
	if (made)
		own(owned, made);
}

static void name_line(const struct pass *pass, const uint64_t *key, struct ws_std8_line *line,
		      struct owned *owned)
{
	enum ws_cuda_source source = (enum ws_cuda_source)(key[KEY_NAME] >> SOURCE_SHIFT);
	uint32_t id = (uint32_t)key[KEY_NAME];
	char buf[64];

	if (source == WS_CUDA_API) {
		line->name = ws_texts_get(&pass->texts, id, &line->name_len);
	} else if (source == WS_CUDA_KERNEL) {
		line->name = ws_report_string(pass->stats->report, id, &line->name_len);
		if (pass->launches && key[KEY_RANGE])
			name_range(pass, key[KEY_RANGE], line, owned);
	} else {
		line->name = own(owned, ws_strdup(ws_cuda_op_name(source, id, buf, sizeof(buf))));
		line->name_len = strlen(line->name);
	}
	if (pass->how & WS_CUDA_SUM_CATEGORY)
		line->style = ws_cuda_columns[source].category;
	if (!(pass->how & WS_CUDA_SUM_GRID))
		return;
	line->style = own(owned, ws_cuda_xyz((uint32_t)key[KEY_GRID], key[KEY_GRID] >> 32,
					     (uint32_t)key[KEY_GRID + 1]));
	line->style2 = own(owned, ws_cuda_xyz(key[KEY_GRID + 1] >> 32, (uint32_t)key[KEY_GRID + 2],
					      key[KEY_GRID + 2] >> 32));
}

static void print_sizes(struct ws_stats *stats, const struct ws_std8_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ws_std8 *summary = lines[i].summary;

		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real((long double)summary->total),
					  ws_cell_int((int64_t)summary->count),
					  ws_cell_real(ws_std8_mean(summary)),
					  ws_cell_real(ws_std8_median(summary)),
					  ws_cell_real(summary->min),
					  ws_cell_real(summary->max),
					  ws_cell_real(summary->stddev),
					  ws_cell_text(lines[i].name, lines[i].name_len),
				  });
	}
}

static void print(struct pass *pass, const struct ws_keyed_sums *sums)
{
	struct ws_std8_line *lines = ws_calloc(sums->n, sizeof(*lines));
	struct owned owned = {0};

	for (size_t i = 0; i < sums->n; i++) {
		lines[i].summary = &sums->summary[i];
		name_line(pass, sums->keys + i * sums->words, &lines[i], &owned);
	}
	if (pass->how & WS_CUDA_SUM_BYTES) {
		ws_std8_sort(lines, sums->n);
		print_sizes(pass->stats, lines, sums->n);
	} else
		ws_std8_print(pass->stats, lines, sums->n);
	for (size_t i = 0; i < owned.n; i++)
		free(owned.v[i]);
	free(owned.v);
	free(lines);
}

int ws_cuda_sum(struct ws_stats *stats, unsigned sources, unsigned how, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	uint32_t workers = ws_scan_workers(&any);
	struct pass pass = {.stats = stats, .how = how};
	struct ws_keyed_sums sums;
	struct ws_keyed *tables;

	if (ws_stats_arg(stats, "nvtx-name")) {
		pass.launches = ws_launches_open(stats, true, err);
		if (!pass.launches)
			return -1;
		ws_launches_label(pass.launches);
	}
	pass.workers = aligned_alloc(128, workers * sizeof(*pass.workers));
	if (!pass.workers)
		return ws_fail(err, "out of memory");
	memset(pass.workers, 0, workers * sizeof(*pass.workers));
	tables = ws_calloc(workers, sizeof(*tables));
	for (uint32_t w = 0; w < workers; w++)
		pass.workers[w].keyed = (struct ws_keyed){.words = key_words(&pass), .per = 1};
	for (int i = 0; i < WS_CUDA_SOURCES; i++)
		if (sources >> i & 1)
			scan_source(&pass, (enum ws_cuda_source)i);
	for (uint32_t w = 0; w < workers; w++) {
		tables[w] = pass.workers[w].keyed;
		stats->unended += pass.workers[w].unended;
		stats->backwards += pass.workers[w].backwards;
	}
	ws_keyed_merge(tables, workers, canonical, &pass, &sums);
	print(&pass, &sums);
	ws_keyed_sums_free(&sums);
	ws_texts_free(&pass.texts);
	ws_launches_close(pass.launches);
	free(tables);
	free(pass.workers);
	return 0;
}
