/*
 * record.h - the records that hooks write into rings. They hold whatever is cheapest to write, such
 * as raw ticks and handles instead of text. record/ turns them into rows of tables.def. Both sides
 * always come from the same build, so nothing here is a file format.
 *
 * Every record begins with struct ws_rec and is a multiple of 8 bytes; `words` is its size in
 * 8-byte words, 0 meaning that the size stands in `value`, for records beyond 2,040 bytes.
 */
#ifndef WS_RECORD_H
#define WS_RECORD_H

#include <stdint.h>

/* kind, function of record/ that converts it */
#define WS_RECORD_KINDS(X)                                                                 \
	X(NVTX_RANGE, nvtx_range)   /* push/pop range with text and domain only */         \
	X(NVTX_SHORT, nvtx_short)   /* the same, short enough for one word of times */     \
	X(NVTX_EVENT, nvtx_event)   /* anything else of NVTX with a time */                \
	X(NVTX_DEFINE, nvtx_define) /* domains, categories, schemas, names of resources */ \
	X(NVTX_BLOB, nvtx_blob)	    /* extended payloads of an event that follows */       \
	X(TEXT, text)		    /* a string used once or twice, by local number */     \
	X(OSRT, osrt)		    /* a call */                                           \
	X(OSRT_MORE, osrt_more)	    /* a call with object and path */                      \
	X(THREAD_NAME, thread_name)                                                        \
	X(PROCESS_NOTE, process_note) /* exec attempts, spawns, forks */                   \
	X(DIAGNOSTIC, diagnostic)                                                          \
	X(CUDA_BATCH, cuda_batch) /* CUPTI's own records */                                \
	X(CUDA_NAME, cuda_name)	  /* text behind a pointer or number in them */            \
	X(CUDA_DEVICE, cuda_device)                                                        \
	X(CUDA_RESOURCE, cuda_resource) /* modules, graphs, nodes */                       \
	X(CUDA_SYNC, cuda_sync)		/* a wait */                                       \
	X(CUDA_HOST, cuda_host)		/* a function that CUDA is to call on the CPU */   \
	X(CUDA_SEEN, cuda_seen)		/* which CUPTI was found; its records' sizes */    \
	X(PYTHON_SEEN, python_seen)	/* an interpreter is there */                      \
	X(PYTHON_THREAD, python_thread)                                                    \
	X(PYTHON_CODE, python_code)                                                        \
	X(PYTHON_TABLE, python_table) /* the rest of a code's line table */                \
	X(PYTHON_FRAMES, python_frames)                                                    \
	X(PYTHON_SAMPLE, python_sample)                                                    \
	X(PYTHON_RANGE, python_range) /* a named function ran */                           \
	X(GIL, gil)                                                                        \
	X(STACK, stack)			/* registers and stack of the call that follows */ \
	X(MAPS, maps)			/* the process's address map */                    \
	X(SAMPLE, sample)		/* of the CPU, taken by a signal */                \
	X(LIBRARY, library)		/* a call of a traced library */                   \
	X(LIBRARY_ROW, library_row)	/* something that it has */                        \
	X(LIBRARY_WORK, library_work)	/* what a call began or waited for */              \
	X(LIBRARY_SPAN, library_span)	/* a span that is no call */                       \
	X(LIBRARY_BUNCH, library_bunch) /* many short calls */                             \
	X(OSRT_FILE, osrt_file)		/* a call that moved bytes of a file */            \
	X(OPENMP, openmp)                                                                  \
	X(OPENACC, openacc)                                                                \
	X(KERNEL_RESULT, kernel_result)	  /* a launch that was to be measured */           \
	X(KERNEL_METRICS, kernel_metrics) /* its values */                                 \
	X(KERNEL_DEVICE, kernel_device)                                                    \
	X(KERNEL_SOURCE, kernel_source)	  /* what its instructions did */                  \
	X(KERNEL_SAMPLES, kernel_samples) /* a metric over its time */                     \
	X(HEAP, heap)			  /* a sampled block was allocated or freed */     \
	X(NCCL, nccl)			  /* what NCCL told its profiler plug-in */

enum ws_rec_kind {
	WS_REC_NONE = 0,
#define X(kind, fn) WS_REC_##kind,
	WS_RECORD_KINDS(X)
#undef X
		WS_REC_COUNT
};

struct ws_rec {
	uint8_t kind, words;
	uint16_t small; /* meaning depends on kind: domain, function... */
	uint32_t value; /* likewise: string handle... */
};

/* The maximum length of a record. */
#define WS_REC_MAX_BYTES 12000u

struct ws_rec_nvtx_range {
	struct ws_rec rec; /* small: domain; value: text handle */
	uint64_t start, end;
};

/*
 * Nearly every range: `times` holds the end, in ticks from the chunk's base, in its upper 40 bits
 * and the duration in its lower 24. 16 bytes instead of 24, so the same memory holds a longer
 * burst.
 */
struct ws_rec_nvtx_short {
	struct ws_rec rec; /* as above */
	uint64_t times;
};
#define WS_SHORT_DURATION_BITS 24
#define WS_SHORT_END_BITS 40

/*
 * A string that is not worth adding to the shared strings. Its number is local to the ring and
 * counts up from 1; later records of the same ring refer to it. A string longer than
 * WS_REC_MAX_BYTES takes several TEXT records with the same number, in order, all but the last with
 * small = 1.
 */
struct ws_rec_text {
	struct ws_rec rec; /* small: 1 when more follows */
	uint32_t number, len;
	char bytes[];
};

/*
 * ...the domains declare their further records in ring/nvtx_record.h, ring/osrt_record.h.
 */

struct ws_rec_thread_name {
	struct ws_rec rec; /* value: handle of the name */
	uint64_t time;
	uint32_t tid; /* thread it is about; may be another one of the process */
	int32_t priority;
};

enum ws_process_note {
	WS_NOTE_EXEC = 1,
	WS_NOTE_EXEC_FAILED = 2,
	WS_NOTE_SPAWN = 3,
	WS_NOTE_FORK = 4
};
struct ws_rec_process_note {
	struct ws_rec rec; /* small: enum ws_process_note; value: handle of the path, 0 for fork */
	uint64_t time;	   /* before the child or the new image could start */
	int32_t pid;	   /* child, or the caller itself for exec */
	int32_t error;	   /* EACCES: started without the hooks, because it could not read them;
			      ENOMEM: because its address space is too small for them */
};

struct ws_rec_diagnostic {
	struct ws_rec rec; /* small: severity; value: handle of the text */
	uint64_t time;
	uint32_t source; /* handle */
	uint32_t reserved;
};

static inline uint32_t ws_rec_bytes(const struct ws_rec *record)
{
	return 8u * (record->words ? record->words : record->value);
}

#endif
