/*
 * kernel_versions.c - the memory of a context at several moments: before each launch of a batch,
 * and at the end. All of it is copied once; after that, only the pieces of 64 KiB that have changed
 * since the moment before are. While launches are repeated, memory is brought from one moment to
 * the next by copying the pieces that differ.
 *
 * All copies of device memory are on the device. If it has no room for them, or memory cannot be
 * compared there, nothing is kept, and the launch is measured at once (kernel_save.c).
 */
#include <stdlib.h>

#include "inject/kernel.h"

enum { PIECE = 65536 };
#define ROOM_LEFT (UINT64_C(512) << 20) /* device memory left to the program */

struct region {
	struct ws_kernel_memory memory; /* without bytes: no memory was behind the addresses */
	uint64_t first;			/* number of its first piece */
};

/* What changed before a moment. */
struct version {
	uint32_t *pieces; /* in order */
	size_t count;
	ws_device_address device; /* room for all of them, one after the other */
	char *host;
};

struct block {
	ws_device_address address;
	char *host;
};

struct ws_kernel_versions {
	void *stream;
	struct region *regions;
	size_t region_count, region_room;
	uint64_t pieces, piece_room;
	uint32_t *owner;	  /* per piece: its region */
	uint64_t *base;		  /* per piece: its first copy */
	uint64_t *current;	  /* per piece: its copy at the present moment */
	uint8_t *fresh, *dirty;	  /* per piece: found to differ; memory may differ from `current` */
	struct version *versions; /* [0] is empty */
	size_t count, room;
	struct block *blocks; /* first copies */
	size_t block_count, block_room;
	ws_device_address table, flags; /* room for piece_room */
	uint64_t device_room;
	struct ws_kernel_saved *cache; /* for flushing */
};

static void *grow(void *array, size_t *room, size_t needed, size_t size)
{
	size_t more = ws_max(needed, 2 * *room + 16);
	void *grown;

	if (needed <= *room)
		return array;
	grown = realloc(array, more * size);
	if (!grown)
		return NULL;
	memset((char *)grown + *room * size, 0, (more - *room) * size);
	*room = more;
	return grown;
}

static uint64_t count_pieces(uint64_t bytes)
{
	return (bytes + PIECE - 1) / PIECE;
}

/* Whether its copies are on the host: it is there itself, or it is a variable of a module that is
 * not aligned to the words in which memory is compared on the device. */
static bool is_on_host(const struct region *region)
{
	return region->memory.kind == WS_KERNEL_HOST_MEMORY || region->memory.base % 16;
}

static bool read_memory(const struct ws_kernel_versions *versions, const struct region *region,
			void *to, uint64_t from, uint64_t bytes)
{
	if (region->memory.kind == WS_KERNEL_HOST_MEMORY) {
		memcpy(to, (const void *)(uintptr_t)from, bytes);
		return true;
	}
	return !ws_kernel_driver.copy_to_host(to, from, bytes, versions->stream) &&
	       !ws_kernel_driver.wait_stream(versions->stream);
}

static bool write_memory(const struct ws_kernel_versions *versions, const struct region *region,
			 uint64_t to, const void *from, uint64_t bytes)
{
	if (region->memory.kind == WS_KERNEL_HOST_MEMORY) {
		memcpy((void *)(uintptr_t)to, from, bytes);
		return true;
	}
	return !ws_kernel_driver.copy_from_host(to, from, bytes, versions->stream) &&
	       !ws_kernel_driver.wait_stream(versions->stream);
}

static bool has_room(uint64_t bytes)
{
	size_t free_bytes = 0, total;

	return !ws_kernel_driver.get_free(&free_bytes, &total) && free_bytes > ROOM_LEFT &&
	       bytes <= (free_bytes - ROOM_LEFT) / 2;
}

/* ---- regions ---- */

static struct region *find_region(struct ws_kernel_versions *versions,
				  const struct ws_kernel_memory *memory)
{
	for (size_t i = 0; i < versions->region_count; i++)
		if (versions->regions[i].memory.base == memory->base &&
		    versions->regions[i].memory.bytes == memory->bytes)
			return &versions->regions[i];
	return NULL;
}

