/*
 * unwind.c - see unwind.h.
 *
 * There are two tables of rules, both direct-mapped and bounded. The key of the first is (version
 * of the process's map, address in the process), so that it does not need the map. That of the
 * second is (module, address in it); it serves all processes that map the module, and a process
 * whose map has changed. A miss in both costs about a microsecond of interpretation; a hit costs
 * some ten nanoseconds for each frame.
 *
 * Nearly all rules add an offset to a register and load saved registers near the CFA: they are kept
 * in a short form. The others (signal frames, PLT entries, realigned stacks) keep the whole row.
 */
#include "symbols/unwind.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "symbols/cfi.h"

#define NEAR_SLOTS 8192u
#define FAR_SLOTS 65536u
#define MOST_ROWS 16384u /* whole rows that are kept; when it is full, all are dropped */

#if defined(__x86_64__)
#define SAVED 6
static const uint8_t callee_saved[SAVED] = {3, 6, 12, 13, 14, 15};
#else
#define SAVED 12
static const uint8_t callee_saved[SAVED] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
#endif
#define LOWEST_SP 4096u

enum step_kind {
	STEP_NONE,  /* nothing is known: use the frame pointer, if anything */
	STEP_PLAIN, /* the short form */
	STEP_ROW,   /* rows[row] */
	STEP_END,   /* the outermost function */
};

struct unwind_step {
	uint8_t kind, cfa_register, saved_count, method;
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
	struct unwind_step step;
};

struct far_slot {
	struct ws_module *module;
	uint64_t address;
	struct unwind_step step;
};

struct ws_unwinder {
	struct near_slot near[NEAR_SLOTS];
	struct far_slot far[FAR_SLOTS];
	struct ws_cfi_row *rows;
	size_t row_count, row_capacity;
	ws_frame_reader *read_frame;
	void *reading;
};

struct stack_walk {
	struct ws_unwinder *unwinder;
	const struct ws_stopped_thread *stop;
	struct ws_regs regs;
	enum ws_unwind_mode mode;
	bool beyond; /* something above the copied bytes was needed */
	bool exact;  /* the ip is where the thread was, not a return address */
};

struct ws_unwinder *ws_unwinder_new(void)
{
	return ws_calloc(1, sizeof(struct ws_unwinder));
}

void ws_unwinder_set_reader(struct ws_unwinder *unwinder, ws_frame_reader *read, void *ctx)
{
	unwinder->read_frame = read;
	unwinder->reading = ctx;
}

void ws_unwinder_free(struct ws_unwinder *unwinder)
{
	if (!unwinder)
		return;
	free(unwinder->rows);
	free(unwinder);
}

void ws_unwinder_forget_rules(struct ws_unwinder *unwinder)
{
	memset(unwinder->near, 0, sizeof(unwinder->near));
	memset(unwinder->far, 0, sizeof(unwinder->far));
	unwinder->row_count = 0;
}

/* ---- modules ---- */

struct ws_cfi *ws_module_get_cfi(struct ws_module *module)
{
	if (!module->cfi_tried) {
		module->cfi_tried = true;
		if (module->opened)
			module->cfi = ws_cfi_new(&module->elf);
	}
	return module->cfi;
}

/* Whether the functions of the module keep frame pointers. This is determined once. */
static bool module_keeps_fp(struct ws_module *module)
{
	if (!module->fp_known) {
		struct ws_cfi *cfi = ws_module_get_cfi(module);

		module->fp_known = true;
		/* Modules without information about their frames (Go, generated code) get the
		 * benefit of the doubt. */
		if (cfi)
			module->has_fp = ws_cfi_keeps_fp(cfi);
		else
			module->has_fp =
				module->kind == WS_MODULE_FILE || module->kind == WS_MODULE_JIT;
	}
	return module->has_fp;
}

/* ---- rules ---- */

static bool fits_i16(int64_t offset)
{
	return offset >= INT16_MIN && offset <= INT16_MAX;
}

