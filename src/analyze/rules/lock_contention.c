/*
 * lock_contention.c - threads take turns with a lock.
 *
 * The path goes through the threads that held the lock, so it does not show the waits themselves.
 * Their cost is the time of all threads in such waits: without them, the threads would share all
 * the work.
 *
 * Only calls of mutexes and their like say that they wait for a lock. Semaphores, futexes and waits
 * inside an allocator may be for anything: they count where those who end them wait in the same
 * way, about as often, as threads do that take turns.
 */
#include "analyze/java.h"
#include "analyze/lock_holders.h"
#include "analyze/rules/rules.h"

#include "base/map.h"

enum { FEW_WAITS = 4 };
#define LEAST_LOCKING 0.15 /* of the time on cores */
#define LEAST_HELD 0.4	   /* of the waits, during which the holder waits, too */

/* What threads wait for, in the order in which it is looked for. */
enum lock_kind {
	NAMED_LOCKS, /* calls that lock */
	FILE_LOCKS,  /* of files, among processes */
	MONITORS,    /* of Java (synchronized), as stacks of waits show */
	SEMAPHORES,  /* that the user's code takes in turns */
	PARKED,	     /* Java's other locks: threads of one kind wake each other in turns */
	FUTEXES,     /* waits in no recorded call, in functions that lock, as samples show */
	LOCK_KINDS
};

enum { SHOWN_THREADS = 3 };

struct lock_waits {
	enum lock_kind kind;
	struct ws_map *known;	      /* stack: 1 more than what Java waits for */
	uint32_t some[SHOWN_THREADS]; /* threads that wait */
	uint64_t ns, count;
	const uint64_t *turns; /* by thread: its waits of this kind, where takers take turns */
	uint32_t function;
	struct ws_map stacks; /* ns by stack, as far as they were recorded */
	uint64_t longest_ns;
	struct ws_span longest;
	uint64_t threads;
	uint64_t running;  /* of the threads that wait like this */
	uint64_t lifetime; /* theirs within the window, summed up */
	uint64_t most;	   /* the waits of the thread that waits most */
};

static bool is_file_lock(const struct ws_model *model, const struct ws_model_state *state)
{
	static const char *const names[] = {"flock", "lockf*", "fcntl*", NULL};
	const char *name =
		ws_report_string(model->report, ws_model_get_call(model, state)->function, NULL);

	return state->wait == WS_WAIT_IO && ws_is_name_among(name, strlen(name), names);
}

/* The Java machine waits for conditions, whatever it waits for. */
static bool is_wait_of_java(const struct ws_model *model, const struct lock_waits *waits,
			    const struct ws_model_state *state, enum ws_java_wait wanted)
{
	uint32_t stack = ws_model_get_call(model, state)->callchain;
	uint64_t known;

	if (state->wait != WS_WAIT_CONDITION || !stack || stack == WS_NO_U32)
		return false;
	known = ws_map_get(waits->known, stack, NULL);
	if (!known) {
		known = 1u + ws_classify_java_wait(model, stack);
		ws_map_set(waits->known, stack, known);
	}
	return known == 1u + wanted;
}

/* Whether a state is a wait of this kind, whoever ends it. */
static bool is_wait_of(const struct ws_model *model, const struct lock_waits *waits,
		       const struct ws_model_state *state)
{
	if (state->doing != WS_DOING_WAIT)
		return false;
	switch (waits->kind) {
	case NAMED_LOCKS:
		return state->wait == WS_WAIT_LOCK;
	case FILE_LOCKS:
		return is_file_lock(model, state);
	case SEMAPHORES:
		return state->wait == WS_WAIT_SEMAPHORE;
	case MONITORS:
		return is_wait_of_java(model, waits, state, WS_JAVA_MONITOR);
	case PARKED:
		return is_wait_of_java(model, waits, state, WS_JAVA_PARKED);
	default:
		return state->wait == WS_WAIT_FUTEX || state->wait == WS_WAIT_NONE;
	}
}

static uint64_t count_waits(const struct ws_model *model, uint32_t id,
			    const struct lock_waits *waits)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t count = 0;

	for (size_t i = 0; i < thread->count; i++)
		count += is_wait_of(model, waits, &thread->states[i]);
	return count;
}

