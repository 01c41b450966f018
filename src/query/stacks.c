/*
 * stacks.c - see stacks.h.
 *
 * Each table is read whole (columns side by side, in parallel) and turned into arrays by id; ids
 * count up from 1, so arrays are as long as the tables but for what was lost. Functions are
 * numbered through a hash of (name, module, file); names that are equal in bytes have one key
 * (ws_report_string_key), so that no text is compared.
 */
#include "query/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/slots.h"

struct key { /* of a function */
	uint32_t name, module, file;
};

struct ws_stacks {
	const struct ws_report *r;
	struct ws_module_info *modules;
	struct ws_frame_info *frames;
	struct ws_place *places;
	uint32_t *frame_of, *caller_of; /* by id of stack */
	uint32_t module_count, frame_count, stack_count, place_count;
	struct ws_function *functions;
	struct key *keys;
	size_t function_cap, key_cap, place_cap;
	uint32_t function_count; /* highest number; 1 is [unknown] */
	uint64_t *slots;	 /* number of the function: base/slots.h */
	size_t mask;
	char **owned; /* names that are not the report's */
	size_t owned_count, owned_cap;
};

enum {
	UNKNOWN_FUNCTION = 1,
	NO_NAME = 0,
	MADE = UINT32_MAX /* as the module of a made function */
};

static const struct ws_module_info no_module = {.path = "", .name = "", .build_id = ""};
static const struct ws_frame_info no_frame = {.first = 0, .count = 1};

/* ---- functions ---- */

static uint32_t hash(const struct key *k)
{
	uint64_t h = ((uint64_t)k->name << 32 | k->module) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 29 ^ k->file) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(h >> 32);
}

/* Number of the function with this key; a new one (*fresh) is the caller's to fill in. */
static uint32_t number(struct ws_stacks *s, struct key k, bool *fresh)
{
	uint32_t h = hash(&k), i;
	size_t at;

	*fresh = false;
	for (at = ws_slots_begin(&s->slots, &s->mask, s->function_count, 1024, h);
	     (i = ws_slots_next(s->slots, s->mask, h, &at)); at++) {
		const struct key *have = &s->keys[i];

		if (have->name == k.name && have->module == k.module && have->file == k.file)
			return i;
	}
	s->function_count++;
	ws_grow(s->functions, s->function_cap, s->function_count + (size_t)1);
	ws_grow(s->keys, s->key_cap, s->function_count + (size_t)1);
	s->keys[s->function_count] = k;
	s->slots[at] = ws_slot(h, s->function_count);
	*fresh = true;
	return s->function_count;
}

static const char *own(struct ws_stacks *s, char *text)
{
	ws_grow(s->owned, s->owned_cap, s->owned_count + 1);
	return s->owned[s->owned_count++] = text;
}

/* The function that stands for nameless code of a module. */
static uint32_t nameless(struct ws_stacks *s, uint32_t module, uint8_t kind)
{
	const struct ws_module_info *m = ws_stacks_module(s, module);
	bool fresh, bracketed = m->name[0] == '[';
	uint32_t n;

	if (!*m->name)
		return UNKNOWN_FUNCTION;
	n = number(s, (struct key){NO_NAME, module, 0}, &fresh);
	if (fresh) {
		const char *name = own(s, ws_format(bracketed ? "%s" : "[%s]", m->name));

		s->functions[n] = (struct ws_function){.name = name,
						       .len = strlen(name),
						       .module = module,
						       .kind = kind,
						       .unresolved = true};
	}
	return n;
}

static uint32_t function(struct ws_stacks *s, uint32_t name, uint32_t module, uint32_t file,
			 uint8_t kind)
{
	struct key k = {ws_report_string_key(s->r, name), module,
			kind == WS_FRAME_PYTHON ? ws_report_string_key(s->r, file) : 0};
	bool fresh;
	uint32_t n;
	size_t len;

	ws_report_string(s->r, name, &len);
	if (!len)
		return nameless(s, module, kind);
	n = number(s, k, &fresh);
	if (fresh) {
		struct ws_function *f = &s->functions[n];

		*f = (struct ws_function){
			.module = module, .text = name, .file = file, .kind = kind};
		f->name = ws_report_string(s->r, name, &f->len);
	} else if (!s->functions[n].file) {
		s->functions[n].file = file;
	}
	return n;
}

