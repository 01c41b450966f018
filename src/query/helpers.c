/* helpers.c - see helpers.h. */
#include "query/helpers.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "query/states.h"

/* How much later than the helper's start the thread that started it may begin to wait, ns: the
 * helper may be running on another core before that thread has called the function that waits. */
#define WAIT_SLACK UINT64_C(100000)
/* Numbered operators, pieces and waits that are kept; a report with more is not a trace of one
 * program's run. */
enum { MOST_ENTRIES = 1 << 26 };

/* From `start` on, a helper works for `helped` (0: for itself). If a wait shows this, only up to
 * `end`. */
struct entry {
	uint64_t start, end;
	uint32_t helped;
};

/* Entries of all threads, by thread and start. */
struct entries {
	struct entry *entries;
	size_t count, cap;
	struct slice {
		size_t first, count;
	} * of; /* by thread */
};

struct ws_helpers {
	const struct ws_names_by_id *who;
	uint32_t threads; /* highest id */
	const struct ws_helper_ranges *ranges;
	struct entries numbered, pieces, waits;
};

static bool add_entry(struct ws_helpers *helpers, struct entries *list, uint32_t thread,
		      struct entry entry)
{
	struct slice *of;

	if (!thread || thread > helpers->threads || list->count == MOST_ENTRIES)
		return false;
	if (!list->of)
		list->of = ws_calloc((size_t)helpers->threads + 1, sizeof(*list->of));
	of = &list->of[thread];
	if (!of->count)
		of->first = list->count;
	of->count++;
	ws_grow(list->entries, list->cap, list->count + 1);
	list->entries[list->count++] = entry;
	return true;
}

static struct slice get_slice(const struct entries *list, uint32_t thread)
{
	if (!list->of)
		return (struct slice){0, 0};
	return list->of[thread];
}

/* The last entry of a thread that starts no later than `time`; NULL when there is none. */
static const struct entry *find_entry(const struct entries *list, uint32_t thread, uint64_t time)
{
	struct slice of = get_slice(list, thread);
	size_t low = of.first, high = of.first + of.count;

	low = ws_find_first_not(low, high, middle, list->entries[middle].start <= time);
	if (low == of.first)
		return NULL;
	return &list->entries[low - 1];
}

/* ---- by sequence numbers ---- */

/* Which thread a number means; 0 when it means several. */
static void learn_thread(struct ws_map *map, uint64_t key, uint32_t thread)
{
	bool found;
	uint64_t known = ws_map_get(map, key, &found);

	if (!found)
		ws_map_set(map, key, thread);
	else if (known != thread)
		ws_map_set(map, key, 0);
}

static uint64_t make_number_key(const struct ws_helpers *helpers, uint64_t thread, uint64_t number)
{
	return (uint64_t)ws_find_thread(helpers->who, (uint32_t)thread)->process << 48 ^ number;
}

struct numbered {
	const struct ws_rows *ops;
	struct ws_map sequences; /* process and sequence number -> thread of its forward operator */
	struct ws_map forwards;	 /* process and the framework's number of a thread -> thread */
};

static bool is_numbered(const struct ws_rows *ops, size_t i)
{
	return ops->col[ws_op_kind][i] == WS_OP_CPU && ops->col[ws_op_sequence][i] != WS_NO_U64;
}

static bool is_backward(const struct ws_rows *ops, size_t i)
{
	return ops->col[ws_op_forward_thread][i] && ops->col[ws_op_forward_thread][i] != WS_NO_U64;
}

/*
 * Learn on which threads the forward operators of numbers ran, and from that what the framework's
 * thread numbers mean. Sequence numbers are counted per thread, so those of two threads may be
 * equal.
 */
static void learn_numbers(const struct ws_helpers *helpers, struct numbered *numbered)
{
	const struct ws_rows *ops = numbered->ops;

	for (size_t i = 0; i < ops->rows; i++) {
		uint64_t thread = ops->col[ws_op_thread][i];

		if (is_numbered(ops, i) && !is_backward(ops, i))
			learn_thread(&numbered->sequences,
				     make_number_key(helpers, thread, ops->col[ws_op_sequence][i]),
				     (uint32_t)thread);
	}
	for (size_t i = 0; i < ops->rows; i++) {
		uint64_t thread = ops->col[ws_op_thread][i];
		uint32_t forward;

		if (!is_numbered(ops, i) || !is_backward(ops, i))
			continue;
		forward = (uint32_t)ws_map_get(
			&numbered->sequences,
			make_number_key(helpers, thread, ops->col[ws_op_sequence][i]), NULL);
		if (forward)
			learn_thread(&numbered->forwards,
				     make_number_key(helpers, thread,
						     ops->col[ws_op_forward_thread][i]),
				     forward);
	}
}

