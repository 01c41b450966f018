/*
 * system.c - checks of the kernel: version, clock, perf, tracefs, ptrace, /proc, seccomp,
 * container, capabilities.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "doctor/doctor.h"
#include "record/perf.h"
#include "record/python.h"

void ws_check_kernel(struct ws_finding *finding)
{
	struct utsname utsname;
	int major = 0, minor = 0;

	finding->needed = true;
	uname(&utsname);
	ws_add_finding(finding, WS_HEALTH_OK, "Linux %s, %s", utsname.release, utsname.machine);
	/* 4.14 brought MADV_WIPEONFORK, which distinguishes forked children from vforked ones. */
	if (sscanf(utsname.release, "%d.%d", &major, &minor) != 2)
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "its version is not known");
	else if (major < 4 || (major == 4 && minor < 14)) {
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "it is too old to tell forked processes apart");
		ws_add_fix(finding, "use Linux 4.14 or newer");
	}
}

#ifdef __x86_64__
static bool has_cpu_flag(const char *cpuinfo, const char *flag)
{
	size_t len, length = strlen(flag);
	const char *text = ws_find_line_value(cpuinfo, "flags", &len), *end;

	if (!text)
		return false;
	end = text + len;
	while (text < end) {
		size_t word = strcspn(text, " \n");

		if (word == length && !memcmp(text, flag, length))
			return true;
		text += word + 1;
	}
	return false;
}

static bool is_counter_invariant(void)
{
	char cpuinfo[16384];

	return ws_read_small_file("/proc/cpuinfo", cpuinfo, sizeof(cpuinfo)) &&
	       has_cpu_flag(cpuinfo, "constant_tsc") && has_cpu_flag(cpuinfo, "nonstop_tsc");
}
#else
static bool is_counter_invariant(void)
{
	return true; /* aarch64: the architecture guarantees it */
}
#endif

void ws_check_clock(struct ws_finding *finding)
{
	char source[128];

	if (!ws_read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
				source, sizeof(source)))
		snprintf(source, sizeof(source), "one that cannot be read (%s)", strerror(errno));
	if (is_counter_invariant())
		ws_add_finding(finding, WS_HEALTH_OK, "the CPU's counter runs at a constant rate");
	else {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"the CPU's counter is not known to run at a constant rate: the kernel's "
			"clock is read instead, "
			"which makes each event cost more");
		ws_add_fix(finding, "on a virtual machine, let the host pass the invariant TSC on");
	}
	ws_add_finding(finding, WS_HEALTH_OK, "the kernel's clock source is %s", source);
}

static void explain_perf(struct ws_finding *finding, int error, const char *paranoid)
{
	if (error == ENOSYS)
		ws_add_fix(finding, "use a kernel with CONFIG_PERF_EVENTS");
	else if ((error == EACCES || error == EPERM) && atoi(paranoid) > 2)
		ws_add_fix(finding, "as root: sysctl kernel.perf_event_paranoid=1");
	else if (error == EPERM || error == EACCES)
		ws_add_fix(finding,
			   "in a container: --cap-add PERFMON, and a seccomp profile that allows "
			   "perf_event_open");
}

static void check_sample_rate(struct ws_finding *finding)
{
	uint32_t limit = ws_perf_limit();

	if (!limit)
		return;
	if (limit >= WS_PERF_FREQUENCY) {
		ws_add_finding(
			finding, WS_HEALTH_OK,
			"the kernel allows %u samples a second (perf_event_max_sample_rate), %u "
			"are taken unless another number is asked for",
			limit, WS_PERF_FREQUENCY);
		return;
	}
	ws_add_finding(
		finding, WS_HEALTH_DEGRADED,
		"the kernel allows %u samples a second (perf_event_max_sample_rate), fewer than "
		"the %u that are taken otherwise: it lowers this when its interrupts take long. "
		"Times stay right, for they come from context switches; shares rest on fewer "
		"samples",
		limit, WS_PERF_FREQUENCY);
	ws_add_fix(finding, "as root: sysctl kernel.perf_event_max_sample_rate=100000");
}