static bool grow_pieces(struct ws_kernel_versions *versions, uint64_t needed)
{
	uint64_t more = ws_max(needed + 1, 2 * versions->piece_room);
	uint32_t *owner;
	uint64_t *base, *current;
	uint8_t *fresh, *dirty;

	if (needed < versions->piece_room)
		return true;
	owner = realloc(versions->owner, more * sizeof(*owner));
	versions->owner = owner ? owner : versions->owner;
	base = realloc(versions->base, more * sizeof(*base));
	versions->base = base ? base : versions->base;
	current = realloc(versions->current, more * sizeof(*current));
	versions->current = current ? current : versions->current;
	fresh = realloc(versions->fresh, more);
	versions->fresh = fresh ? fresh : versions->fresh;
	dirty = realloc(versions->dirty, more);
	versions->dirty = dirty ? dirty : versions->dirty;
	if (!owner || !base || !current || !fresh || !dirty)
		return false;
	versions->piece_room = more;
	return true;
}

static bool add_block(struct ws_kernel_versions *versions, const struct block *block)
{
	struct block *blocks = grow(versions->blocks, &versions->block_room,
				    versions->block_count + 1, sizeof(*blocks));

	if (!blocks)
		return false;
	versions->blocks = blocks;
	blocks[versions->block_count++] = *block;
	return true;
}

/* The first copy of a region. False when it cannot be made. */
static bool copy_region(struct ws_kernel_versions *versions, struct region *region)
{
	uint64_t room = count_pieces(region->memory.bytes) * PIECE;
	struct block block = {0};
	int rc;

	if (is_on_host(region)) {
		block.host = malloc(room);
		if (!block.host || !add_block(versions, &block)) {
			free(block.host);
			return false;
		}
		if (!read_memory(versions, region, block.host, region->memory.base,
				 region->memory.bytes))
			return false;
	} else {
		if (!has_room(room) || ws_kernel_driver.allocate(&block.address, room))
			return false;
		rc = ws_kernel_driver.copy(block.address, region->memory.base, region->memory.bytes,
					   versions->stream);
		if (rc && !region->memory.pointed) {
			ws_kernel_driver.release(block.address);
			region->memory.bytes = 0;
			return true;
		}
		if (rc || !add_block(versions, &block)) {
			ws_kernel_driver.release(block.address);
			return false;
		}
	}
	for (uint64_t i = 0; i < room / PIECE; i++) {
		uint64_t copy = is_on_host(region) ? (uintptr_t)block.host : block.address;

		versions->base[region->first + i] = copy + i * PIECE;
		versions->current[region->first + i] = copy + i * PIECE;
	}
	return true;
}

static bool add_region(struct ws_kernel_versions *versions, const struct ws_kernel_memory *memory)
{
	uint64_t pieces = count_pieces(memory->bytes);
	struct region *regions = grow(versions->regions, &versions->region_room,
				      versions->region_count + 1, sizeof(*regions));
	struct region region = {.memory = *memory, .first = versions->pieces};

	if (!regions)
		return false;
	versions->regions = regions;
	if (versions->pieces + pieces > UINT32_MAX ||
	    !grow_pieces(versions, versions->pieces + pieces) || !copy_region(versions, &region))
		return false;
	if (!region.memory.bytes)
		pieces = 0;
	for (uint64_t i = 0; i < pieces; i++) {
		versions->owner[region.first + i] = (uint32_t)versions->region_count;
		versions->dirty[region.first + i] = versions->fresh[region.first + i] = 0;
	}
	versions->pieces += pieces;
	regions[versions->region_count++] = region;
	return true;
}

static bool add_regions(struct ws_kernel_versions *versions,
			const struct ws_kernel_memories *memories)
{
	for (size_t i = 0; i < memories->count; i++)
		if (memories->entries[i].bytes && !find_region(versions, &memories->entries[i]) &&
		    !add_region(versions, &memories->entries[i]))
			return false;
	return !ws_kernel_driver.wait_stream(versions->stream);
}

/* ---- comparing memory with the present moment ---- */

/* Room on the device for the table of copies and the flags. */
static bool make_device_room(struct ws_kernel_versions *versions)
{
	if (versions->pieces < versions->device_room)
		return true;
	if (versions->table)
		ws_kernel_driver.release(versions->table);
	if (versions->flags)
		ws_kernel_driver.release(versions->flags);
	versions->table = versions->flags = versions->device_room = 0;
	if (ws_kernel_driver.allocate(&versions->table, versions->piece_room * 8) ||
	    ws_kernel_driver.allocate(&versions->flags, versions->piece_room))
		return false;
	versions->device_room = versions->piece_room;
	return true;
}

