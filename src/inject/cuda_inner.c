/*
 * cuda_inner.c - serves a profiler inside the profiled program (torch.profiler is the common one)
 * from our stream of records.
 *
 * CUPTI knows one set of buffer callbacks and one subscriber. Two users in one process overwrite
 * each other, and both silently get nothing. This library is preloaded, so the cupti* functions
 * that libraries import resolve to those below. What the inner profiler registers is kept, and what
 * it enables is really enabled, in addition to what we need. From every completed buffer it gets
 * copies of the records it asked for, in its own buffers and with the times of its own clock. What
 * we need is never turned off. Without a session the calls go straight through.
 *
 * A profiler that finds libcupti's functions through dlsym gets these as well (cuda_dlsym.c).
 */
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/cuda.h"
#include "ring/cuda_record.h"
#include "schema/schema.h"

enum { CBIDS = 2048, DOMAINS = 7, KINDS = 64 };

_Atomic bool ws_inner_there;

struct anchor {
	uint64_t ours, theirs;
};

static struct {
	_Atomic uint32_t lock;
	_Atomic bool announced; /* the user knows */
	cupti_request_fn request;
	cupti_complete_fn complete;
	cupti_clock_fn clock;
	struct anchor first, last;
	_Atomic uint64_t kinds;	 /* enabled by it */
	_Atomic uint64_t ending; /* disabled since its last flush: earlier records are still to be
				    delivered */
	uint64_t since[KINDS], until[KINDS]; /* session ns when each was enabled and disabled */
	uint64_t api_on[2][CBIDS / 64];	     /* calls enabled one by one: runtime, driver */
	uint64_t api_off[2][CBIDS /
			    64]; /* calls disabled one by one after the whole kind was enabled */
	cupti_callback_fn callback;
	void *data;
	bool subscribed;
	uint64_t callbacks[DOMAINS][CBIDS / 64];
	uint8_t *buffer; /* being filled */
	size_t size, used;
	bool graphs_off; /* we stopped recording whole graphs for its sake */
} inner;

