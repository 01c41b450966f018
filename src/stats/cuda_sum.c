/*
 * cuda_sum.c - summaries of CUDA calls and of work on GPUs; see cuda.h.
 *
 * One pass over each table on all cores. The workers' keys are stored values (ids of strings,
 * kinds, sizes of grids). They are mapped to what the user sees afterwards, once for each distinct
 * key instead of for each row.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/summary_rows.h"
#include "text/text_numbers.h"

/* Words of a key. Only WS_CUDA_SUM_GRID needs the grid, only :nvtx-name the label of the innermost
 * range. */
enum { KEY_NAME, KEY_RANGE, KEY_GRID, KEY_WORDS = KEY_GRID + 3 };
enum { SOURCE_SHIFT = 56, AHEAD = 16 };

struct cuda_worker {
	struct ws_keyed_dists keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct cuda_sums {
	struct ws_stats *stats;
	unsigned how;
	enum ws_cuda_source source; /* being scanned */
	const struct ws_cuda_columns *columns;
	int name_column;
	struct cuda_worker *workers;
	struct ws_launches *launches;	       /* with :nvtx-name */
	struct ws_text_numbers function_names; /* names of calls */
};

static uint32_t count_key_words(const struct cuda_sums *cuda_sums)
{
	if (cuda_sums->how & WS_CUDA_SUM_GRID)
		return KEY_WORDS;
	if (cuda_sums->launches)
		return KEY_RANGE + 1;
	return KEY_NAME + 1;
}

static void set_grid_key(const struct ws_batch *batch, size_t i, uint64_t *key)
{
	key[KEY_GRID] = batch->col[ws_cuda_kernel_grid_x][i] | batch->col[ws_cuda_kernel_grid_y][i]
								       << 32;
	key[KEY_GRID + 1] =
		batch->col[ws_cuda_kernel_grid_z][i] | batch->col[ws_cuda_kernel_block_x][i] << 32;
	key[KEY_GRID + 2] =
		batch->col[ws_cuda_kernel_block_y][i] | batch->col[ws_cuda_kernel_block_z][i] << 32;
}

static uint64_t make_name_key(const struct cuda_sums *cuda_sums, const struct ws_batch *batch,
			      size_t i)
{
	uint64_t name = 0;

	if (cuda_sums->name_column >= 0)
		name = batch->col[cuda_sums->name_column][i];

	if (cuda_sums->source == WS_CUDA_KERNEL && !name)
		name = batch->col[ws_cuda_kernel_demangled][i];
	return (uint64_t)cuda_sums->source << SOURCE_SHIFT | name;
}

/* Make the key of row i and, when there may be millions of keys, prefetch what looking it up will
 * read. */
static void make_row_key(const struct cuda_sums *cuda_sums, const struct cuda_worker *worker,
			 const struct ws_batch *batch, size_t i, uint64_t *key)
{
	memset(key, 0, KEY_WORDS * sizeof(*key));
	key[KEY_NAME] = make_name_key(cuda_sums, batch, i);
	if (cuda_sums->how & WS_CUDA_SUM_GRID)
		set_grid_key(batch, i, key);
	if (!cuda_sums->launches || cuda_sums->source != WS_CUDA_KERNEL)
		return;
	key[KEY_RANGE] = cuda_sums->launches->label[ws_find_launch_node(
		cuda_sums->launches, batch->col[cuda_sums->columns->process][i],
		batch->col[cuda_sums->columns->correlation][i])];
	ws_keyed_prefetch(&worker->keyed, key);
}

/* Keys are made several rows ahead, to prefetch them: with names that never repeat, each key is a
 * cache miss. */
static int scan_source_rows(void *context, const struct ws_batch *batch)
{
	struct cuda_sums *cuda_sums = context;
	struct cuda_worker *worker = &cuda_sums->workers[batch->worker];
	const uint64_t *start = batch->col[cuda_sums->columns->start],
		       *end = batch->col[cuda_sums->columns->end];
	const uint64_t *bytes = NULL;

	if (cuda_sums->how & WS_CUDA_SUM_BYTES)
		bytes = batch->col[cuda_sums->columns->bytes];
	for (size_t from = 0, count; from < batch->rows; from += count) {
		uint64_t keys[AHEAD][KEY_WORDS];

		count = ws_min(batch->rows - from, AHEAD);
		for (size_t i = 0; i < count; i++)
			make_row_key(cuda_sums, worker, batch, from + i, keys[i]);
		for (size_t i = from; i < from + count; i++) {
			if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i]) && !bytes)
				ws_count_left_out(end[i], &worker->unended, &worker->backwards);
			else
				ws_dist_add(ws_keyed_get(&worker->keyed, keys[i - from]),
					    bytes ? bytes[i] : end[i] - start[i]);
		}
	}
	return 0;
}

