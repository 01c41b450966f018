/*
 * python_frames.bpf.c - reads Python's frames in the kernel, at the moment of a sample.
 *
 * clang compiles this for BPF; scripts/embed-bpf.py turns it into arrays of instructions, into
 * which python_bpf.c puts maps and constants when it loads them. There are three programs. `entry`
 * is attached to the event: it looks the thread up. `walk` reads the thread's frames and writes
 * them out; `tell` writes the code objects among them that are met for the first time. `walk` and
 * `tell` exist once for each layout of an interpreter, whose offsets are constants in their
 * instructions, and are reached by tail calls, because an event keeps its one program for good and
 * interpreters turn up later.
 *
 * A code object has an id made of its address, the addresses of its parts, its first line, and the
 * length and hash of its name, all read at the sample. So an object at the address of an earlier
 * one has another id, and is described again.
 *
 * Reading never faults a page in. The walk ends at what cannot be read, and the record says so.
 * Nothing that is read from the target is trusted here or by the reader (python_decode.c).
 *
 * The verifier of Linux 5.5 must be able to follow the programs. Values that differ from step to
 * step therefore go through memory (`forget_memory`): the verifier takes a value from memory as any
 * number and does not try each one. A value that is checked is kept in the register in which it was
 * checked (`keep`), and the compiler does not unroll loops.
 */
#include "record/bpf/python_frames.h"

#define PROGRAM(name) __attribute__((section("program/" #name), used)) int name(void *context)
#define INLINE static inline __attribute__((always_inline))
#define forget_memory() asm volatile("" ::: "memory")
#define keep(value) asm volatile("" : "+r"(value))

typedef struct ws_py_bpf_scratch Scratch;

/* Undefined symbols: the loader replaces their addresses by descriptors of maps, and by constants.
 * They are weak so that the compiler does not assume that an address is not 0. */
#define X(name) extern const char map_##name[] __attribute__((weak));
WS_PY_BPF_MAPS(X)
#undef X
#define X(name) extern const char const_##name[] __attribute__((weak));
WS_PY_BPF_CONSTANTS(X)
#undef X
#define CONSTANT(name) ((uint64_t)const_##name)

/* ---- the kernel's helpers, by their numbers in linux/bpf.h ---- */

struct pid_in_namespace {
	uint32_t tid, pid; /* the kernel's names are pid and tgid */
};

static void *(*const look_up)(const void *map, const void *key) = (void *)1;
static long (*const update)(const void *map, const void *key, const void *value,
			    uint64_t flags) = (void *)2;
static long (*const tail_call)(void *context, const void *programs, uint64_t index) = (void *)12;
static uint64_t (*const get_pid_tgid)(void) = (void *)14;
static long (*const write_out)(void *context, const void *map, uint64_t flags, const void *bytes,
			       uint64_t size) = (void *)25;
static long (*const read_user)(void *to, uint64_t size, uint64_t from) = (void *)112;
static long (*const get_pid_in_namespace)(uint64_t device, uint64_t inode,
					  struct pid_in_namespace *out,
					  uint64_t size) = (void *)120;
#define THIS_CPU 0xffffffffu /* BPF_F_CURRENT_CPU */

/* This CPU's part of `map`. */
INLINE void *this_cpu(const void *map)
{
	uint32_t key = 0;

	return look_up(map, &key);
}

/* ---- the program on the event ---- */

/* The calling thread's entry; NULL when it has none. */
INLINE struct ws_py_bpf_thread *find_thread(void)
{
	struct pid_in_namespace pid;
	uint32_t tid;

	if (CONSTANT(ns_inode)) {
		if (get_pid_in_namespace(CONSTANT(ns_device), CONSTANT(ns_inode), &pid,
					 sizeof(pid)))
			return NULL;
		tid = pid.tid;
	} else {
		tid = (uint32_t)get_pid_tgid();
	}
	return look_up(map_threads, &tid);
}

PROGRAM(entry)
{
	struct ws_py_bpf_thread *thread = find_thread();
	Scratch *scratch;

	if (!thread)
		return 1;
	if (CONSTANT(every) > 1) {
		if (thread->skip) {
			thread->skip--;
			return 0;
		}
		thread->skip = (uint32_t)CONSTANT(every) - 1;
	}
	scratch = this_cpu(map_scratch);
	if (!scratch)
		return 1;
	/* Only memory survives a tail call. */
	scratch->out.cookie = thread->cookie;
	scratch->mark = thread->mark;
	scratch->beacon = thread->beacon;
	scratch->state = thread->state;
	scratch->at = 0;
	tail_call(context, map_programs, thread->walk);
	return 1;
}

