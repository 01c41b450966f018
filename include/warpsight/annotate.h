/*
 * warpsight/annotate.h - mark what your program does, for the profiler to show. One file, C99 or
 * C++11, no library.
 *
 *     #include <warpsight/annotate.h>
 *
 *     ws_range_push("load batch");            // ranges nest, per thread
 *     ...
 *     ws_range_pop();
 *
 *     ws_range_id r = ws_range_start("job");  // may end anywhere, on any thread
 *     ...
 *     ws_range_end(r);
 *
 *     ws_mark("cache flushed");               // a moment
 *     ws_name_thread("loader");
 *
 *     ws_start();                             // from here on: warpsight profile -c program
 *     ...
 *     ws_stop();
 *
 *     WS_RANGE("solve");                      // GCC, Clang: until the end of the block, whatever
 * leaves it ws::range guard("solve");               // the same in C++
 *
 * Domains keep a library's annotations apart from others'; registered strings are looked up once
 * instead of at each use; a ws_event carries colour, category and a number beside the text:
 *
 *     static ws_domain d; static ws_string name;
 *     d = ws_domain_create("mylib");
 *     name = ws_string_register(d, "decode");
 *     ws_event e = ws_event_registered(d, name);
 *     e.color = 0xff00aa00; e.has_color = 1;
 *     ws_event_int(&e, 42);
 *     ws_range_push_event(&e);
 *     ws_range_pop_in(d);
 *
 * It speaks the injection protocol of NVTX 3: on the first call the library named by the
 * environment variable NVTX_INJECTION64_PATH is loaded, if there is one, and its functions are
 * called from then on. So annotations show under `warpsight profile` and under any other tool for
 * NVTX, and the CUDA toolkit is not needed. With no tool a call costs a load or two and a branch.
 *
 * May be included in any number of source files and shared libraries, also beside NVTX itself; each
 * program or library has its own table of functions, as with NVTX. Link with -ldl where the C
 * library is older than glibc 2.34. All functions may be called from any thread. Texts are UTF-8,
 * NUL-terminated, copied by the tool if it keeps them. NULL is no text. Define WS_ANNOTATE_OFF
 * before including to compile every call to nothing.
 */
#ifndef WARPSIGHT_ANNOTATE_H
#define WARPSIGHT_ANNOTATE_H

