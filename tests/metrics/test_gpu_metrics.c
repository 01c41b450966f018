/* test_gpu_metrics.c - metrics that a GPU's performance monitors sample: their form in a report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/choose.h"
#include "base/ticks.h"
#include "gpu_samples.h"
#include "metrics/gpu_metrics.h"
#include "query/query.h"

#define PERIOD UINT64_C(100000)
#define ZERO UINT64_C(1000000000000)

static uint64_t random_state = 1;

static double draw_share(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (double)(random_state >> 40) / (double)(1 << 24);
}

/* A program with steps of 30 ms, of which the last third is idle, as the sampler would store it. */
static uint64_t put_steps(const struct gpu_samples *samples, uint32_t count)
{
	uint64_t values = 0;

	for (uint32_t i = 0; i < count; i++)
		for (size_t row = 0; row < 12; row++) {
			double share = i % 300 < 200 ? 40 + (double)row * 5 + draw_share() * 4 : 0;

			/* Lines of the same row are alternatives. */
			if (row && !strcmp(gpu_sample_rows[row].row, gpu_sample_rows[row - 1].row))
				continue;
			put_gpu_sample(samples, gpu_sample_rows[row].row, ZERO + i * PERIOD, 1,
				       (double)(int)(share * 128) / 128);
			values++;
		}
	return values;
}

static char *make_report(uint64_t *values)
{
	char *path = strdup("/tmp/ws-gpu-metrics-XXXXXX");
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_err err;
	struct gpu_samples samples;
	struct ws_writer *writer;

	close(mkstemp(path));
	writer = ws_writer_create(path, &opts, &err);
	assert_non_null(writer);
	samples = begin_gpu_samples(writer, 1, 0, "GPU-0", PERIOD);
	*values = put_steps(&samples, 20000);
	put_gpu_sample(&samples, "SM Active", ZERO + 20000 * PERIOD, 0, NAN);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	return path;
}

static void samples_take_two_bytes_at_most(void **state)
{
	uint64_t values;
	char *path = make_report(&values);
	struct stat stat_buf;

	(void)state;
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_in_range(stat_buf.st_size, 1000, values * 2);
	unlink(path);
	free(path);
}

static void gaps_have_no_value(void **state)
{
	uint64_t values, rows = 0, unknown = 0;
	char *path = make_report(&values);
	struct ws_err err;
	struct ws_report *report = ws_report_open(path, &err);
	struct ws_cursor *cursor;
	const uint64_t *row;

	(void)state;
	assert_non_null(report);
	cursor = ws_cursor_open(report, WS_TABLE_counter_value, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &row)) {
		double value;

		memcpy(&value, &row[ws_counter_value_value], 8);
		rows++;
		unknown += isnan(value) ? 1 : 0;
	}
	assert_int_equal(rows, values + 1);
	assert_int_equal(unknown, 1);
	ws_cursor_close(cursor);
	ws_report_close(report);
	unlink(path);
	free(path);
}

/* ---- the process that samples, with a stand-in of CUPTI ---- */

#define MINUTE UINT64_C(60000000000)

struct recording {
	struct ws_gpu_sampling *gpu_metrics;
	struct ws_metric_value *values;
	size_t count;
	char complaints[4096];
};

static void fetch(struct recording *recording)
{
	size_t n, length = strlen(recording->complaints);
	struct ws_metric_value *values = ws_gpu_sampling_take(recording->gpu_metrics, &n);
	char *complaint;

	recording->values =
		realloc(recording->values, (recording->count + n + 1) * sizeof(*recording->values));
	if (n)
		memcpy(recording->values + recording->count, values, n * sizeof(*values));
	recording->count += n;
	free(values);
	while ((complaint = ws_gpu_sampling_take_complaint(recording->gpu_metrics))) {
		length +=
			(size_t)snprintf(recording->complaints + length,
					 sizeof(recording->complaints) - length, "%s\n", complaint);
		free(complaint);
	}
}

static const struct ws_metric *describe(const struct recording *recording, size_t i)
{
	return ws_gpu_sampling_describe(recording->gpu_metrics, recording->values[i].metric);
}

/* How many values there are of this metric of this GPU that are `value`. */
static size_t count_values(const struct recording *recording, int gpu, const char *name,
			   double value)
{
	size_t found = 0;

	for (size_t i = 0; i < recording->count; i++)
		if (describe(recording, i)->device == gpu &&
		    !strcmp(describe(recording, i)->name, name) &&
		    (recording->values[i].value == value ||
		     (isnan(value) && isnan(recording->values[i].value))))
			found++;
	return found;
}

