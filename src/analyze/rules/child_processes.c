/* child_processes.c - a program that starts many short processes and waits for each. */
#include <ctype.h>

#include "analyze/askers.h"
#include "analyze/rules/blocked_loop.h"
#include "analyze/scripts.h"
#include "analyze/source_line.h"
#include "lanes/row_tree.h"
#include "query/intervals.h"

enum { LEAST_CHILDREN = 8, SHORT_CHILD_NS = 100000000, MANY_CHILDREN = 200 };
#define MOST_OF_TIME 0.3
#define LEAST_COPYING 0.15

enum { MOST_PROGRAMS = 32 };

struct short_children {
	uint32_t parent;    /* the process that started them */
	uint64_t count;	    /* with those that they started, such as the commands of a subshell */
	uint64_t alive;	    /* ns, the sum of all that it started itself */
	uint64_t any_alive; /* ns in which at least one of these existed */
	struct child_program {
		const char *name;
		const struct ws_process_info *first;
		uint64_t count;
	} programs[MOST_PROGRAMS]; /* most first */
	size_t program_count;
	uint64_t copies; /* of the process that started them, without another program */
};

/*
 * What a process was last: a child that calls exec goes on as a process of the same number, whose
 * parent is what it was before.
 */
static const struct ws_process_info **find_last_images(const struct ws_names_by_id *who)
{
	enum {
		MOST_EXECS = 16
	}; /* in a damaged report, images may follow one another in a circle */
	uint32_t highest = ws_highest_process_id(who);
	const struct ws_process_info **last = ws_calloc(highest + (size_t)1, sizeof(const void *));
	uint32_t *next = ws_calloc(highest + (size_t)1, sizeof(*next));

	for (uint32_t id = highest; id; id--) {
		const struct ws_process_info *info = ws_find_process(who, id);

		if (info->parent && info->parent <= highest &&
		    ws_find_process(who, info->parent)->pid == info->pid)
			next[info->parent] = id;
	}
	for (uint32_t id = 1; id <= highest; id++) {
		uint32_t image = id;

		for (unsigned i = 0; i < MOST_EXECS && next[image]; i++)
			image = next[image];
		last[id] = ws_find_process(who, image);
	}
	free(next);
	return last;
}

static bool is_short_child(const struct ws_process_info *info, const struct ws_process_info *last)
{
	return last->end != WS_NO_TIME && last->end >= info->start &&
	       last->end - info->start <= SHORT_CHILD_NS;
}

/* The process that starts most short ones: the explained one, or one that it started, such as a
 * part of a script that a shell runs in a process of its own. */
static uint32_t find_parent(const struct ws_analysis *analysis,
			    const struct ws_process_info *const *last)
{
	const struct ws_model *model = analysis->model;
	uint32_t highest = ws_highest_process_id(model->who), most = model->process;
	uint32_t *counts = ws_calloc(highest + (size_t)1, sizeof(*counts));

	for (uint32_t id = 1; id <= highest; id++) {
		const struct ws_process_info *info = ws_find_process(model->who, id);

		if (info->parent && info->parent <= highest && is_short_child(info, last[id]) &&
		    ws_is_explained(model, info->parent))
			counts[info->parent]++;
	}
	for (uint32_t id = 1; id <= highest; id++)
		if (counts[id] > counts[most])
			most = id;
	free(counts);
	return most;
}

static void count_program(struct short_children *children, const struct ws_process_info *info)
{
	struct child_program *programs = children->programs;
	size_t k = 0;

	while (k < children->program_count && strcmp(programs[k].name, info->name))
		k++;
	if (k == MOST_PROGRAMS)
		return;
	if (k == children->program_count)
		programs[children->program_count++] = (struct child_program){info->name, info, 0};
	programs[k].count++;
}

static int compare_programs(const void *first, const void *second)
{
	const struct child_program *left = first, *right = second;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return strcmp(left->name, right->name);
}

/* A short process below the parent, unless it is one that was counted before it called exec. */
static void count_child(struct short_children *children, const struct ws_names_by_id *who,
			const struct ws_process_info *info, const struct ws_process_info *last)
{
	if (!is_short_child(info, last) || ws_find_process(who, info->parent)->pid == info->pid)
		return;
	children->count++;
	if (strcmp(last->name, ws_find_process(who, children->parent)->name))
		count_program(children, last);
	else
		children->copies++;
}

