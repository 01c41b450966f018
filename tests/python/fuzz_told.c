/*
 * fuzz_told.c - what the program in the kernel writes of Python's frames, without the kernel:
 * records made of the images of real interpreters must give the functions and lines that reading
 * the images gives, and records that were spoilt must do no harm.
 *
 * The fuzzer's input: a byte for the image; then edits of 6 bytes to the records made of it: which
 * record (1), where (2), a value (2), how many bytes of it are left (1).
 */
#include <unistd.h>

#include "base/compiler.h"
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
	uint8_t *p;
	size_t n;
};

struct made { /* of one thread of an image */
	struct ws_py_layout l;
	struct record code[MOST], frames;
	struct ws_py_frame frame[MOST];
	int32_t line[MOST];
	size_t n, codes;
};

/* ---- records of an image ---- */

/* Bytes that the image does not hold are 0: nobody has read them. */
static void grab(struct image *im, uint64_t at, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!image_bytes(im, at + i, to + i, 1))
			to[i] = 0;
}

static uint64_t pointer_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static struct record code_record(struct image *im, const struct ws_py_layout *l, uint64_t id,
				 uint64_t code)
{
	struct record r = {calloc(1, sizeof(struct ws_py_told_code) + WS_PY_TOLD_TABLE),
			   sizeof(struct ws_py_told_code)};
	struct ws_py_told_code *c = (void *)r.p;
	uint32_t before = l->bytes_data - l->bytes_size;
	uint64_t size;

	*c = (struct ws_py_told_code){.kind = WS_PY_TOLD_CODE,
				      .cookie = COOKIE,
				      .id = id,
				      .code = code,
				      .head_bytes = WS_PY_TOLD_HEAD};
	grab(im, code, c->head, WS_PY_TOLD_HEAD);
	c->name = pointer_at(c->head + (l->code_qualname ? l->code_qualname : l->code_name));
	c->file = pointer_at(c->head + l->code_file);
	c->key_name = pointer_at(c->head + l->code_name) + l->text_length;
	c->table = pointer_at(c->head + l->code_table) + l->bytes_size;
	grab(im, c->key_name, (uint8_t *)c->key_text, 16);
	grab(im, c->name, c->name_piece, WS_PY_TOLD_NAME);
	grab(im, c->file, c->file_piece, WS_PY_TOLD_FILE);
	c->name_bytes = WS_PY_TOLD_NAME;
	c->file_bytes = WS_PY_TOLD_FILE;
	grab(im, c->table, (uint8_t *)&size, 8);
	c->table_bytes = before + (size < WS_PY_TOLD_TABLE - before ? (uint32_t)size : 0);
	grab(im, c->table, c->table_piece, c->table_bytes);
	r.n += c->table_bytes;
	return r;
}

static void add_step(struct made *m, uint64_t id, int32_t at, uint32_t owner)
{
	struct ws_py_told_frames *f = (void *)m->frames.p;
	struct ws_py_step s = {id, at, owner};

	memcpy(m->frames.p + sizeof(*f) + f->count++ * sizeof(s), &s, sizeof(s));
	m->frames.n += sizeof(s);
}

/* The steps of which ws_py_walk has made the frame. */
static void add_frame(struct made *m, const struct ws_py_frame *f, uint64_t id)
{
	bool entry = f->flags & WS_PY_ENTRY;

	if (m->l.chain == WS_PY_OBJECTS)
		add_step(m, id, m->l.version >= 0x030a && f->at > 0 ? f->at / 2 : f->at, 0);
	else
		add_step(m, id, f->at, m->l.version == 0x030b && entry);
	if (m->l.version >= 0x030c && entry)
		add_step(m, 0, 0, WS_PY_OWNER_INTERPRETER);
}

static int32_t line_of(const struct ws_py_layout *l, struct ws_py_memory *m,
		       const struct ws_py_frame *f)
{
	static struct ws_py_code c;
	static uint8_t table[8192];

	if (!ws_py_code_read(l, m, f->code, &c) || c.table_bytes > sizeof(table) ||
	    !ws_py_read(m, c.table, table, c.table_bytes))
		abort();
	return ws_py_line(l->version, c.first_line, table, c.table_bytes, f->at);
}

static struct made make(struct image *im, size_t thread)
{
	static struct ws_py_walk walk;
	struct ws_py_memory m = {image_read, im};
	struct ws_py_thread t[8];
	struct made d = {.n = 0};
	bool truncated;

	memset(&walk, 0, sizeof(walk));
	if (!image_layout(im, &m, &d.l) ||
	    ws_py_threads(&d.l, &m, im->runtime, t, WS_COUNT(t)) <= thread)
		abort();
	d.n = ws_py_walk(&d.l, &m, t[thread].state, &walk, d.frame, MOST, &truncated);
	d.frames = (struct record){
		calloc(1, sizeof(struct ws_py_told_frames) + 2 * MOST * sizeof(struct ws_py_step)),
		sizeof(struct ws_py_told_frames)};
	*(struct ws_py_told_frames *)(void *)d.frames.p =
		(struct ws_py_told_frames){.kind = WS_PY_TOLD_FRAMES, .cookie = COOKIE, .hold = 1};
	for (size_t i = 0; i < d.n; i++) {
		d.line[i] = line_of(&d.l, &m, &d.frame[i]);
		d.code[d.codes++] = code_record(im, &d.l, 100 + i, d.frame[i].code);
		add_frame(&d, &d.frame[i], 100 + i);
	}
	return d;
}

