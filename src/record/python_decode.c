/*
 * python_decode.c - turns what the program in the kernel wrote (python_bpf.c) into Python frames.
 *
 * Code objects come with pieces of their memory as they were at the sample, from which name, file
 * and lines are read as elsewhere (cpython.h). Whatever a piece lacks, because it was too long or
 * its page was not in memory, is read from outside now, if the same object still exists. All of it
 * comes from the target's memory and is checked accordingly.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/python_bpf.h"

#define CODES_MOST 200000u
#define LINGER_NS 2000000000u /* the last samples of a process come after its end */

struct ws_py_decoded_image { /* what one cookie stands for */
	struct ws_py_decoded_image *next;
	struct ws_py_proc *process; /* NULL: it has ended */
	uint64_t cookie, ended;
	struct ws_py_layout layout;
	struct ws_map codes;  /* id -> struct ws_py_known * */
	struct ws_map frames; /* hash of id and offset -> frame id in `sink` */
	struct ws_sink *sink;
};

static struct ws_py_decoded_image *image_of(const struct ws_python *py, uint64_t cookie)
{
	struct ws_py_decoded_image *im = py->decoded;

	while (im && im->cookie != cookie)
		im = im->next;
	return im;
}

void ws_py_decode_begin(struct ws_python *py, struct ws_py_proc *process, uint64_t cookie)
{
	struct ws_py_decoded_image *im = image_of(py, cookie);

	if (!im) {
		im = ws_calloc(1, sizeof(*im));
		im->cookie = cookie;
		im->next = py->decoded;
		py->decoded = im;
		im->process = process;
	}
	if (im->process ==
	    process) /* if another process claims the same cookie, the first one keeps it */
		im->layout = process->layout;
}

void ws_py_decode_end(struct ws_python *py, const struct ws_py_proc *process)
{
	for (struct ws_py_decoded_image *im = py->decoded; im; im = im->next)
		if (im->process == process) {
			im->process = NULL;
			im->ended = ws_read_raw_ns();
		}
}

static void forget(struct ws_py_decoded_image *im)
{
	for (size_t i = 0; i < im->codes.size; i++)
		if (im->codes.used[i])
			ws_py_known_free((struct ws_py_known *)(uintptr_t)im->codes.slots[i].value);
	ws_map_free(&im->codes);
	ws_map_free(&im->frames);
}

void ws_py_decode_sweep(struct ws_python *py, uint64_t now)
{
	for (struct ws_py_decoded_image **at = &py->decoded, *im; (im = *at);) {
		if (!im->ended || now < im->ended + LINGER_NS) {
			at = &im->next;
			continue;
		}
		*at = im->next;
		forget(im);
		free(im);
	}
}

void ws_py_decode_free(struct ws_python *py)
{
	for (struct ws_py_decoded_image *im = py->decoded; im; im = im->next)
		im->ended = 1;
	ws_py_decode_sweep(py, UINT64_MAX);
}

/* ---- code objects ---- */

struct piece {
	uint64_t from;
	const uint8_t *bytes;
	size_t n;
};

struct memory { /* pieces, and the process they came from */
	struct piece piece[6];
	size_t n;
	struct ws_proc *proc; /* NULL: only pieces */
	bool outside;	      /* something was read there */
};

static bool from_piece(const struct memory *memory, const struct ws_py_piece *want)
{
	for (size_t i = 0; i < memory->n; i++) {
		const struct piece *piece = &memory->piece[i];

		if (want->from >= piece->from && want->from - piece->from <= piece->n &&
		    want->bytes <= piece->n - (want->from - piece->from)) {
			memcpy(want->to, piece->bytes + (want->from - piece->from), want->bytes);
			return true;
		}
	}
	return false;
}

static size_t read_pieces(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	struct memory *memory = ctx;
	size_t done = 0;

	for (; done < n; done++) {
		if (from_piece(memory, &piece[done]))
			continue;
		if (!memory->proc || ws_py_read_process(memory->proc, &piece[done], 1) != 1)
			break;
		memory->outside = true;
	}
	return done;
}

static void add_piece(struct memory *memory, uint64_t from, const void *bytes, size_t n)
{
	if (from && n && from + n > from)
		memory->piece[memory->n++] = (struct piece){from, bytes, n};
}

/* Whether the object is still the one that was there at the sample. */
static bool still_there(const struct ws_py_decoded_image *im, struct ws_proc *proc, uint64_t code,
			const struct ws_py_code_key *key)
{
	struct ws_py_memory memory = {ws_py_read_process, proc};
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key now;

	return ws_py_read_code_keys(&im->layout, &memory, &code, 1, &now, raw) == 1 &&
	       !memcmp(&now, key, sizeof(now));
}

static struct ws_py_known *read_code(const struct ws_py_decoded_image *im,
				     const struct ws_py_kernel_code *code)
{
	struct memory pieces = {.proc = im->process ? im->process->proc : NULL};
	struct ws_py_memory py_memory = {read_pieces, &pieces};
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key key;
	struct ws_py_known *known;

	add_piece(&pieces, code->code, code->head, code->head_bytes);
	add_piece(&pieces, code->key_name, code->key_text, sizeof(code->key_text));
	add_piece(&pieces, code->name, code->name_piece, code->name_bytes);
	add_piece(&pieces, code->file, code->file_piece, code->file_bytes);
	add_piece(&pieces, code->table, code->table_piece, code->table_bytes);
	if (ws_py_read_code_keys(&im->layout, &py_memory, &code->code, 1, &key, raw) != 1)
		return NULL;
	known = ws_py_known_read(&im->layout, &py_memory, code->code, &key);
	if (pieces.outside && !still_there(im, pieces.proc, code->code, &key)) {
		ws_py_known_free(known);
		pieces.proc = NULL;
		known = ws_py_known_read(&im->layout, &py_memory, code->code, &key);
	}
	return known;
}

