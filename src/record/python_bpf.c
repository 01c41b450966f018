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
 * program writes is checked by whoever reads it (python_decode.c): it comes from the target's
 * memory.
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
#include "base/choose.h"
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
_Static_assert(2 + WS_PY_KERNEL_STEPS / STEPS_A_CALL + UNKNOWN / CODES_A_CALL < 33, "tail calls");
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
	struct ws_py_kernel_frames out;
	struct ws_py_step step[WS_PY_KERNEL_STEPS];
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
static void look_up(struct ws_bpf *bpf, int map, int base, int key)
{
	ws_bpf_map(bpf, R1, map);
	ws_bpf_address(bpf, R2, base, key);
	ws_bpf_call(bpf, BPF_FUNC_map_lookup_elem);
}

/* r0 = the calling thread's entry; the program is left with 1 when it has none */
static void find_thread(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf, uint64_t ns_device,
			uint64_t ns_inode)
{
	int found;

	if (ns_inode) {
		ws_bpf_set(bpf, R1, ns_device);
		ws_bpf_set(bpf, R2, ns_inode);
		ws_bpf_address(bpf, R3, END, AT_IDS);
		ws_bpf_op(bpf, BPF_MOV, R4, 8);
		ws_bpf_call(bpf, BPF_FUNC_get_ns_current_pid_tgid);
		found = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
		ws_bpf_return(bpf, 1);
		ws_bpf_land(bpf, found);
		ws_bpf_load(bpf, WS_BPF_32, R0, END, AT_IDS);
	} else {
		ws_bpf_call(bpf, BPF_FUNC_get_current_pid_tgid);
	}
	ws_bpf_store(bpf, WS_BPF_32, END, AT_KEY, R0);
	look_up(bpf, py_bpf->threads, END, AT_KEY);
	found = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_return(bpf, 1);
	ws_bpf_land(bpf, found);
}

/* reg = this CPU's part of `map` */
static void this_cpu(struct ws_bpf *bpf, int map, int reg)
{
	int found;

	ws_bpf_store_value(bpf, WS_BPF_32, END, AT_KEY, 0);
	look_up(bpf, map, END, AT_KEY);
	found = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_return(bpf, 1);
	ws_bpf_land(bpf, found);
	ws_bpf_op_reg(bpf, BPF_MOV, reg, R0);
}

/* r0 = 0 when `bytes` of what r3 points at in the target were read to the place `to` of the stack
 */
static void read_to_stack(struct ws_bpf *bpf, int to, uint32_t bytes)
{
	ws_bpf_address(bpf, R1, END, to);
	ws_bpf_op(bpf, BPF_MOV, R2, (int32_t)bytes);
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
}

static void tail_call(struct ws_bpf *bpf, int programs)
{
	ws_bpf_op_reg(bpf, BPF_MOV, R1, CTX);
	ws_bpf_map(bpf, R2, programs);
	ws_bpf_call(bpf, BPF_FUNC_tail_call); /* comes back only when there is no such program */
}

/* Write r5 bytes at r4 into the buffer of this CPU. */
static void write_out(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf)
{
	ws_bpf_op_reg(bpf, BPF_MOV, R1, CTX);
	ws_bpf_map(bpf, R2, py_bpf->output);
	ws_bpf_set(bpf, R3, BPF_F_CURRENT_CPU);
	ws_bpf_call(bpf, BPF_FUNC_perf_event_output);
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

static void make_entry(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf)
{
	uint64_t device = 0, inode = pid_namespace(&device);
	int now;

	ws_bpf_op_reg(bpf, BPF_MOV, CTX, R1);
	find_thread(bpf, py_bpf, device, inode);
	if (py_bpf->every > 1) { /* r0 points at the thread's entry */
		ws_bpf_load(bpf, WS_BPF_32, R1, R0, offsetof(struct watched, skip));
		now = ws_bpf_jump(bpf, BPF_JEQ, R1, 0);
		ws_bpf_op(bpf, BPF_SUB, R1, 1);
		ws_bpf_store(bpf, WS_BPF_32, R0, offsetof(struct watched, skip), R1);
		ws_bpf_return(bpf, 0);
		ws_bpf_land(bpf, now);
		ws_bpf_store_value(bpf, WS_BPF_32, R0, offsetof(struct watched, skip),
				   (int32_t)py_bpf->every - 1);
	}
	/* What the walk needs of it goes by the scratch memory: a tail call keeps no registers. */
	ws_bpf_op_reg(bpf, BPF_MOV, STEP, R0);
	this_cpu(bpf, py_bpf->scratch, MEM);
	ws_bpf_load(bpf, WS_BPF_64, R1, STEP, offsetof(struct watched, cookie));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, out.cookie), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, STEP, offsetof(struct watched, mark));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, mark), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, STEP, offsetof(struct watched, beacon));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, beacon), R1);
	ws_bpf_op(bpf, BPF_MOV, R1, 0);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, at), R1);
	ws_bpf_load(bpf, WS_BPF_32, R3, STEP, offsetof(struct watched, walk));
	tail_call(bpf, py_bpf->programs);
	ws_bpf_return(bpf, 1);
}

/* ---- walking the frames ---- */

/* The beacon to AT_BEACON; the program is left with 1 when it is not there, or another's. AT = the
 * thread state. */
