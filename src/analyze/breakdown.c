/*
 * breakdown.c - see breakdown.h.
 *
 * The time that a thread ran on the path is divided by its samples within these pieces: there are
 * too few samples for single pieces, but enough for all of them together. Where there are none, the
 * row has no place.
 */
#include "analyze/breakdown.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/slots.h"
#include "base/sort.h"

static const char *const cause_names[WS_CAUSES] = {
	[WS_CAUSE_CPU] = "code on a core",
	[WS_CAUSE_CUDA_CALL] = "calls of CUDA on a core",
	[WS_CAUSE_CORE] = "waiting for a core",
	[WS_CAUSE_LOCK] = "waiting for a lock or another thread",
	[WS_CAUSE_GIL] = "waiting for Python's GIL",
	[WS_CAUSE_IO] = "waiting for files or the network",
	[WS_CAUSE_POLL] = "waiting for any of several descriptors",
	[WS_CAUSE_SLEEP] = "sleeping",
	[WS_CAUSE_CHILD] = "waiting for a child process",
	[WS_CAUSE_FAULT] = "page faults and the kernel",
	[WS_CAUSE_OTHER_WAIT] = "other waits",
	[WS_CAUSE_GPU_COMPUTE] = "computation on the GPU",
	[WS_CAUSE_GPU_COMM] = "communication on the GPU",
	[WS_CAUSE_GPU_COPY] = "copies on the GPU",
	[WS_CAUSE_LAUNCH] = "launch latency",
	[WS_CAUSE_GPU_DELAY] = "between pieces of GPU work",
	[WS_CAUSE_UNKNOWN] = "not recorded",
};

const char *ws_name_cause(enum ws_cause cause)
{
	return cause_names[cause];
}

static enum ws_cause classify_wait(uint8_t wait)
{
	switch (wait) {
	case WS_WAIT_LOCK:
	case WS_WAIT_CONDITION:
	case WS_WAIT_SEMAPHORE:
	case WS_WAIT_BARRIER:
	case WS_WAIT_JOIN:
	case WS_WAIT_FUTEX:
		return WS_CAUSE_LOCK;
	case WS_WAIT_GIL:
		return WS_CAUSE_GIL;
	case WS_WAIT_CHILD:
		return WS_CAUSE_CHILD;
	case WS_WAIT_IO:
		return WS_CAUSE_IO;
	case WS_WAIT_POLL:
		return WS_CAUSE_POLL;
	case WS_WAIT_SLEEP:
		return WS_CAUSE_SLEEP;
	case WS_WAIT_FAULT:
		return WS_CAUSE_FAULT;
	case WS_WAIT_GPU:
	case WS_WAIT_CUDA:
		return WS_CAUSE_CUDA_CALL;
	default:
		return WS_CAUSE_OTHER_WAIT;
	}
}

enum ws_cause ws_classify_piece(const struct ws_model *model, const struct ws_piece *piece)
{
	static const enum ws_cause gpu_causes[] = {[WS_WORK_COMPUTE] = WS_CAUSE_GPU_COMPUTE,
						   [WS_WORK_COMM] = WS_CAUSE_GPU_COMM,
						   [WS_WORK_MEMORY] = WS_CAUSE_GPU_COPY};

	switch (piece->kind) {
	case WS_PIECE_RUN:
		if (piece->call != WS_NO_CALL)
			return WS_CAUSE_CUDA_CALL;
		return WS_CAUSE_CPU;
	case WS_PIECE_RUNNABLE:
		return WS_CAUSE_CORE;
	case WS_PIECE_WAIT:
		return classify_wait(piece->wait);
	case WS_PIECE_GPU:
		return gpu_causes[model->work.gpu[piece->gpu].op[piece->op].class];
	case WS_PIECE_LAUNCH:
		return WS_CAUSE_LAUNCH;
	case WS_PIECE_DELAY:
		return WS_CAUSE_GPU_DELAY;
	default:
		return WS_CAUSE_UNKNOWN;
	}
}

/* ---- summing up ---- */

