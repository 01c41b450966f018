/*
 * nvtx.c - the NVTX hook: what the program's NVTX calls land in.
 *
 * InitializeInjectionNvtx2 puts our functions into the tables of each program or library that
 * embeds NVTX and calls it on its first use; nvtx_abi.h says how. All of them share one state, so a
 * domain or string made through one table may be used through another.
 *
 * A push/pop range is one record, written at the pop: the push stores text, domain and start in the
 * thread's open-range stack, which lies in shared memory so that a kill, the end of a collection or
 * a live view finds what was open. So a pair is two clock reads, a string lookup, one stack entry
 * and 24 bytes of ring. What is not that plain (deep, in another domain than the range around it,
 * with colour or payload) goes through nvtx_stack.c and the functions marked cold.
 *
 * Outside a collection the stack is kept and nothing is written: a range that opens before a
 * delayed start and closes after it is recorded. Start/end ranges need not nest and may end on
 * another thread: each end writes its own record and the recorder pairs them.
 */
#include "inject/nvtx_state.h"
#include "schema/schema.h"

/* ---- push and pop ---- */

static inline int push_plain(struct ws_thread *t, struct nvtx_domain *d, struct nvtx_text x)
{
	struct ws_ring *r = nvtx_ring(t);
	uint32_t depth = atomic_load_explicit(&r->open_depth, memory_order_relaxed);
	struct ws_open *o = NULL;
	int level = 0;

	if (ws_likely(depth < WS_OPEN_DEPTH && !t->nvtx_deep)) {
		o = &r->open[depth];
		if (depth == 0) {
			o->under = 0;
		} else if (ws_likely(o[-1].domain == d->number)) {
			level = o[-1].level + 1;
			o->under = o[-1].under;
		} else {
			o = NULL;
		}
	}
	if (ws_unlikely(!o)) {
		o = ws_nvtx_open_slow(t, r, d, &level);
		if (!o)
			return level;
	}
	o->level = (uint16_t)level;
	o->domain = d->number;
	o->flags = (uint8_t)x.flags;
	o->text = x.value;
	o->start = ws_rt_ticks();
	atomic_store_explicit(&r->open_depth, depth + 1, memory_order_release);
	return level;
}

WS_NOINLINE int ws_nvtx_push(struct ws_thread *t, struct nvtx_domain *d, const struct nvtx_attrs *a)
{
	struct ws_ring *r = nvtx_ring(t);
	uint32_t depth = atomic_load_explicit(&r->open_depth, memory_order_relaxed);
	int level;
	struct ws_open *o = ws_nvtx_open_slow(t, r, d, &level);

	if (!o)
		return level;
	o->level = (uint16_t)level;
	o->domain = d->number;
	o->flags = (uint8_t)(a->text.flags | WS_OPEN_EXTENDED |
			     (a->has_color ? WS_OPEN_HAS_COLOR : 0));
	o->text = a->text.value;
	o->payload = a->payload;
	o->payload_type = a->payload_type;
	o->color = a->color;
	o->category = a->category;
	o->binary = a->binary;
	o->start = ws_rt_ticks();
	atomic_store_explicit(&r->open_depth, depth + 1, memory_order_release);
	return level;
}

/* Can the range on top be closed the plain way? */
static inline bool pops_plain(struct ws_thread *t, struct ws_ring *r, uint32_t depth,
			      struct nvtx_domain *d)
{
	struct ws_open *o;

	if (ws_unlikely(depth - 1 >= WS_OPEN_DEPTH || t->nvtx_deep))
		return false;
	o = &r->open[depth - 1];
	if (ws_unlikely(o->domain != d->number || o->flags & (WS_OPEN_EXTENDED | WS_OPEN_LOST)))
		return false;
	return (depth == 1 || o[-1].start) && ws_rt_collecting();
}

