/*
 * cpu_gap_sum.c - what each thread did while a resource was idle: the time of its states that lies
 * in the gaps of a GPU, a stream, a thread or all cores.
 *
 * Both the states of a thread and the gaps of a resource are in order of time, so that one pass
 * over both is enough. What a running thread did is taken from its samples in gaps: each counts for
 * its innermost Python function or, if there is none, its innermost function.
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

struct gap_entry {
	uint64_t key[KEY_WORDS];
	uint64_t time, count;
};

struct gap_worker {
	struct ws_keyed_dists keys; /* numbers only */
	struct gap_entry *entries;
	size_t entry_count, entry_capacity;
	size_t *gap_index; /* by resource: the current gap of the thread */
	uint32_t thread;
	struct ws_keyed_dists sampled; /* numbers of (resource, thread, function) */
	uint64_t *sample_counts;       /* by these numbers: how many samples were taken in gaps */
	size_t sampled_count, sampled_capacity;
} __attribute__((aligned(128)));

struct gap_sums {
	struct ws_stats *stats;
	struct ws_gaps gaps;
	struct ws_stacks *stacks;
	struct ws_samples samples;
	struct gap_worker *workers;
	uint32_t worker_count;
};

/* ---- states in gaps ---- */

static void add_gap_time(struct gap_worker *worker, const uint64_t *key, uint64_t time,
			 uint64_t count)
{
	ws_keyed_get(&worker->keys, key);
	if (worker->keys.last == worker->entry_count) {
		ws_grow(worker->entries, worker->entry_capacity, worker->entry_count + 1);
		memset(&worker->entries[worker->entry_count], 0, sizeof(*worker->entries));
		memcpy(worker->entries[worker->entry_count++].key, key,
		       sizeof(worker->entries->key));
	}
	worker->entries[worker->keys.last].time += time;
	worker->entries[worker->keys.last].count += count;
}

static void add_state_in_gaps(void *context, uint32_t worker, const struct ws_state *state)
{
	struct gap_sums *gap_sums = context;
	struct gap_worker *gap_worker = &gap_sums->workers[worker];

	if (gap_worker->thread != state->thread) {
		gap_worker->thread = state->thread;
		memset(gap_worker->gap_index, 0,
		       gap_sums->gaps.count * sizeof(*gap_worker->gap_index));
	}
	for (size_t resource = 0; resource < gap_sums->gaps.count; resource++) {
		uint64_t pieces = 0,
			 time = ws_gaps_measure_overlap(&gap_sums->gaps.gap_lists[resource],
							state->start, state->end,
							&gap_worker->gap_index[resource], &pieces);
		uint64_t key[KEY_WORDS] = {resource, state->thread, state->doing, state->wait,
					   ws_report_string_key(gap_sums->stats->report,
								state->function)};

		if (time)
			add_gap_time(gap_worker, key, time, pieces);
	}
}

/* ---- samples in gaps ---- */

static bool is_in_gap(const struct ws_gap_list *gap_list, uint64_t at)
{
	/* the first gap that ends after `at` */
	size_t low = ws_bisect(gap_list->gaps.count, mid, gap_list->gaps.spans[mid].end <= at);

	return low < gap_list->gaps.count && gap_list->gaps.spans[low].start <= at;
}

/* The function that a sample counts for: the innermost Python function, otherwise the innermost of
 * all. */
static uint32_t find_sampled_function(const struct ws_stacks *stacks, uint32_t frame,
				      uint32_t stack)
{
	uint32_t first = 0;

	for (size_t steps = 0; (frame || stack) && steps < WS_STACKS_DEEPEST; steps++) {
		const struct ws_frame_info *frame_info;

		if (!frame)
			frame = ws_stacks_step_out(stacks, stack, &stack);
		frame_info = ws_stacks_get_frame(stacks, frame);
		if (frame_info->kind == WS_FRAME_PYTHON)
			return ws_stacks_get_places(stacks, frame_info)->function;
		if (!first && frame)
			first = ws_stacks_get_places(stacks, frame_info)->function;
		frame = 0;
	}
	return first;
}