struct known_wait {
	uint32_t thread, function;
	struct ws_code_place place;
};

struct place_weight {
	struct ws_code_place place;
	uint64_t weight;
};

struct summing {
	const struct ws_model *model;
	struct ws_breakdown *breakdown;
	struct ws_map index;	  /* hash of a row's identity: row + 1 */
	struct known_wait *known; /* by thread and call: where it waits */
	size_t known_count, known_cap;
	struct thread_time {
		uint64_t ns, pieces;
		struct ws_span longest;
		size_t sample; /* the first after the runs so far */
		struct place_weight *places;
		size_t place_count, place_cap;
		struct ws_map index; /* hash of a place: place + 1 */
	} * threads;		     /* by thread: time on cores on the path, outside of CUDA */
};

static bool is_same_row(const struct ws_breakdown_row *left, const struct ws_breakdown_row *right)
{
	return left->cause == right->cause && left->thread == right->thread &&
	       left->name == right->name && left->path == right->path &&
	       left->place.function == right->place.function &&
	       left->place.leaf == right->place.leaf && left->place.file == right->place.file &&
	       left->place.line == right->place.line && left->place.work == right->place.work;
}

static uint64_t hash_row(const struct ws_breakdown_row *row)
{
	const uint64_t words[] = {row->cause,	   row->thread,		row->name,
				  row->path,	   row->place.function, row->place.leaf,
				  row->place.file, row->place.line,	row->place.work};
	uint64_t hash = 0;

	for (size_t i = 0; i < WS_COUNT(words); i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
	return hash;
}

/* The number of a row, which is added where it is new. */
static size_t find_row(struct summing *summing, const struct ws_breakdown_row *row)
{
	struct ws_breakdown *breakdown = summing->breakdown;
	uint64_t hash = hash_row(row), at;

	while ((at = ws_map_get(&summing->index, hash, NULL)) &&
	       !is_same_row(&breakdown->rows[at - 1], row))
		hash++;
	if (!at) {
		ws_grow(breakdown->rows, breakdown->cap, breakdown->count + 1);
		breakdown->rows[breakdown->count] = *row;
		at = ++breakdown->count;
		ws_map_set(&summing->index, hash, at);
	}
	return at - 1;
}

static void add_to_found(struct summing *summing, size_t number, uint64_t ns, struct ws_span span)
{
	struct ws_breakdown_row *to = &summing->breakdown->rows[number];

	to->ns += ns;
	to->pieces++;
	if (span.end - span.start > to->longest.end - to->longest.start)
		to->longest = span;
	summing->breakdown->by_cause[to->cause] += ns;
	summing->breakdown->total += ns;
}

static void add_to_row(struct summing *summing, const struct ws_breakdown_row *row, uint64_t ns,
		       struct ws_span span)
{
	add_to_found(summing, find_row(summing, row), ns, span);
}

/* Divides a stretch of a thread without samples among its scopes; returns the length of the part
 * before the first scope. */
static struct ws_span share_among_scopes(struct summing *summing, uint32_t thread,
					 struct ws_span span)
{
	const struct ws_scopes *scopes = &summing->model->scopes;
	struct ws_breakdown_row row = {.cause = WS_CAUSE_CPU, .thread = thread};
	size_t at = scopes->count ? ws_scopes_find(scopes, thread, span.end) : SIZE_MAX;

	for (; at != SIZE_MAX && span.end > span.start; at--) {
		const struct ws_scope_change *change = &scopes->changes[at];
		uint64_t from = ws_max(change->at, span.start);

		if (change->thread != thread)
			break;
		row.name = change->name;
		if (span.end > from)
			add_to_row(summing, &row, span.end - from,
				   (struct ws_span){from, span.end});
		span.end = ws_min(span.end, from);
		if (!at)
			break;
	}
	return span;
}

static void add_run(struct summing *summing, uint32_t thread, struct ws_span span)
{
	struct thread_time *time = &summing->threads[thread];

	if (span.end > span.start + WS_APART_NS)
		summing->breakdown->apart += span.end - span.start;
	span = share_among_scopes(summing, thread, span);
	if (span.end <= span.start)
		return;
	time->ns += span.end - span.start;
	time->pieces++;
	if (span.end - span.start > time->longest.end - time->longest.start)
		time->longest = span;
}

static void add_call(struct summing *summing, uint32_t thread, size_t call, struct ws_span span)
{
	struct ws_breakdown_row row = {
		.cause = WS_CAUSE_CUDA_CALL,
		.thread = thread,
		.name = (uint32_t)summing->model->calls.rows.col[ws_cuda_api_name][call]};

	if (span.end > span.start)
		add_to_row(summing, &row, span.end - span.start, span);
}

/* Cuts a stretch on a core into calls of CUDA and the code between them. */
static void split_run(struct summing *summing, uint32_t thread, struct ws_span span)
{
	const struct ws_model *model = summing->model;
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];
	size_t call = model->threads[thread].first_call, last = model->threads[thread].end_call;
	uint32_t around = ws_model_find_call(model, thread, span.start + 1);

	if (around != WS_NO_CALL)
		call = around;
	else
		call += ws_lower_bound(start + call, last - call, span.start);
	for (; call < last && start[call] < span.end; call++) {
		uint64_t from = ws_max(start[call], span.start), to = ws_min(end[call], span.end);

		if (end[call] == WS_NO_TIME || to <= from)
			continue;
		add_run(summing, thread, (struct ws_span){span.start, from});
		add_call(summing, thread, call, (struct ws_span){from, to});
		span.start = to;
	}
	add_run(summing, thread, span);
}

