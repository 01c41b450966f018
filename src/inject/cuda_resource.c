/*
 * cuda_resource.c - callbacks of CUPTI: modules and graphs as they are made, waits (cuda_sync.c),
 * and the calls after which records would be lost (cudaDeviceReset) or are wanted at once
 * (cudaProfilerStop).
 *
 * CUPTI allows one subscriber per program. Ours has a name, and when another tool is subscribed,
 * the diagnostic names it.
 */
#include <string.h>
#include <sys/syscall.h>

#include "inject/capture.h"
#include "inject/cubin.h"
#include "inject/cuda.h"
#include "ring/cuda_record.h"
#include "schema/schema.h"

enum { FLUSH_MS = 400 };

void *ws_cuda_subscriber;

static uint32_t reset_cbid[2], start_cbid[2], stop_cbid[2]; /* runtime, driver */
static bool flush_on_stop;

static const uint32_t resources[] = {
	CUPTI_RESOURCE_MODULE_LOADED,
	CUPTI_RESOURCE_MODULE_UNLOAD_STARTING,
	CUPTI_RESOURCE_GRAPH_CREATED,
	CUPTI_RESOURCE_GRAPH_CLONED,
	CUPTI_RESOURCE_GRAPHEXEC_CREATED,
	CUPTI_RESOURCE_GRAPHNODE_CREATED,
	CUPTI_RESOURCE_GRAPHNODE_CLONED,
	CUPTI_RESOURCE_CONTEXT_CREATED,
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING,
	CUPTI_RESOURCE_STREAM_CREATED,
	CUPTI_RESOURCE_STREAM_DESTROY_STARTING,
};

/* Callbacks for calls that matter only while something is collected. */
static bool is_collected_call(int driver, uint32_t cbid)
{
	return ws_cuda_wants_sync_call(driver, cbid) || ws_cuda_wants_stack(driver, cbid) ||
	       ws_cuda_wants_host_call(driver, cbid) ||
	       (ws_cuda_api_by_callback &&
		ws_cuda_is_api_wanted(driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME, cbid));
}

static bool is_watched_call(int driver, uint32_t cbid)
{
	return cbid && (cbid == reset_cbid[driver] || cbid == start_cbid[driver] ||
			cbid == stop_cbid[driver] || ws_cuda_counts_launch(driver, cbid));
}

bool ws_cuda_enable_callback(uint32_t domain, uint32_t cbid)
{
	if (domain == CUPTI_DOMAIN_RESOURCE)
		for (size_t i = 0; i < WS_COUNT(resources); i++)
			if (resources[i] == cbid)
				return true;
	if (domain == CUPTI_DOMAIN_RUNTIME || domain == CUPTI_DOMAIN_DRIVER) {
		int driver = domain == CUPTI_DOMAIN_DRIVER;

		return cbid && (is_watched_call(driver, cbid) || is_collected_call(driver, cbid));
	}
	return domain == CUPTI_DOMAIN_STATE && cbid == CUPTI_STATE_FATAL_ERROR;
}

/* ---- what is recorded ---- */

static uint32_t read_graph_id(void *graph)
{
	uint32_t id = 0;

	return graph && ws_cupti.GetGraphId && !ws_cupti.GetGraphId(graph, &id) ? id : 0;
}

static uint64_t read_node_id(void *node)
{
	uint64_t id = 0;

	return node && ws_cupti.GetGraphNodeId && !ws_cupti.GetGraphNodeId(node, &id) ? id : 0;
}

/* Also recorded outside a collection, since what runs in the next collection may have been created
 * before it. */
