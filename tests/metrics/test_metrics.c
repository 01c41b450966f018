/*
 * test_metrics.c - what is read of a machine: of one made up, whose files change once between the
 * first reading and the last, so that the growth of each number is known whatever the time.
 *
 *   test_metrics STANDIN-OF-NVML
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "metrics/metrics.h"

#define PATIENCE 6000 /* looks, 10 ms apart */

static const char *standin;
static char root[256];

struct seen {
	struct ws_metrics *metrics;
	struct ws_metric_value *values;
	size_t count, cap;
};

/* ---- the machine ---- */

static void write_file(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(full, 0700);
		*slash = '/';
	}
	/* Readers keep the file open: it is written in place. */
	file = fopen(full, access(full, F_OK) ? "w" : "r+");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* GPUs of AMD (card0), and of Intel with its newer and older driver. */
static void write_cards(bool later)
{
	write_file("/sys/class/drm/card0/device/gpu_busy_percent", "37\n");
	write_file("/sys/class/drm/card0/device/hwmon/hwmon3/power1_input", "150000000\n");
	write_file("/sys/class/drm/card0/device/hwmon/hwmon3/freq1_input", "1700000000\n");
	write_file("/sys/class/drm/card1/device/hwmon/hwmon4/energy1_input",
		   later ? "9000000\n" : "1000000\n");
	write_file("/sys/class/drm/card1/device/tile0/gt0/freq0/act_freq", "2050\n");
	write_file("/sys/class/drm/card2/gt/gt0/rps_act_freq_mhz", "1100\n");
}