/*
 * Most short waits are recorded without their stack. Where the thread was sampled shortly before or
 * after one, it waits in the same function or one nearby; the line is not known.
 */
static struct ws_code_place guess_place(const struct ws_model *model, const struct ws_piece *piece)
{
	const uint64_t near = 10000000;
	const uint64_t *start = model->samples.start;
	struct ws_code_place place = {0};
	size_t first, count, at;

	if (piece->thread >= model->thread_count)
		return place;
	first = model->threads[piece->thread].first_sample;
	count = model->threads[piece->thread].end_sample - first;
	if (!count)
		return place;
	at = ws_lower_bound(start + first, count, piece->start);
	if (at && start[first + at - 1] + near >= piece->start)
		at--;
	else if (at == count || start[first + at] > piece->end + near)
		return place;
	place = ws_code_find_place(model, model->samples.frame[first + at],
				   model->samples.callers[first + at]);
	if (!place.users)
		return (struct ws_code_place){.loader = place.loader};
	place.leaf = place.function;
	place.line = 0;
	return place;
}

/* Where the same call of the same thread waited elsewhere, as far as that was recorded: a call
 * mostly waits at one place. */
static struct ws_code_place find_wait_place(const struct summing *summing,
					    const struct ws_piece *piece)
{
	for (size_t i = 0; i < summing->known_count; i++)
		if (summing->known[i].thread == piece->thread &&
		    summing->known[i].function == piece->function)
			return summing->known[i].place;
	return guess_place(summing->model, piece);
}

static void note_known_wait(struct summing *summing, const struct ws_piece *piece)
{
	enum { MOST_KNOWN = 1024 };

	if (piece->kind != WS_PIECE_WAIT || !piece->callchain || piece->callchain == WS_NO_U32 ||
	    !piece->function || summing->known_count == MOST_KNOWN)
		return;
	for (size_t i = 0; i < summing->known_count; i++)
		if (summing->known[i].thread == piece->thread &&
		    summing->known[i].function == piece->function)
			return;
	ws_grow(summing->known, summing->known_cap, summing->known_count + 1);
	summing->known[summing->known_count++] =
		(struct known_wait){piece->thread, piece->function,
				    ws_code_find_place(summing->model, 0, piece->callchain)};
}