static bool is_below(const struct ws_names_by_id *who, const struct ws_process_info *info,
		     uint32_t ancestor)
{
	enum { MOST_GENERATIONS = 64 }; /* in a damaged report, a parent may be any number */
	uint32_t parent = info->parent;

	for (unsigned i = 0; parent && parent != ancestor && i < MOST_GENERATIONS; i++)
		parent = ws_find_process(who, parent)->parent;
	return parent == ancestor;
}

static struct short_children count_short_children(const struct ws_analysis *analysis)
{
	const struct ws_names_by_id *who = analysis->model->who;
	const struct ws_process_info **last = find_last_images(who);
	struct short_children children = {.parent = find_parent(analysis, last)};
	struct ws_spans spans = {0};

	for (uint32_t id = 1; id <= ws_highest_process_id(who); id++) {
		const struct ws_process_info *info = ws_find_process(who, id);

		if (is_below(who, info, children.parent))
			count_child(&children, who, info, last[id]);
		if (info->parent != children.parent || !is_short_child(info, last[id]))
			continue;
		children.alive += last[id]->end - info->start;
		ws_spans_add(&spans, info->start, last[id]->end);
	}
	free(last);
	ws_spans_merge(&spans);
	for (size_t i = 0; i < spans.count; i++)
		children.any_alive += spans.spans[i].end - spans.spans[i].start;
	ws_spans_free(&spans);
	qsort(children.programs, children.program_count, sizeof(*children.programs),
	      compare_programs);
	return children;
}

/* " (mostly cut)" or " (450 cut, 450 sed, 900 copies of bash)". */
static void put_programs(const struct ws_analysis *analysis, const struct short_children *children,
			 struct ws_text *text)
{
	enum { SHOWN = 4 };
	const struct child_program *programs = children->programs;
	uint64_t rest = children->count - children->copies, few;

	if (!children->program_count)
		return;
	few = ws_max(programs[0].count / 20, (uint64_t)1);
	if (programs[0].count > rest - rest / 10) {
		ws_text_printf(text, " (mostly %s)", programs[0].name);
		return;
	}
	for (size_t i = 0; i < children->program_count && i < SHOWN; i++) {
		if (programs[i].count < few)
			break;
		ws_text_printf(text, "%s%llu %s", i ? ", " : " (",
			       (unsigned long long)programs[i].count, programs[i].name);
		rest -= programs[i].count;
	}
	if (rest >= few)
		ws_text_printf(text, ", %llu others", (unsigned long long)rest);
	if (children->copies)
		ws_text_printf(text, ", %llu copies of %s", (unsigned long long)children->copies,
			       ws_find_process(analysis->model->who, children->parent)->name);
	ws_text_puts(text, ")");
}

static bool overlap(uint64_t alive, uint64_t any_alive)
{
	return alive > any_alive + any_alive / 2;
}

/* Whether processes of the program that was started most overlap: those of a pipeline run side by
 * side, each of them another program, and the next pipeline waits for the whole. */
static bool do_equals_overlap(const struct ws_names_by_id *who,
			      const struct short_children *children)
{
	const struct ws_process_info **last = find_last_images(who);
	struct ws_spans spans = {0};
	uint64_t alive = 0, any_alive = 0;

	for (uint32_t id = 1; id <= ws_highest_process_id(who); id++) {
		const struct ws_process_info *info = ws_find_process(who, id);

		if (info->parent != children->parent || !is_short_child(info, last[id]) ||
		    strcmp(last[id]->name, children->programs[0].name))
			continue;
		alive += last[id]->end - info->start;
		ws_spans_add(&spans, info->start, last[id]->end);
	}
	free(last);
	ws_spans_merge(&spans);
	for (size_t i = 0; i < spans.count; i++)
		any_alive += spans.spans[i].end - spans.spans[i].start;
	ws_spans_free(&spans);
	return overlap(alive, any_alive);
}