uint32_t ws_stacks_made(struct ws_stacks *s, const char *name, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
	for (uint32_t same = 0;; same++) { /* texts of one hash are told apart by `file` */
		bool fresh;
		uint32_t n = number(s, (struct key){(uint32_t)(h ^ h >> 32), MADE, same}, &fresh);
		struct ws_function *f = &s->functions[n];

		if (fresh) {
			char *copy = ws_malloc(len + 1);

			memcpy(copy, name, len);
			copy[len] = 0;
			*f = (struct ws_function){.name = own(s, copy), .len = len};
			return n;
		}
		if (f->len == len && !memcmp(f->name, name, len))
			return n;
	}
}

/* ---- reading ---- */

/* Ids count up from 1, so they go little beyond the number of rows: a damaged one must not cost
 * gigabytes. */
static uint32_t highest(const struct ws_report *r, enum ws_table t, const uint64_t *id, size_t rows)
{
	uint64_t most = (UINT64_C(1) << 17) + ws_report_rows(r, t) * 16, top = 0;

	most = most < (UINT64_C(1) << 30) ? most : UINT64_C(1) << 30;
	for (size_t i = 0; i < rows; i++)
		top = id[i] > top && id[i] <= most ? id[i] : top;
	return (uint32_t)top;
}

static void load(struct ws_stacks *s, enum ws_table t, uint64_t columns, struct ws_rows *rows,
		 uint64_t *damaged)
{
	struct ws_scan sc = {.table = t, .columns = columns, .time_max = UINT64_MAX};

	ws_rows_load(s->r, &sc, rows, NULL);
	*damaged += rows->damaged;
}

static void read_modules(struct ws_stacks *s, uint64_t *damaged)
{
	struct ws_rows m;

	load(s, WS_TABLE_module, (UINT64_C(1) << ws_module_COLUMNS) - 1, &m, damaged);
	s->module_count = highest(s->r, WS_TABLE_module, m.col[ws_module_id], m.rows);
	s->modules = ws_calloc(s->module_count + (size_t)1, sizeof(*s->modules));
	for (uint32_t i = 0; i <= s->module_count; i++)
		s->modules[i] = no_module;
	for (size_t i = 0; i < m.rows; i++) {
		struct ws_module_info *info;

		if (!m.col[ws_module_id][i] || m.col[ws_module_id][i] > s->module_count)
			continue;
		info = &s->modules[m.col[ws_module_id][i]];
		info->text = (uint32_t)m.col[ws_module_path][i];
		info->path = ws_report_string(s->r, info->text, NULL);
		info->name = strrchr(info->path, '/') && info->path[0] == '/'
				     ? strrchr(info->path, '/') + 1
				     : info->path;
		info->build_id =
			ws_report_string(s->r, (uint32_t)m.col[ws_module_build_id][i], NULL);
		info->size = m.col[ws_module_size][i];
		info->kind = (uint8_t)m.col[ws_module_kind][i];
		info->flags = (uint8_t)m.col[ws_module_flags][i];
	}
	ws_rows_free(&m);
}

/* Rows of `symbol` in order of frame, of each only those of the last set, innermost first. */
struct symbols {
	struct ws_rows rows;
	uint32_t *order, *start; /* rows by frame: order[start[f]] .. order[start[f + 1] - 1] */
};

static int by_depth(const void *a, const void *b, void *ctx)
{
	const struct symbols *y = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const uint64_t *set = y->rows.col[ws_symbol_set], *depth = y->rows.col[ws_symbol_depth];

	if (set[i] != set[k])
		return set[i] > set[k] ? -1 : 1;
	return depth[i] < depth[k] ? -1 : depth[i] > depth[k] ? 1 : i < k ? -1 : i > k;
}

