/*
 * unwind.c - see unwind.h.
 *
 * Two tables of rules, both direct-mapped and bounded. The first is asked by (version of the
 * process's map, address in the process) and needs no look at the map; the second by (module,
 * address in it) and serves all processes that map it, and a process whose map has changed. A miss
 * in both costs about a microsecond of interpreting; warm, a frame costs some ten nanoseconds.
 *
 * A rule that adds an offset to a register and loads saved registers near the CFA, as nearly all
 * are, is kept as such. What is left (signal frames, PLT entries, realigned stacks) keeps the whole
 * row.
 */
#include "symbols/unwind.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/cfi.h"

#define NEAR_SLOTS 8192u
#define FAR_SLOTS 65536u
#define MOST_ROWS \
	16384u /* whole rows kept; when there are more, all is forgotten and begun again */

#if defined(__x86_64__)
#define SAVED 6
static const uint8_t callee_saved[SAVED] = {3, 6, 12, 13, 14, 15};
#else
#define SAVED 12
static const uint8_t callee_saved[SAVED] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
#endif
#define LOWEST_SP 4096u

enum step_kind {
	STEP_NONE,  /* nothing is known there: frame pointers, if anything */
	STEP_PLAIN, /* as said above */
	STEP_ROW,   /* rows[row] */
	STEP_END,   /* the outermost function */
};

struct step {
	uint8_t kind, cfa_register, saved_n, method;
	bool signal; /* what a signal handler returns to */
	int32_t cfa_offset;
	int16_t return_offset;
	int16_t saved_offset[SAVED];
	uint8_t saved[SAVED];
	uint32_t row;
};

struct near_slot {
	uint64_t version, ip;
	struct ws_module *module;
	uint64_t address;
	struct step step;
};

struct far_slot {
	struct ws_module *module;
	uint64_t address;
	struct step step;
};

struct ws_unwinder {
	struct near_slot near[NEAR_SLOTS];
	struct far_slot far[FAR_SLOTS];
	struct ws_cfi_row *rows;
	size_t rows_n, rows_cap;
};

struct walk {
	struct ws_unwinder *u;
	const struct ws_stop *stop;
	struct ws_regs regs;
	enum ws_unwind_mode mode;
	bool beyond; /* something above the copied bytes was wanted */
	bool exact;  /* the ip is where the thread was, not where it returns to */
};

struct ws_unwinder *ws_unwinder_new(void)
{
	return ws_calloc(1, sizeof(struct ws_unwinder));
}

void ws_unwinder_free(struct ws_unwinder *u)
{
	if (!u)
		return;
	free(u->rows);
	free(u);
}

void ws_unwinder_forget(struct ws_unwinder *u)
{
	memset(u->near, 0, sizeof(u->near));
	memset(u->far, 0, sizeof(u->far));
	u->rows_n = 0;
}

/* ---- modules ---- */

struct ws_cfi *ws_module_cfi(struct ws_module *m)
{
	if (!m->cfi_tried) {
		m->cfi_tried = true;
		m->cfi = m->opened ? ws_cfi_new(&m->elf) : NULL;
	}
	return m->cfi;
}

/* Do the functions of the module keep frame pointers? Looked up once. */
static bool keeps_fp(struct ws_module *m)
{
	if (!m->fp_known) {
		struct ws_cfi *c = ws_module_cfi(m);

		m->fp_known = true;
		/* What says nothing about its frames (Go, generated code) is given the benefit of
		 * the doubt. */
		m->has_fp = c ? ws_cfi_keeps_fp(c)
			      : m->kind == WS_MODULE_FILE || m->kind == WS_MODULE_JIT;
	}
	return m->has_fp;
}

/* ---- rules ---- */

static bool fits(int64_t v)
{
	return v >= INT16_MIN && v <= INT16_MAX;
}

static bool plain(const struct ws_cfi_row *row, struct step *s)
{
	const struct ws_cfi_rule *ra = &row->reg[row->return_register];

	if (row->cfa_kind != WS_CFI_VALUE || row->signal || ra->kind != WS_CFI_OFFSET ||
	    !fits(ra->offset) || row->cfa.offset < INT32_MIN || row->cfa.offset > INT32_MAX)
		return false;
	s->kind = STEP_PLAIN;
	s->cfa_register = row->cfa_register;
	s->cfa_offset = (int32_t)row->cfa.offset;
	s->return_offset = (int16_t)ra->offset;
	for (unsigned i = 0; i < SAVED; i++) {
		const struct ws_cfi_rule *r = &row->reg[callee_saved[i]];

		if (r->kind == WS_CFI_SAME)
			continue;
		if (r->kind != WS_CFI_OFFSET || !fits(r->offset))
			return false;
		s->saved[s->saved_n] = callee_saved[i];
		s->saved_offset[s->saved_n++] = (int16_t)r->offset;
	}
	return true;
}

