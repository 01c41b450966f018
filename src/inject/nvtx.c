/*
 * nvtx.c - the NVTX hook: the functions that the program's NVTX calls reach.
 *
 * InitializeInjectionNvtx2 puts our functions into the tables of each program or library that
 * embeds NVTX and calls it on its first use; nvtx_abi.h says how. All of them share one state, so a
 * domain or string made through one table may be used through another.
 *
 * A push/pop range is one record, written at the pop: the push stores text, domain and start in the
 * thread's open-range stack, which lies in shared memory so that a kill, the end of a collection or
 * a live view finds what was open. So a pair costs two clock reads, a string lookup, one stack
 * entry and 24 bytes of ring. Less simple cases (deep ranges, ranges in another domain than the
 * range around them, ranges with a colour or payload) go through nvtx_stack.c and the functions
 * marked cold.
 *
 * Outside a collection the stack is kept and nothing is written: a range that opens before a
 * delayed start and closes after it is recorded. In a session that waits for a command, which may
 * never come, this is made as cheap as possible: see nvtx_idle.h. Start/end ranges need not nest
 * and may end on another thread: each end writes its own record and the recorder pairs them.
 */
#include "inject/nvtx_idle.h"
#include "inject/nvtx_state.h"
#include "schema/schema.h"

/* ---- push and pop ---- */

/* The idle case and the recording case are separate functions, so that the idle one need not save
 * registers for the other. Neither is cold. */
#define SEPARATE __attribute__((noinline))

static inline int push_plain_range(struct ws_thread *thread, struct nvtx_domain *domain,
				   struct nvtx_text text)
{
	struct ws_ring *ring = nvtx_ring(thread);
	uint32_t depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	struct ws_open *open = NULL;
	int level = 0;

	if (ws_likely(depth < WS_OPEN_DEPTH && !thread->nvtx_deep)) {
		open = &ring->open[depth];
		if (depth == 0) {
			open->under = 0;
		} else if (ws_likely(open[-1].domain == domain->number)) {
			level = open[-1].level + 1;
			open->under = open[-1].under;
		} else {
			open = NULL;
		}
	}
	if (ws_unlikely(!open)) {
		open = ws_nvtx_open_range_slow(thread, ring, domain, &level);
		if (!open)
			return level;
	}
	open->level = (uint16_t)level;
	open->domain = domain->number;
	open->flags = (uint8_t)text.flags;
	open->text = text.value;
	open->start = ws_rt_read_ticks();
	atomic_store_explicit(&ring->open_depth, depth + 1, memory_order_release);
	return level;
}

WS_NOINLINE int ws_nvtx_push_range(struct ws_thread *thread, struct nvtx_domain *domain,
				   const struct nvtx_attrs *attrs)
{
	struct ws_ring *ring = nvtx_ring(thread);
	uint32_t depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	int level;
	struct ws_open *open = ws_nvtx_open_range_slow(thread, ring, domain, &level);

	if (!open)
		return level;
	open->level = (uint16_t)level;
	open->domain = domain->number;
	open->flags = (uint8_t)(attrs->text.flags | WS_OPEN_EXTENDED |
				(attrs->has_color ? WS_OPEN_HAS_COLOR : 0));
	open->text = attrs->text.value;
	open->payload = attrs->payload;
	open->payload_type = attrs->payload_type;
	open->color = attrs->color;
	open->category = attrs->category;
	open->binary = attrs->binary;
	open->start = ws_rt_read_ticks();
	atomic_store_explicit(&ring->open_depth, depth + 1, memory_order_release);
	return level;
}

/* Whether the range on top can be closed in the simple way. */
static inline bool pops_plain_range(struct ws_thread *thread, struct ws_ring *ring, uint32_t depth,
				    struct nvtx_domain *domain)
{
	struct ws_open *open;

	if (ws_unlikely(depth - 1 >= WS_OPEN_DEPTH || thread->nvtx_deep))
		return false;
	open = &ring->open[depth - 1];
	if (ws_unlikely(open->domain != domain->number ||
			open->flags & (WS_OPEN_EXTENDED | WS_OPEN_LOST | WS_OPEN_IDLE)))
		return false;
	return (depth == 1 || open[-1].start) && ws_rt_is_collecting();
}

