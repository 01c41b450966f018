/*
 * busiest.c - the kernels that took most time, of a report: reading through libwarpsight.
 *
 *     cc -O2 busiest.c $(pkg-config --cflags --libs warpsight) -o busiest && ./busiest
 * report1.wsrep
 *
 * Batches are read with their texts as numbers, which are summed up by number; names are looked up
 * at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <warpsight/warpsight.h>

struct sum {
	uint64_t ns, count;
	uint32_t name;
};

static int by_time(const void *first, const void *second)
{
	const struct sum *left = first, *right = second;

	return left->ns < right->ns ? 1 : left->ns > right->ns ? -1 : 0;
}

static void add_batch(struct sum *sums, uint32_t most, const struct ArrowArray *batch)
{
	const uint64_t *start = batch->children[0]->buffers[1],
		       *end = batch->children[1]->buffers[1],
		       *name = batch->children[2]->buffers[1];

	for (int64_t i = 0; i < batch->length; i++) {
		if (end[i] == UINT64_MAX || name[i] > most) /* null: it had no times */
			continue;
		sums[name[i]].ns += end[i] - start[i];
		sums[name[i]].count++;
	}
}

int main(int argc, char **argv)
{
	const char *columns[] = {"start", "end", "name"};
	struct warpsight_scan scan = {.size = sizeof(scan),
				      .columns = columns,
				      .column_count = 3,
				      .time_max = UINT64_MAX,
				      .flags = WARPSIGHT_NUMBERS};
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	warpsight_report *report = argc == 2 ? warpsight_open(argv[1]) : NULL;
	struct sum *sums;
	uint32_t most;
	int rc;

	if (!report || warpsight_stream(report, "cuda_kernel", &scan, &stream)) {
		fprintf(stderr, "%s\n", argc == 2 ? warpsight_error() : "usage: busiest REPORT");
		return 1;
	}
	most = warpsight_strings(report);
	sums = calloc((size_t)most + 1, sizeof(*sums));
	for (uint32_t i = 0; sums && i <= most; i++)
		sums[i].name = i;
	while (sums && !(rc = stream.get_next(&stream, &batch)) && batch.release) {
		add_batch(sums, most, &batch);
		batch.release(&batch);
	}
	if (!sums || rc)
		fprintf(stderr, "%s\n", sums ? stream.get_last_error(&stream) : "out of memory");
	stream.release(&stream);
	if (sums)
		qsort(sums, (size_t)most + 1, sizeof(*sums), by_time);
	for (uint32_t i = 0; sums && i < 10 && i <= most && sums[i].count; i++)
		printf("%12" PRIu64 " ns %9" PRIu64 "  %s\n", sums[i].ns, sums[i].count,
		       warpsight_string(report, sums[i].name, NULL));
	free(sums);
	warpsight_close(report);
	return !sums || rc;
}
