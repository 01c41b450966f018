/*
 * python_outside.c - the recorder reads Python stacks from the target's memory at times of its own
 * choice: rows of python_sample.
 *
 * They show threads that wait, which the sampler's signal cannot. These are read some twenty times
 * a second. Where there is no signal (no perf events, or the program handles SIGURG itself), the
 * thread that holds the GIL is read at the sampling frequency as well. While a stack is read the
 * thread runs on, so parts of it may belong to different moments; the flag SEPARATE says that.
 *
 * Reading one stack takes three or four reads: the thread's state, its first frame with the part of
 * the data stack around it, and the keys of code objects that were not in the thread's previous
 * stack.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/python_private.h"

#define SLOW_NS 50000000u
#define BUSY_NS 4000000u /* between looks at a process whose threads switch often, at least */
#define MOST_THREADS 512u
#define MOST_LOOKS 32u /* threads at a time */
#define MOST_FRAMES 512u
#define MOST_CODES 200000u

size_t ws_py_read_process(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	const struct ws_proc *proc = ctx;
	struct iovec local[WS_PY_PIECES], remote[WS_PY_PIECES];
	size_t i = 0, done = 0;
	ssize_t got;

	if (!n || n > WS_PY_PIECES)
		return 0;
	do {
		local[i] = (struct iovec){piece[i].to, piece[i].bytes};
		remote[i] = (struct iovec){(void *)(uintptr_t)piece[i].from, piece[i].bytes};
	} while (++i < n);
	got = process_vm_readv(proc->host_pid, local, n, remote, n, 0);
	while (got > 0 && done < n && (size_t)got >= piece[done].bytes)
		got -= (ssize_t)piece[done++].bytes;
	return done;
}

/* ---- code ---- */

struct ws_py_known *ws_py_known_read(const struct ws_py_layout *layout,
				     const struct ws_py_memory *memory, uint64_t code,
				     const struct ws_py_code_key *key)
{
	static struct ws_py_code py_code;
	struct ws_py_known *known = ws_calloc(1, sizeof(*known));

	known->key = *key;
	known->version = layout->version;
	if (!ws_py_read_code(layout, memory, code, &py_code)) {
		known->shim = true; /* changed while it was read: not shown */
		return known;
	}
	known->name = ws_strndup(py_code.name, py_code.name_len);
	known->file = ws_strndup(py_code.file, py_code.file_len);
	known->first_line = py_code.first_line;
	known->shim = py_code.shim;
	known->table = ws_malloc(py_code.table_bytes + 1);
	known->table_bytes = py_code.table_bytes;
	known->table_have = py_code.table_bytes && ws_py_read(memory, py_code.table, known->table,
							      py_code.table_bytes)
				    ? py_code.table_bytes
				    : 0;
	return known;
}

static void forget_codes(struct ws_py_proc *process)
{
	for (size_t i = 0; i < process->codes.size; i++)
		if (process->codes.used[i])
			ws_py_known_free(
				(struct ws_py_known *)(uintptr_t)process->codes.slots[i].value);
	ws_map_free(&process->codes);
	ws_map_free(&process->frames);
	process->last_state = 0;
}

static struct ws_py_known *known_of(struct ws_py_proc *process, const struct ws_py_memory *memory,
				    uint64_t code, const struct ws_py_code_key *key)
{
	struct ws_py_known *known =
		(struct ws_py_known *)(uintptr_t)ws_map_get(&process->codes, code, NULL);

	if (known && !memcmp(&known->key, key, sizeof(*key)))
		return known;
	if (known || process->codes.count >= MOST_CODES)
		forget_codes(process); /* another object lies there now: frames that were made of
				    the old one must not be found */
	known = ws_py_known_read(&process->layout, memory, code, key);
	ws_map_set(&process->codes, code, (uintptr_t)known);
	return known;
}

/* ---- a stack ---- */