/* Put a row into the short form; false when it does not fit. */
static bool make_plain_step(const struct ws_cfi_row *row, struct unwind_step *step)
{
	const struct ws_cfi_rule *ra = &row->reg[row->return_register];

	if (row->cfa_kind != WS_CFI_VALUE || row->signal || ra->kind != WS_CFI_OFFSET ||
	    !fits_i16(ra->offset) || row->cfa.offset < INT32_MIN || row->cfa.offset > INT32_MAX)
		return false;
	step->kind = STEP_PLAIN;
	step->cfa_register = row->cfa_register;
	step->cfa_offset = (int32_t)row->cfa.offset;
	step->return_offset = (int16_t)ra->offset;
	for (unsigned i = 0; i < SAVED; i++) {
		const struct ws_cfi_rule *rule = &row->reg[callee_saved[i]];

		if (rule->kind == WS_CFI_SAME)
			continue;
		if (rule->kind != WS_CFI_OFFSET || !fits_i16(rule->offset))
			return false;
		step->saved[step->saved_count] = callee_saved[i];
		step->saved_offset[step->saved_count++] = (int16_t)rule->offset;
	}
	return true;
}

static struct unwind_step make_step(struct ws_unwinder *unwinder, struct ws_module *module,
				    uint64_t address)
{
	struct ws_cfi *cfi = ws_module_get_cfi(module);
	struct unwind_step step = {.kind = STEP_NONE};
	struct ws_cfi_row row;

	if (!cfi || !ws_cfi_find(cfi, address, &row))
		return step;
	step.method = WS_UNWIND_EH;
	if (row.debug)
		step.method = WS_UNWIND_DEBUG;
	step.signal = row.signal;
	if (row.reg[row.return_register].kind == WS_CFI_UNDEFINED) {
		step.kind = STEP_END;
		return step;
	}
	if (make_plain_step(&row, &step))
		return step;
	if (unwinder->row_count >= MOST_ROWS)
		ws_unwinder_forget_rules(unwinder);
	ws_grow(unwinder->rows, unwinder->row_capacity, unwinder->row_count + 1);
	unwinder->rows[unwinder->row_count] = row;
	step = (struct unwind_step){.kind = STEP_ROW,
				    .method = step.method,
				    .signal = row.signal,
				    .row = (uint32_t)unwinder->row_count++};
	return step;
}

static const struct unwind_step *find_step(struct ws_unwinder *unwinder, struct ws_module *module,
					   uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)module->number << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct far_slot *slot = &unwinder->far[hash >> 48];
	struct unwind_step step;

	if (slot->module == module && slot->address == address)
		return &slot->step;
	step = make_step(unwinder, module, address); /* may clear the tables */
	*slot = (struct far_slot){module, address, step};
	return &slot->step;
}

/*
 * Code that makes a new stack (makecontext) puts the address of a function that never returns
 * (__start_context) where a return address belongs. No call precedes it, but padding or another
 * function, and the frame is that function itself. It is recognised by its rules, or by there being
 * none for what precedes it.
 */
static bool is_outermost_entry(struct ws_module *module, uint64_t address,
			       const struct unwind_step *before)
{
	struct ws_cfi *cfi = ws_module_get_cfi(module);
	struct ws_cfi_row row;

	return cfi && ws_cfi_find(cfi, address, &row) && row.begin == address &&
	       (before->kind == STEP_NONE || row.reg[row.return_register].kind == WS_CFI_UNDEFINED);
}

/* Find the module and the rule of `ip`, or of the byte before it if `back`. `scratch` is used when
 * the result may not be kept. */
static const struct near_slot *find_rule(struct ws_unwinder *unwinder, struct ws_maps_process *maps,
					 uint64_t time, uint64_t ip, bool back,
					 struct near_slot *scratch)
{
	uint64_t version = ws_maps_get_version(maps, time);
	struct near_slot *slot;
	struct ws_mapping *mapping;

	ip -= back;
	slot = scratch;
	if (version) {
		uint64_t hash = (ip ^ version * 0x5bd1e995u) * UINT64_C(0x9e3779b97f4a7c15);

		slot = &unwinder->near[hash >> 51];
		if (slot->version == version && slot->ip == ip)
			return slot;
	}
	mapping = ws_maps_find_mapping(maps, time, ip);
	memset(scratch, 0, sizeof(*scratch));
	scratch->ip = ip;
	scratch->version = version;
	scratch->address = ip;
	if (mapping) {
		scratch->module = mapping->module;
		scratch->address = ip - mapping->shift;
		scratch->step = *find_step(unwinder, mapping->module, scratch->address);
		if (back &&
		    is_outermost_entry(mapping->module, scratch->address + 1, &scratch->step)) {
			scratch->address++;
			scratch->step = (struct unwind_step){.kind = STEP_END,
							     .method = scratch->step.method};
		}
	}
	if (slot != scratch && mapping)
		*slot = *scratch;
	return scratch;
}