void ws_check_perf(struct ws_finding *finding)
{
	char paranoid[32] = "";
	int software = ws_try_perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, -1);
	int hardware = ws_try_perf(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, -1);
	int whole = ws_try_perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, -1, 0);

	if (ws_read_small_file("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid)))
		ws_add_finding(finding, WS_HEALTH_OK, "perf_event_paranoid is %s", paranoid);
	else
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "perf_event_paranoid cannot be read: %s", strerror(errno));
	if (software) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"perf events are refused even for the program's own threads (%s): CPU "
			"samples are taken by a timer signal, at most some hundred a "
			"second, and context switches are not recorded",
			strerror(software));
		explain_perf(finding, software, paranoid);
		return;
	}
	if (hardware) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"software events only, no hardware events (%s): samples are taken by the "
			"CPU clock as everywhere, but cycles, instructions and other events of "
			"the processor cannot be had",
			strerror(hardware));
		if (hardware == ENOENT || hardware == EOPNOTSUPP || hardware == ENODEV)
			ws_add_fix(finding,
				   "on a virtual machine, let the host pass its performance "
				   "counters on");
		else
			explain_perf(finding, hardware, paranoid);
	} else {
		ws_add_finding(finding, WS_HEALTH_OK, "hardware and software events open");
	}
	check_sample_rate(finding);
	if (whole) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"whole CPUs cannot be watched (%s): the program's threads inherit the "
			"events, which makes creating a thread cost more, and sampling is "
			"not system-wide",
			strerror(whole));
		ws_add_fix(finding,
			   "as root: sysctl kernel.perf_event_paranoid=0, or give the capability "
			   "PERFMON");
	}
}

/* Load a BPF program that does nothing, in the same way as profile loads the one that reads
 * Python's frames: 0, or the errno. */
static int try_bpf_program(void)
{
	struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1},
				  {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr;
	long fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_PERF_EVENT;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = WS_COUNT(code);
	attr.license = (uintptr_t) "Dual BSD/GPL";
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		return errno;
	close((int)fd);
	return 0;
}

void ws_check_bpf(struct ws_finding *finding)
{
	int error = try_bpf_program();

	if (!ws_python_bpf_is_built()) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "this build has no program that reads Python's frames in the "
			       "kernel: they are "
			       "recorded by a signal to each thread that runs, which costs a "
			       "second interrupt "
			       "a sample");
		ws_add_fix(finding, "build warpsight where clang is installed");
		return;
	}
	if (!error) {
		ws_add_finding(
			finding, WS_HEALTH_OK,
			"the kernel takes programs for perf events: Python frames come with the "
			"samples of the CPU");
		return;
	}
	ws_add_finding(
		finding, WS_HEALTH_DEGRADED,
		"the kernel takes no programs for perf events (%s): Python frames are recorded by "
		"a signal to each thread that runs, which costs a second "
		"interrupt a sample",
		strerror(error));
	if (error == EPERM || error == EACCES)
		ws_add_fix(finding,
			   "run it as root, or give the capabilities BPF and PERFMON (in a "
			   "container: --cap-add, and a seccomp profile that allows bpf)");
	else if (error == ENOSYS)
		ws_add_fix(finding, "use a kernel with CONFIG_BPF_SYSCALL");
}

