/* imbalance.c - threads that share work wait at a barrier for the slowest. */
#include "analyze/go.h"
#include "analyze/java.h"
#include "analyze/rules/rules.h"

#define LEAST_SPINNING 0.15
#define LEAST_EXCESS 1.3 /* time of the busiest over the mean */

struct group {
	uint64_t threads, running, most, waiting;
	uint32_t slowest;
	struct ws_span longest;
	bool shares; /* another thread runs the same code, and ended long before the busiest */
};

static uint64_t sum_barrier_waits(const struct ws_model *model,
				  const struct ws_model_thread *thread, struct ws_span *longest)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (state->wait != WS_WAIT_BARRIER || state->doing != WS_DOING_WAIT || end <= start)
			continue;
		sum += end - start;
		if (end - start > longest->end - longest->start)
			*longest = (struct ws_span){start, end};
	}
	return sum;
}

/* The threads that wait at barriers, and the one that comes last and therefore never waits. */
static void gather_group(const struct ws_model *model, struct group *group)
{
	uint32_t busiest = 0;
	bool counted = false;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		uint64_t waiting;

		if (ws_find_thread(model->who, id)->process != model->process)
			continue;
		waiting = sum_barrier_waits(model, thread, &group->longest);
		if (!busiest || thread->running > model->threads[busiest].running) {
			busiest = id;
			counted = waiting > 0;
		}
		if (!waiting)
			continue;
		group->threads++;
		group->running += thread->running;
		group->waiting += waiting;
	}
	if (busiest && !counted) {
		group->threads++;
		group->running += model->threads[busiest].running;
	}
	group->slowest = busiest;
	group->most = model->threads[busiest].running;
}

/* ---- without a barrier: one continues when the others have ended or wait ---- */

/* Whether two threads share the same work: threads of the explained process other than its main
 * one, or processes that another one started. */
static bool is_of_crew(const struct ws_model *model, uint32_t lone, uint32_t id)
{
	const struct ws_thread_info *first = ws_find_thread(model->who, lone),
				    *second = ws_find_thread(model->who, id);

	/* The threads of Java's machine, and the one of main(), which starts the others. */
	if (ws_is_java_helper(model, id) || ws_is_java_main(model, id))
		return false;
	if (first->process == model->process)
		return second->process == model->process && second->tid != second->pid;
	return second->process != model->process &&
	       ws_find_process(model->who, first->process)->parent ==
		       ws_find_process(model->who, second->process)->parent;
}

/* Whether a thread has nothing left to do at a time: it has ended, or waits until `end`, as one
 * that runs the same loop as the lone one. Stages of a pipeline wait for other reasons. */
static bool is_idle_until(const struct ws_model *model, uint32_t lone, uint32_t thread, uint64_t at,
			  uint64_t end)
{
	const struct ws_model_thread *states = &model->threads[thread];
	const struct ws_model_state *state;
	uint32_t start = ws_code_find_start(model, lone);

	if (!states->count)
		return false;
	if (states->states[states->count - 1].end <= at)
		return true;
	state = ws_model_find_state(model, thread, at);
	return state && state->doing == WS_DOING_WAIT && state->end >= end && start &&
	       ws_code_find_start(model, thread) == start;
}

/* Whether a thread was seen in the code that the lone one mostly runs, and has had nothing to do
 * since half of what that one did alone: it does not work for the lone one, but got less of the
 * same work. */
static bool got_too_little(const struct ws_analysis *analysis, uint32_t thread)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	uint64_t half =
		parallel->longest.start + (parallel->longest.end - parallel->longest.start) / 2;

	if (!is_idle_until(analysis->model, parallel->lone, thread, half, parallel->longest.end))
		return false;
	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->thread == thread && row->kind == WS_USAGE_CODE &&
		    row->place.function == parallel->place.function)
			return true;
	}
	return false;
}

static void gather_crew(const struct ws_analysis *analysis, uint32_t lone, struct group *group)
{
	const struct ws_model *model = analysis->model;

	group->slowest = lone;
	group->most = model->threads[lone].running;
	for (uint32_t id = 1; id < model->thread_count; id++) {
		if (!is_of_crew(model, lone, id) || model->threads[id].running < group->most / 100)
			continue;
		group->threads++;
		group->running += model->threads[id].running;
		group->shares |= id != lone && got_too_little(analysis, id);
	}
}