static void read_beacon(struct ws_bpf *bpf)
{
	int good, same;

	ws_bpf_load(bpf, WS_BPF_64, R3, MEM, offsetof(struct scratch, beacon));
	read_to_stack(bpf, AT_BEACON, sizeof(struct ws_python_beacon));
	good = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_return(bpf, 1);
	ws_bpf_land(bpf, good);
	ws_bpf_load(bpf, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, cookie));
	ws_bpf_load(bpf, WS_BPF_64, R2, MEM, offsetof(struct scratch, mark));
	same = ws_bpf_jump_reg(bpf, BPF_JEQ, R1, R2);
	ws_bpf_return(bpf, 1);
	ws_bpf_land(bpf, same);
	ws_bpf_load(bpf, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, hold_start));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, out.hold), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, wait_start));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, out.wait), R1);
	ws_bpf_load(bpf, WS_BPF_64, AT, END,
		    AT_BEACON + (int)offsetof(struct ws_python_beacon, state));
}

struct leaves { /* jumps out of the walk */
	int done[4], cut[12];
	int done_n, cut_n;
};

/* AT = the first frame, from the thread state in AT. */
static void first_frame(struct ws_bpf *bpf, const struct ws_py_layout *layout,
			struct leaves *leaves)
{
	leaves->done[leaves->done_n++] = ws_bpf_jump(bpf, BPF_JEQ, AT, 0);
	ws_bpf_address(bpf, R3, AT, (int)layout->thread_frame);
	read_to_stack(bpf, AT_POINTER, 8);
	leaves->cut[leaves->cut_n++] = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, AT, END, AT_POINTER);
	leaves->done[leaves->done_n++] = ws_bpf_jump(bpf, BPF_JEQ, AT, 0);
	if (layout->chain != WS_PY_CFRAMES)
		return;
	ws_bpf_address(bpf, R3, AT, (int)layout->cframe_frame);
	read_to_stack(bpf, AT_POINTER, 8);
	leaves->cut[leaves->cut_n++] = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, AT, END, AT_POINTER);
	leaves->done[leaves->done_n++] = ws_bpf_jump(bpf, BPF_JEQ, AT, 0);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return ws_min(a, b);
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return ws_max(a, b);
}

struct span { /* bytes of an object that are read at once */
	uint32_t from, bytes;
};

static struct span frame_span(const struct ws_py_layout *layout)
{
	uint32_t at = layout->chain == WS_PY_OBJECTS ? 4 : 8;
	uint32_t from = least(least(layout->frame_previous, layout->frame_code), layout->frame_at);
	uint32_t to = most(most(layout->frame_previous + 8, layout->frame_code + 8),
			   layout->frame_at + at);

	if (layout->chain != WS_PY_OBJECTS) {
		from = least(from, layout->frame_owner);
		to = most(to, layout->frame_owner + 1);
	}
	return (struct span){from & ~7u, WS_ALIGN_UP(to, 8u) - (from & ~7u)};
}

static struct span code_span(const struct ws_py_layout *layout)
{
	uint32_t from = least(least(layout->code_first_line, layout->code_name),
			      least(layout->code_file, layout->code_table));
	uint32_t to = most(most(layout->code_first_line + 4, layout->code_name + 8),
			   most(layout->code_file + 8, layout->code_table + 8));

	return (struct span){from & ~7u, to - (from & ~7u)};
}

/* Where `field` of an object is, of which `s` was read to `at`. */
static int plus(int at, struct span span, uint32_t field)
{
	return at + (int)field - (int)span.from;
}

/* r0 = (r0 ^ r1) mixed; r2 is a large odd number */
static void mix(struct ws_bpf *bpf)
{
	ws_bpf_op_reg(bpf, BPF_XOR, R0, R1);
	ws_bpf_op_reg(bpf, BPF_MUL, R0, R2);
	ws_bpf_op_reg(bpf, BPF_MOV, R1, R0);
	ws_bpf_op(bpf, BPF_RSH, R1, 29);
	ws_bpf_op_reg(bpf, BPF_XOR, R0, R1);
}

/* r0 = the number of the code object at AT_POINTER, whose key is at AT_CODE and the beginning of
 * whose name at AT_TEXT. */
static void number_of(struct ws_bpf *bpf, const struct ws_py_layout *layout, struct span span)
{
	int fields[] = {AT_POINTER,
			plus(AT_CODE, span, layout->code_name),
			plus(AT_CODE, span, layout->code_file),
			plus(AT_CODE, span, layout->code_table),
			AT_TEXT,
			AT_TEXT + 8};

	ws_bpf_load(bpf, WS_BPF_64, R0, MEM, offsetof(struct scratch, out.cookie));
	ws_bpf_set(bpf, R2, 0x9e3779b97f4a7c15u);
	ws_bpf_load(bpf, WS_BPF_32, R1, END, plus(AT_CODE, span, layout->code_first_line));
	mix(bpf);
	for (size_t i = 0; i < WS_COUNT(fields); i++) {
		ws_bpf_load(bpf, WS_BPF_64, R1, END, fields[i]);
		mix(bpf);
	}
	ws_bpf_op(bpf, BPF_OR, R0, 2); /* 0 and 1 mean something else */
}

/* Put the code {id, AT_POINTER} on the list of those to be told, when it is not known and there is
 * room. */
