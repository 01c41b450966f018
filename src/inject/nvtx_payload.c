/*
 * nvtx_payload.c - the payload extension of NVTX: schemas that describe binary data, and events
 * that carry such data.
 *
 * The data is copied as the program gives it, by the sizes it gives, and the schemas go to the
 * report beside it, so that readers can take it apart: only two things are interpreted here. Where
 * a program leaves a size to the tool (SIZE_MAX), it is taken from the schema, if the schema's
 * layout is static. And an event without a text of its own takes it from the entry that its schema
 * marks as the message, otherwise from the schema's name.
 *
 * Not implemented, their slots left empty, which makes the program's calls do nothing: time domains
 * and their conversions (slots 9 to 11 and 13 to 15), and the counter and memory extensions, which
 * a diagnostic mentions when a program uses them.
 */
#include "inject/nvtx_state.h"
#include "base/choose.h"
#include "schema/schema.h"

enum { POINTER_SIZE = sizeof(void *), ENTRY_MESSAGE = 1 << 10 };
#define MAX_BLOBS (UINT64_C(64) << 20) /* bytes of one event's payloads */

/* ---- layout ---- */

/* Bytes of one element of a predefined type; 0 for those that have none. */
static uint32_t payload_type_size(uint64_t type)
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

	if (type >= WS_COUNT(sizes))
		return 0;
	return sizes[type];
}

/* Size and alignment of an entry inside a payload; false when they depend on the data. */
static bool payload_entry_size(struct nvtx_domain *domain, const struct nx_schema_entry *entry,
			       uint64_t *size, uint64_t *align)
{
	uint64_t one = payload_type_size(entry->type), arrays = entry->flags & NX_ENTRY_ARRAY;

	*align = one;
	if (entry->flags & (NX_ENTRY_POINTER | NX_ENTRY_OFFSET)) {
		if (entry->flags & NX_ENTRY_POINTER)
			*align = POINTER_SIZE;
		*size = *align;
		return *size;
	}
	if (entry->type >= NX_TYPE_CSTRING && entry->type <= NX_TYPE_CSTRING_LAST &&
	    entry->detail && (!arrays || arrays == NX_ENTRY_FIXED_ARRAY)) {
		*align = 1; /* the bytes of a character */
		if (entry->type == NX_TYPE_CSTRING_LAST)
			*align = 4;
		else if (entry->type == NX_TYPE_CSTRING_LAST - 1)
			*align = 2;
		return !__builtin_mul_overflow(*align, entry->detail, size);
	}
	if (entry->type >= NX_ID_STATIC_MIN) {
		struct nvtx_def *nested =
			ws_nvtx_find_definition(domain, WS_NVTX_DEF_SCHEMA, entry->type);

		one = *align = 0;
		if (nested) {
			one = nested->size;
			*align = nested->known_align;
		}
	}
	if (arrays && arrays != NX_ENTRY_FIXED_ARRAY)
		return false;
	return one && !__builtin_mul_overflow(one, arrays ? entry->detail : 1, size);
}

/* Walk the entries by natural alignment (or the packing asked for): finds the schema's size, if it
 * is not given, and its message. */