/* Bytes behind the last word of 16 are not compared: their piece counts as changed. */
static bool compare_on_device(const struct ws_kernel_versions *versions,
			      const struct region *region)
{
	ws_device_address now = region->memory.base, table = versions->table + 8 * region->first,
			  flags = versions->flags + region->first;
	uint64_t words = region->memory.bytes / 16, pieces = count_pieces(region->memory.bytes);
	void *arguments[] = {&now, &table, &words, &flags};

	if (!pieces)
		return true;
	if (region->memory.bytes % 16 &&
	    ws_kernel_driver.set(flags + pieces - 1, 1, 1, versions->stream))
		return false;
	return !words || !ws_kernel_compare_pieces(arguments, (unsigned)pieces, versions->stream);
}

static bool compare_on_host(const struct ws_kernel_versions *versions, const struct region *region)
{
	char *now = malloc(PIECE);
	bool ok = now != NULL;

	for (uint64_t at = 0; ok && at < region->memory.bytes; at += PIECE) {
		uint64_t piece = region->first + at / PIECE,
			 bytes = ws_min((uint64_t)PIECE, region->memory.bytes - at);

		ok = read_memory(versions, region, now, region->memory.base + at, bytes);
		if (ok)
			versions->fresh[piece] =
				memcmp(now, (const void *)(uintptr_t)versions->current[piece],
				       bytes) != 0;
	}
	free(now);
	return ok;
}

static bool find_fresh(struct ws_kernel_versions *versions)
{
	if (!versions->pieces)
		return true;
	if (!make_device_room(versions) ||
	    ws_kernel_driver.copy_from_host(versions->table, versions->current,
					    versions->pieces * 8, versions->stream) ||
	    ws_kernel_driver.set(versions->flags, 0, versions->pieces, versions->stream))
		return false;
	for (size_t i = 0; i < versions->region_count; i++)
		if (!is_on_host(&versions->regions[i]) &&
		    !compare_on_device(versions, &versions->regions[i]))
			return false;
	if (ws_kernel_driver.copy_to_host(versions->fresh, versions->flags, versions->pieces,
					  versions->stream) ||
	    ws_kernel_driver.wait_stream(versions->stream))
		return false;
	for (size_t i = 0; i < versions->region_count; i++)
		if (is_on_host(&versions->regions[i]) &&
		    !compare_on_host(versions, &versions->regions[i]))
			return false;
	return true;
}

/* ---- moments ---- */

static uint64_t piece_address(const struct ws_kernel_versions *versions, uint64_t piece,
			      uint64_t *bytes)
{
	const struct region *region = &versions->regions[versions->owner[piece]];
	uint64_t at = (piece - region->first) * PIECE;

	*bytes = ws_min((uint64_t)PIECE, region->memory.bytes - at);
	return region->memory.base + at;
}

/* Where the copy of the i-th piece of a version is. */
static uint64_t copy_address(const struct ws_kernel_versions *versions,
			     const struct version *version, size_t i)
{
	if (is_on_host(&versions->regions[versions->owner[version->pieces[i]]]))
		return (uintptr_t)version->host + i * PIECE;
	return version->device + i * PIECE;
}

static bool copy_version(struct ws_kernel_versions *versions, const struct version *version)
{
	for (size_t i = 0; i < version->count; i++) {
		uint64_t bytes, from = piece_address(versions, version->pieces[i], &bytes),
				to = copy_address(versions, version, i);
		const struct region *region =
			&versions->regions[versions->owner[version->pieces[i]]];

		if (is_on_host(region)) {
			if (!read_memory(versions, region, (void *)(uintptr_t)to, from, bytes))
				return false;
		} else if (ws_kernel_driver.copy(to, from, bytes, versions->stream))
			return false;
	}
	return !ws_kernel_driver.wait_stream(versions->stream);
}

static void free_version(struct version *version)
{
	if (version->device)
		ws_kernel_driver.release(version->device);
	free(version->host);
	free(version->pieces);
	memset(version, 0, sizeof(*version));
}

/* Keep the pieces that are fresh. */
static bool keep_fresh(struct ws_kernel_versions *versions, struct version *version)
{
	bool device = false, host = false;
	size_t count = 0;

	for (uint64_t i = 0; i < versions->pieces; i++)
		count += versions->fresh[i] != 0;
	version->pieces = malloc((count + 1) * sizeof(*version->pieces));
	if (!version->pieces)
		return false;
	for (uint64_t i = 0; i < versions->pieces; i++) {
		bool on_host = is_on_host(&versions->regions[versions->owner[i]]);

		if (!versions->fresh[i])
			continue;
		version->pieces[version->count++] = (uint32_t)i;
		device |= !on_host;
		host |= on_host;
	}
	if (device && (!has_room(count * PIECE) ||
		       ws_kernel_driver.allocate(&version->device, count * PIECE)))
		return false;
	version->host = host ? malloc(count * PIECE) : NULL;
	return (!host || version->host) && copy_version(versions, version);
}

