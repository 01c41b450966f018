/*
 * cuda_kern_launch_sum.c - kernels by the shape of their launch: how many warps fit on a
 * multiprocessor, which resource limits them, how many waves the grid makes, and how much a partial
 * last wave wastes. All of it follows from the launch and the device, so it needs neither counters
 * nor permission to read them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/stats.h"

enum { KEY_WORDS = 6 };

enum {
	TIME,
	TOTAL,
	INSTANCES,
	AVERAGE,
	OCCUPANCY,
	LIMITER,
	WAVES,
	TAIL,
	REGISTERS,
	SHARED,
	GRID,
	BLOCK,
	NAME,
	COLUMNS
};

static const struct ws_column columns[COLUMNS] = {
	[TIME] = {"Time", WS_KIND_PERCENT},
	[TOTAL] = {"Total Time", WS_KIND_TIME},
	[INSTANCES] = {"Instances", WS_KIND_COUNT},
	[AVERAGE] = {"Avg", WS_KIND_MEAN},
	[OCCUPANCY] = {"Occupancy", WS_KIND_SHARE},
	[LIMITER] = {"Limiter", WS_KIND_TEXT},
	[WAVES] = {"Waves", WS_KIND_RATIO},
	[TAIL] = {"Tail", WS_KIND_SHARE},
	[REGISTERS] = {"Registers", WS_KIND_COUNT},
	[SHARED] = {"Shared Bytes", WS_KIND_COUNT},
	[GRID] = {"GridXYZ", WS_KIND_TEXT},
	[BLOCK] = {"BlockXYZ", WS_KIND_TEXT},
	[NAME] = {"Name", WS_KIND_TEXT},
};

static const char *const limiters[] = {
	[WS_OCCUPANCY_UNKNOWN] = "",
	[WS_OCCUPANCY_WARPS] = "block size",
	[WS_OCCUPANCY_REGISTERS] = "registers",
	[WS_OCCUPANCY_SHARED] = "shared memory",
	[WS_OCCUPANCY_BLOCKS] = "blocks of an SM",
};

struct shape {
	uint64_t name, grid[3], block[3], registers, shared, limiter;
	double occupancy, waves;
	uint64_t time, count;
};

struct shapes {
	struct ws_stats *stats;
	struct ws_keyed_dists numbers; /* index of each shape by its key */
	struct shape *shapes;
	size_t count, capacity;
};

static double read_real(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

#define CELL(column) batch->col[ws_cuda_kernel_##column][i]

static struct shape read_shape(const struct ws_stats *stats, const struct ws_batch *batch, size_t i)
{
	return (struct shape){
		.name = ws_get_name_key(stats, (uint32_t)CELL(demangled)),
		.grid = {CELL(grid_x), CELL(grid_y), CELL(grid_z)},
		.block = {CELL(block_x), CELL(block_y), CELL(block_z)},
		.registers = CELL(registers),
		.shared = CELL(static_shared) + CELL(dynamic_shared),
		.limiter = CELL(limiter),
		.occupancy = read_real(CELL(occupancy)),
		.waves = read_real(CELL(waves)),
	};
}

static struct shape *find_shape(struct shapes *shapes, const struct shape *shape)
{
	uint64_t key[KEY_WORDS] = {
		shape->name,
		shape->grid[0] | shape->grid[1] << 32,
		shape->grid[2] | shape->block[0] << 32,
		shape->block[1] | shape->block[2] << 32,
		shape->registers | shape->shared << 32,
	};

	/* The same launch may fit differently on another device. */
	memcpy(&key[5], &shape->waves, sizeof(key[5]));
	ws_keyed_get(&shapes->numbers, key);
	if (shapes->numbers.last == shapes->count) {
		ws_grow(shapes->shapes, shapes->capacity, shapes->count + 1);
		shapes->shapes[shapes->count++] = *shape;
	}
	return &shapes->shapes[shapes->numbers.last];
}

static int scan_kernels(void *context, const struct ws_batch *batch)
{
	struct shapes *shapes = context;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = CELL(start), end = CELL(end);
		struct shape shape, *found;

		if (end == WS_NO_TIME || end < start) {
			ws_count_left_out(end, &shapes->stats->unended, &shapes->stats->backwards);
			continue;
		}
		shape = read_shape(shapes->stats, batch, i);
		found = find_shape(shapes, &shape);
		found->time += end - start;
		found->count++;
	}
	return 0;
}

#undef CELL