/* Nothing more comes. */
static bool is_over(const struct recording *recording)
{
	return strstr(recording->complaints, "not recorded") ||
	       strstr(recording->complaints, "end early") ||
	       strstr(recording->complaints, "no further");
}

/* Record until `enough` values are there, or nothing more comes. */
static struct recording record(const char *mode, const struct ws_gpu_sampling_opts *opts,
			       size_t enough)
{
	struct recording recording = {0};
	uint64_t until = ws_read_raw_ns() + MINUTE;

	setenv("WARPSIGHT_PM_MODE", mode, 1);
	recording.gpu_metrics = ws_gpu_sampling_new(opts);
	assert_non_null(recording.gpu_metrics);
	ws_gpu_sampling_await(recording.gpu_metrics);
	ws_gpu_sampling_begin(recording.gpu_metrics);
	while (recording.count < enough && ws_read_raw_ns() < until && !is_over(&recording)) {
		fetch(&recording);
		usleep(2000);
	}
	ws_gpu_sampling_stop(recording.gpu_metrics);
	ws_gpu_sampling_settle(recording.gpu_metrics);
	fetch(&recording);
	return recording;
}

static void end_recording(struct recording *recording)
{
	ws_gpu_sampling_free(recording->gpu_metrics);
	free(recording->values);
}

static const struct ws_gpu_sampling_opts both = {"all", NULL, 2000};

/* What is sampled, in which unit, and that what the chip lacks or a second pass needs is not. */
static void two_gpus_are_sampled(void **state)
{
	struct recording recording = record("", &both, 400);

	(void)state;
	assert_string_equal(recording.complaints, "");
	for (int gpu = 0; gpu < 2; gpu++) {
		assert_true(count_values(&recording, gpu, "SM Active", 80) > 2);
		assert_true(count_values(&recording, gpu, "SM Active", 0) > 2);
		assert_true(count_values(&recording, gpu, "Tensor Active", 40) > 2);
		/* To 1/128 %. */
		assert_true(count_values(&recording, gpu, "DRAM Read Bandwidth", 4267.0 / 128) > 2);
		assert_true(count_values(&recording, gpu, "SM Active", NAN) == 0);
		assert_true(count_values(&recording, gpu, "Compute Warps in Flight", 25) > 2);
		assert_true(count_values(&recording, gpu, "Unallocated Warps in Active SMs", 55) >
			    2);
		assert_true(count_values(&recording, gpu, "PCIe RX Throughput", 0) > 0);
		assert_true(count_values(&recording, gpu, "PCIe TX Throughput", 0) == 0);
	}
	for (size_t i = 0; i < recording.count; i++) {
		const struct ws_metric *metric = describe(&recording, i);

		assert_null(strstr(metric->name, "NVLink"));
		assert_int_equal(metric->period, 500000);
		/* The stand-in's numbers in NVML are not CUDA's. */
		assert_string_equal(metric->identity,
				    metric->device ? "GPU-10101010-1010-1010-1010-101010101010"
						   : "GPU-11111111-1111-1111-1111-111111111111");
	}
	end_recording(&recording);
}

/* Counters of links that are not active mislead. Traffic that is sampled has a rate. */
static void idle_links_are_left_out(void **state)
{
	const struct ws_gpu_sampling_opts one = {"1", NULL, 2000};
	struct recording recording = record("idle links", &one, 50);
	bool links = false;

	(void)state;
	for (size_t i = 0; i < recording.count; i++)
		links |= strstr(describe(&recording, i)->name, "NVLink") != NULL;
	assert_false(links);
	assert_int_equal(ws_gpu_sampling_find_links(recording.gpu_metrics), 0);
	end_recording(&recording);
	recording = record("links", &one, 50);
	for (size_t i = 0; i < recording.count; i++)
		links |= strstr(describe(&recording, i)->name, "NVLink") != NULL;
	assert_true(links);
	assert_int_equal(ws_gpu_sampling_find_links(recording.gpu_metrics), 1u << 1);
	end_recording(&recording);
}

/* Rates are those of all links, also where the counters of one are missing. */
static void links_are_extrapolated(void **state)
{
	const struct ws_gpu_sampling_opts one = {"1", NULL, 10000};
	struct recording recording = record("lost link", &one, 4000);
	double most = 0;

	(void)state;
	for (size_t i = 0; i < recording.count; i++)
		if (!strcmp(describe(&recording, i)->name, "NVLink RX Rate"))
			most = ws_max(most, recording.values[i].value);
	assert_float_equal(most, 1.755e9 * 0.5 * 18, 1e7);
	assert_non_null(strstr(recording.complaints, "only 17 of its active NVLinks"));
	end_recording(&recording);
}

