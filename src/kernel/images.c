/*
 * images.c - see images.h. The file holds one image after the other: the size of its compressed
 * form and of its own, 8 bytes each, then that form (Zstandard).
 */
#include "kernel/images.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "gpu/host.h"
#include "kernel/choose.h"
#include "kernel/units.h"
#include "schema/kernel_image.h"

enum { LEVEL = 3 };
#define IMAGE_MOST (UINT64_C(1) << 30)

char *ws_kernel_name_images(const char *report)
{
	size_t length = strlen(report);

	if (length > 6 && !strcmp(report + length - 6, ".wsrep"))
		length -= 6;
	return ws_format("%.*s.counters", (int)length, report);
}

/* ---- writing ---- */

/* The whole file; NULL when it cannot be read. */
static char *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "re");
	struct stat status;
	char *data = NULL;

	if (file && !fstat(fileno(file), &status) && (uint64_t)status.st_size < IMAGE_MOST) {
		*bytes = (size_t)status.st_size;
		data = malloc(*bytes + 1);
		if (data && fread(data, 1, *bytes, file) != *bytes) {
			free(data);
			data = NULL;
		}
	}
	if (file)
		fclose(file);
	return data;
}

/* With a checksum, since CUPTI trusts what it evaluates. */
static size_t compress(char *to, size_t room, const char *data, size_t bytes)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t packed;

	ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	packed = ZSTD_compress2(context, to, room, data, bytes);
	ZSTD_freeCCtx(context);
	return packed;
}

static int pack_image(FILE *out, const char *path, struct ws_err *err)
{
	uint64_t sizes[2];
	size_t bytes, room, packed;
	char *data = read_file(path, &bytes), *room_for;
	int rc = -1;

	if (!data)
		return ws_fail_errno(err, "cannot read %s", path);
	room = ZSTD_compressBound(bytes);
	room_for = ws_malloc(room);
	packed = compress(room_for, room, data, bytes);
	sizes[0] = packed;
	sizes[1] = bytes;
	if (!ZSTD_isError(packed) && fwrite(sizes, sizeof(sizes), 1, out) == 1 &&
	    fwrite(room_for, 1, packed, out) == packed)
		rc = 0;
	else
		ws_fail(err, "cannot write the counters of %s", path);
	free(room_for);
	free(data);
	return rc;
}

static int pack_folder(FILE *out, DIR *directory, const char *folder, struct ws_err *err)
{
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(directory))) {
		char *path;
		int rc;

		if (strncmp(entry->d_name, "image-", 6))
			continue;
		path = ws_format("%s/%s", folder, entry->d_name);
		rc = pack_image(out, path, err);
		free(path);
		if (rc)
			return -1;
		count++;
	}
	return count;
}

int ws_kernel_pack_images(const char *folder, const char *report, struct ws_err *err)
{
	char *path = ws_kernel_name_images(report);
	DIR *directory = opendir(folder);
	FILE *out = fopen(path, "we");
	int count = -1;

	if (!directory || !out)
		ws_fail_errno(err, "cannot write %s", path);
	else
		count = pack_folder(out, directory, folder, err);
	if (directory)
		closedir(directory);
	if (out && fclose(out) && count >= 0)
		count = ws_fail_errno(err, "cannot write %s", path);
	if (count <= 0)
		remove(path);
	free(path);
	return count;
}

/* ---- evaluating ---- */

struct evaluation {
	struct ws_kernel_results *results;
	struct ws_kernel_choice choice;
	struct ws_gpu_host *host;
	char chip[40];
	const char *metrics;
	bool *found; /* per metric of the choice */
	size_t results_found;
};

static int open_chip(struct evaluation *evaluation, const char *chip, struct ws_err *err)
{
	struct ws_kernel_request request = {"none", NULL, evaluation->metrics};

	if (evaluation->host && !strcmp(evaluation->chip, chip))
		return 0;
	ws_gpu_host_close(evaluation->host);
	ws_kernel_choice_free(&evaluation->choice);
	free(evaluation->found);
	memset(&evaluation->choice, 0, sizeof(evaluation->choice));
	snprintf(evaluation->chip, sizeof(evaluation->chip), "%s", chip);
	evaluation->host = ws_gpu_host_open(chip, err);
	evaluation->found = NULL;
	if (!evaluation->host || ws_kernel_choose(&request, chip, &evaluation->choice, err))
		return -1;
	evaluation->found = ws_calloc(evaluation->choice.count + 1, sizeof(bool));
	return 0;
}

static int compare_metrics(const void *first, const void *second)
{
	const struct ws_kernel_metric *left = first, *right = second;

	return strcmp(left->name, right->name);
}

