/* child_processes.c - a program that starts many short processes and waits for each. */
#include "analyze/rules/rules.h"
#include "query/intervals.h"

enum { LEAST_CHILDREN = 8, SHORT_CHILD_NS = 100000000, MANY_CHILDREN = 200 };
#define MOST_OF_TIME 0.3

struct short_children {
	uint64_t count;
	uint64_t alive;	    /* ns, the sum of all */
	uint64_t any_alive; /* ns in which at least one existed */
};

/* Processes that the explained one started and that existed only briefly. */
static struct short_children count_short_children(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	struct short_children children = {0};
	struct ws_spans spans = {0};

	for (uint32_t id = 1; id <= ws_highest_process_id(model->who); id++) {
		const struct ws_process_info *info = ws_find_process(model->who, id);

		if (info->parent != model->process || info->end == WS_NO_TIME ||
		    info->end < info->start || info->end - info->start > SHORT_CHILD_NS)
			continue;
		children.count++;
		children.alive += info->end - info->start;
		ws_spans_add(&spans, info->start, info->end);
	}
	ws_spans_merge(&spans);
	for (size_t i = 0; i < spans.count; i++)
		children.any_alive += spans.spans[i].end - spans.spans[i].start;
	ws_spans_free(&spans);
	return children;
}

/* Workers that run in parallel are not waited for one by one. */
static bool run_side_by_side(const struct short_children *children)
{
	return children->alive > children->any_alive + children->any_alive / 2;
}

/* Who starts a process for what it prints (popen, $(...)) waits for it by reading from a pipe;
 * popen itself waits until the child has called exec. */
bool ws_is_wait_for_output(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	static const char *const starts[] = {"popen",	     "pclose",	"fork",	 "vfork",
					     "posix_spawn*", "system*", "clone", NULL};
	const struct ws_report *report = analysis->model->report;
	const char *name = ws_report_string(report, row->name, NULL);

	if (row->cause != WS_CAUSE_IO && row->cause != WS_CAUSE_POLL)
		return false;
	return !strncmp(ws_report_string(report, row->path, NULL), "pipe:", 5) ||
	       ws_is_name_among(name, strlen(name), starts);
}

static bool is_elsewhere(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	if (row->cause == WS_CAUSE_CHILD || ws_is_wait_for_output(analysis, row))
		return true;
	return row->thread && row->cause != WS_CAUSE_CORE &&
	       ws_find_thread(analysis->model->who, row->thread)->process !=
		       analysis->model->process;
}

/* Whether the program is a shell that runs a script, and not one of the system's. */
static bool runs_users_script(const struct ws_model *model)
{
	static const char *const shells[] = {"sh",  "bash", "dash", "ash",
					     "zsh", "ksh",  "mksh", NULL};
	static const char *const systems[] = {"/usr*", "/bin*", "/etc*", "/lib*", "-*", NULL};
	const struct ws_process_info *info = ws_find_process(model->who, model->process);
	const char *script = strchr(info->cmdline, ' ');

	return script && ws_is_name_among(info->name, strlen(info->name), shells) &&
	       !ws_is_name_among(script + 1, strcspn(script + 1, " "), systems);
}

/* For a shell it is the work to start processes; hundreds of them for most of the time are a
 * fault of the user's script. */
static bool is_fault_of_script(const struct ws_analysis *analysis,
			       const struct short_children *children, uint64_t on_path)
{
	return children->count >= MANY_CHILDREN &&
	       ws_analysis_share(analysis, on_path) >= MOST_OF_TIME &&
	       runs_users_script(analysis->model);
}

static void check_children(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct short_children children = count_short_children(analysis);
	uint64_t on_path = ws_sum_path_rows(analysis, is_elsewhere);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_elsewhere);
	struct ws_finding *finding;
	struct ws_text what = {0};

	if (!row || children.count < LEAST_CHILDREN || run_side_by_side(&children) ||
	    ws_analysis_share(analysis, on_path) < 0.1)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_child_processes, on_path,
					on_path - on_path / 5);
	ws_breakdown_put_row(analysis->model, row, &what);
	if (!analysis->model->python && !is_fault_of_script(analysis, &children, on_path))
		ws_limit_to_users(analysis, finding, &row->place);
	finding->title = ws_format("%llu short processes are started, and each is waited for "
				   "(%.3g ms each): %s",
				   (unsigned long long)children.count,
				   (double)children.alive / (double)children.count / 1e6,
				   ws_text_or(what.text, ""));
	finding->advice = ws_strdup("Do the work in the program itself (a library), hand many "
				    "inputs to one process, or run several at once.");
	finding->assumption = ws_strdup("most of it is the starting");
	ws_text_free(&what);
}

const struct ws_rule ws_rule_child_processes = {
	.name = "child-processes",
	.title = "Many short processes, one after the other",
	.about = "The program started eight processes or more that lived for less than 100 ms, and "
		 "10 % of the critical path or more lies in them or waits for what they print. "
		 "Processes of which mostly several "
		 "live at once are not meant. A note, unless code of the "
		 "user's or Python starts them: for a shell or make it is the work, unless it is a "
		 "script of the user's that starts 200 or more, which take 30 % of the time.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_processes,
	.check = check_children,
};