/* What the thread does as a whole, where its code is one that others run as well. */
static void put_start(const struct ws_analysis *analysis, uint32_t thread, struct ws_text *text)
{
	const struct ws_model *model = analysis->model;
	uint32_t start = ws_code_find_start(model, thread);
	const struct ws_function *function = ws_stacks_get_function(model->stacks, start);

	if (start && start != analysis->parallel.place.function && strcmp(function->name, "main") &&
	    strcmp(function->name, "_start") && strcmp(function->name, "<module>"))
		ws_text_printf(text, ", which runs %.*s,", (int)function->len, function->name);
}

static void check_crew(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	const struct ws_model *model = analysis->model;
	struct ws_text place = {0}, thread = {0};
	struct group group = {0};
	struct ws_finding *finding;
	uint64_t gain, alone;
	bool rounds;

	if (!parallel->lone || parallel->lone == model->thread || model->has_cuda ||
	    ws_is_java_helper(model, parallel->lone) || ws_is_java_main(model, parallel->lone) ||
	    (model->has_samples && !parallel->place.leaf) ||
	    ws_findings_have(findings, &ws_rule_handovers) ||
	    ws_findings_have(findings, &ws_rule_gil) ||
	    ws_findings_have(findings, &ws_rule_lock_contention) ||
	    ws_findings_have(findings, &ws_rule_busy_waiting) ||
	    ws_findings_have(findings, &ws_rule_child_processes) || ws_is_lone_goroutine(model))
		return;
	gather_crew(analysis, parallel->lone, &group);
	/* Threads that do next to nothing are there for something else. */
	if (group.threads < 2 ||
	    ((group.running - group.most) * 20 < group.most && !group.shares) ||
	    (double)group.most * (double)group.threads < LEAST_EXCESS * (double)group.running)
		return;
	gain = ws_min(group.most - group.running / group.threads, parallel->lone_ns);
	/* Where threads are started for each round of work, one of each round is the longest: what
	 * all of them did alone is what the rounds wait for. The main thread did no more alone than
	 * the one that did most. */
	rounds = parallel->lone_ns * 3 < parallel->alone_ns;
	alone = parallel->lone_ns;
	if (rounds)
		alone = parallel->alone_ns - parallel->lone_ns;
	if (rounds)
		gain = alone - alone / ws_max((uint64_t)analysis->cores, (uint64_t)2);
	if (ws_analysis_share(analysis, gain) < 0.05)
		return;
	ws_put_at_place(analysis, &parallel->place, &place);
	ws_put_thread(analysis, group.slowest, &thread);
	if (!rounds)
		put_start(analysis, group.slowest, &thread);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_imbalance, alone, gain);
	ws_limit_to_users(analysis, finding, &parallel->place);
	finding->title = ws_format(
		rounds ? "%llu threads or processes, in rounds, share the work unevenly: %s, which "
			 "ran longest, computes for %.0f %% of the time%s; for %.0f %% one of them "
			 "works alone"
		       : "%llu threads or processes share the work unevenly: %s computes for %.0f "
			 "%% of the time%s, %.0f %% alone",
		(unsigned long long)group.threads, thread.text,
		100 * ws_analysis_share(analysis, group.most), ws_text_or(place.text, ""),
		100 * ws_analysis_share(analysis, alone));
	finding->advice = ws_strdup("Share the work out in smaller pieces that free workers take "
				    "(a queue, chunksize=1, dynamic scheduling), the dearest "
				    "first; in a pipeline let several do the slow stage.");
	finding->assumption = ws_strdup("each gets the same share");
	ws_finding_add_evidence(finding, "its longest stretch alone", NULL, parallel->longest.start,
				parallel->longest.end);
	ws_text_free(&place);
	ws_text_free(&thread);
}

/* ---- at the end of parallel regions of OpenMP ---- */

/* Whether only one thread runs a function: it is no part of what the threads share. */
static bool is_of_one_thread(const struct ws_analysis *analysis, const struct ws_usage_row *work)
{
	uint64_t others = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->place.function == work->place.function && row->thread != work->thread &&
		    row->kind != WS_USAGE_BARRIER)
			others += row->ns;
	}
	return others < work->ns / 10;
}

