/*
 * python_sample.c - what a thread does when a sample of it is taken: it reads its own frames, at
 * the very instruction at which it was interrupted, and writes them with its registers and the top
 * of its stack into a ring. Nothing can be more exact: what is recorded is what runs.
 *
 * The recorder opens a perf event for each thread that runs Python. It counts the thread's CPU
 * time, fires in user space only and has the kernel send the signal to the thread itself: so a
 * thread that waits is never woken, and no system call is ever interrupted. The handler runs with
 * all signals blocked, uses a hundred bytes of stack besides the kernel's frame, asks the kernel
 * whether memory is there before it reads any, and calls nothing of the program but the
 * interpreter's own two functions that give the thread state (they read a thread-local variable).
 *
 * A code object is told once: name, file and line table, which the recorder turns into lines. That
 * the object at an address is still the one that was told is checked at each sample, by the
 * addresses of its name, file and table and its first line.
 */
#include <sys/syscall.h>
#include <ucontext.h>

#include "inject/python.h"
#include "inject/stack.h"
#include "inject/unseen.h"
#include "schema/schema.h"

#define TABLE_MOST                                                                                \
	(256u << 10) /* of a line table: longer ones belong to generated modules, whose lines say \
			little */

/* ---- code ---- */

static struct ws_python_code *slot_of(struct ws_python_thread *p, uint64_t code)
{
	uint32_t i = (uint32_t)(code >> 4) * 0x9e3779b1u >> 21;

	_Static_assert(WS_PYTHON_CODES == 1u << 11, "the hash gives 11 bits");
	while (p->code[i].code && p->code[i].code != code)
		i = (i + 1) % WS_PYTHON_CODES;
	if (!p->code[i].code) {
		p->code[i].code = code;
		p->code[i].number = 0;
		p->used++;
	}
	return &p->code[i];
}

static void tell_table(struct ws_thread *t, const struct ws_py_memory *m, uint32_t number,
		       uint64_t table, uint32_t at, uint32_t total)
{
	while (at < total) {
		uint32_t here = total - at < 8000 ? total - at : 8000;
		size_t bytes = WS_ALIGN_UP(sizeof(struct ws_rec_python_table) + here, 8u);
		struct ws_rec_python_table *r = ws_rt_reserve(t, bytes, WS_LOSS_PYTHON);

		if (!r || !ws_py_read(m, table + at, r->bytes, here))
			return;
		r->rec = (struct ws_rec){.kind = WS_REC_PYTHON_TABLE,
					 .value = (uint32_t)(bytes / 8)};
		r->number = number;
		r->at = at;
		r->here = here;
		ws_rt_commit(t, r, bytes);
		at += here;
	}
}

static bool tell_code(struct ws_thread *t, struct ws_python_thread *p, uint32_t number,
		      uint64_t code)
{
	struct ws_py_memory m = {ws_python_read, p};
	struct ws_py_code *c = &p->text;
	struct ws_rec_python_code *r;
	uint32_t here, texts;
	size_t bytes;

	if (!ws_py_code_read(&ws_python.layout, &m, code, c))
		return false;
	if (c->table_bytes > TABLE_MOST)
		c->table_bytes = 0;
	here = c->table_bytes < 8000 ? c->table_bytes : 8000;
	texts = c->name_len + c->file_len;
	bytes = WS_ALIGN_UP(sizeof(*r) + texts + here, 8u);
	r = ws_rt_reserve(t, bytes, WS_LOSS_PYTHON);
	if (!r)
		return false;
	if (here && !ws_py_read(&m, c->table, r->bytes + texts, here))
		here = c->table_bytes = 0;
	r->rec = (struct ws_rec){.kind = WS_REC_PYTHON_CODE,
				 .small = ws_python.layout.version,
				 .value = (uint32_t)(bytes / 8)};
	r->number = number;
	r->first_line = c->first_line;
	r->table_bytes = c->table_bytes;
	r->name_len = (uint16_t)c->name_len;
	r->file_len = (uint16_t)c->file_len;
	r->shim = c->shim;
	r->here = here;
	memcpy(r->bytes, c->name, c->name_len);
	memcpy(r->bytes + c->name_len, c->file, c->file_len);
	ws_rt_commit(t, r, bytes);
	tell_table(t, &m, number, c->table, here, c->table_bytes);
	return true;
}

