/*
 * serial_section.c - a part of a parallel program runs on one thread.
 *
 * Amdahl's law: what one thread does alone takes the same time however many cores there are.
 */
#include "analyze/go.h"
#include "analyze/rules/rules.h"
#include "analyze/works.h"
#include "query/intervals.h"

#define LEAST_TOGETHER 0.08
#define LEAST_ALONE 0.2
enum { LEAST_NS = 100000000 /* interpreters start on one thread too */ };

/* The lone thread's share of the time that the work would take on cores of its own. Waits and other
 * programs do not count, because they do not depend on how the work is divided. */
static double measure_share(const struct ws_analysis *analysis, uint64_t cores)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	uint64_t shared = parallel->running - ws_min(parallel->running, parallel->alone_ns);
	uint64_t all = parallel->alone_ns + shared / ws_min(cores, ws_max(parallel->threads, 1ul));

	return (double)parallel->lone_ns / (double)ws_max(all, 1ul);
}

/* Whether the lone thread only starts the program: it imports modules. */
static bool is_start(const struct ws_parallel *parallel)
{
	return parallel->place.work != WS_WORK_NONE &&
	       ws_get_work_kind(parallel->place.work)->is_start;
}

/* Whether the lone thread works in a parallel region of OpenMP: others have done their shares of
 * it, or wait for a core on a busy machine. */
static bool is_in_region(const struct ws_analysis *analysis, const struct ws_parallel *parallel)
{
	const char *name =
		ws_stacks_get_function(analysis->model->stacks, parallel->place.function)->name;

	return strstr(name, "._omp_fn.") || strstr(name, "omp_outlined");
}

/* The threads that the process started. */
struct sequence {
	uint64_t count, running;
	uint64_t alive, any_alive; /* ns: the sum of all; with at least one */
};

static struct sequence measure_sequence(const struct ws_model *model)
{
	struct sequence sequence = {0};
	struct ws_spans spans = {0};

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		const struct ws_thread_info *info = ws_find_thread(model->who, id);
		uint64_t start, end;

		if (info->process != model->process || info->tid == info->pid || !thread->running)
			continue;
		start = thread->states[0].start;
		end = thread->states[thread->count - 1].end;
		sequence.count++;
		sequence.running += thread->running;
		sequence.alive += end - start;
		ws_spans_add(&spans, start, end);
	}
	ws_spans_merge(&spans);
	for (size_t i = 0; i < spans.count; i++)
		sequence.any_alive += spans.spans[i].end - spans.spans[i].start;
	ws_spans_free(&spans);
	return sequence;
}

/* Threads that are started and waited for one by one. The end of one may overlap with the start of
 * the next, since who waits for it is told just before. */
static void check_sequence(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	enum { LEAST_THREADS = 3 };
	const struct ws_parallel *parallel = &analysis->parallel;
	struct sequence sequence = measure_sequence(analysis->model);
	struct ws_code_place waits;
	struct ws_finding *finding;
	struct ws_text place = {0};
	uint64_t most;

	if (sequence.count < LEAST_THREADS ||
	    sequence.alive > sequence.any_alive + sequence.any_alive / 10 || analysis->cores < 2 ||
	    analysis->model->has_cuda ||
	    ws_analysis_part(analysis, parallel->together_ns) > LEAST_TOGETHER ||
	    ws_analysis_share(analysis, sequence.running) < LEAST_ALONE ||
	    ws_findings_have(findings, &ws_rule_thread_churn))
		return;
	waits = ws_find_wait_place(analysis);
	if (!waits.users)
		waits = parallel->place;
	ws_put_at_place(analysis, &waits, &place);
	most = ws_min((uint64_t)analysis->cores, sequence.count);
	finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_serial_section, sequence.running,
				      sequence.running - sequence.running / most);
	ws_limit_to_users(analysis, finding, &waits);
	finding->title =
		ws_format("%llu threads run one after the other: each is waited for before the "
			  "next is started%s",
			  (unsigned long long)sequence.count, ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Start all of them first, and wait for them afterwards (join "
				    "in a loop of its own). Keep the futures that std::async "
				    "returns until all are started: the destructor of one waits.");
	finding->assumption = ws_strdup("they run side by side");
	ws_text_free(&place);
}

static void check_section(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	uint64_t cores = ws_max(analysis->cores, 2u), alone = parallel->lone_ns;
	struct ws_finding *finding;
	struct ws_text place = {0}, thread = {0};

	check_sequence(analysis, findings);
	/* Workers that load data only do their job. */
	if (analysis->model->has_cuda || analysis->facts.loader_workers ||
	    parallel->lone != analysis->model->thread ||
	    ws_analysis_part(analysis, parallel->together_ns) < LEAST_TOGETHER ||
	    measure_share(analysis, cores) < LEAST_ALONE ||
	    ws_analysis_share(analysis, alone) < 0.05 || alone < LEAST_NS ||
	    (analysis->model->has_samples && !parallel->place.leaf) || is_start(parallel) ||
	    parallel->place.library == WS_LIBRARY_LOOP || /* one thread by design */
	    is_in_region(analysis, parallel) ||
	    (!parallel->place.users && ws_is_interpreters_thread(analysis, parallel->lone)) ||
	    ws_findings_have(findings, &ws_rule_gil) ||
	    ws_findings_have(findings, &ws_rule_thread_churn) ||
	    ws_findings_have(findings, &ws_rule_busy_waiting) ||
	    ws_findings_have(findings, &ws_rule_imbalance) ||
	    ws_findings_have(findings, &ws_rule_lock_contention) ||
	    ws_findings_have(findings, &ws_rule_handovers) ||
	    ws_findings_have(findings, &ws_rule_round_trips) ||
	    ws_findings_have(findings, &ws_rule_child_processes) ||
	    ws_does_script_work(analysis, parallel->lone, findings) ||
	    ws_is_lone_goroutine(analysis->model))
		return;
	ws_put_at_place(analysis, &parallel->place, &place);
	ws_put_thread(analysis, parallel->lone, &thread);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_serial_section, alone,
					alone - alone / cores);
	ws_limit_to_users(analysis, finding, &parallel->place);
	finding->title = ws_format("For %.0f %% of the time only thread %s works, mostly%s, while "
				   "the others have ended or wait",
				   100 * ws_analysis_share(analysis, alone), thread.text,
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Share this part out as well, do it while the others still "
				    "work, or make it cheaper: it takes the same time on any "
				    "number of cores.");
	finding->assumption =
		ws_format("it is shared out among %llu cores", (unsigned long long)cores);
	ws_finding_add_evidence(finding, "its longest stretch alone", NULL, parallel->longest.start,
				parallel->longest.end);
	ws_text_free(&place);
	ws_text_free(&thread);
}

const struct ws_rule ws_rule_serial_section = {
	.name = "serial-section",
	.title = "A part of a parallel program that runs on one thread",
	.about = "Two threads or more work at the same time for 8 % of the run or more, and 20 "
		 "% or more of the work, as it would be on cores of its own, is the main thread's "
		 "alone, for 100 ms at least, other than importing modules. Where another thread "
		 "works alone, imbalance says so. Or three threads or more work for 20 % of the "
		 "run, and hardly ever two of them at once.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_section,
};
