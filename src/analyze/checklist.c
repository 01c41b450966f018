/*
 * checklist.c - see checklist.h. What the rules found answers the five points; the sums that the
 * analysis has made answer the self-checks.
 */
#include "analyze/checklist.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/rules/rules.h"
#include "base/choose.h"

#define GOOD_USE 0.8	       /* of a GPU's time */
#define MUCH_COMMUNICATION 0.2 /* of computation and communication */
#define GOOD_OVERLAP 0.7       /* of copies and communication */
#define MUCH_UNKNOWN 0.2       /* of the critical path */
enum { FEW_STEPS = 5, KERNELS_NAMED = 3 };

const char *ws_name_verdict(enum ws_verdict verdict)
{
	static const char *const names[] = {[WS_VERDICT_OK] = "ok",
					    [WS_VERDICT_LOOK] = "look",
					    [WS_VERDICT_UNKNOWN] = "cannot tell",
					    [WS_VERDICT_NONE] = "does not apply"};

	return names[verdict];
}

struct asking {
	const struct ws_analysis *analysis;
	const struct ws_findings *findings;
	struct ws_check *check;
};

/* Takes ownership of `answer`. */
static void give_answer(const struct asking *asking, enum ws_verdict verdict, char *answer)
{
	asking->check->verdict = verdict;
	asking->check->answer = answer;
}

static double take_percent(const struct ws_analysis *analysis, uint64_t ns)
{
	return 100 * ws_analysis_part(analysis, ns);
}

/* ---- the five points ---- */

/*
 * The costliest finding of some rules, ended by NULL, that is not a healthy case; NULL when none.
 */
static const struct ws_finding *find_fault(const struct ws_findings *findings,
					   const struct ws_rule *const *rules)
{
	for (size_t i = 0; i < findings->count; i++)
		for (const struct ws_rule *const *rule = rules; *rule; rule++)
			if (findings->findings[i].rule == *rule &&
			    findings->findings[i].level > WS_LEVEL_OK)
				return &findings->findings[i];
	return NULL;
}

static void answer_by_rules(const struct asking *asking, const struct ws_rule *const *rules,
			    char *healthy)
{
	const struct ws_finding *fault = find_fault(asking->findings, rules);

	if (!fault) {
		give_answer(asking, WS_VERDICT_OK, healthy);
		return;
	}
	free(healthy);
	give_answer(asking, WS_VERDICT_LOOK, ws_format("%s: %s", fault->rule->name, fault->title));
}

static size_t find_busiest_gpu(const struct ws_analysis *analysis)
{
	size_t best = 0;

	for (size_t i = 1; i < analysis->model->work.gpus; i++)
		if (analysis->gpus[i].idle_total < analysis->gpus[best].idle_total)
			best = i;
	return best;
}

/* The cause with the most time; WS_CAUSES when there is none. */
static enum ws_cause find_main_cause(const struct ws_breakdown *breakdown)
{
	enum ws_cause best = WS_CAUSES;
	uint64_t most = 0;

	for (int cause = 0; cause < WS_CAUSES; cause++)
		if (breakdown->by_cause[cause] > most) {
			most = breakdown->by_cause[cause];
			best = (enum ws_cause)cause;
		}
	return best;
}

static void ask_use(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	const struct ws_gpu_budget *budget = &analysis->gpus[find_busiest_gpu(analysis)];
	uint64_t busy = analysis->window - ws_min(analysis->window, budget->idle_total);
	enum ws_cause cause = find_main_cause(&budget->idle);

	if (ws_analysis_part(analysis, busy) >= GOOD_USE)
		give_answer(asking, WS_VERDICT_OK,
			    ws_format("busy %.0f %% of the time", take_percent(analysis, busy)));
	else
		give_answer(asking, WS_VERDICT_LOOK,
			    ws_format("busy only %.0f %% of the time; idle mostly for: %s",
				      take_percent(analysis, busy),
				      cause < WS_CAUSES ? ws_name_cause(cause) : "no reason"));
}

