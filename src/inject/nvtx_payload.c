/*
 * nvtx_payload.c - the payload extension of NVTX: schemas that describe binary data, and events
 * that carry such data.
 *
 * The data is copied as the program gives it, by the sizes it gives, and the schemas go to the
 * report beside it, so that readers can take it apart: nothing is interpreted here but two things.
 * Where a program leaves a size to the tool (SIZE_MAX), the schema tells it, if its layout is
 * static. And an event that has no text of its own takes it from the entry that its schema marks as
 * the message, else from the schema's name.
 *
 * Not implemented, their slots left empty, which makes the program's calls do nothing: time domains
 * and their conversions (slots 9 to 11 and 13 to 15), and the counter and memory extensions, which
 * are said in a diagnostic when a program wants them.
 */
#include "inject/nvtx_state.h"
#include "schema/schema.h"

enum { POINTER_SIZE = sizeof(void *), ENTRY_MESSAGE = 1 << 10 };
#define MAX_BLOBS (UINT64_C(64) << 20) /* bytes of one event's payloads */

/* ---- layout ---- */

/* Bytes of one element of a predefined type; 0 for those that have none. */
static uint32_t type_size(uint64_t type)
{
	static const uint8_t sizes[NX_TYPE_REGISTERED + 1] = {
		[1] = 1,
		[2] = 1,
		[3] = 2,
		[4] = 2,
		[5] = 4,
		[6] = 4,
		[7] = sizeof(long),
		[8] = sizeof(long),
		[9] = 8,
		[10] = 8,
		[11] = 1,
		[12] = 1,
		[13] = 2,
		[14] = 2,
		[15] = 4,
		[16] = 4,
		[17] = 8,
		[18] = 8,
		[19] = 4,
		[20] = 8,
		[21] = sizeof(long double),
		[22] = sizeof(size_t),
		[23] = POINTER_SIZE,
		[24] = sizeof(wchar_t),
		[25] = 1,
		[26] = 2,
		[27] = 4,
		[32] = 1,
		[33] = 16,
		[34] = 16,
		[42] = 2,
		[43] = 4,
		[44] = 8,
		[45] = 16,
		[50] = 2,
		[52] = 4,
		[68] = 4,
		[69] = 4,
		[70] = 8,
		[71] = 4,
		[72] = 8,
		[73] = 4,
		[74] = 8,
		[75] = POINTER_SIZE,
		[76] = POINTER_SIZE,
		[77] = POINTER_SIZE,
		[78] = POINTER_SIZE,
		[80] = POINTER_SIZE,
	};

	return type < WS_COUNT(sizes) ? sizes[type] : 0;
}

/* Size and alignment of an entry inside a payload; false when only the data tells. */
static bool entry_size(struct nvtx_domain *d, const struct nx_schema_entry *e, uint64_t *size,
		       uint64_t *align)
{
	uint64_t one = type_size(e->type), arrays = e->flags & NX_ENTRY_ARRAY;

	*align = one;
	if (e->flags & (NX_ENTRY_POINTER | NX_ENTRY_OFFSET)) {
		*size = *align = e->flags & NX_ENTRY_POINTER ? POINTER_SIZE : one;
		return *size;
	}
	if (e->type >= NX_TYPE_CSTRING && e->type <= NX_TYPE_CSTRING_LAST && e->detail &&
	    (!arrays || arrays == NX_ENTRY_FIXED_ARRAY)) {
		*align = e->type == NX_TYPE_CSTRING_LAST       ? 4
			 : e->type == NX_TYPE_CSTRING_LAST - 1 ? 2
							       : 1;
		return !__builtin_mul_overflow(*align, e->detail, size);
	}
	if (e->type >= NX_ID_STATIC_MIN) {
		struct nvtx_def *nested = ws_nvtx_find(d, WS_NVTX_DEF_SCHEMA, e->type);

		one = nested ? nested->size : 0;
		*align = nested ? nested->known_align : 0;
	}
	if (arrays && arrays != NX_ENTRY_FIXED_ARRAY)
		return false;
	return one && !__builtin_mul_overflow(one, arrays ? e->detail : 1, size);
}

/* Walk the entries by natural alignment (or the packing asked for): the schema's size, where it
 * does not say, and its message. */