static bool test_bit(const uint64_t *bits, uint32_t i)
{
	return i < CBIDS && bits[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *bits, uint32_t i, bool on)
{
	if (i < CBIDS && on)
		bits[i / 64] |= UINT64_C(1) << i % 64;
	else if (i < CBIDS)
		bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

static void lock_subscribers(void)
{
	while (atomic_exchange_explicit(&inner.lock, 1, memory_order_acquire))
		ws_raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock_subscribers(void)
{
	atomic_store_explicit(&inner.lock, 0, memory_order_release);
}

static bool has_kind(uint32_t kind)
{
	return kind < KINDS && atomic_load_explicit(&inner.kinds, memory_order_relaxed) >> kind & 1;
}

bool ws_inner_wants_broad(uint32_t kind)
{
	return has_kind(kind);
}

bool ws_inner_is_only_reader(uint32_t kind)
{
	return has_kind(kind) && !ws_cuda_is_kind_on(kind);
}

/* ---- its clock ---- */

static uint64_t real_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t their_clock(void)
{
	return inner.clock ? inner.clock() : real_clock();
}

/* Read both clocks at one moment: the closest pair of a few tries. */
static struct anchor read_clocks(void)
{
	struct anchor best = {0};
	uint64_t gap = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t a = ws_read_raw_ns(), theirs = their_clock(), b = ws_read_raw_ns();

		if (b - a < gap) {
			gap = b - a;
			best = (struct anchor){a + (b - a) / 2, theirs};
		}
	}
	return best;
}

static uint64_t their_time(uint64_t t)
{
	int64_t span = (int64_t)(inner.last.ours - inner.first.ours),
		theirs = (int64_t)(inner.last.theirs - inner.first.theirs);

	if (!t || !(t + 1))
		return t;
	if (span <= 0)
		return inner.first.theirs + (t - inner.first.ours);
	return inner.first.theirs +
	       (uint64_t)((__int128)(int64_t)(t - inner.first.ours) * theirs / span);
}

/* Offsets of the times in records of each kind; 0 ends the list. */
#define OFFSET(type, field) ((uint8_t)offsetof(struct cupti_##type, field))
static const uint8_t time_fields[KINDS][6] = {
	[CUPTI_KIND_MEMCPY] = {OFFSET(memcpy, start), OFFSET(memcpy, end)},
	[CUPTI_KIND_MEMSET] = {OFFSET(memset, start), OFFSET(memset, end)},
	[CUPTI_KIND_KERNEL] = {OFFSET(kernel, start), OFFSET(kernel, end),
			       OFFSET(kernel, completed), OFFSET(kernel, queued),
			       OFFSET(kernel, submitted)},
	[CUPTI_KIND_DRIVER] = {OFFSET(api, start), OFFSET(api, end)},
	[CUPTI_KIND_RUNTIME] = {OFFSET(api, start), OFFSET(api, end)},
	[CUPTI_KIND_CONCURRENT_KERNEL] = {OFFSET(kernel, start), OFFSET(kernel, end),
					  OFFSET(kernel, completed), OFFSET(kernel, queued),
					  OFFSET(kernel, submitted)},
	[12 /* marker */] = {8},
	[CUPTI_KIND_OVERHEAD] = {OFFSET(overhead, start), OFFSET(overhead, end)},
	[20 /* environment */] = {8},
	[CUPTI_KIND_MEMCPY2] = {OFFSET(memcpy_peer, start), OFFSET(memcpy_peer, end)},
	[CUPTI_KIND_UNIFIED_MEMORY_COUNTER] = {OFFSET(um, start), OFFSET(um, end)},
	[CUPTI_KIND_CUDA_EVENT] = {OFFSET(event, time)},
	[CUPTI_KIND_SYNCHRONIZATION] = {OFFSET(sync, start), OFFSET(sync, end)},
	[CUPTI_KIND_INTERNAL_LAUNCH_API] = {OFFSET(api, start), OFFSET(api, end)},
	[CUPTI_KIND_MEMORY2] = {OFFSET(memory, time)},
	[CUPTI_KIND_MEMORY_POOL] = {OFFSET(pool, time)},
	[CUPTI_KIND_GRAPH_TRACE] = {OFFSET(graph_trace, start), OFFSET(graph_trace, end)},
	[CUPTI_KIND_JIT] = {OFFSET(jit, start), OFFSET(jit, end)},
};

static void translate_time(uint8_t *record, size_t size, uint32_t kind)
{
	for (int i = 0; i < 6 && time_fields[kind][i]; i++) {
		size_t at = time_fields[kind][i];
		uint64_t t;

		if (at + sizeof(t) > size)
			break;
		memcpy(&t, record + at, sizeof(t));
		t = their_time(t);
		memcpy(record + at, &t, sizeof(t));
	}
	/* What an overhead record points to is freed once, by us. */
	if (kind == CUPTI_KIND_OVERHEAD && size >= sizeof(struct cupti_overhead))
		((struct cupti_overhead *)record)->data = NULL;
}

/* ---- giving records to the inner profiler ---- */

static void hand_over_buffer(void *context, uint32_t stream)
{
	uint8_t *b = inner.buffer;

	if (!b)
		return;
	inner.buffer = NULL;
	inner.complete(context, stream, b, inner.size, inner.used);
}

static bool is_process_ending(uint32_t kind)
{
	return kind < KINDS &&
	       atomic_load_explicit(&inner.ending, memory_order_relaxed) >> kind & 1;
}

/* Buffers also hold records from before the inner profiler enabled the kind, which it must not
 * receive. */
static bool is_before_start(const void *record, size_t size, uint32_t kind)
{
	size_t at = time_fields[kind][1] ? time_fields[kind][1]
					 : time_fields[kind][0]; /* the end, where there is one */
	uint64_t t = 0;

	if (at && at + sizeof(t) <= size)
		memcpy(&t, (const char *)record + at, sizeof(t));
	return t && t < inner.since[kind];
}

static bool is_wanted_kind(const struct cupti_record *record, size_t size)
{
	uint32_t kind = record->kind & 0x7fffffff;
	const struct cupti_api *api = (const void *)record;
	int driver = kind == CUPTI_KIND_DRIVER;

	if (kind >= KINDS || is_before_start(record, size, kind))
		return false;
	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER)
		return api->thread != ws_cuda_is_own_thread() &&
		       (!is_process_ending(kind) || api->start <= inner.until[kind]) &&
		       (has_kind(kind) || is_process_ending(kind)
				? !test_bit(inner.api_off[driver], api->cbid)
				: test_bit(inner.api_on[driver], api->cbid));
	/* Work that was launched earlier may still be running; the inner profiler can tell which
	 * records are too late. */
	return has_kind(kind) || is_process_ending(kind);
}

static void give_record(const uint8_t *record, size_t size)
{
	if (!is_wanted_kind((const void *)record, size))
		return;
	if (inner.buffer && inner.size - inner.used < size)
		hand_over_buffer(NULL, 0);
	if (!inner.buffer) {
		size_t most = 0;

		inner.size = inner.used = 0;
		inner.request(&inner.buffer, &inner.size, &most);
		if (!inner.buffer || inner.size < size) {
			if (inner.buffer)
				hand_over_buffer(NULL, 0);
			return;
		}
	}
	memcpy(inner.buffer + inner.used, record, size);
	translate_time(inner.buffer + inner.used, size,
		       ((const struct cupti_record *)record)->kind & (KINDS - 1));
	inner.used += size;
}

void ws_inner_give_record(uint8_t *buffer, size_t valid)
{
	uint8_t *last = NULL;
	void *next = NULL;

	lock_subscribers();
	if (inner.request && inner.complete) {
		inner.last = read_clocks();
		while (!ws_cupti.ActivityGetNextRecord(buffer, valid, &next)) {
			if (last)
				give_record(last, (size_t)((uint8_t *)next - last));
			last = next;
		}
		if (last)
			give_record(last, (size_t)(buffer + valid - last));
	}
	unlock_subscribers();
}

void ws_inner_call_back(uint32_t domain, uint32_t cbid, const void *info)
{
	if (domain < DOMAINS && inner.callback && test_bit(inner.callbacks[domain], cbid))
		inner.callback(inner.data, domain, cbid, info);
}

/* ---- what it calls ---- */

/* Whether we handle this call. Starts the hook when the inner profiler comes before the driver. */
static bool is_started_here(void)
{
	return ws_cuda_start();
}

#define PASS(name, types, ...)                                               \
	do {                                                                 \
		int(*real) types = ws_cuda_find_real(#name);                 \
		return real ? real(__VA_ARGS__) : CUPTI_ERR_NOT_INITIALIZED; \
	} while (0)
struct function {
	const char *name;
	void *at;
};
/* Each function is listed in a section of its own, for ws_inner_find_function. */
#define HOOK(name, params)                                                                   \
	WS_EXPORT int name params;                                                           \
	__attribute__((section("ws_inner"),                                                  \
		       used)) static const struct function function_##name = {#name,         \
									      (void *)name}; \
	WS_EXPORT int name params

extern const struct function first_function[] __asm__("__start_ws_inner")
	__attribute__((visibility("hidden")));
extern const struct function last_function[] __asm__("__stop_ws_inner")
	__attribute__((visibility("hidden")));

void *ws_inner_find_function(const char *name)
{
	for (const struct function *function = first_function; function < last_function; function++)
		if (!strcmp(function->name, name))
			return function->at;
	return NULL;
}

HOOK(cuptiActivityRegisterCallbacks, (cupti_request_fn request, cupti_complete_fn complete))
{
	if (!is_started_here())
		PASS(cuptiActivityRegisterCallbacks, (cupti_request_fn, cupti_complete_fn), request,
		     complete);
	if (!request || !complete)
		return CUPTI_ERR_INVALID_PARAMETER;
	lock_subscribers();
	if (inner.buffer && inner.complete)
		hand_over_buffer(NULL, 0);
	inner.request = request;
	inner.complete = complete;
	if (!inner.first.ours)
		inner.first = read_clocks();
	unlock_subscribers();
	atomic_store(&ws_inner_there, true);
	if (!atomic_exchange(&inner.announced, true))
		ws_cuda_report(
			WS_INFO,
			"The program profiles its CUDA work itself as well (torch.profiler, or "
			"another user of CUPTI): both "
			"get their records.",
			"", "");
	return CUPTI_OK;
}

HOOK(cuptiActivityRegisterTimestampCallback, (cupti_clock_fn clock))
{
	if (!is_started_here())
		PASS(cuptiActivityRegisterTimestampCallback, (cupti_clock_fn), clock);
	if (!clock)
		return CUPTI_ERR_INVALID_PARAMETER;
	lock_subscribers();
	inner.clock = clock;
	inner.first = read_clocks();
	unlock_subscribers();
	return CUPTI_OK;
}

HOOK(cuptiGetTimestamp, (uint64_t * time))
{
	if (!is_started_here())
		PASS(cuptiGetTimestamp, (uint64_t *), time);
	if (!time)
		return CUPTI_ERR_INVALID_PARAMETER;
	*time = their_clock();
	return CUPTI_OK;
}

/* Recording whole graphs suppresses the records of the kernels in them, which the inner profiler
 * would miss. */
static void watch_graphs(void)
{
	bool wants = has_kind(CUPTI_KIND_CONCURRENT_KERNEL) && !has_kind(CUPTI_KIND_GRAPH_TRACE);

	if (wants && ws_cuda_is_kind_on(CUPTI_KIND_GRAPH_TRACE) && !inner.graphs_off) {
		ws_cupti.ActivityDisable(CUPTI_KIND_GRAPH_TRACE);
		inner.graphs_off = true;
	} else if (!wants && inner.graphs_off) {
		inner.graphs_off = false;
		if (ws_cuda_is_kind_on(CUPTI_KIND_GRAPH_TRACE))
			ws_cupti.ActivityEnable(CUPTI_KIND_GRAPH_TRACE);
	}
}

HOOK(cuptiActivityEnable, (uint32_t kind))
{
	int rc = CUPTI_OK;

	if (!is_started_here())
		PASS(cuptiActivityEnable, (uint32_t), kind);
	if (!ws_cuda_is_kind_on(kind))
		rc = ws_cupti.ActivityEnable(kind);
	if (rc || kind >= KINDS)
		return rc;
	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER)
		memset(inner.api_off[kind == CUPTI_KIND_DRIVER], 0, sizeof(inner.api_off[0]));
	inner.since[kind] = ws_read_raw_ns();
	atomic_fetch_and(&inner.ending, ~(UINT64_C(1) << kind));
	atomic_fetch_or(&inner.kinds, UINT64_C(1) << kind);
	watch_graphs();
	return rc;
}