static void note_unknown(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf)
{
	int seen, known, noted, full;

	/* A table of our own spares the lookup nearly always. R0 is the number. */
	ws_bpf_op_reg(bpf, BPF_MOV, R2, R0);
	ws_bpf_op(bpf, BPF_AND, R2, KNOWN - 1);
	ws_bpf_op(bpf, BPF_LSH, R2, 3);
	ws_bpf_op_reg(bpf, BPF_ADD, R2, MEM);
	ws_bpf_load(bpf, WS_BPF_64, R1, R2, offsetof(struct scratch, known));
	seen = ws_bpf_jump_reg(bpf, BPF_JEQ, R1, R0);
	ws_bpf_store(bpf, WS_BPF_64, END, AT_KEY, R2);
	look_up(bpf, py_bpf->codes, MEM, offsetof(struct scratch, id));
	full = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, R2, END, AT_KEY);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(bpf, WS_BPF_64, R2, offsetof(struct scratch, known), R1);
	known = ws_bpf_jump(bpf, BPF_JA, 0, 0);
	ws_bpf_land(bpf, full);
	ws_bpf_load(bpf, WS_BPF_64, R3, END, AT_KEY);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_load(bpf, WS_BPF_64, R2, MEM, offsetof(struct scratch, sample));
	ws_bpf_op_reg(bpf, BPF_ADD, R1, R2);
	ws_bpf_load(bpf, WS_BPF_64, R2, R3, offsetof(struct scratch, noted));
	noted = ws_bpf_jump_reg(bpf, BPF_JEQ, R1, R2);
	ws_bpf_store(bpf, WS_BPF_64, R3, offsetof(struct scratch, noted), R1);
	ws_bpf_load(bpf, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	full = ws_bpf_jump(bpf, BPF_JGE, R1, UNKNOWN);
	ws_bpf_op_reg(bpf, BPF_MOV, R2, R1);
	ws_bpf_op(bpf, BPF_LSH, R2, 4);
	ws_bpf_op_reg(bpf, BPF_ADD, R2, MEM);
	ws_bpf_load(bpf, WS_BPF_64, R3, MEM, offsetof(struct scratch, id));
	ws_bpf_store(bpf, WS_BPF_64, R2,
		     offsetof(struct scratch, unknown) + offsetof(struct unknown, id), R3);
	ws_bpf_load(bpf, WS_BPF_64, R3, END, AT_POINTER);
	ws_bpf_store(bpf, WS_BPF_64, R2,
		     offsetof(struct scratch, unknown) + offsetof(struct unknown, code), R3);
	ws_bpf_op(bpf, BPF_ADD, R1, 1);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, unknown_n), R1);
	ws_bpf_land(bpf, seen);
	ws_bpf_land(bpf, noted);
	ws_bpf_land(bpf, known);
	ws_bpf_land(bpf, full);
}

/* id = the number of the code at AT_POINTER. */
static void identify(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf,
		     const struct ws_py_layout *layout)
{
	struct span span = code_span(layout);
	int other, bad, named, end;

	ws_bpf_load(bpf, WS_BPF_64, R3, END, AT_POINTER);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, last_code));
	other = ws_bpf_jump_reg(bpf, BPF_JNE, R1, R3);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM,
		    offsetof(struct scratch, last_id)); /* it calls itself */
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	end = ws_bpf_jump(bpf, BPF_JA, 0, 0);
	ws_bpf_land(bpf, other);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, last_code), R3);
	ws_bpf_op(bpf, BPF_ADD, R3, (int32_t)span.from);
	read_to_stack(bpf, AT_CODE, span.bytes);
	ws_bpf_op(bpf, BPF_MOV, R1, 1);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	bad = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, R3, END, plus(AT_CODE, span, layout->code_name));
	ws_bpf_op(bpf, BPF_ADD, R3, (int32_t)layout->text_length);
	read_to_stack(bpf, AT_TEXT, 16);
	named = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_op(bpf, BPF_MOV, R1, 0); /* its page is not there: the name's address has to do */
	ws_bpf_store(bpf, WS_BPF_64, END, AT_TEXT, R1);
	ws_bpf_store(bpf, WS_BPF_64, END, AT_TEXT + 8, R1);
	ws_bpf_land(bpf, named);
	number_of(bpf, layout, span);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, id), R0);
	note_unknown(bpf, py_bpf);
	ws_bpf_land(bpf, bad);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, last_id), R1);
	ws_bpf_land(bpf, end);
}

/* r1 = the instruction as the record has it. */
static void instruction(struct ws_bpf *bpf, const struct ws_py_layout *layout, struct span span)
{
	int good;

	if (layout->chain == WS_PY_OBJECTS) {
		ws_bpf_load(bpf, WS_BPF_32, R1, END, plus(AT_FRAME, span, layout->frame_at));
		return;
	}
	ws_bpf_load(bpf, WS_BPF_64, R1, END, plus(AT_FRAME, span, layout->frame_at));
	ws_bpf_load(bpf, WS_BPF_64, R2, END, AT_POINTER);
	ws_bpf_op_reg(bpf, BPF_SUB, R1, R2);
	ws_bpf_op(bpf, BPF_SUB, R1, (int32_t)layout->code_start);
	good = ws_bpf_jump(bpf, BPF_JLT, R1, INT32_MAX);
	ws_bpf_op(bpf, BPF_MOV, R1, -1);
	ws_bpf_land(bpf, good);
}

