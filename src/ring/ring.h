/*
 * ring.h - the shared memory between the target's hooks and the recorder.
 *
 * One piece of memory per session (the arena: sealed memory or, where that is impossible, a file of
 * mode 0600; see arena_name.h), mapped by the recorder and, from its start as far as needed, by
 * every process of the target. It is cut into chunks of 16 KiB. A thread that records owns a chain
 * of chunks with one writer (the thread) and one reader (the recorder):
 *
 *     directory[slot] ──► home chunk: struct ws_ring, open-range stack, first data area ──► data
 * chunk ──► data chunk ◄─ writer
 *
 * The writer appends records and publishes them by a release store of `used` in the chunk's own
 * header; when a chunk is full it takes a free one and links it. The reader follows, and gives
 * chunks it has read back to the free list, most recently used first, so that a steady stream
 * cycles through a few chunks that stay in the cache. So a thread costs 16 KiB at first, grows to
 * whatever the session's budget allows, and recording an event touches no shared cache line.
 *
 * Nothing depends on the target being alive: a killed process leaves its committed records and its
 * open ranges in the arena. Nothing depends on the recorder being alive either: once it has gone,
 * hooks stop recording at their next chunk.
 *
 * Backing memory is allocated (fallocate) before a chunk is handed out, by the recorder in advance
 * or by the writer itself, so that a full /dev/shm causes a counted loss and never a SIGBUS.
 */
#ifndef WS_RING_H
#define WS_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/ticks.h"

#define WS_ARENA_MAGIC UINT64_C(0x314152534b524157)
#define WS_ARENA_VERSION 15 /* hooks and recorder of different builds refuse each other */
#define WS_PERIODS_A_SECOND 50
#define WS_CHUNK_SIZE 16384u
#define WS_CHUNK_NONE 0u /* chunk 0 is never handed out */
#define WS_DIR_SLOTS 65536u
#define WS_MAX_CHUNKS (1u << 18) /* 4 GiB */
/* Free chunks are kept by region and the lowest are used first. A process maps the arena from its
 * start only as far as it must, so it seldom needs much of it. */
#define WS_REGION_CHUNKS 64u /* 1 MiB: a multiple of every page size */
#define WS_REGIONS (WS_MAX_CHUNKS / WS_REGION_CHUNKS)

/* What the target's environment carries. */
#define WS_ENV_SESSION "WARPSIGHT_SESSION"	 /* path of the arena */
#define WS_ASAN_ORDER "verify_asan_link_order=0" /* at the end of ASAN_OPTIONS */

/* Features that hooks turn on: bits of ws_arena.features. */
enum {
	WS_FEATURE_NVTX = 1,
	WS_FEATURE_OSRT = 2,
	WS_FEATURE_FORK_TRACE = 4 /* also record in children between fork and exec */,
	WS_FEATURE_CUDA = 8,
	WS_FEATURE_SAMPLE = 16,
	WS_FEATURE_PYTHON = 32,
	WS_FEATURE_GIL = 64,
	WS_FEATURE_PYTHON_CUDA = 128,
	WS_FEATURE_PYTHON_SAMPLES = 256,
	WS_FEATURE_PYTHON_BPF =
		512 /* a program in the kernel takes the samples, without a signal */,
	WS_FEATURE_PYTHON_ANY_NS = 1024 /* in every pid namespace */,
	WS_FEATURE_CAPTURE = 4096 /* NVTX ranges may begin and end collections */,
	WS_FEATURE_PROFILER_CALLS = 8192 /* so may cudaProfilerStart */,
	WS_FEATURE_PYTHON_OSRT = 2048 /* Python frames in stacks of calls of the OS runtime */,
	WS_FEATURE_OPENMP = 1 << 16,
	WS_FEATURE_OPENACC = 1 << 17,
	WS_FEATURE_KERNEL = 1 << 18 /* kernels are measured with counters */,
	WS_FEATURE_MALLOC = 1 << 19,
	WS_FEATURE_OPENGL_CALLS = 1 << 20, /* not only annotations */
	WS_FEATURE_OPENGL_GPU = 1 << 21 /* GPU times are measured */,
	WS_FEATURE_VULKAN_CALLS = 1 << 22,
	WS_FEATURE_VULKAN_GPU = 1 << 23,
	WS_FEATURE_VULKAN_LABELS = 1 << 24 /* of labels, too */
};

