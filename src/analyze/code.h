/*
 * code.h - which code of the program a stack belongs to: the innermost function that the user
 * wrote, with its line, and the function that really ran.
 *
 * A function is the user's when it is in the program itself or in a library that is not the
 * system's; a Python function, when its file is neither in the standard library nor in an installed
 * package. Functions of Python come first: what a Python program does in native code belongs to the
 * line that asked for it. Where no frame is the user's, the innermost one counts.
 */
#ifndef WS_ANALYZE_CODE_H
#define WS_ANALYZE_CODE_H

#include "analyze/model.h"
#include "base/mem.h"

/* Libraries whose work is recognised whichever user function asked for it. */
enum ws_code_library {
	WS_LIBRARY_NONE,
	WS_LIBRARY_PACKING,   /* packs and sends data for other processes */
	WS_LIBRARY_COMPILING, /* generates code: torch.compile, Triton, NVRTC, Numba, JAX */
	WS_LIBRARY_LOOP,      /* calls coroutines: the event loop of asyncio */
};

enum { WS_CODE_DEEPEST = 256 }; /* frames of a stack that are looked at */

struct ws_code_place {
	uint32_t function, file, line; /* of the user's code; file and line 0 when not known */
	/* The function of a library that `function` called, or of the kernel where that ran; the
	 * same as `function` where its own code ran; 0: nothing is known. */
	uint32_t leaf;
	uint32_t called; /* the function of a library that `function` called; 0 for none */
	uint8_t python;	 /* `function` is of Python */
	uint8_t loader;	 /* called by a data loader, a framework's or the program's */
	uint8_t users;	 /* `function` is the user's, not only the best one available */
	uint8_t library; /* enum ws_code_library: the library that also called it */
	uint8_t work;	 /* what the functions that `function` called do, by works.h */
};

/* The compiler gives each kernel a function of the host with the same name, which launches it: the
 * user's code is where that is called. Call it before the others, when model->work is there. */
void ws_code_pass_over_stubs(const struct ws_model *model);
/* `frame` (0 for none) on top of the rows of `stack` (0 for none). */
struct ws_code_place ws_code_find_place(const struct ws_model *model, uint32_t frame,
					uint32_t stack);
/* The same for frames that the caller has listed (ws_stacks_list_frames), innermost first; at most
 * WS_CODE_DEEPEST. */
struct ws_code_place ws_code_place_frames(const struct ws_model *model, const uint32_t *frames,
					  size_t count);
/* The user's function that a thread began with, as its first samples show; 0 where none does. */
uint32_t ws_code_find_start(const struct ws_model *model, uint32_t thread);
/* Whether a place is the user's, or at least in no program or library of the system: false where
 * nothing is known. */
bool ws_code_is_users(const struct ws_model *model, const struct ws_code_place *place);
/* Whether the function at a place on a stack is the user's. */
bool ws_code_is_users_function(const struct ws_model *model, const struct ws_place *place);
/* Whether a process runs a program of the system that is not an interpreter of Python, Java or
 * JavaScript, whose program is the user's. */
bool ws_code_is_system_program(const struct ws_model *model, uint32_t process);
/* Whether a library, program or module of Python is the system's or installed. */
bool ws_code_is_system_path(const char *path);
/* Whether two are the same, and were called for the same work. */
bool ws_code_is_same_place(const struct ws_code_place *left, const struct ws_code_place *right);
/* "load_item (train.py:31)" or "compute, in memcpy"; "?" where nothing is known. */
void ws_code_put_place(const struct ws_model *model, const struct ws_code_place *place,
		       struct ws_text *text);

#endif