/* `rec` has room for the long form; nearly every range fits the short one. */
static inline void write_range(struct ws_thread *t, struct ws_rec_nvtx_range *rec, uint16_t small,
			       const struct ws_open *o, uint64_t now)
{
	uint64_t duration = now - o->start, end = now - t->nest[t->busy - 1].base;
	struct ws_rec_nvtx_short *x = (void *)rec;

	if (ws_likely(!(duration >> WS_SHORT_DURATION_BITS | end >> WS_SHORT_END_BITS))) {
		x->rec = ws_rec_head(WS_REC_NVTX_SHORT, sizeof(*x), small, o->text);
		x->times = end << WS_SHORT_DURATION_BITS | duration;
		ws_rt_commit(t, x, sizeof(*x));
		return;
	}
	rec->rec = ws_rec_head(WS_REC_NVTX_RANGE, sizeof(*rec), small, o->text);
	rec->start = o->start;
	rec->end = now;
	ws_rt_commit(t, rec, sizeof(*rec));
}

static inline int pop(void *handle)
{
	uint64_t now = ws_rt_ticks();
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = ws_rt_enter_again();
	struct ws_rec_nvtx_range *rec;
	struct ws_ring *r;
	struct ws_open *o;
	uint32_t depth;
	int level;

	if (ws_unlikely(!t))
		return NX_NO_TRACKING;
	if (ws_unlikely(!nvtx_domain_on(t, d))) {
		level = NX_NO_TRACKING;
		goto out;
	}
	r = nvtx_ring(t);
	depth = atomic_load_explicit(&r->open_depth, memory_order_relaxed);
	if (ws_unlikely(!pops_plain(t, r, depth, d))) {
		level = ws_nvtx_pop_slow(t, d, now, 0);
		goto out;
	}
	o = &r->open[depth - 1];
	level = o->level;
	rec = ws_rt_reserve(t, sizeof(*rec), WS_LOSS_NVTX);
	if (ws_likely(rec)) {
		uint16_t small = nvtx_small(d, o->flags);

		o->flags |= WS_OPEN_CLOSING;
		write_range(t, rec, small, o, now);
	}
	atomic_store_explicit(&r->open_depth, depth - 1, memory_order_release);
out:
	ws_rt_leave(t);
	return level;
}

/* ---- attributes ---- */

WS_NOINLINE static struct nvtx_text message_slow(struct ws_thread *t, int32_t type,
						 union nx_message m)
{
	if (type == NX_MESSAGE_WIDE)
		return ws_nvtx_text_wide(t, m.wide);
	return (struct nvtx_text){0, 0};
}

static inline struct nvtx_text message(struct ws_thread *t, int32_t type, union nx_message m)
{
	if (type == NX_MESSAGE_REGISTERED)
		return nvtx_text_registered(t, m.registered);
	if (type == NX_MESSAGE_ASCII)
		return nvtx_text_utf8(t, m.ascii);
	return message_slow(t, type, m);
}

struct nvtx_text ws_nvtx_message(struct ws_thread *t, int32_t type, union nx_message m)
{
	return message(t, type, m);
}

/* Is a text all that this event has? */
static inline bool event_plain(const struct nx_event *e)
{
	return e && e->size >= sizeof(*e) &&
	       !(e->category | (uint32_t)e->color_type | (uint32_t)e->payload_type);
}

static void read_payload(struct ws_thread *t, struct nvtx_domain *d, const struct nx_event *e,
			 struct nvtx_attrs *a)
{
	bool lost = false;

	if (e->payload_type == NX_PAYLOAD_EXT) {
		a->payload_type = WS_NVTX_PAYLOAD_EXT;
		if (e->payload_count > 0)
			a->binary = ws_nvtx_blobs(t, d,
						  (const struct nx_payload *)(uintptr_t)e->payload,
						  (size_t)e->payload_count, &lost);
		if (lost)
			a->text.flags |= WS_OPEN_LOST;
	} else if (e->payload_type > 0 && e->payload_type <= WS_NVTX_PAYLOAD_F32) {
		a->payload_type = (uint8_t)e->payload_type;
		a->payload =
			e->payload_type >= WS_NVTX_PAYLOAD_U32 ? (uint32_t)e->payload : e->payload;
	}
}

/* Attributes of any version: fields beyond its size are as if zero. A size of 0 (a caller that
 * forgot) is taken for the usual one.
 */
