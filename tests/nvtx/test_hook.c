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

static void plain(struct env *e)
{
	struct loader *l = &e->l;
	const struct ws_rec_nvtx_range *r;

	CHECK(l->tool_version == 3);
	CHECK(RangePop(l) == -1, "nothing to pop");
	CHECK(RangePushA(l, "outer") == 0);
	CHECK(RangePushA(l, "inner") == 1);
	CHECK(RangePushA(l, NULL) == 2);
	CHECK(RangePop(l) == 2);
	CHECK(RangePop(l) == 1);
	CHECK(RangePop(l) == 0);
	CHECK(RangePop(l) == -1);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 3);
	r = env_find(e, WS_REC_NVTX_RANGE, 0, 0);
	CHECK(ws_rec_bytes(&r->rec) == 24 && r->rec.small == 0 && r->rec.value == 0);
	r = env_find(e, WS_REC_NVTX_RANGE, 0, 1);
	TEXT_IS(e, r, "inner");
	CHECK(r->start && r->start < r->end);
	r = env_find(e, WS_REC_NVTX_RANGE, 0, 2);
	TEXT_IS(e, r, "outer");
	CHECK(r->start <
	      ((const struct ws_rec_nvtx_range *)env_find(e, WS_REC_NVTX_RANGE, 0, 1))->start);
	CHECK(env_count(e, WS_REC_NVTX_EVENT, 0) == 0 && env_count(e, WS_REC_NVTX_DEFINE, 0) == 0);
}

static void registered(struct env *e)
{
	struct loader *l = &e->l;
	void *d = DomainCreateA(l, "lib"), *s = DomainRegisterStringA(l, d, "work");
	struct nx_event ev = event_registered(s);
	const struct ws_rec_nvtx_range *r;

	CHECK(d && s && s == DomainRegisterStringA(l, d, "work"));
	CHECK(DomainRegisterStringA(l, d, NULL) == NULL);
	for (int i = 0; i < 3; i++) {
		CHECK(DomainPushEx(l, d, &ev) == 0);
		CHECK(RangePop(l) == -1, "the default domain has none open");
		CHECK(DomainPop(l, d) == 0);
	}
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 3);
	r = env_find(e, WS_REC_NVTX_RANGE, 0, 2);
	TEXT_IS(e, r, "work");
	CHECK((r->rec.small & WS_NVTX_SMALL_REGISTERED) && !(r->rec.small & WS_NVTX_SMALL_LOCAL));
	CHECK((r->rec.small & WS_NVTX_SMALL_DOMAIN) == 1);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, 0) == 1);
	TEXT_IS(e, env_find(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN, 0), "lib");
}

/* One buffer, other contents: the text must follow the content. */
static void reused_buffers(struct env *e)
{
	char buf[32], want[32];

	for (int i = 0; i < 5000; i++) {
		snprintf(buf, sizeof(buf), "name %d", i * 7 % 64);
		RangePushA(&e->l, buf);
		RangePop(&e->l);
	}
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 5000);
	for (size_t i = 0, k = 0; i < e->n; i++) {
		if (e->v[i].rec->kind != WS_REC_NVTX_RANGE)
			continue;
		snprintf(want, sizeof(want), "name %d", (int)(k++ * 7 % 64));
		TEXT_IS(e, e->v[i].rec, want);
	}
}

static void never_repeating(struct env *e)
{
	char buf[32], want[32];
	size_t k = 0;

	for (int i = 0; i < 2000; i++) {
		snprintf(buf, sizeof(buf), "unique %d", i);
		RangePushA(&e->l, buf);
		RangePop(&e->l);
	}
	env_read(e);
	for (size_t i = 0; i < e->n; i++) {
		if (e->v[i].rec->kind != WS_REC_NVTX_RANGE)
			continue;
		snprintf(want, sizeof(want), "unique %zu", k++);
		TEXT_IS(e, e->v[i].rec, want);
	}
	CHECK(k == 2000);
}