#include <stddef.h>
#include <stdint.h>
#ifndef WS_ANNOTATE_OFF
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __cplusplus
extern "C" {
#elif !defined(WS_ANNOTATE_OFF)
extern long syscall(long number,
		    ...); /* unistd.h hides it from programs that ask for ISO C alone */
#endif

/* ---- types ---- */

typedef struct ws_domain_handle *ws_domain; /* NULL is the default domain */
typedef struct ws_string_handle *ws_string; /* NULL is no text */
typedef uint64_t ws_range_id;		    /* 0 is no range */

/* What push and pop give when no tool keeps count. */
#define WS_NO_TOOL (-2)

enum ws_payload_kind {
	WS_PAYLOAD_NONE = 0,
	WS_PAYLOAD_UINT64 = 1,
	WS_PAYLOAD_INT64 = 2,
	WS_PAYLOAD_DOUBLE = 3
};

/* An event with all that it may carry. Make it with ws_event_text or ws_event_registered, then set
 * what you need. */
typedef struct ws_event {
	ws_domain domain;
	const char *text; /* used unless `name` is set */
	ws_string name;
	uint32_t category; /* 0 for none; ws_category_name names it */
	uint32_t color;	   /* 0xAARRGGBB, counts when has_color is set */
	int has_color;
	enum ws_payload_kind payload_kind;
	union {
		uint64_t u;
		int64_t i;
		double d;
	} payload;
} ws_event;

#ifndef WS_ANNOTATE_OFF
/* ---- the protocol ---- */

/*
 * The tool asks for "export tables" by number; number 1 gives the table of functions of each
 * module: an array with the address of each function pointer, which the tool sets to functions of
 * its own. We use the modules 1 and 5; the others exist so that a tool which fills them in finds
 * room.
 */
typedef void (*ws_annotate_fn)(void);

struct ws_annotate_event { /* as the protocol lays it out */
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

enum { WS_ANNOTATE_MODULES = 7, WS_ANNOTATE_SLOTS = 17 };

struct ws_annotate_callbacks {
	size_t size;
	int (*module)(int, ws_annotate_fn ***, unsigned *);
};
struct ws_annotate_versions {
	size_t size;
	uint32_t version, reserved;
	void (*set)(uint32_t);
};

/*
 * Begins as NVTX's own tables do: a tool that is loaded into a program that runs already finds them
 * by that.
 */
struct ws_annotate_state {
	int ready; /* 0 not tried, 1 being tried, 2 done */
	struct ws_annotate_callbacks callbacks;
	struct ws_annotate_versions versions;
	ws_annotate_fn fn[WS_ANNOTATE_MODULES][WS_ANNOTATE_SLOTS];
	ws_annotate_fn *table[WS_ANNOTATE_MODULES][WS_ANNOTATE_SLOTS];
};

extern __attribute__((visibility("hidden"))) struct ws_annotate_state ws_annotate_state_v2;

static inline int ws_annotate_module(int module, ws_annotate_fn ***table, unsigned *slots)
{
	int i;

	/* How many slots each module has, with the unused slot 0. */
	static const unsigned char counts[WS_ANNOTATE_MODULES] = {0, 16, 9, 15, 7, 16, 7};

	if (module <= 0 || module >= WS_ANNOTATE_MODULES)
		return 0;
	for (i = 1; i < WS_ANNOTATE_SLOTS; i++)
		ws_annotate_state_v2.table[module][i] = &ws_annotate_state_v2.fn[module][i];
	if (table)
		*table = ws_annotate_state_v2.table[module];
	if (slots)
		*slots = counts[module];
	return 1;
}

static inline void ws_annotate_version(uint32_t version)
{
	(void)version;
}

/* One in each program or shared library, whatever number of its files include this. */
__attribute__((weak, visibility("hidden"))) struct ws_annotate_state ws_annotate_state_v2 = {
	0,
	{sizeof(struct ws_annotate_callbacks), ws_annotate_module},
	{sizeof(struct ws_annotate_versions), 3, 0, ws_annotate_version},
	{{NULL}},
	{{NULL}},
};

static inline const void *ws_annotate_export(uint32_t table)
{
	if (table == 1)
		return &ws_annotate_state_v2.callbacks;
	if (table == 3)
		return &ws_annotate_state_v2.versions;
	return NULL;
}

/* Load the tool. A tool that fails or refuses (returns 0) leaves everything off. */
static inline void ws_annotate_load(struct ws_annotate_state *annotate_state)
{
	typedef int (*init_fn)(const void *(*)(uint32_t));
	const char *path =
		getenv(sizeof(void *) == 4 ? "NVTX_INJECTION32_PATH" : "NVTX_INJECTION64_PATH");
	void *lib = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
	union {
		void *symbol;
		init_fn fn;
	} init;
	int m, i;

	if (!lib)
		return;
	init.symbol = dlsym(lib, "InitializeInjectionNvtx2");
	if (init.symbol && init.fn(ws_annotate_export))
		return;
	for (m = 0; m < WS_ANNOTATE_MODULES; m++)
		for (i = 0; i < WS_ANNOTATE_SLOTS; i++)
			annotate_state->fn[m][i] = NULL;
	dlclose(lib);
}

__attribute__((weak, visibility("hidden"), noinline, cold)) void ws_annotate_init_v2(void)
{
	struct ws_annotate_state *annotate_state = &ws_annotate_state_v2;
	int fresh = 0;

	if (__atomic_compare_exchange_n(&annotate_state->ready, &fresh, 1, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		ws_annotate_load(annotate_state);
		__atomic_store_n(&annotate_state->ready, 2, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&annotate_state->ready, __ATOMIC_ACQUIRE) != 2)
		sched_yield();
}

static inline ws_annotate_fn ws_annotate_get(int module, int slot)
{
	if (__builtin_expect(__atomic_load_n(&ws_annotate_state_v2.ready, __ATOMIC_ACQUIRE) != 2,
			     0))
		ws_annotate_init_v2();
	return ws_annotate_state_v2.fn[module][slot];
}

static inline struct ws_annotate_event ws_annotate_make(const ws_event *event)
{
	struct ws_annotate_event annotate_event;

	annotate_event.version = 3;
	annotate_event.size = (uint16_t)sizeof(annotate_event);
	annotate_event.category = event->category;
	annotate_event.color_type = event->has_color ? 1 : 0;
	annotate_event.color = event->color;
	annotate_event.payload_type = (int32_t)event->payload_kind;
	annotate_event.reserved = 0;
	annotate_event.payload = event->payload.u;
	annotate_event.message_type = event->name ? 3 : event->text ? 1 : 0;
	annotate_event.message =
		event->name ? (const void *)event->name : (const void *)event->text;
	return annotate_event;
}

/* Call the tool's function in (module, slot) of type fn_type, or go on when there is none. */
#define WS_ANNOTATE_TRY(module, slot, fn_type, ...)                             \
	do {                                                                    \
		fn_type ws_annotate_f = (fn_type)ws_annotate_get(module, slot); \
		if (ws_annotate_f)                                              \
			__VA_ARGS__;                                            \
	} while (0)
#endif /* WS_ANNOTATE_OFF */

/* ---- events ---- */

static inline ws_event ws_event_text(ws_domain domain, const char *text)
{
	ws_event event;

	event.domain = domain;
	event.text = text;
	event.name = NULL;
	event.category = 0;
	event.color = 0;
	event.has_color = 0;
	event.payload_kind = WS_PAYLOAD_NONE;
	event.payload.u = 0;
	return event;
}

static inline ws_event ws_event_registered(ws_domain domain, ws_string name)
{
	ws_event event = ws_event_text(domain, NULL);

	event.name = name;
	return event;
}

static inline void ws_event_int(ws_event *event, int64_t v)
{
	event->payload_kind = WS_PAYLOAD_INT64;
	event->payload.i = v;
}

static inline void ws_event_uint(ws_event *event, uint64_t v)
{
	event->payload_kind = WS_PAYLOAD_UINT64;
	event->payload.u = v;
}

static inline void ws_event_double(ws_event *event, double v)
{
	event->payload_kind = WS_PAYLOAD_DOUBLE;
	event->payload.d = v;
}

/* ---- ranges that nest ---- */

#ifndef WS_ANNOTATE_OFF

/* Open a range in the default domain. Gives its level, from 0, or a negative number when nobody
 * listens. */
static inline int ws_range_push(const char *text)
{
	typedef int (*fn)(const char *);

	WS_ANNOTATE_TRY(1, 9, fn, return ws_annotate_f(text));
	return WS_NO_TOOL;
}

/* Close the innermost range of the default domain. Gives its level. */
static inline int ws_range_pop(void)
{
	typedef int (*fn)(void);

	WS_ANNOTATE_TRY(1, 11, fn, return ws_annotate_f());
	return WS_NO_TOOL;
}

static inline int ws_range_push_event(const ws_event *event)
{
	typedef int (*fn)(ws_domain, const struct ws_annotate_event *);

	WS_ANNOTATE_TRY(5, 4, fn, {
		struct ws_annotate_event annotate_event = ws_annotate_make(event);
		return ws_annotate_f(event->domain, &annotate_event);
	});
	return WS_NO_TOOL;
}

/* Open a range of domain `d` with a registered text. */
static inline int ws_range_push_in(ws_domain domain, ws_string name)
{
	ws_event event = ws_event_registered(domain, name);

	return ws_range_push_event(&event);
}

/* Close the innermost range of domain `d`. */
static inline int ws_range_pop_in(ws_domain domain)
{
	typedef int (*fn)(ws_domain);

	WS_ANNOTATE_TRY(5, 5, fn, return ws_annotate_f(domain));
	return WS_NO_TOOL;
}

/* ---- ranges that do not ---- */

static inline ws_range_id ws_range_start(const char *text)
{
	typedef ws_range_id (*fn)(const char *);

	WS_ANNOTATE_TRY(1, 5, fn, return ws_annotate_f(text));
	return 0;
}

static inline ws_range_id ws_range_start_event(const ws_event *event)
{
	typedef ws_range_id (*fn)(ws_domain, const struct ws_annotate_event *);

	WS_ANNOTATE_TRY(5, 2, fn, {
		struct ws_annotate_event annotate_event = ws_annotate_make(event);
		return ws_annotate_f(event->domain, &annotate_event);
	});
	return 0;
}

/* End a range that ws_range_start gave, on any thread. */
static inline void ws_range_end(ws_range_id id)
{
	typedef void (*fn)(ws_range_id);

	WS_ANNOTATE_TRY(1, 7, fn, ws_annotate_f(id));
}

/* End a range that ws_range_start_event gave. */
static inline void ws_range_end_in(ws_domain domain, ws_range_id id)
{
	typedef void (*fn)(ws_domain, ws_range_id);

	WS_ANNOTATE_TRY(5, 3, fn, ws_annotate_f(domain, id));
}

/* ---- moments ---- */

static inline void ws_mark(const char *text)
{
	typedef void (*fn)(const char *);

	WS_ANNOTATE_TRY(1, 2, fn, ws_annotate_f(text));
}

static inline void ws_mark_event(const ws_event *event)
{
	typedef void (*fn)(ws_domain, const struct ws_annotate_event *);

	WS_ANNOTATE_TRY(5, 1, fn, {
		struct ws_annotate_event annotate_event = ws_annotate_make(event);
		ws_annotate_f(event->domain, &annotate_event);
	});
}

/* ---- collections ---- */

/*
 * Begin and end what `warpsight profile --capture-range=program` collects; in effect when the call
 * returns. They do nothing without warpsight, with another capture range, or when it is so already.
 */
static inline void ws_collect_turn(int on)
{
	typedef void (*fn)(int);
	static fn turn;
	static int looked;
	union {
		void *symbol;
		fn function;
	} found;

	if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
		found.symbol = dlsym(NULL, "warpsight_collect"); /* in all that is loaded */
		__atomic_store_n(&turn, found.function, __ATOMIC_RELAXED);
		__atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
	}
	if (__atomic_load_n(&turn, __ATOMIC_RELAXED))
		__atomic_load_n(&turn, __ATOMIC_RELAXED)(on);
}

static inline void ws_start(void)
{
	ws_collect_turn(1);
}

static inline void ws_stop(void)
{
	ws_collect_turn(0);
}

/* ---- names ---- */

/* A domain, made once and kept. NULL when nobody listens, which is as good. */
static inline ws_domain ws_domain_create(const char *name)
{
	typedef ws_domain (*fn)(const char *);

	WS_ANNOTATE_TRY(5, 12, fn, return ws_annotate_f(name));
	return NULL;
}

static inline void ws_domain_destroy(ws_domain domain)
{
	typedef void (*fn)(ws_domain);

	WS_ANNOTATE_TRY(5, 14, fn, ws_annotate_f(domain));
}

/* Register a text for use in domain `d`. */
static inline ws_string ws_string_register(ws_domain domain, const char *text)
{
	typedef ws_string (*fn)(ws_domain, const char *);

	WS_ANNOTATE_TRY(5, 10, fn, return ws_annotate_f(domain, text));
	return NULL;
}

/* Name category `id` (not 0) of domain `d`. */
static inline void ws_category_name(ws_domain domain, uint32_t id, const char *name)
{
	typedef void (*fn)(ws_domain, uint32_t, const char *);

	WS_ANNOTATE_TRY(5, 8, fn, ws_annotate_f(domain, id, name));
}

/* Name the calling thread. */
static inline void ws_name_thread(const char *name)
{
	typedef void (*fn)(uint32_t, const char *);

	WS_ANNOTATE_TRY(1, 14, fn, ws_annotate_f((uint32_t)syscall(SYS_gettid), name));
}

#else /* WS_ANNOTATE_OFF */

static inline int ws_range_push(const char *text)
{
	(void)text;
	return WS_NO_TOOL;
}
static inline int ws_range_pop(void)
{
	return WS_NO_TOOL;
}
static inline int ws_range_push_event(const ws_event *e)
{
	(void)e;
	return WS_NO_TOOL;
}
static inline int ws_range_push_in(ws_domain d, ws_string name)
{
	(void)d;
	(void)name;
	return WS_NO_TOOL;
}
static inline int ws_range_pop_in(ws_domain d)
{
	(void)d;
	return WS_NO_TOOL;
}
static inline ws_range_id ws_range_start(const char *text)
{
	(void)text;
	return 0;
}
static inline ws_range_id ws_range_start_event(const ws_event *e)
{
	(void)e;
	return 0;
}
static inline void ws_range_end(ws_range_id id)
{
	(void)id;
}
static inline void ws_range_end_in(ws_domain d, ws_range_id id)
{
	(void)d;
	(void)id;
}
static inline void ws_mark(const char *text)
{
	(void)text;
}
static inline void ws_mark_event(const ws_event *e)
{
	(void)e;
}
static inline void ws_start(void)
{
}
static inline void ws_stop(void)
{
}
static inline ws_domain ws_domain_create(const char *name)
{
	(void)name;
	return NULL;
}
static inline void ws_domain_destroy(ws_domain d)
{
	(void)d;
}
static inline ws_string ws_string_register(ws_domain d, const char *text)
{
	(void)d;
	(void)text;
	return NULL;
}
static inline void ws_category_name(ws_domain d, uint32_t id, const char *name)
{
	(void)d;
	(void)id;
	(void)name;
}
static inline void ws_name_thread(const char *name)
{
	(void)name;
}

#endif

/* ---- ranges that close themselves ---- */

#if defined(__GNUC__)
static inline void ws_range_close(const int *level)
{
	(void)level;
	ws_range_pop();
}
#define WS_ANNOTATE_JOIN2(a, b) a##b
#define WS_ANNOTATE_JOIN(a, b) WS_ANNOTATE_JOIN2(a, b)
#define WS_RANGE(text)                                                         \
	__attribute__((cleanup(ws_range_close), unused)) int WS_ANNOTATE_JOIN( \
		ws_range_, __LINE__) = ws_range_push(text)
#endif

#ifdef __cplusplus
} /* extern "C" */

namespace ws
{
class range
{
      public:
	explicit range(const char *text) : domain_(nullptr)
	{
		ws_range_push(text);
	}
	range(ws_domain d, ws_string name) : domain_(d)
	{
		ws_range_push_in(d, name);
	}
	explicit range(const ws_event &e) : domain_(e.domain)
	{
		ws_range_push_event(&e);
	}
	~range()
	{
		ws_range_pop_in(domain_);
	}
	range(const range &) = delete;
	range &operator=(const range &) = delete;

      private:
	ws_domain domain_;
};
} // namespace ws
#endif

#endif
