/*
 * schema.h - what tables.def turns into: a number and a row struct for each table, a number for
 * each column, and descriptions that codecs, exports, documentation and tests walk.
 *
 * Hooks may include it; it holds declarations only, the descriptions are in schema.c.
 */
#ifndef WS_SCHEMA_H
#define WS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Column types: WS_TYPE(NAME, C type, signed, doc). Whatever its type, a column is decoded to
 * uint64_t (signed ones sign-extended, F64 as its bits): one form for scans, joins and exports.
 */
#define WS_TYPES(WS_TYPE)                                                             \
	WS_TYPE(TIME, uint64_t, 0, "nanoseconds on the session clock")                \
	WS_TYPE(NTIME, uint64_t, 0, "the same, or WS_NO_TIME for null")               \
	WS_TYPE(U8, uint8_t, 0, "number")                                             \
	WS_TYPE(U32, uint32_t, 0, "number")                                           \
	WS_TYPE(U64, uint64_t, 0, "number")                                           \
	WS_TYPE(I32, int32_t, 1, "signed number")                                     \
	WS_TYPE(I64, int64_t, 1, "signed number")                                     \
	WS_TYPE(F64, double, 0, "floating-point number")                              \
	WS_TYPE(STR, uint32_t, 0, "string id in the report's dictionary, 0 for none") \
	WS_TYPE(THREAD, uint32_t, 0, "id in the thread table")                        \
	WS_TYPE(NTHREAD, uint32_t, 0, "id in the thread table, or 0 for none")        \
	WS_TYPE(PROCESS, uint32_t, 0, "id in the process table")                      \
	WS_TYPE(NU32, uint32_t, 0, "number, or WS_NO_U32 for null")                   \
	WS_TYPE(NU64, uint64_t, 0, "number, or WS_NO_U64 for null")

#define WS_NO_TIME UINT64_MAX
#define WS_NO_U32 UINT32_MAX
#define WS_NO_U64 UINT64_MAX
#define WS_NO_STATUS INT32_MIN

enum ws_type {
#define WS_TYPE(name, ctype, is_signed, doc) WS_T_##name,
	WS_TYPES(WS_TYPE)
#undef WS_TYPE
};

#define WS_TYPE(name, ctype, is_signed, doc) typedef ctype ws_ctype_##name;
WS_TYPES(WS_TYPE)
#undef WS_TYPE

enum ws_table {
#define WS_TABLE(table, sqlite, doc) WS_TABLE_##table,
#include "schema/tables.def"
	WS_TABLE_COUNT
};

/* Column numbers: ws_nvtx_start and so on; ws_nvtx_COLUMNS is how many. */
#define WS_TABLE(table, sqlite, doc) \
	enum ws_columns_##table      \
	{
#define WS_COLUMN(table, column, type, sqlite, doc) ws_##table##_##column,
#define WS_END(table)        \
	ws_##table##_COLUMNS \
	}                    \
	;
#include "schema/tables.def"

/* Row structs: struct ws_row_nvtx and so on. */
#define WS_TABLE(table, sqlite, doc) struct ws_row_##table {
#define WS_COLUMN(table, column, type, sqlite, doc) ws_ctype_##type column;
#define WS_END(table) \
	}             \
	;
#include "schema/tables.def"

struct ws_column_desc {
	const char *name, *sqlite, *doc;
	enum ws_type type;
	uint16_t offset, size; /* in the row struct, bytes */
};

struct ws_table_desc {
	const char *name, *sqlite, *doc;
	const struct ws_column_desc *columns;
	uint32_t column_count;
	uint32_t row_size; /* sizeof the row struct */
};

/*
 * The columns that rows are sorted by and the one that ends their span, found from the
 * declarations: the first THREAD or PROCESS column, the column called start (or raw), the one
 * called end. -1 where a table has none.
 */
int ws_table_track(enum ws_table table);
int ws_table_start(enum ws_table table);
int ws_table_end(enum ws_table table);

#define WS_MAX_COLUMNS 64

/*
 * The columns that tell apart what a table's rows belong to: threads, streams, cores, counters.
 * Reports sum up each block by them (overview blocks), and rows of the time line are made of them:
 * they follow from the lanes that events.def declares.
 * How many, at most WS_GROUP_KEYS; 0 for tables of no events. They are of one or four bytes.
 */
enum { WS_GROUP_KEYS = 4 };
uint32_t ws_table_groups(enum ws_table table, uint8_t columns[WS_GROUP_KEYS]);

extern const struct ws_table_desc ws_tables[WS_TABLE_COUNT];

/* Rows of a table of events that a recording stages before it writes a block; 0 for other tables.
 */
