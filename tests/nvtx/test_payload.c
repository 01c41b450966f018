/* test_payload.c - the payload extension, names and synchronisation objects, looked at in the
 * rings. */
#include "tests/nvtx/hook_case.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/schema.h"

#define TEXT_IS(e, rec, want)                                            \
	do {                                                             \
		const char *text_is = env_text(e, rec, NULL);            \
		CHECK(text_is && !strcmp(text_is, want), "text is '%s'", \
		      text_is ? text_is : "(none)");                     \
	} while (0)

#define SchemaRegister(l, d, s) \
	EXT(l, NX_P_SCHEMA, uint64_t, (void *, const struct nx_schema *), d, s)
#define EnumRegister(l, d, s) EXT(l, NX_P_ENUM, uint64_t, (void *, const struct nx_enum *), d, s)
#define ScopeRegister(l, d, s) EXT(l, NX_P_SCOPE, uint64_t, (void *, const struct nx_scope *), d, s)
#define MarkPayload(l, d, p, n) \
	EXT(l, NX_P_MARK, void, (void *, const struct nx_payload *, size_t), d, p, n)
#define PushPayload(l, d, p, n) \
	EXT(l, NX_P_PUSH, int, (void *, const struct nx_payload *, size_t), d, p, n)
#define PopPayload(l, d, p, n) \
	EXT(l, NX_P_POP, int, (void *, const struct nx_payload *, size_t), d, p, n)
#define StartPayload(l, d, p, n) \
	EXT(l, NX_P_START, uint64_t, (void *, const struct nx_payload *, size_t), d, p, n)
#define EndPayload(l, d, id, p, n) \
	EXT(l, NX_P_END, void, (void *, uint64_t, const struct nx_payload *, size_t), d, id, p, n)

struct sample { /* what the test's schema describes */
	char tag;
	int32_t count;
	double ratio;
	char name[10];
	uint16_t pair[2];
};

static const struct nx_schema_entry sample_entries[] = {
	{0, 1, "tag", "one letter", 0, 0, NULL, NULL},
	{0, 15, "count", NULL, 0, 0, NULL, NULL},
	{0, 20, "ratio", NULL, 0, 0, NULL, NULL},
	{1 << 10, NX_TYPE_CSTRING, "name", NULL, 10, 0, NULL, NULL},
	{NX_ENTRY_FIXED_ARRAY, 14, "pair", NULL, 2, 0, NULL, NULL},
};

static uint64_t register_sample(struct loader *loader, void *d)
{
	struct nx_schema schema = {
		.fields = NX_SCHEMA_NAME | NX_SCHEMA_TYPE | NX_SCHEMA_ENTRIES | NX_SCHEMA_COUNT,
		.name = "sample",
		.type = NX_SCHEMA_STATIC,
		.entries = sample_entries,
		.count = 5,
		.id = 77,
		.size = 1 /* not in `fields` */,
	};

	return SchemaRegister(loader, d, &schema);
}

/* The blob of `rec` holds exactly one payload: these bytes. */
static void one_payload(struct env *env, const void *rec, uint32_t number, uint64_t schema,
			const void *bytes, size_t size)
{
	struct ws_nvtx_blob head;
	size_t len;
	const char *b = env_blob(env, rec, number, &len);

	CHECK(b && len == sizeof(head) + WS_ALIGN_UP(size, 8), "%zu bytes", len);
	memcpy(&head, b, sizeof(head));
	CHECK(head.schema == schema && head.size == size && !memcmp(b + sizeof(head), bytes, size));
}

