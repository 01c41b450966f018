/*
 * python_merge.c - puts Python's frames in the place of the interpreter's own in a native stack.
 *
 * Each call of the evaluator, _PyEval_EvalFrameDefault, executes a run of Python frames: one up to
 * 3.10; from 3.11 on, as many as called each other without C in between. The outermost of each run
 * is marked. So the k-th evaluator from outside corresponds to the k-th run from outside and is
 * replaced by it. When the native stack was cut (more bytes than were copied), both are counted
 * from inside, and the remaining runs are put at the outer end, so no Python frame is missing. An
 * evaluator that has no run has just been entered or is being left, and stays as it is.
 *
 * The functions through which the interpreter calls the evaluator (vectorcall and its kin) are
 * removed too, if they called an evaluator that was replaced. All are known by name from the symbol
 * table of the interpreter's file, which is read once.
 *
 * Samples that hit the kernel come from perf and have no Python frames. They get the frames that
 * the thread's samples before and after share, as far as the evaluators of all three are at the
 * same places in the stack: then these calls are most likely the same. Such samples have the flag
 * SEPARATE.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"
#include "record/python_private.h"

/* ---- which functions are the interpreter's ---- */

static const char *const trampolines[] = {
	"_PyEval_Vector",
	"_PyFunction_Vectorcall",
	"PyObject_Vectorcall",
	"_PyObject_Vectorcall",
	"_PyObject_VectorcallTstate",
	"_PyVectorcall_Call",
	"PyVectorcall_Call",
	"PyObject_Call",
	"_PyObject_Call",
	"_PyObject_Call.localalias",
	"_PyObject_FastCallDictTstate",
	"_PyObject_Call_Prepend",
	"_PyObject_MakeTpCall",
	"_PyFunction_FastCallDict",
	"_PyObject_FastCallDict",
	"function_code_fastcall",
	"_PyEval_EvalCode",
	"_PyEval_EvalCodeWithName",
	"_PyEval_EvalFrame",
	"call_function",
	"do_call_core",
	"method_vectorcall",
	"object_vacall",
	"vectorcall_method",
	"cfunction_vectorcall_FASTCALL",
	"PyEval_EvalCode",
	"PyEval_EvalCodeEx",
	"PyEval_EvalFrameEx",
	"_PyStack_AsDict",
	"gen_send_ex",
	"gen_send_ex2",
	"gen_iternext",
	"_PyGen_Send",
	/* ours, of functions that are traced by name (inject/python_evaluator.c) */
	"ws_python_evaluate_named",
	"ws_python_evaluate_named_old",
};

struct range {
	uint64_t start, end;
	uint8_t part;
};

struct parts { /* of one module */
	struct range *ranges;
	size_t n, cap;
};

static uint8_t part_of_name(const char *name)
{
	size_t n = strlen("_PyEval_EvalFrameDefault");

	if (!strncmp(name, "_PyEval_EvalFrameDefault", n) && (!name[n] || name[n] == '.'))
		return WS_PY_EVALUATOR;
	if (!strncmp(name, "_TAIL_CALL_",
		     11)) /* 3.14 built by tail calls: each instruction is a function */
		return WS_PY_EVALUATOR;
	for (size_t i = 0; i < WS_COUNT(trampolines); i++) {
		n = strlen(trampolines[i]);
		if (!strncmp(name, trampolines[i], n) && (!name[n] || name[n] == '.'))
			return WS_PY_TRAMPOLINE;
	}
	return WS_PY_OTHER;
}

static void add_symbols(struct parts *parts, const struct ws_elf *elf, uint32_t section)
{
	Elf64_Shdr s, names;
	const Elf64_Sym *sym;

	if (!ws_elf_get_section(elf, section, &s) ||
	    (s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM) ||
	    !ws_elf_get_section(elf, s.sh_link, &names))
		return;
	sym = (const void *)ws_elf_get_bytes(elf, &s);
	for (uint64_t i = 0; sym && i < s.sh_size / sizeof(*sym); i++) {
		Elf64_Sym one;
		uint8_t part;

		memcpy(&one, &sym[i], sizeof(one));
		if (ELF64_ST_TYPE(one.st_info) != STT_FUNC || !one.st_size || !one.st_shndx)
			continue;
		part = part_of_name(
			ws_elf_get_text(elf, names.sh_offset, names.sh_size, one.st_name));
		if (part == WS_PY_OTHER)
			continue;
		ws_grow(parts->ranges, parts->cap, parts->n + 1);
		parts->ranges[parts->n++] =
			(struct range){one.st_value, one.st_value + one.st_size, part};
	}
}