/* Whether two threads have the same name but for numbers: those of a pool have. */
static bool are_of_one_kind(const struct ws_model *model, uint32_t first, uint32_t second)
{
	const char *left = ws_find_thread(model->who, first)->name,
		   *right = ws_find_thread(model->who, second)->name;

	for (;; left++, right++) {
		left += strspn(left, "0123456789");
		right += strspn(right, "0123456789");
		if (*left != *right)
			return false;
		if (!*left)
			return true;
	}
}

/* Whether the thread that ended a wait also waits in this way, about as often. */
static bool take_turns(const struct ws_model *model, const struct lock_waits *waits, uint32_t id,
		       const struct ws_model_state *state)
{
	return state->waker && state->waker != id && state->waker < model->thread_count &&
	       waits->turns[id] >= FEW_WAITS &&
	       waits->turns[state->waker] * 2 >= waits->turns[id] &&
	       (waits->kind != PARKED || are_of_one_kind(model, id, state->waker));
}

static bool is_lock_wait(const struct ws_model *model, const struct lock_waits *waits, uint32_t id,
			 const struct ws_model_state *state)
{
	return is_wait_of(model, waits, state) &&
	       (!waits->turns || take_turns(model, waits, id, state));
}

static void add_wait(const struct ws_wait_call *call, uint64_t start, uint64_t end,
		     struct lock_waits *waits)
{
	waits->count++;
	if (end - start > waits->longest_ns) {
		waits->longest_ns = end - start;
		waits->longest = (struct ws_span){start, end};
		waits->function = call->function;
	}
	if (call->callchain && call->callchain != WS_NO_U32)
		ws_map_set(&waits->stacks, call->callchain,
			   ws_map_get(&waits->stacks, call->callchain, NULL) + end - start);
}

/* How much of the window a thread lived through, as far as its states tell. */
static uint64_t measure_lifetime(const struct ws_model *model, const struct ws_model_thread *thread)
{
	uint64_t start = ws_max(thread->states[0].start, model->from),
		 end = ws_min(thread->states[thread->count - 1].end, model->to);

	return end - ws_min(start, end);
}

static void add_thread(const struct ws_model *model, uint32_t id, struct lock_waits *waits)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t here = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start || !is_lock_wait(model, waits, id, state))
			continue;
		here += end - start;
		add_wait(ws_model_get_call(model, state), start, end, waits);
	}
	if (!here)
		return;
	waits->ns += here;
	if (waits->threads < SHOWN_THREADS)
		waits->some[waits->threads] = id;
	waits->threads++;
	waits->running += thread->running;
	waits->lifetime += measure_lifetime(model, thread);
	waits->most = ws_max(waits->most, here);
}

/* Beside a GPU, threads of the driver and of loaders wait in locks for something to do: those count
 * that use the GPU themselves. */
static bool may_be_idle(const struct ws_model *model, uint32_t id)
{
	const struct ws_model_thread *thread = &model->threads[id];

	return model->has_cuda && id != model->thread && thread->first_call == thread->end_call;
}

/* The user's function in which threads waited longest, and which share of the waits was there;
 * 0 where no stack shows one. */
static double find_place(const struct ws_model *model, const struct lock_waits *waits,
			 struct ws_code_place *found)
{
	struct ws_map functions = {0};
	uint64_t most = 0, all = 0;

	for (size_t i = 0; i < waits->stacks.size; i++) {
		struct ws_code_place place;
		uint64_t ns;

		if (!waits->stacks.used[i])
			continue;
		place = ws_code_find_place(model, 0, (uint32_t)waits->stacks.slots[i].key);
		all += waits->stacks.slots[i].value;
		ns = ws_map_get(&functions, place.function, NULL) + waits->stacks.slots[i].value;
		ws_map_set(&functions, place.function, ns);
		if (ns <= most)
			continue;
		most = ns;
		*found = place;
	}
	ws_map_free(&functions);
	if (!most)
		return 0;
	return (double)most / (double)all;
}

/* The waits of all threads of the process; for files, of all its processes. True when they are more
 * than a tenth of the time. */
static bool add_threads(const struct ws_model *model, struct lock_waits *waits)
{
	for (uint32_t id = 1; id < model->thread_count; id++) {
		uint32_t process = ws_find_thread(model->who, id)->process;

		if (process != model->process &&
		    (waits->kind != FILE_LOCKS || !ws_is_explained(model, process)))
			continue;
		if (may_be_idle(model, id))
			continue;
		if (waits->kind != SEMAPHORES || !model->python || id != model->thread)
			add_thread(model, id, waits);
	}
	return waits->threads > 1 &&
	       (double)waits->ns >= 0.1 * (double)(waits->ns + waits->running);
}