/* Turn off only the calls that it alone wanted, one by one: turning the whole kind off would
 * briefly turn ours off, too. */
static void narrow_kinds(uint32_t kind)
{
	int (*enable)(uint32_t, uint8_t) = kind == CUPTI_KIND_DRIVER
						   ? ws_cupti.ActivityEnableDriverApi
						   : ws_cupti.ActivityEnableRuntimeApi;

	if (ws_cuda_api_by_callback)
		ws_cupti.ActivityDisable(kind);
	if (!enable || ws_cuda_api_coarse || ws_cuda_api_by_callback)
		return;
	for (uint32_t cbid = 1; cbid < 1024; cbid++)
		if (!ws_cuda_is_api_wanted(kind, cbid) &&
		    !test_bit(inner.api_on[kind == CUPTI_KIND_DRIVER], cbid))
			enable(cbid, 0);
}

HOOK(cuptiActivityDisable, (uint32_t kind))
{
	if (!is_started_here())
		PASS(cuptiActivityDisable, (uint32_t), kind);
	if (kind >= KINDS)
		return ws_cupti.ActivityDisable(kind);
	if (!(atomic_fetch_and(&inner.kinds, ~(UINT64_C(1) << kind)) >> kind & 1))
		return CUPTI_OK;
	inner.until[kind] = ws_read_raw_ns();
	atomic_fetch_or(&inner.ending, UINT64_C(1) << kind);
	watch_graphs();
	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER)
		narrow_kinds(kind);
	else if (!ws_cuda_is_kind_on(kind))
		return ws_cupti.ActivityDisable(kind);
	return CUPTI_OK;
}

