/*
 * stacks.c - see stacks.h.
 *
 * Each table is read whole (its columns in parallel) and turned into arrays by id. Ids count up
 * from 1, so arrays are as long as the tables, apart from lost rows. Functions are numbered through
 * a hash of (name, module, file); names that are equal in bytes have one key
 * (ws_report_string_key), so that no text is compared.
 */
#include "query/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/slots.h"

struct function_key { /* of a function */
	uint32_t name, module, file;
};

struct ws_stacks {
	const struct ws_report *report;
	struct ws_module_info *modules;
	struct ws_frame_info *frames;
	struct ws_place *places;
	uint32_t *frame_of, *caller_of; /* by id of stack */
	uint32_t module_count, frame_count, stack_count, place_count;
	struct ws_function *functions;
	struct function_key *keys;
	size_t function_cap, key_cap, place_cap;
	uint32_t function_count; /* highest number; 1 is [unknown] */
	uint64_t *slots;	 /* number of the function: base/slots.h */
	size_t mask;
	char **owned; /* names that are not strings of the report */
	size_t owned_count, owned_cap;
};

enum {
	UNKNOWN_FUNCTION = 1,
	NO_NAME = 0,
	MADE = UINT32_MAX /* module of functions added with ws_stacks_add_made_function */
};

static const struct ws_module_info no_module = {.path = "", .name = "", .build_id = ""};
static const struct ws_frame_info no_frame = {.first = 0, .count = 1};

/* ---- functions ---- */

static uint32_t hash_key(const struct function_key *key)
{
	uint64_t hash = ((uint64_t)key->name << 32 | key->module) * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ hash >> 29 ^ key->file) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(hash >> 32);
}

/* Number of the function with this key; the caller fills in a new one (*fresh). */
static uint32_t number_function(struct ws_stacks *stacks, struct function_key key, bool *fresh)
{
	uint32_t hash = hash_key(&key), number;
	size_t at;

	*fresh = false;
	for (at = ws_begin_slot_search(&stacks->slots, &stacks->mask, stacks->function_count, 1024,
				       hash);
	     (number = ws_next_in_slots(stacks->slots, stacks->mask, hash, &at)); at++) {
		const struct function_key *have = &stacks->keys[number];

		if (have->name == key.name && have->module == key.module && have->file == key.file)
			return number;
	}
	stacks->function_count++;
	ws_grow(stacks->functions, stacks->function_cap, stacks->function_count + (size_t)1);
	ws_grow(stacks->keys, stacks->key_cap, stacks->function_count + (size_t)1);
	stacks->keys[stacks->function_count] = key;
	stacks->slots[at] = ws_make_slot(hash, stacks->function_count);
	*fresh = true;
	return stacks->function_count;
}

static const char *keep_text(struct ws_stacks *stacks, char *text)
{
	ws_grow(stacks->owned, stacks->owned_cap, stacks->owned_count + 1);
	return stacks->owned[stacks->owned_count++] = text;
}

/* The function that stands for nameless code of a module. */
static uint32_t find_nameless_function(struct ws_stacks *stacks, uint32_t module, uint8_t kind)
{
	const struct ws_module_info *module_info = ws_stacks_get_module(stacks, module);
	bool fresh, bracketed = module_info->name[0] == '[';
	uint32_t number;

	if (!*module_info->name)
		return UNKNOWN_FUNCTION;
	number = number_function(stacks, (struct function_key){NO_NAME, module, 0}, &fresh);
	if (fresh) {
		const char *name;

		if (bracketed)
			name = keep_text(stacks, ws_strdup(module_info->name));
		else
			name = keep_text(stacks, ws_format("[%s]", module_info->name));
		stacks->functions[number] = (struct ws_function){.name = name,
								 .len = strlen(name),
								 .module = module,
								 .kind = kind,
								 .unresolved = true};
	}
	return number;
}

