/* stacks.c - see stacks.h. */
#include "record/stacks.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/mem.h"

#define MOST_STACKS (16u << 20) /* remembered: a slot costs 16 bytes and some room */
#define MOST_FRAMES (8u << 20)

struct bound {
	struct ws_stackset *stacks;
	uint32_t process;
	struct bound *next;
};

struct ws_stackset {
	struct ws_sink *sink;
	uint32_t modules, frames, stacks; /* numbers given so far */
	struct ws_map module_id;	  /* number in the registry -> row */
	struct ws_map frame_id;		  /* hash of a frame -> number */
	struct ws_map stack_id;		  /* parent << 32 | frame -> number */
	struct ws_stackset_frame *frame;
	size_t frame_cap;
	struct bound *bound;
};

struct ws_stackset *ws_stackset_of(struct ws_sink *sink)
{
	if (!sink->stacks) {
		sink->stacks = ws_calloc(1, sizeof(*sink->stacks));
		sink->stacks->sink = sink;
	}
	return sink->stacks;
}

void ws_stackset_free(struct ws_stackset *st)
{
	struct bound *next;

	if (!st)
		return;
	ws_map_free(&st->module_id);
	ws_map_free(&st->frame_id);
	ws_map_free(&st->stack_id);
	for (struct bound *bound = st->bound; bound; bound = next) {
		next = bound->next;
		free(bound);
	}
	free(st->frame);
	free(st);
}

static uint32_t add_module_row(struct ws_stackset *st, struct ws_module *module)
{
	struct ws_row_module row = {
		.kind = (uint8_t)module->kind, .size = module->size, .flags = module->flags};
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&st->module_id, module->number, &found);

	if (found)
		return id;
	row.id = ++st->modules;
	row.path = ws_sink_string(st->sink, module->path);
	row.build_id = module->build_id[0] ? ws_sink_string(st->sink, module->build_id) : 0;
	ws_writer_add(st->sink->writer, WS_TABLE_module, &row);
	ws_map_set(&st->module_id, module->number, row.id);
	return row.id;
}

uint32_t ws_stackset_frame(struct ws_stackset *st, const struct ws_unwound_frame *place,
			   const char *name, const char *file)
{
	struct ws_module *module = place->module;
	uint32_t name_id = name ? ws_sink_string(st->sink, name) : 0,
		 file_id = file ? ws_sink_string(st->sink, file) : 0;
	uint64_t parts[5] = {(uint64_t)place->kind << 8 | place->method,
			     module ? module->number : 0, place->address, name_id, file_id};
	uint64_t key = XXH3_64bits(parts, sizeof(parts));
	struct ws_row_frame row = {.kind = place->kind,
				   .method = place->method,
				   .address = place->address,
				   .name = name_id,
				   .file = file_id};
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&st->frame_id, key, &found);

	if (found) /* 64 bits of hash: two of ten million frames meet once in a hundred thousand
		      runs */
		return id;
	if (st->frame_id.count >= MOST_FRAMES)
		ws_map_free(&st->frame_id), memset(&st->frame_id, 0, sizeof(st->frame_id));
	row.module = module ? add_module_row(st, module) : 0;
	row.id = ++st->frames;
	ws_writer_add(st->sink->writer, WS_TABLE_frame, &row);
	ws_map_set(&st->frame_id, key, row.id);
	ws_grow(st->frame, st->frame_cap, st->frames);
	st->frame[row.id - 1] = (struct ws_stackset_frame){module, place->address, place->kind};
	return row.id;
}

uint32_t ws_stackset_python_frame(struct ws_stackset *st, int32_t line, const char *name,
				  const char *file)
{
	struct ws_unwound_frame place = {
		.address = (uint64_t)line, .kind = WS_FRAME_PYTHON, .method = WS_UNWIND_UNKNOWN};

	return ws_stackset_frame(st, &place, name, file);
}

uint32_t ws_stackset_unsampled(struct ws_stackset *st)
{
	static const struct ws_unwound_frame nowhere = {.kind = WS_FRAME_USER,
							.method = WS_UNWIND_UNKNOWN};

	return ws_stackset_frame(st, &nowhere, "[not sampled]", NULL);
}

uint32_t ws_stackset_push(struct ws_stackset *st, uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	struct ws_row_stack row = {.parent = parent, .frame = frame};
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&st->stack_id, key, &found);

	if (found)
		return id;
	if (st->stack_id.count >= MOST_STACKS)
		ws_map_free(&st->stack_id), memset(&st->stack_id, 0, sizeof(st->stack_id));
	row.id = ++st->stacks;
	ws_writer_add(st->sink->writer, WS_TABLE_stack, &row);
	ws_map_set(&st->stack_id, key, row.id);
	return row.id;
}

uint32_t ws_stackset_places(struct ws_stackset *st, const struct ws_unwound_frame *caller, size_t n,
			    uint32_t *leaf)
{
	uint32_t stack = 0;

	if (leaf)
		*leaf = 0;
	for (size_t i = n; i-- > 0;) {
		uint32_t frame = ws_stackset_frame(st, &caller[i], NULL, NULL);

		if (!i && leaf)
			*leaf = frame;
		else
			stack = ws_stackset_push(st, stack, frame);
	}
	return stack;
}

void ws_stackset_add_mapping(void *ctx, const struct ws_mapping *mapping)
{
	struct bound *bound = ctx;
	struct ws_row_mapping row = {.process = bound->process,
				     .start = mapping->start,
				     .end = mapping->end,
				     .base = mapping->base,
				     .size = mapping->size,
				     .offset = mapping->offset};

	row.module = add_module_row(bound->stacks, mapping->module);
	ws_writer_add(bound->stacks->sink->writer, WS_TABLE_mapping, &row);
}

void ws_stackset_add_module(void *ctx, const struct ws_mapping *mapping)
{
	struct bound *bound = ctx;

	add_module_row(bound->stacks, mapping->module);
}

void ws_stackset_bind(struct ws_stackset *st, struct ws_maps_process *maps, uint32_t process)
{
	struct bound *bound = ws_maps_get_binding(maps);

	if (bound && bound->stacks == st && bound->process == process)
		return;
	bound = ws_malloc(sizeof(*bound));
	*bound = (struct bound){st, process, st->bound};
	st->bound = bound;
	ws_maps_bind(maps, ws_stackset_add_mapping, bound);
}

uint32_t ws_stackset_frames(const struct ws_stackset *st)
{
	return st ? st->frames : 0;
}

const struct ws_stackset_frame *ws_stackset_frame_at(const struct ws_stackset *st, uint32_t i)
{
	return &st->frame[i - 1];
}
