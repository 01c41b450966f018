/*
 * spots.h - the instructions of a measured kernel with what was counted and sampled of each, and
 * the same summed up by source line.
 */
#ifndef WS_KERNEL_SPOTS_H
#define WS_KERNEL_SPOTS_H

#include "store/store.h"

enum ws_spot_count {
#define WS_SPOT(identifier, metric, label, title) WS_SPOT_##identifier,
#include "kernel/spots.def"
#undef WS_SPOT
	WS_SPOT_COUNTS
};

extern const struct ws_spot_metric {
	const char *metric, *label, *title;
} ws_spot_metrics[WS_SPOT_COUNTS];

enum { WS_SPOT_STALLS = 32 };

/* An instruction, or a line. Texts live as long as the report; "" where not known. */
struct ws_kernel_spot {
	uint32_t function_id; /* of the text: equal ones are of one function */
	const char *function, *sass, *file, *inlined, *callers;
	uint64_t cubin, pc;
	uint32_t line, ptx; /* 0: not known */
	double counts[WS_SPOT_COUNTS];
	double stalls[WS_SPOT_STALLS], not_issued[WS_SPOT_STALLS]; /* samples by reason */
	size_t instructions;					   /* of a line */
};

struct ws_kernel_spots {
	struct ws_kernel_spot *spots; /* instructions by function and place, lines by samples */
	size_t count, capacity;
	const char *reasons[WS_SPOT_STALLS]; /* as metrics have them: long_scoreboard */
	size_t reason_count;
	struct ws_kernel_spot total;
};

/* The instructions of a result, by its number, with those that were not executed. The caller frees
 * them by ws_kernel_free_spots. */
void ws_kernel_load_spots(const struct ws_report *report, uint32_t result,
			  struct ws_kernel_spots *spots);
/* Sum them up by line; instructions whose line is not known stay as they are. */
void ws_kernel_sum_lines(const struct ws_kernel_spots *spots, struct ws_kernel_spots *lines);
void ws_kernel_free_spots(struct ws_kernel_spots *spots);

/* How often its warps were sampled: all of them, or those that were not issued. */
double ws_spot_not_issued(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot);
/* The commonest reason that its warps wait for, and of how many samples; NULL when there are none.
 * Being selected is no reason to wait. */
const char *ws_spot_main_stall(const struct ws_kernel_spots *spots,
			       const struct ws_kernel_spot *spot, double *samples);
/* What was moved or run in vain: sectors, wavefronts, lanes. */
double ws_spot_excess_sectors(const struct ws_kernel_spot *spot);
double ws_spot_excess_wavefronts(const struct ws_kernel_spot *spot);
double ws_spot_idle_lanes(const struct ws_kernel_spot *spot);
double ws_spot_local_sectors(const struct ws_kernel_spot *spot);
double ws_spot_samples(const struct ws_kernel_spot *spot);
/* Why none of these instructions of a function has a text, as a sentence that lives as long as the
 * report; NULL where one has. */
const char *ws_spot_why_no_text(const struct ws_report *report, const struct ws_kernel_spot *spots,
				size_t count);
/* The name of a file without its folders. */
const char *ws_spot_file_name(const char *path);

#endif
