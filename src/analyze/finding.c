/* finding.c - see finding.h. */
#include "analyze/finding.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/analysis.h"
#include "analyze/proofs.h"
#include "base/choose.h"

#define RULE(name) extern const struct ws_rule ws_rule_##name;
#include "analyze/rules.def"

const struct ws_rule *const ws_rules[] = {
#define RULE(name) &ws_rule_##name,
#include "analyze/rules.def"
	NULL,
};

const char *ws_name_level(enum ws_finding_level level)
{
	static const char *const names[] = {[WS_LEVEL_OK] = "ok",
					    [WS_LEVEL_NOTE] = "note",
					    [WS_LEVEL_WARNING] = "warning",
					    [WS_LEVEL_CRITICAL] = "critical"};

	return names[level];
}

const struct ws_rule *ws_find_rule(const char *name)
{
	for (size_t i = 0; ws_rules[i]; i++)
		if (!strcmp(ws_rules[i]->name, name))
			return ws_rules[i];
	return NULL;
}

struct ws_finding *ws_findings_add(struct ws_findings *findings, const struct ws_rule *rule)
{
	struct ws_finding *finding;

	ws_grow(findings->findings, findings->cap, findings->count + 1);
	finding = &findings->findings[findings->count++];
	memset(finding, 0, sizeof(*finding));
	finding->rule = rule;
	finding->level = WS_LEVEL_NOTE;
	finding->number = 1;
	for (size_t i = 0; i + 1 < findings->count; i++)
		finding->number += findings->findings[i].rule == rule;
	return finding;
}

static bool have_level(const struct ws_findings *findings, const struct ws_rule *rule,
		       enum ws_finding_level least)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].rule == rule && findings->findings[i].level >= least)
			return true;
	return false;
}

bool ws_findings_have(const struct ws_findings *findings, const struct ws_rule *rule)
{
	return have_level(findings, rule, WS_LEVEL_WARNING);
}

bool ws_findings_mention(const struct ws_findings *findings, const struct ws_rule *rule)
{
	return have_level(findings, rule, WS_LEVEL_NOTE);
}

struct ws_finding *ws_findings_add_fault(const struct ws_analysis *analysis,
					 struct ws_findings *findings, const struct ws_rule *rule,
					 uint64_t cost_ns, uint64_t gain_ns)
{
	struct ws_finding *finding = ws_findings_add(findings, rule);

	finding->cost_ns = ws_min(cost_ns, analysis->window);
	finding->gain_ns = ws_min(gain_ns, analysis->window);
	finding->level = ws_rate_gain(analysis, finding->gain_ns);
	return finding;
}

void ws_finding_add_evidence(struct ws_finding *finding, const char *text, const char *query,
			     uint64_t start, uint64_t end)
{
	struct ws_evidence *evidence;

	ws_grow(finding->evidence, finding->evidence_cap, finding->evidence_count + 1);
	evidence = &finding->evidence[finding->evidence_count++];
	*evidence = (struct ws_evidence){.text = ws_strdup(text), .start = start, .end = end};
	if (query)
		evidence->query = ws_strdup(query);
}

enum ws_finding_level ws_rate_gain(const struct ws_analysis *analysis, uint64_t gain_ns)
{
	double share = ws_analysis_share(analysis, gain_ns);

	if (share >= WS_CRITICAL_SHARE)
		return WS_LEVEL_CRITICAL;
	if (share >= WS_WARNING_SHARE)
		return WS_LEVEL_WARNING;
	return WS_LEVEL_NOTE;
}

static bool is_wanted(const struct ws_rule *rule, const char *const *rules)
{
	if (!rules)
		return true;
	for (; *rules; rules++)
		if (!strcmp(rule->name, *rules))
			return true;
	return false;
}

static void note_obstacle(struct ws_findings *findings, const struct ws_rule *rule, const char *why)
{
	ws_grow(findings->unlooked, findings->unlooked_cap, findings->unlooked_count + 1);
	findings->unlooked[findings->unlooked_count].rule = rule;
	findings->unlooked[findings->unlooked_count++].why = ws_strdup(why);
}

/* Critical faults before others, before those of the program's start, before notes, before notes
 * about its start, before healthy cases. */
static int rank_finding(const struct ws_finding *finding)
{
	int level = finding->start_up ? ws_min((int)finding->level, (int)WS_LEVEL_WARNING)
				      : (int)finding->level;

	return 2 * level - finding->start_up;
}

/* By rank, then by gain, then by cost. */
static int compare_findings(const void *first, const void *second)
{
	const struct ws_finding *left = first, *right = second;

	if (rank_finding(left) != rank_finding(right))
		return ws_compare(rank_finding(right), rank_finding(left));
	if (left->gain_ns != right->gain_ns)
		return ws_compare(right->gain_ns, left->gain_ns);
	if (left->cost_ns != right->cost_ns)
		return ws_compare(right->cost_ns, left->cost_ns);
	return strcmp(left->title, right->title);
}