/* ---- one step outwards ---- */

/* Load a word of the copied stack. */
static bool load_word(struct stack_walk *walk, uint64_t address, uint64_t *value)
{
	const struct ws_stopped_thread *stop = walk->stop;
	uint64_t at = address - stop->stack_at;

	if (ws_likely(at < stop->stack_size && stop->stack_size - at >= 8)) {
		memcpy(value, stop->stack + at, 8);
		return true;
	}
	if (address >= stop->stack_at && address - stop->stack_at < (UINT64_C(1) << 32))
		walk->beyond = true;
	return false;
}

static bool load_bytes(void *ctx, uint64_t address, unsigned bytes, uint64_t *value)
{
	if (!load_word(ctx, address, value))
		return false;
	if (bytes < 8)
		*value &= (UINT64_C(1) << 8 * bytes) - 1;
	return true;
}

static uint64_t strip_code_address(uint64_t value)
{
#if defined(__aarch64__)
	return value & UINT64_C(0x0000ffffffffffff); /* the bits above are its signature */
#else
	return value;
#endif
}

/* The registers that a call preserves, as a mask; the others are not known in the caller. */
static uint64_t get_kept_registers(void)
{
	uint64_t kept = UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_IP;

	for (unsigned i = 0; i < SAVED; i++)
		kept |= UINT64_C(1) << callee_saved[i];
	return kept;
}

static bool step_plain(struct stack_walk *walk, const struct unwind_step *step)
{
	struct ws_regs *regs = &walk->regs;
	uint64_t cfa = regs->values[step->cfa_register] + (uint64_t)(int64_t)step->cfa_offset, ra;

	if (!(regs->known >> step->cfa_register & 1) ||
	    !load_word(walk, cfa + (uint64_t)(int64_t)step->return_offset, &ra))
		return false;
	for (unsigned i = 0; i < step->saved_count; i++) {
		uint64_t at = cfa + (uint64_t)(int64_t)step->saved_offset[i];

		/* Below the stack: the function is about to return and has restored its caller's
		 * value already, which the rules do not say. */
		if ((regs->known >> WS_REG_SP & 1) && at < regs->values[WS_REG_SP])
			continue;
		if (!load_word(walk, at, &regs->values[step->saved[i]]))
			return false;
		regs->known |= UINT64_C(1) << step->saved[i];
	}
	regs->values[WS_REG_SP] = cfa;
	regs->values[WS_REG_IP] = strip_code_address(ra);
	regs->known &= get_kept_registers();
	return true;
}

/* Find the caller's value of a register. */
static bool restore_register(struct stack_walk *walk, const struct ws_cfi_rule *rule, unsigned reg,
			     uint64_t cfa, struct ws_regs *new)
{
	const struct ws_regs *old = &walk->regs;
	const struct ws_cfi_thread thread = {old, load_bytes, walk};
	uint64_t value = old->values[reg], at;

	switch (rule->kind) {
	case WS_CFI_SAME:
		if (!(old->known >> reg & 1))
			return false;
		break;
	case WS_CFI_OFFSET:
		if (!load_word(walk, cfa + (uint64_t)rule->offset, &value))
			return false;
		break;
	case WS_CFI_VALUE:
		value = cfa + (uint64_t)rule->offset;
		break;
	case WS_CFI_REGISTER:
		if (rule->offset < 0 || rule->offset >= WS_REGS ||
		    !(old->known >> rule->offset & 1))
			return false;
		value = old->values[rule->offset];
		break;
	case WS_CFI_EXPRESSION:
		if (!ws_cfi_evaluate(rule->code, rule->size, &thread, &cfa, &at) ||
		    !load_word(walk, at, &value))
			return false;
		break;
	case WS_CFI_VALUE_EXPRESSION:
		if (!ws_cfi_evaluate(rule->code, rule->size, &thread, &cfa, &value))
			return false;
		break;
	default:
		return false;
	}
	new->values[reg] = value;
	new->known |= UINT64_C(1) << reg;
	return true;
}