static uint64_t get_column_bit(int column)
{
	if (column < 0)
		return 0;
	return UINT64_C(1) << column;
}

static void scan_source(struct cuda_sums *cuda_sums, enum ws_cuda_source source)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];
	struct ws_scan scan = {
		.table = columns->table,
		.columns = get_column_bit(columns->start) | get_column_bit(columns->end) |
			   get_column_bit(columns->name),
		.time_min = cuda_sums->stats->time_min,
		.time_max = cuda_sums->stats->time_max,
	};
	uint64_t damaged = 0;

	cuda_sums->source = source;
	cuda_sums->columns = columns;
	cuda_sums->name_column = columns->name;
	if (source == WS_CUDA_KERNEL)
		cuda_sums->name_column = ws_choose_kernel_name_column(cuda_sums->stats);
	scan.columns |= get_column_bit(cuda_sums->name_column);
	if (cuda_sums->how & WS_CUDA_SUM_BYTES)
		scan.columns |= get_column_bit(columns->bytes);
	if (cuda_sums->how & WS_CUDA_SUM_GRID)
		scan.columns |=
			WS_COLUMN_BIT(cuda_kernel, grid_x) | WS_COLUMN_BIT(cuda_kernel, grid_y) |
			WS_COLUMN_BIT(cuda_kernel, grid_z) | WS_COLUMN_BIT(cuda_kernel, block_x) |
			WS_COLUMN_BIT(cuda_kernel, block_y) | WS_COLUMN_BIT(cuda_kernel, block_z);
	if (cuda_sums->launches && source == WS_CUDA_KERNEL)
		scan.columns |=
			get_column_bit(columns->process) | get_column_bit(columns->correlation);
	ws_run_scan(cuda_sums->stats->report, &scan, scan_source_rows, cuda_sums, &damaged);
	cuda_sums->stats->damaged += damaged;
}

static void make_canonical_name_key(void *context, size_t worker, uint64_t *key)
{
	struct cuda_sums *cuda_sums = context;
	uint32_t id = (uint32_t)key[KEY_NAME];
	size_t length;

	(void)worker;
	switch (key[KEY_NAME] >> SOURCE_SHIFT) {
	case WS_CUDA_API: {
		const char *name = ws_get_cuda_function_name(cuda_sums->stats->report, id, &length);

		id = ws_number_text(&cuda_sums->function_names, name, length);
		break;
	}
	case WS_CUDA_KERNEL:
		id = ws_get_name_key(cuda_sums->stats, id);
		if (cuda_sums->launches)
			key[KEY_RANGE] =
				ws_get_launch_label_key(cuda_sums->launches, key[KEY_RANGE]);
		break;
	}
	key[KEY_NAME] = key[KEY_NAME] >> SOURCE_SHIFT << SOURCE_SHIFT | id;
}

/* ---- printing ---- */

/* Texts made for lines, to be freed after printing. Most lines need none. */
struct owned_texts {
	char **texts;
	size_t count, capacity;
};

static char *keep_owned_text(struct owned_texts *owned, char *text)
{
	ws_grow(owned->texts, owned->capacity, owned->count + 1);
	return owned->texts[owned->count++] = text;
}

/* Name a line "range/kernel", in two parts: joining millions of them would take too much memory. */
static void name_range_line(const struct cuda_sums *cuda_sums, ws_range_key range,
			    struct ws_summary_row *line, struct owned_texts *owned)
{
	char *made = NULL;

	line->tail = line->name;
	line->tail_length = line->name_length;
	line->name = ws_get_range_name_text(cuda_sums->launches, range, &line->name_length, &made);
	if (made)
		keep_owned_text(owned, made);
}

static void name_summary_line(const struct cuda_sums *cuda_sums, const uint64_t *key,
			      struct ws_summary_row *line, struct owned_texts *owned)
{
	enum ws_cuda_source source = (enum ws_cuda_source)(key[KEY_NAME] >> SOURCE_SHIFT);
	uint32_t id = (uint32_t)key[KEY_NAME];
	char buffer[64];

