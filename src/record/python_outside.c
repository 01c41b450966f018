/*
 * python_outside.c - Python stacks read by the recorder out of the target's memory, at moments of
 * its own: rows of python_sample.
 *
 * They show what the sampler's signal cannot: threads that wait. These are looked at some twenty
 * times a second. Where there is no signal (no perf events, the program handles SIGURG itself) the
 * thread that holds the GIL is read at the sampling frequency as well. While a stack is read the
 * thread runs on, so that it may be a stack that never was, in parts; that is what the flag
 * SEPARATE says.
 *
 * One stack is three or four reads: the thread's state, its first frame with the part of the data
 * stack around it, the keys of code objects that were not in the thread's stack the last time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "record/python_private.h"

#define SLOW_NS 50000000u
#define MOST_THREADS 512u
#define MOST_LOOKS 32u /* threads a time */
#define MOST_FRAMES 512u
#define MOST_CODES 200000u

size_t ws_py_read_process(void *ctx, const struct ws_py_piece *p, size_t n)
{
	const struct ws_proc *proc = ctx;
	struct iovec local[WS_PY_PIECES], remote[WS_PY_PIECES];
	size_t i = 0, done = 0;
	ssize_t got;

	if (!n || n > WS_PY_PIECES)
		return 0;
	do {
		local[i] = (struct iovec){p[i].to, p[i].bytes};
		remote[i] = (struct iovec){(void *)(uintptr_t)p[i].from, p[i].bytes};
	} while (++i < n);
	got = process_vm_readv(proc->host_pid, local, n, remote, n, 0);
	while (got > 0 && done < n && (size_t)got >= p[done].bytes)
		got -= (ssize_t)p[done++].bytes;
	return done;
}

/* ---- code ---- */

struct ws_py_known *ws_py_known_read(const struct ws_py_layout *l, const struct ws_py_memory *m,
				     uint64_t code, const struct ws_py_code_key *key)
{
	static struct ws_py_code c;
	struct ws_py_known *k = ws_calloc(1, sizeof(*k));

	k->key = *key;
	k->version = l->version;
	if (!ws_py_code_read(l, m, code, &c)) {
		k->shim = true; /* changed under our hands: shown nowhere */
		return k;
	}
	k->name = ws_strndup(c.name, c.name_len);
	k->file = ws_strndup(c.file, c.file_len);
	k->first_line = c.first_line;
	k->shim = c.shim;
	k->table = ws_malloc(c.table_bytes + 1);
	k->table_bytes = c.table_bytes;
	k->table_have = c.table_bytes && ws_py_read(m, c.table, k->table, c.table_bytes)
				? c.table_bytes
				: 0;
	return k;
}

static void forget_codes(struct ws_py_proc *p)
{
	for (size_t i = 0; i < p->codes.size; i++)
		if (p->codes.used[i])
			ws_py_known_free((struct ws_py_known *)(uintptr_t)p->codes.slots[i].value);
	ws_map_free(&p->codes);
	ws_map_free(&p->frames);
	p->last_state = 0;
}

static struct ws_py_known *known_of(struct ws_py_proc *p, const struct ws_py_memory *m,
				    uint64_t code, const struct ws_py_code_key *key)
{
	struct ws_py_known *k = (struct ws_py_known *)(uintptr_t)ws_map_get(&p->codes, code, NULL);

	if (k && !memcmp(&k->key, key, sizeof(*key)))
		return k;
	if (k || p->codes.n >= MOST_CODES)
		forget_codes(p); /* another object lies there now: frames that were made of the old
				    one must not be found */
	k = ws_py_known_read(&p->layout, m, code, key);
	ws_map_set(&p->codes, code, (uintptr_t)k);
	return k;
}

/* ---- a stack ---- */