static void read_kernels(struct shapes *shapes)
{
#define BIT(column) WS_COLUMN_BIT(cuda_kernel, column)
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_kernel,
		.columns = BIT(start) | BIT(end) | BIT(demangled) | BIT(grid_x) | BIT(grid_y) |
			   BIT(grid_z) | BIT(block_x) | BIT(block_y) | BIT(block_z) |
			   BIT(registers) | BIT(static_shared) | BIT(dynamic_shared) |
			   BIT(occupancy) | BIT(waves) | BIT(limiter),
		.time_min = shapes->stats->time_min,
		.time_max = shapes->stats->time_max,
		.workers = 1,
	};
	uint64_t damaged = 0;
#undef BIT

	ws_run_scan(shapes->stats->report, &scan, scan_kernels, shapes, &damaged);
	shapes->stats->damaged += damaged;
}

static int compare_shapes(const void *first, const void *second)
{
	const struct shape *left = first, *right = second;

	if (left->time != right->time)
		return ws_compare(right->time, left->time);
	if (left->count != right->count)
		return ws_compare(right->count, left->count);
	if (left->name != right->name)
		return ws_compare(left->name, right->name);
	return ws_compare(left->grid[0], right->grid[0]);
}

/* The share of all waves that a partial last one leaves empty, in percent. */
static double find_tail(double waves)
{
	double all = ceil(waves);

	if (waves <= 1)
		return 0;
	return 100 * (all - waves) / all;
}

static struct ws_cell write_sizes(char text[64], const uint64_t sizes[3])
{
	int length = snprintf(text, 64, "%4llu %4llu %4llu", (unsigned long long)sizes[0],
			      (unsigned long long)sizes[1], (unsigned long long)sizes[2]);

	return ws_cell_text(text, (size_t)length);
}

static void hand_over_shape(struct ws_stats *stats, const struct shape *shape, uint64_t sum)
{
	bool known = shape->occupancy > 0;
	const char *limiter = shape->limiter < WS_COUNT(limiters) ? limiters[shape->limiter] : "";
	char grid[64], block[64];
	size_t length;
	const char *name = ws_get_name(stats, (uint32_t)shape->name, &length);
	struct ws_cell cells[COLUMNS] = {
		[TIME] = ws_cell_real(ws_compute_percent(shape->time, sum)),
		[TOTAL] = ws_cell_int((int64_t)shape->time),
		[INSTANCES] = ws_cell_int((int64_t)shape->count),
		[AVERAGE] = ws_cell_real((long double)shape->time / shape->count),
		[OCCUPANCY] = ws_cell_real_if(known, 100 * shape->occupancy),
		[LIMITER] = ws_cell_text_if(known, limiter, strlen(limiter)),
		[WAVES] = ws_cell_real_if(known, shape->waves),
		[TAIL] = ws_cell_real_if(known, find_tail(shape->waves)),
		[REGISTERS] = ws_cell_int((int64_t)shape->registers),
		[SHARED] = ws_cell_int((int64_t)shape->shared),
		[GRID] = write_sizes(grid, shape->grid),
		[BLOCK] = write_sizes(block, shape->block),
		[NAME] = ws_cell_text(name, length),
	};

	stats->row(stats, cells);
}

static int make_cuda_kern_launch_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct shapes shapes = {.stats = stats, .numbers = {.words = KEY_WORDS}};
	uint64_t sum = 0;

	(void)err;
	read_kernels(&shapes);
	if (shapes.count)
		qsort(shapes.shapes, shapes.count, sizeof(*shapes.shapes), compare_shapes);
	for (size_t i = 0; i < shapes.count; i++)
		sum += shapes.shapes[i].time;
	for (size_t i = 0; i < shapes.count; i++)
		hand_over_shape(stats, &shapes.shapes[i], sum);
	ws_keyed_free(&shapes.numbers);
	free(shapes.shapes);
	return 0;
}

const struct ws_stats_report ws_stat_cuda_kern_launch_sum = {
	.name = "cuda_kern_launch_sum",
	.title = "CUDA Kernel Launch Summary",
	.about =
		"Kernels by the shape of their launch: the warps that fit on a multiprocessor as a "
		"share of the most it can hold (Occupancy), what keeps more out (Limiter), how "
		"often the grid fills the GPU (Waves), and the share of these waves that a last, "
		"partial one leaves empty (Tail). Needs no counters.",
	.what = "CUDA kernels",
	.unended = "had no times",
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_cuda_kern_launch_sum_rows,
};