/* The thread that asked for a backward operator; 0 when that is not clear. */
static uint32_t find_asking_thread(const struct ws_helpers *helpers,
				   const struct numbered *numbered, size_t i)
{
	const struct ws_rows *ops = numbered->ops;
	uint64_t thread = ops->col[ws_op_thread][i];
	bool found;
	uint32_t asking = (uint32_t)ws_map_get(
		&numbered->forwards,
		make_number_key(helpers, thread, ops->col[ws_op_forward_thread][i]), &found);

	if (asking)
		return asking;
	return (uint32_t)ws_map_get(&numbered->sequences,
				    make_number_key(helpers, thread, ops->col[ws_op_sequence][i]),
				    NULL);
}

static int load_numbered(struct ws_helpers *helpers, const struct ws_report *report,
			 struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_op,
		.columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, thread) |
			   WS_COLUMN_BIT(op, kind) | WS_COLUMN_BIT(op, sequence) |
			   WS_COLUMN_BIT(op, forward_thread),
		.time_max = UINT64_MAX,
	};
	struct ws_rows ops;
	struct numbered numbered = {.ops = &ops};

	if (!ws_report_count_rows(report, WS_TABLE_op))
		return 0;
	if (ws_rows_load(report, &scan, &ops, err) < 0)
		return -1;
	learn_numbers(helpers, &numbered);
	for (size_t i = 0; i < ops.rows; i++) {
		uint32_t thread = (uint32_t)ops.col[ws_op_thread][i], asking;

		if (!is_numbered(&ops, i) || !is_backward(&ops, i))
			continue;
		asking = find_asking_thread(helpers, &numbered, i);
		if (asking == thread)
			asking = 0;
		add_entry(helpers, &helpers->numbered, thread,
			  (struct entry){.start = ops.col[ws_op_start][i], .helped = asking});
	}
	ws_rows_free(&ops);
	ws_map_free(&numbered.sequences);
	ws_map_free(&numbered.forwards);
	return 0;
}

/* ---- by sequence numbers in texts ---- */

/* What torch.autograd.profiler.emit_nvtx writes into the text of a range. */
struct sequence_text {
	bool backward;
	uint64_t number; /* WS_NO_U64 for none */
};

static struct sequence_text parse_sequence(const char *text)
{
	static const char mark[] = ", seq = ";
	const char *at = strstr(text, mark);
	struct sequence_text parsed = {.number = WS_NO_U64};
	char *end;

	if (!at || at[sizeof(mark) - 1] < '0' || at[sizeof(mark) - 1] > '9')
		return parsed;
	parsed.number = strtoull(at + sizeof(mark) - 1, &end, 10);
	parsed.backward = strstr(text, "Backward") || !strncmp(text, "autograd::", 10);
	return parsed;
}

/* Whether some of the first ranges have numbers. If none do, the other texts need not be looked
 * at. */
static bool has_sequence_texts(const struct ws_report *report)
{
	enum { LOOKED_AT = 4096 };
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_nvtx, 0, UINT64_MAX);
	const uint64_t *values;
	bool found = false;

	for (int i = 0; i < LOOKED_AT && !found && ws_cursor_next(cursor, &values); i++)
		found = parse_sequence(
				ws_report_string(report, (uint32_t)values[ws_nvtx_text], NULL))
				.number != WS_NO_U64;
	ws_cursor_close(cursor);
	return found;
}

static void add_text_entries(struct ws_helpers *helpers, const struct ws_report *report,
			     const struct ws_rows *rows)
{
	struct ws_map sequences = {0}; /* process and number -> thread of the forward operator */

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < rows->rows; i++) {
			uint32_t thread = (uint32_t)rows->col[ws_nvtx_thread][i], asking;
			struct sequence_text text = parse_sequence(ws_report_string(
				report, (uint32_t)rows->col[ws_nvtx_text][i], NULL));
			uint64_t key = make_number_key(helpers, thread, text.number);

			if (text.number == WS_NO_U64)
				continue;
			if (!pass && !text.backward)
				learn_thread(&sequences, key, thread);
			if (!pass || !text.backward)
				continue;
			asking = (uint32_t)ws_map_get(&sequences, key, NULL);
			if (asking == thread)
				asking = 0;
			add_entry(helpers, &helpers->numbered, thread,
				  (struct entry){.start = rows->col[ws_nvtx_start][i],
						 .helped = asking});
		}
	ws_map_free(&sequences);
}