static void check_schemas(struct env *env)
{
	void *d = DomainCreateA(&env->loader, "d");
	struct nx_schema_entry nested[] = {
		{0, 11, "a", NULL, 0, 0, NULL, NULL},
		{0, 0, "inner", NULL, 0, 0, NULL, NULL},
		{NX_ENTRY_POINTER, 19, "p", NULL, 0, 0, NULL, NULL},
	};
	struct nx_schema schema = {
		.fields = NX_SCHEMA_NAME | NX_SCHEMA_TYPE | NX_SCHEMA_FLAGS | NX_SCHEMA_ENTRIES |
			  NX_SCHEMA_COUNT | NX_SCHEMA_ID,
		.name = "outer",
		.type = NX_SCHEMA_STATIC,
		.flags = 4,
		.entries = nested,
		.count = 3,
		.id = NX_ID_STATIC_MIN + 5,
	};
	const struct ws_rec_nvtx_schema *record;
	const struct ws_rec_nvtx_schema_entry *en;
	uint64_t id = register_sample(&env->loader, d);

	CHECK(id >= NX_ID_DYNAMIC_MIN);
	nested[1].type = id;
	CHECK(SchemaRegister(&env->loader, d, &schema) == NX_ID_STATIC_MIN + 5);
	CHECK(SchemaRegister(&env->loader, d, &schema) == NX_ID_STATIC_MIN + 5, "again");
	schema.id = 3; /* not a number that programs may choose */
	CHECK(SchemaRegister(&env->loader, d, &schema) >= NX_ID_DYNAMIC_MIN);
	CHECK(SchemaRegister(&env->loader, d, NULL) == 0);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_SCHEMA) == 3);
	record = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_SCHEMA, 0);
	TEXT_IS(env, record, "sample");
	CHECK(record->record.id == id && record->record.type == NX_SCHEMA_STATIC &&
		      record->entries == 5 && record->size == sizeof(struct sample),
	      "%d", (int)record->size);
	CHECK((record->record.rec.small & WS_NVTX_SMALL_DOMAIN) == 1);
	record = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_SCHEMA, 1);
	CHECK(record->record.id == NX_ID_STATIC_MIN + 5 && record->flags == 4 &&
	      record->size == 8 + sizeof(struct sample) + 8);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_ENTRY) == 5 + 3 + 3);
	en = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_ENTRY, 3);
	TEXT_IS(env, en, "name");
	CHECK(en->record.id == id && en->index == 3 && en->entry_type == NX_TYPE_CSTRING &&
	      en->flags == 1 << 10 && en->detail == 10);
	en = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_ENTRY, 0);
	CHECK(!strcmp(ws_string_at(env->area.arena, en->description)->bytes, "one letter"));
}

static void check_events(struct env *env)
{
	struct loader *loader = &env->loader;
	void *d = DomainCreateA(loader, "d");
	uint64_t id = register_sample(loader, d), range;
	struct sample left = {'x', -3, 0.5, "first", {1, 2}},
		      right = {'y', 4, 1.5, "0123456789", {3, 4}};
	struct nx_payload pa = {id, SIZE_MAX, &left}, pb = {id, sizeof(right), &right},
			  raw = {NX_TYPE_RAW, 3, "abc"}, num = {18, SIZE_MAX, &id};
	const struct ws_rec_nvtx_event_full *record;
	int64_t t0, t1;

	MarkPayload(loader, d, &pa, 1);
	CHECK(PushPayload(loader, d, &pb, 1) == 0);
	CHECK(PushPayload(loader, d, NULL, 0) == 1);
	CHECK(PopPayload(loader, d, &raw, 1) == 1);
	CHECK(PopPayload(loader, d, &pa, 1) == 0);
	CHECK(PopPayload(loader, d, &pa, 1) == -1);
	range = StartPayload(loader, d, &num, 1);
	EndPayload(loader, d, range, &raw, 1);
	EXT(loader, NX_P_EVENT, void, (void *, const struct nx_payload *, size_t), d, &pa, 1);
	t0 = EXT(loader, NX_P_TIMESTAMP, int64_t, (void), );
	t1 = (int64_t)ws_read_raw_ns();
	CHECK(t0 > 0 && t1 >= t0 && t1 - t0 < 1000000000);
	env_read(env);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0);
	CHECK(record->record.payload_type == WS_NVTX_PAYLOAD_EXT);
	TEXT_IS(env, record, "first");
	one_payload(env, record, record->binary, id, &left, sizeof(left));
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE, 0);
	CHECK(!env_text(env, record, NULL) && !record->binary);
	one_payload(env, record, record->binary_end, NX_TYPE_RAW, "abc", 3);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE, 1);
	TEXT_IS(env, record, "0123456789");
	one_payload(env, record, record->binary, id, &right, sizeof(right));
	one_payload(env, record, record->binary_end, id, &left, sizeof(left));
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, 0);
	one_payload(env, record, record->binary, 18, &id, 8);
	CHECK(record->record.other == range);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_END, 0);
	one_payload(env, record, record->binary_end, NX_TYPE_RAW, "abc", 3);
	CHECK(record->record.other == range &&
	      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK) == 2);
}