static int enable_inner_call(uint32_t kind, uint32_t cbid, uint8_t enable)
{
	int driver = kind == CUPTI_KIND_DRIVER;
	int (*real)(uint32_t, uint8_t) =
		driver ? ws_cupti.ActivityEnableDriverApi : ws_cupti.ActivityEnableRuntimeApi;

	if (!real)
		return CUPTI_ERR_NOT_SUPPORTED;
	if (has_kind(kind))
		set_bit(inner.api_off[driver], cbid, !enable);
	else
		set_bit(inner.api_on[driver], cbid, enable);
	return ws_cuda_is_api_wanted(kind, cbid) && !ws_cuda_api_by_callback ? CUPTI_OK
									     : real(cbid, enable);
}

HOOK(cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))
{
	if (!is_started_here())
		PASS(cuptiActivityEnableRuntimeApi, (uint32_t, uint8_t), cbid, enable);
	return enable_inner_call(CUPTI_KIND_RUNTIME, cbid, enable);
}

HOOK(cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t enable))
{
	if (!is_started_here())
		PASS(cuptiActivityEnableDriverApi, (uint32_t, uint8_t), cbid, enable);
	return enable_inner_call(CUPTI_KIND_DRIVER, cbid, enable);
}

HOOK(cuptiActivityFlushAll, (uint32_t flags))
{
	int rc;

	if (!is_started_here())
		PASS(cuptiActivityFlushAll, (uint32_t), flags);
	rc = ws_cupti.ActivityFlushAll(flags);
	ws_cuda_settle_buffers(200); /* another thread's flush may hold the requested records */
	lock_subscribers();
	if (inner.complete)
		hand_over_buffer(NULL, 0);
	atomic_store(&inner.ending, 0);
	unlock_subscribers();
	return rc;
}