static uint32_t frame_of(struct ws_py_proc *process, struct ws_stackset *st,
			 const struct ws_py_frame *frame)
{
	const struct ws_py_known *known = (const struct ws_py_known *)(uintptr_t)ws_map_get(
		&process->codes, frame->code, NULL);
	uint64_t hash = (frame->code << 20 ^ frame->code >> 44) +
			(uint32_t)frame->at; /* 44 bits of address, 20 of offset: longer functions
					    may share a line */
	uint32_t id;

	if (!known || known->shim)
		return 0;
	id = (uint32_t)ws_map_get(&process->frames, hash, NULL);
	if (!id) {
		id = ws_py_known_frame(st, known, frame->at);
		ws_map_set(&process->frames, hash, id);
	}
	return id;
}

/* Keys of the `n` codes at `code`; an address of 0 marks those that cannot be read. */
static void read_keys(const struct ws_py_proc *process, const struct ws_py_memory *memory,
		      uint64_t *code, size_t n, struct ws_py_code_key *key)
{
	static uint8_t raw[WS_PY_PIECES * WS_PY_KEY_BYTES];

	for (size_t from = 0; from < n;) {
		size_t most = n - from < WS_PY_PIECES ? n - from : WS_PY_PIECES;

		size_t got = ws_py_read_code_keys(&process->layout, memory, code + from, most,
						  key + from, raw);

		from += got;
		if (got < most)
			code[from++] = 0;
	}
}

/* Look up the code of frames that differ from the thread's previous stack; the others still have
 * theirs. */
static uint32_t stack_of(struct ws_py_proc *process, struct ws_stackset *st,
			 const struct ws_py_memory *memory, uint64_t state,
			 const struct ws_py_frame *frame, size_t n)
{
	static struct ws_py_code_key key[MOST_FRAMES];
	static uint64_t code[MOST_FRAMES];
	uint32_t stack = 0;
	size_t same = 0, k = 0;

	if (process->last_state == state)
		while (same < n && same < process->last_n &&
		       frame[n - 1 - same].code == process->last_code[same])
			same++;
	for (size_t i = 0; i < n - same; i++) /* innermost first */
		if (frame[i].code)
			code[k++] = frame[i].code;
	read_keys(process, memory, code, k, key);
	k = 0;
	for (size_t i = 0; i < n - same; i++)
		if (frame[i].code && code[k++])
			known_of(process, memory, frame[i].code, &key[k - 1]);
	if (same && !process->last_state) /* everything was forgotten in between, so unchanged
					     frames are looked up as well */
		return stack_of(process, st, memory, state, frame, n);
	for (size_t i = n; i-- > 0;) {
		uint32_t id = frame[i].code ? frame_of(process, st, &frame[i]) : 0;

		if (id)
			stack = ws_stackset_push(st, stack, id);
	}
	process->last_state = state;
	process->last_n = ws_min(n, WS_PY_LAST);
	for (size_t i = 0; i < process->last_n; i++)
		process->last_code[i] = frame[n - 1 - i].code;
	return stack;
}

/* The C library keeps a thread's number in its descriptor, which pthread_t points at. */
#if defined(__x86_64__)
#define TID_IN_PTHREAD 720
#else
#define TID_IN_PTHREAD 208
#endif

uint32_t ws_py_find_tid(const struct ws_py_memory *memory, const struct ws_py_thread *thread)
{
	uint32_t tid = thread->tid;

	if (!tid && !ws_py_read(memory, thread->pthread + TID_IN_PTHREAD, &tid, sizeof(tid)))
		return 0;
	return tid <= 1u << 22 ? tid : 0;
}

static void look(struct ws_py_proc *process, const struct ws_py_memory *memory,
		 const struct ws_py_thread *thread, bool holds, uint64_t weight)
{
	static struct ws_py_frame frame[MOST_FRAMES];
	struct ws_sink *sink = process->proc->sink;
	struct ws_row_python_sample row = {.weight = weight,
					   .gil = holds ? WS_GIL_HOLDS : WS_GIL_UNKNOWN,
					   .flags = WS_SAMPLE_SEPARATE | WS_SAMPLE_CLOCK};
	uint32_t tid = ws_py_find_tid(memory, thread);
	size_t n;

	if (!tid)
		return;
	row.start = ws_read_raw_ns();
	process->py->walk.seen_count = 0;
	n = ws_py_walk(&process->layout, memory, thread->state, &process->py->walk, frame,
		       MOST_FRAMES);
	row.stack = stack_of(process, ws_stackset_of(sink), memory, thread->state, frame, n);
	row.thread = ws_proc_thread(process->proc, tid, row.start);
	row.flags |= process->py->walk.truncated ? WS_SAMPLE_TRUNCATED : 0;
	ws_writer_add(sink->writer, WS_TABLE_python_sample, &row);
}

