/*
 * stack.h - copying the stack of a call that lasted, for the recorder to unwind.
 *
 * Nothing is unwound here: registers and some kilobytes of stack go into the ring, which takes
 * about two microseconds. The copy is made by the kernel (process_vm_readv of ourselves), which
 * stops where the stack does: how far coroutine and signal stacks reach is not known, and finding
 * out would cost more. Where that call is not allowed, the copy ends at the end of the page.
 */
#ifndef WS_INJECT_STACK_H
#define WS_INJECT_STACK_H

#include "inject/rt.h"
#include "ring/stack_record.h"

/*
 * Write the stack of the caller into the ring, at most `bytes` of it. Between enter and leave,
 * directly before the record that it belongs to. Nothing is counted as lost when there is no room.
 * False when nothing was written.
 */
WS_EXPORT bool ws_rt_write_stack(struct ws_thread *thread, enum ws_stack_of of, uint64_t key,
				 uint32_t bytes);
/* The same from the registers `regs`, in the order of WS_STACK_REG_NUMBERS: of this thread, where a
 * signal interrupted it. */
WS_EXPORT bool ws_rt_write_stack_from(struct ws_thread *thread, enum ws_stack_of of, uint64_t key,
				      uint32_t bytes, const uint64_t regs[WS_STACK_REGS]);

/* Write the process's address map, if it was not written yet or has changed, for the addresses that
 * are written next. Between enter and leave. */
WS_EXPORT void ws_rt_write_maps(struct ws_thread *thread);
/* Executable memory is about to be mapped: the next stack may need the map again. */
WS_EXPORT void ws_rt_note_maps_changed(void);

#endif