	if (source == WS_CUDA_API) {
		line->name =
			ws_get_numbered_text(&cuda_sums->function_names, id, &line->name_length);
	} else if (source == WS_CUDA_KERNEL) {
		line->name = ws_get_name(cuda_sums->stats, id, &line->name_length);
		if (cuda_sums->launches && key[KEY_RANGE])
			name_range_line(cuda_sums, key[KEY_RANGE], line, owned);
	} else {
		line->name = keep_owned_text(owned, ws_strdup(ws_format_cuda_op_name(
							    source, id, buffer, sizeof(buffer))));
		line->name_length = strlen(line->name);
	}
	if (cuda_sums->how & WS_CUDA_SUM_CATEGORY)
		line->style = ws_cuda_columns[source].category;
	if (!(cuda_sums->how & WS_CUDA_SUM_GRID))
		return;
	line->style = keep_owned_text(owned, ws_format_cuda_size((uint32_t)key[KEY_GRID],
								 key[KEY_GRID] >> 32,
								 (uint32_t)key[KEY_GRID + 1]));
	line->second_style = keep_owned_text(owned, ws_format_cuda_size(key[KEY_GRID + 1] >> 32,
									(uint32_t)key[KEY_GRID + 2],
									key[KEY_GRID + 2] >> 32));
}

static void print_size_rows(struct ws_stats *stats, const struct ws_summary_row *lines,
			    size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ws_summary *summary = lines[i].summary;

		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real((long double)summary->total),
					  ws_cell_int((int64_t)summary->count),
					  ws_cell_real(ws_compute_summary_mean(summary)),
					  ws_cell_real(ws_compute_summary_median(summary)),
					  ws_cell_real(summary->min),
					  ws_cell_real(summary->max),
					  ws_cell_real(summary->stddev),
					  ws_cell_text(lines[i].name, lines[i].name_length),
				  });
	}
}

static void print_cuda_sums(struct cuda_sums *cuda_sums, const struct ws_keyed_sums *sums)
{
	struct ws_summary_row *lines = ws_calloc(sums->count, sizeof(*lines));
	struct owned_texts owned = {0};

	for (size_t i = 0; i < sums->count; i++) {
		lines[i].summary = &sums->summaries[i];
		name_summary_line(cuda_sums, sums->keys + i * sums->words, &lines[i], &owned);
	}
	if (cuda_sums->how & WS_CUDA_SUM_BYTES) {
		ws_sort_summary_rows(lines, sums->count);
		print_size_rows(cuda_sums->stats, lines, sums->count);
	} else
		ws_print_summary_rows(cuda_sums->stats, lines, sums->count);
	for (size_t i = 0; i < owned.count; i++)
		free(owned.texts[i]);
	free(owned.texts);
	free(lines);
}

int ws_make_cuda_summary(struct ws_stats *stats, unsigned sources, unsigned how, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	uint32_t workers = ws_count_scan_workers(&any);
	struct cuda_sums cuda_sums = {.stats = stats, .how = how};
	struct ws_keyed_sums sums;
	struct ws_keyed_dists *tables;

	if (ws_get_stats_arg(stats, "nvtx-name")) {
		cuda_sums.launches = ws_launches_open(stats, true, err);
		if (!cuda_sums.launches)
			return -1;
		cuda_sums.launches->fold = stats->fold;
		ws_label_launches(cuda_sums.launches);
	}
	cuda_sums.workers = aligned_alloc(128, workers * sizeof(*cuda_sums.workers));
	if (!cuda_sums.workers)
		return ws_fail(err, "out of memory");
	memset(cuda_sums.workers, 0, workers * sizeof(*cuda_sums.workers));
	tables = ws_calloc(workers, sizeof(*tables));
	for (uint32_t worker = 0; worker < workers; worker++)
		cuda_sums.workers[worker].keyed = (struct ws_keyed_dists){
			.words = count_key_words(&cuda_sums), .dists_per_key = 1};
	for (int i = 0; i < WS_CUDA_SOURCES; i++)
		if (sources >> i & 1)
			scan_source(&cuda_sums, (enum ws_cuda_source)i);
	for (uint32_t i = 0; i < workers; i++) {
		tables[i] = cuda_sums.workers[i].keyed;
		stats->unended += cuda_sums.workers[i].unended;
		stats->backwards += cuda_sums.workers[i].backwards;
	}
	ws_keyed_merge(tables, workers, make_canonical_name_key, &cuda_sums, &sums);
	print_cuda_sums(&cuda_sums, &sums);
	ws_keyed_sums_free(&sums);
	ws_free_text_numbers(&cuda_sums.function_names);
	ws_launches_close(cuda_sums.launches);
	free(tables);
	free(cuda_sums.workers);
	return 0;
}