static void free_made(struct made *d)
{
	for (size_t i = 0; i < d->codes; i++)
		free(d->code[i].p);
	free(d->frames.p);
}

/* ---- a session around them ---- */

struct session {
	struct ws_python py;
	struct ws_py_proc proc;
	struct ws_sink *sink;
};

static struct session *begin(const struct ws_py_layout *l)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ws_err e;

	if (!session_clock.n)
		ws_clock_init(&session_clock, ws_clock_choose());
	snprintf(report, sizeof(report), "fuzz_told.%d.wsrep", (int)getpid());
	s->sink = ws_sink_new(ws_strdup(report),
			      ws_writer_create(report, &(struct ws_writer_opts){.overwrite = true},
					       &e),
			      &session_clock);
	s->py.bpf = (void *)&s->proc; /* only whether it is there matters here */
	s->proc.layout = *l;
	ws_py_told_begin(&s->py, &s->proc, COOKIE);
	return s;
}

static void end(struct session *s)
{
	ws_py_told_end(&s->py, &s->proc);
	ws_py_told_free(&s->py);
	ws_map_free(&s->proc.counts);
	free(s->py.told_stack.frame);
	free(s->py.told_stack.entry);
	free(s->py.told_stack.code);
	ws_writer_discard(s->sink->writer);
	ws_sink_free(s->sink);
	free(s);
}

/* As the kernel has it: 4 bytes beside where numbers of 8 should be. */
static const struct ws_py_stack *feed(struct session *s, const struct record *r)
{
	uint8_t *copy = malloc(r->n + 4);
	const struct ws_py_stack *st = NULL;
	uint8_t gil = 0;

	memcpy(copy + 4, r->p, r->n);
	if (ws_python_told_frames(copy + 4, r->n))
		st = ws_python_told_stack(&s->py, s->sink, 5, copy + 4, r->n, &gil);
	else
		ws_python_told(&s->py, copy + 4, r->n);
	free(copy);
	if (st && (st->n > WS_PY_TOLD_STEPS || gil > WS_GIL_WAITS))
		abort();
	return st;
}

static void load(void)
{
	const char *folder = getenv("FUZZ_IMAGES");
	char path[1024];

	for (size_t i = 0; i < WS_COUNT(versions) && !images[i].n; i++) {
		snprintf(path, sizeof(path), "%s/cpython-%s.img",
			 folder ? folder : "tests/python/images", versions[i]);
		if (!image_load(path, &images[i]))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session *s;
	struct made d;

	load();
	if (size < 7)
		return 0;
	d = make(&images[data[0] % WS_COUNT(versions)], data[0] >> 7);
	s = begin(&d.l);
	for (size_t at = 1; at + 6 <= size && at < 200; at += 6) {
		const uint8_t *e = data + at;
		struct record *r =
			e[0] % (d.codes + 1) < d.codes ? &d.code[e[0] % (d.codes + 1)] : &d.frames;
		size_t where = (size_t)(e[1] << 8 | e[2]) % r->n;

		memcpy(r->p + where, e + 3, where + 2 <= r->n ? 2 : 1);
		if (e[5] & 1)
			r->n -= e[5] < r->n ? e[5] : 0;
	}
	for (size_t i = 0; i < d.codes; i++)
		feed(s, &d.code[i]);
	feed(s, &d.frames);
	end(s);
	free_made(&d);
	return 0;
}

#ifdef FUZZ_REPLAY
static bool check(struct image *im, size_t thread)
{
	struct made d = make(im, thread);
	struct session *s = begin(&d.l);
	const struct ws_py_stack *st;
	bool ok;

	/* Before its codes are told, a stack has its frames all the same. */
	st = feed(s, &d.frames);
	ok = st && st->n == d.n;
	for (size_t i = 0; i < d.codes; i++)
		feed(s, &d.code[i]);
	st = feed(s, &d.frames);
	ok = ok && st && st->n == d.n && !st->truncated;
	for (size_t i = 0; ok && i < d.n; i++) {
		const struct ws_stackset_frame *f =
			ws_stackset_frame_at(ws_stackset_of(s->sink), st->frame[i]);

		ok = f->address == (uint64_t)d.line[i] &&
		     st->entry[i] == (bool)(d.frame[i].flags & WS_PY_ENTRY);
	}
	end(s);
	free_made(&d);
	return ok;
}

static size_t make_input(uint8_t *bytes, int round)
{
	return replay_fill(bytes, 7 + (size_t)round % 240);
}

int main(int argc, char **argv)
{
	load();
	printf("1..%zu\n", WS_COUNT(versions) + 1);
	for (size_t i = 0; i < WS_COUNT(versions); i++)
		printf("%sok %zu - frames and lines of CPython %s\n",
		       check(&images[i], 0) && check(&images[i], 1) ? "" : "not ", i + 1,
		       versions[i]);
	printf("ok %zu - %d spoilt records\n", WS_COUNT(versions) + 1,
	       replay(argc, argv, 300, make_input));
	ws_clock_free(&session_clock);
	return 0;
}
#endif
