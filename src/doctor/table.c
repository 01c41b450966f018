/*
 * table.c - the checks in the order in which they are shown, and the helpers that they share.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor/doctor.h"

const struct ws_check ws_doctor_checks[] = {
	{"kernel", ws_check_kernel},
	{"clock", ws_check_clock},
	{"hooks", ws_check_preload},
	{"shared memory", ws_check_shm},
	{"temporary files", ws_check_tmp},
	{"current folder", ws_check_cwd},
	{"/proc", ws_check_proc},
	{"limits", ws_check_limits},
	{"perf events", ws_check_perf},
	{"kernel programs", ws_check_bpf},
	{"tracepoints", ws_check_tracefs},
	{"ptrace", ws_check_ptrace},
	{"container", ws_check_container},
	{"seccomp", ws_check_seccomp},
	{"capabilities", ws_check_capabilities},
	{"GPU", ws_check_gpu},
	{"CUDA driver", ws_check_driver},
	{"CUPTI", ws_check_cupti},
	{"NVML", ws_check_nvml},
	{"GPU counters", ws_check_counters},
	{"injection", ws_check_injection},
	{"CUDA settings", ws_check_cuda_environment},
	{"graphics", ws_check_graphics},
	{NULL, NULL},
};

static void add_sentence(struct ws_text *text, const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	if (text->len)
		ws_text_puts(text, "; ");
	ws_text_puts(text, line);
}

void ws_add_finding(struct ws_finding *finding, enum ws_health health, const char *fmt, ...)
{
	va_list ap;

	if (health > finding->health)
		finding->health = health;
	va_start(ap, fmt);
	add_sentence(&finding->found, fmt, ap);
	va_end(ap);
}

void ws_add_fix(struct ws_finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_sentence(&finding->fix, fmt, ap);
	va_end(ap);
}

void ws_finding_free(struct ws_finding *finding)
{
	ws_text_free(&finding->found);
	ws_text_free(&finding->fix);
}

bool ws_read_small_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	while (length < size - 1 && (got = read(fd, out + length, size - 1 - length)) > 0)
		length += (size_t)got;
	close(fd);
	out[length] = 0;
	if (length && out[length - 1] == '\n')
		out[length - 1] = 0;
	return true;
}

const char *ws_find_line_value(const char *text, const char *key, size_t *len)
{
	size_t length = strlen(key);
	const char *line = text;

	while (strncmp(line, key, length)) {
		line = strchr(line, '\n');
		if (!line)
			return NULL;
		line++;
	}
	line += length;
	line += strspn(line, " \t:");
	*len = strcspn(line, "\n");
	while (*len && line[*len - 1] == ' ')
		--*len;
	return line;
}

bool ws_has_capability(int number)
{
	char status[8192];
	const char *text;
	size_t len;

	if (!ws_read_small_file("/proc/self/status", status, sizeof(status)))
		return false;
	text = ws_find_line_value(status, "CapEff", &len);
	return text && strtoull(text, NULL, 16) >> number & 1;
}

int ws_try_perf(unsigned type, unsigned long config, int pid, int cpu)
{
	struct perf_event_attr attr = {.type = type,
				       .size = sizeof(attr),
				       .config = config,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	long fd = syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return errno;
	close((int)fd);
	return 0;
}

static long long get_now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

/* Read until the other end is closed; false on an error or after the deadline. */
static bool read_until_closed(int fd, long long deadline, struct ws_text *out)
{
	char bytes[4096];

	for (;;) {
		struct pollfd waiting = {.fd = fd, .events = POLLIN};
		long long left = deadline - get_now_ms();
		ssize_t got;

		if (left <= 0 || poll(&waiting, 1, (int)left) == 0)
			return false;
		got = read(fd, bytes, sizeof(bytes));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0;
		ws_text_add(out, bytes, (size_t)got);
	}
}

bool ws_run_in_child(void (*work)(int fd, void *arg), void *arg, unsigned seconds,
		     struct ws_text *out)
{
	int ends[2], status = 0;
	bool done;
	pid_t pid;

	ws_text_add(out, "", 0);
	if (pipe2(ends, O_CLOEXEC))
		return false;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		work(ends[1], arg);
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return false;
	}
	done = read_until_closed(ends[0], get_now_ms() + seconds * 1000LL, out);
	close(ends[0]);
	if (!done)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return done && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