static void write_resource(const struct ws_rec_cuda_resource *what)
{
	struct ws_thread *thread = NULL;
	struct ws_rec_cuda_resource *record;

	if (!atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed))
		thread = ws_rt_enter();

	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_CUDA);
	if (record) {
		*record = *what;
		record->time = ws_read_raw_ns();
		record->tid = thread->tid;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

static void write_module(uint32_t what, const struct cupti_resource *res)
{
	const struct cupti_module *m = res->descriptor;
	struct ws_rec_cuda_resource record = {
		.rec = ws_rec_head(WS_REC_CUDA_RESOURCE, sizeof(record), (uint16_t)what, 0)};

	if (!m)
		return;
	if (ws_cupti.GetContextId && res->context)
		ws_cupti.GetContextId(res->context, &record.rec.value);
	record.id = m->id;
	record.other = m->bytes;
	record.for_debugger = what == WS_CUDA_MODULE_LOADED && ws_cubin_is_for_debugger(m);
	write_resource(&record);
}

static void write_graph(uint32_t what, const struct cupti_resource *res)
{
	const struct cupti_graph *g = res->descriptor;
	struct ws_rec_cuda_resource record = {
		.rec = ws_rec_head(WS_REC_CUDA_RESOURCE, sizeof(record), (uint16_t)what, 0)};
	uint32_t exec = 0;

	if (!g)
		return;
	record.graph = read_graph_id(g->graph);
	if (what == WS_CUDA_GRAPH_CLONED)
		record.original_graph = read_graph_id(g->original_graph);
	if (what == WS_CUDA_GRAPH_EXEC && g->exec && ws_cupti.GetGraphExecId &&
	    !ws_cupti.GetGraphExecId(g->exec, &exec))
		record.id = exec;
	if (what == WS_CUDA_NODE_CREATED || what == WS_CUDA_NODE_CLONED) {
		record.id = read_node_id(g->node);
		record.other = what == WS_CUDA_NODE_CLONED ? read_node_id(g->original_node) : 0;
		record.rec.value = g->node_type;
	}
	write_resource(&record);
}

static void handle_resource(uint32_t cbid, const struct cupti_resource *res)
{
	switch (cbid) {
	case CUPTI_RESOURCE_MODULE_LOADED:
		write_module(WS_CUDA_MODULE_LOADED, res);
		break;
	case CUPTI_RESOURCE_MODULE_UNLOAD_STARTING:
		write_module(WS_CUDA_MODULE_UNLOADED, res);
		break;
	case CUPTI_RESOURCE_GRAPH_CREATED:
		write_graph(WS_CUDA_GRAPH_CREATED, res);
		break;
	case CUPTI_RESOURCE_GRAPH_CLONED:
		write_graph(WS_CUDA_GRAPH_CLONED, res);
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_CREATED:
		write_graph(WS_CUDA_GRAPH_EXEC, res);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CREATED:
		write_graph(WS_CUDA_NODE_CREATED, res);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CLONED:
		write_graph(WS_CUDA_NODE_CLONED, res);
		break;
	default:
		ws_cuda_note_resource(cbid, res);
		break;
	}
}

static _Atomic uint32_t rounds; /* how often callbacks for calls were turned on */

static void forget_left_calls(struct ws_cuda_open *open)
{
	uint32_t round = (uint16_t)atomic_load_explicit(&rounds, memory_order_relaxed);

	if (ws_likely(open->round == round))
		return;
	*open = (struct ws_cuda_open){.round = round & 0xffff};
}

/* A start counts after the call has been made, a stop before it is made. Ending a collection leaves
 * flushing to the flushing thread, which waits for the work that is under way. */
static void handle_profiler_call(bool start, uint32_t site)
{
	if (start && site == CUPTI_SITE_EXIT)
		ws_capture_turn_profiler(true);
	if (!start && site == CUPTI_SITE_ENTER)
		ws_capture_turn_profiler(false);
	if (!start && site == CUPTI_SITE_EXIT && flush_on_stop && ws_rt_is_collecting())
		ws_cuda_flush(FLUSH_MS);
}

static void handle_call(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	bool stack = ws_cuda_wants_stack(driver, cbid);

	forget_left_calls(&ws_cuda_open);
	if (ws_cuda_counts_launch(driver, cbid))
		ws_cuda_count_launch(callback);
	if (ws_cuda_api_by_callback && callback->site == CUPTI_SITE_ENTER)
		ws_cuda_record_old_call(driver, cbid, callback);
	/* Copying a stack does not count as part of the wait, nor the wait as part of the
	 * copying. */
	if (stack && callback->site == CUPTI_SITE_EXIT)
		ws_cuda_record_stack(driver, cbid, callback);
	if (ws_likely(ws_cuda_wants_sync_call(driver, cbid)))
		ws_cuda_record_sync_call(driver, cbid, callback);
	if (ws_cuda_wants_host_call(driver, cbid))
		ws_cuda_record_host_call(driver, cbid, callback);
	if (stack && callback->site == CUPTI_SITE_ENTER)
		ws_cuda_record_stack(driver, cbid, callback);
	if (callback->site == CUPTI_SITE_ENTER && cbid == reset_cbid[driver])
		ws_cuda_flush(
			FLUSH_MS); /* what is in the driver's buffers disappears with the context */
	if (cbid == start_cbid[driver] || cbid == stop_cbid[driver])
		handle_profiler_call(cbid == start_cbid[driver], callback->site);
	if (ws_cuda_api_by_callback && callback->site == CUPTI_SITE_EXIT)
		ws_cuda_record_old_call(driver, cbid, callback);
}

static void handle_callback(void *data, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)data;
	if (ws_cuda_reset_after_fork())
		return;
	if (ws_cuda_enable_callback(domain, cbid)) {
		if (domain == CUPTI_DOMAIN_RESOURCE)
			handle_resource(cbid, info);
		else if (domain == CUPTI_DOMAIN_RUNTIME || domain == CUPTI_DOMAIN_DRIVER)
			handle_call(domain == CUPTI_DOMAIN_DRIVER, cbid, info);
		else
			ws_cuda_report(WS_ERROR, "CUPTI met a fatal error and stopped recording: ",
				       ws_cuda_report_error(
					       (int)((const struct cupti_state *)info)->result),
				       "");
	}
	if (atomic_load_explicit(&ws_inner_there, memory_order_relaxed))
		ws_inner_call_back(domain, cbid, info);
}