static void describe_openmp(bool serial, double share, const char *place,
			    struct ws_finding *finding)
{
	if (serial) {
		finding->title = ws_format("Threads of OpenMP wait for %.0f %% of their time on "
					   "cores while one thread works alone%s",
					   share, place);
		finding->advice = ws_strdup(
			"Share this part out as well (parallel for, sections, tasks), or make it "
			"cheaper: it takes the same time on any number of cores.");
		finding->assumption = ws_strdup("this part is shared out as well");
		return;
	}
	finding->title = ws_format("Threads of OpenMP wait for each other at the end of parallel "
				   "regions for %.0f %% of their time on cores; most work is%s",
				   share, place);
	finding->advice = ws_strdup("Share the iterations out in smaller pieces "
				    "(schedule(dynamic) or schedule(guided)), or make the "
				    "parallel regions longer.");
	finding->assumption = ws_strdup("each gets the same share");
}

static void check_openmp(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage_row *work = NULL;
	uint64_t waited = 0, all = 0;
	struct ws_finding *finding;
	struct ws_text place = {0};

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		all += row->ns;
		if (row->kind == WS_USAGE_BARRIER)
			waited += row->ns;
		else if (row->place.users && !work)
			work = row;
	}
	if (!work || (double)waited < LEAST_SPINNING * (double)all || analysis->model->has_cuda)
		return;
	ws_put_at_place(analysis, &work->place, &place);
	finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_imbalance, ws_min(waited, analysis->window),
		(uint64_t)((double)analysis->rated * (double)waited / (double)all));
	ws_point_at(finding, &work->place);
	describe_openmp(is_of_one_thread(analysis, work), 100.0 * (double)waited / (double)all,
			ws_text_or(place.text, ""), finding);
	ws_text_free(&place);
}

/* ---- at a barrier ---- */

/* Where a thread spends most of its time in code of the user's; NULL where no sample shows it. */
static const struct ws_usage_row *find_work(const struct ws_analysis *analysis, uint32_t thread)
{
	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->thread == thread && row->kind == WS_USAGE_CODE && row->place.users)
			return row;
	}
	return NULL;
}

static void check_barriers(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct group group = {0};
	struct ws_finding *finding;
	const struct ws_usage_row *work;
	struct ws_text place = {0};
	uint64_t gain;
	bool uneven;

	gather_group(model, &group);
	if (group.threads < 2 || !group.waiting)
		return;
	gain = group.most - group.running / group.threads;
	/* On a busy machine the share is small because all wait for cores, too. */
	uneven = gain * 5 > group.most && ws_analysis_share(analysis, gain) >= 0.02;
	if (ws_analysis_share(analysis, gain) < 0.05 && !uneven)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_imbalance,
					group.waiting / group.threads, gain);
	if (uneven)
		finding->level = ws_max(finding->level, WS_LEVEL_WARNING);
	work = find_work(analysis, group.slowest);
	if (work) {
		ws_put_at_place(analysis, &work->place, &place);
		ws_point_at(finding, &work->place);
	}
	finding->title = ws_format("%llu threads share the work unevenly: %s %u computes for %.0f "
				   "%% of the time%s, and others wait for it at a barrier",
				   (unsigned long long)group.threads,
				   ws_find_thread(model->who, group.slowest)->name,
				   ws_find_thread(model->who, group.slowest)->tid,
				   100 * ws_analysis_share(analysis, group.most),
				   ws_text_or(place.text, ""));
	ws_text_free(&place);
	finding->advice = ws_strdup("Share the work out in smaller pieces that free threads take "
				    "(a queue, dynamic scheduling), or in parts of equal cost.");
	finding->assumption = ws_strdup("each thread gets the same share");
	ws_finding_add_evidence(finding, "the longest wait at the barrier", NULL,
				group.longest.start, group.longest.end);
}

static void check_balance(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	check_barriers(analysis, findings);
	if (!ws_findings_have(findings, &ws_rule_imbalance))
		check_openmp(analysis, findings);
	if (!ws_findings_have(findings, &ws_rule_imbalance))
		check_crew(analysis, findings);
}

const struct ws_rule ws_rule_imbalance = {
	.name = "imbalance",
	.title = "Threads with unequal shares of the work",
	.about = "Threads wait at barriers for one that computes longer: equal shares would make "
		 "the run 5 % shorter or more. Or one of several worker threads, or worker "
		 "processes of one parent, works on when the others have ended or wait, and equal "
		 "shares would make the run 5 % shorter or more. Or threads of OpenMP spend 15 % "
		 "of their time on cores or more in its runtime, which waits by spinning, for each "
		 "other or for a part that one thread does alone.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_balance,
};
