/* hook_case.c - see hook_case.h. */
#include "tests/nvtx/hook_case.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

struct loader *loader_now;
static const char *lib_path;

void env_open(struct env *env, const struct setup *setup)
{
	struct ws_err err;

	CHECK(!ws_area_create(&env->area, setup->budget ? setup->budget : 64u << 20, (uid_t)-1,
			      &err),
	      "%s", err.msg);
	env->area.arena->features = WS_FEATURE_NVTX | WS_FEATURE_FORK_TRACE;
	env->area.arena->nvtx_filter = setup->filter;
	if (setup->domains)
		env->area.arena->text_domains =
			ws_area_text(&env->area, setup->domains, setup->domains_len);
	atomic_store(&env->area.arena->collecting, !setup->idle && !setup->waiting);
	atomic_store(&env->area.arena->idle, setup->waiting);
	setenv(WS_ENV_SESSION, setup->no_session ? "/nonexistent" : env->area.path, 1);
	env->lib = dlopen(lib_path, RTLD_NOW);
	CHECK(env->lib, "%s", dlerror());
	loader_init(&env->loader);
	if (setup->no_session)
		return;
	CHECK(loader_attach(&env->loader, env->lib) == 1);
	CHECK(loader_attach_extension(&env->loader, env->lib, NX_EXT_PAYLOAD, 0x0104) == 1);
}

void env_collect(struct env *env, bool on)
{
	atomic_store(&env->area.arena->collecting, on);
}

/* The long form of a short range, so that cases need to know one form only. Kept until the case's
 * process ends. */
static const struct ws_rec *expand_short(const struct ws_chunk *chunk,
					 const struct ws_rec_nvtx_short *record)
{
	struct ws_rec_nvtx_range *rec_nvtx_range = ws_calloc(1, sizeof(*rec_nvtx_range));

	CHECK(record->rec.words == sizeof(*record) / 8);
	rec_nvtx_range->rec = (struct ws_rec){.kind = WS_REC_NVTX_RANGE,
					      .words = sizeof(*rec_nvtx_range) / 8,
					      .small = record->rec.small,
					      .value = record->rec.value};
	rec_nvtx_range->end = chunk->base + (record->times >> WS_SHORT_DURATION_BITS);
	rec_nvtx_range->start =
		rec_nvtx_range->end - (record->times & ((1u << WS_SHORT_DURATION_BITS) - 1));
	return &rec_nvtx_range->rec;
}

static void read_chunk(struct env *env, struct ws_ring *ring, struct ws_chunk *chunk, uint32_t from)
{
	uint32_t used = atomic_load(&chunk->used);

	for (uint32_t at = from; at < used;) {
		const struct ws_rec *record = (const void *)((const char *)chunk + at);
		uint32_t bytes = ws_rec_bytes(record);

		CHECK(bytes >= 8 && bytes <= used - at && record->kind &&
			      record->kind < WS_REC_COUNT,
		      "kind %d, %u bytes at %u", record->kind, bytes, at);
		ws_grow(env->gots, env->cap, env->n + 1);
		env->gots[env->n++] =
			(struct got){record->kind == WS_REC_NVTX_SHORT
					     ? expand_short(chunk, (const void *)record)
					     : record,
				     ring};
		at += bytes;
	}
}

void env_read(struct env *env)
{
	struct ws_arena *arena = env->area.arena;

	env->n = 0;
	for (uint32_t i = 0; i < atomic_load(&arena->dir_used); i++) {
		uint32_t chunk = atomic_load(&arena->directory[i]);
		struct ws_chunk *chunk_c = ws_chunk_at(arena, chunk);

		if (!chunk || chunk_c->kind != WS_CHUNK_RING)
			continue;
		read_chunk(env, (struct ws_ring *)chunk_c, chunk_c, WS_RING_DATA);
		for (struct ws_ring *ring = (struct ws_ring *)chunk_c;
		     (chunk = atomic_load(&chunk_c->next));) {
			chunk_c = ws_chunk_at(arena, chunk);
			read_chunk(env, ring, chunk_c, sizeof(*chunk_c));
		}
	}
}

const void *env_find(struct env *env, int kind, int sub, size_t i)
{
	for (size_t k = 0; k < env->n; k++) {
		const struct ws_rec *record = env->gots[k].rec;
		int have = record->kind == WS_REC_NVTX_EVENT
				   ? ((const struct ws_rec_nvtx_event *)record)->kind
			   : record->kind == WS_REC_NVTX_DEFINE
				   ? ((const struct ws_rec_nvtx_define *)record)->kind
				   : 0;

		if (record->kind == kind && (!sub || sub == have) && i-- == 0)
			return record;
	}
	return NULL;
}

size_t env_count(struct env *env, int kind, int sub)
{
	size_t n = 0;

	while (env_find(env, kind, sub, n))
		n++;
	return n;
}

struct ws_ring *env_ring_of(struct env *env, const void *rec)
{
	for (size_t k = 0; k < env->n; k++)
		if (env->gots[k].rec == rec)
			return env->gots[k].ring;
	return NULL;
}

static const char *join_texts(struct env *env, int kind, const void *rec, uint32_t number,
			      size_t *len)
{
	struct ws_ring *ring = env_ring_of(env, rec);
	struct ws_text text = {0};
	bool found = false;

	for (size_t k = 0; k < env->n; k++) {
		const struct ws_rec_text *record =
			(const void *)env->gots[k].rec; /* blobs are laid out alike */

		if (record->rec.kind != kind || env->gots[k].ring != ring ||
		    record->number != number)
			continue;
		ws_text_add(&text, record->bytes, record->len);
		found = true;
	}
	*len = text.len;
	return found ? text.text : NULL;
}

const char *env_text(struct env *env, const void *rec, size_t *len)
{
	const struct ws_rec *record = rec;
	const struct ws_shared_string *string;
	size_t unused;

	len = len ? len : &unused;
	if (record->small & WS_NVTX_SMALL_LOCAL)
		return join_texts(env, WS_REC_TEXT, rec, record->value, len);
	*len = 0;
	if (!record->value)
		return NULL;
	string = ws_string_at(env->area.arena, record->value);
	*len = string->len;
	return string->bytes;
}

const char *env_blob(struct env *env, const void *rec, uint32_t number, size_t *len)
{
	return join_texts(env, WS_REC_NVTX_BLOB, rec, number, len);
}

uint64_t env_lost(struct env *env, int kind)
{
	struct ws_arena *arena = env->area.arena;
	uint64_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&arena->dir_used); i++) {
		uint32_t chunk = atomic_load(&arena->directory[i]);
		struct ws_ring *ring = ws_chunk_at(arena, chunk);

		if (chunk && ring->chunk.kind == WS_CHUNK_RING)
			n += atomic_load(&ring->lost[kind]);
	}
	return n;
}

static int run_case(const struct test_case *c)
{
	static struct env env;

	env_open(&env, &c->setup);
	c->run(&env);
	ws_area_destroy(&env.area);
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