static void lay_out(struct nvtx_domain *d, const struct nx_schema_entry *entries, size_t count,
		    struct nvtx_def *schema)
{
	uint64_t at = 0, most = 1;
	bool known = true;

	for (size_t i = 0; i < count && (known || entries[i].offset); i++) {
		const struct nx_schema_entry *e = &entries[i];
		uint64_t size = 0, align = 1;

		known = known && entry_size(d, e, &size, &align) && size <= MAX_BLOBS &&
			at <= MAX_BLOBS;
		if (schema->align && schema->align < align)
			align = schema->align;
		align = align ? align : 1;
		most = align > most ? align : most;
		at = e->offset ? e->offset : (at + align - 1) / align * align;
		if (e->flags & ENTRY_MESSAGE && !schema->message.type) {
			schema->message.offset = at;
			schema->message.type = (uint32_t)e->type;
			schema->message.detail = e->detail;
		}
		at += size;
	}
	if (!known || at > MAX_BLOBS || schema->type == NX_SCHEMA_DYNAMIC)
		return;
	schema->known_align = (uint32_t)most;
	if (!schema->size && schema->type == NX_SCHEMA_STATIC)
		schema->size = (at + most - 1) / most * most;
}

/* ---- registration ---- */

static uint64_t id_for(struct nvtx_domain *d, bool given, uint64_t id)
{
	if (given && id >= NX_ID_STATIC_MIN && id < NX_ID_DYNAMIC_MIN)
		return id;
	return NX_ID_DYNAMIC_MIN + atomic_fetch_add_explicit(&d->next_id, 1, memory_order_relaxed);
}

static uint64_t schema_register(void *handle, const struct nx_schema *s)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_SCHEMA};
	const struct nx_schema_entry *e;

	if (!s)
		return 0;
	e = s->fields & NX_SCHEMA_ENTRIES ? s->entries : NULL;
	def.id = id_for(d, s->fields & NX_SCHEMA_ID, s->id);
	def.name = s->fields & NX_SCHEMA_NAME ? s->name : NULL;
	def.type = s->fields & NX_SCHEMA_TYPE ? (uint32_t)s->type : 0;
	def.flags = s->fields & NX_SCHEMA_FLAGS ? s->flags : 0;
	def.size = s->fields & NX_SCHEMA_SIZE ? s->size : 0;
	def.align = s->fields & NX_SCHEMA_ALIGN ? s->align : 0;
	def.count = e && s->fields & NX_SCHEMA_COUNT ? (uint32_t)s->count : 0;
	lay_out(d, e, def.count, &def);
	ws_nvtx_define_kept(d, &def);
	for (uint32_t i = 0; i < def.count; i++) {
		struct nvtx_def entry = {
			.kind = WS_NVTX_DEF_ENTRY,
			.id = def.id,
			.count = i,
			.name = e[i].name,
			.description = e[i].description,
			.flags = e[i].flags,
			.entry_type = e[i].type,
			.detail = e[i].detail,
			.offset = e[i].offset,
		};

		ws_nvtx_define_kept(d, &entry);
	}
	return def.id;
}

static uint64_t enum_register(void *handle, const struct nx_enum *s)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_SCHEMA, .type = WS_NVTX_SCHEMA_ENUM};
	const struct nx_enum_entry *e;

	if (!s)
		return 0;
	e = s->fields & NX_ENUM_ENTRIES ? s->entries : NULL;
	def.id = id_for(d, s->fields & NX_ENUM_ID, s->id);
	def.name = s->fields & NX_ENUM_NAME ? s->name : NULL;
	def.size = s->fields & NX_ENUM_SIZE ? s->size : 0;
	def.known_align = def.size <= 16 ? (uint32_t)def.size : 0;
	def.count = e && s->fields & NX_ENUM_COUNT ? (uint32_t)s->count : 0;
	ws_nvtx_define_kept(d, &def);
	for (uint32_t i = 0; i < def.count; i++) {
		struct nvtx_def entry = {.kind = WS_NVTX_DEF_ENTRY,
					 .id = def.id,
					 .count = i,
					 .name = e[i].name,
					 .detail = e[i].value,
					 .flags = e[i].is_flag ? 1 : 0};

		ws_nvtx_define_kept(d, &entry);
	}
	return def.id;
}