static void read_symbols(struct ws_stacks *s, struct symbols *y, uint64_t *damaged)
{
	const uint64_t *frame;
	size_t sum = 0;

	load(s, WS_TABLE_symbol, (UINT64_C(1) << ws_symbol_address) - 1, &y->rows, damaged);
	frame = y->rows.col[ws_symbol_frame];
	y->start = ws_calloc(s->frame_count + (size_t)3, sizeof(*y->start));
	y->order = ws_malloc(y->rows.rows * sizeof(*y->order));
	for (size_t i = 0; i < y->rows.rows; i++)
		if (frame[i] <= s->frame_count)
			y->start[frame[i] + 2]++;
	for (size_t f = 0; f <= s->frame_count + (size_t)2; f++)
		y->start[f] = (uint32_t)(sum += y->start[f]);
	for (size_t i = 0; i < y->rows.rows; i++)
		if (frame[i] <= s->frame_count)
			y->order[y->start[frame[i] + 1]++] = (uint32_t)i;
	for (uint32_t f = 1; f <= s->frame_count; f++)
		if (y->start[f + 1] - y->start[f] > 1)
			qsort_r(y->order + y->start[f], y->start[f + 1] - y->start[f],
				sizeof(*y->order), by_depth, y);
}

static void add_place(struct ws_stacks *s, uint32_t fn, uint32_t file, uint32_t line)
{
	ws_grow(s->places, s->place_cap, s->place_count + (size_t)1);
	s->places[s->place_count++] = (struct ws_place){fn, file, line};
}

/* The places of a frame: those of the symboliser, else the name that recording gave, else its
 * module. */
static void resolve(struct ws_stacks *s, const struct symbols *y, uint32_t id, uint32_t name,
		    uint32_t file)
{
	struct ws_frame_info *f = &s->frames[id];
	uint32_t from = y->start[id], to = y->start[id + 1];

	f->first = s->place_count;
	if (name) {
		add_place(s, function(s, name, f->module, file, f->kind), file,
			  f->kind == WS_FRAME_PYTHON && f->address <= UINT32_MAX
				  ? (uint32_t)f->address
				  : 0);
	} else {
		for (uint32_t i = from; i < to; i++) {
			uint32_t row = y->order[i],
				 source = (uint32_t)y->rows.col[ws_symbol_file][row];

			if (y->rows.col[ws_symbol_set][row] !=
			    y->rows.col[ws_symbol_set][y->order[from]])
				break;
			add_place(s,
				  function(s, (uint32_t)y->rows.col[ws_symbol_name][row], f->module,
					   source, f->kind),
				  source, (uint32_t)y->rows.col[ws_symbol_line][row]);
		}
	}
	if (s->place_count == f->first)
		add_place(s, nameless(s, f->module, f->kind), 0, 0);
	f->count = s->place_count - f->first;
}

static void read_frames(struct ws_stacks *s, uint64_t *damaged)
{
	struct symbols y;
	struct ws_rows f;
	uint32_t *row;

	load(s, WS_TABLE_frame, (UINT64_C(1) << ws_frame_COLUMNS) - 1, &f, damaged);
	s->frame_count = highest(s->r, WS_TABLE_frame, f.col[ws_frame_id], f.rows);
	s->frames = ws_calloc(s->frame_count + (size_t)1, sizeof(*s->frames));
	row = ws_calloc(s->frame_count + (size_t)1,
			sizeof(*row)); /* + 1; the last row of an id counts */
	read_symbols(s, &y, damaged);
	for (size_t i = 0; i < f.rows; i++)
		if (f.col[ws_frame_id][i] <= s->frame_count)
			row[f.col[ws_frame_id][i]] = (uint32_t)i + 1;
	s->frames[0] = no_frame;
	for (uint32_t id = 1; id <= s->frame_count; id++) {
		uint32_t i = row[id] - 1;

		s->frames[id] = no_frame;
		if (!row[id])
			continue;
		s->frames[id].address = f.col[ws_frame_address][i];
		s->frames[id].module = f.col[ws_frame_module][i] <= s->module_count
					       ? (uint32_t)f.col[ws_frame_module][i]
					       : 0;
		s->frames[id].kind = (uint8_t)f.col[ws_frame_kind][i];
		s->frames[id].method = (uint8_t)f.col[ws_frame_method][i];
		resolve(s, &y, id, (uint32_t)f.col[ws_frame_name][i],
			(uint32_t)f.col[ws_frame_file][i]);
	}
	free(row);
	free(y.order);
	free(y.start);
	ws_rows_free(&y.rows);
	ws_rows_free(&f);
}

/*
 * Each id is followed outwards once; one that comes back to a row under way has a loop, which is
 * cut there. Rows that are done are told by a mark, so all takes as many steps as there are rows.
 */