static void domains_interleave(struct env *e)
{
	struct loader *l = &e->l;
	void *a = DomainCreateA(l, "a"), *b = DomainCreateA(l, "b");
	struct nx_event a0 = event_text("a0"), a1 = event_text("a1"), b0 = event_text("b0"),
			b1 = event_text("b1");
	static const char *const order[] = {"a1", "b0", "b0", "b1", "a0"};
	struct ws_ring *ring;

	CHECK(DomainPushEx(l, a, &a0) == 0);
	CHECK(DomainPushEx(l, b, &b0) == 0);
	CHECK(DomainPushEx(l, a, &a1) == 1);
	CHECK(DomainPop(l, a) == 1);
	CHECK(DomainPop(l, b) == 0);
	CHECK(DomainPushEx(l, b, &b0) == 0);
	CHECK(DomainPushEx(l, a, &a1) == 1);
	CHECK(DomainPushEx(l, b, &b1) == 1);
	CHECK(DomainPop(l, b) == 1 && DomainPop(l, b) == 0 && DomainPop(l, b) == -1,
	      "out of the middle, under a1");
	CHECK(DomainPushEx(l, b, &b0) == 0, "levels start over");
	CHECK(DomainPop(l, b) == 0);
	CHECK(DomainPop(l, a) == 1 && DomainPop(l, a) == 0 && DomainPop(l, a) == -1);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) +
		      env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE) ==
	      7);
	ring = env_ring_of(e, env_find(e, WS_REC_NVTX_RANGE, 0, 0));
	CHECK(atomic_load(&ring->open_depth) == 0, "holes went with what was above them");
	(void)order;
}

static void levels_to(struct env *e, int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK(RangePushA(&e->l, "deep") == i, "level %d", i);
}

static void deep(struct env *e)
{
	void *d = DomainCreateA(&e->l, "other");
	struct nx_event ev = event_text("in other");

	levels_to(e, 0, 4096);
	CHECK(DomainPushEx(&e->l, d, &ev) == 0, "no place, still level 0 of its domain");
	levels_to(e, 4096, 5000);
	CHECK(DomainPop(&e->l, d) == 0 && DomainPop(&e->l, d) == -1);
	for (int i = 5000; i-- > 0;)
		CHECK(RangePop(&e->l) == i, "pop at %d", i);
	CHECK(RangePop(&e->l) == -1);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) +
		      env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE) ==
	      4096);
	CHECK(env_lost(e, WS_LOSS_DEPTH) == 905 && env_lost(e, WS_LOSS_NVTX) == 0);
}

/* ---- texts ---- */

static void wide(struct env *e)
{
	static const wchar_t odd[] = {L'a', 0xe9, 0x20ac, 0x1d11e, 0xd800, 0x110000, 0};
	static wchar_t big[100001];
	size_t len;

	MarkW(&e->l, odd);
	RangePushW(&e->l, L"push");
	RangePop(&e->l);
	RangeEnd(&e->l, RangeStartW(&e->l, L"start"));
	MarkW(&e->l, NULL);
	for (int i = 0; i < 100000; i++)
		big[i] = 0x20ac;
	MarkW(&e->l, big);
	env_read(e);
	TEXT_IS(e, env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0),
		"a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xef\xbf\xbd\xef\xbf\xbd");
	TEXT_IS(e, env_find(e, WS_REC_NVTX_RANGE, 0, 0), "push");
	TEXT_IS(e, env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, 0), "start");
	CHECK(!env_text(e, env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1), NULL));
	CHECK(env_text(e, env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2), &len) &&
		      len == 300000,
	      "%zu", len);
}

