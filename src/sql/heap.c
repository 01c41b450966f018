/*
 * heap.c - the memory that queries use, and its limit.
 *
 * SQLite's own limit needs its own count, which takes a lock at each allocation. This counts
 * atomically, and includes our indices. When the limit is reached, allocations fail, and SQLite
 * reports this without harm.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "sql/table.h"

static _Atomic int64_t used, limit = -1; /* -1: not chosen yet */

bool ws_sql_reserve_memory(int64_t bytes)
{
	int64_t now = atomic_fetch_add_explicit(&used, bytes, memory_order_relaxed) + bytes,
		most = atomic_load_explicit(&limit, memory_order_relaxed);

	if (bytes <= 0 || most <= 0 || now <= most)
		return true;
	atomic_fetch_sub_explicit(&used, bytes, memory_order_relaxed);
	return false;
}

static void choose_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (limit < 0)
		limit = (int64_t)pages * size / 2;
	if (limit < 0) /* not known */
		limit = 0;
}

void ws_sql_set_memory_limit(uint64_t bytes)
{
	limit = (int64_t)(bytes > INT64_MAX ? INT64_MAX : bytes);
}

uint64_t ws_sql_get_memory_limit(void)
{
	return (uint64_t)limit;
}

/* Of `size` bytes that were reserved, `memory` took more, or none if it is NULL. */
static void count_difference(void *memory, int size)
{
	atomic_fetch_add_explicit(&used, (int64_t)malloc_usable_size(memory) - size,
				  memory_order_relaxed);
}

static void *allocate(int size)
{
	void *memory;

	if (!ws_sql_reserve_memory(size))
		return NULL;
	memory = malloc((size_t)size);
	count_difference(memory, size);
	return memory;
}

static void free_memory(void *memory)
{
	if (memory)
		ws_sql_reserve_memory(-(int64_t)malloc_usable_size(memory));
	free(memory);
}

static void *reallocate(void *memory, int size)
{
	int64_t before = (int64_t)malloc_usable_size(memory);
	void *larger = NULL;

	if (!ws_sql_reserve_memory(size - before))
		return NULL;
	larger = realloc(memory, (size_t)size);
	if (larger)
		count_difference(larger, size);
	else
		ws_sql_reserve_memory(before - size);
	return larger;
}

static int measure(void *memory)
{
	return (int)malloc_usable_size(memory);
}

static int round_up(int size)
{
	return (size + 7) & ~7;
}

static int set_up(void *context)
{
	(void)context;
	return SQLITE_OK;
}

static void tear_down(void *context)
{
	(void)context;
}

void ws_sql_count_memory(void)
{
	static const sqlite3_mem_methods methods = {.xMalloc = allocate,
						    .xFree = free_memory,
						    .xRealloc = reallocate,
						    .xSize = measure,
						    .xRoundup = round_up,
						    .xInit = set_up,
						    .xShutdown = tear_down};

	choose_limit();
	/* If SQLite runs already, both are refused, and memory is not counted. */
	sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
