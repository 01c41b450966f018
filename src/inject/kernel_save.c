/*
 * kernel_save.c - saves the memory that a kernel may write, finds what it changed and restores
 * that. Copies are kept on the device as far as it has room, otherwise on the host. Which pieces of
 * 64 KiB have changed is found by comparing them with their copies, so that only those are restored
 * before each pass: saving costs one copy of all memory, restoring next to nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"
#include "inject/kernel_code.h"

enum { PIECE = 65536, THREADS = 256, FLUSH_BLOCKS = 1024, CONTEXTS = 64, HOST_PIECES = 64 };
enum { ATTRIBUTE_L2_BYTES = 38 };
/* Of the memory that is read last, this many times the level-2 cache twice: what was read before is
 * no longer in it. In pieces so small that their copy takes little of the cache. */
enum { CACHES_READ = 2, VAIN_BYTES = 256 << 10 };
#define ROOM_LEFT (UINT64_C(256) << 20) /* device memory left to the program */
#define LONG_NS UINT64_C(1000000)

struct region {
	struct ws_kernel_memory memory;
	ws_device_address copy; /* copy on the device; 0: `host` holds it */
	char *host;
	uint64_t first; /* number of its first piece */
};

struct ws_kernel_saved {
	void *stream;
	struct region *regions;
	size_t count;
	ws_device_address copies, flags, scratch;
	uint64_t scratch_bytes;
	int device;
	uint8_t *changed, *fresh; /* per piece: since it was saved; in the last comparison */
	uint64_t pieces;
};

/* Our kernels, in each context. */
struct code {
	void *context, *module, *flush, *compare, *compare_pieces;
};
static struct code codes[CONTEXTS];
static size_t code_count;

static __thread bool loading __attribute__((tls_model("initial-exec")));

bool ws_kernel_loads_own_code(void)
{
	return loading;
}

static bool load_functions(struct code *code)
{
	return !ws_kernel_driver.load_module(&code->module, ws_kernel_code) &&
	       !ws_kernel_driver.get_function(&code->flush, code->module, "ws_flush_read") &&
	       !ws_kernel_driver.get_function(&code->compare, code->module, "ws_compare") &&
	       !ws_kernel_driver.get_function(&code->compare_pieces, code->module,
					      "ws_compare_pieces");
}

static const struct code *load_code(void *context)
{
	struct code code = {.context = context};
	bool loaded;

	for (size_t i = 0; i < code_count; i++)
		if (codes[i].context == context)
			return &codes[i];
	loading = true;
	loaded = code_count < CONTEXTS && load_functions(&code);
	loading = false;
	if (!loaded)
		return NULL;
	codes[code_count] = code;
	return &codes[code_count++];
}

static const struct code *current; /* of the launch being measured; one at a time */

static uint64_t count_pieces(uint64_t bytes)
{
	return (bytes + PIECE - 1) / PIECE;
}

/* The driver refuses to copy a byte more than was allocated. Memory is compared on the device in
 * words of 16 bytes: memory that is not aligned to one is compared on the host. */
static bool fits_device(const struct ws_kernel_memory *memory)
{
	return memory->kind == WS_KERNEL_DEVICE_MEMORY && memory->base % 16 == 0;
}

static bool add_regions(struct ws_kernel_saved *saved, const struct ws_kernel_memories *memories)
{
	saved->regions = calloc(memories->count + 1, sizeof(*saved->regions));
	if (!saved->regions)
		return false;
	for (size_t i = 0; i < memories->count; i++) {
		struct region *region = &saved->regions[saved->count++];

		region->memory = memories->entries[i];
		region->first = saved->pieces;
		saved->pieces += count_pieces(region->memory.bytes);
	}
	saved->changed = calloc(saved->pieces + 1, 1);
	saved->fresh = calloc(saved->pieces + 1, 1);
	return saved->changed && saved->fresh;
}

/* Place copies on the device, beginning with memory that the launch points to. */
static void place_on_device(struct ws_kernel_saved *saved)
{
	size_t free_bytes = 0, total;
	uint64_t budget, used = 0, limit = 0;

	if (ws_kernel_driver.get_free(&free_bytes, &total))
		return;
	budget = free_bytes > ROOM_LEFT ? free_bytes - ROOM_LEFT : 0;
	for (size_t i = 0; i < saved->count; i++) {
		uint64_t bytes = count_pieces(saved->regions[i].memory.bytes) * PIECE;

		if (fits_device(&saved->regions[i].memory) && bytes <= budget - used) {
			saved->regions[i].copy = used + 1;
			used += bytes;
		}
	}
	limit = used;
	if (!limit || ws_kernel_driver.allocate(&saved->copies, limit))
		saved->copies = 0;
	for (size_t i = 0; i < saved->count; i++)
		if (saved->regions[i].copy)
			saved->regions[i].copy =
				saved->copies ? saved->copies + saved->regions[i].copy - 1 : 0;
}