static uint32_t find_function(struct ws_stacks *stacks, uint32_t name, uint32_t module,
			      uint32_t file, uint8_t kind)
{
	struct function_key key = {ws_report_string_key(stacks->report, name), module, 0};
	bool fresh;
	uint32_t number;
	size_t len;

	ws_report_string(stacks->report, name, &len);
	if (!len)
		return find_nameless_function(stacks, module, kind);
	if (kind == WS_FRAME_PYTHON)
		key.file = ws_report_string_key(stacks->report, file);
	number = number_function(stacks, key, &fresh);
	if (fresh) {
		struct ws_function *info = &stacks->functions[number];

		*info = (struct ws_function){
			.module = module, .text = name, .file = file, .kind = kind};
		info->name = ws_report_string(stacks->report, name, &info->len);
	} else if (!stacks->functions[number].file) {
		stacks->functions[number].file = file;
	}
	return number;
}

uint32_t ws_stacks_add_made_function(struct ws_stacks *stacks, const char *name, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
	for (uint32_t same = 0;; same++) { /* `file` distinguishes texts with equal hashes */
		bool fresh;
		uint32_t number = number_function(
			stacks, (struct function_key){(uint32_t)(hash ^ hash >> 32), MADE, same},
			&fresh);
		struct ws_function *function = &stacks->functions[number];

		if (fresh) {
			char *copy = ws_malloc(len + 1);

			memcpy(copy, name, len);
			copy[len] = 0;
			*function =
				(struct ws_function){.name = keep_text(stacks, copy), .len = len};
			return number;
		}
		if (function->len == len && !memcmp(function->name, name, len))
			return number;
	}
}

/* ---- reading ---- */

/* The highest id. Ids count up from 1, so they go little beyond the number of rows. A damaged id
 * must not cost gigabytes. */
static uint32_t find_highest_id(const struct ws_report *report, enum ws_table table,
				const uint64_t *id, size_t rows)
{
	uint64_t most = (UINT64_C(1) << 17) + ws_report_count_rows(report, table) * 16, top = 0;

	most = ws_min(most, UINT64_C(1) << 30);
	for (size_t i = 0; i < rows; i++)
		if (id[i] <= most)
			top = ws_max(id[i], top);
	return (uint32_t)top;
}

static void load_table(struct ws_stacks *stacks, enum ws_table table, uint64_t columns,
		       struct ws_rows *rows, uint64_t *damaged)
{
	struct ws_scan sc = {.table = table, .columns = columns, .time_max = UINT64_MAX};

	ws_rows_load(stacks->report, &sc, rows, NULL);
	*damaged += rows->damaged;
}

static void read_modules(struct ws_stacks *stacks, uint64_t *damaged)
{
	struct ws_rows rows;

	load_table(stacks, WS_TABLE_module, (UINT64_C(1) << ws_module_COLUMNS) - 1, &rows, damaged);
	stacks->module_count =
		find_highest_id(stacks->report, WS_TABLE_module, rows.col[ws_module_id], rows.rows);
	stacks->modules = ws_calloc(stacks->module_count + (size_t)1, sizeof(*stacks->modules));
	for (uint32_t i = 0; i <= stacks->module_count; i++)
		stacks->modules[i] = no_module;
	for (size_t i = 0; i < rows.rows; i++) {
		struct ws_module_info *info;

		if (!rows.col[ws_module_id][i] || rows.col[ws_module_id][i] > stacks->module_count)
			continue;
		info = &stacks->modules[rows.col[ws_module_id][i]];
		info->text = (uint32_t)rows.col[ws_module_path][i];
		info->path = ws_report_string(stacks->report, info->text, NULL);
		info->name = info->path;
		if (info->path[0] == '/')
			info->name = strrchr(info->path, '/') + 1;
		info->build_id = ws_report_string(stacks->report,
						  (uint32_t)rows.col[ws_module_build_id][i], NULL);
		info->size = rows.col[ws_module_size][i];
		info->kind = (uint8_t)rows.col[ws_module_kind][i];
		info->flags = (uint8_t)rows.col[ws_module_flags][i];
	}
	ws_rows_free(&rows);
}