/* We walk the records: where two copies of the library are mapped, only the one that made the
 * records knows their sizes. */
HOOK(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))
{
	static int (*_Atomic theirs)(uint8_t *, size_t, void **);
	int (*real)(uint8_t *, size_t, void **) =
		atomic_load_explicit(&theirs, memory_order_relaxed);

	if (is_started_here())
		return ws_cupti.ActivityGetNextRecord(buffer, valid, record);
	if (!real) {
		real = ws_cuda_find_real("cuptiActivityGetNextRecord");
		atomic_store_explicit(&theirs, real, memory_order_relaxed);
	}
	return real ? real(buffer, valid, record) : CUPTI_ERR_NOT_INITIALIZED;
}

HOOK(cuptiActivitySetAttribute, (uint32_t attribute, size_t *size, void *value))
{
	if (!is_started_here())
		PASS(cuptiActivitySetAttribute, (uint32_t, size_t *, void *), attribute, size,
		     value);
	/* The inner profiler must not change how our buffers are delivered or how many there are.
	 */
	if (attribute == CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER ||
	    attribute == CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER)
		return CUPTI_OK;
	return ws_cupti.ActivitySetAttribute(attribute, size, value);
}

HOOK(cuptiSetThreadIdType, (uint32_t type))
{
	if (!is_started_here())
		PASS(cuptiSetThreadIdType, (uint32_t), type);
	return CUPTI_OK; /* our setting stays: system thread ids */
}

HOOK(cuptiFinalize, (void))
{
	if (!is_started_here())
		PASS(cuptiFinalize, (void));
	return CUPTI_OK; /* it has finished, but we have not */
}

/* ---- its subscription ---- */

static int subscribe_inner(void **subscriber, cupti_callback_fn fn, void *data)
{
	if (!subscriber || !fn)
		return CUPTI_ERR_INVALID_PARAMETER;
	if (inner.subscribed)
		return CUPTI_ERR_MULTIPLE_SUBSCRIBERS;
	inner.callback = fn;
	inner.data = data;
	inner.subscribed = true;
	*subscriber = &inner;
	atomic_store(&ws_inner_there, true);
	return CUPTI_OK;
}

