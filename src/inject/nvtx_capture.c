/*
 * nvtx_capture.c - NVTX ranges that begin and end collections (--capture-range=nvtx), and ranges
 * that the kernel hook measures or filters by.
 *
 * If such ranges may be wanted, the program's tables point to functions of this file, which call
 * those of nvtx.c. A range with the wanted name first opens a capture range, so that it is itself
 * recorded, and closes the capture range after it has ended. Only the outermost such range on a
 * thread counts. It is identified by its domain and its level there, which push and pop return.
 * Start/end ranges are identified by their ids.
 *
 * For the kernel hook, the names of open start/end ranges are kept, and it is told when a range has
 * opened or closed.
 */
#include <stdio.h>
#include <sys/syscall.h>

#include "inject/capture.h"
#include "inject/nvtx_state.h"

enum { STARTED_MOST = 64 }; /* maximum number of start/end ranges watched at once */

static _Atomic uint64_t started[STARTED_MOST]; /* their ids; 0: free */
static _Atomic uint32_t started_n;

/* ---- for the kernel hook ---- */

void (*_Atomic ws_nvtx_changed)(void);

/* The open start/end ranges of all threads; an id of 0 marks a free entry. */
static struct ws_nvtx_started names[STARTED_MOST];
static _Atomic bool names_busy;
#define NAME_RESERVED UINT64_MAX /* an id that is not yet known */
/* The entry that this thread has reserved, from 1. */
static __thread int reserved __attribute__((tls_model("initial-exec")));