/* Values that do not follow from sums of counters are CUPTI's own. */
static void sums_that_mislead_are_not_used(void **state)
{
	struct recording recording = record("skewed", &both, 400);

	(void)state;
	assert_string_equal(recording.complaints, "");
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	assert_true(count_values(&recording, 0, "SM Active", 40) == 0);
	assert_true(count_values(&recording, 0, "Tensor Active", 40) > 2);
	assert_true(count_values(&recording, 0, "DRAM Read Bandwidth", 4267.0 / 128) > 2);
	end_recording(&recording);
}

/* Most samples are decoded into images of sums, if the library has those and they can be trusted.
 */
static void most_samples_are_sums(void **state)
{
	const struct ws_gpu_sampling_opts often = {"0", NULL, 10000};
	struct recording recording = record("marked", &often, 2000);

	(void)state;
	assert_string_equal(recording.complaints, "");
	assert_true(count_values(&recording, 0, "SM Active", 81) >
		    count_values(&recording, 0, "SM Active", 80));
	assert_true(count_values(&recording, 0, "SM Active", 80) > 0); /* still compared */
	assert_true(count_values(&recording, 0, "Tensor Active", 40) > 2);
	assert_true(count_values(&recording, 0, "DRAM Read Bandwidth", 4267.0 / 128) > 2);
	assert_true(count_values(&recording, 0, "SM Active", NAN) == 0);
	end_recording(&recording);
	recording = record("own", &both, 400);
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	assert_true(count_values(&recording, 0, "SM Active", NAN) == 0);
	end_recording(&recording);
	recording = record("strange", &both, 400);
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	assert_true(count_values(&recording, 0, "Tensor Active", 40) > 2);
	end_recording(&recording);
}

/* Also where nothing is sampled whose own clock changes. */
static void memory_alone_is_sums(void **state)
{
	char path[] = "/tmp/ws-gpu-metrics-XXXXXX";
	const char set[] = "dram__bytes_read.avg.pct_of_peak_sustained_elapsed Reads\n";
	const struct ws_gpu_sampling_opts often = {"0", path, 10000};
	struct recording recording;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, set, strlen(set)), strlen(set));
	close(fd);
	recording = record("marked memory", &often, 2000);
	assert_string_equal(recording.complaints, "");
	assert_true(count_values(&recording, 0, "Reads", 33.75) >
		    count_values(&recording, 0, "Reads", 4267.0 / 128));
	end_recording(&recording);
	unlink(path);
}

/* Evaluation without names is used, unless its values are not CUPTI's. */
static void names_are_not_looked_up(void **state)
{
	const struct ws_gpu_sampling_opts often = {"0", NULL, 10000};
	struct recording recording = record("quick", &often, 2000);

	(void)state;
	assert_string_equal(recording.complaints, "");
	assert_true(count_values(&recording, 0, "SM Active", 81) > 0);
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	end_recording(&recording);
	recording = record("astray", &often, 2000);
	assert_string_equal(recording.complaints, "");
	assert_true(count_values(&recording, 0, "SM Active", 81) == 0);
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	end_recording(&recording);
}

/* Equal samples are one value; each begins where the one before ends; times are those of the clock
 * of the report. */
static void values_follow_one_another(void **state)
{
	uint64_t before = ws_read_raw_ns(), end = 0;
	struct recording recording = record("", &both, 400);
	size_t whole = 0;

	(void)state;
	for (size_t i = 0; i < recording.count; i++) {
		const struct ws_metric_value *value = &recording.values[i];

		if (describe(&recording, i)->device != 0 ||
		    strcmp(describe(&recording, i)->name, "SM Active"))
			continue;
		assert_true(value->value <= 80); /* images are reset */
		assert_true(value->time >= before);
		assert_true(value->time + value->span <= ws_read_raw_ns());
		if (end)
			assert_int_equal(value->time, end);
		end = value->time + value->span;
		/* Ten samples are busy, ten are not; both clocks may be set a little meanwhile. */
		whole += value->span > 4900000 && value->span < 5100000;
	}
	assert_true(whole > 2);
	end_recording(&recording);
}

static void refusal_has_its_reason_and_a_substitute(void **state)
{
	struct recording recording = record("denied", &both, 24);

	(void)state;
	assert_non_null(strstr(recording.complaints, "GPU 0: GPU metrics are not sampled"));
	assert_non_null(strstr(recording.complaints, "NVreg_RestrictProfilingToAdminUsers=0"));
	assert_true(count_values(&recording, 0, "SM Active", 2) > 0);
	assert_true(count_values(&recording, 1, "PCIe RX Rate", 21 * 1048576.0) > 0);
	assert_true(count_values(&recording, 0, "FP32 Active", NAN) > 0);
	end_recording(&recording);
}

