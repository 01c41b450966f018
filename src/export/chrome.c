/*
 * chrome.c - Chrome's trace events as JSON, in the dialect of PyTorch's profiler (Kineto): what
 * Perfetto, chrome://tracing, TensorBoard's plug-in and Holistic Trace Analysis read.
 *
 * Threads are rows of their processes; work on a GPU is in a process of its own whose number is the
 * device's (another one where that is taken), with a row a stream. Times are microseconds with
 * three decimals, from the start of the collection; baseTimeNanoseconds says when that was. Calls
 * and the work they caused are joined by flows "ac2g" and by args.correlation. What may overlap its
 * neighbours without nesting (start/end ranges) is written as asynchronous events, so that readers
 * keep it. From forward operators to their backward ones go flows "fwdbwd": those that were
 * recorded, else by the operators' sequence numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/chrome_samples.h"
#include "export/formats.h"
#include "text/outfile.h"
#include "text/progress.h"
#include "views/tables.h"
#include "text/text.h"
#include "export/timeline.h"
#include "query/gpu.h"

enum {
	FIRST_OTHER_GPU = 8388608,
	FIRST_OTHER_PROCESS = 12582912,
	FIRST_TRACK = 8388608
}; /* above any pid or tid of Linux */

/* A device as one process numbers it, and the process number that stands for it. */
struct gpu {
	uint64_t process, device;
	int64_t pid;
};

/* The last forward operator of a sequence number. */
struct forward {
	uint64_t start;
	uint32_t thread;
};

struct chrome {
	struct ws_export *x;
	FILE *f;
	struct ws_text t; /* events not written yet */
	bool first;	  /* nothing is written yet */
	struct ws_links links;
	struct gpu *gpus;
	size_t gpu_count, gpu_cap;
	struct ws_map gpu_at;	/* process << 32 | device -> place in gpus + 1 */
	struct ws_map taken;	/* process numbers that stand for something */
	struct ws_map others;	/* globalPid -> number, of processes whose pid is that of one of
				   another file */
	bool several;		/* work says whose it is: its row does not tell */
	struct ws_map rows;	/* (pid << 32 | tid) of GPU rows that have a name by now */
	uint8_t *threads;	/* by id: has events */
	struct ws_map counters; /* id of counter -> string of its name */
	struct ws_map groups, counter_process;
	struct ws_map track_name, track_process;
	struct ws_map
		track_row; /* id of a track of annotations on a GPU -> device << 32 | stream, + 1 */
	struct ws_map domains;	   /* process << 32 | NVTX domain -> string of its name */
	struct ws_map collectives; /* process << 32 | correlation -> place in `collective` + 1 */
	struct ws_row_collective *collective;
	size_t collective_count, collective_cap;
	bool linked;		/* fwdbwd flows were recorded */
	struct ws_map forwards; /* process << 48 ^ sequence -> place in `forward` + 1 */
	struct forward *forward;
	size_t forward_count, forward_cap;
	struct ws_chrome_samples *samples;
	uint64_t async;
};

/* ---- pieces of JSON ---- */

static void put_us(struct ws_text *t, int64_t ns)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	ws_text_printf(t, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", v / 1000, (unsigned)(v % 1000));
}

static void put_string(struct chrome *c, struct ws_text *t, uint64_t id)
{
	size_t n;
	const char *s = ws_report_string(c->x->r, (uint32_t)id, &n);

	ws_text_json(t, s, n);
}

static int64_t when(const struct chrome *c, uint64_t t)
{
	return (int64_t)(t - c->x->base);
}

