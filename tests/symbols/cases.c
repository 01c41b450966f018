/*
 * cases.c - programs whose call stacks are known, one a case: `cases NAME`. Each sleeps (a call of
 * the OS runtime that lasts) where its stack is of interest; run.py says which functions must be on
 * it.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define HERE() \
	__asm__ volatile("" ::: "memory") /* keeps the call before it from becoming a tail call */

static inline __attribute__((always_inline)) void nap(void)
{
	usleep(300);
	HERE();
}

/* The same to be called through a pointer. */
static NOINLINE void nap_called(void)
{
	nap();
	HERE();
}

/* ---- recursion ---- */

static NOINLINE void recurse(int n)
{
	if (n)
		recurse(n - 1);
	else
		nap();
	HERE();
}

static void deep(void)
{
	recurse(299);
}

/* ---- a stack whose end is the end of what is mapped ---- */

static NOINLINE void nap_below(size_t bytes)
{
	volatile char *below = alloca(bytes);

	*below = 1;
	nap();
}

/* Naps with the stack pointer at every 16 bytes of 8 KiB, so that pieces of that size end where the
 * stack does, too. */
static void *nap_at_each_place(void *unused)
{
	for (size_t bytes = 16; bytes <= 8192; bytes += 16)
		nap_below(bytes);
	return unused;
}

static void end_of_stack(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = page * 64;
	char *memory = mmap(NULL, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	if (memory == MAP_FAILED || mprotect(memory, size, PROT_READ | PROT_WRITE))
		exit(2);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, memory, size);
	if (pthread_create(&thread, &attributes, nap_at_each_place, NULL))
		exit(2);
	pthread_join(thread, NULL);
}

/* ---- signals ---- */

static sigjmp_buf back;
static volatile int *nowhere;

static NOINLINE void on_fault(int sig)
{
	(void)sig;
	nap();
	siglongjmp(back, 1);
}

static NOINLINE void fault_here(void)
{
	*nowhere = 1;
	HERE();
}

static NOINLINE void after_jump(void)
{
	nap();
	HERE();
}

static void alternate_stack(void)
{
	static char memory[65536];
	stack_t s = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction sa = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};

	sigaltstack(&s, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	if (!sigsetjmp(back, 1))
		fault_here();
	after_jump();
}

static NOINLINE void on_signal(int sig)
{
	(void)sig;
	nap();
	HERE();
}

static NOINLINE void interrupted(void)
{
	raise(SIGUSR1);
	HERE();
}

static void same_stack(void)
{
	signal(SIGUSR1, on_signal);
	interrupted();
}

/* ---- coroutines ---- */

static ucontext_t main_context, co_context;

static NOINLINE void co_inner(void)
{
	nap();
	HERE();
}

static void co_body(void)
{
	co_inner();
	swapcontext(&co_context, &main_context);
	co_inner();
	HERE();
}

static NOINLINE void resume(void)
{
	swapcontext(&main_context, &co_context);
	HERE();
}

static void coroutine(void)
{
	static char memory[65536];

	getcontext(&co_context);
	co_context.uc_stack.ss_sp = memory;
	co_context.uc_stack.ss_size = sizeof(memory);
	co_context.uc_link = &main_context;
	makecontext(&co_context, co_body, 0);
	resume();
	after_jump();
	resume();
}

/* ---- tail calls, inlining ---- */

__attribute__((visibility("default"))) NOINLINE void tail_callee(int n);
NOINLINE void tail_callee(int n)
{
	usleep((useconds_t)(300 + n));
	HERE();
}

NOINLINE void tail_caller(int n);
NOINLINE void tail_caller(int n)
{
	tail_callee(n + 1); /* a jump */
}

static NOINLINE void calls_tail(void)
{
	tail_caller(1);
	HERE();
}

static inline __attribute__((always_inline)) void inlined_inner(void)
{
	nap();
}

static inline __attribute__((always_inline)) void inlined_outer(void)
{
	inlined_inner();
	HERE();
}

static NOINLINE void has_inlined(void)
{
	inlined_outer();
	HERE();
}

/* ---- libraries that come and go ---- */

static char folder[4096];

static void use_library(const char *name, const char *function)
{
	char path[4200];
	void *lib;
	void (*fn)(void (*)(void));

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	lib = dlopen(path, RTLD_NOW);
	fn = lib ? (void (*)(void (*)(void)))dlsym(lib, function) : NULL;
	if (!fn)
		exit(3);
	fn(nap_called);
	printf("%s at %p\n", function, (void *)fn);
	dlclose(lib);
}

static void unloaded(void)
{
	use_library("libfirst.so", "first_library");
	use_library("libsecond.so", "second_library");
	use_library("libfirst.so", "first_library");
}

/* ---- files that are not what they were ---- */

static void copy_file(const char *from, const char *to)
{
	char buf[65536];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	ssize_t n;

	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			exit(4);
	close(in);
	close(out);
}