/* ---- identifying code objects ---- */

struct key {		  /* what distinguishes a code object from another one */
	uint64_t name[2]; /* beginning of its name */
	uint8_t part[WS_PY_KEY_BYTES] __attribute__((aligned(8)));
};

INLINE uint64_t load_key(const struct key *key, uint64_t offset)
{
	return *(const uint64_t *)(key->part + offset);
}

INLINE uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

INLINE uint64_t make_id(const struct key *key, uint64_t cookie, uint64_t code)
{
	uint64_t id = cookie;

	id = mix(id, *(const uint32_t *)(key->part + CONSTANT(key_first_line)));
	id = mix(id, code);
	id = mix(id, load_key(key, CONSTANT(key_name)));
	id = mix(id, load_key(key, CONSTANT(key_file)));
	id = mix(id, load_key(key, CONSTANT(key_table)));
	id = mix(id, key->name[0]);
	id = mix(id, key->name[1]);
	return id | 2; /* 0 and 1 mean something else */
}

/* Put the code object on the list of those to be described, unless it has been described or there
 * is no room. */
INLINE void note_unknown(Scratch *scratch, uint64_t code)
{
	uint64_t slot = scratch->id & (WS_PY_BPF_KNOWN - 1), count, noted;

	/* A table of our own nearly always saves the lookup. */
	keep(slot);
	if (scratch->known[slot] == scratch->id)
		return;
	if (look_up(map_codes, &scratch->id)) {
		slot = scratch->id & (WS_PY_BPF_KNOWN - 1);
		keep(slot);
		scratch->known[slot] = scratch->id;
		return;
	}
	slot = scratch->id & (WS_PY_BPF_KNOWN - 1);
	keep(slot);
	noted = scratch->id + scratch->sample;
	if (scratch->noted[slot] == noted)
		return;
	scratch->noted[slot] = noted;
	count = scratch->unknown_n;
	keep(count);
	if (count >= WS_PY_BPF_UNKNOWN)
		return;
	scratch->unknown[count].id = scratch->id;
	scratch->unknown[count].code = code;
	scratch->unknown_n = (uint32_t)count + 1;
}

/* Set scratch->id to the id of the code object; 1 when it cannot be read. */
INLINE void identify(Scratch *scratch, uint64_t code)
{
	struct key key;

	if (scratch->last_code == code) { /* it calls itself */
		scratch->id = scratch->last_id;
		return;
	}
	scratch->last_code = code;
	scratch->id = 1;
	if (!read_user(key.part, CONSTANT(key_bytes), code + CONSTANT(code_from))) {
		if (read_user(key.name, sizeof(key.name),
			      load_key(&key, CONSTANT(key_name)) + CONSTANT(text_length))) {
			/* Its page is not in memory: use the name's address alone. */
			key.name[0] = 0;
			key.name[1] = 0;
		}
		scratch->id = make_id(&key, scratch->out.cookie, code);
		note_unknown(scratch, code);
	}
	forget_memory();
	scratch->last_id = scratch->id;
}

/* ---- walking the frames ---- */

enum walk { WALK_ON, WALK_DONE, WALK_CUT, WALK_LEAVE };

/* An address of the kernel, where no frame begins. */
#define NOWHERE (UINT64_C(1) << 63)

/* Set *at to the pointer that is stored at `from`. */
INLINE enum walk follow(uint64_t *at, uint64_t from)
{
	uint64_t pointer;

	if (read_user(&pointer, sizeof(pointer), from))
		return WALK_CUT;
	*at = pointer;
	return pointer ? WALK_ON : WALK_DONE;
}

/* Set *at to the thread state that the beacon names; WALK_LEAVE when the beacon is another
 * process's. Without a beacon, the recorder has said which state to use. */
INLINE enum walk read_beacon(Scratch *scratch, uint64_t *at)
{
	struct ws_python_beacon beacon;

	scratch->out.blind = !scratch->beacon;
	if (!scratch->beacon) {
		scratch->out.hold = 0;
		scratch->out.wait = 0;
		*at = scratch->state;
		return WALK_ON;
	}
	if (read_user(&beacon, sizeof(beacon), scratch->beacon) || beacon.cookie != scratch->mark)
		return WALK_LEAVE;
	scratch->out.hold = beacon.hold_start;
	scratch->out.wait = beacon.wait_start;
	*at = beacon.state;
	return WALK_ON;
}

/* The first call for a sample: set the state for the start of the walk, and *at to the first
 * frame. */
