/*
 * test_watch.c - what triggers look at: rows as a recorder writes them, and whether each trigger
 * fires when it should, once, and not when it should not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/ticks.h"
#include "record/gpu_idle.h"
#include "record/watch.h"
#include "record/xid.h"

#define MS UINT64_C(1000000)

struct flight {
	struct ws_writer *writer;
	struct ws_flight_triggers list;
	struct ws_watch *watch;
};

static void begin(struct flight *flight, const char *const *triggers)
{
	struct ws_flight_opts keep = {.keep_ns = 3600000 * MS, .keep_bytes = 64 << 20};
	struct ws_writer_opts opts = {.folder = "/tmp", .flight = &keep};
	struct ws_err err;

	*flight = (struct flight){0};
	for (; *triggers; triggers++)
		if (ws_trigger_read(*triggers, &flight->list, &err))
			fail_msg("%s", err.msg);
	flight->writer = ws_writer_create(NULL, &opts, &err);
	assert_non_null(flight->writer);
	flight->watch = ws_watch_new(flight->writer, &flight->list);
}

static void end(struct flight *flight)
{
	struct ws_err err;

	ws_writer_close(flight->writer, &err);
	ws_watch_free(flight->watch);
	ws_trigger_free(&flight->list);
}

static void add_event(struct flight *flight, const char *name, uint64_t start, uint64_t duration)
{
	struct ws_row_nvtx row = {
		.start = start, .end = start + duration, .thread = 1, .type = WS_NVTX_PUSHPOP};

	row.text = ws_writer_passing_string(flight->writer, name, strlen(name));
	if (!duration) {
		row.type = WS_NVTX_MARK;
		row.end = WS_NO_TIME;
	}
	ws_writer_add(flight->writer, WS_TABLE_nvtx, &row);
}

/* The number of the trigger that has fired; -1 for none. */
static int take(struct flight *flight)
{
	struct ws_fired fired;
	uint32_t more;

	ws_writer_commit(flight->writer);
	if (!ws_watch_take(flight->watch, 1000000 * MS, &fired, &more))
		return -1;
	return (int)(fired.trigger + 100 * more);
}

static void check_ranges(void **state)
{
	static const char *const triggers[] = {"range slow > 500ms", "mark stop", "step > 400ms",
					       NULL};
	struct flight flight;

	(void)state;
	begin(&flight, triggers);
	add_event(&flight, "slow", 0, 500 * MS);
	add_event(&flight, "slower", 0, 900 * MS);
	add_event(&flight, "stop", 0, 900 * MS);
	add_event(&flight, "slow", 0, 0);
	add_event(&flight, "stop it", 0, 0);
	add_event(&flight, "Steps", 0, 900 * MS);
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "slow", 0, 500 * MS + 1);
	assert_int_equal(take(&flight), 0);
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "slow 17", 0, 501 * MS);
	assert_int_equal(take(&flight), 0);
	add_event(&flight, "stop", 5, 0);
	assert_int_equal(take(&flight), 1);
	add_event(&flight, "ProfilerStep#3", 0, 401 * MS);
	add_event(&flight, "Iteration 3", 0, 399 * MS);
	add_event(&flight, "stop", 0, 0);
	assert_int_equal(take(&flight), 102);
	end(&flight);
}

/* What a snapshot alone has is not looked at. */
static void check_forgotten(void **state)
{
	static const char *const triggers[] = {"range slow > 5ms", NULL};
	struct flight flight;

	(void)state;
	begin(&flight, triggers);
	add_event(&flight, "slow", 0, MS);
	ws_writer_flush(flight.writer);
	add_event(&flight, "slow", 0, 90 * MS);
	ws_writer_forget_staged(flight.writer);
	add_event(&flight, "slow", 0, 2 * MS);
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "slow", 0, 90 * MS);
	assert_int_equal(take(&flight), 0);
	end(&flight);
}

/* Ids are used again: an old name must not be taken for a new one. */
static void check_many_names(void **state)
{
	static const char *const triggers[] = {"range slow > 5ms", NULL};
	struct flight flight;

	(void)state;
	begin(&flight, triggers);
	for (int i = 0; i < 200000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name %d", i);
		add_event(&flight, name, 0, 90 * MS);
		if (i % 50000 == 49999) {
			assert_int_equal(take(&flight), -1);
			add_event(&flight, "slow", 0, 90 * MS);
			assert_int_equal(take(&flight), 0);
		}
	}
	end(&flight);
}

static void check_median(void **state)
{
	static const char *const triggers[] = {"step > 1.5x", NULL};
	struct flight flight;

	(void)state;
	begin(&flight, triggers);
	for (uint64_t i = 0; i < 7; i++)
		add_event(&flight, "step", 0, (i == 3 ? 900 : 10) * MS); /* too few to judge */
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "step", 0, 10 * MS);
	add_event(&flight, "step", 0, 15 * MS);
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "step", 0, 16 * MS);
	assert_int_equal(take(&flight), 0);
	for (uint64_t i = 0; i < 200; i++) /* it grows slowly: nothing is out of order */
		add_event(&flight, "step", 0, 10 * MS + i * MS / 10);
	assert_int_equal(take(&flight), -1);
	add_event(&flight, "step", 0, 16 * MS);
	assert_int_equal(take(&flight), -1);
	end(&flight);
}

/* ---- GPUs ---- */

