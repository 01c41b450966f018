/* flow.c - scenarios: signals, jumps, alternate stacks, forks, calls before main and after it. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

extern char **environ;

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction action = {.sa_handler = fn, .sa_flags = flags};

	CHECK(!sigaction(sig, &action, NULL));
}

static void alarm_in(long us)
{
	struct itimerval itimerval = {.it_value = {us / 1000000, us % 1000000}};

	CHECK(!setitimer(ITIMER_REAL, &itimerval, NULL));
}

/* A call that waits and that an alarm interrupts, for certain: the signal waits until the call lets
 * it through. One from a timer or another process could come before the call began. */
static void interrupt_call(void)
{
	sigset_t alarm, before;
	struct pollfd end = {.events = POLLIN};
	int fds[2];

	CHECK(!pipe(fds));
	end.fd = fds[0];
	CHECK(!sigemptyset(&alarm) && !sigaddset(&alarm, SIGALRM));
	CHECK(!sigprocmask(SIG_BLOCK, &alarm, &before));
	CHECK(!raise(SIGALRM));
	CHECK(ppoll(&end, 1, NULL, &before) == -1 && errno == EINTR);
	CHECK(!sigprocmask(SIG_SETMASK, &before, NULL));
}

/* ---- jumps ---- */

static sigjmp_buf back;

static void jump(int sig)
{
	siglongjmp(back, sig);
}

static void __attribute__((noinline)) deeper(int n)
{
	volatile char room[512];

	memset((char *)room, 0x5a, sizeof(room));
	if (n)
		deeper(n - 1);
	else
		usleep(1500);
}

/* A call left by longjmp does not count as open afterwards, wherever on the stack the next one
 * stands. */
static void jump_out(void)
{
	int fds[2];
	char letter;

	CHECK(!pipe(fds));
	handle(SIGALRM, jump, 0);
	for (int i = 0; i < 20; i++) {
		if (!sigsetjmp(back, 1)) {
			alarm_in(2000);
			CHECK(read(fds[0], &letter, 1) == 12345);
		}
		deeper(i);
	}
	want("name=usleep n=20 nesting=0");
	want("name=usleep n=20");
	want("name=read n=0"); /* none returned */
}

/* Jumping out of the hook itself, too: wherever the signal comes, among calls that are recorded. */
static void jump_out_anywhere(void)
{
	volatile int jumps = 0, calls = 0;
	struct itimerval stop = {{0, 0}, {0, 0}}, often = {{0, 150}, {0, 150}};
	char buf[64];
	int fds[2];

	CHECK(!pipe(fds));
	handle(SIGALRM, jump, 0);
	if (sigsetjmp(back, 1))
		jumps++;
	if (jumps < 500) {
		CHECK(!setitimer(ITIMER_REAL, &often, NULL));
		for (;;) {
			/* The pipe holds zero or one byte: a jump may have come between the two. */
			CHECK(!fcntl(fds[0], F_SETFL, O_NONBLOCK));
			CHECK(write(fds[1], "x", 1) == 1);
			while (read(fds[0], buf, sizeof(buf)) > 0)
				calls++;
			nanosleep(&(struct timespec){0, 1000}, NULL);
		}
	}
	CHECK(!setitimer(ITIMER_REAL, &stop, NULL));
	/* Jumps out of the hook itself may have taken every nest, which is noticed after 16 events.
	 */
	for (int i = 0; i < 20; i++)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	usleep(1500);
	CHECK(jumps >= 500); /* one more where the timer is late */
	want("name=usleep n=1 nesting=0 error=0");
	want("name=nanosleep n=1+");
}

/* ---- handlers ---- */

static void sleep_in_handler(int sig)
{
	(void)sig;
	usleep(1500);
}

static void nested(const char *what, void *stack, size_t size)
{
	stack_t s = {.ss_sp = stack, .ss_size = size}, none = {.ss_flags = SS_DISABLE};

	(void)what;
	if (stack)
		CHECK(!sigaltstack(&s, NULL));
	handle(SIGALRM, sleep_in_handler, stack ? SA_ONSTACK : 0);
	interrupt_call();
	usleep(1500);
	if (stack)
		CHECK(!sigaltstack(&none, NULL));
}

