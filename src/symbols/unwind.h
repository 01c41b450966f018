/*
 * unwind.h - from a thread that was stopped (registers, some bytes of its stack) to its call stack.
 *
 * Frame by frame: which module holds the address (maps.h), what its call frame information says
 * there (cfi.h), and the frame pointer where there is none, as in generated code. Rules are
 * remembered by address, so that a frame met before costs a look into a table and a few loads. A
 * stack deeper than the bytes that were copied goes on with the kernel's own walk of frame
 * pointers, when that was recorded and meets ours. Nothing is read but the arguments and the
 * modules' files; garbage gives short stacks, marked so. Used from one thread.
 */
#ifndef WS_SYMBOLS_UNWIND_H
#define WS_SYMBOLS_UNWIND_H

#include "symbols/maps.h"
#include "symbols/regs.h"

struct ws_unwinder;

enum ws_unwind_mode {
	WS_MODE_AUTO,  /* call frame information, else frame pointers */
	WS_MODE_DWARF, /* call frame information; frame pointers only in generated code */
	WS_MODE_FP,    /* frame pointers throughout */
};

struct ws_stop { /* a thread, stopped */
	struct ws_maps_process *maps;
	uint64_t time; /* session clock */
	struct ws_regs regs;
	const uint8_t *stack; /* what was copied from address stack_at on; NULL when nothing was */
	uint64_t stack_at;
	size_t stack_size;
	const uint64_t *chain; /* user addresses that the kernel found along frame pointers,
				  innermost (the ip) first; or NULL */
	size_t chain_n;
};

struct ws_caller {		  /* one frame */
	struct ws_module *module; /* NULL when the address lies in no known mapping */
	uint64_t address; /* in the module's counting; of callers, the last byte of the call: so
			     that it lies in the calling function and line */
	uint64_t ip, sp;  /* as in the process; sp is 0 where it was not known */
	uint8_t kind;	  /* enum ws_frame_kind */
	uint8_t method;	  /* enum ws_unwind_method: how it was found; UNKNOWN for the innermost */
};

#define WS_UNWIND_DEEPEST 1024

struct ws_unwinder *ws_unwinder_new(void);
void ws_unwinder_free(struct ws_unwinder *unwinder);
/* Forget all rules. To be called when modules are freed while the unwinder lives on. */
void ws_unwinder_forget(struct ws_unwinder *unwinder);

/*
 * The frames of `stop` from the innermost outwards, at most `most`, into `out`; returns how many.
 * *flags gets WS_SAMPLE_TRUNCATED when there were more than `most` or more bytes than copied,
 * WS_SAMPLE_BROKEN when no caller was found for another reason and the outermost function was not
 * reached, else 0.
 */
size_t ws_unwind(struct ws_unwinder *unwinder, const struct ws_stop *stop, enum ws_unwind_mode mode,
		 struct ws_caller *out, size_t most, unsigned *flags);
/* A chain of addresses that something else has found (frame pointers, LBR): the first is exact, the
 * others are return addresses. */
size_t ws_unwind_chain(struct ws_unwinder *unwinder, struct ws_maps_process *maps, uint64_t time,
		       const uint64_t *chain, size_t n, enum ws_unwind_method method,
		       struct ws_caller *out, size_t most);
/* A kernel address. */
struct ws_caller ws_unwind_kernel(struct ws_modules *modules, uint64_t ip);
/* Its call frame information, made when first asked for; NULL when it has none. */
struct ws_cfi *ws_module_cfi(struct ws_module *module);

#endif
