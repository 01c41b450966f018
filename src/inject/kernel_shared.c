/*
 * kernel_shared.c - how the driver divides the cache of a multiprocessor for a kernel. How much
 * of it becomes shared memory limits the blocks that fit, and the driver decides that by rules of
 * its own. CUPTI's record of a run of the kernel tells it; one run is recorded for each function,
 * size of block and size of shared memory.
 */
#include "inject/kernel.h"

enum { SHAPES = 4096, BUFFER_BYTES = 1 << 18, RECORDS_FORCED = 1, UNANSWERED = UINT32_MAX };

static struct shape {
	const void *function;
	uint32_t threads, dynamic, bytes; /* bytes: UNANSWERED when there was no record */
} shapes[SHAPES];
static size_t shape_count;

static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(64)));
static _Atomic bool lent;
static _Atomic uint32_t lends; /* how often CUPTI has asked for the buffer */
static bool registered, refused;
/* Of the kernel whose run is recorded. */
static const char *symbol;
static uint32_t found;

static uint32_t count_threads(const struct ws_kernel_launch *launch)
{
	return launch->block[0] * launch->block[1] * launch->block[2];
}

static struct shape *find_shape(const struct ws_kernel_launch *launch)
{
	for (size_t i = 0; i < shape_count; i++)
		if (shapes[i].function == launch->function &&
		    shapes[i].threads == count_threads(launch) &&
		    shapes[i].dynamic == launch->shared)
			return &shapes[i];
	return NULL;
}

uint32_t ws_kernel_find_shared(const struct ws_kernel_launch *launch)
{
	const struct shape *shape = find_shape(launch);

	return shape && shape->bytes != UNANSWERED ? shape->bytes : 0;
}

/* ---- CUPTI's records ---- */

static void lend_buffer(uint8_t **out, size_t *bytes, size_t *records)
{
	bool free_now = !atomic_exchange(&lent, true);

	atomic_fetch_add(&lends, 1);
	*out = free_now ? buffer : NULL;
	*bytes = free_now ? sizeof(buffer) : 0;
	*records = 0;
}

static void read_buffer(void *context, uint32_t stream, uint8_t *from, size_t bytes, size_t valid)
{
	void *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	while (symbol && !ws_cupti.ActivityGetNextRecord(from, valid, &record)) {
		const struct cupti_kernel *kernel = record;

		if (kernel->kind == CUPTI_KIND_CONCURRENT_KERNEL && kernel->name &&
		    !strcmp(kernel->name, symbol))
			found = kernel->shared_executed;
	}
	atomic_store(&lent, false);
}

bool ws_kernel_lacks_shared(const struct ws_kernel_launch *launch)
{
	return !refused && launch->call != WS_KERNEL_LAUNCH_GRAPH && shape_count < SHAPES &&
	       !find_shape(launch);
}

bool ws_kernel_run_for_shared(const struct ws_kernel_launch *launch)
{
	struct shape *shape;
	bool ran, recorded;

	refused = !registered && ws_cupti.ActivityRegisterCallbacks(lend_buffer, read_buffer);
	if (refused)
		return ws_kernel_runs(launch);
	registered = true;
	found = UNANSWERED;
	symbol = launch->symbol;
	recorded = !ws_cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
	ran = ws_kernel_runs(launch);
	if (recorded) {
		ws_cupti.ActivityFlushAll(RECORDS_FORCED);
		ws_cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	}
	symbol = NULL;
	shape = &shapes[shape_count++];
	*shape = (struct shape){launch->function, count_threads(launch), launch->shared, found};
	return ran;
}

/* What is recorded at once is the devices. */
bool ws_kernel_owns_records(void)
{
	uint32_t before = atomic_load(&lends);

	if (!registered || !ws_cupti.ActivityEnableAndDump ||
	    ws_cupti.ActivityEnableAndDump(CUPTI_KIND_DEVICE))
		return false;
	ws_cupti.ActivityFlushAll(RECORDS_FORCED);
	ws_cupti.ActivityDisable(CUPTI_KIND_DEVICE);
	return atomic_load(&lends) != before;
}

void ws_kernel_renew_records(void)
{
	registered = registered && !ws_cupti.ActivityRegisterCallbacks(lend_buffer, read_buffer);
}
