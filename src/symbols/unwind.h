/*
 * unwind.h - from a stopped thread (its registers, and some bytes of its stack) to its call stack.
 *
 * It goes frame by frame: find the module that holds the address (maps.h), and follow what its call
 * frame information says there (cfi.h), or the frame pointer where there is none, as in generated
 * code. Rules are kept by address, so that a known frame costs a table lookup and a few loads. A
 * stack deeper than the copied bytes is completed with the kernel's own walk of frame pointers, if
 * that was recorded and has a frame in common with ours. Nothing is read but the arguments and the
 * modules' files; garbage gives short stacks that are marked so. To be used from one thread.
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

/* A stopped thread. */
struct ws_stopped_thread {
	struct ws_maps_process *maps;
	uint64_t time; /* session clock */
	struct ws_regs regs;
	const uint8_t *stack; /* bytes copied from address stack_at on; NULL when none were */
	uint64_t stack_at;
	size_t stack_size;
	/* User addresses that the kernel found along frame pointers, innermost (the ip) first; or
	 * NULL. */
	const uint64_t *chain;
	size_t chain_count;
};

/* A frame. */
struct ws_unwound_frame {
	struct ws_module *module; /* NULL when the address is in no known mapping */
	/* In the module. In callers it is that of the call's last byte, so that it is in the
	 * calling function and line. */
	uint64_t address;
	uint64_t ip, sp; /* as in the process; sp is 0 where it is not known */
	uint8_t kind;	 /* enum ws_frame_kind */
	uint8_t method;	 /* enum ws_unwind_method: how it was found; UNKNOWN for the innermost */
};

#define WS_UNWIND_DEEPEST 1024

/* A frame of generated code, as its runtime lays it out. */
struct ws_generated_frame {
	bool interpreted; /* by its frame pointer; below that is the caller's stack pointer */
	uint32_t size;	  /* of others, bytes: the return address is at its end, the caller's frame
			   * pointer below that */
	uint64_t method;  /* of an interpreted one: an address that stands for its method; or 0 */
};
/* What is known of the frame that runs `ip`; false where nothing is. `word` is what lies three
 * words below the frame pointer, where interpreters keep their method; 0 where that is not known.
 */
typedef bool ws_frame_reader(void *ctx, const struct ws_module *module, uint64_t ip, uint64_t word,
			     struct ws_generated_frame *frame);

struct ws_unwinder *ws_unwinder_new(void);
/* Frames of generated code are first asked for here; without, or where nothing is known, their
 * frame pointers are followed. */
void ws_unwinder_set_reader(struct ws_unwinder *unwinder, ws_frame_reader *read, void *ctx);
void ws_unwinder_free(struct ws_unwinder *unwinder);
/* Forget all rules. Call it when modules are freed and the unwinder is kept. */
void ws_unwinder_forget_rules(struct ws_unwinder *unwinder);

/*
 * Find the frames of `stop`, from the innermost outwards and at most `most`, and write them to
 * `out`; returns how many. *flags gets WS_SAMPLE_TRUNCATED when there were more than `most`, or
 * more bytes of stack than were copied; WS_SAMPLE_BROKEN when the outermost function was not
 * reached for another reason; else 0.
 */
size_t ws_unwind_stack(struct ws_unwinder *unwinder, const struct ws_stopped_thread *stop,
		       enum ws_unwind_mode mode, struct ws_unwound_frame *out, size_t most,
		       unsigned *flags);
/* A chain of addresses that was found in another way (frame pointers, LBR): the first address is
 * exact, the others are return addresses. */
struct ws_unwind_chain {
	struct ws_maps_process *maps;
	uint64_t time; /* when they were in the process, session ns */
	const uint64_t *address;
	size_t count;
	enum ws_unwind_method method; /* that it was found by */
};
/* Its frames, at most `most`, into `out`; returns how many. */
size_t ws_unwind_chain(struct ws_unwinder *unwinder, const struct ws_unwind_chain *chain,
		       struct ws_unwound_frame *out, size_t most);
/* The frame of a kernel address. */
struct ws_unwound_frame ws_unwind_kernel(struct ws_modules *modules, uint64_t ip);
/* The call frame information of a module, read at the first call; NULL when it has none. */
struct ws_cfi *ws_module_get_cfi(struct ws_module *module);

#endif