/* A scope is named by its whole path, so that readers need not follow parents. */
static uint64_t scope_register(void *handle, const struct nx_scope *s)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_RESOURCE, .type = WS_NVTX_RESOURCE_SCOPE};
	struct nvtx_def *up;
	struct nvtx_scratch b;
	const char *path, *parent;
	size_t n, m;

	if (!s || s->size < sizeof(*s))
		return 0;
	path = s->path ? s->path : "";
	path += strspn(path, "/");
	def.id = id_for(d, s->id != 0, s->id);
	up = ws_nvtx_find(d, WS_NVTX_DEF_RESOURCE, s->parent);
	parent = up && up->name ? up->name : "";
	n = strlen(parent);
	m = strlen(path);
	if (!ws_nvtx_scratch(&b, n + m + 2))
		return 0;
	memcpy(b.p, parent, n);
	if (n)
		b.p[n++] = '/';
	memcpy(b.p + n, path, m + 1);
	def.name = b.p;
	ws_nvtx_define_kept(d, &def);
	ws_nvtx_scratch_end(&b);
	return def.id;
}

/* ---- data ---- */

static size_t payload_size(struct nvtx_domain *d, const struct nx_payload *p)
{
	struct nvtx_def *schema;

	if (!p->bytes)
		return 0;
	if (p->size != SIZE_MAX)
		return p->size;
	if (p->schema < NX_ID_STATIC_MIN)
		return type_size(p->schema);
	schema = ws_nvtx_find(d, WS_NVTX_DEF_SCHEMA, p->schema);
	return schema ? schema->size : 0;
}

/* BLOB records being written: as few as hold `left` bytes. */
struct blob_out {
	struct ws_thread *t;
	struct ws_rec_nvtx_blob *r; /* the one being filled, of which `len` bytes are */
	uint64_t left;
	uint32_t number;
};

/* Add `n` bytes; zeroes when `p` is NULL. False when there is no room (counted). */
static bool blob_put(struct blob_out *o, const char *p, size_t n)
{
	const size_t most = WS_REC_MAX_BYTES - sizeof(*o->r);

	while (n) {
		size_t piece = o->left > most ? most : o->left,
		       bytes = WS_ALIGN_UP(sizeof(*o->r) + piece, (size_t)8), k;

		if (!o->r) {
			o->r = ws_rt_reserve(o->t, bytes, WS_LOSS_NVTX);
			if (!o->r)
				return false;
			o->r->rec = ws_rec_head(WS_REC_NVTX_BLOB, 0, o->left > piece,
						(uint32_t)(bytes / 8));
			o->r->number = o->number;
			o->r->len = 0;
		}
		k = piece - o->r->len < n ? piece - o->r->len : n;
		if (p)
			memcpy(o->r->bytes + o->r->len, p, k);
		else
			memset(o->r->bytes + o->r->len, 0, k);
		o->r->len += (uint32_t)k;
		p = p ? p + k : NULL;
		n -= k;
		if (o->r->len == piece) {
			ws_rt_commit(o->t, o->r, bytes);
			o->left -= piece;
			o->r = NULL;
		}
	}
	return true;
}

/* Bytes that the payloads take in a blob; more than MAX_BLOBS when they are too many. */
static uint64_t blobs_size(struct nvtx_domain *d, const struct nx_payload *p, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count && total <= MAX_BLOBS; i++) {
		uint64_t n = payload_size(d, &p[i]);

		total += n > MAX_BLOBS ? MAX_BLOBS + 1
				       : sizeof(struct ws_nvtx_blob) + WS_ALIGN_UP(n, 8ull);
	}
	return total;
}

WS_NOINLINE uint32_t ws_nvtx_blobs(struct ws_thread *t, struct nvtx_domain *d,
				   const struct nx_payload *p, size_t count, bool *lost)
{
	struct blob_out o = {.t = t};

	if (!p || !count)
		return 0;
	o.left = blobs_size(d, p, count);
	if (o.left > MAX_BLOBS) {
		ws_rt_lost(t, WS_LOSS_NVTX, 1);
		*lost = true;
		return 0;
	}
	o.number = ++t->nest[t->busy - 1].texts;
	for (size_t i = 0; i < count && !*lost; i++) {
		struct ws_nvtx_blob head = {p[i].schema, payload_size(d, &p[i])};

		*lost = !blob_put(&o, (const char *)&head, sizeof(head)) ||
			!blob_put(&o, p[i].bytes, head.size) ||
			!blob_put(&o, NULL, WS_ALIGN_UP(head.size, 8ull) - head.size);
	}
	return *lost ? 0 : o.number;
}

