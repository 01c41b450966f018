/*
 * slow_reader.c - a process that waits until another one reads what it writes: the other is the
 * slowest stage of a pipeline, and bounds the whole.
 *
 * Only a full pipe or socket makes a writer wait, so there is no doubt who is slower. Who reads an
 * answer waits as well, but that is how servers are asked. Where several take turns to read, as
 * workers of a pool do, none of them is too slow. Processes that the reader started to prepare its
 * work are meant to be ahead of it while it computes.
 */
#include "analyze/rules/rules.h"
#include "base/map.h"

#define LEAST_SHARE 0.3
#define LEAST_BY_ONE 0.8 /* of the waits, ended by the same reader */

struct full_pipe {
	uint32_t writer, reader;
	uint64_t ns, longest_ns;
	uint32_t function, stack; /* of the longest wait with a stack */
	struct ws_span longest;
};

static bool is_full_pipe(const struct ws_model *model, const struct ws_model_state *state)
{
	const struct ws_wait_call *wait = ws_model_get_call(model, state);
	const char *path = ws_report_string(model->report, wait->path, NULL),
		   *call = ws_report_string(model->report, wait->function, NULL);

	if (state->doing != WS_DOING_WAIT || state->wait != WS_WAIT_IO || !state->waker)
		return false;
	if (!strstr(call, "write") && !strstr(call, "send") && strcmp(call, "fflush"))
		return false;
	return !strncmp(path, "pipe:", 5) || !strncmp(path, "socket:", 7) || strstr(path, "fifo");
}

/* The waits of one thread, and who ended most of them. */
static struct full_pipe measure_writer(const struct ws_model *model, uint32_t id, uint64_t *sums)
{
	const struct ws_model_thread *thread = &model->threads[id];
	struct full_pipe found = {.writer = id};

	memset(sums, 0, model->thread_count * sizeof(*sums));
	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		const struct ws_wait_call *call = ws_model_get_call(model, state);
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start || !is_full_pipe(model, state) ||
		    state->waker >= model->thread_count)
			continue;
		found.ns += end - start;
		sums[state->waker] += end - start;
		if (sums[state->waker] > sums[found.reader])
			found.reader = state->waker;
		if (end - start <= found.longest_ns)
			continue;
		found.longest_ns = end - start;
		found.longest = (struct ws_span){start, end};
		found.function = call->function;
		if (call->callchain && call->callchain != WS_NO_U32)
			found.stack = call->callchain;
	}
	if ((double)sums[found.reader] < LEAST_BY_ONE * (double)found.ns)
		found.reader = 0;
	return found;
}

/* Data loaders and the like: that they wait shows that their parent never has to. */
static bool is_well_fed(const struct ws_model *model, const struct full_pipe *pipe)
{
	const struct ws_model_thread *reader = &model->threads[pipe->reader];
	uint32_t parent = ws_find_thread(model->who, pipe->reader)->process,
		 child = ws_find_thread(model->who, pipe->writer)->process;

	return ws_find_process(model->who, child)->parent == parent &&
	       reader->running + reader->runnable >= (model->to - model->from) / 2;
}

/* The main thread of a process that waited longest for one reader. Helpers that feed workers wait
 * most of the time, and nothing waits for them. */
static struct full_pipe find_full_pipe(const struct ws_model *model)
{
	uint64_t *sums = ws_calloc(model->thread_count, sizeof(*sums));
	struct full_pipe most = {0};

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_thread_info *info = ws_find_thread(model->who, id);
		struct full_pipe found;

		if (info->tid != info->pid || !ws_is_explained(model, info->process))
			continue;
		found = measure_writer(model, id, sums);
		if (found.reader && found.ns > most.ns && !is_well_fed(model, &found) &&
		    ws_is_explained(model, ws_find_thread(model->who, found.reader)->process))
			most = found;
	}
	free(sums);
	return most;
}

/* A reader that itself waits for another one most of the time is not who is slow. */
static uint32_t find_last_reader(const struct ws_model *model, uint32_t reader)
{
	enum { LONGEST = 16 };
	uint64_t *sums = ws_calloc(model->thread_count, sizeof(*sums));

	for (unsigned i = 0; i < LONGEST; i++) {
		const struct ws_model_thread *thread = &model->threads[reader];
		struct full_pipe next = measure_writer(model, reader, sums);

		if (!next.reader || next.ns < thread->running + thread->runnable ||
		    !ws_is_explained(model, ws_find_thread(model->who, next.reader)->process))
			break;
		reader = next.reader;
	}
	free(sums);
	return reader;
}

/* What the reader does instead of reading. */
struct reader_work {
	uint64_t busy, waiting; /* ns; in the kind of wait that takes most */
	uint32_t function, stack;
	const struct ws_usage_row *code; /* where it computes most; NULL: no sample shows it */
};