/* `rec` has room for the long form; nearly every range fits the short one. */
static inline void write_range(struct ws_thread *thread, struct ws_rec_nvtx_range *rec,
			       uint16_t small, const struct ws_open *open, uint64_t now)
{
	uint64_t duration = now - open->start, end = now - thread->nest[thread->busy - 1].base;
	struct ws_rec_nvtx_short *record = (void *)rec;

	if (ws_likely(!(duration >> WS_SHORT_DURATION_BITS | end >> WS_SHORT_END_BITS))) {
		record->rec = ws_rec_head(WS_REC_NVTX_SHORT, sizeof(*record), small, open->text);
		record->times = end << WS_SHORT_DURATION_BITS | duration;
		ws_rt_commit(thread, record, sizeof(*record));
		return;
	}
	rec->rec = ws_rec_head(WS_REC_NVTX_RANGE, sizeof(*rec), small, open->text);
	rec->start = open->start;
	rec->end = now;
	ws_rt_commit(thread, rec, sizeof(*rec));
}

SEPARATE static int pop_recorded_range(struct nvtx_domain *domain)
{
	uint64_t now = ws_rt_read_ticks();
	struct ws_thread *thread = ws_rt_enter_again();
	struct ws_rec_nvtx_range *rec;
	struct ws_ring *ring;
	struct ws_open *open;
	uint32_t depth;
	int level;

	if (ws_unlikely(!thread))
		return NX_NO_TRACKING;
	if (ws_unlikely(!nvtx_domain_on(thread, domain))) {
		level = NX_NO_TRACKING;
		goto out;
	}
	ring = nvtx_ring(thread);
	depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	if (ws_unlikely(!pops_plain_range(thread, ring, depth, domain))) {
		level = ws_nvtx_pop_range_slow(thread, domain, now, 0);
		goto out;
	}
	open = &ring->open[depth - 1];
	level = open->level;
	rec = ws_rt_reserve(thread, sizeof(*rec), WS_LOSS_NVTX);
	if (ws_likely(rec)) {
		uint16_t small = nvtx_small(domain, open->flags);

		open->flags |= WS_OPEN_CLOSING;
		write_range(thread, rec, small, open, now);
	}
	atomic_store_explicit(&ring->open_depth, depth - 1, memory_order_release);
out:
	ws_rt_leave(thread);
	return level;
}

SEPARATE static int pop_idle_range(struct nvtx_domain *domain)
{
	int level = nvtx_pop_idle(domain);

	if (ws_likely(level >= 0))
		return level;
	return pop_recorded_range(domain);
}

static inline int pop_range(void *handle)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);

	if (ws_unlikely(nvtx_is_idle()))
		return pop_idle_range(domain);
	return pop_recorded_range(domain);
}

/* ---- attributes ---- */

WS_NOINLINE static struct nvtx_text read_message_slow(struct ws_thread *thread, int32_t type,
						      union nx_message message)
{
	if (type == NX_MESSAGE_WIDE)
		return ws_nvtx_write_wide_text(thread, message.wide);
	return (struct nvtx_text){0, 0};
}

static inline struct nvtx_text read_event_message(struct ws_thread *thread, int32_t type,
						  union nx_message m)
{
	if (type == NX_MESSAGE_REGISTERED)
		return nvtx_text_registered(thread, m.registered);
	if (type == NX_MESSAGE_ASCII)
		return nvtx_text_utf8(thread, m.ascii);
	return read_message_slow(thread, type, m);
}

struct nvtx_text ws_nvtx_read_message(struct ws_thread *thread, int32_t type, union nx_message m)
{
	return read_event_message(thread, type, m);
}

/* Whether this event has nothing but a text. */
static inline bool is_plain_event(const struct nx_event *event)
{
	return event && event->size >= sizeof(*event) &&
	       !(event->category | (uint32_t)event->color_type | (uint32_t)event->payload_type);
}

