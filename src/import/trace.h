/*
 * trace.h - a trace in Chrome's JSON format while it is imported: what its reader (trace_read.c),
 * the helpers that make rows (trace_rows.c), the general events (chrome.c) and those of the PyTorch
 * profiler (kineto.c) share.
 */
#ifndef WS_IMPORT_TRACE_H
#define WS_IMPORT_TRACE_H

#include "import/importer.h"
#include "text/json.h"

/* The arguments of events that are known here: see trace_args.def. */
enum ws_trace_arg {
#define WS_TRACE_ARG(name, text) WS_A_##name,
#include "import/trace_args.def"
#undef WS_TRACE_ARG
	WS_A_COUNT
};

/* One event, as views into the reader's window, valid until the next event is read. A value that is
 * not there has type WS_JSON_NONE. */
struct ws_trace_event {
	struct ws_json_value ph, cat, name, pid, tid, ts, dur, id, id2, args, scope, sf;
	char phase;		/* first character of ph */
	uint64_t start, length; /* ns on the session clock; ns */
};

/* An open B, or an open asynchronous b. */
struct ws_trace_slice {
	uint64_t start, key;
	uint32_t thread, track, name, category, args;
	uint32_t outer;		/* index + 1 of the slice around it, 0 for none */
	uint32_t domain, group; /* NVTX domain and category */
	bool never_ended;	/* its arguments say that it never ended */
	enum {
		WS_OWN_NONE,
		WS_OWN_NVTX,
		WS_OWN_OSRT
	} own_category; /* the category, where it is one of our own exports */
};

/* A profile of CPU samples. */
struct ws_trace_profile {
	int64_t at; /* time of its last sample, ns on the trace's clock */
	uint32_t thread;
};

/* Half of a slice, kept until all are known. */
struct ws_trace_half {
	struct ws_trace_slice slice;
	uint32_t number; /* in the file */
	bool end;
	uint8_t flags;
};

/* A moment that belongs to no process, and the name that it has as a fact (a string). */
struct ws_trace_moment {
	struct ws_trace_slice slice;
	uint32_t fact;
};

/* A flow's last end. */
struct ws_trace_flow_end {
	uint64_t start, key;
	uint32_t thread, track, name, category;
};

struct ws_trace {
	struct ws_importer *importer;
	struct ws_json json;
	struct ws_text scratch, built;
	uint64_t base;		     /* session time = base + ts, ns */
	int64_t base_time, earliest; /* the time that set `base`; the earliest so far */
	bool halves_shuffled;	     /* halves of slices are not in time order */
	bool base_known;	     /* `base` is real time */
	bool epoch;		     /* the times in the file are real times */
	bool base_chosen;	     /* `base` has been chosen */
	bool has_decimals;	     /* some time is not a whole microsecond */
	/* Arguments of the current event: those whose stamp is the current one. */
	struct ws_json_value args[WS_A_COUNT];
	uint32_t arg_stamps[WS_A_COUNT], stamp;
	struct {
		struct ws_json_value key, value;
	} unknown_args[64]; /* unknown ones */
	int unknown_count;
	uint32_t main_process; /* whose GPU work a PyTorch trace holds; 0 until it is needed */
	bool main_adopted;     /* its pid is known */
	uint64_t last_pid, last_tid;
	uint32_t last_process, last_thread;
	/* pid, or hash of pid and tid -> string, of those named before their first event */
	struct ws_map process_names, thread_names;
	/* Of our own exports: hash of pid and tid -> track, and its number there -> track */
	struct ws_map own_tracks, own_track_numbers;
	struct ws_map
		open_slices; /* thread or async key -> index + 1 of the innermost open slice */
	struct ws_trace_slice *slices;
	size_t slice_count, slice_cap;
	uint32_t free_slice;	      /* index + 1 */
	struct ws_map early_ends;     /* key of ends without a beginning -> the latest */
	struct ws_trace_half *halves; /* for files that do not have them in time order */
	size_t half_count, half_cap;
	struct ws_map open_flows; /* key -> index + 1 */
	struct ws_trace_moment *unplaced;
	size_t unplaced_count, unplaced_cap;
	struct ws_trace_flow_end *flows;
	size_t flow_count, flow_cap;
	uint32_t free_flow;
	/* CPU samples */
	struct ws_map profile_at; /* hash of process and profile -> index + 1 */
	struct ws_trace_profile *profiles;
	size_t profile_count, profile_cap;
	struct ws_map node_stacks; /* (index + 1) << 32 | node -> stack */
	struct ws_map domains;	   /* process << 32 | NVTX domain: its name has been written */
	/* PyTorch */
	bool kineto;
	struct ws_map call_bytes; /* process << 32 | correlation -> bytes that a call moves */
	struct ws_row_cuda_memcpy *copies; /* copies that do not say how much they move */
	size_t copy_count, copy_cap;
	struct ws_map kernel_names; /* a kernel's name (string) -> its short name (string) */
	struct {
		uint64_t external;
		uint32_t correlation, process;
	} recent_links[1 << 16];   /* recently written links */
	struct ws_map occurrences; /* (group, name) -> number of such collectives so far */
	int64_t *clock_offsets;	   /* for each collective that is in the first file too: end there -
				      end here */
	size_t clock_offset_count, clock_offset_capacity;
	struct ws_text devices; /* "deviceProperties", until the process is known */
	struct ws_text own;	/* "warpsight" of our own exports: see put_own_collections */
	int64_t rank, world;	/* -1 when the trace does not say */
	uint64_t events, bad_time;
};