static void cut_loops(struct ws_stacks *s)
{
	uint32_t *mark = ws_calloc(s->stack_count + (size_t)1, sizeof(*mark));

	for (uint32_t i = 1; i <= s->stack_count; i++)
		for (uint32_t at = i; at && !mark[at];) {
			uint32_t next = s->caller_of[at];

			mark[at] = i;
			if (mark[next] == i)
				s->caller_of[at] = next = 0;
			at = next;
		}
	free(mark);
}

static void read_stacks(struct ws_stacks *s, uint64_t *damaged)
{
	struct ws_rows k;

	load(s, WS_TABLE_stack, (UINT64_C(1) << ws_stack_COLUMNS) - 1, &k, damaged);
	s->stack_count = highest(s->r, WS_TABLE_stack, k.col[ws_stack_id], k.rows);
	s->frame_of = ws_calloc(s->stack_count + (size_t)1, sizeof(*s->frame_of));
	s->caller_of = ws_calloc(s->stack_count + (size_t)1, sizeof(*s->caller_of));
	for (size_t i = 0; i < k.rows; i++) {
		uint64_t id = k.col[ws_stack_id][i], caller = k.col[ws_stack_parent][i];

		if (!id || id > s->stack_count)
			continue;
		s->frame_of[id] = (uint32_t)k.col[ws_stack_frame][i];
		s->caller_of[id] = caller <= s->stack_count ? (uint32_t)caller : 0;
	}
	cut_loops(s);
	ws_rows_free(&k);
}

struct ws_stacks *ws_stacks_open(const struct ws_report *r, uint64_t *damaged)
{
	struct ws_stacks *s = ws_calloc(1, sizeof(*s));
	uint64_t bad = 0;
	bool fresh;

	s->r = r;
	read_modules(s, &bad);
	number(s, (struct key){NO_NAME, 0, 0}, &fresh);
	s->functions[UNKNOWN_FUNCTION] =
		(struct ws_function){.name = "[unknown]", .len = 9, .unresolved = true};
	add_place(s, UNKNOWN_FUNCTION, 0, 0); /* the place of no_frame */
	read_frames(s, &bad);
	read_stacks(s, &bad);
	if (damaged)
		*damaged += bad;
	return s;
}

void ws_stacks_close(struct ws_stacks *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->owned_count; i++)
		free(s->owned[i]);
	free(s->owned);
	free(s->modules);
	free(s->frames);
	free(s->places);
	free(s->frame_of);
	free(s->caller_of);
	free(s->functions);
	free(s->keys);
	free(s->slots);
	free(s);
}

/* ---- asking ---- */

uint32_t ws_stacks_functions(const struct ws_stacks *s)
{
	return s->function_count;
}

const struct ws_function *ws_stacks_function(const struct ws_stacks *s, uint32_t number)
{
	return &s->functions[number && number <= s->function_count ? number : UNKNOWN_FUNCTION];
}

const struct ws_module_info *ws_stacks_module(const struct ws_stacks *s, uint32_t id)
{
	return id && id <= s->module_count ? &s->modules[id] : &no_module;
}

const char *ws_stacks_origin(const struct ws_stacks *s, const struct ws_function *f)
{
	if (!f->module && f->kind == WS_FRAME_PYTHON)
		return ws_report_string(s->r, f->file, NULL);
	return ws_stacks_module(s, f->module)->path;
}

const struct ws_frame_info *ws_stacks_frame(const struct ws_stacks *s, uint32_t id)
{
	return id && id <= s->frame_count ? &s->frames[id] : &no_frame;
}

const struct ws_place *ws_stacks_places(const struct ws_stacks *s, const struct ws_frame_info *f)
{
	return s->places + f->first;
}

uint32_t ws_stacks_step(const struct ws_stacks *s, uint32_t stack, uint32_t *caller)
{
	bool there = stack && stack <= s->stack_count;

	*caller = there ? s->caller_of[stack] : 0;
	return there ? s->frame_of[stack] : 0;
}

uint32_t ws_stacks_count(const struct ws_stacks *s)
{
	return s->stack_count;
}

size_t ws_stacks_walk(const struct ws_stacks *s, uint32_t frame, uint32_t stack, uint32_t *out,
		      size_t most)
{
	size_t n = 0;

	if (frame && n < most)
		out[n++] = frame;
	while (stack && n < most) {
		uint32_t caller, f = ws_stacks_step(s, stack, &caller);

		if (f)
			out[n++] = f;
		stack = caller;
	}
	return n;
}
