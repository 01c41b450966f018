/* script_work.c - what an interpreter in C does most for the script that it runs. */
#include "analyze/rules/rules.h"
#include "analyze/scripts.h"
#include "analyze/stack_sums.h"

#define LEAST_SHARE 0.3
#define MOST 0.5

enum { KEY_INTERPRETER = 8 }; /* the key of a stack: the interpreter's number above its work's */

/* Whether code that a work calls back, such as the comparisons of sort, does other work. */
static bool is_callback(uint32_t interpreter, uint32_t work, uint32_t inner)
{
	return inner && inner != work && inner <= WS_SCRIPT_WORKS &&
	       ws_get_script_work(interpreter, work - 1)->is_callback &&
	       !ws_get_script_work(interpreter, inner)->is_little;
}

/* The interpreter that a stack is of; the work that tells most of those on it. */
static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	uint32_t interpreter = 0, work = 0;

	(void)context;
	for (size_t i = count; i-- && !interpreter;)
		interpreter = ws_find_interpreter(ws_stacks_get_origin(
			model->stacks,
			ws_stacks_get_function(model->stacks,
					       ws_get_frame_function(model, frames[i]))));
	for (size_t i = 0; interpreter && i < count; i++) {
		const struct ws_function *function = ws_stacks_get_function(
			model->stacks, ws_get_frame_function(model, frames[i]));
		uint32_t found = 0;

		if (!function->unresolved && function->kind != WS_FRAME_KERNEL)
			found = ws_classify_script_work(interpreter, function->name);
		if (found > 1 && is_callback(interpreter, found, work))
			return (uint64_t)interpreter << KEY_INTERPRETER | (found - 1);
		if (found && (!work || found < work))
			work = found;
	}
	return interpreter ? (uint64_t)interpreter << KEY_INTERPRETER | work : 0;
}

/* One interpreter's time, and that of each work that it does. */
struct script_time {
	uint32_t interpreter;
	uint64_t ns, works[UINT8_MAX + 1];
	struct ws_span span;
};

static void sum_interpreter(const struct ws_stack_sums *sums, uint32_t interpreter,
			    struct script_time *time)
{
	*time = (struct script_time){.interpreter = interpreter};
	for (size_t i = 0; i < sums->count; i++) {
		const struct ws_stack_sum *sum = &sums->sums[i];

		if (sum->key >> KEY_INTERPRETER != interpreter)
			continue;
		if (!time->ns)
			time->span = sum->span;
		time->ns += sum->ns;
		time->works[sum->key & UINT8_MAX] += sum->ns;
	}
}

/* The first process that runs the interpreter, the explained one before its children. */
static const struct ws_process_info *find_process(const struct ws_model *model,
						  uint32_t interpreter)
{
	for (uint32_t id = 1; id <= ws_highest_process_id(model->who); id++) {
		const struct ws_process_info *info = ws_find_process(model->who, id);

		if (ws_is_explained(model, id) &&
		    (!interpreter ? ws_find_interpreter(info->exe) != 0
				  : ws_find_interpreter(info->exe) == interpreter))
			return info;
	}
	return NULL;
}

/* The process that runs the interpreter and computes most on the path; the first one where none
 * does. */
static const struct ws_process_info *find_busiest(const struct ws_analysis *analysis,
						  uint32_t interpreter)
{
	const struct ws_names_by_id *who = analysis->model->who;
	uint32_t highest = ws_highest_process_id(who), most = 0;
	uint64_t *sums = ws_calloc(highest + (size_t)1, sizeof(*sums));

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint32_t process = row->thread ? ws_find_thread(who, row->thread)->process : 0;

		/* In a damaged report, threads may be those of processes that are not there. */
		if (row->cause != WS_CAUSE_CPU || process > highest ||
		    ws_find_interpreter(ws_find_process(who, process)->exe) != interpreter)
			continue;
		sums[process] += row->ns;
		if (!most || sums[process] > sums[most])
			most = process;
	}
	free(sums);
	return most ? ws_find_process(who, most) : find_process(analysis->model, interpreter);
}

/* The work to name: the first in the table with its least share, those of loops with what runs
 * beside them; 0 for none. `ns` gets its cost. */
