/*
 * late.c - see late.h. Runs on a thread of the program that was stopped where it holds no lock of
 * the loader or the allocator; all its signals are blocked meanwhile. Libraries stay open for good:
 * a thread may be inside one at any time.
 */
#include "inject/late.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/rt.h"

enum { LIBRARIES = 8 };

struct ws_late_state ws_late_state = {.version = WS_LATE_VERSION};
static void *libraries[LIBRARIES];

static void open_libraries(const char *path)
{
	void *(*open)(const char *, int) = ws_find_symbol("dlopen");

	for (int i = 0; open && *path && i < LIBRARIES; i++, path += strlen(path) + 1) {
		libraries[i] = open(path, RTLD_NOW | RTLD_LOCAL);
		if (libraries[i])
			ws_late_state.libraries |= 1u << i;
	}
}

static void call_each(const char *name)
{
	for (int i = 0; i < LIBRARIES; i++) {
		ws_late_fn *fn = libraries[i] ? ws_find_symbol_in(libraries[i], name) : NULL;

		if (fn)
			fn();
	}
}

static int32_t join_session(const char *text)
{
	if (ws_rt_is_in_session())
		return WS_LATE_BUSY;
	/* Before the libraries are opened: their constructors ask for the session's features. */
	if (!ws_rt_join(text))
		return WS_LATE_FAILED;
	open_libraries(text + strlen(text) + 1);
	if (ws_rt->features & WS_FEATURE_NVTX)
		ws_nvtx_attach_modules();
	call_each(WS_LATE_BEGIN);
	return WS_LATE_OK;
}

void ws_late_attach(const char *text)
{
	uint32_t calls = ws_late_state.calls;

	ws_late_state = (struct ws_late_state){.version = WS_LATE_VERSION, .calls = calls};
	ws_rt_late = true;
	ws_late_state.result = join_session(text);
	__atomic_store_n(&ws_late_state.calls, calls + 1, __ATOMIC_RELEASE);
}

void ws_late_detach(void)
{
	call_each(WS_LATE_END);
	ws_nvtx_detach_modules();
	ws_rt_end_session();
	__atomic_fetch_add(&ws_late_state.calls, 1, __ATOMIC_RELEASE);
}
