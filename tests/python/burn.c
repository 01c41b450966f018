/* burn.c - C code that Python calls through ctypes: it burns as much CPU time as it is told to. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static volatile uint64_t sink;

static __attribute__((noinline)) void burn_a_little(void)
{
	for (uint64_t i = 0; i < 20000; i++)
		sink += i * i;
}

EXPORT int64_t native_burn(int64_t ns);
EXPORT __attribute__((noinline)) int64_t native_burn(int64_t ns)
{
	int64_t start = cpu_ns(), now;

	while ((now = cpu_ns()) - start < ns)
		burn_a_little();
	return now - start;
}

typedef void callback_fn(void);
EXPORT void native_call(callback_fn *fn);
EXPORT __attribute__((noinline)) void native_call(callback_fn *fn)
{
	fn();
	sink++; /* not the last thing, so that this has a frame */
}

/* A thread that Python did not make: `n` times by turns calls back into Python and burns `ns` by
 * itself, where it has no thread state. */
struct foreign {
	callback_fn *fn;
	int n;
	int64_t ns, burnt;
};

static __attribute__((noinline)) int64_t burn_alone(int64_t ns)
{
	int64_t start = cpu_ns(), now;

	while ((now = cpu_ns()) - start < ns)
		burn_a_little();
	return now - start;
}

static void *foreign_thread(void *arg)
{
	struct foreign *foreign = arg;

	for (int i = 0; i < foreign->n; i++) {
		foreign->fn();
		foreign->burnt += burn_alone(foreign->ns);
	}
	return NULL;
}

EXPORT int64_t native_foreign(callback_fn *fn, int n, int64_t ns);
EXPORT int64_t native_foreign(callback_fn *fn, int n, int64_t ns)
{
	struct foreign foreign = {fn, n, ns, 0};
	pthread_t thread;

	if (pthread_create(&thread, NULL, foreign_thread, &foreign))
		return -1;
	pthread_join(thread, NULL);
	return foreign.burnt;
}

/* How many of `n` short waits a signal interrupted. */
EXPORT int native_polls(int n);
EXPORT int native_polls(int n)
{
	int interrupted = 0;

	for (int i = 0; i < n; i++) {
		struct timespec ms = {0, 100000};

		burn_a_little();
		interrupted += poll(NULL, 0, 0) < 0 && errno == EINTR;
		interrupted += nanosleep(&ms, NULL) < 0 && errno == EINTR;
	}
	return interrupted;
}