/* {"ph":"X","cat":"kernel","name": - what follows is the name. */
static void open_event(struct chrome *c, const char *ph, const char *cat)
{
	ws_text_puts(&c->t, c->first ? "\n" : ",\n");
	c->first = false;
	ws_text_printf(&c->t, "{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":", ph, cat);
}

static void put_place(struct chrome *c, int64_t pid, int64_t tid, uint64_t at)
{
	ws_text_printf(&c->t, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", pid, tid);
	put_us(&c->t, when(c, at));
}

/* Length, and the arguments opened; what never ended lasts to the end of the recording and says so.
 */
static void put_span(struct chrome *c, const struct ws_event *e)
{
	uint64_t end = e->end != WS_NO_TIME ? e->end : c->x->last;

	ws_text_puts(&c->t, ",\"dur\":");
	put_us(&c->t, end > e->start ? (int64_t)(end - e->start) : 0);
	ws_text_puts(&c->t,
		     e->end == WS_NO_TIME ? ",\"args\":{\"never ended\":true" : ",\"args\":{");
}

static void put_comma(struct chrome *c)
{
	if (c->t.s[c->t.len - 1] != '{')
		ws_text_add(&c->t, ",", 1);
}

static void arg_number(struct chrome *c, const char *name, uint64_t v)
{
	put_comma(c);
	ws_text_printf(&c->t, "\"%s\":%" PRIu64, name, v);
}

static void arg_u32(struct chrome *c, const char *name, uint64_t v)
{
	if (v != WS_NO_U32)
		arg_number(c, name, v);
}

static void arg_u64(struct chrome *c, const char *name, uint64_t v)
{
	if (v != WS_NO_U64)
		arg_number(c, name, v);
}

static void arg_real(struct chrome *c, const char *name, double v)
{
	put_comma(c);
	ws_text_printf(&c->t, "\"%s\":%.6g", name,
		       v - v == 0 ? v : 0.0); /* JSON has no infinities */
}

static void arg_text(struct chrome *c, const char *name, uint64_t id)
{
	if (!id)
		return;
	put_comma(c);
	ws_text_printf(&c->t, "\"%s\":", name);
	put_string(c, &c->t, id);
}

static void close_event(struct chrome *c)
{
	ws_text_puts(&c->t, "}}");
}

static int flush(struct chrome *c, size_t above, struct ws_err *e)
{
	if (c->t.len <= above)
		return 0;
	if (fwrite(c->t.s, 1, c->t.len, c->f) != c->t.len)
		return ws_fail_errno(e, "cannot write %s", ws_x_output(c->x));
	c->t.len = 0;
	return 0;
}

/* ---- whose row ---- */

struct row {
	int64_t pid, tid;
};

static int64_t process_number(const struct chrome *c, const struct ws_process_info *p)
{
	uint64_t other = ws_map_get(&c->others, p->global_pid, NULL);

	return other ? (int64_t)other : (int64_t)p->pid;
}

static struct row thread_row(struct chrome *c, uint64_t thread)
{
	const struct ws_thread_info *t = ws_who_thread(c->x->who, (uint32_t)thread);

	if (thread && thread <= ws_who_threads(c->x->who))
		c->threads[thread] = 1;
	return (struct row){process_number(c, ws_who_process(c->x->who, t->process)), t->tid};
}

static int64_t gpu_pid(struct chrome *c, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device, at = ws_map_get(&c->gpu_at, key, NULL);
	int64_t pid = (int64_t)device;

	if (at)
		return c->gpus[at - 1].pid;
	if (device >= FIRST_OTHER_GPU || ws_map_get(&c->taken, device, NULL))
		pid = FIRST_OTHER_GPU + (int64_t)c->gpu_count;
	ws_map_set(&c->taken, (uint64_t)pid, 1);
	ws_grow(c->gpus, c->gpu_cap, c->gpu_count + 1);
	c->gpus[c->gpu_count++] = (struct gpu){process, device, pid};
	ws_map_set(&c->gpu_at, key, c->gpu_count);
	return pid;
}

static struct row stream_row(struct chrome *c, uint64_t process, uint64_t device, uint64_t stream)
{
	struct row r = {gpu_pid(c, process, device), stream == WS_NO_U32 ? -1 : (int64_t)stream};

	ws_map_set(&c->rows, (uint64_t)r.pid << 32 | (uint32_t)r.tid, 1);
	return r;
}

static struct row track_row(struct chrome *c, uint64_t thread, uint64_t track)
{
	uint64_t process, on_gpu;

	if (!track)
		return thread_row(c, thread);
	process = ws_map_get(&c->track_process, track, NULL);
	on_gpu = ws_map_get(&c->track_row, track, NULL);
	if (on_gpu)
		return stream_row(c, process, (on_gpu - 1) >> 32, (on_gpu - 1) & UINT32_MAX);
	return (struct row){process_number(c, ws_who_process(c->x->who, (uint32_t)process)),
			    FIRST_TRACK + (int64_t)track};
}

/* ---- events ---- */

static void put_flow(struct chrome *c, const char *ph, uint64_t process, uint64_t correlation,
		     struct row r, uint64_t at)
{
	open_event(c, ph, "ac2g");
	ws_text_printf(&c->t, "\"ac2g\",\"id\":%" PRIu64,
		       process > 1 ? (process - 1) << 32 | correlation : correlation);
	put_place(c, r.pid, r.tid, at);
	ws_text_puts(&c->t, *ph == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void arg_external(struct chrome *c, uint64_t process, uint64_t correlation)
{
	uint64_t id = correlation == WS_NO_U32
			      ? 0
			      : ws_pages_get(&c->links.external, process, correlation);

	if (id)
		arg_number(c, "External id", id);
}

static void arg_process(struct chrome *c, uint64_t process)
{
	if (c->several)
		arg_number(c, "process id",
			   (uint64_t)process_number(c,
						    ws_who_process(c->x->who, (uint32_t)process)));
}

static void put_call(struct chrome *c, const struct ws_event *e)
{
	uint64_t process = ws_who_thread(c->x->who, (uint32_t)e->v[ws_cuda_api_thread])->process;
	uint64_t correlation = e->v[ws_cuda_api_correlation];
	struct row r = thread_row(c, e->v[ws_cuda_api_thread]);
	size_t n;
	const char *name = ws_cuda_function(c->x->r, (uint32_t)e->v[ws_cuda_api_name], &n);

	open_event(c, "X",
		   e->v[ws_cuda_api_class] == WS_CUDA_RUNTIME ? "cuda_runtime" : "cuda_driver");
	ws_text_json(&c->t, name, n);
	put_place(c, r.pid, r.tid, e->start);
	put_span(c, e);
	arg_external(c, process, correlation);
	arg_u32(c, "correlation", correlation);
	if (e->v[ws_cuda_api_result])
		arg_number(c, "return value", e->v[ws_cuda_api_result]);
	close_event(c);
	if (ws_links_from(&c->links, process, e->v[ws_cuda_api_class], correlation))
		put_flow(c, "s", process, correlation, r, e->start);
}

/* The columns that all work on GPUs has are at the same places in kernels, copies and sets. */
#define SAME(table, column) ((int)ws_cuda_kernel_##column == (int)ws_##table##_##column)
#define ALL_SAME(table)                                                        \
	(SAME(table, device) && SAME(table, context) && SAME(table, stream) && \
	 SAME(table, correlation) && SAME(table, process))
_Static_assert(ALL_SAME(cuda_memcpy) && ALL_SAME(cuda_memset) && ALL_SAME(cuda_graph_trace),
	       "work on GPUs is read through the columns of kernels");

static struct row begin_work(struct chrome *c, const struct ws_event *e)
{
	struct row r = stream_row(c, e->v[ws_cuda_kernel_process], e->v[ws_cuda_kernel_device],
				  e->v[ws_cuda_kernel_stream]);

	put_place(c, r.pid, r.tid, e->start);
	put_span(c, e);
	arg_external(c, e->v[ws_cuda_kernel_process], e->v[ws_cuda_kernel_correlation]);
	arg_number(c, "device", e->v[ws_cuda_kernel_device]);
	arg_number(c, "context", e->v[ws_cuda_kernel_context]);
	arg_number(c, "stream", e->v[ws_cuda_kernel_stream]);
	arg_u32(c, "correlation", e->v[ws_cuda_kernel_correlation]);
	arg_process(c, e->v[ws_cuda_kernel_process]);
	return r;
}

static void end_work(struct chrome *c, const struct ws_event *e, struct row r)
{
	close_event(c);
	if (ws_links_to(&c->links, e->v[ws_cuda_kernel_process], e->v[ws_cuda_kernel_correlation]))
		put_flow(c, "f", e->v[ws_cuda_kernel_process], e->v[ws_cuda_kernel_correlation], r,
			 e->start);
}

static double real(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, 8);
	return d;
}

static uint64_t percent(uint64_t bits)
{
	double share = real(bits);

	return share >= 0 && share <= 1 ? (uint64_t)(share * 100 + 0.5) : 0;
}

/* What a kernel of a collective moved, as Kineto tells it. */
static void arg_collective(struct chrome *c, uint64_t process, uint64_t correlation)
{
	uint64_t at = correlation == WS_NO_U32
			      ? 0
			      : ws_map_get(&c->collectives, process << 32 | correlation, NULL);
	const struct ws_row_collective *o;

	if (!at)
		return;
	o = &c->collective[at - 1];
	arg_text(c, "Collective name", o->name);
	arg_u64(c, "In msg nelems", o->in_elements);
	arg_u64(c, "Out msg nelems", o->out_elements);
	arg_text(c, "dtype", o->dtype);
	arg_u32(c, "Group size", o->group_size);
	arg_text(c, "Process Group Name", o->group);
	arg_text(c, "Process Group Description", o->description);
	arg_text(c, "Process Group Ranks", o->ranks);
	if (o->source >= 0)
		arg_number(c, "Src Rank", (uint64_t)o->source);
	if (o->destination >= 0)
		arg_number(c, "Dst Rank", (uint64_t)o->destination);
	arg_u64(c, "Seq", o->sequence);
}

static void put_kernel(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row r;

	open_event(c, "X", "kernel");
	put_string(c, &c->t,
		   v[ws_cuda_kernel_demangled] ? v[ws_cuda_kernel_demangled]
					       : v[ws_cuda_kernel_name]);
	r = begin_work(c, e);
	arg_number(c, "registers per thread", v[ws_cuda_kernel_registers]);
	arg_number(c, "shared memory",
		   v[ws_cuda_kernel_static_shared] + v[ws_cuda_kernel_dynamic_shared]);
	if (real(v[ws_cuda_kernel_waves]) > 0)
		arg_real(c, "waves", real(v[ws_cuda_kernel_waves]));
	arg_number(c, "blocks per SM", v[ws_cuda_kernel_blocks_per_sm]);
	arg_number(c, "est. achieved occupancy %",
		   percent(v[ws_cuda_kernel_occupancy]) ? percent(v[ws_cuda_kernel_occupancy])
							: percent(v[ws_cuda_kernel_estimated]));
	if (v[ws_cuda_kernel_priority]) {
		put_comma(c);
		ws_text_printf(&c->t, "\"priority\":%d", (int)v[ws_cuda_kernel_priority]);
	}
	ws_text_printf(&c->t,
		       ",\"grid\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],\"block\":[%" PRIu64
		       ",%" PRIu64 ",%" PRIu64 "]",
		       v[ws_cuda_kernel_grid_x], v[ws_cuda_kernel_grid_y], v[ws_cuda_kernel_grid_z],
		       v[ws_cuda_kernel_block_x], v[ws_cuda_kernel_block_y],
		       v[ws_cuda_kernel_block_z]);
	arg_u32(c, "graph id", v[ws_cuda_kernel_graph]);
	arg_u64(c, "graph node id", v[ws_cuda_kernel_graph_node]);
	arg_collective(c, v[ws_cuda_kernel_process], v[ws_cuda_kernel_correlation]);
	end_work(c, e, r);
}

static void arg_rate(struct chrome *c, const struct ws_event *e, uint64_t bytes)
{
	arg_number(c, "bytes", bytes);
	if (e->end != WS_NO_TIME && e->end > e->start)
		arg_real(c, "memory bandwidth (GB/s)", (double)bytes / (double)(e->end - e->start));
}

static void put_copy(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row r;

	open_event(c, "X", "gpu_memcpy");
	ws_text_printf(&c->t, "\"%s (%s -> %s)\"", ws_copy_name(v[ws_cuda_memcpy_kind]),
		       ws_memory_name(v[ws_cuda_memcpy_src_kind]),
		       ws_memory_name(v[ws_cuda_memcpy_dst_kind]));
	r = begin_work(c, e);
	arg_rate(c, e, v[ws_cuda_memcpy_bytes]);
	arg_u32(c, "from device", v[ws_cuda_memcpy_src_device]);
	arg_u32(c, "to device", v[ws_cuda_memcpy_dst_device]);
	arg_u32(c, "graph id", v[ws_cuda_memcpy_graph]);
	arg_u64(c, "graph node id", v[ws_cuda_memcpy_graph_node]);
	end_work(c, e, r);
}

static void put_set(struct chrome *c, const struct ws_event *e)
{
	struct row r;

	open_event(c, "X", "gpu_memset");
	ws_text_printf(&c->t, "\"Memset (%s)\"", ws_memory_name(e->v[ws_cuda_memset_mem_kind]));
	r = begin_work(c, e);
	arg_rate(c, e, e->v[ws_cuda_memset_bytes]);
	arg_u32(c, "graph id", e->v[ws_cuda_memset_graph]);
	arg_u64(c, "graph node id", e->v[ws_cuda_memset_graph_node]);
	end_work(c, e, r);
}

static void put_graph(struct chrome *c, const struct ws_event *e)
{
	struct row r;

	open_event(c, "X", "kernel");
	ws_text_printf(&c->t, "\"CUDA graph %" PRIu64 "\"", e->v[ws_cuda_graph_trace_graph]);
	r = begin_work(c, e);
	arg_number(c, "graph id", e->v[ws_cuda_graph_trace_graph]);
	end_work(c, e, r);
}

static void put_wait(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row r = stream_row(c, v[ws_cuda_sync_process], v[ws_cuda_sync_device],
				  v[ws_cuda_sync_stream]);

	open_event(c, "X", "cuda_sync");
	ws_text_printf(&c->t, "\"%s\"", ws_sync_name(v[ws_cuda_sync_type]));
	put_place(c, r.pid, r.tid, e->start);
	put_span(c, e);
	put_comma(c);
	ws_text_printf(&c->t, "\"cuda_sync_kind\":\"%s\"", ws_sync_name(v[ws_cuda_sync_type]));
	arg_u32(c, "stream", v[ws_cuda_sync_stream]);
	arg_u32(c, "correlation", v[ws_cuda_sync_correlation]);
	arg_number(c, "device", v[ws_cuda_sync_device]);
	arg_number(c, "context", v[ws_cuda_sync_context]);
	arg_u32(c, "wait_on_cuda_event_id", v[ws_cuda_sync_event]);
	arg_process(c, v[ws_cuda_sync_process]);
	close_event(c);
}

/* Text that is JSON already; what is none stands as a text. */
static void arg_json(struct chrome *c, const char *name, uint64_t id)
{
	size_t n;
	const char *s = ws_report_string(c->x->r, (uint32_t)id, &n);

	if (!id)
		return;
	put_comma(c);
	ws_text_printf(&c->t, "\"%s\":", name);
	if (ws_json_valid(s, n))
		ws_text_add(&c->t, s, n);
	else
		ws_text_json(&c->t, s, n);
}

/* Arguments kept as a JSON object: its members join the others. */
static void arg_members(struct chrome *c, uint64_t id)
{
	size_t n, from = 1;
	const char *s = ws_report_string(c->x->r, (uint32_t)id, &n);

	if (!id)
		return;
	if (n < 2 || *s != '{' || s[n - 1] != '}' || !ws_json_valid(s, n)) {
		arg_text(c, "args", id);
		return;
	}
	while (from < n - 1 && strchr(" \t\r\n", s[from]))
		from++;
	if (from == n - 1)
		return;
	put_comma(c);
	ws_text_add(&c->t, s + from, n - 1 - from);
}

static void arg_nvtx(struct chrome *c, const uint64_t *v)
{
	uint64_t process = ws_who_thread(c->x->who, (uint32_t)v[ws_nvtx_thread])->process;

	if (v[ws_nvtx_domain]) {
		arg_number(c, "domain", v[ws_nvtx_domain]);
		arg_text(c, "domain name",
			 ws_map_get(&c->domains, process << 32 | v[ws_nvtx_domain], NULL));
	}
	if (v[ws_nvtx_category])
		arg_number(c, "category", v[ws_nvtx_category]);
}

/* A pair of asynchronous events, which may cross others. `nvtx` is the row of a range, whose facts
 * go along, or NULL. */
static void put_async(struct chrome *c, const struct ws_event *e, const char *cat, uint64_t name,
		      uint64_t args, struct row r, const uint64_t *nvtx)
{
	uint64_t id = ++c->async, end = e->end != WS_NO_TIME ? e->end : c->x->last;

	for (int half = 0; half < 2; half++) {
		open_event(c, half ? "e" : "b", cat);
		put_string(c, &c->t, name);
		ws_text_printf(&c->t, ",\"id\":%" PRIu64, id);
		put_place(c, r.pid, r.tid, half ? (end > e->start ? end : e->start) : e->start);
		ws_text_puts(&c->t, ",\"args\":{");
		if (!half) {
			if (e->end == WS_NO_TIME)
				ws_text_puts(&c->t, "\"never ended\":true");
			arg_members(c, args);
			if (nvtx)
				arg_nvtx(c, nvtx);
		}
		close_event(c);
	}
}

static void put_moment(struct chrome *c, const char *cat, uint64_t name, struct row r, uint64_t at)
{
	open_event(c, "i", cat);
	put_string(c, &c->t, name);
	put_place(c, r.pid, r.tid, at);
	ws_text_puts(&c->t, ",\"s\":\"t\",\"args\":{");
}

static void put_nvtx(struct chrome *c, const struct ws_event *e)
{
	struct row r;

	switch (e->v[ws_nvtx_type]) {
	case WS_NVTX_PUSHPOP:
		r = thread_row(c, e->v[ws_nvtx_thread]);
		open_event(c, "X", "nvtx");
		put_string(c, &c->t, e->v[ws_nvtx_text]);
		put_place(c, r.pid, r.tid, e->start);
		put_span(c, e);
		break;
	case WS_NVTX_STARTEND:
		put_async(c, e, "nvtx", e->v[ws_nvtx_text], 0, thread_row(c, e->v[ws_nvtx_thread]),
			  e->v);
		return;
	case WS_NVTX_MARK:
		put_moment(c, "nvtx", e->v[ws_nvtx_text], thread_row(c, e->v[ws_nvtx_thread]),
			   e->start);
		break;
	default:
		return;
	}
	arg_nvtx(c, e->v);
	close_event(c);
}

/* A span of a thread with a name and no arguments that matter. */
static void put_plain(struct chrome *c, const struct ws_event *e, const char *cat, uint64_t thread,
		      uint64_t name)
{
	struct row r = thread_row(c, thread);

	open_event(c, "X", cat);
	put_string(c, &c->t, name);
	put_place(c, r.pid, r.tid, e->start);
	put_span(c, e);
}

static void put_osrt(struct chrome *c, const struct ws_event *e)
{
	put_plain(c, e, "osrt", e->v[ws_osrt_thread], e->v[ws_osrt_name]);
	arg_text(c, "path", e->v[ws_osrt_path]);
	close_event(c);
}

/* One flow from a forward operator to its first backward one. */
static void put_backward(struct chrome *c, uint64_t key, const struct ws_event *e)
{
	uint64_t at = ws_map_get(&c->forwards, key, NULL), id;
	struct row from, to;

	if (!at || !c->forward[at - 1].thread)
		return;
	from = thread_row(c, c->forward[at - 1].thread);
	to = thread_row(c, e->v[ws_op_thread]);
	id = ++c->async;
	open_event(c, "s", "fwdbwd");
	ws_text_printf(&c->t, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(c, from.pid, from.tid, c->forward[at - 1].start);
	ws_text_puts(&c->t, "}");
	open_event(c, "f", "fwdbwd");
	ws_text_printf(&c->t, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(c, to.pid, to.tid, e->start);
	ws_text_puts(&c->t, ",\"bp\":\"e\"}");
	c->forward[at - 1].thread = 0;
}

/*
 * Autograd gives a forward operator and its backward one the same sequence number; the backward one
 * says which thread the other ran on, numbered from 1. Of forward operators inside one another the
 * innermost counts, and of backward ones that inside of the engine's own, as in the profiler's
 * traces.
 */
static void link_op(struct chrome *c, const struct ws_event *e)
{
	static const char engine[] = "autograd::engine::evaluate_function: ";
	enum { MOST = 1 << 20 }; /* forward operators that wait for their backward ones */
	uint64_t sequence = e->v[ws_op_sequence], at, key;

	if (c->linked || e->v[ws_op_kind] != WS_OP_CPU || sequence == WS_NO_U64)
		return;
	key = (uint64_t)ws_who_thread(c->x->who, (uint32_t)e->v[ws_op_thread])->process << 48 ^
	      sequence;
	if (e->v[ws_op_forward_thread] != WS_NO_U64 && e->v[ws_op_forward_thread]) {
		if (strncmp(ws_report_string(c->x->r, (uint32_t)e->v[ws_op_name], NULL), engine,
			    sizeof(engine) - 1))
			put_backward(c, key, e);
		return;
	}
	at = ws_map_get(&c->forwards, key, NULL);
	if (!at && c->forward_count == MOST) { /* inference: nobody waits for them */
		ws_map_free(&c->forwards);
		c->forwards = (struct ws_map){0};
		c->forward_count = 0;
	}
	if (!at) {
		ws_grow(c->forward, c->forward_cap, c->forward_count + 1);
		at = ++c->forward_count;
		ws_map_set(&c->forwards, key, at);
	}
	c->forward[at - 1] = (struct forward){e->start, (uint32_t)e->v[ws_op_thread]};
}

static void put_op(struct chrome *c, const struct ws_event *e)
{
	static const char *const cats[] = {"cpu_op", "cpu_op", "user_annotation", "python_function",
					   "cpu_op"};
	const uint64_t *v = e->v;

	put_plain(c, e, cats[v[ws_op_kind] < WS_COUNT(cats) ? v[ws_op_kind] : 0], v[ws_op_thread],
		  v[ws_op_name]);
	arg_u64(c, "External id", v[ws_op_external]);
	arg_u64(c, "Record function id", v[ws_op_record_function]);
	arg_u64(c, "Sequence number", v[ws_op_sequence]);
	arg_u64(c, "Fwd thread id", v[ws_op_forward_thread]);
	arg_u64(c, "Python id", v[ws_op_python_id]);
	arg_u64(c, "Python parent id", v[ws_op_python_parent]);
	arg_u64(c, "Python module id", v[ws_op_module_id]);
	arg_json(c, "Input Dims", v[ws_op_shapes]);
	arg_json(c, "Input Strides", v[ws_op_strides]);
	arg_json(c, "Input type", v[ws_op_types]);
	arg_json(c, "Concrete Inputs", v[ws_op_concrete]);
	arg_text(c, "Call stack", v[ws_op_stack]);
	arg_text(c, "Module Hierarchy", v[ws_op_modules]);
	if (v[ws_op_flops])
		arg_number(c, "flops", v[ws_op_flops]);
	arg_members(c, v[ws_op_args]);
	close_event(c);
	link_op(c, e);
}

static void put_op_memory(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row r = thread_row(c, v[ws_op_memory_thread]);

	open_event(c, "i", "cpu_instant_event");
	ws_text_puts(&c->t, "\"[memory]\"");
	put_place(c, r.pid, r.tid, e->start);
	ws_text_printf(&c->t,
		       ",\"s\":\"t\",\"args\":{\"Total Reserved\":%" PRIu64
		       ",\"Total Allocated\":%" PRIu64 ",\"Bytes\":%" PRId64,
		       v[ws_op_memory_reserved], v[ws_op_memory_allocated],
		       (int64_t)v[ws_op_memory_bytes]);
	ws_text_printf(&c->t, ",\"Addr\":%" PRIu64 ",\"Device Id\":%d,\"Device Type\":%" PRIu64,
		       v[ws_op_memory_address], (int)v[ws_op_memory_device],
		       v[ws_op_memory_device_type]);
	close_event(c);
}

static void put_slice(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row r = track_row(c, v[ws_slice_thread], v[ws_slice_track]);
	struct ws_text cat = {0};
	size_t n;
	const char *s = ws_report_string(c->x->r, (uint32_t)v[ws_slice_category], &n);

	ws_text_json(&cat, n ? s : "slice", n ? n : 5);
	cat.s[cat.len - 1] = 0; /* without its quotes: open_event has them */
	if (v[ws_slice_flags] & WS_SLICE_ASYNC) {
		put_async(c, e, cat.s + 1, v[ws_slice_name], v[ws_slice_args], r, NULL);
	} else if (v[ws_slice_flags] & WS_SLICE_INSTANT) {
		put_moment(c, cat.s + 1, v[ws_slice_name], r, e->start);
		arg_members(c, v[ws_slice_args]);
		close_event(c);
	} else {
		open_event(c, "X", cat.s + 1);
		put_string(c, &c->t, v[ws_slice_name]);
		put_place(c, r.pid, r.tid, e->start);
		put_span(c, e);
		arg_members(c, v[ws_slice_args]);
		close_event(c);
	}
	ws_text_free(&cat);
}

static void put_arrow(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	uint64_t id = ++c->async;
	struct ws_text cat = {0};
	size_t n;
	const char *s = ws_report_string(c->x->r, (uint32_t)v[ws_flow_category], &n);

	if (e->end == WS_NO_TIME)
		return;
	ws_text_json(&cat, n ? s : "flow", n ? n : 4);
	cat.s[cat.len - 1] = 0;
	for (int half = 0; half < 2; half++) {
		struct row r = half ? track_row(c, v[ws_flow_to_thread], v[ws_flow_to_track])
				    : track_row(c, v[ws_flow_from_thread], v[ws_flow_from_track]);

		open_event(c, half ? "f" : "s", cat.s + 1);
		put_string(c, &c->t, v[ws_flow_name]);
		ws_text_printf(&c->t, ",\"id\":%" PRIu64, id);
		put_place(c, r.pid, r.tid, half ? e->end : e->start);
		ws_text_puts(&c->t, half ? ",\"bp\":\"e\"}" : "}");
	}
	ws_text_free(&cat);
}

static void put_sample(struct chrome *c, const struct ws_event *e)
{
	static const char cat[] = "disabled-by-default-v8.cpu_profiler";
	uint64_t thread = e->v[ws_sample_thread];
	struct row r = thread_row(c, thread);

	if (ws_chrome_samples_new(c->samples, thread)) {
		open_event(c, "P", cat);
		ws_text_puts(&c->t, "\"Profile\"");
		put_place(c, r.pid, r.tid, e->start);
		ws_text_puts(&c->t, ",");
		ws_chrome_samples_begin(c->samples, &c->t, thread, when(c, e->start));
	}
	open_event(c, "P", cat);
	ws_text_puts(&c->t, "\"ProfileChunk\"");
	put_place(c, r.pid, r.tid, e->start);
	ws_text_puts(&c->t, ",");
	ws_chrome_samples_put(c->samples, &c->t, e->v, when(c, e->start));
}

static void put_counter(struct chrome *c, const struct ws_event *e)
{
	uint64_t id = e->v[ws_counter_value_counter], group = ws_map_get(&c->groups, id, NULL);
	uint64_t process = ws_map_get(&c->counter_process, id, NULL);
	double value = real(e->v[ws_counter_value_value]);
	struct ws_text name = {0};

	if (group) {
		const char *s = ws_report_string(c->x->r, (uint32_t)group, NULL);

		ws_text_printf(&name, "%s: ", s);
	}
	ws_text_puts(&name,
		     ws_report_string(c->x->r, (uint32_t)ws_map_get(&c->counters, id, NULL), NULL));
	open_event(c, "C", "counter");
	ws_text_json(&c->t, name.s, name.len);
	put_place(c, process_number(c, ws_who_process(c->x->who, (uint32_t)process)), 0, e->start);
	ws_text_printf(&c->t, ",\"args\":{\"value\":%.17g", value - value == 0 ? value : 0.0);
	close_event(c);
	ws_text_free(&name);
}

static void put_gpu_memory(struct chrome *c, const struct ws_event *e)
{
	const uint64_t *v = e->v;

	open_event(c, "C", "gpu_memory");
	ws_text_printf(&c->t, "\"GPU memory (%s)\"", ws_memory_name(v[ws_cuda_memory_kind]));
	put_place(c, gpu_pid(c, v[ws_cuda_memory_process], v[ws_cuda_memory_device]), 0, e->start);
	ws_text_printf(&c->t, ",\"args\":{\"bytes\":%" PRIu64, v[ws_cuda_memory_in_use]);
	close_event(c);
}

static void put_event(struct chrome *c, const struct ws_event *e)
{
	switch (e->table) {
	case WS_TABLE_op:
		put_op(c, e);
		break;
	case WS_TABLE_op_memory:
		put_op_memory(c, e);
		break;
	case WS_TABLE_nvtx:
		put_nvtx(c, e);
		break;
	case WS_TABLE_osrt:
		put_osrt(c, e);
		break;
	case WS_TABLE_slice:
		put_slice(c, e);
		break;
	case WS_TABLE_flow:
		put_arrow(c, e);
		break;
	case WS_TABLE_cuda_api:
		put_call(c, e);
		break;
	case WS_TABLE_cuda_overhead:
		put_plain(c, e, "overhead", e->v[ws_cuda_overhead_thread],
			  e->v[ws_cuda_overhead_name]);
		close_event(c);
		break;
	case WS_TABLE_cuda_kernel:
		put_kernel(c, e);
		break;
	case WS_TABLE_cuda_memcpy:
		put_copy(c, e);
		break;
	case WS_TABLE_cuda_memset:
		put_set(c, e);
		break;
	case WS_TABLE_cuda_graph_trace:
		put_graph(c, e);
		break;
	case WS_TABLE_cuda_sync:
		put_wait(c, e);
		break;
	case WS_TABLE_cuda_memory:
		put_gpu_memory(c, e);
		break;
	case WS_TABLE_counter_value:
		put_counter(c, e);
		break;
	case WS_TABLE_sample:
		put_sample(c, e);
		break;
	default:
		return; /* chrome's readers have no place for it */
	}
	c->x->rows++;
}

/* ---- who is who ---- */

static void put_label(struct chrome *c, const char *what, int64_t pid, int64_t tid)
{
	ws_text_puts(&c->t, c->first ? "\n" : ",\n");
	c->first = false;
	ws_text_printf(&c->t,
		       "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%" PRId64
		       ",\"ts\":0,\"args\":{",
		       what, pid, tid);
}

static void put_name(struct chrome *c, const char *what, int64_t pid, int64_t tid, const char *name)
{
	put_label(c, what, pid, tid);
	ws_text_puts(&c->t, "\"name\":");
	ws_text_json(&c->t, name, strlen(name));
	close_event(c);
}

static void put_process(struct chrome *c, int64_t pid, const char *name, const char *label,
			int64_t order)
{
	put_name(c, "process_name", pid, 0, name);
	put_label(c, "process_labels", pid, 0);
	ws_text_puts(&c->t, "\"labels\":");
	ws_text_json(&c->t, label, strlen(label));
	close_event(c);
	put_label(c, "process_sort_index", pid, 0);
	ws_text_printf(&c->t, "\"sort_index\":%" PRId64, order);
	close_event(c);
}

static void put_who(struct chrome *c)
{
	const struct ws_who *who = c->x->who;
	struct ws_map named = {0};
	char *name;

	for (uint32_t i = ws_who_processes(who); i > 0;
	     i--) { /* the last image of a pid names it */
		const struct ws_process_info *p = ws_who_process(who, i);

		if (ws_map_get(&named, p->global_pid, NULL))
			continue;
		ws_map_set(&named, p->global_pid, 1);
		put_process(c, process_number(c, p), p->name, "CPU", process_number(c, p));
	}
	ws_map_free(&named);
	for (uint32_t i = 1; i <= ws_who_threads(who); i++) {
		const struct ws_thread_info *t = ws_who_thread(who, i);

		if (!c->threads[i])
			continue;
		name = ws_format("thread %u (", t->tid);
		if (strncmp(t->name, name,
			    strlen(name))) { /* a name from such a trace has it already */
			free(name);
			name = ws_format("thread %u (%s)", t->tid,
					 *t->name ? t->name : t->process_name);
		} else {
			free(name);
			name = ws_strdup(t->name);
		}
		put_name(c, "thread_name", process_number(c, ws_who_process(who, t->process)),
			 (int64_t)t->tid, name);
		free(name);
	}
}

static void put_gpus(struct chrome *c)
{
	char label[64];

	for (size_t i = 0; i < c->gpu_count; i++) {
		snprintf(label, sizeof(label), "GPU %" PRIu64, c->gpus[i].device);
		put_process(c, c->gpus[i].pid,
			    ws_who_process(c->x->who, (uint32_t)c->gpus[i].process)->name, label,
			    5000000 + (int64_t)c->gpus[i].pid);
	}
	for (size_t i = 0; i < c->rows.size; i++) {
		int64_t pid = (int64_t)(c->rows.slots[i].key >> 32),
			tid = (int32_t)c->rows.slots[i].key;

		if (!c->rows.used[i])
			continue;
		snprintf(label, sizeof(label), tid < 0 ? "synchronization" : "stream %" PRId64,
			 tid);
		put_name(c, "thread_name", pid, tid, label);
	}
}

static void put_tracks(struct chrome *c)
{
	for (size_t i = 0; i < c->track_name.size; i++) {
		if (!c->track_name.used[i] ||
		    ws_map_get(&c->track_row, c->track_name.slots[i].key, NULL))
			continue;
		struct row r = track_row(c, 0, c->track_name.slots[i].key);

		put_label(c, "thread_name", r.pid, r.tid);
		ws_text_puts(&c->t, "\"name\":");
		put_string(c, &c->t, c->track_name.slots[i].value);
		close_event(c);
	}
}

/* ---- the head ---- */

static void put_devices(struct chrome *c)
{
	struct ws_cursor *k = ws_cursor_open(c->x->r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_map seen = {0};
	const uint64_t *v;
	bool first = true;

	while (ws_cursor_next(k, &v)) {
		if (ws_map_get(&seen, v[ws_cuda_device_id], NULL))
			continue;
		ws_map_set(&seen, v[ws_cuda_device_id], 1);
		ws_text_printf(&c->t, "%s\n{\"id\":%" PRIu64 ",\"name\":", first ? "" : ",",
			       v[ws_cuda_device_id]);
		first = false;
		put_string(c, &c->t, v[ws_cuda_device_name]);
		ws_text_printf(&c->t,
			       ",\"totalGlobalMem\":%" PRIu64 ",\"computeMajor\":%" PRIu64
			       ",\"computeMinor\":%" PRIu64,
			       v[ws_cuda_device_memory_bytes], v[ws_cuda_device_major],
			       v[ws_cuda_device_minor]);
		ws_text_printf(&c->t,
			       ",\"maxThreadsPerBlock\":%" PRIu64
			       ",\"maxThreadsPerMultiprocessor\":%" PRIu64,
			       v[ws_cuda_device_threads_block],
			       v[ws_cuda_device_warps_sm] * v[ws_cuda_device_warp]);
		ws_text_printf(&c->t,
			       ",\"regsPerBlock\":%" PRIu64 ",\"warpSize\":%" PRIu64
			       ",\"sharedMemPerBlock\":%" PRIu64,
			       v[ws_cuda_device_regs_block], v[ws_cuda_device_warp],
			       v[ws_cuda_device_shared_block]);
		ws_text_printf(&c->t, ",\"numSms\":%" PRIu64 ",\"regsPerMultiprocessor\":%" PRIu64,
			       v[ws_cuda_device_sms], v[ws_cuda_device_regs_sm]);
		ws_text_printf(&c->t,
			       ",\"sharedMemPerBlockOptin\":%" PRIu64
			       ",\"sharedMemPerMultiprocessor\":%" PRIu64 "}",
			       v[ws_cuda_device_shared_block_optin], v[ws_cuda_device_shared_sm]);
	}
	ws_cursor_close(k);
	ws_map_free(&seen);
}

static void put_rank(struct chrome *c)
{
	struct ws_cursor *k = ws_cursor_open(c->x->r, WS_TABLE_rank, 0, UINT64_MAX);
	uint64_t rank = 0, world = 0;
	const uint64_t *v;
	size_t n = 0;

	for (; ws_cursor_next(k, &v); n++) {
		rank = v[ws_rank_rank];
		world = v[ws_rank_world];
	}
	ws_cursor_close(k);
	if (n == 1)
		ws_text_printf(&c->t,
			       "\"distributedInfo\":{\"rank\":%" PRIu64 ",\"world_size\":%" PRIu64
			       "},\n",
			       rank, world);
}

static void put_head(struct chrome *c)
{
	ws_text_puts(&c->t, "{\n\"schemaVersion\":1,\n\"deviceProperties\":[");
	put_devices(c);
	ws_text_puts(&c->t, "],\n");
	put_rank(c);
	ws_text_printf(&c->t,
		       "\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":%" PRIu64
		       ",\n\"traceEvents\":[",
		       c->x->normalized ? 0 : ws_export_epoch(c->x));
}

static void load_counters(struct chrome *c)
{
	struct ws_cursor *k = ws_cursor_open(c->x->r, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(k, &v)) {
		ws_map_set(&c->counters, v[ws_counter_id], v[ws_counter_name]);
		ws_map_set(&c->groups, v[ws_counter_id], v[ws_counter_group]);
		ws_map_set(&c->counter_process, v[ws_counter_id], v[ws_counter_process]);
	}
	ws_cursor_close(k);
}

/* Annotations as a GPU saw them go to the row of their stream, where the profiler has them. */
static void load_tracks(struct chrome *c)
{
	struct ws_cursor *k = ws_cursor_open(c->x->r, WS_TABLE_track, 0, UINT64_MAX);
	unsigned device, stream;
	const uint64_t *v;
	int n;

	while (ws_cursor_next(k, &v)) {
		const char *name = ws_report_string(c->x->r, (uint32_t)v[ws_track_name], NULL);

		ws_map_set(&c->track_name, v[ws_track_id], v[ws_track_name]);
		ws_map_set(&c->track_process, v[ws_track_id], v[ws_track_process]);
		n = 0;
		if (sscanf(name, "GPU %u stream %u annotations%n", &device, &stream, &n) == 2 &&
		    n && !name[n])
			ws_map_set(&c->track_row, v[ws_track_id],
				   ((uint64_t)device << 32 | stream) + 1);
	}
	ws_cursor_close(k);
}

static void load_collectives(struct chrome *c)
{
	struct ws_cursor *k = ws_cursor_open(c->x->r, WS_TABLE_collective, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(k, &v)) {
		if (v[ws_collective_correlation] == WS_NO_U32)
			continue;
		ws_grow(c->collective, c->collective_cap, c->collective_count + 1);
		c->collective[c->collective_count++] = (struct ws_row_collective){
			.name = (uint32_t)v[ws_collective_name],
			.in_elements = v[ws_collective_in_elements],
			.out_elements = v[ws_collective_out_elements],
			.dtype = (uint32_t)v[ws_collective_dtype],
			.group_size = (uint32_t)v[ws_collective_group_size],
			.group = (uint32_t)v[ws_collective_group],
			.description = (uint32_t)v[ws_collective_description],
			.ranks = (uint32_t)v[ws_collective_ranks],
			.source = (int32_t)v[ws_collective_source],
			.destination = (int32_t)v[ws_collective_destination],
			.sequence = v[ws_collective_sequence],
		};
		ws_map_set(&c->collectives,
			   v[ws_collective_process] << 32 | v[ws_collective_correlation],
			   c->collective_count);
	}
	ws_cursor_close(k);
}

static int add_domains(void *ctx, const struct ws_batch *b)
{
	struct chrome *c = ctx;

	for (size_t i = 0; i < b->rows; i++)
		if (b->col[ws_nvtx_type][i] == WS_NVTX_DOMAIN_CREATE) {
			uint64_t process =
				ws_who_thread(c->x->who, (uint32_t)b->col[ws_nvtx_thread][i])
					->process;

			ws_map_set(&c->domains, process << 32 | b->col[ws_nvtx_domain][i],
				   b->col[ws_nvtx_text][i]);
		}
	return 0;
}

static int find_links(void *ctx, const struct ws_batch *b)
{
	struct chrome *c = ctx;
	size_t n;

	for (size_t i = 0; i < b->rows && !c->linked; i++) {
		const char *s =
			ws_report_string(c->x->r, (uint32_t)b->col[ws_flow_category][i], &n);

		c->linked = n == 6 && !memcmp(s, "fwdbwd", 6);
	}
	return c->linked;
}

/* Images of one process have its pid. Processes of several files, of ranks in containers, may share
 * one by chance. */
static void number_processes(struct chrome *c)
{
	struct ws_map owner = {0}; /* pid -> its first globalPid, + 1 */

	for (uint32_t i = 1; i <= ws_who_processes(c->x->who); i++) {
		const struct ws_process_info *p = ws_who_process(c->x->who, i);
		uint64_t first = ws_map_get(&owner, p->pid, NULL);

		ws_map_set(&c->taken, p->pid, 1);
		if (!first)
			ws_map_set(&owner, p->pid, p->global_pid + 1);
		else if (first != p->global_pid + 1)
			ws_map_set(&c->others, p->global_pid, FIRST_OTHER_PROCESS + i);
	}
	c->several = owner.n + c->others.n > 1;
	ws_map_free(&owner);
}

/* What is needed to know before the first event. */
static void load(struct chrome *c)
{
	struct ws_scan domains = {.table = WS_TABLE_nvtx, .time_max = UINT64_MAX, .workers = 1};
	struct ws_scan flows = {.table = WS_TABLE_flow,
				.columns = WS_COL(flow, category),
				.time_max = UINT64_MAX,
				.workers = 1};

	c->threads = ws_calloc((size_t)ws_who_threads(c->x->who) + 1, 1);
	number_processes(c);
	domains.columns = WS_COL(nvtx, type) | WS_COL(nvtx, thread) | WS_COL(nvtx, domain) |
			  WS_COL(nvtx, text);
	ws_scan_run(c->x->r, &domains, add_domains, c, NULL);
	ws_scan_run(c->x->r, &flows, find_links, c, NULL);
	ws_links_load(&c->links, c->x);
	load_counters(c);
	load_tracks(c);
	load_collectives(c);
	c->samples = ws_chrome_samples_open(c->x);
}

static int put_events(struct chrome *c, struct ws_err *e)
{
	struct ws_timeline *t = ws_timeline_open(c->x);
	struct ws_event event;
	int rc = 0;

	while (!rc && ws_timeline_next(t, &event)) {
		put_event(c, &event);
		ws_progress_step(c->x->progress, 1);
		rc = flush(c, 1 << 16, e);
	}
	ws_timeline_close(t);
	return !rc && ws_outfile_interrupted() ? ws_fail(e, "interrupted") : rc;
}

static int flush_some(void *ctx)
{
	return flush(ctx, 1 << 16, NULL);
}

static int put_end(struct chrome *c, struct ws_err *e)
{
	put_who(c);
	put_gpus(c);
	put_tracks(c);
	ws_text_puts(&c->t, "\n],\n\"stackFrames\":{");
	if (ws_chrome_samples_frames(c->samples, &c->t, flush_some, c))
		return ws_fail_errno(e, "cannot write %s", ws_x_output(c->x));
	ws_text_puts(&c->t, "},\n\"traceName\":");
	ws_text_json(&c->t, c->x->output, strlen(c->x->output));
	ws_text_puts(&c->t, "\n}\n");
	return flush(c, 0, e);
}

static void unload(struct chrome *c)
{
	ws_chrome_samples_close(c->samples);
	ws_links_free(&c->links);
	ws_map_free(&c->rows);
	ws_map_free(&c->gpu_at);
	ws_map_free(&c->taken);
	ws_map_free(&c->others);
	ws_map_free(&c->counters);
	ws_map_free(&c->groups);
	ws_map_free(&c->counter_process);
	ws_map_free(&c->track_name);
	ws_map_free(&c->track_process);
	ws_map_free(&c->track_row);
	ws_map_free(&c->domains);
	ws_map_free(&c->collectives);
	ws_map_free(&c->forwards);
	ws_text_free(&c->t);
	free(c->forward);
	free(c->collective);
	free(c->threads);
	free(c->gpus);
}

int ws_xformat_write_chrome(struct ws_export *x, FILE *f, struct ws_err *e)
{
	struct chrome c = {.x = x, .f = f, .first = true};
	int rc;

	load(&c);
	put_head(&c);
	rc = put_events(&c, e);
	if (!rc)
		rc = put_end(&c, e);
	unload(&c);
	return rc;
}