static void write_machine(bool later)
{
	write_file("/proc/stat", later ? "cpu  1400 0 300 9 70 0 0 8\ncpu0 900 0 1 2 3 0 0 0\n"
					 "cpu1 500 0 0 0 0 0 0 0\nintr 5\n"
				       : "cpu  1000 0 200 9 50 0 0 5\ncpu0 600 0 1 2 3 0 0 0\n"
					 "cpu1 400 0 0 0 0 0 0 0\nintr 5\n");
	write_file("/proc/meminfo",
		   later ? "MemTotal: 900 kB\nMemAvailable:  300 kB\nCached: 70 kB\n"
			 : "MemTotal: 900 kB\nMemAvailable:  500 kB\nCached: 70 kB\n");
	write_file("/proc/vmstat",
		   later ? "pgfault 1900\npgmajfault 17\n" : "pgfault 1000\npgmajfault 10\n");
	write_file("/proc/diskstats", later ? "   8  0 sda 5 0 900 7 9 0 400 3 0 91 8\n"
					      "   8  1 sda1 5 0 900 7 9 0 400 3 0 91 8\n"
					      "   7  0 loop0 5 0 999 7 9 0 400 3 0 91 8\n"
					    : "   8  0 sda 1 0 800 7 9 0 100 3 0 41 8\n"
					      "   8  1 sda1 1 0 800 7 9 0 100 3 0 41 8\n"
					      "   7  0 loop0 1 0 800 7 9 0 100 3 0 41 8\n");
	write_file("/proc/net/dev", later ? "Inter-|\n face |\n    lo: 900 1 0 0 0 0 0 0 900\n"
					    "  eth0: 9500 1 0 0 0 0 0 0 8200 1 0 0 0 0 0 0\n"
					  : "Inter-|\n face |\n    lo: 100 1 0 0 0 0 0 0 100\n"
					    "  eth0: 9000 1 0 0 0 0 0 0 8000 1 0 0 0 0 0 0\n");
	write_file("/proc/pressure/memory",
		   later ? "some avg10=0.00 avg60=0.00 avg300=0.00 total=7000\n"
			   "full avg10=0.00 avg60=0.00 avg300=0.00 total=5000\n"
			 : "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000\n"
			   "full avg10=0.00 avg60=0.00 avg300=0.00 total=4000\n");
	write_file("/proc/self/cgroup", "0::/job/7\n");
	write_file("/sys/fs/cgroup/job/7/cpu.stat",
		   later ? "usage_usec 99000\nnr_throttled 3\nthrottled_usec 60000\n"
			 : "usage_usec 90000\nnr_throttled 1\nthrottled_usec 20000\n");
	write_file("/sys/fs/cgroup/job/7/memory.current", "4096\n");
	write_file("/sys/fs/cgroup/job/7/memory.max", "max\n");
	write_file("/sys/block/sda/size", "1\n");
	write_file("/sys/class/powercap/intel-rapl:0/name", "package-0\n");
	write_file("/sys/class/powercap/intel-rapl:0/energy_uj", later ? "9000000\n" : "2000000\n");
	write_file("/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
		   later ? "1500\n" : "1000\n");
	write_file("/sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
	write_file("/sys/class/thermal/thermal_zone0/temp", "48500\n");
	write_cards(later);
	write_file("/energy", later ? "5000\n" : "2000\n");
}

/* ---- what was seen ---- */

static void collect(struct seen *seen)
{
	size_t n;
	struct ws_metric_value *values = ws_metrics_take(seen->metrics, &n);

	ws_grow(seen->values, seen->cap, seen->count + n);
	if (n)
		memcpy(seen->values + seen->count, values, n * sizeof(*values));
	seen->count += n;
	free(values);
}

static bool is_named(const struct seen *seen, size_t i, const char *name)
{
	return !strcmp(ws_metrics_describe(seen->metrics, seen->values[i].metric)->name, name);
}

/* The last value of a metric, or -1. */
static double find_last(const struct seen *seen, const char *name)
{
	for (size_t i = seen->count; i--;)
		if (is_named(seen, i, name))
			return seen->values[i].value;
	return -1;
}

/* By how much its number has grown in all, in its unit times seconds. */
static double sum_growth(const struct seen *seen, const char *name)
{
	double sum = 0;

	for (size_t i = 0; i < seen->count; i++)
		if (is_named(seen, i, name))
			sum += seen->values[i].value * (double)seen->values[i].span / 1e9;
	return sum;
}

static void wait_a_little(void)
{
	nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void follow_change(struct seen *seen, uint32_t groups, const char *gauge)
{
	struct ws_metrics_opts opts = {groups, 50};

	write_machine(false);
	seen->metrics = ws_metrics_new(&opts);
	assert_non_null(seen->metrics);
	ws_metrics_begin(seen->metrics);
	for (int i = 0; i < PATIENCE && find_last(seen, gauge) < 0; i++) {
		wait_a_little();
		collect(seen);
	}
	assert_true(find_last(seen, gauge) >= 0);
	wait_a_little(); /* a second reading is likely, and must change nothing */
	write_machine(true);
	ws_metrics_stop(seen->metrics);
	for (int i = 0; i < PATIENCE && !ws_metrics_settle(seen->metrics); i++)
		wait_a_little();
	collect(seen);
}

static void free_seen(struct seen *seen)
{
	ws_metrics_free(seen->metrics);
	free(seen->values);
}

#define CHECK_GROWTH(name, growth) \
	assert_float_equal(sum_growth(&seen, name), growth, (growth)*1e-6 + 1e-9)

static void check_machine(void **state)
{
	double ticks = (double)sysconf(_SC_CLK_TCK), cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
	struct seen seen = {0};

	(void)state;
	follow_change(&seen, WS_METRICS_ALL & ~(1u << WS_METRIC_GPU), "Available");
	assert_float_equal(find_last(&seen, "Available"), 300 * 1024, 0);
	assert_float_equal(find_last(&seen, "Page cache"), 70 * 1024, 0);
	assert_float_equal(find_last(&seen, "Temperature x86_pkg_temp"), 48.5, 1e-9);
	assert_float_equal(find_last(&seen, "Memory used"), 4096, 0);
	assert_float_equal(find_last(&seen, "Memory limit"), -1, 0); /* there is none */
	CHECK_GROWTH("Page faults", 900);
	CHECK_GROWTH("Major page faults", 7);
	CHECK_GROWTH("Read, sda", 100 * 512);
	CHECK_GROWTH("Written, sda", 300 * 512);
	assert_float_equal(find_last(&seen, "Read, sda1"), -1, 0);
	assert_float_equal(find_last(&seen, "Read, loop0"), -1, 0);
	CHECK_GROWTH("Received, eth0", 500);
	CHECK_GROWTH("Sent, eth0", 200);
	assert_float_equal(find_last(&seen, "Received, lo"), -1, 0);
	CHECK_GROWTH("InfiniBand received mlx5_0", 2000);
	CHECK_GROWTH("Power package-0", 7);
	CHECK_GROWTH("Memory, some tasks wait", 0.4); /* 4 ms, in % of a second */
	CHECK_GROWTH("Memory, all tasks wait", 0.1);
	CHECK_GROWTH("Throttled", 4);
	CHECK_GROWTH("CPU used", 0.9);
	assert_true(sum_growth(&seen, "Busy, core 0") > 0);
	assert_true(sum_growth(&seen, "Busy, core 0") <= 300 * 100 / ticks + 1e-6);
	assert_true(sum_growth(&seen, "In programs, all cores") <=
		    400 * 100 / ticks / cores + 1e-6);
	free_seen(&seen);
}

static void check_gpus(void **state)
{
	void *library = dlopen(standin, RTLD_NOW);
	const unsigned *powers = dlsym(library, "power_calls"),
		       *throttlings = dlsym(library, "throttling_calls");
	struct seen seen = {0};
	char energy[300], *complaint;

	(void)state;
	snprintf(energy, sizeof(energy), "%s/energy", root);
	setenv("WARPSIGHT_TEST_ENERGY", energy, 1);
	setenv("WARPSIGHT_NVML", standin, 1);
	follow_change(&seen, 1u << WS_METRIC_GPU, "Power, GPU 0");
	assert_float_equal(find_last(&seen, "Power, GPU 0"), 412.25, 1e-9);
	assert_float_equal(find_last(&seen, "Power, GPU 1"), 70.5, 1e-9);
	assert_float_equal(find_last(&seen, "SM clock, GPU 0"), 1980e6, 0);
	assert_float_equal(find_last(&seen, "SM clock, GPU 1"), -1, 0);
	assert_float_equal(find_last(&seen, "Memory used, GPU 0"), (double)(3ull << 30), 0);
	assert_float_equal(find_last(&seen, "Throttled by power, GPU 0"), 1, 0);
	assert_float_equal(find_last(&seen, "Throttled by power, GPU 1"), -1, 0);
	assert_float_equal(find_last(&seen, "Temperature, GPU 0"), -1, 0);
	CHECK_GROWTH("Mean power by energy, GPU 0", 3); /* joules */
	for (size_t i = 0; i < seen.count; i++)
		if (is_named(&seen, i, "Power, GPU 1"))
			assert_string_equal(
				ws_metrics_describe(seen.metrics, seen.values[i].metric)->identity,
				"GPU-00001");
	assert_float_equal(find_last(&seen, "Time with memory access, GPU 0"), 30, 0);
	assert_true(find_last(&seen, "NVLink sent, GPU 1") > 0);
	assert_true(find_last(&seen, "NVLink received, GPU 1") > 0);
	/* Once a reading, whatever follows from the answer. */
	assert_true(*powers > 0);
	assert_int_equal(*throttlings, *powers);
	complaint = ws_metrics_take_complaint(seen.metrics);
	assert_non_null(complaint);
	assert_non_null(strstr(complaint, "Xid 79 on GPU 1"));
	free(complaint);
	free_seen(&seen);
}

/* NVML does not count the links of GPUs whose traffic is sampled elsewhere. */
static void check_links(void **state)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_GPU, 100};
	void *library = dlopen(standin, RTLD_NOW);
	unsigned *calls = dlsym(library, "field_calls");
	struct seen seen = {0};

	(void)state;
	seen.metrics = ws_metrics_new(&opts);
	assert_non_null(seen.metrics);
	ws_metrics_leave_links_out(seen.metrics, 1u << 0);
	calls[0] = calls[1] = 0;
	ws_metrics_begin(seen.metrics);
	for (int i = 0; i < PATIENCE && calls[1] < 3; i++)
		wait_a_little();
	ws_metrics_stop(seen.metrics);
	for (int i = 0; i < PATIENCE && !ws_metrics_settle(seen.metrics); i++)
		wait_a_little();
	collect(&seen);
	assert_int_equal(calls[0], 0);
	assert_float_equal(find_last(&seen, "NVLink sent, GPU 0"), -1, 0);
	assert_true(find_last(&seen, "NVLink sent, GPU 1") > 0);
	free_seen(&seen);
}

