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
#include "base/choose.h"
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
	struct ws_export *export;
	FILE *file;
	struct ws_text text; /* events not written yet */
	bool first;	     /* nothing is written yet */
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

static void put_us(struct ws_text *text, int64_t ns)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	ws_text_printf(text, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", v / 1000,
		       (unsigned)(v % 1000));
}

static void put_string(struct chrome *chrome, struct ws_text *text, uint64_t id)
{
	size_t n;
	const char *word = ws_report_string(chrome->export->report, (uint32_t)id, &n);

	ws_text_json(text, word, n);
}

static int64_t when(const struct chrome *chrome, uint64_t t)
{
	return (int64_t)(t - chrome->export->base);
}

/* {"ph":"X","cat":"kernel","name": - what follows is the name. */
static void open_event(struct chrome *chrome, const char *ph, const char *cat)
{
	ws_text_puts(&chrome->text, chrome->first ? "\n" : ",\n");
	chrome->first = false;
	ws_text_printf(&chrome->text, "{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":", ph, cat);
}

static void put_place(struct chrome *chrome, int64_t pid, int64_t tid, uint64_t at)
{
	ws_text_printf(&chrome->text, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", pid, tid);
	put_us(&chrome->text, when(chrome, at));
}

/* Length, and the arguments opened; what never ended lasts to the end of the recording and says so.
 */
static void put_span(struct chrome *chrome, const struct ws_event *event)
{
	uint64_t end = event->end != WS_NO_TIME ? event->end : chrome->export->last;

	ws_text_puts(&chrome->text, ",\"dur\":");
	put_us(&chrome->text, end > event->start ? (int64_t)(end - event->start) : 0);
	ws_text_puts(&chrome->text,
		     event->end == WS_NO_TIME ? ",\"args\":{\"never ended\":true" : ",\"args\":{");
}

static void put_comma(struct chrome *chrome)
{
	if (chrome->text.text[chrome->text.len - 1] != '{')
		ws_text_add(&chrome->text, ",", 1);
}

static void arg_number(struct chrome *chrome, const char *name, uint64_t v)
{
	put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":%" PRIu64, name, v);
}

static void arg_u32(struct chrome *chrome, const char *name, uint64_t v)
{
	if (v != WS_NO_U32)
		arg_number(chrome, name, v);
}

static void arg_u64(struct chrome *chrome, const char *name, uint64_t v)
{
	if (v != WS_NO_U64)
		arg_number(chrome, name, v);
}

static void arg_real(struct chrome *chrome, const char *name, double v)
{
	put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":%.6g", name,
		       v - v == 0 ? v : 0.0); /* JSON has no infinities */
}

static void arg_text(struct chrome *chrome, const char *name, uint64_t id)
{
	if (!id)
		return;
	put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":", name);
	put_string(chrome, &chrome->text, id);
}

static void close_event(struct chrome *chrome)
{
	ws_text_puts(&chrome->text, "}}");
}

static int flush(struct chrome *chrome, size_t above, struct ws_err *err)
{
	if (chrome->text.len <= above)
		return 0;
	if (fwrite(chrome->text.text, 1, chrome->text.len, chrome->file) != chrome->text.len)
		return ws_fail_errno(err, "cannot write %s", ws_x_output(chrome->export));
	chrome->text.len = 0;
	return 0;
}

/* ---- whose row ---- */

struct row {
	int64_t pid, tid;
};

static int64_t process_number(const struct chrome *chrome, const struct ws_process_info *info)
{
	uint64_t other = ws_map_get(&chrome->others, info->global_pid, NULL);

	return other ? (int64_t)other : (int64_t)info->pid;
}

static struct row thread_row(struct chrome *chrome, uint64_t thread)
{
	const struct ws_thread_info *info = ws_who_thread(chrome->export->who, (uint32_t)thread);

	if (thread && thread <= ws_who_threads(chrome->export->who))
		chrome->threads[thread] = 1;
	return (struct row){process_number(chrome,
					   ws_who_process(chrome->export->who, info->process)),
			    info->tid};
}

static int64_t gpu_pid(struct chrome *chrome, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device,
		 at = ws_map_get(&chrome->gpu_at, key, NULL);
	int64_t pid = (int64_t)device;

	if (at)
		return chrome->gpus[at - 1].pid;
	if (device >= FIRST_OTHER_GPU || ws_map_get(&chrome->taken, device, NULL))
		pid = FIRST_OTHER_GPU + (int64_t)chrome->gpu_count;
	ws_map_set(&chrome->taken, (uint64_t)pid, 1);
	ws_grow(chrome->gpus, chrome->gpu_cap, chrome->gpu_count + 1);
	chrome->gpus[chrome->gpu_count++] = (struct gpu){process, device, pid};
	ws_map_set(&chrome->gpu_at, key, chrome->gpu_count);
	return pid;
}

static struct row stream_row(struct chrome *chrome, uint64_t process, uint64_t device,
			     uint64_t stream)
{
	struct row row = {gpu_pid(chrome, process, device),
			  stream == WS_NO_U32 ? -1 : (int64_t)stream};

	ws_map_set(&chrome->rows, (uint64_t)row.pid << 32 | (uint32_t)row.tid, 1);
	return row;
}

static struct row track_row(struct chrome *chrome, uint64_t thread, uint64_t track)
{
	uint64_t process, on_gpu;

	if (!track)
		return thread_row(chrome, thread);
	process = ws_map_get(&chrome->track_process, track, NULL);
	on_gpu = ws_map_get(&chrome->track_row, track, NULL);
	if (on_gpu)
		return stream_row(chrome, process, (on_gpu - 1) >> 32, (on_gpu - 1) & UINT32_MAX);
	return (struct row){process_number(chrome,
					   ws_who_process(chrome->export->who, (uint32_t)process)),
			    FIRST_TRACK + (int64_t)track};
}

/* ---- events ---- */

