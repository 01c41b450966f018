/*
 * nvtx_domain.c - the NVTX hook's domains, registered strings and definitions, and the private
 * memory they live in.
 *
 * Everything here is insert-only: lists grow at a compare-and-swap and are read without one, so
 * that no lock is needed in signal handlers or between threads, and a fork finds them whole.
 * Creating a domain or registering a string that exists gives the existing one, so that libraries
 * which do so again and again cost nothing.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/nvtx_state.h"
#include "schema/schema.h"

enum { REGION = 256 * 1024, STRING_BUCKETS = 16384, DOMAIN_BUCKETS = 256 };

struct region {
	_Atomic size_t used;
	size_t size;
};

struct nvtx_domain ws_nvtx_default = {.name = "default"};

static _Atomic(struct region *) region;
static _Atomic(struct nvtx_string *) strings[STRING_BUCKETS];
static _Atomic(struct nvtx_domain *) domains[DOMAIN_BUCKETS];
static _Atomic uint32_t domain_numbers = 1;

/* ---- memory ---- */

static void *map(size_t bytes)
{
	long p = ws_sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static void unmap(void *p, size_t bytes)
{
	ws_sys(SYS_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}

void *ws_nvtx_alloc(size_t bytes)
{
	bytes = WS_ALIGN_UP(bytes, (size_t)16);
	if (bytes > REGION / 4)
		return map(bytes);
	for (;;) {
		struct region *r = atomic_load_explicit(&region, memory_order_acquire), *fresh;

		if (r) {
			size_t at =
				atomic_fetch_add_explicit(&r->used, bytes, memory_order_relaxed);

			if (at + bytes <= r->size)
				return (char *)r + at;
		}
		fresh = map(REGION);
		if (!fresh)
			return NULL;
		fresh->size = REGION;
		atomic_store_explicit(&fresh->used, 64, memory_order_relaxed);
		if (!atomic_compare_exchange_strong_explicit(
			    &region, &r, fresh, memory_order_acq_rel, memory_order_acquire))
			unmap(fresh, REGION);
	}
}

char *ws_nvtx_copy(const char *s, size_t len)
{
	char *p = ws_nvtx_alloc(len + 1);

	if (p)
		memcpy(p, s, len);
	return p;
}

bool ws_nvtx_scratch(struct nvtx_scratch *b, size_t bytes)
{
	b->len = 0;
	b->mapped = 0;
	b->p = b->small;
	if (bytes <= sizeof(b->small))
		return true;
	b->p = map(bytes);
	b->mapped = b->p ? bytes : 0;
	return b->p;
}

void ws_nvtx_scratch_end(struct nvtx_scratch *b)
{
	if (b->mapped)
		unmap(b->p, b->mapped);
}

/* ---- texts ---- */

static size_t put_utf8(char *p, uint32_t c)
{
	if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		p[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		p[0] = (char)(0xc0 | c >> 6);
		p[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		p[0] = (char)(0xe0 | c >> 12);
		p[1] = (char)(0x80 | (c >> 6 & 0x3f));
		p[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	p[0] = (char)(0xf0 | c >> 18);
	p[1] = (char)(0x80 | (c >> 12 & 0x3f));
	p[2] = (char)(0x80 | (c >> 6 & 0x3f));
	p[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

bool ws_nvtx_utf8(struct nvtx_scratch *b, const wchar_t *s)
{
	size_t n = 0;

	if (s)
		while (s[n])
			n++;
	if (!ws_nvtx_scratch(b, n * 4 + 1))
		return false;
	for (size_t i = 0; i < n; i++)
		b->len += put_utf8(b->p + b->len, (uint32_t)s[i]);
	b->p[b->len] = 0;
	return true;
}

WS_NOINLINE struct nvtx_text ws_nvtx_text_wide(struct ws_thread *t, const wchar_t *s)
{
	struct nvtx_text x = {0, 0};
	struct nvtx_scratch b;

	if (!s)
		return x;
	if (!ws_nvtx_utf8(&b, s)) {
		ws_rt_lost(t, WS_LOSS_NVTX, 1);
		x.flags = WS_OPEN_LOST;
		return x;
	}
	x = nvtx_text_utf8(t, b.p);
	ws_nvtx_scratch_end(&b);
	return x;
}

WS_NOINLINE struct nvtx_text ws_nvtx_string_slow(struct ws_thread *t, struct nvtx_string *s)
{
	struct nvtx_text x = {0, WS_OPEN_REGISTERED};

	if (s->magic != NVTX_STRING_MAGIC)
		return (struct nvtx_text){0, 0};
	if (s->len <= WS_STRING_MAX)
		x.value = ws_rt_string_define(s->bytes, s->len);
	if (x.value) {
		atomic_store_explicit(&s->defined, (uint64_t)ws_rt->generation << 32 | x.value,
				      memory_order_relaxed);
		return x;
	}
	x.value = ws_rt_text(t, s->bytes, s->len, WS_LOSS_NVTX);
	x.flags |= x.value ? WS_OPEN_LOCAL_TEXT : WS_OPEN_LOST;
	return x;
}

static uint64_t hash_of(const char *s, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct nvtx_string *string_find(struct nvtx_string *s, uint64_t hash, const char *bytes,
				       size_t len)
{
	while (s && (s->hash != hash || s->len != len || memcmp(s->bytes, bytes, len)))
		s = s->next;
	return s;
}

struct nvtx_string *ws_nvtx_string_register(const char *bytes)
{
	size_t len = strlen(bytes);
	uint64_t hash = hash_of(bytes, len);
	_Atomic(struct nvtx_string *) *bucket = &strings[hash % STRING_BUCKETS];
	struct nvtx_string *head = atomic_load_explicit(bucket, memory_order_acquire),
			   *s = string_find(head, hash, bytes, len);

	if (s || len > UINT32_MAX / 2)
		return s;
	s = ws_nvtx_alloc(sizeof(*s) + len + 1);
	if (!s)
		return NULL;
	memcpy(s->bytes, bytes, len);
	s->len = (uint32_t)len;
	s->hash = hash;
	s->magic = NVTX_STRING_MAGIC;
	/* Two threads may both add a text that is new: then there are two of it, which is harmless.
	 */
	do
		s->next = head;
	while (!atomic_compare_exchange_weak_explicit(bucket, &head, s, memory_order_acq_rel,
						      memory_order_acquire));
	return s;
}

/* ---- definitions ---- */

static struct nvtx_text def_text(struct ws_thread *t, const char *s)
{
	struct nvtx_text x = {0, 0};
	size_t len;

	if (!s)
		return x;
	len = strlen(s);
	if (len <= WS_STRING_MAX)
		x.value = ws_rt_string(t, s, len);
	if (!x.value) {
		x.value = ws_rt_text(t, s, len, WS_LOSS_NVTX);
		x.flags = WS_OPEN_LOCAL_TEXT;
	}
	return x;
}

static void def_write(struct ws_thread *t, struct nvtx_domain *d, const struct nvtx_def *def)
{
	struct nvtx_text name = def_text(t, atomic_load_explicit(&def->name, memory_order_acquire));
	union {
		struct ws_rec_nvtx_define d;
		struct ws_rec_nvtx_resource resource;
		struct ws_rec_nvtx_schema schema;
		struct ws_rec_nvtx_schema_entry entry;
	} * r;
	size_t bytes = sizeof(r->d);
	uint32_t description = 0;

	if (def->kind == WS_NVTX_DEF_RESOURCE)
		bytes = sizeof(r->resource);
	else if (def->kind == WS_NVTX_DEF_SCHEMA)
		bytes = sizeof(r->schema);
	else if (def->kind == WS_NVTX_DEF_ENTRY)
		bytes = sizeof(r->entry);
	if (def->description)
		description =
			ws_rt_string(t, def->description, strnlen(def->description, WS_STRING_MAX));
	r = ws_rt_reserve(t, bytes, WS_LOSS_NVTX);
	if (!r)
		return;
	memset(r, 0, bytes);
	r->d = (struct ws_rec_nvtx_define){.rec = ws_rec_head(WS_REC_NVTX_DEFINE, bytes,
							      nvtx_small(d, name.flags),
							      name.value),
					   .kind = def->kind,
					   .type = def->type,
					   .time = ws_rt_ticks(),
					   .id = def->id};
	if (def->kind == WS_NVTX_DEF_RESOURCE) {
		r->resource.device = def->cuda.device;
		r->resource.context = def->cuda.context;
		r->resource.stream = def->cuda.stream;
	} else if (def->kind == WS_NVTX_DEF_SCHEMA) {
		r->schema.flags = def->flags;
		r->schema.size = def->size;
		r->schema.align = def->align;
		r->schema.entries = def->count;
	} else if (def->kind == WS_NVTX_DEF_ENTRY) {
		r->entry.flags = def->flags;
		r->entry.entry_type = def->entry_type;
		r->entry.detail = def->detail;
		r->entry.offset = def->offset;
		r->entry.index = def->count;
		r->entry.description = description;
	}
	ws_rt_commit(t, r, bytes);
}

/* ---- domains ---- */

static bool listed(const struct ws_arena *a, const char *name)
{
	const char *p = a->text + a->text_domains, *end = a->text + sizeof(a->text);

	while (p < end && *p) {
		size_t n = strnlen(p, (size_t)(end - p));

		if (!strcmp(p, name))
			return true;
		p += n + 1;
	}
	return false;
}

static bool filtered(const char *name)
{
	const struct ws_arena *a = ws_rt->arena;

	if (!a || !a->nvtx_filter || a->text_domains >= sizeof(a->text))
		return false;
	return listed(a, name) != (a->nvtx_filter == 1);
}

WS_NOINLINE bool ws_nvtx_domain_slow(struct ws_thread *t, struct nvtx_domain *d)
{
	uint32_t before = atomic_load_explicit(&d->ready, memory_order_relaxed),
		 now = ws_rt->generation;

	if (!ws_rt->arena || atomic_load_explicit(&d->off, memory_order_relaxed) == now)
		return false;
	if (before != now && filtered(d->name)) {
		atomic_store_explicit(&d->off, now, memory_order_relaxed);
		return false;
	}
	if (before == now || !atomic_compare_exchange_strong(&d->ready, &before, now))
		return true;
	if (d != &ws_nvtx_default) {
		struct nvtx_def def = {.kind = WS_NVTX_DEF_DOMAIN, .name = d->name};

		def_write(t, d, &def);
	}
	for (struct nvtx_def *p = atomic_load_explicit(&d->defs, memory_order_acquire); p;
	     p = p->next)
		def_write(t, d, p);
	return true;
}

/* Make the domain known, when it is wanted and was not yet. */
static void domain_announce(struct nvtx_domain *d)
{
	struct ws_thread *t = ws_rt_enter();

	if (t) {
		nvtx_domain_on(t, d);
		ws_rt_leave(t);
	}
}

static struct nvtx_domain *domain_new(const char *name)
{
	uint32_t number = atomic_load_explicit(&domain_numbers, memory_order_relaxed);
	struct nvtx_domain *d;

	do {
		if (number >= WS_NVTX_DOMAINS) {
			ws_rt_diagnostic(WS_WARNING, "nvtx",
					 "The program created more NVTX domains than can be told "
					 "apart (16,383); events of "
					 "further ones are in the default domain.");
			return NULL;
		}
	} while (!atomic_compare_exchange_weak(&domain_numbers, &number, number + 1));
	d = ws_nvtx_alloc(sizeof(*d));
	if (!d)
		return NULL;
	d->number = (uint16_t)number;
	d->name = ws_nvtx_copy(name, strlen(name));
	return d->name ? d : NULL;
}

static struct nvtx_domain *domain_find(struct nvtx_domain *d, const char *name)
{
	while (d && strcmp(d->name, name))
		d = d->next;
	return d;
}

static struct nvtx_domain *domain_get(const char *name)
{
	_Atomic(struct nvtx_domain *) *bucket =
		&domains[hash_of(name, strlen(name)) % DOMAIN_BUCKETS];
	struct nvtx_domain *head = atomic_load_explicit(bucket, memory_order_acquire), *d = NULL,
			   *found;

	for (;;) {
		found = domain_find(head, name);
		if (found)
			return found; /* a `d` made in vain keeps its number: rare and harmless */
		if (!d)
			d = domain_new(name);
		if (!d)
			return NULL;
		d->next = head;
		if (atomic_compare_exchange_strong_explicit(bucket, &head, d, memory_order_acq_rel,
							    memory_order_acquire))
			return d;
	}
}

/* NULL, which is the default domain's handle, when there is no memory. */
struct nvtx_domain *ws_nvtx_domain_create(const char *name)
{
	struct nvtx_domain *d = domain_get(name);

	if (!d)
		return NULL;
	if (atomic_fetch_add_explicit(&d->handles, 1, memory_order_relaxed) == 0 &&
	    atomic_load_explicit(&d->ready, memory_order_relaxed) == ws_rt->generation) {
		struct nvtx_def def = {.kind = WS_NVTX_DEF_DOMAIN,
				       .name = d->name}; /* destroyed before, now created again */

		ws_nvtx_define(d, &def);
	}
	domain_announce(d);
	return d;
}

/*
 * The handle stays usable: a late pop through it still finds its range. When libraries share a
 * domain by name, the last one to destroy it makes the event.
 */
void ws_nvtx_domain_destroy(struct nvtx_domain *d)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_DESTROY, .name = d->name};
	uint32_t n = atomic_load_explicit(&d->handles, memory_order_relaxed);

	do {
		if (!n)
			return;
	} while (!atomic_compare_exchange_weak(&d->handles, &n, n - 1));
	if (n == 1)
		ws_nvtx_define(d, &def);
}

/* ---- definitions by the program ---- */

void ws_nvtx_define(struct nvtx_domain *d, const struct nvtx_def *def)
{
	struct ws_thread *t = ws_rt_enter();

	if (!t)
		return;
	if (d == &ws_nvtx_default ||
	    nvtx_domain_on(
		    t,
		    d)) /* names of threads and objects belong to no domain: no filter takes them */
		def_write(t, d, def);
	ws_rt_leave(t);
}

static struct nvtx_def *def_find(struct nvtx_domain *d, uint8_t kind, uint64_t id, uint32_t count)
{
	struct nvtx_def *p = atomic_load_explicit(&d->defs, memory_order_acquire);

	while (p &&
	       (p->kind != kind || p->id != id || (kind == WS_NVTX_DEF_ENTRY && p->count != count)))
		p = p->next;
	return p;
}

struct nvtx_def *ws_nvtx_find(struct nvtx_domain *d, uint8_t kind, uint64_t id)
{
	return def_find(d, kind, id, 0);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_def(const struct nvtx_def *a, const struct nvtx_def *b)
{
	return a->flags == b->flags && a->size == b->size && a->align == b->align &&
	       a->entry_type == b->entry_type && a->detail == b->detail && a->offset == b->offset &&
	       a->type == b->type && a->count == b->count && same_text(a->name, b->name) &&
	       same_text(a->description, b->description);
}

static const char *kept_text(const char *s)
{
	return s ? ws_nvtx_copy(s, strlen(s)) : NULL;
}

/* Copy `def` over `p`, whose place in the list stays. Texts replaced are not freed: someone may be
 * reading them. */
static void def_store(struct nvtx_def *p, const struct nvtx_def *def)
{
	const char *name = kept_text(def->name), *description = kept_text(def->description);
	struct nvtx_def *next = p->next;

	*p = *def;
	p->next = next;
	p->description = description;
	atomic_store_explicit(&p->name, name, memory_order_release);
}

void ws_nvtx_define_kept(struct nvtx_domain *d, const struct nvtx_def *def)
{
	struct nvtx_def *p = def_find(d, def->kind, def->id, def->count), *head;
	struct ws_thread *t;

	if (p && same_def(p, def))
		return; /* said already, and forked children repeat it */
	t = ws_rt_enter();
	if (t) {
		/* Before it is in the list, from which a first use of the domain would write it a
		 * second time. */
		if (nvtx_domain_on(t, d))
			def_write(t, d, def);
		ws_rt_leave(t);
	}
	if (p) {
		def_store(p, def);
		return;
	}
	p = ws_nvtx_alloc(sizeof(*p));
	if (!p)
		return;
	def_store(p, def);
	head = atomic_load_explicit(&d->defs, memory_order_relaxed);
	do
		p->next = head;
	while (!atomic_compare_exchange_weak_explicit(&d->defs, &head, p, memory_order_release,
						      memory_order_relaxed));
}

void ws_nvtx_name_category(struct nvtx_domain *d, uint32_t id, const char *name)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_CATEGORY, .id = id, .name = name ? name : ""};

	ws_nvtx_define_kept(d, &def);
}