void ws_check_tracefs(struct ws_finding *finding)
{
	const char *place;
	struct ws_err err;
	int folder = ws_tracefs_open(&place, &err), id = -1;
	int error;

	if (folder >= 0)
		id = openat(folder, "sched/sched_switch/id", O_RDONLY | O_CLOEXEC);
	error = errno;

	if (id >= 0) {
		if (place)
			ws_add_finding(finding, WS_HEALTH_OK, "readable in %s", place);
		else
			ws_add_finding(
				finding, WS_HEALTH_OK,
				"tracefs is not mounted, but the recorder may mount it for itself");
	} else {
		ws_add_finding(
			finding, WS_HEALTH_MISSING, "%s: wake-ups and --ftrace are not recorded",
			folder < 0 ? err.msg : "tracepoints of the scheduler cannot be read");
		if (error == EACCES)
			ws_add_fix(finding,
				   "as root: mount -o remount,mode=755 /sys/kernel/tracing, "
				   "or run as root");
		else
			ws_add_fix(finding,
				   "as root: mount -t tracefs tracefs /sys/kernel/tracing");
	}
	if (id >= 0)
		close(id);
	if (folder >= 0)
		close(folder);
}

enum { CAPABILITY_PTRACE = 19 };

void ws_check_ptrace(struct ws_finding *finding)
{
	static const char *const scopes[] = {
		"a process can inspect any process of the same user",
		"a process can inspect only its children",
		"a process needs the capability SYS_PTRACE to inspect another",
		"no process can inspect another"};
	bool able = ws_has_capability(CAPABILITY_PTRACE);
	char scope[32];
	int value;

	if (!ws_read_small_file("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope))) {
		if (errno == ENOENT)
			ws_add_finding(finding, WS_HEALTH_OK, "not restricted (no ptrace_scope)");
		else
			ws_add_finding(finding, WS_HEALTH_DEGRADED,
				       "ptrace_scope cannot be read: %s", strerror(errno));
		return;
	}
	value = atoi(scope);
	if (value < 0 || value > 3) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "ptrace_scope is %s, which is not a known value", scope);
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK, "ptrace_scope is %d: %s", value, scopes[value]);
	if (value == 0 || (value < 3 && able))
		return;
	ws_add_finding(finding, value == 1 ? WS_HEALTH_DEGRADED : WS_HEALTH_MISSING,
		       "a process that runs already cannot be recorded");
	if (value == 3)
		ws_add_fix(finding, "ptrace_scope 3 stays until the next boot");
	else
		ws_add_fix(finding, "as root: sysctl kernel.yama.ptrace_scope=0");
}

void ws_check_proc(struct ws_finding *finding)
{
	char mounts[65536], maps[64];
	const char *text, *options;
	size_t length;

	finding->needed = true;
	if (!ws_read_small_file("/proc/self/maps", maps, sizeof(maps))) {
		ws_add_finding(finding, WS_HEALTH_MISSING, "/proc/self/maps cannot be read: %s",
			       strerror(errno));
		ws_add_fix(finding, "mount /proc (as root: mount -t proc proc /proc)");
		return;
	}
	if (!ws_read_small_file("/proc/mounts", mounts, sizeof(mounts)) ||
	    !(text = ws_find_line_value(mounts, "proc /proc ", &length))) {
		ws_add_finding(finding, WS_HEALTH_OK, "readable");
		return;
	}
	options = strstr(text, "hidepid=");
	if (!options || options >= text + length || !strncmp(options, "hidepid=0", 9) ||
	    !strncmp(options, "hidepid=off", 11)) {
		ws_add_finding(finding, WS_HEALTH_OK, "readable, all processes visible");
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK,
		       "mounted with %.*s: other users' processes are hidden",
		       (int)strcspn(options, ", \n"), options);
	if (geteuid()) {
		finding->health = WS_HEALTH_DEGRADED;
		ws_add_fix(
			finding,
			"as root: mount -o remount,hidepid=0 /proc; only programs of other users "
			"are concerned");
	}
}

