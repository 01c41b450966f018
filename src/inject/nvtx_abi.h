/*
 * nvtx_abi.h - what a tool must know of the binary interface of NVTX version 3, in our own words.
 *
 * A program that uses NVTX carries its loader in itself (the API is header-only). On the first call
 * the loader opens the library that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2
 * with a function that gives "export tables". The table CALLBACKS gives, for each module, an array
 * of addresses of function pointers; the tool stores its own functions there, each in the slot
 * numbered for it, and the loader clears the slots that the tool left alone. Extensions (payloads,
 * counters, memory) come through InitializeInjectionNvtxExtension, with an array of slots that hold
 * the functions directly.
 *
 * Every program and library that embeds NVTX has such tables of its own, and versions differ: a
 * slot beyond the size that the loader reports does not exist, and attribute structs carry their
 * own size.
 *
 * annotate.h implements the other side of the same protocol. It has its own copy of the few numbers
 * that it needs, since it is installed without this file.
 */
#ifndef WS_NVTX_ABI_H
#define WS_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Export tables. */
enum { NX_TABLE_CALLBACKS = 1, NX_TABLE_VERSION = 3 };

/* Modules of the callbacks table, with the slots of each. Slot 0 is never used. */
enum nx_module {
	NX_CORE = 1,
	NX_CUDA = 2,
	NX_OPENCL = 3,
	NX_CUDART = 4,
	NX_CORE2 = 5,
	NX_SYNC = 6
};

enum nx_core_slot {
	NX_MARK_EX = 1,
	NX_MARK_A,
	NX_MARK_W,
	NX_START_EX,
	NX_START_A,
	NX_START_W,
	NX_END,
	NX_PUSH_EX,
	NX_PUSH_A,
	NX_PUSH_W,
	NX_POP,
	NX_CATEGORY_A,
	NX_CATEGORY_W,
	NX_THREAD_A,
	NX_THREAD_W,
};
enum nx_core2_slot {
	NX_D_MARK_EX = 1,
	NX_D_START_EX,
	NX_D_END,
	NX_D_PUSH_EX,
	NX_D_POP,
	NX_D_RESOURCE_CREATE,
	NX_D_RESOURCE_DESTROY,
	NX_D_CATEGORY_A,
	NX_D_CATEGORY_W,
	NX_D_STRING_A,
	NX_D_STRING_W,
	NX_D_CREATE_A,
	NX_D_CREATE_W,
	NX_D_DESTROY,
	NX_D_INITIALIZE,
};
enum nx_cuda_slot {
	NX_CU_DEVICE_A = 1,
	NX_CU_DEVICE_W,
	NX_CU_CONTEXT_A,
	NX_CU_CONTEXT_W,
	NX_CU_STREAM_A,
	NX_CU_STREAM_W,
	NX_CU_EVENT_A,
	NX_CU_EVENT_W
};
enum nx_cudart_slot {
	NX_RT_DEVICE_A = 1,
	NX_RT_DEVICE_W,
	NX_RT_STREAM_A,
	NX_RT_STREAM_W,
	NX_RT_EVENT_A,
	NX_RT_EVENT_W
};
enum nx_opencl_slot {
	NX_CL_DEVICE_A = 1,
	NX_CL_DEVICE_W,
	NX_CL_CONTEXT_A,
	NX_CL_CONTEXT_W,
	NX_CL_QUEUE_A,
	NX_CL_QUEUE_W,
	NX_CL_MEM_A,
	NX_CL_MEM_W,
	NX_CL_SAMPLER_A,
	NX_CL_SAMPLER_W,
	NX_CL_PROGRAM_A,
	NX_CL_PROGRAM_W,
	NX_CL_EVENT_A,
	NX_CL_EVENT_W
};
enum nx_sync_slot {
	NX_SYNC_CREATE = 1,
	NX_SYNC_DESTROY,
	NX_SYNC_START,
	NX_SYNC_FAILED,
	NX_SYNC_SUCCESS,
	NX_SYNC_RELEASING
};

typedef void (*nx_fn)(void);

struct nx_callbacks {
	size_t size;
	/* Non-zero when the module exists: *table is an array of *slots addresses of function
	 * pointers. */
	int (*module_table)(int module, nx_fn ***table, unsigned *slots);
};
struct nx_version_info {
	size_t size;
	uint32_t version, reserved;
	void (*set_tool_version)(uint32_t version);
};
typedef const void *(*nx_export_fn)(uint32_t table);

#define NX_VERSION 3
#define NX_NO_TRACKING (-2) /* what push and pop return when no tool counts levels */

/* A message: text by pointer, or a handle that the tool gave. */
enum nx_message_type {
	NX_MESSAGE_NONE = 0,
	NX_MESSAGE_ASCII = 1,
	NX_MESSAGE_WIDE = 2,
	NX_MESSAGE_REGISTERED = 3
};
union nx_message {
	const char *ascii;
	const wchar_t *wide;
	void *registered;
};

enum { NX_COLOR_NONE = 0, NX_COLOR_ARGB = 1 };

/* Payload types 1 to 6 are as enum ws_nvtx_payload; then there is the one of the payload extension.
 */
#define NX_PAYLOAD_EXT ((int32_t)0xDFBD0009)

