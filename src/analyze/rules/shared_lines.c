/*
 * shared_lines.c - threads that write to one cache line all the time: to one variable, or to
 * variables side by side. Each write waits until the line has come from the other core.
 *
 * The addresses of samples show where threads spend their time. Where that is at instructions that
 * write to variables with fixed addresses, the machine code proves which memory it is. Where they
 * write through pointers, only atomic instructions count, which are dear in any case: hot-code has
 * a hint for others.
 */
#include "analyze/hot_loop.h"
#include "analyze/rules/rules.h"
#include "analyze/works.h"
#include "analyze/written.h"
#include "symbols/module.h"

enum {
	MOST_LOOPS = 16,
	MOST_WRITES = 16,
	LONGEST_LOOP = 256, /* bytes */
	LONGEST_WRITE = 16,
	NEAR = 12, /* bytes after a write at which its wait shows */
	LEAST_SAMPLES = 50,
	CACHE_LINE = 64,
};
#define LEAST_NEAR 0.25 /* of a loop's samples, at its writes */

/* What one thread does in one function of a few instructions. */
struct hot_loop {
	const struct ws_usage_row *row;
	const struct ws_elf *elf;
	uint64_t from, ns[LONGEST_LOOP + 2 * LONGEST_WRITE]; /* by address, of its samples */
	struct ws_written writes[MOST_WRITES];
	size_t count;
};

struct shared_write {
	const struct hot_loop *first, *second;
	uint64_t targets[2];
	uint64_t near_ns; /* of both */
	bool atomic;
};

struct line_search {
	const struct ws_analysis *analysis;
	struct ws_modules *modules;
	struct hot_loop *loops;
	size_t count;
};

static const struct ws_elf *open_module(struct line_search *search, uint32_t number)
{
	const struct ws_module_info *info =
		ws_stacks_get_module(search->analysis->model->stacks, number);
	const struct ws_module *module;

	for (size_t i = 0; i < search->count; i++)
		if (search->loops[i].row->module == number)
			return search->loops[i].elf;
	if (info->kind != WS_MODULE_FILE)
		return NULL;
	module = ws_modules_add_recorded(search->modules, WS_MODULE_FILE, info->path,
					 info->build_id, info->size, false);
	return module->opened ? &module->elf : NULL;
}

static void count_samples(const struct ws_model *model, struct hot_loop *loop)
{
	const struct ws_model_thread *thread = &model->threads[loop->row->thread];
	const struct ws_samples *samples = &model->samples;

	for (size_t i = thread->first_sample; i < thread->end_sample; i++) {
		const struct ws_frame_info *frame =
			ws_stacks_get_frame(model->stacks, samples->frame[i]);

		if (frame->module == loop->row->module && frame->address >= loop->from &&
		    frame->address - loop->from < WS_COUNT(loop->ns))
			loop->ns[frame->address - loop->from] += ws_samples_get_time(samples, i);
	}
}

static void add_loop(struct line_search *search, const struct ws_usage_row *row)
{
	const struct ws_elf *elf = open_module(search, row->module);
	struct hot_loop *loop = &search->loops[search->count];

	if (!elf)
		return;
	*loop = (struct hot_loop){.row = row, .elf = elf, .from = row->lowest - LONGEST_WRITE};
	loop->count = ws_find_written(elf, loop->from, row->highest + LONGEST_WRITE, loop->writes,
				      MOST_WRITES);
	if (!loop->count)
		return;
	count_samples(search->analysis->model, loop);
	search->count++;
}

static void find_loops(struct line_search *search)
{
	const struct ws_usage *usage = &search->analysis->usage;

	for (size_t i = 0; i < usage->count && search->count < MOST_LOOPS; i++) {
		const struct ws_usage_row *row = &usage->rows[i];

		if (row->kind == WS_USAGE_CODE && row->module && row->samples >= LEAST_SAMPLES &&
		    row->lowest > LONGEST_WRITE && row->highest - row->lowest <= LONGEST_LOOP)
			add_loop(search, row);
	}
}

