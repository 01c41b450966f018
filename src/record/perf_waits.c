/*
 * perf_waits.c - asks the kernel in which system call a thread waits, while it waits.
 *
 * Hooks report what calls of the C library wait for. They do not see the waits of static programs,
 * Go, and libraries that make system calls themselves. For a thread that has been off its core for
 * LOOK_AFTER (LOOK_SOON in a process without hooks, where nothing else would report its waits),
 * /proc/PID/task/TID/syscall says in which call it is, with its arguments. One look for each wait
 * is enough, because a waiting thread stays in its call. Whether it still waited then is not known
 * here, because records of switches come later. So the moments before and after the look are
 * stored, and readers accept the result when both are in one wait.
 *
 * Short waits are over before anyone looks. Where a program may be loaded into the kernel, it
 * reports in which call each thread without hooks leaves its core (wait_calls.h); then a look only
 * finds out what the call's descriptor refers to.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/perf_private.h"
#include "base/choose.h"

#define LOOK_AFTER 4000000u /* ns off its core */
#define LOOK_SOON 100000u   /* the same where no hook reports */
#define LOOKS 16	    /* per round; each takes some 10 us */
#define LOOK_EVERY 1250000u /* ns between two on average: threads may wait by the thousand */
#define LOOKS_SAVED 100	    /* the most that can be saved up */

struct call {
	long number;
	const char *name;
	bool fd; /* its first argument is a descriptor */
};

#define CALL(name)                       \
	{                                \
		SYS_##name, #name, false \
	}
#define FD_CALL(name)                   \
	{                               \
		SYS_##name, #name, true \
	}

/* Calls in which threads wait long. */
static const struct call calls[] = {
	FD_CALL(read),
	FD_CALL(write),
	FD_CALL(readv),
	FD_CALL(writev),
	FD_CALL(pread64),
	FD_CALL(pwrite64),
	FD_CALL(preadv),
	FD_CALL(pwritev),
	FD_CALL(preadv2),
	FD_CALL(pwritev2),
	FD_CALL(recvfrom),
	FD_CALL(recvmsg),
	FD_CALL(recvmmsg),
	FD_CALL(sendto),
	FD_CALL(sendmsg),
	FD_CALL(sendmmsg),
	FD_CALL(accept),
	FD_CALL(accept4),
	FD_CALL(connect),
	FD_CALL(fsync),
	FD_CALL(fdatasync),
	FD_CALL(flock),
	FD_CALL(fcntl),
	FD_CALL(ioctl),
	FD_CALL(sendfile),
	FD_CALL(splice),
	FD_CALL(vmsplice),
	FD_CALL(tee),
	FD_CALL(epoll_pwait),
	FD_CALL(epoll_pwait2),
	FD_CALL(ftruncate),
	FD_CALL(fallocate),
	FD_CALL(getdents64),
	FD_CALL(syncfs),
	FD_CALL(io_uring_enter),
	FD_CALL(copy_file_range),
	FD_CALL(close),
	FD_CALL(mq_timedreceive),
	FD_CALL(mq_timedsend),
	CALL(sync_file_range),
	CALL(futex),
	CALL(nanosleep),
	CALL(clock_nanosleep),
	CALL(ppoll),
	CALL(pselect6),
	CALL(wait4),
	CALL(waitid),
	CALL(rt_sigsuspend),
	CALL(rt_sigtimedwait),
	CALL(semop),
	CALL(semtimedop),
	CALL(msgrcv),
	CALL(msgsnd),
	CALL(openat),
	CALL(sync),
	CALL(io_getevents),
	CALL(io_pgetevents),
	CALL(execve),
	CALL(clone),
	CALL(munmap),
	CALL(mmap),
	CALL(mprotect),
	CALL(madvise),
	CALL(renameat),
	CALL(unlinkat),
	CALL(mkdirat),
	CALL(sched_yield),
	CALL(ptrace),
	CALL(restart_syscall),
	CALL(process_vm_readv),
#ifdef SYS_futex_waitv
	CALL(futex_waitv),
#endif
#ifdef SYS_poll
	CALL(poll),
	CALL(select),
	FD_CALL(epoll_wait),
	CALL(pause),
	CALL(vfork),
	CALL(fork),
	CALL(open),
	CALL(rename),
	CALL(unlink),
#endif
};