/* Payloads given with an ordinary event: several at once, big ones, dynamic ones whose size the
 * tool cannot know. */
static void check_attached(struct env *env)
{
	static char big[100000];
	struct nx_schema_entry dyn[] = {
		{0, 15, "n", NULL, 0, 0, NULL, NULL},
		{3 << 4 /* length in another entry */, 20, "values", NULL, 0, 0, NULL, NULL},
	};
	struct nx_schema schema = {.fields = NX_SCHEMA_TYPE | NX_SCHEMA_ENTRIES | NX_SCHEMA_COUNT |
					     NX_SCHEMA_NAME,
				   .name = "dyn",
				   .type = NX_SCHEMA_DYNAMIC,
				   .entries = dyn,
				   .count = 2};
	uint64_t id = SchemaRegister(&env->loader, NULL, &schema);
	struct nx_payload payloads[3] = {
		{id, SIZE_MAX, big}, {id, 20, big}, {NX_TYPE_RAW, sizeof(big), big}};
	struct nx_event ev = event_text("several");
	const struct ws_rec_nvtx_event_full *record;
	struct ws_nvtx_blob head[3];
	const char *b;
	size_t len;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7);
	ev.payload_type = NX_PAYLOAD_EXT;
	ev.payload_count = 3;
	ev.payload = (uint64_t)(uintptr_t)payloads;
	MarkEx(&env->loader, &ev);
	ev.payload_count = 0;
	MarkEx(&env->loader, &ev);
	env_read(env);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0);
	TEXT_IS(env, record, "several");
	b = env_blob(env, record, record->binary, &len);
	CHECK(b && len == 16 + 16 + 24 + 16 + sizeof(big), "%zu", len);
	memcpy(&head[0], b, 16);
	memcpy(&head[1], b + 16, 16);
	memcpy(&head[2], b + 56, 16);
	CHECK(head[0].size == 0 && head[1].size == 20 && head[2].size == sizeof(big));
	CHECK(!memcmp(b + 32, big, 20) && !memcmp(b + 52, "\0\0\0", 4) &&
	      !memcmp(b + 72, big, sizeof(big)));
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1);
	CHECK(!record->binary && record->record.payload_type == WS_NVTX_PAYLOAD_EXT);
}

