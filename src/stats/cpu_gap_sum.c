/*
 * cpu_gap_sum.c - what each thread did while a resource was idle: the time of its states that lies
 * in the gaps of a GPU, a stream, a thread or all cores.
 *
 * States of a thread and gaps both come in order, so each resource is walked along with each
 * thread. What a running thread did comes from its samples in gaps: the innermost function of
 * Python of each, or the innermost function where there is none.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/sort.h"
#include "query/gaps.h"
#include "query/profile.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/stats.h"

enum { RESOURCE, SHARE, TIME, COUNT, PID, TID, THREAD, STATE, REASON, FUNCTION, DOING, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
	[RESOURCE] = {"Idle Resource", WS_KIND_TEXT},
	[SHARE] = {"Of Idle", WS_KIND_PERCENT},
	[TIME] = {"Time", WS_KIND_TIME},
	[COUNT] = {"Spans", WS_KIND_COUNT},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[THREAD] = {"Thread", WS_KIND_TEXT},
	[STATE] = {"State", WS_KIND_TEXT},
	[REASON] = {"Reason", WS_KIND_TEXT},
	[FUNCTION] = {"Call", WS_KIND_TEXT},
	[DOING] = {"Sampled In", WS_KIND_TEXT},
};

static const char *const args[] = {"gpu=", "stream=", "thread=", "cpu", "min=", NULL};

enum { K_RESOURCE, K_THREAD, K_DOING, K_WAIT, K_FUNCTION, KEY_WORDS };

struct entry {
	uint64_t key[KEY_WORDS];
	uint64_t time, count;
};

struct worker {
	struct ws_keyed keys; /* numbers only */
	struct entry *entries;
	size_t n, cap;
	size_t *at; /* by resource: where the current thread is in its gaps */
	uint32_t thread;
	/* samples in gaps: number of (resource, thread, function) */
	struct ws_keyed sampled;
	uint64_t *samples;
	size_t samples_n, samples_cap;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *stats;
	struct ws_gaps gaps;
	struct ws_stacks *stacks;
	struct ws_samples samples;
	struct worker *workers;
	uint32_t count;
};

/* ---- states in gaps ---- */

static void add(struct worker *worker, const uint64_t *key, uint64_t time, uint64_t count)
{
	ws_keyed_get(&worker->keys, key);
	if (worker->keys.last == worker->n) {
		ws_grow(worker->entries, worker->cap, worker->n + 1);
		memset(&worker->entries[worker->n], 0, sizeof(*worker->entries));
		memcpy(worker->entries[worker->n++].key, key, sizeof(worker->entries->key));
	}
	worker->entries[worker->keys.last].time += time;
	worker->entries[worker->keys.last].count += count;
}

static void take(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct pass *pass = ctx;
	struct worker *worker_w = &pass->workers[worker];

	if (worker_w->thread != st->thread) {
		worker_w->thread = st->thread;
		memset(worker_w->at, 0, pass->gaps.n * sizeof(*worker_w->at));
	}
	for (size_t i = 0; i < pass->gaps.n; i++) {
		uint64_t pieces = 0, time = ws_gaps_overlap(&pass->gaps.gap_lists[i], st->start,
							    st->end, &worker_w->at[i], &pieces);
		uint64_t key[KEY_WORDS] = {i, st->thread, st->doing, st->wait,
					   ws_report_string_key(pass->stats->report, st->function)};

		if (time)
			add(worker_w, key, time, pieces);
	}
}

/* ---- samples in gaps ---- */

static bool in_gap(const struct ws_gap_list *gap_list, uint64_t at)
{
	/* the first gap that ends after `at` */
	size_t low = ws_bisect(gap_list->gaps.n, mid, gap_list->gaps.spans[mid].end <= at);

	return low < gap_list->gaps.n && gap_list->gaps.spans[low].start <= at;
}

/* The function to name: Python's innermost, else the innermost of all. */
static uint32_t doing(const struct ws_stacks *stacks, uint32_t frame, uint32_t stack)
{
	uint32_t first = 0;

	for (size_t steps = 0; (frame || stack) && steps < WS_STACKS_DEEPEST; steps++) {
		const struct ws_frame_info *frame_info;

		if (!frame)
			frame = ws_stacks_step(stacks, stack, &stack);
		frame_info = ws_stacks_frame(stacks, frame);
		if (frame_info->kind == WS_FRAME_PYTHON)
			return ws_stacks_places(stacks, frame_info)->function;
		if (!first && frame)
			first = ws_stacks_places(stacks, frame_info)->function;
		frame = 0;
	}
	return first;
}

