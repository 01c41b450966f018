/* rules.c - the list of rules, and what they share. */
#include "kernel/rules/rule.h"
#include "kernel/units.h"

#define RULE(name) &ws_kernel_rule_##name,
const struct ws_kernel_rule *const ws_kernel_rules[] = {
#include "kernel/rules/rules.def"
	NULL};
#undef RULE

struct ws_kernel_finding *ws_kernel_add_finding(struct ws_kernel_findings *findings,
						const struct ws_kernel_rule *rule,
						enum ws_kernel_finding_kind kind, double estimate)
{
	struct ws_kernel_finding *finding;

	ws_grow(findings->findings, findings->capacity, findings->count + 1);
	finding = &findings->findings[findings->count++];
	*finding = (struct ws_kernel_finding){.rule = rule->identifier,
					      .section = rule->section,
					      .kind = kind,
					      .estimate = estimate};
	return finding;
}

void ws_kernel_prove(struct ws_kernel_finding *finding, const struct ws_kernel_result *result,
		     const char *label, const char *metric)
{
	const struct ws_kernel_metric *measured = ws_find_kernel_metric(result, metric);
	struct ws_kernel_evidence *evidence;

	if (finding->evidence_count == WS_KERNEL_MOST_EVIDENCE)
		return;
	evidence = &finding->evidence[finding->evidence_count++];
	evidence->label = label;
	evidence->metric = metric;
	evidence->value = ws_kernel_get(result, metric);
	evidence->unit = measured ? measured->unit : ws_kernel_computed_unit(metric);
}

bool ws_kernel_has_spoken(const struct ws_kernel_findings *findings,
			  const struct ws_kernel_rule *rule)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].rule == rule->identifier)
			return true;
	return false;
}

double ws_kernel_compute_share(const struct ws_kernel_result *result)
{
	return ws_kernel_get(result, WS_COMPUTE_THROUGHPUT) / 100;
}

double ws_kernel_memory_share(const struct ws_kernel_result *result)
{
	return ws_kernel_get(result, WS_MEMORY_THROUGHPUT) / 100;
}

double ws_kernel_highest_share(const struct ws_kernel_result *result)
{
	return fmax(ws_kernel_compute_share(result), ws_kernel_memory_share(result));
}

double ws_kernel_headroom(const struct ws_kernel_result *result)
{
	double highest = ws_kernel_highest_share(result);

	if (isnan(highest))
		return 1;
	return ws_max(0.0, 1 - highest);
}

double ws_kernel_get_or_zero(const struct ws_kernel_result *result, const char *metric)
{
	double value = ws_kernel_get(result, metric);

	return isnan(value) ? 0 : value;
}

/* The order of findings: verdicts, then by possible gain. A symptom counts for a quarter, so that a
 * cause that explains much of it comes first. */
static double find_rank(const struct ws_kernel_finding *finding)
{
	if (finding->kind == WS_KERNEL_VERDICT)
		return 2;
	if (isnan(finding->estimate))
		return -1;
	if (finding->kind == WS_KERNEL_SYMPTOM)
		return finding->estimate / 4;
	return finding->estimate;
}

/* There are few findings: insert each at its place; equal ones keep the order of the rules. */
static void sort_findings(struct ws_kernel_findings *findings)
{
	for (size_t i = 1; i < findings->count; i++) {
		struct ws_kernel_finding moved = findings->findings[i];
		size_t to = i;

		for (; to && find_rank(&findings->findings[to - 1]) < find_rank(&moved); to--)
			findings->findings[to] = findings->findings[to - 1];
		findings->findings[to] = moved;
	}
}

void ws_kernel_judge(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	for (size_t i = 0; ws_kernel_rules[i]; i++)
		ws_kernel_rules[i]->check(result, findings);
	sort_findings(findings);
}

void ws_kernel_findings_free(struct ws_kernel_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->findings[i].title);
		free(findings->findings[i].advice);
		free(findings->findings[i].assumption);
	}
	free(findings->findings);
	*findings = (struct ws_kernel_findings){0};
}

const struct ws_kernel_finding *ws_kernel_first_finding(const struct ws_kernel_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (!isnan(findings->findings[i].estimate))
			return &findings->findings[i];
	return NULL;
}
