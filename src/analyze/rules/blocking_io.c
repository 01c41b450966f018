/*
 * blocking_io.c - threads on the critical path that wait for files, disks or the network.
 *
 * Waits of one process in one call are one finding, whichever files they were for: a program that
 * opens a connection for each request has another path each time.
 */
#include "analyze/rules/blocked_loop.h"
#include "analyze/scripts.h"
#include "analyze/source_line.h"
#include "analyze/tasks.h"
#include "lanes/row_tree.h"
#include "query/file_use.h"

struct io_group {
	struct ws_breakdown_row most; /* the row with the most time; no path if there are several */
	uint32_t process;
	uint64_t ns, waits, paths;
};
enum { MOST_GROUPS = 64, FEW_WAITS = 3 };
#define LEAST_SHARE 0.02
#define LEAST_LOOP_SHARE 0.05 /* of an event loop that has nothing else to do */

static bool is_network(const char *call, const char *path)
{
	return !strncmp(path, "socket:", 7) || strstr(call, "recv") || strstr(call, "send") ||
	       strstr(call, "accept") || strstr(call, "connect") || strstr(call, "poll") ||
	       strstr(call, "select");
}

/* Where each wait is for another connection or file, each request makes a new one. */
static const char *choose_advice(const struct io_group *group, const char *call, const char *path)
{
	enum { MANY = 16 };

	if (strstr(call, "sync"))
		return "Flush less often: gather several writes before each flush, or flush on a "
		       "thread of its own.";
	if (strstr(call, "open"))
		return "Open the file once and keep it open. One that is written anew each time "
		       "(\"w\", O_TRUNC) waits for the disk: add what is new at its end, or write "
		       "the whole only now and then.";
	if (is_network(call, path) && group->paths >= MANY && group->paths * 2 > group->waits)
		return "Keep one connection open and send all requests over it (http.client, "
		       "requests.Session, a pool): each new one takes several turns. Ask for "
		       "several things at once (threads, asyncio); or look at what the other side "
		       "does.";
	if (is_network(call, path))
		return "Ask for several things at once (threads, asyncio, pipelining), keep "
		       "connections open, and do other work until answers come; or look at what "
		       "the other side does.";
	if (!strcmp(call, "ioctl"))
		return "The program asks a driver again and again. That of NVIDIA is asked by "
		       "cudaGetDeviceProperties, cudaMemGetInfo, NVML and allocations: ask once "
		       "before the loop and keep the answer, or what was allocated.";
	if (strstr(call, "write"))
		return "Write larger pieces, or write on a thread of its own so that the program "
		       "goes on meanwhile.";
	return "Read ahead on another thread (or with io_uring or readahead), read larger pieces, "
	       "or keep the data in memory.";
}

static const struct ws_file_use *find_file_use(const struct ws_analysis *analysis,
					       const struct io_group *group,
					       const struct ws_file_use *uses, size_t count)
{
	uint32_t path = ws_report_string_key(analysis->model->report, group->most.path);

	for (size_t i = 0; i < count; i++)
		if (uses[i].process == group->process && uses[i].path == path)
			return &uses[i];
	return NULL;
}

/* Advice about a file that is read at random places or in small pieces; NULL where it is not, or is
 * not read at all. The caller frees it. */
static char *advise_on_reads(const struct ws_analysis *analysis, const struct io_group *group)
{
	enum { LEAST_READS = 16 };
	const struct ws_model *model = analysis->model;
	struct ws_file_use *uses;
	const struct ws_file_use *use;
	char *advice = NULL;
	size_t count;

	if (group->paths > 1 || !group->most.path ||
	    !strstr(ws_report_string(model->report, group->most.name, NULL), "read"))
		return NULL;
	uses = ws_load_file_use(model->report, model->who, model->from, model->to, &count);
	use = find_file_use(analysis, group, uses, count);
	if (use && use->reads >= LEAST_READS && use->jumps > use->in_order)
		advice =
			ws_format("%.0f %% of the reads begin elsewhere than the last one ended, "
				  "with %llu bytes each on average: sort them by their place in "
				  "the file, ask for many at once (io_uring, threads), or keep "
				  "the file in memory.",
				  100.0 * (double)use->jumps / (double)(use->jumps + use->in_order),
				  (unsigned long long)(use->read_bytes / use->reads));
	else if (use && use->reads >= LEAST_READS && use->small_reads > use->reads / 2)
		advice = ws_format("%llu of %llu reads are of less than %u bytes: read larger "
				   "pieces, or through a buffer.",
				   (unsigned long long)use->small_reads,
				   (unsigned long long)use->reads, WS_SMALL_READ);
	free(uses);
	return advice;
}