/* What recorded processes use of a GPU, and what others use. */
static void check_gpu_processes(void **state)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_GPU, 100};
	struct seen seen = {0};
	bool is_of_process = false;
	int pid = getpid();

	(void)state;
	seen.metrics = ws_metrics_new(&opts);
	assert_non_null(seen.metrics);
	ws_metrics_set_processes(seen.metrics, &pid, 1);
	ws_metrics_begin(seen.metrics);
	for (int i = 0; i < PATIENCE && find_last(&seen, "Processes, GPU 0") < 0; i++) {
		wait_a_little();
		collect(&seen);
	}
	assert_float_equal(find_last(&seen, "Processes, GPU 0"), 4, 0);
	assert_float_equal(find_last(&seen, "Memory of other processes, GPU 0"), 7340032, 0);
	assert_float_equal(find_last(&seen, "GPU memory, GPU 0"), 1073741824, 0);
	assert_float_equal(find_last(&seen, "Processes, GPU 1"), -1, 0);
	for (size_t i = 0; i < seen.count; i++)
		if (is_named(&seen, i, "GPU memory, GPU 0"))
			is_of_process =
				ws_metrics_describe(seen.metrics, seen.values[i].metric)->pid ==
				pid;
	assert_true(is_of_process);
	free_seen(&seen);
}