static void in_handlers(void)
{
	size_t size = 65536;
	char on_stack[65536];
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *heap = malloc(size);

	nested("same stack", NULL, 0);
	nested("below", heap, size);
	nested("elsewhere", mapped, size);
	nested("inside the stack", on_stack, size);
	want("name=ppoll n=4 nesting=0 result=-1 error=%d", EINTR);
	want("name=usleep n=4 nesting=1");
	want("name=usleep n=4 nesting=0");
}

static void jump_off_alternate(void)
{
	size_t size = 65536;
	stack_t s = {.ss_sp = malloc(size), .ss_size = size};
	int fds[2];
	char letter;

	CHECK(!pipe(fds) && !sigaltstack(&s, NULL));
	handle(SIGALRM, jump, SA_ONSTACK);
	for (int i = 0; i < 5; i++) {
		if (!sigsetjmp(back, 1)) {
			alarm_in(2000);
			CHECK(read(fds[0], &letter, 1) == 12345);
		}
		usleep(1500);
	}
	want("name=usleep n=5 nesting=0");
}

static volatile int depth;

static void again(int sig)
{
	if (depth++ < 40)
		raise(sig);
	usleep(1500);
}

/* Deeper than notes are kept for. */
static void deep_handlers(void)
{
	handle(SIGUSR1, again, SA_NODEFER);
	raise(SIGUSR1);
	usleep(1500);
	want("name=usleep n=42");
	want("name=usleep n=42 nesting=0"); /* raise is no traced call */
}

static int storm_fds[2];

static void write_in_handler(int sig)
{
	int e = errno;

	(void)sig;
	if (write(storm_fds[1], "x", 1) != 1)
		_exit(97);
	errno = e;
}

static void signal_storm(void)
{
	struct itimerval often = {{0, 200}, {0, 200}}, stop = {{0, 0}, {0, 0}};
	char buf[512];
	int file;
	long calls = 0;

	CHECK(!pipe(storm_fds));
	file = open("storm", O_CREAT | O_RDWR | O_TRUNC, 0600);
	CHECK(file >= 0 && !unlink("storm"));
	handle(SIGALRM, write_in_handler, SA_RESTART);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	do {
		errno = 55;
		CHECK(pwrite(file, buf, sizeof(buf), 0) == sizeof(buf) && errno == 55);
		CHECK(pread(file, buf, sizeof(buf), 0) == sizeof(buf) && errno == 55);
		CHECK(read(storm_fds[0], buf, 1) == 1);
		calls++; /* each read waits for a handler's byte */
	} while (calls < 2000);
	CHECK(!setitimer(ITIMER_REAL, &stop, NULL));
	usleep(1500);
	want("name=usleep n=1 nesting=0");
	want("name=read n=50+ nesting=0 error=0");
}

/* ---- processes ---- */

static void forks(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		usleep(1500);
		_exit(3);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	want("name=fork pid=%d n=1 result=%d", getpid(), pid);
	want("name=waitpid pid=%d n=1 result=%d", getpid(), pid);
	want("name=usleep pid=%d n=1 nesting=0", pid);
	CHECK(system("exit 5") == 5 << 8);
	want("name=system n=1 result=%d", 5 << 8);
	FILE *file = popen("echo hello", "r");
	char line[16];
	CHECK(file && fgets(line, sizeof(line), file) && !strcmp(line, "hello\n") && !pclose(file));
	want("name=popen n=1 error=0");
	char *argv[] = {"true", NULL};
	CHECK(!posix_spawnp(&pid, "true", NULL, NULL, argv, environ) &&
	      waitpid(pid, &status, 0) == pid && !status);
	want("name=posix_spawnp n=1 result=0 error=0");
	CHECK(posix_spawn(&pid, "/nonexistent", NULL, NULL, argv, environ) == ENOENT);
	want("name=posix_spawn n=1 result=%d error=%d", ENOENT, ENOENT);
}

/* Forking inside a traced call: the child unwinds through a wrapper that its parent entered. */
static volatile pid_t forked;

static void fork_in_handler(int sig)
{
	(void)sig;
	forked = fork();
	if (!forked)
		usleep(1500);
}

