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
	struct ws_unwinder *unwinder;
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

void ws_unwinder_free(struct ws_unwinder *unwinder)
{
	if (!unwinder)
		return;
	free(unwinder->rows);
	free(unwinder);
}

void ws_unwinder_forget(struct ws_unwinder *unwinder)
{
	memset(unwinder->near, 0, sizeof(unwinder->near));
	memset(unwinder->far, 0, sizeof(unwinder->far));
	unwinder->rows_n = 0;
}

/* ---- modules ---- */

struct ws_cfi *ws_module_cfi(struct ws_module *module)
{
	if (!module->cfi_tried) {
		module->cfi_tried = true;
		module->cfi = module->opened ? ws_cfi_new(&module->elf) : NULL;
	}
	return module->cfi;
}

/* Do the functions of the module keep frame pointers? Looked up once. */
static bool keeps_fp(struct ws_module *module)
{
	if (!module->fp_known) {
		struct ws_cfi *cfi = ws_module_cfi(module);

		module->fp_known = true;
		/* What says nothing about its frames (Go, generated code) is given the benefit of
		 * the doubt. */
		module->has_fp =
			cfi ? ws_cfi_keeps_fp(cfi)
			    : module->kind == WS_MODULE_FILE || module->kind == WS_MODULE_JIT;
	}
	return module->has_fp;
}

/* ---- rules ---- */

static bool fits(int64_t v)
{
	return v >= INT16_MIN && v <= INT16_MAX;
}

static bool plain(const struct ws_cfi_row *row, struct step *step)
{
	const struct ws_cfi_rule *ra = &row->reg[row->return_register];

	if (row->cfa_kind != WS_CFI_VALUE || row->signal || ra->kind != WS_CFI_OFFSET ||
	    !fits(ra->offset) || row->cfa.offset < INT32_MIN || row->cfa.offset > INT32_MAX)
		return false;
	step->kind = STEP_PLAIN;
	step->cfa_register = row->cfa_register;
	step->cfa_offset = (int32_t)row->cfa.offset;
	step->return_offset = (int16_t)ra->offset;
	for (unsigned i = 0; i < SAVED; i++) {
		const struct ws_cfi_rule *rule = &row->reg[callee_saved[i]];

		if (rule->kind == WS_CFI_SAME)
			continue;
		if (rule->kind != WS_CFI_OFFSET || !fits(rule->offset))
			return false;
		step->saved[step->saved_n] = callee_saved[i];
		step->saved_offset[step->saved_n++] = (int16_t)rule->offset;
	}
	return true;
}

static struct step make_step(struct ws_unwinder *unwinder, struct ws_module *module,
			     uint64_t address)
{
	struct ws_cfi *cfi = ws_module_cfi(module);
	struct step step = {.kind = STEP_NONE};
	struct ws_cfi_row row;

	if (!cfi || !ws_cfi_find(cfi, address, &row))
		return step;
	step.method = row.debug ? WS_UNWIND_DEBUG : WS_UNWIND_EH;
	step.signal = row.signal;
	if (row.reg[row.return_register].kind == WS_CFI_UNDEFINED) {
		step.kind = STEP_END;
		return step;
	}
	if (plain(&row, &step))
		return step;
	if (unwinder->rows_n >= MOST_ROWS)
		ws_unwinder_forget(unwinder);
	ws_grow(unwinder->rows, unwinder->rows_cap, unwinder->rows_n + 1);
	unwinder->rows[unwinder->rows_n] = row;
	step = (struct step){.kind = STEP_ROW,
			     .method = step.method,
			     .signal = row.signal,
			     .row = (uint32_t)unwinder->rows_n++};
	return step;
}

