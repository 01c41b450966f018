/* test_hook.c - what the NVTX hook writes for each call, looked at in the rings. */
#include "tests/nvtx/hook_case.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/schema.h"

#define TEXT_IS(e, rec, want)                                            \
	do {                                                             \
		const char *text_is = env_text(e, rec, NULL);            \
		CHECK(text_is && !strcmp(text_is, want), "text is '%s'", \
		      text_is ? text_is : "(none)");                     \
	} while (0)

/* ---- push and pop ---- */

static void check_plain(struct env *env)
{
	struct loader *loader = &env->loader;
	const struct ws_rec_nvtx_range *record;

	CHECK(loader->tool_version == 3);
	CHECK(RangePop(loader) == -1, "nothing to pop");
	CHECK(RangePushA(loader, "outer") == 0);
	CHECK(RangePushA(loader, "inner") == 1);
	CHECK(RangePushA(loader, NULL) == 2);
	CHECK(RangePop(loader) == 2);
	CHECK(RangePop(loader) == 1);
	CHECK(RangePop(loader) == 0);
	CHECK(RangePop(loader) == -1);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 3);
	record = env_find(env, WS_REC_NVTX_RANGE, 0, 0);
	CHECK(ws_rec_bytes(&record->rec) == 24 && record->rec.small == 0 && record->rec.value == 0);
	record = env_find(env, WS_REC_NVTX_RANGE, 0, 1);
	TEXT_IS(env, record, "inner");
	CHECK(record->start && record->start < record->end);
	record = env_find(env, WS_REC_NVTX_RANGE, 0, 2);
	TEXT_IS(env, record, "outer");
	CHECK(record->start <
	      ((const struct ws_rec_nvtx_range *)env_find(env, WS_REC_NVTX_RANGE, 0, 1))->start);
	CHECK(env_count(env, WS_REC_NVTX_EVENT, 0) == 0 &&
	      env_count(env, WS_REC_NVTX_DEFINE, 0) == 0);
}

static void registered(struct env *env)
{
	struct loader *loader = &env->loader;
	void *d = DomainCreateA(loader, "lib"), *s = DomainRegisterStringA(loader, d, "work");
	struct nx_event ev = event_registered(s);
	const struct ws_rec_nvtx_range *record;

	CHECK(d && s && s == DomainRegisterStringA(loader, d, "work"));
	CHECK(DomainRegisterStringA(loader, d, NULL) == NULL);
	for (int i = 0; i < 3; i++) {
		CHECK(DomainPushEx(loader, d, &ev) == 0);
		CHECK(RangePop(loader) == -1, "the default domain has none open");
		CHECK(DomainPop(loader, d) == 0);
	}
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 3);
	record = env_find(env, WS_REC_NVTX_RANGE, 0, 2);
	TEXT_IS(env, record, "work");
	CHECK((record->rec.small & WS_NVTX_SMALL_REGISTERED) &&
	      !(record->rec.small & WS_NVTX_SMALL_LOCAL));
	CHECK((record->rec.small & WS_NVTX_SMALL_DOMAIN) == 1);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, 0) == 1);
	TEXT_IS(env, env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN, 0), "lib");
}

/* One buffer, other contents: the text must follow the content. */
static void reused_buffers(struct env *env)
{
	char buf[32], want[32];

	for (int i = 0; i < 5000; i++) {
		snprintf(buf, sizeof(buf), "name %d", i * 7 % 64);
		RangePushA(&env->loader, buf);
		RangePop(&env->loader);
	}
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 5000);
	for (size_t i = 0, k = 0; i < env->n; i++) {
		if (env->gots[i].rec->kind != WS_REC_NVTX_RANGE)
			continue;
		snprintf(want, sizeof(want), "name %d", (int)(k++ * 7 % 64));
		TEXT_IS(env, env->gots[i].rec, want);
	}
}

static void never_repeating(struct env *env)
{
	char buf[32], want[32];
	size_t k = 0;

	for (int i = 0; i < 2000; i++) {
		snprintf(buf, sizeof(buf), "unique %d", i);
		RangePushA(&env->loader, buf);
		RangePop(&env->loader);
	}
	env_read(env);
	for (size_t i = 0; i < env->n; i++) {
		if (env->gots[i].rec->kind != WS_REC_NVTX_RANGE)
			continue;
		snprintf(want, sizeof(want), "unique %zu", k++);
		TEXT_IS(env, env->gots[i].rec, want);
	}
	CHECK(k == 2000);
}