static void apply_version(struct ws_kernel_versions *versions, const struct version *version)
{
	for (size_t i = 0; i < version->count; i++) {
		versions->current[version->pieces[i]] = copy_address(versions, version, i);
		versions->dirty[version->pieces[i]] = 1;
	}
}

static struct version *add_empty_version(struct ws_kernel_versions *versions)
{
	struct version *all =
		grow(versions->versions, &versions->room, versions->count + 1, sizeof(*all));

	if (!all)
		return NULL;
	versions->versions = all;
	memset(&all[versions->count], 0, sizeof(*all));
	return &all[versions->count];
}

/* What has changed since the last moment is kept, and memory that was not known before. */
static bool keep_moment(struct ws_kernel_versions *versions,
			const struct ws_kernel_memories *memories)
{
	struct version *version = add_empty_version(versions);

	if (!version)
		return false;
	if (versions->count && (!find_fresh(versions) || !keep_fresh(versions, version))) {
		free_version(version);
		return false;
	}
	apply_version(versions, version);
	memset(versions->dirty, 0, versions->pieces);
	versions->count++;
	/* Regions of a moment that cannot be kept stay: they are as they are now. */
	return !memories || add_regions(versions, memories);
}

struct ws_kernel_versions *ws_kernel_make_versions(const struct ws_kernel_launch *launch)
{
	struct ws_kernel_versions *versions = calloc(1, sizeof(*versions));
	const char *why;

	if (!versions)
		return NULL;
	versions->stream = launch->stream;
	if (!grow_pieces(versions, 1024)) {
		ws_kernel_free_versions(versions);
		return NULL;
	}
	versions->cache = ws_kernel_save_nothing(launch, &why);
	if (versions->cache)
		return versions;
	ws_kernel_free_versions(versions);
	return NULL;
}

/* Other threads may write to it while launches wait and are repeated. */
static bool has_host_memory(const struct ws_kernel_memories *memories)
{
	for (size_t i = 0; i < memories->count; i++)
		if (memories->entries[i].kind == WS_KERNEL_HOST_MEMORY)
			return true;
	return false;
}

bool ws_kernel_keep_version(struct ws_kernel_versions *versions,
			    const struct ws_kernel_launch *launch)
{
	struct ws_kernel_memories memories = {0};
	bool ok;

	versions->stream = launch->stream;
	ok = ws_kernel_list_memory(launch, &memories) && !has_host_memory(&memories) &&
	     keep_moment(versions, &memories);
	free(memories.entries);
	return ok;
}

bool ws_kernel_extend_version(struct ws_kernel_versions *versions,
			      const struct ws_kernel_launch *launch)
{
	struct ws_kernel_memories memories = {0};
	bool ok = ws_kernel_list_memory(launch, &memories) && !has_host_memory(&memories),
	     fresh = false;

	for (size_t i = 0; ok && !fresh && i < memories.count; i++)
		fresh = !find_region(versions, &memories.entries[i]);
	versions->stream = launch->stream;
	ok = ok && (!fresh || add_regions(versions, &memories));
	free(memories.entries);
	return ok;
}

bool ws_kernel_keep_end(struct ws_kernel_versions *versions)
{
	return keep_moment(versions, NULL);
}

/* ---- going from moment to moment ---- */

static bool restore_span(struct ws_kernel_versions *versions, uint64_t from, uint64_t end)
{
	uint64_t bytes, last, to = piece_address(versions, from, &bytes);
	const struct region *region = &versions->regions[versions->owner[from]];

	piece_address(versions, end - 1, &last);
	bytes = (end - 1 - from) * PIECE + last;
	if (is_on_host(region))
		return write_memory(versions, region, to,
				    (const void *)(uintptr_t)versions->current[from], bytes);
	return !ws_kernel_driver.copy(to, versions->current[from], bytes, versions->stream);
}

bool ws_kernel_restore_version(struct ws_kernel_versions *versions, void *stream)
{
	versions->stream = stream;
	for (uint64_t i = 0; i < versions->pieces; i++) {
		const uint8_t *next =
			memchr(versions->dirty + i, 1, (size_t)(versions->pieces - i));
		uint64_t end;

		if (!next)
			break;
		i = (uint64_t)(next - versions->dirty);
		for (end = i + 1; end < versions->pieces && versions->dirty[end] &&
				  versions->owner[end] == versions->owner[i] &&
				  versions->current[end] == versions->current[end - 1] + PIECE;)
			end++;
		if (!restore_span(versions, i, end))
			return false;
		i = end - 1;
	}
	memset(versions->dirty, 0, versions->pieces);
	return !ws_kernel_driver.wait_stream(stream);
}