/* Values that take milliseconds of processor time are read less often, and rates at the end. */
static void check_dear_values(void **state)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_GPU, 50};
	void *library = dlopen(standin, RTLD_NOW);
	unsigned *powers = dlsym(library, "power_calls"),
		 *energies = dlsym(library, "energy_calls"),
		 *shares = dlsym(library, "share_calls");
	struct seen seen = {0};

	(void)state;
	setenv("WARPSIGHT_TEST_DEAR", "1", 1);
	write_machine(false);
	seen.metrics = ws_metrics_new(&opts);
	assert_non_null(seen.metrics);
	*powers = *energies = *shares = 0;
	ws_metrics_begin(seen.metrics);
	for (int i = 0; i < PATIENCE && *powers < 60; i++) /* 30 readings of two GPUs */
		wait_a_little();
	write_machine(true);
	ws_metrics_stop(seen.metrics);
	for (int i = 0; i < PATIENCE && !ws_metrics_settle(seen.metrics); i++)
		wait_a_little();
	collect(&seen);
	assert_true(*powers >= 60);
	assert_in_range(*energies, 3, *powers / 5);
	assert_in_range(*shares, 3, *powers / 5);
	CHECK_GROWTH("Mean power by energy, GPU 0", 3); /* joules */
	free_seen(&seen);
	unsetenv("WARPSIGHT_TEST_DEAR");
}

/* How often the energy is read of the first GPU in 300 readings. */
static unsigned count_energies(const char *mode)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_GPU, 100};
	void *library = dlopen(standin, RTLD_NOW);
	unsigned *powers = dlsym(library, "power_calls"),
		 *energies = dlsym(library, "energy_calls");
	struct seen seen = {0};

	setenv("WARPSIGHT_TEST_DEAR", mode, 1);
	write_machine(false);
	seen.metrics = ws_metrics_new(&opts);
	assert_non_null(seen.metrics);
	*powers = *energies = 0;
	ws_metrics_begin(seen.metrics);
	for (int i = 0; i < PATIENCE && *powers < 600; i++) /* of two GPUs */
		wait_a_little();
	write_machine(true);
	ws_metrics_stop(seen.metrics);
	for (int i = 0; i < PATIENCE && !ws_metrics_settle(seen.metrics); i++)
		wait_a_little();
	collect(&seen);
	assert_true(*powers >= 600);
	CHECK_GROWTH("Mean power by energy, GPU 0", 3); /* joules */
	free_seen(&seen);
	unsetenv("WARPSIGHT_TEST_DEAR");
	return *energies;
}