static bool step_row(struct stack_walk *walk, const struct ws_cfi_row *row)
{
	const struct ws_cfi_thread thread = {&walk->regs, load_bytes, walk};
	struct ws_regs new = {.known = 0};
	uint64_t cfa;

	if (row->cfa_kind == WS_CFI_VALUE) {
		if (!(walk->regs.known >> row->cfa_register & 1))
			return false;
		cfa = walk->regs.values[row->cfa_register] + (uint64_t)row->cfa.offset;
	} else if (!ws_cfi_evaluate(row->cfa.code, row->cfa.size, &thread, NULL, &cfa)) {
		return false;
	}
	for (unsigned i = 0; i < WS_REGS; i++)
		if (i != row->return_register &&
		    !(i == WS_REG_SP && row->reg[i].kind == WS_CFI_SAME))
			restore_register(walk, &row->reg[i], i, cfa, &new);
	if (!restore_register(walk, &row->reg[row->return_register], row->return_register, cfa,
			      &new))
		return false;
	if (row->reg[WS_REG_SP].kind == WS_CFI_SAME) {
		new.values[WS_REG_SP] = cfa;
		new.known |= UINT64_C(1) << WS_REG_SP;
	}
	new.values[WS_REG_IP] = strip_code_address(new.values[row->return_register]);
	new.known |= UINT64_C(1) << WS_REG_IP;
	if (!row->signal)
		new.known &= get_kept_registers();
	walk->regs = new;
	walk->exact = row->signal;
	return new.known >> WS_REG_SP & 1;
}

/* Take the caller's address from above the saved frame pointer: only upwards, and only into code.
 */
static bool step_fp(struct stack_walk *walk)
{
	struct ws_regs *regs = &walk->regs;
	uint64_t fp = regs->values[WS_REG_FP], next, ra;

	if (!(regs->known >> WS_REG_FP & 1) || fp < regs->values[WS_REG_SP] || (fp & 7) ||
	    !load_word(walk, fp, &next) || !load_word(walk, fp + 8, &ra))
		return false;
	ra = strip_code_address(ra);
	if (!ra || !ws_maps_find_mapping(walk->stop->maps, walk->stop->time, ra - 1))
		return false;
	regs->values[WS_REG_SP] = fp + 16;
	regs->values[WS_REG_FP] = next;
	regs->values[WS_REG_IP] = ra;
	regs->known =
		UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_FP | UINT64_C(1) << WS_REG_IP;
	return true;
}

/* Take the caller's address from the end of a frame, which must be of code. */
static bool step_over_frame(struct stack_walk *walk, uint64_t end, bool has_fp)
{
	struct ws_regs *regs = &walk->regs;
	uint64_t ra, fp = regs->values[WS_REG_FP];

	if (!load_word(walk, end - 8, &ra) || (has_fp && !load_word(walk, end - 16, &fp)))
		return false;
	ra = strip_code_address(ra);
	if (!ra || !ws_maps_find_mapping(walk->stop->maps, walk->stop->time, ra - 1))
		return false;
	regs->values[WS_REG_SP] = end;
	regs->values[WS_REG_FP] = fp;
	regs->values[WS_REG_IP] = ra;
	regs->known &= UINT64_C(1) << WS_REG_FP;
	regs->known |= UINT64_C(1) << WS_REG_SP | UINT64_C(1) << WS_REG_IP |
		       (has_fp ? UINT64_C(1) << WS_REG_FP : 0);
	return true;
}

/* A function that is just called or about to return has no frame but the return address. The code
 * of an interpreter is the same for all methods: `here` becomes the method that it runs. */
static bool step_generated(struct stack_walk *walk, const struct ws_module *module, bool exact,
			   struct ws_unwound_frame *here)
{
	struct ws_unwinder *unwinder = walk->unwinder;
	uint64_t sp = walk->regs.values[WS_REG_SP], fp = walk->regs.values[WS_REG_FP], sender,
		 word = 0;
	struct ws_generated_frame frame = {.method = 0};

	if (!unwinder->read_frame || !module || module->kind != WS_MODULE_JIT ||
	    !(walk->regs.known >> WS_REG_SP & 1))
		return false;
	if ((walk->regs.known >> WS_REG_FP & 1) && fp >= sp && !(fp & 7) &&
	    !load_word(walk, fp - 24, &word))
		word = 0;
	if (!unwinder->read_frame(unwinder->reading, module, walk->regs.values[WS_REG_IP], word,
				  &frame))
		return false;
	if (frame.interpreted) {
		if (frame.method)
			here->address = frame.method;
		if (!step_fp(walk))
			return false;
		if (load_word(walk, fp - 8, &sender) && sender >= fp + 16)
			walk->regs.values[WS_REG_SP] = sender;
		return true;
	}
	return step_over_frame(walk, sp + frame.size, true) ||
	       (exact && step_over_frame(walk, sp + 8, false));
}