static void work(struct ws_gpu_idle *gpus, uint32_t device, uint64_t start, uint64_t duration)
{
	struct ws_row_cuda_kernel row = {.start = start * MS,
					 .end = (start + duration) * MS,
					 .device = device,
					 .process = 1};

	ws_gpu_idle_see(gpus, WS_TABLE_cuda_kernel, &row, 1);
}

static uint64_t find(struct ws_gpu_idle *gpus, uint64_t now, uint64_t least)
{
	uint64_t since, until;
	bool found = ws_gpu_idle_find(gpus, now * MS, least * MS, &since, &until);

	ws_gpu_idle_pass(gpus, now * MS);
	return found ? (until - since) / MS : 0;
}

static void check_gaps(void **state)
{
	struct ws_gpu_idle *gpus = ws_gpu_idle_new();

	(void)state;
	assert_int_equal(find(gpus, 1000, 100), 0); /* no work at all */
	work(gpus, 0, 1000, 50);
	work(gpus, 0, 1140, 10);
	work(gpus, 0, 1300, 10);
	work(gpus, 0, 1100, 60);		    /* told late: it covers the gap before 1140 */
	assert_int_equal(find(gpus, 1400, 100), 0); /* more may come */
	assert_int_equal(find(gpus, 3290, 100), 0);
	assert_int_equal(find(gpus, 3310, 100), 140);
	assert_int_equal(find(gpus, 3320, 100), 0);
	work(gpus, 0, 3300, 10);
	assert_int_equal(find(gpus, 3400, 2000), 0);
	assert_int_equal(find(gpus, 5400, 1000), 1990);
	ws_gpu_idle_free(gpus);
}

/* After the last work, unless calls still ask for some. */
static void check_idle_now(void **state)
{
	struct ws_gpu_idle *gpus = ws_gpu_idle_new();
	struct ws_row_cuda_api call = {.start = 1060 * MS};

	(void)state;
	work(gpus, 0, 1000, 50);
	assert_int_equal(find(gpus, 3100, 100), 0);
	assert_int_equal(find(gpus, 3200, 100), 2150);
	assert_int_equal(find(gpus, 3300, 100), 0); /* once */
	work(gpus, 0, 4000, 50);
	assert_int_equal(find(gpus, 6100, 100), 0); /* the same gap */
	ws_gpu_idle_free(gpus);
	gpus = ws_gpu_idle_new();
	work(gpus, 0, 1000, 50);
	ws_gpu_idle_see(gpus, WS_TABLE_cuda_api, &call, 1);
	assert_int_equal(find(gpus, 9000, 100), 0); /* a kernel may run for long */
	ws_gpu_idle_free(gpus);
}

static void check_devices(void **state)
{
	struct ws_gpu_idle *gpus = ws_gpu_idle_new();
	struct ws_row_cuda_device device = {.process = 1, .id = 7, .uuid = 99};

	(void)state;
	ws_gpu_idle_see(gpus, WS_TABLE_cuda_device, &device, 1);
	device.process = 2;
	device.id = 3;
	ws_gpu_idle_see(gpus, WS_TABLE_cuda_device, &device, 1);
	work(gpus, 7, 1000, 10);
	work(gpus, 8, 1000, 1000); /* another GPU keeps busy */
	{
		struct ws_row_cuda_kernel row = {
			.start = 1050 * MS, .end = 1060 * MS, .device = 3, .process = 2};

		ws_gpu_idle_see(gpus, WS_TABLE_cuda_kernel, &row, 1); /* the same GPU as 7 */
	}
	work(gpus, 7, 1100, 10);
	assert_int_equal(find(gpus, 3105, 45), 0);
	work(gpus, 7, 1200, 10);
	assert_int_equal(find(gpus, 3205, 45), 90);
	ws_gpu_idle_free(gpus);
}

static void check_xid(void **state)
{
	static const struct {
		const char *record;
		int number;
	} records[] = {
		{"4,1234,5678,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off", 79},
		{"3,1,2,c;NVRM: Xid (PCI:0000:01:00.0): 31\n", 31},
		{"12,1,2,-;NVRM: Xid (PCI:0000:01:00): 79", -1}, /* written by a program */
		{"4,1,2,-;NVRM: Xid (PCI:0000:01:00)", -1},
		{"4,1,2,-;NVRM: Xid (PCI:0000:01:00): x", -1},
		{"4,1,2,-;NVRM: loading", -1},
		{"4,1,2,- NVRM: Xid (PCI): 3", -1},
		{"", -1},
	};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(records); i++)
		assert_int_equal(ws_xid_parse(records[i].record, strlen(records[i].record)),
				 records[i].number);
}

/* The row that describes a device may come after work of it, as on a slow machine. */
static void check_late_device(void **state)
{
	struct ws_row_cuda_device device = {.process = 1, .id = 3, .uuid = 77};
	struct ws_gpu_idle *gpus = ws_gpu_idle_new();

	(void)state;
	work(gpus, 3, 1000, 50);
	assert_int_equal(find(gpus, 1100, 100), 0);
	ws_gpu_idle_see(gpus, WS_TABLE_cuda_device, &device, 1);
	work(gpus, 3, 2000, 50);
	assert_int_equal(find(gpus, 4200, 100), 950);
	ws_gpu_idle_free(gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_ranges),	     cmocka_unit_test(check_forgotten),
		cmocka_unit_test(check_many_names),  cmocka_unit_test(check_median),
		cmocka_unit_test(check_gaps),	     cmocka_unit_test(check_idle_now),
		cmocka_unit_test(check_devices),     cmocka_unit_test(check_xid),
		cmocka_unit_test(check_late_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
