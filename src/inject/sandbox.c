/*
 * sandbox.c - programs that sandbox themselves: the hooks must know before a filter of system calls
 * is installed, because many filters kill. Filters are installed by prctl, and by seccomp, for
 * which there is only the C library's syscall(): libseccomp and what Rust programs use call that.
 *
 * All other calls of syscall() are passed on by a jump, with the stack and all registers as they
 * were: some return twice, and this costs two comparisons. What a program does by an instruction of
 * its own is not seen.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/behind.h"
#include "inject/bind.h"
#include "inject/filter.h"
#include "inject/rt_state.h"
#include "inject/sandbox.h"
#include "schema/schema.h"

#define HIDDEN __attribute__((visibility("hidden"), used))
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* Set the thread up while it may still make the system calls that this takes. */
static void enter_sandbox(void)
{
	struct ws_thread *thread;

	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return;
	thread = ws_rt_enter_again();
	if (thread)
		ws_rt_leave(thread);
	ws_rt_enter_sandbox();
}

/* ---- filters that end the program ---- */

static void *find_in_c_library(const char *name)
{
	struct ws_symbols library;

	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		const char *slash = strrchr(map->l_name, '/');

		if (!strncmp(slash ? slash + 1 : map->l_name, "libc.so.", 8) &&
		    ws_open_symbols(map, &library))
			return ws_find_in_symbols(map, &library, name, ws_hash_symbol(name));
	}
	return NULL;
}

/* A mutex says which thread holds it, which is how a thread finds its number under a filter. */
static void find_mutex_functions(void)
{
	int (*lock)(pthread_mutex_t *) = find_in_c_library("pthread_mutex_lock"),
				    (*unlock)(pthread_mutex_t *) =
					    find_in_c_library("pthread_mutex_unlock");
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	if (!lock || !unlock || lock(&mutex))
		return;
	if ((uint32_t)mutex.__data.__owner == ws_rt_find_tid()) {
		ws_rt_kept.unlock_mutex = unlock;
		ws_rt_kept.lock_mutex = lock;
	}
	unlock(&mutex);
}

/* Samples are taken in the handler of this signal, which would then never return. */
static void end_signals(void)
{
	struct {
		uintptr_t handler;
		unsigned long flags;
		uintptr_t restorer;
		uint64_t mask;
	} action = {.handler = (uintptr_t)SIG_DFL};

	if (ws_rt->features & WS_FEATURE_SAMPLE)
		ws_raw_syscall(SYS_rt_sigaction, SIGURG, (long)&action, 0, sizeof(uint64_t), 0, 0);
}

/* Returns whether the program is under a lethal filter from now on and was not before. */
static bool enter_filter(const struct sock_fprog *filter)
{
	if (!ws_rt->arena || ws_rt_is_filtered() || !ws_is_lethal_filter(filter))
		return false;
	ws_rt_write_diagnostic(
		WS_WARNING, "process",
		"The program has installed a filter that ends it for system calls "
		"that recording takes: what it starts from then on is not recorded.");
	find_mutex_functions();
	if (ws_forbids_signal_handlers(filter))
		end_signals();
	ws_rt_enter_filter(!ws_forbids_memory(filter));
	return true;
}

/* ---- prctl ---- */

static int (*next_prctl)(int option, ...);

