/*
 * fuzz_decode.c - what the program in the kernel writes of Python's frames, without the kernel:
 * records made of the images of real interpreters must give the functions and lines that reading
 * the images gives, and records that were spoilt must do no harm.
 *
 * The fuzzer's input: a byte for the image; then edits of 6 bytes to the records made of it: which
 * record (1), where (2), a value (2), how many bytes of it are left (1).
 */
#include <unistd.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "base/mem.h"
#include "image.h"
#include "record/python_bpf.h"
#include "../replay.h"

static const char *const versions[] = {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13"};
#define COOKIE 77u
#define MOST 32

static struct image images[WS_COUNT(versions)];
static struct ws_clock session_clock;
static char report[64];

struct record {
	uint8_t *bytes;
	size_t n;
};

struct made { /* of one thread of an image */
	struct ws_py_layout layout;
	struct record code[MOST], frames;
	struct ws_py_frame frame[MOST];
	int32_t line[MOST];
	size_t n, codes;
};

/* ---- records of an image ---- */

/* Bytes that the image does not hold are 0: nobody has read them. */
static void grab_bytes(struct image *im, uint64_t at, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!image_bytes(im, at + i, to + i, 1))
			to[i] = 0;
}

static uint64_t pointer_at(const uint8_t *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, 8);
	return v;
}

static struct record code_record(struct image *im, const struct ws_py_layout *layout, uint64_t id,
				 uint64_t code)
{
	struct record record = {calloc(1, sizeof(struct ws_py_kernel_code) + WS_PY_TOLD_TABLE),
				sizeof(struct ws_py_kernel_code)};
	struct ws_py_kernel_code *py_told_code = (void *)record.bytes;
	uint32_t before = layout->bytes_data - layout->bytes_size;
	uint64_t size;

	*py_told_code = (struct ws_py_kernel_code){.kind = WS_PY_KERNEL_CODE,
						   .cookie = COOKIE,
						   .id = id,
						   .code = code,
						   .head_bytes = WS_PY_TOLD_HEAD};
	grab_bytes(im, code, py_told_code->head, WS_PY_TOLD_HEAD);
	py_told_code->name =
		pointer_at(py_told_code->head +
			   (layout->code_qualname ? layout->code_qualname : layout->code_name));
	py_told_code->file = pointer_at(py_told_code->head + layout->code_file);
	py_told_code->key_name =
		pointer_at(py_told_code->head + layout->code_name) + layout->text_length;
	py_told_code->table =
		pointer_at(py_told_code->head + layout->code_table) + layout->bytes_size;
	grab_bytes(im, py_told_code->key_name, (uint8_t *)py_told_code->key_text, 16);
	grab_bytes(im, py_told_code->name, py_told_code->name_piece, WS_PY_TOLD_NAME);
	grab_bytes(im, py_told_code->file, py_told_code->file_piece, WS_PY_TOLD_FILE);
	py_told_code->name_bytes = WS_PY_TOLD_NAME;
	py_told_code->file_bytes = WS_PY_TOLD_FILE;
	grab_bytes(im, py_told_code->table, (uint8_t *)&size, 8);
	py_told_code->table_bytes =
		before + (size < WS_PY_TOLD_TABLE - before ? (uint32_t)size : 0);
	grab_bytes(im, py_told_code->table, py_told_code->table_piece, py_told_code->table_bytes);
	record.n += py_told_code->table_bytes;
	return record;
}

static void add_step(struct made *made, uint64_t id, int32_t at, uint32_t owner)
{
	struct ws_py_kernel_frames *frames = (void *)made->frames.bytes;
	struct ws_py_step step = {id, at, owner};

	memcpy(made->frames.bytes + sizeof(*frames) + frames->count++ * sizeof(step), &step,
	       sizeof(step));
	made->frames.n += sizeof(step);
}

