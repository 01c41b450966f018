/*
 * nvtx_state.h - what the files of the NVTX hook share: domains, registered strings, and the small
 * steps that every event takes.
 *
 *   nvtx.c          entry points: events, and filling the program's tables
 *   nvtx_idle.h     what little is done while a session waits for its next collection
 *   nvtx_capture.c  ranges that begin and end collections
 *   nvtx_steps.c    those that are steps, by their numbers
 *   nvtx_stack.c    the open-range stack where it is not the plain case
 *   nvtx_domain.c   domains, categories, registered strings, memory
 *   nvtx_payload.c  extended payloads: schemas and binary data
 *   nvtx_names.c    names of threads, resources, CUDA and OpenCL objects; user-defined
 * synchronisation
 *
 * Objects that programs hold handles of (domains, strings) live in process-private memory that a
 * fork copies, so a handle stays good in a forked child. What they stand for in the arena does not:
 * string handles and definitions belong to one process. Each object therefore remembers in which
 * generation of the process (ws_rt->generation) it was last defined, and is defined anew at its
 * first use in another. Nothing here is ever freed or locked.
 */
#ifndef WS_NVTX_STATE_H
#define WS_NVTX_STATE_H

#include <string.h>

#include "inject/nvtx_abi.h"
#include "ring/nvtx_record.h"
#include "inject/rt.h"

/* A definition that a forked child repeats. The same struct passes a definition to the code that
 * records it.
 */
struct nvtx_def {
	struct nvtx_def *next;
	_Atomic(const char *) name; /* may be replaced by a later one */
	const char *description;
	uint64_t id, flags;
	uint64_t size, align;		     /* of a schema */
	uint64_t entry_type, detail, offset; /* of an entry */
	struct { /* of a schema: where in a payload the event's message is */
		uint64_t offset, detail;
		uint32_t type; /* of the entry; 0: there is none */
	} message;
	struct ws_cuda_numbers cuda; /* of a resource */
	uint32_t known_align;	     /* of a schema's payloads by natural rules; 0 unknown */
	uint32_t type, count;	     /* count: entries of a schema; number of an entry */
	uint8_t kind;		     /* enum ws_nvtx_define_kind */
};

struct nvtx_domain {
	_Atomic uint32_t ready; /* generation in which it is on and defined */
	_Atomic uint32_t off;	/* generation in which it is filtered out */
	uint16_t number;
	_Atomic uint32_t handles; /* how many creates have not been destroyed */
	_Atomic uint64_t next_id; /* ids for schemas that have none of their own */
	const char *name;
	struct nvtx_domain *next; /* of the same hash */
	_Atomic(struct nvtx_def *) defs;
};

struct nvtx_string {
	_Atomic uint64_t defined; /* generation << 32 | handle */
	uint64_t magic; /* distinguishes our handles from pointers that programs pass by mistake */
	uint64_t hash;
	struct nvtx_string *next;
	uint32_t len, reserved;
	char bytes[];
};
#define NVTX_STRING_MAGIC UINT64_C(0x5753525453545857)

/* A text that is about to go into a record: its handle or local number, and WS_OPEN_LOCAL_TEXT,
 * _REGISTERED, _LOST as they apply. */
struct nvtx_text {
	uint32_t value;
	uint32_t flags;
};

/* Everything that an event can carry. */
struct nvtx_attrs {
	struct nvtx_text text;
	uint32_t category, color, binary;
	uint8_t has_color, payload_type;
	uint64_t payload;
};

/* A buffer for one call: on the stack if that suffices, otherwise mapped. */
struct nvtx_scratch {
	char *p;
	size_t len, mapped;
	char small[1024];
};

extern struct nvtx_domain ws_nvtx_default;

/* ---- nvtx_domain.c ---- */

/* Private memory, zeroed, never freed, kept by forks; 8-byte aligned. NULL when the kernel refuses.
 */
void *ws_nvtx_allocate(size_t bytes);
char *ws_nvtx_copy_text(const char *text, size_t len);
/* Room for `bytes` in `b`; false when there is none. */
bool ws_nvtx_open_scratch(struct nvtx_scratch *scratch, size_t bytes);
void ws_nvtx_close_scratch(struct nvtx_scratch *scratch);
/* UTF-8 of a wide string; "" for NULL. False when there is no memory. */
bool ws_nvtx_convert_to_utf8(struct nvtx_scratch *scratch, const wchar_t *s);

