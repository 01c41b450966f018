/*
 * path.c - see path.h.
 *
 * A walk is at a thread or at a piece of GPU work, and at a time. Each step of it either makes a
 * piece, which ends at that time and begins earlier, or jumps to another place at the same time.
 * Jumps without a piece between them are counted: where threads wake each other in a circle, the
 * walk continues with an unknown piece.
 *
 * A waker may itself have waited for a timer: a library's helper that does something every few
 * milliseconds and holds a lock meanwhile. The timer does not explain what the woken thread did
 * before its wait, so there the walk returns to that thread.
 */
#include "analyze/path.h"
#include "analyze/java.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"

enum { MOST_JUMPS = 16, MOST_ORIGINS = 8, BLOCKED_LAUNCH_NS = 100000 };
/* From the end of a thread to that of the wait for it; a process gives its memory back in between,
 * a millisecond for some megabytes. */
enum { WAKING_NS = 1000000, LEAVING_NS = 100000000 };
enum { MOST_BLIND = 100000, MOST_OTHERS = 256, LOOK_PIECES = 65536 };

struct walk {
	const struct ws_model *model;
	struct ws_path *path;
	struct ws_path_end place;
	uint64_t from, at;
	unsigned jumps;
	struct origin { /* threads that the walk left for their wakers, the latest last */
		uint32_t thread;
		uint64_t since; /* when its wait began */
	} origins[MOST_ORIGINS];
	unsigned origin_count;
};

/* ---- pieces ---- */

/* The walk goes back to `start`, or to its end if that comes first. */
static void add_piece(struct walk *walk, struct ws_piece piece, uint64_t start)
{
	struct ws_path *path = walk->path;

	piece.start = ws_max(start, walk->from);
	piece.end = walk->at;
	if (piece.start >= piece.end)
		return;
	ws_grow(path->pieces, path->cap, path->count + 1);
	path->pieces[path->count++] = piece;
	walk->at = piece.start;
	walk->jumps = 0;
}

static struct ws_piece make_thread_piece(const struct walk *walk, enum ws_piece_kind kind)
{
	return (struct ws_piece){.kind = (uint8_t)kind,
				 .thread = walk->place.thread,
				 .gpu = WS_NO_OP,
				 .op = WS_NO_OP,
				 .call = WS_NO_CALL};
}

static void go_to_thread(struct walk *walk, uint32_t thread)
{
	walk->place = (struct ws_path_end){.thread = thread, .gpu = WS_NO_OP, .op = WS_NO_OP};
	walk->jumps++;
}

static void go_to_op(struct walk *walk, uint32_t gpu, uint32_t op)
{
	walk->place = (struct ws_path_end){.gpu = gpu, .op = op};
	walk->jumps++;
	walk->origin_count = 0;
}

static void remember_origin(struct walk *walk, uint64_t since)
{
	if (walk->origin_count == MOST_ORIGINS) {
		memmove(walk->origins, walk->origins + 1,
			(MOST_ORIGINS - 1) * sizeof(*walk->origins));
		walk->origin_count--;
	}
	walk->origins[walk->origin_count++] = (struct origin){walk->place.thread, since};
}

/* ---- what ended a wait ---- */

static bool is_ended(const struct ws_work_gpu *gpu, const uint32_t *by_end, size_t place,
		     uint64_t until)
{
	return gpu->op[by_end[place]].end <= until;
}

/* How much of a GPU's work has ended by `until`. Work ends nearly in the order in which it begins,
 * so that the answer is searched for around a guess. */
static size_t count_ended(const struct ws_work_gpu *gpu, const uint32_t *by_end, uint64_t until,
			  size_t guess)
{
	size_t low = ws_min(guess, gpu->count), high = low, reach = 1;

	while (low > 0 && !is_ended(gpu, by_end, low - 1, until)) {
		high = low - 1;
		low -= ws_min(reach, low);
		reach *= 2;
	}
	for (reach = 1; high < gpu->count && is_ended(gpu, by_end, high, until); reach *= 2) {
		low = high + 1;
		high += ws_min(reach, gpu->count - high);
	}
	return ws_find_first_not(low, high, middle, is_ended(gpu, by_end, middle, until));
}

