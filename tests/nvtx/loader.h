/*
 * loader.h - the program's side of NVTX for tests: the tables that the loader inside an NVTX
 * program has, so that tests call the hook's functions as programs do. One struct loader is one
 * program or library that embeds NVTX.
 */
#ifndef TEST_NVTX_LOADER_H
#define TEST_NVTX_LOADER_H

#include <dlfcn.h>
#include <string.h>

#include "inject/nvtx_abi.h"

#define LOADER_SLOTS 20

struct loader {
	nx_fn fn[7][LOADER_SLOTS];
	nx_fn *table[7][LOADER_SLOTS];
	unsigned count[7];
	uint32_t tool_version;
	intptr_t payload[63];
};

extern struct loader *loader_now; /* whose tables the hook is being given, or was last given */

static inline int loader_module(int module, nx_fn ***table, unsigned *slots)
{
	if (module < 1 || module > 6)
		return 0;
	*table = loader_now->table[module];
	*slots = loader_now->count[module];
	return 1;
}

static inline void loader_version(uint32_t v)
{
	loader_now->tool_version = v;
}

static inline const void *loader_export(uint32_t id)
{
	static const struct nx_callbacks callbacks = {sizeof(callbacks), loader_module};
	static const struct nx_version_info version = {sizeof(version), 3, 0, loader_version};

	return id == NX_TABLE_CALLBACKS ? (const void *)&callbacks
	       : id == NX_TABLE_VERSION ? (const void *)&version
					: NULL;
}

/* As loaders of version 3 have them; set l->count before attaching for others. */
static inline void loader_init(struct loader *loader)
{
	static const unsigned counts[7] = {0, 16, 9, 15, 7, 16, 7};

	memset(loader, 0, sizeof(*loader));
	memcpy(loader->count, counts, sizeof(counts));
	for (int m = 1; m < 7; m++)
		for (int i = 1; i < LOADER_SLOTS; i++)
			loader->table[m][i] = &loader->fn[m][i];
}

/* What the hook's entry point says. */
static inline int loader_attach(struct loader *loader, void *lib)
{
	int (*init)(nx_export_fn) = (int (*)(nx_export_fn))dlsym(lib, "InitializeInjectionNvtx2");

	loader_now = loader;
	return init ? init(loader_export) : -1;
}

static inline int loader_attach_extension(struct loader *loader, void *lib, int module, int compat)
{
	int (*init)(struct nx_module_info *) =
		(int (*)(struct nx_module_info *))dlsym(lib, "InitializeInjectionNvtxExtension");
	struct nx_segment segment = {0, 63, loader->payload};
	struct nx_module_info info = {
		3, sizeof(info), (uint16_t)module, (uint16_t)compat, 1, &segment, NULL, NULL};

	return init ? init(&info) : -1;
}

/* The calls, by their NVTX names. */
#define CALL(l, module, slot, ret, params, ...) \
	(((ret(*) params)(l)->fn[module][slot])(__VA_ARGS__))
#define EXT(l, slot, ret, params, ...) (((ret(*) params)(l)->payload[slot])(__VA_ARGS__))

#define RangePushA(l, s) CALL(l, NX_CORE, NX_PUSH_A, int, (const char *), s)
#define RangePushW(l, s) CALL(l, NX_CORE, NX_PUSH_W, int, (const wchar_t *), s)
#define RangePushEx(l, e) CALL(l, NX_CORE, NX_PUSH_EX, int, (const struct nx_event *), e)
#define RangePop(l) CALL(l, NX_CORE, NX_POP, int, (void), )
#define MarkA(l, s) CALL(l, NX_CORE, NX_MARK_A, void, (const char *), s)
#define MarkW(l, s) CALL(l, NX_CORE, NX_MARK_W, void, (const wchar_t *), s)
#define MarkEx(l, e) CALL(l, NX_CORE, NX_MARK_EX, void, (const struct nx_event *), e)
#define RangeStartA(l, s) CALL(l, NX_CORE, NX_START_A, uint64_t, (const char *), s)
#define RangeStartW(l, s) CALL(l, NX_CORE, NX_START_W, uint64_t, (const wchar_t *), s)
#define RangeStartEx(l, e) CALL(l, NX_CORE, NX_START_EX, uint64_t, (const struct nx_event *), e)
#define RangeEnd(l, id) CALL(l, NX_CORE, NX_END, void, (uint64_t), id)
#define NameCategoryA(l, id, s) \
	CALL(l, NX_CORE, NX_CATEGORY_A, void, (uint32_t, const char *), id, s)
#define NameOsThreadA(l, id, s) CALL(l, NX_CORE, NX_THREAD_A, void, (uint32_t, const char *), id, s)
#define NameOsThreadW(l, id, s) \
	CALL(l, NX_CORE, NX_THREAD_W, void, (uint32_t, const wchar_t *), id, s)
#define DomainPushEx(l, d, e) \
	CALL(l, NX_CORE2, NX_D_PUSH_EX, int, (void *, const struct nx_event *), d, e)
#define DomainPop(l, d) CALL(l, NX_CORE2, NX_D_POP, int, (void *), d)
#define DomainMarkEx(l, d, e) \
	CALL(l, NX_CORE2, NX_D_MARK_EX, void, (void *, const struct nx_event *), d, e)
#define DomainStartEx(l, d, e) \
	CALL(l, NX_CORE2, NX_D_START_EX, uint64_t, (void *, const struct nx_event *), d, e)
#define DomainEnd(l, d, id) CALL(l, NX_CORE2, NX_D_END, void, (void *, uint64_t), d, id)
#define DomainCreateA(l, s) CALL(l, NX_CORE2, NX_D_CREATE_A, void *, (const char *), s)
#define DomainCreateW(l, s) CALL(l, NX_CORE2, NX_D_CREATE_W, void *, (const wchar_t *), s)
#define DomainDestroy(l, d) CALL(l, NX_CORE2, NX_D_DESTROY, void, (void *), d)
#define DomainNameCategoryA(l, d, id, s) \
	CALL(l, NX_CORE2, NX_D_CATEGORY_A, void, (void *, uint32_t, const char *), d, id, s)
#define DomainRegisterStringA(l, d, s) \
	CALL(l, NX_CORE2, NX_D_STRING_A, void *, (void *, const char *), d, s)
#define DomainRegisterStringW(l, d, s) \
	CALL(l, NX_CORE2, NX_D_STRING_W, void *, (void *, const wchar_t *), d, s)

static inline struct nx_event event_text(const char *text)
{
	struct nx_event event = {
		.version = 3, .size = sizeof(event), .message_type = text ? NX_MESSAGE_ASCII : 0};

	event.message.ascii = text;
	return event;
}

static inline struct nx_event event_registered(void *h)
{
	struct nx_event event = {
		.version = 3, .size = sizeof(event), .message_type = NX_MESSAGE_REGISTERED};

	event.message.registered = h;
	return event;
}

#endif