static void ask_data(const struct asking *asking)
{
	static const struct ws_rule *const rules[] = {&ws_rule_data_loading, &ws_rule_page_cache,
						      &ws_rule_blocking_io, &ws_rule_small_io,
						      NULL};

	answer_by_rules(asking, rules, ws_strdup("nothing waits for data"));
}

static uint64_t sum_copies(const struct ws_analysis *analysis, uint64_t *count)
{
	uint64_t ns = 0;

	*count = 0;
	for (int direction = 0; direction < WS_DIRECTIONS; direction++)
		for (int pageable = 0; pageable < 2; pageable++) {
			ns += analysis->facts.copies[direction][pageable].ns;
			*count += analysis->facts.copies[direction][pageable].count;
		}
	return ns;
}

static void ask_copies(const struct asking *asking)
{
	static const struct ws_rule *const rules[] = {&ws_rule_pageable_copies,
						      &ws_rule_tiny_copies, &ws_rule_copy_overlap,
						      &ws_rule_page_migration, NULL};
	uint64_t count, ns = sum_copies(asking->analysis, &count);

	answer_by_rules(asking, rules,
			ws_format("%llu copies, %.1f %% of the time, and none of them holds it up",
				  (unsigned long long)count, take_percent(asking->analysis, ns)));
}

static void ask_launches(const struct asking *asking)
{
	static const struct ws_rule *const rules[] = {
		&ws_rule_blocking_launches, &ws_rule_sync_calls,  &ws_rule_launch_bound,
		&ws_rule_allocation_churn,  &ws_rule_compilation, &ws_rule_one_feeder,
		&ws_rule_gpu_starved,	    &ws_rule_gil,	  NULL};

	answer_by_rules(asking, rules,
			ws_format("%.0f kernels a step; neither launches nor waits hold the GPU up",
				  (double)asking->analysis->facts.kernel_instances /
					  (double)asking->analysis->steps));
}

static void ask_kernels(const struct asking *asking)
{
	static const struct ws_rule *const rules[] = {
		&ws_rule_small_grid,	    &ws_rule_serial_streams,	    &ws_rule_low_occupancy,
		&ws_rule_tail_waves,	    &ws_rule_exposed_communication, &ws_rule_late_rank,
		&ws_rule_small_collectives, &ws_rule_tensor_cores,	    NULL};

	answer_by_rules(asking, rules, ws_strdup("nothing of theirs is known to be wasted"));
}

/* ---- the eight self-checks ---- */

static void ask_recording(const struct asking *asking)
{
	const struct ws_model *model = asking->analysis->model;
	struct ws_text text = {0};
	enum ws_verdict verdict = WS_VERDICT_OK;

	ws_text_printf(&text, "samples: %s; context switches: %s; work on GPUs: %s",
		       model->has_samples ? "yes" : "no", model->has_scheduling ? "yes" : "no",
		       model->has_cuda ? "yes" : "no");
	if (!model->has_samples || !model->has_scheduling) {
		verdict = WS_VERDICT_LOOK;
		ws_text_printf(&text, "; %zu rules could not look",
			       asking->findings->unlooked_count);
	}
	give_answer(asking, verdict, text.text);
}

static void ask_bubbles(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	const struct ws_breakdown *breakdown = &analysis->breakdown;
	const char *whose = "the critical path is mostly";
	enum ws_verdict verdict = WS_VERDICT_OK;
	uint64_t all = analysis->window, unknown;
	enum ws_cause cause;

	if (analysis->model->has_cuda) {
		breakdown = &analysis->gpus[find_busiest_gpu(analysis)].idle;
		all = analysis->gpus[find_busiest_gpu(analysis)].idle_total;
		whose = "the GPU's idle time is mostly";
	}
	cause = find_main_cause(breakdown);
	unknown = breakdown->by_cause[WS_CAUSE_UNKNOWN];
	if (cause == WS_CAUSES || !all) {
		give_answer(asking, WS_VERDICT_OK, ws_strdup("there is none"));
		return;
	}
	if ((double)unknown > MUCH_UNKNOWN * (double)all)
		verdict = WS_VERDICT_LOOK;
	give_answer(asking, verdict,
		    ws_format("%s: %s (%.0f %% of it; not recorded: %.0f %%)", whose,
			      ws_name_cause(cause),
			      100.0 * (double)breakdown->by_cause[cause] / (double)all,
			      100.0 * (double)unknown / (double)all));
}