static void decode_code(struct ws_python *py, const void *raw, size_t size)
{
	struct ws_py_kernel_code *code;
	struct ws_py_decoded_image *im;
	struct ws_py_known *known;

	if (size < sizeof(*code))
		return;
	code = ws_malloc(size); /* a raw record is 4 bytes off its alignment */
	memcpy(code, raw, size);
	im = image_of(py, code->cookie);
	if (!im || code->head_bytes > sizeof(code->head) ||
	    code->name_bytes > sizeof(code->name_piece) ||
	    code->file_bytes > sizeof(code->file_piece) ||
	    code->table_bytes > size - sizeof(*code) || im->codes.count >= CODES_MOST) {
		free(code);
		return;
	}
	known = read_code(im, code);
	if (known) {
		ws_py_known_free(
			(struct ws_py_known *)(uintptr_t)ws_map_get(&im->codes, code->id, NULL));
		ws_map_set(&im->codes, code->id, (uintptr_t)known);
	}
	free(code);
}

void ws_python_decode(struct ws_python *py, const void *raw, size_t size)
{
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, raw, sizeof(kind));
	if (py && kind == WS_PY_KERNEL_CODE)
		decode_code(py, raw, size);
}

bool ws_python_decode_frames(const void *raw, size_t size)
{
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, raw, sizeof(kind));
	return kind == WS_PY_KERNEL_FRAMES;
}

/* ---- frames ---- */

static uint32_t frame_id(struct ws_py_decoded_image *im, struct ws_stackset *st, uint64_t id,
			 int32_t at)
{
	uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)at;
	bool found;
	uint32_t frame = (uint32_t)ws_map_get(&im->frames, hash, &found);
	const struct ws_py_known *known;

	if (found)
		return frame;
	known = (const struct ws_py_known *)(uintptr_t)ws_map_get(&im->codes, id, NULL);
	if (!known) /* the next sample may report it */
		return ws_stackset_python_frame(st, 0, "[code not read]", "");
	frame = known->shim ? 0 : ws_py_known_frame(st, known, at);
	ws_map_set(&im->frames, hash, frame);
	return frame;
}

static void make_room(struct ws_py_stack *stack, size_t n)
{
	size_t had = stack->cap;

	ws_grow(stack->frame, stack->cap, n + 1);
	if (stack->cap != had) {
		stack->entry = ws_realloc(stack->entry, stack->cap * sizeof(*stack->entry));
		stack->code = ws_realloc(stack->code, stack->cap * sizeof(*stack->code));
	}
}

static size_t take_steps(const struct ws_py_layout *layout, const uint8_t *steps, size_t n,
			 struct ws_py_frame *out)
{
	struct ws_py_frame_list taken = {.out = out};

	for (size_t i = 0; i < n; i++) {
		struct ws_py_step step;

		memcpy(&step, steps + i * sizeof(step), sizeof(step));
		ws_py_add_frame(layout, &taken, step.id,
				layout->chain == WS_PY_OBJECTS
					? ws_py_convert_index(layout, step.at)
					: step.at,
				step.owner);
	}
	return taken.count;
}

static uint8_t read_lock(const struct ws_py_kernel_frames *frames)
{
	if (frames->blind)
		return WS_GIL_UNKNOWN;
	if (frames->wait)
		return WS_GIL_WAITS;
	return frames->hold ? WS_GIL_HOLDS : WS_GIL_NONE;
}

const struct ws_py_stack *ws_python_decode_stack(struct ws_python *py, struct ws_sink *sink,
						 uint32_t tid, const void *raw, size_t size,
						 uint8_t *gil)
{
	static struct ws_py_frame frame[WS_PY_KERNEL_STEPS];
	struct ws_py_kernel_frames frames;
	struct ws_py_decoded_image *im;
	struct ws_py_stack *stack;
	size_t n;

	if (!py || !py->bpf || size < sizeof(frames))
		return NULL;
	stack = &py->decode_stack;
	memcpy(&frames, raw, sizeof(frames));
	im = image_of(py, frames.cookie);
	if (!im || frames.count > WS_PY_KERNEL_STEPS ||
	    frames.count > (size - sizeof(frames)) / sizeof(struct ws_py_step))
		return NULL;
	if (im->sink != sink) { /* numbers of frames are valid in one report */
		ws_map_free(&im->frames);
		im->sink = sink;
	}
	*gil = read_lock(&frames);
	if (im->process) {
		uint32_t inner = (uint32_t)ws_map_get(&py->inner, tid, NULL);

		ws_map_set(&im->process->counts, inner,
			   ws_map_get(&im->process->counts, inner, NULL) + 1);
	}
	n = take_steps(&im->layout, (const uint8_t *)raw + sizeof(frames), frames.count, frame);
	make_room(stack, n);
	for (size_t i = 0; i < n; i++) {
		stack->frame[i] = frame[i].code > 1 ? frame_id(im, ws_stackset_of(sink),
							       frame[i].code, frame[i].at)
						    : 0;
		stack->entry[i] = frame[i].flags & WS_PY_ENTRY;
		stack->code[i] = 0; /* the history must not keep these */
	}
	stack->n = n;
	stack->truncated = frames.truncated != 0;
	return stack;
}