WS_NOINLINE static void read_attrs(struct ws_thread *t, struct nvtx_domain *d,
				   const struct nx_event *e, struct nvtx_attrs *a)
{
	struct nx_event copy;

	memset(a, 0, sizeof(*a));
	if (!e)
		return;
	if (e->size && e->size < sizeof(copy)) {
		memset(&copy, 0, sizeof(copy));
		memcpy(&copy, e, e->size);
		copy.message_type = 0; /* what the size cuts off, even in part, is not there */
		if (e->size < offsetof(struct nx_event, payload) + sizeof(e->payload))
			copy.payload_type = 0;
		e = &copy;
	}
	a->text = message(t, e->message_type, e->message);
	a->category = e->category;
	if (e->color_type == NX_COLOR_ARGB) {
		a->has_color = 1;
		a->color = e->color;
	}
	if (!(a->text.flags & WS_OPEN_LOST))
		read_payload(t, d, e, a);
}

/* ---- marks, starts, ends ---- */

static void write_event(struct ws_thread *t, struct nvtx_domain *d, uint8_t kind,
			const struct nvtx_attrs *a, uint64_t time, uint64_t other,
			uint32_t binary_end)
{
	bool full = a->has_color | a->payload_type || a->binary || binary_end;
	size_t bytes =
		full ? sizeof(struct ws_rec_nvtx_event_full) : sizeof(struct ws_rec_nvtx_event);
	struct ws_rec_nvtx_event_full *r = ws_rt_reserve(t, bytes, WS_LOSS_NVTX);

	if (!r)
		return;
	r->e = (struct ws_rec_nvtx_event){
		.rec = ws_rec_head(WS_REC_NVTX_EVENT, bytes, nvtx_small(d, a->text.flags),
				   a->text.value),
		.kind = kind,
		.has_color = a->has_color,
		.payload_type = a->payload_type,
		.category = a->category,
		.time = time,
		.other = other,
	};
	if (full) {
		r->payload = a->payload;
		r->color = a->color;
		r->binary = a->binary;
		r->binary_end = binary_end;
		r->spare = 0;
	}
	ws_rt_commit(t, r, bytes);
}

void ws_nvtx_write_range(struct ws_thread *t, struct nvtx_domain *d, const struct ws_open *o,
			 uint64_t end, uint32_t binary_end)
{
	struct nvtx_attrs a = {.text = {o->text, o->flags}};

	if (o->flags & WS_OPEN_EXTENDED) {
		a.category = o->category;
		a.color = o->color;
		a.has_color = (o->flags & WS_OPEN_HAS_COLOR) != 0;
		a.binary = o->binary;
		a.payload_type = o->payload_type;
		a.payload = o->payload;
	}
	if (end)
		write_event(t, d, WS_NVTX_EV_RANGE, &a, o->start, end, binary_end);
	else if (a.binary || binary_end || o->flags & WS_OPEN_LOCAL_TEXT)
		write_event(t, d, WS_NVTX_EV_FORGET, &a, 0, 0, binary_end);
}

void ws_nvtx_mark(struct ws_thread *t, struct nvtx_domain *d, const struct nvtx_attrs *a)
{
	if (!(a->text.flags & WS_OPEN_LOST))
		write_event(t, d, WS_NVTX_EV_MARK, a, ws_rt_ticks(), 0, 0);
}

/*
 * Threads set ids aside in lots, so that they share no cache line at each start. A forked child
 * carries on where its parent was, so that an id of the parent's never means a range of the
 * child's.
 */
static uint64_t next_id(struct ws_thread *t)
{
	static _Atomic uint64_t ids = 1;
	enum { LOT = 4096 };

	if (t->nvtx_id == t->nvtx_id_end) {
		t->nvtx_id = atomic_fetch_add_explicit(&ids, LOT, memory_order_relaxed);
		t->nvtx_id_end = t->nvtx_id + LOT;
	}
	return t->nvtx_id++;
}