#define WS_ARENA_TEXT 65536

/*
 * Buffers that a driver library fills by itself (CUPTI's): large, few, and in the arena so that
 * what they hold outlives a SIGKILL. They lie after the chunks and get memory when they are first
 * taken. If a process dies holding one, the recorder parses it.
 */
#define WS_BUFFER_SIZE (256u << 10)
#define WS_BUFFERS 512u

struct ws_buffer_state {
	_Atomic uint32_t owner; /* home chunk of the process that holds it; 0 free */
	_Atomic uint32_t
		done; /* bytes from its start that the process has already turned into records */
};

enum ws_mpi_implementation { WS_MPI_OPEN = 1, WS_MPI_MPICH = 2 }; /* and what has its ABI */

/* What the CUDA hook should do. */
struct ws_cuda_settings {
	uint32_t flags;	   /* enum ws_cuda_setting */
	uint32_t flush_ms; /* time between flushes of CUPTI's buffers; 0: only when they are full */
	uint32_t text_apis; /* offset in `text` of +name,-name,..., or 0 */
	uint32_t reserved;
};
enum ws_cuda_setting {
	WS_CUDA_GRAPH_NODES = 1, /* each node of a graph; otherwise each launch of a graph is
				    recorded as a whole */
	WS_CUDA_MEMORY = 2,	 /* allocations */
	WS_CUDA_ALL_APIS = 4,
	WS_CUDA_EVENTS = 8,	    /* records of CUDA events */
	WS_CUDA_EVENT_TIMES = 16,   /* with the device's time of each */
	WS_CUDA_FLUSH_ON_STOP = 32, /* at cudaProfilerStop */
	WS_CUDA_UM_CPU_FAULTS = 64,
	WS_CUDA_UM_GPU_FAULTS = 128,
};

/* Where a process's threads crowd, a stack of a call of the OS runtime counts as so many. */
#define WS_STACK_CROWD_PRICE 8u

/* The calls whose stacks are copied. */
struct ws_stack_settings {
	uint64_t osrt_threshold;    /* minimum duration of a call in ticks; UINT64_MAX: no call */
	uint64_t cuda_threshold[4]; /* the same in nanoseconds, by enum ws_cuda_calls */
	uint32_t osrt_bytes, cuda_bytes; /* of stack to copy */
	uint64_t osrt_pause; /* ticks between two stacks of a process, on average; 0: no limit */
	uint64_t osrt_long;  /* duration in ticks from which a call counts as long; long calls have
				their own limit */
};
enum ws_cuda_calls {
	WS_CALLS_KERNEL = 0,
	WS_CALLS_MEMORY = 1,
	WS_CALLS_SYNC = 2,
	WS_CALLS_OTHER = 3
};

/* CPU samples taken by a timer signal. */
struct ws_sample_settings {
	uint64_t period_ns;
	uint32_t stack_bytes, reserved; /* of stack to copy; 0: none */
};

/*
 * Ranges of the program that begin and end collections: a call of cudaProfilerStart, an NVTX range
 * of a certain name. Hooks count the ranges that are open in all processes, and the first to open
 * and the last to close turn collecting on and off themselves, so that the change has taken effect
 * when the call returns; the recorder reads the times afterwards. `state` is a phase and, above it,
 * the count of open ranges. One collection is read out before the next can begin; a thread that
 * opens a range in between waits for at most WS_CAPTURE_WAIT_MS.
 */
