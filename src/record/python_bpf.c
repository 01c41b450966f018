/*
 * python_bpf.c - reads Python's frames in the kernel, at the moment of a sample: a program attached
 * to the event that samples everything, so that one interrupt serves both.
 *
 * A signal would cost a second interrupt, which on a virtual machine is the dearest part of a
 * sample. The program looks the thread up by its number, checks by a cookie that the memory it is
 * about to read is still that of the process that announced it, walks the interpreter's frames and
 * writes them into the buffer into which the kernel puts its own part of the sample next. Threads
 * that are not in the table cost one look into it.
 *
 * There is a program for each layout of an interpreter, with the offsets in its instructions,
 * reached by a tail call: an event takes one program for good, and interpreters turn up later. A
 * second one for each layout tells code objects. A code object goes by a number made of its
 * address, the addresses of its parts, its first line, and length and hash of its name, all read at
 * the sample: so one that lies where another did has another number, and is told anew.
 *
 * Reading never faults a page in. What cannot be read ends the walk, and that is told. What a
 * program writes is checked by whoever reads it (python_told.c): it comes from the target's memory.
 */
#include "record/python_bpf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/bpf.h"

#define THREADS 16384u
#define CODES 32768u
#define LAYOUTS 16u
#define KNOWN 1024u  /* codes that a CPU remembers to have been told: a power of two */
#define WINDOW 1024u /* bytes of the thread's stack of frames that are read at once */
#define UNKNOWN 48u  /* codes told at a sample at most: the others at the next */
/* A program does so much and calls itself again: the kernel tries every way through a program when
 * it is loaded, at some 250 us a step, and allows 33 calls. */
#define STEPS_A_CALL 24u
#define CODES_A_CALL 8u
_Static_assert(2 + WS_PY_TOLD_STEPS / STEPS_A_CALL + UNKNOWN / CODES_A_CALL < 33, "tail calls");
#define FIRST_PID_NS 0xeffffffcu /* inode of the namespace that all others lie in */

struct watched {		       /* of the map of threads */
	uint64_t cookie, mark, beacon; /* of the process; that the beacon must have */
	uint32_t walk, skip; /* index of its program in the table of programs; samples until the
				next with frames */
};

struct unknown {
	uint64_t id, code;
};

struct scratch {		  /* one for each CPU */
	uint32_t unknown_n, told; /* told: how many of those have been */
	uint64_t at;		  /* the walk goes on here; 0: it begins */
	/* Here rather than on the program's stack, so that they are any number for the verifier,
	 * which would try each else. */
	uint64_t last_code, last_id, id;
	uint64_t beacon, mark;
	uint64_t window_at,
		window_last; /* what `window` holds, and where in it the last frame begins */
	uint64_t known[KNOWN];
	uint64_t noted[KNOWN], sample; /* id + number of the sample at which it was put on the list
					  of unknown ones */
	uint8_t window[WINDOW];
	struct unknown unknown[UNKNOWN];
	struct ws_py_told_frames out;
	struct ws_py_step step[WS_PY_TOLD_STEPS];
};

_Static_assert(sizeof(struct scratch) <= 32768, "the kernel gives no more for a CPU at once");

struct ws_py_bpf {
	int threads, codes, scratch, text, output, programs, entry;
	uint32_t frequency, every; /* every: one of so many samples has frames, and is the only one
				      that is kept */
	struct ws_py_layout layout[LAYOUTS];
	uint32_t layouts;
};

/* The program's stack, from its end. */
enum {
	AT_KEY = -8,
	AT_POINTER = -16,
	AT_BEACON = -64,
	AT_IDS = -80, /* pid and tid of the namespace; then how often a loop was run */
	AT_COUNT = AT_IDS,
	AT_FRAME = -208,
	AT_CODE = -336,
	AT_TEXT = -352,
};
#define FRAME_BYTES 128u

enum { R0, R1, R2, R3, R4, R5, CTX, MEM, STEP, AT, END };

/* ---- pieces of programs ---- */

/* r0 = the value of the key at `base` + `key` */
static void look_up(struct ws_bpf *b, int map, int base, int key)
{
	ws_bpf_map(b, R1, map);
	ws_bpf_address(b, R2, base, key);
	ws_bpf_call(b, BPF_FUNC_map_lookup_elem);
}

/* r0 = the calling thread's entry; the program is left with 1 when it has none */
static void find_thread(struct ws_bpf *b, const struct ws_py_bpf *k, uint64_t ns_device,
			uint64_t ns_inode)
{
	int found;

	if (ns_inode) {
		ws_bpf_set(b, R1, ns_device);
		ws_bpf_set(b, R2, ns_inode);
		ws_bpf_address(b, R3, END, AT_IDS);
		ws_bpf_op(b, BPF_MOV, R4, 8);
		ws_bpf_call(b, BPF_FUNC_get_ns_current_pid_tgid);
		found = ws_bpf_jump(b, BPF_JEQ, R0, 0);
		ws_bpf_return(b, 1);
		ws_bpf_land(b, found);
		ws_bpf_load(b, WS_BPF_32, R0, END, AT_IDS);
	} else {
		ws_bpf_call(b, BPF_FUNC_get_current_pid_tgid);
	}
	ws_bpf_store(b, WS_BPF_32, END, AT_KEY, R0);
	look_up(b, k->threads, END, AT_KEY);
	found = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_return(b, 1);
	ws_bpf_land(b, found);
}

/* reg = this CPU's part of `map` */
static void this_cpu(struct ws_bpf *b, int map, int reg)
{
	int found;

	ws_bpf_store_value(b, WS_BPF_32, END, AT_KEY, 0);
	look_up(b, map, END, AT_KEY);
	found = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_return(b, 1);
	ws_bpf_land(b, found);
	ws_bpf_op_reg(b, BPF_MOV, reg, R0);
}