uint64_t ws_nvtx_start_range(struct ws_thread *t, struct nvtx_domain *d, const struct nvtx_attrs *a,
			     uint64_t own_id)
{
	uint64_t id = own_id ? own_id : next_id(t);
	struct ws_nest *n = &t->nest[t->busy - 1];
	char *before = n->cur;

	if (a->text.flags & WS_OPEN_LOST)
		return NVTX_ID_UNRECORDED;
	write_event(t, d, WS_NVTX_EV_START, a, ws_rt_ticks(), id, 0);
	return n->cur != before ? id : NVTX_ID_UNRECORDED;
}

void ws_nvtx_end_range(struct ws_thread *t, struct nvtx_domain *d, uint64_t id, uint32_t binary)
{
	static const struct nvtx_attrs none;

	if (id && id < NVTX_ID_UNRECORDED)
		write_event(t, d, WS_NVTX_EV_END, &none, ws_rt_ticks(), id, binary);
}

/* ---- entry points ---- */

static const struct nvtx_text no_text;

static int push_utf8(const char *s)
{
	struct ws_thread *t = nvtx_enter(&ws_nvtx_default, true);
	int level;

	if (!t)
		return NX_NO_TRACKING;
	level = push_plain(t, &ws_nvtx_default, nvtx_over() ? no_text : nvtx_text_utf8(t, s));
	ws_rt_leave(t);
	return level;
}

static int push_wide(const wchar_t *s)
{
	struct ws_thread *t = nvtx_enter(&ws_nvtx_default, true);
	int level;

	if (!t)
		return NX_NO_TRACKING;
	level = push_plain(t, &ws_nvtx_default, nvtx_over() ? no_text : ws_nvtx_text_wide(t, s));
	ws_rt_leave(t);
	return level;
}

WS_NOINLINE static int push_full(struct ws_thread *t, struct nvtx_domain *d,
				 const struct nx_event *e)
{
	struct nvtx_attrs a;

	read_attrs(t, d, e, &a);
	return ws_nvtx_push(t, d, &a);
}

static int domain_push(void *handle, const struct nx_event *e)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, true);
	int level;

	if (!t)
		return NX_NO_TRACKING;
	if (nvtx_over())
		level = push_plain(t, d, no_text);
	else if (ws_likely(event_plain(e)))
		level = push_plain(t, d, message(t, e->message_type, e->message));
	else
		level = push_full(t, d, e);
	ws_rt_leave(t);
	return level;
}

static int push_event(const struct nx_event *e)
{
	return domain_push(NULL, e);
}

static int pop_default(void)
{
	return pop(NULL);
}

static int domain_pop(void *handle)
{
	return pop(handle);
}

static void mark_text(const char *s, const wchar_t *wide)
{
	struct ws_thread *t = nvtx_enter(&ws_nvtx_default, false);
	struct nvtx_attrs a = {0};

	if (!t)
		return;
	a.text = wide ? ws_nvtx_text_wide(t, wide) : nvtx_text_utf8(t, s);
	ws_nvtx_mark(t, &ws_nvtx_default, &a);
	ws_rt_leave(t);
}

static void mark_utf8(const char *s)
{
	mark_text(s, NULL);
}

static void mark_wide(const wchar_t *s)
{
	mark_text(NULL, s);
}

static void domain_mark(void *handle, const struct nx_event *e)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, false);
	struct nvtx_attrs a;

	if (!t)
		return;
	read_attrs(t, d, e, &a);
	ws_nvtx_mark(t, d, &a);
	ws_rt_leave(t);
}

static void mark_event(const struct nx_event *e)
{
	domain_mark(NULL, e);
}

static uint64_t start_text(const char *s, const wchar_t *wide)
{
	struct ws_thread *t = nvtx_enter(&ws_nvtx_default, false);
	struct nvtx_attrs a = {0};
	uint64_t id;

	if (!t)
		return NVTX_ID_UNRECORDED;
	a.text = wide ? ws_nvtx_text_wide(t, wide) : nvtx_text_utf8(t, s);
	id = ws_nvtx_start_range(t, &ws_nvtx_default, &a, 0);
	ws_rt_leave(t);
	return id;
}

static uint64_t start_utf8(const char *s)
{
	return start_text(s, NULL);
}

