/* page_faults.c - memory that is taken from the system and given back again and again. */
#include "analyze/java.h"
#include "analyze/rules/rules.h"
#include "analyze/works.h"

#define LEAST_SHARE 0.2
#define LEAST_MAPPING 0.03
#define LEAST_IN_PYTHON 0.4
enum { SHORT_RUN_NS = 100000000 /* starting costs page faults too */ };

enum { MOST_TOTALS = 64 };

/* Faults of new memory, and the calls that allocate, free and protect it. */
struct memory_use {
	uint64_t ns, mapping_ns;
	struct ws_usage_row worst; /* the user's function with most of this time */
	struct ws_usage_row call;  /* the call with most of it */
};

static void sum_memory(const struct ws_analysis *analysis, struct memory_use *use)
{
	struct ws_usage_total totals[MOST_TOTALS];
	size_t count = ws_total_usage(analysis, 1u << WS_USAGE_FAULT | 1u << WS_USAGE_MEMORY,
				      totals, MOST_TOTALS);

	*use = (struct memory_use){0};
	for (size_t i = 0; i < count; i++) {
		const struct ws_usage_row *row = &totals[i].row;

		use->ns += row->path_ns;
		if (row->path_ns > use->worst.path_ns)
			use->worst = *row;
		if (row->kind != WS_USAGE_MEMORY)
			continue;
		use->mapping_ns += row->path_ns;
		if (row->path_ns > use->call.path_ns)
			use->call = *row;
	}
}

static bool is_call_most(const struct memory_use *use)
{
	return use->call.path_ns > use->ns / 2;
}

/* The calls themselves take most of the time: mprotect, above all. */
static char *say_calls(const struct ws_analysis *analysis, const struct memory_use *use)
{
	struct ws_text place = {0};
	char *title;

	ws_put_at_place(analysis, &use->call.place, &place);
	title = ws_format("%.0f %% of the time goes into mapping memory and page faults, most of "
			  "it into %s%s",
			  100 * ws_analysis_share(analysis, use->ns), use->call.name,
			  ws_text_or(place.text, ""));
	ws_text_free(&place);
	return title;
}

static char *say_faults(const struct ws_analysis *analysis, const struct memory_use *use)
{
	struct ws_text place = {0}, giver = {0};
	char *title;

	ws_put_at_place(analysis, &use->worst.place, &place);
	if (use->call.path_ns >= use->ns / 100 &&
	    use->call.place.function != use->worst.place.function) {
		ws_text_printf(&giver, " (given back by %s", use->call.name);
		ws_put_at_place(analysis, &use->call.place, &giver);
		ws_text_puts(&giver, ")");
	}
	title = ws_format("%.0f %% of the time goes into page faults and giving pages back%s%s",
			  100 * ws_analysis_share(analysis, use->ns), ws_text_or(place.text, ""),
			  ws_text_or(giver.text, ""));
	ws_text_free(&place);
	ws_text_free(&giver);
	return title;
}

static const char *choose_advice(const struct ws_analysis *analysis, const struct memory_use *use)
{
	if (ws_is_java(analysis->model))
		return "The heap grows, or is given back and grows again: make fewer objects "
		       "(int[] and long[] instead of lists of Integer and Long, one StringBuilder, "
		       "arrays that are used again), or give it its size at once (-Xms, "
		       "-XX:+AlwaysPreTouch).";
	if (is_call_most(use) && strstr(use->call.name, "mprotect"))
		return "Change the protection of many pages at once, or leave the memory writable: "
		       "each call changes the page tables, and all cores forget what they know of "
		       "them.";
	return "Keep large buffers and use them again instead of allocating them each time "
	       "(mallopt M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, another allocator), or use huge "
	       "pages.";
}

/* Work that is named instead, such as joining strings. What allocates does nothing else. */
static bool is_named_work(uint8_t work)
{
	return work != WS_WORK_NONE && !ws_get_work_kind(work)->is_usual &&
	       !ws_get_work_kind(work)->is_allocating;
}

/* Whether the faults of a function are part of work that it asks for. */
static bool is_part_of_work(const struct ws_analysis *analysis, uint32_t function, uint64_t ns)
{
	uint64_t sums[UINT8_MAX + 1] = {0};
	uint8_t most = WS_WORK_NONE;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->place.function != function || !is_named_work(row->place.work))
			continue;
		sums[row->place.work] += row->ns;
		if (sums[row->place.work] > sums[most])
			most = row->place.work;
	}
	sums[most] = 0;
	for (size_t i = 0; i < analysis->breakdown.count; i++)
		if (most && analysis->breakdown.rows[i].place.work == most)
			sums[most] += analysis->breakdown.rows[i].ns;
	return sums[most] > ns;
}

static bool is_usual_in_python(const struct ws_analysis *analysis,
			       const struct ws_code_place *place, uint64_t ns)
{
	return place->python && ws_analysis_share(analysis, ns) < LEAST_IN_PYTHON;
}

static void check_faults(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage_row *row;
	struct ws_finding *finding;
	struct memory_use use;

	sum_memory(analysis, &use);
	if (!use.ns || ws_analysis_share(analysis, use.ns) < LEAST_SHARE ||
	    analysis->rated < SHORT_RUN_NS ||
	    ws_findings_mention(findings, &ws_rule_script_work) ||  /* its values */
	    ws_findings_have(findings, &ws_rule_pageable_copies) || /* then it is the driver's */
	    ws_findings_have(findings, &ws_rule_page_migration))
		return;
	row = is_call_most(&use) ? &use.call : &use.worst;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_page_faults, use.ns,
					use.ns - use.ns / 5);
	ws_limit_to_asked(analysis, finding, &row->place);
	/* Memory that is never freed must be touched once anyway, and the interpreter of Python
	 * gives that of small objects back and takes it again by itself. */
	if (is_usual_in_python(analysis, &row->place, use.ns) ||
	    (double)use.mapping_ns < LEAST_MAPPING * (double)use.ns ||
	    is_part_of_work(analysis, row->place.function, use.ns) ||
	    (!row->place.users && ws_is_interpreters_thread(analysis, row->thread)))
		finding->level = WS_LEVEL_NOTE;
	if (is_call_most(&use))
		finding->title = say_calls(analysis, &use);
	else
		finding->title = say_faults(analysis, &use);
	finding->advice = ws_strdup(choose_advice(analysis, &use));
	finding->assumption = ws_strdup("memory is used again");
	ws_finding_add_evidence(finding, "from the first sample of it to the last", NULL,
				row->span.start, row->span.end);
}

const struct ws_rule ws_rule_page_faults = {
	.name = "page-faults",
	.title = "Memory taken and given back again and again",
	.about = "In a run of 100 ms or more, 20 % of the critical path or more is the kernel's "
		 "handling of page faults and of memory that is given back, mapped or protected. A "
		 "note where hardly "
		 "any is given back, since each page is touched for the first time then, and below "
		 "40 % in code of Python, which takes and gives back the memory of small objects "
		 "by itself.",
	.find_obstacle = ws_need_kernel_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_faults,
};