/* Samples of the kernel under functions that lock: the one with the most time, if they are most of
 * what is spent on futexes. */
static const struct ws_usage_row *find_locking(const struct ws_analysis *analysis)
{
	const struct ws_usage_row *most = NULL;
	uint64_t locking = 0, all = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind != WS_USAGE_LOCK)
			continue;
		all += row->ns;
		if (!ws_is_locking_function(row->name))
			continue;
		locking += row->ns;
		most = ws_or(most, row);
	}
	if (locking < all / 2)
		return NULL;
	return most;
}

/* Whether turns of threads are for a lock: semaphores, where the user's code takes them in one
 * place (with several, threads hand over work); waits in no recorded call, where samples show
 * functions that lock. */
static bool is_lock(const struct ws_analysis *analysis, const struct ws_findings *findings,
		    const struct lock_waits *waits)
{
	struct ws_code_place place;

	if (waits->kind == PARKED)
		return true;
	if (waits->kind == FUTEXES)
		return !ws_findings_have(findings, &ws_rule_handovers) && find_locking(analysis);
	return find_place(analysis->model, waits, &place) >= 0.8 && place.users;
}

static bool add_turns(const struct ws_analysis *analysis, const struct ws_findings *findings,
		      struct lock_waits *waits)
{
	const struct ws_model *model = analysis->model;
	uint64_t *turns = ws_calloc(model->thread_count, sizeof(*turns));
	bool found;

	for (uint32_t id = 1; id < model->thread_count; id++)
		turns[id] = count_waits(model, id, waits);
	waits->turns = turns;
	found = add_threads(model, waits) && is_lock(analysis, findings, waits);
	waits->turns = NULL;
	free(turns);
	return found;
}

/* Which reasons to wait there are at all, as bits by enum ws_wait: the states of ten million waits
 * take a while to go through. */
static uint32_t find_reasons(const struct ws_model *model)
{
	uint32_t reasons = 0;

	for (uint32_t id = 1; id < model->thread_count; id++)
		reasons |= model->threads[id].waits;
	return reasons;
}

static bool may_have(const struct ws_analysis *analysis, enum lock_kind kind, uint32_t reasons)
{
	static const uint32_t wanted[LOCK_KINDS] = {
		[NAMED_LOCKS] = 1u << WS_WAIT_LOCK,
		[FILE_LOCKS] = 1u << WS_WAIT_IO,
		[MONITORS] = 1u << WS_WAIT_CONDITION,
		[PARKED] = 1u << WS_WAIT_CONDITION,
		[SEMAPHORES] = 1u << WS_WAIT_SEMAPHORE,
		[FUTEXES] = 1u << WS_WAIT_FUTEX | 1u << WS_WAIT_NONE,
	};

	if ((kind == MONITORS || kind == PARKED) && !ws_is_java(analysis->model))
		return false;
	if (kind >= SEMAPHORES && analysis->model->has_cuda)
		return false; /* the driver's threads hand over work like this */
	if (kind == FUTEXES && !find_locking(analysis))
		return false;
	return (reasons & wanted[kind]) != 0;
}

static bool find_waits(const struct ws_analysis *analysis, const struct ws_findings *findings,
		       struct lock_waits *waits)
{
	uint32_t reasons = find_reasons(analysis->model);

	for (int kind = 0; kind < LOCK_KINDS; kind++) {
		struct ws_map known = {0};
		bool found;

		*waits = (struct lock_waits){.kind = (enum lock_kind)kind, .known = &known};
		if (!may_have(analysis, waits->kind, reasons))
			continue;
		found = kind < SEMAPHORES ? add_threads(analysis->model, waits)
					  : add_turns(analysis, findings, waits);
		waits->known = NULL;
		ws_map_free(&known);
		if (found)
			return true;
		ws_map_free(&waits->stacks);
	}
	return false;
}

/* Generated code of Java has names only where it was asked for them; its threads have. */
static void put_some_threads(const struct ws_analysis *analysis, const struct lock_waits *waits,
			     struct ws_text *text)
{
	for (size_t i = 0; i < SHOWN_THREADS && i < waits->threads; i++) {
		ws_text_puts(text, i ? ", " : ": ");
		ws_put_thread(analysis, waits->some[i], text);
	}
	if (waits->threads > SHOWN_THREADS)
		ws_text_puts(text, "...");
}

