/* rules.c - see rules.h. */
#include "analyze/rules/rules.h"

#include "analyze/launch_places.h"
#include "analyze/scripts.h"
#include "analyze/source_line.h"
#include "analyze/works.h"
#include "base/map.h"
#include "lanes/row_tree.h"
#include "query/command_line.h"
#include "query/gpu.h"

const char *ws_need_cuda(const struct ws_analysis *analysis)
{
	if (!analysis->model->has_cuda)
		return "no work on GPUs was recorded (-t cuda)";
	return NULL;
}

const char *ws_need_gpu_metrics(const struct ws_analysis *analysis)
{
	if (!analysis->model->has_cuda)
		return ws_need_cuda(analysis);
	if (!analysis->measured.any && analysis->measured.sampled)
		return "samples of GPU metrics cover less than half of the time (a lower "
		       "--gpu-metrics-frequency, or a smaller --gpu-metrics-set, loses fewer)";
	if (!analysis->measured.any)
		return "metrics of GPUs were not sampled (--gpu-metrics-devices=all)";
	return NULL;
}

const char *ws_need_scheduling(const struct ws_analysis *analysis)
{
	if (!analysis->model->has_scheduling)
		return "context switches were not recorded (--cpuctxsw)";
	return NULL;
}

const char *ws_need_samples(const struct ws_analysis *analysis)
{
	if (!analysis->model->has_samples)
		return "threads were not sampled (--sample)";
	return NULL;
}

const char *ws_need_kernel_samples(const struct ws_analysis *analysis)
{
	if (analysis->model->has_samples && !analysis->usage.kernel)
		return "the kernel was not sampled (perf_event_paranoid)";
	return ws_need_samples(analysis);
}

uint64_t ws_sum_path_rows(const struct ws_analysis *analysis,
			  bool (*wanted)(const struct ws_analysis *analysis,
					 const struct ws_breakdown_row *row))
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++)
		if (wanted(analysis, &analysis->breakdown.rows[i]))
			sum += analysis->breakdown.rows[i].ns;
	return sum;
}

const struct ws_breakdown_row *ws_find_path_row(const struct ws_analysis *analysis,
						bool (*wanted)(const struct ws_analysis *analysis,
							       const struct ws_breakdown_row *row))
{
	for (size_t i = 0; i < analysis->breakdown.count; i++)
		if (wanted(analysis, &analysis->breakdown.rows[i]))
			return &analysis->breakdown.rows[i];
	return NULL;
}

bool ws_is_call_named(const struct ws_analysis *analysis, uint32_t call, const char *const *names)
{
	size_t length;
	const char *name = ws_get_cuda_function_name(analysis->model->report, call, &length);

	return ws_is_name_among(name, length, names);
}

uint64_t ws_sort_call(const struct ws_analysis *analysis, struct ws_map *sorts, uint32_t call,
		      const char *const *const *lists)
{
	uint64_t known = ws_map_get(sorts, call, NULL), sort = 0;

	if (known)
		return known - 1;
	while (lists[sort] && !ws_is_call_named(analysis, call, lists[sort]))
		sort++;
	sort = lists[sort] ? sort + 1 : 0;
	ws_map_set(sorts, call, sort + 1);
	return sort;
}

bool ws_is_library_setup(const struct ws_analysis *analysis, const struct ws_code_place *place)
{
	static const char *const functions[] = {"cublasCreate*",
						"cublasDestroy*",
						"cublasLtCreate",
						"cublasLtDestroy",
						"cublasXtCreate",
						"cublasXtDestroy",
						"cudnnCreate",
						"cudnnDestroy",
						"cufftPlan*",
						"cufftMakePlan*",
						"cufftCreate",
						"cufftDestroy",
						"cusolverDnCreate",
						"cusolverDnDestroy",
						"cusolverSpCreate",
						"cusolverSpDestroy",
						"cusparseCreate",
						"cusparseDestroy",
						"curandCreateGenerator*",
						"curandDestroyGenerator",
						"ncclCommInit*",
						"ncclCommDestroy",
						NULL};
	const char *name;

	if (!place->called)
		return false;
	name = ws_stacks_get_function(analysis->model->stacks, place->called)->name;
	return ws_is_name_among(name, strlen(name), functions);
}