static void domains_interleave(struct env *env)
{
	struct loader *loader = &env->loader;
	void *first = DomainCreateA(loader, "a"), *second = DomainCreateA(loader, "b");
	struct nx_event a0 = event_text("a0"), a1 = event_text("a1"), b0 = event_text("b0"),
			b1 = event_text("b1");
	static const char *const order[] = {"a1", "b0", "b0", "b1", "a0"};
	struct ws_ring *ring;

	CHECK(DomainPushEx(loader, first, &a0) == 0);
	CHECK(DomainPushEx(loader, second, &b0) == 0);
	CHECK(DomainPushEx(loader, first, &a1) == 1);
	CHECK(DomainPop(loader, first) == 1);
	CHECK(DomainPop(loader, second) == 0);
	CHECK(DomainPushEx(loader, second, &b0) == 0);
	CHECK(DomainPushEx(loader, first, &a1) == 1);
	CHECK(DomainPushEx(loader, second, &b1) == 1);
	CHECK(DomainPop(loader, second) == 1 && DomainPop(loader, second) == 0 &&
		      DomainPop(loader, second) == -1,
	      "out of the middle, under a1");
	CHECK(DomainPushEx(loader, second, &b0) == 0, "levels start over");
	CHECK(DomainPop(loader, second) == 0);
	CHECK(DomainPop(loader, first) == 1 && DomainPop(loader, first) == 0 &&
	      DomainPop(loader, first) == -1);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) +
		      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE) ==
	      7);
	ring = env_ring_of(env, env_find(env, WS_REC_NVTX_RANGE, 0, 0));
	CHECK(atomic_load(&ring->open_depth) == 0, "holes went with what was above them");
	(void)order;
}

static void levels_to(struct env *env, int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK(RangePushA(&env->loader, "deep") == i, "level %d", i);
}

static void check_deep(struct env *env)
{
	void *d = DomainCreateA(&env->loader, "other");
	struct nx_event ev = event_text("in other");

	levels_to(env, 0, 4096);
	CHECK(DomainPushEx(&env->loader, d, &ev) == 0, "no place, still level 0 of its domain");
	levels_to(env, 4096, 5000);
	CHECK(DomainPop(&env->loader, d) == 0 && DomainPop(&env->loader, d) == -1);
	for (int i = 5000; i-- > 0;)
		CHECK(RangePop(&env->loader) == i, "pop at %d", i);
	CHECK(RangePop(&env->loader) == -1);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) +
		      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE) ==
	      4096);
	CHECK(env_lost(env, WS_LOSS_DEPTH) == 905 && env_lost(env, WS_LOSS_NVTX) == 0);
}

/* ---- texts ---- */

static void check_wide(struct env *env)
{
	static const wchar_t odd[] = {L'a', 0xe9, 0x20ac, 0x1d11e, 0xd800, 0x110000, 0};
	static wchar_t big[100001];
	size_t len;

	MarkW(&env->loader, odd);
	RangePushW(&env->loader, L"push");
	RangePop(&env->loader);
	RangeEnd(&env->loader, RangeStartW(&env->loader, L"start"));
	MarkW(&env->loader, NULL);
	for (int i = 0; i < 100000; i++)
		big[i] = 0x20ac;
	MarkW(&env->loader, big);
	env_read(env);
	TEXT_IS(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0),
		"a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xef\xbf\xbd\xef\xbf\xbd");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_RANGE, 0, 0), "push");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, 0), "start");
	CHECK(!env_text(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1), NULL));
	CHECK(env_text(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2), &len) &&
		      len == 300000,
	      "%zu", len);
}

static void long_texts(struct env *env)
{
	static const size_t sizes[] = {999,  1000,  1001,  7999,   8000,   8001,
				       9000, 12000, 24000, 100000, 2 << 20};
	char *text = malloc((2 << 20) + 1);
	size_t len;

	for (size_t i = 0; i < WS_COUNT(sizes); i++) {
		struct nx_event ev;

		memset(text, 'A' + (int)i, sizes[i]);
		text[sizes[i]] = 0;
		RangePushA(&env->loader, text);
		RangePop(&env->loader);
		ev = event_registered(DomainRegisterStringA(&env->loader, NULL, text));
		for (int twice = 0; twice < 2; twice++)
			MarkEx(&env->loader, &ev);
	}
	env_read(env);
	for (size_t i = 0; i < WS_COUNT(sizes); i++) {
		const void *r[3] = {env_find(env, WS_REC_NVTX_RANGE, 0, i),
				    env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2 * i),
				    env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2 * i + 1)};

		for (int k = 0; k < 3; k++) {
			const char *t = env_text(env, r[k], &len);

			CHECK(t && len == sizes[i], "%zu, not %zu", len, sizes[i]);
			for (size_t j = 0; j < len; j++)
				CHECK(t[j] == 'A' + (char)i);
		}
		CHECK(((const struct ws_rec *)r[2])->small & WS_NVTX_SMALL_REGISTERED);
	}
}

enum { MADE_UP = 60000 };

/* Names that keep coming back, and one in three that never does. */
static void make_up_name(char *name, size_t size, unsigned number)
{
	if (number % 3)
		snprintf(name, size, "part %u of the work", number * 7919 % 4000);
	else
		snprintf(name, size, "request %u of the work", number);
}