INLINE enum walk begin_walk(Scratch *scratch, uint64_t *at)
{
	enum walk walk = read_beacon(scratch, at);

	if (walk)
		return walk;
	scratch->last_code = 0;
	scratch->last_id = 0;
	scratch->unknown_n = 0;
	scratch->told = 0;
	scratch->window_at = NOWHERE;
	scratch->sample++;
	scratch->out.kind = WS_PY_KERNEL_FRAMES;
	scratch->out.count = 0;
	scratch->out.truncated = 0;
	if (!*at)
		return WALK_DONE;
	walk = follow(at, *at + CONSTANT(thread_frame));
	if (!walk && CONSTANT(cframes))
		walk = follow(at, *at + CONSTANT(cframe_frame));
	return walk;
}

/* Read a window that ends with the part of the frame at `at`, and begins no earlier than the
 * frame's page. Returns where in it the frame begins; beyond window_room when it cannot be read. */
INLINE uint64_t fill_window(Scratch *scratch, uint64_t at)
{
	uint64_t end = at + CONSTANT(frame_from) + CONSTANT(frame_bytes);
	uint64_t from = end - WS_PY_BPF_WINDOW, page = at & ~UINT64_C(4095), size;

	if (from < page)
		from = page;
	size = end - from;
	keep(size);
	if (size > WS_PY_BPF_WINDOW)
		size = WS_PY_BPF_WINDOW; /* never happens, but the verifier needs it */
	scratch->window_at = from;
	scratch->window_last = at - from;
	if (read_user(scratch->window, size, from)) {
		scratch->window_at = NOWHERE;
		return WS_PY_BPF_WINDOW;
	}
	forget_memory();
	return scratch->window_last;
}

/*
 * The part that we read of the frame at `at`; NULL when it cannot be read. From 3.11 on, frames are
 * contiguous with callers below, so part of a frame's page is read with it. Frame objects can be
 * anywhere, and each is read by itself, into `object`.
 */
INLINE const uint8_t *find_frame(Scratch *scratch, uint64_t at, uint8_t *object)
{
	uint64_t offset;

	if (CONSTANT(objects)) {
		if (read_user(object, CONSTANT(frame_bytes), at + CONSTANT(frame_from)))
			return NULL;
		return object;
	}
	offset = at - scratch->window_at;
	if (offset > scratch->window_last || offset > CONSTANT(window_room))
		offset = fill_window(scratch, at);
	keep(offset);
	if (offset > CONSTANT(window_room))
		return NULL;
	return scratch->window + offset;
}

/* The instruction of the frame in the window, in the form that the record has. */
INLINE int32_t find_instruction(const uint8_t *frame, uint64_t code)
{
	uint64_t offset;

	if (CONSTANT(objects))
		return *(const int32_t *)(frame + CONSTANT(frame_at));
	offset = *(const uint64_t *)(frame + CONSTANT(frame_at)) - code - CONSTANT(code_start);
	return offset < INT32_MAX ? (int32_t)offset : -1;
}

/* One step: put the frame at *at into the record and set *at to its caller. */
INLINE enum walk take_step(Scratch *scratch, uint64_t *at)
{
	uint8_t object[WS_PY_BPF_FRAME] __attribute__((aligned(8)));
	const uint8_t *frame;
	uint64_t count, code;
	uint32_t owner = 0;
	struct ws_py_step *step;

	if (scratch->out.count >= WS_PY_KERNEL_STEPS)
		return WALK_CUT;
	frame = find_frame(scratch, *at, object);
	if (!frame)
		return WALK_CUT;
	code = *(const uint64_t *)(frame + CONSTANT(frame_code)) &
	       ~UINT64_C(7); /* tags, from 3.14 */
	if (!CONSTANT(objects))
		owner = frame[CONSTANT(frame_owner)];
	scratch->id = 0;
	if (code && !(CONSTANT(shims) && owner >= WS_PY_OWNER_INTERPRETER))
		identify(scratch, code);
	forget_memory();
	count = scratch->out.count;
	keep(count);
	if (count >= WS_PY_KERNEL_STEPS) /* checked again for the verifier */
		return WALK_CUT;
	step = &scratch->step[count];
	step->id = scratch->id;
	step->at = find_instruction(frame, code);
	step->owner = owner;
	scratch->out.count = (uint32_t)count + 1;
	*at = *(const uint64_t *)(frame + CONSTANT(frame_previous));
	forget_memory();
	return *at ? WALK_ON : WALK_DONE;
}