extern const uint32_t ws_staged_rows[WS_TABLE_COUNT];
/* Tables whose rows later rows refer to: in a recording that makes several reports, each report
 * has those that were written before it. */
extern const bool ws_lasting_tables[WS_TABLE_COUNT];

struct ws_type_desc {
	const char *name, *doc;
	uint8_t size, is_signed;
};
extern const struct ws_type_desc ws_types[];

/* Column `c` of row struct `row` of table `t`, widened to 64 bits as said above. */
uint64_t ws_row_get(enum ws_table table, const void *row, uint32_t c);
void ws_row_set(enum ws_table table, void *row, uint32_t c, uint64_t value);
/* Number of the table called `name`, or -1. */
int ws_table_find(const char *name);
int ws_column_find(enum ws_table table, const char *name);

/* ---- enumerations stored in U8 columns ---- */

enum ws_process_origin {
	WS_ORIGIN_TARGET = 1, /* the program that profile started */
	WS_ORIGIN_EXEC = 2,   /* a new image: exec, posix_spawn */
	WS_ORIGIN_FORK = 3,   /* a forked child, running its parent's image */
	WS_ORIGIN_OTHER = 4,  /* it runs beside the target: seen by system-wide sampling */
};

enum ws_process_end_reason {
	WS_END_EXIT = 1,    /* it ended */
	WS_END_EXEC = 2,    /* another image replaced it */
	WS_END_RUNNING = 3, /* it was still running when the recording ended */
};

enum ws_severity { WS_INFO = 1, WS_WARNING = 2, WS_ERROR = 3 };

/* Numbered as in ENUM_NSYS_EVENT_TYPE of the SQLite export. */
enum ws_nvtx_type {
	WS_NVTX_CATEGORY = 33,
	WS_NVTX_MARK = 34,
	WS_NVTX_THREAD = 39,
	WS_NVTX_PUSHPOP = 59,
	WS_NVTX_STARTEND = 60,
	WS_NVTX_DOMAIN_CREATE = 75,
	WS_NVTX_DOMAIN_DESTROY = 76,
};

enum ws_nvtx_flags {
	WS_NVTX_HAS_COLOR = 1,
	WS_NVTX_REGISTERED = 2, /* the text is a registered string */
	WS_NVTX_LEFT_OPEN = 4,	/* never closed: end is null */
};

/* Types of nvtx_resource that CUDA numbers too: class << 16 | number, as NVTX numbers resources. */
enum ws_nvtx_cuda_resource {
	WS_NVTX_CU_DEVICE = 4 << 16 | 1,
	WS_NVTX_CU_CONTEXT = 4 << 16 | 2,
	WS_NVTX_CU_STREAM = 4 << 16 | 3,
	WS_NVTX_RT_DEVICE = 5 << 16 | 0,
	WS_NVTX_RT_STREAM = 5 << 16 | 1,
};

enum ws_nvtx_payload { /* NVTX's own numbers */
		       WS_NVTX_PAYLOAD_NONE = 0,
		       WS_NVTX_PAYLOAD_U64 = 1,
		       WS_NVTX_PAYLOAD_I64 = 2,
		       WS_NVTX_PAYLOAD_F64 = 3,
		       WS_NVTX_PAYLOAD_U32 = 4,
		       WS_NVTX_PAYLOAD_I32 = 5,
		       WS_NVTX_PAYLOAD_F32 = 6,
		       WS_NVTX_PAYLOAD_EXT = 9, /* bytes in `binary` */
};

/* CUDA's own numbers are stored as CUPTI and the SQLite export number them; these are ours. */
enum ws_cuda_flags {
	WS_CUDA_NO_TIMES =
		1, /* the driver had no times for it: start is when it was received, end is null */
	WS_CUDA_UNFINISHED = 2,	 /* it was still under way when the program was killed: times as far
				    as they were written */
	WS_CUDA_FROM_DEVICE = 4, /* launched by the GPU itself */
	WS_CUDA_ASYNC = 8,	 /* by an asynchronous call */
};

enum ws_occupancy_limit {
	WS_OCCUPANCY_UNKNOWN = 0,
	WS_OCCUPANCY_WARPS = 1,
	WS_OCCUPANCY_REGISTERS = 2,
	WS_OCCUPANCY_SHARED = 3,
	WS_OCCUPANCY_BLOCKS = 4,
};

enum ws_cuda_class { WS_CUDA_RUNTIME = 0, WS_CUDA_DRIVER = 1 };

/* Copy kinds that are not CUPTI's CUpti_ActivityMemcpyKind: traffic of unified memory, as the
 * SQLite export numbers it. */