/* No frame begins where the kernel has its addresses. */
static void empty_window(struct ws_bpf *bpf)
{
	ws_bpf_set(bpf, R2, UINT64_C(1) << 63);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, window_at), R2);
}

/*
 * From 3.11 on frames lie one behind the other, callers below: part of the page that a frame is in
 * is read with it. `f` of the frame at AT goes to AT_FRAME.
 */
static void from_window(struct ws_bpf *bpf, struct span span, struct leaves *leaves)
{
	int there, beyond, whole, back, room;

	ws_bpf_load(bpf, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_at));
	ws_bpf_op_reg(bpf, BPF_MOV, R1, AT);
	ws_bpf_op_reg(bpf, BPF_SUB, R1, R2);
	ws_bpf_load(bpf, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_last));
	beyond = ws_bpf_jump_reg(bpf, BPF_JGT, R1, R2);
	there = ws_bpf_jump(bpf, BPF_JLE, R1, (int32_t)(WINDOW - span.from - span.bytes));
	ws_bpf_land(bpf, beyond);
	/* R3: where it is to begin, so that it ends with the frame, and not before the frame's
	 * page. */
	ws_bpf_address(bpf, R3, AT, (int)(span.from + span.bytes) - (int)WINDOW);
	ws_bpf_op_reg(bpf, BPF_MOV, R1, AT);
	ws_bpf_op(bpf, BPF_AND, R1, ~4095);
	whole = ws_bpf_jump_reg(bpf, BPF_JGE, R3, R1);
	ws_bpf_op_reg(bpf, BPF_MOV, R3, R1);
	ws_bpf_land(bpf, whole);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, window_at), R3);
	ws_bpf_address(bpf, R2, AT, (int)(span.from + span.bytes));
	ws_bpf_op_reg(bpf, BPF_SUB, R2, R3);
	room = ws_bpf_jump(bpf, BPF_JLE, R2, WINDOW);
	ws_bpf_op(bpf, BPF_MOV, R2, WINDOW); /* never: for the verifier */
	ws_bpf_land(bpf, room);
	ws_bpf_address(bpf, R1, MEM, offsetof(struct scratch, window));
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
	ws_bpf_load(bpf, WS_BPF_64, R2, MEM, offsetof(struct scratch, window_at));
	ws_bpf_op_reg(bpf, BPF_MOV, R1, AT);
	ws_bpf_op_reg(bpf, BPF_SUB, R1, R2);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, window_last), R1);
	back = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	empty_window(bpf);
	leaves->cut[leaves->cut_n++] = ws_bpf_jump(bpf, BPF_JA, 0, 0);
	ws_bpf_land(bpf, back);
	leaves->cut[leaves->cut_n++] =
		ws_bpf_jump(bpf, BPF_JGT, R1, (int32_t)(WINDOW - span.from - span.bytes));
	ws_bpf_land(bpf, there);
	ws_bpf_op_reg(bpf, BPF_ADD, R1, MEM);
	for (uint32_t i = 0; i < span.bytes; i += 8) {
		ws_bpf_load(bpf, WS_BPF_64, R2, R1,
			    (int)(offsetof(struct scratch, window) + span.from + i));
		ws_bpf_store(bpf, WS_BPF_64, END, AT_FRAME + (int)i, R2);
	}
}

/* One step: the frame at AT into the record, AT becomes its caller. */
static void one_step(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf,
		     const struct ws_py_layout *layout, struct leaves *leaves)
{
	struct span span = frame_span(layout);
	size_t out = offsetof(struct scratch, step);
	int shim = -1, none;

	if (layout->chain == WS_PY_OBJECTS) {
		ws_bpf_address(bpf, R3, AT, (int)span.from);
		read_to_stack(bpf, AT_FRAME, span.bytes);
		leaves->cut[leaves->cut_n++] = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	} else {
		from_window(bpf, span, leaves);
	}
	ws_bpf_load(bpf, WS_BPF_64, R1, END, plus(AT_FRAME, span, layout->frame_code));
	ws_bpf_op(bpf, BPF_AND, R1, ~7); /* the low bits are tags, from 3.14 on */
	ws_bpf_store(bpf, WS_BPF_64, END, AT_POINTER, R1);
	ws_bpf_op(bpf, BPF_MOV, R2, 0);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, id), R2);
	none = ws_bpf_jump(bpf, BPF_JEQ, R1, 0);
	if (layout->version >= 0x030c) {
		ws_bpf_load(bpf, WS_BPF_8, R2, END, plus(AT_FRAME, span, layout->frame_owner));
		shim = ws_bpf_jump(bpf, BPF_JGE, R2, WS_PY_OWNER_INTERPRETER);
	}
	identify(bpf, py_bpf, layout);
	ws_bpf_land(bpf, none);
	if (shim >= 0)
		ws_bpf_land(bpf, shim);
	ws_bpf_op_reg(bpf, BPF_MOV, R3, STEP);
	ws_bpf_op(bpf, BPF_LSH, R3, 4);
	ws_bpf_op_reg(bpf, BPF_ADD, R3, MEM);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, id));
	ws_bpf_store(bpf, WS_BPF_64, R3, (int)(out + offsetof(struct ws_py_step, id)), R1);
	instruction(bpf, layout, span);
	ws_bpf_store(bpf, WS_BPF_32, R3, (int)(out + offsetof(struct ws_py_step, at)), R1);
	if (layout->chain == WS_PY_OBJECTS)
		ws_bpf_op(bpf, BPF_MOV, R1, 0);
	else
		ws_bpf_load(bpf, WS_BPF_8, R1, END, plus(AT_FRAME, span, layout->frame_owner));
	ws_bpf_store(bpf, WS_BPF_32, R3, (int)(out + offsetof(struct ws_py_step, owner)), R1);
	ws_bpf_load(bpf, WS_BPF_64, AT, END, plus(AT_FRAME, span, layout->frame_previous));
}

