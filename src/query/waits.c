/* waits.c - what functions wait for, by their names; see states.h. */
#include <string.h>

#include "base/choose.h"
#include "query/states.h"

/* By the beginnings of their names; the first match counts. */
static const struct {
	const char *prefix;
	uint8_t wait;
} functions[] = {
	{"pthread_mutex_", WS_WAIT_LOCK},
	{"pthread_rwlock_", WS_WAIT_LOCK},
	{"pthread_spin_", WS_WAIT_LOCK},
	{"flockfile", WS_WAIT_LOCK},
	{"mtx_", WS_WAIT_LOCK},
	{"pthread_cond_", WS_WAIT_CONDITION},
	{"cnd_", WS_WAIT_CONDITION},
	{"sem_", WS_WAIT_SEMAPHORE},
	{"semop", WS_WAIT_SEMAPHORE},
	{"semtimedop", WS_WAIT_SEMAPHORE},
	{"futex", WS_WAIT_FUTEX},
	{"restart_syscall", WS_WAIT_SLEEP}, /* a sleep continued after a stop */
	{"pthread_barrier_", WS_WAIT_BARRIER},
	{"pthread_join", WS_WAIT_JOIN},
	{"pthread_timedjoin", WS_WAIT_JOIN},
	{"pthread_clockjoin", WS_WAIT_JOIN},
	{"pthread_tryjoin", WS_WAIT_JOIN},
	{"thrd_join", WS_WAIT_JOIN},
	{"wait", WS_WAIT_CHILD},
	{"vfork", WS_WAIT_CHILD}, /* lasts until the child has called exec */
	{"posix_spawn", WS_WAIT_CHILD},
	{"system", WS_WAIT_CHILD},
	{"pclose", WS_WAIT_CHILD},
	{"poll", WS_WAIT_POLL},
	{"ppoll", WS_WAIT_POLL},
	{"select", WS_WAIT_POLL},
	{"pselect", WS_WAIT_POLL},
	{"epoll_", WS_WAIT_POLL},
	{"nanosleep", WS_WAIT_SLEEP},
	{"clock_nanosleep", WS_WAIT_SLEEP},
	{"usleep", WS_WAIT_SLEEP},
	{"sleep", WS_WAIT_SLEEP},
	{"thrd_sleep", WS_WAIT_SLEEP},
	{"sigsuspend", WS_WAIT_SIGNAL},
	{"rt_sig", WS_WAIT_SIGNAL},
	{"sigtimedwait", WS_WAIT_SIGNAL},
	{"sigwait", WS_WAIT_SIGNAL},
	{"pause", WS_WAIT_SIGNAL},
	{"sched_yield", WS_WAIT_QUEUE},
	{"pthread_yield", WS_WAIT_QUEUE},
	{"thrd_yield", WS_WAIT_QUEUE},
};

/* Functions that transfer bytes or wait for files, descriptors and sockets, by the beginnings of
 * their names. */
static const char *const io[] = {
	"read",	       "write",
	"pread",       "pwrite",
	"open",	       "creat",
	"close",       "dup",
	"pipe",	       "fcntl",
	"ioctl",       "flock",
	"lockf",       "fsync",
	"fdatasync",   "sync",
	"msync",       "fflush",
	"fread",       "fwrite",
	"fget",	       "fput",
	"getc",	       "getdelim",
	"getline",     "getw",
	"putc",	       "putw",
	"puts",	       "fopen",
	"freopen",     "fclose",
	"popen",       "printf",
	"fprintf",     "dprintf",
	"vprintf",     "vfprintf",
	"vdprintf",    "scanf",
	"fscanf",      "sendfile",
	"splice",      "vmsplice",
	"tee",	       "copy_file_range",
	"send",	       "recv",
	"accept",      "connect",
	"bind",	       "listen",
	"socket",      "shutdown",
	"fallocate",   "posix_fallocate",
	"truncate",    "ftruncate",
	"mq_",	       "msgrcv",
	"msgsnd",      "aio_",
	"process_vm_", "io_",
	"getdents",    "rename",
	"unlink",      "mkdir",
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

uint8_t ws_classify_cuda_call(const char *name)
{
	bool copy = starts_with(name, "cudaMemcpy") || starts_with(name, "cuMemcpy");

	if (strstr(name, "Synchronize") ||
	    (copy && !strstr(name, "Async") && !strstr(name, "Batch")))
		return WS_WAIT_GPU;
	return WS_WAIT_CUDA;
}

uint8_t ws_classify_osrt_call(const char *name)
{
	while (*name == '_')
		name++;
	for (size_t i = 0; i < WS_COUNT(functions); i++)
		if (starts_with(name, functions[i].prefix))
			return functions[i].wait;
	for (size_t i = 0; i < WS_COUNT(io); i++)
		if (starts_with(name, io[i]))
			return WS_WAIT_IO;
	return WS_WAIT_CALL;
}

const char *ws_name_wait(enum ws_wait wait)
{
	static const char *const names[WS_WAITS] = {
		[WS_WAIT_NONE] = "not known",	   [WS_WAIT_LOCK] = "lock",
		[WS_WAIT_CONDITION] = "condition", [WS_WAIT_SEMAPHORE] = "semaphore",
		[WS_WAIT_BARRIER] = "barrier",	   [WS_WAIT_JOIN] = "end of a thread",
		[WS_WAIT_CHILD] = "child process", [WS_WAIT_IO] = "I/O",
		[WS_WAIT_POLL] = "poll",	   [WS_WAIT_SLEEP] = "sleep",
		[WS_WAIT_SIGNAL] = "signal",	   [WS_WAIT_GPU] = "GPU synchronisation",
		[WS_WAIT_CUDA] = "CUDA call",	   [WS_WAIT_GIL] = "GIL",
		[WS_WAIT_QUEUE] = "run queue",	   [WS_WAIT_FAULT] = "kernel",
		[WS_WAIT_CALL] = "other call",	   [WS_WAIT_FUTEX] = "futex",
	};

	if (wait >= WS_WAITS)
		wait = WS_WAIT_NONE;
	return names[wait];
}