static void add_piece(struct summing *summing, const struct ws_piece *piece)
{
	const struct ws_model *model = summing->model;
	struct ws_breakdown_row row = {.cause = (uint8_t)ws_classify_piece(model, piece),
				       .thread = piece->thread};
	uint64_t ns = piece->end - piece->start;
	struct ws_span span = {piece->start, piece->end};

	if (piece->kind == WS_PIECE_RUN && piece->wait != WS_WAIT_GPU &&
	    piece->thread < model->thread_count) {
		split_run(summing, piece->thread, span);
		return;
	}
	if (piece->kind == WS_PIECE_GPU) {
		row.name = model->work.gpu[piece->gpu].op[piece->op].name;
	} else if (piece->call != WS_NO_CALL) {
		row.name = (uint32_t)model->calls.rows.col[ws_cuda_api_name][piece->call];
	} else {
		row.name = piece->function;
		row.path = piece->path;
	}
	if (piece->callchain && piece->callchain != WS_NO_U32)
		row.place = ws_code_find_place(model, 0, piece->callchain);
	else if (piece->kind == WS_PIECE_WAIT)
		row.place = find_wait_place(summing, piece);
	add_to_row(summing, &row, ns, span);
}

/* ---- dividing the time on cores ---- */

static uint64_t hash_place(const struct ws_code_place *place)
{
	uint64_t hash = ws_hash_word(0, (uint64_t)place->function << 32 | place->leaf);

	hash = ws_hash_word(hash, (uint64_t)place->file << 32 | place->line);
	return ws_hash_word(hash, (uint64_t)place->loader << 16 | (uint64_t)place->library << 8 |
					  place->work);
}

static void add_weight(struct thread_time *time, const struct ws_code_place *place, uint64_t weight)
{
	uint64_t hash = hash_place(place), at;

	while ((at = ws_map_get(&time->index, hash, NULL)) &&
	       !ws_code_is_same_place(&time->places[at - 1].place, place))
		hash++;
	if (!at) {
		ws_grow(time->places, time->place_cap, time->place_count + 1);
		time->places[time->place_count] = (struct place_weight){.place = *place};
		at = ++time->place_count;
		ws_map_set(&time->index, hash, at);
	}
	time->places[at - 1].weight += weight;
}

/* A run that leads to a launch is one like any other; calls of CUDA in it are counted apart. */
static void add_samples_of_run(struct summing *summing, const struct ws_piece *piece)
{
	const struct ws_model *model = summing->model;
	const struct ws_samples *samples = &model->samples;
	struct thread_time *time = &summing->threads[piece->thread];
	size_t end = model->threads[piece->thread].end_sample;

	time->sample = ws_find_ahead(samples->start, time->sample, end, piece->start);
	for (; time->sample < end && samples->start[time->sample] < piece->end; time->sample++) {
		size_t i = time->sample;
		struct ws_code_place place;

		if (!samples->frame[i] ||
		    ws_model_find_call(model, piece->thread, samples->start[i]) != WS_NO_CALL)
			continue;
		place = ws_code_find_place(model, samples->frame[i], samples->callers[i]);
		add_weight(time, &place, ws_max(ws_samples_get_time(samples, i), (uint64_t)1));
	}
}

/* Finds where threads with time on cores were sampled on the path. */
static void gather_places(struct summing *summing, const struct ws_path *path)
{
	const struct ws_model *model = summing->model;

	for (uint32_t id = 0; id < model->thread_count; id++)
		summing->threads[id].sample = model->threads[id].first_sample;
	for (size_t i = 0; i < path->count && model->has_samples; i++) {
		const struct ws_piece *piece = &path->pieces[i];

		if (piece->kind == WS_PIECE_RUN && piece->wait != WS_WAIT_GPU &&
		    piece->thread < model->thread_count && summing->threads[piece->thread].ns)
			add_samples_of_run(summing, piece);
	}
}