static const struct step *step_of(struct ws_unwinder *unwinder, struct ws_module *module,
				  uint64_t address)
{
	uint64_t h = (address ^ (uint64_t)module->number << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct far_slot *slot = &unwinder->far[h >> 48];
	struct step step;

	if (slot->module == module && slot->address == address)
		return &slot->step;
	step = make_step(unwinder, module, address); /* may clear the tables */
	*slot = (struct far_slot){module, address, step};
	return &slot->step;
}

/*
 * What makes a new stack puts the address of a function that never returns where a return address
 * belongs (makecontext and
 * __start_context): no call stands before it, but padding or another function, and it is itself.
 * Told by its rules, or by there being none for what stands before.
 */
static bool begins_outermost(struct ws_module *module, uint64_t address, const struct step *before)
{
	struct ws_cfi *cfi = ws_module_cfi(module);
	struct ws_cfi_row row;

	return cfi && ws_cfi_find(cfi, address, &row) && row.begin == address &&
	       (before->kind == STEP_NONE || row.reg[row.return_register].kind == WS_CFI_UNDEFINED);
}

/* Where `ip` is (`back`: the byte before it) and what to do there. `spare` is used when nothing may
 * be kept. */
static const struct near_slot *look_up(struct ws_unwinder *unwinder, struct ws_maps_process *maps,
				       uint64_t time, uint64_t ip, bool back,
				       struct near_slot *spare)
{
	uint64_t version = ws_maps_version(maps, time);
	struct near_slot *slot;
	struct ws_mapping *mapping;

	ip -= back;
	slot = version ? &unwinder->near[((ip ^ version * 0x5bd1e995u) *
					  UINT64_C(0x9e3779b97f4a7c15)) >>
					 51]
		       : spare;
	if (version && slot->version == version && slot->ip == ip)
		return slot;
	mapping = ws_maps_find(maps, time, ip);
	memset(spare, 0, sizeof(*spare));
	spare->ip = ip;
	spare->version = version;
	spare->address = ip;
	if (mapping) {
		spare->module = mapping->module;
		spare->address = ip - mapping->shift;
		spare->step = *step_of(unwinder, mapping->module, spare->address);
		if (back && begins_outermost(mapping->module, spare->address + 1, &spare->step)) {
			spare->address++;
			spare->step = (struct step){.kind = STEP_END, .method = spare->step.method};
		}
	}
	if (slot != spare && mapping)
		*slot = *spare;
	return spare;
}

/* ---- one step outwards ---- */

static bool load(struct walk *walk, uint64_t address, uint64_t *value)
{
	const struct ws_stop *stop = walk->stop;
	uint64_t at = address - stop->stack_at;

	if (ws_likely(at < stop->stack_size && stop->stack_size - at >= 8)) {
		memcpy(value, stop->stack + at, 8);
		return true;
	}
	if (address >= stop->stack_at && address - stop->stack_at < (UINT64_C(1) << 32))
		walk->beyond = true;
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

static bool step_plain(struct walk *walk, const struct step *step)
{
	struct ws_regs *regs = &walk->regs;
	uint64_t cfa = regs->r[step->cfa_register] + (uint64_t)(int64_t)step->cfa_offset, ra;

	if (!(regs->known >> step->cfa_register & 1) ||
	    !load(walk, cfa + (uint64_t)(int64_t)step->return_offset, &ra))
		return false;
	for (unsigned i = 0; i < step->saved_n; i++) {
		uint64_t at = cfa + (uint64_t)(int64_t)step->saved_offset[i];

		/* Below the stack: the function is about to return and has its caller's value back
		 * already, which the rules do not tell. */
		if ((regs->known >> WS_REG_SP & 1) && at < regs->r[WS_REG_SP])
			continue;
		if (!load(walk, at, &regs->r[step->saved[i]]))
			return false;
		regs->known |= UINT64_C(1) << step->saved[i];
	}
	regs->r[WS_REG_SP] = cfa;
	regs->r[WS_REG_IP] = code_address(ra);
	regs->known &= kept_registers();
	return true;
}

static bool restore(struct walk *walk, const struct ws_cfi_rule *rule, unsigned i, uint64_t cfa,
		    struct ws_regs *new)
{
	const struct ws_regs *old = &walk->regs;
	uint64_t v = old->r[i], at;

	switch (rule->kind) {
	case WS_CFI_SAME:
		if (!(old->known >> i & 1))
			return false;
		break;
	case WS_CFI_OFFSET:
		if (!load(walk, cfa + (uint64_t)rule->offset, &v))
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
		if (!ws_cfi_evaluate(rule->code, rule->size, old, true, cfa, load_sized, walk,
				     &at) ||
		    !load(walk, at, &v))
			return false;
		break;
	case WS_CFI_VALUE_EXPRESSION:
		if (!ws_cfi_evaluate(rule->code, rule->size, old, true, cfa, load_sized, walk, &v))
			return false;
		break;
	default:
		return false;
	}
	new->r[i] = v;
	new->known |= UINT64_C(1) << i;
	return true;
}

static bool step_row(struct walk *walk, const struct ws_cfi_row *row)
{
	struct ws_regs new = {.known = 0};
	uint64_t cfa;

	if (row->cfa_kind == WS_CFI_VALUE) {
		if (!(walk->regs.known >> row->cfa_register & 1))
			return false;
		cfa = walk->regs.r[row->cfa_register] + (uint64_t)row->cfa.offset;
	} else if (!ws_cfi_evaluate(row->cfa.code, row->cfa.size, &walk->regs, false, 0, load_sized,
				    walk, &cfa)) {
		return false;
	}
	for (unsigned i = 0; i < WS_REGS; i++)
		if (i != row->return_register &&
		    !(i == WS_REG_SP && row->reg[i].kind == WS_CFI_SAME))
			restore(walk, &row->reg[i], i, cfa, &new);
	if (!restore(walk, &row->reg[row->return_register], row->return_register, cfa, &new))
		return false;
	if (row->reg[WS_REG_SP].kind == WS_CFI_SAME) {
		new.r[WS_REG_SP] = cfa;
		new.known |= UINT64_C(1) << WS_REG_SP;
	}
	new.r[WS_REG_IP] = code_address(new.r[row->return_register]);
	new.known |= UINT64_C(1) << WS_REG_IP;
	if (!row->signal)
		new.known &= kept_registers();
	walk->regs = new;
	walk->exact = row->signal;
	return new.known >> WS_REG_SP & 1;
}

/* The caller's address above the saved frame pointer: only upwards, and only into code. */
static bool step_fp(struct walk *walk)
{
	struct ws_regs *regs = &walk->regs;
	uint64_t fp = regs->r[WS_REG_FP], next, ra;

	if (!(regs->known >> WS_REG_FP & 1) || fp < regs->r[WS_REG_SP] || (fp & 7) ||
	    !load(walk, fp, &next) || !load(walk, fp + 8, &ra))
		return false;
	ra = code_address(ra);
	if (!ra || !ws_maps_find(walk->stop->maps, walk->stop->time, ra - 1))
		return false;
	regs->r[WS_REG_SP] = fp + 16;
	regs->r[WS_REG_FP] = next;
	regs->r[WS_REG_IP] = ra;
	regs->known =
		UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_FP | UINT64_C(1) << WS_REG_IP;
	return true;
}

/* To the caller: 1; 0 when there is none; -1 when it cannot be found. *method: how. */
static int step(struct walk *walk, const struct near_slot *here, uint8_t *method)
{
	uint64_t sp = walk->regs.r[WS_REG_SP];
	bool interrupted = walk->exact, signal = false;

	walk->exact = false;
	*method = here->step.method;
	if (here->step.kind == STEP_END)
		return 0;
	if (walk->mode == WS_MODE_FP || here->step.kind == STEP_NONE) {
		*method = WS_UNWIND_FP;
		if (walk->mode == WS_MODE_DWARF &&
		    (!here->module || here->module->kind == WS_MODULE_FILE))
			return -1;
		/* An outermost function by convention: threads and processes begin with a frame
		 * pointer of 0. */
		if ((walk->regs.known >> WS_REG_FP & 1) && !walk->regs.r[WS_REG_FP])
			return 0;
		return step_fp(walk) ? 1 : -1;
	}
	if (here->step.kind == STEP_PLAIN) {
		if (!step_plain(walk, &here->step))
			return -1;
	} else {
		signal = here->step.signal;
		if (!step_row(walk, &walk->unwinder->rows[here->step.row]))
			return -1;
	}
	if (!walk->regs.r[WS_REG_IP])
		return 0;
	/* A caller's frame lies higher, but for what never moved the stack pointer, and for a
	 * handler on a stack of its own. */
	if (!signal &&
	    (walk->regs.r[WS_REG_SP] < sp || (walk->regs.r[WS_REG_SP] == sp && !interrupted)))
		return -1;
	return walk->regs.r[WS_REG_SP] >= LOWEST_SP ? 1 : -1;
}

static uint8_t frame_kind(const struct ws_module *module)
{
	return module && module->kind == WS_MODULE_JIT ? WS_FRAME_JIT : WS_FRAME_USER;
}

/* The return address of frame `f` on the kernel's chain, the one nearest to as far out as ours
 * stands; 0 when it was not passed. */
static size_t on_chain(const struct ws_stop *stop, const struct ws_caller *out, size_t f)
{
	size_t best = 0, distance = SIZE_MAX;

	for (size_t i = 1; i < stop->chain_n; i++) {
		size_t d = i > f ? i - f : f - i;

		if (stop->chain[i] == out[f].ip && d < distance) {
			best = i;
			distance = d;
		}
	}
	return best;
}

/* Is the outermost frame so far that of a function which a signal interrupted while its frame
 * pointer led to its own frame? Then what the kernel found behind the handler's return address is
 * where that function returns to. */
static bool interrupted_with_fp(struct walk *walk, const struct ws_caller *out, size_t n)
{
	const struct ws_stop *stop = walk->stop;
	struct near_slot spare;
	const struct step *last;

	if (n < 3 || !look_up(walk->unwinder, stop->maps, stop->time, out[n - 2].ip, true, &spare)
			      ->step.signal)
		return false;
	last = &look_up(walk->unwinder, stop->maps, stop->time, out[n - 1].ip, false, &spare)->step;
	return last->kind == STEP_PLAIN && last->cfa_register == WS_REG_FP &&
	       last->cfa_offset == 16 && last->return_offset == -8;
}

/* Our walk ran out of stack: where the kernel's walk along frame pointers passed the same return
 * address, it goes on from there. A handler on an alternate stack has its interrupted function's
 * callers on another one, which is never among the copied bytes. Then no more is missing, and
 * *flags becomes 0. */
static size_t continue_with_chain(struct walk *walk, struct ws_caller *out, size_t n, size_t most,
				  unsigned *flags)
{
	const struct ws_stop *stop = walk->stop;
	bool resumed = stop->chain && interrupted_with_fp(walk, out, n);
	size_t best;

	if (n < 2 || !stop->chain ||
	    (!resumed && (!walk->beyond || (out[n - 1].module && !keeps_fp(out[n - 1].module)))))
		return n;
	best = on_chain(stop, out, n - 1 - resumed);
	if (!best || best + 1 >= stop->chain_n)
		return n;
	for (size_t i = best + 1; i < stop->chain_n && n < most; i++) {
		struct near_slot spare;
		const struct near_slot *here = look_up(walk->unwinder, stop->maps, stop->time,
						       stop->chain[i], true, &spare);

		out[n++] = (struct ws_caller){
			here->module, here->address, stop->chain[i], 0, frame_kind(here->module),
			WS_UNWIND_FP};
	}
	*flags = 0;
	return n;
}

size_t ws_unwind(struct ws_unwinder *unwinder, const struct ws_stop *stop, enum ws_unwind_mode mode,
		 struct ws_caller *out, size_t most, unsigned *flags)
{
	struct walk walk = {.unwinder = unwinder,
			    .stop = stop,
			    .regs = stop->regs,
			    .mode = mode,
			    .exact = true};
	uint8_t method = WS_UNWIND_UNKNOWN;
	bool end = false;
	size_t n = 0;

	*flags = 0;
	while (n < most && n < WS_UNWIND_DEEPEST) {
		uint64_t ip = walk.regs.r[WS_REG_IP], sp = walk.regs.r[WS_REG_SP];
		struct near_slot spare;
		const struct near_slot *here =
			look_up(unwinder, stop->maps, stop->time, ip, !walk.exact, &spare);
		int r;

		if (n && !here->module) /* no code there: what led here was not a return address */
			break;
		out[n] = (struct ws_caller){
			here->module, here->address, ip, sp, frame_kind(here->module), method};
		/* What returns from a signal handler begins where the handler returns to: its
		 * information begins a byte before, its name does not. */
		if (!walk.exact && here->step.signal)
			out[n].address++;
		n++;
		r = step(&walk, here, &method);
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
	*flags = walk.beyond ? WS_SAMPLE_TRUNCATED : WS_SAMPLE_BROKEN;
	return continue_with_chain(&walk, out, n, most, flags);
}

size_t ws_unwind_chain(struct ws_unwinder *unwinder, struct ws_maps_process *maps, uint64_t time,
		       const uint64_t *chain, size_t n, enum ws_unwind_method method,
		       struct ws_caller *out, size_t most)
{
	size_t made = 0;

	for (size_t i = 0; i < n && made < most; i++) {
		struct near_slot spare;
		const struct near_slot *here =
			look_up(unwinder, maps, time, chain[i], i != 0, &spare);

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