/* Workers that run in parallel are not waited for one by one. */
static bool run_side_by_side(const struct ws_names_by_id *who,
			     const struct short_children *children)
{
	return overlap(children->alive, children->any_alive) &&
	       (children->program_count < 2 || do_equals_overlap(who, children));
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

/* The same without pauses, such as `sleep` in a script, which are no starting of processes. */
static bool is_costly(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return row->cause != WS_CAUSE_SLEEP && is_elsewhere(analysis, row);
}

bool ws_runs_users_script(const struct ws_model *model, uint32_t process)
{
	static const char *const shells[] = {"sh",  "bash", "dash", "ash",
					     "zsh", "ksh",  "mksh", NULL};
	static const char *const systems[] = {"/usr*", "/bin*", "/etc*", "/lib*", "-*", NULL};
	const struct ws_process_info *info = ws_find_process(model->who, process);
	const char *script = strchr(info->cmdline, ' ');

	return script &&
	       (ws_is_name_among(info->name, strlen(info->name), shells) ||
		ws_find_interpreter(info->exe)) &&
	       !ws_is_name_among(script + 1, strcspn(script + 1, " "), systems);
}

/* The process that started another one. */
static uint32_t find_starter(const struct ws_names_by_id *who, const struct ws_process_info *child)
{
	return ws_find_first_image(who, child)->parent;
}

bool ws_is_tool_of_script(const struct ws_model *model, uint32_t process)
{
	return ws_runs_users_script(model,
				    find_starter(model->who, ws_find_process(model->who, process)));
}

/* For a shell it is the work to start processes; hundreds of them for most of the time are a
 * fault of the user's script. */
static bool is_fault_of_script(const struct ws_analysis *analysis,
			       const struct short_children *children, uint64_t on_path)
{
	return children->count >= MANY_CHILDREN &&
	       ws_analysis_share(analysis, on_path) >= MOST_OF_TIME &&
	       (ws_runs_users_script(analysis->model, children->parent) ||
		ws_is_tool_of_script(analysis->model, children->parent));
}

/* Copying a process: the larger it is, the longer. */
static uint64_t sum_copying(const struct ws_analysis *analysis)
{
	static const char *const names[] = {"fork*",  "clone*",	    "__libc_fork*",
					    "_Fork*", "arch_fork*", NULL};
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind == WS_USAGE_THREAD &&
		    ws_is_name_among(row->name, strlen(row->name), names))
			sum += row->path_ns;
	}
	return sum;
}

/* Without it, forking looks like the work of the children. */
static void explain_copying(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	uint64_t copying = sum_copying(analysis);
	char *title = finding->title;

	if (ws_analysis_share(analysis, copying) < LEAST_COPYING)
		return;
	finding->title = ws_format("%s; %.0f %% of the time goes into fork itself, which copies "
				   "the page tables of a large process",
				   title, 100 * ws_analysis_share(analysis, copying));
	free(title);
	free(finding->advice);
	finding->advice =
		ws_strdup("Start processes while the program is still small, from a "
			  "small helper process, or with posix_spawn or vfork, which copy "
			  "nothing; or use threads.");
}

/* ---- one that takes long ---- */

/* The process besides the explained one that was on the path longest; `ns` gets how long. */
static uint32_t find_longest_child(const struct ws_analysis *analysis, uint64_t *ns)
{
	uint32_t highest = ws_highest_process_id(analysis->model->who), longest = 0;
	uint64_t *sums = ws_calloc(highest + (size_t)1, sizeof(*sums));

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint32_t process;

		if (!row->thread)
			continue;
		process = ws_find_thread(analysis->model->who, row->thread)->process;
		/* In a damaged report, threads may be those of processes that are not there. */
		if (process <= highest && process != analysis->model->process)
			sums[process] += row->ns;
	}
	for (uint32_t id = 1; id <= highest; id++)
		if (sums[id] > sums[longest])
			longest = id;
	*ns = sums[longest];
	free(sums);
	return longest;
}

void ws_put_command(const char *command, struct ws_text *text)
{
	enum { SHOWN = 60 };
	size_t length = strlen(command);

	for (size_t i = 0; i < length && i < SHOWN; i++)
		ws_text_add(text, iscntrl((unsigned char)command[i]) ? " " : &command[i], 1);
	if (length > SHOWN)
		ws_text_puts(text, "...");
}

void ws_put_line_of_start(const struct ws_model *model, const struct ws_process_info *child,
			  struct ws_text *text)
{
	uint32_t parent = find_starter(model->who, child);

	if (ws_runs_users_script(model, parent))
		ws_put_script_start(model, ws_find_process(model->who, parent)->cmdline, child,
				    text);
}

static void put_starting_line(const struct ws_model *model, const struct ws_process_info *child,
			      struct ws_finding *finding)
{
	char *title = finding->title;
	struct ws_text line = {0};