/* The driver's result, or -1 when the host has no memory for the copy. */
static int save_region(const struct ws_kernel_saved *saved, struct region *region)
{
	const struct ws_kernel_memory *memory = &region->memory;

	if (region->copy)
		return ws_kernel_driver.copy(region->copy, memory->base, memory->bytes,
					     saved->stream);
	region->host = malloc(memory->bytes);
	if (!region->host)
		return -1;
	if (memory->kind == WS_KERNEL_DEVICE_MEMORY)
		return ws_kernel_driver.copy_to_host(region->host, memory->base, memory->bytes,
						     saved->stream);
	memcpy(region->host, (const void *)(uintptr_t)memory->base, memory->bytes);
	return 0;
}

static bool save_regions(struct ws_kernel_saved *saved, const char **why)
{
	static char text[160]; /* one launch is measured at a time */

	for (size_t i = 0; i < saved->count; i++) {
		const struct ws_kernel_memory *memory = &saved->regions[i].memory;
		int rc = save_region(saved, &saved->regions[i]);

		/* Addresses without memory behind them, which belong to graphs that are not
		 * running: nothing can write there. */
		if (rc > 0 && !memory->pointed) {
			saved->regions[i].memory.bytes = 0;
			continue;
		}
		if (rc > 0) {
			snprintf(text, sizeof(text),
				 "the %llu bytes of memory at 0x%llx, which it may write, cannot "
				 "be saved: the driver answers %d",
				 (unsigned long long)memory->bytes,
				 (unsigned long long)memory->base, rc);
			*why = text;
		}
		if (rc)
			return false;
	}
	return !ws_kernel_driver.wait_stream(saved->stream);
}

static bool prepare_device(struct ws_kernel_saved *saved, const struct ws_kernel_launch *launch)
{
	current = load_code(launch->context);
	if (!current || ws_kernel_driver.allocate(&saved->flags, saved->pieces + 1))
		return false;
	saved->device = (int)launch->device;
	saved->scratch_bytes =
		UINT64_C(2) * ws_kernel_device_attribute(saved->device, ATTRIBUTE_L2_BYTES);
	/* Without it the caches cannot be flushed, which is an error when that is tried. */
	if (!ws_kernel_driver.allocate(&saved->scratch, saved->scratch_bytes + 16))
		ws_kernel_driver.set(saved->scratch, 0, saved->scratch_bytes + 16, saved->stream);
	place_on_device(saved);
	return true;
}

struct ws_kernel_saved *ws_kernel_save(const struct ws_kernel_launch *launch, const char **why)
{
	struct ws_kernel_memories memories = {0};
	struct ws_kernel_saved *saved = calloc(1, sizeof(*saved));

	*why = "there is no memory left to save what the kernel may write";
	if (!saved)
		return NULL;
	saved->stream = launch->stream;
	if (ws_kernel_list_memory(launch, &memories) && add_regions(saved, &memories) &&
	    prepare_device(saved, launch) && save_regions(saved, why)) {
		free(memories.entries);
		return saved;
	}
	free(memories.entries);
	ws_kernel_free_saved(saved);
	return NULL;
}

struct ws_kernel_saved *ws_kernel_save_nothing(const struct ws_kernel_launch *launch,
					       const char **why)
{
	struct ws_kernel_memories none = {0};
	struct ws_kernel_saved *saved = calloc(1, sizeof(*saved));

	*why = "there is no memory left";
	if (!saved)
		return NULL;
	saved->stream = launch->stream;
	if (add_regions(saved, &none) && prepare_device(saved, launch))
		return saved;
	ws_kernel_free_saved(saved);
	return NULL;
}

void ws_kernel_set_flush_stream(struct ws_kernel_saved *saved, void *stream)
{
	saved->stream = stream;
}

int ws_kernel_compare_pieces(void **arguments, unsigned pieces, void *stream)
{
	return ws_kernel_driver.launch(current->compare_pieces, pieces, 1, 1, THREADS, 1, 1, 0,
				       stream, arguments, NULL);
}

/* ---- what has changed ---- */