static void read_payload(struct ws_thread *thread, struct nvtx_domain *domain,
			 const struct nx_event *event, struct nvtx_attrs *attrs)
{
	bool lost = false;

	if (event->payload_type == NX_PAYLOAD_EXT) {
		attrs->payload_type = WS_NVTX_PAYLOAD_EXT;
		if (event->payload_count > 0)
			attrs->binary = ws_nvtx_write_blobs(
				thread, domain,
				(const struct nx_payload *)(uintptr_t)event->payload,
				(size_t)event->payload_count, &lost);
		if (lost)
			attrs->text.flags |= WS_OPEN_LOST;
	} else if (event->payload_type > 0 && event->payload_type <= WS_NVTX_PAYLOAD_F32) {
		attrs->payload_type = (uint8_t)event->payload_type;
		attrs->payload = event->payload_type >= WS_NVTX_PAYLOAD_U32
					 ? (uint32_t)event->payload
					 : event->payload;
	}
}

/* Attributes of any version: fields beyond its size count as zero. A size of 0 (the caller forgot
 * to set it) is treated as the usual size.
 */
WS_NOINLINE static void read_attributes(struct ws_thread *thread, struct nvtx_domain *domain,
					const struct nx_event *event, struct nvtx_attrs *attrs)
{
	struct nx_event copy;

	memset(attrs, 0, sizeof(*attrs));
	if (!event)
		return;
	if (event->size && event->size < sizeof(copy)) {
		memset(&copy, 0, sizeof(copy));
		memcpy(&copy, event, event->size);
		copy.message_type = 0; /* fields that the size cuts off, even in part, are absent */
		if (event->size < offsetof(struct nx_event, payload) + sizeof(event->payload))
			copy.payload_type = 0;
		event = &copy;
	}
	attrs->text = read_event_message(thread, event->message_type, event->message);
	attrs->category = event->category;
	if (event->color_type == NX_COLOR_ARGB) {
		attrs->has_color = 1;
		attrs->color = event->color;
	}
	if (!(attrs->text.flags & WS_OPEN_LOST))
		read_payload(thread, domain, event, attrs);
}

/* ---- marks, starts, ends ---- */

/* The kind of an event, small enough for a register. */
struct event_kind {
	uint8_t kind;	     /* WS_NVTX_EV_... */
	uint32_t binary_end; /* payload of a range's end; 0: none */
};

static void write_event(struct ws_thread *thread, struct nvtx_domain *domain,
			struct event_kind event, const struct nvtx_attrs *attrs, uint64_t time,
			uint64_t other)
{
	bool full = attrs->has_color | attrs->payload_type || attrs->binary || event.binary_end;
	size_t bytes =
		full ? sizeof(struct ws_rec_nvtx_event_full) : sizeof(struct ws_rec_nvtx_event);
	struct ws_rec_nvtx_event_full *record = ws_rt_reserve(thread, bytes, WS_LOSS_NVTX);

	if (!record)
		return;
	record->record = (struct ws_rec_nvtx_event){
		.rec = ws_rec_head(WS_REC_NVTX_EVENT, bytes, nvtx_small(domain, attrs->text.flags),
				   attrs->text.value),
		.kind = event.kind,
		.has_color = attrs->has_color,
		.payload_type = attrs->payload_type,
		.category = attrs->category,
		.time = time,
		.other = other,
	};
	if (full) {
		record->payload = attrs->payload;
		record->color = attrs->color;
		record->binary = attrs->binary;
		record->binary_end = event.binary_end;
		record->reserved = 0;
	}
	ws_rt_commit(thread, record, bytes);
}

void ws_nvtx_write_range(struct ws_thread *thread, struct nvtx_domain *domain,
			 const struct ws_open *open, uint64_t end, uint32_t binary_end)
{
	struct nvtx_attrs attrs = {.text = {open->text, open->flags}};

	if (open->flags & WS_OPEN_EXTENDED) {
		attrs.category = open->category;
		attrs.color = open->color;
		attrs.has_color = (open->flags & WS_OPEN_HAS_COLOR) != 0;
		attrs.binary = open->binary;
		attrs.payload_type = open->payload_type;
		attrs.payload = open->payload;
	}
	if (end)
		write_event(thread, domain, (struct event_kind){WS_NVTX_EV_RANGE, binary_end},
			    &attrs, open->start, end);
	else if (attrs.binary || binary_end || open->flags & WS_OPEN_LOCAL_TEXT)
		write_event(thread, domain, (struct event_kind){WS_NVTX_EV_FORGET, binary_end},
			    &attrs, 0, 0);
}

void ws_nvtx_write_mark(struct ws_thread *thread, struct nvtx_domain *domain,
			const struct nvtx_attrs *attrs)
{
	if (!(attrs->text.flags & WS_OPEN_LOST))
		write_event(thread, domain, (struct event_kind){WS_NVTX_EV_MARK, 0}, attrs,
			    ws_rt_read_ticks(), 0);
}

