/*
 * library_work.c - most of the time is spent in functions of libraries that do one well-known kind
 * of work: a cheaper way to do it is known, too.
 *
 * All places that do it count together: the one that does most is named.
 */
#include "analyze/key_collisions.h"
#include "analyze/copying.h"
#include "analyze/rules/rules.h"
#include "analyze/same_things.h"
#include "analyze/source_line.h"
#include "analyze/stack_sums.h"
#include "analyze/works.h"
#include "lanes/row_tree.h"

#define LEAST_SHARE 0.3
#define LEAST_AID 0.05

/* How much goes where nearly all can be avoided, and elsewhere. */
#define NEARLY_ALL 0.85
#define SOME 0.6
/* Whether a loop takes the same things each time is asked of this share of the time or more. */
#define LEAST_OF_LOOPS 0.5

/* What goes into one kind of work. */
struct work_sum {
	uint64_t ns;
	const struct ws_breakdown_row *most; /* the longest row, of the user's code if any */
};

/* By kind: the kind that it counts for, which for small parts is that which they are a part of. */
struct works {
	uint8_t counts_for[UINT8_MAX + 1];
};

static bool is_of_kind(const struct works *works, const struct ws_breakdown_row *row, uint8_t kind)
{
	return row->cause == WS_CAUSE_CPU && works->counts_for[row->place.work] == kind;
}

static struct work_sum sum_work(const struct ws_analysis *analysis, const struct works *works,
				uint8_t kind)
{
	struct work_sum sum = {0};

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (!is_of_kind(works, row, kind))
			continue;
		sum.ns += row->ns;
		if (!sum.most || (row->place.users && !sum.most->place.users))
			sum.most = row;
	}
	return sum;
}

static void find_small_parts(const struct ws_analysis *analysis, struct works *works)
{
	uint64_t sums[UINT8_MAX + 1] = {0}, wholes[UINT8_MAX + 1] = {0};

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause != WS_CAUSE_CPU || row->place.work == WS_WORK_NONE)
			continue;
		sums[row->place.work] += row->ns;
		wholes[ws_find_whole_work(row->place.work)] += row->ns;
	}
	for (uint8_t kind = 1; kind < ws_count_work_kinds(); kind++) {
		uint8_t whole = ws_find_whole_work(kind);
		bool small =
			(double)sums[kind] < ws_get_work_kind(kind)->least * (double)wholes[whole];

		works->counts_for[kind] = small ? whole : kind;
		if (!small && ws_get_work_kind(kind)->takes_whole)
			works->counts_for[whole] = kind;
	}
}

/* How much of the work one function of the user's asks for. */
static uint64_t sum_function(const struct ws_analysis *analysis, const struct works *works,
			     uint8_t kind, uint32_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (is_of_kind(works, row, kind) && row->place.function == function)
			sum += row->ns;
	}
	return sum;
}

/* The number of the hash function among the parameters of a hash table's template. */
static unsigned find_hash_parameter(const char **name)
{
	static const struct {
		const char *beginning;
		unsigned number;
	} tables[] = {{"unordered_map<", 2}, {"unordered_multimap<", 2},
		      {"unordered_set<", 1}, {"unordered_multiset<", 1},
		      {"_Hashtable<", 5},    {"_Map_base<", 5},
		      {"_Insert_base<", 5},  {"_Insert<", 5}};

	for (size_t i = 0; i < WS_COUNT(tables); i++) {
		const char *at = strstr(*name, tables[i].beginning);

		if (!at)
			continue;
		*name = at + strlen(tables[i].beginning);
		return tables[i].number;
	}
	return 0;
}

/* "TileHash" of "std::unordered_map<Tile, int, TileHash, std::equal_to<Tile>, ...". */
static void put_hash_function(const struct ws_analysis *analysis, uint32_t function,
			      struct ws_text *text)
{
	const char *name = ws_stacks_get_function(analysis->model->stacks, function)->name, *from;
	unsigned wanted = find_hash_parameter(&name), depth = 0;

	if (!wanted)
		return;
	for (from = name; *name && wanted + 1; name++) {
		bool ends = (*name == ',' || *name == '>') && !depth;

		depth += *name == '<' || *name == '(';
		depth -= depth && (*name == '>' || *name == ')');
		if (!ends)
			continue;
		if (!wanted--)
			ws_text_printf(text, ", with the hash function %.*s", (int)(name - from),
				       from);
		from = name + 1 + (name[1] == ' ');
	}
}