/* Kernel time on a core at the line that waits: it disappears with the call. */
static uint64_t sum_kernel_time(const struct ws_analysis *analysis, const struct io_group *group)
{
	const struct ws_code_place *place = &group->most.place;
	uint64_t sum = 0;

	for (size_t i = 0; place->line && i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_CPU && row->place.function == place->function &&
		    row->place.file == place->file && row->place.line == place->line &&
		    ws_stacks_get_function(analysis->model->stacks, row->place.leaf)->kind ==
			    WS_FRAME_KERNEL)
			sum += row->ns;
	}
	return sum;
}

/* Calls that wait for descriptors until their time limit is over. */
struct limits {
	uint64_t count, ns;
};

static struct limits find_limits(const struct ws_analysis *analysis, const struct io_group *group)
{
	const struct ws_model *model = analysis->model;
	struct limits limits = {0};
	struct ws_cursor *cursor;
	const uint64_t *values;

	if (group->most.cause != WS_CAUSE_POLL)
		return limits;
	cursor = ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	while (ws_cursor_next(cursor, &values)) {
		uint32_t thread = (uint32_t)values[ws_osrt_thread];

		if (values[ws_osrt_result] || values[ws_osrt_end] == WS_NO_TIME ||
		    (uint32_t)values[ws_osrt_name] != group->most.name ||
		    ws_find_thread(model->who, thread)->process != group->process)
			continue;
		limits.count++;
		limits.ns += values[ws_osrt_end] - values[ws_osrt_start];
	}
	ws_cursor_close(cursor);
	return limits;
}

/* Nothing came while it waited: it only sleeps, or the tasks of its event loop do. */
static void explain_limits(const struct ws_analysis *analysis, const struct io_group *group,
			   const char *what, struct ws_finding *finding)
{
	bool loop = group->most.place.library == WS_LIBRARY_LOOP;
	struct limits limits = find_limits(analysis, group);

	if (limits.ns < group->ns / 2)
		return;
	finding->title = ws_format("%s until a time limit is over, %llu times, %.3g ms each: %s",
				   loop ? "The event loop has nothing to do but to wait"
					: "The program waits",
				   (unsigned long long)limits.count,
				   (double)limits.ns / 1e6 / (double)limits.count, what);
	if (loop)
		finding->advice = ws_strdup(
			"Its tasks sleep, or wait one after the other: start them together "
			"(asyncio.gather, TaskGroup), and wait for events instead of sleeping.");
	else
		finding->advice = ws_strdup(
			"It asks again and again after a pause: let what it waits for wake it (a "
			"pipe or eventfd among the descriptors, a condition variable), and wait "
			"without a limit.");
	finding->assumption =
		ws_strdup(loop ? "its tasks wait side by side" : "it is woken at once");
}

/* ---- event loops ---- */

#define WAIT_FOR_EVENTS                                                                          \
	"It asks again and again after a pause: wait for the thing itself, which ends the wait " \
	"at once (asyncio.Event, Future, Queue; await the task that makes it)."

/* The innermost line that awaits in a loop or under a lock; else the innermost of all. */
static const struct ws_task_place *choose_place(const struct ws_task_chain *chain)
{
	for (size_t i = chain->count; i--;)
		if (chain->places[i].loop || chain->places[i].lock)
			return &chain->places[i];
	return &chain->places[chain->count - 1];
}