static void long_texts(struct env *e)
{
	static const size_t sizes[] = {999,  1000,  1001,  7999,   8000,   8001,
				       9000, 12000, 24000, 100000, 2 << 20};
	char *s = malloc((2 << 20) + 1);
	size_t len;

	for (size_t i = 0; i < WS_COUNT(sizes); i++) {
		struct nx_event ev;

		memset(s, 'A' + (int)i, sizes[i]);
		s[sizes[i]] = 0;
		RangePushA(&e->l, s);
		RangePop(&e->l);
		ev = event_registered(DomainRegisterStringA(&e->l, NULL, s));
		for (int twice = 0; twice < 2; twice++)
			MarkEx(&e->l, &ev);
	}
	env_read(e);
	for (size_t i = 0; i < WS_COUNT(sizes); i++) {
		const void *r[3] = {env_find(e, WS_REC_NVTX_RANGE, 0, i),
				    env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2 * i),
				    env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 2 * i + 1)};

		for (int k = 0; k < 3; k++) {
			const char *t = env_text(e, r[k], &len);

			CHECK(t && len == sizes[i], "%zu, not %zu", len, sizes[i]);
			for (size_t j = 0; j < len; j++)
				CHECK(t[j] == 'A' + (char)i);
		}
		CHECK(((const struct ws_rec *)r[2])->small & WS_NVTX_SMALL_REGISTERED);
	}
}

/* ---- attributes ---- */

static void payloads(struct env *e)
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
		MarkEx(&e->l, &ev);
		CHECK(RangePushEx(&e->l, &ev) == 0 && RangePop(&e->l) == 0);
	}
	ev.payload_type = 77; /* no such */
	MarkEx(&e->l, &ev);
	env_read(e);
	for (int type = 1; type <= 6; type++)
		for (int range = 0; range < 2; range++) {
			const struct ws_rec_nvtx_event_full *r =
				env_find(e, WS_REC_NVTX_EVENT,
					 range ? WS_NVTX_EV_RANGE : WS_NVTX_EV_MARK,
					 (size_t)type - 1);

			CHECK(r && ws_rec_bytes(&r->e.rec) == sizeof(*r) &&
			      r->e.payload_type == type);
			CHECK(r->payload == (type >= 4 ? (uint32_t)bits[type] : bits[type]));
			CHECK(!r->e.has_color && !r->e.category && !r->binary);
		}
	CHECK(ws_rec_bytes(env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 6)) ==
	      sizeof(struct ws_rec_nvtx_event));
}

static void colours(struct env *e)
{
	struct nx_event ev = event_text("red");
	const struct ws_rec_nvtx_event_full *r;

	ev.color_type = NX_COLOR_ARGB;
	ev.color = 0xffff0000;
	ev.category = 7;
	CHECK(RangePushEx(&e->l, &ev) == 0);
	CHECK(RangePushA(&e->l, "plain above") == 1 && RangePop(&e->l) == 1 &&
	      RangePop(&e->l) == 0);
	ev.color_type = 0;
	MarkEx(&e->l, &ev);
	RangeEnd(&e->l, RangeStartEx(&e->l, &ev));
	MarkEx(&e->l, NULL);
	NameCategoryA(&e->l, 7, "seven");
	NameCategoryA(&e->l, 7, "seven");
	NameCategoryA(&e->l, 7, "siete");
	env_read(e);
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_RANGE, 0);
	CHECK(r->e.has_color && r->color == 0xffff0000 && r->e.category == 7 &&
	      r->e.other > r->e.time);
	TEXT_IS(e, r, "red");
	TEXT_IS(e, env_find(e, WS_REC_NVTX_RANGE, 0, 0), "plain above");
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0);
	CHECK(!r->e.has_color && r->e.category == 7 && ws_rec_bytes(&r->e.rec) == sizeof(r->e));
	CHECK(((const struct ws_rec_nvtx_event *)env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_START,
							  0))
		      ->category == 7);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY) == 2,
	      "said again only when it changes");
	TEXT_IS(e, env_find(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY, 1), "siete");
}