uint64_t ws_sum_path_calls(const struct ws_analysis *analysis, const char *const *names)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_CUDA_CALL && row->name &&
		    ws_is_call_named(analysis, row->name, names))
			sum += row->ns;
	}
	return sum;
}

uint64_t ws_sum_path_kernel(const struct ws_analysis *analysis, uint32_t name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++)
		if (analysis->breakdown.rows[i].cause == WS_CAUSE_GPU_COMPUTE &&
		    ws_report_string_key(analysis->model->report,
					 analysis->breakdown.rows[i].name) == name)
			sum += analysis->breakdown.rows[i].ns;
	return sum;
}

bool ws_is_library_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel)
{
	static const char *const parts[] = {"cutlass", "gemm",	  "cudnn",  "at::native",
					    "nccl",    "cub::",	  "thrust", "cublas",
					    "xmma",    "Kernel2", "nvjet",  "flash_",
					    "fft",     "triton_", "cask",   "c10::"};
	const struct ws_report *report = analysis->model->report;
	const char *names[] = {ws_report_string(report, kernel->name, NULL),
			       ws_report_string(report, kernel->demangled, NULL)};

	for (size_t k = 0; k < WS_COUNT(names); k++)
		for (size_t i = 0; i < WS_COUNT(parts); i++)
			if (strstr(names[k], parts[i]))
				return true;
	return false;
}

void ws_put_at_place(const struct ws_analysis *analysis, const struct ws_code_place *place,
		     struct ws_text *text)
{
	if (!place->leaf)
		return;
	ws_text_puts(text, " at ");
	ws_code_put_place(analysis->model, place, text);
}

void ws_report_long_kernels(const struct ws_analysis *analysis,
			    bool (*wanted)(const struct ws_kernel_fact *kernel),
			    void (*report)(const struct ws_analysis *analysis,
					   const struct ws_kernel_fact *kernel, uint64_t on_path,
					   struct ws_findings *findings),
			    struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->facts.kernel_count; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
		uint64_t on_path;

		if (!wanted(kernel) || kernel->ns < kernel->count * 2 * WS_SHORT_KERNEL_NS ||
		    ws_is_library_kernel(analysis, kernel))
			continue;
		on_path = ws_sum_path_kernel(analysis, kernel->name);
		if (ws_analysis_share(analysis, on_path) >= 0.1)
			report(analysis, kernel, on_path, findings);
	}
}

char *ws_kernel_command(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel)
{
	const struct ws_report *report = analysis->model->report;
	struct ws_text text = {0};

	ws_text_puts(&text, "warpsight kernel --set detailed -k ");
	ws_put_shell_word(&text, ws_report_string(report, kernel->name, NULL));
	ws_text_printf(&text, " --launch-count 3 %s", ws_find_program_line(report));
	return text.text;
}

bool ws_is_start_up(const struct ws_code_place *place)
{
	return place->work != WS_WORK_NONE && ws_get_work_kind(place->work)->is_start_up;
}

void ws_mark_start_up(const struct ws_analysis *analysis, struct ws_finding *finding)
{
	uint64_t most = 0;

	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		const struct ws_work_gpu *gpu = &analysis->model->work.gpu[i];
		uint64_t first, last;

		if (!gpu->count)
			continue;
		first = ws_max(gpu->op[0].start, analysis->model->from);
		last = ws_min(gpu->op[gpu->count - 1].end, analysis->model->to);
		most = ws_max(most, last - ws_min(first, last));
	}
	finding->start_up = most > finding->cost_ns;
}

/* Whether a thread of the explained process is its only one besides the main thread. */
static bool is_lone_worker(const struct ws_model *model, uint32_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(model->who, thread);
	uint32_t others = 0;

	if (info->process != model->process || info->tid == info->pid)
		return false;
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_thread_info *other = ws_find_thread(model->who, id);

		others += other->process == model->process && other->tid != other->pid;
	}
	return others == 1;
}