/* Go from `frame` to its caller: 1; 0 when there is none; -1 when it cannot be found. *method says
 * how. */
static int step_outwards(struct stack_walk *walk, const struct near_slot *here,
			 struct ws_unwound_frame *frame, uint8_t *method)
{
	uint64_t sp = walk->regs.values[WS_REG_SP];
	bool interrupted = walk->exact, signal = false;

	walk->exact = false;
	*method = here->step.method;
	if (here->step.kind == STEP_END)
		return 0;
	if (walk->mode != WS_MODE_FP && here->step.kind == STEP_NONE &&
	    step_generated(walk, here->module, interrupted, frame)) {
		*method = WS_UNWIND_FP; /* there is no number for it */
		return 1;
	}
	if (walk->mode == WS_MODE_FP || here->step.kind == STEP_NONE) {
		*method = WS_UNWIND_FP;
		if (walk->mode == WS_MODE_DWARF &&
		    (!here->module || here->module->kind == WS_MODULE_FILE))
			return -1;
		/* An outermost function by convention: threads and processes begin with a frame
		 * pointer of 0. */
		if ((walk->regs.known >> WS_REG_FP & 1) && !walk->regs.values[WS_REG_FP])
			return 0;
		if (!step_fp(walk))
			return -1;
		return 1;
	}
	if (here->step.kind == STEP_PLAIN) {
		if (!step_plain(walk, &here->step))
			return -1;
	} else {
		signal = here->step.signal;
		if (!step_row(walk, &walk->unwinder->rows[here->step.row]))
			return -1;
	}
	if (!walk->regs.values[WS_REG_IP])
		return 0;
	/* A caller's frame is higher, except where the stack pointer has not moved yet, and for a
	 * handler on a stack of its own. */
	if (!signal && (walk->regs.values[WS_REG_SP] < sp ||
			(walk->regs.values[WS_REG_SP] == sp && !interrupted)))
		return -1;
	if (walk->regs.values[WS_REG_SP] < LOWEST_SP)
		return -1;
	return 1;
}

static uint8_t get_frame_kind(const struct ws_module *module)
{
	if (module && module->kind == WS_MODULE_JIT)
		return WS_FRAME_JIT;
	return WS_FRAME_USER;
}

/* Where the return address of frame number `frame` is on the kernel's chain, nearest to number
 * `frame` there; 0 when it is not on it. */
static size_t find_on_chain(const struct ws_stopped_thread *stop,
			    const struct ws_unwound_frame *out, size_t frame)
{
	size_t best = 0, distance = SIZE_MAX;

	for (size_t i = 1; i < stop->chain_count; i++) {
		size_t far = ws_max(i, frame) - ws_min(i, frame);

		if (stop->chain[i] == out[frame].ip && far < distance) {
			best = i;
			distance = far;
		}
	}
	return best;
}

/* Is the outermost frame so far that of a function which a signal interrupted while its frame
 * pointer pointed to its own frame? Then the address that the kernel found after the handler's
 * return address is where that function returns to. */
static bool interrupted_with_fp(struct stack_walk *walk, const struct ws_unwound_frame *out,
				size_t count)
{
	const struct ws_stopped_thread *stop = walk->stop;
	struct near_slot scratch;
	const struct unwind_step *last;

	if (count < 3 ||
	    !find_rule(walk->unwinder, stop->maps, stop->time, out[count - 2].ip, true, &scratch)
		     ->step.signal)
		return false;
	last = &find_rule(walk->unwinder, stop->maps, stop->time, out[count - 1].ip, false,
			  &scratch)
			->step;
	return last->kind == STEP_PLAIN && last->cfa_register == WS_REG_FP &&
	       last->cfa_offset == 16 && last->return_offset == -8;
}

/* Our walk ran out of stack: if the kernel's walk along frame pointers has the same return address,
 * continue with what follows it there. A handler on an alternate stack has the callers of the
 * interrupted function on another one, which is never among the copied bytes. Nothing is missing
 * then, and *flags becomes 0. */