static void lay_out_schema(struct nvtx_domain *domain, const struct nx_schema_entry *entries,
			   size_t count, struct nvtx_def *schema)
{
	uint64_t at = 0, most = 1;
	bool known = true;

	for (size_t i = 0; i < count && (known || entries[i].offset); i++) {
		const struct nx_schema_entry *entry = &entries[i];
		uint64_t size = 0, align = 1;

		known = known && payload_entry_size(domain, entry, &size, &align) &&
			size <= MAX_BLOBS && at <= MAX_BLOBS;
		if (schema->align && schema->align < align)
			align = schema->align;
		align = ws_max(align, (uint64_t)1);
		most = ws_max(align, most);
		at = (at + align - 1) / align * align;
		if (entry->offset)
			at = entry->offset;
		if (entry->flags & ENTRY_MESSAGE && !schema->message.type) {
			schema->message.offset = at;
			schema->message.type = (uint32_t)entry->type;
			schema->message.detail = entry->detail;
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

static uint64_t choose_schema_id(struct nvtx_domain *domain, bool given, uint64_t id)
{
	if (given && id >= NX_ID_STATIC_MIN && id < NX_ID_DYNAMIC_MIN)
		return id;
	return NX_ID_DYNAMIC_MIN +
	       atomic_fetch_add_explicit(&domain->next_id, 1, memory_order_relaxed);
}

/* Only the fields that the program says it has filled are read. Returns the entries, or NULL. */
static const struct nx_schema_entry *read_schema_fields(const struct nx_schema *schema,
							struct nvtx_def *def)
{
	if (schema->fields & NX_SCHEMA_NAME)
		def->name = schema->name;
	if (schema->fields & NX_SCHEMA_TYPE)
		def->type = (uint32_t)schema->type;
	if (schema->fields & NX_SCHEMA_FLAGS)
		def->flags = schema->flags;
	if (schema->fields & NX_SCHEMA_SIZE)
		def->size = schema->size;
	if (schema->fields & NX_SCHEMA_ALIGN)
		def->align = schema->align;
	if (!(schema->fields & NX_SCHEMA_ENTRIES) || !schema->entries)
		return NULL;
	if (schema->fields & NX_SCHEMA_COUNT)
		def->count = (uint32_t)schema->count;
	return schema->entries;
}

static uint64_t schema_register(void *handle, const struct nx_schema *schema)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_SCHEMA};
	const struct nx_schema_entry *entries;

	if (!schema)
		return 0;
	entries = read_schema_fields(schema, &def);
	def.id = choose_schema_id(domain, schema->fields & NX_SCHEMA_ID, schema->id);
	lay_out_schema(domain, entries, def.count, &def);
	ws_nvtx_keep_definition(domain, &def);
	for (uint32_t i = 0; i < def.count; i++) {
		struct nvtx_def entry = {
			.kind = WS_NVTX_DEF_ENTRY,
			.id = def.id,
			.count = i,
			.name = entries[i].name,
			.description = entries[i].description,
			.flags = entries[i].flags,
			.entry_type = entries[i].type,
			.detail = entries[i].detail,
			.offset = entries[i].offset,
		};

		ws_nvtx_keep_definition(domain, &entry);
	}
	return def.id;
}

static const struct nx_enum_entry *read_enum_fields(const struct nx_enum *definition,
						    struct nvtx_def *def)
{
	if (definition->fields & NX_ENUM_NAME)
		def->name = definition->name;
	if (definition->fields & NX_ENUM_SIZE)
		def->size = definition->size;
	if (!(definition->fields & NX_ENUM_ENTRIES) || !definition->entries)
		return NULL;
	if (definition->fields & NX_ENUM_COUNT)
		def->count = (uint32_t)definition->count;
	return definition->entries;
}

static uint64_t enum_register(void *handle, const struct nx_enum *definition)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_SCHEMA, .type = WS_NVTX_SCHEMA_ENUM};
	const struct nx_enum_entry *entries;

	if (!definition)
		return 0;
	entries = read_enum_fields(definition, &def);
	def.id = choose_schema_id(domain, definition->fields & NX_ENUM_ID, definition->id);
	if (def.size <= 16)
		def.known_align = (uint32_t)def.size;
	ws_nvtx_keep_definition(domain, &def);
	for (uint32_t i = 0; i < def.count; i++) {
		struct nvtx_def entry = {.kind = WS_NVTX_DEF_ENTRY,
					 .id = def.id,
					 .count = i,
					 .name = entries[i].name,
					 .detail = entries[i].value,
					 .flags = entries[i].is_flag != 0};

		ws_nvtx_keep_definition(domain, &entry);
	}
	return def.id;
}