static void put_place(const struct ws_analysis *analysis, const struct lock_waits *waits,
		      struct ws_code_place *code, struct ws_text *place)
{
	const struct ws_usage_row *locking = NULL;

	if (waits->kind == FUTEXES)
		locking = find_locking(analysis);
	if (locking)
		*code = locking->place;
	if (locking || find_place(analysis->model, waits, code) > 0) {
		if (code->users || (waits->kind != MONITORS && waits->kind != PARKED))
			ws_put_at_place(analysis, code, place);
		else
			put_some_threads(analysis, waits, place);
	}
	if (locking)
		ws_text_printf(place, ", in %s", locking->name);
}

static const char *name_lock(const struct ws_analysis *analysis, const struct lock_waits *waits)
{
	if (waits->kind == FILE_LOCKS)
		return "a lock of a file";
	if (waits->kind == MONITORS)
		return "a monitor of Java (synchronized)";
	if (waits->kind == PARKED)
		return "a lock of Java (ReentrantLock or the like)";
	if (waits->kind == FUTEXES && ws_is_allocator(find_locking(analysis)->name))
		return "the lock of the memory allocator";
	return "a lock";
}

/* Whether threads of Python wait in a Condition until there is something to do. */
static bool is_condition(const struct ws_analysis *analysis, const struct ws_code_place *code)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return code->called &&
	       !strcmp(ws_stacks_get_function(stacks, code->called)->name, "Condition.wait");
}

static const char *choose_advice(const struct ws_analysis *analysis, const struct lock_waits *waits,
				 const struct ws_code_place *code)
{
	if (is_condition(analysis, code))
		return "notify_all() wakes all threads, and most of them wait again at once: "
		       "notify() wakes the one that can go on, and queue.Queue does that by "
		       "itself. Hand over more items at once.";
	if (waits->kind == FUTEXES && ws_is_allocator(find_locking(analysis)->name))
		return "Allocate less often (keep and reuse memory, a pool for each thread), let "
		       "threads have arenas of their own (MALLOC_ARENA_MAX, M_ARENA_MAX), or use "
		       "an "
		       "allocator with caches of threads (jemalloc, tcmalloc, mimalloc).";
	if (strstr(ws_report_string(analysis->model->report, waits->function, NULL), "wrlock"))
		return "Where nothing is changed, take the lock for reading "
		       "(pthread_rwlock_rdlock, std::shared_lock): readers do not exclude each "
		       "other. Where something is, compute outside and only store inside.";
	return "Hold the lock for less: compute outside and only store inside, give each thread a "
	       "part of its own and combine at the end, or use several locks or atomics.";
}

/* The part of the window that a thread spends in the waits: of the one that waits most, or of each,
 * where many short-lived threads come one after the other. */
static uint64_t measure_cost(const struct ws_analysis *analysis, const struct lock_waits *waits)
{
	double share = (double)waits->ns / (double)ws_max(waits->lifetime, (uint64_t)1);

	return ws_max(waits->most, (uint64_t)((double)analysis->window * share));
}

static uint64_t estimate_gain(const struct ws_analysis *analysis, const struct lock_waits *waits)
{
	uint64_t gain = (uint64_t)((double)analysis->rated * (double)waits->ns /
				   (double)(waits->ns + waits->running));

	if (analysis->cores) /* work that the threads still have to share */
		gain = ws_min(gain, analysis->window - ws_min(waits->running / analysis->cores,
							      analysis->window));
	return ws_min(gain, measure_cost(analysis, waits));
}

/* Where threads sleep while they hold the lock, the sleep is a part of the same fault: it comes
 * after the lock. */
static void outrank_sleeps(struct ws_findings *findings, size_t own)
{
	struct ws_finding *finding = &findings->findings[own];

	for (size_t i = 0; i < own; i++) {
		struct ws_finding *sleep = &findings->findings[i];

		if (sleep->rule == &ws_rule_sleeping && finding->file &&
		    sleep->file == finding->file && finding->gain_ns >= sleep->gain_ns / 3 &&
		    sleep->gain_ns >= finding->gain_ns)
			sleep->gain_ns = finding->gain_ns - 1;
	}
}