/* Whether the thread has had no sample of its own since it was last read from outside. */
static bool waited(struct ws_py_proc *process, uint32_t tid)
{
	uint64_t now = ws_map_get(&process->counts, tid, NULL) + 1,
		 before = ws_map_get(&process->looked, tid, NULL);

	ws_map_set(&process->looked, tid, now);
	return before == now;
}

static void look_at(struct ws_py_proc *process, bool slow, uint64_t weight)
{
	static struct ws_py_thread thread[MOST_THREADS];
	struct ws_py_memory memory = {ws_py_read_process, process->proc};
	size_t n = ws_py_list_threads(&process->layout, &memory, process->runtime, thread,
				      MOST_THREADS);
	uint64_t holder = ws_py_find_gil_holder(&process->layout, &memory, process->runtime);
	uint32_t looks = 0;

	for (size_t k = 0; k < n && looks < MOST_LOOKS; k++) {
		const struct ws_py_thread *py_thread = &thread[slow ? (process->turn + k) % n : k];
		bool holds = py_thread->state == holder;

		if (slow ? holds && !ws_py_is_exact(process) : !holds)
			continue;
		if (slow && ws_py_is_exact(process) &&
		    !waited(process, ws_py_find_tid(&memory, py_thread)))
			continue;
		look(process, &memory, py_thread, holds, weight);
		looks++;
	}
	process->turn += slow ? looks : 0;
}

bool ws_py_lay_out(struct ws_py_proc *process)
{
	struct ws_py_memory memory = {ws_py_read_process, process->proc};
	struct ws_py_layout layout;

	if (!(process->layout.version >= 0x030d
		      ? ws_py_read_layout(&memory, process->runtime, &layout)
		      : ws_py_get_layout(process->layout.version, &layout)) ||
	    !ws_py_check_layout(&layout, &memory, process->runtime))
		return false;
	process->layout = layout;
	process->laid_out = true;
	return true;
}

static bool may_read(struct ws_py_proc *process, uint64_t now)
{
	if (!process->runtime || process->proc->host_pid <= 0 || process->proc->ending)
		return false;
	if (!process->laid_out && !ws_py_lay_out(process)) {
		process->next_fast = process->next_slow =
			now + SLOW_NS; /* it is being made, or must not be read */
		return false;
	}
	return true;
}

/* Between two looks at the thread that holds the GIL. */
static uint64_t choose_period(const struct ws_py_proc *process)
{
	uint64_t period = 1000000000u / process->py->options.frequency;

	return process->switches_often ? ws_max(period, BUSY_NS) : period;
}

void ws_python_outside(struct ws_python *py, uint64_t now)
{
	py->patience = UINT64_MAX;
	if (!py->options.sampling || !py->drain->collecting)
		return;
	for (struct ws_py_proc *process = py->procs; process; process = process->next) {
		uint64_t period = choose_period(process);
		bool fast = !ws_py_is_exact(process) && now >= process->next_fast,
		     slow = now >= process->next_slow;

		if ((fast || slow) && may_read(process, now)) {
			if (fast)
				look_at(process, false,
					process->last_fast && now - process->last_fast < SLOW_NS
						? now - process->last_fast
						: period);
			if (slow)
				look_at(process, true,
					process->last_slow && now - process->last_slow < 4 * SLOW_NS
						? now - process->last_slow
						: SLOW_NS);
			if (fast) {
				process->last_fast = now;
				process->next_fast = now + period;
			}
			if (slow) {
				process->last_slow = now;
				process->next_slow = now + SLOW_NS;
			}
		}
		if (!ws_py_is_exact(process) && period < py->patience)
			py->patience = period;
	}
}
