/*
 * perfetto.h - a Perfetto trace while it is imported: what the readers of packets (perfetto.c),
 * context switches (perfetto_sched.c) and samples with their stacks (perfetto_samples.c) share.
 */
#ifndef WS_IMPORT_PERFETTO_H
#define WS_IMPORT_PERFETTO_H

#include "import/formats.h"
#include "import/perfetto_pb.h"

/* The kinds of texts and things that a sequence refers to by number. */
enum { NAMES, CATEGORIES, ARGS, TEXTS, FUNCTIONS, PATHS, MAPPINGS, FRAMES, STACKS, KINDS };

/* A clock: session time = value * unit + offset, in ns. */
struct clock {
	uint32_t id;
	bool incremental; /* times are differences */
	uint64_t value, unit;
	int64_t offset;
};

enum { SEQUENCE_CLOCKS = 8, TRACE_CLOCKS = 64 };

struct sequence {
	uint32_t id;
	bool packets_lost; /* a packet is missing: what builds on earlier ones cannot be read */
	/* iid -> string; for ARGS, TEXTS, PATHS and MAPPINGS: offset in `texts` << 24 | length; for
	 * FRAMES and STACKS: id. */
	struct ws_map interned[KINDS];
	uint64_t default_track;
	uint32_t default_clock;
	struct clock clocks[SEQUENCE_CLOCKS];
	uint8_t clock_count;
	uint64_t extra_default[8];
	uint8_t extra_count;
};

struct track {
	uint32_t thread, track, process; /* ids */
	uint32_t counter;
	int64_t multiplier;
	bool incremental;
	double sum;
};

struct open_slice {
	uint64_t start, track;
	uint32_t name, category, args, below;
};

struct perfetto {
	struct ws_importer *importer;
	struct ws_input *source;
	uint8_t *buffer, *unpacked;
	size_t capacity, length, at;
	uint64_t offset; /* of the window in the file */
	bool eof;
	struct sequence *sequences;
	size_t sequence_count, sequence_cap, last_sequence;
	struct clock clocks[TRACE_CLOCKS];
	uint8_t clock_count;
	struct ws_map tracks; /* uuid -> index + 1 */
	struct track *track_list;
	size_t track_count, track_cap;
	struct ws_map open; /* uuid -> open slice + 1 */
	struct open_slice *slices;
	size_t slice_count, slice_cap;
	uint32_t free_slice;
	struct ws_map flow_time, flow_track; /* flow -> its last event's time and track */
	struct ws_map pids;		     /* tid -> pid, from the process tree */
	struct ws_text args, texts;
	uint64_t packets, unknown_packets, lost_packets; /* packets read; packets of unknown kinds;
							    packets that need dropped ones */
	bool clock_written;				 /* its real time has been written */
	struct ws_map woken, wakers; /* tid -> when it was made runnable, and by which thread */
	struct {
		uint64_t start, woken;
		uint32_t thread, waker;
	} cpu[1024]; /* what each core runs */
};

/* id of a thread. */
uint32_t ws_perfetto_find_thread(struct perfetto *perfetto, uint64_t pid, uint64_t tid);
/* Keep a text as long as the import lasts. Returns its offset << 24 | length; 0 when there are too
 * many. */
uint64_t ws_perfetto_keep_text(struct perfetto *perfetto, const void *text, size_t length);
/* Session time of a clock's time stamp; `clock` 0 is the sequence's default. */
uint64_t ws_perfetto_convert_time(struct perfetto *perfetto, struct sequence *sequence,
				  uint64_t stamp, uint32_t clock);

/* perfetto_clocks.c: read a snapshot, the values of several clocks at one moment. */
void ws_perfetto_read_clocks(struct perfetto *perfetto, struct sequence *sequence,
			     const struct field *snapshot);

/* perfetto_sched.c: read a bundle of ftrace's events of one core; at the end, write what was still
 * running. */
void ws_perfetto_read_ftrace(struct perfetto *perfetto, const struct field *bundle);
void ws_perfetto_finish_sched(struct perfetto *perfetto);

/* perfetto_samples.c: read functions, mappings, frames and stacks of a sequence; write a sample
 * taken at session time `at`. */
void ws_perfetto_read_code(struct perfetto *perfetto, struct sequence *sequence,
			   const struct field *interned_data);
void ws_perfetto_put_sample(struct perfetto *perfetto, struct sequence *sequence,
			    const struct field *sample, uint64_t at);

#endif