/* Attributes of a shorter version end at their size: the next page cannot be read. */
static void short_attributes(struct env *e)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	struct nx_event full = event_text("text");
	const struct ws_rec_nvtx_event_full *r;

	CHECK(p != MAP_FAILED && !mprotect(p + page, (size_t)page, PROT_NONE));
	full.category = 3;
	full.payload_type = 1;
	full.payload = 99;
	for (uint16_t size = 4; size < sizeof(full); size = (uint16_t)(size + 4)) {
		full.size = size;
		memcpy(p + page - size, &full, size);
		DomainMarkEx(&e->l, NULL, (const struct nx_event *)(p + page - size));
		CHECK(RangePushEx(&e->l, (const struct nx_event *)(p + page - size)) == 0 &&
		      RangePop(&e->l) == 0);
	}
	full.size = 64; /* a later version, longer than we know */
	MarkEx(&e->l, &full);
	full.size = 0; /* forgotten */
	MarkEx(&e->l, &full);
	env_read(e);
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 0); /* size 4 */
	CHECK(r->e.category == 0);
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 1); /* size 8 */
	CHECK(r->e.category == 3 && ws_rec_bytes(&r->e.rec) == sizeof(r->e));
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, 7); /* size 32 */
	CHECK(r->payload == 99 && !env_text(e, r, NULL));
	for (size_t i = 11; i < 13; i++) {
		r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK, i);
		CHECK(r && r->payload == 99);
		TEXT_IS(e, r, "text");
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

static void start_end(struct env *e)
{
	static uint64_t ids[1000];
	const struct ws_rec_nvtx_event *r;
	pthread_t t;

	for (int i = 0; i < 1000; i++) {
		ids[i] = RangeStartA(&e->l, "ours");
		CHECK(ids[i] && (!i || ids[i] != ids[i - 1]));
	}
	pthread_create(&t, NULL, end_there, ids);
	pthread_join(t, NULL);
	for (int i = 1; i < 1000; i++)
		CHECK(ids[0] != ids[i], "ids are unique in the process");
	RangeEnd(&e->l, 0);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_START) == 1001 &&
	      env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_END) == 1000);
	r = env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_START, 0);
	TEXT_IS(e, r, "ours");
	CHECK(r->other ==
	      ((const struct ws_rec_nvtx_event *)env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_END, 0))
		      ->other);
	CHECK(env_ring_of(e, r) !=
	      env_ring_of(e, env_find(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_END, 0)));
}

/* ---- collecting or not ---- */

static void delayed(struct env *e)
{
	struct loader *l = &e->l;
	uint64_t before, inside;
	char buf[32];

	MarkA(l, "too early");
	before = RangeStartA(l, "too early");
	CHECK(RangePushA(l, "across") == 0);
	CHECK(RangePushA(l, "too early") == 1 && RangePop(l) == 1);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) + env_count(e, WS_REC_NVTX_EVENT, 0) == 0);
	env_collect(e, true);
	RangeEnd(l, before);
	CHECK(RangePop(l) == 0);
	MarkA(l, "inside");
	inside = RangeStartA(l, "inside");
	CHECK(RangePushA(l, "cut off") == 0);
	env_collect(e, false);
	CHECK(RangePop(l) == 0);
	for (int i = 0; i < 1000; i++) { /* texts that go unused must not stay with the recorder */
		snprintf(buf, sizeof(buf), "unused %d", i);
		RangePushA(l, buf);
		RangePop(l);
	}
	RangeEnd(l, inside);
	MarkA(l, "too late");
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 1);
	TEXT_IS(e, env_find(e, WS_REC_NVTX_RANGE, 0, 0), "across");
	CHECK(env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK) == 1 &&
	      env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_START) == 1 &&
	      env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_END) == 1);
	CHECK(env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_FORGET) == env_count(e, WS_REC_TEXT, 0));
}