static bool same_key(const struct ws_py_code_key *a, const struct ws_py_code_key *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Are these codes the ones that were told? Tell those that are not. */
static void check(struct ws_thread *t, struct ws_python_thread *p, const uint64_t *code, size_t n)
{
	struct ws_py_memory m = {ws_python_read, p};
	struct ws_py_code_key key[16];

	for (size_t from = 0; from < n;) {
		size_t most = n - from < WS_COUNT(key) ? n - from : WS_COUNT(key);
		size_t got = ws_py_code_keys(&ws_python.layout, &m, code + from, most, key, p->raw);

		for (size_t i = 0; i < got; i++) {
			struct ws_python_code *s = slot_of(p, code[from + i]);

			if (s->number && same_key(&s->key, &key[i]))
				continue;
			s->key = key[i];
			s->number = tell_code(t, p, p->numbers + 1, s->code) ? ++p->numbers : 0;
		}
		if (got < most)
			slot_of(p, code[from + got++])->number = 0;
		from += got;
	}
}

static void tell_codes(struct ws_thread *t, struct ws_python_thread *p, size_t n)
{
	uint64_t code[16];
	size_t k = 0;

	if (p->used + n > WS_PYTHON_CODES / 4 * 3) {
		memset(p->code, 0, sizeof(p->code));
		p->used = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct ws_python_code *s = p->frame[i].code ? slot_of(p, p->frame[i].code) : NULL;

		if (!s || s->serial == p->serial)
			continue;
		s->serial = p->serial;
		code[k++] = s->code;
		if (k == WS_COUNT(code)) {
			check(t, p, code, k);
			k = 0;
		}
	}
	check(t, p, code, k);
}

/* ---- frames ---- */

static uint64_t thread_state(void)
{
	void *state = ws_python.current_thread ? ws_python.current_thread() : NULL;

	return (uint64_t)(uintptr_t)(state ? state : ws_python.gilstate_thread());
}

bool ws_python_tell_frames(struct ws_thread *t, struct ws_python_thread *p)
{
	struct ws_py_memory m = {ws_python_read, p};
	uint64_t state = thread_state();
	struct ws_rec_python_frames *r;
	bool truncated = false;
	size_t n = 0, bytes;

	p->serial++;
	if (state)
		n = ws_py_walk(&ws_python.layout, &m, state, &p->walk, p->frame,
			       WS_PYTHON_FRAMES_MOST, &truncated);
	tell_codes(t, p, n);
	bytes = sizeof(*r) + n * sizeof(r->frame[0]);
	r = ws_rt_reserve(t, bytes, WS_LOSS_PYTHON);
	if (!r)
		return false;
	r->rec = (struct ws_rec){.kind = WS_REC_PYTHON_FRAMES, .value = (uint32_t)(bytes / 8)};
	r->count = (uint32_t)n;
	r->truncated = truncated;
	for (size_t i = 0; i < n; i++) {
		const struct ws_py_frame *f = &p->frame[i];

		r->frame[i] = (f->code ? (uint64_t)slot_of(p, f->code)->number << 32 : 0) |
			      (uint32_t)(f->at + 1) |
			      (f->flags & WS_PY_ENTRY ? WS_PYTHON_ENTRY : 0);
	}
	ws_rt_commit(t, r, bytes);
	return true;
}

/* ---- the sample ---- */

#if defined(__x86_64__)
static void take_registers(const ucontext_t *u, uint64_t *r)
{
	static const uint8_t order[WS_PYTHON_REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						      REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						      REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						      REG_R15, REG_RIP};

	for (int i = 0; i < WS_PYTHON_REGS; i++)
		r[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
}
#else
static void take_registers(const ucontext_t *u, uint64_t *r)
{
	memcpy(r, u->uc_mcontext.regs, 31 * sizeof(*r));
	r[31] = u->uc_mcontext.sp;
	r[32] = u->uc_mcontext.pc;
}
#endif

static uint32_t gil_state(const struct ws_python_thread *p)
{
	if (!atomic_load_explicit(&ws_python.gil_cond, memory_order_relaxed))
		return WS_GIL_UNKNOWN;
	return p->now.wait_start ? WS_GIL_WAITS : p->now.hold_start ? WS_GIL_HOLDS : WS_GIL_NONE;
}

/* As much of the stack as there is: page by page. */
static uint32_t copy_stack(struct ws_python_thread *p, uint64_t sp, uint8_t *to)
{
	uint32_t n = 0;

	while (n < WS_PYTHON_STACK_MOST) {
		uint32_t left = WS_PYTHON_STACK_MOST - n,
			 to_page = 4096 - (uint32_t)((sp + n) & 4095);
		struct ws_py_piece one = {sp + n, to + n, left < to_page ? left : to_page};

		if (ws_python_read(p, &one, 1) != 1)
			break;
		n += (uint32_t)one.bytes;
	}
	return n & ~7u;
}

static void tell_sample(struct ws_thread *t, struct ws_python_thread *p, uint64_t now,
			uint64_t weight, const ucontext_t *u)
{
	struct ws_rec_python_sample *r =
		ws_rt_reserve(t, sizeof(*r) + WS_PYTHON_STACK_MOST, WS_LOSS_PYTHON);
	size_t bytes;

	if (!r)
		return;
	r->time = now;
	r->weight = weight;
	r->gil = (uint16_t)gil_state(p);
	r->cpu = UINT32_MAX;
	ws_sys(SYS_getcpu, (long)&r->cpu, 0, 0, 0, 0, 0);
	take_registers(u, r->regs);
	r->stack_bytes = (uint16_t)copy_stack(p, r->regs[WS_PYTHON_SP], r->stack);
	bytes = sizeof(*r) + r->stack_bytes;
	r->rec = (struct ws_rec){.kind = WS_REC_PYTHON_SAMPLE, .value = (uint32_t)(bytes / 8)};
	ws_rt_commit(t, r, bytes);
}

/* The thread's state, when it may write now. */
static struct ws_python_thread *begin(struct ws_thread *t, uint32_t *was)
{
	struct ws_python_thread *p;

	if (!t || !t->generation || t->paused || !(p = t->python) || p->at_work ||
	    !ws_rt_enter_sampler(t, was))
		return NULL;
	p->at_work = 1;
	return p;
}

static void end(struct ws_thread *t, struct ws_python_thread *p, uint32_t was)
{
	p->at_work = 0;
	ws_rt_leave_sampler(t, was);
}

static bool sample(uint64_t now, uint64_t weight, const ucontext_t *context)
{
	struct ws_thread *t = ws_self;
	struct ws_python_thread *p;
	uint32_t was;

	if (!ws_rt->arena || !ws_rt_collecting() || ws_rt_is_sandboxed())
		return false;
	p = begin(t, &was);
	if (!p)
		return false;
	if (ws_python_tell_frames(t, p))
		tell_sample(t, p, now, weight, context);
	end(t, p, was);
	return true;
}

/* Sent by a file descriptor's owner setting, not by a program: one of those the default would have
 * ignored. */
bool ws_unseen(const siginfo_t *info)
{
	return info->si_code > 0 && info->si_code <= 6;
}

void ws_python_handler(int sig, siginfo_t *info, void *context)
{
	struct ws_thread *t = ws_self;

	(void)sig;
	if (!ws_unseen(info) || !ws_python.signals || (t && t->muted) ||
	    sample(ws_rt_ticks(), 0, context))
		return;
	if (t && t->generation && ws_rt_collecting())
		ws_rt_lost(t, WS_LOSS_PYTHON, 1);
}

bool ws_python_timer(uint64_t time, uint64_t weight, const void *context)
{
	return sample(time, weight, context);
}

/*
 * The sampler's signal is not blocked here: one that comes finds the sampler at work and is lost,
 * which is counted. The stack stands behind the frames, in the same ring, so that the recorder puts
 * the two together.
 */
bool ws_python_cuda(uint32_t correlation, uint32_t bytes)
{
	struct ws_thread *t = ws_self;
	struct ws_python_thread *p;
	bool done = false;
	uint32_t was;

	if (!ws_rt->arena || ws_rt_is_sandboxed() || !(p = begin(t, &was)))
		return false;
	if (thread_state() && ws_python_tell_frames(t, p))
		done = ws_rt_stack(t, WS_STACK_OF_CUDA, correlation, bytes);
	end(t, p, was);
	return done;
}