	ws_put_line_of_start(model, child, &line);
	finding->title = ws_format("%s%s", title, ws_text_or(line.text, ""));
	free(title);
	ws_text_free(&line);
}

void ws_put_starting_line(const struct ws_analysis *analysis, uint32_t thread,
			  struct ws_finding *finding)
{
	const struct ws_names_by_id *who = analysis->model->who;
	uint32_t process = ws_find_thread(who, thread)->process;

	if (process != analysis->model->process)
		put_starting_line(analysis->model, ws_find_process(who, process), finding);
}

/* Whether it is an interpreter that computes, other than a shell: script-work says what it does. */
static bool does_script(const struct ws_analysis *analysis, const struct ws_process_info *info)
{
	const double most = 0.5;
	uint32_t interpreter = ws_find_interpreter(info->exe);

	return interpreter && strcmp(ws_get_interpreter(interpreter)->name, "the shell") != 0 &&
	       ws_analysis_share(analysis, ws_analysis_cpu_on_path(analysis)) >= most;
}

/* It may well be what the program is for: a note. */
static void check_long_child(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_text command = {0};
	uint64_t ns;
	uint32_t child = find_longest_child(analysis, &ns);
	const struct ws_process_info *info;
	struct ws_finding *finding;

	if (!child || ws_analysis_share(analysis, ns) < MOST_OF_TIME || analysis->model->has_cuda)
		return;
	info = ws_find_process(analysis->model->who, child);
	/* A part of the program itself: a worker, a part of a script. */
	if (!strcmp(info->cmdline,
		    ws_find_process(analysis->model->who, analysis->model->process)->cmdline))
		return;
	if (does_script(analysis, info))
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_child_processes, ns, 0);
	finding->level = WS_LEVEL_NOTE;
	ws_put_command(info->cmdline, &command);
	finding->title = ws_format("For %.0f %% of the time the program waits for a process that "
				   "it started: %s [%u]",
				   100 * ws_analysis_share(analysis, ns),
				   ws_text_or(command.text, info->name), info->pid);
	put_starting_line(analysis->model, info, finding);
	ws_text_free(&command);
	finding->advice =
		ws_strdup("Look at that process, do other work meanwhile (subprocess.Popen "
			  "instead of run, & in a shell), or do its work in the program "
			  "itself.");
}

/* For the programs that a user's script starts most often. */
static void put_script_lines(const struct ws_analysis *analysis,
			     const struct short_children *children, struct ws_text *text)
{
	enum { SHOWN = 2 };
	const struct ws_model *model = analysis->model;
	const char *command = ws_find_process(model->who, children->parent)->cmdline;

	if (!ws_runs_users_script(model, children->parent))
		return;
	for (size_t i = 0; i < children->program_count && i < SHOWN; i++)
		if (children->programs[i].count >= children->programs[0].count / 4)
			ws_put_script_start(model, command, children->programs[i].first, text);
}

/* Where no call shows who starts them, such as in a shell. */
static void put_starter(const struct ws_analysis *analysis, const struct short_children *children,
			struct ws_text *text)
{
	const struct ws_process_info *info =
		ws_find_process(analysis->model->who, children->parent);

	ws_text_puts(text, "by ");
	ws_put_command(info->cmdline, text);
	ws_text_printf(text, " [%u]", info->pid);
	put_script_lines(analysis, children, text);
	ws_put_line_of_start(analysis->model, info, text);
}

/* Starting and waiting are over so soon that no stack of theirs was recorded. */
static void put_user_line(const struct ws_analysis *analysis, const struct ws_code_place *starter,
			  struct ws_finding *finding, struct ws_text *text)
{
	ws_text_puts(text, "by ");
	ws_code_put_place(analysis->model, starter, text);
	ws_point_at(finding, starter);
}

static const char *choose_advice(const struct ws_model *model, uint32_t parent)
{
	const char *name = ws_find_process(model->who, parent)->name;

	if (!strcmp(name, "find"))
		return "Let find hand over many files at once: end -exec by + instead of ';', or "
		       "print them (-print0 | xargs -0). What find knows itself needs no process: "
		       "-printf '%s %p\\n', -delete, -size.";
	if (!strcmp(name, "xargs"))
		return "Let xargs hand over many items at once: without -n 1, -L 1 or -I, or with "
		       "larger numbers; or run several at once (-P).";
	if (ws_runs_users_script(model, parent))
		return "Let one process do it for all lines (one awk or sed for the whole file), "
		       "or the script's language itself (in a shell ${name#*@}, ${name%.*}, "
		       "$((...)), read); or run several at once (xargs -P).";
	return "Do the work in the program itself (a library), hand many inputs to one process, or "
	       "run several at once.";
}