static void try_domains(struct env *e, bool want_default, bool want_keep, bool want_drop)
{
	struct loader *l = &e->l;
	void *keep = DomainCreateA(l, "keep"), *drop = DomainCreateA(l, "drop");
	struct nx_event ev = event_text("x");
	uint8_t enabled;

	CHECK(keep && drop);
	CHECK(RangePushA(l, "x") == (want_default ? 0 : -2) &&
	      RangePop(l) == (want_default ? 0 : -2));
	CHECK(DomainPushEx(l, keep, &ev) == (want_keep ? 0 : -2) &&
	      DomainPop(l, keep) == (want_keep ? 0 : -2));
	CHECK(DomainPushEx(l, drop, &ev) == (want_drop ? 0 : -2) &&
	      DomainPop(l, drop) == (want_drop ? 0 : -2));
	DomainMarkEx(l, drop, &ev);
	DomainEnd(l, drop, DomainStartEx(l, drop, &ev));
	DomainNameCategoryA(l, drop, 1, "category");
	NameOsThreadA(l, (uint32_t)syscall(SYS_gettid), "names pass every filter");
	enabled = EXT(l, NX_P_DOMAIN_ENABLED, uint8_t, (void *), drop);
	CHECK(enabled == want_drop);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == (size_t)(want_default + want_keep + want_drop));
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) ==
	      (size_t)(want_keep + want_drop));
	CHECK(env_count(e, WS_REC_NVTX_EVENT, 0) == (want_drop ? 3u : 0u));
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_CATEGORY) == (size_t)want_drop);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_THREAD) == 1);
}

static void filter_include(struct env *e)
{
	try_domains(e, false, true, false);
}

static void filter_include_default(struct env *e)
{
	try_domains(e, true, true, false);
}

static void filter_exclude(struct env *e)
{
	try_domains(e, true, true, false);
}

static void filter_exclude_default(struct env *e)
{
	try_domains(e, false, true, true);
}

/* The recorder has finished while the program goes on: nothing is written, levels stay right. */
static void after_the_end(struct env *e)
{
	struct loader *l = &e->l;
	char buf[32];
	size_t before;

	CHECK(RangePushA(l, "open at the end") == 0);
	env_collect(e, false);
	atomic_store(&e->area.a->closed, 1);
	env_read(e);
	before = e->n;
	for (int i = 0; i < 1000; i++) {
		snprintf(buf, sizeof(buf), "late %d", i);
		CHECK(RangePushA(l, buf) == 1);
		MarkA(l, buf);
		RangeEnd(l, RangeStartA(l, buf));
		CHECK(RangePop(l) == 1);
	}
	CHECK(RangePop(l) == 0 && RangePop(l) == -1);
	env_read(e);
	CHECK(e->n == before, "%zu more", e->n - before);
}

/* ---- several loaders, forks, signals, memory ---- */

static void several_libraries(struct env *e)
{
	static struct loader other;
	void *a, *b;
	struct nx_event ev = event_text("shared");

	loader_init(&other);
	CHECK(loader_attach(&other, e->lib) == 1 && loader_attach(&other, e->lib) == 1,
	      "again is no harm");
	a = DomainCreateA(&e->l, "common");
	b = DomainCreateA(&other, "common");
	CHECK(a == b);
	CHECK(DomainPushEx(&e->l, a, &ev) == 0 && DomainPushEx(&other, b, &ev) == 1);
	CHECK(DomainPop(&e->l, a) == 1 && DomainPop(&other, b) == 0);
	CHECK(DomainCreateW(&e->l, L"common") == a);
	DomainDestroy(&e->l, a);
	DomainDestroy(&e->l, a);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DESTROY) == 0);
	DomainDestroy(&other, b);
	DomainDestroy(&other, b);
	DomainDestroy(&other, NULL);
	CHECK(DomainPushEx(&e->l, a, &ev) == 0 && DomainPop(&e->l, a) == 0,
	      "a late use is no harm");
	CHECK(DomainCreateA(&e->l, "common") == a);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DESTROY) == 1 &&
	      env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) == 2);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 3);
}