static void ask_annotation(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;

	switch (analysis->model->step_source) {
	case WS_STEPS_MARKED:
		give_answer(asking, WS_VERDICT_OK,
			    ws_format("%zu steps are marked", analysis->steps));
		break;
	case WS_STEPS_REPEATED:
		give_answer(asking, WS_VERDICT_LOOK,
			    ws_format("no steps are marked; %zu were found by their kernels",
				      analysis->steps));
		break;
	default:
		give_answer(asking, analysis->model->has_cuda ? WS_VERDICT_LOOK : WS_VERDICT_NONE,
			    ws_strdup("no steps are marked: the run is looked at as a whole"));
	}
}

static uint64_t sum_communication(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	uint64_t sum = 0;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			uint64_t start = ws_max(op->start, model->from),
				 end = ws_min(op->end, model->to);

			if (op->class == WS_WORK_COMM && end > start)
				sum += end - start;
		}
	return sum;
}

static void ask_overlap(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	uint64_t hidden = 0, exposed = 0;
	enum ws_verdict verdict = WS_VERDICT_LOOK;

	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		hidden += analysis->gpus[i].overlapped;
		exposed += analysis->gpus[i].exposed_comm + analysis->gpus[i].exposed_copies;
	}
	if (!(hidden + exposed)) {
		give_answer(asking, WS_VERDICT_NONE, ws_strdup("nothing is copied or sent"));
		return;
	}
	if ((double)hidden >= GOOD_OVERLAP * (double)(hidden + exposed) ||
	    ws_analysis_part(analysis, exposed) < 1 - GOOD_USE)
		verdict = WS_VERDICT_OK;
	give_answer(asking, verdict,
		    ws_format("computation hides %.0f %% of copies and communication; the rest "
			      "takes %.1f %% of the time",
			      100.0 * (double)hidden / (double)(hidden + exposed),
			      take_percent(analysis, exposed)));
}

static void ask_communication(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	uint64_t communication = sum_communication(analysis), computation = 0;
	double share;

	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		computation += analysis->gpus[i].compute;
	if (!communication) {
		give_answer(asking, WS_VERDICT_NONE, ws_strdup("no collectives ran"));
		return;
	}
	share = (double)communication / (double)(communication + computation);
	give_answer(asking, share > MUCH_COMMUNICATION ? WS_VERDICT_LOOK : WS_VERDICT_OK,
		    ws_format("communication is %.0f %% of computation and communication",
			      100 * share));
}

/* The functions in which most samples were taken, each once. */
static void name_functions(const struct ws_analysis *analysis, struct ws_text *text)
{
	const struct ws_usage *usage = &analysis->usage;
	uint32_t named[KERNELS_NAMED];
	size_t count = 0;

	for (size_t i = 0; i < usage->count && count < KERNELS_NAMED; i++) {
		size_t k = 0;

		while (k < count && named[k] != usage->rows[i].place.function)
			k++;
		if (k < count || !usage->rows[i].place.leaf)
			continue;
		ws_text_puts(text, count ? ", " : "of the time on cores: ");
		ws_code_put_place(analysis->model, &usage->rows[i].place, text);
		named[count++] = usage->rows[i].place.function;
	}
}

static void ask_ranking(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	const struct ws_facts *facts = &analysis->facts;
	struct ws_text text = {0};

	for (size_t i = 0; i < facts->kernel_count && i < KERNELS_NAMED; i++)
		ws_text_printf(&text, "%s%.60s %.0f %%", i ? ", " : "of the kernels' time: ",
			       ws_report_string(analysis->model->report, facts->kernels[i].name,
						NULL),
			       100.0 * (double)facts->kernels[i].ns /
				       (double)ws_max(facts->kernel_ns, (uint64_t)1));
	if (!facts->kernel_count)
		name_functions(analysis, &text);
	if (!text.len) {
		give_answer(asking, WS_VERDICT_UNKNOWN,
			    ws_strdup("neither kernels nor samples were recorded"));
		return;
	}
	give_answer(asking, WS_VERDICT_OK, text.text);
}

