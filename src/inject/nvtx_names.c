/*
 * nvtx_names.c - names that programs give through NVTX: categories, threads, resources, CUDA and
 * OpenCL objects; and user-defined synchronisation objects.
 *
 * The naming calls come in an ASCII and a wide form for each kind of object; a macro makes both.
 * All end as one definition: type of object, its number or address, its name.
 *
 * A user-defined synchronisation object shows as start/end ranges: "NAME (acquire)" from the
 * attempt to its outcome, "NAME (held)" from success to release. Their ids are made from the object
 * and the thread, so no state has to be kept between the calls.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "inject/nvtx_state.h"

/* ---- naming ---- */

static void write_name(struct nvtx_domain *domain, uint32_t type, uint64_t id, const char *name)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_RESOURCE,
			       .type = type,
			       .id = id,
			       .name = name,
			       .cuda = WS_CUDA_NO_NUMBERS};
	void (*numbers)(uint32_t, uint64_t, struct ws_cuda_numbers *) =
		atomic_load_explicit(&ws_rt_cuda_numbers, memory_order_acquire);

	if (numbers)
		numbers(type, id, &def.cuda);
	ws_nvtx_write_definition(domain, &def);
}

/* A number that is not a thread of this process (such as a pthread_t cut to 32 bits) names a
 * resource, which is better than making up a thread.
 */
static void name_thread(struct nvtx_domain *domain, uint64_t tid, const char *name)
{
	struct nvtx_def def = {.kind = WS_NVTX_DEF_THREAD, .id = tid, .name = name};
	long pid = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if (tid && tid <= INT32_MAX && ws_raw_syscall(SYS_tgkill, pid, (long)tid, 0, 0, 0, 0) == 0)
		ws_nvtx_write_definition(domain, &def);
	else
		write_name(domain, NX_RESOURCE(NX_CLASS_GENERIC, NX_GENERIC_THREAD_NATIVE), tid,
			   name);
}

static void name_thread_here(uint32_t tid, const char *name)
{
	name_thread(&ws_nvtx_default, tid, name);
}

static void name_category(uint32_t id, const char *name)
{
	ws_nvtx_name_category(&ws_nvtx_default, id, name);
}

static void domain_category(void *domain, uint32_t id, const char *name)
{
	ws_nvtx_name_category(nvtx_domain_of(domain), id, name);
}

/* The wide form of a call whose last argument is a name. */
#define WIDE(fn, params, ...)                            \
	static void fn##_w params                        \
	{                                                \
		struct nvtx_scratch b;                   \
		if (ws_nvtx_convert_to_utf8(&b, name)) { \
			fn(__VA_ARGS__, b.p);            \
			ws_nvtx_close_scratch(&b);       \
		}                                        \
	}
WIDE(name_thread_here, (uint32_t tid, const wchar_t *name), tid)
WIDE(name_category, (uint32_t id, const wchar_t *name), id)
WIDE(domain_category, (void *domain, uint32_t id, const wchar_t *name), domain, id)