static void share_out_thread(struct summing *summing, uint32_t thread)
{
	const struct thread_time *time = &summing->threads[thread];
	struct ws_breakdown_row row = {.cause = WS_CAUSE_CPU, .thread = thread};
	uint64_t weight_left = 0, left = time->ns;

	for (size_t i = 0; i < time->place_count; i++)
		weight_left += time->places[i].weight;
	for (size_t i = 0; i < time->place_count; i++) {
		uint64_t weight = time->places[i].weight,
			 ns = (uint64_t)((unsigned __int128)left * weight / weight_left);

		row.place = time->places[i].place;
		add_to_row(summing, &row, ns, time->longest);
		left -= ns;
		weight_left -= weight;
	}
	memset(&row.place, 0, sizeof(row.place));
	if (left)
		add_to_row(summing, &row, left, time->longest);
}

static int compare_rows(const void *first, const void *second)
{
	const struct ws_breakdown_row *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->longest.start, right->longest.start);
}

/* Adds the delays from number `at` on that begin before `until`; returns the next. */
static size_t add_delays(struct summing *summing, const struct ws_delays *delays, size_t at,
			 uint64_t until)
{
	const struct ws_breakdown_row row = {.cause = WS_CAUSE_GPU_DELAY};
	size_t number = SIZE_MAX;

	for (; delays && at < delays->count; at++) {
		const struct ws_delay *delay = &delays->list[at];
		uint64_t end = delays->ops[delay->op].start;

		if (end - delay->ns >= until)
			break;
		if (number == SIZE_MAX)
			number = find_row(summing, &row);
		add_to_found(summing, number, delay->ns, (struct ws_span){end - delay->ns, end});
	}
	return at;
}

void ws_breakdown_sum(const struct ws_model *model, const struct ws_path *path,
		      const struct ws_delays *delays, struct ws_breakdown *breakdown)
{
	struct summing summing = {.model = model, .breakdown = breakdown};
	size_t delay = 0;

	memset(breakdown, 0, sizeof(*breakdown));
	summing.threads = ws_calloc(model->thread_count, sizeof(*summing.threads));
	for (size_t i = 0; i < path->count; i++)
		note_known_wait(&summing, &path->pieces[i]);
	for (size_t i = 0; i < path->count; i++) {
		delay = add_delays(&summing, delays, delay, path->pieces[i].start);
		add_piece(&summing, &path->pieces[i]);
	}
	add_delays(&summing, delays, delay, UINT64_MAX);
	gather_places(&summing, path);
	for (uint32_t id = 0; id < model->thread_count; id++) {
		if (summing.threads[id].ns)
			share_out_thread(&summing, id);
		free(summing.threads[id].places);
		ws_map_free(&summing.threads[id].index);
	}
	if (breakdown->count)
		qsort(breakdown->rows, breakdown->count, sizeof(*breakdown->rows), compare_rows);
	ws_map_free(&summing.index);
	free(summing.threads);
	free(summing.known);
}

void ws_breakdown_free(struct ws_breakdown *breakdown)
{
	free(breakdown->rows);
	memset(breakdown, 0, sizeof(*breakdown));
}

/* Whether the function that the user's code called is the one that waits. */
static bool is_leaf_named(const struct ws_model *model, const struct ws_breakdown_row *row)
{
	return row->name && !strcmp(ws_report_string(model->report, row->name, NULL),
				    ws_stacks_get_function(model->stacks, row->place.leaf)->name);
}

void ws_breakdown_put_row(const struct ws_model *model, const struct ws_breakdown_row *row,
			  struct ws_text *text)
{
	struct ws_code_place place = row->place;
	const char *separator = "";

	if (row->name) {
		ws_text_puts(text, ws_report_string(model->report, row->name, NULL));
		separator = " ";
	}
	if (row->path) {
		ws_text_printf(text, "%s%s", separator,
			       ws_report_string(model->report, row->path, NULL));
		separator = " ";
	}
	if (row->place.leaf) {
		ws_text_printf(text, "%s%s", separator, *separator ? "from " : "");
		if (is_leaf_named(model, row))
			place.leaf = place.function;
		ws_code_put_place(model, &place, text);
	}
	if (row->thread) {
		const struct ws_thread_info *info = ws_find_thread(model->who, row->thread);

		ws_text_printf(text, " [%s %u]", *info->name ? info->name : info->process_name,
			       info->tid);
	}
}