void ws_check_seccomp(struct ws_finding *finding)
{
	char status[8192];
	const char *text = NULL;
	size_t length;
	int refused;

	if (ws_read_small_file("/proc/self/status", status, sizeof(status)))
		text = ws_find_line_value(status, "Seccomp", &length);
	if (!text) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "cannot find out: /proc/self/status has no Seccomp line");
		return;
	}
	if (*text == '0') {
		ws_add_finding(finding, WS_HEALTH_OK, "no filter");
		return;
	}
	refused = ws_try_perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, -1);
	ws_add_finding(finding, WS_HEALTH_OK, "a filter is active (mode %c)", *text);
	if (refused == EPERM || refused == ENOSYS || refused == EACCES) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "perf_event_open is refused, perhaps by it: %s", strerror(refused));
		ws_add_fix(finding,
			   "docker run --security-opt seccomp=unconfined, or a profile that allows "
			   "perf_event_open");
	}
}

static const char *find_container_kind(char *text, size_t size)
{
	static const struct {
		const char *word, *kind;
	} words[] = {{"kubepods", "Kubernetes"},   {"docker", "Docker"},
		     {"libpod", "Podman"},	   {"lxc", "LXC"},
		     {"containerd", "containerd"}, {"machine.slice", "systemd-nspawn"}};

	if (getenv("KUBERNETES_SERVICE_HOST"))
		return "Kubernetes";
	if (!access("/.dockerenv", F_OK))
		return "Docker";
	if (!access("/run/.containerenv", F_OK))
		return "Podman";
	if (getenv("SINGULARITY_NAME") || getenv("APPTAINER_NAME") ||
	    !access("/.singularity.d", F_OK))
		return "Apptainer";
	if (ws_read_small_file("/run/systemd/container", text, size) && *text)
		return text;
	if (getenv("container"))
		return getenv("container");
	if (ws_read_small_file("/proc/1/cgroup", text, size))
		for (size_t i = 0; i < WS_COUNT(words); i++)
			if (strstr(text, words[i].word))
				return words[i].kind;
	return NULL;
}

void ws_check_container(struct ws_finding *finding)
{
	char text[4096];
	const char *kind = find_container_kind(text, sizeof(text));

	if (kind)
		ws_add_finding(finding, WS_HEALTH_OK,
			       "inside a container (%.64s); the other checks show what it forbids",
			       kind);
	else
		ws_add_finding(finding, WS_HEALTH_OK, "none");
}

static const char *const capability_names[] = {
	"chown",
	"dac_override",
	"dac_read_search",
	"fowner",
	"fsetid",
	"kill",
	"setgid",
	"setuid",
	"setpcap",
	"linux_immutable",
	"net_bind_service",
	"net_broadcast",
	"net_admin",
	"net_raw",
	"ipc_lock",
	"ipc_owner",
	"sys_module",
	"sys_rawio",
	"sys_chroot",
	"sys_ptrace",
	"sys_pacct",
	"sys_admin",
	"sys_boot",
	"sys_nice",
	"sys_resource",
	"sys_time",
	"sys_tty_config",
	"mknod",
	"lease",
	"audit_write",
	"audit_control",
	"setfcap",
	"mac_override",
	"mac_admin",
	"syslog",
	"wake_alarm",
	"block_suspend",
	"audit_read",
	"perfmon",
	"bpf",
	"checkpoint_restore",
};

void ws_check_capabilities(struct ws_finding *finding)
{
	char status[8192];
	struct ws_text names = {0};
	const char *text = NULL;
	size_t length, count = 0;

	if (ws_read_small_file("/proc/self/status", status, sizeof(status)))
		text = ws_find_line_value(status, "CapEff", &length);
	if (!text) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "cannot find out: /proc/self/status has no CapEff line");
		return;
	}
	for (size_t i = 0; i < WS_COUNT(capability_names); i++)
		if (strtoull(text, NULL, 16) >> i & 1)
			ws_text_printf(&names, "%s%s", count++ ? ", " : "", capability_names[i]);
	if (count == WS_COUNT(capability_names))
		ws_add_finding(finding, WS_HEALTH_OK, "all");
	else if (count)
		ws_add_finding(finding, WS_HEALTH_OK, "%s", names.text);
	else
		ws_add_finding(finding, WS_HEALTH_OK,
			       "none (the other checks show what would need one)");
	ws_text_free(&names);
}