/* The value of an argument of the current event, or one of type WS_JSON_NONE. */
static inline const struct ws_json_value *ws_trace_get_arg(const struct ws_trace *trace,
							   enum ws_trace_arg arg)
{
	static const struct ws_json_value none;

	if (trace->arg_stamps[arg] != trace->stamp)
		return &none;
	return &trace->args[arg];
}
uint64_t ws_trace_get_u64(const struct ws_trace *trace, enum ws_trace_arg arg, uint64_t none);
uint32_t ws_trace_get_u32(const struct ws_trace *trace, enum ws_trace_arg arg, uint32_t none);
/* An argument as a string of the report: a string's text, anything else as JSON; 0 when it is not
 * there. */
uint32_t ws_trace_add_string(struct ws_trace *trace, const struct ws_json_value *value);
/* Call once before the first event. */
void ws_trace_init_args(void);
/* Read the arguments of an event, which becomes the current one. */
void ws_trace_read_args(struct ws_trace *trace, const struct ws_trace_event *event);
/* The current event's unknown arguments as a JSON object, a string of the report; 0 when there are
 * none. */
uint32_t ws_trace_add_unknown_args(struct ws_trace *trace);

/* The process whose GPU work the trace holds; it has no pid until a CPU event gives it one. */
uint32_t ws_trace_get_main_process(struct ws_trace *trace);
/* id of the process with a pid, made if it is new. */
uint32_t ws_trace_find_pid(struct ws_trace *trace, uint64_t pid);

/* id of the process or thread of a CPU event. */
uint32_t ws_trace_find_process(struct ws_trace *trace, const struct ws_trace_event *event);
uint32_t ws_trace_find_thread(struct ws_trace *trace, const struct ws_trace_event *event);
/* The thread of an event, or its track where pid or tid is no number; the other is 0. */
void ws_trace_find_place(struct ws_trace *trace, const struct ws_trace_event *event,
			 uint32_t *thread, uint32_t *track);

/* The end of the current event; WS_NO_TIME when its arguments say that it never ended. */
static inline uint64_t ws_trace_get_end(const struct ws_trace *trace,
					const struct ws_trace_event *event)
{
	if (ws_trace_get_arg(trace, WS_A_NEVER_ENDED)->type == WS_JSON_TRUE)
		return WS_NO_TIME;
	return event->start + event->length;
}

/* The track of one of our own exports that pid and tid stand for; 0 for none. */
uint32_t ws_trace_find_own_track(const struct ws_trace *trace, const struct ws_trace_event *event);

/* A metadata event: the name of a process or thread. */
void ws_trace_read_metadata(struct ws_trace *trace, const struct ws_trace_event *event);

/* chrome_profile.c: an event of phase P; false when it is not of a profile. */
bool ws_chrome_read_profile(struct ws_trace *trace, const struct ws_trace_event *event);
/* chrome.c: an event that is not of the PyTorch profiler. */
void ws_chrome_read_event(struct ws_trace *trace, struct ws_trace_event *event);
/* A complete slice. */
void ws_chrome_put_slice(struct ws_trace *trace, struct ws_trace_event *event, uint32_t thread,
			 uint32_t track, uint8_t flags);
/* Write the slices that are still open at the end of the file. */
void ws_chrome_finish(struct ws_trace *trace);
/* kineto.c: an event of the PyTorch profiler, by its category; false when it is not one. */
bool ws_kineto_read_event(struct ws_trace *trace, struct ws_trace_event *event);
/* Write the devices and the rank once the file has been read. */
void ws_kineto_finish(struct ws_trace *trace);

/*
 * Import one file. `base` is the real time that its times count from, in ns since 1970, or 0 if it
 * is not known beforehand. Returns 0, or -1 with a message in importer->problem.
 */
int ws_import_trace(struct ws_importer *importer, struct ws_input *source, uint64_t base);

#endif