/* What names take that stay defined is bounded; those after it are there all the same. */
static void names_made_up_for_ever(struct env *env)
{
	const struct ws_arena *arena = env->area.arena;
	char name[64];
	size_t len;

	for (unsigned i = 0; i < MADE_UP; i++) {
		make_up_name(name, sizeof(name), i);
		RangePushA(&env->loader, name);
		RangePop(&env->loader);
	}
	CHECK(arena->string_chunks > 1, "%u", arena->string_chunks);
	CHECK(arena->string_chunks <= arena->chunk_count / WS_STRINGS_SHARE + 1, "%u of %u chunks",
	      arena->string_chunks, arena->chunk_count);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == MADE_UP, "%zu",
	      env_count(env, WS_REC_NVTX_RANGE, 0));
	/* Finding an inline text takes a look at all records. */
	for (unsigned i = 0, found = 0; i < env->n; i++) {
		const char *text;

		if (env->gots[i].rec->kind != WS_REC_NVTX_RANGE || found++ % 1009)
			continue;
		text = env_text(env, env->gots[i].rec, &len);
		make_up_name(name, sizeof(name), found - 1);
		CHECK(text && len == strlen(name) && !memcmp(text, name, len), "%.*s, not %s",
		      (int)len, text, name);
	}
}

/* ---- attributes ---- */

static void check_payloads(struct env *env)
{
	static const uint64_t bits[] = {0,
					UINT64_MAX,
					UINT64_C(0x8000000000000000),
					UINT64_C(0x400921fb54442d18),
					UINT64_C(0xffffffff87654321),
					UINT64_C(0xdeadbeefffffffff),
					UINT64_C(0x1234567840490fdb)};
	struct nx_event ev = event_text("with payload");

	for (int type = 1; type <= 6; type++) {
		ev.payload_type = type;
		ev.payload = bits[type];
		MarkEx(&env->loader, &ev);
		CHECK(RangePushEx(&env->loader, &ev) == 0 && RangePop(&env->loader) == 0);
	}
	ev.payload_type = 77; /* no such */
	MarkEx(&env->loader, &ev);
	env_read(env);
	for (int type = 1; type <= 6; type++)
		for (int range = 0; range < 2; range++) {
			const struct ws_rec_nvtx_event_full *record =
				env_find(env, WS_REC_NVTX_EVENT,
					 range ? WS_NVTX_EV_RANGE : WS_NVTX_EV_MARK,
					 (size_t)type - 1);

			CHECK(record && ws_rec_bytes(&record->record.rec) == sizeof(*record) &&
			      record->record.payload_type == type);
			CHECK(record->payload == (type >= 4 ? (uint32_t)bits[type] : bits[type]));
			CHECK(!record->record.has_color && !record->record.category &&
			      !record->binary);
		}
	CHECK(ws_rec_bytes(env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 6)) ==
	      sizeof(struct ws_rec_nvtx_event));
}

static void check_colours(struct env *env)
{
	struct nx_event ev = event_text("red");
	const struct ws_rec_nvtx_event_full *record;

	ev.color_type = NX_COLOR_ARGB;
	ev.color = 0xffff0000;
	ev.category = 7;
	CHECK(RangePushEx(&env->loader, &ev) == 0);
	CHECK(RangePushA(&env->loader, "plain above") == 1 && RangePop(&env->loader) == 1 &&
	      RangePop(&env->loader) == 0);
	ev.color_type = 0;
	MarkEx(&env->loader, &ev);
	RangeEnd(&env->loader, RangeStartEx(&env->loader, &ev));
	MarkEx(&env->loader, NULL);
	NameCategoryA(&env->loader, 7, "seven");
	NameCategoryA(&env->loader, 7, "seven");
	NameCategoryA(&env->loader, 7, "siete");
	env_read(env);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE, 0);
	CHECK(record->record.has_color && record->color == 0xffff0000 &&
	      record->record.category == 7 && record->record.other > record->record.time);
	TEXT_IS(env, record, "red");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_RANGE, 0, 0), "plain above");
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0);
	CHECK(!record->record.has_color && record->record.category == 7 &&
	      ws_rec_bytes(&record->record.rec) == sizeof(record->record));
	CHECK(((const struct ws_rec_nvtx_event *)env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START,
							  0))
		      ->category == 7);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY) == 2,
	      "said again only when it changes");
	TEXT_IS(env, env_find(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY, 1), "siete");
}

/* Attributes of a shorter version end at their size: the next page cannot be read. */
static void short_attributes(struct env *env)
{
	long page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct nx_event full = event_text("text");
	const struct ws_rec_nvtx_event_full *record;

	CHECK(at != MAP_FAILED && !mprotect(at + page, (size_t)page, PROT_NONE));
	full.category = 3;
	full.payload_type = 1;
	full.payload = 99;
	for (uint16_t size = 4; size < sizeof(full); size = (uint16_t)(size + 4)) {
		full.size = size;
		memcpy(at + page - size, &full, size);
		DomainMarkEx(&env->loader, NULL, (const struct nx_event *)(at + page - size));
		CHECK(RangePushEx(&env->loader, (const struct nx_event *)(at + page - size)) == 0 &&
		      RangePop(&env->loader) == 0);
	}
	full.size = 64; /* a later version, longer than we know */
	MarkEx(&env->loader, &full);
	full.size = 0; /* forgotten */
	MarkEx(&env->loader, &full);
	env_read(env);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0); /* size 4 */
	CHECK(record->record.category == 0);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1); /* size 8 */
	CHECK(record->record.category == 3 &&
	      ws_rec_bytes(&record->record.rec) == sizeof(record->record));
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 7); /* size 32 */
	CHECK(record->payload == 99 && !env_text(env, record, NULL));
	for (size_t i = 11; i < 13; i++) {
		record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, i);
		CHECK(record && record->payload == 99);
		TEXT_IS(env, record, "text");
	}
}

