/*
 * perfetto_samples.c - CPU samples in Perfetto's traces (PerfSample), whose stacks, frames,
 * functions and files are numbered by the sequence they are in.
 *
 * These items may refer to others of the same packet in any order, so the items of a packet are
 * read kind by kind.
 */
#include "import/perfetto.h"

enum { MOST_PATH = 4096, MOST_FRAMES = 4096 };

static void set_interned(struct sequence *sequence, int kind, uint64_t iid, uint64_t value)
{
	if (sequence->interned[kind].count < WS_IMPORT_LIMIT)
		ws_map_set(&sequence->interned[kind], iid, value);
}

static void intern_string(struct perfetto *perfetto, struct sequence *sequence, int kind,
			  const struct field *field)
{
	struct field text = ws_pb_find_field(field, 2);
	uint64_t value;

	if (text.wire != 2)
		return;
	if (kind == PATHS)
		value = ws_perfetto_keep_text(perfetto, text.bytes, text.length);
	else
		value = ws_importer_add_string(perfetto->importer, (const char *)text.bytes,
					       text.length);
	set_interned(sequence, kind, ws_pb_find_field(field, 1).value, value);
}

/* A mapping gives the path of its file in parts. */
static void intern_mapping(struct perfetto *perfetto, struct sequence *sequence,
			   const struct field *mapping)
{
	struct message message = ws_pb_open_message(mapping);
	struct ws_text path = {0};
	struct field member;
	uint64_t kept = 0;
	int parts = 0;

	while (ws_pb_next_field(&message, &member)) {
		if (member.number != 7 || member.wire != 0 || path.len > MOST_PATH)
			continue;
		kept = ws_map_get(&sequence->interned[PATHS], member.value, NULL);
		if (parts++)
			ws_text_puts(&path, "/");
		if (kept)
			ws_text_add(&path, perfetto->texts.text + (kept >> 24), kept & 0xffffff);
	}
	if (parts > 1)
		kept = ws_perfetto_keep_text(perfetto, path.text, path.len);
	set_interned(sequence, MAPPINGS, ws_pb_find_field(mapping, 1).value, kept);
	ws_text_free(&path);
}

static void intern_frame(struct perfetto *perfetto, struct sequence *sequence,
			 const struct field *field)
{
	uint32_t function = (uint32_t)ws_map_get(&sequence->interned[FUNCTIONS],
						 ws_pb_find_field(field, 2).value, NULL);
	uint64_t kept =
		ws_map_get(&sequence->interned[MAPPINGS], ws_pb_find_field(field, 3).value, NULL);
	size_t length = kept & 0xffffff;
	uint8_t method = WS_UNWIND_UNKNOWN;
	uint32_t module = 0;
	bool kernel = false;

	if (length) {
		const char *path = perfetto->texts.text + (kept >> 24);

		module = ws_importer_add_string(perfetto->importer, path, length);
		kernel = path[0] == '[' && !(length >= 5 && !memcmp(path, "[vdso", 5));
	}
	if (kernel)
		method = WS_UNWIND_KERNEL;
	set_interned(sequence, FRAMES, ws_pb_find_field(field, 1).value,
		     ws_importer_intern_frame(perfetto->importer, function, module,
					      ws_pb_find_field(field, 4).value, kernel, method));
}

/* Frames are listed from the outermost one inwards. */
static void intern_stack(struct perfetto *perfetto, struct sequence *sequence,
			 const struct field *list)
{
	struct message message = ws_pb_open_message(list);
	struct field member;
	uint32_t stack = 0;
	int count = 0;

	while (count < MOST_FRAMES && ws_pb_next_field(&message, &member)) {
		struct message packed = ws_pb_open_message(&member);
		uint64_t iid = member.value;
		bool more =
			member.number == 2 &&
			(member.wire == 0 || ws_pb_read_varint(&packed.bytes, packed.end, &iid));

		for (; more && count < MOST_FRAMES; count++) {
			stack = ws_importer_intern_stack(
				perfetto->importer, stack,
				(uint32_t)ws_map_get(&sequence->interned[FRAMES], iid, NULL));
			more = member.wire == 2 &&
			       ws_pb_read_varint(&packed.bytes, packed.end, &iid);
		}
	}
	set_interned(sequence, STACKS, ws_pb_find_field(list, 1).value, stack);
}

void ws_perfetto_read_code(struct perfetto *perfetto, struct sequence *sequence,
			   const struct field *interned_data)
{
	static const struct {
		uint32_t field;
		int kind;
		void (*take)(struct perfetto *perfetto, struct sequence *sequence,
			     const struct field *entry);
	} kinds[] = {{5, FUNCTIONS, NULL},
		     {17, PATHS, NULL},
		     {19, 0, intern_mapping},
		     {6, 0, intern_frame},
		     {7, 0, intern_stack}};
	uint32_t present = 0;
	struct message message = ws_pb_open_message(interned_data);
	struct field member;

	while (ws_pb_next_field(&message, &member))
		if (member.wire == 2 && member.number < 32)
			present |= UINT32_C(1) << member.number;
	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		if (!(present >> kinds[i].field & 1))
			continue;
		message = ws_pb_open_message(interned_data);
		while (ws_pb_next_field(&message, &member)) {
			if (member.number != kinds[i].field || member.wire != 2)
				continue;
			if (kinds[i].take)
				kinds[i].take(perfetto, sequence, &member);
			else
				intern_string(perfetto, sequence, kinds[i].kind, &member);
		}
	}
}

void ws_perfetto_put_sample(struct perfetto *perfetto, struct sequence *sequence,
			    const struct field *sample, uint64_t at)
{
	struct field cpu = ws_pb_find_field(sample, 1), stack = ws_pb_find_field(sample, 4);
	uint64_t pid = ws_pb_find_field(sample, 2).value, tid = ws_pb_find_field(sample, 3).value;
	uint32_t id = 0, thread;
	struct ws_row_sample *row;

	if (stack.number)
		id = (uint32_t)ws_map_get(&sequence->interned[STACKS], stack.value, NULL);
	if (!tid)
		tid = pid;
	thread = ws_perfetto_find_thread(perfetto, pid, tid);
	row = ws_importer_add_row(perfetto->importer, WS_TABLE_sample);

	*row = (struct ws_row_sample){.start = at,
				      .thread = thread,
				      .cpu = WS_NO_U32,
				      .state = WS_STATE_RUNNING,
				      .weight = 1};
	if (cpu.number && cpu.value < UINT32_MAX)
		row->cpu = (uint32_t)cpu.value;
	if (ws_pb_find_field(sample, 5).value == 1)
		row->flags = WS_SAMPLE_KERNEL;
	if (id && id <= perfetto->importer->stack_count) {
		row->frame = perfetto->importer->stack_rows[id - 1].frame;
		row->callers = perfetto->importer->stack_rows[id - 1].parent;
	}
	ws_importer_include_time(perfetto->importer, at);
}