WS_EXPORT int prctl(int option, ...);
int prctl(int option, ...)
{
	unsigned long more[4];
	bool mutes, filters = false;
	va_list ap;
	int result;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		more[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (!next_prctl)
		next_prctl = ws_find_next_symbol("prctl");
	mutes = ws_forbids_all_calls(option, more[0]);
	if (ws_begins_sandbox(option))
		enter_sandbox();
	if (option == PR_SET_SECCOMP && more[0] == SECCOMP_MODE_FILTER)
		filters = enter_filter((const struct sock_fprog *)more[1]);
	if (mutes)
		ws_rt_mute_thread(true);
	result = next_prctl(option, more[0], more[1], more[2], more[3]);
	if (mutes && result)
		ws_rt_mute_thread(false);
	if (filters && result)
		ws_rt_leave_filter();
	return result;
}

/* ---- syscall ---- */

/* The function behind ours; until it is known, one that looks for it. */
typedef long syscall_fn(long number, ...);
static long find_and_call(long number, ...);
HIDDEN syscall_fn *ws_next_syscall = find_and_call;

struct arguments {
	long a[6];
};

static struct arguments take_arguments(va_list ap)
{
	struct arguments all;

	for (int i = 0; i < 6; i++)
		all.a[i] = va_arg(ap, long);
	return all;
}

static long call_next(long number, const struct arguments *all)
{
	const long *a = all->a;

	return ws_next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long find_and_call(long number, ...)
{
	syscall_fn *found = ws_find_next_symbol("syscall");
	struct arguments all;
	va_list ap;

	va_start(ap, number);
	all = take_arguments(ap);
	va_end(ap);
	if (!found)
		return ws_raw_syscall(number, all.a[0], all.a[1], all.a[2], all.a[3], all.a[4],
				      all.a[5]);
	ws_next_syscall = found;
	return call_next(number, &all);
}

__attribute__((constructor(102))) static void find_next_functions(void)
{
	syscall_fn *found = ws_find_next_symbol("syscall");

	next_prctl = ws_find_next_symbol("prctl");
	if (found)
		ws_next_syscall = found;
}

/* The filter that the call installs; NULL when it installs none. */
static const struct sock_fprog *find_filter(long number, const struct arguments *all)
{
	const long *a = all->a;

	if (number == SYS_seccomp)
		return a[0] == SECCOMP_SET_MODE_FILTER ? (const struct sock_fprog *)a[2] : NULL;
	if (a[0] == PR_SET_SECCOMP && a[1] == SECCOMP_MODE_FILTER)
		return (const struct sock_fprog *)a[2];
	return NULL;
}

/* Called in place of the function behind ours for the two calls that can limit the program. */
HIDDEN long ws_call_limiting(long number, ...);
long ws_call_limiting(long number, ...)
{
	const struct sock_fprog *filter;
	struct arguments all;
	bool strict, limits, filters = false;
	va_list ap;
	long result;

	va_start(ap, number);
	all = take_arguments(ap);
	va_end(ap);
	if (number == SYS_seccomp) {
		strict = all.a[0] == SECCOMP_SET_MODE_STRICT;
		limits = strict || all.a[0] == SECCOMP_SET_MODE_FILTER;
	} else {
		strict = ws_forbids_all_calls((int)all.a[0], (unsigned long)all.a[1]);
		limits = ws_begins_sandbox((int)all.a[0]);
	}
	if (limits)
		enter_sandbox();
	filter = find_filter(number, &all);
	if (filter)
		filters = enter_filter(filter);
	if (strict)
		ws_rt_mute_thread(true);
	result = call_next(number, &all);
	if (strict && result)
		ws_rt_mute_thread(false);
	if (filters && result)
		ws_rt_leave_filter();
	return result;
}

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	".p2align 4\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $" TEXT(
		__NR_seccomp) ", %rdi\n"
			      "	je ws_call_limiting\n"
			      "	cmpq $" TEXT(__NR_prctl) ", %rdi\n"
							 "	je ws_call_limiting\n"
							 "	movq ws_next_syscall(%rip), %rax\n"
							 "	jmp *%rax\n"
							 "	.cfi_endproc\n"
							 ".size syscall, .-syscall\n"
							 ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	".p2align 4\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	cmp x0, #" TEXT(
		__NR_seccomp) "\n"
			      "	b.eq ws_call_limiting\n"
			      "	cmp x0, #" TEXT(
				      __NR_prctl) "\n"
						  "	b.eq ws_call_limiting\n"
						  "	adrp x16, ws_next_syscall\n"
						  "	ldr x16, [x16, :lo12:ws_next_syscall]\n"
						  "	br x16\n"
						  "	.cfi_endproc\n"
						  ".size syscall, .-syscall\n"
						  ".popsection\n");
#endif