/* A loader of another version has fewer slots, and others that we do not know: what is beyond must
 * stay as it was. */
static void other_table_sizes(struct env *e)
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
	CHECK(loader_attach(&odd, e->lib) == 1);
	CHECK(odd.fn[NX_CORE][NX_POP] != guard && odd.fn[NX_CORE][NX_CATEGORY_A] == guard &&
	      odd.fn[NX_CORE][NX_MARK_A] == guard);
	CHECK(odd.fn[NX_CORE2][NX_D_PUSH_EX] != guard && odd.fn[NX_CORE2][NX_D_POP] == guard);
	CHECK(odd.fn[NX_SYNC][NX_SYNC_CREATE] == guard && odd.fn[NX_CORE][0] == guard &&
	      odd.fn[NX_CORE][18] == guard);
}

static void no_session(struct env *e)
{
	int (*init)(nx_export_fn) =
		(int (*)(nx_export_fn))dlsym(e->lib, "InitializeInjectionNvtx2");

	CHECK(loader_attach(&e->l, e->lib) == 0, "declines, so that NVTX turns itself off");
	CHECK(loader_attach_extension(&e->l, e->lib, NX_EXT_PAYLOAD, 0x0104) == 0);
	CHECK(init(NULL) == 0);
	CHECK(!e->l.fn[NX_CORE][NX_PUSH_A]);
}

static void in_child(struct env *e, void *d, struct nx_event *ev)
{
	CHECK(DomainPop(&e->l, d) == -1, "the parent's open range is not the child's");
	CHECK(DomainPushEx(&e->l, d, ev) == 0 && DomainPop(&e->l, d) == 0);
	CHECK(RangePushA(&e->l, "child") == 0 && RangePop(&e->l) == 0);
	_exit(0);
}

static void forked(struct env *e)
{
	struct loader *l = &e->l;
	void *d = DomainCreateA(l, "dom"), *s = DomainRegisterStringA(l, d, "text");
	struct nx_event ev = event_registered(s);
	uint32_t home = 0, n = 0;
	int status;
	pid_t pid;

	DomainNameCategoryA(l, d, 5, "five");
	DomainNameCategoryA(l, d, 5, "cinco");
	CHECK(DomainPushEx(l, d, &ev) == 0);
	pid = fork();
	if (!pid)
		in_child(e, d, &ev);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(DomainPop(l, d) == 0);
	env_read(e);
	for (size_t i = 0; i < e->n; i++) {
		if ((pid_t)e->v[i].ring->pid != pid)
			continue;
		if (e->v[i].rec->kind == WS_REC_NVTX_RANGE && e->v[i].rec->small) {
			const struct ws_shared_string *str =
				ws_string_at(e->area.a, e->v[i].rec->value);
			const struct ws_process_home *h =
				ws_chunk_at(e->area.a, e->v[i].ring->process_home);

			home = e->v[i].ring->process_home;
			CHECK(!strcmp(str->bytes, "text") && h->pid == (uint32_t)pid);
			CHECK((uint64_t)e->v[i].rec->value * 8 / WS_CHUNK_SIZE == home,
			      "the string lies with the child");
		}
		if (e->v[i].rec->kind == WS_REC_NVTX_DEFINE) {
			n++;
			TEXT_IS(e, e->v[i].rec, n == 1 ? "dom" : "cinco");
		}
	}
	CHECK(home && n == 2, "domain and category are defined again: %u", n);
	CHECK(env_count(e, WS_REC_NVTX_RANGE, 0) == 3);
}

static struct loader *in_handler;

static void on_alarm(int sig)
{
	(void)sig;
	RangePushA(in_handler, "handler");
	MarkA(in_handler, "handler");
	RangePop(in_handler);
}