/* The outermost function below one of the user's that copies objects. */
static uint64_t find_copying(const struct ws_model *model, const uint32_t *frames, size_t count,
			     void *context)
{
	const uint32_t *user = context;
	uint64_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = 0; k < info->count; k++) {
			const struct ws_function *function =
				ws_stacks_get_function(model->stacks, places[k].function);

			if (places[k].function == *user)
				return found;
			if (ws_is_copy_constructor(function->name))
				found = places[k].function;
		}
	}
	return 0;
}

/* " (Member)", unless the function that is shown says it. */
static void put_copied(const struct ws_analysis *analysis, const struct ws_code_place *code,
		       struct ws_text *text)
{
	const struct ws_stacks *stacks = analysis->model->stacks;
	uint32_t user = code->function, copying;
	struct ws_stack_sums sums;
	struct ws_text name = {0};

	ws_stack_sums_make(analysis->model, 0, find_copying, &user, &sums);
	copying = sums.count ? (uint32_t)sums.sums[0].key : 0;
	if (copying && copying != code->called &&
	    ws_put_copied_class(ws_stacks_get_function(stacks, copying)->name, &name))
		ws_text_printf(text, " (%s)", name.text);
	ws_text_free(&name);
	ws_stack_sums_free(&sums);
}

/* Where no code of the user's is known, the thread says at least who does it. */
static void put_where(const struct ws_analysis *analysis, const struct ws_work_kind *kind,
		      const struct ws_breakdown_row *row, struct ws_text *text)
{
	ws_put_at_place(analysis, &row->place, text);
	if (!row->place.users && row->thread) {
		ws_text_puts(text, " on thread ");
		ws_put_thread(analysis, row->thread, text);
	}
	if (kind->has_hash)
		put_hash_function(analysis, row->place.called, text);
}

/* Page faults on the line that asks for the work come from the work, which says more of their cause
 * where it is about as much. */
static void take_in_page_faults(struct ws_findings *findings, struct ws_finding *work)
{
	for (size_t i = 0; work->file && i < findings->count; i++) {
		struct ws_finding *other = &findings->findings[i];

		if (other->rule != &ws_rule_page_faults || other->file != work->file ||
		    other->line != work->line || other->cost_ns / 10 * 9 > work->cost_ns)
			continue;
		work->level = ws_max(work->level, ws_min(other->level, WS_LEVEL_WARNING));
		work->gain_ns = ws_max(work->gain_ns, other->gain_ns);
		other->level = WS_LEVEL_NOTE;
	}
}

/* Look-ups that find their keys compare them as well: no fault shows. */
static const struct ws_work_kind look_ups = {
	.what = "looking up keys in sets and dictionaries",
	.advice = "Look up each key once and keep what was found; texts and whole numbers are "
		  "compared faster than tuples, and these faster than objects with __eq__.",
	.is_usual = true,
};

static const struct ws_work_kind *choose_kind(const struct ws_analysis *analysis, uint8_t number)
{
	const struct ws_work_kind *kind = ws_get_work_kind(number);

	if (kind->is_collision && !ws_do_keys_collide(analysis->model))
		return &look_ups;
	return kind;
}

/* Of Python, which function calls the one that asks for the work in a loop. Only what a property
 * computes is surely the same each time: else what is said of the work comes first. */
static const char *put_loops(const struct ws_analysis *analysis, const struct ws_code_place *code,
			     struct ws_text *text)
{
	const char *advice;

	if (!code->python || !code->users)
		return "";
	advice = ws_put_loops(analysis, code, text).advice;
	return text->text && strstr(text->text, ", a property") ? advice : "";
}

/* Sorting by a function that compares two items at a time. */
static void say_comparison(const struct ws_analysis *analysis, const struct ws_code_place *code,
			   struct ws_finding *finding)
{
	static const char *const comparisons[] = {"cmp_to_key", NULL};
	const struct ws_model *model = analysis->model;
	char *title = finding->title;

	if (!code->python || !code->users ||
	    !ws_has_statement_part(ws_report_string(model->report, code->file, NULL), code->line,
				   (uint64_t)ws_lanes_realtime(model->report, model->to),
				   comparisons))
		return;
	finding->title = ws_format("%s, by a function that compares two items (cmp_to_key)", title);
	free(title);
	free(finding->advice);
	finding->advice = ws_strdup("Sort by a key (key=lambda item: (item.name, item.age)): it is "
				    "worked out once for each item, a comparison for each pair.");
}