/* The program is a copy of this one; another program takes its place before anything is looked at.
 */
static void replaced(const char *self, const char *other)
{
	char temp[4200];

	snprintf(temp, sizeof(temp), "%s.new", self);
	copy_file(other, temp);
	if (rename(temp, self))
		exit(4);
	after_jump();
}

static void deleted(const char *self)
{
	if (unlink(self))
		exit(4);
	after_jump();
	usleep(1000000); /* what is deleted can be read as long as its process lives */
}

/* ---- generated code ---- */

#if defined(__x86_64__)
static const uint8_t call_code[] = {
	0x55, 0x48, 0x89, 0xe5,
	0xff, 0xd7, 0x5d, 0xc3}; /* push rbp; mov rbp, rsp; call *rdi; pop rbp; ret */
#else
static const uint8_t call_code[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
				    0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#endif

static void *make_code(void)
{
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(at + 64, call_code, sizeof(call_code));
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(at, at + 4096);
	return at + 64;
}

static NOINLINE void calls_generated(void *code)
{
	((void (*)(void (*)(void)))code)(nap_called);
	HERE();
}

static void perf_map(void)
{
	void *code = make_code();
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = fopen(path, "w");
	fprintf(file, "%llx %zx generated_function\n", (unsigned long long)(uintptr_t)code,
		sizeof(call_code));
	fclose(file);
	printf("%s\n", path);
	calls_generated(code);
}

static void put(FILE *file, const void *memory, size_t n)
{
	if (fwrite(memory, 1, n, file) != n)
		exit(4);
}

static void jitdump(void)
{
	static const char name[] = "dumped_function", file[] = "generated.src";
	void *code = make_code();
	uint64_t at = (uint64_t)(uintptr_t)code, clock = 0;
	uint32_t header[10] = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid()};
	uint32_t debug[4] = {2, 16 + 16 + 16 + sizeof(file)},
		 load[4] = {0, 16 + 40 + sizeof(name) + sizeof(call_code)};
	uint64_t lines[2] = {at, 1}, ids[5] = {(uint64_t)getpid() << 32 | (uint32_t)getpid(), at,
					       at, sizeof(call_code), 1};
	uint32_t line[2] = {77, 0};
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, (int)getpid());
	f = fopen(path, "w+");
	put(f, header, 40);
	put(f, debug, 8);
	put(f, &clock, 8);
	put(f, lines, 16);
	put(f, &at, 8);
	put(f, line, 8);
	put(f, file, sizeof(file));
	put(f, load, 8);
	put(f, &clock, 8);
	put(f, ids, 40);
	put(f, name, sizeof(name));
	put(f, call_code, sizeof(call_code));
	fflush(f);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0) == MAP_FAILED)
		exit(4);
	calls_generated(code);
	fclose(f);
}

/* ---- locks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;

/* Until the first thread sleeps, in the lock that is held here. By raw system calls, of which no
 * hook knows. */
static void until_asleep(void)
{
	static const struct timespec moment = {0, 200000};
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char text[512], *end;
	long n;

	do {
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
		n = syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);
		text[n > 0 ? n : 0] = 0;
		end = strrchr(text, ')');
	} while (end && strncmp(end, ") S", 3) != 0);
	syscall(SYS_close, fd);
}

static void *holds(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	pthread_rwlock_wrlock(&rwlock);
	pthread_barrier_wait(&both);
	until_asleep();
	usleep(20000);
	pthread_mutex_unlock(&mutex);
	until_asleep();
	usleep(20000);
	pthread_rwlock_unlock(&rwlock);
	return NULL;
}

static void holder(void)
{
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, holds, NULL);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_join(thread, NULL);
}

/* ---- processes that are gone before anyone looks ---- */

static void short_lived(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid) {
			usleep(100);
			after_jump();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (argc > 2)
		snprintf(folder, sizeof(folder), "%s", argv[2]);
	if (!strcmp(name, "deep"))
		deep();
	else if (!strcmp(name, "end-of-stack"))
		end_of_stack();
	else if (!strcmp(name, "alternate-stack"))
		alternate_stack();
	else if (!strcmp(name, "same-stack"))
		same_stack();
	else if (!strcmp(name, "coroutine"))
		coroutine();
	else if (!strcmp(name, "tail-call"))
		calls_tail();
	else if (!strcmp(name, "inlined"))
		has_inlined();
	else if (!strcmp(name, "unloaded"))
		unloaded();
	else if (!strcmp(name, "replaced"))
		replaced(argv[0], argv[2]);
	else if (!strcmp(name, "deleted"))
		deleted(argv[0]);
	else if (!strcmp(name, "perf-map"))
		perf_map();
	else if (!strcmp(name, "jitdump"))
		jitdump();
	else if (!strcmp(name, "holder"))
		holder();
	else if (!strcmp(name, "short-lived"))
		short_lived();
	else
		return 2;
	return 0;
}
