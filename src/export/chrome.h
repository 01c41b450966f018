/* chrome.h - what the files that write Chrome's trace events share. */
#ifndef WS_EXPORT_CHROME_H
#define WS_EXPORT_CHROME_H

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "export/formats.h"
#include "export/timeline.h"
#include "text/text.h"

struct ws_chrome_samples;

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
	struct ws_cell_context *export;
	FILE *file;
	struct ws_text text; /* events not written yet */
	bool first;	     /* nothing is written yet */
	struct ws_links links;
	struct gpu *gpus;
	size_t gpu_count, gpu_cap;
	struct ws_map gpu_at;	/* process << 32 | device -> place in gpus + 1 */
	struct ws_map taken;	/* process numbers in use */
	struct ws_map others;	/* globalPid -> number, of processes whose pid is that of one of
				   another file */
	bool several;		/* events of work name their process, since their row does not */
	struct ws_map rows;	/* (pid << 32 | tid) of GPU rows that have been named */
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

/* The real number that a column holds as bits. */
static inline double ws_chrome_read_real(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, 8);
	return d;
}

/* Append a string of the report, quoted, to `text`. */
void ws_chrome_put_string(struct chrome *chrome, struct ws_text *text, uint64_t id);
/* Append the comma before a member of an object, unless it is the first. */
void ws_chrome_put_comma(struct chrome *chrome);
/* Append an argument of an event. Values that stand for null make none. */
void ws_chrome_put_number(struct chrome *chrome, const char *name, uint64_t v);
void ws_chrome_put_u32(struct chrome *chrome, const char *name, uint64_t v);
void ws_chrome_put_u64(struct chrome *chrome, const char *name, uint64_t v);
void ws_chrome_put_real(struct chrome *chrome, const char *name, double v);
void ws_chrome_put_text(struct chrome *chrome, const char *name, uint64_t id);
/* Append the arguments that the kind of event declares. */
void ws_chrome_put_args(struct chrome *chrome, const struct ws_timeline_event *event);
/* Append the event's name, quoted. */
void ws_chrome_put_label(struct chrome *chrome, const struct ws_timeline_event *event);
/* The number that stands for a process: its pid, unless one of another file has it. */
int64_t ws_chrome_number_process(const struct chrome *chrome, const struct ws_process_info *info);

#endif