/* As ws_path_find_last_op, with the number of a piece of work near it on any GPU. */
static bool find_last_op(const struct ws_model *model, uint32_t process, uint64_t since,
			 uint64_t until, size_t guess, struct ws_path_end *found)
{
	uint64_t latest = since;
	bool any = false;

	for (size_t i = 0; i < model->work.gpus; i++) {
		const struct ws_work_gpu *gpu = &model->work.gpu[i];
		const uint32_t *by_end = model->gpus[i].by_end;
		size_t low = count_ended(gpu, by_end, until, guess);

		for (size_t tries = 0;
		     low > 0 && tries < MOST_OTHERS && gpu->op[by_end[low - 1]].end > latest;
		     tries++) {
			const struct ws_work_op *op = &gpu->op[by_end[--low]];

			if (op->process != process)
				continue;
			latest = op->end;
			*found = (struct ws_path_end){.gpu = (uint32_t)i, .op = by_end[low]};
			any = true;
			break;
		}
	}
	return any;
}

bool ws_path_find_last_op(const struct ws_model *model, uint32_t process, uint64_t since,
			  uint64_t until, struct ws_path_end *found)
{
	size_t count = 0;

	for (size_t i = 0; i < model->work.gpus; i++)
		count = ws_max(count, model->work.gpu[i].count);
	return find_last_op(model, process, since, until, count / 2, found);
}

/* The work that a thread waited for from `since` to `until`. Work that is still running then counts
 * too: a call may return a moment before the end that the GPU reports. */
static bool find_awaited_op(const struct walk *walk, uint64_t since, uint64_t until,
			    struct ws_path_end *found)
{
	const uint64_t slack = 2000;
	uint32_t process = ws_find_thread(walk->model->who, walk->place.thread)->process;

	return ws_path_find_last_op(walk->model, process, since, until + slack, found);
}

static bool has_run_before(const struct ws_model *model, uint32_t thread, uint64_t at,
			   uint64_t slack)
{
	const struct ws_model_state *state = ws_model_find_state(model, thread, at);

	return state && state->end + slack >= at;
}

/* Whether a process was started by another; what it was before it called exec is its parent here.
 */
static bool is_child(const struct ws_model *model, uint32_t id, uint32_t process)
{
	const struct ws_process_info *info = ws_find_process(model->who, id);

	return ws_find_first_image(model->who, info)->parent == process;
}

/* The thread that ended closest to `at`: for a join of the same process, for a wait for a child of
 * another, of a child of its own if there is one. 0 for none. Others may end just after the one
 * that was waited for. */
static uint32_t find_ended_thread(const struct ws_model *model, uint32_t waiting, uint64_t at,
				  bool child)
{
	uint32_t process = ws_find_thread(model->who, waiting)->process;
	uint64_t before = child ? LEAVING_NS : WAKING_NS;
	size_t i = ws_bisect(model->ended_count, k, model->ended[k].at <= at + WAKING_NS);
	uint64_t nearest = UINT64_MAX;
	uint32_t found = 0;

	while (i-- > 0 && model->ended[i].at + before >= at) {
		uint64_t ended = model->ended[i].at, apart = ws_max(ended, at) - ws_min(ended, at);
		uint32_t id = model->ended[i].thread,
			 other = ws_find_thread(model->who, id)->process;

		if (id == waiting || (other != process) != child)
			continue;
		if (child && !is_child(model, other, process)) {
			if (apart > WAKING_NS)
				continue;
			apart += 2 * before;
		}
		if (apart < nearest) {
			nearest = apart;
			found = id;
		}
	}
	return found;
}

uint32_t ws_path_find_waker(const struct ws_model *model, uint32_t thread,
			    const struct ws_model_state *state, uint64_t at)
{
	uint32_t waker = state->waker;
	uint64_t slack = state->wait == WS_WAIT_CHILD ? LEAVING_NS : WAKING_NS;

	if (!waker && (state->wait == WS_WAIT_LOCK || state->wait == WS_WAIT_GIL))
		waker = ws_model_find_thread(model, thread,
					     ws_model_get_call(model, state)->holder);
	else if (!waker && (state->wait == WS_WAIT_JOIN || state->wait == WS_WAIT_CHILD))
		waker = find_ended_thread(model, thread, at, state->wait == WS_WAIT_CHILD);
	if (waker == thread || !has_run_before(model, waker, at, slack))
		return 0;
	return waker;
}

/* ---- steps of the walk ---- */