/* The first call for a sample: everything as it is before the first frame. */
static void begin_walk(struct ws_bpf *bpf, const struct ws_py_layout *layout, struct leaves *leaves)
{
	read_beacon(bpf);
	ws_bpf_op(bpf, BPF_MOV, R1, 0);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, last_code), R1);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, last_id), R1);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, unknown_n), R1);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, told), R1);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, out.truncated), R1);
	empty_window(bpf);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, out.count), R1);
	ws_bpf_store_value(bpf, WS_BPF_32, MEM, offsetof(struct scratch, out.kind),
			   WS_PY_KERNEL_FRAMES);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, sample));
	ws_bpf_op(bpf, BPF_ADD, R1, 1);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, sample), R1);
	first_frame(bpf, layout, leaves);
}

/* STEPS_A_CALL more frames, then the program calls itself. STEP is the number of frames. */
static void go_on(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf,
		  const struct ws_py_layout *layout, uint32_t self, struct leaves *leaves)
{
	int loop, again;

	ws_bpf_store_value(bpf, WS_BPF_64, END, AT_COUNT, 0);
	loop = bpf->n;
	ws_bpf_load(bpf, WS_BPF_32, STEP, MEM, offsetof(struct scratch, out.count));
	leaves->cut[leaves->cut_n++] = ws_bpf_jump(bpf, BPF_JGE, STEP, WS_PY_KERNEL_STEPS);
	one_step(bpf, py_bpf, layout, leaves);
	ws_bpf_op(bpf, BPF_ADD, STEP, 1);
	/* Through memory, so that it is any number for the verifier, which would else try each. */
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, out.count), STEP);
	leaves->done[leaves->done_n++] = ws_bpf_jump(bpf, BPF_JEQ, AT, 0);
	ws_bpf_load(bpf, WS_BPF_64, R1, END, AT_COUNT);
	ws_bpf_op(bpf, BPF_ADD, R1, 1);
	ws_bpf_store(bpf, WS_BPF_64, END, AT_COUNT, R1);
	again = ws_bpf_jump(bpf, BPF_JGE, R1, STEPS_A_CALL);
	ws_bpf_back(bpf, loop);
	ws_bpf_land(bpf, again);
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, at), AT);
	ws_bpf_op(bpf, BPF_MOV, R3, (int32_t)self);
	tail_call(bpf, py_bpf->programs);
}

static void make_walk(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf,
		      const struct ws_py_layout *layout, uint32_t self)
{
	struct leaves leaves = {.done_n = 0};
	int begun, fits, all_described;

	ws_bpf_op_reg(bpf, BPF_MOV, CTX, R1);
	this_cpu(bpf, py_bpf->scratch, MEM);
	ws_bpf_load(bpf, WS_BPF_64, AT, MEM, offsetof(struct scratch, at));
	begun = ws_bpf_jump(bpf, BPF_JNE, AT, 0);
	begin_walk(bpf, layout, &leaves);
	ws_bpf_land(bpf, begun);
	go_on(bpf, py_bpf, layout, self, &leaves);
	for (int i = 0; i < leaves.cut_n; i++)
		ws_bpf_land(bpf, leaves.cut[i]);
	ws_bpf_store_value(bpf, WS_BPF_32, MEM, offsetof(struct scratch, out.truncated), 1);
	for (int i = 0; i < leaves.done_n; i++)
		ws_bpf_land(bpf, leaves.done[i]);
	ws_bpf_load(bpf, WS_BPF_32, R5, MEM, offsetof(struct scratch, out.count));
	fits = ws_bpf_jump(bpf, BPF_JLE, R5, WS_PY_KERNEL_STEPS);
	ws_bpf_return(bpf, 1);
	ws_bpf_land(bpf, fits);
	ws_bpf_op(bpf, BPF_LSH, R5, 4);
	ws_bpf_op(bpf, BPF_ADD, R5, sizeof(struct ws_py_kernel_frames));
	ws_bpf_address(bpf, R4, MEM, offsetof(struct scratch, out));
	write_out(bpf, py_bpf);
	ws_bpf_load(bpf, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	all_described = ws_bpf_jump(bpf, BPF_JEQ, R1, 0);
	ws_bpf_op(bpf, BPF_MOV, R3, (int32_t)self + 1);
	tail_call(bpf, py_bpf->programs);
	ws_bpf_land(bpf, all_described);
	ws_bpf_return(bpf, 1);
}

/* ---- telling code objects ---- */

/*
 * `room` bytes at the address in the record's field `where` into its `piece`; fewer when they would
 * reach into a page that is not there. The field `bytes` gets how many.
 */
static void read_text(struct ws_bpf *bpf, size_t where, size_t piece, size_t bytes, uint32_t room)
{
	int got, fits, got_less;

	ws_bpf_store_value(bpf, WS_BPF_32, AT, (int)bytes, (int32_t)room);
	ws_bpf_address(bpf, R1, AT, (int)piece);
	ws_bpf_op(bpf, BPF_MOV, R2, (int32_t)room);
	ws_bpf_load(bpf, WS_BPF_64, R3, AT, (int)where);
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, R3, AT, (int)where);
	ws_bpf_op(bpf, BPF_MOV, R2, 4096);
	ws_bpf_op_reg(bpf, BPF_MOV, R1, R3);
	ws_bpf_op(bpf, BPF_AND, R1, 4095);
	ws_bpf_op_reg(bpf, BPF_SUB, R2, R1);
	fits = ws_bpf_jump(bpf, BPF_JLE, R2, (int32_t)room);
	ws_bpf_op(bpf, BPF_MOV, R2, (int32_t)room);
	ws_bpf_land(bpf, fits);
	ws_bpf_store(bpf, WS_BPF_32, AT, (int)bytes, R2);
	ws_bpf_address(bpf, R1, AT, (int)piece);
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
	got_less = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_store_value(bpf, WS_BPF_32, AT, (int)bytes, 0);
	ws_bpf_land(bpf, got_less);
	ws_bpf_land(bpf, got);
}