enum ws_capture_phase {
	WS_CAPTURE_OFF,	      /* ranges are only counted */
	WS_CAPTURE_READY,     /* the next range begins a collection */
	WS_CAPTURE_BEGINNING, /* a hook is about to turn collecting on */
	WS_CAPTURE_ON,
	WS_CAPTURE_ENDING, /* a hook is about to say when it ended */
	WS_CAPTURE_ENDED,  /* the recorder reads out what was collected */
	WS_CAPTURE_PHASES = 8
};
#define WS_CAPTURE_WAIT_MS 2000u
#define WS_CAPTURE_NAME 256u

/* What hooks treat as a range: bits. */
enum ws_trigger {
	WS_TRIGGER_CUDA = 1,
	WS_TRIGGER_NVTX = 2,
	WS_TRIGGER_PROGRAM = 4,
	WS_TRIGGER_STEPS = 8
};

/* How hooks recognise the steps of --steps. */
enum ws_step_source {
	WS_STEP_UNKNOWN,
	WS_STEP_RANGE,	   /* ranges with a usual name of steps, or with the name that was given */
	WS_STEP_OUTERMOST, /* the outermost ranges of a name */
	WS_STEP_LAUNCHES,  /* the launches of a kernel */
	WS_STEP_TOO_LATE,  /* the same, but recognised only after the wanted steps had begun */
	WS_STEP_UNSURE,	   /* launches that had not repeated often enough by then */
	WS_STEP_AHEAD,	   /* launches; the wanted step has not come yet */
	WS_STEP_SOURCES
};

struct ws_capture_state {
	_Atomic uint32_t triggers; /* enum ws_trigger */
	uint32_t ends;		   /* 1: the end of the last range ends the collection */
	char range[WS_CAPTURE_NAME], domain[WS_CAPTURE_NAME]; /* of NVTX; domain "*": any, "": the
								 default */
	uint32_t serial;		  /* of these settings: steps are counted anew */
	uint32_t steps_first, steps_last; /* that are wanted */
	/* What hooks have found: an enum ws_step_source, the numbers of the step that began the
	 * collection and of the last one, and what they are called. */
	_Atomic uint32_t step_source, step_begun, step_last;
	_Atomic uint32_t step_launches; /* of one step, if steps are recognised by launches */
	char step_text[64];
	/* Correlations of the calls that launched the first work inside the collection and the
	 * first work after it, in the process begin_pid; 0: work is assigned by its times. */
	uint32_t begin_call, end_call;
	_Alignas(64) _Atomic uint32_t state; /* futex */
	uint32_t begin_pid, begin_tid;
	uint64_t begin, end;	  /* ticks */
	_Atomic uint32_t skipped; /* ranges that waited in vain */
};

/* Page-aligned start of the file, written by the recorder before the target starts. */
struct ws_arena {
	uint64_t magic;
	uint32_t version, clock_mode;
	uint64_t size;
	uint32_t chunk_first, chunk_count; /* chunks are numbered by file offset / WS_CHUNK_SIZE,
					      from chunk_first */
	int32_t recorder_pid;
	uint32_t features;
	uint64_t recorder_pid_ns;  /* inode of its pid namespace */
	uint64_t osrt_threshold;   /* ticks */
	uint64_t yield_pause;	   /* ticks between two yields of a thread that are recorded */
	uint32_t period_wakes;	   /* wake-ups of a thread that are recorded in a period; 0: all */
	uint64_t ticks_per_second; /* approximate, for thresholds and heartbeats only */
	uint32_t lossless;	   /* writers wait for memory instead of dropping events */
	uint32_t nvtx_filter;	   /* 0 all, 1 include list, 2 exclude list */
	uint32_t text_preload, text_nvtx, text_cuda; /* offsets in `text`: what exec'd children get
							in LD_PRELOAD and NVTX_INJECTION64_PATH */
	uint32_t text_domains; /* NUL-separated domain names for nvtx_filter, ended by an empty one
				*/
	uint32_t text_report_vars; /* NUL-separated names of variables that registrations report
				      (%q{}, launcher variables) */
	uint32_t text_used;
	uint32_t text_functions; /* Python functions to trace: alternately module and qualified
				    name, NUL-separated, ended by an empty one; 0 for none */
	uint32_t text_kernel;	 /* settings of the kernel hook: kernel_record.h */
	uint32_t buffer_first;	 /* file offset of the first buffer / WS_BUFFER_SIZE */
	uint32_t buffer_count;	 /* at most WS_BUFFERS */
	uint32_t mpi;		 /* expected: enum ws_mpi_implementation; 0: any */
	uint32_t nccl_events;	 /* wanted of NCCL: bits 1 << enum ws_nccl_event */
	struct ws_cuda_settings cuda;
	struct ws_stack_settings stacks;
	struct ws_sample_settings sample;
	char text[WS_ARENA_TEXT];

