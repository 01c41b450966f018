/*
 * worker_start.c - worker processes of Python that are started again and again: pools made for each
 * batch, a process for each piece of work.
 *
 * What a worker does outside of its work, and what its parent does to start and to end it, is what
 * one pool for the whole run would pay once.
 */
#include "analyze/rules/rules.h"
#include "analyze/stack_sums.h"
#include "base/map.h"
#include "query/intervals.h"

enum { LEAST_WORKERS = 6, LEAST_GENERATIONS = 3 };
#define LEAST_SHARE 0.1

struct workers {
	uint64_t count, most_alive;
	uint64_t *processes; /* bits: those that are workers */
	uint32_t highest;
};

/* The ends before the beginnings at the same moment. */
struct change {
	uint64_t at;
	int by;
};

static int compare_changes(const void *first, const void *second)
{
	const struct change *left = first, *right = second;

	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return left->by - right->by;
}

static bool is_worker(const struct workers *workers, uint32_t process)
{
	return process <= workers->highest && workers->processes[process / 64] >> process % 64 & 1;
}

/* Whether a process was started by the explained one, with a server of forks between at most, and
 * runs the same interpreter. */
static bool was_started(const struct ws_model *model, const struct ws_process_info *info)
{
	enum { FAR = 4 };
	const struct ws_process_info *own = ws_find_process(model->who, model->process);
	uint32_t parent = info->parent;

	if (info->pid == own->pid || strcmp(info->exe, own->exe) ||
	    strstr(info->cmdline, "resource_tracker") || strstr(info->cmdline, "forkserver"))
		return false;
	for (unsigned i = 0; i < FAR && parent && parent != model->process; i++)
		parent = ws_find_process(model->who, parent)->parent;
	return parent == model->process;
}

static void find_workers(const struct ws_model *model, struct workers *workers)
{
	struct change *changes;
	size_t count = 0;
	int64_t alive = 0;

	workers->highest = ws_highest_process_id(model->who);
	workers->processes = ws_calloc(workers->highest / 64 + (size_t)1, sizeof(uint64_t));
	changes = ws_calloc(2 * ((size_t)workers->highest + 1), sizeof(*changes));
	for (uint32_t id = 1; id <= workers->highest; id++) {
		const struct ws_process_info *info = ws_find_process(model->who, id);

		if (!was_started(model, info))
			continue;
		workers->processes[id / 64] |= (uint64_t)1 << id % 64;
		/* A process that calls exec has two numbers, the second one with an end. */
		if (info->end == WS_NO_TIME)
			continue;
		workers->count++;
		changes[count++] = (struct change){info->start, 1};
		changes[count++] = (struct change){info->end, -1};
	}
	qsort(changes, count, sizeof(*changes), compare_changes);
	for (size_t i = 0; i < count; i++) {
		alive += changes[i].by;
		workers->most_alive = ws_max(workers->most_alive, (uint64_t)ws_max(alive, 0));
	}
	free(changes);
}

/* ---- what their time goes into ---- */

enum stack_kind { STACK_OTHER, STACK_WORK, STACK_START };

struct starting {
	struct ws_map files, places; /* of lines of the user's that start workers: their ns */
};

static bool is_of(const char *origin, const char *name, const char *const *files,
		  const char *const *names)
{
	for (size_t i = 0; files[i]; i++)
		if (strstr(origin, files[i]) && ws_is_name_among(name, strlen(name), names))
			return true;
	return false;
}

/* Below the loop of a worker, or what a process of its own was started for. */
static bool is_work(const char *origin, const char *name)
{
	static const char *const files[] = {"/multiprocessing/pool.py",
					    "/multiprocessing/process.py",
					    "/concurrent/futures/process.py", NULL},
				 *const names[] = {"worker", "BaseProcess.run", "_process_worker",
						   NULL};

	return is_of(origin, name, files, names);
}

static bool is_start(const char *origin, const char *name)
{
	static const char *const files[] = {"/multiprocessing/", "/concurrent/futures/process.py",
					    NULL},
				 *const names[] = {"Pool.__init__",
						   "Pool._repopulate_pool*",
						   "Pool.terminate",
						   "Pool._terminate_pool",
						   "Pool.join",
						   "Pool.__exit__",
						   "BaseProcess.start",
						   "BaseProcess.join",
						   "ProcessPoolExecutor.__init__",
						   "ProcessPoolExecutor.shutdown",
						   "ProcessPoolExecutor._start*",
						   "ProcessPoolExecutor._launch*",
						   "ProcessPoolExecutor._spawn*",
						   "ProcessPoolExecutor._adjust*",
						   NULL};

	return is_of(origin, name, files, names);
}

static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	struct starting *starting = context;
	bool starts = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_function *function = ws_stacks_get_function(
			model->stacks, ws_get_frame_function(model, frames[i]));
		const char *origin = ws_stacks_get_origin(model->stacks, function);
		struct ws_code_place place;

		if (function->kind != WS_FRAME_PYTHON)
			continue;
		if (is_work(origin, function->name))
			return STACK_WORK;
		starts |= is_start(origin, function->name);
		place = ws_code_place_frames(model, &frames[i], 1);
		if (!starts || !place.users)
			continue;
		ws_map_set(&starting->files, (uint64_t)place.function << 32 | place.line,
			   place.file);
		return (uint64_t)place.function << 32 | place.line;
	}
	return STACK_OTHER;
}

