/*
 * trace.h - a trace in Chrome's JSON format while it is imported: what the driver (trace.c), the
 * plain events (chrome.c) and the PyTorch profiler's (kineto.c) share.
 */
#ifndef WS_IMPORT_TRACE_H
#define WS_IMPORT_TRACE_H

#include "import/into.h"
#include "text/json.h"

/* Arguments that mean something to us: X(name, text). */
enum ws_trace_arg {
#define WS_TRACE_ARG(name, text) WS_A_##name,
#include "import/trace_args.def"
#undef WS_TRACE_ARG
	WS_A_COUNT
};

/* One event, as views into the window. A value that is not there has type WS_J_NONE. */
struct ws_event {
	struct ws_json_value ph, cat, name, pid, tid, ts, dur, id, id2, args, scope, sf;
	char phase;		/* first character of ph */
	uint64_t start, length; /* session clock; ns */
};

/* An open B, or an open asynchronous b. */
struct ws_open_slice {
	uint64_t start, key;
	uint32_t thread, track, name, category, args,
		below;		/* below: index + 1 of the one under it */
	uint32_t domain, group; /* of NVTX: domain and category */
	bool never;		/* it says of itself that it never ended */
	enum {
		WS_OWN_NONE,
		WS_OWN_NVTX,
		WS_OWN_OSRT
	} own; /* it is of a category of our own export */
};

/* A profile of CPU samples. */
struct ws_trace_profile {
	int64_t at; /* time of its last sample as the trace counts, ns */
	uint32_t thread;
};

/* A half of a slice, kept until all are known. */
struct ws_trace_half {
	struct ws_open_slice slice;
	uint32_t number; /* in the file */
	bool end;
	uint8_t flags;
};

/* A flow's last end. */
struct ws_flow_end {
	uint64_t start, key;
	uint32_t thread, track, name, category;
};

struct ws_trace {
	struct ws_into *into;
	struct ws_json json;
	struct ws_text scratch, built;
	/* time: session = base + ts */
	uint64_t base;
	int64_t from, least; /* what `base` was chosen by; the earliest met */
	bool disorder;	     /* halves of slices came in no order */
	bool base_known, epoch, first_seen,
		decimals; /* decimals: some time is no whole microsecond */
	/* args of the event in hand, valid where `stamp` is the event's */
	struct ws_json_value arg[WS_A_COUNT];
	uint32_t arg_stamp[WS_A_COUNT], stamp;
	struct {
		struct ws_json_value key, value;
	} other[64];
	int others;
	/* who */
	uint32_t main_process; /* of a trace of PyTorch: whose GPU work it is; 0 until one is needed
				*/
	bool main_adopted;     /* its pid is known */
	uint64_t last_pid, last_tid;
	uint32_t last_process, last_thread;
	struct ws_map process_names, thread_names; /* pid, or hash of pid and tid -> string, named
						      before they were used */
	struct ws_map open; /* thread or async key -> index + 1 of the innermost open slice */
	struct ws_open_slice *slices;
	size_t slice_count, slice_cap;
	uint32_t free_slice;	      /* index + 1 */
	struct ws_map early;	      /* key of ends that had no beginning -> the latest */
	struct ws_trace_half *halves; /* of a file that has them in no order */
	size_t half_count, half_cap;
	struct ws_map flow; /* key -> index + 1 */
	struct ws_flow_end *flows;
	size_t flow_count, flow_cap;
	uint32_t free_flow;
	/* CPU samples */
	struct ws_map profile_at; /* hash of process and profile -> index + 1 */
	struct ws_trace_profile *profiles;
	size_t profile_count, profile_cap;
	struct ws_map node_stacks; /* (index + 1) << 32 | node -> stack */
	struct ws_map domains;	   /* process << 32 | NVTX domain: it has a name by now */
	/* PyTorch */
	bool kineto;
	struct ws_map kernel_names; /* string id of a kernel's name -> of its short name */
	struct {
		uint64_t external;
		uint32_t correlation, process;
	} linked[1 << 16];	   /* links written of late */
	struct ws_map occurrences; /* (group, name) -> how many collectives of it there were */
	int64_t *apart; /* for each collective that the first file has too: its end there less the
			   one here */
	size_t apart_count, apart_cap;
	struct ws_text devices; /* "deviceProperties", until the process is known */
	int64_t rank, world;	/* -1 when not told */
	uint64_t events, bad_time;
};