/* The message may be a pointer, or a registered string. */
static void check_messages(struct env *env)
{
	struct record {
		int32_t n;
		const char *text;
	} record = {1, "by pointer"};
	struct nx_schema_entry en[] = {
		{0, 15, "n", NULL, 0, 0, NULL, NULL},
		{1 << 10, NX_TYPE_CSTRING, "text", NULL, 0, offsetof(struct record, text), NULL,
		 NULL},
	};
	struct nx_schema schema = {.fields = NX_SCHEMA_TYPE | NX_SCHEMA_ENTRIES | NX_SCHEMA_COUNT |
					     NX_SCHEMA_NAME | NX_SCHEMA_SIZE,
				   .name = "fallback",
				   .type = NX_SCHEMA_STATIC,
				   .entries = en,
				   .count = 2,
				   .size = sizeof(record)};
	struct nx_payload payload = {SchemaRegister(&env->loader, NULL, &schema), sizeof(record),
				     &record};

	MarkPayload(&env->loader, NULL, &payload, 1);
	payload.size = 8; /* the entry is cut off */
	MarkPayload(&env->loader, NULL, &payload, 1);
	en[1].type = NX_TYPE_REGISTERED;
	payload = (struct nx_payload){SchemaRegister(&env->loader, NULL, &schema), sizeof(record),
				      &record};
	record.text = DomainRegisterStringA(&env->loader, NULL, "by handle");
	MarkPayload(&env->loader, NULL, &payload, 1);
	env_read(env);
	TEXT_IS(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0), "by pointer");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1), "fallback");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2), "by handle");
}

static void enums_and_scopes(struct env *env)
{
	struct nx_enum_entry en[] = {{"RED", 1, 0}, {"BOLD", 0x10, 1}};
	struct nx_enum s = {.fields = NX_ENUM_NAME | NX_ENUM_ENTRIES | NX_ENUM_COUNT | NX_ENUM_SIZE,
			    .name = "style",
			    .entries = en,
			    .count = 2,
			    .size = 4};
	struct nx_scope top = {sizeof(top), "/rack[3]", 1, 0},
			sub = {sizeof(sub), "node", 0, NX_ID_STATIC_MIN};
	const struct ws_rec_nvtx_schema_entry *record;
	const struct ws_rec_nvtx_define *def;
	uint64_t id = EnumRegister(&env->loader, NULL, &s);

	sub.parent = ScopeRegister(&env->loader, NULL, &top);
	CHECK(id >= NX_ID_DYNAMIC_MIN && sub.parent >= NX_ID_DYNAMIC_MIN && sub.parent != id);
	CHECK(ScopeRegister(&env->loader, NULL, &sub) == NX_ID_STATIC_MIN);
	env_read(env);
	CHECK(((const struct ws_rec_nvtx_schema *)env_find(env, WS_REC_NVTX_DEFINE,
							   WS_NVTX_DEF_SCHEMA, 0))
		      ->record.type == WS_NVTX_SCHEMA_ENUM);
	record = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_ENTRY, 1);
	TEXT_IS(env, record, "BOLD");
	CHECK(record->detail == 0x10 && record->flags == 1 && record->record.id == id);
	def = env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_RESOURCE, 1);
	TEXT_IS(env, def, "rack[3]/node");
	CHECK(def->type == WS_NVTX_RESOURCE_SCOPE && def->id == NX_ID_STATIC_MIN);
}

static void other_extensions(struct env *env)
{
	static struct loader loader;

	loader_init(&loader);
	CHECK(loader_attach_extension(&loader, env->lib, NX_EXT_COUNTERS, 0x0102) == 0 &&
	      loader_attach_extension(&loader, env->lib, NX_EXT_MEM, 0x0102) == 0);
	CHECK(loader_attach_extension(&loader, env->lib, NX_EXT_PAYLOAD, 0x0201) == 0);
	for (int i = 0; i < 63; i++)
		CHECK(!loader.payload[i]);
	env_read(env);
	CHECK(env_count(env, WS_REC_DIAGNOSTIC, 0) == 3, "each is said");
}

