/*
 * stretches.c - see stretches.h.
 *
 * A piece of the path in which a thread ran is cut into calls of CUDA and the code between them, as
 * in the breakdown, so that the page agrees with the table.
 */
#include "analyze/stretches.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"

struct listing {
	const struct ws_model *model;
	struct ws_stretches *out;
	uint64_t least;
	uint64_t longest; /* of the pieces of the last stretch */
};

static bool is_same_row(const struct ws_stretch *left, const struct ws_stretch *right)
{
	if (left->on_gpu != right->on_gpu)
		return false;
	if (left->on_gpu)
		return left->gpu == right->gpu && left->stream == right->stream &&
		       left->process == right->process;
	return left->thread == right->thread;
}

static bool is_continued(const struct ws_stretch *last, const struct ws_stretch *next)
{
	return last->cause == next->cause && last->name == next->name && is_same_row(last, next);
}

static void add_stretch(struct listing *listing, struct ws_stretch stretch)
{
	struct ws_stretches *out = listing->out;
	struct ws_stretch *last = NULL;
	uint64_t length, start;

	stretch.start = ws_max(stretch.start, out->from);
	stretch.end = ws_min(stretch.end, out->to);
	if (stretch.end <= stretch.start)
		return;
	length = stretch.end - stretch.start;
	if (out->count)
		last = &out->stretches[out->count - 1];
	if (!last ||
	    (!is_continued(last, &stretch) && stretch.end - last->start > listing->least)) {
		ws_grow(out->stretches, out->cap, out->count + 1);
		stretch.pieces = 1;
		out->stretches[out->count++] = stretch;
		listing->longest = length;
		return;
	}
	start = last->start;
	stretch.pieces = last->pieces + 1;
	if (length > listing->longest && !is_continued(last, &stretch)) {
		*last = stretch;
		last->start = start;
	}
	last->end = stretch.end;
	last->pieces = stretch.pieces;
	listing->longest = ws_max(listing->longest, length);
}

static void add_span(struct listing *listing, const struct ws_stretch *base, uint64_t start,
		     uint64_t end)
{
	struct ws_stretch stretch = *base;

	stretch.start = start;
	stretch.end = end;
	add_stretch(listing, stretch);
}

/* Cuts a stretch on a core into calls of CUDA and the code between them. */
static void split_run(struct listing *listing, const struct ws_piece *piece, struct ws_stretch base)
{
	const struct ws_model *model = listing->model;
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];
	size_t call = model->threads[piece->thread].first_call,
	       last = model->threads[piece->thread].end_call;
	uint64_t at = ws_max(piece->start, listing->out->from),
		 until = ws_min(piece->end, listing->out->to);
	uint32_t around = ws_model_find_call(model, piece->thread, at + 1);

	if (around != WS_NO_CALL)
		call = around;
	else
		call += ws_lower_bound(start + call, last - call, at);
	for (; call < last && start[call] < until; call++) {
		uint64_t from = ws_max(start[call], at), to = ws_min(end[call], until);

		if (end[call] == WS_NO_TIME || to <= from)
			continue;
		base.cause = WS_CAUSE_CPU;
		base.name = 0;
		add_span(listing, &base, at, from);
		base.cause = WS_CAUSE_CUDA_CALL;
		base.name = (uint32_t)model->calls.rows.col[ws_cuda_api_name][call];
		add_span(listing, &base, from, to);
		at = to;
	}
	base.cause = WS_CAUSE_CPU;
	base.name = 0;
	add_span(listing, &base, at, until);
}

static void add_piece(struct listing *listing, const struct ws_piece *piece)
{
	const struct ws_model *model = listing->model;
	struct ws_stretch stretch = {.start = piece->start,
				     .end = piece->end,
				     .cause = ws_classify_piece(model, piece),
				     .thread = piece->thread,
				     .name = piece->function};

	if (piece->thread)
		stretch.process = ws_find_thread(model->who, piece->thread)->process;
	if (piece->kind == WS_PIECE_GPU || piece->kind == WS_PIECE_LAUNCH ||
	    piece->kind == WS_PIECE_DELAY) {
		const struct ws_work_op *op = &model->work.gpu[piece->gpu].op[piece->op];

		stretch.on_gpu = true;
		stretch.gpu = piece->gpu;
		stretch.process = op->process;
		stretch.stream = op->stream;
		stretch.name = op->name;
	} else if (piece->kind == WS_PIECE_RUN && piece->wait != WS_WAIT_GPU &&
		   piece->thread < model->thread_count) {
		split_run(listing, piece, stretch);
		return;
	} else if (piece->call != WS_NO_CALL) {
		stretch.name = (uint32_t)model->calls.rows.col[ws_cuda_api_name][piece->call];
	}
	add_stretch(listing, stretch);
}

void ws_stretches_list(const struct ws_analysis *analysis, uint64_t from, uint64_t to,
		       uint64_t least_ns, struct ws_stretches *stretches)
{
	const struct ws_path *path = &analysis->path;
	struct listing listing = {.model = analysis->model, .out = stretches, .least = least_ns};

	memset(stretches, 0, sizeof(*stretches));
	stretches->from = ws_max(from, analysis->model->from);
	stretches->to = ws_max(ws_min(to, analysis->model->to), stretches->from);
	for (size_t i = ws_path_find(path, stretches->from);
	     i < path->count && path->pieces[i].start < stretches->to; i++)
		add_piece(&listing, &path->pieces[i]);
}

void ws_stretches_free(struct ws_stretches *stretches)
{
	free(stretches->stretches);
	memset(stretches, 0, sizeof(*stretches));
}