static void signals(struct env *e)
{
	struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	size_t marks, texts = 0;
	char buf[32];

	in_handler = &e->l;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < 300000; i++) {
		snprintf(buf, sizeof(buf), "%d", i);
		CHECK(RangePushA(&e->l, buf) == 0 && RangePop(&e->l) == 0);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	env_read(e);
	marks = env_count(e, WS_REC_NVTX_EVENT, WS_NVTX_EV_MARK);
	CHECK(marks > 0);
	for (size_t i = 0; i < e->n; i++)
		texts += e->v[i].rec->kind == WS_REC_NVTX_RANGE;
	CHECK(texts + env_lost(e, WS_LOSS_NVTX) == 300000 + marks, "%zu ranges, %zu marks", texts,
	      marks);
}

/* When memory is full, every range is either there or counted. */
static void full(struct env *e)
{
	size_t n = 0;
	char buf[32];

	for (int i = 0; i < 200000; i++) {
		snprintf(buf, sizeof(buf), "%d", i);
		RangePushA(&e->l, i & 1 ? buf : "same");
		RangePop(&e->l);
	}
	env_read(e);
	for (size_t i = 0; i < e->n; i++)
		n += e->v[i].rec->kind == WS_REC_NVTX_RANGE;
	CHECK(n > 100 && n < 200000 && n + env_lost(e, WS_LOSS_NVTX) == 200000,
	      "%zu there, %llu lost", n, (unsigned long long)env_lost(e, WS_LOSS_NVTX));
}

static void *many_strings(void *arg)
{
	struct loader *l = loader_now;
	char buf[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(buf, sizeof(buf), "string %d", i);
		struct nx_event ev = event_registered(DomainRegisterStringA(l, NULL, buf));

		snprintf(buf, sizeof(buf), "domain %d", i % 50);
		void *d = DomainCreateA(l, buf);

		CHECK(DomainPushEx(l, d, &ev) == 0 && DomainPop(l, d) == 0);
	}
	return arg;
}

static void threads_register(struct env *e)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, many_strings, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	env_read(e);
	CHECK(env_count(e, WS_REC_NVTX_DEFINE, WS_NVTX_DEF_DOMAIN) == 50, "each once: %zu",
	      env_count(e, WS_REC_NVTX_DEFINE, 1));
	for (size_t i = 0, n = 0; i < e->n; i++)
		if (e->v[i].rec->kind == WS_REC_NVTX_RANGE)
			CHECK(++n <= 12000 && e->v[i].rec->value);
}

static void keeps_errno(struct env *e)
{
	static char big[20000];
	struct nx_event ev = event_text("x");

	memset(big, 'x', sizeof(big) - 1);
	errno = 4711;
	RangePushA(&e->l, "first use on this thread");
	RangePushW(&e->l, L"wide");
	RangePushA(&e->l, big);
	DomainPushEx(&e->l, DomainCreateA(&e->l, big), &ev);
	DomainRegisterStringA(&e->l, NULL, big);
	NameOsThreadA(&e->l, 999999, "nobody");
	CHECK(errno == 4711);
}

static const struct test_case cases[] = {
	{"plain", {0}, plain},
	{"registered", {0}, registered},
	{"reused buffers", {0}, reused_buffers},
	{"never repeating", {0}, never_repeating},
	{"domains interleave", {0}, domains_interleave},
	{"deep", {0}, deep},
	{"wide", {0}, wide},
	{"long texts", {0}, long_texts},
	{"payloads", {0}, payloads},
	{"colours", {0}, colours},
	{"short attributes", {0}, short_attributes},
	{"start and end", {0}, start_end},
	{"delayed", {.idle = true}, delayed},
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
	{"forked", {0}, forked},
	{"signals", {.budget = 128u << 20}, signals},
	{"full", {.budget = 1u << 20}, full},
	{"threads register", {0}, threads_register},
	{"errno", {0}, keeps_errno},
};

int main(int argc, char **argv)
{
	return run_cases(cases, WS_COUNT(cases), argc, argv);
}