#define CODE(field) offsetof(struct ws_py_kernel_code, field)

/* The line table, from its length on. */
static void read_table(struct ws_bpf *bpf, const struct ws_py_layout *layout)
{
	int none, fits, got;
	int32_t before = (int32_t)(layout->bytes_data - layout->bytes_size);

	ws_bpf_load(bpf, WS_BPF_64, R3, AT, CODE(head) + (int)layout->code_table);
	ws_bpf_op(bpf, BPF_ADD, R3, (int32_t)layout->bytes_size);
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(table), R3);
	ws_bpf_store_value(bpf, WS_BPF_32, AT, CODE(table_bytes), 0);
	read_to_stack(bpf, AT_POINTER, 8);
	none = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_load(bpf, WS_BPF_64, R2, END, AT_POINTER);
	fits = ws_bpf_jump(bpf, BPF_JLE, R2, (int32_t)WS_PY_TOLD_TABLE - before);
	ws_bpf_op(bpf, BPF_MOV, R2, (int32_t)WS_PY_TOLD_TABLE - before);
	ws_bpf_land(bpf, fits);
	ws_bpf_op(bpf, BPF_ADD, R2, before);
	ws_bpf_store(bpf, WS_BPF_32, AT, CODE(table_bytes), R2);
	ws_bpf_address(bpf, R1, AT, CODE(table_piece));
	ws_bpf_load(bpf, WS_BPF_64, R3, AT, CODE(table));
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_store_value(bpf, WS_BPF_32, AT, CODE(table_bytes), 0);
	ws_bpf_land(bpf, got);
	ws_bpf_land(bpf, none);
}

/* All of the code object at `code` of the record that AT points at. */
static void read_code(struct ws_bpf *bpf, const struct ws_py_layout *layout)
{
	int got;

	read_text(bpf, CODE(code), CODE(head), CODE(head_bytes), WS_PY_TOLD_HEAD);
	ws_bpf_load(bpf, WS_BPF_64, R1, AT,
		    CODE(head) + (int)(layout->code_qualname ? layout->code_qualname
							     : layout->code_name));
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(name), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, AT, CODE(head) + (int)layout->code_file);
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(file), R1);
	ws_bpf_load(bpf, WS_BPF_64, R3, AT, CODE(head) + (int)layout->code_name);
	ws_bpf_op(bpf, BPF_ADD, R3, (int32_t)layout->text_length);
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(key_name), R3);
	ws_bpf_address(bpf, R1, AT, CODE(key_text));
	ws_bpf_op(bpf, BPF_MOV, R2, 16);
	ws_bpf_call(bpf, BPF_FUNC_probe_read_user);
	got = ws_bpf_jump(bpf, BPF_JEQ, R0, 0);
	ws_bpf_op(bpf, BPF_MOV, R1, 0);
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(key_name), R1);
	ws_bpf_land(bpf, got);
	read_text(bpf, CODE(name), CODE(name_piece), CODE(name_bytes), WS_PY_TOLD_NAME);
	read_text(bpf, CODE(file), CODE(file_piece), CODE(file_bytes), WS_PY_TOLD_FILE);
	read_table(bpf, layout);
}

/* The record at AT into the buffer; when that was possible, its code is known from now on. */
static void write_code(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf)
{
	int fits, lost;

	ws_bpf_load(bpf, WS_BPF_32, R5, AT, CODE(table_bytes));
	fits = ws_bpf_jump(bpf, BPF_JLE, R5, WS_PY_TOLD_TABLE);
	ws_bpf_op(bpf, BPF_MOV, R5, 0);
	ws_bpf_land(bpf, fits);
	ws_bpf_op(bpf, BPF_ADD, R5, sizeof(struct ws_py_kernel_code));
	ws_bpf_op_reg(bpf, BPF_MOV, R4, AT);
	write_out(bpf, py_bpf);
	lost = ws_bpf_jump(bpf, BPF_JNE, R0, 0);
	ws_bpf_map(bpf, R1, py_bpf->codes);
	ws_bpf_address(bpf, R2, MEM, offsetof(struct scratch, id));
	ws_bpf_store_value(bpf, WS_BPF_32, END, AT_KEY, 1);
	ws_bpf_address(bpf, R3, END, AT_KEY);
	ws_bpf_op(bpf, BPF_MOV, R4, BPF_ANY);
	ws_bpf_call(bpf, BPF_FUNC_map_update_elem);
	ws_bpf_land(bpf, lost);
}