static void put_flow(struct chrome *chrome, const char *ph, uint64_t process, uint64_t correlation,
		     struct row row, uint64_t at)
{
	open_event(chrome, ph, "ac2g");
	ws_text_printf(&chrome->text, "\"ac2g\",\"id\":%" PRIu64,
		       process > 1 ? (process - 1) << 32 | correlation : correlation);
	put_place(chrome, row.pid, row.tid, at);
	ws_text_puts(&chrome->text, *ph == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void arg_external(struct chrome *chrome, uint64_t process, uint64_t correlation)
{
	uint64_t id = correlation == WS_NO_U32
			      ? 0
			      : ws_pages_get(&chrome->links.external, process, correlation);

	if (id)
		arg_number(chrome, "External id", id);
}

static void arg_process(struct chrome *chrome, uint64_t process)
{
	if (chrome->several)
		arg_number(chrome, "process id",
			   (uint64_t)process_number(chrome, ws_who_process(chrome->export->who,
									   (uint32_t)process)));
}

static void put_call(struct chrome *chrome, const struct ws_event *event)
{
	uint64_t process =
		ws_who_thread(chrome->export->who, (uint32_t)event->values[ws_cuda_api_thread])
			->process;
	uint64_t correlation = event->values[ws_cuda_api_correlation];
	struct row row = thread_row(chrome, event->values[ws_cuda_api_thread]);
	size_t n;
	const char *name = ws_cuda_function(chrome->export->report,
					    (uint32_t)event->values[ws_cuda_api_name], &n);

	open_event(chrome, "X",
		   event->values[ws_cuda_api_class] == WS_CUDA_RUNTIME ? "cuda_runtime"
								       : "cuda_driver");
	ws_text_json(&chrome->text, name, n);
	put_place(chrome, row.pid, row.tid, event->start);
	put_span(chrome, event);
	arg_external(chrome, process, correlation);
	arg_u32(chrome, "correlation", correlation);
	if (event->values[ws_cuda_api_result])
		arg_number(chrome, "return value", event->values[ws_cuda_api_result]);
	close_event(chrome);
	if (ws_links_from(&chrome->links, process, event->values[ws_cuda_api_class], correlation))
		put_flow(chrome, "s", process, correlation, row, event->start);
}

/* The columns that all work on GPUs has are at the same places in kernels, copies and sets. */
#define SAME(table, column) ((int)ws_cuda_kernel_##column == (int)ws_##table##_##column)
#define ALL_SAME(table)                                                        \
	(SAME(table, device) && SAME(table, context) && SAME(table, stream) && \
	 SAME(table, correlation) && SAME(table, process))
_Static_assert(ALL_SAME(cuda_memcpy) && ALL_SAME(cuda_memset) && ALL_SAME(cuda_graph_trace),
	       "work on GPUs is read through the columns of kernels");

static struct row begin_work(struct chrome *chrome, const struct ws_event *event)
{
	struct row row = stream_row(chrome, event->values[ws_cuda_kernel_process],
				    event->values[ws_cuda_kernel_device],
				    event->values[ws_cuda_kernel_stream]);

	put_place(chrome, row.pid, row.tid, event->start);
	put_span(chrome, event);
	arg_external(chrome, event->values[ws_cuda_kernel_process],
		     event->values[ws_cuda_kernel_correlation]);
	arg_number(chrome, "device", event->values[ws_cuda_kernel_device]);
	arg_number(chrome, "context", event->values[ws_cuda_kernel_context]);
	arg_number(chrome, "stream", event->values[ws_cuda_kernel_stream]);
	arg_u32(chrome, "correlation", event->values[ws_cuda_kernel_correlation]);
	arg_process(chrome, event->values[ws_cuda_kernel_process]);
	return row;
}

static void end_work(struct chrome *chrome, const struct ws_event *event, struct row row)
{
	close_event(chrome);
	if (ws_links_to(&chrome->links, event->values[ws_cuda_kernel_process],
			event->values[ws_cuda_kernel_correlation]))
		put_flow(chrome, "f", event->values[ws_cuda_kernel_process],
			 event->values[ws_cuda_kernel_correlation], row, event->start);
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
static void arg_collective(struct chrome *chrome, uint64_t process, uint64_t correlation)
{
	uint64_t at = correlation == WS_NO_U32
			      ? 0
			      : ws_map_get(&chrome->collectives, process << 32 | correlation, NULL);
	const struct ws_row_collective *row;

	if (!at)
		return;
	row = &chrome->collective[at - 1];
	arg_text(chrome, "Collective name", row->name);
	arg_u64(chrome, "In msg nelems", row->in_elements);
	arg_u64(chrome, "Out msg nelems", row->out_elements);
	arg_text(chrome, "dtype", row->dtype);
	arg_u32(chrome, "Group size", row->group_size);
	arg_text(chrome, "Process Group Name", row->group);
	arg_text(chrome, "Process Group Description", row->description);
	arg_text(chrome, "Process Group Ranks", row->ranks);
	if (row->source >= 0)
		arg_number(chrome, "Src Rank", (uint64_t)row->source);
	if (row->destination >= 0)
		arg_number(chrome, "Dst Rank", (uint64_t)row->destination);
	arg_u64(chrome, "Seq", row->sequence);
}

static void put_kernel(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	struct row row;

	open_event(chrome, "X", "kernel");
	put_string(chrome, &chrome->text,
		   values[ws_cuda_kernel_demangled] ? values[ws_cuda_kernel_demangled]
						    : values[ws_cuda_kernel_name]);
	row = begin_work(chrome, event);
	arg_number(chrome, "registers per thread", values[ws_cuda_kernel_registers]);
	arg_number(chrome, "shared memory",
		   values[ws_cuda_kernel_static_shared] + values[ws_cuda_kernel_dynamic_shared]);
	if (real(values[ws_cuda_kernel_waves]) > 0)
		arg_real(chrome, "waves", real(values[ws_cuda_kernel_waves]));
	arg_number(chrome, "blocks per SM", values[ws_cuda_kernel_blocks_per_sm]);
	arg_number(chrome, "est. achieved occupancy %",
		   percent(values[ws_cuda_kernel_occupancy])
			   ? percent(values[ws_cuda_kernel_occupancy])
			   : percent(values[ws_cuda_kernel_estimated]));
	if (values[ws_cuda_kernel_priority]) {
		put_comma(chrome);
		ws_text_printf(&chrome->text, "\"priority\":%d",
			       (int)values[ws_cuda_kernel_priority]);
	}
	ws_text_printf(&chrome->text,
		       ",\"grid\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],\"block\":[%" PRIu64
		       ",%" PRIu64 ",%" PRIu64 "]",
		       values[ws_cuda_kernel_grid_x], values[ws_cuda_kernel_grid_y],
		       values[ws_cuda_kernel_grid_z], values[ws_cuda_kernel_block_x],
		       values[ws_cuda_kernel_block_y], values[ws_cuda_kernel_block_z]);
	arg_u32(chrome, "graph id", values[ws_cuda_kernel_graph]);
	arg_u64(chrome, "graph node id", values[ws_cuda_kernel_graph_node]);
	arg_collective(chrome, values[ws_cuda_kernel_process], values[ws_cuda_kernel_correlation]);
	end_work(chrome, event, row);
}

static void arg_rate(struct chrome *chrome, const struct ws_event *event, uint64_t bytes)
{
	arg_number(chrome, "bytes", bytes);
	if (event->end != WS_NO_TIME && event->end > event->start)
		arg_real(chrome, "memory bandwidth (GB/s)",
			 (double)bytes / (double)(event->end - event->start));
}

static void put_copy(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	struct row row;

	open_event(chrome, "X", "gpu_memcpy");
	ws_text_printf(&chrome->text, "\"%s (%s -> %s)\"",
		       ws_copy_name(values[ws_cuda_memcpy_kind]),
		       ws_memory_name(values[ws_cuda_memcpy_src_kind]),
		       ws_memory_name(values[ws_cuda_memcpy_dst_kind]));
	row = begin_work(chrome, event);
	arg_rate(chrome, event, values[ws_cuda_memcpy_bytes]);
	arg_u32(chrome, "from device", values[ws_cuda_memcpy_src_device]);
	arg_u32(chrome, "to device", values[ws_cuda_memcpy_dst_device]);
	arg_u32(chrome, "graph id", values[ws_cuda_memcpy_graph]);
	arg_u64(chrome, "graph node id", values[ws_cuda_memcpy_graph_node]);
	end_work(chrome, event, row);
}

static void put_set(struct chrome *chrome, const struct ws_event *event)
{
	struct row row;

	open_event(chrome, "X", "gpu_memset");
	ws_text_printf(&chrome->text, "\"Memset (%s)\"",
		       ws_memory_name(event->values[ws_cuda_memset_mem_kind]));
	row = begin_work(chrome, event);
	arg_rate(chrome, event, event->values[ws_cuda_memset_bytes]);
	arg_u32(chrome, "graph id", event->values[ws_cuda_memset_graph]);
	arg_u64(chrome, "graph node id", event->values[ws_cuda_memset_graph_node]);
	end_work(chrome, event, row);
}

static void put_graph(struct chrome *chrome, const struct ws_event *event)
{
	struct row row;

	open_event(chrome, "X", "kernel");
	ws_text_printf(&chrome->text, "\"CUDA graph %" PRIu64 "\"",
		       event->values[ws_cuda_graph_trace_graph]);
	row = begin_work(chrome, event);
	arg_number(chrome, "graph id", event->values[ws_cuda_graph_trace_graph]);
	end_work(chrome, event, row);
}

static void put_wait(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	struct row row = stream_row(chrome, values[ws_cuda_sync_process],
				    values[ws_cuda_sync_device], values[ws_cuda_sync_stream]);

	open_event(chrome, "X", "cuda_sync");
	ws_text_printf(&chrome->text, "\"%s\"", ws_sync_name(values[ws_cuda_sync_type]));
	put_place(chrome, row.pid, row.tid, event->start);
	put_span(chrome, event);
	put_comma(chrome);
	ws_text_printf(&chrome->text, "\"cuda_sync_kind\":\"%s\"",
		       ws_sync_name(values[ws_cuda_sync_type]));
	arg_u32(chrome, "stream", values[ws_cuda_sync_stream]);
	arg_u32(chrome, "correlation", values[ws_cuda_sync_correlation]);
	arg_number(chrome, "device", values[ws_cuda_sync_device]);
	arg_number(chrome, "context", values[ws_cuda_sync_context]);
	arg_u32(chrome, "wait_on_cuda_event_id", values[ws_cuda_sync_event]);
	arg_process(chrome, values[ws_cuda_sync_process]);
	close_event(chrome);
}

/* Text that is JSON already; what is none stands as a text. */
static void arg_json(struct chrome *chrome, const char *name, uint64_t id)
{
	size_t n;
	const char *text = ws_report_string(chrome->export->report, (uint32_t)id, &n);

	if (!id)
		return;
	put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":", name);
	if (ws_json_valid(text, n))
		ws_text_add(&chrome->text, text, n);
	else
		ws_text_json(&chrome->text, text, n);
}

/* Arguments kept as a JSON object: its members join the others. */
static void arg_members(struct chrome *chrome, uint64_t id)
{
	size_t n, from = 1;
	const char *text = ws_report_string(chrome->export->report, (uint32_t)id, &n);

	if (!id)
		return;
	if (n < 2 || *text != '{' || text[n - 1] != '}' || !ws_json_valid(text, n)) {
		arg_text(chrome, "args", id);
		return;
	}
	while (from < n - 1 && strchr(" \t\r\n", text[from]))
		from++;
	if (from == n - 1)
		return;
	put_comma(chrome);
	ws_text_add(&chrome->text, text + from, n - 1 - from);
}

static void arg_nvtx(struct chrome *chrome, const uint64_t *values)
{
	uint64_t process =
		ws_who_thread(chrome->export->who, (uint32_t)values[ws_nvtx_thread])->process;

	if (values[ws_nvtx_domain]) {
		arg_number(chrome, "domain", values[ws_nvtx_domain]);
		arg_text(chrome, "domain name",
			 ws_map_get(&chrome->domains, process << 32 | values[ws_nvtx_domain],
				    NULL));
	}
	if (values[ws_nvtx_category])
		arg_number(chrome, "category", values[ws_nvtx_category]);
}

/* A pair of asynchronous events, which may cross others. `nvtx` is the row of a range, whose facts
 * go along, or NULL. */
static void put_async(struct chrome *chrome, const struct ws_event *event, const char *cat,
		      uint64_t name, uint64_t args, struct row row, const uint64_t *nvtx)
{
	uint64_t id = ++chrome->async,
		 end = event->end != WS_NO_TIME ? event->end : chrome->export->last;

	for (int half = 0; half < 2; half++) {
		open_event(chrome, half ? "e" : "b", cat);
		put_string(chrome, &chrome->text, name);
		ws_text_printf(&chrome->text, ",\"id\":%" PRIu64, id);
		put_place(chrome, row.pid, row.tid,
			  half ? (ws_max(end, event->start)) : event->start);
		ws_text_puts(&chrome->text, ",\"args\":{");
		if (!half) {
			if (event->end == WS_NO_TIME)
				ws_text_puts(&chrome->text, "\"never ended\":true");
			arg_members(chrome, args);
			if (nvtx)
				arg_nvtx(chrome, nvtx);
		}
		close_event(chrome);
	}
}

static void put_moment(struct chrome *chrome, const char *cat, uint64_t name, struct row row,
		       uint64_t at)
{
	open_event(chrome, "i", cat);
	put_string(chrome, &chrome->text, name);
	put_place(chrome, row.pid, row.tid, at);
	ws_text_puts(&chrome->text, ",\"s\":\"t\",\"args\":{");
}

static void put_nvtx(struct chrome *chrome, const struct ws_event *event)
{
	struct row row;

	switch (event->values[ws_nvtx_type]) {
	case WS_NVTX_PUSHPOP:
		row = thread_row(chrome, event->values[ws_nvtx_thread]);
		open_event(chrome, "X", "nvtx");
		put_string(chrome, &chrome->text, event->values[ws_nvtx_text]);
		put_place(chrome, row.pid, row.tid, event->start);
		put_span(chrome, event);
		break;
	case WS_NVTX_STARTEND:
		put_async(chrome, event, "nvtx", event->values[ws_nvtx_text], 0,
			  thread_row(chrome, event->values[ws_nvtx_thread]), event->values);
		return;
	case WS_NVTX_MARK:
		put_moment(chrome, "nvtx", event->values[ws_nvtx_text],
			   thread_row(chrome, event->values[ws_nvtx_thread]), event->start);
		break;
	default:
		return;
	}
	arg_nvtx(chrome, event->values);
	close_event(chrome);
}

/* A span of a thread with a name and no arguments that matter. */
static void put_plain(struct chrome *chrome, const struct ws_event *event, const char *cat,
		      uint64_t thread, uint64_t name)
{
	struct row row = thread_row(chrome, thread);

	open_event(chrome, "X", cat);
	put_string(chrome, &chrome->text, name);
	put_place(chrome, row.pid, row.tid, event->start);
	put_span(chrome, event);
}

static void put_osrt(struct chrome *chrome, const struct ws_event *event)
{
	put_plain(chrome, event, "osrt", event->values[ws_osrt_thread],
		  event->values[ws_osrt_name]);
	arg_text(chrome, "path", event->values[ws_osrt_path]);
	close_event(chrome);
}

/* One flow from a forward operator to its first backward one. */
static void put_backward(struct chrome *chrome, uint64_t key, const struct ws_event *event)
{
	uint64_t at = ws_map_get(&chrome->forwards, key, NULL), id;
	struct row from, to;

	if (!at || !chrome->forward[at - 1].thread)
		return;
	from = thread_row(chrome, chrome->forward[at - 1].thread);
	to = thread_row(chrome, event->values[ws_op_thread]);
	id = ++chrome->async;
	open_event(chrome, "s", "fwdbwd");
	ws_text_printf(&chrome->text, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(chrome, from.pid, from.tid, chrome->forward[at - 1].start);
	ws_text_puts(&chrome->text, "}");
	open_event(chrome, "f", "fwdbwd");
	ws_text_printf(&chrome->text, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(chrome, to.pid, to.tid, event->start);
	ws_text_puts(&chrome->text, ",\"bp\":\"e\"}");
	chrome->forward[at - 1].thread = 0;
}

/*
 * Autograd gives a forward operator and its backward one the same sequence number; the backward one
 * says which thread the other ran on, numbered from 1. Of forward operators inside one another the
 * innermost counts, and of backward ones that inside of the engine's own, as in the profiler's
 * traces.
 */
static void link_op(struct chrome *chrome, const struct ws_event *event)
{
	static const char engine[] = "autograd::engine::evaluate_function: ";
	enum { MOST = 1 << 20 }; /* forward operators that wait for their backward ones */
	uint64_t sequence = event->values[ws_op_sequence], at, key;

	if (chrome->linked || event->values[ws_op_kind] != WS_OP_CPU || sequence == WS_NO_U64)
		return;
	key = (uint64_t)ws_who_thread(chrome->export->who, (uint32_t)event->values[ws_op_thread])
			      ->process
		      << 48 ^
	      sequence;
	if (event->values[ws_op_forward_thread] != WS_NO_U64 &&
	    event->values[ws_op_forward_thread]) {
		if (strncmp(ws_report_string(chrome->export->report,
					     (uint32_t)event->values[ws_op_name], NULL),
			    engine, sizeof(engine) - 1))
			put_backward(chrome, key, event);
		return;
	}
	at = ws_map_get(&chrome->forwards, key, NULL);
	if (!at && chrome->forward_count == MOST) { /* inference: nobody waits for them */
		ws_map_free(&chrome->forwards);
		chrome->forwards = (struct ws_map){0};
		chrome->forward_count = 0;
	}
	if (!at) {
		ws_grow(chrome->forward, chrome->forward_cap, chrome->forward_count + 1);
		at = ++chrome->forward_count;
		ws_map_set(&chrome->forwards, key, at);
	}
	chrome->forward[at - 1] =
		(struct forward){event->start, (uint32_t)event->values[ws_op_thread]};
}

static void put_op(struct chrome *chrome, const struct ws_event *event)
{
	static const char *const cats[] = {"cpu_op", "cpu_op", "user_annotation", "python_function",
					   "cpu_op"};
	const uint64_t *values = event->values;

	put_plain(chrome, event, cats[values[ws_op_kind] < WS_COUNT(cats) ? values[ws_op_kind] : 0],
		  values[ws_op_thread], values[ws_op_name]);
	arg_u64(chrome, "External id", values[ws_op_external]);
	arg_u64(chrome, "Record function id", values[ws_op_record_function]);
	arg_u64(chrome, "Sequence number", values[ws_op_sequence]);
	arg_u64(chrome, "Fwd thread id", values[ws_op_forward_thread]);
	arg_u64(chrome, "Python id", values[ws_op_python_id]);
	arg_u64(chrome, "Python parent id", values[ws_op_python_parent]);
	arg_u64(chrome, "Python module id", values[ws_op_module_id]);
	arg_json(chrome, "Input Dims", values[ws_op_shapes]);
	arg_json(chrome, "Input Strides", values[ws_op_strides]);
	arg_json(chrome, "Input type", values[ws_op_types]);
	arg_json(chrome, "Concrete Inputs", values[ws_op_concrete]);
	arg_text(chrome, "Call stack", values[ws_op_stack]);
	arg_text(chrome, "Module Hierarchy", values[ws_op_modules]);
	if (values[ws_op_flops])
		arg_number(chrome, "flops", values[ws_op_flops]);
	arg_members(chrome, values[ws_op_args]);
	close_event(chrome);
	link_op(chrome, event);
}

static void put_op_memory(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	struct row row = thread_row(chrome, values[ws_op_memory_thread]);

	open_event(chrome, "i", "cpu_instant_event");
	ws_text_puts(&chrome->text, "\"[memory]\"");
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_printf(&chrome->text,
		       ",\"s\":\"t\",\"args\":{\"Total Reserved\":%" PRIu64
		       ",\"Total Allocated\":%" PRIu64 ",\"Bytes\":%" PRId64,
		       values[ws_op_memory_reserved], values[ws_op_memory_allocated],
		       (int64_t)values[ws_op_memory_bytes]);
	ws_text_printf(&chrome->text,
		       ",\"Addr\":%" PRIu64 ",\"Device Id\":%d,\"Device Type\":%" PRIu64,
		       values[ws_op_memory_address], (int)values[ws_op_memory_device],
		       values[ws_op_memory_device_type]);
	close_event(chrome);
}

static void put_slice(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	struct row row = track_row(chrome, values[ws_slice_thread], values[ws_slice_track]);
	struct ws_text cat = {0};
	size_t n;
	const char *text =
		ws_report_string(chrome->export->report, (uint32_t)values[ws_slice_category], &n);

	ws_text_json(&cat, n ? text : "slice", n ? n : 5);
	cat.text[cat.len - 1] = 0; /* without its quotes: open_event has them */
	if (values[ws_slice_flags] & WS_SLICE_ASYNC) {
		put_async(chrome, event, cat.text + 1, values[ws_slice_name], values[ws_slice_args],
			  row, NULL);
	} else if (values[ws_slice_flags] & WS_SLICE_INSTANT) {
		put_moment(chrome, cat.text + 1, values[ws_slice_name], row, event->start);
		arg_members(chrome, values[ws_slice_args]);
		close_event(chrome);
	} else {
		open_event(chrome, "X", cat.text + 1);
		put_string(chrome, &chrome->text, values[ws_slice_name]);
		put_place(chrome, row.pid, row.tid, event->start);
		put_span(chrome, event);
		arg_members(chrome, values[ws_slice_args]);
		close_event(chrome);
	}
	ws_text_free(&cat);
}

static void put_arrow(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;
	uint64_t id = ++chrome->async;
	struct ws_text cat = {0};
	size_t n;
	const char *text =
		ws_report_string(chrome->export->report, (uint32_t)values[ws_flow_category], &n);

	if (event->end == WS_NO_TIME)
		return;
	ws_text_json(&cat, n ? text : "flow", n ? n : 4);
	cat.text[cat.len - 1] = 0;
	for (int half = 0; half < 2; half++) {
		struct row row = half ? track_row(chrome, values[ws_flow_to_thread],
						  values[ws_flow_to_track])
				      : track_row(chrome, values[ws_flow_from_thread],
						  values[ws_flow_from_track]);

		open_event(chrome, half ? "f" : "s", cat.text + 1);
		put_string(chrome, &chrome->text, values[ws_flow_name]);
		ws_text_printf(&chrome->text, ",\"id\":%" PRIu64, id);
		put_place(chrome, row.pid, row.tid, half ? event->end : event->start);
		ws_text_puts(&chrome->text, half ? ",\"bp\":\"e\"}" : "}");
	}
	ws_text_free(&cat);
}

static void put_sample(struct chrome *chrome, const struct ws_event *event)
{
	static const char cat[] = "disabled-by-default-v8.cpu_profiler";
	uint64_t thread = event->values[ws_sample_thread];
	struct row row = thread_row(chrome, thread);

	if (ws_chrome_samples_new(chrome->samples, thread)) {
		open_event(chrome, "P", cat);
		ws_text_puts(&chrome->text, "\"Profile\"");
		put_place(chrome, row.pid, row.tid, event->start);
		ws_text_puts(&chrome->text, ",");
		ws_chrome_samples_begin(chrome->samples, &chrome->text, thread,
					when(chrome, event->start));
	}
	open_event(chrome, "P", cat);
	ws_text_puts(&chrome->text, "\"ProfileChunk\"");
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_puts(&chrome->text, ",");
	ws_chrome_samples_put(chrome->samples, &chrome->text, event->values,
			      when(chrome, event->start));
}

static void put_counter(struct chrome *chrome, const struct ws_event *event)
{
	uint64_t id = event->values[ws_counter_value_counter],
		 group = ws_map_get(&chrome->groups, id, NULL);
	uint64_t process = ws_map_get(&chrome->counter_process, id, NULL);
	double value = real(event->values[ws_counter_value_value]);
	struct ws_text name = {0};

	if (group) {
		const char *text = ws_report_string(chrome->export->report, (uint32_t)group, NULL);

		ws_text_printf(&name, "%s: ", text);
	}
	ws_text_puts(&name,
		     ws_report_string(chrome->export->report,
				      (uint32_t)ws_map_get(&chrome->counters, id, NULL), NULL));
	open_event(chrome, "C", "counter");
	ws_text_json(&chrome->text, name.text, name.len);
	put_place(chrome,
		  process_number(chrome, ws_who_process(chrome->export->who, (uint32_t)process)), 0,
		  event->start);
	ws_text_printf(&chrome->text, ",\"args\":{\"value\":%.17g",
		       value - value == 0 ? value : 0.0);
	close_event(chrome);
	ws_text_free(&name);
}

static void put_gpu_memory(struct chrome *chrome, const struct ws_event *event)
{
	const uint64_t *values = event->values;

	open_event(chrome, "C", "gpu_memory");
	ws_text_printf(&chrome->text, "\"GPU memory (%s)\"",
		       ws_memory_name(values[ws_cuda_memory_kind]));
	put_place(chrome,
		  gpu_pid(chrome, values[ws_cuda_memory_process], values[ws_cuda_memory_device]), 0,
		  event->start);
	ws_text_printf(&chrome->text, ",\"args\":{\"bytes\":%" PRIu64,
		       values[ws_cuda_memory_in_use]);
	close_event(chrome);
}

static void put_event(struct chrome *chrome, const struct ws_event *event)
{
	switch (event->table) {
	case WS_TABLE_op:
		put_op(chrome, event);
		break;
	case WS_TABLE_op_memory:
		put_op_memory(chrome, event);
		break;
	case WS_TABLE_nvtx:
		put_nvtx(chrome, event);
		break;
	case WS_TABLE_osrt:
		put_osrt(chrome, event);
		break;
	case WS_TABLE_slice:
		put_slice(chrome, event);
		break;
	case WS_TABLE_flow:
		put_arrow(chrome, event);
		break;
	case WS_TABLE_cuda_api:
		put_call(chrome, event);
		break;
	case WS_TABLE_cuda_overhead:
		put_plain(chrome, event, "overhead", event->values[ws_cuda_overhead_thread],
			  event->values[ws_cuda_overhead_name]);
		close_event(chrome);
		break;
	case WS_TABLE_cuda_kernel:
		put_kernel(chrome, event);
		break;
	case WS_TABLE_cuda_memcpy:
		put_copy(chrome, event);
		break;
	case WS_TABLE_cuda_memset:
		put_set(chrome, event);
		break;
	case WS_TABLE_cuda_graph_trace:
		put_graph(chrome, event);
		break;
	case WS_TABLE_cuda_sync:
		put_wait(chrome, event);
		break;
	case WS_TABLE_cuda_memory:
		put_gpu_memory(chrome, event);
		break;
	case WS_TABLE_counter_value:
		put_counter(chrome, event);
		break;
	case WS_TABLE_sample:
		put_sample(chrome, event);
		break;
	default:
		return; /* chrome's readers have no place for it */
	}
	chrome->export->rows++;
}

/* ---- who is who ---- */

static void put_label(struct chrome *chrome, const char *what, int64_t pid, int64_t tid)
{
	ws_text_puts(&chrome->text, chrome->first ? "\n" : ",\n");
	chrome->first = false;
	ws_text_printf(&chrome->text,
		       "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%" PRId64
		       ",\"ts\":0,\"args\":{",
		       what, pid, tid);
}

static void put_name(struct chrome *chrome, const char *what, int64_t pid, int64_t tid,
		     const char *name)
{
	put_label(chrome, what, pid, tid);
	ws_text_puts(&chrome->text, "\"name\":");
	ws_text_json(&chrome->text, name, strlen(name));
	close_event(chrome);
}

static void put_process(struct chrome *chrome, int64_t pid, const char *name, const char *label,
			int64_t order)
{
	put_name(chrome, "process_name", pid, 0, name);
	put_label(chrome, "process_labels", pid, 0);
	ws_text_puts(&chrome->text, "\"labels\":");
	ws_text_json(&chrome->text, label, strlen(label));
	close_event(chrome);
	put_label(chrome, "process_sort_index", pid, 0);
	ws_text_printf(&chrome->text, "\"sort_index\":%" PRId64, order);
	close_event(chrome);
}

static void put_who(struct chrome *chrome)
{
	const struct ws_who *who = chrome->export->who;
	struct ws_map named = {0};
	char *name;

	for (uint32_t i = ws_who_processes(who); i > 0;
	     i--) { /* the last image of a pid names it */
		const struct ws_process_info *info = ws_who_process(who, i);

		if (ws_map_get(&named, info->global_pid, NULL))
			continue;
		ws_map_set(&named, info->global_pid, 1);
		put_process(chrome, process_number(chrome, info), info->name, "CPU",
			    process_number(chrome, info));
	}
	ws_map_free(&named);
	for (uint32_t i = 1; i <= ws_who_threads(who); i++) {
		const struct ws_thread_info *thread_info = ws_who_thread(who, i);

		if (!chrome->threads[i])
			continue;
		name = ws_format("thread %u (", thread_info->tid);
		if (strncmp(thread_info->name, name,
			    strlen(name))) { /* a name from such a trace has it already */
			free(name);
			name = ws_format("thread %u (%s)", thread_info->tid,
					 *thread_info->name ? thread_info->name
							    : thread_info->process_name);
		} else {
			free(name);
			name = ws_strdup(thread_info->name);
		}
		put_name(chrome, "thread_name",
			 process_number(chrome, ws_who_process(who, thread_info->process)),
			 (int64_t)thread_info->tid, name);
		free(name);
	}
}

static void put_gpus(struct chrome *chrome)
{
	char label[64];

	for (size_t i = 0; i < chrome->gpu_count; i++) {
		snprintf(label, sizeof(label), "GPU %" PRIu64, chrome->gpus[i].device);
		put_process(chrome, chrome->gpus[i].pid,
			    ws_who_process(chrome->export->who, (uint32_t)chrome->gpus[i].process)
				    ->name,
			    label, 5000000 + (int64_t)chrome->gpus[i].pid);
	}
	for (size_t i = 0; i < chrome->rows.size; i++) {
		int64_t pid = (int64_t)(chrome->rows.slots[i].key >> 32),
			tid = (int32_t)chrome->rows.slots[i].key;

		if (!chrome->rows.used[i])
			continue;
		snprintf(label, sizeof(label), tid < 0 ? "synchronization" : "stream %" PRId64,
			 tid);
		put_name(chrome, "thread_name", pid, tid, label);
	}
}

static void put_tracks(struct chrome *chrome)
{
	for (size_t i = 0; i < chrome->track_name.size; i++) {
		if (!chrome->track_name.used[i] ||
		    ws_map_get(&chrome->track_row, chrome->track_name.slots[i].key, NULL))
			continue;
		struct row row = track_row(chrome, 0, chrome->track_name.slots[i].key);

		put_label(chrome, "thread_name", row.pid, row.tid);
		ws_text_puts(&chrome->text, "\"name\":");
		put_string(chrome, &chrome->text, chrome->track_name.slots[i].value);
		close_event(chrome);
	}
}

/* ---- the head ---- */

static void put_devices(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_map seen = {0};
	const uint64_t *values;
	bool first = true;

	while (ws_cursor_next(cursor, &values)) {
		if (ws_map_get(&seen, values[ws_cuda_device_id], NULL))
			continue;
		ws_map_set(&seen, values[ws_cuda_device_id], 1);
		ws_text_printf(&chrome->text, "%s\n{\"id\":%" PRIu64 ",\"name\":", first ? "" : ",",
			       values[ws_cuda_device_id]);
		first = false;
		put_string(chrome, &chrome->text, values[ws_cuda_device_name]);
		ws_text_printf(&chrome->text,
			       ",\"totalGlobalMem\":%" PRIu64 ",\"computeMajor\":%" PRIu64
			       ",\"computeMinor\":%" PRIu64,
			       values[ws_cuda_device_memory_bytes], values[ws_cuda_device_major],
			       values[ws_cuda_device_minor]);
		ws_text_printf(&chrome->text,
			       ",\"maxThreadsPerBlock\":%" PRIu64
			       ",\"maxThreadsPerMultiprocessor\":%" PRIu64,
			       values[ws_cuda_device_threads_block],
			       values[ws_cuda_device_warps_sm] * values[ws_cuda_device_warp]);
		ws_text_printf(&chrome->text,
			       ",\"regsPerBlock\":%" PRIu64 ",\"warpSize\":%" PRIu64
			       ",\"sharedMemPerBlock\":%" PRIu64,
			       values[ws_cuda_device_regs_block], values[ws_cuda_device_warp],
			       values[ws_cuda_device_shared_block]);
		ws_text_printf(&chrome->text,
			       ",\"numSms\":%" PRIu64 ",\"regsPerMultiprocessor\":%" PRIu64,
			       values[ws_cuda_device_sms], values[ws_cuda_device_regs_sm]);
		ws_text_printf(&chrome->text,
			       ",\"sharedMemPerBlockOptin\":%" PRIu64
			       ",\"sharedMemPerMultiprocessor\":%" PRIu64 "}",
			       values[ws_cuda_device_shared_block_optin],
			       values[ws_cuda_device_shared_sm]);
	}
	ws_cursor_close(cursor);
	ws_map_free(&seen);
}

static void put_rank(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_rank, 0, UINT64_MAX);
	uint64_t rank = 0, world = 0;
	const uint64_t *values;
	size_t n = 0;

	for (; ws_cursor_next(cursor, &values); n++) {
		rank = values[ws_rank_rank];
		world = values[ws_rank_world];
	}
	ws_cursor_close(cursor);
	if (n == 1)
		ws_text_printf(&chrome->text,
			       "\"distributedInfo\":{\"rank\":%" PRIu64 ",\"world_size\":%" PRIu64
			       "},\n",
			       rank, world);
}

static void put_head(struct chrome *chrome)
{
	ws_text_puts(&chrome->text, "{\n\"schemaVersion\":1,\n\"deviceProperties\":[");
	put_devices(chrome);
	ws_text_puts(&chrome->text, "],\n");
	put_rank(chrome);
	ws_text_printf(&chrome->text,
		       "\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":%" PRIu64
		       ",\n\"traceEvents\":[",
		       chrome->export->normalized ? 0 : ws_export_epoch(chrome->export));
}

static void load_counters(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_map_set(&chrome->counters, values[ws_counter_id], values[ws_counter_name]);
		ws_map_set(&chrome->groups, values[ws_counter_id], values[ws_counter_group]);
		ws_map_set(&chrome->counter_process, values[ws_counter_id],
			   values[ws_counter_process]);
	}
	ws_cursor_close(cursor);
}

/* Annotations as a GPU saw them go to the row of their stream, where the profiler has them. */
static void load_tracks(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_track, 0, UINT64_MAX);
	unsigned device, stream;
	const uint64_t *values;
	int n;

	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(chrome->export->report,
						    (uint32_t)values[ws_track_name], NULL);

		ws_map_set(&chrome->track_name, values[ws_track_id], values[ws_track_name]);
		ws_map_set(&chrome->track_process, values[ws_track_id], values[ws_track_process]);
		n = 0;
		if (sscanf(name, "GPU %u stream %u annotations%n", &device, &stream, &n) == 2 &&
		    n && !name[n])
			ws_map_set(&chrome->track_row, values[ws_track_id],
				   ((uint64_t)device << 32 | stream) + 1);
	}
	ws_cursor_close(cursor);
}