/* A scope is named by its whole path, so that readers need not follow parents. */
static uint64_t scope_register(void *handle, const struct nx_scope *scope)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct nvtx_def def = {.kind = WS_NVTX_DEF_RESOURCE, .type = WS_NVTX_RESOURCE_SCOPE};
	struct nvtx_def *up;
	struct nvtx_scratch scratch;
	const char *path, *parent;
	size_t n, m;

	if (!scope || scope->size < sizeof(*scope))
		return 0;
	path = scope->path ? scope->path : "";
	path += strspn(path, "/");
	def.id = choose_schema_id(domain, scope->id != 0, scope->id);
	up = ws_nvtx_find_definition(domain, WS_NVTX_DEF_RESOURCE, scope->parent);
	parent = up && up->name ? up->name : "";
	n = strlen(parent);
	m = strlen(path);
	if (!ws_nvtx_open_scratch(&scratch, n + m + 2))
		return 0;
	memcpy(scratch.p, parent, n);
	if (n)
		scratch.p[n++] = '/';
	memcpy(scratch.p + n, path, m + 1);
	def.name = scratch.p;
	ws_nvtx_keep_definition(domain, &def);
	ws_nvtx_close_scratch(&scratch);
	return def.id;
}

/* ---- data ---- */

static size_t payload_size(struct nvtx_domain *domain, const struct nx_payload *payload)
{
	struct nvtx_def *schema;

	if (!payload->bytes)
		return 0;
	if (payload->size != SIZE_MAX)
		return payload->size;
	if (payload->schema < NX_ID_STATIC_MIN)
		return payload_type_size(payload->schema);
	schema = ws_nvtx_find_definition(domain, WS_NVTX_DEF_SCHEMA, payload->schema);
	if (!schema)
		return 0;
	return schema->size;
}

/* BLOB records being written: the fewest that hold `left` bytes. */
struct blob_out {
	struct ws_thread *thread;
	struct ws_rec_nvtx_blob *record; /* the one being filled, of which `len` bytes are */
	uint64_t left;
	uint32_t number;
};

/* Add `n` bytes; zeroes when `p` is NULL. False when there is no room (counted). */
static bool write_blob(struct blob_out *out, const char *at, size_t n)
{
	const size_t most = WS_REC_MAX_BYTES - sizeof(*out->record);

	while (n) {
		size_t piece = ws_min(out->left, most),
		       bytes = WS_ALIGN_UP(sizeof(*out->record) + piece, (size_t)8), k;

		if (!out->record) {
			out->record = ws_rt_reserve(out->thread, bytes, WS_LOSS_NVTX);
			if (!out->record)
				return false;
			out->record->rec = ws_rec_head(WS_REC_NVTX_BLOB, 0, out->left > piece,
						       (uint32_t)(bytes / 8));
			out->record->number = out->number;
			out->record->len = 0;
		}
		k = ws_min(piece - out->record->len, n);
		if (at)
			memcpy(out->record->bytes + out->record->len, at, k);
		else
			memset(out->record->bytes + out->record->len, 0, k);
		out->record->len += (uint32_t)k;
		at = at ? at + k : NULL;
		n -= k;
		if (out->record->len == piece) {
			ws_rt_commit(out->thread, out->record, bytes);
			out->left -= piece;
			out->record = NULL;
		}
	}
	return true;
}

/* Bytes that the payloads take in a blob; more than MAX_BLOBS when they are too many. */
static uint64_t sum_blob_sizes(struct nvtx_domain *domain, const struct nx_payload *payload,
			       size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count && total <= MAX_BLOBS; i++) {
		uint64_t n = payload_size(domain, &payload[i]);

		total += n > MAX_BLOBS ? MAX_BLOBS + 1
				       : sizeof(struct ws_nvtx_blob) + WS_ALIGN_UP(n, 8ull);
	}
	return total;
}

WS_NOINLINE uint32_t ws_nvtx_write_blobs(struct ws_thread *thread, struct nvtx_domain *domain,
					 const struct nx_payload *payload, size_t count, bool *lost)
{
	struct blob_out out = {.thread = thread};

	if (!payload || !count)
		return 0;
	out.left = sum_blob_sizes(domain, payload, count);
	if (out.left > MAX_BLOBS) {
		ws_rt_count_loss(thread, WS_LOSS_NVTX, 1);
		*lost = true;
		return 0;
	}
	out.number = ++thread->nest[thread->busy - 1].texts;
	for (size_t i = 0; i < count && !*lost; i++) {
		struct ws_nvtx_blob head = {payload[i].schema, payload_size(domain, &payload[i])};

		*lost = !write_blob(&out, (const char *)&head, sizeof(head)) ||
			!write_blob(&out, payload[i].bytes, head.size) ||
			!write_blob(&out, NULL, WS_ALIGN_UP(head.size, 8ull) - head.size);
	}
	return *lost ? 0 : out.number;
}