/* The counters are taken when a collection begins, not before. */
static void busy_counters_have_a_substitute(void **state)
{
	struct recording recording = record("busy", &both, 24);

	(void)state;
	assert_non_null(strstr(recording.complaints, "another tool holds the GPU's counters"));
	assert_true(count_values(&recording, 1, "Tensor Active", 5) > 0);
	end_recording(&recording);
}

static void overflow_is_a_gap(void **state)
{
	const struct ws_gpu_sampling_opts one = {"1", NULL, 2000};
	struct recording recording = record("overflow", &one, 600);

	(void)state;
	assert_non_null(strstr(recording.complaints, "of GPU metrics are missing"));
	assert_true(count_values(&recording, 1, "SM Active", NAN) > 0);
	assert_true(count_values(&recording, 1, "SM Active", 80) > 0);
	end_recording(&recording);
}

static void full_image_is_a_gap(void **state)
{
	const struct ws_gpu_sampling_opts one = {"1", NULL, 20000};
	struct recording recording = record("full", &one, 6000);

	(void)state;
	assert_non_null(strstr(recording.complaints, "of GPU metrics are missing"));
	assert_true(count_values(&recording, 1, "SM Active", NAN) > 0);
	assert_true(count_values(&recording, 1, "SM Active", 80) > 0);
	end_recording(&recording);
}

/* At a high rate, only the metrics are recorded that can be read as often. */
static void high_rates_have_fewer_metrics(void **state)
{
	const struct ws_gpu_sampling_opts one = {"1", NULL, 100000};
	struct recording recording = record("", &one, 50);
	bool memory = false;

	(void)state;
	assert_non_null(strstr(recording.complaints,
			       "GPU 1: 100000 samples a second are too many to read all metrics; "
			       "left out: SM Active, SM Issue,"));
	for (size_t i = 0; i < recording.count; i++) {
		memory |= !strcmp(describe(&recording, i)->name, "DRAM Read Bandwidth");
		assert_string_not_equal(describe(&recording, i)->name, "SM Active");
	}
	assert_true(memory);
	end_recording(&recording);
}

static void warps_that_stay_zero_are_not_known(void **state)
{
	struct recording recording = record("warps", &both, 400);

	(void)state;
	assert_non_null(strstr(recording.complaints, "warps in flight could not be counted"));
	assert_true(count_values(&recording, 0, "SM Active", 80) > 2);
	assert_true(count_values(&recording, 0, "Compute Warps in Flight", NAN) > 0);
	assert_true(count_values(&recording, 0, "Unallocated Warps in Active SMs", NAN) > 0);
	assert_int_equal(count_values(&recording, 0, "Compute Warps in Flight", 0), 0);
	end_recording(&recording);
}

static void undecodable_samples_end_it(void **state)
{
	const struct ws_gpu_sampling_opts one = {"0", NULL, 2000};
	struct recording recording = record("broken", &one, SIZE_MAX / 2);

	(void)state;
	assert_non_null(strstr(recording.complaints, "GPU metrics end early"));
	assert_null(strstr(recording.complaints, "missing"));
	assert_true(count_values(&recording, 0, "SM Active", NAN) > 0);
	end_recording(&recording);
}

static void crash_ends_it_alone(void **state)
{
	const struct ws_gpu_sampling_opts one = {"0", NULL, 2000};
	struct recording recording = record("crash", &one, SIZE_MAX / 2);

	(void)state;
	assert_non_null(strstr(recording.complaints, "ended unexpectedly"));
	end_recording(&recording);
}

static void hang_at_the_end_is_cut_short(void **state)
{
	const struct ws_gpu_sampling_opts one = {"0", NULL, 2000};
	struct recording recording = record("hang", &one, 100);

	(void)state;
	assert_non_null(strstr(recording.complaints, "CUPTI does not answer at the end"));
	assert_true(count_values(&recording, 0, "SM Active", 80) > 0);
	end_recording(&recording);
}

static void collections_may_follow_one_another(void **state)
{
	struct recording recording = record("", &both, 100);
	size_t count = recording.count;
	uint64_t until = ws_read_raw_ns() + MINUTE;

	(void)state;
	ws_gpu_sampling_begin(recording.gpu_metrics);
	while (recording.count < 2 * count && ws_read_raw_ns() < until) {
		fetch(&recording);
		usleep(2000);
	}
	ws_gpu_sampling_stop(recording.gpu_metrics);
	ws_gpu_sampling_settle(recording.gpu_metrics);
	fetch(&recording);
	assert_true(recording.count >= 2 * count);
	assert_string_equal(recording.complaints, "");
	end_recording(&recording);
}

