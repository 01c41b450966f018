/*
 * perfetto_samples.c - CPU samples in Perfetto's traces (PerfSample), whose stacks, frames,
 * functions and files are numbered by the sequence they are in.
 *
 * What has a number may refer to others of the same packet whatever their order, so each packet's
 * are taken kind by kind.
 */
#include "import/perfetto.h"

enum { MOST_PATH = 4096, MOST_FRAMES = 4096 };

static void number(struct sequence *sequence, int kind, uint64_t iid, uint64_t value)
{
	if (sequence->interned[kind].n < WS_INTO_MOST)
		ws_map_set(&sequence->interned[kind], iid, value);
}

static void take_string(struct perfetto *perfetto, struct sequence *sequence, int kind,
			const struct field *field)
{
	struct field text = ws_pb_find(field, 2);

	if (text.wire == 2)
		number(sequence, kind, ws_pb_find(field, 1).value,
		       kind == PATHS
			       ? ws_perfetto_keep(perfetto, text.bytes, text.n)
			       : ws_into_string(perfetto->into, (const char *)text.bytes, text.n));
}

/* A file is told by the parts of its path. */
static void take_mapping(struct perfetto *perfetto, struct sequence *sequence,
			 const struct field *field_f)
{
	struct message message = ws_pb_inside(field_f);
	struct ws_text path = {0};
	struct field field_g;
	uint64_t kept = 0;
	int parts = 0;

	while (ws_pb_next(&message, &field_g)) {
		if (field_g.number != 7 || field_g.wire != 0 || path.len > MOST_PATH)
			continue;
		kept = ws_map_get(&sequence->interned[PATHS], field_g.value, NULL);
		if (parts++)
			ws_text_puts(&path, "/");
		if (kept)
			ws_text_add(&path, perfetto->texts.text + (kept >> 24), kept & 0xffffff);
	}
	if (parts > 1)
		kept = ws_perfetto_keep(perfetto, path.text, path.len);
	number(sequence, MAPPINGS, ws_pb_find(field_f, 1).value, kept);
	ws_text_free(&path);
}

static void take_frame(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *field)
{
	uint32_t function = (uint32_t)ws_map_get(&sequence->interned[FUNCTIONS],
						 ws_pb_find(field, 2).value, NULL);
	uint64_t kept = ws_map_get(&sequence->interned[MAPPINGS], ws_pb_find(field, 3).value, NULL);
	size_t n = kept & 0xffffff;
	const char *path = n ? perfetto->texts.text + (kept >> 24) : "";
	uint32_t module = n ? ws_into_string(perfetto->into, path, n) : 0;
	bool kernel = n && path[0] == '[' && !(n >= 5 && !memcmp(path, "[vdso", 5));

	number(sequence, FRAMES, ws_pb_find(field, 1).value,
	       ws_into_frame(perfetto->into, function, module, ws_pb_find(field, 4).value, kernel,
			     kernel ? WS_UNWIND_KERNEL : WS_UNWIND_UNKNOWN));
}

/* Frames are listed from the outermost. */
static void take_stack(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *field_f)
{
	struct message message = ws_pb_inside(field_f);
	struct field field_g;
	uint32_t stack = 0;
	int n = 0;

	while (n < MOST_FRAMES && ws_pb_next(&message, &field_g)) {
		struct message packed = ws_pb_inside(&field_g);
		uint64_t iid = field_g.value;
		bool more = field_g.number == 2 &&
			    (field_g.wire == 0 || ws_pb_varint(&packed.bytes, packed.end, &iid));

		for (; more && n < MOST_FRAMES; n++) {
			stack = ws_into_stack(perfetto->into, stack,
					      (uint32_t)ws_map_get(&sequence->interned[FRAMES], iid,
								   NULL));
			more = field_g.wire == 2 && ws_pb_varint(&packed.bytes, packed.end, &iid);
		}
	}
	number(sequence, STACKS, ws_pb_find(field_f, 1).value, stack);
}

void ws_perfetto_code(struct perfetto *perfetto, struct sequence *sequence,
		      const struct field *interned_data)
{
	static const struct {
		uint32_t field;
		int kind;
		void (*take)(struct perfetto *perfetto, struct sequence *sequence,
			     const struct field *field_f);
	} kinds[] = {{5, FUNCTIONS, NULL},
		     {17, PATHS, NULL},
		     {19, 0, take_mapping},
		     {6, 0, take_frame},
		     {7, 0, take_stack}};
	uint32_t have = 0;
	struct message message = ws_pb_inside(interned_data);
	struct field f;

	while (ws_pb_next(&message, &f))
		if (f.wire == 2 && f.number < 32)
			have |= UINT32_C(1) << f.number;
	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		if (!(have >> kinds[i].field & 1))
			continue;
		message = ws_pb_inside(interned_data);
		while (ws_pb_next(&message, &f)) {
			if (f.number != kinds[i].field || f.wire != 2)
				continue;
			if (kinds[i].take)
				kinds[i].take(perfetto, sequence, &f);
			else
				take_string(perfetto, sequence, kinds[i].kind, &f);
		}
	}
}

void ws_perfetto_sample(struct perfetto *perfetto, struct sequence *sequence,
			const struct field *sample, uint64_t at)
{
	struct field cpu = ws_pb_find(sample, 1), stack = ws_pb_find(sample, 4);
	uint64_t pid = ws_pb_find(sample, 2).value, tid = ws_pb_find(sample, 3).value;
	uint32_t id = stack.number
			      ? (uint32_t)ws_map_get(&sequence->interned[STACKS], stack.value, NULL)
			      : 0;
	uint32_t thread = ws_perfetto_thread(perfetto, pid, tid ? tid : pid);
	struct ws_row_sample *row = ws_into_row(perfetto->into, WS_TABLE_sample);

	*row = (struct ws_row_sample){
		.start = at,
		.thread = thread,
		.cpu = cpu.number && cpu.value < UINT32_MAX ? (uint32_t)cpu.value : WS_NO_U32,
		.state = WS_STATE_RUNNING,
		.weight = 1,
		.flags = ws_pb_find(sample, 5).value == 1 ? WS_SAMPLE_KERNEL : 0};
	if (id && id <= perfetto->into->stack_count) {
		row->frame = perfetto->into->stack[id - 1].frame;
		row->callers = perfetto->into->stack[id - 1].parent;
	}
	ws_into_time(perfetto->into, at);
}
