/*
 * python_bench.c - processor time of reading one stack of 30 Python frames out of another process:
 * python_bench PYTHON READS; prints microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cpython/cpython.h"

static const char program[] = "import ctypes, sys, time\n"
			      "print(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "
			      "'_PyRuntime')), sys.hexversion >> 16, flush=True)\n"
			      "def deep(n):\n"
			      "    if n: return deep(n - 1)\n"
			      "    time.sleep(60)\n"
			      "deep(28)\n";
static int pid;

static size_t read_process(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	struct iovec local[WS_PY_PIECES], remote[WS_PY_PIECES];
	size_t i = 0, done = 0;
	ssize_t got;

	(void)ctx;
	do {
		local[i] = (struct iovec){piece[i].to, piece[i].bytes};
		remote[i] = (struct iovec){(void *)(uintptr_t)piece[i].from, piece[i].bytes};
	} while (++i < n && i < WS_PY_PIECES);
	got = process_vm_readv(pid, local, i, remote, i, 0);
	while (got > 0 && done < i && (size_t)got >= piece[done].bytes)
		got -= (ssize_t)piece[done++].bytes;
	return done;
}

/* Its address of _PyRuntime and version. */
static FILE *start_python(const char *python)
{
	int fds[2];

	if (pipe(fds) || (pid = fork()) < 0)
		exit(1);
	if (!pid) {
		dup2(fds[1], 1);
		execlp(python, python, "-c", program, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	return fdopen(fds[0], "r");
}

static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	static struct ws_py_frame frame[64];
	static struct ws_py_walk walk;
	struct ws_py_memory memory = {read_process, NULL};
	struct ws_py_code_key key[64];
	static uint8_t raw[64 * WS_PY_KEY_BYTES];
	struct ws_py_layout layout;
	struct ws_py_thread thread;
	unsigned long runtime;
	unsigned version;
	double from;
	size_t n = 0;
	FILE *file;

	if (argc != 3)
		return 2;
	file = start_python(argv[1]);
	if (fscanf(file, "%lu %u", &runtime, &version) != 2)
		return 1;
	usleep(100000);
	if (!(version >= 0x030d ? ws_py_read_layout(&memory, runtime, &layout)
				: ws_py_get_layout((uint16_t)version, &layout)) ||
	    !ws_py_list_threads(&layout, &memory, runtime, &thread, 1))
		return 1;
	from = cpu_seconds();
	for (int i = 0, reads = atoi(argv[2]); i < reads; i++) {
		uint64_t code[64];

		n = ws_py_walk(&layout, &memory, thread.state, &walk, frame, 64);
		/* As the recorder does: the codes of frames that were not there the last time, say
		 * the inner three. */
		for (size_t k = 0; k < 3; k++)
			code[k] = frame[k].code;
		ws_py_read_code_keys(&layout, &memory, code, 3, key, raw);
	}
	from = (cpu_seconds() - from) / atoi(argv[2]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%.2f\n", n == 30 ? from : -1.0);
	return n != 30;
}