static bool is_blocked_launch(const struct ws_model *model, uint32_t call, uint64_t at)
{
	const char *name;

	if (call == WS_NO_CALL ||
	    at - model->calls.rows.col[ws_cuda_api_start][call] < BLOCKED_LAUNCH_NS)
		return false;
	name = ws_report_string(model->report,
				(uint32_t)model->calls.rows.col[ws_cuda_api_name][call], NULL);
	return strstr(name, "Launch") || strstr(name, "Async");
}

/* From a thread in a call that waits for a GPU to the work that it waited for. False when there was
 * none. */
static bool leave_for_gpu(struct walk *walk, const struct ws_model_state *state, uint32_t call)
{
	uint64_t since = state->start;
	struct ws_path_end op;
	struct ws_piece piece = make_thread_piece(walk, WS_PIECE_RUN);
	uint64_t end;

	/* The thread may have computed on the same core for long before the call. */
	if (call != WS_NO_CALL)
		since = walk->model->calls.rows.col[ws_cuda_api_start][call];
	if (!find_awaited_op(walk, since, walk->at, &op))
		return false;
	end = walk->model->work.gpu[op.gpu].op[op.op].end;
	piece.call = call;
	piece.wait = WS_WAIT_GPU;
	add_piece(walk, piece, end); /* from the end of the work to the return of the call */
	go_to_op(walk, op.gpu, op.op);
	return true;
}

static uint32_t find_main_thread(const struct ws_model *model, uint32_t process)
{
	if (!process)
		return 0;
	return (uint32_t)ws_map_get(
		&model->by_tid, (uint64_t)process << 32 | ws_find_process(model->who, process)->pid,
		NULL);
}

uint32_t ws_path_find_starter(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const struct ws_thread_info *info = ws_find_thread(model->who, thread);
	uint32_t process = info->process, parent;

	if (info->tid == info->pid)
		process = ws_find_process(model->who, process)->parent;
	parent = find_main_thread(model, process);
	if (parent == thread || !has_run_before(model, parent, at, WAKING_NS))
		return 0;
	return parent;
}

static bool is_at_work(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const struct ws_model_state *state = ws_model_find_state(model, thread, at);

	return state && state->end >= at && state->doing != WS_DOING_WAIT && !state->lost;
}

static bool is_waiting(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const struct ws_model_state *state = ws_model_find_state(model, thread, at);

	return state && state->doing == WS_DOING_WAIT;
}

/* Before a thread began: who waits starts no threads. One that waits for it later may have. */
static bool leave_for_asker(struct walk *walk, uint32_t parent)
{
	struct ws_piece piece = make_thread_piece(walk, WS_PIECE_UNKNOWN);

	if (!is_waiting(walk->model, parent, walk->at))
		return false;
	for (unsigned i = walk->origin_count; i-- > 0;) {
		struct origin origin = walk->origins[i];

		if (origin.since >= walk->at || origin.thread == parent)
			continue;
		walk->origin_count = i;
		add_piece(walk, piece, origin.since);
		go_to_thread(walk, origin.thread);
		return true;
	}
	return false;
}

static void leave_for_parent(struct walk *walk)
{
	uint32_t parent = ws_path_find_starter(walk->model, walk->place.thread, walk->at);

	if (parent && walk->jumps < MOST_JUMPS) {
		if (!leave_for_asker(walk, parent))
			go_to_thread(walk, parent);
		return;
	}
	add_piece(walk, make_thread_piece(walk, WS_PIECE_UNKNOWN), walk->from);
}

/*
 * A wait that nothing ended began at `start`, before a thread that the walk left had to wait. The
 * wait is on the path only from that moment. Of several such threads, the first that was left
 * counts. Where the walk has already passed that moment, it is at an earlier time of that thread:
 * if it waits there too, as a thread that joins others in turn, that explains nothing.
 */
static bool return_to_origin(struct walk *walk, const struct ws_piece *piece, uint64_t start)
{
	for (unsigned i = 0; i < walk->origin_count && walk->jumps < MOST_JUMPS; i++) {
		struct origin origin = walk->origins[i];

		if (start >= origin.since ||
		    (origin.since >= walk->at && !is_at_work(walk->model, origin.thread, walk->at)))
			continue;
		walk->origin_count = i;
		add_piece(walk, *piece, origin.since);
		go_to_thread(walk, origin.thread);
		return true;
	}
	return false;
}