static void put_line(const struct ws_analysis *analysis, const struct ws_task_place *at,
		     uint32_t line, const char *how, struct ws_text *text)
{
	const struct ws_report *report = analysis->model->report;
	struct ws_text statement = {0};

	if (ws_put_source_line(ws_report_string(report, at->place.file, NULL), line,
			       (uint64_t)ws_lanes_realtime(report, analysis->model->to),
			       &statement))
		ws_text_printf(text, ", %s at line %u: %s", how, line, statement.text);
	ws_text_free(&statement);
}

static void put_lock(const struct ws_analysis *analysis, const struct ws_task_place *at,
		     struct ws_text *text)
{
	ws_text_puts(text, at->single ? " under a lock or semaphore that lets one task through at "
					"a time"
				      : " under a lock or semaphore");
	put_line(analysis, at, at->taken, "taken", text);
	put_line(analysis, at, at->made, "made", text);
}

/* Which coroutine awaits what: the place of the loop itself says nothing. */
static void put_task(const struct ws_analysis *analysis, const struct ws_task_chain *chain,
		     struct ws_text *text)
{
	const struct ws_task_place *at = choose_place(chain);

	ws_code_put_place(analysis->model, &at->place, text);
	if (at < &chain->places[chain->count - 1]) {
		ws_text_puts(text, " awaits ");
		ws_code_put_place(analysis->model, &at[1].place, text);
	} else {
		ws_text_puts(text, " waits");
	}
	if (at->lock)
		put_lock(analysis, at, text);
	else if (at->loop)
		ws_text_puts(text, " in a loop, each time before it goes on");
}

static const char *choose_task_advice(const struct ws_task_place *at)
{
	if (at->lock)
		return "Only as many tasks go on at once as the lock or semaphore lets in: let "
		       "more in, or hold it only for what must not be done twice at once, not "
		       "while the task awaits an answer.";
	if (at->polls)
		return WAIT_FOR_EVENTS;
	return "Start what does not need the result before it together (asyncio.gather, "
	       "TaskGroup, create_task) instead of awaiting one after the other; and wait for "
	       "events (asyncio.Event, Queue) instead of asking again after a sleep.";
}

/* The lines of a file that sleep until something has come, where they are few: hardly any sample
 * shows tasks that mostly sleep. */
struct pauses {
	uint32_t lines[3], defs[3]; /* with the lines on which their functions begin */
	size_t count;
};

static struct pauses find_pauses(const struct ws_analysis *analysis, uint32_t file)
{
	static const char *const sleeping[] = {"asyncio.sleep", "trio.sleep", "anyio.sleep", NULL};
	enum { MOST = 16 };
	const struct ws_report *report = analysis->model->report;
	const char *path = ws_report_string(report, file, NULL);
	uint64_t until = (uint64_t)ws_lanes_realtime(report, analysis->model->to);
	uint32_t lines[MOST];
	size_t count = ws_find_statements(path, until, sleeping, lines, MOST);
	struct pauses pauses = {.count = 0};

	for (size_t i = 0; i < count; i++) {
		struct ws_line_around around = ws_look_around_line(path, lines[i], until);

		if (!around.polls)
			continue;
		if (pauses.count == WS_COUNT(pauses.lines))
			return (struct pauses){.count = 0};
		pauses.lines[pauses.count] = lines[i];
		pauses.defs[pauses.count++] = around.def;
	}
	return pauses;
}

/* ", at line 12: await asyncio.sleep(0.06)" */
static void put_pauses(const struct ws_analysis *analysis, uint32_t file,
		       const struct pauses *pauses, struct ws_text *text)
{
	const struct ws_report *report = analysis->model->report;

	for (size_t i = 0; i < pauses->count; i++) {
		ws_text_printf(text, "%s line %u: ", i ? ";" : ", at", pauses->lines[i]);
		ws_put_source_line(ws_report_string(report, file, NULL), pauses->lines[i],
				   (uint64_t)ws_lanes_realtime(report, analysis->model->to), text);
	}
}