static int scan_samples(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	struct worker *worker = &pass->workers[batch->worker];

	for (size_t i = 0; i < batch->rows; i++)
		for (size_t g = 0; g < pass->gaps.n; g++) {
			uint64_t key[3] = {g, batch->col[ws_sample_thread][i], 0};

			if (batch->col[ws_sample_flags][i] & WS_SAMPLE_REST ||
			    !ws_samples_wanted(&pass->samples, batch->col[ws_sample_event][i],
					       batch->col[ws_sample_flags][i]) ||
			    !in_gap(&pass->gaps.gap_lists[g], batch->col[ws_sample_start][i]))
				continue;
			key[2] = doing(pass->stacks, (uint32_t)batch->col[ws_sample_frame][i],
				       (uint32_t)batch->col[ws_sample_callers][i]);
			ws_keyed_get(&worker->sampled, key);
			if (worker->sampled.last == worker->samples_n) {
				ws_grow(worker->samples, worker->samples_cap,
					worker->samples_n + 1);
				worker->samples[worker->samples_n++] = 0;
			}
			worker->samples[worker->sampled.last]++;
		}
	return 0;
}

/* ---- printing ---- */

struct sampled {
	uint64_t resource, thread, function, samples;
};

static int by_samples(const void *first, const void *second)
{
	const struct sampled *left = first, *right = second;

	if (left->resource != right->resource)
		return left->resource < right->resource ? -1 : 1;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->samples != right->samples)
		return left->samples > right->samples ? -1 : 1;
	return ws_compare(left->function, right->function);
}

struct output {
	struct pass *pass;
	struct entry *entries;
	size_t n;
	struct sampled *samples;
	size_t sample_count;
	struct ws_map ran; /* resource << 32 | thread: time that it ran in gaps */
};

enum { NAMED = 3 }; /* functions in the column of what was sampled */

static void put_sampled(const struct output *output, const uint64_t *key, struct ws_text *text)
{
	struct sampled want = {key[K_RESOURCE], key[K_THREAD], 0, UINT64_MAX};
	size_t low, high;
	uint64_t sum = 0;

	low = ws_bisect(output->sample_count, mid, by_samples(&output->samples[mid], &want) < 0);
	for (high = low;
	     high < output->sample_count && output->samples[high].resource == want.resource &&
	     output->samples[high].thread == want.thread;
	     high++)
		sum += output->samples[high].samples;
	for (size_t i = low; i < high && i < low + NAMED; i++) {
		const struct ws_function *function = ws_stacks_function(
			output->pass->stacks, (uint32_t)output->samples[i].function);

		ws_text_puts(text, text->len ? ", " : "");
		ws_text_add(text, function->name, function->len);
		ws_text_printf(text, " (%" PRIu64 "%%)",
			       (output->samples[i].samples * 100 + sum / 2) / sum);
	}
}

/* By resource, then the threads that ran most first, then the states that lasted longest. */
static int by_importance(const void *first, const void *second, void *ctx)
{
	const struct output *output = ctx;
	const struct entry *left = first, *right = second;
	uint64_t i, k;

	if (left->key[K_RESOURCE] != right->key[K_RESOURCE])
		return left->key[K_RESOURCE] < right->key[K_RESOURCE] ? -1 : 1;
	i = ws_map_get(&output->ran, left->key[K_RESOURCE] << 32 | left->key[K_THREAD], NULL);
	k = ws_map_get(&output->ran, right->key[K_RESOURCE] << 32 | right->key[K_THREAD], NULL);
	if (i != k)
		return i > k ? -1 : 1;
	if (left->key[K_THREAD] != right->key[K_THREAD])
		return left->key[K_THREAD] < right->key[K_THREAD] ? -1 : 1;
	if (left->time != right->time)
		return left->time > right->time ? -1 : 1;
	return memcmp(left->key, right->key, sizeof(left->key));
}

static struct ws_cell text(const char *word)
{
	return ws_cell_text(word, strlen(word));
}

static void print_entry(const struct output *output, const struct entry *entry,
			struct ws_text *sampled)
{
	static const char *const states[WS_DOINGS] = {"not known", "running", "runnable",
						      "waiting"};
	const struct ws_gap_list *gap_list = &output->pass->gaps.gap_lists[entry->key[K_RESOURCE]];
	const struct ws_thread_info *info =
		ws_who_thread(output->pass->stats->who, (uint32_t)entry->key[K_THREAD]);
	struct ws_cell cells[COLUMNS];
	const char *function;
	size_t len;