/* From a wait to the thread that ended it. From the last time that a child ran to the end of the
 * wait for it, it only gave its memory back: where the wait began later, the path does not go
 * through it. */
static void leave_for_waker(struct walk *walk, const struct ws_model_state *state, uint32_t waker,
			    struct ws_piece piece)
{
	if (state->wait == WS_WAIT_CHILD &&
	    !has_run_before(walk->model, waker, walk->at, WAKING_NS)) {
		uint64_t last = ws_model_find_state(walk->model, waker, walk->at)->end;

		add_piece(walk, piece, ws_max(last, state->start));
		if (last <= state->start)
			return;
	}
	remember_origin(walk, state->start);
	go_to_thread(walk, waker);
}

/* From a thread of Java's machine that waited for something to do: what the program did meanwhile
 * its main() knows. */
static bool leave_java_helper(struct walk *walk)
{
	const struct ws_model *model = walk->model;
	uint32_t main_thread;

	if (walk->jumps >= MOST_JUMPS || !ws_is_java_helper(model, walk->place.thread))
		return false;
	main_thread = ws_find_java_main(model);
	if (!main_thread || !has_run_before(model, main_thread, walk->at, WAKING_NS))
		return false;
	go_to_thread(walk, main_thread);
	return true;
}

static void step_in_wait(struct walk *walk, const struct ws_model_state *state, uint32_t call)
{
	struct ws_piece piece = make_thread_piece(walk, WS_PIECE_WAIT);
	const struct ws_wait_call *wait = ws_model_get_call(walk->model, state);
	uint32_t waker = ws_path_find_waker(walk->model, walk->place.thread, state, walk->at);

	piece.wait = state->wait;
	piece.function = wait->function;
	piece.path = wait->path;
	piece.callchain = wait->callchain;
	piece.call = call;
	if (waker && walk->jumps < MOST_JUMPS) {
		leave_for_waker(walk, state, waker, piece);
		return;
	}
	if (return_to_origin(walk, &piece, state->start) || leave_java_helper(walk))
		return;
	add_piece(walk, piece, state->start);
}

static void step_in_thread(struct walk *walk)
{
	const struct ws_model *model = walk->model;
	const struct ws_model_state *state =
		ws_model_find_state(model, walk->place.thread, walk->at);
	struct ws_piece piece = make_thread_piece(walk, WS_PIECE_UNKNOWN);
	uint32_t call;

	if (!state) {
		leave_for_parent(walk);
		return;
	}
	if (state->end < walk->at) {
		add_piece(walk, piece, state->end);
		return;
	}
	call = ws_model_find_call(model, walk->place.thread, walk->at);
	if ((state->wait == WS_WAIT_GPU || is_blocked_launch(model, call, walk->at)) &&
	    walk->jumps < MOST_JUMPS && leave_for_gpu(walk, state, call))
		return;
	piece.call = call;
	switch (state->doing) {
	case WS_DOING_WAIT:
		step_in_wait(walk, state, call);
		return;
	case WS_DOING_RUNNABLE:
		piece.kind = WS_PIECE_RUNNABLE;
		piece.wait = WS_WAIT_QUEUE;
		break;
	case WS_DOING_RUN:
		piece.kind = WS_PIECE_RUN;
		piece.wait = state->wait;
		break;
	default: /* scheduling was not recorded: outside of calls that wait, it ran */
		if (!state->lost)
			piece.kind = WS_PIECE_RUN;
		break;
	}
	add_piece(walk, piece, state->start);
}

/* When the call had submitted its work: at its end, or when the work began if that is earlier. */
static uint64_t find_launch_time(const struct ws_model *model, uint32_t call, uint64_t began)
{
	uint64_t start = model->calls.rows.col[ws_cuda_api_start][call],
		 end = model->calls.rows.col[ws_cuda_api_end][call];

	if (end == WS_NO_TIME || end < start)
		end = start;
	return ws_min(end, began);
}

