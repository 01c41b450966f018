/*
 * safe_point.h - whether a stopped thread stands where the loader may be called on it: it holds
 * neither the loader's nor the allocator's locks.
 */
#ifndef WS_RECORD_SAFE_POINT_H
#define WS_RECORD_SAFE_POINT_H

#include "base/err.h"
#include "record/call_inside.h"

struct ws_process_code;

/* Read what code the process has and where: before anything of it is stopped. NULL with a message
 * where it cannot be a program into which libraries can be loaded. */
struct ws_process_code *ws_process_code_read(int pid, struct ws_err *err);
void ws_process_code_free(struct ws_process_code *code);

/* Address in the process of the C library's dlopen, and of code that calls rt_sigreturn; 0 where
 * there is none. */
uint64_t ws_process_code_dlopen(const struct ws_process_code *code);
uint64_t ws_process_code_sigreturn(const struct ws_process_code *code);
/* The number that makes that dlopen bind everything at once. */
int ws_process_code_dlopen_mode(const struct ws_process_code *code);

/* Whether the thread may call the loader where it stands. *stack_low gets the lowest address of its
 * stack. */
bool ws_is_safe_point(struct ws_process_code *code, const struct ws_inside *inside,
		      uint64_t *stack_low);

#endif