static void load_collectives(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_collective, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (values[ws_collective_correlation] == WS_NO_U32)
			continue;
		ws_grow(chrome->collective, chrome->collective_cap, chrome->collective_count + 1);
		chrome->collective[chrome->collective_count++] = (struct ws_row_collective){
			.name = (uint32_t)values[ws_collective_name],
			.in_elements = values[ws_collective_in_elements],
			.out_elements = values[ws_collective_out_elements],
			.dtype = (uint32_t)values[ws_collective_dtype],
			.group_size = (uint32_t)values[ws_collective_group_size],
			.group = (uint32_t)values[ws_collective_group],
			.description = (uint32_t)values[ws_collective_description],
			.ranks = (uint32_t)values[ws_collective_ranks],
			.source = (int32_t)values[ws_collective_source],
			.destination = (int32_t)values[ws_collective_destination],
			.sequence = values[ws_collective_sequence],
		};
		ws_map_set(&chrome->collectives,
			   values[ws_collective_process] << 32 | values[ws_collective_correlation],
			   chrome->collective_count);
	}
	ws_cursor_close(cursor);
}

static int add_domains(void *ctx, const struct ws_batch *batch)
{
	struct chrome *chrome = ctx;

	for (size_t i = 0; i < batch->rows; i++)
		if (batch->col[ws_nvtx_type][i] == WS_NVTX_DOMAIN_CREATE) {
			uint64_t process = ws_who_thread(chrome->export->who,
							 (uint32_t)batch->col[ws_nvtx_thread][i])
						   ->process;

			ws_map_set(&chrome->domains, process << 32 | batch->col[ws_nvtx_domain][i],
				   batch->col[ws_nvtx_text][i]);
		}
	return 0;
}

