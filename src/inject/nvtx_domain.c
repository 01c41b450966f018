/*
 * nvtx_domain.c - the NVTX hook's domains, registered strings and definitions, and the private
 * memory they live in.
 *
 * Everything here is insert-only: lists grow at a compare-and-swap and are read without one, so
 * that no lock is needed in signal handlers or between threads, and a forked child finds them
 * intact. Creating a domain or registering a string that exists gives the existing one, so that
 * libraries which do so again and again cost nothing.
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

static void *map_pages(size_t bytes)
{
	long p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static void unmap_pages(void *memory, size_t bytes)
{
	ws_raw_syscall(SYS_munmap, (long)memory, (long)bytes, 0, 0, 0, 0);
}

void *ws_nvtx_allocate(size_t bytes)
{
	bytes = WS_ALIGN_UP(bytes, (size_t)16);
	if (bytes > REGION / 4)
		return map_pages(bytes);
	for (;;) {
		struct region *region_r = atomic_load_explicit(&region, memory_order_acquire),
			      *fresh;

		if (region_r) {
			size_t at = atomic_fetch_add_explicit(&region_r->used, bytes,
							      memory_order_relaxed);

			if (at + bytes <= region_r->size)
				return (char *)region_r + at;
		}
		fresh = map_pages(REGION);
		if (!fresh)
			return NULL;
		fresh->size = REGION;
		atomic_store_explicit(&fresh->used, 64, memory_order_relaxed);
		if (!atomic_compare_exchange_strong_explicit(
			    &region, &region_r, fresh, memory_order_acq_rel, memory_order_acquire))
			unmap_pages(fresh, REGION);
	}
}

char *ws_nvtx_copy_text(const char *text, size_t len)
{
	char *at = ws_nvtx_allocate(len + 1);

	if (at)
		memcpy(at, text, len);
	return at;
}

bool ws_nvtx_open_scratch(struct nvtx_scratch *scratch, size_t bytes)
{
	scratch->len = 0;
	scratch->mapped = 0;
	scratch->p = scratch->small;
	if (bytes <= sizeof(scratch->small))
		return true;
	scratch->p = map_pages(bytes);
	scratch->mapped = scratch->p ? bytes : 0;
	return scratch->p;
}

void ws_nvtx_close_scratch(struct nvtx_scratch *scratch)
{
	if (scratch->mapped)
		unmap_pages(scratch->p, scratch->mapped);
}

/* ---- texts ---- */

