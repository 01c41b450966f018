/*
 * kernel_turns.c - calls that put work on the GPU take turns with measuring. While a kernel is run
 * again and again, what other threads write into memory would be undone by restoring it: their
 * calls wait until the kernel has been measured and the program's own launch of it has been made,
 * and measuring waits for the calls in progress.
 */
#include <time.h>

#include "inject/kernel.h"

enum { PAUSE_NS = 20000 };
#define PATIENCE_NS UINT64_C(10000000000)

static _Atomic uint32_t measuring; /* a lock */
static _Atomic uint32_t under_way; /* outermost calls of threads */
static _Atomic bool ended;
static __thread uint32_t depth __attribute__((tls_model("initial-exec")));
static __thread bool holds __attribute__((tls_model("initial-exec")));

void ws_kernel_begin_call(void)
{
	while (!depth) {
		atomic_fetch_add(&under_way, 1);
		if (!atomic_load(&measuring) || atomic_load(&ended))
			break;
		atomic_fetch_sub(&under_way, 1);
		ws_kernel_lock(&measuring);
		ws_kernel_unlock(&measuring);
	}
	depth++;
}

void ws_kernel_end_call(void)
{
	if (!depth || --depth)
		return;
	if (holds)
		ws_kernel_unlock(&measuring);
	else
		atomic_fetch_sub(&under_way, 1);
	holds = false;
}

bool ws_kernel_begin_measuring(void)
{
	uint64_t until = ws_read_raw_ns() + PATIENCE_NS;
	struct timespec pause = {0, PAUSE_NS};

	if (!holds) {
		atomic_fetch_sub(&under_way, 1);
		ws_kernel_lock(&measuring);
		holds = true;
	}
	while (atomic_load(&under_way)) {
		if (ws_read_raw_ns() > until)
			return false;
		ws_raw_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	}
	return true;
}

void ws_kernel_end_turns(void)
{
	atomic_store(&ended, true);
	if (holds)
		ws_kernel_unlock(&measuring);
	holds = false;
	depth = 0;
}