static int find_links(void *ctx, const struct ws_batch *batch)
{
	struct chrome *chrome = ctx;
	size_t n;

	for (size_t i = 0; i < batch->rows && !chrome->linked; i++) {
		const char *text = ws_report_string(chrome->export->report,
						    (uint32_t)batch->col[ws_flow_category][i], &n);

		chrome->linked = n == 6 && !memcmp(text, "fwdbwd", 6);
	}
	return chrome->linked;
}

/* Images of one process have its pid. Processes of several files, of ranks in containers, may share
 * one by chance. */
static void number_processes(struct chrome *chrome)
{
	struct ws_map owner = {0}; /* pid -> its first globalPid, + 1 */

	for (uint32_t i = 1; i <= ws_who_processes(chrome->export->who); i++) {
		const struct ws_process_info *info = ws_who_process(chrome->export->who, i);
		uint64_t first = ws_map_get(&owner, info->pid, NULL);

		ws_map_set(&chrome->taken, info->pid, 1);
		if (!first)
			ws_map_set(&owner, info->pid, info->global_pid + 1);
		else if (first != info->global_pid + 1)
			ws_map_set(&chrome->others, info->global_pid, FIRST_OTHER_PROCESS + i);
	}
	chrome->several = owner.n + chrome->others.n > 1;
	ws_map_free(&owner);
}