/* Who holds the lock waits for something else: that is the fault. */
static void say_what_is_held(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	const struct ws_model *model = analysis->model;
	struct ws_held_wait held = ws_find_held_wait(model, model->process);
	struct ws_text place = {0};
	struct ws_code_place code;
	char *title = finding->title;

	if (held.share < LEAST_HELD || !held.function)
		return;
	code = ws_code_find_place(model, 0, held.stack);
	if (held.stack)
		ws_put_at_place(analysis, &code, &place);
	finding->title = ws_format("%s; those who hold it spend %.0f %% of that waiting in %s%s",
				   title, 100 * ws_min(held.share, 1.0),
				   ws_report_string(model->report, held.function, NULL),
				   ws_text_or(place.text, ""));
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(
		"Do not wait while holding the lock: ask, read, write or sleep before it is taken "
		"or after it is given back, and hold it only to look up and to store.");
	ws_text_free(&place);
}

static void report_waits(const struct ws_analysis *analysis, const struct lock_waits *waits,
			 struct ws_findings *findings)
{
	struct ws_code_place code = {0};
	struct ws_text place = {0};
	struct ws_finding *finding;

	put_place(analysis, waits, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_lock_contention,
					measure_cost(analysis, waits),
					estimate_gain(analysis, waits));
	ws_limit_to_users(analysis, finding, &code);
	finding->title = ws_format("%llu %s wait for %s, %.0f %% of their time%s",
				   (unsigned long long)waits->threads,
				   waits->kind == FILE_LOCKS ? "threads or processes" : "threads",
				   name_lock(analysis, waits),
				   100.0 * (double)waits->ns / (double)(waits->ns + waits->running),
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(choose_advice(analysis, waits, &code));
	if (waits->kind == NAMED_LOCKS)
		say_what_is_held(analysis, finding);
	finding->assumption = ws_strdup("nobody waits and all cores are free");
	finding->next = ws_strdup("warpsight stats -r thread_wait_sum REPORT");
	ws_finding_add_evidence(finding, "the longest wait", NULL, waits->longest.start,
				waits->longest.end);
	if (waits->ns > 4 * waits->running)
		outrank_sleeps(findings, findings->count - 1);
	ws_text_free(&place);
}

static bool is_of_openmp(const char *name)
{
	return strstr(name, "omp_") || strstr(name, "GOMP_") || strstr(name, "kmpc_");
}

/* Locks of OpenMP are waited for by spinning, at least at first. */
static void check_spinning(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage_row *most = NULL;
	uint64_t locking = 0, all = 0;
	struct ws_finding *finding;
	struct ws_text place = {0};

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		all += row->ns;
		if (row->kind != WS_USAGE_LOCK || !is_of_openmp(row->name))
			continue;
		locking += row->ns;
		most = ws_or(most, row);
	}
	if (!most || (double)locking < LEAST_LOCKING * (double)all)
		return;
	ws_put_at_place(analysis, &most->place, &place);
	finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_lock_contention, ws_min(locking, analysis->window),
		(uint64_t)((double)analysis->rated * (double)locking / (double)all));
	finding->title = ws_format("Threads of OpenMP take turns with a lock (%s) for %.0f %% of "
				   "their time on cores%s",
				   most->name, 100.0 * (double)locking / (double)all,
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Give each thread a result of its own and combine them at the "
				    "end (reduction), use omp atomic instead of critical, or take "
				    "the lock once for many items.");
	finding->assumption = ws_strdup("nobody waits and all cores are free");
	ws_text_free(&place);
}

/* JavaScript has no locks: the threads beside its own are helpers, which wait for work. */
static bool is_javascript(const struct ws_model *model)
{
	return !strcmp(ws_find_process(model->who, model->process)->name, "node");
}

static void check_locks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct lock_waits waits;

	if (is_javascript(analysis->model))
		return;
	if (!find_waits(analysis, findings, &waits)) {
		check_spinning(analysis, findings);
		return;
	}
	report_waits(analysis, &waits, findings);
	ws_map_free(&waits.stacks);
}

const struct ws_rule ws_rule_lock_contention = {
	.name = "lock-contention",
	.title = "Threads that wait for each other's locks",
	.about = "Two threads or more wait for locks for 10 % or more of the time that they run or "
		 "wait so: mutexes, rwlocks, and locks of files among processes. Semaphores (locks "
		 "of Python are such) that the user's code takes in one place count where who ends "
		 "a wait waits in the same way; so do waits in an allocator, for locks of Java, "
		 "and in locks of OpenMP, Rust and Go. Spinning for locks of OpenMP counts from 15 "
		 "% of the time on cores.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_locks,
};