/* Those of the function that the tasks were seen in, or of the file. */
static bool say_pauses(const struct ws_analysis *analysis, const struct ws_code_place *place,
		       bool within, struct ws_finding *finding)
{
	const struct ws_report *report = analysis->model->report;
	uint32_t def = ws_look_around_line(ws_report_string(report, place->file, NULL), place->line,
					   (uint64_t)ws_lanes_realtime(report, analysis->model->to))
			       .def;
	struct pauses pauses = find_pauses(analysis, place->file);
	char *title = finding->title;
	struct ws_text text = {0};

	if (!pauses.count || (within && pauses.defs[0] != def))
		return false;
	put_pauses(analysis, place->file, &pauses, &text);
	finding->title =
		ws_format("%s; a task sleeps until something has come%s", title, text.text);
	finding->file = place->file;
	finding->line = pauses.lines[0];
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(WAIT_FOR_EVENTS);
	ws_text_free(&text);
	return true;
}

/* Tasks that wait side by side: all of them, so that no more is to be gained by that, or in groups,
 * each of which waits for its slowest. */
static void judge_together(const struct ws_analysis *analysis, const struct io_group *group,
			   const struct ws_task_chain *chain, struct ws_finding *finding)
{
	const double gain = 0.65;
	const struct ws_task_place *at = choose_place(chain);
	char *title = finding->title;
	uint32_t line = 0;
	enum ws_tasks_start start;

	if (at->lock || at->polls)
		return;
	start = ws_find_tasks_start(analysis->model, chain, at->loop, &line);
	/* Where the loop itself starts them, nothing else is awaited in turn. */
	if (at->loop && start == WS_TASKS_IN_GROUPS && line != at->place.line)
		return;
	if (start == WS_TASKS_TOGETHER)
		finding->level = WS_LEVEL_NOTE;
	if (start != WS_TASKS_IN_GROUPS)
		return;
	finding->title = ws_format("%s; the tasks start in groups, each of which waits for its "
				   "slowest one, at line %u",
				   title, line);
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup(
		"Start the next task as soon as one is done: all at once, with a semaphore that "
		"lets so many go on (async with asyncio.Semaphore(8)), or some workers that take "
		"from a queue; not gather for one part of the items after the other.");
	free(finding->assumption);
	finding->assumption = ws_strdup("none waits for the slowest of its group");
	finding->gain_ns = (uint64_t)((double)group->ns * gain);
}

/* What the tasks do between the waits of the loop, as far as samples show it. */
static void explain_tasks(const struct ws_analysis *analysis, const struct io_group *group,
			  struct ws_finding *finding)
{
	struct limits limits = find_limits(analysis, group);
	bool sleeps = limits.ns >= group->ns / 2;
	struct ws_task_chain chain;
	struct ws_text task = {0}, thread = {0};
	const struct ws_task_place *at;

	if (group->most.place.library != WS_LIBRARY_LOOP)
		return;
	if (!ws_find_task_chain(analysis->model, group->most.thread, &chain)) {
		if (sleeps)
			say_pauses(analysis, &group->most.place, false, finding);
		return;
	}
	at = choose_place(&chain);
	put_task(analysis, &chain, &task);
	ws_put_thread(analysis, group->most.thread, &thread);
	free(finding->title);
	free(finding->advice);
	finding->title =
		ws_format("The event loop has nothing to do but to wait%s, %llu times, "
			  "%.3g ms each: %s [%s]",
			  sleeps ? " until a time limit is over" : "",
			  (unsigned long long)group->waits,
			  (double)group->ns / 1e6 / (double)group->waits, task.text, thread.text);
	finding->advice = ws_strdup(choose_task_advice(at));
	ws_point_at(finding, &at->place);
	judge_together(analysis, group, &chain, finding);
	if (sleeps && !at->polls && !at->lock) {
		const struct ws_task_place *last = &chain.places[chain.count - 1];

		/* Samples show who does a little between two pauses rather than who only sleeps. */
		say_pauses(analysis, &last->place, at < last, finding);
	}
	ws_text_free(&task);
	ws_text_free(&thread);
}

static bool is_node(const struct ws_analysis *analysis, const struct io_group *group)
{
	uint32_t interpreter =
		ws_find_interpreter(ws_find_process(analysis->model->who, group->process)->exe);

	return group->most.cause == WS_CAUSE_POLL && interpreter &&
	       !strcmp(ws_get_interpreter(interpreter)->name, "node");
}