PROGRAM(walk)
{
	Scratch *scratch = this_cpu(map_scratch);
	enum walk walk = WALK_ON;
	uint64_t at, count;

	if (!scratch)
		return 1;
	at = scratch->at;
	if (!at)
		walk = begin_walk(scratch, &at);
	if (walk == WALK_LEAVE)
		return 1;
#pragma clang loop unroll(disable)
	for (uint64_t i = 0; i < WS_PY_BPF_STEPS && walk == WALK_ON; i++)
		walk = take_step(scratch, &at);
	if (walk == WALK_ON) {
		scratch->at = at;
		tail_call(context, map_programs, CONSTANT(self));
		walk = WALK_CUT;
	}
	if (walk == WALK_CUT)
		scratch->out.truncated = 1;
	forget_memory();
	count = scratch->out.count;
	keep(count);
	if (count > WS_PY_KERNEL_STEPS)
		return 1;
	write_out(context, map_output, THIS_CPU, &scratch->out,
		  sizeof(scratch->out) + count * sizeof(struct ws_py_step));
	if (scratch->unknown_n)
		tail_call(context, map_programs, CONSTANT(self) + 1);
	return 1;
}

/* ---- describing code objects ---- */

/* Read `room` bytes at `from`; fewer when they would reach into a page that is not in memory.
 * Returns how many. */
INLINE uint32_t read_text(void *to, uint64_t from, uint64_t room)
{
	uint64_t size = 4096 - (from & 4095);

	if (!read_user(to, room, from))
		return (uint32_t)room;
	keep(size);
	if (size > room)
		size = room;
	return read_user(to, size, from) ? 0 : (uint32_t)size;
}

/* Read the line table, starting with its length. */
INLINE void read_table(struct ws_py_kernel_code *out)
{
	uint64_t size;

	out->table = *(const uint64_t *)(out->head + CONSTANT(code_table)) + CONSTANT(bytes_size);
	out->table_bytes = 0;
	if (read_user(&size, sizeof(size), out->table))
		return;
	keep(size);
	if (size > WS_PY_TOLD_TABLE - CONSTANT(table_before))
		size = WS_PY_TOLD_TABLE - CONSTANT(table_before);
	size += CONSTANT(table_before);
	keep(size);
	if (!read_user(out->table_piece, size, out->table))
		out->table_bytes = (uint32_t)size;
}

/* Read all pieces of the code object at out->code. */
INLINE void read_code(struct ws_py_kernel_code *out)
{
	out->head_bytes = read_text(out->head, out->code, WS_PY_TOLD_HEAD);
	out->name = *(const uint64_t *)(out->head + CONSTANT(told_name));
	out->file = *(const uint64_t *)(out->head + CONSTANT(code_file));
	out->key_name =
		*(const uint64_t *)(out->head + CONSTANT(code_name)) + CONSTANT(text_length);
	if (read_user(out->key_text, sizeof(out->key_text), out->key_name))
		out->key_name = 0;
	out->name_bytes = read_text(out->name_piece, out->name, WS_PY_TOLD_NAME);
	out->file_bytes = read_text(out->file_piece, out->file, WS_PY_TOLD_FILE);
	read_table(out);
}

/* Write out the next code object of the list; if there was room for it, it is known from now on. */
INLINE void tell_code(void *context, Scratch *scratch, struct ws_py_kernel_code *out,
		      uint64_t number)
{
	uint64_t size;
	uint32_t value = 1;

	scratch->id = scratch->unknown[number].id;
	out->id = scratch->id;
	out->code = scratch->unknown[number].code;
	out->cookie = scratch->out.cookie;
	out->kind = WS_PY_KERNEL_CODE;
	if (look_up(map_codes, &scratch->id))
		return; /* another CPU has described it by now, or it is on the list twice */
	read_code(out);
	forget_memory();
	size = out->table_bytes;
	keep(size);
	if (size > WS_PY_TOLD_TABLE)
		size = 0;
	if (!write_out(context, map_output, THIS_CPU, out, sizeof(*out) + size))
		update(map_codes, &scratch->id, &value, 0);
}

PROGRAM(tell)
{
	Scratch *scratch = this_cpu(map_scratch);
	struct ws_py_kernel_code *out = this_cpu(map_text);

	if (!scratch || !out)
		return 1;
#pragma clang loop unroll(disable)
	for (uint64_t i = 0; i < WS_PY_BPF_CODES; i++) {
		uint64_t number = scratch->told;

		keep(number);
		if (number >= scratch->unknown_n || number >= WS_PY_BPF_UNKNOWN)
			return 1;
		scratch->told = (uint32_t)number + 1;
		tell_code(context, scratch, out, number);
		forget_memory();
	}
	tail_call(context, map_programs, CONSTANT(self));
	return 1;
}