	struct ws_capture_state capture;
	/* While what was collected is read out: ticks when collecting ended. Ranges that were open
	 * then are still recorded when they end. Else 0. */
	_Atomic uint64_t ended_at;
	_Alignas(64) _Atomic uint32_t
		idle; /* while nothing is collected hooks do as little as they can: for ranges they
			 keep only the names and approximate starts */
	_Atomic uint32_t
		collecting; /* events are wanted; toggled by delay, duration and capture ranges */
	_Atomic uint64_t collect_from, collect_to; /* start and end of the collection in session ns;
						      0: not begun, or not over */
	_Atomic uint32_t closed;    /* the recorder has finished: hooks turn themselves off */
	_Atomic uint32_t over;	    /* nothing more will be collected; the recorder lives on */
	_Atomic uint32_t leaving;   /* the recorder is about to leave the process that it attached
				       to: what has its own thread there ends it */
	_Atomic uint64_t heartbeat; /* ticks of the recorder's last round, or of the end of the last
				       collection if that was later */
	_Atomic uint64_t period;    /* the same, but set no more than WS_PERIODS_A_SECOND times a
				       second: in each, a thread's first wake-ups are recorded */
	_Alignas(64) _Atomic uint64_t free_heads[WS_REGIONS]; /* tag << 32 | chunk */
	_Alignas(64) _Atomic uint32_t chunk_next;	      /* chunks never used yet begin here */
	_Atomic uint32_t chunk_backed;	/* chunks below this number have memory */
	_Atomic uint32_t string_chunks; /* chunks that hold strings */
	_Alignas(64) _Atomic uint32_t
		sleeping; /* futex, enum ws_sleep: the recorder is asleep and wants to be woken */
	_Atomic uint32_t dir_used;	     /* high-water mark of the directory */
	_Atomic uint64_t lost_registrations; /* processes or threads that got no memory */
	struct ws_buffer_state buffers[WS_BUFFERS];
	_Alignas(64) _Atomic uint32_t
		directory[WS_DIR_SLOTS]; /* home chunk of a ring, or a process home; 0 free */
	_Atomic uint32_t free_next[WS_MAX_CHUNKS];
};

enum ws_sleep {
	WS_AWAKE = 0,
	WS_SLEEP = 1,	   /* until there is something to read */
	WS_SLEEP_DEEP = 2, /* until something cannot wait, such as a new thread or a command */
};

/* Every chunk begins with this. */
struct ws_chunk {
	_Atomic uint32_t used; /* bytes from the start of the chunk that are committed; the writer's
				  release store publishes records */
	_Atomic uint32_t
		next;  /* chunk that follows in the chain; set after `used` has its last value */
	uint32_t kind; /* enum ws_chunk_kind */
	uint32_t self;
	uint64_t base; /* ticks when the writer began it: what short records count from */
	uint64_t pad[5];
};

enum ws_chunk_kind {
	WS_CHUNK_DATA = 1,
	WS_CHUNK_RING = 2,
	WS_CHUNK_PROCESS = 3,
	WS_CHUNK_STRINGS = 4,
	WS_CHUNK_OPEN = 5
};

