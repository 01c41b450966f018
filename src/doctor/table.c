/*
 * table.c - the checks in the order in which they are shown, and what they share.
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

const struct ws_check ws_checks[] = {
	{"kernel", ws_look_kernel},
	{"clock", ws_look_clock},
	{"hooks", ws_look_preload},
	{"shared memory", ws_look_shm},
	{"temporary files", ws_look_tmp},
	{"current folder", ws_look_cwd},
	{"/proc", ws_look_proc},
	{"limits", ws_look_limits},
	{"perf events", ws_look_perf},
	{"kernel programs", ws_look_bpf},
	{"tracepoints", ws_look_tracefs},
	{"ptrace", ws_look_ptrace},
	{"container", ws_look_container},
	{"seccomp", ws_look_seccomp},
	{"capabilities", ws_look_capabilities},
	{"GPU", ws_look_gpu},
	{"CUDA driver", ws_look_driver},
	{"CUPTI", ws_look_cupti},
	{"NVML", ws_look_nvml},
	{"GPU counters", ws_look_counters},
	{"injection", ws_look_injection},
	{"CUDA settings", ws_look_cuda_environment},
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

void ws_found(struct ws_finding *finding, enum ws_health health, const char *fmt, ...)
{
	va_list ap;

	if (health > finding->health)
		finding->health = health;
	va_start(ap, fmt);
	add_sentence(&finding->found, fmt, ap);
	va_end(ap);
}

void ws_fix(struct ws_finding *finding, const char *fmt, ...)
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

bool ws_read_small(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	while (have < n - 1 && (got = read(fd, out + have, n - 1 - have)) > 0)
		have += (size_t)got;
	close(fd);
	out[have] = 0;
	if (have && out[have - 1] == '\n')
		out[have - 1] = 0;
	return true;
}

const char *ws_line_after(const char *text, const char *key, size_t *len)
{
	size_t n = strlen(key);

	for (const char *word = text; word;
	     word = strchr(word, '\n') ? strchr(word, '\n') + 1 : NULL) {
		if (strncmp(word, key, n))
			continue;
		word += n;
		word += strspn(word, " \t:");
		*len = strcspn(word, "\n");
		while (*len && word[*len - 1] == ' ')
			--*len;
		return word;
	}
	return NULL;
}

bool ws_has_capability(int number)
{
	char status[8192];
	const char *text;
	size_t len;

	if (!ws_read_small("/proc/self/status", status, sizeof(status)))
		return false;
	text = ws_line_after(status, "CapEff", &len);
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

static long long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

/* Read until the other end closes or the time is up. */
static bool read_until(int fd, long long deadline, struct ws_text *out)
{
	char bytes[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long long left = deadline - now_ms();
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return false;
		n = read(fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		ws_text_add(out, bytes, (size_t)n);
	}
}

bool ws_in_child(void (*work)(int fd, void *arg), void *arg, unsigned seconds, struct ws_text *out)
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
	done = read_until(ends[0], now_ms() + seconds * 1000LL, out);
	close(ends[0]);
	if (!done)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return done && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
