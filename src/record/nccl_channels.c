/*
 * nccl_channels.c - see nccl_channels.h.
 *
 * A channel's kernel writes when it began and ended, by the GPU's global timer, into a slot for the
 * piece of work that has this number in the channel. NCCL's thread counts the pieces as well, but
 * not always alike: it may read the slots of earlier pieces, so that the times are those of another
 * operation, before the kernel of this one.
 *
 * The timer may be off by any time, and drifts. A kernel ends when the last of its channels does:
 * the difference of the two is by how much the timer is off, or more where the times are of an
 * earlier operation. So the least difference, for a while, is that of the timer, and kernels with a
 * larger one are not believed.
 */
#include "record/nccl_channels.h"

#include <stdlib.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "record/sink.h"

enum {
	OPERATIONS = 1 << 14,	/* the last ones are known */
	WAITING_MOST = 1 << 15, /* rows; the oldest are then written as they are */
	DEVICES = 16,
	NOISE = 200000, /* ns by which differences of true times may differ, at most */
	DRIFT = 50	/* ns a ms by which the timer may drift */
};
#define OFF_AT_MOST INT64_C(100000000) /* ns, of a timer that is not held against kernels */

struct operation {
	uint64_t number, start, end; /* of the kernel; start: 0 where it is not known */
	uint32_t device;
	int64_t off; /* kernel's end less that of its last channel, INT64_MAX: not known yet */
};

/* By how much a GPU's timer is off. */
struct timer {
	bool known;
	int64_t off;
	uint64_t at; /* when that was so, session ns */
};

struct channels {
	struct operation operations[OPERATIONS]; /* a ring */
	uint64_t operation_count;		 /* so far */
	struct ws_map places;			 /* number -> place in the ring + 1 */
	struct timer timers[DEVICES];
	struct ws_row_nccl_event *waiting;
	size_t count, capacity;
};

static void free_channels(void *memory)
{
	struct channels *channels = memory;

	if (channels) {
		free(channels->waiting);
		ws_map_free(&channels->places);
	}
	free(channels);
}

static struct channels *get_channels(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NCCL_CHANNELS, free_channels);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct channels));
	return *slot;
}

/* The operation with this number, made if it is new. */
static struct operation *find_operation(struct channels *channels, uint64_t number)
{
	uint64_t place = ws_map_get(&channels->places, number, NULL);
	struct operation *operation;

	if (place)
		return &channels->operations[place - 1];
	place = channels->operation_count++ % OPERATIONS;
	operation = &channels->operations[place];
	if (channels->operation_count > OPERATIONS)
		ws_map_remove(&channels->places, operation->number, NULL);
	*operation = (struct operation){.number = number, .off = INT64_MAX};
	ws_map_set(&channels->places, number, place + 1);
	return operation;
}

void ws_note_nccl_kernel(struct ws_stream *stream, const struct ws_row_collective *row)
{
	struct operation *operation = find_operation(get_channels(stream), row->event);

	operation->start = row->start;
	operation->end = row->end;
	operation->device = row->device;
}

/* Session time of the GPU's global timer, which counts like CLOCK_REALTIME. */
static uint64_t convert_gpu_time(const struct ws_stream *stream, uint64_t time)
{
	const struct ws_clock *clock = stream->clock;
	const struct ws_reading *reading = &clock->readings[clock->n - 1];

	return reading->raw + (time - reading->realtime);
}

static bool knows_times(const struct ws_row_nccl_event *row)
{
	return row->gpu_start != WS_NO_U64;
}

static uint64_t make_kernel_key(const struct operation *operation)
{
	return operation->start * DEVICES + operation->device % DEVICES;
}

static int64_t measure_difference(const struct ws_stream *stream, const struct operation *operation,
				  const struct ws_row_nccl_event *row)
{
	return (int64_t)(operation->end - convert_gpu_time(stream, row->gpu_end));
}

/* Compare the ends of kernels with those of their channels. A kernel may do several operations. */
static void measure_differences(struct ws_stream *stream, struct channels *channels)
{
	struct ws_map kernels = {0};

	for (size_t i = 0; i < channels->count; i++) {
		struct ws_row_nccl_event *row = &channels->waiting[i];
		const struct operation *operation = find_operation(channels, row->operation);
		int64_t off, least;
		bool known;

		if (!operation->start || !knows_times(row))
			continue;
		off = measure_difference(stream, operation, row);
		least = (int64_t)ws_map_get(&kernels, make_kernel_key(operation), &known);
		if (!known || off < least)
			ws_map_set(&kernels, make_kernel_key(operation), (uint64_t)off);
	}
	for (size_t i = 0; i < channels->count; i++) {
		struct operation *operation =
			find_operation(channels, channels->waiting[i].operation);
		bool known;
		int64_t off = (int64_t)ws_map_get(&kernels, make_kernel_key(operation), &known);

		if (known && operation->start)
			operation->off = ws_min(operation->off, off);
	}
	ws_map_free(&kernels);
}

