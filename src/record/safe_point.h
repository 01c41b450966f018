/*
 * safe_point.h - whether the loader may be called on a stopped thread where it is: it must hold
 * neither the loader's nor the allocator's locks.
 */
#ifndef WS_RECORD_SAFE_POINT_H
#define WS_RECORD_SAFE_POINT_H

#include "base/err.h"
#include "record/call_inside.h"

struct ws_process_code;

/* Read what code the process has and where, before any of its threads is stopped. NULL with a
 * message when libraries cannot be loaded into it. */
struct ws_process_code *ws_process_code_read(int pid, struct ws_err *err);
void ws_process_code_free(struct ws_process_code *code);

/* Address in the process of the C library's dlopen, and of code that calls rt_sigreturn; 0 where
 * there is none. */
uint64_t ws_process_code_dlopen(const struct ws_process_code *code);
uint64_t ws_process_code_sigreturn(const struct ws_process_code *code);
/* The mode with which that dlopen binds everything at once. */
int ws_process_code_dlopen_mode(const struct ws_process_code *code);

/* Whether the thread may call the loader where it is. *stack_low gets the lowest address of its
 * stack. */
bool ws_is_safe_point(struct ws_process_code *code, const struct ws_inside *inside,
		      uint64_t *stack_low);

#endif