/* Attributes of an event. Older and newer versions are shorter or longer: `size` counts. */
struct nx_event {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type,
		payload_count; /* the count: of struct nx_payload, with NX_PAYLOAD_EXT */
	uint64_t payload;      /* bits of the value, or the address of the array */
	int32_t message_type;
	union nx_message message;
};
_Static_assert(sizeof(struct nx_event) == 48, "event attributes as every version 3 has them");

struct nx_resource {
	uint16_t version, size;
	int32_t type; /* class << 16 | number in the class */
	uint64_t identifier;
	int32_t message_type;
	union nx_message message;
};
struct nx_sync {
	uint16_t version, size;
	int32_t message_type;
	union nx_message message;
};

/* Resource types: class << 16 | number. */
#define NX_RESOURCE(class, number) ((uint32_t)(class) << 16 | (number))
enum { NX_CLASS_GENERIC = 1, NX_CLASS_CUDA = 4, NX_CLASS_CUDART = 5, NX_CLASS_OPENCL = 6 };
enum { NX_GENERIC_THREAD_NATIVE = 3, NX_GENERIC_THREAD_POSIX = 4 };

/* ---- extensions ---- */

struct nx_segment {
	size_t id, slots;
	intptr_t *slot;
};
struct nx_module_info {
	uint16_t version, size, module, compat;
	size_t segments;
	struct nx_segment *segment;
	intptr_t (*export_fn)(uint32_t id);
	const void *extra; /* payloads: struct nx_type_info[]; the first entry's `size` is the
			      number of entries */
};
struct nx_type_info {
	uint16_t size, align;
};

enum { NX_EXT_MEM = 1, NX_EXT_PAYLOAD = 2, NX_EXT_COUNTERS = 4 };
#define NX_EXT_COMPAT_MAJOR(compat) ((compat) >> 8) /* 1 in all versions so far */

enum nx_payload_slot {
	NX_P_SCHEMA = 0,
	NX_P_ENUM = 1,
	NX_P_MARK = 2,
	NX_P_PUSH = 3,
	NX_P_POP = 4,
	NX_P_START = 5,
	NX_P_END = 6,
	NX_P_DOMAIN_ENABLED = 7,
	NX_P_TIMESTAMP = 8,
	NX_P_SCOPE = 12,
	NX_P_EVENT = 16,
	NX_P_BATCH = 17,
};

struct nx_payload {
	uint64_t schema;
	size_t size; /* SIZE_MAX: the tool must find out */
	const void *bytes;
};

struct nx_schema_entry {
	uint64_t flags, type;
	const char *name, *description;
	uint64_t detail; /* array length, its entry, or selector of a union */
	uint64_t offset;
	const void *semantics, *reserved;
};
struct nx_schema {
	uint64_t fields; /* bits 1.. say which of the following are set */
	const char *name;
	uint64_t type, flags;
	const struct nx_schema_entry *entries;
	size_t count, size, align;
	uint64_t id;
	void *extension;
};
enum {
	NX_SCHEMA_NAME = 1 << 1,
	NX_SCHEMA_TYPE = 1 << 2,
	NX_SCHEMA_FLAGS = 1 << 3,
	NX_SCHEMA_ENTRIES = 1 << 4,
	NX_SCHEMA_COUNT = 1 << 5,
	NX_SCHEMA_SIZE = 1 << 6,
	NX_SCHEMA_ALIGN = 1 << 7,
	NX_SCHEMA_ID = 1 << 8
};
enum {
	NX_SCHEMA_STATIC = 1,
	NX_SCHEMA_DYNAMIC = 2,
	NX_SCHEMA_UNION = 3,
	NX_SCHEMA_UNION_SELECTOR = 4
};

/* Flags of entries: how the field is stored. */
enum {
	NX_ENTRY_POINTER = 1 << 1,
	NX_ENTRY_OFFSET = 3 << 2,
	NX_ENTRY_ARRAY = 7 << 4,
	NX_ENTRY_FIXED_ARRAY = 1 << 4
};

/* Types of entries; other numbers are schemas. */
enum {
	NX_TYPE_INFO_MAX = 27 /* sizes known to the program's table, extra */,
	NX_TYPE_CSTRING = 75,
	NX_TYPE_CSTRING_LAST = 78,
	NX_TYPE_REGISTERED = 80,
	NX_TYPE_REFERENCED = 1022,
	NX_TYPE_RAW = 1023
};

struct nx_enum_entry {
	const char *name;
	uint64_t value;
	int8_t is_flag;
};
struct nx_enum {
	uint64_t fields;
	const char *name;
	const struct nx_enum_entry *entries;
	size_t count, size;
	uint64_t id;
	void *extension;
};
enum {
	NX_ENUM_NAME = 1 << 1,
	NX_ENUM_ENTRIES = 1 << 2,
	NX_ENUM_COUNT = 1 << 3,
	NX_ENUM_SIZE = 1 << 4,
	NX_ENUM_ID = 1 << 5
};

struct nx_scope {
	size_t size;
	const char *path;
	uint64_t parent, id;
};
struct nx_batch {
	uint64_t schema;
	size_t size;
	const void *events;
	uint64_t scope, flags;
	const void *flex;
	size_t flex_size, flex_offset;
};

#define NX_ID_STATIC_MIN (UINT64_C(1) << 24)  /* ids that programs choose: schemas, scopes */
#define NX_ID_DYNAMIC_MIN (UINT64_C(1) << 32) /* ids that tools choose */

#endif