static int by_start(const void *first, const void *second)
{
	const struct range *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

static bool may_be_interpreter(const struct ws_module *module)
{
	const char *base;

	if (!module || module->kind != WS_MODULE_FILE || !module->opened || !module->elf.wide)
		return false;
	base = module->path ? strrchr(module->path, '/') : NULL;
	base = base ? base + 1 : module->path;
	return base && strstr(base, "python");
}

/* What is known about modules, by address: they live as long as the recorder. */
static struct ws_map known_modules;

static const struct parts *parts_of(const struct ws_module *module)
{
	bool found;
	struct parts *parts =
		(struct parts *)(uintptr_t)ws_map_get(&known_modules, (uintptr_t)module, &found);

	if (found)
		return parts;
	if (may_be_interpreter(module)) {
		parts = ws_calloc(1, sizeof(*parts));
		for (uint32_t i = 0; i < module->elf.sections; i++)
			add_symbols(parts, &module->elf, i);
		if (parts->n)
			qsort(parts->ranges, parts->n, sizeof(*parts->ranges), by_start);
	}
	ws_map_set(&known_modules, (uintptr_t)module, (uintptr_t)parts);
	return parts;
}

enum ws_py_part ws_python_part(const struct ws_unwound_frame *place)
{
	const struct parts *parts = place->module ? parts_of(place->module) : NULL;
	size_t lo =
		ws_bisect(parts ? parts->n : 0, mid, parts->ranges[mid].start <= place->address);

	/* The same function may be in both tables, under several names. */
	return lo && place->address < parts->ranges[lo - 1].end
		       ? (enum ws_py_part)parts->ranges[lo - 1].part
		       : WS_PY_OTHER;
}

/* ---- merging ---- */

struct merge {
	struct ws_stackset *st;
	uint32_t stack, leaf; /* the innermost frame so far is kept separately */
};

static void put(struct merge *merge, uint32_t frame)
{
	if (merge->leaf)
		merge->stack = ws_stackset_push(merge->st, merge->stack, merge->leaf);
	merge->leaf = frame;
}

/* The run that ends before `*end` (counted from the innermost), outermost frame first; *end becomes
 * where it begins. */
static void put_run(struct merge *merge, const struct ws_py_stack *py, size_t *end)
{
	size_t i = *end;

	while (i > 0) {
		i--;
		if (py->frame[i])
			put(merge, py->frame[i]);
		if (!i || py->entry[i - 1])
			break;
	}
	*end = i;
}

static size_t count_runs(const struct ws_py_stack *py)
{
	size_t runs = py->n && !py->entry[py->n - 1]; /* the outermost may have been cut off */

	for (size_t i = 0; i < py->n; i++)
		runs += py->entry[i];
	return runs;
}

/* Whether trampoline i called an evaluator. */
static bool calls_evaluator(const uint8_t *part, size_t i)
{
	while (i > 0 && part[i] == WS_PY_TRAMPOLINE)
		i--;
	return part[i] == WS_PY_EVALUATOR;
}

uint32_t ws_python_merge(struct ws_stackset *st, const struct ws_unwound_frame *places, size_t n,
			 const struct ws_py_stack *py, bool cut, uint32_t *leaf)
{
	uint8_t part[WS_UNWIND_DEEPEST + 256];
	size_t evaluators = 0, runs = count_runs(py), end = py->n, pairs, first, seen = 0;
	bool from_inside = cut || py->truncated;
	struct merge merge = {.st = st};

	if (n > WS_COUNT(part))
		n = WS_COUNT(part);
	for (size_t i = 0; i < n; i++) {
		part[i] = (uint8_t)ws_python_part(&places[i]);
		evaluators += part[i] == WS_PY_EVALUATOR;
	}
	pairs = ws_min(evaluators, runs);
	first = from_inside ? evaluators - pairs : 0; /* the outermost evaluator that is replaced */
	for (; runs > pairs && (from_inside || !pairs); runs--)
		put_run(&merge, py, &end);
	for (size_t i = n; i-- > 0;) {
		bool replaced = seen >= first && seen < first + pairs;

		if (replaced && part[i] == WS_PY_TRAMPOLINE && calls_evaluator(part, i))
			continue;
		seen += part[i] == WS_PY_EVALUATOR;
		if (!replaced || part[i] != WS_PY_EVALUATOR) {
			put(&merge, ws_stackset_frame(st, &places[i], NULL, NULL));
			continue;
		}
		put_run(&merge, py, &end);
		if (seen == first + pairs)
			for (; runs > pairs;
			     runs--) /* runs whose evaluator is not known to be one */
				put_run(&merge, py, &end);
	}
	*leaf = merge.leaf;
	return merge.stack;
}

bool ws_python_is_truncated(const struct ws_py_stack *st)
{
	return st->truncated;
}

size_t ws_python_frames(const struct ws_py_stack *st)
{
	return st->n;
}

/* ---- samples that have no Python frames of their own ---- */

static uint64_t history_key(const struct ws_sink *sink, uint32_t thread)
{
	return (uint64_t)(uintptr_t)sink << 24 ^ thread;
}

/* Find the positions of the evaluators, innermost first; returns their number, or -1 when there are
 * more than `most`. */
static int evaluators_of(const struct ws_unwound_frame *places, size_t n, uint64_t *sp, int most)
{
	int k = 0;

	for (size_t i = 0; i < n; i++)
		if (ws_python_part(&places[i]) == WS_PY_EVALUATOR) {
			if (k == most)
				return -1;
			sp[k++] = places[i].sp;
		}
	return k;
}

void ws_python_remember(struct ws_python *py, const struct ws_python_sampled *sampled,
			const struct ws_py_stack *st)
{
	uint64_t key = history_key(sampled->sink, sampled->thread);
	struct ws_py_history *history =
		(struct ws_py_history *)(uintptr_t)ws_map_get(&py->history, key, NULL);
	size_t runs = count_runs(st);
	struct ws_py_moment *moment;
	int k;

	if (!st->n || st->n > WS_PY_MOMENT_FRAMES || st->truncated)
		return;
	if (!history) {
		history = ws_calloc(1, sizeof(*history));
		ws_map_set(&py->history, key, (uintptr_t)history);
	}
	moment = &history->moment[history->next];
	moment->time = 0;
	k = evaluators_of(sampled->places, sampled->n, moment->sp, WS_PY_MOMENT_EVALUATORS);
	if (k <= 0 ||
	    (sampled->cut ? runs < (size_t)k
			  : runs != (size_t)k)) /* one is being entered or left, so it is uncertain
						   which frames belong to which */
		return;
	moment->evaluators = (size_t)k;
	moment->cut = sampled->cut;
	moment->time = sampled->time;
	moment->n = st->n;
	memcpy(moment->frame, st->frame, st->n * sizeof(*st->frame));
	memcpy(moment->entry, st->entry, st->n * sizeof(*st->entry));
	memcpy(moment->code, st->code, st->n * sizeof(*st->code));
	history->next = (history->next + 1) % WS_PY_MOMENTS;
}

/* The sample without frames. */
struct bare {
	uint64_t sp[WS_PY_MOMENT_EVALUATORS];
	size_t evaluators;
	bool cut;
};

/*
 * Whether the evaluators of both are at the same places, except for some inner ones. Then *skip
 * gets the number of innermost evaluators of `m` that the sample lacks. Those of the sample that
 * `m` lacks stay as they are, which requires counting from the outer end of the stack.
 */
static bool same_places(const struct ws_py_moment *moment, const struct bare *bare, size_t *skip)
{
	for (size_t k = 0; k < (bare->cut ? 1 : bare->evaluators); k++)
		for (size_t d = 0; d < moment->evaluators; d++) {
			size_t left = moment->evaluators - d, have = bare->evaluators - k, i = 0;

			if (!moment->cut && !bare->cut && left != have)
				continue;
			while (i < left && i < have && bare->sp[k + i] &&
			       moment->sp[d + i] == bare->sp[k + i])
				i++;
			if (i == left || i == have) {
				*skip = d;
				return true;
			}
		}
	return false;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* The samples around `time`: the last before it and the first after it. */
static void neighbours(struct ws_py_history *history, uint64_t time, struct ws_py_moment **before,
		       struct ws_py_moment **after)
{
	*before = *after = NULL;
	for (size_t i = 0; i < WS_PY_MOMENTS; i++) {
		struct ws_py_moment *moment = &history->moment[i];

		if (!moment->time || apart(moment->time, time) > WS_PY_MOMENT_NS)
			continue;
		if (moment->time <= time && (!*before || moment->time > (*before)->time))
			*before = moment;
		if (moment->time > time && (!*after || moment->time < (*after)->time))
			*after = moment;
	}
}

/* Index of the first frame outside the `runs` innermost runs. */
static size_t behind_runs(const struct ws_py_moment *moment, size_t runs)
{
	size_t i = 0;

	for (; runs && i < moment->n; i++)
		runs -= moment->entry[i];
	return i;
}

static struct ws_py_stack part_of_moment(struct ws_py_moment *moment, size_t first)
{
	return (struct ws_py_stack){.frame = moment->frame + first,
				    .entry = moment->entry + first,
				    .code = moment->code + first,
				    .n = moment->n - first};
}

/*
 * The frames that both samples share, from the outermost on. The later sample may not have come
 * yet. Then the thread has hardly been in user space since the earlier one, whose frames are used
 * if it is recent.
 */
static struct ws_py_stack agreed(struct ws_py_history *history, uint64_t time,
				 const struct bare *bare)
{
	struct ws_py_moment *before, *after;
	struct ws_py_stack left, right, none = {0};
	size_t skip, have = 0;

	neighbours(history, time, &before, &after);
	if (!before || !same_places(before, bare, &skip) ||
	    (!after && apart(before->time, time) > WS_PY_MOMENT_ALONE_NS))
		return none;
	left = part_of_moment(before, behind_runs(before, skip));
	if (!after)
		return left;
	if (!same_places(after, bare, &skip))
		return none;
	right = part_of_moment(after, behind_runs(after, skip));
	while (have < left.n && have < right.n &&
	       left.code[left.n - 1 - have] == right.code[right.n - 1 - have] &&
	       left.entry[left.n - 1 - have] == right.entry[right.n - 1 - have])
		have++;
	if (bare->cut &&
	    have < left.n) /* inner ones are then counted from inside and do not match */
		return none;
	if (apart(after->time, time) <
	    apart(before->time, time)) { /* the nearer sample has the more likely lines */
		before = after;
		left = right;
	}
	return part_of_moment(before, before->n - have);
}

uint32_t ws_python_attach(struct ws_python *py, const struct ws_python_sampled *sampled,
			  uint32_t *leaf, uint8_t *flags)
{
	struct ws_stackset *stackset = ws_stackset_of(sampled->sink);
	struct ws_py_history *history = NULL;
	struct ws_py_stack st = {0};
	struct bare bare = {.cut = sampled->cut};
	int k = 0;

	if (py)
		history = (struct ws_py_history *)(uintptr_t)ws_map_get(
			&py->history, history_key(sampled->sink, sampled->thread), NULL);
	if (history)
		k = evaluators_of(sampled->places, sampled->n, bare.sp, WS_PY_MOMENT_EVALUATORS);
	if (k > 0) {
		bare.evaluators = (size_t)k;
		st = agreed(history, sampled->time, &bare);
	}
	if (!st.n)
		return ws_stackset_places(stackset, sampled->places, sampled->n, leaf);
	*flags |= WS_SAMPLE_SEPARATE;
	return ws_python_merge(stackset, sampled->places, sampled->n, &st, sampled->cut, leaf);
}

void ws_python_forget(struct ws_python *py)
{
	for (size_t i = 0; i < py->history.size; i++)
		if (py->history.used[i])
			free((void *)(uintptr_t)py->history.slots[i].value);
	ws_map_free(&py->history);
	for (size_t i = 0; i < known_modules.size; i++)
		if (known_modules.used[i] && known_modules.slots[i].value) {
			struct parts *parts =
				(struct parts *)(uintptr_t)known_modules.slots[i].value;

			free(parts->ranges);
			free(parts);
		}
	ws_map_free(&known_modules);
}
