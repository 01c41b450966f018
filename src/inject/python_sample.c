/*
 * python_sample.c - what a thread does when a sample of it is taken: it reads its own frames, at
 * the very instruction at which it was interrupted, and writes them with its registers and the top
 * of its stack into a ring. This is exact: what is recorded is what runs.
 *
 * The recorder opens a perf event for each thread that runs Python. It counts the thread's CPU
 * time, fires in user space only and has the kernel send the signal to the thread itself: so a
 * thread that waits is never woken, and no system call is ever interrupted. The handler runs with
 * all signals blocked, uses a hundred bytes of stack besides the kernel's frame, asks the kernel
 * whether memory is there before it reads any, and calls nothing of the program but the
 * interpreter's own two functions that give the thread state (they read a thread-local variable).
 *
 * A code object is described once: name, file and line table, which the recorder turns into lines.
 * That the object at an address is still the one that was described is checked at each sample, by
 * the addresses of its name, file and table and its first line.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "inject/python.h"
#include "base/choose.h"
#include "inject/stack.h"
#include "inject/unseen.h"
#include "schema/schema.h"

#define TABLE_MOST                                                                                \
	(256u << 10) /* of a line table: longer ones belong to generated modules, whose lines say \
			little */

/* ---- code ---- */

static struct ws_python_code *find_code_slot(struct ws_python_thread *thread, uint64_t code)
{
	uint32_t i = (uint32_t)(code >> 4) * 0x9e3779b1u >> 21;

	_Static_assert(WS_PYTHON_CODES == 1u << 11, "the hash gives 11 bits");
	while (thread->code[i].code && thread->code[i].code != code)
		i = (i + 1) % WS_PYTHON_CODES;
	if (!thread->code[i].code) {
		thread->code[i].code = code;
		thread->code[i].number = 0;
		thread->used++;
	}
	return &thread->code[i];
}

static void write_code_table(struct ws_thread *thread, const struct ws_py_memory *memory,
			     uint32_t number, uint64_t table, uint32_t at, uint32_t total)
{
	while (at < total) {
		uint32_t here = total - at < 8000 ? total - at : 8000;
		size_t bytes = WS_ALIGN_UP(sizeof(struct ws_rec_python_table) + here, 8u);
		struct ws_rec_python_table *record = ws_rt_reserve(thread, bytes, WS_LOSS_PYTHON);

		if (!record || !ws_py_read(memory, table + at, record->bytes, here))
			return;
		record->rec = (struct ws_rec){.kind = WS_REC_PYTHON_TABLE,
					      .value = (uint32_t)(bytes / 8)};
		record->number = number;
		record->at = at;
		record->here = here;
		ws_rt_commit(thread, record, bytes);
		at += here;
	}
}

static bool write_code(struct ws_thread *thread, struct ws_python_thread *python_thread,
		       uint32_t number, uint64_t code)
{
	struct ws_py_memory memory = {ws_python_read_memory, python_thread};
	struct ws_py_code *py_code = &python_thread->text;
	struct ws_rec_python_code *record;
	uint32_t here, texts;
	size_t bytes;

	if (!ws_py_read_code(&ws_python.layout, &memory, code, py_code))
		return false;
	if (py_code->table_bytes > TABLE_MOST)
		py_code->table_bytes = 0;
	here = ws_min(py_code->table_bytes, 8000);
	texts = py_code->name_len + py_code->file_len;
	bytes = WS_ALIGN_UP(sizeof(*record) + texts + here, 8u);
	record = ws_rt_reserve(thread, bytes, WS_LOSS_PYTHON);
	if (!record)
		return false;
	if (here && !ws_py_read(&memory, py_code->table, record->bytes + texts, here))
		here = py_code->table_bytes = 0;
	record->rec = (struct ws_rec){.kind = WS_REC_PYTHON_CODE,
				      .small = ws_python.layout.version,
				      .value = (uint32_t)(bytes / 8)};
	record->number = number;
	record->first_line = py_code->first_line;
	record->table_bytes = py_code->table_bytes;
	record->name_len = (uint16_t)py_code->name_len;
	record->file_len = (uint16_t)py_code->file_len;
	record->shim = py_code->shim;
	record->here = here;
	memcpy(record->bytes, py_code->name, py_code->name_len);
	memcpy(record->bytes + py_code->name_len, py_code->file, py_code->file_len);
	ws_rt_commit(thread, record, bytes);
	write_code_table(thread, &memory, number, py_code->table, here, py_code->table_bytes);
	return true;
}

