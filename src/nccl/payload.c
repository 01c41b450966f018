/*
 * payload.c - decodes the payloads of NCCL's NVTX ranges by the schemas that NCCL registers.
 *
 * Entries are identified by their names, which have not changed since NCCL introduced payloads,
 * rather than by the numbers of the schemas, which have changed. Entries that newer versions add
 * are ignored.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "nccl/nccl.h"

enum {
	SCHEMAS_MOST = 256, /* per process */
	TYPE_SIZE = 22,	    /* NVTX's number for size_t */
	TYPE_U64 = 18,
	TYPE_I64 = 17,
};

struct field {
	bool known, wide; /* wide: 8 bytes, otherwise 4 */
	uint32_t offset;
};

struct ws_nccl_schema {
	uint64_t id;
	struct field fields[8];
};

/* A payload in the report: ring/nvtx_record.h, struct ws_nvtx_blob. */
struct blob {
	uint64_t schema, size;
};

static int find_field(const char *name)
{
	static const struct {
		const char *name;
		enum ws_nccl_field field;
	} names[] = {
		{"NCCL communicator ID", WS_NCCL_COMMUNICATOR},
		{"Message size [bytes]", WS_NCCL_BYTES},
		{"Reduction operation", WS_NCCL_REDUCTION},
		{"Root", WS_NCCL_ROOT},
		{"Peer rank", WS_NCCL_PEER},
		{"No. of ranks", WS_NCCL_RANKS},
		{"No. of devices", WS_NCCL_RANKS}, /* of ncclCommInitAll: one rank per device */
		{"Rank", WS_NCCL_RANK},
		{"CUDA device", WS_NCCL_DEVICE},
	};

	for (size_t i = 0; name && i < WS_COUNT(names); i++)
		if (!strcmp(name, names[i].name))
			return (int)names[i].field;
	return -1;
}

static struct ws_nccl_schema *find_schema(const struct ws_nccl_schemas *schemas, uint64_t id)
{
	for (size_t i = 0; i < schemas->count; i++)
		if (schemas->schemas[i].id == id)
			return &schemas->schemas[i];
	return NULL;
}

void ws_nccl_add_schema_entry(struct ws_nccl_schemas *schemas, uint64_t schema, const char *name,
			      uint64_t type, uint64_t offset)
{
	struct ws_nccl_schema *known = find_schema(schemas, schema);
	int field = find_field(name);

	if (field < 0 || offset > UINT16_MAX)
		return;
	if (!known) {
		if (schemas->count == SCHEMAS_MOST)
			return;
		ws_grow(schemas->schemas, schemas->capacity, schemas->count + 1);
		known = &schemas->schemas[schemas->count++];
		*known = (struct ws_nccl_schema){.id = schema};
	}
	known->fields[field] = (struct field){
		.known = true,
		.wide = type == TYPE_SIZE || type == TYPE_U64 || type == TYPE_I64,
		.offset = (uint32_t)offset,
	};
}

void ws_nccl_free_schemas(struct ws_nccl_schemas *schemas)
{
	free(schemas->schemas);
	*schemas = (struct ws_nccl_schemas){0};
}

static void read_fields(const struct ws_nccl_schema *schema, const char *bytes, uint64_t size,
			struct ws_nccl_facts *facts)
{
	for (unsigned i = 0; i < WS_COUNT(schema->fields); i++) {
		const struct field *field = &schema->fields[i];
		size_t width = field->wide ? 8 : 4;
		uint64_t value = 0;

		if (!field->known || field->offset + width > size)
			continue;
		memcpy(&value, bytes + field->offset, width);
		facts->values[i] = value;
		facts->known |= 1u << i;
	}
}

struct ws_nccl_facts ws_nccl_read_payload(const struct ws_nccl_schemas *schemas,
					  const void *payload, size_t size)
{
	struct ws_nccl_facts facts = {0};
	const char *at = payload;

	while (at && size >= sizeof(struct blob)) {
		const struct ws_nccl_schema *schema;
		struct blob blob;
		size_t whole;

		memcpy(&blob, at, sizeof(blob));
		at += sizeof(blob);
		size -= sizeof(blob);
		if (blob.size > size)
			break;
		schema = find_schema(schemas, blob.schema);
		if (schema)
			read_fields(schema, at, blob.size, &facts);
		whole = ws_min((size_t)(blob.size + 7) & ~(size_t)7, size);
		at += whole;
		size -= whole;
	}
	return facts;
}