/* ---- subscribing ---- */

/* Callback ids of calls by name: they differ between versions of the API. */
static void find_watched_calls(void)
{
	static const uint32_t domains[2] = {CUPTI_DOMAIN_RUNTIME, CUPTI_DOMAIN_DRIVER};
	static const char *const reset[2] = {"cudaDeviceReset", "cuDevicePrimaryCtxReset"},
				 *const start[2] = {"cudaProfilerStart", "cuProfilerStart"},
				 *const stop[2] = {"cudaProfilerStop", "cuProfilerStop"};
	bool begin = ws_rt->features & WS_FEATURE_PROFILER_CALLS;

	flush_on_stop = ws_rt->arena->cuda.flags & WS_CUDA_FLUSH_ON_STOP;

	for (int driver = 0; driver < 2; driver++)
		for (uint32_t cbid = 1, gap = 0; cbid < 2048 && gap < 64; cbid++) {
			const char *name = NULL;

			if (ws_cupti.GetCallbackName(domains[driver], cbid, &name) || !name) {
				gap++;
				continue;
			}
			gap = 0;
			if (!strncmp(name, reset[driver], strlen(reset[driver])))
				reset_cbid[driver] = cbid; /* the last is the newest version */
			ws_cuda_find_sync_call(driver, cbid, name);
			ws_cuda_find_host_calls(driver, cbid, name);
			ws_cuda_find_stack_call(driver, cbid, name);
			ws_cuda_find_launch_call(driver, cbid, name);
			if (begin && !strncmp(name, start[driver], strlen(start[driver])))
				start_cbid[driver] = cbid;
			if ((begin || flush_on_stop) &&
			    !strncmp(name, stop[driver], strlen(stop[driver])))
				stop_cbid[driver] = cbid;
		}
}

static int subscribe_callbacks(char *other, size_t size)
{
	struct cupti_subscriber_params params = {sizeof(params), "warpsight", other, size};
	int rc = CUPTI_ERR_NOT_SUPPORTED;

	if (ws_cupti.Subscribe_v2)
		rc = ws_cupti.Subscribe_v2(&ws_cuda_subscriber, handle_callback, NULL, &params);
	/* A newer CUPTI may want longer parameters than ours: it still accepts the old call. */
	if (rc == CUPTI_ERR_NOT_SUPPORTED || rc == CUPTI_ERR_INVALID_PARAMETER)
		rc = ws_cupti.Subscribe(&ws_cuda_subscriber, handle_callback, NULL);
	return rc;
}

