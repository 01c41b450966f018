/*
 * nvtx_capture.c - NVTX ranges that begin and end collections (--capture-range=nvtx).
 *
 * Where such ranges may be looked for, functions of this file stand in the program's tables before
 * those of nvtx.c. A range of the name that is looked for opens a capture range first, so that it
 * is itself recorded, and closes it after it has ended. On a thread the outermost counts: it is
 * known by its domain and by its level there, which push and pop return. Start/end ranges are known
 * by their ids.
 */
#include "inject/capture.h"
#include "inject/nvtx_state.h"

enum { STARTED_MOST = 64 }; /* start/end ranges that are watched at once */

static _Atomic uint64_t started[STARTED_MOST]; /* their ids; 0: free */
static _Atomic uint32_t started_n;

/* ---- does the name match ---- */

static bool matches_domain(const struct nvtx_domain *domain)
{
	const char *wanted = ws_rt->arena->capture.domain;

	if (!strcmp(wanted, "*"))
		return true;
	if (!domain || domain == &ws_nvtx_default)
		return !*wanted;
	return *wanted && domain->name && !strcmp(domain->name, wanted);
}

static bool matches_text(const char *text)
{
	return text && !strcmp(text, ws_rt->arena->capture.range);
}

static bool matches_wide(const wchar_t *text)
{
	struct nvtx_scratch scratch;
	bool matches;

	if (!text || !ws_nvtx_convert_to_utf8(&scratch, text))
		return false;
	matches = matches_text(scratch.p);
	ws_nvtx_close_scratch(&scratch);
	return matches;
}

static bool matches_event(const struct nx_event *event)
{
	const struct nvtx_string *string;

	if (!event || event->size < sizeof(*event))
		return false;
	switch (event->message_type) {
	case NX_MESSAGE_ASCII:
		return matches_text(event->message.ascii);
	case NX_MESSAGE_WIDE:
		return matches_wide(event->message.wide);
	case NX_MESSAGE_REGISTERED:
		string = event->message.registered;
		return string && string->magic == NVTX_STRING_MAGIC && matches_text(string->bytes);
	default:
		return false;
	}
}

static bool is_wanted(const struct nvtx_domain *domain)
{
	return ws_capture_wants(WS_TRIGGER_NVTX) && matches_domain(domain);
}

/* ---- ranges that nest ---- */

/* What stands behind a function of this file. Each slot of `watching` is one of nvtx.c's. */
static nx_fn find_original(unsigned module, unsigned slot)
{
	size_t i = 0;

	while (ws_nvtx_event_slots[i].module != module || ws_nvtx_event_slots[i].slot != slot)
		i++;
	return ws_nvtx_event_slots[i].fn;
}
/* Looked up once a place. */
#define ORIGINAL(type, module, slot)                                         \
	({                                                                   \
		static type *original;                                       \
		if (ws_unlikely(!original))                                  \
			original = (type *)find_original(NX_##module, slot); \
		original;                                                    \
	})

typedef int push_text_fn(const char *);
typedef int push_wide_fn(const wchar_t *);
typedef int push_event_fn(const struct nx_event *);
typedef int domain_push_fn(void *, const struct nx_event *);
typedef int pop_fn(void);
typedef int domain_pop_fn(void *);
typedef uint64_t start_text_fn(const char *);
typedef uint64_t start_wide_fn(const wchar_t *);
typedef uint64_t start_event_fn(const struct nx_event *);
typedef uint64_t domain_start_fn(void *, const struct nx_event *);
typedef void end_fn(uint64_t);
typedef void domain_end_fn(void *, uint64_t);

/* Before a push: whether this is the range of this thread to be watched. */
static bool open_pushed(void)
{
	struct ws_thread *thread = ws_self;

	if (thread && thread->capture)
		return false;
	ws_capture_open();
	return true;
}

static int watch_pushed(const struct nvtx_domain *domain, bool opened, int level)
{
	struct ws_thread *thread = ws_self;

	if (!opened)
		return level;
	if (!thread || level < 0) { /* nothing of it would be found again */
		ws_capture_close();
		return level;
	}
	thread->capture = domain;
	thread->capture_level = level;
	return level;
}

static int watch_popped(const struct nvtx_domain *domain, int level)
{
	struct ws_thread *thread = ws_self;

	if (ws_likely(!thread || thread->capture != domain || level != thread->capture_level))
		return level;
	thread->capture = NULL;
	ws_capture_close();
	return level;
}

static int push_utf8(const char *text)
{
	bool opened = is_wanted(NULL) && matches_text(text) && open_pushed();

	return watch_pushed(&ws_nvtx_default, opened,
			    ORIGINAL(push_text_fn, CORE, NX_PUSH_A)(text));
}

static int push_wide(const wchar_t *text)
{
	bool opened = is_wanted(NULL) && matches_wide(text) && open_pushed();

	return watch_pushed(&ws_nvtx_default, opened,
			    ORIGINAL(push_wide_fn, CORE, NX_PUSH_W)(text));
}

static int domain_push(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	bool opened = is_wanted(domain) && matches_event(event) && open_pushed();

	return watch_pushed(domain, opened,
			    ORIGINAL(domain_push_fn, CORE2, NX_D_PUSH_EX)(handle, event));
}

static int push_event(const struct nx_event *event)
{
	return domain_push(NULL, event);
}

static int pop_default(void)
{
	return watch_popped(&ws_nvtx_default, ORIGINAL(pop_fn, CORE, NX_POP)());
}

static int domain_pop(void *handle)
{
	return watch_popped(nvtx_domain_of(handle),
			    ORIGINAL(domain_pop_fn, CORE2, NX_D_POP)(handle));
}

/* ---- start/end ranges ---- */

static uint64_t watch_started(uint64_t id, bool opened)
{
	if (!opened)
		return id;
	for (int i = 0; id && i < STARTED_MOST; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&started[i], &none, id)) {
			atomic_fetch_add(&started_n, 1);
			return id;
		}
	}
	ws_capture_close(); /* it would not be found again */
	return id;
}