/* From work that has begun at walk->at to the work or the call that it waited for. */
static void leave_op(struct walk *walk, const struct ws_work_op *op)
{
	const struct ws_model *model = walk->model;
	uint32_t gpu = walk->place.gpu, number = walk->place.op,
		 before = model->gpus[gpu].previous[number],
		 call = ws_calls_find(&model->calls, op->process, op->correlation);
	struct ws_piece piece = {.kind = WS_PIECE_DELAY, .gpu = gpu, .op = number, .call = call};
	uint64_t ready = 0, called = 0;
	struct ws_path_end other;

	if (before != WS_NO_OP)
		ready = ws_min(model->work.gpu[gpu].op[before].end, op->start);
	if (call != WS_NO_CALL) {
		called = find_launch_time(model, call, op->start);
		piece.thread = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][call];
	}
	/* Work of another stream that ended in between is what it waited for: for an event, or for
	 * room. */
	if (walk->jumps < MOST_JUMPS &&
	    find_last_op(model, op->process, ws_max(ready, called), op->start, number, &other) &&
	    (other.gpu != gpu || other.op != number)) {
		add_piece(walk, piece, model->work.gpu[other.gpu].op[other.op].end);
		go_to_op(walk, other.gpu, other.op);
		return;
	}
	if (call != WS_NO_CALL && called >= ready) {
		piece.kind = WS_PIECE_LAUNCH;
		add_piece(walk, piece, called);
		go_to_thread(walk, piece.thread);
		return;
	}
	if (!ready) {
		piece.kind = WS_PIECE_UNKNOWN;
		add_piece(walk, piece, walk->from);
		return;
	}
	add_piece(walk, piece, ready);
	go_to_op(walk, gpu, before);
}

static void step_on_gpu(struct walk *walk)
{
	const struct ws_model *model = walk->model;
	uint32_t gpu = walk->place.gpu, number = walk->place.op;
	const struct ws_work_op *op = &model->work.gpu[gpu].op[number];
	struct ws_piece piece = {.kind = WS_PIECE_GPU, .gpu = gpu, .op = number};

	piece.call = ws_calls_find(&model->calls, op->process, op->correlation);
	if (piece.call != WS_NO_CALL)
		piece.thread = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][piece.call];
	if (walk->at > op->end) { /* a gap that nothing explains */
		piece.kind = WS_PIECE_DELAY;
		add_piece(walk, piece, op->end);
		return;
	}
	add_piece(walk, piece, op->start);
	if (walk->at > walk->from)
		leave_op(walk, op);
}

static void reverse_pieces(struct ws_path *path)
{
	for (size_t i = 0; i < path->count / 2; i++) {
		struct ws_piece piece = path->pieces[i];

		path->pieces[i] = path->pieces[path->count - 1 - i];
		path->pieces[path->count - 1 - i] = piece;
	}
}

void ws_path_walk(const struct ws_model *model, const struct ws_path_end *end, uint64_t from,
		  uint64_t to, struct ws_path *path)
{
	struct walk walk = {.model = model, .path = path, .place = *end, .from = from, .at = to};

	/* How far back the walk goes where it runs in circles. */
	uint64_t blind = ws_max((to - ws_min(to, from)) / MOST_BLIND, (uint64_t)1000);

	memset(path, 0, sizeof(*path));
	while (walk.at > from) {
		if (path->count % LOOK_PIECES == LOOK_PIECES - 1 &&
		    ws_model_check_cancelled(model, NULL))
			break; /* the incomplete path will not be used */
		if (walk.jumps > 2 * MOST_JUMPS)
			add_piece(&walk, make_thread_piece(&walk, WS_PIECE_UNKNOWN),
				  walk.at - ws_min(walk.at - from, blind));
		else if (walk.place.op != WS_NO_OP)
			step_on_gpu(&walk);
		else
			step_in_thread(&walk);
	}
	reverse_pieces(path);
}

size_t ws_path_find(const struct ws_path *path, uint64_t at)
{
	return ws_find_first_not(0, path->count, i, path->pieces[i].end <= at);
}

void ws_path_free(struct ws_path *path)
{
	free(path->pieces);
	memset(path, 0, sizeof(*path));
}

struct ws_path_end ws_path_find_end(const struct ws_model *model)
{
	struct ws_path_end end = {.thread = model->thread, .gpu = WS_NO_OP, .op = WS_NO_OP}, op;
	uint64_t step_end;

	if (model->step_source == WS_STEPS_NONE)
		return end;
	step_end = model->steps.steps[model->steps.count - 1].end;
	if (model->to > step_end &&
	    ws_path_find_last_op(model, model->process, step_end, model->to, &op))
		return op;
	return end;
}