/* The energy of a GPU at rest is read every few seconds only, unless its power changes. */
static void check_rest(void **state)
{
	unsigned resting = count_energies("rest");

	(void)state;
	assert_in_range(resting, 3, 10);
	assert_true(count_energies("waking") > resting + 3);
}

static void check_cards(void **state)
{
	struct seen seen = {0};

	(void)state;
	follow_change(&seen, 1u << WS_METRIC_GPU, "GPU busy card0");
	assert_float_equal(find_last(&seen, "GPU busy card0"), 37, 0);
	assert_float_equal(find_last(&seen, "GPU power at the moment card0"), 150, 1e-9);
	assert_float_equal(find_last(&seen, "GPU frequency card0"), 1700e6, 0);
	assert_float_equal(find_last(&seen, "GPU frequency card1"), 2050e6, 0);
	assert_float_equal(find_last(&seen, "GPU frequency card2"), 1100e6, 0);
	CHECK_GROWTH("GPU power by energy card1", 8); /* joules */
	free_seen(&seen);
}

static void write_drm(bool later)
{
	static const char before[] = "pos: 0\ndrm-driver: amdgpu\ndrm-client-id: 7\n"
				     "drm-memory-vram: 2048 KiB\ndrm-engine-gfx: 1000000 ns\n"
				     "drm-engine-capacity-gfx: 2\ndrm-engine-enc: 5 ns\n",
			  after[] = "pos: 0\ndrm-driver: amdgpu\ndrm-client-id: 7\n"
				    "drm-memory-vram: 4096 KiB\ndrm-engine-gfx: 9000000 ns\n"
				    "drm-engine-capacity-gfx: 2\ndrm-engine-enc: 5 ns\n";

	write_file("/proc/77/fdinfo/5", later ? after : before);
	write_file("/proc/77/fdinfo/6", later ? after : before); /* the same client */
	write_file("/proc/77/fdinfo/7", "pos: 0\ndrm-client-id: 8\ndrm-memory-vram: 999 KiB\n");
}

static void link_descriptor(const char *number, const char *target)
{
	char path[512];

	write_file("/proc/77/fd/keep", "");
	snprintf(path, sizeof(path), "%s/proc/77/fd/%s", root, number);
	assert_int_equal(symlink(target, path), 0);
}

/* Another vendor's GPU, as a process uses it: each client counts once, other files do not. */
static void check_clients(void **state)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_GPU, 50};
	struct seen seen = {0};
	int pid = 77;

	(void)state;
	setenv("WARPSIGHT_NVML", "/nowhere", 1);
	write_file("/sys/class/drm/renderD128/device/vendor", "0x1002\n");
	write_drm(false);
	link_descriptor("5", "/dev/dri/renderD128");
	link_descriptor("6", "/dev/dri/renderD128");
	link_descriptor("7", "/tmp/file");
	seen.metrics = ws_metrics_new(&opts);
	assert_non_null(seen.metrics);
	ws_metrics_set_processes(seen.metrics, &pid, 1);
	ws_metrics_begin(seen.metrics);
	for (int i = 0; i < PATIENCE && find_last(&seen, "GPU memory") < 0; i++) {
		wait_a_little();
		collect(&seen);
	}
	assert_float_equal(find_last(&seen, "GPU memory"), 2048 * 1024, 0);
	write_drm(true);
	for (int i = 0; i < PATIENCE && find_last(&seen, "GPU memory") < 3e6; i++) {
		wait_a_little();
		collect(&seen);
	}
	assert_float_equal(find_last(&seen, "GPU memory"), 4096 * 1024, 0);
	CHECK_GROWTH("GPU engine gfx", 0.8); /* 8 ms, in % of a second */
	assert_float_equal(find_last(&seen, "GPU engine capacity-gfx"), -1, 0);
	free_seen(&seen);
}