static void watch_ended(uint64_t id)
{
	if (ws_likely(!atomic_load_explicit(&started_n, memory_order_relaxed)) || !id)
		return;
	for (int i = 0; i < STARTED_MOST; i++) {
		uint64_t own = id;

		if (!atomic_compare_exchange_strong(&started[i], &own, 0))
			continue;
		atomic_fetch_sub(&started_n, 1);
		ws_capture_close();
		return;
	}
}

static bool open_started(void)
{
	ws_capture_open();
	return true;
}

static uint64_t start_utf8(const char *text)
{
	bool opened = is_wanted(NULL) && matches_text(text) && open_started();

	return watch_started(ORIGINAL(start_text_fn, CORE, NX_START_A)(text), opened);
}

static uint64_t start_wide(const wchar_t *text)
{
	bool opened = is_wanted(NULL) && matches_wide(text) && open_started();

	return watch_started(ORIGINAL(start_wide_fn, CORE, NX_START_W)(text), opened);
}

static uint64_t domain_start(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	bool opened = is_wanted(domain) && matches_event(event) && open_started();

	return watch_started(ORIGINAL(domain_start_fn, CORE2, NX_D_START_EX)(handle, event),
			     opened);
}

static uint64_t start_event(const struct nx_event *event)
{
	return domain_start(NULL, event);
}

static void end_default(uint64_t id)
{
	ORIGINAL(end_fn, CORE, NX_END)(id);
	watch_ended(id);
}

static void domain_end(void *handle, uint64_t id)
{
	ORIGINAL(domain_end_fn, CORE2, NX_D_END)(handle, id);
	watch_ended(id);
}

/* ---- standing before ---- */

#define SLOT(module, slot, fn)                 \
	{                                      \
		NX_##module, slot, (nx_fn)(fn) \
	}
/* One call a line. */
/* clang-format off */
static const struct nvtx_slot watching[] = {
	SLOT(CORE, NX_START_EX, start_event),
	SLOT(CORE, NX_START_A, start_utf8),
	SLOT(CORE, NX_START_W, start_wide),
	SLOT(CORE, NX_END, end_default),
	SLOT(CORE, NX_PUSH_EX, push_event),
	SLOT(CORE, NX_PUSH_A, push_utf8),
	SLOT(CORE, NX_PUSH_W, push_wide),
	SLOT(CORE, NX_POP, pop_default),
	SLOT(CORE2, NX_D_START_EX, domain_start),
	SLOT(CORE2, NX_D_END, domain_end),
	SLOT(CORE2, NX_D_PUSH_EX, domain_push),
	SLOT(CORE2, NX_D_POP, domain_pop),
};
/* clang-format on */

nx_fn ws_nvtx_get_function(const struct nvtx_slot *slot)
{
	for (size_t i = 0; ws_rt->features & WS_FEATURE_CAPTURE && i < WS_COUNT(watching); i++)
		if (watching[i].module == slot->module && watching[i].slot == slot->slot)
			return watching[i].fn;
	return slot->fn;
}