/* r0 = 0 when `bytes` of what r3 points at in the target were read to the place `to` of the stack
 */
static void read_to_stack(struct ws_bpf *b, int to, uint32_t bytes)
{
	ws_bpf_address(b, R1, END, to);
	ws_bpf_op(b, BPF_MOV, R2, (int32_t)bytes);
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
}

static void tail_call(struct ws_bpf *b, int programs)
{
	ws_bpf_op_reg(b, BPF_MOV, R1, CTX);
	ws_bpf_map(b, R2, programs);
	ws_bpf_call(b, BPF_FUNC_tail_call); /* comes back only when there is no such program */
}

/* Write r5 bytes at r4 into the buffer of this CPU. */
static void write_out(struct ws_bpf *b, const struct ws_py_bpf *k)
{
	ws_bpf_op_reg(b, BPF_MOV, R1, CTX);
	ws_bpf_map(b, R2, k->output);
	ws_bpf_set(b, R3, BPF_F_CURRENT_CPU);
	ws_bpf_call(b, BPF_FUNC_perf_event_output);
}

/* ---- the program on the event ---- */

static uint64_t pid_namespace(uint64_t *device)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NS)
		return 0;
	*device = st.st_dev;
	return st.st_ino;
}

static void make_entry(struct ws_bpf *b, const struct ws_py_bpf *k)
{
	uint64_t device = 0, inode = pid_namespace(&device);
	int now;

	ws_bpf_op_reg(b, BPF_MOV, CTX, R1);
	find_thread(b, k, device, inode);
	if (k->every > 1) { /* r0 points at the thread's entry */
		ws_bpf_load(b, WS_BPF_32, R1, R0, offsetof(struct watched, skip));
		now = ws_bpf_jump(b, BPF_JEQ, R1, 0);
		ws_bpf_op(b, BPF_SUB, R1, 1);
		ws_bpf_store(b, WS_BPF_32, R0, offsetof(struct watched, skip), R1);
		ws_bpf_return(b, 0);
		ws_bpf_land(b, now);
		ws_bpf_store_value(b, WS_BPF_32, R0, offsetof(struct watched, skip),
				   (int32_t)k->every - 1);
	}
	/* What the walk needs of it goes by the scratch memory: a tail call keeps no registers. */
	ws_bpf_op_reg(b, BPF_MOV, STEP, R0);
	this_cpu(b, k->scratch, MEM);
	ws_bpf_load(b, WS_BPF_64, R1, STEP, offsetof(struct watched, cookie));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, out.cookie), R1);
	ws_bpf_load(b, WS_BPF_64, R1, STEP, offsetof(struct watched, mark));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, mark), R1);
	ws_bpf_load(b, WS_BPF_64, R1, STEP, offsetof(struct watched, beacon));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, beacon), R1);
	ws_bpf_op(b, BPF_MOV, R1, 0);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, at), R1);
	ws_bpf_load(b, WS_BPF_32, R3, STEP, offsetof(struct watched, walk));
	tail_call(b, k->programs);
	ws_bpf_return(b, 1);
}

/* ---- walking the frames ---- */

/* The beacon to AT_BEACON; the program is left with 1 when it is not there, or another's. AT = the
 * thread state. */
static void read_beacon(struct ws_bpf *b)
{
	int good, same;

	ws_bpf_load(b, WS_BPF_64, R3, MEM, offsetof(struct scratch, beacon));
	read_to_stack(b, AT_BEACON, sizeof(struct ws_python_beacon));
	good = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_return(b, 1);
	ws_bpf_land(b, good);
	ws_bpf_load(b, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, cookie));
	ws_bpf_load(b, WS_BPF_64, R2, MEM, offsetof(struct scratch, mark));
	same = ws_bpf_jump_reg(b, BPF_JEQ, R1, R2);
	ws_bpf_return(b, 1);
	ws_bpf_land(b, same);
	ws_bpf_load(b, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, hold_start));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, out.hold), R1);
	ws_bpf_load(b, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, wait_start));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, out.wait), R1);
	ws_bpf_load(b, WS_BPF_64, AT, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, state));
}

struct leaves { /* jumps out of the walk */
	int done[4], cut[12];
	int done_n, cut_n;
};