static int scan_samples_in_gaps(void *context, const struct ws_batch *batch)
{
	struct gap_sums *gap_sums = context;
	struct gap_worker *worker = &gap_sums->workers[batch->worker];

	for (size_t i = 0; i < batch->rows; i++)
		for (size_t resource = 0; resource < gap_sums->gaps.count; resource++) {
			uint64_t key[3] = {resource, batch->col[ws_sample_thread][i], 0};

			if (batch->col[ws_sample_flags][i] & WS_SAMPLE_REST ||
			    !ws_samples_wanted(&gap_sums->samples, batch->col[ws_sample_event][i],
					       batch->col[ws_sample_flags][i]) ||
			    !is_in_gap(&gap_sums->gaps.gap_lists[resource],
				       batch->col[ws_sample_start][i]))
				continue;
			key[2] = find_sampled_function(gap_sums->stacks,
						       (uint32_t)batch->col[ws_sample_frame][i],
						       (uint32_t)batch->col[ws_sample_callers][i]);
			ws_keyed_get(&worker->sampled, key);
			if (worker->sampled.last == worker->sampled_count) {
				ws_grow(worker->sample_counts, worker->sampled_capacity,
					worker->sampled_count + 1);
				worker->sample_counts[worker->sampled_count++] = 0;
			}
			worker->sample_counts[worker->sampled.last]++;
		}
	return 0;
}

/* ---- printing ---- */

struct sampled_function {
	uint64_t resource, thread, function, samples;
};

static int compare_sample_counts(const void *first, const void *second)
{
	const struct sampled_function *left = first, *right = second;

	if (left->resource != right->resource)
		return ws_compare(left->resource, right->resource);
	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	if (left->samples != right->samples)
		return ws_compare(right->samples, left->samples);
	return ws_compare(left->function, right->function);
}

struct gap_output {
	struct gap_sums *pass;
	struct gap_entry *entries;
	size_t entry_count;
	struct sampled_function *samples;
	size_t sample_count;
	struct ws_map ran; /* resource << 32 | thread: time that it ran in gaps */
};

enum { NAMED = 3 }; /* how many functions the column of samples shows */

static void put_sampled_functions(const struct gap_output *output, const uint64_t *key,
				  struct ws_text *text)
{
	struct sampled_function wanted = {key[K_RESOURCE], key[K_THREAD], 0, UINT64_MAX};
	size_t low, high;
	uint64_t sum = 0;

	low = ws_bisect(output->sample_count, mid,
			compare_sample_counts(&output->samples[mid], &wanted) < 0);
	for (high = low;
	     high < output->sample_count && output->samples[high].resource == wanted.resource &&
	     output->samples[high].thread == wanted.thread;
	     high++)
		sum += output->samples[high].samples;
	for (size_t i = low; i < high && i < low + NAMED; i++) {
		const struct ws_function *function = ws_stacks_get_function(
			output->pass->stacks, (uint32_t)output->samples[i].function);

		if (text->len)
			ws_text_puts(text, ", ");
		ws_text_add(text, function->name, function->len);
		ws_text_printf(text, " (%" PRIu64 "%%)",
			       (output->samples[i].samples * 100 + sum / 2) / sum);
	}
}

/* Orders by resource, then threads that ran longer first, then states that lasted longer first. */
static int compare_entries(const void *first, const void *second, void *context)
{
	const struct gap_output *output = context;
	const struct gap_entry *left = first, *right = second;
	uint64_t left_ran, right_ran;

	if (left->key[K_RESOURCE] != right->key[K_RESOURCE])
		return ws_compare(left->key[K_RESOURCE], right->key[K_RESOURCE]);
	left_ran =
		ws_map_get(&output->ran, left->key[K_RESOURCE] << 32 | left->key[K_THREAD], NULL);
	right_ran =
		ws_map_get(&output->ran, right->key[K_RESOURCE] << 32 | right->key[K_THREAD], NULL);
	if (left_ran != right_ran)
		return ws_compare(right_ran, left_ran);
	if (left->key[K_THREAD] != right->key[K_THREAD])
		return ws_compare(left->key[K_THREAD], right->key[K_THREAD]);
	if (left->time != right->time)
		return ws_compare(right->time, left->time);
	return memcmp(left->key, right->key, sizeof(left->key));
}

static struct ws_cell make_gap_text_cell(const char *word)
{
	return ws_cell_text(word, strlen(word));
}

static void print_gap_entry(const struct gap_output *output, const struct gap_entry *entry,
			    struct ws_text *sampled)
{
	static const char *const states[WS_DOINGS] = {"not known", "running", "runnable",
						      "waiting"};
	const struct ws_gap_list *gap_list = &output->pass->gaps.gap_lists[entry->key[K_RESOURCE]];
	const struct ws_thread_info *info =
		ws_find_thread(output->pass->stats->who, (uint32_t)entry->key[K_THREAD]);
	struct ws_cell cells[COLUMNS];
	const char *function, *reason = "";
	size_t length;