/* The message that a payload holds, as its schema says; false when it holds none. */
static bool payload_message(struct ws_thread *t, struct nvtx_def *s, const struct nx_payload *p,
			    size_t size, struct nvtx_text *x)
{
	uint64_t at = s->message.offset, type = s->message.type, n = s->message.detail;
	union nx_message m;
	struct nvtx_scratch b;

	if (!type || at > size || !p->bytes)
		return false;
	if (type == NX_TYPE_CSTRING || type == NX_TYPE_CSTRING + 1) {
		const char *s8 = (const char *)p->bytes + at;

		if (n) { /* embedded, perhaps without a NUL */
			n = strnlen(s8, n < size - at ? n : size - at);
			if (!ws_nvtx_scratch(&b, n + 1))
				return false;
			memcpy(b.p, s8, n);
			b.p[n] = 0;
			*x = nvtx_text_utf8(t, b.p);
			ws_nvtx_scratch_end(&b);
			return true;
		}
	}
	if (size - at < sizeof(m))
		return false;
	memcpy(&m, (const char *)p->bytes + at, sizeof(m));
	if (type == NX_TYPE_REGISTERED)
		*x = ws_nvtx_message(t, NX_MESSAGE_REGISTERED, m);
	else if (type == NX_TYPE_CSTRING || type == NX_TYPE_CSTRING + 1)
		*x = ws_nvtx_message(t, NX_MESSAGE_ASCII, m);
	else if (type == NX_TYPE_CSTRING_LAST && !n)
		*x = ws_nvtx_message(t, NX_MESSAGE_WIDE, m);
	else
		return false;
	return true;
}

static struct nvtx_text message_of(struct ws_thread *t, struct nvtx_domain *d,
				   const struct nx_payload *p, size_t count)
{
	struct nvtx_text x = {0, 0};
	const char *name = NULL;

	for (size_t i = 0; p && i < count; i++) {
		struct nvtx_def *s = p[i].schema >= NX_ID_STATIC_MIN
					     ? ws_nvtx_find(d, WS_NVTX_DEF_SCHEMA, p[i].schema)
					     : NULL;

		if (!s)
			continue;
		if (payload_message(t, s, &p[i], payload_size(d, &p[i]), &x))
			return x;
		name = name ? name : s->name;
	}
	return nvtx_text_utf8(t, name);
}

static void payload_attrs(struct ws_thread *t, struct nvtx_domain *d, const struct nx_payload *p,
			  size_t count, struct nvtx_attrs *a)
{
	bool lost = false;

	memset(a, 0, sizeof(*a));
	a->text = message_of(t, d, p, count);
	a->payload_type = WS_NVTX_PAYLOAD_EXT;
	if (!(a->text.flags & WS_OPEN_LOST))
		a->binary = ws_nvtx_blobs(t, d, p, count, &lost);
	if (lost)
		a->text.flags |= WS_OPEN_LOST;
}

static void mark_payload(void *handle, const struct nx_payload *p, size_t count)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, false);
	struct nvtx_attrs a;

	if (!t)
		return;
	payload_attrs(t, d, p, count, &a);
	ws_nvtx_mark(t, d, &a);
	ws_rt_leave(t);
}

static int push_payload(void *handle, const struct nx_payload *p, size_t count)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, true);
	struct nvtx_attrs a;
	int level;

	if (!t)
		return NX_NO_TRACKING;
	if (nvtx_over())
		memset(&a, 0, sizeof(a));
	else
		payload_attrs(t, d, p, count, &a);
	level = ws_nvtx_push(t, d, &a);
	ws_rt_leave(t);
	return level;
}