/*
 * Rows of `symbol` in order of frame: for each frame only its last set, innermost function first.
 */
struct symbols {
	struct ws_rows rows;
	uint32_t *order, *start; /* rows by frame: order[start[f]] .. order[start[f + 1] - 1] */
};

static int compare_depths(const void *first, const void *second, void *ctx)
{
	const struct symbols *symbols = ctx;
	uint32_t i = *(const uint32_t *)first, k = *(const uint32_t *)second;
	const uint64_t *set = symbols->rows.col[ws_symbol_set],
		       *depth = symbols->rows.col[ws_symbol_depth];

	if (set[i] != set[k])
		return ws_compare(set[k], set[i]);
	if (depth[i] != depth[k])
		return ws_compare(depth[i], depth[k]);
	return ws_compare(i, k);
}

static void read_symbols(struct ws_stacks *stacks, struct symbols *symbols, uint64_t *damaged)
{
	const uint64_t *frame;
	size_t sum = 0;

	load_table(stacks, WS_TABLE_symbol, (UINT64_C(1) << ws_symbol_address) - 1, &symbols->rows,
		   damaged);
	frame = symbols->rows.col[ws_symbol_frame];
	symbols->start = ws_calloc(stacks->frame_count + (size_t)3, sizeof(*symbols->start));
	symbols->order = ws_malloc(symbols->rows.rows * sizeof(*symbols->order));
	for (size_t i = 0; i < symbols->rows.rows; i++)
		if (frame[i] <= stacks->frame_count)
			symbols->start[frame[i] + 2]++;
	for (size_t id = 0; id <= stacks->frame_count + (size_t)2; id++)
		symbols->start[id] = (uint32_t)(sum += symbols->start[id]);
	for (size_t i = 0; i < symbols->rows.rows; i++)
		if (frame[i] <= stacks->frame_count)
			symbols->order[symbols->start[frame[i] + 1]++] = (uint32_t)i;
	for (uint32_t frame_id = 1; frame_id <= stacks->frame_count; frame_id++)
		if (symbols->start[frame_id + 1] - symbols->start[frame_id] > 1)
			qsort_r(symbols->order + symbols->start[frame_id],
				symbols->start[frame_id + 1] - symbols->start[frame_id],
				sizeof(*symbols->order), compare_depths, symbols);
}

static void add_place(struct ws_stacks *stacks, uint32_t function, uint32_t file, uint32_t line)
{
	ws_grow(stacks->places, stacks->place_cap, stacks->place_count + (size_t)1);
	stacks->places[stacks->place_count++] = (struct ws_place){function, file, line};
}

/* Finds the places of a frame: those from the symboliser, else the name that was recorded, else its
 * module. */
static void resolve_frame(struct ws_stacks *stacks, const struct symbols *symbols, uint32_t id,
			  uint32_t name, uint32_t file)
{
	struct ws_frame_info *frame_info = &stacks->frames[id];
	uint32_t from = symbols->start[id], to = symbols->start[id + 1];

	frame_info->first = stacks->place_count;
	if (name) {
		uint32_t line = 0; /* the address of a Python frame */

		if (frame_info->kind == WS_FRAME_PYTHON && frame_info->address <= UINT32_MAX)
			line = (uint32_t)frame_info->address;
		add_place(stacks,
			  find_function(stacks, name, frame_info->module, file, frame_info->kind),
			  file, line);
	} else {
		for (uint32_t i = from; i < to; i++) {
			uint32_t row = symbols->order[i],
				 source = (uint32_t)symbols->rows.col[ws_symbol_file][row];

			if (symbols->rows.col[ws_symbol_set][row] !=
			    symbols->rows.col[ws_symbol_set][symbols->order[from]])
				break;
			add_place(stacks,
				  find_function(stacks,
						(uint32_t)symbols->rows.col[ws_symbol_name][row],
						frame_info->module, source, frame_info->kind),
				  source, (uint32_t)symbols->rows.col[ws_symbol_line][row]);
		}
	}
	if (stacks->place_count == frame_info->first)
		add_place(stacks,
			  find_nameless_function(stacks, frame_info->module, frame_info->kind), 0,
			  0);
	frame_info->count = stacks->place_count - frame_info->first;
}