/* ---- start/end ---- */

static void *end_there(void *arg)
{
	uint64_t *ids = arg;

	for (int i = 0; i < 1000; i++)
		RangeEnd(loader_now, ids[i]);
	ids[0] = RangeStartA(loader_now, "theirs");
	return NULL;
}

static void start_end(struct env *env)
{
	static uint64_t ids[1000];
	const struct ws_rec_nvtx_event *record;
	pthread_t thread;

	for (int i = 0; i < 1000; i++) {
		ids[i] = RangeStartA(&env->loader, "ours");
		CHECK(ids[i] && (!i || ids[i] != ids[i - 1]));
	}
	pthread_create(&thread, NULL, end_there, ids);
	pthread_join(thread, NULL);
	for (int i = 1; i < 1000; i++)
		CHECK(ids[0] != ids[i], "ids are unique in the process");
	RangeEnd(&env->loader, 0);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START) == 1001 &&
	      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_END) == 1000);
	record = env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, 0);
	TEXT_IS(env, record, "ours");
	CHECK(record->other == ((const struct ws_rec_nvtx_event *)env_find(env, WS_REC_NVTX_EVENT,
									   WS_NVTX_EV_END, 0))
				       ->other);
	CHECK(env_ring_of(env, record) !=
	      env_ring_of(env, env_find(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_END, 0)));
}

/* ---- collecting or not ---- */

static void check_delayed(struct env *env)
{
	struct loader *loader = &env->loader;
	uint64_t before, inside;
	char buf[32];

	MarkA(loader, "too early");
	before = RangeStartA(loader, "too early");
	CHECK(RangePushA(loader, "across") == 0);
	CHECK(RangePushA(loader, "too early") == 1 && RangePop(loader) == 1);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) + env_count(env, WS_REC_NVTX_EVENT, 0) == 0);
	env_collect(env, true);
	RangeEnd(loader, before);
	CHECK(RangePop(loader) == 0);
	MarkA(loader, "inside");
	inside = RangeStartA(loader, "inside");
	CHECK(RangePushA(loader, "cut off") == 0);
	env_collect(env, false);
	CHECK(RangePop(loader) == 0);
	for (int i = 0; i < 1000; i++) { /* texts that go unused must not stay with the recorder */
		snprintf(buf, sizeof(buf), "unused %d", i);
		RangePushA(loader, buf);
		RangePop(loader);
	}
	RangeEnd(loader, inside);
	MarkA(loader, "too late");
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 1);
	TEXT_IS(env, env_find(env, WS_REC_NVTX_RANGE, 0, 0), "across");
	CHECK(env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK) == 1 &&
	      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_START) == 1 &&
	      env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_END) == 1);
	CHECK(env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_FORGET) ==
	      env_count(env, WS_REC_TEXT, 0));
}

static void try_domains(struct env *env, bool want_default, bool want_keep, bool want_drop)
{
	struct loader *loader = &env->loader;
	void *keep = DomainCreateA(loader, "keep"), *drop = DomainCreateA(loader, "drop");
	struct nx_event ev = event_text("x");
	uint8_t enabled;

	CHECK(keep && drop);
	CHECK(RangePushA(loader, "x") == (want_default ? 0 : -2) &&
	      RangePop(loader) == (want_default ? 0 : -2));
	CHECK(DomainPushEx(loader, keep, &ev) == (want_keep ? 0 : -2) &&
	      DomainPop(loader, keep) == (want_keep ? 0 : -2));
	CHECK(DomainPushEx(loader, drop, &ev) == (want_drop ? 0 : -2) &&
	      DomainPop(loader, drop) == (want_drop ? 0 : -2));
	DomainMarkEx(loader, drop, &ev);
	DomainEnd(loader, drop, DomainStartEx(loader, drop, &ev));
	DomainNameCategoryA(loader, drop, 1, "category");
	NameOsThreadA(loader, (uint32_t)syscall(SYS_gettid), "names pass every filter");
	enabled = EXT(loader, NX_P_DOMAIN_ENABLED, uint8_t, (void *), drop);
	CHECK(enabled == want_drop);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) ==
	      (size_t)(want_default + want_keep + want_drop));
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) ==
	      (size_t)(want_keep + want_drop));
	CHECK(env_count(env, WS_REC_NVTX_EVENT, 0) == (want_drop ? 3u : 0u));
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY) == (size_t)want_drop);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_THREAD) == 1);
}

