/*
 * oversubscription.c - more threads want to run than there are cores, or than those on which the
 * program may run: a thread that waits for a core while others are never used is bound to some.
 */
#include <stdio.h>

#include "analyze/rules/rules.h"

/* The scheduler moves threads that wait to a free core within a fraction of a second. */
enum { MOST_CORES = 1024, LONG_NS = 1000000000 };
#define LONG_SHARE 0.8 /* of the window, in which several threads worked */
#define LEAST_WAIT 0.2 /* of the path, waiting for a core */
#define LEAST_USE 0.01 /* of all the time on cores: less is what starting takes */

static uint64_t count_busy_threads(const struct ws_analysis *analysis)
{
	uint64_t count = 0;

	for (uint32_t id = 1; id < analysis->model->thread_count; id++) {
		const struct ws_model_thread *thread = &analysis->model->threads[id];

		count += (thread->running + thread->runnable) * 4 > analysis->window;
	}
	return count;
}

/* Calls that bind threads to cores. */
struct binding {
	struct ws_code_place place; /* function 0: no such call was recorded */
	const char *call;
	uint64_t calls;
};

static bool binds_threads(const char *call)
{
	return !strcmp(call, "sched_setaffinity") || !strcmp(call, "pthread_setaffinity_np");
}

/* The calls by which the program bound itself; the place of the first. */
static struct binding find_binding(const struct ws_model *model)
{
	struct ws_cursor *cursor = ws_cursor_open(model->report, WS_TABLE_osrt, 0, model->to);
	struct binding binding = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t process =
			ws_find_thread(model->who, (uint32_t)values[ws_osrt_thread])->process;
		const char *call =
			ws_report_string(model->report, (uint32_t)values[ws_osrt_name], NULL);

		if (!ws_is_explained(model, process) || values[ws_osrt_result] ||
		    !binds_threads(call))
			continue;
		binding.calls++;
		if (values[ws_osrt_callchain] == WS_NO_U32 || binding.place.function)
			continue;
		binding.call = call;
		binding.place = ws_code_find_place(model, 0, (uint32_t)values[ws_osrt_callchain]);
	}
	ws_cursor_close(cursor);
	return binding;
}

/* How many cores the program's threads ran on, after the first quarter of the window: a program
 * starts before it is bound. 0 when not known. Reads what is only wanted where threads waited. */
static uint32_t count_cores_used(const struct ws_analysis *analysis, uint32_t *last)
{
	const struct ws_model *model = analysis->model;
	uint64_t from = model->from + (model->to - model->from) / 4;
	struct ws_cursor *cursor = ws_cursor_open(model->report, WS_TABLE_sched, from, model->to);
	uint64_t *on = ws_calloc(MOST_CORES, sizeof(*on)), all = 0;
	const uint64_t *values;
	uint32_t count = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = ws_max(values[ws_sched_start], from), end;
		uint32_t thread = (uint32_t)values[ws_sched_thread];

		end = ws_min(values[ws_sched_end], model->to);
		if (values[ws_sched_end] == WS_NO_TIME || end <= start ||
		    values[ws_sched_cpu] >= MOST_CORES ||
		    !ws_is_explained(model, ws_find_thread(model->who, thread)->process))
			continue;
		on[values[ws_sched_cpu]] += end - start;
		all += end - start;
	}
	ws_cursor_close(cursor);
	for (uint32_t i = 0; i < MOST_CORES; i++)
		if (on[i] > 0 && (double)on[i] >= LEAST_USE * (double)all) {
			count++;
			*last = i;
		}
	free(on);
	return count;
}

/* Whether the program bound itself, or was bound when it began: where other programs use all the
 * other cores, threads that are free to move stay on one, too. Imported reports do not say. */
static bool may_be_bound(const struct ws_analysis *analysis, const struct binding *binding)
{
	const char *allowed = ws_find_meta(analysis->model->report, "cpu.allowed");

	return binding->calls || !allowed || strtoul(allowed, NULL, 10) < analysis->cores;
}

/* ": pthread_setaffinity_np at bind_to_core (blur.c:16) binds ...". */
static void say_binding(const struct ws_analysis *analysis, const struct binding *found,
			struct ws_finding *finding)
{
	struct binding binding = *found;
	struct ws_text place = {0};
	char *title = finding->title;

