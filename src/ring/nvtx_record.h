/*
 * nvtx_record.h - the NVTX records: written by inject/nvtx*.c, turned into rows by
 * record/from_nvtx.c.
 *
 * A push/pop range with nothing but a text is WS_REC_NVTX_RANGE (24 bytes, ring/record.h).
 * Everything else that has a time is WS_REC_NVTX_EVENT; everything that only defines what a number
 * means is WS_REC_NVTX_DEFINE.
 *
 * `rec.small` of RANGE and EVENT is the domain's number with two flags on top. `rec.value` is the
 * text: a string handle, or with WS_NVTX_SMALL_LOCAL the number of a TEXT record before it in the
 * same ring, which only this record uses.
 */
#ifndef WS_RING_NVTX_RECORD_H
#define WS_RING_NVTX_RECORD_H

#include "ring/record.h"

#define WS_NVTX_SMALL_LOCAL 0x8000u
#define WS_NVTX_SMALL_REGISTERED 0x4000u
#define WS_NVTX_SMALL_DOMAIN 0x3fffu
#define WS_NVTX_DOMAINS (WS_NVTX_SMALL_DOMAIN + 1)

enum ws_nvtx_event_kind {
	WS_NVTX_EV_RANGE = 1, /* push/pop range that has ended */
	WS_NVTX_EV_MARK = 2,
	WS_NVTX_EV_START = 3,  /* other = id */
	WS_NVTX_EV_END = 4,    /* other = id; text unused */
	WS_NVTX_EV_FORGET = 5, /* not an event: its text and payloads will not be used */
};

#define WS_NVTX_ID_SYNC                                                                   \
	(UINT64_C(1) << 62) /* ids from here on belong to synchronisation objects and are \
			       recomputed at each use */

struct ws_rec_nvtx_event {
	struct ws_rec rec;
	uint8_t kind, has_color, payload_type, reserved;
	uint32_t category;
	uint64_t time;	/* ticks: of the event, or the start of the range */
	uint64_t other; /* ticks of the range's end, or id of a start/end range */
};

/* The same with everything that a program can attach; the record's size tells the two apart. */
struct ws_rec_nvtx_event_full {
	struct ws_rec_nvtx_event record;
	uint64_t payload;
	uint32_t color;
	uint32_t binary;     /* number of the BLOB record with extended payloads, 0 for none */
	uint32_t binary_end; /* likewise, given at the pop */
	uint32_t reserved;
};

/*
 * Extended payloads of one event, which only that event uses. `number` shares its sequence with the
 * numbers of TEXT records, and long payloads are split into pieces in the same way. This is a
 * separate kind because the recorder joins the payloads of a range's begin and end.
 */
struct ws_rec_nvtx_blob {
	struct ws_rec
		rec; /* small: 1 when more follows; value: its size in words, as for long records */
	uint32_t number, len;
	char bytes[];
};

/*
 * In blobs and in the report, each payload is this header, then `size` bytes, then zeroes up to a
 * multiple of 8. Little-endian, as the two machines we record on are.
 */
struct ws_nvtx_blob {
	uint64_t schema, size;
};

enum ws_nvtx_define_kind {
	WS_NVTX_DEF_DOMAIN = 1,	  /* value: name */
	WS_NVTX_DEF_DESTROY = 2,  /* the domain */
	WS_NVTX_DEF_CATEGORY = 3, /* id, value: name */
	WS_NVTX_DEF_THREAD = 4,	  /* id: tid, value: name */
	WS_NVTX_DEF_RESOURCE = 5, /* type, id: identifier, value: name */
	WS_NVTX_DEF_SCHEMA = 6,	  /* with ws_rec_nvtx_schema */
	WS_NVTX_DEF_ENTRY = 7,	  /* with ws_rec_nvtx_schema_entry */
};
struct ws_rec_nvtx_define {
	struct ws_rec rec; /* small: domain (with flags); value: name */
	uint8_t kind, reserved[3];
	uint32_t type;
	uint64_t time, id;
};
struct ws_rec_nvtx_schema {
	struct ws_rec_nvtx_define record; /* id: the schema; type: its type */
	uint64_t flags, size, align;
	uint32_t entries, reserved;
};
struct ws_rec_nvtx_schema_entry {
	struct ws_rec_nvtx_define record; /* id: the schema; type unused */
	uint64_t flags, entry_type, detail, offset;
	uint32_t index;
	uint32_t description; /* string handle, never a local text */
};

struct ws_rec_nvtx_resource {
	struct ws_rec_nvtx_define record; /* id: the identifier; type: what it is */
	uint32_t device, context, stream,
		reserved; /* UINT32_MAX: not a CUDA object, or not known */
};

/* Types in nvtx_schema and nvtx_resource for what NVTX does not number, chosen so that they do not
 * collide with its numbers. */
#define WS_NVTX_SCHEMA_ENUM \
	0x100u		/* an enumeration: entries have value in detail, is-flag in flags */
enum ws_nvtx_resource { /* class << 16 | number, as NVTX numbers resources; classes of NVTX are
			   small */
			WS_NVTX_RESOURCE_SCOPE = 0x7f000001,
			WS_NVTX_RESOURCE_SYNC =
				0x7f000002, /* user-defined synchronisation object */
};

#endif