/* STEP is the number of the code on the list. */
static void make_tell(struct ws_bpf *bpf, const struct ws_py_bpf *py_bpf,
		      const struct ws_py_layout *layout, uint32_t self)
{
	int loop, end, past, known, again;

	ws_bpf_op_reg(bpf, BPF_MOV, CTX, R1);
	this_cpu(bpf, py_bpf->scratch, MEM);
	this_cpu(bpf, py_bpf->text, AT);
	ws_bpf_store_value(bpf, WS_BPF_64, END, AT_COUNT, 0);
	loop = bpf->n;
	ws_bpf_load(bpf, WS_BPF_32, STEP, MEM, offsetof(struct scratch, told));
	ws_bpf_load(bpf, WS_BPF_32, R1, MEM, offsetof(struct scratch, unknown_n));
	end = ws_bpf_jump_reg(bpf, BPF_JGE, STEP, R1);
	past = ws_bpf_jump(bpf, BPF_JGE, STEP, UNKNOWN);
	ws_bpf_op_reg(bpf, BPF_MOV, R2, STEP);
	ws_bpf_op(bpf, BPF_LSH, R2, 4);
	ws_bpf_op_reg(bpf, BPF_ADD, R2, MEM);
	ws_bpf_op(bpf, BPF_ADD, STEP, 1);
	ws_bpf_store(bpf, WS_BPF_32, MEM, offsetof(struct scratch, told), STEP);
	ws_bpf_load(bpf, WS_BPF_64, R1, R2,
		    offsetof(struct scratch, unknown) + offsetof(struct unknown, id));
	ws_bpf_store(bpf, WS_BPF_64, MEM, offsetof(struct scratch, id), R1);
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(id), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, R2,
		    offsetof(struct scratch, unknown) + offsetof(struct unknown, code));
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(code), R1);
	ws_bpf_load(bpf, WS_BPF_64, R1, MEM, offsetof(struct scratch, out.cookie));
	ws_bpf_store(bpf, WS_BPF_64, AT, CODE(cookie), R1);
	ws_bpf_store_value(bpf, WS_BPF_32, AT, CODE(kind), WS_PY_KERNEL_CODE);
	look_up(bpf, py_bpf->codes, MEM, offsetof(struct scratch, id));
	known = ws_bpf_jump(bpf, BPF_JNE, R0,
			    0); /* another CPU has told it by now, or it is on the list twice */
	read_code(bpf, layout);
	write_code(bpf, py_bpf);
	ws_bpf_land(bpf, known);
	ws_bpf_load(bpf, WS_BPF_64, R1, END, AT_COUNT);
	ws_bpf_op(bpf, BPF_ADD, R1, 1);
	ws_bpf_store(bpf, WS_BPF_64, END, AT_COUNT, R1);
	again = ws_bpf_jump(bpf, BPF_JGE, R1, CODES_A_CALL);
	ws_bpf_back(bpf, loop);
	ws_bpf_land(bpf, again);
	ws_bpf_op(bpf, BPF_MOV, R3, (int32_t)self);
	tail_call(bpf, py_bpf->programs);
	ws_bpf_land(bpf, end);
	ws_bpf_land(bpf, past);
	ws_bpf_return(bpf, 1);
}

/* ---- loading ---- */

static int load(const struct ws_bpf *bpf)
{
	char *log = getenv("WARPSIGHT_BPF_LOG") ? ws_malloc(16u << 20)
						: NULL; /* for whoever changes the programs */
	int fd = ws_bpf_program(bpf, log, 16u << 20);

	if (fd < 0 && log)
		fprintf(stderr, "%s\n", log);
	free(log);
	return fd;
}

/* Offsets that the programs have room for; those of 3.13 and later come from the target. */
static bool fits(const struct ws_py_layout *layout)
{
	struct span span_f = frame_span(layout), span_c = code_span(layout);

	return span_f.bytes <= FRAME_BYTES && span_c.bytes <= WS_PY_KEY_BYTES &&
	       layout->code_table + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_qualname + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_name + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_file + 8 <= WS_PY_TOLD_HEAD &&
	       layout->bytes_data > layout->bytes_size &&
	       layout->bytes_data - layout->bytes_size <= 64 && !(layout->frame_code & 7) &&
	       !(layout->frame_previous & 7) && !(layout->frame_at & 3) &&
	       !(layout->code_name & 7) && !(layout->code_file & 7) && !(layout->code_table & 7) &&
	       !(layout->code_qualname & 7) && !(layout->code_first_line & 3);
}