static void filter_include(struct env *env)
{
	try_domains(env, false, true, false);
}

static void filter_include_default(struct env *env)
{
	try_domains(env, true, true, false);
}

static void filter_exclude(struct env *env)
{
	try_domains(env, true, true, false);
}

static void filter_exclude_default(struct env *env)
{
	try_domains(env, false, true, true);
}

/* The recorder has finished while the program goes on: nothing is written, levels stay right. */
static void after_the_end(struct env *env)
{
	struct loader *loader = &env->loader;
	char buf[32];
	size_t before;

	CHECK(RangePushA(loader, "open at the end") == 0);
	env_collect(env, false);
	atomic_store(&env->area.arena->closed, 1);
	env_read(env);
	before = env->n;
	for (int i = 0; i < 1000; i++) {
		snprintf(buf, sizeof(buf), "late %d", i);
		CHECK(RangePushA(loader, buf) == 1);
		MarkA(loader, buf);
		RangeEnd(loader, RangeStartA(loader, buf));
		CHECK(RangePop(loader) == 1);
	}
	CHECK(RangePop(loader) == 0 && RangePop(loader) == -1);
	env_read(env);
	CHECK(env->n == before, "%zu more", env->n - before);
}

/* ---- several loaders, forks, signals, memory ---- */

static void several_libraries(struct env *env)
{
	static struct loader other;
	void *first, *second;
	struct nx_event ev = event_text("shared");

	loader_init(&other);
	CHECK(loader_attach(&other, env->lib) == 1 && loader_attach(&other, env->lib) == 1,
	      "again is no harm");
	first = DomainCreateA(&env->loader, "common");
	second = DomainCreateA(&other, "common");
	CHECK(first == second);
	CHECK(DomainPushEx(&env->loader, first, &ev) == 0 &&
	      DomainPushEx(&other, second, &ev) == 1);
	CHECK(DomainPop(&env->loader, first) == 1 && DomainPop(&other, second) == 0);
	CHECK(DomainCreateW(&env->loader, L"common") == first);
	DomainDestroy(&env->loader, first);
	DomainDestroy(&env->loader, first);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DESTROY) == 0);
	DomainDestroy(&other, second);
	DomainDestroy(&other, second);
	DomainDestroy(&other, NULL);
	CHECK(DomainPushEx(&env->loader, first, &ev) == 0 && DomainPop(&env->loader, first) == 0,
	      "a late use is no harm");
	CHECK(DomainCreateA(&env->loader, "common") == first);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DESTROY) == 1 &&
	      env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) == 2);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 3);
}

/* A loader of another version has fewer slots, and others that we do not know: what is beyond must
 * stay as it was. */
static void other_table_sizes(struct env *env)
{
	static struct loader odd;
	const nx_fn guard = (nx_fn)(uintptr_t)0x1234;

	loader_init(&odd);
	odd.count[NX_CORE] = 12;
	odd.count[NX_CORE2] = 5;
	odd.count[NX_SYNC] = 0;
	for (int m = 1; m < 7; m++)
		for (int i = 0; i < LOADER_SLOTS; i++)
			odd.fn[m][i] = guard;
	odd.table[NX_CORE][NX_MARK_A] = NULL;
	CHECK(loader_attach(&odd, env->lib) == 1);
	CHECK(odd.fn[NX_CORE][NX_POP] != guard && odd.fn[NX_CORE][NX_CATEGORY_A] == guard &&
	      odd.fn[NX_CORE][NX_MARK_A] == guard);
	CHECK(odd.fn[NX_CORE2][NX_D_PUSH_EX] != guard && odd.fn[NX_CORE2][NX_D_POP] == guard);
	CHECK(odd.fn[NX_SYNC][NX_SYNC_CREATE] == guard && odd.fn[NX_CORE][0] == guard &&
	      odd.fn[NX_CORE][18] == guard);
}

static void no_session(struct env *env)
{
	int (*init)(nx_export_fn) =
		(int (*)(nx_export_fn))dlsym(env->lib, "InitializeInjectionNvtx2");

	CHECK(loader_attach(&env->loader, env->lib) == 0,
	      "declines, so that NVTX turns itself off");
	CHECK(loader_attach_extension(&env->loader, env->lib, NX_EXT_PAYLOAD, 0x0104) == 0);
	CHECK(init(NULL) == 0);
	CHECK(!env->loader.fn[NX_CORE][NX_PUSH_A]);
}

static void in_child(struct env *env, void *d, struct nx_event *ev)
{
	CHECK(DomainPop(&env->loader, d) == -1, "the parent's open range is not the child's");
	CHECK(DomainPushEx(&env->loader, d, ev) == 0 && DomainPop(&env->loader, d) == 0);
	CHECK(RangePushA(&env->loader, "child") == 0 && RangePop(&env->loader) == 0);
	_exit(0);
}