/* The message that a payload holds, as its schema says; false when it holds none. */
static bool read_payload_message(struct ws_thread *thread, struct nvtx_def *def,
				 const struct nx_payload *payload, size_t size,
				 struct nvtx_text *text)
{
	uint64_t at = def->message.offset, type = def->message.type, n = def->message.detail;
	union nx_message message;
	struct nvtx_scratch scratch;

	if (!type || at > size || !payload->bytes)
		return false;
	if (type == NX_TYPE_CSTRING || type == NX_TYPE_CSTRING + 1) {
		const char *s8 = (const char *)payload->bytes + at;

		if (n) { /* embedded, perhaps without a NUL */
			n = strnlen(s8, n < size - at ? n : size - at);
			if (!ws_nvtx_open_scratch(&scratch, n + 1))
				return false;
			memcpy(scratch.p, s8, n);
			scratch.p[n] = 0;
			*text = nvtx_text_utf8(thread, scratch.p);
			ws_nvtx_close_scratch(&scratch);
			return true;
		}
	}
	if (size - at < sizeof(message))
		return false;
	memcpy(&message, (const char *)payload->bytes + at, sizeof(message));
	if (type == NX_TYPE_REGISTERED)
		*text = ws_nvtx_read_message(thread, NX_MESSAGE_REGISTERED, message);
	else if (type == NX_TYPE_CSTRING || type == NX_TYPE_CSTRING + 1)
		*text = ws_nvtx_read_message(thread, NX_MESSAGE_ASCII, message);
	else if (type == NX_TYPE_CSTRING_LAST && !n)
		*text = ws_nvtx_read_message(thread, NX_MESSAGE_WIDE, message);
	else
		return false;
	return true;
}

static struct nvtx_text read_message(struct ws_thread *thread, struct nvtx_domain *domain,
				     const struct nx_payload *payload, size_t count)
{
	struct nvtx_text text = {0, 0};
	const char *name = NULL;

	for (size_t i = 0; payload && i < count; i++) {
		struct nvtx_def *def = payload[i].schema >= NX_ID_STATIC_MIN
					       ? ws_nvtx_find_definition(domain, WS_NVTX_DEF_SCHEMA,
									 payload[i].schema)
					       : NULL;

		if (!def)
			continue;
		if (read_payload_message(thread, def, &payload[i],
					 payload_size(domain, &payload[i]), &text))
			return text;
		name = name ? name : def->name;
	}
	return nvtx_text_utf8(thread, name);
}

static void read_payload_attributes(struct ws_thread *thread, struct nvtx_domain *domain,
				    const struct nx_payload *payload, size_t count,
				    struct nvtx_attrs *attrs)
{
	bool lost = false;

	memset(attrs, 0, sizeof(*attrs));
	attrs->text = read_message(thread, domain, payload, count);
	attrs->payload_type = WS_NVTX_PAYLOAD_EXT;
	if (!(attrs->text.flags & WS_OPEN_LOST))
		attrs->binary = ws_nvtx_write_blobs(thread, domain, payload, count, &lost);
	if (lost)
		attrs->text.flags |= WS_OPEN_LOST;
}

static void mark_payload(void *handle, const struct nx_payload *payload, size_t count)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread = nvtx_enter(domain, false);
	struct nvtx_attrs attrs;

	if (!thread)
		return;
	read_payload_attributes(thread, domain, payload, count, &attrs);
	ws_nvtx_write_mark(thread, domain, &attrs);
	ws_rt_leave(thread);
}

static int push_payload(void *handle, const struct nx_payload *payload, size_t count)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread = nvtx_enter(domain, true);
	struct nvtx_attrs attrs;
	int level;

	if (!thread)
		return NX_NO_TRACKING;
	if (nvtx_over())
		memset(&attrs, 0, sizeof(attrs));
	else
		read_payload_attributes(thread, domain, payload, count, &attrs);
	level = ws_nvtx_push_range(thread, domain, &attrs);
	ws_rt_leave(thread);
	return level;
}