/* What is needed to know before the first event. */
static void load(struct chrome *chrome)
{
	struct ws_scan domains = {.table = WS_TABLE_nvtx, .time_max = UINT64_MAX, .workers = 1};
	struct ws_scan flows = {.table = WS_TABLE_flow,
				.columns = WS_COL(flow, category),
				.time_max = UINT64_MAX,
				.workers = 1};

	chrome->threads = ws_calloc((size_t)ws_who_threads(chrome->export->who) + 1, 1);
	number_processes(chrome);
	domains.columns = WS_COL(nvtx, type) | WS_COL(nvtx, thread) | WS_COL(nvtx, domain) |
			  WS_COL(nvtx, text);
	ws_scan_run(chrome->export->report, &domains, add_domains, chrome, NULL);
	ws_scan_run(chrome->export->report, &flows, find_links, chrome, NULL);
	ws_links_load(&chrome->links, chrome->export);
	load_counters(chrome);
	load_tracks(chrome);
	load_collectives(chrome);
	chrome->samples = ws_chrome_samples_open(chrome->export);
}

static int put_events(struct chrome *chrome, struct ws_err *err)
{
	struct ws_timeline *timeline = ws_timeline_open(chrome->export);
	struct ws_event event;
	int rc = 0;

	while (!rc && ws_timeline_next(timeline, &event)) {
		put_event(chrome, &event);
		ws_progress_step(chrome->export->progress, 1);
		rc = flush(chrome, 1 << 16, err);
	}
	ws_timeline_close(timeline);
	return !rc && ws_outfile_interrupted() ? ws_fail(err, "interrupted") : rc;
}