	sampled->len = 0;
	ws_text_puts(sampled, "");
	if (entry->key[K_DOING] == WS_DOING_RUN && !entry->key[K_WAIT])
		put_sampled_functions(output, entry->key, sampled);
	if (entry->key[K_WAIT] || entry->key[K_DOING] == WS_DOING_WAIT)
		reason = ws_name_wait((enum ws_wait)entry->key[K_WAIT]);
	cells[RESOURCE] = make_gap_text_cell(gap_list->name);
	cells[SHARE] = ws_cell_real(ws_compute_percent(entry->time, gap_list->total));
	cells[TIME] = ws_cell_int((int64_t)entry->time);
	cells[COUNT] = ws_cell_int((int64_t)entry->count);
	cells[PID] = ws_cell_int(info->pid);
	cells[TID] = ws_cell_int(info->tid);
	cells[THREAD] = make_gap_text_cell(info->name);
	cells[STATE] = make_gap_text_cell(states[entry->key[K_DOING]]);
	cells[REASON] = make_gap_text_cell(reason);
	function = ws_get_cuda_function_name(output->pass->stats->report,
					     (uint32_t)entry->key[K_FUNCTION], &length);
	cells[FUNCTION] = ws_cell_text(function, length);
	cells[DOING] = ws_cell_text(sampled->text, sampled->len);
	output->pass->stats->row(output->pass->stats, cells);
}

static int compare_entry_keys(const void *first, const void *second)
{
	return memcmp(((const struct gap_entry *)first)->key,
		      ((const struct gap_entry *)second)->key,
		      sizeof(((const struct gap_entry *)first)->key));
}

/* Join the entries and samples of all workers, sort the entries by key, and sum up how long threads
 * ran in gaps. Entries have distinct keys, since one worker has all states of a thread. */
static void collect_worker_entries(struct gap_output *output)
{
	size_t capacity = 0, sample_cap = 0;

	for (uint32_t worker_index = 0; worker_index < output->pass->worker_count; worker_index++) {
		struct gap_worker *worker = &output->pass->workers[worker_index];

		ws_grow(output->entries, capacity, output->entry_count + worker->entry_count);
		if (worker->entry_count)
			memcpy(output->entries + output->entry_count, worker->entries,
			       worker->entry_count * sizeof(*worker->entries));
		output->entry_count += worker->entry_count;
		for (size_t i = 0; i < worker->sampled.count; i++) {
			const uint64_t *key = worker->sampled.keys + i * 3;

			ws_grow(output->samples, sample_cap, output->sample_count + 1);
			output->samples[output->sample_count++] = (struct sampled_function){
				key[0], key[1], key[2], worker->sample_counts[i]};
		}
	}
	if (output->entry_count)
		qsort(output->entries, output->entry_count, sizeof(*output->entries),
		      compare_entry_keys);
	for (size_t i = 0; i < output->entry_count; i++) {
		uint64_t key =
			output->entries[i].key[K_RESOURCE] << 32 | output->entries[i].key[K_THREAD];

		if (output->entries[i].key[K_DOING] == WS_DOING_RUN)
			ws_map_set(&output->ran, key,
				   ws_map_get(&output->ran, key, NULL) + output->entries[i].time);
	}
}

static int compare_sampled_functions(const void *first, const void *second)
{
	const struct sampled_function *left = first, *right = second;

	if (left->resource != right->resource)
		return ws_compare(left->resource, right->resource);
	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->function, right->function);
}

/* Add up the samples that several workers have for the same function. */
static void merge_sample_counts(struct gap_output *output)
{
	size_t kept = 0;

	if (output->sample_count)
		qsort(output->samples, output->sample_count, sizeof(*output->samples),
		      compare_sampled_functions);
	for (size_t i = 0; i < output->sample_count; i++) {
		if (kept &&
		    !compare_sampled_functions(&output->samples[kept - 1], &output->samples[i]))
			output->samples[kept - 1].samples += output->samples[i].samples;
		else
			output->samples[kept++] = output->samples[i];
	}
	output->sample_count = kept;
	if (kept)
		qsort(output->samples, kept, sizeof(*output->samples), compare_sample_counts);
}

static void print_gap_entries(struct gap_sums *gap_sums)
{
	struct gap_output output = {.pass = gap_sums};
	struct ws_text sampled = {0};

	collect_worker_entries(&output);
	merge_sample_counts(&output);
	if (output.entry_count)
		qsort_r(output.entries, output.entry_count, sizeof(*output.entries),
			compare_entries, &output);
	for (size_t i = 0; i < output.entry_count; i++)
		print_gap_entry(&output, &output.entries[i], &sampled);
	ws_text_free(&sampled);
	ws_map_free(&output.ran);
	free(output.entries);
	free(output.samples);
}

/* ---- the report ---- */

