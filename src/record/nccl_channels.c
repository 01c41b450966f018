/*
 * nccl_channels.c - see nccl_channels.h.
 *
 * A channel's kernel writes when it began and ended, by the GPU's global timer, into a slot for the
 * piece of work that has this number in the channel. NCCL's thread counts the pieces as well, but
 * not those for which it has nothing to tell (a rank's message to itself in an all-to-all). From
 * then on it reads the slots of earlier pieces: the times are those of another operation, before
 * the kernel of this one. What lies outside the kernel is therefore not believed.
 */
#include "record/nccl_channels.h"

#include <stdlib.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/sink.h"

enum {
	OPERATIONS = 1 << 14,	  /* the last ones are known */
	WAITING_MOST = 1 << 15,	  /* rows; the oldest are then written as they are */
	CLOCKS_DIFFER = 200000,	  /* ns, between the GPU's timer and CUPTI's times, at most */
	LAUNCHES_DIFFER = 1000000 /* ns, where only the time of the launch is known */
};
#define OWN_CLOCK                                                                      \
	UINT64_C(10000000000) /* ns: a timer that is off by this counts something else \
			       */

struct operation {
	uint64_t number, launch, start, end; /* launch and start: 0 where they are not known */
};

struct channels {
	struct operation operations[OPERATIONS]; /* by number */
	struct ws_row_nccl_event *waiting;
	size_t count, capacity;
};

static void free_channels(void *memory)
{
	struct channels *channels = memory;

	if (channels)
		free(channels->waiting);
	free(channels);
}

static struct channels *get_channels(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NCCL_CHANNELS, free_channels);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct channels));
	return *slot;
}

static struct operation *note_operation(struct ws_stream *stream, uint64_t number)
{
	struct operation *operation = &get_channels(stream)->operations[number % OPERATIONS];

	if (operation->number != number)
		*operation = (struct operation){.number = number};
	return operation;
}

static struct operation find_operation(const struct channels *channels, uint64_t number)
{
	struct operation found = channels->operations[number % OPERATIONS];

	if (found.number != number)
		found = (struct operation){.number = number};
	return found;
}

void ws_note_nccl_launch(struct ws_stream *stream, uint64_t operation, uint64_t time)
{
	note_operation(stream, operation)->launch = time;
}

void ws_note_nccl_kernel(struct ws_stream *stream, uint64_t operation, uint64_t start, uint64_t end)
{
	struct operation *noted = note_operation(stream, operation);

	noted->start = start;
	noted->end = end;
}

/* Session time of the GPU's global timer, which counts like CLOCK_REALTIME. */
static uint64_t convert_gpu_time(const struct ws_stream *stream, uint64_t time)
{
	const struct ws_clock *clock = stream->clock;
	const struct ws_reading *reading = &clock->readings[clock->n - 1];

	return reading->raw + (time - reading->realtime);
}

/* Move the span, by what clocks may differ at most, into the kernel. False where that is not
 * enough. */
static bool fit_into_kernel(const struct operation *kernel, uint64_t *start, uint64_t *end)
{
	uint64_t length = *end - *start;

	if (*start + CLOCKS_DIFFER < kernel->start || *end > kernel->end + CLOCKS_DIFFER)
		return false;
	if (*end > kernel->end)
		*start = kernel->end - ws_min(length, kernel->end - kernel->start);
	*start = ws_max(*start, kernel->start);
	*end = ws_min(*start + length, kernel->end);
	return true;
}

/* Choose the times of the row: those of the GPU if they can be true, else those of the kernel, else
 * those at which NCCL's thread saw the channel. */
static void choose_times(struct ws_stream *stream, const struct operation *operation,
			 struct ws_row_nccl_event *row)
{
	uint64_t start, end;
	bool own_clock, fits;

	if (row->gpu_start == WS_NO_U64)
		return;
	start = convert_gpu_time(stream, row->gpu_start);
	end = start + (row->gpu_end - row->gpu_start);
	own_clock = end > row->end + OWN_CLOCK || end + OWN_CLOCK < row->end;
	if (own_clock)
		return;
	if (operation->start)
		fits = fit_into_kernel(operation, &start, &end);
	else
		fits = start + LAUNCHES_DIFFER >= operation->launch &&
		       end <= row->end + LAUNCHES_DIFFER;
	if (fits) {
		row->start = start;
		row->end = end;
		return;
	}
	ws_stream_diagnostic(stream, WS_INFO, "nccl",
			     "NCCL has told times of channels that lie outside the kernel of their "
			     "operation: those of an earlier one. They are left out (gpuStart is "
			     "null), and the channel has the times of the kernel.");
	row->gpu_start = row->gpu_end = WS_NO_U64;
	if (operation->start) {
		row->start = operation->start;
		row->end = operation->end;
	}
}

static void write_row(struct ws_stream *stream, const struct operation *operation,
		      struct ws_row_nccl_event *row)
{
	choose_times(stream, operation, row);
	if (ws_stream_wants(stream, row->start, row->end))
		ws_writer_add(stream->writer, WS_TABLE_nccl_event, row);
}

/* Write the rows whose kernels are known, and the first `most` of the others; keep the rest. */
static void write_rows(struct ws_stream *stream, struct channels *channels, size_t most)
{
	size_t kept = 0;

	for (size_t i = 0; i < channels->count; i++) {
		struct ws_row_nccl_event *row = &channels->waiting[i];
		struct operation operation = find_operation(channels, row->operation);

		if (operation.start || i - kept < most)
			write_row(stream, &operation, row);
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