/* A forked child has its schemas again, and in it ids go on. */
static void check_forked(struct env *env)
{
	void *d = DomainCreateA(&env->loader, "d");
	uint64_t id = register_sample(&env->loader, d), range = RangeStartA(&env->loader, "before");
	struct sample sample = {.name = "x"};
	struct nx_payload payload = {id, sizeof(sample), &sample};
	size_t schemas = 0, entries = 0;
	pid_t pid = fork();
	int status;

	if (!pid) {
		uint64_t mine;

		MarkPayload(&env->loader, d, &payload, 1);
		mine = RangeStartA(&env->loader, "in the child");
		CHECK(mine != range);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	env_read(env);
	for (size_t i = 0; i < env->n; i++) {
		const struct ws_rec_nvtx_define *record = (const void *)env->gots[i].rec;

		if ((pid_t)env->gots[i].ring->pid != pid || record->rec.kind != WS_REC_NVTX_DEFINE)
			continue;
		schemas += record->kind == WS_NVTX_DEF_SCHEMA && record->id == id;
		entries += record->kind == WS_NVTX_DEF_ENTRY && record->id == id;
	}
	CHECK(schemas == 1 && entries == 5, "%zu, %zu", schemas, entries);
}

/* ---- names ---- */

static void check_resource(struct env *env, size_t i, uint32_t type, uint64_t id, const char *name)
{
	const struct ws_rec_nvtx_define *record =
		env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_RESOURCE, i);

	CHECK(record && record->type == type && record->id == id, "%zu: type %x, id %llx", i,
	      record ? record->type : 0, record ? (unsigned long long)record->id : 0);
	TEXT_IS(env, record, name);
}

typedef void (*name_a)(void *, const char *);
typedef void (*name_w)(void *, const wchar_t *);
typedef void (*device_a)(int, const char *);

static void check_objects(struct env *env)
{
	struct loader *loader = &env->loader;
	void *memory = (void *)(uintptr_t)0xabcdef123456;

	((device_a)loader->fn[NX_CUDA][NX_CU_DEVICE_A])(3, "gpu three");
	((name_a)loader->fn[NX_CUDA][NX_CU_CONTEXT_A])(memory, "context");
	((name_w)loader->fn[NX_CUDA][NX_CU_STREAM_W])(memory, L"stre\u00e4m");
	((name_a)loader->fn[NX_CUDA][NX_CU_EVENT_A])(memory, "event");
	((device_a)loader->fn[NX_CUDART][NX_RT_DEVICE_A])(1, "rt device");
	((name_w)loader->fn[NX_CUDART][NX_RT_STREAM_W])(memory, L"rt stream");
	((name_a)loader->fn[NX_CUDART][NX_RT_EVENT_A])(memory, "rt event");
	((name_a)loader->fn[NX_OPENCL][NX_CL_QUEUE_A])(memory, "queue");
	((name_w)loader->fn[NX_OPENCL][NX_CL_EVENT_W])(memory, L"cl event");
	env_read(env);
	check_resource(env, 0, 4 << 16 | 1, 3, "gpu three");
	check_resource(env, 1, 4 << 16 | 2, 0xabcdef123456, "context");
	check_resource(env, 2, 4 << 16 | 3, 0xabcdef123456, "stre\xc3\xa4m");
	check_resource(env, 3, 4 << 16 | 4, 0xabcdef123456, "event");
	check_resource(env, 4, 5 << 16, 1, "rt device");
	check_resource(env, 5, 5 << 16 | 1, 0xabcdef123456, "rt stream");
	check_resource(env, 6, 5 << 16 | 2, 0xabcdef123456, "rt event");
	check_resource(env, 7, 6 << 16 | 3, 0xabcdef123456, "queue");
	check_resource(env, 8, 6 << 16 | 7, 0xabcdef123456, "cl event");
	for (int m = 2; m < 5; m++)
		for (unsigned i = 1; i < loader->count[m]; i++)
			CHECK(loader->fn[m][i], "module %d slot %u", m, i);
}

