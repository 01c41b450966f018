/*
 * thread_wait_sum.c - what each thread waited for: by reason, call and object of the call.
 *
 * A wait is a state of query/states.c: off the core for one reason, or polling in a CUDA call that
 * waits for the GPU. Its object is the lock with the thread that held it, the path of a file, or
 * the address that the call was given; where nothing is known, the thread that woke this one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "query/states.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "query/absent.h"
#include "stats/stats.h"
#include "stats/summary_rows.h"

enum { K_THREAD, K_WAIT, K_FUNCTION, K_OBJECT, K_HOLDER, KEY_WORDS };
enum { PID = 8, TID, THREAD, REASON, FUNCTION, OBJECT, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
	WS_SUMMARY_COLUMNS("Waits"), {"PID", WS_KIND_ID},      {"TID", WS_KIND_ID},
	{"Thread", WS_KIND_TEXT},    {"Reason", WS_KIND_TEXT}, {"Function", WS_KIND_TEXT},
	{"Object", WS_KIND_TEXT},
};

static const char *const args[] = {"reason", "thread", NULL};

struct waits {
	struct ws_stats *stats;
	struct ws_keyed_dists *tables; /* by worker */
	bool objects, threads;	       /* group by these too */
	struct ws_map by_number;       /* process << 32 | the system's number of a thread: its id */
};

static void add_wait(void *context, uint32_t worker, const struct ws_state *state)
{
	struct waits *waits = context;
	uint64_t key[KEY_WORDS] = {state->thread, state->wait, 0, 0, 0};

	if (state->doing == WS_DOING_UNKNOWN ||
	    (state->doing == WS_DOING_RUN && state->wait == WS_WAIT_NONE))
		return;
	if (!waits->threads)
		key[K_THREAD] = 0;
	if (waits->objects) {
		key[K_FUNCTION] = ws_report_string_key(waits->stats->report, state->function);
		/* A path says more than a descriptor, which may be that of another file later. */
		if (state->path)
			key[K_OBJECT] = UINT64_C(1) << 63 |
					ws_report_string_key(waits->stats->report, state->path);
		else if (state->wait == WS_WAIT_NONE)
			key[K_OBJECT] = state->waker;
		else
			key[K_OBJECT] = state->object & INT64_MAX;
		if (state->holder)
			key[K_HOLDER] =
				(uint64_t)ws_find_thread(waits->stats->who, state->thread)->process
					<< 32 |
				state->holder;
	}
	ws_dist_add(ws_keyed_get(&waits->tables[worker], key), state->end - state->start);
}

struct wait_line {
	const uint64_t *key;
	const struct ws_summary *summary;
};

static int compare_wait_lines(const void *first, const void *second)
{
	const struct wait_line *left = first, *right = second;

	if (left->summary->total != right->summary->total)
		return ws_compare(right->summary->total, left->summary->total);
	for (int i = 0; i < KEY_WORDS; i++)
		if (left->key[i] != right->key[i])
			return ws_compare(left->key[i], right->key[i]);
	return 0;
}

/* "ACTION by NAME (number)"; threads without a name are called "thread". */
static void put_thread(struct ws_text *text, const char *action, const char *name, uint32_t number)
{
	if (!*name)
		name = "thread";
	ws_text_printf(text, "%s by %s (%u)", action, name, number);
}

static void put_wait_object(const struct waits *waits, const uint64_t *key, struct ws_text *text)
{
	const struct ws_thread_info *holder = ws_find_thread(
		waits->stats->who, (uint32_t)ws_map_get(&waits->by_number, key[K_HOLDER], NULL));
	uint64_t object = key[K_OBJECT];
	bool address = key[K_WAIT] == WS_WAIT_LOCK || key[K_WAIT] == WS_WAIT_CONDITION ||
		       key[K_WAIT] == WS_WAIT_SEMAPHORE || key[K_WAIT] == WS_WAIT_BARRIER ||
		       key[K_WAIT] == WS_WAIT_JOIN;

	if (object >> 63) {
		size_t length;
		const char *path =
			ws_report_string(waits->stats->report, (uint32_t)object, &length);

		ws_text_add(text, path, length);
	} else if (object && key[K_WAIT] == WS_WAIT_NONE) {
		const struct ws_thread_info *waker =
			ws_find_thread(waits->stats->who, (uint32_t)object);

		put_thread(text, "woken", waker->name, (uint32_t)waker->tid);
	} else if (object && address) {
		ws_text_printf(text, "0x%" PRIx64, object);
	} else if (object) {
		ws_text_printf(text, "%" PRIu64, object);
	}
	if (!key[K_HOLDER])
		return;
	if (text->len)
		ws_text_puts(text, " ");
	put_thread(text, "held", holder->name, (uint32_t)key[K_HOLDER]);
}