static void lock_names(void)
{
	while (atomic_exchange(&names_busy, true))
		ws_raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static bool serves_kernels(void)
{
	return ws_rt->features & WS_FEATURE_KERNEL;
}

static void notify_kernels(void)
{
	void (*changed)(void) = atomic_load_explicit(&ws_nvtx_changed, memory_order_acquire);

	if (ws_unlikely(changed))
		changed();
}

/* Keep the name of a start/end range until its id is known. */
static void keep_name(const struct nvtx_domain *domain, const char *text)
{
	lock_names();
	for (int i = 0; i < STARTED_MOST && !reserved; i++)
		if (!names[i].id) {
			names[i].id = NAME_RESERVED;
			names[i].domain = domain ? domain->number : 0;
			snprintf(names[i].name, sizeof(names[i].name), "%s", text ? text : "");
			reserved = i + 1;
		}
	atomic_store(&names_busy, false);
}

static void note_started(uint64_t id)
{
	if (!reserved)
		return;
	lock_names();
	names[reserved - 1].id = id;
	reserved = 0;
	atomic_store(&names_busy, false);
	notify_kernels();
}

static void note_ended(uint64_t id)
{
	if (!serves_kernels() || !id)
		return;
	lock_names();
	for (int i = 0; i < STARTED_MOST; i++)
		if (names[i].id == id)
			names[i].id = 0;
	atomic_store(&names_busy, false);
	notify_kernels();
}

size_t ws_nvtx_list_started(struct ws_nvtx_started *out, size_t most)
{
	size_t count = 0;

	lock_names();
	for (int i = 0; i < STARTED_MOST && count < most; i++)
		if (names[i].id && names[i].id != NAME_RESERVED)
			out[count++] = names[i];
	atomic_store(&names_busy, false);
	return count;
}

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

/* The text of an event, in UTF-8; NULL for none. `scratch` is closed by the caller. */
static const char *read_text(const struct nx_event *event, struct nvtx_scratch *scratch)
{
	const struct nvtx_string *string;

	if (!event || event->size < sizeof(*event))
		return NULL;
	switch (event->message_type) {
	case NX_MESSAGE_ASCII:
		return event->message.ascii;
	case NX_MESSAGE_WIDE:
		return event->message.wide && ws_nvtx_convert_to_utf8(scratch, event->message.wide)
			       ? scratch->p
			       : NULL;
	case NX_MESSAGE_REGISTERED:
		string = event->message.registered;
		return string && string->magic == NVTX_STRING_MAGIC ? string->bytes : NULL;
	default:
		return NULL;
	}
}

/* Whether to watch a range that is about to open. If it begins a collection, the collection has
 * begun when this returns. */
static bool open_text(const struct nvtx_domain *domain, const char *text, bool pushed)
{
	struct ws_thread *thread = ws_self;

	if (serves_kernels()) {
		if (!pushed)
			keep_name(domain, text);
		return false;
	}
	/* Of nested ranges, the outermost on a thread counts. */
	if (!text || (pushed && thread && thread->capture) || !matches_domain(domain))
		return false;
	if (ws_capture_wants(WS_TRIGGER_STEPS))
		return ws_nvtx_open_step(domain, text);
	if (!ws_capture_wants(WS_TRIGGER_NVTX) || strcmp(text, ws_rt->arena->capture.range))
		return false;
	ws_capture_open();
	return true;
}

/* Whether the names of ranges matter. */
static bool reads_names(bool pushed)
{
	return ws_capture_wants(WS_TRIGGER_NVTX | WS_TRIGGER_STEPS) ||
	       (!pushed && serves_kernels());
}

static bool open_range(const struct nvtx_domain *domain, const char *text, bool pushed)
{
	return reads_names(pushed) && open_text(domain, text, pushed);
}

static bool open_wide(const wchar_t *text, bool pushed)
{
	const struct nx_event event = {
		.size = sizeof(event), .message_type = NX_MESSAGE_WIDE, .message.wide = text};
	struct nvtx_scratch scratch = {0};
	bool opened;

	if (!reads_names(pushed))
		return false;
	opened = open_text(NULL, read_text(&event, &scratch), pushed);
	ws_nvtx_close_scratch(&scratch);
	return opened;
}

static bool open_event(const struct nvtx_domain *domain, const struct nx_event *event, bool pushed)
{
	struct nvtx_scratch scratch = {0};
	bool opened;

	if (!reads_names(pushed))
		return false;
	opened = open_text(domain, read_text(event, &scratch), pushed);
	ws_nvtx_close_scratch(&scratch);
	return opened;
}

static void close_range(bool pushed)
{
	if (ws_capture_wants(WS_TRIGGER_STEPS))
		ws_nvtx_close_step(!pushed);
	else
		ws_capture_close();
}

/* ---- ranges that nest ---- */

/* The function of nvtx.c that a function of this file calls. Each slot of `watching` is one of
 * nvtx.c's. */
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

static int watch_pushed(const struct nvtx_domain *domain, bool opened, int level)
{
	struct ws_thread *thread = ws_self;

	notify_kernels();
	if (!opened)
		return level;
	if (!thread || level < 0) { /* its end could not be recognised */
		close_range(true);
		return level;
	}
	thread->capture = domain;
	thread->capture_level = level;
	return level;
}

static int watch_popped(const struct nvtx_domain *domain, int level)
{
	struct ws_thread *thread = ws_self;

	notify_kernels();
	if (ws_likely(!thread || thread->capture != domain || level != thread->capture_level))
		return level;
	thread->capture = NULL;
	close_range(true);
	return level;
}

static int push_utf8(const char *text)
{
	bool opened = open_range(NULL, text, true);

	return watch_pushed(&ws_nvtx_default, opened,
			    ORIGINAL(push_text_fn, CORE, NX_PUSH_A)(text));
}

static int push_wide(const wchar_t *text)
{
	bool opened = open_wide(text, true);

	return watch_pushed(&ws_nvtx_default, opened,
			    ORIGINAL(push_wide_fn, CORE, NX_PUSH_W)(text));
}

static int domain_push(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	bool opened = open_event(domain, event, true);

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
	note_started(id);
	if (!opened)
		return id;
	for (int i = 0; id && i < STARTED_MOST; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&started[i], &none, id)) {
			atomic_fetch_add(&started_n, 1);
			return id;
		}
	}
	close_range(false); /* otherwise its end could not be recognised */
	return id;
}

static void watch_ended(uint64_t id)
{
	note_ended(id);
	if (ws_likely(!atomic_load_explicit(&started_n, memory_order_relaxed)) || !id)
		return;
	for (int i = 0; i < STARTED_MOST; i++) {
		uint64_t own = id;

		if (!atomic_compare_exchange_strong(&started[i], &own, 0))
			continue;
		atomic_fetch_sub(&started_n, 1);
		close_range(false);
		return;
	}
}

static uint64_t start_utf8(const char *text)
{
	bool opened = open_range(NULL, text, false);

	return watch_started(ORIGINAL(start_text_fn, CORE, NX_START_A)(text), opened);
}

static uint64_t start_wide(const wchar_t *text)
{
	bool opened = open_wide(text, false);

	return watch_started(ORIGINAL(start_wide_fn, CORE, NX_START_W)(text), opened);
}

static uint64_t domain_start(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	bool opened = open_event(domain, event, false);

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

/* ---- replacing functions in the tables ---- */

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
	for (size_t i = 0;
	     ws_rt->features & (WS_FEATURE_CAPTURE | WS_FEATURE_KERNEL) && i < WS_COUNT(watching);
	     i++)
		if (watching[i].module == slot->module && watching[i].slot == slot->slot)
			return watching[i].fn;
	return slot->fn;
}