/* Why a work is not what the program is for, "" where it may be. */
static const char *const again[] = {"", ", again and again", ", of the same things each time"};
enum { MAYBE_USUAL, ASKED_AGAIN, SAME_AGAIN };

/* Whether a loop asks again and again for what one question would answer, or for the same work. */
static unsigned judge_loop(const struct ws_analysis *analysis, const struct ws_work_kind *kind,
			   const struct ws_code_place *code, bool called_in_loop)
{
	const struct ws_model *model = analysis->model;
	const char *path = ws_report_string(model->report, code->file, NULL);
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	struct ws_line_around around;
	bool in_loop;

	if ((!kind->is_for_once && !*kind->same_calls) || !code->python || !code->users)
		return MAYBE_USUAL;
	around = ws_look_around_line(path, code->line, until);
	in_loop = around.loop && !(around.head && around.loops < 2);
	if (kind->is_for_once && (in_loop || called_in_loop) &&
	    (!*kind->asked_by || ws_has_statement_part(path, code->line, until, kind->asked_by)))
		return ASKED_AGAIN;
	if (in_loop &&
	    ws_takes_same_things(path, code->line, until, kind->same_calls, WS_SCOPE_LOOP))
		return SAME_AGAIN;
	if (called_in_loop &&
	    ws_takes_same_things(path, code->line, until, kind->same_calls, WS_SCOPE_FUNCTION))
		return SAME_AGAIN;
	return MAYBE_USUAL;
}

/* OFFSET says itself why all rows are gone through. */
static void say_offset(const struct ws_analysis *analysis, const struct ws_code_place *code,
		       struct ws_finding *finding)
{
	static const char *const words[] = {"OFFSET", "offset", NULL};
	const struct ws_model *model = analysis->model;

	if (!code->python || !code->users ||
	    !ws_has_statement_part(ws_report_string(model->report, code->file, NULL), code->line,
				   (uint64_t)ws_lanes_realtime(model->report, model->to), words))
		return;
	free(finding->advice);
	finding->advice = ws_strdup(
		"OFFSET goes through all rows that it leaves out, for each page again: go on after "
		"the last row of the page before (WHERE id > ? ORDER BY id LIMIT ?), which an "
		"index finds at once, or ask once and read the rows in pieces (fetchmany).");
}

static void report_work(const struct ws_analysis *analysis, const struct works *works,
			uint8_t number, const struct work_sum *sum, struct ws_findings *findings)
{
	const struct ws_work_kind *kind = choose_kind(analysis, number);
	double avoidable = kind->is_avoidable ? NEARLY_ALL : SOME;
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_library_work, sum->ns,
				      (uint64_t)((double)sum->ns * avoidable));
	const struct ws_code_place *code = &sum->most->place;
	struct ws_text place = {0}, copied = {0}, loops = {0};
	double share = ws_analysis_share(analysis, sum->ns);
	bool is_usual = kind->is_usual || share < kind->usual_below;
	unsigned repeated = MAYBE_USUAL;
	bool spread = sum_function(analysis, works, number, code->function) < sum->ns / 4 * 3;
	const char *loop_advice;

	put_where(analysis, kind, sum->most, &place);
	if (kind->is_copying)
		put_copied(analysis, code, &copied);
	finding->file = code->file;
	finding->line = code->line;
	loop_advice = put_loops(analysis, code, &loops);
	if (share >= LEAST_OF_LOOPS)
		repeated = judge_loop(analysis, kind, code, loops.text);
	if (repeated)
		finding->gain_ns = (uint64_t)((double)sum->ns * NEARLY_ALL);
	/* It may be just what the program is for. */
	finding->level = ws_rate_gain(analysis, finding->gain_ns);
	finding->level =
		ws_min(finding->level, is_usual && !repeated ? WS_LEVEL_NOTE : WS_LEVEL_WARNING);
	ws_limit_to_asked(analysis, finding, code);
	take_in_page_faults(findings, finding);
	if (ws_is_start_up(code))
		ws_mark_start_up(analysis, finding);
	finding->title =
		ws_format("%.0f %% of the time goes into %s%s%s%s%s%s",
			  100 * ws_analysis_share(analysis, sum->ns), kind->what, again[repeated],
			  ws_text_or(copied.text, ""), spread && place.text ? ", most of it" : "",
			  ws_text_or(place.text, ""), ws_text_or(loops.text, ""));
	finding->advice = ws_format("%s%s", loop_advice, kind->advice);
	if (kind->is_comparing)
		ws_say_search(analysis, code->function, finding);
	say_comparison(analysis, code, finding);
	say_offset(analysis, code, finding);
	/* What it goes through are its own results. */
	if (kind->is_driver && code->python && !*loop_advice)
		ws_say_recursion(analysis, code, finding);
	finding->assumption =
		ws_strdup(kind->is_avoidable || repeated ? "nearly all of it can be avoided"
							 : "three fifths of it can be avoided");
	ws_say_blocked_loop(analysis, code, finding);
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, sum->most->longest.start,
				sum->most->longest.end);
	ws_text_free(&copied);
	ws_text_free(&place);
	ws_text_free(&loops);
}