void ws_kernel_choose_version(struct ws_kernel_versions *versions, size_t number)
{
	for (size_t i = 1; i < versions->count && !number; i++)
		for (size_t k = 0; k < versions->versions[i].count; k++) {
			uint32_t piece = versions->versions[i].pieces[k];

			versions->current[piece] = versions->base[piece];
			versions->dirty[piece] = 1;
		}
	if (number)
		apply_version(versions, &versions->versions[number]);
}

size_t ws_kernel_count_versions(const struct ws_kernel_versions *versions)
{
	return versions->count;
}

void ws_kernel_mark_written(struct ws_kernel_versions *versions, const struct ws_kernel_writes *w)
{
	for (size_t i = 0; i < w->count; i++)
		versions->dirty[w->pieces[i]] = 1;
}

bool ws_kernel_empties_versions(const struct ws_kernel_versions *versions, uint64_t duration)
{
	return ws_kernel_empties_caches(versions->cache, duration);
}

void ws_kernel_save_versions_in_vain(const struct ws_kernel_versions *versions)
{
	struct ws_kernel_memories memories = {0};

	ws_kernel_set_flush_stream(versions->cache, versions->stream);
	for (size_t i = 0; i < versions->region_count; i++)
		ws_kernel_add_memory(&memories, &versions->regions[i].memory);
	ws_kernel_copy_all_in_vain(versions->cache, &memories);
}

void ws_kernel_empty_versions(const struct ws_kernel_versions *versions)
{
	ws_kernel_empty_caches(versions->cache);
}

bool ws_kernel_find_writes(struct ws_kernel_versions *versions, struct ws_kernel_writes *writes)
{
	size_t count = writes->count;
	uint32_t *pieces;

	if (!find_fresh(versions))
		return false;
	for (size_t i = 0; i < writes->count; i++)
		versions->fresh[writes->pieces[i]] = 0;
	for (uint64_t i = 0; i < versions->pieces; i++)
		count += versions->fresh[i] != 0;
	pieces = realloc(writes->pieces, (count + 1) * sizeof(*pieces));
	if (!pieces)
		return false;
	writes->pieces = pieces;
	for (uint64_t i = 0; i < versions->pieces; i++)
		if (versions->fresh[i])
			pieces[writes->count++] = (uint32_t)i;
	return true;
}

static bool check_end(struct ws_kernel_versions *versions)
{
	if (find_fresh(versions))
		memcpy(versions->dirty, versions->fresh, versions->pieces);
	else /* all of it is restored */
		memset(versions->dirty, 1, versions->pieces);
	return ws_kernel_restore_version(versions, versions->stream);
}

void ws_kernel_return_to_end(struct ws_kernel_versions *versions)
{
	for (size_t i = 0; i < versions->count; i++)
		ws_kernel_choose_version(versions, i);
	if (!ws_kernel_restore_version(versions, NULL) || !check_end(versions))
		ws_kernel_report(WS_ERROR,
				 "The memory that measured kernels changed could not be restored: "
				 "the program's results may be wrong.");
}

bool ws_kernel_flush_versions(struct ws_kernel_versions *versions,
			      const struct ws_kernel_launch *launch, const char **why)
{
	ws_kernel_set_flush_stream(versions->cache, launch->stream);
	return ws_kernel_flush_caches(versions->cache, why);
}

void ws_kernel_free_versions(struct ws_kernel_versions *versions)
{
	for (size_t i = 0; i < versions->count; i++)
		free_version(&versions->versions[i]);
	for (size_t i = 0; i < versions->block_count; i++) {
		if (versions->blocks[i].address)
			ws_kernel_driver.release(versions->blocks[i].address);
		free(versions->blocks[i].host);
	}
	if (versions->table)
		ws_kernel_driver.release(versions->table);
	if (versions->flags)
		ws_kernel_driver.release(versions->flags);
	if (versions->cache)
		ws_kernel_free_saved(versions->cache);
	free(versions->versions);
	free(versions->blocks);
	free(versions->regions);
	free(versions->owner);
	free(versions->base);
	free(versions->current);
	free(versions->fresh);
	free(versions->dirty);
	free(versions);
}