/* The same from NVTX ranges, for reports without numbered operators. */
static int load_texts(struct ws_helpers *helpers, const struct ws_report *report,
		      struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, thread) |
			   WS_COLUMN_BIT(nvtx, text),
		.time_max = UINT64_MAX,
	};
	struct ws_rows rows;

	if (helpers->numbered.count || !has_sequence_texts(report))
		return 0;
	if (ws_rows_load(report, &scan, &rows, err) < 0)
		return -1;
	add_text_entries(helpers, report, &rows);
	ws_rows_free(&rows);
	return 0;
}

/* ---- by waits ---- */

/* Whether a call waits for the work of another thread, and not for a lock, a time or data. */
static bool waits_for_thread(const char *function)
{
	switch (ws_classify_osrt_call(function)) {
	case WS_WAIT_CONDITION:
	case WS_WAIT_SEMAPHORE:
	case WS_WAIT_FUTEX:
	case WS_WAIT_JOIN:
		return true;
	default:
		return false;
	}
}

static int load_waiting_calls(struct ws_helpers *helpers, const struct ws_report *report,
			      struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_osrt,
		.columns = WS_COLUMN_BIT(osrt, start) | WS_COLUMN_BIT(osrt, end) |
			   WS_COLUMN_BIT(osrt, thread) | WS_COLUMN_BIT(osrt, name),
		.time_max = UINT64_MAX,
	};
	struct ws_rows rows;
	struct ws_map waits = {0}; /* name -> 2 when such calls wait, 1 when not */

	if (ws_rows_load(report, &scan, &rows, err) < 0)
		return -1;
	for (size_t i = 0; i < rows.rows; i++) {
		uint32_t name = (uint32_t)rows.col[ws_osrt_name][i];
		uint64_t wait = ws_map_get(&waits, name, NULL);

		if (!wait) {
			wait = 1 + waits_for_thread(ws_report_string(report, name, NULL));
			ws_map_set(&waits, name, wait);
		}
		if (wait == 2)
			add_entry(helpers, &helpers->waits, (uint32_t)rows.col[ws_osrt_thread][i],
				  (struct entry){.start = rows.col[ws_osrt_start][i],
						 .end = rows.col[ws_osrt_end][i]});
	}
	ws_map_free(&waits);
	ws_rows_free(&rows);
	return 0;
}

/* Whether the thread was switched out because it waited. */
static bool is_waiting_after(uint64_t after)
{
	return after == WS_AFTER_SLEEPING || after == WS_AFTER_BLOCKED;
}

static int load_time_off_cores(struct ws_helpers *helpers, const struct ws_report *report,
			       struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_sched,
		.columns = WS_COLUMN_BIT(sched, start) | WS_COLUMN_BIT(sched, end) |
			   WS_COLUMN_BIT(sched, thread) | WS_COLUMN_BIT(sched, after),
		.time_max = UINT64_MAX,
	};
	struct ws_rows rows;

	if (ws_rows_load(report, &scan, &rows, err) < 0)
		return -1;
	for (size_t i = 0; i + 1 < rows.rows; i++)
		if (rows.col[ws_sched_thread][i] == rows.col[ws_sched_thread][i + 1] &&
		    rows.col[ws_sched_end][i] < rows.col[ws_sched_start][i + 1] &&
		    is_waiting_after(rows.col[ws_sched_after][i]))
			add_entry(helpers, &helpers->waits, (uint32_t)rows.col[ws_sched_thread][i],
				  (struct entry){.start = rows.col[ws_sched_end][i],
						 .end = rows.col[ws_sched_start][i + 1]});
	ws_rows_free(&rows);
	return 0;
}

/* Whether a thread is in one wait during the whole of another thread's piece of work. Few waits
 * nest. */
static bool waits_during(const struct ws_helpers *helpers, uint32_t thread,
			 const struct entry *piece)
{
	enum { MOST_NESTED = 8 };
	struct slice of = get_slice(&helpers->waits, thread);
	const struct entry *wait = find_entry(&helpers->waits, thread, piece->start + WAIT_SLACK);

	for (int i = 0; wait && i < MOST_NESTED; i++) {
		if (wait->start <= piece->end && wait->end >= piece->end)
			return true;
		if (wait == &helpers->waits.entries[of.first])
			return false;
		wait--;
	}
	return false;
}

/* The only thread that a piece of work may be for; 0 when none is, or several are. */
static uint32_t find_waiting_thread(const struct ws_helpers *helpers, uint32_t helper,
				    const struct entry *piece)
{
	uint32_t process = ws_find_thread(helpers->who, helper)->process, found = 0;

	for (size_t i = 0; i < helpers->ranges->count; i++) {
		uint32_t thread = helpers->ranges->threads[i];

		if (thread == helper || thread > helpers->threads ||
		    !get_slice(&helpers->waits, thread).count ||
		    ws_find_thread(helpers->who, thread)->process != process ||
		    !waits_during(helpers, thread, piece) ||
		    !helpers->ranges->has_range(helpers->ranges->context, thread, piece->start,
						piece->end))
			continue;
		if (found)
			return 0;
		found = thread;
	}
	return found;
}