/* The time of samples at a write, or just behind it. */
static uint64_t sum_near(const struct hot_loop *loop, const struct ws_written *written)
{
	uint64_t sum = 0;

	for (uint64_t at = written->from; at <= written->to + NEAR; at++)
		if (at >= loop->from && at - loop->from < WS_COUNT(loop->ns))
			sum += loop->ns[at - loop->from];
	return sum;
}

static bool is_hot(const struct hot_loop *loop, uint64_t near)
{
	uint64_t all = 0;

	for (size_t i = 0; i < WS_COUNT(loop->ns); i++)
		all += loop->ns[i];
	return near && (double)near >= LEAST_NEAR * (double)all;
}

static bool overlap(const struct ws_usage_row *left, const struct ws_usage_row *right)
{
	uint64_t start = ws_max(left->span.start, right->span.start),
		 end = ws_min(left->span.end, right->span.end);
	uint64_t shorter =
		ws_min(left->span.end - left->span.start, right->span.end - right->span.start);

	return left->thread != right->thread && end > start && end - start > shorter / 2;
}

static void compare_writes(const struct hot_loop *first, const struct hot_loop *second,
			   struct shared_write *most)
{
	for (size_t i = 0; i < first->count; i++)
		for (size_t k = 0; k < second->count; k++) {
			const struct ws_written *left = &first->writes[i],
						*right = &second->writes[k];
			uint64_t near = sum_near(first, left), other = sum_near(second, right);

			if (left->target / CACHE_LINE != right->target / CACHE_LINE ||
			    !is_hot(first, near) || !is_hot(second, other) ||
			    near + other <= most->near_ns)
				continue;
			*most = (struct shared_write){.first = first,
						      .second = second,
						      .targets = {left->target, right->target},
						      .near_ns = near + other,
						      .atomic = left->atomic && right->atomic};
		}
}

/* How many threads write to a line: those of the two loops and of others like them. */
static uint64_t count_writers(const struct line_search *search, const struct shared_write *found)
{
	uint64_t count = 0;

	for (size_t i = 0; i < search->count; i++)
		for (size_t k = 0; k < search->loops[i].count; k++)
			if (search->loops[i].elf == found->first->elf &&
			    search->loops[i].writes[k].target / CACHE_LINE ==
				    found->targets[0] / CACHE_LINE) {
				count++;
				break;
			}
	return count;
}

static void put_variables(const struct shared_write *found, struct ws_text *text)
{
	struct ws_text name = {0};

	ws_put_variable(found->first->elf, found->targets[0], &name);
	if (name.text && found->targets[0] != found->targets[1]) {
		ws_text_puts(&name, " and ");
		ws_put_variable(found->second->elf, found->targets[1], &name);
	}
	if (name.text)
		ws_text_printf(text, " (%s)", name.text);
	ws_text_free(&name);
}

static const char *describe(const struct shared_write *found)
{
	if (found->targets[0] != found->targets[1])
		return "write to different variables in one cache line";
	return found->atomic ? "change one variable by atomic instructions"
			     : "write to one variable";
}

static void report_lines(const struct line_search *search, const struct shared_write *found,
			 struct ws_findings *findings)
{
	const struct ws_analysis *analysis = search->analysis;
	const struct ws_usage_row *row = found->first->row, *other = found->second->row;
	struct ws_text place = {0}, names = {0};
	struct ws_finding *finding;
	uint64_t cost = found->near_ns / 2;

	put_variables(found, &names);
	ws_put_at_place(analysis, &row->place, &place);
	if (other->place.function != row->place.function) {
		ws_text_puts(&place, " and");
		ws_put_at_place(analysis, &other->place, &place);
	}
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_shared_lines, cost,
					cost / 5 * 4);
	ws_limit_to_users(analysis, finding, &row->place);
	finding->title =
		ws_format("%llu threads %s all the time%s%s%s",
			  (unsigned long long)count_writers(search, found), describe(found),
			  ws_text_or(names.text, ""), ws_text_or(place.text, ""),
			  found->targets[0] != found->targets[1] ? ": false sharing" : "");
	finding->advice =
		ws_strdup("Each write waits until the other core has given the line (64 "
			  "bytes) back: let each thread count in a variable of its own "
			  "(a local one, or one with alignas(64)) and add up at the end.");
	finding->assumption = ws_strdup("a write to a line of its own costs a fifth");
	ws_finding_add_evidence(finding, "both threads run these loops", NULL,
				ws_max(row->span.start, other->span.start),
				ws_min(row->span.end, other->span.end));
	ws_text_free(&place);
	ws_text_free(&names);
}