static int pop_payload(void *handle, const struct nx_payload *p, size_t count)
{
	uint64_t now = ws_rt_ticks();
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, true);
	uint32_t binary = 0;
	bool lost = false;
	int level;

	if (!t)
		return NX_NO_TRACKING;
	if (ws_rt_collecting())
		binary = ws_nvtx_blobs(t, d, p, count, &lost);
	level = ws_nvtx_pop_slow(t, d, now, binary);
	ws_rt_leave(t);
	return level;
}

static uint64_t start_payload(void *handle, const struct nx_payload *p, size_t count)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, false);
	struct nvtx_attrs a;
	uint64_t id;

	if (!t)
		return NVTX_ID_UNRECORDED;
	payload_attrs(t, d, p, count, &a);
	id = ws_nvtx_start_range(t, d, &a, 0);
	ws_rt_leave(t);
	return id;
}

static void end_payload(void *handle, uint64_t id, const struct nx_payload *p, size_t count)
{
	struct nvtx_domain *d = nvtx_domain_of(handle);
	struct ws_thread *t = nvtx_enter(d, true);
	bool lost = false;

	if (!t)
		return;
	if (id && id < NVTX_ID_UNRECORDED)
		ws_nvtx_end_range(t, d, id, ws_nvtx_blobs(t, d, p, count, &lost));
	ws_rt_leave(t);
}

/* Events of other times or places, given as data: kept as a mark with the data, the times inside
 * are the reader's to find. */
static void batch_submit(void *handle, const struct nx_batch *b)
{
	struct nx_payload p[2];
	size_t flex;

	if (!b)
		return;
	flex = b->flex && b->flex_size > b->flex_offset ? b->flex_size - b->flex_offset : 0;
	p[0] = (struct nx_payload){b->schema, b->size, b->events};
	p[1] = (struct nx_payload){NX_TYPE_REFERENCED, flex,
				   (const char *)b->flex + (flex ? b->flex_offset : 0)};
	mark_payload(handle, p, flex ? 2 : 1);
}

static uint8_t domain_enabled(void *handle)
{
	struct ws_thread *t = nvtx_enter(nvtx_domain_of(handle), true);

	if (!t)
		return 0;
	ws_rt_leave(t);
	return 1;
}

/* Nanoseconds of the session clock, so that data which carries these times can be put beside
 * events. */
static int64_t timestamp(void)
{
	return (int64_t)ws_raw_ns();
}

/* ---- attaching ---- */

static const struct {
	uint8_t slot;
	nx_fn fn;
} slots[] = {
	{NX_P_SCHEMA, (nx_fn)schema_register},
	{NX_P_ENUM, (nx_fn)enum_register},
	{NX_P_MARK, (nx_fn)mark_payload},
	{NX_P_PUSH, (nx_fn)push_payload},
	{NX_P_POP, (nx_fn)pop_payload},
	{NX_P_START, (nx_fn)start_payload},
	{NX_P_END, (nx_fn)end_payload},
	{NX_P_TIMESTAMP, (nx_fn)timestamp},
	{NX_P_DOMAIN_ENABLED, (nx_fn)domain_enabled},
	{NX_P_SCOPE, (nx_fn)scope_register},
	{NX_P_EVENT, (nx_fn)mark_payload},
	{NX_P_BATCH, (nx_fn)batch_submit},
};

int ws_nvtx_extension(struct nx_module_info *m)
{
	if (m->size < sizeof(*m) || !m->segment || !m->segments)
		return 0;
	if (m->module == NX_EXT_COUNTERS)
		ws_rt_diagnostic(WS_INFO, "nvtx",
				 "The program uses NVTX counters, which are not recorded.");
	if (m->module == NX_EXT_MEM)
		ws_rt_diagnostic(
			WS_INFO, "nvtx",
			"The program uses the NVTX memory extension, which is not recorded.");
	if (m->module != NX_EXT_PAYLOAD)
		return 0;
	if (NX_EXT_COMPAT_MAJOR(m->compat) != 1) {
		ws_rt_diagnostic(WS_WARNING, "nvtx",
				 "The program uses NVTX payloads of a version that is not known; "
				 "they are not "
				 "recorded.");
		return 0;
	}
	for (size_t i = 0; i < WS_COUNT(slots); i++)
		if (slots[i].slot < m->segment[0].slots)
			m->segment[0].slot[slots[i].slot] = (intptr_t)slots[i].fn;
	return 1;
}