/* Bytes behind the last word are not compared: the piece that contains them counts as changed. */
static bool compare_on_device(const struct ws_kernel_saved *saved, const struct region *region)
{
	ws_device_address now = region->memory.base, then = region->copy,
			  flags = saved->flags + region->first;
	uint64_t n = region->memory.bytes / 16;
	void *arguments[] = {&now, &then, &n, &flags};

	if (!region->memory.bytes)
		return true;
	if (region->memory.bytes % 16 &&
	    ws_kernel_driver.set(flags + count_pieces(region->memory.bytes) - 1, 1, 1,
				 saved->stream))
		return false;
	return !n || !ws_kernel_driver.launch(current->compare,
					      (unsigned)count_pieces(region->memory.bytes), 1, 1,
					      THREADS, 1, 1, 0, saved->stream, arguments, NULL);
}

static void compare_pieces(const struct region *region, uint64_t at, const char *now,
			   uint64_t bytes, uint8_t *fresh)
{
	for (uint64_t i = 0; i < bytes; i += PIECE) {
		uint64_t n = ws_min((uint64_t)PIECE, bytes - i);

		fresh[region->first + (at + i) / PIECE] =
			memcmp(region->host + at + i, now + i, n) != 0;
	}
}

static bool compare_on_host(struct ws_kernel_saved *saved, const struct region *region)
{
	uint64_t step = (uint64_t)HOST_PIECES * PIECE;
	char *now;
	bool ok = true;

	if (region->memory.kind == WS_KERNEL_HOST_MEMORY) {
		compare_pieces(region, 0, (const char *)(uintptr_t)region->memory.base,
			       region->memory.bytes, saved->fresh);
		return true;
	}
	now = malloc(step);
	for (uint64_t at = 0; now && ok && at < region->memory.bytes; at += step) {
		uint64_t bytes = ws_min(step, region->memory.bytes - at);

		ok = !ws_kernel_driver.copy_to_host(now, region->memory.base + at, bytes,
						    saved->stream) &&
		     !ws_kernel_driver.wait_stream(saved->stream);
		if (ok)
			compare_pieces(region, at, now, bytes, saved->fresh);
	}
	free(now);
	return now && ok;
}

static bool compare_regions(struct ws_kernel_saved *saved)
{
	if (ws_kernel_driver.set(saved->flags, 0, saved->pieces + 1, saved->stream))
		return false;
	for (size_t i = 0; i < saved->count; i++)
		if (saved->regions[i].copy && !compare_on_device(saved, &saved->regions[i]))
			return false;
	if (ws_kernel_driver.copy_to_host(saved->fresh, saved->flags, saved->pieces,
					  saved->stream) ||
	    ws_kernel_driver.wait_stream(saved->stream))
		return false;
	for (size_t i = 0; i < saved->count; i++)
		if (!saved->regions[i].copy && !compare_on_host(saved, &saved->regions[i]))
			return false;
	return true;
}

bool ws_kernel_find_changes(struct ws_kernel_saved *saved, const char **why)
{
	*why = "what the kernel changed could not be found: there is no memory for that, or the "
	       "driver failed";
	if (!compare_regions(saved)) {
		memset(saved->changed, 1, saved->pieces); /* all of it is restored */
		return false;
	}
	for (uint64_t i = 0; i < saved->pieces; i++)
		saved->changed[i] |= saved->fresh[i];
	return true;
}

/* ---- restoring ---- */

static bool restore_span(const struct ws_kernel_saved *saved, const struct region *region,
			 uint64_t from, uint64_t bytes)
{
	ws_device_address to = region->memory.base + from;

	if (region->copy)
		return !ws_kernel_driver.copy(to, region->copy + from, bytes, saved->stream);
	if (region->memory.kind == WS_KERNEL_DEVICE_MEMORY)
		return !ws_kernel_driver.copy_from_host(to, region->host + from, bytes,
							saved->stream);
	memcpy((void *)(uintptr_t)to, region->host + from, bytes);
	return true;
}

static bool restore_region(const struct ws_kernel_saved *saved, const struct region *region)
{
	const uint8_t *changed = saved->changed + region->first;
	uint64_t pieces = count_pieces(region->memory.bytes);

	for (uint64_t i = 0; i < pieces; i++) {
		uint64_t end = i;

		while (end < pieces && changed[end])
			end++;
		if (end > i && !restore_span(saved, region, i * PIECE,
					     ws_min(end * PIECE, region->memory.bytes) - i * PIECE))
			return false;
		i = end;
	}
	return true;
}