/* An open NVTX range, kept here so that a kill, a window's end or a live view can see it. */
struct ws_open {
	uint64_t start; /* ticks; 0 for a hole (a pop from another domain took it out of the middle)
			 */
	union {
		struct {
			uint64_t payload;
			uint32_t text; /* string handle, or local text number with
					  WS_OPEN_LOCAL_TEXT */
			uint32_t color, category;
			uint32_t binary; /* local number of a binary payload, 0 for none */
		};
		struct {		  /* with WS_OPEN_IDLE */
			char head[16];	  /* the text's first bytes; it ends at a NUL among them */
			uint64_t address; /* of the text in the process when it was pushed */
		};
	};
	uint16_t domain;
	uint8_t flags, payload_type;
	uint16_t level; /* in its domain */
	uint16_t under; /* depth at which the run of entries of this domain that it belongs to
			   begins */
};
enum {
	WS_OPEN_LOCAL_TEXT = 1,
	WS_OPEN_HAS_COLOR = 2,
	WS_OPEN_REGISTERED = 4,
	WS_OPEN_EXTENDED = 8, /* has more than text and domain */
	WS_OPEN_LOST = 16,    /* there was no memory for its text: counted as lost, makes no row */
	WS_OPEN_CLOSING = 32, /* its record is being written: after a kill, that record may be there
				 already */
	WS_OPEN_IDLE = 64,    /* pushed while nothing was collected: `start` is the time of the
				 recorder's last round before it, and the text is not defined yet */
};

/*
 * Write what is known of the text of an entry with WS_OPEN_IDLE into `out`, NUL-terminated. Returns
 * false when the text is longer than the head; "…" then replaces the rest, including a character
 * that was cut in two.
 */
#define WS_OPEN_HEAD_ROOM 24
static inline bool ws_read_open_head(const struct ws_open *open, char *out)
{
	size_t n = strnlen(open->head, sizeof(open->head)), lead = n;
	unsigned char byte;

	memcpy(out, open->head, n);
	out[n] = 0;
	if (n < sizeof(open->head))
		return true;
	do
		byte = (unsigned char)out[--lead];
	while (lead > n - 4 && (byte & 0xc0) == 0x80);
	if (n - lead < 1u + (byte >= 0xc0) + (byte >= 0xe0) + (byte >= 0xf0))
		n = lead;
	memcpy(out + n, "…", sizeof("…"));
	return false;
}

/*
 * A traced C library call that has not returned: written at its start, so that a program killed
 * while it hangs shows where each of its threads hung. `stack` identifies calls that a longjmp
 * abandoned.
 */
struct ws_open_call {
	uint64_t start; /* ticks */
	uint64_t object, stack;
	uint32_t function; /* ring/osrt_functions.def */
	uint32_t reserved;
};
#define WS_OPEN_CALLS 16

/* A call of a traced library that has not returned (inject/library.h). */
struct ws_open_library_call {
	uint64_t start;	   /* ticks; 0: none */
	uint64_t stack;	   /* where on the thread's stack its struct ws_library_call is */
	uint32_t function; /* enum ws_library_function */
	uint32_t reserved;
};
#define WS_OPEN_LIBRARY_CALLS 16 /* a library uses the entry at its number modulo this */

/*
 * Calls of a library that follow one another too fast for two clock readings each. A thread
 * collects them here, and writes them as one record (struct ws_rec_library_bunch); what it has
 * collected when it is killed is read from here. Calls with the same function and values have one
 * shape.
 */
