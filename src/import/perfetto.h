/*
 * perfetto.h - a Perfetto trace while it is imported: what the packets (perfetto.c), switches of
 * threads (perfetto_sched.c) and samples with their stacks (perfetto_samples.c) share.
 */
#ifndef WS_IMPORT_PERFETTO_H
#define WS_IMPORT_PERFETTO_H

#include "import/formats.h"
#include "import/perfetto_pb.h"

/* Kinds of texts and things that a sequence numbers. */
enum { NAMES, CATEGORIES, ARGS, TEXTS, FUNCTIONS, PATHS, MAPPINGS, FRAMES, STACKS, KINDS };

/* A clock: session = value * unit + offset. */
struct clock {
	uint32_t id;
	bool incremental; /* times are differences */
	uint64_t value, unit;
	int64_t offset;
};

enum { SEQUENCE_CLOCKS = 8, TRACE_CLOCKS = 64 };

struct sequence {
	uint32_t id;
	bool lost; /* a packet is missing: what builds on earlier ones cannot be read */
	/* iid -> string; of ARGS, TEXTS, PATHS and MAPPINGS, place in `texts` << 24 | length; of
	 * FRAMES and STACKS, id */
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
	struct ws_into *into;
	struct ws_source *source;
	uint8_t *buffer, *unpacked;
	size_t cap, len, at;
	uint64_t offset;
	bool eof;
	struct sequence *sequences;
	size_t sequence_count, sequence_cap, last_sequence;
	struct clock clocks[TRACE_CLOCKS];
	uint8_t clock_count;
	struct ws_map tracks; /* uuid -> index + 1 */
	struct track *track;
	size_t track_count, track_cap;
	struct ws_map open; /* uuid -> open slice + 1 */
	struct open_slice *slices;
	size_t slice_count, slice_cap;
	uint32_t free_slice;
	struct ws_map flow_time, flow_track;
	struct ws_map pids; /* tid -> pid, from the process tree */
	struct ws_text args, texts;
	uint64_t packets, others, lost;
	bool clock_told;
	struct ws_map woken, wakers; /* tid -> when it was made runnable, and by which thread */
	struct {
		uint64_t start, woken;
		uint32_t thread, waker;
	} cpu[1024];
};

uint32_t ws_perfetto_thread(struct perfetto *perfetto, uint64_t pid, uint64_t tid);
/* Keep a text as long as the import lasts: its place and length as sequences have them; 0 when
 * there are too many. */
uint64_t ws_perfetto_keep(struct perfetto *perfetto, const void *s, size_t n);
/* A moment of a clock on the session's; `clock` 0 is the sequence's default. */
uint64_t ws_perfetto_time(struct perfetto *perfetto, struct sequence *sequence, uint64_t stamp,
			  uint32_t clock);

/* perfetto_sched.c: a bundle of ftrace's events of one core; what was still running at the end. */
void ws_perfetto_ftrace(struct perfetto *perfetto, const struct field *bundle);
void ws_perfetto_sched_end(struct perfetto *perfetto);

/* perfetto_samples.c: functions, mappings, frames and stacks of a sequence; a sample taken at `at`.
 */
void ws_perfetto_code(struct perfetto *perfetto, struct sequence *sequence,
		      const struct field *interned_data);
void ws_perfetto_sample(struct perfetto *perfetto, struct sequence *sequence,
			const struct field *sample, uint64_t at);

#endif