/* Whether a domain is on, at its first use in this generation. Between enter and leave. */
bool ws_nvtx_find_domain_slow(struct ws_thread *thread, struct nvtx_domain *domain);
/* First use of a registered string in this generation, or a long one. */
struct nvtx_text ws_nvtx_find_string_slow(struct ws_thread *thread, struct nvtx_string *string);
struct nvtx_text ws_nvtx_write_wide_text(struct ws_thread *thread, const wchar_t *s);

struct nvtx_domain *ws_nvtx_create_domain(const char *name);
void ws_nvtx_destroy_domain(struct nvtx_domain *domain);
struct nvtx_string *ws_nvtx_register_string(const char *text);
void ws_nvtx_name_category(struct nvtx_domain *domain, uint32_t id, const char *name);
/* Record a definition now. Not between enter and leave. */
void ws_nvtx_write_definition(struct nvtx_domain *domain, const struct nvtx_def *def);
/* Record it, and keep it for forked children and ws_nvtx_find_definition; one of the same kind and
 * id (and number, of entries) is replaced. */
void ws_nvtx_keep_definition(struct nvtx_domain *domain, const struct nvtx_def *def);
/* The kept definition with this kind and id, or NULL. */
struct nvtx_def *ws_nvtx_find_definition(struct nvtx_domain *domain, uint8_t kind, uint64_t id);

/* ---- nvtx_stack.c ---- */

/* A place for a range that is not the simple case; NULL when it is too deep to be kept. *level is
 * its level in both cases. */
struct ws_open *ws_nvtx_open_range_slow(struct ws_thread *thread, struct ws_ring *ring,
					struct nvtx_domain *domain, int *level);
/* Close the innermost range of `d` at `now`; `binary` is the payload given at the pop. Returns its
 * level, -1 when there is none. */
int ws_nvtx_pop_range_slow(struct ws_thread *thread, struct nvtx_domain *domain, uint64_t now,
			   uint32_t binary);

/* ---- nvtx_steps.c ---- */

/* Called before a range is opened. Returns whether it is a step, whose end must be reported. */
bool ws_nvtx_open_step(const struct nvtx_domain *domain, const char *text);
/* A step has closed: of this thread, or, with `any_thread`, wherever it was opened. */
void ws_nvtx_close_step(bool any_thread);

/* ---- nvtx_idle.c ---- */

/* Define the text of a range that was pushed while idle, as far as it is known, in its entry.
 * Between enter and leave. */
void ws_nvtx_name_idle_range(struct ws_thread *thread, struct ws_open *open);

/* ---- nvtx_payload.c ---- */

/* Copy payloads into a BLOB record; its number, 0 when there is nothing; *lost is set when there
 * was no memory (counted). */
uint32_t ws_nvtx_write_blobs(struct ws_thread *thread, struct nvtx_domain *domain,
			     const struct nx_payload *payload, size_t count, bool *lost);
int ws_nvtx_fill_extension(struct nx_module_info *module_info);

/* ---- nvtx_names.c ---- */

/* The slots of modules CUDA, CUDART, OPENCL, SYNC and the naming calls of the core modules. */
struct nvtx_slot {
	uint8_t module, slot;
	nx_fn fn;
};
extern const struct nvtx_slot ws_nvtx_name_slots[];
extern const size_t ws_nvtx_name_slot_count;

/* ---- nvtx.c ---- */

/* The slots of events. */
extern const struct nvtx_slot ws_nvtx_event_slots[];
extern const size_t ws_nvtx_event_slot_count;
/* The function to be put into a slot: the slot's own, or one that first checks for capture ranges
 * (nvtx_capture.c). */
nx_fn ws_nvtx_get_function(const struct nvtx_slot *slot);

/* Events with everything attached, for nvtx_payload.c and nvtx_names.c. Between enter and leave. */
int ws_nvtx_push_range(struct ws_thread *thread, struct nvtx_domain *domain,
		       const struct nvtx_attrs *attrs);
void ws_nvtx_write_mark(struct ws_thread *thread, struct nvtx_domain *domain,
			const struct nvtx_attrs *attrs);