static struct ws_cell make_wait_text_cell(const char *word)
{
	return ws_cell_text(word, strlen(word));
}

/* The name of a function; calls of CUDA without their version, as people know them. */
static struct ws_cell make_function_cell(const struct waits *waits, uint64_t name)
{
	size_t length;
	const char *text = ws_get_cuda_function_name(waits->stats->report, (uint32_t)name, &length);

	return ws_cell_text(text, length);
}

static void print_waits(const struct waits *waits, const struct ws_keyed_sums *sums)
{
	struct wait_line *lines = ws_calloc(sums->count, sizeof(*lines));
	unsigned __int128 sum = 0;
	struct ws_text object = {0};
	size_t most = waits->stats->most_rows;

	for (size_t i = 0; i < sums->count; i++) {
		lines[i] = (struct wait_line){sums->keys + i * KEY_WORDS, &sums->summaries[i]};
		sum += sums->summaries[i].total;
	}
	if (sums->count)
		qsort(lines, sums->count, sizeof(*lines), compare_wait_lines);
	for (size_t i = 0; i < sums->count && (!most || i < most); i++) {
		const uint64_t *key = lines[i].key;
		const struct ws_thread_info *info =
			ws_find_thread(waits->stats->who, (uint32_t)key[K_THREAD]);
		struct ws_cell cells[COLUMNS] = {WS_SUMMARY_CELLS(lines[i].summary, sum)};

		cells[PID] = ws_cell_int_if(waits->threads, info->pid);
		cells[TID] = ws_cell_int_if(waits->threads, info->tid);
		cells[THREAD] = ws_cell_text_if(waits->threads, info->name, strlen(info->name));
		cells[REASON] = make_wait_text_cell(ws_name_wait((enum ws_wait)key[K_WAIT]));
		cells[FUNCTION] = ws_cell_null();
		if (waits->objects)
			cells[FUNCTION] = make_function_cell(waits, key[K_FUNCTION]);
		object.len = 0;
		ws_text_puts(&object, "");
		put_wait_object(waits, key, &object);
		cells[OBJECT] = ws_cell_text_if(waits->objects, object.text, object.len);
		waits->stats->row(waits->stats, cells);
	}
	ws_text_free(&object);
	free(lines);
}

static int make_thread_wait_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct waits waits = {.stats = stats,
			      .objects = !ws_get_stats_arg(stats, "reason"),
			      .threads = ws_get_stats_arg(stats, "thread") ||
					 !ws_get_stats_arg(stats, "reason")};
	struct ws_states *states = ws_states_open(stats->report, stats->who, &stats->damaged);
	uint32_t workers = ws_count_state_workers(states);
	struct ws_keyed_sums sums;

	(void)err;
	for (uint32_t i = 1; i <= ws_highest_thread_id(stats->who); i++) {
		const struct ws_thread_info *info = ws_find_thread(stats->who, i);

		ws_map_set(&waits.by_number, (uint64_t)info->process << 32 | info->tid, i);
	}
	waits.tables = ws_calloc(workers, sizeof(*waits.tables));
	for (uint32_t worker = 0; worker < workers; worker++)
		waits.tables[worker] =
			(struct ws_keyed_dists){.words = KEY_WORDS, .dists_per_key = 1};
	ws_walk_states(states, stats->time_min, stats->time_max, add_wait, &waits);
	ws_states_close(states);
	ws_keyed_merge(waits.tables, workers, NULL, NULL, &sums);
	print_waits(&waits, &sums);
	ws_keyed_sums_free(&sums);
	free(waits.tables);
	ws_map_free(&waits.by_number);
	return 0;
}

const struct ws_stats_report ws_stat_thread_wait_sum = {
	.name = "thread_wait_sum",
	.title = "Waits by Thread and Reason",
	.about = "What threads waited for: a lock (with the thread that held it), a condition, I/O "
		 "(with the path), sleep, the GPU, "
		 "Python's GIL (with the thread that held it longest meanwhile), "
		 "a core to run on. Where no reason is known, the thread that ended the wait is "
		 "named, if wake-ups were traced. "
		 "Waiting for the GPU counts while it polls too. Without context switches, the "
		 "whole of a blocking "
		 "call counts. "
		 ":reason makes one line of each reason, :reason:thread of each reason and thread.",
	.what = "waits of threads",
	.explain_absence = ws_explain_no_waits,
	.args = args,
	.shows_states = true,
	.without_gpu = true,
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_thread_wait_sum_rows,
};