/* Sources that are dear to read are read less often. */
static void check_spacing(void **state)
{
	const uint64_t cheap[] = {90000, 50000, 0}, dear[] = {90000, 700000, 20000},
		       too_dear[] = {10000000, 50000, 40000000};
	unsigned turns[3];

	(void)state;
	ws_metrics_space_out(cheap, 3, 200000, 10, turns);
	assert_true(turns[0] == 1 && turns[1] == 1 && turns[2] == 1);
	ws_metrics_space_out(dear, 3, 200000, 10, turns);
	assert_true(turns[0] == 1 && turns[2] == 1);
	assert_int_equal(turns[1], 8);
	ws_metrics_space_out(too_dear, 3, 200000, 10, turns);
	assert_true(turns[0] == 10 && turns[1] == 10 && turns[2] == 10);
}

/* Each collection has the values that it begins with, and a machine without any of this is no
 * error. */
static void check_collections(void **state)
{
	struct ws_metrics_opts opts = {1u << WS_METRIC_MEMORY, 100};
	struct seen seen = {0};

	(void)state;
	write_machine(false);
	seen.metrics = ws_metrics_new(&opts);
	for (int round = 0; round < 3; round++) {
		seen.count = 0;
		ws_metrics_begin(seen.metrics);
		ws_metrics_stop(seen.metrics);
		for (int i = 0; i < PATIENCE && find_last(&seen, "Available") < 0; i++) {
			wait_a_little();
			collect(&seen);
		}
		assert_float_equal(find_last(&seen, "Available"), 500 * 1024, 0);
	}
	free_seen(&seen);
	setenv("WARPSIGHT_METRICS_ROOT", "/nowhere", 1);
	seen = (struct seen){.metrics = ws_metrics_new(&(struct ws_metrics_opts){255, 10})};
	ws_metrics_begin(seen.metrics);
	ws_metrics_stop(seen.metrics);
	ws_metrics_settle(seen.metrics);
	collect(&seen);
	assert_int_equal(seen.count, 0);
	free_seen(&seen);
	setenv("WARPSIGHT_METRICS_ROOT", root, 1);
}

static void check_words(void **state)
{
	uint32_t groups = 0;
	struct ws_err err;

	(void)state;
	assert_int_equal(ws_metrics_parse_groups("cpu,gpu", &groups, &err), 0);
	assert_int_equal(groups, 1u << WS_METRIC_CPU | 1u << WS_METRIC_GPU);
	assert_int_equal(ws_metrics_parse_groups("none", &groups, &err), 0);
	assert_int_equal(groups, 0);
	assert_null(ws_metrics_new(&(struct ws_metrics_opts){0, 10}));
	assert_int_equal(ws_metrics_parse_groups("all", &groups, &err), 0);
	assert_int_equal(groups, WS_METRICS_ALL);
	assert_int_equal(ws_metrics_parse_groups("cpu,,gpu", &groups, &err), -1);
	assert_int_equal(ws_metrics_parse_groups("cpus", &groups, &err), -1);
	assert_non_null(strstr(err.msg, "'cpus' is no group"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_words),	       cmocka_unit_test(check_machine),
		cmocka_unit_test(check_gpus),	       cmocka_unit_test(check_dear_values),
		cmocka_unit_test(check_rest),	       cmocka_unit_test(check_links),
		cmocka_unit_test(check_gpu_processes), cmocka_unit_test(check_cards),
		cmocka_unit_test(check_clients),       cmocka_unit_test(check_spacing),
		cmocka_unit_test(check_collections)};
	const char *tmp = getenv("TMPDIR");
	char *command;
	int failed;

	if (argc < 2)
		return 2;
	standin = argv[1];
	snprintf(root, sizeof(root), "%s/ws-metrics-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(root))
		return 2;
	setenv("WARPSIGHT_METRICS_ROOT", root, 1);
	setenv("WARPSIGHT_NVML", "/nowhere", 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	command = ws_format("rm -rf '%s'", root);
	if (system(command))
		failed++;
	free(command);
	return failed;
}