static void check_forked(struct env *env)
{
	struct loader *loader = &env->loader;
	void *d = DomainCreateA(loader, "dom"), *s = DomainRegisterStringA(loader, d, "text");
	struct nx_event ev = event_registered(s);
	uint32_t home = 0, n = 0;
	int status;
	pid_t pid;

	DomainNameCategoryA(loader, d, 5, "five");
	DomainNameCategoryA(loader, d, 5, "cinco");
	CHECK(DomainPushEx(loader, d, &ev) == 0);
	pid = fork();
	if (!pid)
		in_child(env, d, &ev);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(DomainPop(loader, d) == 0);
	env_read(env);
	for (size_t i = 0; i < env->n; i++) {
		if ((pid_t)env->gots[i].ring->pid != pid)
			continue;
		if (env->gots[i].rec->kind == WS_REC_NVTX_RANGE && env->gots[i].rec->small) {
			const struct ws_shared_string *str =
				ws_string_at(env->area.arena, env->gots[i].rec->value);
			const struct ws_process_home *process_home =
				ws_chunk_at(env->area.arena, env->gots[i].ring->process_home);

			home = env->gots[i].ring->process_home;
			CHECK(!strcmp(str->bytes, "text") && process_home->pid == (uint32_t)pid);
			CHECK((uint64_t)env->gots[i].rec->value * 8 / WS_CHUNK_SIZE == home,
			      "the string lies with the child");
		}
		if (env->gots[i].rec->kind == WS_REC_NVTX_DEFINE) {
			n++;
			TEXT_IS(env, env->gots[i].rec, n == 1 ? "dom" : "cinco");
		}
	}
	CHECK(home && n == 2, "domain and category are defined again: %u", n);
	CHECK(env_count(env, WS_REC_NVTX_RANGE, 0) == 3);
}

static struct loader *in_handler;
static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
	RangePushA(in_handler, "handler");
	MarkA(in_handler, "handler");
	RangePop(in_handler);
}

/* An emulated processor makes a few ranges between two alarms, a real one hundreds. */
static void check_signals(struct env *env)
{
	struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	size_t marks, texts = 0, made = 0;
	char buf[32];

	in_handler = &env->loader;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	for (; made < 300000 && (alarms < 3000 || made < 10000); made++) {
		snprintf(buf, sizeof(buf), "%zu", made);
		CHECK(RangePushA(&env->loader, buf) == 0 && RangePop(&env->loader) == 0);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	env_read(env);
	marks = env_count(env, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK);
	CHECK(marks > 0);
	for (size_t i = 0; i < env->n; i++)
		texts += env->gots[i].rec->kind == WS_REC_NVTX_RANGE;
	CHECK(texts + env_lost(env, WS_LOSS_NVTX) == made + marks, "%zu ranges, %zu marks", texts,
	      marks);
}

/* When memory is full, every range is either there or counted. */
static void check_full(struct env *env)
{
	size_t n = 0;
	char buf[32];

	for (int i = 0; i < 200000; i++) {
		snprintf(buf, sizeof(buf), "%d", i);
		RangePushA(&env->loader, i & 1 ? buf : "same");
		RangePop(&env->loader);
	}
	env_read(env);
	for (size_t i = 0; i < env->n; i++)
		n += env->gots[i].rec->kind == WS_REC_NVTX_RANGE;
	CHECK(n > 100 && n < 200000 && n + env_lost(env, WS_LOSS_NVTX) == 200000,
	      "%zu there, %llu lost", n, (unsigned long long)env_lost(env, WS_LOSS_NVTX));
}

static void *many_strings(void *arg)
{
	struct loader *loader = loader_now;
	char buf[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(buf, sizeof(buf), "string %d", i);
		struct nx_event ev = event_registered(DomainRegisterStringA(loader, NULL, buf));

		snprintf(buf, sizeof(buf), "domain %d", i % 50);
		void *d = DomainCreateA(loader, buf);

		CHECK(DomainPushEx(loader, d, &ev) == 0 && DomainPop(loader, d) == 0);
	}
	return arg;
}

static void threads_register(struct env *env)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, many_strings, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) == 50, "each once: %zu",
	      env_count(env, WS_REC_NVTX_DEFINE, 1));
	for (size_t i = 0, n = 0; i < env->n; i++)
		if (env->gots[i].rec->kind == WS_REC_NVTX_RANGE)
			CHECK(++n <= 12000 && env->gots[i].rec->value);
}

static void keeps_errno(struct env *env)
{
	static char big[20000];
	struct nx_event ev = event_text("x");

	memset(big, 'x', sizeof(big) - 1);
	errno = 4711;
	RangePushA(&env->loader, "first use on this thread");
	RangePushW(&env->loader, L"wide");
	RangePushA(&env->loader, big);
	DomainPushEx(&env->loader, DomainCreateA(&env->loader, big), &ev);
	DomainRegisterStringA(&env->loader, NULL, big);
	NameOsThreadA(&env->loader, 999999, "nobody");
	CHECK(errno == 4711);
}