static bool is_event_loop(const struct ws_analysis *analysis, const struct io_group *group)
{
	return group->most.place.library == WS_LIBRARY_LOOP || is_node(analysis, group);
}

/* Which function awaits is not recorded for JavaScript: the lines are named where they are few. */
static void explain_node(const struct ws_analysis *analysis, const struct io_group *group,
			 struct ws_finding *finding)
{
	static const struct ws_script_work awaiting = {.words = {"await", NULL}};
	const struct ws_process_info *process =
		ws_find_process(analysis->model->who, group->process);
	struct ws_text lines = {0};

	if (!is_node(analysis, group))
		return;
	ws_put_script_statements(analysis->model, process->cmdline, &awaiting, &lines);
	free(finding->title);
	free(finding->advice);
	finding->title = ws_format("The event loop of node has nothing to do but to wait, %llu "
				   "times, %.3g ms each: it awaits%s [%s %u]",
				   (unsigned long long)group->waits,
				   (double)group->ns / 1e6 / (double)group->waits,
				   ws_text_or(lines.text, " timers or answers"), process->name,
				   process->pid);
	finding->advice = ws_strdup(
		"Start what does not need the result before it together (Promise.all) instead of "
		"awaiting one after the other in a loop; and wait for events instead of asking "
		"again after a pause (setTimeout, setInterval).");
	free(finding->assumption);
	finding->assumption = ws_strdup("its requests wait side by side");
	ws_text_free(&lines);
}

/* TCP acknowledges after 40 ms what it could not answer at once; a sender that has sent a small
 * piece waits for that before it sends the next (Nagle's algorithm). */
static void explain_delay(const struct io_group *group, const char *call, const char *path,
			  const char *what, struct ws_finding *finding)
{
	enum { LEAST_WAITS = 5, LEAST_NS = 36000000, MOST_NS = 46000000 };
	uint64_t each = group->ns / ws_max(group->waits, (uint64_t)1);

	if (finding->title || group->waits < LEAST_WAITS || each < LEAST_NS || each > MOST_NS ||
	    !is_network(call, path))
		return;
	finding->title =
		ws_format("The program waits for %s, %llu times, 40 ms each, as TCP delays "
			  "acknowledgements",
			  what, (unsigned long long)group->waits);
	finding->advice = ws_strdup(
		"Send each message by one call (writev, a buffer), or set TCP_NODELAY: after one "
		"small piece TCP holds the next back until the other side has acknowledged it, "
		"which that delays by 40 ms.");
}

/* Whether threads of the program worked while one waited for descriptors: event loops and runtimes
 * such as Go's keep a thread that waits, and who wakes it is not known. */
static bool did_others_work(const struct ws_analysis *analysis, const struct io_group *group)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	uint64_t busy = parallel->alone_ns + parallel->together_ns;

	return group->most.cause == WS_CAUSE_POLL &&
	       group->ns + busy > analysis->window + analysis->window / 5;
}

static void report_group(const struct ws_analysis *analysis, const struct io_group *group,
			 struct ws_findings *findings)
{
	const struct ws_report *report = analysis->model->report;
	const struct ws_breakdown_row *row = &group->most;
	const char *call = ws_report_string(report, row->name, NULL);
	uint64_t cost = group->ns + sum_kernel_time(analysis, group);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_blocking_io, cost, cost);
	struct ws_text what = {0};

	ws_limit_to_users(analysis, finding, &row->place);
	/* The first start after others have used the disk's cache reads all modules anew. */
	if (did_others_work(analysis, group) || ws_is_start_up(&row->place))
		finding->level = WS_LEVEL_NOTE;
	ws_breakdown_put_row(analysis->model, row, &what);
	if (group->paths > 1)
		ws_text_printf(&what, ", %llu times, for %s%llu files or connections",
			       (unsigned long long)group->waits,
			       group->paths >= MOST_GROUPS ? "at least " : "",
			       (unsigned long long)group->paths);
	else if (group->waits > 1 && strstr(call, "open"))
		ws_text_printf(&what, ", %llu times", (unsigned long long)group->waits);
	explain_limits(analysis, group, what.text, finding);
	explain_delay(group, call, ws_report_string(report, row->path, NULL), what.text, finding);
	if (!finding->title)
		finding->title = ws_format("The program waits for %s", what.text);
	if (!finding->advice)
		finding->advice = advise_on_reads(analysis, group);
	if (!finding->advice)
		finding->advice = ws_strdup(
			choose_advice(group, call, ws_report_string(report, row->path, NULL)));
	explain_tasks(analysis, group, finding);
	explain_node(analysis, group, finding);
	/* What an event loop waits for once waits side by side already. */
	if (is_event_loop(analysis, group) && group->waits < FEW_WAITS)
		finding->level = WS_LEVEL_NOTE;
	if (!finding->assumption)
		finding->assumption = ws_strdup("the rest of the program does not wait for it");
	ws_say_lone_worker(analysis, row, finding);
	ws_say_results_in_turn(analysis, row->thread, finding);
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&what);
}

