/* perfetto_clocks.c - the clocks of Perfetto's traces: snapshots relate them to the session's. */
#include <inttypes.h>

#include "base/choose.h"
#include "import/formats.h"
#include "import/perfetto.h"

enum { CLOCK_REAL = 1, CLOCK_MONO = 3, CLOCK_BOOT = 6 };

static struct clock *find_clock(struct perfetto *perfetto, struct sequence *sequence, uint32_t id)
{
	if (sequence && id >= 64 && id < 128) {
		for (int i = 0; i < sequence->clock_count; i++)
			if (sequence->clocks[i].id == id)
				return &sequence->clocks[i];
	} else {
		for (int i = 0; i < perfetto->clock_count; i++)
			if (perfetto->clocks[i].id == id)
				return &perfetto->clocks[i];
	}
	return NULL;
}

/* The clock with an id, made if it is new. Clocks 64 to 127 are the sequence's own. NULL when there
 * are too many. */
static struct clock *find_or_add_clock(struct perfetto *perfetto, struct sequence *sequence,
				       uint32_t id)
{
	struct clock *clock = find_clock(perfetto, sequence, id);

	if (clock)
		return clock;
	if (id >= 64 && id < 128) {
		if (sequence->clock_count == SEQUENCE_CLOCKS)
			return NULL;
		return &sequence->clocks[sequence->clock_count++];
	}
	if (perfetto->clock_count == TRACE_CLOCKS)
		return NULL;
	return &perfetto->clocks[perfetto->clock_count++];
}

/*
 * How well a clock of a snapshot serves to find the session time. The session's clock, the one
 * since boot, is best; then any clock that an earlier snapshot related to it. A trace without the
 * clock since boot uses the monotonic clock of its first snapshot, or else the first clock there.
 */
static int rank_clock(uint64_t id, bool known)
{
	if (id == CLOCK_BOOT)
		return 4;
	if (known)
		return 3;
	return id == CLOCK_MONO ? 2 : 1;
}

/* Relate the clocks of a snapshot to the session's, which shows `now`. */
static void set_clocks(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *snapshot, uint64_t now)
{
	struct message message = ws_pb_open_message(snapshot);
	struct field field;

	while (ws_pb_next_field(&message, &field)) {
		uint32_t id = (uint32_t)ws_pb_find_field(&field, 1).value;
		struct clock *clock;

		if (field.number != 1 || field.wire != 2 || id == CLOCK_BOOT)
			continue;
		clock = find_or_add_clock(perfetto, sequence, id);
		if (!clock)
			continue;
		*clock = (struct clock){.id = id,
					.incremental = ws_pb_find_field(&field, 3).value,
					.value = ws_pb_find_field(&field, 2).value};
		clock->unit = ws_max(ws_pb_find_field(&field, 4).value, 1);
		clock->offset = (int64_t)(now - clock->value * clock->unit);
	}
}

void ws_perfetto_read_clocks(struct perfetto *perfetto, struct sequence *sequence,
			     const struct field *snapshot)
{
	struct message message = ws_pb_open_message(snapshot);
	uint64_t real = 0, now = 0;
	int rank = 0;
	struct field field;

	while (ws_pb_next_field(&message, &field)) {
		uint64_t id, at, unit;
		const struct clock *known;
		int better;

		if (field.number != 1 || field.wire != 2)
			continue;
		id = ws_pb_find_field(&field, 1).value, at = ws_pb_find_field(&field, 2).value,
		unit = ws_pb_find_field(&field, 4).value;
		known = find_clock(perfetto, sequence, (uint32_t)id);
		better = rank_clock(id, known);
		if (id == CLOCK_REAL)
			real = at;
		if (better <= rank)
			continue;
		rank = better;
		unit = ws_max(unit, 1);
		if (known)
			now = at * known->unit + (uint64_t)known->offset;
		else
			now = at * unit;
	}
	set_clocks(perfetto, sequence, snapshot, now);
	if (rank && real && !perfetto->clock_written) {
		struct ws_row_clock *row = ws_importer_add_row(perfetto->importer, WS_TABLE_clock);

		*row = (struct ws_row_clock){.raw = now, .realtime = real};
		perfetto->clock_written = true;
	}
}

uint64_t ws_perfetto_convert_time(struct perfetto *perfetto, struct sequence *sequence,
				  uint64_t stamp, uint32_t clock)
{
	struct clock *known;

	if (!clock && sequence)
		clock = sequence->default_clock;
	if (!clock || clock == CLOCK_BOOT)
		return stamp;
	known = find_clock(perfetto, sequence, clock);
	if (!known) {
		ws_importer_add_note(perfetto->importer,
				     "Times of clock %" PRIu32
				     ", which no snapshot relates to the others, stay as they are.",
				     clock);
		return stamp;
	}
	if (!known->incremental)
		return stamp * known->unit + (uint64_t)known->offset;
	known->value += stamp;
	return known->value * known->unit + (uint64_t)known->offset;
}