#define WS_BUNCH_CALLS 64u
#define WS_BUNCH_SHAPES 16u
#define WS_BUNCH_WORDS 80u
/* Most words of a shape: its function << 32 | values, then the values. */
#define WS_SHAPE_WORDS 16u
#define WS_PENDING_SHIFT 8u
#define WS_BUNCH_NOT_OPEN UINT64_MAX /* no heartbeat, unlike 0, which is that before the first */
struct ws_library_bunch {
	_Alignas(64) _Atomic uint32_t calls; /* that have been collected; the release store
						publishes them */
	uint32_t dense;			     /* calls are being collected */
	uint64_t heartbeat;		     /* of the recorder when the bunch was begun */
	uint64_t start, first_end;	     /* ticks; of the first call */
	_Atomic uint32_t pending; /* a call that has ended and follows them is in `pending_word`:
				     words, and above them `calls`, with which it counts as one
				     more; 0: none */
	uint32_t last;		  /* the shape of the last call */
	uint64_t period;	  /* of a call in the last bunch, ticks */
	uint64_t mark;		  /* end of a call that was recorded by itself, ticks */
	uint64_t open;		  /* the heartbeat, where the bunch has calls and room for more */
	int64_t pending_word[WS_SHAPE_WORDS];
	uint32_t since_mark;		  /* such calls since then */
	uint32_t holding_off;		  /* and how many must still come before any is collected */
	uint32_t shapes, words;		  /* in use */
	uint8_t follows[WS_BUNCH_SHAPES]; /* by shape: the one that followed last time */
	uint16_t at[WS_BUNCH_SHAPES];	  /* by shape: index in `word` */
	uint8_t call[WS_BUNCH_CALLS];	  /* shapes */
	int64_t word[WS_BUNCH_WORDS];
};

#define WS_OPEN_DEPTH 64 /* levels in the home chunk; deeper ones in chunks of kind OPEN */
#define WS_LOSS_KINDS 10
enum ws_loss_kind {
	WS_LOSS_NVTX = 0,
	WS_LOSS_OSRT = 1,
	WS_LOSS_OTHER = 2,
	WS_LOSS_DEPTH = 3 /* ranges nested too deep */,
	WS_LOSS_CUDA = 4,
	WS_LOSS_SAMPLE = 5,
	WS_LOSS_PYTHON = 6,
	WS_LOSS_STACK = 7, /* stacks omitted because there were too many calls: no event is lost */
	WS_LOSS_YIELD = 8, /* calls of sched_yield left out because they were too many */
	WS_LOSS_WAKE = 9   /* the same of pthread_cond_signal and pthread_cond_broadcast */
};

/* A thread's home chunk, and the chunk of each further ring that a signal handler needed (nest >
 * 0). */
struct ws_ring {
	struct ws_chunk chunk; /* kind RING; its data area begins at WS_RING_DATA */
	uint32_t process_home; /* chunk of the process */
	uint32_t pid, tid, slot;
	uint64_t start; /* ticks */
	uint32_t nest;
	_Atomic uint32_t closed;	      /* 1: the thread is gone and will write no more */
	_Atomic uint64_t lost[WS_LOSS_KINDS]; /* written by the thread only */
	_Alignas(64) _Atomic uint32_t open_depth;
	_Atomic uint32_t open_more; /* first chunk of kind OPEN */
	struct ws_open open[WS_OPEN_DEPTH];
	_Alignas(64) _Atomic uint32_t
		calls_open; /* more than WS_OPEN_CALLS when nested deeper: those are not kept */
	struct ws_open_call calls[WS_OPEN_CALLS];
	struct ws_open_library_call library_calls[WS_OPEN_LIBRARY_CALLS];
	struct ws_library_bunch bunch;
};
#define WS_RING_DATA 5120u
_Static_assert(sizeof(struct ws_ring) <= WS_RING_DATA,
	       "the home chunk's data area begins behind the ring");

struct ws_open_chunk {
	struct ws_chunk chunk; /* `next` chains */
	struct ws_open open[(WS_CHUNK_SIZE - sizeof(struct ws_chunk)) / sizeof(struct ws_open)];
};
#define WS_OPEN_PER_CHUNK WS_COUNT(((struct ws_open_chunk *)0)->open)

/* One per process image or forked child; its tail and further chunks of kind STRINGS hold the
 * strings it defines. */