static bool has_query(const struct ws_finding *finding)
{
	for (size_t i = 0; i < finding->evidence_count; i++)
		if (finding->evidence[i].query)
			return true;
	return false;
}

/* Every finding has a query that shows its rows: one of its own, or that of its rule. Both are
 * about the window, whose times are filled in. */
static void add_proof(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	int64_t zero = (int64_t)ws_find_time_zero(analysis->model->report),
		from = (int64_t)analysis->model->from - zero,
		to = (int64_t)analysis->model->to - zero;

	if (!has_query(finding) && finding->rule->query)
		ws_finding_add_evidence(finding, "the rows behind it", finding->rule->query, 0, 0);
	for (size_t i = 0; i < finding->evidence_count; i++) {
		struct ws_evidence *evidence = &finding->evidence[i];
		char *query = evidence->query;

		if (!query)
			continue;
		evidence->query = ws_make_proof(query, from, to);
		free(query);
	}
}

/* How many samples a cost stands for, by the average of all. */
static uint64_t count_samples(const struct ws_analysis *analysis, uint64_t cost_ns)
{
	double ns = 0, samples = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		ns += (double)analysis->usage.rows[i].ns;
		samples += (double)analysis->usage.rows[i].samples;
	}
	return ns > 0 ? (uint64_t)((double)cost_ns * samples / ns) : 0;
}

/* One or two samples may be anywhere. */
static void limit_to_samples(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	if (finding->rule->by_samples && finding->level > WS_LEVEL_NOTE &&
	    count_samples(analysis, finding->cost_ns) < WS_LEAST_SAMPLES)
		finding->level = WS_LEVEL_NOTE;
}

/* From the first work on any GPU to the end of the last. */
static struct ws_span find_gpu_part(const struct ws_model *model)
{
	struct ws_span part = {UINT64_MAX, 0};

	for (size_t i = 0; i < model->work.gpus; i++) {
		const struct ws_work_gpu *gpu = &model->work.gpu[i];

		if (!gpu->count)
			continue;
		part.start = ws_min(part.start, gpu->op[0].start);
		part.end = ws_max(part.end, gpu->op[gpu->count - 1].end);
	}
	return part;
}

/* Where no steps are known, the whole run is looked at. What lies, for half of it, in one piece
 * before the first work on a GPU, and takes shorter than what GPUs do then, is the start. */
static void judge_start_up(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	const struct ws_model *model = analysis->model;
	struct ws_span part = find_gpu_part(model);
	const struct ws_evidence *longest = finding->evidence;

	if (model->step_source == WS_STEPS_NONE && part.start < part.end &&
	    finding->evidence_count && longest->end && longest->end <= part.start &&
	    (longest->end - longest->start) * 2 >= finding->cost_ns &&
	    part.end - part.start > finding->cost_ns)
		finding->start_up = true;
}

void ws_findings_make(const struct ws_analysis *analysis, const char *const *rules,
		      struct ws_findings *findings)
{
	memset(findings, 0, sizeof(*findings));
	for (size_t i = 0; ws_rules[i]; i++) {
		const char *why;

		if (ws_model_check_cancelled(analysis->model, NULL))
			break; /* the findings will not be used */
		if (!is_wanted(ws_rules[i], rules))
			continue;
		why = ws_rules[i]->find_obstacle ? ws_rules[i]->find_obstacle(analysis) : NULL;
		if (why)
			note_obstacle(findings, ws_rules[i], why);
		else
			ws_rules[i]->check(analysis, findings);
	}
	for (size_t i = 0; i < findings->count; i++) {
		limit_to_samples(analysis, &findings->findings[i]);
		judge_start_up(analysis, &findings->findings[i]);
		add_proof(analysis, &findings->findings[i]);
	}
	if (findings->count)
		qsort(findings->findings, findings->count, sizeof(*findings->findings),
		      compare_findings);
}

static void free_finding(struct ws_finding *finding)
{
	for (size_t i = 0; i < finding->evidence_count; i++) {
		free(finding->evidence[i].text);
		free(finding->evidence[i].query);
	}
	free(finding->evidence);
	free(finding->title);
	free(finding->advice);
	free(finding->assumption);
	free(finding->next);
}

void ws_findings_free(struct ws_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		free_finding(&findings->findings[i]);
	for (size_t i = 0; i < findings->unlooked_count; i++)
		free(findings->unlooked[i].why);
	free(findings->findings);
	free(findings->unlooked);
	memset(findings, 0, sizeof(*findings));
}
