/*
 * library_work.c - most of the time is spent in functions of libraries that do one well-known kind
 * of work, at one place of the user's code: a cheaper way to do it is known, too.
 *
 * The function that ran tells the kind. Functions of interpreters count as well, where their names
 * are known: of stripped ones they are not.
 */
#include "analyze/facts.h"
#include "analyze/rules/rules.h"

enum { MOST_PLACES = 64 };
#define LEAST_SHARE 0.3

struct work {
	const char *what; /* "of the time goes into ..." */
	const char *advice;
	const char *names[24]; /* of functions; with a star at the end: beginnings */
};

static const struct work works[] = {
	{"allocating and freeing memory",
	 "Allocate less often: keep objects and use them again (a pool, an arena, a free list), "
	 "reserve containers' memory at once, store values instead of pointers; or try another "
	 "allocator (jemalloc, tcmalloc, mimalloc).",
	 {"malloc", "free", "calloc", "realloc", "cfree", "_int_malloc", "_int_free*",
	  "_int_realloc", "malloc_consolidate", "unlink_chunk*", "sysmalloc", "tcache_*",
	  "operator new*", "operator delete*", "je_*", "mi_malloc*", "mi_free*", "tc_*", NULL}},
	{"measuring and joining strings",
	 "strlen and strcat go through the whole string each time, which makes loops quadratic: "
	 "remember the length or the end, or build the text in a buffer that grows.",
	 {"__strlen*", "strlen", "__strcat*", "strcat", "__strncat*", "__rawmemchr*", "__strnlen*",
	  NULL}},
	{"regular expressions",
	 "Nested repetitions such as (a+)+ try ever more ways to match: write the expression "
	 "without them, anchor it, compile it once, or use plain string functions or an engine "
	 "in linear time (RE2, Rust's regex).",
	 {"sre_*", "re_search_internal*", "check_matching*", "sift_*", "transit_state*",
	  "build_trtable*", "match_ctx_*", "re_acquire_state*", "check_arrival*", "get_subexp*",
	  "proceed_next_node*", "set_regs*", "pcre*", "std::__detail::*", NULL}},
	{"moving the items of lists",
	 "Inserting or removing at the front moves all other items: append and reverse at the "
	 "end, or use a deque (collections.deque, std::deque).",
	 {"ins1", "list_insert*", "list_ass_slice*", "list_pop*", NULL}},
	{"comparing items one by one",
	 "Looking for an item in a list compares it with all of them: use a set or a dictionary.",
	 {"list_contains", "list_index*", "list_count*", "list_remove*", "long_compare",
	  "long_richcompare", "unicode_compare*", "unicode_eq", "PyObject_RichCompare*",
	  "PySequence_Contains", NULL}},
	{"collecting garbage",
	 "Make fewer objects that live long (arrays instead of lists of objects), freeze what "
	 "stays (gc.freeze), collect less often (gc.set_threshold), or not within the loop.",
	 {"visit_*", "gc_collect*", "deduce_unreachable*", "subtract_refs*", "update_refs*",
	  "move_unreachable*", "untrack_tuples*", "_PyObject_IS_GC", "dict_traverse",
	  "list_traverse", "tupletraverse", "subtype_traverse", "func_traverse", NULL}},
	{"throwing exceptions",
	 "An exception costs microseconds: return a value for what happens often, and ask before "
	 "(find, has_value, std::from_chars).",
	 {"_Unwind_*", "uw_*", "__cxa_*", "__gxx_personality*", "execute_cfa_program*",
	  "search_object*", "_dl_find_object*", "__dynamic_cast", "read_encoded_value*", NULL}},
};

/* What one place of the user's code spent on each kind of work. */
struct place_work {
	struct ws_code_place place;
	uint64_t ns[WS_COUNT(works)];
	struct ws_span longest;
};

static size_t find_work(const struct ws_function *function)
{
	size_t i = 0;

	while (i < WS_COUNT(works) &&
	       !ws_is_name_among(function->name, function->len, works[i].names))
		i++;
	return i;
}

static void add_row(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
		    struct place_work *places, size_t *count)
{
	size_t k = 0, work = WS_COUNT(works);

	if (row->cause == WS_CAUSE_CPU && row->place.leaf && row->place.users &&
	    row->place.leaf != row->place.function)
		work = find_work(ws_stacks_get_function(analysis->model->stacks, row->place.leaf));
	if (work == WS_COUNT(works))
		return;
	while (k < *count && places[k].place.function != row->place.function)
		k++;
	if (k == MOST_PLACES)
		return;
	if (k == *count)
		places[(*count)++] =
			(struct place_work){.place = row->place, .longest = row->longest};
	places[k].ns[work] += row->ns;
}

static void report_work(const struct ws_analysis *analysis, const struct place_work *at, size_t i,
			struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_library_work, at->ns[i], at->ns[i] / 2);
	struct ws_code_place code = at->place;
	struct ws_text place = {0};

	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	/* It may be just what the program is for. */
	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	ws_limit_to_users(analysis, finding, &code);
	finding->title = ws_format("%.0f %% of the time goes into %s%s",
				   100 * ws_analysis_share(analysis, at->ns[i]), works[i].what,
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(works[i].advice);
	finding->assumption = ws_strdup("half of it can be avoided");
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, at->longest.start,
				at->longest.end);
	ws_text_free(&place);
}

static void check_work(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct place_work places[MOST_PLACES];
	size_t count = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++)
		add_row(analysis, &analysis->breakdown.rows[i], places, &count);
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < WS_COUNT(works); i++)
			if (ws_analysis_share(analysis, places[k].ns[i]) >= LEAST_SHARE)
				report_work(analysis, &places[k], i, findings);
}

const struct ws_rule ws_rule_library_work = {
	.name = "library-work",
	.title = "Costly ways to do well-known work",
	.about = "One function of the user's spends 30 % of the critical path or more in "
		 "functions of libraries that do one kind of work for which cheaper ways are "
		 "known: allocating memory, measuring strings, regular expressions, moving the "
		 "items of lists, searching lists, collecting garbage, throwing exceptions. Never "
		 "more than a warning: it may be what the program is for.",
	.find_obstacle = ws_need_samples,
	.query = ws_proof_code,
	.check = check_work,
};