static uint32_t frame_of(struct ws_py_proc *p, struct ws_stackset *st, const struct ws_py_frame *f)
{
	const struct ws_py_known *k =
		(const struct ws_py_known *)(uintptr_t)ws_map_get(&p->codes, f->code, NULL);
	uint64_t hash = (f->code << 20 ^ f->code >> 44) +
			(uint32_t)f->at; /* 44 bits of address, 20 of offset: longer functions may
					    share a line */
	uint32_t id;

	if (!k || k->shim)
		return 0;
	id = (uint32_t)ws_map_get(&p->frames, hash, NULL);
	if (!id) {
		id = ws_py_known_frame(st, k, f->at);
		ws_map_set(&p->frames, hash, id);
	}
	return id;
}

/* Keys of the `n` codes at `code`; those that cannot be read are marked by an address of 0. */
static void read_keys(const struct ws_py_proc *p, const struct ws_py_memory *m, uint64_t *code,
		      size_t n, struct ws_py_code_key *key)
{
	static uint8_t raw[WS_PY_PIECES * WS_PY_KEY_BYTES];

	for (size_t from = 0; from < n;) {
		size_t most = n - from < WS_PY_PIECES ? n - from : WS_PY_PIECES;

		size_t got = ws_py_code_keys(&p->layout, m, code + from, most, key + from, raw);

		from += got;
		if (got < most)
			code[from++] = 0;
	}
}

/* The frames that differ from the thread's stack at its last look are asked what code lies there;
 * the others hold their code ever since. */
static uint32_t stack_of(struct ws_py_proc *p, struct ws_stackset *st, const struct ws_py_memory *m,
			 uint64_t state, const struct ws_py_frame *f, size_t n)
{
	static struct ws_py_code_key key[MOST_FRAMES];
	static uint64_t code[MOST_FRAMES];
	uint32_t stack = 0;
	size_t same = 0, k = 0;

	if (p->last_state == state)
		while (same < n && same < p->last_n && f[n - 1 - same].code == p->last_code[same])
			same++;
	for (size_t i = 0; i < n - same; i++) /* innermost first */
		if (f[i].code)
			code[k++] = f[i].code;
	read_keys(p, m, code, k, key);
	k = 0;
	for (size_t i = 0; i < n - same; i++)
		if (f[i].code && code[k++])
			known_of(p, m, f[i].code, &key[k - 1]);
	if (same &&
	    !p->last_state) /* all was forgotten on the way: those that are the same as well */
		return stack_of(p, st, m, state, f, n);
	for (size_t i = n; i-- > 0;) {
		uint32_t id = f[i].code ? frame_of(p, st, &f[i]) : 0;

		if (id)
			stack = ws_stackset_push(st, stack, id);
	}
	p->last_state = state;
	p->last_n = n < WS_PY_LAST ? n : WS_PY_LAST;
	for (size_t i = 0; i < p->last_n; i++)
		p->last_code[i] = f[n - 1 - i].code;
	return stack;
}

/* The C library keeps a thread's number in its descriptor, which pthread_t points at. */
#if defined(__x86_64__)
#define TID_IN_PTHREAD 720
#else
#define TID_IN_PTHREAD 208
#endif

static uint32_t tid_of(const struct ws_py_memory *m, const struct ws_py_thread *t)
{
	uint32_t tid = t->tid;

	if (!tid && !ws_py_read(m, t->pthread + TID_IN_PTHREAD, &tid, sizeof(tid)))
		return 0;
	return tid <= 1u << 22 ? tid : 0;
}