static size_t put_utf8(char *at, uint32_t c)
{
	if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		at[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		at[0] = (char)(0xc0 | c >> 6);
		at[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		at[0] = (char)(0xe0 | c >> 12);
		at[1] = (char)(0x80 | (c >> 6 & 0x3f));
		at[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	at[0] = (char)(0xf0 | c >> 18);
	at[1] = (char)(0x80 | (c >> 12 & 0x3f));
	at[2] = (char)(0x80 | (c >> 6 & 0x3f));
	at[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

bool ws_nvtx_convert_to_utf8(struct nvtx_scratch *scratch, const wchar_t *s)
{
	size_t n = 0;

	if (s)
		while (s[n])
			n++;
	if (!ws_nvtx_open_scratch(scratch, n * 4 + 1))
		return false;
	for (size_t i = 0; i < n; i++)
		scratch->len += put_utf8(scratch->p + scratch->len, (uint32_t)s[i]);
	scratch->p[scratch->len] = 0;
	return true;
}

WS_NOINLINE struct nvtx_text ws_nvtx_write_wide_text(struct ws_thread *thread, const wchar_t *s)
{
	struct nvtx_text text = {0, 0};
	struct nvtx_scratch scratch;

	if (!s)
		return text;
	if (!ws_nvtx_convert_to_utf8(&scratch, s)) {
		ws_rt_count_loss(thread, WS_LOSS_NVTX, 1);
		text.flags = WS_OPEN_LOST;
		return text;
	}
	text = nvtx_text_utf8(thread, scratch.p);
	ws_nvtx_close_scratch(&scratch);
	return text;
}

WS_NOINLINE struct nvtx_text ws_nvtx_find_string_slow(struct ws_thread *thread,
						      struct nvtx_string *string)
{
	struct nvtx_text text = {0, WS_OPEN_REGISTERED};

	if (string->magic != NVTX_STRING_MAGIC)
		return (struct nvtx_text){0, 0};
	if (string->len <= WS_STRING_MAX)
		text.value = ws_rt_define_string(string->bytes, string->len);
	if (text.value) {
		atomic_store_explicit(&string->defined,
				      (uint64_t)ws_rt->generation << 32 | text.value,
				      memory_order_relaxed);
		return text;
	}
	text.value = ws_rt_write_text(thread, string->bytes, string->len, WS_LOSS_NVTX);
	text.flags |= text.value ? WS_OPEN_LOCAL_TEXT : WS_OPEN_LOST;
	return text;
}

static uint64_t hash_text(const char *text, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct nvtx_string *find_string(struct nvtx_string *string, uint64_t hash, const char *bytes,
				       size_t len)
{
	while (string &&
	       (string->hash != hash || string->len != len || memcmp(string->bytes, bytes, len)))
		string = string->next;
	return string;
}

struct nvtx_string *ws_nvtx_register_string(const char *bytes)
{
	size_t len = strlen(bytes);
	uint64_t hash = hash_text(bytes, len);
	_Atomic(struct nvtx_string *) *bucket = &strings[hash % STRING_BUCKETS];
	struct nvtx_string *head = atomic_load_explicit(bucket, memory_order_acquire),
			   *string = find_string(head, hash, bytes, len);

	if (string || len > UINT32_MAX / 2)
		return string;
	string = ws_nvtx_allocate(sizeof(*string) + len + 1);
	if (!string)
		return NULL;
	memcpy(string->bytes, bytes, len);
	string->len = (uint32_t)len;
	string->hash = hash;
	string->magic = NVTX_STRING_MAGIC;
	/* Two threads may both add the same new text. It then exists twice, which is harmless.
	 */
	do
		string->next = head;
	while (!atomic_compare_exchange_weak_explicit(bucket, &head, string, memory_order_acq_rel,
						      memory_order_acquire));
	return string;
}

/* ---- definitions ---- */

static struct nvtx_text definition_text(struct ws_thread *thread, const char *text)
{
	struct nvtx_text out = {0, 0};
	size_t len;

	if (!text)
		return out;
	len = strlen(text);
	if (len <= WS_STRING_MAX)
		out.value = ws_rt_find_string(thread, text, len);
	if (!out.value) {
		out.value = ws_rt_write_text(thread, text, len, WS_LOSS_NVTX);
		out.flags = WS_OPEN_LOCAL_TEXT;
	}
	return out;
}

static void write_definition(struct ws_thread *thread, struct nvtx_domain *domain,
			     const struct nvtx_def *def)
{
	struct nvtx_text name =
		definition_text(thread, atomic_load_explicit(&def->name, memory_order_acquire));
	union {
		struct ws_rec_nvtx_define record;
		struct ws_rec_nvtx_resource resource;
		struct ws_rec_nvtx_schema schema;
		struct ws_rec_nvtx_schema_entry entry;
	} * r;
	size_t bytes = sizeof(r->record);
	uint32_t description = 0;

	if (def->kind == WS_NVTX_DEF_RESOURCE)
		bytes = sizeof(r->resource);
	else if (def->kind == WS_NVTX_DEF_SCHEMA)
		bytes = sizeof(r->schema);
	else if (def->kind == WS_NVTX_DEF_ENTRY)
		bytes = sizeof(r->entry);
	if (def->description)
		description = ws_rt_find_string(thread, def->description,
						strnlen(def->description, WS_STRING_MAX));
	r = ws_rt_reserve(thread, bytes, WS_LOSS_NVTX);
	if (!r)
		return;
	memset(r, 0, bytes);
	r->record = (struct ws_rec_nvtx_define){.rec = ws_rec_head(WS_REC_NVTX_DEFINE, bytes,
								   nvtx_small(domain, name.flags),
								   name.value),
						.kind = def->kind,
						.type = def->type,
						.time = ws_rt_read_ticks(),
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
	ws_rt_commit(thread, r, bytes);
}

/* ---- domains ---- */

static bool is_listed_domain(const struct ws_arena *arena, const char *name)
{
	const char *at = arena->text + arena->text_domains,
		   *end = arena->text + sizeof(arena->text);

	while (at < end && *at) {
		size_t n = strnlen(at, (size_t)(end - at));

		if (!strcmp(at, name))
			return true;
		at += n + 1;
	}
	return false;
}

static bool is_filtered_domain(const char *name)
{
	const struct ws_arena *arena = ws_rt->arena;

	if (!arena || !arena->nvtx_filter || arena->text_domains >= sizeof(arena->text))
		return false;
	return is_listed_domain(arena, name) != (arena->nvtx_filter == 1);
}

WS_NOINLINE bool ws_nvtx_find_domain_slow(struct ws_thread *thread, struct nvtx_domain *domain)
{
	uint32_t before = atomic_load_explicit(&domain->ready, memory_order_relaxed),
		 now = ws_rt->generation;

	if (!ws_rt->arena || atomic_load_explicit(&domain->off, memory_order_relaxed) == now)
		return false;
	if (before != now && is_filtered_domain(domain->name)) {
		atomic_store_explicit(&domain->off, now, memory_order_relaxed);
		return false;
	}
	if (before == now || !atomic_compare_exchange_strong(&domain->ready, &before, now))
		return true;
	if (domain != &ws_nvtx_default) {
		struct nvtx_def def = {.kind = WS_NVTX_DEF_DOMAIN, .name = domain->name};

		write_definition(thread, domain, &def);
	}
	for (struct nvtx_def *p = atomic_load_explicit(&domain->defs, memory_order_acquire); p;
	     p = p->next)
		write_definition(thread, domain, p);
	return true;
}

/* Define the domain if it is wanted and not yet defined. */
static void announce_domain(struct nvtx_domain *domain)
{
	struct ws_thread *thread = ws_rt_enter();

	if (thread) {
		nvtx_domain_on(thread, domain);
		ws_rt_leave(thread);
	}
}

static struct nvtx_domain *make_domain(const char *name)
{
	uint32_t number = atomic_load_explicit(&domain_numbers, memory_order_relaxed);
	struct nvtx_domain *domain;

	do {
		if (number >= WS_NVTX_DOMAINS) {
			ws_rt_write_diagnostic(
				WS_WARNING, "nvtx",
				"The program created more NVTX domains than can be named "
				"(16,383); events of "
				"further ones are in the default domain.");
			return NULL;
		}
	} while (!atomic_compare_exchange_weak(&domain_numbers, &number, number + 1));
	domain = ws_nvtx_allocate(sizeof(*domain));
	if (!domain)
		return NULL;
	domain->number = (uint16_t)number;
	domain->name = ws_nvtx_copy_text(name, strlen(name));
	return domain->name ? domain : NULL;
}

static struct nvtx_domain *find_domain(struct nvtx_domain *domain, const char *name)
{
	while (domain && strcmp(domain->name, name))
		domain = domain->next;
	return domain;
}

static struct nvtx_domain *get_domain(const char *name)
{
	_Atomic(struct nvtx_domain *) *bucket =
		&domains[hash_text(name, strlen(name)) % DOMAIN_BUCKETS];
	struct nvtx_domain *head = atomic_load_explicit(bucket, memory_order_acquire),
			   *domain = NULL, *found;

	for (;;) {
		found = find_domain(head, name);
		if (found)
			return found; /* our unused `d` keeps its number: rare and harmless */
		if (!domain)
			domain = make_domain(name);
		if (!domain)
			return NULL;
		domain->next = head;
		if (atomic_compare_exchange_strong_explicit(
			    bucket, &head, domain, memory_order_acq_rel, memory_order_acquire))
			return domain;
	}
}

const char *ws_nvtx_name_domain(uint32_t number)
{
	for (size_t i = 0; i < DOMAIN_BUCKETS; i++) {
		struct nvtx_domain *domain =
			atomic_load_explicit(&domains[i], memory_order_acquire);

		for (; domain; domain = domain->next)
			if (domain->number == number)
				return domain->name;
	}
	return "";
}

/* NULL, which is the default domain's handle, when there is no memory. */
struct nvtx_domain *ws_nvtx_create_domain(const char *name)
{
	struct nvtx_domain *domain = get_domain(name);

	if (!domain)
		return NULL;
	if (atomic_fetch_add_explicit(&domain->handles, 1, memory_order_relaxed) == 0 &&
	    atomic_load_explicit(&domain->ready, memory_order_relaxed) == ws_rt->generation) {
		struct nvtx_def def = {
			.kind = WS_NVTX_DEF_DOMAIN,
			.name = domain->name}; /* destroyed before, now created again */

		ws_nvtx_write_definition(domain, &def);
	}
	announce_domain(domain);
	return domain;
}

/*
 * The handle stays usable: a late pop through it still finds its range. When libraries share a
 * domain by name, the last one to destroy it makes the event.
 */
void ws_nvtx_destroy_domain(struct nvtx_domain *domain)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_DESTROY, .name = domain->name};
	uint32_t n = atomic_load_explicit(&domain->handles, memory_order_relaxed);

	do {
		if (!n)
			return;
	} while (!atomic_compare_exchange_weak(&domain->handles, &n, n - 1));
	if (n == 1)
		ws_nvtx_write_definition(domain, &def);
}

/* ---- definitions by the program ---- */

void ws_nvtx_write_definition(struct nvtx_domain *domain, const struct nvtx_def *def)
{
	struct ws_thread *thread = ws_rt_enter();

	if (!thread)
		return;
	if (domain == &ws_nvtx_default ||
	    nvtx_domain_on(thread, domain)) /* names of threads and objects belong to no domain, so
					       no filter applies */
		write_definition(thread, domain, def);
	ws_rt_leave(thread);
}

static struct nvtx_def *find_definition(struct nvtx_domain *domain, uint8_t kind, uint64_t id,
					uint32_t count)
{
	struct nvtx_def *def = atomic_load_explicit(&domain->defs, memory_order_acquire);

	while (def && (def->kind != kind || def->id != id ||
		       (kind == WS_NVTX_DEF_ENTRY && def->count != count)))
		def = def->next;
	return def;
}

struct nvtx_def *ws_nvtx_find_definition(struct nvtx_domain *domain, uint8_t kind, uint64_t id)
{
	return find_definition(domain, kind, id, 0);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool is_same_definition(const struct nvtx_def *left, const struct nvtx_def *right)
{
	return left->flags == right->flags && left->size == right->size &&
	       left->align == right->align && left->entry_type == right->entry_type &&
	       left->detail == right->detail && left->offset == right->offset &&
	       left->type == right->type && left->count == right->count &&
	       is_same_text(left->name, right->name) &&
	       is_same_text(left->description, right->description);
}

static const char *keep_text(const char *text)
{
	return text ? ws_nvtx_copy_text(text, strlen(text)) : NULL;
}

/* Copy `def` over `p`, which keeps its place in the list. Replaced texts are not freed: someone may
 * be reading them. */
static void store_definition(struct nvtx_def *p, const struct nvtx_def *def)
{
	const char *name = keep_text(def->name), *description = keep_text(def->description);
	struct nvtx_def *next = p->next;

	*p = *def;
	p->next = next;
	p->description = description;
	atomic_store_explicit(&p->name, name, memory_order_release);
}

void ws_nvtx_keep_definition(struct nvtx_domain *domain, const struct nvtx_def *def)
{
	struct nvtx_def *p = find_definition(domain, def->kind, def->id, def->count), *head;
	struct ws_thread *thread;

	if (p && is_same_definition(p, def))
		return; /* already recorded, and forked children repeat it */
	thread = ws_rt_enter();
	if (thread) {
		/* Before it is in the list, from which a first use of the domain would write it a
		 * second time. */
		if (nvtx_domain_on(thread, domain))
			write_definition(thread, domain, def);
		ws_rt_leave(thread);
	}
	if (p) {
		store_definition(p, def);
		return;
	}
	p = ws_nvtx_allocate(sizeof(*p));
	if (!p)
		return;
	store_definition(p, def);
	head = atomic_load_explicit(&domain->defs, memory_order_relaxed);
	do
		p->next = head;
	while (!atomic_compare_exchange_weak_explicit(&domain->defs, &head, p, memory_order_release,
						      memory_order_relaxed));
}

void ws_nvtx_name_category(struct nvtx_domain *domain, uint32_t id, const char *name)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_CATEGORY, .id = id, .name = name ? name : ""};

	ws_nvtx_keep_definition(domain, &def);
}