static int flush_some(void *ctx)
{
	return flush(ctx, 1 << 16, NULL);
}

static int put_end(struct chrome *chrome, struct ws_err *err)
{
	put_who(chrome);
	put_gpus(chrome);
	put_tracks(chrome);
	ws_text_puts(&chrome->text, "\n],\n\"stackFrames\":{");
	if (ws_chrome_samples_frames(chrome->samples, &chrome->text, flush_some, chrome))
		return ws_fail_errno(err, "cannot write %s", ws_x_output(chrome->export));
	ws_text_puts(&chrome->text, "},\n\"traceName\":");
	ws_text_json(&chrome->text, chrome->export->output, strlen(chrome->export->output));
	ws_text_puts(&chrome->text, "\n}\n");
	return flush(chrome, 0, err);
}

static void unload(struct chrome *chrome)
{
	ws_chrome_samples_close(chrome->samples);
	ws_links_free(&chrome->links);
	ws_map_free(&chrome->rows);
	ws_map_free(&chrome->gpu_at);
	ws_map_free(&chrome->taken);
	ws_map_free(&chrome->others);
	ws_map_free(&chrome->counters);
	ws_map_free(&chrome->groups);
	ws_map_free(&chrome->counter_process);
	ws_map_free(&chrome->track_name);
	ws_map_free(&chrome->track_process);
	ws_map_free(&chrome->track_row);
	ws_map_free(&chrome->domains);
	ws_map_free(&chrome->collectives);
	ws_map_free(&chrome->forwards);
	ws_text_free(&chrome->text);
	free(chrome->forward);
	free(chrome->collective);
	free(chrome->threads);
	free(chrome->gpus);
}

int ws_xformat_write_chrome(struct ws_export *export, FILE *file, struct ws_err *err)
{
	struct chrome chrome = {.export = export, .file = file, .first = true};
	int rc;

	load(&chrome);
	put_head(&chrome);
	rc = put_events(&chrome, err);
	if (!rc)
		rc = put_end(&chrome, err);
	unload(&chrome);
	return rc;
}