static uint32_t get_number_arg(const struct ws_stats *stats, const char *name)
{
	return (uint32_t)ws_get_stats_arg_number(stats, name, WS_NO_U32);
}

static bool has_gpu_work(const struct ws_report *report)
{
	for (int k = WS_CUDA_KERNEL; k < WS_CUDA_SOURCES; k++)
		if (ws_report_count_rows(report, ws_cuda_columns[k].table))
			return true;
	return false;
}

static struct ws_gaps_request make_gaps_request(const struct ws_stats *stats)
{
	struct ws_gaps_request request = {
		.gpu = get_number_arg(stats, "gpu="),
		.stream = get_number_arg(stats, "stream="),
		.thread = get_number_arg(stats, "thread="),
		.shortest = ws_get_stats_arg_number(stats, "min=", 0),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};

	if (request.thread != WS_NO_U32)
		request.resource = WS_RESOURCE_THREAD;
	else if (ws_get_stats_arg(stats, "cpu"))
		request.resource = WS_RESOURCE_CPU;
	else if (request.stream != WS_NO_U32)
		request.resource = WS_RESOURCE_STREAM;
	else if (request.gpu != WS_NO_U32 || has_gpu_work(stats->report))
		request.resource = WS_RESOURCE_GPU;
	else
		request.resource = WS_RESOURCE_CPU;
	return request;
}

static int sum_gaps(struct gap_sums *gap_sums, const struct ws_states *states, struct ws_err *err)
{
	struct ws_stats *stats = gap_sums->stats;
	struct ws_scan scan = {
		.table = WS_TABLE_sample,
		.columns = WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, thread) |
			   WS_COLUMN_BIT(sample, frame) | WS_COLUMN_BIT(sample, callers) |
			   WS_COLUMN_BIT(sample, event) | WS_COLUMN_BIT(sample, flags),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	gap_sums->worker_count = ws_count_scan_workers(&scan);
	if (gap_sums->worker_count < ws_count_state_workers(states))
		gap_sums->worker_count = ws_count_state_workers(states);
	gap_sums->workers = aligned_alloc(128, gap_sums->worker_count * sizeof(*gap_sums->workers));
	if (!gap_sums->workers)
		return ws_fail(err, "out of memory");
	memset(gap_sums->workers, 0, gap_sums->worker_count * sizeof(*gap_sums->workers));
	for (uint32_t i = 0; i < gap_sums->worker_count; i++) {
		gap_sums->workers[i].keys.words = KEY_WORDS;
		gap_sums->workers[i].sampled.words = 3;
		gap_sums->workers[i].gap_index =
			ws_calloc(gap_sums->gaps.count, sizeof(*gap_sums->workers[i].gap_index));
	}
	ws_walk_states(states, stats->time_min, stats->time_max, add_state_in_gaps, gap_sums);
	ws_samples_choose(stats->report, NULL, &gap_sums->samples, err);
	gap_sums->stacks = ws_stacks_open(stats->report, &stats->damaged);
	ws_run_scan(stats->report, &scan, scan_samples_in_gaps, gap_sums, &damaged);
	stats->damaged += damaged;
	print_gap_entries(gap_sums);
	for (uint32_t i = 0; i < gap_sums->worker_count; i++) {
		ws_keyed_free(&gap_sums->workers[i].keys);
		ws_keyed_free(&gap_sums->workers[i].sampled);
		free(gap_sums->workers[i].entries);
		free(gap_sums->workers[i].gap_index);
		free(gap_sums->workers[i].sample_counts);
	}
	free(gap_sums->workers);
	ws_stacks_close(gap_sums->stacks);
	return 0;
}

static int make_cpu_gap_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_gaps_request request = make_gaps_request(stats);
	struct gap_sums gap_sums = {.stats = stats};
	struct ws_states *states;
	int status;

	if (request.resource == WS_RESOURCE_CPU && !ws_get_stats_arg(stats, "cpu") &&
	    !ws_report_count_rows(stats->report, WS_TABLE_sched))
		return 0; /* no GPU and no scheduling was recorded, and no resource was asked for */
	states = ws_states_open_part(stats->report, stats->who,
				     &(struct ws_states_part){.to = UINT64_MAX, .brief = true},
				     &stats->damaged);
	status = ws_gaps_find(stats->report, stats->who, states, &request, &gap_sums.gaps, err);
	stats->damaged += gap_sums.gaps.damaged;
	if (!status)
		status = sum_gaps(&gap_sums, states, err);
	ws_gaps_free(&gap_sums.gaps);
	ws_states_close(states);
	return status;
}

const struct ws_stats_report ws_stat_cpu_gap_sum = {
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
	.shows_states = true,
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_cpu_gap_sum_rows,
};
