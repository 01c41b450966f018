/* nvtx_real.c - the NVTX headers themselves, where the machine has them: what C programs, PyTorch
 * and Python's nvtx call. */
#include <locale.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSync.h>

struct step {
	int32_t epoch;
	double loss;
	uint16_t dims[3];
};

static void push_payloads(void)
{
	static const nvtxPayloadSchemaEntry_t entries[] = {
		{0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "epoch", "which pass", 0,
		 offsetof(struct step, epoch), NULL, NULL},
		{0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "loss", NULL, 0, offsetof(struct step, loss),
		 NULL, NULL},
		{NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_UINT16, "dims",
		 NULL, 3, offsetof(struct step, dims), NULL, NULL},
	};
	nvtxDomainHandle_t d = nvtxDomainCreateA("payloads");
	nvtxPayloadSchemaAttr_t attr = {0};
	nvtxEventAttributes_t ev = {0};
	struct step step = {7, 0.125, {1, 2, 3}};
	nvtxPayloadData_t data = {0, sizeof(step), &step};

	attr.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
			 NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			 NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			 NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
	attr.name = "step";
	attr.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
	attr.entries = entries;
	attr.numEntries = 3;
	attr.payloadStaticSize = sizeof(step);
	data.schemaId = nvtxPayloadSchemaRegister(d, &attr);
	ev.version = NVTX_VERSION;
	ev.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	ev.messageType = NVTX_MESSAGE_TYPE_ASCII;
	ev.message.ascii = "with payload";
	ev.payloadType = NVTX_PAYLOAD_TYPE_EXT;
	ev.reserved0 = 1;
	ev.payload.ullValue = (uint64_t)(uintptr_t)&data;
	nvtxDomainRangePushEx(d, &ev);
	nvtxRangePopPayload(d, &data, 1);
	nvtxMarkPayload(d, &data, 1);
	nvtxRangeEndPayload(d, nvtxRangeStartPayload(d, &data, 1), &data, 1);
}

/* As Python's nvtx does: a domain, a string registered in it, categories by number, colours. */
static void python_like(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("NVTX");
	nvtxStringHandle_t s = nvtxDomainRegisterStringA(d, "annotate");
	nvtxEventAttributes_t ev = {0};

	nvtxDomainNameCategoryA(d, 1, "loading");
	ev.version = NVTX_VERSION;
	ev.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	ev.colorType = NVTX_COLOR_ARGB;
	ev.color = 0xff0000ff;
	ev.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	ev.message.registered = s;
	ev.category = 1;
	nvtxDomainRangePushEx(d, &ev);
	nvtxDomainRangePop(d);
	nvtxDomainRangeEnd(d, nvtxDomainRangeStartEx(d, &ev));
	nvtxDomainMarkEx(d, &ev);
	ev.colorType = 0;
	ev.category = 0;
	nvtxDomainRangePushEx(d, &ev);
	nvtxDomainRangePop(d);
}

static void name_things(void)
{
	nvtxResourceAttributes_t r = {0};
	nvtxSyncUserAttributes_t sync = {0};
	nvtxSyncUser_t lock;

	nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "named by NVTX");
	r.version = NVTX_VERSION;
	r.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
	r.identifierType = NVTX_RESOURCE_TYPE_GENERIC_POINTER;
	r.identifier.pValue = &r;
	r.messageType = NVTX_MESSAGE_TYPE_ASCII;
	r.message.ascii = "a resource";
	nvtxDomainResourceDestroy(nvtxDomainResourceCreate(NULL, &r));
	sync.version = NVTX_VERSION;
	sync.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
	sync.messageType = NVTX_MESSAGE_TYPE_ASCII;
	sync.message.ascii = "spinlock";
	lock = nvtxDomainSyncUserCreate(NULL, &sync);
	nvtxDomainSyncUserAcquireStart(lock);
	nvtxDomainSyncUserAcquireSuccess(lock);
	nvtxDomainSyncUserReleasing(lock);
	nvtxDomainSyncUserDestroy(lock);
}

int main(void)
{
	nvtxInitialize(NULL);
	nvtxRangePushA("as PyTorch does");
	nvtxRangePushW(L"wide \u20ac");
	nvtxRangePop();
	nvtxRangePop();
	nvtxMarkA("mark");
	nvtxRangeEnd(nvtxRangeStartA("start/end"));
	python_like();
	push_payloads();
	name_things();
	return 0;
}