static struct step make_step(struct ws_unwinder *u, struct ws_module *m, uint64_t address)
{
	struct ws_cfi *c = ws_module_cfi(m);
	struct step s = {.kind = STEP_NONE};
	struct ws_cfi_row row;

	if (!c || !ws_cfi_find(c, address, &row))
		return s;
	s.method = row.debug ? WS_UNWIND_DEBUG : WS_UNWIND_EH;
	s.signal = row.signal;
	if (row.reg[row.return_register].kind == WS_CFI_UNDEFINED) {
		s.kind = STEP_END;
		return s;
	}
	if (plain(&row, &s))
		return s;
	if (u->rows_n >= MOST_ROWS)
		ws_unwinder_forget(u);
	ws_grow(u->rows, u->rows_cap, u->rows_n + 1);
	u->rows[u->rows_n] = row;
	s = (struct step){.kind = STEP_ROW,
			  .method = s.method,
			  .signal = row.signal,
			  .row = (uint32_t)u->rows_n++};
	return s;
}

static const struct step *step_of(struct ws_unwinder *u, struct ws_module *m, uint64_t address)
{
	uint64_t h = (address ^ (uint64_t)m->number << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct far_slot *slot = &u->far[h >> 48];
	struct step s;

	if (slot->module == m && slot->address == address)
		return &slot->step;
	s = make_step(u, m, address); /* may clear the tables */
	*slot = (struct far_slot){m, address, s};
	return &slot->step;
}

/*
 * What makes a new stack puts the address of a function that never returns where a return address
 * belongs (makecontext and
 * __start_context): no call stands before it, but padding or another function, and it is itself.
 * Told by its rules, or by there being none for what stands before.
 */
static bool begins_outermost(struct ws_module *m, uint64_t address, const struct step *before)
{
	struct ws_cfi *c = ws_module_cfi(m);
	struct ws_cfi_row row;

	return c && ws_cfi_find(c, address, &row) && row.begin == address &&
	       (before->kind == STEP_NONE || row.reg[row.return_register].kind == WS_CFI_UNDEFINED);
}

/* Where `ip` is (`back`: the byte before it) and what to do there. `spare` is used when nothing may
 * be kept. */
static const struct near_slot *look_up(struct ws_unwinder *u, struct ws_maps_process *maps,
				       uint64_t time, uint64_t ip, bool back,
				       struct near_slot *spare)
{
	uint64_t version = ws_maps_version(maps, time);
	struct near_slot *slot;
	struct ws_mapping *m;

	ip -= back;
	slot = version ? &u->near[((ip ^ version * 0x5bd1e995u) * UINT64_C(0x9e3779b97f4a7c15)) >>
				  51]
		       : spare;
	if (version && slot->version == version && slot->ip == ip)
		return slot;
	m = ws_maps_find(maps, time, ip);
	memset(spare, 0, sizeof(*spare));
	spare->ip = ip;
	spare->version = version;
	spare->address = ip;
	if (m) {
		spare->module = m->module;
		spare->address = ip - m->shift;
		spare->step = *step_of(u, m->module, spare->address);
		if (back && begins_outermost(m->module, spare->address + 1, &spare->step)) {
			spare->address++;
			spare->step = (struct step){.kind = STEP_END, .method = spare->step.method};
		}
	}
	if (slot != spare && m)
		*slot = *spare;
	return spare;
}

/* ---- one step outwards ---- */

static bool load(struct walk *w, uint64_t address, uint64_t *value)
{
	const struct ws_stop *s = w->stop;
	uint64_t at = address - s->stack_at;

	if (ws_likely(at < s->stack_size && s->stack_size - at >= 8)) {
		memcpy(value, s->stack + at, 8);
		return true;
	}
	if (address >= s->stack_at && address - s->stack_at < (UINT64_C(1) << 32))
		w->beyond = true;
	return false;
}

static bool load_sized(void *ctx, uint64_t address, unsigned bytes, uint64_t *value)
{
	if (!load(ctx, address, value))
		return false;
	if (bytes < 8)
		*value &= (UINT64_C(1) << 8 * bytes) - 1;
	return true;
}

static uint64_t code_address(uint64_t v)
{
#if defined(__aarch64__)
	return v & UINT64_C(0x0000ffffffffffff); /* the signature of a return address lies in the
						    bits above */
#else
	return v;
#endif
}

/* What a call keeps: the rest is not known any more in the caller. */
static uint64_t kept_registers(void)
{
	uint64_t kept = UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_IP;

	for (unsigned i = 0; i < SAVED; i++)
		kept |= UINT64_C(1) << callee_saved[i];
	return kept;
}

static bool step_plain(struct walk *w, const struct step *s)
{
	struct ws_regs *r = &w->regs;
	uint64_t cfa = r->r[s->cfa_register] + (uint64_t)(int64_t)s->cfa_offset, ra;

	if (!(r->known >> s->cfa_register & 1) ||
	    !load(w, cfa + (uint64_t)(int64_t)s->return_offset, &ra))
		return false;
	for (unsigned i = 0; i < s->saved_n; i++) {
		uint64_t at = cfa + (uint64_t)(int64_t)s->saved_offset[i];

		/* Below the stack: the function is about to return and has its caller's value back
		 * already, which the rules do not tell. */
		if ((r->known >> WS_REG_SP & 1) && at < r->r[WS_REG_SP])
			continue;
		if (!load(w, at, &r->r[s->saved[i]]))
			return false;
		r->known |= UINT64_C(1) << s->saved[i];
	}
	r->r[WS_REG_SP] = cfa;
	r->r[WS_REG_IP] = code_address(ra);
	r->known &= kept_registers();
	return true;
}

static bool restore(struct walk *w, const struct ws_cfi_rule *rule, unsigned i, uint64_t cfa,
		    struct ws_regs *new)
{
	const struct ws_regs *old = &w->regs;
	uint64_t v = old->r[i], at;

	switch (rule->kind) {
	case WS_CFI_SAME:
		if (!(old->known >> i & 1))
			return false;
		break;
	case WS_CFI_OFFSET:
		if (!load(w, cfa + (uint64_t)rule->offset, &v))
			return false;
		break;
	case WS_CFI_VALUE:
		v = cfa + (uint64_t)rule->offset;
		break;
	case WS_CFI_REGISTER:
		if (rule->offset < 0 || rule->offset >= WS_REGS ||
		    !(old->known >> rule->offset & 1))
			return false;
		v = old->r[rule->offset];
		break;
	case WS_CFI_EXPRESSION:
		if (!ws_cfi_evaluate(rule->code, rule->size, old, true, cfa, load_sized, w, &at) ||
		    !load(w, at, &v))
			return false;
		break;
	case WS_CFI_VALUE_EXPRESSION:
		if (!ws_cfi_evaluate(rule->code, rule->size, old, true, cfa, load_sized, w, &v))
			return false;
		break;
	default:
		return false;
	}
	new->r[i] = v;
	new->known |= UINT64_C(1) << i;
	return true;
}

static bool step_row(struct walk *w, const struct ws_cfi_row *row)
{
	struct ws_regs new = {.known = 0};
	uint64_t cfa;

	if (row->cfa_kind == WS_CFI_VALUE) {
		if (!(w->regs.known >> row->cfa_register & 1))
			return false;
		cfa = w->regs.r[row->cfa_register] + (uint64_t)row->cfa.offset;
	} else if (!ws_cfi_evaluate(row->cfa.code, row->cfa.size, &w->regs, false, 0, load_sized, w,
				    &cfa)) {
		return false;
	}
	for (unsigned i = 0; i < WS_REGS; i++)
		if (i != row->return_register &&
		    !(i == WS_REG_SP && row->reg[i].kind == WS_CFI_SAME))
			restore(w, &row->reg[i], i, cfa, &new);
	if (!restore(w, &row->reg[row->return_register], row->return_register, cfa, &new))
		return false;
	if (row->reg[WS_REG_SP].kind == WS_CFI_SAME) {
		new.r[WS_REG_SP] = cfa;
		new.known |= UINT64_C(1) << WS_REG_SP;
	}
	new.r[WS_REG_IP] = code_address(new.r[row->return_register]);
	new.known |= UINT64_C(1) << WS_REG_IP;
	if (!row->signal)
		new.known &= kept_registers();
	w->regs = new;
	w->exact = row->signal;
	return new.known >> WS_REG_SP & 1;
}

/* The caller's address above the saved frame pointer: only upwards, and only into code. */
static bool step_fp(struct walk *w)
{
	struct ws_regs *r = &w->regs;
	uint64_t fp = r->r[WS_REG_FP], next, ra;

	if (!(r->known >> WS_REG_FP & 1) || fp < r->r[WS_REG_SP] || (fp & 7) ||
	    !load(w, fp, &next) || !load(w, fp + 8, &ra))
		return false;
	ra = code_address(ra);
	if (!ra || !ws_maps_find(w->stop->maps, w->stop->time, ra - 1))
		return false;
	r->r[WS_REG_SP] = fp + 16;
	r->r[WS_REG_FP] = next;
	r->r[WS_REG_IP] = ra;
	r->known = UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_FP | UINT64_C(1) << WS_REG_IP;
	return true;
}

/* To the caller: 1; 0 when there is none; -1 when it cannot be found. *method: how. */
static int step(struct walk *w, const struct near_slot *here, uint8_t *method)
{
	uint64_t sp = w->regs.r[WS_REG_SP];
	bool interrupted = w->exact, signal = false;

	w->exact = false;
	*method = here->step.method;
	if (here->step.kind == STEP_END)
		return 0;
	if (w->mode == WS_MODE_FP || here->step.kind == STEP_NONE) {
		*method = WS_UNWIND_FP;
		if (w->mode == WS_MODE_DWARF &&
		    (!here->module || here->module->kind == WS_MODULE_FILE))
			return -1;
		/* An outermost function by convention: threads and processes begin with a frame
		 * pointer of 0. */
		if ((w->regs.known >> WS_REG_FP & 1) && !w->regs.r[WS_REG_FP])
			return 0;
		return step_fp(w) ? 1 : -1;
	}
	if (here->step.kind == STEP_PLAIN) {
		if (!step_plain(w, &here->step))
			return -1;
	} else {
		signal = here->step.signal;
		if (!step_row(w, &w->u->rows[here->step.row]))
			return -1;
	}
	if (!w->regs.r[WS_REG_IP])
		return 0;
	/* A caller's frame lies higher, but for what never moved the stack pointer, and for a
	 * handler on a stack of its own. */
	if (!signal && (w->regs.r[WS_REG_SP] < sp || (w->regs.r[WS_REG_SP] == sp && !interrupted)))
		return -1;
	return w->regs.r[WS_REG_SP] >= LOWEST_SP ? 1 : -1;
}

static uint8_t frame_kind(const struct ws_module *m)
{
	return m && m->kind == WS_MODULE_JIT ? WS_FRAME_JIT : WS_FRAME_USER;
}

/* The return address of frame `f` on the kernel's chain, the one nearest to as far out as ours
 * stands; 0 when it was not passed. */
static size_t on_chain(const struct ws_stop *s, const struct ws_caller *out, size_t f)
{
	size_t best = 0, distance = SIZE_MAX;

	for (size_t i = 1; i < s->chain_n; i++) {
		size_t d = i > f ? i - f : f - i;

		if (s->chain[i] == out[f].ip && d < distance) {
			best = i;
			distance = d;
		}
	}
	return best;
}

/* Is the outermost frame so far that of a function which a signal interrupted while its frame
 * pointer led to its own frame? Then what the kernel found behind the handler's return address is
 * where that function returns to. */
static bool interrupted_with_fp(struct walk *w, const struct ws_caller *out, size_t n)
{
	const struct ws_stop *s = w->stop;
	struct near_slot spare;
	const struct step *last;

	if (n < 3 || !look_up(w->u, s->maps, s->time, out[n - 2].ip, true, &spare)->step.signal)
		return false;
	last = &look_up(w->u, s->maps, s->time, out[n - 1].ip, false, &spare)->step;
	return last->kind == STEP_PLAIN && last->cfa_register == WS_REG_FP &&
	       last->cfa_offset == 16 && last->return_offset == -8;
}

/* Our walk ran out of stack: where the kernel's walk along frame pointers passed the same return
 * address, it goes on from there. A handler on an alternate stack has its interrupted function's
 * callers on another one, which is never among the copied bytes. Then no more is missing, and
 * *flags becomes 0. */
static size_t continue_with_chain(struct walk *w, struct ws_caller *out, size_t n, size_t most,
				  unsigned *flags)
{
	const struct ws_stop *s = w->stop;
	bool resumed = s->chain && interrupted_with_fp(w, out, n);
	size_t best;

	if (n < 2 || !s->chain ||
	    (!resumed && (!w->beyond || (out[n - 1].module && !keeps_fp(out[n - 1].module)))))
		return n;
	best = on_chain(s, out, n - 1 - resumed);
	if (!best || best + 1 >= s->chain_n)
		return n;
	for (size_t i = best + 1; i < s->chain_n && n < most; i++) {
		struct near_slot spare;
		const struct near_slot *here =
			look_up(w->u, s->maps, s->time, s->chain[i], true, &spare);

		out[n++] = (struct ws_caller){
			here->module, here->address, s->chain[i], 0, frame_kind(here->module),
			WS_UNWIND_FP};
	}
	*flags = 0;
	return n;
}

size_t ws_unwind(struct ws_unwinder *u, const struct ws_stop *stop, enum ws_unwind_mode mode,
		 struct ws_caller *out, size_t most, unsigned *flags)
{
	struct walk w = {.u = u, .stop = stop, .regs = stop->regs, .mode = mode, .exact = true};
	uint8_t method = WS_UNWIND_UNKNOWN;
	bool end = false;
	size_t n = 0;

	*flags = 0;
	while (n < most && n < WS_UNWIND_DEEPEST) {
		uint64_t ip = w.regs.r[WS_REG_IP], sp = w.regs.r[WS_REG_SP];
		struct near_slot spare;
		const struct near_slot *here =
			look_up(u, stop->maps, stop->time, ip, !w.exact, &spare);
		int r;

		if (n && !here->module) /* no code there: what led here was not a return address */
			break;
		out[n] = (struct ws_caller){
			here->module, here->address, ip, sp, frame_kind(here->module), method};
		/* What returns from a signal handler begins where the handler returns to: its
		 * information begins a byte before, its name does not. */
		if (!w.exact && here->step.signal)
			out[n].address++;
		n++;
		r = step(&w, here, &method);
		if (r <= 0) {
			end = !r;
			break;
		}
	}
	if (end)
		return n;
	if (n >= most || n >= WS_UNWIND_DEEPEST) {
		*flags = WS_SAMPLE_TRUNCATED;
		return n;
	}
	*flags = w.beyond ? WS_SAMPLE_TRUNCATED : WS_SAMPLE_BROKEN;
	return continue_with_chain(&w, out, n, most, flags);
}

size_t ws_unwind_chain(struct ws_unwinder *u, struct ws_maps_process *maps, uint64_t time,
		       const uint64_t *chain, size_t n, enum ws_unwind_method method,
		       struct ws_caller *out, size_t most)
{
	size_t made = 0;

	for (size_t i = 0; i < n && made < most; i++) {
		struct near_slot spare;
		const struct near_slot *here = look_up(u, maps, time, chain[i], i != 0, &spare);

		if (i && !here->module)
			break;
		out[made++] = (struct ws_caller){here->module,
						 here->address,
						 chain[i],
						 0,
						 frame_kind(here->module),
						 (uint8_t)(i ? method : WS_UNWIND_UNKNOWN)};
	}
	return made;
}

struct ws_caller ws_unwind_kernel(struct ws_modules *modules, uint64_t ip)
{
	return (struct ws_caller){
		ws_modules_kernel(modules), ip, ip, 0, WS_FRAME_KERNEL, WS_UNWIND_KERNEL};
}

void ws_regs_from_perf(struct ws_regs *regs, uint64_t mask, const uint64_t *values, uint32_t n)
{
#if defined(__x86_64__)
	static const int8_t dwarf[64] = {0,  3,	 2,  1,	 4, 5, 6,  7,  16, -1, -1, -1,
					 -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15};
	const unsigned most = 24;
#else
	const unsigned most = WS_REGS;
#endif
	uint32_t at = 0;

	memset(regs, 0, sizeof(*regs));
	for (unsigned bit = 0; bit < 64 && at < n; bit++) {
		int to = -1;

		if (!(mask >> bit & 1))
			continue;
#if defined(__x86_64__)
		if (bit < most)
			to = dwarf[bit];
#else
		if (bit < most)
			to = (int)bit;
#endif
		if (to >= 0) {
			regs->r[to] = values[at];
			regs->known |= UINT64_C(1) << to;
		}
		at++;
	}
}