/* The program says what the GPU's times are: they may be anything. */
static int64_t subtract(int64_t left, int64_t right)
{
	return (int64_t)((uint64_t)left - (uint64_t)right);
}

/* The least differences are those of the timers; a difference from before counts less with time. */
static void set_timers(struct channels *channels)
{
	for (size_t i = 0; i < channels->count; i++) {
		const struct operation *operation =
			find_operation(channels, channels->waiting[i].operation);
		struct timer *timer = &channels->timers[operation->device % DEVICES];
		int64_t since;

		if (!operation->start || operation->off == INT64_MAX)
			continue;
		since = (int64_t)(operation->end - timer->at);
		if (timer->known &&
		    subtract(operation->off, timer->off) > ws_max(since, 0) / 1000000 * DRIFT)
			continue;
		*timer = (struct timer){true, operation->off, operation->end};
	}
}

/* Choose the times of the row: those of the GPU if they can be true, else those of the kernel. */
static void choose_times(struct ws_stream *stream, struct channels *channels,
			 struct ws_row_nccl_event *row)
{
	const struct operation *operation = find_operation(channels, row->operation);
	const struct timer *timer = &channels->timers[operation->device % DEVICES];
	uint64_t start, end;

	if (subtract(operation->off, timer->off) > NOISE) {
		ws_stream_diagnostic(stream, WS_INFO, "nccl",
				     "NCCL has told times of channels that are too early for the "
				     "kernel of their operation: those of an earlier one. They are "
				     "left out (gpuStart is null), and the channel has the times "
				     "of the kernel.");
		row->gpu_start = row->gpu_end = WS_NO_U64;
		row->start = operation->start;
		row->end = operation->end;
		return;
	}
	start = convert_gpu_time(stream, row->gpu_start) + (uint64_t)timer->off;
	end = start + (row->gpu_end - row->gpu_start);
	row->end = ws_max(ws_min(end, operation->end), operation->start);
	row->start = ws_min(ws_max(start, operation->start), row->end);
}

/* Without a kernel, the times of NCCL's thread stay if those of the GPU are far from them. */
static void take_gpu_times(struct ws_stream *stream, struct ws_row_nccl_event *row)
{
	uint64_t start = convert_gpu_time(stream, row->gpu_start),
		 end = start + (row->gpu_end - row->gpu_start);

	if ((int64_t)(end - row->end) > OFF_AT_MOST || (int64_t)(row->end - end) > OFF_AT_MOST)
		return;
	row->start = start;
	row->end = end;
}

static void write_row(struct ws_stream *stream, struct channels *channels,
		      struct ws_row_nccl_event *row)
{
	if (knows_times(row) && find_operation(channels, row->operation)->start)
		choose_times(stream, channels, row);
	else if (knows_times(row))
		take_gpu_times(stream, row);
	if (ws_stream_wants(stream, row->start, row->end))
		ws_writer_add(stream->writer, WS_TABLE_nccl_event, row);
}

/* Write the rows whose kernels are known, and the first `most` of the others; keep the rest. */
static void write_rows(struct ws_stream *stream, struct channels *channels, size_t most)
{
	size_t kept = 0;

	measure_differences(stream, channels);
	set_timers(channels);
	for (size_t i = 0; i < channels->count; i++) {
		struct ws_row_nccl_event *row = &channels->waiting[i];

		if (find_operation(channels, row->operation)->start || i - kept < most)
			write_row(stream, channels, row);
		else
			channels->waiting[kept++] = *row;
	}
	channels->count = kept;
}

void ws_keep_nccl_channel(struct ws_stream *stream, const struct ws_row_nccl_event *row)
{
	struct channels *channels = get_channels(stream);

	if (channels->count == WAITING_MOST)
		write_rows(stream, channels, WAITING_MOST / 2);
	ws_grow(channels->waiting, channels->capacity, channels->count + 1);
	channels->waiting[channels->count++] = *row;
}

void ws_put_nccl_channels(struct ws_stream *stream, bool all)
{
	struct channels *channels =
		*ws_proc_slot(stream->proc, WS_SLOT_NCCL_CHANNELS, free_channels);
	size_t most = 0;

	if (all)
		most = WAITING_MOST;
	if (channels)
		write_rows(stream, channels, most);
}