/* AT = the first frame, from the thread state in AT. */
static void first_frame(struct ws_bpf *b, const struct ws_py_layout *l, struct leaves *x)
{
	x->done[x->done_n++] = ws_bpf_jump(b, BPF_JEQ, AT, 0);
	ws_bpf_address(b, R3, AT, (int)l->thread_frame);
	read_to_stack(b, AT_POINTER, 8);
	x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_load(b, WS_BPF_64, AT, END, AT_POINTER);
	x->done[x->done_n++] = ws_bpf_jump(b, BPF_JEQ, AT, 0);
	if (l->chain != WS_PY_CFRAMES)
		return;
	ws_bpf_address(b, R3, AT, (int)l->cframe_frame);
	read_to_stack(b, AT_POINTER, 8);
	x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_load(b, WS_BPF_64, AT, END, AT_POINTER);
	x->done[x->done_n++] = ws_bpf_jump(b, BPF_JEQ, AT, 0);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

struct span { /* bytes of an object that are read at once */
	uint32_t from, bytes;
};

static struct span frame_span(const struct ws_py_layout *l)
{
	uint32_t at = l->chain == WS_PY_OBJECTS ? 4 : 8;
	uint32_t from = least(least(l->frame_previous, l->frame_code), l->frame_at);
	uint32_t to = most(most(l->frame_previous + 8, l->frame_code + 8), l->frame_at + at);

	if (l->chain != WS_PY_OBJECTS) {
		from = least(from, l->frame_owner);
		to = most(to, l->frame_owner + 1);
	}
	return (struct span){from & ~7u, WS_ALIGN_UP(to, 8u) - (from & ~7u)};
}

static struct span code_span(const struct ws_py_layout *l)
{
	uint32_t from =
		least(least(l->code_first_line, l->code_name), least(l->code_file, l->code_table));
	uint32_t to = most(most(l->code_first_line + 4, l->code_name + 8),
			   most(l->code_file + 8, l->code_table + 8));

	return (struct span){from & ~7u, to - (from & ~7u)};
}

/* Where `field` of an object is, of which `s` was read to `at`. */
static int plus(int at, struct span s, uint32_t field)
{
	return at + (int)field - (int)s.from;
}

/* r0 = (r0 ^ r1) mixed; r2 is a large odd number */
static void mix(struct ws_bpf *b)
{
	ws_bpf_op_reg(b, BPF_XOR, R0, R1);
	ws_bpf_op_reg(b, BPF_MUL, R0, R2);
	ws_bpf_op_reg(b, BPF_MOV, R1, R0);
	ws_bpf_op(b, BPF_RSH, R1, 29);
	ws_bpf_op_reg(b, BPF_XOR, R0, R1);
}

/* r0 = the number of the code object at AT_POINTER, whose key is at AT_CODE and the beginning of
 * whose name at AT_TEXT. */
static void number_of(struct ws_bpf *b, const struct ws_py_layout *l, struct span s)
{
	int fields[] = {AT_POINTER,
			plus(AT_CODE, s, l->code_name),
			plus(AT_CODE, s, l->code_file),
			plus(AT_CODE, s, l->code_table),
			AT_TEXT,
			AT_TEXT + 8};

	ws_bpf_load(b, WS_BPF_64, R0, MEM, offsetof(struct scratch, out.cookie));
	ws_bpf_set(b, R2, 0x9e3779b97f4a7c15u);
	ws_bpf_load(b, WS_BPF_32, R1, END, plus(AT_CODE, s, l->code_first_line));
	mix(b);
	for (size_t i = 0; i < WS_COUNT(fields); i++) {
		ws_bpf_load(b, WS_BPF_64, R1, END, fields[i]);
		mix(b);
	}
	ws_bpf_op(b, BPF_OR, R0, 2); /* 0 and 1 mean something else */
}

/* Put the code {id, AT_POINTER} on the list of those to be told, when it is not known and there is
 * room. */
static void note_unknown(struct ws_bpf *b, const struct ws_py_bpf *k)
{
	int seen, known, noted, full;

	/* A table of our own spares the lookup nearly always. R0 is the number. */
	ws_bpf_op_reg(b, BPF_MOV, R2, R0);
	ws_bpf_op(b, BPF_AND, R2, KNOWN - 1);
	ws_bpf_op(b, BPF_LSH, R2, 3);
	ws_bpf_op_reg(b, BPF_ADD, R2, MEM);
	ws_bpf_load(b, WS_BPF_64, R1, R2, offsetof(struct scratch, known));
	seen = ws_bpf_jump_reg(b, BPF_JEQ, R1, R0);
	ws_bpf_store(b, WS_BPF_64, END, AT_KEY, R2);
	look_up(b, k->codes, MEM, offsetof(struct scratch, id));
	full = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_load(b, WS_BPF_64, R2, END, AT_KEY);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(b, WS_BPF_64, R2, offsetof(struct scratch, known), R1);
	known = ws_bpf_jump(b, BPF_JA, 0, 0);
	ws_bpf_land(b, full);
	ws_bpf_load(b, WS_BPF_64, R3, END, AT_KEY);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_load(b, WS_BPF_64, R2, MEM, offsetof(struct scratch, sample));
	ws_bpf_op_reg(b, BPF_ADD, R1, R2);
	ws_bpf_load(b, WS_BPF_64, R2, R3, offsetof(struct scratch, noted));
	noted = ws_bpf_jump_reg(b, BPF_JEQ, R1, R2);
	ws_bpf_store(b, WS_BPF_64, R3, offsetof(struct scratch, noted), R1);
	ws_bpf_load(b, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	full = ws_bpf_jump(b, BPF_JGE, R1, UNKNOWN);
	ws_bpf_op_reg(b, BPF_MOV, R2, R1);
	ws_bpf_op(b, BPF_LSH, R2, 4);
	ws_bpf_op_reg(b, BPF_ADD, R2, MEM);
	ws_bpf_load(b, WS_BPF_64, R3, MEM, offsetof(struct scratch, id));
	ws_bpf_store(b, WS_BPF_64, R2,
		     offsetof(struct scratch, unknown) + offsetof(struct unknown, id), R3);
	ws_bpf_load(b, WS_BPF_64, R3, END, AT_POINTER);
	ws_bpf_store(b, WS_BPF_64, R2,
		     offsetof(struct scratch, unknown) + offsetof(struct unknown, code), R3);
	ws_bpf_op(b, BPF_ADD, R1, 1);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, unknown_n), R1);
	ws_bpf_land(b, seen);
	ws_bpf_land(b, noted);
	ws_bpf_land(b, known);
	ws_bpf_land(b, full);
}