#define OBJECT_NAME(fn, ctype, class, number)                                       \
	static void fn(ctype object, const char *name)                              \
	{                                                                           \
		write_name(&ws_nvtx_default, NX_RESOURCE(NX_CLASS_##class, number), \
			   (uint64_t)(uintptr_t)object, name);                      \
	}                                                                           \
	WIDE(fn, (ctype object, const wchar_t *name), object)

/* function, type of object, class and number of the resource type, module and slot of the ASCII
 * form (the wide one follows) */
#define OBJECTS(X)                                                   \
	X(cu_device, int, CUDA, 1, NX_CUDA, NX_CU_DEVICE_A)          \
	X(cu_context, void *, CUDA, 2, NX_CUDA, NX_CU_CONTEXT_A)     \
	X(cu_stream, void *, CUDA, 3, NX_CUDA, NX_CU_STREAM_A)       \
	X(cu_event, void *, CUDA, 4, NX_CUDA, NX_CU_EVENT_A)         \
	X(rt_device, int, CUDART, 0, NX_CUDART, NX_RT_DEVICE_A)      \
	X(rt_stream, void *, CUDART, 1, NX_CUDART, NX_RT_STREAM_A)   \
	X(rt_event, void *, CUDART, 2, NX_CUDART, NX_RT_EVENT_A)     \
	X(cl_device, void *, OPENCL, 1, NX_OPENCL, NX_CL_DEVICE_A)   \
	X(cl_context, void *, OPENCL, 2, NX_OPENCL, NX_CL_CONTEXT_A) \
	X(cl_queue, void *, OPENCL, 3, NX_OPENCL, NX_CL_QUEUE_A)     \
	X(cl_mem, void *, OPENCL, 4, NX_OPENCL, NX_CL_MEM_A)         \
	X(cl_sampler, void *, OPENCL, 5, NX_OPENCL, NX_CL_SAMPLER_A) \
	X(cl_program, void *, OPENCL, 6, NX_OPENCL, NX_CL_PROGRAM_A) \
	X(cl_event, void *, OPENCL, 7, NX_OPENCL, NX_CL_EVENT_A)

#define X(fn, ctype, class, number, module, slot) OBJECT_NAME(fn, ctype, class, number)
OBJECTS(X)
#undef X

/* ---- resources ---- */

/* The UTF-8 of a message for a definition: text of the program's own, or converted into `b`. NULL
 * for none. */
static const char *plain_message(struct nvtx_scratch *scratch, int32_t type,
				 union nx_message message)
{
	struct nvtx_string *string = message.registered;

	scratch->mapped = 0;
	if (type == NX_MESSAGE_ASCII)
		return message.ascii;
	if (type == NX_MESSAGE_REGISTERED)
		return string && string->magic == NVTX_STRING_MAGIC ? string->bytes : NULL;
	if (type == NX_MESSAGE_WIDE && message.wide)
		return ws_nvtx_convert_to_utf8(scratch, message.wide) ? scratch->p : NULL;
	return NULL;
}

/* Handles are numbers and nothing has to be kept for them, so a program may make and destroy any
 * number of resources. */
static void *resource_create(void *domain, const struct nx_resource *attrs)
{
	static _Atomic uintptr_t handles = 1;
	struct nvtx_domain *d = nvtx_domain_of(domain);
	struct nx_resource resource = {0};
	struct nvtx_scratch scratch;
	const char *name;

	if (!attrs)
		return NULL;
	memcpy(&resource, attrs,
	       attrs->size && attrs->size < sizeof(resource) ? attrs->size : sizeof(resource));
	if (resource.size && resource.size < sizeof(resource))
		resource.message_type = 0; /* cut off */
	name = plain_message(&scratch, resource.message_type, resource.message);
	if (resource.type == NX_RESOURCE(NX_CLASS_GENERIC, NX_GENERIC_THREAD_NATIVE))
		name_thread(d, resource.identifier, name);
	else if (resource.type == NX_RESOURCE(NX_CLASS_GENERIC, NX_GENERIC_THREAD_POSIX) &&
		 resource.identifier == (uint64_t)pthread_self())
		name_thread(d, ws_rt_find_tid(), name);
	else
		write_name(d, (uint32_t)resource.type, resource.identifier, name);
	ws_nvtx_close_scratch(&scratch);
	return (void *)atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
}

static void resource_destroy(void *handle)
{
	(void)handle; /* the report keeps the names of things; it does not record their end */
}

/* ---- synchronisation objects ---- */

struct sync {
	struct nvtx_domain *domain;
	uint32_t number;
	struct nvtx_string *acquire, *held;
};
enum { SYNC_ACQUIRE = 0, SYNC_HELD = 1 };

static struct nvtx_string *sync_text(const char *name, const char *what)
{
	struct nvtx_scratch scratch;
	struct nvtx_string *string;
	size_t n = strlen(name), m = strlen(what);

	if (!ws_nvtx_open_scratch(&scratch, n + m + 1))
		return NULL;
	memcpy(scratch.p, name, n);
	memcpy(scratch.p + n, what, m + 1);
	string = ws_nvtx_register_string(scratch.p);
	ws_nvtx_close_scratch(&scratch);
	return string;
}

static void *sync_create(void *domain, const struct nx_sync *attrs)
{
	static _Atomic uint32_t numbers;
	struct sync *sync = ws_nvtx_allocate(sizeof(*sync));
	struct nx_sync a = {0};
	struct nvtx_scratch scratch;
	const char *name;

	if (!sync)
		return NULL;
	if (attrs)
		memcpy(&a, attrs, attrs->size && attrs->size < sizeof(a) ? attrs->size : sizeof(a));
	if (a.size && a.size < sizeof(a))
		a.message_type = 0; /* cut off */
	name = plain_message(&scratch, a.message_type, a.message);
	name = name ? name : "sync";
	sync->domain = nvtx_domain_of(domain);
	sync->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) & 0x1fffffff;
	sync->acquire = sync_text(name, " (acquire)");
	sync->held = sync_text(name, " (held)");
	write_name(sync->domain, WS_NVTX_RESOURCE_SYNC, (uint64_t)(uintptr_t)sync, name);
	ws_nvtx_close_scratch(&scratch);
	return sync;
}

