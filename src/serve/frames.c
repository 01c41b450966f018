/*
 * frames.c - see frames.h.
 *
 * Ids come from the file, so arrays grow only as far as there are rows to justify it, and a stack's parent must have a lower id
 * than the stack itself: that is how they are written, and it rules out circles.
 */
#include "serve/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "serve/lane.h"

struct frame {
	uint64_t address;
	uint32_t name, file, line, module, set, key;
	uint8_t kind;
	char *made; /* "module+0x12", when it has no name; atomic */
};

struct ws_frames {
	const struct ws_report *r;
	struct frame *frame;
	uint32_t *module; /* string ids by module id */
	struct stack {
		uint32_t parent, frame;
	} * stack;
	uint32_t frame_n, module_n, stack_n;
};

static const char unknown[] = "[unknown]";

/* One more than the highest id that is believed: some rows may be lost, but not almost all. */
static uint32_t most_ids(const struct ws_report *r, enum ws_table t)
{
	uint64_t most = ws_report_rows(r, t) * 4 + 1024;

	return ws_report_rows(r, t) ? (most < (UINT32_C(1) << 28) ? (uint32_t)most : UINT32_C(1) << 28) : 0;
}

static int take_frames(void *ctx, const struct ws_batch *b)
{
	struct ws_frames *f = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t id = b->col[ws_frame_id][i];

		if (id < f->frame_n)
			f->frame[id] = (struct frame){
			    .address = b->col[ws_frame_address][i],
			    .name = (uint32_t)b->col[ws_frame_name][i],
			    .file = (uint32_t)b->col[ws_frame_file][i],
			    .line = b->col[ws_frame_kind][i] == WS_FRAME_PYTHON ? (uint32_t)b->col[ws_frame_address][i] : 0,
			    .module = (uint32_t)b->col[ws_frame_module][i],
			    .kind = (uint8_t)b->col[ws_frame_kind][i],
			};
	}
	return 0;
}

/* The innermost function counts; of several sets the last. */
static int take_symbols(void *ctx, const struct ws_batch *b)
{
	struct ws_frames *f = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t id = b->col[ws_symbol_frame][i];
		struct frame *x = id < f->frame_n ? &f->frame[id] : NULL;

		if (!x || b->col[ws_symbol_depth][i] || b->col[ws_symbol_set][i] < x->set)
			continue;
		x->set = (uint32_t)b->col[ws_symbol_set][i];
		if (b->col[ws_symbol_name][i])
			x->name = (uint32_t)b->col[ws_symbol_name][i];
		if (b->col[ws_symbol_file][i]) {
			x->file = (uint32_t)b->col[ws_symbol_file][i];
			x->line = (uint32_t)b->col[ws_symbol_line][i];
		}
	}
	return 0;
}

static int take_modules(void *ctx, const struct ws_batch *b)
{
	struct ws_frames *f = ctx;

	for (size_t i = 0; i < b->rows; i++)
		if (b->col[ws_module_id][i] < f->module_n)
			f->module[b->col[ws_module_id][i]] = (uint32_t)b->col[ws_module_path][i];
	return 0;
}

static int take_stacks(void *ctx, const struct ws_batch *b)
{
	struct ws_frames *f = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t id = b->col[ws_stack_id][i], parent = b->col[ws_stack_parent][i];

		if (id < f->stack_n)
			f->stack[id] = (struct stack){parent < id ? (uint32_t)parent : 0, (uint32_t)b->col[ws_stack_frame][i]};
	}
	return 0;
}

static void read_table(struct ws_frames *f, enum ws_table t, int (*take)(void *, const struct ws_batch *))
{
	struct ws_scan s = {.table = t, .columns = UINT64_MAX, .time_max = UINT64_MAX, .workers = 1};

	ws_scan_run(f->r, &s, take, f, NULL);
}

/* Frames of one function have one key: by name where there is one. */
static void make_keys(struct ws_frames *f)
{
	for (uint32_t i = 0; i < f->frame_n; i++) {
		struct frame *x = &f->frame[i];

		x->key = x->name ? WS_NAME(WS_NAME_STRING, ws_report_string_key(f->r, x->name)) : WS_NAME(WS_NAME_FRAME, i);
	}
}

struct ws_frames *ws_frames_open(const struct ws_report *r)
{
	struct ws_frames *f = ws_calloc(1, sizeof(*f));

	f->r = r;
	f->frame_n = most_ids(r, WS_TABLE_frame);
	f->module_n = most_ids(r, WS_TABLE_module);
	f->stack_n = most_ids(r, WS_TABLE_stack);
	f->frame = ws_calloc((size_t)f->frame_n + 1, sizeof(*f->frame));
	f->module = ws_calloc((size_t)f->module_n + 1, sizeof(*f->module));
	f->stack = ws_calloc((size_t)f->stack_n + 1, sizeof(*f->stack));
	read_table(f, WS_TABLE_module, take_modules);
	read_table(f, WS_TABLE_frame, take_frames);
	read_table(f, WS_TABLE_symbol, take_symbols);
	read_table(f, WS_TABLE_stack, take_stacks);
	make_keys(f);
	return f;
}

void ws_frames_close(struct ws_frames *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->frame_n; i++)
		free(f->frame[i].made);
	free(f->frame);
	free(f->module);
	free(f->stack);
	free(f);
}

static const struct frame *find(struct ws_frames *f, uint32_t i)
{
	return i && i < f->frame_n && f->frame[i].kind ? &f->frame[i] : NULL;
}

/* "libfoo.so+0x12", kept for the next time. */
static const char *made_name(struct ws_frames *f, struct frame *x)
{
	char *made = __atomic_load_n(&x->made, __ATOMIC_ACQUIRE), *none = NULL;
	const char *path, *base;

	if (made)
		return made;
	path = x->module < f->module_n ? ws_report_string(f->r, f->module[x->module], NULL) : "";
	base = strrchr(path, '/');
	made = ws_format(*path ? "%s+0x%llx" : "%s0x%llx", base ? base + 1 : path, (unsigned long long)x->address);
	if (__atomic_compare_exchange_n(&x->made, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	free(made);
	return none;
}

const char *ws_code_name(struct ws_frames *f, uint32_t frame, size_t *len)
{
	const struct frame *x = find(f, frame);
	const char *s = unknown;

	if (x && x->name)
		return ws_report_string(f->r, x->name, len);
	if (x)
		s = made_name(f, &f->frame[frame]);
	*len = strlen(s);
	return s;
}

uint32_t ws_code_key(struct ws_frames *f, uint32_t frame)
{
	const struct frame *x = find(f, frame);

	return x ? x->key : WS_NAME(WS_NAME_FRAME, 0);
}

uint32_t ws_code_line(struct ws_frames *f, uint32_t frame, uint32_t *line)
{
	const struct frame *x = find(f, frame);

	*line = x ? x->line : 0;
	return x ? x->file : 0;
}

uint32_t ws_code_module(struct ws_frames *f, uint32_t frame)
{
	const struct frame *x = find(f, frame);

	return x && x->module < f->module_n ? f->module[x->module] : 0;
}

uint8_t ws_code_kind(struct ws_frames *f, uint32_t frame)
{
	const struct frame *x = find(f, frame);

	return x ? x->kind : 0;
}

uint32_t ws_code_stack_frame(struct ws_frames *f, uint32_t stack)
{
	return stack < f->stack_n ? f->stack[stack].frame : 0;
}

uint32_t ws_code_stack_parent(struct ws_frames *f, uint32_t stack)
{
	return stack < f->stack_n ? f->stack[stack].parent : 0;
}
