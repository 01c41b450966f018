/* page_migration.c - pages of unified memory travel between CPU and GPU. */
#include "analyze/rules/rules.h"

static bool is_in_driver(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_function *function;

	if (row->cause != WS_CAUSE_CPU || !row->place.leaf)
		return false;
	function = ws_stacks_get_function(analysis->model->stacks, row->place.leaf);
	return strstr(function->name, "uvm") ||
	       strstr(ws_stacks_get_origin(analysis->model->stacks, function), "nvidia_uvm");
}

/* The driver runs for a moment when CUDA starts, too; in page faults, for much of the time. */
#define LEAST_DRIVER 0.1

/* The driver's page faults run other functions of the kernel, too, for the same line. */
static bool is_in_fault(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;
	const struct ws_breakdown_row *driver;

	if (row->cause != WS_CAUSE_CPU || !row->place.leaf)
		return false;
	if (is_in_driver(analysis, row))
		return true;
	driver = ws_find_path_row(analysis, is_in_driver);
	return driver && driver->place.function == row->place.function &&
	       driver->place.line == row->place.line && row->place.users &&
	       ws_stacks_get_function(stacks, row->place.leaf)->kind == WS_FRAME_KERNEL;
}

static uint64_t sum_faults(const struct ws_analysis *analysis)
{
	uint64_t driver = ws_sum_path_rows(analysis, is_in_driver),
		 faults = ws_sum_path_rows(analysis, is_in_fault);

	return (double)driver < LEAST_DRIVER * (double)faults ? driver : faults;
}

static void check_migration(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_copy_fact *migrated = &analysis->facts.copies[WS_MIGRATED][0];
	uint64_t faults = sum_faults(analysis), cost;
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_in_driver);
	struct ws_finding *finding;
	struct ws_text place = {0};

	cost = ws_min(faults + migrated->ns, analysis->window);
	if (ws_analysis_share(analysis, cost) < 0.03)
		return;
	if (row) {
		struct ws_code_place code = row->place;

		code.leaf = code.function;
		ws_put_at_place(analysis, &code, &place);
	}
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_page_migration, cost, cost);
	finding->title = ws_format("Pages of unified memory travel between CPU and GPU%s",
				   ws_text_or(place.text, ""));
	finding->advice =
		ws_strdup("Move them ahead with cudaMemPrefetchAsync, advise with cudaMemAdvise, "
			  "or use memory of the GPU with copies of your own.");
	finding->assumption = ws_strdup("they are moved before they are needed");
	if (row)
		ws_finding_add_evidence(finding, "the longest stretch with page faults",
					migrated->count ? NULL : ws_proof_code, row->longest.start,
					row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_page_migration = {
	.name = "page-migration",
	.title = "Page faults of unified memory",
	.about = "Migration of pages, and the driver's handling of page faults on the critical "
		 "path, take 3 % of the time or more.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_copies,
	.check = check_migration,
};