struct start_times {
	uint64_t all, starting; /* ns of samples */
	uint64_t work;		/* below the loop of a worker */
	uint64_t most;		/* at the line that starts most of them */
	struct ws_code_place place;
};

static void add_line(const struct starting *starting, uint64_t key, uint64_t ns,
		     struct start_times *times)
{
	uint64_t sum = ns + ws_map_get(&starting->places, key, NULL);

	if (sum <= times->most)
		return;
	times->most = sum;
	times->place =
		(struct ws_code_place){.function = (uint32_t)(key >> 32),
				       .leaf = (uint32_t)(key >> 32),
				       .line = (uint32_t)key,
				       .file = (uint32_t)ws_map_get(&starting->files, key, NULL),
				       .python = true,
				       .users = true};
}

static void add_thread(const struct ws_model *model, uint32_t thread, bool of_worker,
		       struct starting *starting, struct start_times *times)
{
	struct ws_stack_sums sums;

	ws_stack_sums_make(model, thread, read_stack, starting, &sums);
	times->all += sums.ns;
	if (of_worker)
		times->starting += sums.ns;
	for (size_t i = 0; i < sums.count; i++) {
		uint64_t key = sums.sums[i].key, ns = sums.sums[i].ns;

		if (key == STACK_WORK) {
			times->work += ns;
			times->starting -= of_worker ? ns : 0;
			continue;
		}
		times->starting += of_worker ? 0 : ns;
		add_line(starting, key, ns, times);
		ws_map_set(&starting->places, key, ns + ws_map_get(&starting->places, key, NULL));
	}
	ws_stack_sums_free(&sums);
}

static struct start_times measure_start(const struct ws_model *model, const struct workers *workers)
{
	struct starting starting = {0};
	struct start_times times = {0};

	for (uint32_t id = 1; id < model->thread_count; id++) {
		uint32_t process = ws_find_thread(model->who, id)->process;

		if (ws_is_explained(model, process) &&
		    model->threads[id].first_sample < model->threads[id].end_sample)
			add_thread(model, id, is_worker(workers, process), &starting, &times);
	}
	ws_map_free(&starting.files);
	ws_map_free(&starting.places);
	return times;
}

static void report_start(const struct ws_analysis *analysis, const struct workers *workers,
			 const struct start_times *times, struct ws_findings *findings)
{
	double share = (double)times->starting / (double)ws_max(times->all, 1ul);
	uint64_t cost = (uint64_t)(share * (double)ws_analysis_cpu_on_path(analysis));
	struct ws_code_place code = times->place;
	struct ws_text place = {0};
	struct ws_finding *finding;

	/* A script that runs a script anew is no worker of multiprocessing or of a pool. */
	if (share < LEAST_SHARE || (!times->work && !times->most))
		return;
	if (!code.function)
		code = ws_find_wait_place(analysis);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_worker_start, cost,
					cost - cost * workers->most_alive /
							ws_max(workers->count, 1ul));
	ws_limit_to_users(analysis, finding, &code);
	ws_put_at_place(analysis, &code, &place);
	finding->title = ws_format(
		"%llu worker processes are started again and again%s, %llu at a time: %.0f %% of "
		"the work is starting and ending them (interpreter, imports, fork)",
		(unsigned long long)workers->count, ws_text_or(place.text, ""),
		(unsigned long long)workers->most_alive, 100 * share);
	finding->advice = ws_strdup(
		"Make one pool (multiprocessing.Pool, ProcessPoolExecutor) before the loop and "
		"keep it for all of the work, without maxtasksperchild; a process for each "
		"piece of work is worth it for long ones only. Started by fork or forkserver, "
		"they need not import everything again.");
	finding->assumption = ws_strdup("they are started once");
	ws_point_at(finding, &code);
	ws_text_free(&place);
}

static void check_workers(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct workers workers = {0};
	struct start_times times;

	if (!analysis->model->python)
		return;
	find_workers(analysis->model, &workers);
	if (workers.count >= LEAST_WORKERS &&
	    workers.count >= LEAST_GENERATIONS * workers.most_alive) {
		times = measure_start(analysis->model, &workers);
		report_start(analysis, &workers, &times, findings);
	}
	free(workers.processes);
}

const struct ws_rule ws_rule_worker_start = {
	.name = "worker-start",
	.title = "Worker processes that are started again and again",
	.about = "A program of Python starts six processes or more of its own interpreter, three "
		 "times as many or more as are alive at once, and 10 % of all samples or more show "
		 "how they start and end: those of workers that are not below a pool's loop or the "
		 "function that the process was made for, and those of the program below functions "
		 "that make and end pools and processes.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_processes,
	.check = check_workers,
};