bool ws_kernel_restore(struct ws_kernel_saved *saved, const char **why)
{
	*why = "the memory that the kernel changed could not be restored: the driver failed";
	for (size_t i = 0; i < saved->count; i++)
		if (!restore_region(saved, &saved->regions[i]))
			return false;
	return !ws_kernel_driver.wait_stream(saved->stream);
}

void ws_kernel_free_saved(struct ws_kernel_saved *saved)
{
	ws_device_address buffers[] = {saved->copies, saved->flags, saved->scratch};

	for (size_t i = 0; i < WS_COUNT(buffers); i++)
		if (buffers[i])
			ws_kernel_driver.release(buffers[i]);
	for (size_t i = 0; i < saved->count; i++)
		free(saved->regions[i].host);
	free(saved->regions);
	free(saved->changed);
	free(saved->fresh);
	free(saved);
}

/* The driver invalidates the caches of instructions when it loads code. */
static void empty_instruction_caches(void)
{
	static const char code[] = ".version 6.3\n.target sm_70\n.address_size 64\n"
				   ".visible .entry ws_nothing()\n{\nret;\n}\n";
	void *module;

	loading = true;
	if (!ws_kernel_driver.load_module(&module, code))
		ws_kernel_driver.unload_module(module);
	loading = false;
}

bool ws_kernel_flush_caches(struct ws_kernel_saved *saved, const char **why)
{
	ws_device_address at = saved->scratch, out = at + saved->scratch_bytes;
	uint64_t n = saved->scratch_bytes / 16;
	void *arguments[] = {&at, &n, &out};

	*why = "there is no room on the device for the memory that flushes its caches: give "
	       "--cache-control none";
	if (ws_kernel_flushes_caches())
		empty_instruction_caches();
	if (!at ||
	    ws_kernel_driver.launch(current->flush, FLUSH_BLOCKS, 1, 1, THREADS, 1, 1, 0,
				    saved->stream, arguments, NULL) ||
	    ws_kernel_driver.wait_stream(saved->stream))
		return false;
	/* Where the driver does that, nothing of the other memory stays, either. */
	ws_kernel_empty_cache(saved->device);
	return true;
}

bool ws_kernel_empties_caches(const struct ws_kernel_saved *saved, uint64_t duration)
{
	return duration < LONG_NS && ws_kernel_can_empty_cache(saved->device);
}

void ws_kernel_empty_caches(const struct ws_kernel_saved *saved)
{
	if (ws_kernel_flushes_caches())
		empty_instruction_caches();
	ws_kernel_empty_cache(saved->device);
}

static int compare_places(const void *left, const void *right)
{
	const struct ws_kernel_memory *a = left, *b = right;

	return (a->base > b->base) - (a->base < b->base);
}

/* The end of it goes through the cache; of its copy, little stays there. */
static void copy_in_vain(const struct ws_kernel_saved *saved, const struct ws_kernel_memory *memory,
			 uint64_t most)
{
	uint64_t from = memory->bytes > most ? memory->bytes - most : 0;

	for (uint64_t at = from; at < memory->bytes; at += VAIN_BYTES)
		ws_kernel_driver.copy(saved->scratch, memory->base + at,
				      ws_min(memory->bytes - at, (uint64_t)VAIN_BYTES),
				      saved->stream);
}

void ws_kernel_copy_all_in_vain(const struct ws_kernel_saved *saved,
				struct ws_kernel_memories *memories)
{
	uint64_t later = 0, most = CACHES_READ * saved->scratch_bytes;

	qsort(memories->entries, memories->count, sizeof(*memories->entries), compare_places);
	for (size_t i = 0; i < memories->count; i++)
		later += memories->entries[i].bytes;
	for (size_t i = 0; i < memories->count && saved->scratch; i++) {
		const struct ws_kernel_memory *memory = &memories->entries[i];

		later -= memory->bytes;
		if (memory->kind == WS_KERNEL_DEVICE_MEMORY && later < most)
			copy_in_vain(saved, memory, most - later);
	}
	free(memories->entries);
	ws_kernel_driver.wait_stream(saved->stream);
}

void ws_kernel_save_in_vain(const struct ws_kernel_saved *saved)
{
	struct ws_kernel_memories memories = {0};

	for (size_t i = 0; i < saved->count; i++)
		ws_kernel_add_memory(&memories, &saved->regions[i].memory);
	ws_kernel_copy_all_in_vain(saved, &memories);
}
