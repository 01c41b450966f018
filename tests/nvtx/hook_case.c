/* hook_case.c - see hook_case.h. */
#include "tests/nvtx/hook_case.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

struct loader *loader_now;
static const char *lib_path;

void env_open(struct env *e, const struct setup *s)
{
	struct ws_err err;

	CHECK(!ws_area_create(&e->area, s->budget ? s->budget : 64u << 20, (uid_t)-1, &err), "%s",
	      err.msg);
	e->area.a->features = WS_FEATURE_NVTX | WS_FEATURE_FORK_TRACE;
	e->area.a->nvtx_filter = s->filter;
	if (s->domains)
		e->area.a->text_domains = ws_area_text(&e->area, s->domains, s->domains_len);
	atomic_store(&e->area.a->collecting, !s->idle);
	setenv(WS_ENV_SESSION, s->no_session ? "/nonexistent" : e->area.path, 1);
	e->lib = dlopen(lib_path, RTLD_NOW);
	CHECK(e->lib, "%s", dlerror());
	loader_init(&e->l);
	if (s->no_session)
		return;
	CHECK(loader_attach(&e->l, e->lib) == 1);
	CHECK(loader_attach_extension(&e->l, e->lib, NX_EXT_PAYLOAD, 0x0104) == 1);
}

void env_collect(struct env *e, bool on)
{
	atomic_store(&e->area.a->collecting, on);
}

/* The long form of a short range, so that cases need to know one form only. Kept until the case's
 * process ends. */
static const struct ws_rec *expand(const struct ws_chunk *c, const struct ws_rec_nvtx_short *x)
{
	struct ws_rec_nvtx_range *r = ws_calloc(1, sizeof(*r));

	CHECK(x->rec.words == sizeof(*x) / 8);
	r->rec = (struct ws_rec){.kind = WS_REC_NVTX_RANGE,
				 .words = sizeof(*r) / 8,
				 .small = x->rec.small,
				 .value = x->rec.value};
	r->end = c->base + (x->times >> WS_SHORT_DURATION_BITS);
	r->start = r->end - (x->times & ((1u << WS_SHORT_DURATION_BITS) - 1));
	return &r->rec;
}

static void read_chunk(struct env *e, struct ws_ring *ring, struct ws_chunk *c, uint32_t from)
{
	uint32_t used = atomic_load(&c->used);

	for (uint32_t at = from; at < used;) {
		const struct ws_rec *r = (const void *)((const char *)c + at);
		uint32_t bytes = ws_rec_bytes(r);

		CHECK(bytes >= 8 && bytes <= used - at && r->kind && r->kind < WS_REC_COUNT,
		      "kind %d, %u bytes at %u", r->kind, bytes, at);
		ws_grow(e->v, e->cap, e->n + 1);
		e->v[e->n++] = (struct got){
			r->kind == WS_REC_NVTX_SHORT ? expand(c, (const void *)r) : r, ring};
		at += bytes;
	}
}

void env_read(struct env *e)
{
	struct ws_arena *a = e->area.a;

	e->n = 0;
	for (uint32_t i = 0; i < atomic_load(&a->dir_used); i++) {
		uint32_t chunk = atomic_load(&a->directory[i]);
		struct ws_chunk *c = ws_chunk_at(a, chunk);

		if (!chunk || c->kind != WS_CHUNK_RING)
			continue;
		read_chunk(e, (struct ws_ring *)c, c, WS_RING_DATA);
		for (struct ws_ring *r = (struct ws_ring *)c; (chunk = atomic_load(&c->next));) {
			c = ws_chunk_at(a, chunk);
			read_chunk(e, r, c, sizeof(*c));
		}
	}
}

const void *env_find(struct env *e, int kind, int sub, size_t i)
{
	for (size_t k = 0; k < e->n; k++) {
		const struct ws_rec *r = e->v[k].rec;
		int have = r->kind == WS_REC_NVTX_EVENT
				   ? ((const struct ws_rec_nvtx_event *)r)->kind
			   : r->kind == WS_REC_NVTX_DEFINE
				   ? ((const struct ws_rec_nvtx_define *)r)->kind
				   : 0;

		if (r->kind == kind && (!sub || sub == have) && i-- == 0)
			return r;
	}
	return NULL;
}

size_t env_count(struct env *e, int kind, int sub)
{
	size_t n = 0;

	while (env_find(e, kind, sub, n))
		n++;
	return n;
}

struct ws_ring *env_ring_of(struct env *e, const void *rec)
{
	for (size_t k = 0; k < e->n; k++)
		if (e->v[k].rec == rec)
			return e->v[k].ring;
	return NULL;
}

static const char *join(struct env *e, int kind, const void *rec, uint32_t number, size_t *len)
{
	struct ws_ring *ring = env_ring_of(e, rec);
	struct ws_text t = {0};
	bool found = false;

	for (size_t k = 0; k < e->n; k++) {
		const struct ws_rec_text *p =
			(const void *)e->v[k].rec; /* blobs are laid out alike */

		if (p->rec.kind != kind || e->v[k].ring != ring || p->number != number)
			continue;
		ws_text_add(&t, p->bytes, p->len);
		found = true;
	}
	*len = t.len;
	return found ? t.s : NULL;
}

const char *env_text(struct env *e, const void *rec, size_t *len)
{
	const struct ws_rec *r = rec;
	const struct ws_shared_string *s;
	size_t unused;

	len = len ? len : &unused;
	if (r->small & WS_NVTX_SMALL_LOCAL)
		return join(e, WS_REC_TEXT, rec, r->value, len);
	*len = 0;
	if (!r->value)
		return NULL;
	s = ws_string_at(e->area.a, r->value);
	*len = s->len;
	return s->bytes;
}

const char *env_blob(struct env *e, const void *rec, uint32_t number, size_t *len)
{
	return join(e, WS_REC_NVTX_BLOB, rec, number, len);
}

uint64_t env_lost(struct env *e, int kind)
{
	struct ws_arena *a = e->area.a;
	uint64_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&a->dir_used); i++) {
		uint32_t chunk = atomic_load(&a->directory[i]);
		struct ws_ring *r = ws_chunk_at(a, chunk);

		if (chunk && r->chunk.kind == WS_CHUNK_RING)
			n += atomic_load(&r->lost[kind]);
	}
	return n;
}

static int run_case(const struct test_case *c)
{
	static struct env e;

	env_open(&e, &c->setup);
	c->run(&e);
	ws_area_destroy(&e.area);
	fflush(stdout);
	return 0;
}

int run_cases(const struct test_case *cases, size_t n, int argc, char **argv)
{
	size_t failed = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: %s HOOK-LIBRARY [CASE]\n", argv[0]);
		return 2;
	}
	lib_path = argv[1];
	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		int status = 0;
		pid_t pid;

		if (argc > 2 && strcmp(argv[2], cases[i].name))
			continue;
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(run_case(&cases[i]));
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			printf("# killed by signal %d\n", WTERMSIG(status));
		printf("%sok %zu - %s\n", status ? "not " : "", i + 1, cases[i].name);
		failed += status != 0;
	}
	return failed != 0;
}