bool ws_cuda_subscribe(void)
{
	char other[128] = "";
	int rc = subscribe_callbacks(other, sizeof(other));

	other[sizeof(other) - 1] = 0;
	if (rc == CUPTI_ERR_MULTIPLE_SUBSCRIBERS) {
		ws_cuda_report(WS_WARNING,
			       "CUDA is not recorded: another tool profiles or debugs this program "
			       "already: ",
			       *other ? other
				      : "a debugger, a profiler, or a library that traces CUDA",
			       ". Run it without that tool.");
		return false;
	}
	if (rc) {
		ws_cuda_report(WS_WARNING,
			       "CUDA is not recorded: CUPTI refuses: ", ws_cuda_report_error(rc),
			       rc == CUPTI_ERR_NOT_INITIALIZED || rc == CUPTI_ERR_NOT_COMPATIBLE
				       ? " (the library may be too new for the driver)"
				       : "");
		return false;
	}
	return true;
}

void ws_cuda_enable_callbacks(void)
{
	find_watched_calls();
	for (size_t i = 0; i < WS_COUNT(resources); i++)
		ws_cupti.EnableCallback(1, ws_cuda_subscriber, CUPTI_DOMAIN_RESOURCE, resources[i]);
	ws_cupti.EnableCallback(1, ws_cuda_subscriber, CUPTI_DOMAIN_STATE, CUPTI_STATE_FATAL_ERROR);
	for (int driver = 0; driver < 2; driver++) {
		uint32_t domain = driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;

		if (reset_cbid[driver])
			ws_cupti.EnableCallback(1, ws_cuda_subscriber, domain, reset_cbid[driver]);
		if (start_cbid[driver])
			ws_cupti.EnableCallback(1, ws_cuda_subscriber, domain, start_cbid[driver]);
		if (stop_cbid[driver])
			ws_cupti.EnableCallback(1, ws_cuda_subscriber, domain, stop_cbid[driver]);
	}
	if (ws_cuda_watch_launches())
		ws_cuda_switch_launch_callbacks(true);
}

void ws_cuda_disable_callbacks(void)
{
	for (size_t i = 0; i < WS_COUNT(resources); i++)
		ws_cupti.EnableCallback(0, ws_cuda_subscriber, CUPTI_DOMAIN_RESOURCE, resources[i]);
	ws_cupti.EnableCallback(0, ws_cuda_subscriber, CUPTI_DOMAIN_STATE, CUPTI_STATE_FATAL_ERROR);
	for (int driver = 0; driver < 2; driver++) {
		uint32_t domain = driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;
		const uint32_t calls[] = {reset_cbid[driver], start_cbid[driver],
					  stop_cbid[driver]};

		for (size_t i = 0; i < WS_COUNT(calls); i++)
			if (calls[i])
				ws_cupti.EnableCallback(0, ws_cuda_subscriber, domain, calls[i]);
		start_cbid[driver] = stop_cbid[driver] = 0;
	}
	if (ws_cuda_watches_launches())
		ws_cuda_switch_launch_callbacks(false);
}

void ws_cuda_switch_launch_callbacks(bool on)
{
	for (int driver = 0; driver < 2; driver++)
		for (uint32_t cbid = 1; cbid < WS_CUDA_CBIDS; cbid++)
			if (ws_cuda_is_launch(driver, cbid))
				ws_cupti.EnableCallback(
					on || is_collected_call(driver, cbid), ws_cuda_subscriber,
					driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME, cbid);
}

void ws_cuda_switch_callbacks(bool on)
{
	if (on)
		atomic_fetch_add(&rounds, 1);
	for (int driver = 0; driver < 2; driver++) {
		uint32_t domain = driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;

		for (uint32_t cbid = 1; cbid < WS_CUDA_CBIDS; cbid++)
			if (is_collected_call(driver, cbid) && !is_watched_call(driver, cbid) &&
			    (on || !ws_inner_wants_callback(domain, cbid)))
				ws_cupti.EnableCallback(on, ws_cuda_subscriber, domain, cbid);
	}
}