static uint32_t choose_work(const struct script_time *time, uint64_t *ns)
{
	for (uint32_t work = 1; work <= UINT8_MAX; work++) {
		const struct ws_script_work *kind;

		if (!time->works[work])
			continue;
		kind = ws_get_script_work(time->interpreter, work);
		if ((double)time->works[work] < kind->least * (double)time->ns)
			continue;
		*ns = time->works[work] + (kind->kind == WS_SCRIPT_LOOP ? time->works[0] : 0) +
		      (kind->is_callback ? time->works[work + 1] : 0);
		return work;
	}
	*ns = time->ns;
	return 0;
}

#define HALF 0.5
#define MOST_OF_IT 0.7
#define NEARLY_ALL 0.9
#define GENERAL                                                                                \
	"Do less in the innermost loops: look items up in hash tables, keep what is the same " \
	"in each round."

static double find_gain(const struct ws_script_work *work, bool waste, bool searches)
{
	if (work->kind == WS_SCRIPT_LOOP)
		return searches ? NEARLY_ALL : 0;
	if (work->kind == WS_SCRIPT_COPY || work->waste)
		return waste && work->gain > 0 ? work->gain : HALF;
	if (work->gain > 0)
		return work->gain;
	return waste ? MOST_OF_IT : HALF;
}

static const char *choose_assumption(double gain)
{
	if (gain >= NEARLY_ALL)
		return "each search becomes one look-up";
	if (gain > MOST_OF_IT)
		return "nearly all of it can be avoided";
	return gain > HALF ? "most of it can be avoided" : "half of it can be avoided";
}

/* Where another script starts the interpreter. */
static void put_start(const struct ws_analysis *analysis, const struct ws_process_info *process,
		      struct ws_finding *finding)
{
	const struct ws_model *model = analysis->model;

	for (uint32_t id = 1; process && id < model->thread_count; id++)
		if (ws_find_process(model->who, ws_find_thread(model->who, id)->process) ==
		    process) {
			ws_put_starting_line(analysis, id, finding);
			return;
		}
}

/* Its innermost loop says more than all lines that begin one. */
static bool has_loop(const struct ws_model *model, const struct ws_process_info *process)
{
	struct ws_text text = {0};
	bool has;

	ws_put_script_loop(model, process->cmdline, 2, &text);
	has = text.text;
	ws_text_free(&text);
	return has;
}

/* What the script's text says of the work. */
struct text_evidence {
	struct ws_text what; /* for the title */
	const char *search;  /* the advice on loops that look for an item; NULL: it has none */
	bool copies;	     /* it copies whole lists */
};

/* grep { $_ eq $name } @names */
static bool has_search(const char *lines)
{
	const char *at = strstr(lines, "grep");

	at = at ? at : strstr(lines, "first {");
	return at && (strstr(at, " eq ") || strstr(at, " == "));
}

static struct text_evidence read_text(const struct ws_analysis *analysis,
				      const struct ws_interpreter *interpreter,
				      const struct ws_script_work *kind,
				      const struct ws_process_info *process)
{
	const struct ws_model *model = analysis->model;
	struct text_evidence text = {.search = NULL};

	if (!kind) {
		if (process)
			text.search = ws_put_script_loop(model, process->cmdline,
							 interpreter->compiles ? 2 : 1, &text.what);
		return text;
	}
	ws_text_printf(&text.what, ", mostly for %s", kind->what);
	if (!process)
		return text;
	if (kind->kind == WS_SCRIPT_LOOP && has_loop(model, process))
		text.search = ws_put_script_loop(model, process->cmdline, 1, &text.what);
	else if (kind->kind == WS_SCRIPT_COPY)
		text.copies = ws_put_script_copies(model, process->cmdline, &text.what);
	else
		ws_put_script_statements(model, process->cmdline, kind, &text.what);
	if (kind->kind == WS_SCRIPT_LOOP && has_search(text.what.text))
		text.search = kind->advice;
	return text;
}