/* A start's id: `own_id`, or when that is 0 a new one; NVTX_ID_UNRECORDED when there was no memory
 * (counted). */
uint64_t ws_nvtx_start_range(struct ws_thread *thread, struct nvtx_domain *domain,
			     const struct nvtx_attrs *attrs, uint64_t own_id);
void ws_nvtx_end_range(struct ws_thread *thread, struct nvtx_domain *domain, uint64_t id,
		       uint32_t binary);
/* A range that ends now; `end` 0 notes that its texts will not be used. */
void ws_nvtx_write_range(struct ws_thread *thread, struct nvtx_domain *domain,
			 const struct ws_open *open, uint64_t end, uint32_t binary_end);
/* Text of a message of any type. */
struct nvtx_text ws_nvtx_read_message(struct ws_thread *thread, int32_t type,
				      union nx_message message);

/* Range ids at or above this are of starts that were not recorded; their ends are not recorded
 * either. */
#define NVTX_ID_UNRECORDED (UINT64_C(1) << 63)

static inline struct nvtx_domain *nvtx_domain_of(void *handle)
{
	return handle ? handle : &ws_nvtx_default;
}

static inline bool nvtx_domain_on(struct ws_thread *thread, struct nvtx_domain *domain)
{
	if (ws_likely(atomic_load_explicit(&domain->ready, memory_order_relaxed) ==
		      ws_rt->generation))
		return true;
	return ws_nvtx_find_domain_slow(thread, domain);
}

/* Enter for an event of domain `d`: NULL when it is not to be recorded. With `always`, also outside
 * a collection. */
static inline struct ws_thread *nvtx_enter(struct nvtx_domain *domain, bool always)
{
	struct ws_thread *thread = ws_rt_enter();

	if (ws_unlikely(!thread))
		return NULL;
	if (ws_likely(nvtx_domain_on(thread, domain) && (always || ws_rt_is_collecting())))
		return thread;
	ws_rt_leave(thread);
	return NULL;
}

/* The recorder has gone: levels are still counted, but no text is looked up, which would search for
 * memory each time. */
static inline bool nvtx_over(void)
{
	return ws_unlikely(!ws_rt_is_collecting()) &&
	       atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed);
}

static inline struct nvtx_text nvtx_text_utf8(struct ws_thread *thread, const char *text)
{
	struct nvtx_text out = {0, 0};
	bool local = false;
	size_t len;

	if (ws_unlikely(!text))
		return out;
	out.value = ws_rt_find_known_string(thread, text);
	if (ws_likely(out.value))
		return out;
	len = strlen(text);
	out.value = ws_rt_write_string_or_text(thread, text, len, &local, WS_LOSS_NVTX);
	if (out.value && !local)
		ws_rt_remember_string(thread, text, len, out.value);
	out.flags = out.value ? (local ? WS_OPEN_LOCAL_TEXT : 0) : WS_OPEN_LOST;
	return out;
}

static inline struct nvtx_text nvtx_text_registered(struct ws_thread *thread,
						    struct nvtx_string *string)
{
	uint64_t def;

	if (ws_unlikely(!string))
		return (struct nvtx_text){0, 0};
	def = atomic_load_explicit(&string->defined, memory_order_relaxed);
	if (ws_likely(def >> 32 == ws_rt->generation))
		return (struct nvtx_text){(uint32_t)def, WS_OPEN_REGISTERED};
	return ws_nvtx_find_string_slow(thread, string);
}

/* `rec.small` of an event: the domain with what the text is. */
static inline uint16_t nvtx_small(const struct nvtx_domain *domain, uint32_t flags)
{
	return (uint16_t)(domain->number | (flags & WS_OPEN_LOCAL_TEXT) << 15 |
			  (flags & WS_OPEN_REGISTERED) << 12);
}
_Static_assert(WS_OPEN_LOCAL_TEXT << 15 == WS_NVTX_SMALL_LOCAL &&
		       WS_OPEN_REGISTERED << 12 == WS_NVTX_SMALL_REGISTERED,
	       "flags line up");

static inline struct ws_ring *nvtx_ring(struct ws_thread *thread)
{
	return thread->nest[thread->busy - 1].ring;
}

#endif