/* ---- through pointers ---- */

/* Threads that spend their time at atomic instructions of one function. */
struct atomic_loops {
	const struct ws_usage_row *first;
	uint64_t threads, ns, path_ns;
};

static void find_atomics(const struct ws_analysis *analysis, struct atomic_loops *found)
{
	enum { MOST_LOOKED_AT = 8 };
	size_t looked = 0;

	*found = (struct atomic_loops){0};
	for (size_t i = 0; i < analysis->usage.count && looked < MOST_LOOKED_AT; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];
		struct ws_hot_loop loop;

		if (row->kind != WS_USAGE_CODE || !row->module || !row->place.users ||
		    row->place.python || row->place.work != WS_WORK_NONE ||
		    row->samples < LEAST_SAMPLES ||
		    (found->first && (row->place.function != found->first->place.function ||
				      !overlap(row, found->first))))
			continue;
		looked++;
		if (!ws_look_at_loop(analysis->model, row, &loop) || loop.kind != WS_LOOP_ATOMIC ||
		    !loop.writes)
			continue;
		if (!found->first)
			found->first = row;
		found->threads++;
		found->ns += (uint64_t)(loop.share * (double)row->ns);
		found->path_ns += (uint64_t)(loop.share * (double)row->path_ns);
	}
}

static void check_atomics(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct atomic_loops found;
	struct ws_text place = {0};
	struct ws_finding *finding;
	uint64_t cost;

	find_atomics(analysis, &found);
	if (found.threads < 2)
		return;
	cost = ws_min(ws_max(found.path_ns, found.ns / found.threads), analysis->window);
	ws_put_at_place(analysis, &found.first->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_shared_lines, cost,
					cost / 5 * 4);
	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	ws_limit_to_users(analysis, finding, &found.first->place);
	finding->title = ws_format("%llu threads change variables by atomic instructions all the "
				   "time%s",
				   (unsigned long long)found.threads, ws_text_or(place.text, ""));
	finding->advice =
		ws_strdup("A shared_ptr that is copied changes its counter twice: hand it on by "
			  "reference, or take it once before the loop. Let each thread count in a "
			  "local variable and add up at the end. If the threads change one "
			  "variable, or some in one cache line (64 bytes), each change waits until "
			  "the other core has given the line back.");
	finding->assumption = ws_strdup("without atomic instructions it costs a fifth");
	ws_finding_add_evidence(finding, "the first of these threads runs the loop", NULL,
				found.first->span.start, found.first->span.end);
	ws_text_free(&place);
}

/* ---- all ---- */

static void check_lines(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct line_search search = {.analysis = analysis};
	struct shared_write found = {0};

	if (analysis->cores < 2)
		return;
	search.loops = ws_calloc(MOST_LOOPS, sizeof(*search.loops));
	search.modules = ws_modules_new();
	find_loops(&search);
	for (size_t i = 0; i < search.count; i++)
		for (size_t k = i + 1; k < search.count; k++)
			if (search.loops[i].elf == search.loops[k].elf &&
			    overlap(search.loops[i].row, search.loops[k].row))
				compare_writes(&search.loops[i], &search.loops[k], &found);
	if (found.first)
		report_lines(&search, &found, findings);
	else
		check_atomics(analysis, findings);
	ws_modules_free(search.modules);
	free(search.loops);
}

const struct ws_rule ws_rule_shared_lines = {
	.name = "shared-lines",
	.title = "Threads that write to one cache line",
	.about = "Two threads or more run loops of 256 bytes of machine code or less at the same "
		 "time, and a quarter of their samples or more is at instructions that write to "
		 "the same cache line (64 bytes), by fixed addresses: one variable, or variables "
		 "side by side (false sharing). It looks into the program's file, which must be on "
		 "this machine and unchanged, on x86-64. Where the addresses are in pointers, "
		 "threads that spend a quarter of their samples or more at atomic instructions of "
		 "one function count, too: never more than a warning.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_lines,
};