static void add_to_groups(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
			  struct io_group *groups, size_t *count)
{
	uint32_t process = ws_find_thread(analysis->model->who, row->thread)->process;
	size_t k = 0;

	while (k < *count && (groups[k].most.name != row->name || groups[k].process != process))
		k++;
	if (k == MOST_GROUPS)
		return;
	if (k == *count)
		groups[(*count)++] =
			(struct io_group){.most = *row, .process = process, .paths = 1};
	else if (row->path != groups[k].most.path)
		groups[k].paths++;
	groups[k].ns += row->ns;
	groups[k].waits += row->pieces;
}

/* Waits of threads and processes for each other, which the rule handovers has reported. */
static bool is_handover(const struct ws_analysis *analysis, const struct ws_findings *findings,
			const struct ws_breakdown_row *row)
{
	const char *path = ws_report_string(analysis->model->report, row->path, NULL);

	return ws_findings_have(findings, &ws_rule_handovers) &&
	       (!strncmp(path, "pipe:", 5) || !strncmp(path, "socket:", 7));
}

/* What short processes print, which the rule child-processes has reported. */
static bool is_childs_output(const struct ws_analysis *analysis, const struct ws_findings *findings,
			     const struct ws_breakdown_row *row)
{
	return ws_findings_have(findings, &ws_rule_child_processes) &&
	       ws_is_wait_for_output(analysis, row);
}

/* The start of CUDA, where the whole run is looked at, takes a while in any program. */
static bool is_start_of_cuda(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return analysis->model->has_cuda && analysis->model->step_source == WS_STEPS_NONE &&
	       !strncmp(ws_report_string(analysis->model->report, row->path, NULL), "/dev/nvidia",
			strlen("/dev/nvidia"));
}

static double choose_least(const struct io_group *group)
{
	bool loop =
		group->most.cause == WS_CAUSE_POLL && group->most.place.library == WS_LIBRARY_LOOP;

	return loop ? LEAST_LOOP_SHARE : LEAST_SHARE;
}

static void check_io(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct io_group groups[MOST_GROUPS];
	size_t count = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if ((row->cause == WS_CAUSE_IO || row->cause == WS_CAUSE_POLL) &&
		    !ws_is_loop_blocked(analysis, findings, row) &&
		    !is_handover(analysis, findings, row) && !is_start_of_cuda(analysis, row) &&
		    !is_childs_output(analysis, findings, row) &&
		    !(row->place.loader && ws_findings_have(findings, &ws_rule_data_loading)) &&
		    ws_is_explained(analysis->model,
				    ws_find_thread(analysis->model->who, row->thread)->process))
			add_to_groups(analysis, row, groups, &count);
	}
	for (size_t k = 0; k < count; k++)
		if (ws_analysis_share(analysis, groups[k].ns) >= choose_least(&groups[k]))
			report_group(analysis, &groups[k], findings);
}

const struct ws_rule ws_rule_blocking_io = {
	.name = "blocking-io",
	.title = "Waiting for files, disks or the network",
	.about = "Threads on the critical path wait in calls that read, write, flush, connect, or "
		 "wait for descriptors. Reported from 2 % of the time on (an event loop's own "
		 "waits: 5 %), together for all waits of a process in one call. What waits off the "
		 "path costs nothing and is not "
		 "reported.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_io,
};