/* id = the number of the code at AT_POINTER. */
static void identify(struct ws_bpf *b, const struct ws_py_bpf *k, const struct ws_py_layout *l)
{
	struct span s = code_span(l);
	int other, bad, named, end;

	ws_bpf_load(b, WS_BPF_64, R3, END, AT_POINTER);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, last_code));
	other = ws_bpf_jump_reg(b, BPF_JNE, R1, R3);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, last_id)); /* it calls itself */
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	end = ws_bpf_jump(b, BPF_JA, 0, 0);
	ws_bpf_land(b, other);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, last_code), R3);
	ws_bpf_op(b, BPF_ADD, R3, (int32_t)s.from);
	read_to_stack(b, AT_CODE, s.bytes);
	ws_bpf_op(b, BPF_MOV, R1, 1);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	bad = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_load(b, WS_BPF_64, R3, END, plus(AT_CODE, s, l->code_name));
	ws_bpf_op(b, BPF_ADD, R3, (int32_t)l->text_length);
	read_to_stack(b, AT_TEXT, 16);
	named = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_op(b, BPF_MOV, R1, 0); /* its page is not there: the name's address has to do */
	ws_bpf_store(b, WS_BPF_64, END, AT_TEXT, R1);
	ws_bpf_store(b, WS_BPF_64, END, AT_TEXT + 8, R1);
	ws_bpf_land(b, named);
	number_of(b, l, s);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, id), R0);
	note_unknown(b, k);
	ws_bpf_land(b, bad);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, last_id), R1);
	ws_bpf_land(b, end);
}

/* r1 = the instruction as the record has it. */
static void instruction(struct ws_bpf *b, const struct ws_py_layout *l, struct span f)
{
	int good;

	if (l->chain == WS_PY_OBJECTS) {
		ws_bpf_load(b, WS_BPF_32, R1, END, plus(AT_FRAME, f, l->frame_at));
		return;
	}
	ws_bpf_load(b, WS_BPF_64, R1, END, plus(AT_FRAME, f, l->frame_at));
	ws_bpf_load(b, WS_BPF_64, R2, END, AT_POINTER);
	ws_bpf_op_reg(b, BPF_SUB, R1, R2);
	ws_bpf_op(b, BPF_SUB, R1, (int32_t)l->code_start);
	good = ws_bpf_jump(b, BPF_JLT, R1, INT32_MAX);
	ws_bpf_op(b, BPF_MOV, R1, -1);
	ws_bpf_land(b, good);
}

/* No frame begins where the kernel has its addresses. */
static void empty_window(struct ws_bpf *b)
{
	ws_bpf_set(b, R2, UINT64_C(1) << 63);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, window_at), R2);
}

/*
 * From 3.11 on frames lie one behind the other, callers below: part of the page that a frame is in
 * is read with it. `f` of the frame at AT goes to AT_FRAME.
 */
static void from_window(struct ws_bpf *b, struct span f, struct leaves *x)
{
	int there, beyond, whole, back, room;

	ws_bpf_load(b, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_at));
	ws_bpf_op_reg(b, BPF_MOV, R1, AT);
	ws_bpf_op_reg(b, BPF_SUB, R1, R2);
	ws_bpf_load(b, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_last));
	beyond = ws_bpf_jump_reg(b, BPF_JGT, R1, R2);
	there = ws_bpf_jump(b, BPF_JLE, R1, (int32_t)(WINDOW - f.from - f.bytes));
	ws_bpf_land(b, beyond);
	/* R3: where it is to begin, so that it ends with the frame, and not before the frame's
	 * page. */
	ws_bpf_address(b, R3, AT, (int)(f.from + f.bytes) - (int)WINDOW);
	ws_bpf_op_reg(b, BPF_MOV, R1, AT);
	ws_bpf_op(b, BPF_AND, R1, ~4095);
	whole = ws_bpf_jump_reg(b, BPF_JGE, R3, R1);
	ws_bpf_op_reg(b, BPF_MOV, R3, R1);
	ws_bpf_land(b, whole);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, window_at), R3);
	ws_bpf_address(b, R2, AT, (int)(f.from + f.bytes));
	ws_bpf_op_reg(b, BPF_SUB, R2, R3);
	room = ws_bpf_jump(b, BPF_JLE, R2, WINDOW);
	ws_bpf_op(b, BPF_MOV, R2, WINDOW); /* never: for the verifier */
	ws_bpf_land(b, room);
	ws_bpf_address(b, R1, MEM, offsetof(struct scratch, window));
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
	ws_bpf_load(b, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_at));
	ws_bpf_op_reg(b, BPF_MOV, R1, AT);
	ws_bpf_op_reg(b, BPF_SUB, R1, R2);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, window_last), R1);
	back = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	empty_window(b);
	x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JA, 0, 0);
	ws_bpf_land(b, back);
	x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JGT, R1, (int32_t)(WINDOW - f.from - f.bytes));
	ws_bpf_land(b, there);
	ws_bpf_op_reg(b, BPF_ADD, R1, MEM);
	for (uint32_t i = 0; i < f.bytes; i += 8) {
		ws_bpf_load(b, WS_BPF_64, R2, R1,
			    (int)(offsetof(struct scratch, window) + f.from + i));
		ws_bpf_store(b, WS_BPF_64, END, AT_FRAME + (int)i, R2);
	}
}

/* One step: the frame at AT into the record, AT becomes its caller. */
static void one_step(struct ws_bpf *b, const struct ws_py_bpf *k, const struct ws_py_layout *l,
		     struct leaves *x)
{
	struct span f = frame_span(l);
	size_t out = offsetof(struct scratch, step);
	int shim = -1, none;