	sampled->len = 0;
	ws_text_puts(sampled, "");
	if (entry->key[K_DOING] == WS_DOING_RUN && !entry->key[K_WAIT])
		put_sampled(output, entry->key, sampled);
	cells[RESOURCE] = text(gap_list->name);
	cells[SHARE] = ws_cell_real(
		gap_list->total ? (long double)entry->time * 100 / gap_list->total : 0);
	cells[TIME] = ws_cell_int((int64_t)entry->time);
	cells[COUNT] = ws_cell_int((int64_t)entry->count);
	cells[PID] = ws_cell_int(info->pid);
	cells[TID] = ws_cell_int(info->tid);
	cells[THREAD] = text(info->name);
	cells[STATE] = text(states[entry->key[K_DOING]]);
	cells[REASON] = entry->key[K_WAIT] || entry->key[K_DOING] == WS_DOING_WAIT
				? text(ws_wait_name((enum ws_wait)entry->key[K_WAIT]))
				: text("");
	function = ws_cuda_function(output->pass->stats->report, (uint32_t)entry->key[K_FUNCTION],
				    &len);
	cells[FUNCTION] = ws_cell_text(function, len);
	cells[DOING] = ws_cell_text(sampled->text, sampled->len);
	output->pass->stats->row(output->pass->stats, cells);
}

static int by_key(const void *first, const void *second)
{
	return memcmp(((const struct entry *)first)->key, ((const struct entry *)second)->key,
		      sizeof(((const struct entry *)first)->key));
}

/* All workers' entries and samples, the same keys together. */
static void collect(struct output *output)
{
	size_t cap = 0, sample_cap = 0;

	for (uint32_t k = 0; k < output->pass->count; k++) {
		struct worker *worker = &output->pass->workers[k];

		ws_grow(output->entries, cap, output->n + worker->n);
		if (worker->n)
			memcpy(output->entries + output->n, worker->entries,
			       worker->n * sizeof(*worker->entries));
		output->n += worker->n;
		for (size_t i = 0; i < worker->sampled.n; i++) {
			const uint64_t *key = worker->sampled.keys + i * 3;

			ws_grow(output->samples, sample_cap, output->sample_count + 1);
			output->samples[output->sample_count++] =
				(struct sampled){key[0], key[1], key[2], worker->samples[i]};
		}
	}
	if (output->n)
		qsort(output->entries, output->n, sizeof(*output->entries), by_key);
	for (size_t i = 0; i < output->n;
	     i++) { /* a thread's states are one worker's: keys differ */
		uint64_t key =
			output->entries[i].key[K_RESOURCE] << 32 | output->entries[i].key[K_THREAD];

		if (output->entries[i].key[K_DOING] == WS_DOING_RUN)
			ws_map_set(&output->ran, key,
				   ws_map_get(&output->ran, key, NULL) + output->entries[i].time);
	}
}

static int by_function(const void *first, const void *second)
{
	const struct sampled *left = first, *right = second;

	if (left->resource != right->resource)
		return left->resource < right->resource ? -1 : 1;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	return ws_compare(left->function, right->function);
}

static void merge_samples(struct output *output)
{
	size_t kept = 0;

	if (output->sample_count)
		qsort(output->samples, output->sample_count, sizeof(*output->samples), by_function);
	for (size_t i = 0; i < output->sample_count; i++) {
		if (kept && !by_function(&output->samples[kept - 1], &output->samples[i]))
			output->samples[kept - 1].samples += output->samples[i].samples;
		else
			output->samples[kept++] = output->samples[i];
	}
	output->sample_count = kept;
	if (kept)
		qsort(output->samples, kept, sizeof(*output->samples), by_samples);
}

static void print(struct pass *pass)
{
	struct output output = {.pass = pass};
	struct ws_text sampled = {0};

	collect(&output);
	merge_samples(&output);
	if (output.n)
		qsort_r(output.entries, output.n, sizeof(*output.entries), by_importance, &output);
	for (size_t i = 0; i < output.n; i++)
		print_entry(&output, &output.entries[i], &sampled);
	ws_text_free(&sampled);
	ws_map_free(&output.ran);
	free(output.entries);
	free(output.samples);
}

/* ---- the whole ---- */

static uint32_t number(const struct ws_stats *stats, const char *name)
{
	const char *arg = ws_stats_arg(stats, name);

	return arg ? (uint32_t)strtoull(arg, NULL, 10) : WS_NO_U32;
}