static void sync_destroy(void *handle)
{
	(void)handle; /* its memory stays: a late call through the handle must find it */
}

static uint64_t sync_id(struct ws_thread *thread, const struct sync *sync, int what)
{
	return WS_NVTX_ID_SYNC | (uint64_t)what << 61 | (uint64_t)sync->number << 32 | thread->tid;
}

static void sync_step(struct sync *sync, bool end_acquire, bool start_acquire, bool start_held,
		      bool end_held)
{
	struct ws_thread *thread = sync ? nvtx_enter(sync->domain, false) : NULL;
	struct nvtx_attrs attrs = {0};

	if (!thread)
		return;
	if (end_acquire)
		ws_nvtx_end_range(thread, sync->domain, sync_id(thread, sync, SYNC_ACQUIRE), 0);
	if (end_held)
		ws_nvtx_end_range(thread, sync->domain, sync_id(thread, sync, SYNC_HELD), 0);
	if (start_acquire || start_held) {
		attrs.text = nvtx_text_registered(thread, start_held ? sync->held : sync->acquire);
		ws_nvtx_start_range(thread, sync->domain, &attrs,
				    sync_id(thread, sync, start_held ? SYNC_HELD : SYNC_ACQUIRE));
	}
	ws_rt_leave(thread);
}

static void sync_start(void *handle)
{
	sync_step(handle, false, true, false, false);
}

static void sync_failed(void *handle)
{
	sync_step(handle, true, false, false, false);
}

static void sync_success(void *handle)
{
	sync_step(handle, true, false, true, false);
}

static void sync_releasing(void *handle)
{
	sync_step(handle, false, false, false, true);
}

/* ---- table ---- */

#define SLOT(module, slot, fn) {module, slot, (nx_fn)(fn)},
#define X(fn, ctype, class, number, module, slot) \
	SLOT(module, slot, fn) SLOT(module, slot + 1, fn##_w)
const struct nvtx_slot ws_nvtx_name_slots[] = {
	OBJECTS(X) SLOT(NX_CORE, NX_CATEGORY_A, name_category) SLOT(NX_CORE, NX_CATEGORY_W,
								    name_category_w)
		SLOT(NX_CORE, NX_THREAD_A, name_thread_here) SLOT(NX_CORE, NX_THREAD_W,
								  name_thread_here_w)
			SLOT(NX_CORE2, NX_D_CATEGORY_A,
			     domain_category) SLOT(NX_CORE2, NX_D_CATEGORY_W, domain_category_w)
				SLOT(NX_CORE2, NX_D_RESOURCE_CREATE, resource_create) SLOT(
					NX_CORE2, NX_D_RESOURCE_DESTROY,
					resource_destroy) SLOT(NX_SYNC, NX_SYNC_CREATE, sync_create)
					SLOT(NX_SYNC, NX_SYNC_DESTROY,
					     sync_destroy) SLOT(NX_SYNC, NX_SYNC_START, sync_start)
						SLOT(NX_SYNC, NX_SYNC_FAILED, sync_failed)
							SLOT(NX_SYNC, NX_SYNC_SUCCESS, sync_success)
								SLOT(NX_SYNC, NX_SYNC_RELEASING,
								     sync_releasing)};
const size_t ws_nvtx_name_slot_count = WS_COUNT(ws_nvtx_name_slots);