static bool is_same_key(const struct ws_py_code_key *left, const struct ws_py_code_key *right)
{
	return !memcmp(left, right, sizeof(*left));
}

/* Describe those of these codes that were not described yet. */
static void check_code(struct ws_thread *thread, struct ws_python_thread *python_thread,
		       const uint64_t *code, size_t n)
{
	struct ws_py_memory memory = {ws_python_read_memory, python_thread};
	struct ws_py_code_key key[16];

	for (size_t from = 0; from < n;) {
		size_t most = n - from < WS_COUNT(key) ? n - from : WS_COUNT(key);
		size_t got = ws_py_read_code_keys(&ws_python.layout, &memory, code + from, most,
						  key, python_thread->raw);

		for (size_t i = 0; i < got; i++) {
			struct ws_python_code *python_code =
				find_code_slot(python_thread, code[from + i]);

			if (python_code->number && is_same_key(&python_code->key, &key[i]))
				continue;
			python_code->key = key[i];
			python_code->number =
				write_code(thread, python_thread, python_thread->numbers + 1,
					   python_code->code)
					? ++python_thread->numbers
					: 0;
		}
		if (got < most)
			find_code_slot(python_thread, code[from + got++])->number = 0;
		from += got;
	}
}

static void write_codes(struct ws_thread *thread, struct ws_python_thread *python_thread, size_t n)
{
	uint64_t code[16];
	size_t k = 0;

	if (python_thread->used + n > WS_PYTHON_CODES / 4 * 3) {
		memset(python_thread->code, 0, sizeof(python_thread->code));
		python_thread->used = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct ws_python_code *python_code =
			python_thread->frame[i].code
				? find_code_slot(python_thread, python_thread->frame[i].code)
				: NULL;

		if (!python_code || python_code->serial == python_thread->serial)
			continue;
		python_code->serial = python_thread->serial;
		code[k++] = python_code->code;
		if (k == WS_COUNT(code)) {
			check_code(thread, python_thread, code, k);
			k = 0;
		}
	}
	check_code(thread, python_thread, code, k);
}

/* ---- frames ---- */

static uint64_t find_thread_state(void)
{
	void *state = ws_python.current_thread ? ws_python.current_thread() : NULL;

	return (uint64_t)(uintptr_t)(state ? state : ws_python.gilstate_thread());
}

bool ws_python_write_frames(struct ws_thread *thread, struct ws_python_thread *python_thread)
{
	struct ws_py_memory memory = {ws_python_read_memory, python_thread};
	uint64_t state = find_thread_state();
	struct ws_rec_python_frames *record;
	size_t n = 0, bytes;

	python_thread->serial++;
	python_thread->walk.truncated = false;
	if (state)
		n = ws_py_walk(&ws_python.layout, &memory, state, &python_thread->walk,
			       python_thread->frame, WS_PYTHON_FRAMES_MOST);
	write_codes(thread, python_thread, n);
	bytes = sizeof(*record) + n * sizeof(record->frame[0]);
	record = ws_rt_reserve(thread, bytes, WS_LOSS_PYTHON);
	if (!record)
		return false;
	record->rec = (struct ws_rec){.kind = WS_REC_PYTHON_FRAMES, .value = (uint32_t)(bytes / 8)};
	record->count = (uint32_t)n;
	record->truncated = python_thread->walk.truncated;
	for (size_t i = 0; i < n; i++) {
		const struct ws_py_frame *frame = &python_thread->frame[i];

		record->frame[i] =
			(frame->code ? (uint64_t)find_code_slot(python_thread, frame->code)->number
					       << 32
				     : 0) |
			(uint32_t)(frame->at + 1) |
			(frame->flags & WS_PY_ENTRY ? WS_PYTHON_ENTRY : 0);
	}
	ws_rt_commit(thread, record, bytes);
	return true;
}

