/* lock_holders.c - see lock_holders.h. */
#include "analyze/lock_holders.h"

#include "base/choose.h"
#include "base/map.h"

enum { MOST_WAITS = 5000, MOST_STEPS = 64 };

struct held {
	struct ws_map calls;  /* string: ns */
	struct ws_map stacks; /* string: the stack of the longest wait */
	struct ws_map longest;
	uint64_t known, waiting; /* ns: of the holders, without waiting for a core */
	size_t waits;
};

static bool is_lock_wait(const struct ws_model_state *state)
{
	return state->doing == WS_DOING_WAIT && state->wait == WS_WAIT_LOCK;
}

static bool is_wait_under_lock(const struct ws_model *model, const struct ws_model_state *state)
{
	return state->doing == WS_DOING_WAIT && ws_model_get_call(model, state)->function &&
	       (state->wait == WS_WAIT_IO || state->wait == WS_WAIT_POLL ||
		state->wait == WS_WAIT_SLEEP || state->wait == WS_WAIT_CHILD);
}

static void add_call(struct held *held, const struct ws_wait_call *call, uint64_t ns)
{
	uint64_t sum = ws_map_get(&held->calls, call->function, NULL) + ns;

	held->waiting += ns;
	ws_map_set(&held->calls, call->function, sum);
	if (!call->callchain || call->callchain == WS_NO_U32 ||
	    ns <= ws_map_get(&held->longest, call->function, NULL))
		return;
	ws_map_set(&held->longest, call->function, ns);
	ws_map_set(&held->stacks, call->function, call->callchain);
}

/* From the end of a wait back to its beginning, through those who had the lock meanwhile. */
static void follow_wait(const struct ws_model *model, const struct ws_model_state *wait,
			struct held *held)
{
	uint64_t at = wait->end;
	uint32_t holder = wait->waker;

	for (unsigned i = 0; i < MOST_STEPS && at > wait->start && holder; i++) {
		const struct ws_model_state *state = ws_model_find_state(model, holder, at);
		uint64_t start, end;

		if (!state)
			return;
		if (is_lock_wait(state)) {
			at = ws_min(at, state->end);
			holder = state->waker;
			continue;
		}
		start = ws_max(state->start, wait->start);
		end = ws_min(state->end, at);
		if (end > start && state->doing != WS_DOING_RUNNABLE)
			held->known += end - start;
		if (end > start && is_wait_under_lock(model, state))
			add_call(held, ws_model_get_call(model, state), end - start);
		at = ws_min(at, state->start);
	}
}

static void follow_thread(const struct ws_model *model, uint32_t id, struct held *held)
{
	const struct ws_model_thread *thread = &model->threads[id];

	for (size_t i = 0; i < thread->count && held->waits < MOST_WAITS; i++) {
		const struct ws_model_state *state = &thread->states[i];

		if (!is_lock_wait(state) || state->start < model->from || state->end > model->to)
			continue;
		held->waits++;
		follow_wait(model, state, held);
	}
}

struct ws_held_wait ws_find_held_wait(const struct ws_model *model, uint32_t process)
{
	struct ws_held_wait found = {0};
	struct held held = {0};
	uint64_t most = 0;

	for (uint32_t id = 1; id < model->thread_count; id++)
		if (ws_find_thread(model->who, id)->process == process)
			follow_thread(model, id, &held);
	for (size_t i = 0; i < held.calls.size; i++)
		if (held.calls.used[i] && held.calls.slots[i].value > most) {
			most = held.calls.slots[i].value;
			found.function = (uint32_t)held.calls.slots[i].key;
		}
	if (found.function)
		found.stack = (uint32_t)ws_map_get(&held.stacks, found.function, NULL);
	if (held.known)
		found.share = (double)held.waiting / (double)held.known;
	ws_map_free(&held.calls);
	ws_map_free(&held.stacks);
	ws_map_free(&held.longest);
	return found;
}