enum ws_cuda_copy_kind {
	WS_COPY_HTOD = 1,
	WS_COPY_DTOH = 2,
	WS_COPY_HTOA = 3,
	WS_COPY_ATOH = 4,
	WS_COPY_ATOA = 5,
	WS_COPY_ATOD = 6,
	WS_COPY_DTOA = 7,
	WS_COPY_DTOD = 8,
	WS_COPY_HTOH = 9,
	WS_COPY_PTOP = 10,
	WS_COPY_UM_HTOD = 11,
	WS_COPY_UM_DTOH = 12,
	WS_COPY_UM_DTOD = 13,
};

enum ws_module_kind {
	WS_MODULE_FILE = 1, /* an ELF file */
	WS_MODULE_VDSO = 2,
	WS_MODULE_KERNEL = 3, /* the kernel and its modules */
	WS_MODULE_JIT =
		4, /* code generated at run time: named by a perf map or a jitdump, or not at all */
	WS_MODULE_PYTHON = 5, /* the frames of an interpreter */
};
enum ws_module_flags {
	WS_MODULE_DELETED = 1,	/* the file was deleted or replaced while it was mapped */
	WS_MODULE_MISSING = 2,	/* it could not be opened when symbols were looked up */
	WS_MODULE_CHANGED = 4,	/* the file that is there now is another one (build id, or size and
				   time): not used */
	WS_MODULE_STRIPPED = 8, /* it has no symbols of its own but the dynamic ones */
};

enum ws_frame_kind {
	WS_FRAME_USER = 1,
	WS_FRAME_KERNEL = 2,
	WS_FRAME_PYTHON = 3,
	WS_FRAME_JIT = 4
};

/* Numbered as ENUM_STACK_UNWIND_METHOD of the SQLite export. */
enum ws_unwind_method {
	WS_UNWIND_UNKNOWN = 0,
	WS_UNWIND_FP = 1,
	WS_UNWIND_KERNEL = 5,
	WS_UNWIND_EH = 6,    /* .eh_frame */
	WS_UNWIND_DEBUG = 7, /* .debug_frame */
	WS_UNWIND_LBR = 8,
};

enum ws_gil_state { WS_GIL_UNKNOWN = 0, WS_GIL_NONE = 1, WS_GIL_HOLDS = 2, WS_GIL_WAITS = 3 };

enum ws_sample_flags {
	WS_SAMPLE_CLOCK = 1,  /* taken by the CPU clock, not by a counter: weight is nanoseconds */
	WS_SAMPLE_SIGNAL = 2, /* taken by a timer signal in the target, not by perf */
	WS_SAMPLE_TRUNCATED =
		4, /* the stack is incomplete: too deep, or more bytes than were copied */
	WS_SAMPLE_BROKEN = 8,  /* unwinding stopped before the outermost function */
	WS_SAMPLE_KERNEL = 16, /* it ran in the kernel */
	WS_SAMPLE_SEPARATE =
		32, /* Python frames read later than the native ones: possibly another stack */
	WS_SAMPLE_REST = 64, /* no sample: what the thread ran after its last one, to its end */
};

/* Numbered as ENUM_SAMPLING_THREAD_STATE of the SQLite export. */
enum ws_thread_state {
	WS_STATE_UNKNOWN = 0,
	WS_STATE_RUNNING = 1,
	WS_STATE_BLOCKED = 2,
	WS_STATE_UNSCHEDULED = 6,
	WS_STATE_OSRT = 8
};

enum ws_sched_after {
	WS_AFTER_UNKNOWN = 0,
	WS_AFTER_PREEMPTED = 1,	      /* it could have gone on */
	WS_AFTER_SLEEPING = 2,	      /* it waits and can be interrupted */
	WS_AFTER_UNINTERRUPTIBLE = 3, /* it waits for a device, mostly */
	WS_AFTER_STOPPED = 4,
	WS_AFTER_DEAD = 5,
	WS_AFTER_BLOCKED = 6, /* it waits; perf does not say how */
};

enum ws_slice_flags {
	WS_SLICE_INSTANT = 1,	/* a moment */
	WS_SLICE_LEFT_OPEN = 2, /* it never ended */
	WS_SLICE_ASYNC = 4,	/* may overlap others of its row without nesting */
	WS_SLICE_PYTHON = 8,	/* a call of a Python function that the user named */
};

enum ws_op_kind { WS_OP_CPU = 1, WS_OP_ANNOTATION = 2, WS_OP_PYTHON = 3, WS_OP_OTHER = 4 };

/* Bytes between two sampled allocations of a thread, on average (table heap). */
#define WS_HEAP_INTERVAL 524288

/* The first eight bytes of every report. */
#define WS_REPORT_MAGIC "\x89WSREP\r\n"

#endif