static void ask_kernel(const struct asking *asking)
{
	static const struct ws_rule *const rules[] = {&ws_rule_hot_kernel, NULL};
	const struct ws_finding *hot = find_fault(asking->findings, rules);

	if (hot)
		give_answer(asking, WS_VERDICT_OK, ws_strdup(hot->title));
	else
		give_answer(asking, WS_VERDICT_NONE,
			    ws_strdup("no single kernel takes a fifth of the time"));
}

static void ask_range(const struct asking *asking)
{
	const struct ws_analysis *analysis = asking->analysis;
	const struct ws_model *model = analysis->model;

	if (model->step_source == WS_STEPS_NONE)
		give_answer(asking, model->has_cuda ? WS_VERDICT_LOOK : WS_VERDICT_NONE,
			    ws_format("%.3g s as a whole, what the program begins with included",
				      (double)analysis->window / 1e9));
	else
		give_answer(asking, analysis->steps < FEW_STEPS ? WS_VERDICT_LOOK : WS_VERDICT_OK,
			    ws_format("%zu steps count, %zu before them are left out as warm-up",
				      analysis->steps, model->first_step));
}

/* ---- the list ---- */

static const struct {
	const char *question, *next;
	void (*ask)(const struct asking *asking);
	bool gpu; /* only for programs that use one */
} questions[WS_CHECKS] = {
	{"Is the GPU kept busy?", "warpsight stats -r gpu_idle_causes REPORT", ask_use, true},
	{"Do data come in time?", "warpsight stats -r osrt_sum REPORT", ask_data, false},
	{"Are copies pinned, large and hidden?", "warpsight stats -r cuda_gpu_mem_size_sum REPORT",
	 ask_copies, true},
	{"Does the CPU run ahead of the GPU?", "warpsight stats -r cuda_kern_exec_sum REPORT",
	 ask_launches, true},
	{"Do kernels and communication use the GPUs well?",
	 "warpsight stats -r cuda_gpu_kern_sum REPORT", ask_kernels, true},
	{"Was recorded what is needed?", "warpsight info REPORT", ask_recording, false},
	{"Where are the bubbles, and what causes them?", "warpsight view REPORT", ask_bubbles,
	 false},
	{"Are the steps marked?", "warpsight stats -r nvtx_sum REPORT", ask_annotation, false},
	{"How much of copies and communication is hidden?", "warpsight view REPORT", ask_overlap,
	 true},
	{"What share has communication?", "warpsight stats -r cuda_gpu_kern_sum REPORT",
	 ask_communication, true},
	{"What takes most of the time?", NULL, ask_ranking, false},
	{"Which kernel to look at next?", "warpsight stats -r cuda_gpu_kern_sum REPORT", ask_kernel,
	 true},
	{"Is the range that is looked at the right one?", "warpsight help profile", ask_range,
	 false},
};

void ws_checklist_make(const struct ws_analysis *analysis, const struct ws_findings *findings,
		       struct ws_checklist *list)
{
	for (size_t i = 0; i < WS_CHECKS; i++) {
		struct ws_check *check = &list->checks[i];
		struct asking asking = {analysis, findings, check};

		*check = (struct ws_check){.question = questions[i].question,
					   .next = questions[i].next};
		if (questions[i].gpu && !analysis->model->has_cuda)
			give_answer(&asking, WS_VERDICT_NONE,
				    ws_strdup("no work on GPUs was recorded"));
		else
			questions[i].ask(&asking);
	}
}

void ws_checklist_free(struct ws_checklist *list)
{
	for (size_t i = 0; i < WS_CHECKS; i++)
		free(list->checks[i].answer);
}
