/*
 * osrt_record.h - what the OS-runtime hook writes for a call that lasted long enough: 32 bytes, 48
 * when there is an object or path to record, 64 for a file call that moved bytes. It is written
 * when the call returns; calls that never return are found in struct ws_ring.calls.
 */
#ifndef WS_RING_OSRT_RECORD_H
#define WS_RING_OSRT_RECORD_H

#include "base/choose.h"
#include "ring/record.h"

/* Numbers of functions, in the order of osrt_functions.def. */
enum ws_osrt_function {
#define WS_OSRT_ENTRY(symbol, shown, error, object) WS_OSRT_##symbol,
#include "ring/osrt_functions.def"
	WS_OSRT_COUNT
};

/* Kinds of OBJECT in osrt_functions.def. */
enum ws_osrt_object {
	WS_OSRT_OBJECT_NONE,
	WS_OSRT_OBJECT_VALUE,
	WS_OSRT_OBJECT_FD,
	WS_OSRT_OBJECT_FD_AT, /* and an offset, see WS_OSRT_AT */
	WS_OSRT_OBJECT_PATH,
	WS_OSRT_OBJECT_OPEN,
	WS_OSRT_OBJECT_FOPEN,
	WS_OSRT_OBJECT_STREAM,
	WS_OSRT_OBJECT_RESULT,
};

/* Flags in rec.value, which is these flags | nesting << 8 | errno << 16. */
enum ws_osrt_flags {
	WS_OSRT_LOCAL_PATH = 1, /* `path` is a local text number */
};

struct ws_rec_osrt {
	struct ws_rec rec; /* small: enum ws_osrt_function; value as above */
	uint64_t start, end;
	int64_t result;
};

struct ws_rec_osrt_more {
	struct ws_rec_osrt call;
	uint64_t object;
	uint32_t path;	 /* handle, or local text */
	uint32_t holder; /* thread that held the lock; 0 not known */
};

/* A call that read or wrote a file. */
struct ws_rec_osrt_file {
	struct ws_rec_osrt_more more;
	uint64_t position; /* in the file, after the last byte moved; UINT64_MAX: not known */
	uint32_t item;	   /* size of the items that the result counts; 0: it counts bytes */
	uint32_t reserved;
};

/* Packs a descriptor with an offset in the file; the offset loses its lower 9 bits and those beyond
 * 2 TiB. */
#define WS_OSRT_AT(fd, at) ((uint64_t)(uint32_t)(fd) | ((uint64_t)(at) >> 9) << 32)

static inline uint32_t ws_osrt_value(unsigned flags, unsigned nesting, int error)
{
	return flags | (ws_min(nesting, 255)) << 8 | (uint32_t)(error & 0xffff) << 16;
}

#endif