/* ---- waiting for a command: see nvtx_idle.h ---- */

#define LITERAL "a literal that is longer than what is kept of it"

/* The i-th range that was written, as a record of its own kind or as an event; NULL past the last.
 */
static const struct ws_rec *find_range(struct env *env, size_t i)
{
	for (size_t k = 0; k < env->n; k++) {
		const struct ws_rec *rec = env->gots[k].rec;
		const struct ws_rec_nvtx_event *event = (const void *)rec;

		if ((rec->kind == WS_REC_NVTX_RANGE ||
		     (rec->kind == WS_REC_NVTX_EVENT && event->kind == WS_NVTX_EV_RANGE)) &&
		    !i--)
			return rec;
	}
	return NULL;
}

static size_t count_ranges(struct env *env)
{
	size_t n = 0;

	while (find_range(env, n))
		n++;
	return n;
}

/* Ranges that were open when the collection began are written as events. */
static uint64_t read_start(const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_event *event = (const void *)rec;

	if (rec->kind == WS_REC_NVTX_EVENT)
		return event->time;
	return ((const struct ws_rec_nvtx_range *)(const void *)rec)->start;
}

#define RANGE_IS(e, i, want) TEXT_IS(e, find_range(e, i), want)

static void waiting_keeps_names(struct env *env)
{
	struct loader *loader = &env->loader;
	void *registered = DomainRegisterStringA(loader, NULL, "a registered name, also long");
	struct nx_event ev = event_registered(registered);
	uint64_t before;
	char buffer[64];

	RangePushA(loader, "first"); /* sets the thread up */
	RangePop(loader);
	before = ws_read_counter();
	atomic_store(&env->area.arena->heartbeat, before);
	CHECK(RangePushA(loader, "short") == 0);
	CHECK(RangePushA(loader, LITERAL) == 1);
	strcpy(buffer, "a buffer that is used again");
	CHECK(RangePushA(loader, buffer) == 2);
	strcpy(buffer, "a buffer that is written anew");
	CHECK(RangePushEx(loader, &ev) == 3);
	ev = event_text("exactly 16 bytes");
	CHECK(RangePushEx(loader, &ev) == 4);
	strcpy(buffer, "fünfzehn Bytesü");
	CHECK(RangePushA(loader, buffer) == 5);
	MarkA(loader, "not recorded");
	RangeEnd(loader, RangeStartA(loader, "nor this"));
	for (int i = 0; i < 1000; i++)
		CHECK(RangePushA(loader, "passes by") == 6 && RangePop(loader) == 6);
	env_read(env);
	CHECK(env_count(env, WS_REC_NVTX_EVENT, 0) + count_ranges(env) == 0);
	env_collect(env, true);
	CHECK(RangePushA(loader, "inside") == 6);
	for (int level = 6; level >= 0; level--)
		CHECK(RangePop(loader) == level, "level %d", level);
	CHECK(RangePop(loader) == -1);
	env_read(env);
	CHECK(count_ranges(env) == 7);
	RANGE_IS(env, 0, "inside");
	RANGE_IS(env, 1, "fünfzehn Bytes…");
	RANGE_IS(env, 2, "exactly 16 bytes");
	RANGE_IS(env, 3, "a registered name, also long");
	RANGE_IS(env, 4, "a buffer that is…");
	RANGE_IS(env, 5, LITERAL);
	RANGE_IS(env, 6, "short");
	for (size_t i = 1; i < 7; i++)
		/* The first use of a registered string takes the usual way, which reads the clock.
		 */
		CHECK(read_start(find_range(env, i)) == (before | 1) ||
		      (i == 3 && read_start(find_range(env, i)) > before));
}

static void waiting_in_domains(struct env *env)
{
	struct loader *loader = &env->loader;
	void *lib = DomainCreateA(loader, "lib"), *off = DomainCreateA(loader, "drop");
	struct nx_event ev = event_text("of lib"), dropped = event_text("dropped");

	for (int round = 0; round < 2; round++) { /* while waiting, then across the start */
		CHECK(RangePushA(loader, "outer") == 0);
		CHECK(DomainPushEx(loader, lib, &ev) == 0);
		CHECK(DomainPushEx(loader, lib, &ev) == 1);
		CHECK(DomainPushEx(loader, off, &dropped) < 0);
		CHECK(RangePushA(loader, "inner") == 1);
		CHECK(DomainPushEx(loader, lib, &ev) == 2);
		CHECK(RangePop(loader) == 1, "from under lib's");
		if (round)
			env_collect(env, true);
		CHECK(DomainPop(loader, off) < 0);
		for (int level = 2; level >= 0; level--)
			CHECK(DomainPop(loader, lib) == level, "round %d level %d", round, level);
		CHECK(RangePop(loader) == 0 && RangePop(loader) == -1);
	}
	env_read(env);
	CHECK(count_ranges(env) == 4);
	for (size_t i = 0; i < 3; i++) {
		RANGE_IS(env, i, "of lib");
		CHECK(find_range(env, i)->small & WS_NVTX_SMALL_DOMAIN);
	}
	RANGE_IS(env, 3, "outer");
}