static int put_program(const struct ws_py_bpf *bpf, uint32_t index, const struct ws_bpf *bpf_b)
{
	int fd = load(bpf_b), error;

	if (fd < 0)
		return fd;
	error = ws_bpf_map_set(bpf->programs, &index, &fd); /* the table keeps it */
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
static int programs_of(struct ws_py_bpf *bpf, const struct ws_py_layout *layout)
{
	uint32_t i = 0;
	struct ws_bpf *bpf_b;
	int error;

	while (i < bpf->layouts && !same_layout(&bpf->layout[i], layout))
		i++;
	if (i < bpf->layouts)
		return (int)(2 * i);
	if (i == LAYOUTS || !fits(layout))
		return -EINVAL;
	bpf_b = ws_calloc(1, sizeof(*bpf_b));
	make_tell(bpf_b, bpf, layout, 2 * i + 1);
	error = put_program(bpf, 2 * i + 1, bpf_b);
	bpf_b->n = 0;
	make_walk(bpf_b, bpf, layout, 2 * i);
	if (error >= 0)
		error = put_program(bpf, 2 * i, bpf_b);
	free(bpf_b);
	if (error < 0)
		return error;
	bpf->layout[bpf->layouts++] = *layout;
	return (int)(2 * i);
}

/* Maps counted as locked memory once. The target was forked before and keeps its own limit. */
static bool allow_memory(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	return !setrlimit(RLIMIT_MEMLOCK, &limit);
}

static int make_maps(struct ws_py_bpf *bpf)
{
	size_t text = WS_ALIGN_UP(sizeof(struct ws_py_kernel_code) + WS_PY_TOLD_TABLE, 8u);
	int *all[] = {&bpf->threads, &bpf->codes,  &bpf->scratch,
		      &bpf->text,    &bpf->output, &bpf->programs};

	bpf->threads = ws_bpf_map_new(BPF_MAP_TYPE_HASH, 4, sizeof(struct watched), THREADS);
	if (bpf->threads == -EPERM && allow_memory()) /* before Linux 5.11 */
		bpf->threads =
			ws_bpf_map_new(BPF_MAP_TYPE_HASH, 4, sizeof(struct watched), THREADS);
	if (bpf->threads < 0)
		return bpf->threads;
	bpf->codes = ws_bpf_map_new(BPF_MAP_TYPE_LRU_HASH, 8, 4, CODES);
	bpf->scratch = ws_bpf_map_new(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct scratch), 1);
	bpf->text = ws_bpf_map_new(BPF_MAP_TYPE_PERCPU_ARRAY, 4, (uint32_t)text, 1);
	bpf->output = ws_bpf_map_new(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4,
				     (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	bpf->programs = ws_bpf_map_new(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2 * LAYOUTS);
	for (size_t i = 0; i < WS_COUNT(all); i++)
		if (*all[i] < 0)
			return *all[i];
	return 0;
}

static int make_all(struct ws_py_bpf *bpf)
{
	struct ws_py_layout layout;
	struct ws_bpf *bpf_b;
	int error = make_maps(bpf);

	if (error)
		return error;
	bpf_b = ws_calloc(1, sizeof(*bpf_b));
	make_entry(bpf_b, bpf);
	bpf->entry = load(bpf_b);
	if (bpf->entry < 0) {
		free(bpf_b);
		return bpf->entry;
	}
	/* Hooks are told before any interpreter is met, so it must be certain by now that the
	 * kernel takes such programs. */
	ws_py_get_layout(0x030c, &layout);
	bpf_b->n = 0;
	make_tell(bpf_b, bpf, &layout, 0);
	error = load(bpf_b);
	free(bpf_b);
	if (error < 0)
		return error;
	close(error);
	return 0;
}

void ws_py_bpf_free(struct ws_py_bpf *bpf)
{
	int fds[] = {bpf->threads, bpf->codes,	  bpf->scratch, bpf->text,
		     bpf->output,  bpf->programs, bpf->entry};

	for (size_t i = 0; i < WS_COUNT(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(bpf);
}

int ws_python_bpf_open(struct ws_python *py, uint32_t frequency)
{
	const char *test = getenv("WARPSIGHT_PYTHON");
	struct ws_py_bpf *bpf;
	int error;

	if (!py || !py->options.sampling || py->options.timers ||
	    (test && !strcmp(test, "signals")))
		return -ENOTSUP;
	if (!frequency || py->options.frequency > frequency || frequency % py->options.frequency)
		return -ERANGE;
	bpf = ws_malloc(sizeof(*bpf));
	*bpf = (struct ws_py_bpf){-1,
				  -1,
				  -1,
				  -1,
				  -1,
				  -1,
				  -1,
				  .frequency = frequency,
				  .every = frequency / py->options.frequency};
	error = make_all(bpf);
	if (error) {
		ws_py_bpf_free(bpf);
		py->bpf_error = -error;
		return error;
	}
	py->bpf = bpf;
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

int ws_py_bpf_watch(struct ws_py_bpf *bpf, uint32_t tid, uint32_t inner,
		    const struct ws_py_layout *layout, uint64_t cookie, uint64_t beacon)
{
	struct watched watched = {
		.cookie = cookie, .mark = ws_python_cookie(cookie, inner), .beacon = beacon};
	int program = programs_of(bpf, layout);

	if (program < 0)
		return program;
	watched.walk = (uint32_t)program;
	return ws_bpf_map_set(bpf->threads, &tid, &watched);
}

void ws_py_bpf_leave(struct ws_py_bpf *bpf, uint32_t tid)
{
	ws_bpf_map_take(bpf->threads, &tid);
}