HOOK(cuptiSubscribe, (void **subscriber, cupti_callback_fn fn, void *data))
{
	if (!is_started_here())
		PASS(cuptiSubscribe, (void **, cupti_callback_fn, void *), subscriber, fn, data);
	return subscribe_inner(subscriber, fn, data);
}

HOOK(cuptiSubscribe_v2,
     (void **subscriber, cupti_callback_fn fn, void *data, struct cupti_subscriber_params *params))
{
	if (!is_started_here())
		PASS(cuptiSubscribe_v2,
		     (void **, cupti_callback_fn, void *, struct cupti_subscriber_params *),
		     subscriber, fn, data, params);
	return subscribe_inner(subscriber, fn, data);
}

bool ws_inner_wants_callback(uint32_t domain, uint32_t cbid)
{
	return atomic_load_explicit(&ws_inner_there, memory_order_relaxed) && domain < DOMAINS &&
	       cbid < CBIDS && test_bit(inner.callbacks[domain], cbid);
}

/* A callback that we want, too, stays on when the inner profiler turns it off; it may be off while
 * nothing is collected. */
static int real_callback(uint32_t enable, uint32_t domain, uint32_t cbid)
{
	if (!enable && ws_cuda_enable_callback(domain, cbid))
		return CUPTI_OK;
	return ws_cupti.EnableCallback(enable, ws_cuda_subscriber, domain, cbid);
}

HOOK(cuptiEnableCallback, (uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid))
{
	if (!is_started_here() || subscriber != &inner)
		PASS(cuptiEnableCallback, (uint32_t, void *, uint32_t, uint32_t), enable,
		     subscriber, domain, cbid);
	if (domain >= DOMAINS || cbid >= CBIDS)
		return CUPTI_ERR_INVALID_PARAMETER;
	set_bit(inner.callbacks[domain], cbid, enable);
	return real_callback(enable, domain, cbid);
}

static int enable_inner_domain(uint32_t enable, uint32_t domain)
{
	int rc = ws_cupti.EnableDomain ? ws_cupti.EnableDomain(enable, ws_cuda_subscriber, domain)
				       : CUPTI_ERR_NOT_SUPPORTED;

	memset(inner.callbacks[domain], enable ? 0xff : 0, sizeof(inner.callbacks[domain]));
	for (uint32_t cbid = 1; !enable && cbid < CBIDS; cbid++)
		if (ws_cuda_enable_callback(domain, cbid))
			ws_cupti.EnableCallback(1, ws_cuda_subscriber, domain, cbid);
	return rc;
}

HOOK(cuptiEnableDomain, (uint32_t enable, void *subscriber, uint32_t domain))
{
	if (!is_started_here() || subscriber != &inner)
		PASS(cuptiEnableDomain, (uint32_t, void *, uint32_t), enable, subscriber, domain);
	return domain && domain < DOMAINS ? enable_inner_domain(enable, domain)
					  : CUPTI_ERR_INVALID_PARAMETER;
}

HOOK(cuptiEnableAllDomains, (uint32_t enable, void *subscriber))
{
	int rc = CUPTI_OK;

	if (!is_started_here() || subscriber != &inner)
		PASS(cuptiEnableAllDomains, (uint32_t, void *), enable, subscriber);
	for (uint32_t domain = 1; domain < DOMAINS && !rc; domain++)
		rc = enable_inner_domain(enable, domain);
	return rc;
}

HOOK(cuptiUnsubscribe, (void *subscriber))
{
	if (!is_started_here() || subscriber != &inner)
		PASS(cuptiUnsubscribe, (void *), subscriber);
	for (uint32_t domain = 1; domain < DOMAINS; domain++)
		for (uint32_t cbid = 1; cbid < CBIDS; cbid++)
			if (test_bit(inner.callbacks[domain], cbid)) {
				set_bit(inner.callbacks[domain], cbid, false);
				real_callback(0, domain, cbid);
			}
	inner.subscribed = false;
	inner.callback = NULL;
	return CUPTI_OK;
}
