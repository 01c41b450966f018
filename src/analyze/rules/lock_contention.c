/*
 * lock_contention.c - threads take turns with a lock.
 *
 * The path goes through the threads that held the lock, so it does not show the waits themselves.
 * Their cost is the time of all threads in such waits: without them, the threads would share all
 * the work.
 */
#include "analyze/rules/rules.h"

#include "base/map.h"

enum { FEW_WAITS = 4 };

struct lock_waits {
	uint64_t ns, count;
	uint32_t thread_count;	    /* of `semaphores` */
	const uint64_t *semaphores; /* by thread: its waits for semaphores; NULL: not counted */
	uint32_t function;
	struct ws_map stacks; /* ns by stack, as far as they were recorded */
	uint64_t longest_ns;
	struct ws_span longest;
	uint64_t threads;
	uint64_t running; /* of the threads that wait like this */
};

static bool is_semaphore_wait(const struct ws_model_state *state)
{
	return state->doing == WS_DOING_WAIT && state->wait == WS_WAIT_SEMAPHORE;
}

static uint64_t count_semaphore_waits(const struct ws_model *model, uint32_t id)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t count = 0;

	for (size_t i = 0; i < thread->count; i++)
		count += is_semaphore_wait(&thread->states[i]);
	return count;
}

/* Locks of Python are semaphores, and its queues wait with semaphores too. It is a lock where the
 * thread that ended the wait also waits in the same way, about as often. */
static bool is_lock_of_python(const struct lock_waits *waits, uint32_t id,
			      const struct ws_model_state *state)
{
	return is_semaphore_wait(state) && state->waker && state->waker != id &&
	       state->waker < waits->thread_count && waits->semaphores[id] >= FEW_WAITS &&
	       waits->semaphores[state->waker] * 2 >= waits->semaphores[id];
}

static bool is_lock_wait(const struct lock_waits *waits, uint32_t id,
			 const struct ws_model_state *state)
{
	if (waits->semaphores)
		return is_lock_of_python(waits, id, state);
	return state->doing == WS_DOING_WAIT && state->wait == WS_WAIT_LOCK;
}

static void add_thread(const struct ws_model *model, uint32_t id, struct lock_waits *waits)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t here = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start || !is_lock_wait(waits, id, state))
			continue;
		here += end - start;
		waits->count++;
		if (end - start > waits->longest_ns) {
			waits->longest_ns = end - start;
			waits->longest = (struct ws_span){start, end};
			waits->function = state->function;
		}
		if (state->callchain && state->callchain != WS_NO_U32)
			ws_map_set(&waits->stacks, state->callchain,
				   ws_map_get(&waits->stacks, state->callchain, NULL) + end -
					   start);
	}
	if (!here)
		return;
	waits->ns += here;
	waits->threads++;
	waits->running += thread->running;
}

/* The user's function in which threads waited longest; false where no stack shows one. */
static bool find_place(const struct ws_model *model, const struct lock_waits *waits,
		       struct ws_code_place *found)
{
	struct ws_map functions = {0};
	uint64_t most = 0;

	for (size_t i = 0; i < waits->stacks.size; i++) {
		struct ws_code_place place;
		uint64_t ns;

		if (!waits->stacks.used[i])
			continue;
		place = ws_code_find_place(model, 0, (uint32_t)waits->stacks.slots[i].key);
		ns = ws_map_get(&functions, place.function, NULL) + waits->stacks.slots[i].value;
		ws_map_set(&functions, place.function, ns);
		if (ns <= most)
			continue;
		most = ns;
		*found = place;
	}
	ws_map_free(&functions);
	return most > 0;
}

/* The waits of all threads of the process. True when they are more than a tenth of the time. */
static bool add_threads(const struct ws_model *model, struct lock_waits *waits)
{
	for (uint32_t id = 1; id < model->thread_count; id++)
		if (ws_find_thread(model->who, id)->process == model->process &&
		    (!waits->semaphores || id != model->thread))
			add_thread(model, id, waits);
	return waits->threads > 1 &&
	       (double)waits->ns >= 0.1 * (double)(waits->ns + waits->running);
}

/* Locks of Python, only where user code takes them: libraries also use semaphores to hand over
 * work. */
static bool add_python_threads(const struct ws_model *model, struct lock_waits *waits)
{
	uint64_t *semaphores = ws_calloc(model->thread_count, sizeof(*semaphores));
	struct ws_code_place place;
	bool found;

	for (uint32_t id = 1; id < model->thread_count; id++)
		semaphores[id] = count_semaphore_waits(model, id);
	ws_map_free(&waits->stacks);
	*waits = (struct lock_waits){.semaphores = semaphores, .thread_count = model->thread_count};
	found = add_threads(model, waits) && find_place(model, waits, &place) && place.users;
	waits->semaphores = NULL;
	free(semaphores);
	return found;
}

static void check_locks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct lock_waits waits = {0};
	struct ws_finding *finding;
	struct ws_code_place code = {0};
	struct ws_text place = {0};
	uint64_t gain;

	if (!add_threads(model, &waits) &&
	    (!model->python || model->has_cuda || !add_python_threads(model, &waits))) {
		ws_map_free(&waits.stacks);
		return;
	}
	gain = (uint64_t)((double)analysis->rated * (double)waits.ns /
			  (double)(waits.ns + waits.running));
	if (analysis->cores) /* work that the threads still have to share */
		gain = ws_min(gain, analysis->window - ws_min(waits.running / analysis->cores,
							      analysis->window));
	if (find_place(model, &waits, &code))
		ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_lock_contention,
					waits.ns / waits.threads, gain);
	ws_limit_to_users(analysis, finding, &code);
	finding->title = ws_format("%llu threads wait for a lock, %.0f %% of their time%s",
				   (unsigned long long)waits.threads,
				   100.0 * (double)waits.ns / (double)(waits.ns + waits.running),
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Hold the lock for less: compute outside and only store inside, give each thread a "
		"part of its own and combine at the end, or use several locks or atomics.");
	finding->assumption = ws_strdup("nobody waits and all cores are free");
	finding->next = ws_strdup("warpsight stats -r thread_wait_sum REPORT");
	ws_finding_add_evidence(finding, "the longest wait", NULL, waits.longest.start,
				waits.longest.end);
	ws_map_free(&waits.stacks);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_lock_contention = {
	.name = "lock-contention",
	.title = "Threads that wait for each other's locks",
	.about =
		"Two threads or more wait for locks for 10 % or more of the time that they run or "
		"wait so. In Python, locks that the user's code takes, where who ends a wait waits "
		"in the same way.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_locks,
};