/* The steps of which ws_py_walk has made the frame. */
static void add_frame(struct made *made, const struct ws_py_frame *frame, uint64_t id)
{
	bool entry = frame->flags & WS_PY_ENTRY;

	if (made->layout.chain == WS_PY_OBJECTS)
		add_step(made, id,
			 made->layout.version >= 0x030a && frame->at > 0 ? frame->at / 2
									 : frame->at,
			 0);
	else
		add_step(made, id, frame->at, made->layout.version == 0x030b && entry);
	if (made->layout.version >= 0x030c && entry)
		add_step(made, 0, 0, WS_PY_OWNER_INTERPRETER);
}

static int32_t line_of(const struct ws_py_layout *layout, struct ws_py_memory *memory,
		       const struct ws_py_frame *frame)
{
	static struct ws_py_code code;
	static uint8_t table[8192];

	if (!ws_py_read_code(layout, memory, frame->code, &code) ||
	    code.table_bytes > sizeof(table) ||
	    !ws_py_read(memory, code.table, table, code.table_bytes))
		abort();
	return ws_py_find_line(layout->version, code.first_line, table, code.table_bytes,
			       frame->at);
}

static struct made make_sample(struct image *im, size_t thread)
{
	static struct ws_py_walk walk;
	struct ws_py_memory memory = {image_read, im};
	struct ws_py_thread py_thread[8];
	struct made made = {.n = 0};

	memset(&walk, 0, sizeof(walk));
	if (!image_layout(im, &memory, &made.layout) ||
	    ws_py_list_threads(&made.layout, &memory, im->runtime, py_thread,
			       WS_COUNT(py_thread)) <= thread)
		abort();
	made.n =
		ws_py_walk(&made.layout, &memory, py_thread[thread].state, &walk, made.frame, MOST);
	made.frames = (struct record){calloc(1, sizeof(struct ws_py_kernel_frames) +
							2 * MOST * sizeof(struct ws_py_step)),
				      sizeof(struct ws_py_kernel_frames)};
	*(struct ws_py_kernel_frames *)(void *)made.frames.bytes = (struct ws_py_kernel_frames){
		.kind = WS_PY_KERNEL_FRAMES, .cookie = COOKIE, .hold = 1};
	for (size_t i = 0; i < made.n; i++) {
		made.line[i] = line_of(&made.layout, &memory, &made.frame[i]);
		made.code[made.codes++] =
			code_record(im, &made.layout, 100 + i, made.frame[i].code);
		add_frame(&made, &made.frame[i], 100 + i);
	}
	return made;
}

static void free_made(struct made *made)
{
	for (size_t i = 0; i < made->codes; i++)
		free(made->code[i].bytes);
	free(made->frames.bytes);
}

/* ---- a session around them ---- */

struct session {
	struct ws_python py;
	struct ws_py_proc proc;
	struct ws_sink *sink;
};

static struct session *begin_session(const struct ws_py_layout *layout)
{
	struct session *session = calloc(1, sizeof(*session));
	struct ws_err err;

	if (!session_clock.n)
		ws_clock_init(&session_clock, ws_clock_choose());
	snprintf(report, sizeof(report), "fuzz_told.%d.wsrep", (int)getpid());
	session->sink = ws_sink_new(
		ws_strdup(report),
		ws_writer_create(report, &(struct ws_writer_opts){.overwrite = true}, &err),
		&session_clock);
	session->py.bpf = (void *)&session->proc; /* only whether it is there matters here */
	session->proc.layout = *layout;
	ws_py_decode_begin(&session->py, &session->proc, COOKIE);
	return session;
}

static void end_session(struct session *session)
{
	ws_py_decode_end(&session->py, &session->proc);
	ws_py_decode_free(&session->py);
	ws_map_free(&session->proc.counts);
	free(session->py.decode_stack.frame);
	free(session->py.decode_stack.entry);
	free(session->py.decode_stack.code);
	ws_writer_discard(session->sink->writer);
	ws_sink_free(session->sink);
	free(session);
}