static void chosen_gpus_and_metrics(void **state)
{
	char path[] = "/tmp/ws-gpu-set-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct ws_gpu_sampling_opts opts = {"0,7", path, 2000};
	struct recording recording;

	(void)state;
	fputs("# mine\nsm__cycles_active.avg  Busy SMs\n\nnvlrx__bytes.sum\n"
	      "gpc__cycles_elapsed.avg.per_second # a clock\n",
	      file);
	fclose(file);
	recording = record("", &opts, 50);
	/* GPUs are chosen by their numbers in NVML, which are not CUDA's here. */
	assert_true(count_values(&recording, 0, "Busy SMs", 80) > 0);
	assert_true(count_values(&recording, 1, "Busy SMs", 80) == 0);
	assert_true(
		count_values(&recording, 0, "gpc__cycles_elapsed.avg.per_second", 1.755e9) > 0 ||
		count_values(&recording, 0, "gpc__cycles_elapsed.avg.per_second", 1755316224) > 0);
	assert_non_null(strstr(recording.complaints, "there is no GPU 7"));
	assert_non_null(strstr(recording.complaints, "nvlrx__bytes.sum"));
	end_recording(&recording);
	unlink(path);
}

static void options_are_checked(void **state)
{
	static const struct ws_gpu_sampling_opts bad[] = {
		{"0,x", NULL, 10000}, {"", NULL, 10000},     {"0,", NULL, 10000},
		{"all", NULL, 9},     {"all", NULL, 200001}, {"all", "/none/such", 10000},
	};
	struct ws_gpu_sampling_opts none = {"none", "/none/such", 0};
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(ws_gpu_sampling_check(&bad[i], &err), -1);
		assert_non_null(strstr(err.msg, "--gpu-metrics-"));
	}
	assert_int_equal(ws_gpu_sampling_check(&none, &err), 0);
	assert_null(ws_gpu_sampling_new(&none));
	none.devices = NULL;
	assert_null(ws_gpu_sampling_new(&none));
}

static void lists_name_gpus_and_sets(void **state)
{
	char *devices, *sets = ws_gpu_sampling_list_sets();

	(void)state;
	setenv("WARPSIGHT_PM_MODE", "", 1);
	devices = ws_gpu_sampling_list_devices();
	assert_non_null(strstr(devices, "1: Stand-in 0, GH100, GPU-10101010-1010-1010-1010-"
					"101010101010: can be sampled"));
	assert_non_null(strstr(sets, "SM Active"));
	assert_non_null(strstr(sets, "general:"));
	free(devices);
	free(sets);
}

/* The argument: the stand-in. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_take_two_bytes_at_most),
		cmocka_unit_test(gaps_have_no_value),
		cmocka_unit_test(two_gpus_are_sampled),
		cmocka_unit_test(idle_links_are_left_out),
		cmocka_unit_test(links_are_extrapolated),
		cmocka_unit_test(sums_that_mislead_are_not_used),
		cmocka_unit_test(most_samples_are_sums),
		cmocka_unit_test(memory_alone_is_sums),
		cmocka_unit_test(names_are_not_looked_up),
		cmocka_unit_test(values_follow_one_another),
		cmocka_unit_test(refusal_has_its_reason_and_a_substitute),
		cmocka_unit_test(busy_counters_have_a_substitute),
		cmocka_unit_test(overflow_is_a_gap),
		cmocka_unit_test(full_image_is_a_gap),
		cmocka_unit_test(high_rates_have_fewer_metrics),
		cmocka_unit_test(warps_that_stay_zero_are_not_known),
		cmocka_unit_test(undecodable_samples_end_it),
		cmocka_unit_test(crash_ends_it_alone),
		cmocka_unit_test(hang_at_the_end_is_cut_short),
		cmocka_unit_test(collections_may_follow_one_another),
		cmocka_unit_test(chosen_gpus_and_metrics),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(lists_name_gpus_and_sets),
	};

	if (argc < 2)
		return 2;
	setenv("WARPSIGHT_PM", argv[1], 1);
	setenv("WARPSIGHT_NVML", argv[1], 1);
	unsetenv("CUDA_VISIBLE_DEVICES");

	return cmocka_run_group_tests(tests, NULL, NULL);
}