static size_t continue_with_chain(struct stack_walk *walk, struct ws_unwound_frame *out,
				  size_t count, size_t most, unsigned *flags)
{
	const struct ws_stopped_thread *stop = walk->stop;
	bool resumed = stop->chain && interrupted_with_fp(walk, out, count);
	size_t best;

	if (count < 2 || !stop->chain ||
	    (!resumed &&
	     (!walk->beyond || (out[count - 1].module && !module_keeps_fp(out[count - 1].module)))))
		return count;
	best = find_on_chain(stop, out, count - 1 - resumed);
	if (!best || best + 1 >= stop->chain_count)
		return count;
	for (size_t i = best + 1; i < stop->chain_count && count < most; i++) {
		struct near_slot scratch;
		const struct near_slot *here = find_rule(walk->unwinder, stop->maps, stop->time,
							 stop->chain[i], true, &scratch);

		out[count++] = (struct ws_unwound_frame){here->module,
							 here->address,
							 stop->chain[i],
							 0,
							 get_frame_kind(here->module),
							 WS_UNWIND_FP};
	}
	*flags = 0;
	return count;
}

size_t ws_unwind_stack(struct ws_unwinder *unwinder, const struct ws_stopped_thread *stop,
		       enum ws_unwind_mode mode, struct ws_unwound_frame *out, size_t most,
		       unsigned *flags)
{
	struct stack_walk walk = {.unwinder = unwinder,
				  .stop = stop,
				  .regs = stop->regs,
				  .mode = mode,
				  .exact = true};
	uint8_t method = WS_UNWIND_UNKNOWN;
	bool end = false;
	size_t count = 0;

	*flags = 0;
	while (count < most && count < WS_UNWIND_DEEPEST) {
		uint64_t ip = walk.regs.values[WS_REG_IP], sp = walk.regs.values[WS_REG_SP];
		struct near_slot scratch;
		const struct near_slot *here =
			find_rule(unwinder, stop->maps, stop->time, ip, !walk.exact, &scratch);
		int found;

		if (count && !here->module) /* no code: it was not a return address */
			break;
		out[count] = (struct ws_unwound_frame){
			here->module, here->address, ip, sp, get_frame_kind(here->module), method};
		/* A signal handler returns to the first byte of a function, whose call frame
		 * information begins a byte earlier, but not its name. */
		if (!walk.exact && here->step.signal)
			out[count].address++;
		found = step_outwards(&walk, here, &out[count++], &method);
		if (found <= 0) {
			end = !found;
			break;
		}
	}
	if (end)
		return count;
	if (count >= most || count >= WS_UNWIND_DEEPEST) {
		*flags = WS_SAMPLE_TRUNCATED;
		return count;
	}
	*flags = WS_SAMPLE_BROKEN;
	if (walk.beyond)
		*flags = WS_SAMPLE_TRUNCATED;
	return continue_with_chain(&walk, out, count, most, flags);
}

size_t ws_unwind_chain(struct ws_unwinder *unwinder, const struct ws_unwind_chain *chain,
		       struct ws_unwound_frame *out, size_t most)
{
	size_t made = 0;

	for (size_t i = 0; i < chain->count && made < most; i++) {
		uint64_t address = chain->address[i];
		struct near_slot scratch;
		const struct near_slot *here =
			find_rule(unwinder, chain->maps, chain->time, address, i != 0, &scratch);

		if (i && !here->module)
			break;
		out[made++] = (struct ws_unwound_frame){
			here->module,	  here->address, address, 0, get_frame_kind(here->module),
			WS_UNWIND_UNKNOWN};
		if (i)
			out[made - 1].method = (uint8_t)chain->method;
	}
	return made;
}

struct ws_unwound_frame ws_unwind_kernel(struct ws_modules *modules, uint64_t ip)
{
	return (struct ws_unwound_frame){
		ws_modules_get_kernel(modules), ip, ip, 0, WS_FRAME_KERNEL, WS_UNWIND_KERNEL};
}

void ws_regs_from_perf(struct ws_regs *regs, uint64_t mask, const uint64_t *values, uint32_t count)
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
	for (unsigned bit = 0; bit < 64 && at < count; bit++) {
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
			regs->values[to] = values[at];
			regs->known |= UINT64_C(1) << to;
		}
		at++;
	}
}