/* How often the main thread of a worker's process waits until that worker ends the wait. */
static uint64_t count_main_waits(const struct ws_model *model, uint32_t worker)
{
	uint32_t process = ws_find_thread(model->who, worker)->process;
	uint64_t count = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		const struct ws_thread_info *info = ws_find_thread(model->who, id);

		if (info->process != process || info->tid != info->pid)
			continue;
		for (size_t i = 0; i < thread->count; i++)
			count += thread->states[i].doing == WS_DOING_WAIT &&
				 thread->states[i].waker == worker;
	}
	return count;
}

/* Where the main thread waits for each answer before it asks for the next thing, there is nothing
 * that other workers could do meanwhile; an event loop has tasks that ask side by side. */
void ws_say_lone_worker(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
			struct ws_finding *finding)
{
	enum { FEW = 8 };
	char *advice = finding->advice, *title = finding->title;

	if (row->pieces < FEW || !is_lone_worker(analysis->model, row->thread) ||
	    (ws_find_wait_place(analysis).library != WS_LIBRARY_LOOP &&
	     count_main_waits(analysis->model, row->thread) * 2 >= row->pieces))
		return;
	finding->title = ws_format("%s, on the only worker thread", title);
	free(title);
	finding->advice = ws_format("There is only one worker thread: several (a larger pool) wait "
				    "side by side. %s",
				    advice);
	free(advice);
}

/* Whether a line of Python waits for a result that it, or the line before, has just asked for. */
static bool asks_and_waits(const struct ws_model *model, const struct ws_code_place *place)
{
	static const char *const results[] = {".result(", NULL},
				 *const submits[] = {"submit(", "run_coroutine_threadsafe(", NULL};
	const char *path = ws_report_string(model->report, place->file, NULL);
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);

	if (!place->python || !place->users || !place->line ||
	    !ws_has_statement_part(path, place->line, until, results))
		return false;
	return ws_has_statement_part(path, place->line, until, submits) ||
	       ws_has_statement_part(path, place->line - 1, until, submits);
}

/* Where the main thread waits for each result before it asks for the next, what a worker waits for
 * takes its time: it is the others that have nothing to do. */
void ws_say_results_in_turn(const struct ws_analysis *analysis, uint32_t thread,
			    struct ws_finding *finding)
{
	struct ws_code_place place = ws_find_wait_place(analysis);
	char *advice = finding->advice, *title = finding->title;
	struct ws_text at = {0};

	if (thread == analysis->model->thread || !asks_and_waits(analysis->model, &place))
		return;
	ws_put_at_place(analysis, &place, &at);
	finding->title = ws_format("Each result is waited for before the next is asked for%s, so "
				   "that one worker has something to do at a time. %s",
				   ws_text_or(at.text, ""), title);
	free(title);
	finding->advice = ws_format("Ask for all first and for their results afterwards (map, "
				    "as_completed, a list of futures): result() right after "
				    "submit() lets the other workers wait. %s",
				    advice);
	free(advice);
	ws_point_at(finding, &place);
	ws_text_free(&at);
}

void ws_put_launch(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
		   struct ws_finding *finding, struct ws_text *text)
{
	struct ws_code_place place = ws_place_kernel(analysis, kernel->name);

	if (!place.leaf)
		return;
	ws_text_puts(text, ", launched");
	ws_put_at_place(analysis, &place, text);
	ws_point_at(finding, &place);
}

const char *ws_find_kernel_source(const struct ws_analysis *analysis,
				  const struct ws_kernel_fact *kernel, uint32_t *file)
{
	*file = ws_place_kernel(analysis, kernel->name).file;
	for (size_t i = 0; !*file && i < analysis->breakdown.count; i++)
		if (analysis->breakdown.rows[i].place.users)
			*file = analysis->breakdown.rows[i].place.file;
	for (size_t i = 0; !*file && i < analysis->facts.call_count; i++)
		if (analysis->facts.calls[i].place.users)
			*file = analysis->facts.calls[i].place.file;
	return ws_report_string(analysis->model->report, *file, NULL);
}

void ws_point_at(struct ws_finding *finding, const struct ws_code_place *place)
{
	finding->file = place->file;
	finding->line = place->line;
}

bool ws_is_interpreters_thread(const struct ws_analysis *analysis, uint32_t thread)
{
	const struct ws_names_by_id *who = analysis->model->who;
	uint32_t process = thread ? ws_find_thread(who, thread)->process : 0;

	return process && ws_find_interpreter(ws_find_process(who, process)->exe);
}