static void fork_inside(void)
{
	int status;

	handle(SIGALRM, fork_in_handler, 0);
	interrupt_call();
	usleep(2500);
	if (!forked)
		_exit(4);
	CHECK(waitpid(forked, &status, 0) == forked && WEXITSTATUS(status) == 4);
	want("name=ppoll pid=%d n=1 error=%d nesting=0", getpid(), EINTR);
	want("name=ppoll pid=%d n=0", forked); /* it began in another process */
	want("name=usleep pid=%d n=2 nesting=0", forked);
	want("name=usleep pid=%d n=1 nesting=0", getpid());
}

static void *locks_for_ever(void *mutex)
{
	for (;;) {
		CHECK(!pthread_mutex_lock(mutex));
		CHECK(!pthread_mutex_unlock(mutex));
	}
}

/* Children of a process whose other threads are at work in the hook. */
static void forks_of_a_crowd(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	int status;

	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread, NULL, locks_for_ever, &mutex));
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (!pid) {
			usleep(100);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
	want("name=usleep n=100 nesting=0");
}

static void vforks(void)
{
	int fds[2], status;
	char letter;
	pid_t pid;

	CHECK(!pipe(fds));
	pid = vfork();
	if (!pid) {
		if (write(fds[1], "v", 1) != 1)
			_exit(1);
		usleep(1500);
		_exit(6);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6);
	CHECK(read(fds[0], &letter, 1) == 1 && letter == 'v');
	usleep(2500);
	want("name=usleep n=1 nesting=0 pid=%d", getpid()); /* the child's is nobody's */
	want("name=vfork n=1 result=%d", pid);
}

/* ---- before main and after it ---- */

static pthread_mutex_t early_mutex = PTHREAD_MUTEX_INITIALIZER;
static int early_fd = -1;

static void *early_thread(void *unused)
{
	(void)unused;
	usleep(1100);
	return NULL;
}

__attribute__((constructor(101))) static void before_main(void)
{
	pthread_t thread;

	if (!getenv("WS_TEST_EARLY"))
		return;
	pthread_mutex_lock(&early_mutex);
	early_fd = open("/etc/passwd", O_RDONLY);
	usleep(1200);
	pthread_create(&thread, NULL, early_thread, NULL);
	pthread_join(thread, NULL);
	pthread_mutex_unlock(&early_mutex);
}

static void at_exit(void)
{
	usleep(1300);
}

__attribute__((destructor(101))) static void after_main(void)
{
	if (getenv("WS_TEST_EARLY"))
		usleep(1400);
}

static void outside_main(void)
{
	printf("#env WS_TEST_EARLY=1\n");
	atexit(at_exit);
	if (!getenv("WS_TEST_EARLY"))
		return;
	CHECK(early_fd >= 0 && !pthread_mutex_trylock(&early_mutex));
	want0("name=open path=/etc/passwd object=%d", early_fd);
	want("name=usleep n=4 nesting=0");
	want("name=pthread_join n=1");
}

static pthread_key_t key;

static void key_gone(void *unused)
{
	(void)unused;
	usleep(1500);
}

static void *use_key(void *arg)
{
	CHECK(!pthread_setspecific(key, &key));
	return arg;
}

static void thread_ends(void)
{
	pthread_t thread;

	CHECK(!pthread_key_create(&key, key_gone));
	for (int i = 0; i < 10; i++) {
		CHECK(!pthread_create(&thread, NULL, use_key, NULL));
		CHECK(!pthread_join(thread, NULL));
	}
	want("name=usleep n=10 nesting=0");
}

static const struct scenario scenarios[] = {
	{"jump-out", jump_out},
	{"jump-out-anywhere", jump_out_anywhere},
	{"in-handlers", in_handlers},
	{"jump-off-alternate", jump_off_alternate},
	{"deep-handlers", deep_handlers},
	{"signal-storm", signal_storm},
	{"forks", forks},
	{"fork-inside", fork_inside},
	{"forks-of-a-crowd", forks_of_a_crowd},
	{"vforks", vforks},
	{"outside-main", outside_main},
	{"thread-ends", thread_ends},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