	if (l->chain == WS_PY_OBJECTS) {
		ws_bpf_address(b, R3, AT, (int)f.from);
		read_to_stack(b, AT_FRAME, f.bytes);
		x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JNE, R0, 0);
	} else {
		from_window(b, f, x);
	}
	ws_bpf_load(b, WS_BPF_64, R1, END, plus(AT_FRAME, f, l->frame_code));
	ws_bpf_op(b, BPF_AND, R1, ~7); /* the low bits are tags, from 3.14 on */
	ws_bpf_store(b, WS_BPF_64, END, AT_POINTER, R1);
	ws_bpf_op(b, BPF_MOV, R2, 0);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, id), R2);
	none = ws_bpf_jump(b, BPF_JEQ, R1, 0);
	if (l->version >= 0x030c) {
		ws_bpf_load(b, WS_BPF_8, R2, END, plus(AT_FRAME, f, l->frame_owner));
		shim = ws_bpf_jump(b, BPF_JGE, R2, WS_PY_OWNER_INTERPRETER);
	}
	identify(b, k, l);
	ws_bpf_land(b, none);
	if (shim >= 0)
		ws_bpf_land(b, shim);
	ws_bpf_op_reg(b, BPF_MOV, R3, STEP);
	ws_bpf_op(b, BPF_LSH, R3, 4);
	ws_bpf_op_reg(b, BPF_ADD, R3, MEM);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(b, WS_BPF_64, R3, (int)(out + offsetof(struct ws_py_step, id)), R1);
	instruction(b, l, f);
	ws_bpf_store(b, WS_BPF_32, R3, (int)(out + offsetof(struct ws_py_step, at)), R1);
	if (l->chain == WS_PY_OBJECTS)
		ws_bpf_op(b, BPF_MOV, R1, 0);
	else
		ws_bpf_load(b, WS_BPF_8, R1, END, plus(AT_FRAME, f, l->frame_owner));
	ws_bpf_store(b, WS_BPF_32, R3, (int)(out + offsetof(struct ws_py_step, owner)), R1);
	ws_bpf_load(b, WS_BPF_64, AT, END, plus(AT_FRAME, f, l->frame_previous));
}

/* The first call for a sample: everything as it is before the first frame. */
static void begin_walk(struct ws_bpf *b, const struct ws_py_layout *l, struct leaves *x)
{
	read_beacon(b);
	ws_bpf_op(b, BPF_MOV, R1, 0);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, last_code), R1);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, last_id), R1);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, unknown_n), R1);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, told), R1);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, out.truncated), R1);
	empty_window(b);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, out.count), R1);
	ws_bpf_store_value(b, WS_BPF_32, MEM, offsetof(struct scratch, out.kind),
			   WS_PY_TOLD_FRAMES);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, sample));
	ws_bpf_op(b, BPF_ADD, R1, 1);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, sample), R1);
	first_frame(b, l, x);
}

/* STEPS_A_CALL more frames, then the program calls itself. STEP is the number of frames. */
static void go_on(struct ws_bpf *b, const struct ws_py_bpf *k, const struct ws_py_layout *l,
		  uint32_t self, struct leaves *x)
{
	int loop, again;

	ws_bpf_store_value(b, WS_BPF_64, END, AT_COUNT, 0);
	loop = b->n;
	ws_bpf_load(b, WS_BPF_32, STEP, MEM, offsetof(struct scratch, out.count));
	x->cut[x->cut_n++] = ws_bpf_jump(b, BPF_JGE, STEP, WS_PY_TOLD_STEPS);
	one_step(b, k, l, x);
	ws_bpf_op(b, BPF_ADD, STEP, 1);
	/* Through memory, so that it is any number for the verifier, which would else try each. */
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, out.count), STEP);
	x->done[x->done_n++] = ws_bpf_jump(b, BPF_JEQ, AT, 0);
	ws_bpf_load(b, WS_BPF_64, R1, END, AT_COUNT);
	ws_bpf_op(b, BPF_ADD, R1, 1);
	ws_bpf_store(b, WS_BPF_64, END, AT_COUNT, R1);
	again = ws_bpf_jump(b, BPF_JGE, R1, STEPS_A_CALL);
	ws_bpf_back(b, loop);
	ws_bpf_land(b, again);
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, at), AT);
	ws_bpf_op(b, BPF_MOV, R3, (int32_t)self);
	tail_call(b, k->programs);
}