/*
 * Threads reserve ids in batches, so that they do not share a cache line at each start. A forked
 * child continues where its parent was, so that an id from the parent never refers to a range of
 * the child.
 */
static uint64_t next_range_id(struct ws_thread *thread)
{
	static _Atomic uint64_t ids = 1;
	enum { LOT = 4096 };

	if (thread->nvtx_id == thread->nvtx_id_end) {
		thread->nvtx_id = atomic_fetch_add_explicit(&ids, LOT, memory_order_relaxed);
		thread->nvtx_id_end = thread->nvtx_id + LOT;
	}
	return thread->nvtx_id++;
}

uint64_t ws_nvtx_start_range(struct ws_thread *thread, struct nvtx_domain *domain,
			     const struct nvtx_attrs *attrs, uint64_t own_id)
{
	uint64_t id = own_id ? own_id : next_range_id(thread);
	struct ws_nest *nest = &thread->nest[thread->busy - 1];
	char *before = nest->cur;

	if (attrs->text.flags & WS_OPEN_LOST)
		return NVTX_ID_UNRECORDED;
	write_event(thread, domain, (struct event_kind){WS_NVTX_EV_START, 0}, attrs,
		    ws_rt_read_ticks(), id);
	return nest->cur != before ? id : NVTX_ID_UNRECORDED;
}

void ws_nvtx_end_range(struct ws_thread *thread, struct nvtx_domain *domain, uint64_t id,
		       uint32_t binary)
{
	static const struct nvtx_attrs none;

	if (id && id < NVTX_ID_UNRECORDED)
		write_event(thread, domain, (struct event_kind){WS_NVTX_EV_END, binary}, &none,
			    ws_rt_read_ticks(), id);
}

/* ---- entry points ---- */

static const struct nvtx_text no_text;

SEPARATE static int push_recorded_utf8(const char *text)
{
	struct ws_thread *thread = nvtx_enter(&ws_nvtx_default, true);
	int level;

	if (!thread)
		return NX_NO_TRACKING;
	level = push_plain_range(thread, &ws_nvtx_default,
				 nvtx_over() ? no_text : nvtx_text_utf8(thread, text));
	ws_rt_leave(thread);
	return level;
}

SEPARATE static int push_idle_utf8(const char *text)
{
	int level = nvtx_push_idle(&ws_nvtx_default, text);

	if (ws_likely(level >= 0))
		return level;
	return push_recorded_utf8(text);
}

static int push_utf8(const char *text)
{
	if (ws_unlikely(nvtx_is_idle()))
		return push_idle_utf8(text);
	return push_recorded_utf8(text);
}

static int push_wide(const wchar_t *s)
{
	struct ws_thread *thread = nvtx_enter(&ws_nvtx_default, true);
	int level;

	if (!thread)
		return NX_NO_TRACKING;
	level = push_plain_range(thread, &ws_nvtx_default,
				 nvtx_over() ? no_text : ws_nvtx_write_wide_text(thread, s));
	ws_rt_leave(thread);
	return level;
}

WS_NOINLINE static int push_full(struct ws_thread *thread, struct nvtx_domain *domain,
				 const struct nx_event *event)
{
	struct nvtx_attrs attrs;

	read_attributes(thread, domain, event, &attrs);
	return ws_nvtx_push_range(thread, domain, &attrs);
}

SEPARATE static int push_recorded_event(struct nvtx_domain *domain, const struct nx_event *event)
{
	struct ws_thread *thread = nvtx_enter(domain, true);
	int level;

	if (!thread)
		return NX_NO_TRACKING;
	if (nvtx_over())
		level = push_plain_range(thread, domain, no_text);
	else if (ws_likely(is_plain_event(event)))
		level = push_plain_range(thread, domain,
					 read_event_message(thread, event->message_type,
							    event->message));
	else
		level = push_full(thread, domain, event);
	ws_rt_leave(thread);
	return level;
}

SEPARATE static int push_idle_event(struct nvtx_domain *domain, const struct nx_event *event)
{
	int level = nvtx_push_idle_event(domain, event);

	if (ws_likely(level >= 0))
		return level;
	return push_recorded_event(domain, event);
}