/* As the kernel has it: 4 bytes beside where numbers of 8 should be. */
static const struct ws_py_stack *feed_record(struct session *session, const struct record *record)
{
	uint8_t *copy = malloc(record->n + 4);
	const struct ws_py_stack *st = NULL;
	uint8_t gil = 0;

	memcpy(copy + 4, record->bytes, record->n);
	if (ws_python_decode_frames(copy + 4, record->n))
		st = ws_python_decode_stack(&session->py, session->sink, 5, copy + 4, record->n,
					    &gil);
	else
		ws_python_decode(&session->py, copy + 4, record->n);
	free(copy);
	if (st && (st->n > WS_PY_KERNEL_STEPS || gil > WS_GIL_WAITS))
		abort();
	return st;
}

static void load_images(void)
{
	const char *folder = getenv("FUZZ_IMAGES");
	char path[1024];

	for (size_t i = 0; i < WS_COUNT(versions) && !images[i].n; i++) {
		snprintf(path, sizeof(path), "%s/cpython-%s.img",
			 ws_text_or(folder, "tests/python/images"), versions[i]);
		if (!image_load(path, &images[i]))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session *session;
	struct made made;

	load_images();
	if (size < 7)
		return 0;
	made = make_sample(&images[data[0] % WS_COUNT(versions)], data[0] >> 7);
	session = begin_session(&made.layout);
	for (size_t at = 1; at + 6 <= size && at < 200; at += 6) {
		const uint8_t *e = data + at;
		struct record *record = e[0] % (made.codes + 1) < made.codes
						? &made.code[e[0] % (made.codes + 1)]
						: &made.frames;
		size_t where = (size_t)(e[1] << 8 | e[2]) % record->n;

		memcpy(record->bytes + where, e + 3, where + 2 <= record->n ? 2 : 1);
		if (e[5] & 1)
			record->n -= e[5] < record->n ? e[5] : 0;
	}
	for (size_t i = 0; i < made.codes; i++)
		feed_record(session, &made.code[i]);
	feed_record(session, &made.frames);
	end_session(session);
	free_made(&made);
	return 0;
}

#ifdef FUZZ_REPLAY
static bool check_image(struct image *im, size_t thread)
{
	struct made made = make_sample(im, thread);
	struct session *session = begin_session(&made.layout);
	const struct ws_py_stack *st;
	bool ok;

	/* Even before its code objects are described, a stack has its frames. */
	st = feed_record(session, &made.frames);
	ok = st && st->n == made.n;
	for (size_t i = 0; i < made.codes; i++)
		feed_record(session, &made.code[i]);
	st = feed_record(session, &made.frames);
	ok = ok && st && st->n == made.n && !st->truncated;
	for (size_t i = 0; ok && i < made.n; i++) {
		const struct ws_stackset_frame *frame =
			ws_stackset_frame_at(ws_stackset_of(session->sink), st->frame[i]);

		ok = frame->address == (uint64_t)made.line[i] &&
		     st->entry[i] == (bool)(made.frame[i].flags & WS_PY_ENTRY);
	}
	end_session(session);
	free_made(&made);
	return ok;
}

static size_t make_input(uint8_t *bytes, int round)
{
	return replay_fill(bytes, 7 + (size_t)round % 240);
}

int main(int argc, char **argv)
{
	load_images();
	printf("1..%zu\n", WS_COUNT(versions) + 1);
	for (size_t i = 0; i < WS_COUNT(versions); i++)
		printf("%sok %zu - frames and lines of CPython %s\n",
		       check_image(&images[i], 0) && check_image(&images[i], 1) ? "" : "not ",
		       i + 1, versions[i]);
	printf("ok %zu - %d spoilt records\n", WS_COUNT(versions) + 1,
	       replay(argc, argv, 300, make_input));
	ws_clock_free(&session_clock);
	return 0;
}
#endif