static void waiting_deep(struct env *env)
{
	enum { DEPTH = 5000 };
	struct loader *loader = &env->loader;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < DEPTH; i++)
			CHECK(RangePushA(loader, "deep") == i);
		if (round)
			env_collect(env, true);
		for (int i = DEPTH - 1; i >= 0; i--)
			CHECK(RangePop(loader) == i);
		CHECK(RangePop(loader) == -1);
	}
	env_read(env);
	CHECK(count_ranges(env) == 4096); /* as deep as is kept */
	for (size_t i = 0; i < 4096; i++)
		RANGE_IS(env, i, "deep");
}

/* A name that ends at the end of its page is not read beyond it. */
static void waiting_at_page_end(struct env *env)
{
	const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	char *text = page + page_size - 4;

	munmap(page + page_size, page_size);
	strcpy(text, "end");
	RangePushA(&env->loader, "first");
	for (int i = 0; i < 3; i++)
		CHECK(RangePushA(&env->loader, text) == 1 && RangePop(&env->loader) == 1);
	CHECK(RangePushA(&env->loader, text) == 1);
	env_collect(env, true);
	RangePop(&env->loader);
	env_read(env);
	RANGE_IS(env, 0, "end");
}

static void waiting_forks(struct env *env)
{
	int status;
	pid_t child;

	RangePushA(&env->loader, "the parent's");
	child = fork();
	if (!child) {
		CHECK(RangePushA(&env->loader, "the child's") == 0);
		env_collect(env, true);
		CHECK(RangePop(&env->loader) == 0 && RangePop(&env->loader) == -1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "status %x", (unsigned)status);
	CHECK(RangePop(&env->loader) == 0);
	env_read(env);
	CHECK(count_ranges(env) == 2);
}

/* From one collection to the next: what is open at the end of one is known in the other. */
static void waiting_again(struct env *env)
{
	struct loader *loader = &env->loader;

	for (int i = 0; i < 100; i++) {
		CHECK(RangePushA(loader, "waiting") == 0);
		env_collect(env, true);
		CHECK(RangePushA(loader, "collecting") == 1);
		env_collect(env, false);
		CHECK(RangePop(loader) == 1);
		CHECK(RangePushA(loader, "waiting") == 1);
		env_collect(env, true);
		CHECK(RangePop(loader) == 1 && RangePop(loader) == 0 && RangePop(loader) == -1);
		env_collect(env, false);
	}
	env_read(env);
	CHECK(count_ranges(env) == 200);
	for (size_t i = 0; i < 200; i++)
		RANGE_IS(env, i, "waiting");
}

static const struct test_case cases[] = {
	{"plain", {0}, check_plain},
	{"registered", {0}, registered},
	{"reused buffers", {0}, reused_buffers},
	{"never repeating", {0}, never_repeating},
	{"domains interleave", {0}, domains_interleave},
	{"deep", {0}, check_deep},
	{"wide", {0}, check_wide},
	{"names made up for ever", {.budget = 8 << 20}, names_made_up_for_ever},
	{"long texts", {0}, long_texts},
	{"payloads", {0}, check_payloads},
	{"colours", {0}, check_colours},
	{"short attributes", {0}, short_attributes},
	{"start and end", {0}, start_end},
	{"delayed", {.idle = true}, check_delayed},
	{"waiting keeps names", {.waiting = true}, waiting_keeps_names},
	{"waiting in domains",
	 {.waiting = true, .filter = 2, .domains = "drop\0", .domains_len = 5},
	 waiting_in_domains},
	{"waiting deep", {.waiting = true}, waiting_deep},
	{"waiting at a page's end", {.waiting = true}, waiting_at_page_end},
	{"waiting forks", {.waiting = true}, waiting_forks},
	{"waiting again", {.waiting = true}, waiting_again},
	{"filter include",
	 {.filter = 1, .domains = "keep\0other\0", .domains_len = 11},
	 filter_include},
	{"filter include default",
	 {.filter = 1, .domains = "default\0keep\0", .domains_len = 13},
	 filter_include_default},
	{"filter exclude", {.filter = 2, .domains = "drop\0", .domains_len = 5}, filter_exclude},
	{"filter exclude default",
	 {.filter = 2, .domains = "x\0default\0", .domains_len = 10},
	 filter_exclude_default},
	{"after the end", {0}, after_the_end},
	{"several libraries", {0}, several_libraries},
	{"other table sizes", {0}, other_table_sizes},
	{"no session", {.no_session = true}, no_session},
	{"forked", {0}, check_forked},
	{"signals", {.budget = 128u << 20}, check_signals},
	{"full", {.budget = 1u << 20}, check_full},
	{"threads register", {0}, threads_register},
	{"errno", {0}, keeps_errno},
};

int main(int argc, char **argv)
{
	return run_cases(cases, WS_COUNT(cases), argc, argv);
}