/* The value of an argument of the event in hand, or one of type WS_J_NONE. */
static inline const struct ws_json_value *ws_trace_arg(const struct ws_trace *trace,
						       enum ws_trace_arg arg)
{
	static const struct ws_json_value none;

	return trace->arg_stamp[arg] == trace->stamp ? &trace->arg[arg] : &none;
}
uint64_t ws_trace_u64(const struct ws_trace *trace, enum ws_trace_arg arg, uint64_t none);
uint32_t ws_trace_u32(const struct ws_trace *trace, enum ws_trace_arg arg, uint32_t none);
/* Report string of an argument: a string's text, anything else as its JSON; 0 when it is not there.
 */
uint32_t ws_trace_string(struct ws_trace *trace, const struct ws_json_value *value);
/* Before the first event. */
void ws_trace_args_begin(void);
/* Take the event's args apart. */
void ws_trace_args(struct ws_trace *trace, const struct ws_event *ev);
/* What was in args and means nothing to us, as a JSON object in the report's strings; 0 when
 * nothing was. */
uint32_t ws_trace_others(struct ws_trace *trace);

/* The process whose GPU work it is; until a CPU event tells its pid, one without. */
uint32_t ws_trace_main_process(struct ws_trace *trace);
/* The process of a pid, made where it is new. */
uint32_t ws_trace_process_of(struct ws_trace *trace, uint64_t pid);

/* id of the process or thread of an event of a CPU. */
uint32_t ws_trace_process(struct ws_trace *trace, const struct ws_event *ev);
uint32_t ws_trace_thread(struct ws_trace *trace, const struct ws_event *ev);
/* Thread, or track where pid or tid is no number. */
void ws_trace_where(struct ws_trace *trace, const struct ws_event *ev, uint32_t *thread,
		    uint32_t *track);

/* The end of the event whose args were taken; WS_NO_TIME when it says that it never ended. */
static inline uint64_t ws_trace_end(const struct ws_trace *trace, const struct ws_event *ev)
{
	return ws_trace_arg(trace, WS_A_NEVER_ENDED)->type == WS_J_TRUE ? WS_NO_TIME
									: ev->start + ev->length;
}

/* A metadata event: the name of a process or thread. */
void ws_trace_metadata(struct ws_trace *trace, const struct ws_event *ev);

/* chrome_profile.c: an event of phase P; false when it is no profile. */
bool ws_chrome_profile(struct ws_trace *trace, const struct ws_event *ev);
/* chrome.c: any event without a meaning of its own. */
void ws_chrome_event(struct ws_trace *trace, struct ws_event *ev);
/* A complete slice. */
void ws_chrome_slice(struct ws_trace *trace, struct ws_event *ev, uint32_t thread, uint32_t track,
		     uint8_t flags);
/* What is still open at the end. */
void ws_chrome_end(struct ws_trace *trace);
/* kineto.c: an event of the PyTorch profiler, from its category. False when it is none. */
bool ws_kineto_event(struct ws_trace *trace, struct ws_event *ev);
/* Devices and rank, once all has been read. */
void ws_kineto_end(struct ws_trace *trace);

/*
 * Import one file. `base` is the real time that its times count from (ns since 1970) if it is known
 * beforehand, else 0. Returns 0, or -1 with a message in o->problem.
 */
int ws_trace_import(struct ws_into *into, struct ws_source *source, uint64_t base);

#endif