/* Whether a thread itself waited between two of its calls. */
static bool waited_between(const struct ws_helpers *helpers, uint32_t thread, uint64_t from,
			   uint64_t to)
{
	const struct entry *wait = find_entry(&helpers->waits, thread, to);

	return wait && wait->start >= from && wait->end <= to;
}

static void end_piece(struct ws_helpers *helpers, uint32_t thread, struct entry *piece)
{
	if (!thread)
		return;
	piece->helped = find_waiting_thread(helpers, thread, piece);
	if (piece->helped)
		add_entry(helpers, &helpers->pieces, thread, *piece);
}

/* Cut the calls of each thread into the pieces between its waits. */
static void make_pieces(struct ws_helpers *helpers, const struct ws_rows *calls)
{
	struct entry piece = {0};
	uint32_t thread = 0;

	for (size_t i = 0; i < calls->rows; i++) {
		uint64_t start = calls->col[ws_cuda_api_start][i],
			 end = calls->col[ws_cuda_api_end][i];
		uint32_t on = (uint32_t)calls->col[ws_cuda_api_thread][i];

		if (on > helpers->threads) /* a damaged report */
			continue;
		if (end == WS_NO_TIME || end < start)
			end = start;
		if (on != thread || waited_between(helpers, thread, piece.end, start)) {
			end_piece(helpers, thread, &piece);
			piece = (struct entry){.start = start};
			thread = on;
		}
		piece.end = ws_max(piece.end, end);
	}
	end_piece(helpers, thread, &piece);
}

static int load_pieces(struct ws_helpers *helpers, const struct ws_report *report,
		       struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_api,
		.columns = WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
			   WS_COLUMN_BIT(cuda_api, thread),
		.time_max = UINT64_MAX,
	};
	struct ws_rows calls;
	int status;

	if (ws_report_count_rows(report, WS_TABLE_osrt))
		status = load_waiting_calls(helpers, report, err);
	else
		status = load_time_off_cores(helpers, report, err);
	if (status < 0 || !helpers->waits.count)
		return status;
	if (ws_rows_load(report, &scan, &calls, err) < 0)
		return -1;
	make_pieces(helpers, &calls);
	ws_rows_free(&calls);
	return 0;
}

/* ---- both ---- */

static void free_entries(struct entries *list)
{
	free(list->entries);
	free(list->of);
	*list = (struct entries){0};
}

struct ws_helpers *ws_helpers_open(const struct ws_report *report, const struct ws_names_by_id *who,
				   const struct ws_helper_ranges *ranges, struct ws_err *err)
{
	struct ws_helpers *helpers = ws_calloc(1, sizeof(*helpers));

	*helpers = (struct ws_helpers){
		.who = who, .threads = ws_highest_thread_id(who), .ranges = ranges};
	if (load_numbered(helpers, report, err) < 0 || load_texts(helpers, report, err) < 0 ||
	    load_pieces(helpers, report, err) < 0) {
		ws_helpers_close(helpers);
		return NULL;
	}
	free_entries(&helpers->waits);
	helpers->ranges = NULL;
	return helpers;
}

bool ws_is_helper(const struct ws_helpers *helpers, uint32_t thread)
{
	return thread <= helpers->threads && (get_slice(&helpers->numbered, thread).count ||
					      get_slice(&helpers->pieces, thread).count);
}

uint32_t ws_find_helped_thread(const struct ws_helpers *helpers, uint32_t thread, uint64_t start,
			       uint64_t end, enum ws_helper_rule *rule)
{
	const struct entry *entry;

	*rule = WS_HELPS_NOBODY;
	if (!ws_is_helper(helpers, thread))
		return 0;
	if (get_slice(&helpers->numbered, thread).count) {
		entry = find_entry(&helpers->numbered, thread, start);
		if (!entry)
			entry = &helpers->numbered
					 .entries[get_slice(&helpers->numbered, thread).first];
		*rule = WS_HELPS_BY_SEQUENCE;
		return entry->helped;
	}
	entry = find_entry(&helpers->pieces, thread, start);
	if (!entry || end > entry->end)
		return 0;
	*rule = WS_HELPS_BY_WAIT;
	return entry->helped;
}

void ws_helpers_close(struct ws_helpers *helpers)
{
	if (!helpers)
		return;
	free_entries(&helpers->numbered);
	free_entries(&helpers->pieces);
	free_entries(&helpers->waits);
	free(helpers);
}