static void read_frames(struct ws_stacks *stacks, uint64_t *damaged)
{
	struct symbols symbols;
	struct ws_rows rows;
	uint32_t *row;

	load_table(stacks, WS_TABLE_frame, (UINT64_C(1) << ws_frame_COLUMNS) - 1, &rows, damaged);
	stacks->frame_count =
		find_highest_id(stacks->report, WS_TABLE_frame, rows.col[ws_frame_id], rows.rows);
	stacks->frames = ws_calloc(stacks->frame_count + (size_t)1, sizeof(*stacks->frames));
	row = ws_calloc(stacks->frame_count + (size_t)1,
			sizeof(*row)); /* number + 1; the last row of an id counts */
	read_symbols(stacks, &symbols, damaged);
	for (size_t i = 0; i < rows.rows; i++)
		if (rows.col[ws_frame_id][i] <= stacks->frame_count)
			row[rows.col[ws_frame_id][i]] = (uint32_t)i + 1;
	stacks->frames[0] = no_frame;
	for (uint32_t id = 1; id <= stacks->frame_count; id++) {
		uint32_t i = row[id] - 1;

		stacks->frames[id] = no_frame;
		if (!row[id])
			continue;
		stacks->frames[id].address = rows.col[ws_frame_address][i];
		if (rows.col[ws_frame_module][i] <= stacks->module_count)
			stacks->frames[id].module = (uint32_t)rows.col[ws_frame_module][i];
		stacks->frames[id].kind = (uint8_t)rows.col[ws_frame_kind][i];
		stacks->frames[id].method = (uint8_t)rows.col[ws_frame_method][i];
		resolve_frame(stacks, &symbols, id, (uint32_t)rows.col[ws_frame_name][i],
			      (uint32_t)rows.col[ws_frame_file][i]);
	}
	free(row);
	free(symbols.order);
	free(symbols.start);
	ws_rows_free(&symbols.rows);
	ws_rows_free(&rows);
}

/*
 * Cuts loops. Each id is followed outwards once; an id that comes back to a row of the same walk
 * closes a loop, which is cut there. Finished rows are marked, so all this takes as many steps as
 * there are rows.
 */
static void cut_loops(struct ws_stacks *stacks)
{
	uint32_t *mark = ws_calloc(stacks->stack_count + (size_t)1, sizeof(*mark));

	for (uint32_t i = 1; i <= stacks->stack_count; i++)
		for (uint32_t at = i; at && !mark[at];) {
			uint32_t next = stacks->caller_of[at];

			mark[at] = i;
			if (mark[next] == i)
				stacks->caller_of[at] = next = 0;
			at = next;
		}
	free(mark);
}

static void read_stacks(struct ws_stacks *stacks, uint64_t *damaged)
{
	struct ws_rows rows;

	load_table(stacks, WS_TABLE_stack, (UINT64_C(1) << ws_stack_COLUMNS) - 1, &rows, damaged);
	stacks->stack_count =
		find_highest_id(stacks->report, WS_TABLE_stack, rows.col[ws_stack_id], rows.rows);
	stacks->frame_of = ws_calloc(stacks->stack_count + (size_t)1, sizeof(*stacks->frame_of));
	stacks->caller_of = ws_calloc(stacks->stack_count + (size_t)1, sizeof(*stacks->caller_of));
	for (size_t i = 0; i < rows.rows; i++) {
		uint64_t id = rows.col[ws_stack_id][i], caller = rows.col[ws_stack_parent][i];

		if (!id || id > stacks->stack_count)
			continue;
		stacks->frame_of[id] = (uint32_t)rows.col[ws_stack_frame][i];
		stacks->caller_of[id] = (uint32_t)caller * (caller <= stacks->stack_count);
	}
	cut_loops(stacks);
	ws_rows_free(&rows);
}