static void find_wait(const struct ws_model *model, uint32_t reader, struct reader_work *work)
{
	const struct ws_model_thread *thread = &model->threads[reader];
	struct ws_map sums = {0};

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		const struct ws_wait_call *call = ws_model_get_call(model, state);
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to), sum;

		if (end <= start || state->doing != WS_DOING_WAIT || !call->function)
			continue;
		sum = ws_map_get(&sums, call->function, NULL) + end - start;
		ws_map_set(&sums, call->function, sum);
		if (sum <= work->waiting)
			continue;
		work->waiting = sum;
		work->function = call->function;
		if (call->callchain && call->callchain != WS_NO_U32)
			work->stack = call->callchain;
	}
	ws_map_free(&sums);
}

static struct reader_work find_work(const struct ws_analysis *analysis, uint32_t reader)
{
	const struct ws_model_thread *thread = &analysis->model->threads[reader];
	struct reader_work work = {.busy = thread->running + thread->runnable};

	find_wait(analysis->model, reader, &work);
	for (size_t i = 0; i < analysis->usage.count && !work.code; i++)
		if (analysis->usage.rows[i].thread == reader &&
		    analysis->usage.rows[i].kind == WS_USAGE_CODE)
			work.code = &analysis->usage.rows[i];
	return work;
}

static void put_work(const struct ws_analysis *analysis, const struct reader_work *work,
		     struct ws_text *text)
{
	const struct ws_model *model = analysis->model;
	struct ws_code_place code;

	if (work->busy >= work->waiting) {
		if (work->code)
			ws_put_at_place(analysis, &work->code->place, text);
		return; /* what it computes, if that is known */
	}
	code = ws_code_find_place(model, 0, work->stack);
	ws_text_printf(text, " waits in %s", ws_report_string(model->report, work->function, NULL));
	ws_put_at_place(analysis, &code, text);
}

static void report_reader(const struct ws_analysis *analysis, const struct full_pipe *pipe,
			  struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct reader_work work = find_work(analysis, pipe->reader);
	struct ws_code_place code = ws_code_find_place(model, 0, pipe->stack);
	bool computes = work.busy >= work.waiting;
	struct ws_text writer = {0}, reader = {0}, place = {0}, what = {0};
	const char *call = ws_report_string(model->report, pipe->function, NULL);
	double share = 100 * ws_min(ws_analysis_part(analysis, pipe->ns), 1.0);
	uint64_t gain = pipe->ns;
	struct ws_finding *finding;

	if (computes)
		gain = pipe->ns / 2;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_slow_reader, pipe->ns, gain);
	if (computes && work.code && work.code->place.users)
		ws_point_at(finding, &work.code->place);
	ws_limit_to_users(analysis, finding, &code);
	ws_put_thread(analysis, pipe->writer, &writer);
	ws_put_thread(analysis, pipe->reader, &reader);
	ws_put_at_place(analysis, &code, &place);
	put_work(analysis, &work, &what);
	if (computes)
		finding->title = ws_format(
			"Process %s is the slowest stage of a pipeline: it computes%s, and process "
			"%s waits for it in %s%s for %.0f %% of the time",
			reader.text, ws_text_or(what.text, ""), writer.text, call,
			ws_text_or(place.text, ""), share);
	else
		finding->title = ws_format(
			"Process %s waits in %s%s for %.0f %% of the time, until process %s reads "
			"what it writes, which%s meanwhile",
			writer.text, call, ws_text_or(place.text, ""), share, reader.text,
			ws_text_or(what.text, ""));
	finding->advice = ws_strdup(
		computes ? "The reader is the slowest stage of the pipeline: let several processes "
			   "or threads do its work, or make that cheaper; the other stages have "
			   "time."
			 : "Let the reader wait less (more at once, several in parallel), write "
			   "less, "
			   "or write on a thread of its own with a queue, so that the work goes "
			   "on.");
	finding->assumption =
		ws_strdup(computes ? "two share the reader's work" : "the writer need not wait");
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, pipe->longest.start,
				pipe->longest.end);
	ws_text_free(&writer);
	ws_text_free(&reader);
	ws_text_free(&place);
	ws_text_free(&what);
}

static void check_pipes(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct full_pipe found;

	if (analysis->model->has_cuda || analysis->cores < 2 ||
	    ws_findings_have(findings, &ws_rule_handovers))
		return;
	found = find_full_pipe(analysis->model);
	if (!found.reader)
		return;
	found.reader = find_last_reader(analysis->model, found.reader);
	if (ws_does_script_work(analysis, found.reader, findings))
		return;
	if (ws_analysis_part(analysis, found.ns) >= LEAST_SHARE)
		report_reader(analysis, &found, findings);
}

const struct ws_rule ws_rule_slow_reader = {
	.name = "slow-reader",
	.title = "A process that cannot go on until another one reads",
	.about = "The main thread of a process waits for 30 % of the time or more in calls that "
		 "write to a pipe or socket which is full, and one thread of another process, "
		 "which reads it, ends 80 % of these waits or more: that is the slowest stage of a "
		 "pipeline, or the one that it waits for in turn. Where that is a script, "
		 "script-work says what it does. Not meant are processes that the reader started "
		 "and that are ahead of "
		 "it while it computes, such as data loaders. A note where neither code nor a "
		 "program of the user's writes.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_pipes,
};