bool ws_does_script_work(const struct ws_analysis *analysis, uint32_t thread,
			 const struct ws_findings *findings)
{
	const struct ws_names_by_id *who = analysis->model->who;
	const struct ws_process_info *process =
		ws_find_process(who, ws_find_thread(who, thread)->process);

	return ws_findings_mention(findings, &ws_rule_script_work) &&
	       ws_find_interpreter(process->exe);
}

void ws_put_thread(const struct ws_analysis *analysis, uint32_t thread, struct ws_text *text)
{
	const struct ws_thread_info *info = ws_find_thread(analysis->model->who, thread);

	ws_text_printf(text, "%s %u", info->name, info->tid);
}

void ws_limit_to_users(const struct ws_analysis *analysis, struct ws_finding *finding,
		       const struct ws_code_place *place)
{
	const struct ws_model *model = analysis->model;
	bool users =
		ws_code_is_users(model, place) || !ws_code_is_system_program(model, model->process);

	/* A module of Python that runs as a program. */
	if (!users || (place->python && !place->users))
		finding->level = ws_min(finding->level, WS_LEVEL_NOTE);
	if (place->users && !finding->file)
		ws_point_at(finding, place);
}

bool ws_is_loops_own(const struct ws_analysis *analysis, const struct ws_code_place *place)
{
	const struct ws_stacks *stacks = analysis->model->stacks;
	const struct ws_function *called = ws_stacks_get_function(stacks, place->called);

	return place->library == WS_LIBRARY_LOOP && place->called &&
	       strstr(ws_stacks_get_origin(stacks, called), "/asyncio/");
}

void ws_limit_to_asked(const struct ws_analysis *analysis, struct ws_finding *finding,
		       const struct ws_code_place *place)
{
	ws_limit_to_users(analysis, finding, place);
	if (ws_is_loops_own(analysis, place))
		finding->level = ws_min(finding->level, WS_LEVEL_NOTE);
}

void ws_say_blocked_loop(const struct ws_analysis *analysis, const struct ws_code_place *place,
			 struct ws_finding *finding)
{
	char *advice = finding->advice, *title = finding->title;

	if (place->library != WS_LIBRARY_LOOP || ws_is_loops_own(analysis, place))
		return;
	finding->title = ws_format("%s, in a task that holds up its event loop", title);
	free(title);
	finding->advice =
		ws_format("It holds up the event loop and all its other tasks: let a thread "
			  "or a process do it (asyncio.to_thread, run_in_executor). %s",
			  advice);
	free(advice);
}

static void add_usage(struct ws_usage_total *total, const struct ws_usage_row *row)
{
	total->row.ns += row->ns;
	total->row.path_ns += row->path_ns;
	total->row.copying_ns += row->copying_ns;
	total->row.samples += row->samples;
	total->row.lowest = ws_min(total->row.lowest, row->lowest);
	total->row.highest = ws_max(total->row.highest, row->highest);
	total->threads++;
}

size_t ws_total_usage(const struct ws_analysis *analysis, uint32_t kinds,
		      struct ws_usage_total *totals, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];
		size_t k = 0;

		if (!(kinds >> row->kind & 1))
			continue;
		while (k < count && (totals[k].row.kind != row->kind ||
				     totals[k].row.place.function != row->place.function ||
				     strcmp(totals[k].row.name, row->name)))
			k++;
		if (k < count)
			add_usage(&totals[k], row);
		else if (count < most)
			totals[count++] = (struct ws_usage_total){*row, 1};
	}
	return count;
}

struct ws_code_place ws_find_wait_place(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	const struct ws_model_thread *thread = &model->threads[model->thread];
	struct ws_map sums = {0};
	uint64_t most = 0;
	uint32_t stack = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint32_t chain = ws_model_get_call(model, state)->callchain;
		uint64_t sum;

		if (state->doing != WS_DOING_WAIT || !chain || chain == WS_NO_U32)
			continue;
		sum = ws_map_get(&sums, chain, NULL) + state->end - state->start;
		ws_map_set(&sums, chain, sum);
		if (sum > most) {
			most = sum;
			stack = chain;
		}
	}
	ws_map_free(&sums);
	return ws_code_find_place(model, 0, stack);
}