static void make_walk(struct ws_bpf *b, const struct ws_py_bpf *k, const struct ws_py_layout *l,
		      uint32_t self)
{
	struct leaves x = {.done_n = 0};
	int begun, fits, all_told;

	ws_bpf_op_reg(b, BPF_MOV, CTX, R1);
	this_cpu(b, k->scratch, MEM);
	ws_bpf_load(b, WS_BPF_64, AT, MEM, offsetof(struct scratch, at));
	begun = ws_bpf_jump(b, BPF_JNE, AT, 0);
	begin_walk(b, l, &x);
	ws_bpf_land(b, begun);
	go_on(b, k, l, self, &x);
	for (int i = 0; i < x.cut_n; i++)
		ws_bpf_land(b, x.cut[i]);
	ws_bpf_store_value(b, WS_BPF_32, MEM, offsetof(struct scratch, out.truncated), 1);
	for (int i = 0; i < x.done_n; i++)
		ws_bpf_land(b, x.done[i]);
	ws_bpf_load(b, WS_BPF_32, R5, MEM, offsetof(struct scratch, out.count));
	fits = ws_bpf_jump(b, BPF_JLE, R5, WS_PY_TOLD_STEPS);
	ws_bpf_return(b, 1);
	ws_bpf_land(b, fits);
	ws_bpf_op(b, BPF_LSH, R5, 4);
	ws_bpf_op(b, BPF_ADD, R5, sizeof(struct ws_py_told_frames));
	ws_bpf_address(b, R4, MEM, offsetof(struct scratch, out));
	write_out(b, k);
	ws_bpf_load(b, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	all_told = ws_bpf_jump(b, BPF_JEQ, R1, 0);
	ws_bpf_op(b, BPF_MOV, R3, (int32_t)self + 1);
	tail_call(b, k->programs);
	ws_bpf_land(b, all_told);
	ws_bpf_return(b, 1);
}

/* ---- telling code objects ---- */

/*
 * `room` bytes at the address in the record's field `where` into its `piece`; fewer when they would
 * reach into a page that is not there. The field `bytes` gets how many.
 */
static void read_text(struct ws_bpf *b, size_t where, size_t piece, size_t bytes, uint32_t room)
{
	int got, fits, got_less;

	ws_bpf_store_value(b, WS_BPF_32, AT, (int)bytes, (int32_t)room);
	ws_bpf_address(b, R1, AT, (int)piece);
	ws_bpf_op(b, BPF_MOV, R2, (int32_t)room);
	ws_bpf_load(b, WS_BPF_64, R3, AT, (int)where);
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_load(b, WS_BPF_64, R3, AT, (int)where);
	ws_bpf_op(b, BPF_MOV, R2, 4096);
	ws_bpf_op_reg(b, BPF_MOV, R1, R3);
	ws_bpf_op(b, BPF_AND, R1, 4095);
	ws_bpf_op_reg(b, BPF_SUB, R2, R1);
	fits = ws_bpf_jump(b, BPF_JLE, R2, (int32_t)room);
	ws_bpf_op(b, BPF_MOV, R2, (int32_t)room);
	ws_bpf_land(b, fits);
	ws_bpf_store(b, WS_BPF_32, AT, (int)bytes, R2);
	ws_bpf_address(b, R1, AT, (int)piece);
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
	got_less = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_store_value(b, WS_BPF_32, AT, (int)bytes, 0);
	ws_bpf_land(b, got_less);
	ws_bpf_land(b, got);
}

#define CODE(field) offsetof(struct ws_py_told_code, field)

/* The line table, from its length on. */
static void read_table(struct ws_bpf *b, const struct ws_py_layout *l)
{
	int none, fits, got;
	int32_t before = (int32_t)(l->bytes_data - l->bytes_size);

	ws_bpf_load(b, WS_BPF_64, R3, AT, CODE(head) + (int)l->code_table);
	ws_bpf_op(b, BPF_ADD, R3, (int32_t)l->bytes_size);
	ws_bpf_store(b, WS_BPF_64, AT, CODE(table), R3);
	ws_bpf_store_value(b, WS_BPF_32, AT, CODE(table_bytes), 0);
	read_to_stack(b, AT_POINTER, 8);
	none = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_load(b, WS_BPF_64, R2, END, AT_POINTER);
	fits = ws_bpf_jump(b, BPF_JLE, R2, (int32_t)WS_PY_TOLD_TABLE - before);
	ws_bpf_op(b, BPF_MOV, R2, (int32_t)WS_PY_TOLD_TABLE - before);
	ws_bpf_land(b, fits);
	ws_bpf_op(b, BPF_ADD, R2, before);
	ws_bpf_store(b, WS_BPF_32, AT, CODE(table_bytes), R2);
	ws_bpf_address(b, R1, AT, CODE(table_piece));
	ws_bpf_load(b, WS_BPF_64, R3, AT, CODE(table));
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_store_value(b, WS_BPF_32, AT, CODE(table_bytes), 0);
	ws_bpf_land(b, got);
	ws_bpf_land(b, none);
}

/* All of the code object at `code` of the record that AT points at. */
static void read_code(struct ws_bpf *b, const struct ws_py_layout *l)
{
	int got;

	read_text(b, CODE(code), CODE(head), CODE(head_bytes), WS_PY_TOLD_HEAD);
	ws_bpf_load(b, WS_BPF_64, R1, AT,
		    CODE(head) + (int)(l->code_qualname ? l->code_qualname : l->code_name));
	ws_bpf_store(b, WS_BPF_64, AT, CODE(name), R1);
	ws_bpf_load(b, WS_BPF_64, R1, AT, CODE(head) + (int)l->code_file);
	ws_bpf_store(b, WS_BPF_64, AT, CODE(file), R1);
	ws_bpf_load(b, WS_BPF_64, R3, AT, CODE(head) + (int)l->code_name);
	ws_bpf_op(b, BPF_ADD, R3, (int32_t)l->text_length);
	ws_bpf_store(b, WS_BPF_64, AT, CODE(key_name), R3);
	ws_bpf_address(b, R1, AT, CODE(key_text));
	ws_bpf_op(b, BPF_MOV, R2, 16);
	ws_bpf_call(b, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(b, BPF_JEQ, R0, 0);
	ws_bpf_op(b, BPF_MOV, R1, 0);
	ws_bpf_store(b, WS_BPF_64, AT, CODE(key_name), R1);
	ws_bpf_land(b, got);
	read_text(b, CODE(name), CODE(name_piece), CODE(name_bytes), WS_PY_TOLD_NAME);
	read_text(b, CODE(file), CODE(file_piece), CODE(file_bytes), WS_PY_TOLD_FILE);
	read_table(b, l);
}

/* The record at AT into the buffer; when that was possible, its code is known from now on. */
static void write_code(struct ws_bpf *b, const struct ws_py_bpf *k)
{
	int fits, lost;

	ws_bpf_load(b, WS_BPF_32, R5, AT, CODE(table_bytes));
	fits = ws_bpf_jump(b, BPF_JLE, R5, WS_PY_TOLD_TABLE);
	ws_bpf_op(b, BPF_MOV, R5, 0);
	ws_bpf_land(b, fits);
	ws_bpf_op(b, BPF_ADD, R5, sizeof(struct ws_py_told_code));
	ws_bpf_op_reg(b, BPF_MOV, R4, AT);
	write_out(b, k);
	lost = ws_bpf_jump(b, BPF_JNE, R0, 0);
	ws_bpf_map(b, R1, k->codes);
	ws_bpf_address(b, R2, MEM, offsetof(struct scratch, id));
	ws_bpf_store_value(b, WS_BPF_32, END, AT_KEY, 1);
	ws_bpf_address(b, R3, END, AT_KEY);
	ws_bpf_op(b, BPF_MOV, R4, BPF_ANY);
	ws_bpf_call(b, BPF_FUNC_map_update_elem);
	ws_bpf_land(b, lost);
}

/* STEP is the number of the code on the list. */
static void make_tell(struct ws_bpf *b, const struct ws_py_bpf *k, const struct ws_py_layout *l,
		      uint32_t self)
{
	int loop, end, past, known, again;

	ws_bpf_op_reg(b, BPF_MOV, CTX, R1);
	this_cpu(b, k->scratch, MEM);
	this_cpu(b, k->text, AT);
	ws_bpf_store_value(b, WS_BPF_64, END, AT_COUNT, 0);
	loop = b->n;
	ws_bpf_load(b, WS_BPF_32, STEP, MEM, offsetof(struct scratch, told));
	ws_bpf_load(b, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	end = ws_bpf_jump_reg(b, BPF_JGE, STEP, R1);
	past = ws_bpf_jump(b, BPF_JGE, STEP, UNKNOWN);
	ws_bpf_op_reg(b, BPF_MOV, R2, STEP);
	ws_bpf_op(b, BPF_LSH, R2, 4);
	ws_bpf_op_reg(b, BPF_ADD, R2, MEM);
	ws_bpf_op(b, BPF_ADD, STEP, 1);
	ws_bpf_store(b, WS_BPF_32, MEM, offsetof(struct scratch, told), STEP);
	ws_bpf_load(b, WS_BPF_64, R1, R2,
		    offsetof(struct scratch, unknown) + offsetof(struct unknown, id));
	ws_bpf_store(b, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	ws_bpf_store(b, WS_BPF_64, AT, CODE(id), R1);
	ws_bpf_load(b, WS_BPF_64, R1, R2,
		    offsetof(struct scratch, unknown) + offsetof(struct unknown, code));
	ws_bpf_store(b, WS_BPF_64, AT, CODE(code), R1);
	ws_bpf_load(b, WS_BPF_64, R1, MEM, offsetof(struct scratch, out.cookie));
	ws_bpf_store(b, WS_BPF_64, AT, CODE(cookie), R1);
	ws_bpf_store_value(b, WS_BPF_32, AT, CODE(kind), WS_PY_TOLD_CODE);
	look_up(b, k->codes, MEM, offsetof(struct scratch, id));
	known = ws_bpf_jump(b, BPF_JNE, R0,
			    0); /* another CPU has told it by now, or it is on the list twice */
	read_code(b, l);
	write_code(b, k);
	ws_bpf_land(b, known);
	ws_bpf_load(b, WS_BPF_64, R1, END, AT_COUNT);
	ws_bpf_op(b, BPF_ADD, R1, 1);
	ws_bpf_store(b, WS_BPF_64, END, AT_COUNT, R1);
	again = ws_bpf_jump(b, BPF_JGE, R1, CODES_A_CALL);
	ws_bpf_back(b, loop);
	ws_bpf_land(b, again);
	ws_bpf_op(b, BPF_MOV, R3, (int32_t)self);
	tail_call(b, k->programs);
	ws_bpf_land(b, end);
	ws_bpf_land(b, past);
	ws_bpf_return(b, 1);
}

/* ---- loading ---- */

static int load(const struct ws_bpf *b)
{
	char *log = getenv("WARPSIGHT_BPF_LOG") ? ws_malloc(16u << 20)
						: NULL; /* for whoever changes the programs */
	int fd = ws_bpf_program(b, log, 16u << 20);

	if (fd < 0 && log)
		fprintf(stderr, "%s\n", log);
	free(log);
	return fd;
}

/* Offsets that the programs have room for; those of 3.13 and later come from the target. */
static bool fits(const struct ws_py_layout *l)
{
	struct span f = frame_span(l), c = code_span(l);

	return f.bytes <= FRAME_BYTES && c.bytes <= WS_PY_KEY_BYTES &&
	       l->code_table + 8 <= WS_PY_TOLD_HEAD && l->code_qualname + 8 <= WS_PY_TOLD_HEAD &&
	       l->code_name + 8 <= WS_PY_TOLD_HEAD && l->code_file + 8 <= WS_PY_TOLD_HEAD &&
	       l->bytes_data > l->bytes_size && l->bytes_data - l->bytes_size <= 64 &&
	       !(l->frame_code & 7) && !(l->frame_previous & 7) && !(l->frame_at & 3) &&
	       !(l->code_name & 7) && !(l->code_file & 7) && !(l->code_table & 7) &&
	       !(l->code_qualname & 7) && !(l->code_first_line & 3);
}

static int put_program(const struct ws_py_bpf *k, uint32_t index, const struct ws_bpf *b)
{
	int fd = load(b), error;

	if (fd < 0)
		return fd;
	error = ws_bpf_map_set(k->programs, &index, &fd); /* the table keeps it */
	close(fd);
	return error;
}

static bool same_layout(const struct ws_py_layout *a, const struct ws_py_layout *b)
{
#define X(field)                  \
	if (a->field != b->field) \
		return false;
	WS_PY_FIELDS(X)
#undef X
	return a->version == b->version && a->chain == b->chain;
}

/* Index of the programs of a layout, loaded when it is new; or -errno. */
static int programs_of(struct ws_py_bpf *k, const struct ws_py_layout *l)
{
	uint32_t i = 0;
	struct ws_bpf *b;
	int error;

	while (i < k->layouts && !same_layout(&k->layout[i], l))
		i++;
	if (i < k->layouts)
		return (int)(2 * i);
	if (i == LAYOUTS || !fits(l))
		return -EINVAL;
	b = ws_calloc(1, sizeof(*b));
	make_tell(b, k, l, 2 * i + 1);
	error = put_program(k, 2 * i + 1, b);
	b->n = 0;
	make_walk(b, k, l, 2 * i);
	if (error >= 0)
		error = put_program(k, 2 * i, b);
	free(b);
	if (error < 0)
		return error;
	k->layout[k->layouts++] = *l;
	return (int)(2 * i);
}

/* Maps counted as locked memory once. The target was forked before and keeps its own limit. */
static bool allow_memory(void)
{
	struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};

	return !setrlimit(RLIMIT_MEMLOCK, &l);
}

static int make_maps(struct ws_py_bpf *k)
{
	size_t text = WS_ALIGN_UP(sizeof(struct ws_py_told_code) + WS_PY_TOLD_TABLE, 8u);
	int *all[] = {&k->threads, &k->codes, &k->scratch, &k->text, &k->output, &k->programs};

	k->threads = ws_bpf_map_new(BPF_MAP_TYPE_HASH, 4, sizeof(struct watched), THREADS);
	if (k->threads == -EPERM && allow_memory()) /* before Linux 5.11 */
		k->threads = ws_bpf_map_new(BPF_MAP_TYPE_HASH, 4, sizeof(struct watched), THREADS);
	if (k->threads < 0)
		return k->threads;
	k->codes = ws_bpf_map_new(BPF_MAP_TYPE_LRU_HASH, 8, 4, CODES);
	k->scratch = ws_bpf_map_new(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct scratch), 1);
	k->text = ws_bpf_map_new(BPF_MAP_TYPE_PERCPU_ARRAY, 4, (uint32_t)text, 1);
	k->output = ws_bpf_map_new(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4,
				   (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	k->programs = ws_bpf_map_new(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2 * LAYOUTS);
	for (size_t i = 0; i < WS_COUNT(all); i++)
		if (*all[i] < 0)
			return *all[i];
	return 0;
}

static int make_all(struct ws_py_bpf *k)
{
	struct ws_py_layout l;
	struct ws_bpf *b;
	int error = make_maps(k);

	if (error)
		return error;
	b = ws_calloc(1, sizeof(*b));
	make_entry(b, k);
	k->entry = load(b);
	if (k->entry < 0) {
		free(b);
		return k->entry;
	}
	/* Hooks are told before any interpreter is met, so it must be certain by now that the
	 * kernel takes such programs. */
	ws_py_layout_of(0x030c, &l);
	b->n = 0;
	make_tell(b, k, &l, 0);
	error = load(b);
	free(b);
	if (error < 0)
		return error;
	close(error);
	return 0;
}

void ws_py_bpf_free(struct ws_py_bpf *k)
{
	int fds[] = {k->threads, k->codes, k->scratch, k->text, k->output, k->programs, k->entry};

	for (size_t i = 0; i < WS_COUNT(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(k);
}

int ws_python_bpf_open(struct ws_python *py, uint32_t frequency)
{
	const char *test = getenv("WARPSIGHT_PYTHON");
	struct ws_py_bpf *k;
	int error;

	if (!py || !py->o.sampling || py->o.timers || (test && !strcmp(test, "signals")))
		return -ENOTSUP;
	if (!frequency || py->o.frequency > frequency || frequency % py->o.frequency)
		return -ERANGE;
	k = ws_malloc(sizeof(*k));
	*k = (struct ws_py_bpf){-1,
				-1,
				-1,
				-1,
				-1,
				-1,
				-1,
				.frequency = frequency,
				.every = frequency / py->o.frequency};
	error = make_all(k);
	if (error) {
		ws_py_bpf_free(k);
		py->bpf_error = -error;
		return error;
	}
	py->bpf = k;
	return 0;
}

int ws_python_bpf_attach(struct ws_python *py, int sampler, int output, uint32_t cpu)
{
	int error = ws_bpf_map_set(py->bpf->output, &cpu, &output);

	if (error)
		return error;
	return ioctl(sampler, PERF_EVENT_IOC_SET_BPF, py->bpf->entry) ? -errno : 0;
}

uint32_t ws_python_bpf_every(const struct ws_python *py)
{
	return py && py->bpf ? py->bpf->every : 1;
}

bool ws_python_bpf_any_ns(void)
{
	uint64_t device;

	return !pid_namespace(&device);
}

bool ws_python_bpf_is_on(const struct ws_python *py)
{
	return py && py->bpf;
}

void ws_python_bpf_close(struct ws_python *py)
{
	if (py && py->bpf) {
		ws_py_bpf_free(py->bpf);
		py->bpf = NULL;
	}
}

/* ---- threads and codes ---- */

int ws_py_bpf_watch(struct ws_py_bpf *k, uint32_t tid, uint32_t inner, const struct ws_py_layout *l,
		    uint64_t cookie, uint64_t beacon)
{
	struct watched w = {
		.cookie = cookie, .mark = ws_python_cookie(cookie, inner), .beacon = beacon};
	int program = programs_of(k, l);

	if (program < 0)
		return program;
	w.walk = (uint32_t)program;
	return ws_bpf_map_set(k->threads, &tid, &w);
}

void ws_py_bpf_leave(struct ws_py_bpf *k, uint32_t tid)
{
	ws_bpf_map_take(k->threads, &tid);
}