/* ---- the sample ---- */

#if defined(__x86_64__)
static void copy_registers(const ucontext_t *context, uint64_t *r)
{
	static const uint8_t order[WS_PYTHON_REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						      REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						      REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						      REG_R15, REG_RIP};

	for (int i = 0; i < WS_PYTHON_REGS; i++)
		r[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
}
#else
static void copy_registers(const ucontext_t *u, uint64_t *r)
{
	memcpy(r, u->uc_mcontext.regs, 31 * sizeof(*r));
	r[31] = u->uc_mcontext.sp;
	r[32] = u->uc_mcontext.pc;
}
#endif

static uint32_t gil_state(const struct ws_python_thread *thread)
{
	if (!atomic_load_explicit(&ws_python.gil_cond, memory_order_relaxed))
		return WS_GIL_UNKNOWN;
	return thread->now.wait_start	? WS_GIL_WAITS
	       : thread->now.hold_start ? WS_GIL_HOLDS
					: WS_GIL_NONE;
}

/* As much of the stack as there is: page by page. */
static uint32_t copy_stack(struct ws_python_thread *thread, uint64_t sp, uint8_t *to)
{
	uint32_t n = 0;

	while (n < WS_PYTHON_STACK_MOST) {
		uint32_t left = WS_PYTHON_STACK_MOST - n,
			 to_page = WS_SMALLEST_PAGE - (uint32_t)((sp + n) % WS_SMALLEST_PAGE);
		struct ws_py_piece one = {sp + n, to + n, left < to_page ? left : to_page};

		if (ws_python_read_memory(thread, &one, 1) != 1)
			break;
		n += (uint32_t)one.bytes;
	}
	return n & ~7u;
}

static void write_python_sample(struct ws_thread *thread, struct ws_python_thread *python_thread,
				uint64_t now, uint64_t weight, const ucontext_t *context)
{
	struct ws_rec_python_sample *record =
		ws_rt_reserve(thread, sizeof(*record) + WS_PYTHON_STACK_MOST, WS_LOSS_PYTHON);
	size_t bytes;

	if (!record)
		return;
	record->time = now;
	record->weight = weight;
	record->gil = (uint16_t)gil_state(python_thread);
	record->cpu = UINT32_MAX;
	ws_raw_syscall(SYS_getcpu, (long)&record->cpu, 0, 0, 0, 0, 0);
	copy_registers(context, record->regs);
	record->stack_bytes =
		(uint16_t)copy_stack(python_thread, record->regs[WS_PYTHON_SP], record->stack);
	bytes = sizeof(*record) + record->stack_bytes;
	record->rec = (struct ws_rec){.kind = WS_REC_PYTHON_SAMPLE, .value = (uint32_t)(bytes / 8)};
	ws_rt_commit(thread, record, bytes);
}

/* The thread's state, when it may write now. */
static struct ws_python_thread *begin_python_sampling(struct ws_thread *thread, uint32_t *was)
{
	struct ws_python_thread *python_thread;

	if (!thread || !thread->generation || ws_rt_is_paused(thread) ||
	    !ws_rt_is_own_thread(thread) || !(python_thread = thread->python) ||
	    python_thread->at_work || !ws_rt_enter_sampler(thread, was))
		return NULL;
	python_thread->at_work = 1;
	return python_thread;
}

static void end_python_sampling(struct ws_thread *thread, struct ws_python_thread *python_thread,
				uint32_t was)
{
	python_thread->at_work = 0;
	ws_rt_leave_sampler(thread, was);
}

static bool take_python_sample(uint64_t now, uint64_t weight, const ucontext_t *context)
{
	struct ws_thread *thread = ws_self;
	struct ws_python_thread *python_thread;
	uint32_t was;

	if (!ws_rt->arena || !ws_rt_is_collecting() || ws_rt_is_sandboxed())
		return false;
	python_thread = begin_python_sampling(thread, &was);
	if (!python_thread)
		return false;
	if (ws_python_write_frames(thread, python_thread))
		write_python_sample(thread, python_thread, now, weight, context);
	end_python_sampling(thread, python_thread, was);
	return true;
}

/* Whether a file descriptor's owner setting sent the signal. One sent by a program would have been
 * ignored by default. */
bool ws_is_own_signal(const siginfo_t *info)
{
	return info->si_code > 0 && info->si_code <= 6;
}

WS_SIGNAL_ENTRY void ws_python_handle_signal(int sig, siginfo_t *info, void *context)
{
	struct ws_thread *thread = ws_self;

	(void)sig;
	if (!ws_is_own_signal(info) || !ws_python.signals || (thread && thread->muted) ||
	    take_python_sample(ws_rt_read_ticks(), 0, context))
		return;
	if (thread && thread->generation && ws_rt_is_collecting())
		ws_rt_count_loss(thread, WS_LOSS_PYTHON, 1);
}

bool ws_python_start_timer(uint64_t time, uint64_t weight, const void *context)
{
	return take_python_sample(time, weight, context);
}

/* The state that numbers the codes for frames of calls; NULL when there is no memory for it. */
static struct ws_python_thread *find_call_state(struct ws_thread *thread)
{
	struct ws_python_thread *python_thread = thread->python, *calls;
	const void *ring = thread->nest[thread->busy - 1].ring;

	if (!python_thread)
		return NULL;
	if (!python_thread->calls) {
		long p = ws_raw_syscall(SYS_mmap, 0, WS_PYTHON_THREAD_BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p < 0 && p > -4096)
			return NULL;
		ws_raw_syscall(SYS_madvise, p, WS_PYTHON_THREAD_BYTES, MADV_WIPEONFORK, 0, 0, 0);
		python_thread->calls = (void *)p;
	}
	calls = python_thread->calls;
	if (!calls->at_work && calls->ring != ring) {
		if (calls->used) /* new memory is not touched: others may wait for this thread */
			memset(calls->code, 0, sizeof(calls->code));
		calls->used = 0;
		calls->ring = ring;
	}
	return calls;
}

/* A handler of the program may interrupt this and make calls itself; these get no Python frames. */
void ws_python_write_call_frames(struct ws_thread *thread)
{
	struct ws_python_thread *calls;

	if (ws_rt_is_sandboxed() || !find_thread_state())
		return;
	calls = find_call_state(thread);
	if (!calls || calls->at_work)
		return;
	calls->at_work = 1;
	ws_python_write_frames(thread, calls);
	calls->at_work = 0;
}

/*
 * The sampler's signal is not blocked here: a signal that arrives finds the sampler at work and is
 * lost, which is counted. The stack follows the frames in the same ring, so that the recorder can
 * join the two.
 */
bool ws_python_write_cuda_stack(uint32_t correlation, uint32_t bytes)
{
	struct ws_thread *thread = ws_self;
	struct ws_python_thread *python_thread;
	bool done = false;
	uint32_t was;

	if (!ws_rt->arena || ws_rt_is_sandboxed() ||
	    !(python_thread = begin_python_sampling(thread, &was)))
		return false;
	if (find_thread_state() && ws_python_write_frames(thread, python_thread))
		done = ws_rt_write_stack(thread, WS_STACK_OF_CUDA, correlation, bytes);
	end_python_sampling(thread, python_thread, was);
	return done;
}
