/*
 * test_forward.c - runs what forward.py made: every wrapper hands on its arguments, result and
 * errno. The hook is linked into this program, so that stand-ins can take the place of the C
 * library's functions one at a time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "forward.h"
#include "inject/osrt.h"
#include "inject/traced.h"
#include "record/arena.h"

uint64_t sent[8], got[8], give;
int give_errno;
ws_traced_fn *ws_traced_hook; /* follow.c's, which would follow the test's own processes */
ws_frames_fn *ws_frames_hook;

/*
 * Different in each byte and each argument; the sign bit of 32 set and clear by turns. Never a
 * descriptor or an address that is one.
 */
static uint64_t make_argument(int i)
{
	return UINT64_C(0x1122334455667708) * (uint64_t)(i + 3) ^
	       (i & 1 ? 0 : UINT64_C(0x80000000));
}

static int try_one(const struct forward *forward, uint64_t result, int error)
{
	void *real = ws_osrt_real_of(forward->function);
	uint64_t back;
	int error_back;

	memset(got, 0x77, sizeof(got));
	memset(sent, 0x77, sizeof(sent));
	give = result;
	give_errno = error;
	errno = 4321;
	ws_osrt_real[forward->function] = forward->stand_in;
	back = forward->call(make_argument(0), make_argument(1), make_argument(2), make_argument(3),
			     make_argument(4), make_argument(5));
	error_back = errno;
	ws_osrt_real[forward->function] = real;
	if (memcmp(sent, got, sizeof(got)) || back != forward->cast(result) ||
	    error_back != error) {
		printf("# %s: sent %lx %lx %lx %lx %lx %lx, got %lx %lx %lx %lx %lx %lx; gave %lx, "
		       "back %lx; errno %d, back %d\n",
		       forward->symbol, sent[0], sent[1], sent[2], sent[3], sent[4], sent[5],
		       got[0], got[1], got[2], got[3], got[4], got[5], forward->cast(result), back,
		       error, error_back);
		return 1;
	}
	return 0;
}

static int try_all(const char *title, int number)
{
	int wrong = 0;

	for (size_t i = 0; i < forwards_n; i++) {
		wrong += try_one(&forwards[i], UINT64_C(0x7a6b5c4d3e2f1a01), 4321);
		wrong += try_one(&forwards[i], UINT64_MAX, 77);
		wrong += try_one(&forwards[i], 0, 4321);
	}
	printf("%s %d - %s, %zu functions\n", wrong ? "not ok" : "ok", number, title, forwards_n);
	return wrong;
}

/* The runtime looks for its session once, when the program starts: so start again with one. */
static int start_again(char **argv)
{
	struct ws_area area;
	struct ws_err err;

	/* Its memory must outlive this image. */
	setenv("WARPSIGHT_ARENA", "file", 1);
	if (ws_area_create(&area, 16u << 20, (uid_t)-1, &err)) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	area.arena->features = WS_FEATURE_OSRT;
	area.arena->osrt_threshold =
		UINT64_MAX; /* paths given here are no paths: timed, but never written */
	area.arena->clock_mode = WS_CLOCK_COUNTER;
	atomic_store(&area.arena->collecting, 1);
	setenv(WS_ENV_SESSION, area.path, 1);
	execv("/proc/self/exe", argv);
	printf("Bail out! cannot start again\n");
	unlink(area.path);
	return 1;
}

int main(int argc, char **argv)
{
	const char *path = getenv(WS_ENV_SESSION);
	int wrong;

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!path) {
		printf("1..3\n");
		return try_all("without a session", 1) ? 1 : start_again(argv);
	}
	unlink(path);
	if (!ws_rt_is_collecting()) {
		printf("Bail out! no session\n");
		return 1;
	}
	wrong = try_all("timed", 2);
	atomic_store(&ws_rt->arena->collecting, 0);
	wrong += try_all("while not collecting", 3);
	return wrong != 0;
}