/* The rows of the path in processes other than the explained one and the one that starts short
 * ones. */
static uint64_t sum_children(const struct ws_analysis *analysis,
			     const struct short_children *children,
			     bool (*wanted)(const struct ws_analysis *analysis,
					    const struct ws_breakdown_row *row))
{
	const struct ws_model *model = analysis->model;
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint32_t process = ws_find_thread(model->who, row->thread)->process;

		if (row->thread && process != model->process && process != children->parent &&
		    wanted(analysis, row))
			sum += row->ns;
	}
	return sum;
}

static bool is_of_long_child(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_names_by_id *who = analysis->model->who;
	const struct ws_process_info *info =
		ws_find_process(who, ws_find_thread(who, row->thread)->process);

	return !is_short_child(info, info) && is_costly(analysis, row);
}

/* What processes compute themselves has to be done in any case. */
static bool is_own_work(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.users;
}

static void price_children(const struct ws_analysis *analysis,
			   const struct short_children *children, struct ws_finding *finding)
{
	uint64_t own = ws_min(sum_children(analysis, children, is_own_work), finding->cost_ns),
		 starting = finding->cost_ns - own;

	finding->gain_ns = starting - starting / 5;
	finding->level = ws_rate_gain(analysis, finding->gain_ns);
	finding->assumption = ws_strdup(
		own > finding->cost_ns / 10
			? "what they compute remains, and most of the rest is the starting"
			: "most of it is the starting");
}

static void check_children(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct short_children children = count_short_children(analysis);
	uint64_t on_path = ws_sum_path_rows(analysis, is_elsewhere),
		 cost = ws_sum_path_rows(analysis, is_costly);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_elsewhere);
	struct ws_finding *finding;
	struct ws_text what = {0}, named = {0};
	struct ws_code_place starter, waits;

	if (run_side_by_side(analysis->model->who, &children))
		return;
	if (!row || children.count < LEAST_CHILDREN || ws_analysis_share(analysis, on_path) < 0.1 ||
	    sum_children(analysis, &children, is_of_long_child) > on_path / 2) {
		check_long_child(analysis, findings);
		return;
	}
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_child_processes, cost, 0);
	price_children(analysis, &children, finding);
	starter = ws_find_process_starter(analysis->model);
	waits = ws_find_wait_place(analysis);
	if (starter.function && !row->place.line)
		put_user_line(analysis, &starter, finding, &what);
	else if (!row->place.line && waits.users && children.parent == analysis->model->process)
		put_user_line(analysis, &waits, finding, &what);
	else if ((row->place.function || row->name) &&
		 !ws_runs_users_script(analysis->model, children.parent) &&
		 !ws_is_tool_of_script(analysis->model, children.parent))
		ws_breakdown_put_row(analysis->model, row, &what);
	else
		put_starter(analysis, &children, &what);
	if (!analysis->model->python && !is_fault_of_script(analysis, &children, cost))
		ws_limit_to_users(analysis, finding, &row->place);
	put_programs(analysis, &children, &named);
	finding->title = ws_format("%llu short processes%s are started, and each is waited for "
				   "(%.3g ms each): %s",
				   (unsigned long long)children.count, ws_text_or(named.text, ""),
				   (double)children.any_alive / (double)children.count / 1e6,
				   ws_text_or(what.text, ""));
	finding->advice = ws_strdup(choose_advice(analysis->model, children.parent));
	explain_copying(analysis, finding);
	ws_rank_after_blocked_loop(analysis, findings, row);
	ws_text_free(&what);
	ws_text_free(&named);
}

const struct ws_rule ws_rule_child_processes = {
	.name = "child-processes",
	.title = "Many short processes, one after the other",
	.about = "The program started eight processes or more that lived for less than 100 ms, and "
		 "10 % of the critical path or more lies in them or waits for what they print. "
		 "Processes of which mostly several "
		 "live at once are not meant. A note, unless code of the "
		 "user's or Python starts them: for a shell or make it is the work, unless it is a "
		 "script of the user's that starts 200 or more, which take 30 % of the time. One "
		 "process that takes 30 % of the path alone is a note.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_processes,
	.check = check_children,
};