static int domain_push(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);

	if (ws_unlikely(nvtx_is_idle()))
		return push_idle_event(domain, event);
	return push_recorded_event(domain, event);
}

static int push_event(const struct nx_event *event)
{
	return domain_push(NULL, event);
}

static int pop_default(void)
{
	return pop_range(NULL);
}

static int domain_pop(void *handle)
{
	return pop_range(handle);
}

static void mark_text(const char *text, const wchar_t *wide)
{
	struct ws_thread *thread;
	struct nvtx_attrs attrs = {0};

	if (nvtx_is_idle())
		return;
	thread = nvtx_enter(&ws_nvtx_default, false);
	if (!thread)
		return;
	attrs.text = wide ? ws_nvtx_write_wide_text(thread, wide) : nvtx_text_utf8(thread, text);
	ws_nvtx_write_mark(thread, &ws_nvtx_default, &attrs);
	ws_rt_leave(thread);
}

static void mark_utf8(const char *text)
{
	mark_text(text, NULL);
}

static void mark_wide(const wchar_t *s)
{
	mark_text(NULL, s);
}

static void domain_mark(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread;
	struct nvtx_attrs attrs;

	if (nvtx_is_idle())
		return;
	thread = nvtx_enter(domain, false);
	if (!thread)
		return;
	read_attributes(thread, domain, event, &attrs);
	ws_nvtx_write_mark(thread, domain, &attrs);
	ws_rt_leave(thread);
}

static void mark_event(const struct nx_event *event)
{
	domain_mark(NULL, event);
}

static uint64_t start_text(const char *text, const wchar_t *wide)
{
	struct ws_thread *thread;
	struct nvtx_attrs attrs = {0};
	uint64_t id;

	if (nvtx_is_idle())
		return NVTX_ID_UNRECORDED;
	thread = nvtx_enter(&ws_nvtx_default, false);
	if (!thread)
		return NVTX_ID_UNRECORDED;
	attrs.text = wide ? ws_nvtx_write_wide_text(thread, wide) : nvtx_text_utf8(thread, text);
	id = ws_nvtx_start_range(thread, &ws_nvtx_default, &attrs, 0);
	ws_rt_leave(thread);
	return id;
}

static uint64_t start_utf8(const char *text)
{
	return start_text(text, NULL);
}

static uint64_t start_wide(const wchar_t *s)
{
	return start_text(NULL, s);
}

static uint64_t domain_start(void *handle, const struct nx_event *event)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread;
	struct nvtx_attrs attrs;
	uint64_t id;

	if (nvtx_is_idle())
		return NVTX_ID_UNRECORDED;
	thread = nvtx_enter(domain, false);
	if (!thread)
		return NVTX_ID_UNRECORDED;
	read_attributes(thread, domain, event, &attrs);
	id = ws_nvtx_start_range(thread, domain, &attrs, 0);
	ws_rt_leave(thread);
	return id;
}

static uint64_t start_event(const struct nx_event *event)
{
	return domain_start(NULL, event);
}

/* An end is recorded even when the collection has just stopped: its start was recorded, and this is
 * the range's end. */
static void domain_end(void *handle, uint64_t id)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread;

	if (id >= NVTX_ID_UNRECORDED)
		return;
	thread = nvtx_enter(domain, true);
	if (!thread)
		return;
	ws_nvtx_end_range(thread, domain, id, 0);
	ws_rt_leave(thread);
}

static void end_default(uint64_t id)
{
	domain_end(NULL, id);
}

static void *register_utf8(void *domain, const char *text)
{
	(void)domain;
	return text ? ws_nvtx_register_string(text) : NULL;
}

static void *register_wide(void *domain, const wchar_t *s)
{
	struct nvtx_scratch scratch;
	void *h = NULL;

	(void)domain;
	if (s && ws_nvtx_convert_to_utf8(&scratch, s)) {
		h = ws_nvtx_register_string(scratch.p);
		ws_nvtx_close_scratch(&scratch);
	}
	return h;
}

static void *create_domain_utf8(const char *name)
{
	return ws_nvtx_create_domain(name ? name : "");
}