static void threads_and_resources(struct env *env)
{
	struct loader *loader = &env->loader;
	void *(*create)(void *, struct nx_resource *) =
		(void *(*)(void *, struct nx_resource *))loader->fn[NX_CORE2][NX_D_RESOURCE_CREATE];
	void (*destroy)(void *) = (void (*)(void *))loader->fn[NX_CORE2][NX_D_RESOURCE_DESTROY];
	struct nx_resource resource = {.version = 3,
				       .size = sizeof(resource),
				       .type = 1 << 16 | 1,
				       .identifier = 0x1000,
				       .message_type = NX_MESSAGE_WIDE,
				       .message.wide = L"buffer"};
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	void *r;

	NameOsThreadA(loader, tid, "main thread");
	NameOsThreadW(loader, tid, L"main thread, wide");
	NameOsThreadA(loader, 0x7fffffff, "no such thread");
	r = create(NULL, &resource);
	CHECK(r && r != create(NULL, &resource));
	destroy(r);
	resource = (struct nx_resource){.version = 3,
					.size = sizeof(resource),
					.type = 1 << 16 | 4,
					.identifier = (uint64_t)pthread_self(),
					.message_type = NX_MESSAGE_REGISTERED};
	resource.message.registered = DomainRegisterStringA(loader, NULL, "by pthread_t");
	CHECK(create(NULL, &resource) && !create(NULL, NULL));
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_THREAD) == 3);
	for (size_t i = 0; i < 3; i++)
		CHECK(((const struct ws_rec_nvtx_define *)env_find(env, WS_REC_NVTX_DEFINE,
								   WS_NVTX_DEF_THREAD, i))
			      ->id == tid);
	TEXT_IS(env, env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_THREAD, 2), "by pthread_t");
	check_resource(env, 0, 1 << 16 | 3, 0x7fffffff, "no such thread");
	check_resource(env, 1, 1 << 16 | 1, 0x1000, "buffer");
}

static void synchronisation(struct env *env)
{
	struct loader *loader = &env->loader;
	void *(*create)(void *, const struct nx_sync *) =
		(void *(*)(void *, const struct nx_sync *))loader->fn[NX_SYNC][NX_SYNC_CREATE];
	void (*step[7])(void *);
	struct nx_sync sync = {.version = 3,
			       .size = sizeof(sync),
			       .message_type = NX_MESSAGE_ASCII,
			       .message.ascii = "spin"};
	const struct ws_rec_nvtx_event *records[3], *end[3];
	void *d = DomainCreateA(loader, "locks"), *lock = create(d, &sync);

	for (int i = NX_SYNC_DESTROY; i <= NX_SYNC_RELEASING; i++)
		step[i] = (void (*)(void *))loader->fn[NX_SYNC][i];
	step[NX_SYNC_START](lock);
	step[NX_SYNC_FAILED](lock);
	step[NX_SYNC_START](lock);
	step[NX_SYNC_SUCCESS](lock);
	step[NX_SYNC_RELEASING](lock);
	step[NX_SYNC_START](NULL);
	step[NX_SYNC_DESTROY](lock);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_EVENT, 0) == 6);
	for (size_t i = 0; i < 3; i++) {
		records[i] = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, i);
		end[i] = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_END, i);
		CHECK(records[i]->other == end[i]->other &&
		      records[i]->other < (UINT64_C(1) << 63));
		TEXT_IS(env, records[i], i == 2 ? "spin (held)" : "spin (acquire)");
	}
	check_resource(env, 0, WS_NVTX_RESOURCE_SYNC, (uint64_t)(uintptr_t)lock, "spin");
}

static const struct test_case cases[] = {
	{"schemas", {0}, check_schemas},
	{"payload events", {0}, check_events},
	{"attached payloads", {0}, check_attached},
	{"messages in payloads", {0}, check_messages},
	{"enums and scopes", {0}, enums_and_scopes},
	{"other extensions", {0}, other_extensions},
	{"schemas in a forked child", {0}, check_forked},
	{"CUDA and OpenCL objects", {0}, check_objects},
	{"threads and resources", {0}, threads_and_resources},
	{"synchronisation objects", {0}, synchronisation},
};

int main(int argc, char **argv)
{
	return run_cases(cases, WS_COUNT(cases), argc, argv);
}