static bool any_gpu(const struct ws_report *report)
{
	for (int k = WS_CUDA_KERNEL; k < WS_CUDA_SOURCES; k++)
		if (ws_report_rows(report, ws_cuda_columns[k].table))
			return true;
	return false;
}

static struct ws_gaps_request request(const struct ws_stats *stats)
{
	const char *shortest = ws_stats_arg(stats, "min=");
	struct ws_gaps_request gaps_request = {
		.gpu = number(stats, "gpu="),
		.stream = number(stats, "stream="),
		.thread = number(stats, "thread="),
		.shortest = shortest ? strtoull(shortest, NULL, 10) : 0,
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};

	gaps_request.resource = gaps_request.thread != WS_NO_U32   ? WS_RESOURCE_THREAD
				: ws_stats_arg(stats, "cpu")	   ? WS_RESOURCE_CPU
				: gaps_request.stream != WS_NO_U32 ? WS_RESOURCE_STREAM
				: gaps_request.gpu != WS_NO_U32 || any_gpu(stats->report)
					? WS_RESOURCE_GPU
					: WS_RESOURCE_CPU;
	return gaps_request;
}

static int walk(struct pass *pass, const struct ws_states *states, struct ws_err *err)
{
	struct ws_stats *stats = pass->stats;
	struct ws_scan sc = {
		.table = WS_TABLE_sample,
		.columns = WS_COL(sample, start) | WS_COL(sample, thread) | WS_COL(sample, frame) |
			   WS_COL(sample, callers) | WS_COL(sample, event) | WS_COL(sample, flags),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	pass->count = ws_scan_workers(&sc);
	if (pass->count < ws_states_workers(states))
		pass->count = ws_states_workers(states);
	pass->workers = aligned_alloc(128, pass->count * sizeof(*pass->workers));
	if (!pass->workers)
		return ws_fail(err, "out of memory");
	memset(pass->workers, 0, pass->count * sizeof(*pass->workers));
	for (uint32_t i = 0; i < pass->count; i++) {
		pass->workers[i].keys.words = KEY_WORDS;
		pass->workers[i].sampled.words = 3;
		pass->workers[i].at = ws_calloc(pass->gaps.n, sizeof(*pass->workers[i].at));
	}
	ws_states_run(states, stats->time_min, stats->time_max, take, pass);
	ws_samples_choose(stats->report, NULL, &pass->samples, err);
	pass->stacks = ws_stacks_open(stats->report, &stats->damaged);
	ws_scan_run(stats->report, &sc, scan_samples, pass, &damaged);
	stats->damaged += damaged;
	print(pass);
	for (uint32_t i = 0; i < pass->count; i++) {
		ws_keyed_free(&pass->workers[i].keys);
		ws_keyed_free(&pass->workers[i].sampled);
		free(pass->workers[i].entries);
		free(pass->workers[i].at);
		free(pass->workers[i].samples);
	}
	free(pass->workers);
	ws_stacks_close(pass->stacks);
	return 0;
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_gaps_request gaps_request = request(stats);
	struct pass pass = {.stats = stats};
	struct ws_states *states;
	int rc;

	if (gaps_request.resource == WS_RESOURCE_CPU && !ws_stats_arg(stats, "cpu") &&
	    !ws_report_rows(stats->report, WS_TABLE_sched))
		return 0; /* neither GPUs nor scheduling: nothing to show, and nothing in particular
			     was asked for */
	states = ws_states_open_part(stats->report, stats->who,
				     &(struct ws_states_part){.to = UINT64_MAX, .brief = true},
				     &stats->damaged);
	rc = ws_gaps_find(stats->report, stats->who, states, &gaps_request, &pass.gaps, err);
	stats->damaged += pass.gaps.damaged;
	if (!rc)
		rc = walk(&pass, states, err);
	ws_gaps_free(&pass.gaps);
	ws_states_close(states);
	return rc;
}

const struct ws_stat ws_stat_cpu_gap_sum = {
	.name = "cpu_gap_sum",
	.title = "What Threads Did While a Resource Was Idle",
	.about = "Of the time in which a resource did nothing, between its first and its last "
		 "work: how long each thread ran, was "
		 "runnable or "
		 "waited, and for what; for running threads, the functions that were sampled most. "
		 "The resource is each GPU, or all "
		 "cores where "
		 "there is none; :gpu=<n>, :stream=<n>, :thread=<tid> and :cpu choose one; "
		 ":min=<ns> leaves out shorter gaps.",
	.what = "gaps",
	.args = args,
	.columns = columns,
	.column_count = COLUMNS,
	.run = run,
};
