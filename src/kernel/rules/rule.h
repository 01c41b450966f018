/* rule.h - what the files of rules share. Each declares a struct ws_kernel_rule,
 * ws_kernel_rule_..., and is listed in rules.def. */
#ifndef WS_KERNEL_RULE_H
#define WS_KERNEL_RULE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "kernel/rules.h"
#include "kernel/values.h"

#define RULE(name) extern const struct ws_kernel_rule ws_kernel_rule_##name;
#include "kernel/rules/rules.def"
#undef RULE

/* Estimates below this are not worth a finding. */
#define WS_KERNEL_LEAST_GAIN 0.02

/* Add a finding of a rule. Title and advice are plain texts, not printf formats, that the caller
 * allocated; the finding takes ownership of them. */
struct ws_kernel_finding *ws_kernel_add_finding(struct ws_kernel_findings *findings,
						const struct ws_kernel_rule *rule,
						enum ws_kernel_finding_kind kind, double estimate);
/* Add a metric as evidence for the finding; its unit is looked up. */
void ws_kernel_prove(struct ws_kernel_finding *finding, const struct ws_kernel_result *result,
		     const char *label, const char *metric);
/* Whether a rule has already added a finding. */
bool ws_kernel_has_spoken(const struct ws_kernel_findings *findings,
			  const struct ws_kernel_rule *rule);

/* Shares 0 to 1, NAN when not measured: the compute throughput, the memory throughput, the higher
 * of the two. */
double ws_kernel_compute_share(const struct ws_kernel_result *result);
double ws_kernel_memory_share(const struct ws_kernel_result *result);
double ws_kernel_highest_share(const struct ws_kernel_result *result);
/* The most that hiding latency better can save: the unused part of the throughput. 1 when it was
 * not measured. */
double ws_kernel_headroom(const struct ws_kernel_result *result);
/* A metric, or 0 when it was not measured. */
double ws_kernel_get_or_zero(const struct ws_kernel_result *result, const char *metric);

#define WS_COMPUTE_THROUGHPUT "sm__throughput.avg.pct_of_peak_sustained_elapsed"
#define WS_MEMORY_THROUGHPUT "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
#define WS_DRAM_THROUGHPUT "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
#define WS_L1_THROUGHPUT "l1tex__throughput.avg.pct_of_peak_sustained_active"
#define WS_L2_THROUGHPUT "lts__throughput.avg.pct_of_peak_sustained_elapsed"

#endif