struct ws_process_home {
	struct ws_chunk chunk; /* kind PROCESS */
	uint32_t pid, ppid, parent_home, slot;
	uint32_t origin; /* enum ws_process_origin, without TARGET */
	uint32_t flags;
	uint64_t pid_ns;
	uint64_t start;		/* ticks */
	uint64_t parent_start;	/* `start` of the forking process: with parent_home, identifies it
				   even after that chunk was reused */
	_Atomic uint32_t ended; /* the process announced its end: exit handlers ran */
	_Atomic uint32_t ready; /* the rest may be read */
	_Atomic uint64_t string_pos;	/* next free byte: chunk << 32 | offset */
	_Atomic uint32_t python_events; /* events that the recorder holds open and that send signals
					   to threads of this process */
	_Atomic uint32_t
		python_refused; /* it must close them: the program wants the signal for itself */
	_Atomic uint32_t gpu_flushes; /* 1: records of GPU work are still to come, possibly of a
					 collection that has ended */
	_Atomic uint32_t ranges_open; /* capture ranges that are open in the process */
	_Atomic uint32_t late_cuda;   /* 1: CUPTI was loaded into the running process, and a thread
					 of ours uses it */
	uint32_t exe_len, cmdline_len, env_len; /* texts are stored one after the other at `text`:
						   NUL-separated arguments, NAME=VALUE reports */
	uint32_t text_chunk;			/* a further chunk when they do not fit; 0 */
	char text[];
};
enum {
	WS_PROC_FORKED = 1, /* it has forked */
	WS_PROC_TRUNCATED = 2,
	WS_PROC_LIMITED =
		4, /* events were lost because its mapping could not grow; set at any time */
};

/* A string in the arena: handle * 8 is its file offset. Never 0. */
struct ws_shared_string {
	uint32_t len;
	char bytes[]; /* NUL-terminated, padded to 8 */
};

/* Once strings have taken this part of the arena, texts that may not occur again are written
 * inline.
 */
enum { WS_STRINGS_SHARE = 16 };

static inline void *ws_chunk_at(const void *arena, uint32_t chunk)
{
	return (char *)arena + (uint64_t)chunk * WS_CHUNK_SIZE;
}
static inline const struct ws_shared_string *ws_string_at(const void *arena, uint32_t handle)
{
	return (const struct ws_shared_string *)((const char *)arena + (uint64_t)handle * 8);
}

/*
 * Begin or end a collection at once, for every hook of the session, and wake those that wait for
 * it. Idle ranges that are pushed after the end of a collection start after it.
 */
void ws_switch_collecting(struct ws_arena *arena, bool on);
/*
 * Take the lowest free chunk, or an unused one that has memory behind it, below `end`. `end` is the
 * arena's end or, if the caller has mapped less, a multiple of WS_REGION_CHUNKS up to which it has.
 * Lock-free and async-signal-safe. 0 when there is none: the caller then maps more or tries
 * ws_extend_arena (needs the arena's path), then counts a loss.
 */
uint32_t ws_take_chunk(struct ws_arena *arena, uint32_t end);
/* Give a chunk back. */
void ws_give_chunk(struct ws_arena *arena, uint32_t chunk);
/* Put memory behind at least one more MiB, up to the budget. `fd` is open on the arena. 0, or -1
 * when full or refused. */
int ws_extend_arena(struct ws_arena *arena, int fd, uint32_t chunks);
/* The same for the recorder, which knows the budget and does not trust the header: `end` is the
 * number of the last chunk + 1. */
int ws_extend_arena_below(struct ws_arena *arena, int fd, uint32_t chunks, uint32_t end);
/* Announce that there is memory behind all chunks below `want`; `backed` is the number of chunks
 * that had memory before. */
void ws_raise_backed(struct ws_arena *arena, uint32_t backed, uint32_t want);
/*
 * Take a buffer for the process whose home is `home`, with memory behind it; -1 when there is none.
 * It still contains what its last owner left in it. `fd` is open on the arena.
 */
int ws_take_buffer(struct ws_arena *arena, int fd, uint32_t home);
static inline void *ws_buffer_at(const struct ws_arena *arena, uint32_t i)
{
	return (char *)arena + ((uint64_t)arena->buffer_first + i) * WS_BUFFER_SIZE;
}
/* Find a directory slot for `chunk`; -1 when all are taken. */
int ws_add_to_directory(struct ws_arena *arena, uint32_t chunk);

#endif