/* The names belong to the results from now on: they live as long as the process. */
static void add_value(struct ws_kernel_result *result, const struct evaluation *evaluation,
		      const char *name, double value)
{
	char unit[WS_UNIT_ROOM];
	struct ws_kernel_metric metric = {.name = ws_strdup(name), .value = value};
	const struct ws_kernel_metric *there = ws_find_kernel_metric(result, name);

	if (there) {
		free((char *)metric.name);
		return;
	}
	ws_kernel_tidy_unit(name, ws_gpu_host_unit(evaluation->host, name), unit);
	metric.unit = ws_strdup(unit);
	result->metrics[result->metric_count++] = metric;
	qsort(result->metrics, result->metric_count, sizeof(metric), compare_metrics);
}

/* Room for more metrics: those of a result are no longer beside those of the others. */
static void make_room(struct ws_kernel_result *result, size_t more)
{
	struct ws_kernel_metric *metrics =
		ws_calloc(result->metric_count + more + 1, sizeof(*metrics));

	memcpy(metrics, result->metrics, result->metric_count * sizeof(*metrics));
	result->metrics = metrics;
}

static void evaluate_result(struct evaluation *evaluation, struct ws_kernel_result *result,
			    const char *image, size_t bytes, size_t range)
{
	const struct ws_kernel_choice *choice = &evaluation->choice;

	make_room(result, choice->count);
	evaluation->results_found++;
	for (size_t i = 0; i < choice->count; i++) {
		double value = ws_gpu_host_evaluate(evaluation->host, image, bytes, range,
						    choice->names[i]);

		if (isnan(value))
			continue;
		evaluation->found[i] = true;
		add_value(result, evaluation, choice->names[i], value);
	}
}

static int evaluate_image(struct evaluation *evaluation, const char *data, size_t bytes,
			  struct ws_err *err)
{
	struct ws_kernel_image_head head;
	struct ws_kernel_image_entry entry;
	const char *image;

	if (bytes < sizeof(head))
		return ws_fail(err, "the counters are damaged");
	memcpy(&head, data, sizeof(head));
	head.chip[sizeof(head.chip) - 1] = 0;
	if (head.magic != WS_KERNEL_IMAGE_MAGIC || head.bytes > bytes - sizeof(head) ||
	    head.count > (bytes - sizeof(head) - head.bytes) / sizeof(entry))
		return ws_fail(err, "the counters are damaged");
	if (open_chip(evaluation, head.chip, err))
		return -1;
	image = data + sizeof(head) + head.count * sizeof(entry);
	for (uint32_t k = 0; k < head.count; k++) {
		memcpy(&entry, data + sizeof(head) + k * sizeof(entry), sizeof(entry));
		for (size_t i = 0; i < evaluation->results->count; i++) {
			struct ws_kernel_result *result = &evaluation->results->results[i];

			if (result->pid == head.pid && result->row.launch == entry.launch)
				evaluate_result(evaluation, result, image, head.bytes, entry.range);
		}
	}
	return 0;
}

/* One image of the file; 1 when there is none left. */
static int read_image(struct evaluation *evaluation, FILE *file, struct ws_err *err)
{
	uint64_t sizes[2];
	char *packed, *data;
	int rc;

	if (fread(sizes, sizeof(sizes), 1, file) != 1)
		return 1;
	if (sizes[0] > IMAGE_MOST || sizes[1] > IMAGE_MOST)
		return ws_fail(err, "the counters are damaged");
	packed = ws_malloc(sizes[0] + 1);
	data = ws_malloc(sizes[1] + 1);
	if (fread(packed, 1, sizes[0], file) != sizes[0] ||
	    ZSTD_decompress(data, sizes[1], packed, sizes[0]) != sizes[1])
		rc = ws_fail(err, "the counters are damaged");
	else
		rc = evaluate_image(evaluation, data, sizes[1], err);
	free(packed);
	free(data);
	return rc;
}

static void list_missing(const struct evaluation *evaluation, struct ws_text *missing)
{
	for (size_t i = 0; i < evaluation->choice.count; i++)
		if (!evaluation->found[i])
			ws_text_printf(missing, "%s%s", missing->len ? " " : "",
				       evaluation->choice.names[i]);
}

int ws_kernel_add_metrics(struct ws_kernel_results *results, const char *report,
			  const char *metrics, struct ws_text *missing, struct ws_err *err)
{
	struct evaluation evaluation = {.results = results, .metrics = metrics};
	char *path = ws_kernel_name_images(report);
	FILE *file = fopen(path, "re");
	int rc = 0;

	if (!file)
		rc = ws_fail(err,
			     "%s: metrics can only be evaluated later if --keep-counters "
			     "was given when the kernels were measured: %s: %s",
			     report, path, strerror(errno));
	while (!rc)
		rc = read_image(&evaluation, file, err);
	if (rc == 1) {
		rc = 0;
		list_missing(&evaluation, missing);
		if (!evaluation.results_found)
			rc = ws_fail(err, "%s belongs to another report", path);
	}
	if (file)
		fclose(file);
	ws_gpu_host_close(evaluation.host);
	ws_kernel_choice_free(&evaluation.choice);
	free(evaluation.found);
	free(path);
	return rc;
}