static void *create_domain_wide(const wchar_t *name)
{
	struct nvtx_scratch scratch;
	void *h = NULL;

	if (ws_nvtx_convert_to_utf8(&scratch, name)) {
		h = ws_nvtx_create_domain(scratch.p);
		ws_nvtx_close_scratch(&scratch);
	}
	return h;
}

static void domain_destroy(void *handle)
{
	if (handle)
		ws_nvtx_destroy_domain(handle);
}

/* ---- attaching ---- */

#define SLOT(module, slot, fn)                 \
	{                                      \
		NX_##module, slot, (nx_fn)(fn) \
	}
/* One call a line. */
/* clang-format off */
const struct nvtx_slot ws_nvtx_event_slots[] = {
	SLOT(CORE, NX_MARK_EX, mark_event),
	SLOT(CORE, NX_MARK_A, mark_utf8),
	SLOT(CORE, NX_MARK_W, mark_wide),
	SLOT(CORE, NX_START_EX, start_event),
	SLOT(CORE, NX_START_A, start_utf8),
	SLOT(CORE, NX_START_W, start_wide),
	SLOT(CORE, NX_END, end_default),
	SLOT(CORE, NX_PUSH_EX, push_event),
	SLOT(CORE, NX_PUSH_A, push_utf8),
	SLOT(CORE, NX_PUSH_W, push_wide),
	SLOT(CORE, NX_POP, pop_default),
	SLOT(CORE2, NX_D_MARK_EX, domain_mark),
	SLOT(CORE2, NX_D_START_EX, domain_start),
	SLOT(CORE2, NX_D_END, domain_end),
	SLOT(CORE2, NX_D_PUSH_EX, domain_push),
	SLOT(CORE2, NX_D_POP, domain_pop),
	SLOT(CORE2, NX_D_STRING_A, register_utf8),
	SLOT(CORE2, NX_D_STRING_W, register_wide),
	SLOT(CORE2, NX_D_CREATE_A, create_domain_utf8),
	SLOT(CORE2, NX_D_CREATE_W, create_domain_wide),
	SLOT(CORE2, NX_D_DESTROY, domain_destroy),
};
/* clang-format on */
const size_t ws_nvtx_event_slot_count = WS_COUNT(ws_nvtx_event_slots);

static bool is_recording_wanted(void)
{
	ws_rt_init();
	if (!ws_rt->arena)
		ws_rt_is_collecting_slow(); /* a forked child that uses NVTX before it has recorded
					    anything */
	return ws_rt->arena && ws_rt->features & WS_FEATURE_NVTX;
}

/* For Python, whose NVTX is a package of its own that may not be there. */
WS_EXPORT void warpsight_mark(const char *text);
void warpsight_mark(const char *text)
{
	if (text && is_recording_wanted())
		mark_utf8(text);
}

static void fill_function_table(const struct nx_callbacks *callbacks, const struct nvtx_slot *slot,
				size_t n)
{
	for (size_t i = 0; i < n; i++) {
		nx_fn **table = NULL;
		unsigned count = 0;

		if (callbacks->module_table(slot[i].module, &table, &count) && table &&
		    slot[i].slot < count && table[slot[i].slot])
			*table[slot[i].slot] = ws_nvtx_get_function(&slot[i]);
	}
}

WS_EXPORT int InitializeInjectionNvtx2(nx_export_fn get);
int InitializeInjectionNvtx2(nx_export_fn get)
{
	const struct nx_callbacks *callbacks;
	const struct nx_version_info *version_info;

	if (!get || !is_recording_wanted())
		return 0;
	callbacks = get(NX_TABLE_CALLBACKS);
	if (!callbacks || callbacks->size < sizeof(*callbacks) || !callbacks->module_table)
		return 0;
	version_info = get(NX_TABLE_VERSION);
	if (version_info && version_info->size >= sizeof(*version_info) &&
	    version_info->set_tool_version)
		version_info->set_tool_version(NX_VERSION);
	fill_function_table(callbacks, ws_nvtx_event_slots, ws_nvtx_event_slot_count);
	fill_function_table(callbacks, ws_nvtx_name_slots, ws_nvtx_name_slot_count);
	return 1;
}

WS_EXPORT int InitializeInjectionNvtxExtension(struct nx_module_info *module_info);
int InitializeInjectionNvtxExtension(struct nx_module_info *module_info)
{
	return module_info && is_recording_wanted() ? ws_nvtx_fill_extension(module_info) : 0;
}