static uint64_t start_wide(const wchar_t *s)
{
	return start_text(NULL, s);
}

static uint64_t domain_start(void *handle, const struct nx_event *e)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, false);
	struct nvtx_attrs a;
	uint64_t id;

	if (!t)
		return NVTX_ID_UNRECORDED;
	read_attrs(t, d, e, &a);
	id = ws_nvtx_start_range(t, d, &a, 0);
	ws_rt_leave(t);
	return id;
}

static uint64_t start_event(const struct nx_event *e)
{
	return domain_start(NULL, e);
}

/* An end is recorded even when the collection has just stopped: its start was, and the range has
 * this end. */
static void domain_end(void *handle, uint64_t id)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, true);

	if (!t)
		return;
	ws_nvtx_end_range(t, d, id, 0);
	ws_rt_leave(t);
}

static void end_default(uint64_t id)
{
	domain_end(NULL, id);
}

static void *string_utf8(void *domain, const char *s)
{
	(void)domain;
	return s ? ws_nvtx_string_register(s) : NULL;
}

static void *string_wide(void *domain, const wchar_t *s)
{
	struct nvtx_scratch b;
	void *h = NULL;

	(void)domain;
	if (s && ws_nvtx_utf8(&b, s)) {
		h = ws_nvtx_string_register(b.p);
		ws_nvtx_scratch_end(&b);
	}
	return h;
}

static void *domain_utf8(const char *name)
{
	return ws_nvtx_domain_create(name ? name : "");
}

static void *domain_wide(const wchar_t *name)
{
	struct nvtx_scratch b;
	void *h = NULL;

	if (ws_nvtx_utf8(&b, name)) {
		h = ws_nvtx_domain_create(b.p);
		ws_nvtx_scratch_end(&b);
	}
	return h;
}

static void domain_destroy(void *handle)
{
	if (handle)
		ws_nvtx_domain_destroy(handle);
}

/* ---- attaching ---- */

#define SLOT(module, slot, fn)                 \
	{                                      \
		NX_##module, slot, (nx_fn)(fn) \
	}
/* One call a line. */
/* clang-format off */
static const struct nvtx_slot slots[] = {
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
	SLOT(CORE2, NX_D_STRING_A, string_utf8),
	SLOT(CORE2, NX_D_STRING_W, string_wide),
	SLOT(CORE2, NX_D_CREATE_A, domain_utf8),
	SLOT(CORE2, NX_D_CREATE_W, domain_wide),
	SLOT(CORE2, NX_D_DESTROY, domain_destroy),
};
/* clang-format on */

static bool wanted(void)
{
	ws_rt_init();
	if (!ws_rt->arena)
		ws_rt_collecting_slow(); /* a forked child that uses NVTX before it has recorded
					    anything */
	return ws_rt->arena && ws_rt->features & WS_FEATURE_NVTX;
}

static void fill(const struct nx_callbacks *c, const struct nvtx_slot *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		nx_fn **table = NULL;
		unsigned count = 0;

		if (c->module_table(s[i].module, &table, &count) && table && s[i].slot < count &&
		    table[s[i].slot])
			*table[s[i].slot] = s[i].fn;
	}
}

WS_EXPORT int InitializeInjectionNvtx2(nx_export_fn get);
int InitializeInjectionNvtx2(nx_export_fn get)
{
	const struct nx_callbacks *c;
	const struct nx_version_info *v;

	if (!get || !wanted())
		return 0;
	c = get(NX_TABLE_CALLBACKS);
	if (!c || c->size < sizeof(*c) || !c->module_table)
		return 0;
	v = get(NX_TABLE_VERSION);
	if (v && v->size >= sizeof(*v) && v->set_tool_version)
		v->set_tool_version(NX_VERSION);
	fill(c, slots, WS_COUNT(slots));
	fill(c, ws_nvtx_name_slots, ws_nvtx_name_slot_count);
	return 1;
}

WS_EXPORT int InitializeInjectionNvtxExtension(struct nx_module_info *m);
int InitializeInjectionNvtxExtension(struct nx_module_info *m)
{
	return m && wanted() ? ws_nvtx_extension(m) : 0;
}