	if (!binding.place.function) {
		finding->advice = ws_strdup(
			"Let it run on all cores: look for taskset, sched_setaffinity, "
			"pthread_setaffinity_np, "
			"numactl, OMP_PROC_BIND, a launcher's binding of ranks, or a container's "
			"cpuset.");
		return;
	}
	binding.place.leaf = binding.place.function;
	ws_put_at_place(analysis, &binding.place, &place);
	finding->title = ws_format("%s: it binds itself by %s%s (calls: %llu)", title, binding.call,
				   ws_text_or(place.text, ""), (unsigned long long)binding.calls);
	finding->advice = ws_strdup("Look at how the set of cores is computed there: give each "
				    "thread a core of its own, or leave out the binding, so that "
				    "the system chooses free ones.");
	ws_point_at(finding, &binding.place);
	ws_text_free(&place);
	free(title);
}

/* Threads wait for a core although the program never runs on some. */
static void check_affinity(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t waiting = analysis->breakdown.by_cause[WS_CAUSE_CORE];
	uint64_t busy = count_busy_threads(analysis);
	char which[32] = "these";
	uint32_t core = 0, used, useful = (uint32_t)ws_min(busy, (uint64_t)analysis->cores);
	struct ws_finding *finding;
	struct binding binding;

	if (busy < 2 || analysis->cores < 2 || analysis->parallel.together_ns < LONG_NS ||
	    ws_analysis_part(analysis, analysis->parallel.together_ns) < LONG_SHARE ||
	    ws_analysis_part(analysis, waiting) < LEAST_WAIT)
		return;
	used = count_cores_used(analysis, &core);
	if (!used || used >= useful)
		return;
	binding = find_binding(analysis->model);
	if (!may_be_bound(analysis, &binding))
		return;
	finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_oversubscription, waiting,
		ws_min(waiting, analysis->window - analysis->window * used / useful));
	/* Which cores each thread may use is not recorded: it is inferred from where they ran. */
	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	if (used == 1)
		snprintf(which, sizeof(which), "one core (core %u)", core);
	finding->title = ws_format(
		"%llu threads share %u of %u cores: the program is bound to %s, and each waits for "
		"a core for %.0f %% of the time",
		(unsigned long long)busy, used, analysis->cores, which,
		100 * ws_analysis_part(analysis, waiting));
	say_binding(analysis, &binding, finding);
	finding->assumption = ws_strdup("the other cores are free");
	finding->next = ws_strdup("warpsight stats -r sched_sum REPORT");
}

static void check_demand(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t waiting = analysis->breakdown.by_cause[WS_CAUSE_CORE];
	uint64_t busy = count_busy_threads(analysis);
	struct ws_finding *finding;

	check_affinity(analysis, findings);
	if (ws_findings_have(findings, &ws_rule_oversubscription))
		return;
	if (!analysis->cores || analysis->demand < 1.5 * analysis->cores ||
	    busy < 2 * (uint64_t)analysis->cores || ws_analysis_share(analysis, waiting) < 0.1)
		return;
	/* The work is the same with fewer threads: the gain is the cost of switching and of lost
	 * caches. */
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_oversubscription, waiting,
					analysis->rated / 10);
	if (busy < 3 * (uint64_t)analysis->cores)
		finding->level = WS_LEVEL_NOTE;
	finding->title = ws_format("%llu threads compute at the same time on %u cores: each waits "
				   "for a core for %.0f %% of the time",
				   (unsigned long long)busy, analysis->cores,
				   100 * ws_analysis_share(analysis, waiting));
	finding->advice = ws_strdup("Use as many threads as there are cores (OMP_NUM_THREADS, "
				    "torch.set_num_threads, num_workers, make -j).");
	finding->assumption = ws_strdup("switching between threads costs a tenth");
	finding->next = ws_strdup("warpsight stats -r sched_sum REPORT");
}

const struct ws_rule ws_rule_oversubscription = {
	.name = "oversubscription",
	.title = "More threads than cores",
	.about =
		"Twice as many threads as cores or more want to run for a quarter of the time "
		"each, together half as much again as there are cores, and waiting for one is 10 "
		"% of the critical path or more. A note below three times as many. Threads that "
		"wait for 20 % of the path, and work at the same time for a second and most of the "
		"run, while the program never runs on some of the cores, are bound to the "
		"others, if the program was started with fewer cores or has bound itself.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_demand,
};