static int pop_payload(void *handle, const struct nx_payload *payload, size_t count)
{
	uint64_t now = ws_rt_read_ticks();
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread = nvtx_enter(domain, true);
	uint32_t binary = 0;
	bool lost = false;
	int level;

	if (!thread)
		return NX_NO_TRACKING;
	if (ws_rt_is_collecting())
		binary = ws_nvtx_write_blobs(thread, domain, payload, count, &lost);
	level = ws_nvtx_pop_range_slow(thread, domain, now, binary);
	ws_rt_leave(thread);
	return level;
}

static uint64_t start_payload(void *handle, const struct nx_payload *payload, size_t count)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread = nvtx_enter(domain, false);
	struct nvtx_attrs attrs;
	uint64_t id;

	if (!thread)
		return NVTX_ID_UNRECORDED;
	read_payload_attributes(thread, domain, payload, count, &attrs);
	id = ws_nvtx_start_range(thread, domain, &attrs, 0);
	ws_rt_leave(thread);
	return id;
}

static void end_payload(void *handle, uint64_t id, const struct nx_payload *payload, size_t count)
{
	struct nvtx_domain *domain = nvtx_domain_of(handle);
	struct ws_thread *thread = nvtx_enter(domain, true);
	bool lost = false;

	if (!thread)
		return;
	if (id && id < NVTX_ID_UNRECORDED)
		ws_nvtx_end_range(thread, domain, id,
				  ws_nvtx_write_blobs(thread, domain, payload, count, &lost));
	ws_rt_leave(thread);
}

/* Events of other times or places, passed as data. They are kept as a mark with that data; readers
 * must find the times in it. */
static void batch_submit(void *handle, const struct nx_batch *batch)
{
	struct nx_payload payloads[2];
	size_t flex;

	if (!batch)
		return;
	flex = batch->flex && batch->flex_size > batch->flex_offset
		       ? batch->flex_size - batch->flex_offset
		       : 0;
	payloads[0] = (struct nx_payload){batch->schema, batch->size, batch->events};
	payloads[1] =
		(struct nx_payload){NX_TYPE_REFERENCED, flex,
				    (const char *)batch->flex + (flex ? batch->flex_offset : 0)};
	mark_payload(handle, payloads, flex ? 2 : 1);
}

static uint8_t domain_enabled(void *handle)
{
	struct ws_thread *thread = nvtx_enter(nvtx_domain_of(handle), true);

	if (!thread)
		return 0;
	ws_rt_leave(thread);
	return 1;
}

/* Nanoseconds of the session clock, so that data which carries these times can be put beside
 * events. */
static int64_t read_timestamp(void)
{
	return (int64_t)ws_read_raw_ns();
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
	{NX_P_TIMESTAMP, (nx_fn)read_timestamp},
	{NX_P_DOMAIN_ENABLED, (nx_fn)domain_enabled},
	{NX_P_SCOPE, (nx_fn)scope_register},
	{NX_P_EVENT, (nx_fn)mark_payload},
	{NX_P_BATCH, (nx_fn)batch_submit},
};

int ws_nvtx_fill_extension(struct nx_module_info *module_info)
{
	if (module_info->size < sizeof(*module_info) || !module_info->segment ||
	    !module_info->segments)
		return 0;
	if (module_info->module == NX_EXT_COUNTERS)
		ws_rt_write_diagnostic(WS_INFO, "nvtx",
				       "The program uses NVTX counters, which are not recorded.");
	if (module_info->module == NX_EXT_MEM)
		ws_rt_write_diagnostic(
			WS_INFO, "nvtx",
			"The program uses the NVTX memory extension, which is not recorded.");
	if (module_info->module != NX_EXT_PAYLOAD)
		return 0;
	if (NX_EXT_COMPAT_MAJOR(module_info->compat) != 1) {
		ws_rt_write_diagnostic(
			WS_WARNING, "nvtx",
			"The program uses NVTX payloads of a version that is not known; "
			"they are not "
			"recorded.");
		return 0;
	}
	for (size_t i = 0; i < WS_COUNT(slots); i++)
		if (slots[i].slot < module_info->segment[0].slots)
			module_info->segment[0].slot[slots[i].slot] = (intptr_t)slots[i].fn;
	return 1;
}