static void look(struct ws_py_proc *p, const struct ws_py_memory *m, const struct ws_py_thread *t,
		 bool holds, uint64_t weight)
{
	static struct ws_py_frame frame[MOST_FRAMES];
	struct ws_sink *sink = p->proc->sink;
	struct ws_row_python_sample row = {.weight = weight,
					   .gil = holds ? WS_GIL_HOLDS : WS_GIL_UNKNOWN,
					   .flags = WS_SAMPLE_SEPARATE | WS_SAMPLE_CLOCK};
	uint32_t tid = tid_of(m, t);
	bool truncated;
	size_t n;

	if (!tid)
		return;
	row.start = ws_raw_ns();
	p->py->walk.seen_n = 0;
	n = ws_py_walk(&p->layout, m, t->state, &p->py->walk, frame, MOST_FRAMES, &truncated);
	row.stack = stack_of(p, ws_stackset_of(sink), m, t->state, frame, n);
	row.thread = ws_proc_thread(p->proc, tid, row.start);
	row.flags |= truncated ? WS_SAMPLE_TRUNCATED : 0;
	ws_writer_add(sink->writer, WS_TABLE_python_sample, &row);
}

/* Has the thread had no sample of its own since the last look? */
static bool waited(struct ws_py_proc *p, uint32_t tid)
{
	uint64_t now = ws_map_get(&p->counts, tid, NULL) + 1,
		 before = ws_map_get(&p->looked, tid, NULL);

	ws_map_set(&p->looked, tid, now);
	return before == now;
}

static void look_at(struct ws_py_proc *p, bool slow, uint64_t weight)
{
	static struct ws_py_thread thread[MOST_THREADS];
	struct ws_py_memory m = {ws_py_read_process, p->proc};
	size_t n = ws_py_threads(&p->layout, &m, p->runtime, thread, MOST_THREADS);
	uint64_t holder = ws_py_gil_holder(&p->layout, &m, p->runtime);
	uint32_t looks = 0;

	for (size_t k = 0; k < n && looks < MOST_LOOKS; k++) {
		const struct ws_py_thread *t = &thread[slow ? (p->turn + k) % n : k];
		bool holds = t->state == holder;

		if (slow ? holds && !ws_py_is_exact(p) : !holds)
			continue;
		if (slow && ws_py_is_exact(p) && !waited(p, tid_of(&m, t)))
			continue;
		look(p, &m, t, holds, weight);
		looks++;
	}
	p->turn += slow ? looks : 0;
}

bool ws_py_lay_out(struct ws_py_proc *p)
{
	struct ws_py_memory m = {ws_py_read_process, p->proc};
	struct ws_py_layout l;

	if (!(p->layout.version >= 0x030d ? ws_py_layout_read(&m, p->runtime, &l)
					  : ws_py_layout_of(p->layout.version, &l)) ||
	    !ws_py_check(&l, &m, p->runtime))
		return false;
	p->layout = l;
	p->laid_out = true;
	return true;
}

static bool may_read(struct ws_py_proc *p, uint64_t now)
{
	if (!p->runtime || p->proc->host_pid <= 0 || p->proc->ending)
		return false;
	if (!p->laid_out && !ws_py_lay_out(p)) {
		p->next_fast = p->next_slow =
			now + SLOW_NS; /* it is being made, or must not be read */
		return false;
	}
	return true;
}

void ws_python_outside(struct ws_python *py, uint64_t now)
{
	uint64_t period = 1000000000u / py->o.frequency;

	py->patience = UINT64_MAX;
	if (!py->o.sampling || !atomic_load(&py->drain->arena->collecting))
		return;
	for (struct ws_py_proc *p = py->procs; p; p = p->next) {
		bool fast = !ws_py_is_exact(p) && now >= p->next_fast, slow = now >= p->next_slow;

		if ((fast || slow) && may_read(p, now)) {
			if (fast)
				look_at(p, false,
					p->last_fast && now - p->last_fast < SLOW_NS
						? now - p->last_fast
						: period);
			if (slow)
				look_at(p, true,
					p->last_slow && now - p->last_slow < 4 * SLOW_NS
						? now - p->last_slow
						: SLOW_NS);
			if (fast) {
				p->last_fast = now;
				p->next_fast = now + period;
			}
			if (slow) {
				p->last_slow = now;
				p->next_slow = now + SLOW_NS;
			}
		}
		if (!ws_py_is_exact(p) && period < py->patience)
			py->patience = period;
	}
}
