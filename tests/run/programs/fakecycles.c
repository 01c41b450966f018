/*
 * fakecycles.c - preloaded into the recorder, offers hardware events on machines that have none:
 * the clock of the CPU counts instead.
 *
 * So what is recorded and shown of cycles and instructions can be tested on virtual machines. The
 * recorder asks for events by syscall(), which this stands before; a "cycle" is a nanosecond then.
 */
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) long syscall(long number, ...);

long syscall(long number, ...)
{
	static long (*real)(long, long, long, long, long, long, long);
	struct perf_event_attr attr;
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_perf_event_open &&
	    ((const struct perf_event_attr *)a[0])->type == PERF_TYPE_HARDWARE) {
		attr = *(const struct perf_event_attr *)a[0];
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		a[0] = (long)&attr;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