/* Where most of the time goes into what there is a cheaper way for. */
static bool is_waste(const struct ws_analysis *analysis, const struct ws_script_work *kind,
		     uint64_t ns, const struct text_evidence *text)
{
	if (!kind || ws_analysis_share(analysis, ns) < MOST)
		return false;
	return kind->kind == WS_SCRIPT_WASTE || text->copies ||
	       (kind->kind == WS_SCRIPT_LOOP && text->search) ||
	       (kind->waste && strstr(text->what.text, kind->waste));
}

static void report_script(const struct ws_analysis *analysis, const struct script_time *time,
			  uint64_t on_path, struct ws_findings *findings)
{
	const struct ws_interpreter *interpreter = ws_get_interpreter(time->interpreter);
	const struct ws_process_info *process = find_busiest(analysis, time->interpreter);
	uint64_t ns;
	uint32_t work = choose_work(time, &ns);
	const struct ws_script_work *kind =
		work ? ws_get_script_work(time->interpreter, work) : NULL;
	struct text_evidence text = read_text(analysis, interpreter, kind, process);
	struct ws_text script = {0};
	struct ws_finding *finding;
	const char *advice = text.search ? text.search : GENERAL;
	bool waste;
	double gain;

	if (!kind && interpreter->compiles && !text.what.text)
		return;
	/* Samples of several processes at once are not all on the path. */
	ns = ws_min(ns, on_path);
	waste = is_waste(analysis, kind, ns, &text);
	gain = kind ? find_gain(kind, waste, text.search) : 0;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_script_work, ns,
					(uint64_t)((double)ns * gain));
	if (process)
		ws_put_script(process->cmdline, &script);
	finding->level = ws_min(finding->level, waste ? WS_LEVEL_WARNING : WS_LEVEL_NOTE);
	finding->title = ws_format("%.0f %% of the time %s computes in %s%s",
				   100 * ws_analysis_share(analysis, ws_min(time->ns, on_path)),
				   interpreter->name, ws_text_or(script.text, "a script"),
				   ws_text_or(text.what.text, ""));
	if (kind && kind->kind != WS_SCRIPT_LOOP)
		advice = kind->advice;
	if (gain > 0)
		finding->assumption = ws_strdup(choose_assumption(gain));
	finding->advice = ws_format("%s %s", advice, interpreter->advice);
	put_start(analysis, process, finding);
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_finding_add_evidence(finding, "the samples", NULL, time->span.start, time->span.end);
	ws_text_free(&script);
	ws_text_free(&text.what);
}

static void check_script(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t on_path = ws_analysis_cpu_on_path(analysis);
	struct ws_stack_sums sums;
	struct script_time time = {0};

	if (!find_process(analysis->model, 0))
		return;
	ws_stack_sums_make(analysis->model, 0, read_stack, NULL, &sums);
	for (size_t i = 0; i < sums.count; i++) {
		uint32_t interpreter = (uint32_t)(sums.sums[i].key >> KEY_INTERPRETER);
		struct script_time other;

		if (interpreter == time.interpreter)
			continue;
		sum_interpreter(&sums, interpreter, &other);
		if (other.ns > time.ns)
			time = other;
	}
	if (ws_analysis_share(analysis, ws_min(time.ns, on_path)) >= LEAST_SHARE &&
	    time.ns >= sums.ns / 2)
		report_script(analysis, &time, on_path, findings);
	ws_stack_sums_free(&sums);
}

const struct ws_rule ws_rule_script_work = {
	.name = "script-work",
	.title = "What an interpreter does for its script",
	.about = "An interpreter of Perl, Ruby, PHP, Lua, Tcl, awk, JavaScript (node) or a shell "
		 "computes for 30 % of "
		 "the time or more. Which operation of the language it does most follows from its "
		 "functions: searching an array, sorting, compiling regular expressions, joining "
		 "texts; a loop's body counts with it. Which line runs is not recorded: those are "
		 "named that have a statement which asks for it, where they are few; else the "
		 "innermost loop by the script's text. A note, "
		 "since it may be just what the script is for, but a warning where half of the "
		 "time or more goes into searching, moving, copying or compiling anew, for which "
		 "cheaper ways are known; of loops and copies of lists, the script's text must "
		 "say it, too.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_script,
};