struct ws_stacks *ws_stacks_open(const struct ws_report *report, uint64_t *damaged)
{
	struct ws_stacks *stacks = ws_calloc(1, sizeof(*stacks));
	uint64_t damaged_blocks = 0;
	bool fresh;

	stacks->report = report;
	read_modules(stacks, &damaged_blocks);
	number_function(stacks, (struct function_key){NO_NAME, 0, 0}, &fresh);
	stacks->functions[UNKNOWN_FUNCTION] =
		(struct ws_function){.name = "[unknown]", .len = 9, .unresolved = true};
	add_place(stacks, UNKNOWN_FUNCTION, 0, 0); /* the place of no_frame */
	read_frames(stacks, &damaged_blocks);
	read_stacks(stacks, &damaged_blocks);
	if (damaged)
		*damaged += damaged_blocks;
	return stacks;
}

void ws_stacks_close(struct ws_stacks *stacks)
{
	if (!stacks)
		return;
	for (size_t i = 0; i < stacks->owned_count; i++)
		free(stacks->owned[i]);
	free(stacks->owned);
	free(stacks->modules);
	free(stacks->frames);
	free(stacks->places);
	free(stacks->frame_of);
	free(stacks->caller_of);
	free(stacks->functions);
	free(stacks->keys);
	free(stacks->slots);
	free(stacks);
}

/* ---- lookups ---- */

uint32_t ws_stacks_count_functions(const struct ws_stacks *stacks)
{
	return stacks->function_count;
}

const struct ws_function *ws_stacks_get_function(const struct ws_stacks *stacks, uint32_t number)
{
	if (!number || number > stacks->function_count)
		number = UNKNOWN_FUNCTION;
	return &stacks->functions[number];
}

const struct ws_module_info *ws_stacks_get_module(const struct ws_stacks *stacks, uint32_t id)
{
	if (!id || id > stacks->module_count)
		return &no_module;
	return &stacks->modules[id];
}

const char *ws_stacks_get_origin(const struct ws_stacks *stacks, const struct ws_function *function)
{
	if (!function->module && function->kind == WS_FRAME_PYTHON)
		return ws_report_string(stacks->report, function->file, NULL);
	return ws_stacks_get_module(stacks, function->module)->path;
}

const struct ws_frame_info *ws_stacks_get_frame(const struct ws_stacks *stacks, uint32_t id)
{
	if (!id || id > stacks->frame_count)
		return &no_frame;
	return &stacks->frames[id];
}

const struct ws_place *ws_stacks_get_places(const struct ws_stacks *stacks,
					    const struct ws_frame_info *frame_info)
{
	return stacks->places + frame_info->first;
}

uint32_t ws_stacks_step_out(const struct ws_stacks *stacks, uint32_t stack, uint32_t *caller)
{
	if (!stack || stack > stacks->stack_count) {
		*caller = 0;
		return 0;
	}
	*caller = stacks->caller_of[stack];
	return stacks->frame_of[stack];
}

uint32_t ws_stacks_highest_id(const struct ws_stacks *stacks)
{
	return stacks->stack_count;
}

uint32_t ws_stacks_highest_frame(const struct ws_stacks *stacks)
{
	return stacks->frame_count;
}

size_t ws_stacks_list_frames(const struct ws_stacks *stacks, uint32_t frame, uint32_t stack,
			     uint32_t *out, size_t most)
{
	size_t count = 0;

	if (frame && count < most)
		out[count++] = frame;
	while (stack && count < most) {
		uint32_t caller, step_frame = ws_stacks_step_out(stacks, stack, &caller);

		if (step_frame)
			out[count++] = step_frame;
		stack = caller;
	}
	return count;
}