static const struct call *find_call(long number)
{
	for (size_t i = 0; i < WS_COUNT(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

/* "NUMBER 0xARGUMENT ..." of a call; false when the thread runs, is in no call, or may not be
 * asked. */
static bool read_call(const struct ws_perf_thread *thread, long *number, unsigned long *first)
{
	char path[64], text[256];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", thread->image->pid, thread->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[ws_max(n, 0)] = 0;
	return sscanf(text, "%ld %lx", number, first) == 2 && *number >= 0;
}

static uint32_t path_of(const struct ws_perf_thread *thread, unsigned long fd)
{
	char path[64], text[1024];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/fd/%lu", thread->image->pid, fd);
	n = readlink(path, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return ws_sink_string(thread->image->sink, text);
}

/* The longest time between the kernel's report that a thread is leaving its core and the record
 * that it left. */
#define TOGETHER_NS 1000000u

void ws_perf_note_call(struct ws_perf_thread *thread, const struct ws_wait_call *call,
		       uint64_t time)
{
	thread->call = *call;
	thread->call_time = time;
}

static uint32_t name_call(const struct ws_perf_thread *thread, long number)
{
	const struct call *call = find_call(number);
	char other[32];

	if (call)
		return ws_sink_string(thread->image->sink, call->name);
	snprintf(other, sizeof(other), "syscall %ld", number);
	return ws_sink_string(thread->image->sink, other);
}

void ws_perf_put_call(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	struct ws_row_blocked row = {.start = time, .end = time};
	uint64_t told = thread->call_time;
	const struct call *call;

	thread->call_time = 0;
	if (!told || time < told || time - told > TOGETHER_NS || thread->image->proc ||
	    !perf->options.switches || !perf->from || time < perf->from ||
	    (perf->to && time > perf->to))
		return;
	call = find_call(thread->call.number);
	thread->named = true;
	thread->looked =
		!call || !call->fd; /* what a descriptor refers to must still be asked for */
	row.thread = ws_perf_thread_id(perf, thread);
	row.name = name_call(thread, thread->call.number);
	ws_writer_add(thread->image->sink->writer, WS_TABLE_blocked, &row);
}

static void look(struct ws_perf *perf, struct ws_perf_thread *thread)
{
	struct ws_row_blocked row = {.start = ws_read_raw_ns()};
	const struct call *call;
	unsigned long first;
	long number;

	thread->looked = true;
	if (!read_call(thread, &number, &first))
		return;
	call = find_call(number);
	row.path = call && call->fd ? path_of(thread, first) : 0;
	row.end = ws_read_raw_ns();
	row.thread = ws_perf_thread_id(perf, thread);
	row.name = name_call(thread, number);
	ws_writer_add(thread->image->sink->writer, WS_TABLE_blocked, &row);
}

static bool is_due(const struct ws_perf_thread *thread, uint64_t now)
{
	uint64_t after = LOOK_AFTER;

	if (!thread->off || thread->looked || thread->on || !thread->image->id)
		return false;
	if (!thread->image->proc)
		after = LOOK_SOON;
	return now >= thread->off && now - thread->off >= after;
}

/* How many looks are allowed now. Each moves `looks_paid` on by LOOK_EVERY. */
static size_t count_allowed_looks(struct ws_perf *perf, uint64_t now)
{
	uint64_t saved = LOOKS_SAVED * (uint64_t)LOOK_EVERY;

	if (now < perf->looks_paid)
		return 0;
	if (perf->looks_paid < now - ws_min(saved, now))
		perf->looks_paid = now - saved;
	return ws_min((now - perf->looks_paid) / LOOK_EVERY, LOOKS);
}

void ws_perf_look_at_waits(struct ws_perf *perf, uint64_t now)
{
	size_t looks = 0, most;

	if (!perf->options.switches || !perf->from || perf->to)
		return;
	most = count_allowed_looks(perf, now);
	for (size_t n = 0; n < perf->threads.size && looks < most; n++) {
		size_t i = perf->look_next++ % perf->threads.size;
		struct ws_perf_thread *thread =
			perf->threads.used[i] ? (void *)(uintptr_t)perf->threads.slots[i].value
					      : NULL;

		if (!thread || !is_due(thread, now))
			continue;
		look(perf, thread);
		looks++;
		perf->looks_paid += LOOK_EVERY;
	}
}