/* What helps to find errors is left out as a whole, and with it the waits for its checks. */
static void report_aid(const struct ws_analysis *analysis, uint8_t number,
		       const struct work_sum *sum, struct ws_findings *findings)
{
	const struct ws_work_kind *kind = ws_get_work_kind(number);
	uint64_t cost = sum->ns;
	struct ws_finding *finding;
	struct ws_text place = {0};

	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].rule == &ws_rule_sync_calls)
			cost += findings->findings[i].gain_ns;
	cost = ws_min(cost, analysis->window);
	ws_put_at_place(analysis, &sum->most->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_library_work, cost, cost);
	finding->title = ws_format("%.0f %% of the time goes into %s%s",
				   100 * ws_analysis_share(analysis, cost), kind->what,
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(kind->advice);
	finding->assumption = ws_strdup("it is off, and nothing waits for its checks");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, sum->most->longest.start,
				sum->most->longest.end);
	ws_text_free(&place);
}

/* Whether several threads run the function that asks for most of a kind of work. */
static bool is_asked_by_several(const struct ws_analysis *analysis, const struct work_sum *sum)
{
	uint64_t longest = 0, count = 0;

	for (size_t i = 0; sum->most && i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind != WS_USAGE_CODE || row->place.function != sum->most->place.function)
			continue;
		longest = ws_max(longest, row->ns);
		count += row->ns > longest / 4;
	}
	return count > 1;
}

/* Work that no code of the user's asked for counts where that is most of it: collecting garbage on
 * threads of its own. */
static void check_work(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct works works = {{0}};

	if (ws_findings_mention(findings, &ws_rule_script_work))
		return; /* it names the operation of the language instead */
	find_small_parts(analysis, &works);
	for (uint8_t kind = 1; kind < ws_count_work_kinds(); kind++) {
		struct work_sum sum = sum_work(analysis, &works, kind);

		if (ws_get_work_kind(kind)->is_aid) {
			if (ws_analysis_share(analysis, sum.ns) >= LEAST_AID)
				report_aid(analysis, kind, &sum, findings);
		} else if (ws_analysis_share(analysis, sum.ns) >= LEAST_SHARE &&
			   (!ws_get_work_kind(kind)->is_locked ||
			    is_asked_by_several(analysis, &sum)) &&
			   (!ws_is_pythons_work(kind) || sum.most->place.users)) {
			/* What nobody has asked Python for is its own start. */
			report_work(analysis, &works, kind, &sum, findings);
		}
	}
}

const struct ws_rule ws_rule_library_work = {
	.name = "library-work",
	.title = "Costly ways to do well-known work",
	.about =
		"30 % of the critical path or more is spent in functions of libraries that do one "
		"kind of work for which cheaper ways are known, and code of the user's asked for "
		"it: allocating memory, joining strings, regular expressions, copying objects, "
		"rand() in several threads, "
		"writing a log, moving the items of lists, searching lists, collecting garbage, "
		"throwing exceptions, taking locks, looking up hosts, clearing memory, making TLS "
		"contexts; 5 % for PyTorch's anomaly detection. Where most of a work is one part "
		"of it that a better call avoids, that part is named: long chains in hash tables, "
		"sscanf that measures the rest of the text, sums of lists. Never more than a "
		"warning: it may be "
		"what the program is for. A note for what many programs are for: JSON, "
		"compressing, hashing, sorting, databases, texts and dates, copying memory, and "
		"for "
		"the garbage that an interpreter collects by itself in less than half of the time; "
		"but a warning where a loop of Python spends half of the time or more with "
		"queries of a database, one for each item, or with reading, converting or sorting "
		"the same things each time, by its text.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_work,
};
