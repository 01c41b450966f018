/* locks.c - scenarios: locks of every kind, semaphores, condition variables, threads. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

static struct timespec soon(clockid_t clock, long ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += ms * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, fn, arg));
	return thread;
}

/* ---- a lock held by another thread until somebody waits for it ---- */

static volatile int held, waiting_tid;

/* Is thread `tid` asleep in the kernel? (S in its stat.) */
static int asleep(int tid)
{
	char path[64], buf[512], *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	CHECK(file);
	CHECK(fgets(buf, sizeof(buf), file));
	fclose(file);
	at = strrchr(buf, ')');
	return at && at[2] == 'S';
}

static void hold_until_wanted(void)
{
	held = 1;
	while (!waiting_tid)
		sched_yield();
	while (!asleep(waiting_tid))
		usleep(500);
	usleep(2000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;

static void *hold_mutex(void *m)
{
	CHECK(!pthread_mutex_lock(m));
	hold_until_wanted();
	CHECK(!pthread_mutex_unlock(m));
	return NULL;
}

static void *hold_write(void *unused)
{
	(void)unused;
	CHECK(!pthread_rwlock_wrlock(&rwlock));
	hold_until_wanted();
	CHECK(!pthread_rwlock_unlock(&rwlock));
	return NULL;
}

static void *post_late(void *unused)
{
	(void)unused;
	hold_until_wanted();
	CHECK(!sem_post(&sem));
	return NULL;
}

/* Run `holder`, wait until it holds, say that we want it: the next blocking call of this thread is
 * contended. */
static pthread_t contend(void *(*holder)(void *), void *arg)
{
	pthread_t thread;

	held = waiting_tid = 0;
	thread = start(holder, arg);
	while (!held)
		sched_yield();
	waiting_tid = (int)syscall(SYS_gettid);
	return thread;
}

#define CONTENDED(holder, arg, name, object, call)                                          \
	do {                                                                                \
		pthread_t t_ = contend(holder, arg);                                        \
		CHECK(!(call));                                                             \
		CHECK(!pthread_join(t_, NULL));                                             \
		want("name=%s n=1 object=%lu result=0 error=0 nesting=0 min_us=1000", name, \
		     (unsigned long)(object));                                              \
	} while (0)

static void contended(void)
{
	struct timespec late = soon(CLOCK_REALTIME, 20000),
			late_mono = soon(CLOCK_MONOTONIC, 20000);

	CONTENDED(hold_mutex, &mutex, "pthread_mutex_lock", &mutex, pthread_mutex_lock(&mutex));
	CHECK(!pthread_mutex_unlock(&mutex));
	CONTENDED(hold_mutex, &mutex, "pthread_mutex_timedlock", &mutex,
		  pthread_mutex_timedlock(&mutex, &late));
	CHECK(!pthread_mutex_unlock(&mutex));
	CONTENDED(hold_mutex, &mutex, "pthread_mutex_clocklock", &mutex,
		  pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &late_mono));
	CHECK(!pthread_mutex_unlock(&mutex));
	CONTENDED(hold_write, NULL, "pthread_rwlock_rdlock", &rwlock,
		  pthread_rwlock_rdlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CONTENDED(hold_write, NULL, "pthread_rwlock_wrlock", &rwlock,
		  pthread_rwlock_wrlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CONTENDED(hold_write, NULL, "pthread_rwlock_timedrdlock", &rwlock,
		  pthread_rwlock_timedrdlock(&rwlock, &late));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CONTENDED(hold_write, NULL, "pthread_rwlock_timedwrlock", &rwlock,
		  pthread_rwlock_timedwrlock(&rwlock, &late));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CONTENDED(hold_write, NULL, "pthread_rwlock_clockrdlock", &rwlock,
		  pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &late_mono));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CONTENDED(hold_write, NULL, "pthread_rwlock_clockwrlock", &rwlock,
		  pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &late_mono));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CHECK(!sem_init(&sem, 0, 0));
	CONTENDED(post_late, NULL, "sem_wait", &sem, sem_wait(&sem));
	CONTENDED(post_late, NULL, "sem_timedwait", &sem, sem_timedwait(&sem, &late));
	CONTENDED(post_late, NULL, "sem_clockwait", &sem,
		  sem_clockwait(&sem, CLOCK_MONOTONIC, &late_mono));
}

static pthread_spinlock_t spin;

static void *hold_spin(void *unused)
{
	(void)unused;
	CHECK(!pthread_spin_lock(&spin));
	held = 1;
	while (!waiting_tid)
		sched_yield();
	usleep(3000);
	CHECK(!pthread_spin_unlock(&spin));
	return NULL;
}

static void spinning(void)
{
	pthread_t thread;

	CHECK(!pthread_spin_init(&spin, 0));
	thread = contend(hold_spin, NULL);
	CHECK(!pthread_spin_lock(&spin));
	CHECK(pthread_spin_trylock(&spin) == EBUSY);
	CHECK(!pthread_spin_unlock(&spin));
	CHECK(!pthread_join(thread, NULL));
	want("name=pthread_spin_lock n=1 object=%lu", (unsigned long)&spin);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Uncontended locks leave no rows, with one thread and with several. */
static void uncontended(void)
{
	struct timespec past = {1, 0}, wrong = {1, 2000000000}, late = soon(CLOCK_REALTIME, 20000);
	pthread_t thread;

	CHECK(!sem_init(&sem, 0, 1000000));
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++) {
			CHECK(!pthread_mutex_lock(&mutex));
			CHECK(!pthread_mutex_unlock(&mutex));
			CHECK(!pthread_mutex_timedlock(
				&mutex, &past)); /* free: the deadline does not matter */
			CHECK(!pthread_mutex_unlock(&mutex));
			CHECK(!pthread_rwlock_rdlock(&rwlock));
			CHECK(!pthread_rwlock_unlock(&rwlock));
			CHECK(!pthread_rwlock_wrlock(&rwlock));
			CHECK(!pthread_rwlock_unlock(&rwlock));
			CHECK(!sem_wait(&sem));
			CHECK(!sem_timedwait(&sem, &late));
		}
		/* What the C library refuses although it need not wait. */
		errno = 0;
		CHECK(sem_timedwait(&sem, &wrong) == -1 && errno == EINVAL);
		CHECK(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
		CHECK(pthread_rwlock_timedrdlock(&rwlock, &wrong) == EINVAL);
		thread = start(nothing, NULL);
		CHECK(!pthread_join(thread, NULL));
		thread = start(nothing, NULL); /* from here on the process has had threads */
		CHECK(!pthread_join(thread, NULL));
	}
	want("name=pthread_mutex_lock n=0");
	want("name=pthread_mutex_timedlock n=0");
	want("name=pthread_rwlock_rdlock n=0");
	want("name=pthread_rwlock_wrlock n=0");
	want("name=sem_wait n=0");
	want("name=sem_timedwait n=0");
}

/* ---- kinds of mutex ---- */

static void *die_with(void *m)
{
	CHECK(!pthread_mutex_lock(m));
	return NULL;
}

static void *use_shared(void *m)
{
	for (int i = 0; i < 200; i++) {
		CHECK(!pthread_mutex_lock(m));
		CHECK(!pthread_mutex_unlock(m));
	}
	return NULL;
}

static void kinds(void)
{
	pthread_mutex_t *mutex =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;
	int status, ceiling;
	pid_t pid;

	CHECK(!pthread_mutexattr_init(&a));
	for (int shared = 0; shared < 2; shared++)
		for (int robust = 0; robust < 2; robust++)
			for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT;
			     protocol++)
				for (int type = PTHREAD_MUTEX_NORMAL;
				     type <= PTHREAD_MUTEX_ADAPTIVE_NP; type++) {
					CHECK(!pthread_mutexattr_setpshared(&a, shared));
					CHECK(!pthread_mutexattr_setrobust(&a, robust));
					CHECK(!pthread_mutexattr_setprotocol(&a, protocol));
					CHECK(!pthread_mutexattr_settype(&a, type));
					CHECK(!pthread_mutex_init(mutex, &a));
					CHECK(!pthread_mutex_lock(mutex));
					if (type == PTHREAD_MUTEX_RECURSIVE) {
						CHECK(!pthread_mutex_lock(mutex));
						CHECK(!pthread_mutex_unlock(mutex));
					} else if (type == PTHREAD_MUTEX_ERRORCHECK) {
						CHECK(pthread_mutex_lock(mutex) == EDEADLK);
					} else {
						CHECK(pthread_mutex_trylock(mutex) == EBUSY);
					}
					CHECK(!pthread_mutex_unlock(mutex));
					if (type == PTHREAD_MUTEX_ERRORCHECK)
						CHECK(pthread_mutex_unlock(mutex) == EPERM);
					if (robust) {
						CHECK(!pthread_join(start(die_with, mutex), NULL));
						CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
						CHECK(!pthread_mutex_consistent(mutex));
						CHECK(!pthread_mutex_unlock(mutex));
						CHECK(!pthread_join(start(die_with, mutex), NULL));
						CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
						CHECK(!pthread_mutex_unlock(mutex));
						CHECK(pthread_mutex_lock(mutex) == ENOTRECOVERABLE);
					} else {
						pthread_t thread = start(use_shared, mutex);

						use_shared(mutex);
						CHECK(!pthread_join(thread, NULL));
					}
					CHECK(!pthread_mutex_destroy(mutex));
				}
	CHECK(!pthread_mutexattr_init(&a));
	CHECK(!pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT));
	CHECK(!pthread_mutexattr_setprioceiling(&a, sched_get_priority_min(SCHED_FIFO)));
	CHECK(!pthread_mutex_init(mutex, &a));
	status = pthread_mutex_lock(mutex); /* refused where real-time priorities are */
	CHECK(!status || status == EPERM || status == EINVAL);
	if (!status) {
		CHECK(!pthread_mutex_getprioceiling(mutex, &ceiling));
		CHECK(!pthread_mutex_unlock(mutex));
	}
	/* Between processes: contention by a process that has but one thread. */
	CHECK(!pthread_mutexattr_init(&a));
	CHECK(!pthread_mutexattr_setpshared(&a, 1));
	CHECK(!pthread_mutex_init(mutex, &a));
	CHECK(!pthread_mutex_lock(mutex));
	pid = fork();
	if (!pid) {
		CHECK(!pthread_mutex_lock(mutex));
		CHECK(!pthread_mutex_unlock(mutex));
		_exit(7);
	}
	until_asleep(pid, pid);
	CHECK(!pthread_mutex_unlock(mutex));
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	want("name=pthread_mutex_lock pid=%d n=1 object=%lu", pid, (unsigned long)mutex);
}

/* ---- condition variables ---- */

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn;

static void *pong(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++) {
		CHECK(!pthread_mutex_lock(&mutex));
		while (turn != 1)
			CHECK(!pthread_cond_wait(&cond, &mutex));
		turn = 0;
		CHECK(!pthread_cond_broadcast(&cond));
		CHECK(!pthread_mutex_unlock(&mutex));
	}
	return NULL;
}

static void ping_pong(void)
{
	pthread_t thread = start(pong, NULL);

	for (int i = 0; i < 100; i++) {
		CHECK(!pthread_mutex_lock(&mutex));
		while (turn != 0)
			CHECK(!pthread_cond_wait(&cond, &mutex));
		turn = 1;
		CHECK(!pthread_cond_broadcast(&cond));
		CHECK(!pthread_mutex_unlock(&mutex));
	}
	CHECK(!pthread_join(thread, NULL));
	want("name=pthread_cond_wait n=50+ object=%lu error=0", (unsigned long)&cond);
	want("name=pthread_create n=1 object=%lu error=0", (unsigned long)thread);
}

/*
 * A call that waits until a deadline of `clock`, `t`, 5 ms ahead; again where the machine let the
 * deadline pass before the call had begun. Then there are more calls than one.
 */
#define UNTIL_DEADLINE(clock, t, call)            \
	do {                                      \
		(t) = soon(clock, 5);             \
		begin = soon(CLOCK_MONOTONIC, 0); \
		CHECK(call);                      \
		now = soon(CLOCK_MONOTONIC, 0);   \
	} while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 2000000)

static void deadlines(void)
{
	struct timespec time, begin, now;

	CHECK(!pthread_mutex_lock(&mutex));
	UNTIL_DEADLINE(CLOCK_REALTIME, time,
		       pthread_cond_timedwait(&cond, &mutex, &time) == ETIMEDOUT);
	UNTIL_DEADLINE(CLOCK_MONOTONIC, time,
		       pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
	CHECK(!pthread_mutex_unlock(&mutex));
	CHECK(!sem_init(&sem, 0, 0));
	UNTIL_DEADLINE(CLOCK_REALTIME, time,
		       sem_timedwait(&sem, &time) == -1 && errno == ETIMEDOUT);
	UNTIL_DEADLINE(CLOCK_MONOTONIC, time,
		       sem_clockwait(&sem, CLOCK_MONOTONIC, &time) == -1 && errno == ETIMEDOUT);
	CHECK(sem_trywait(&sem) == -1 && errno == EAGAIN);
	want("name=pthread_cond_timedwait n=1+ result=%d error=%d object=%lu min_us=1000",
	     ETIMEDOUT, ETIMEDOUT, (unsigned long)&cond);
	want("name=pthread_cond_clockwait n=1+ result=%d error=%d object=%lu min_us=1000",
	     ETIMEDOUT, ETIMEDOUT, (unsigned long)&cond);
	want("name=sem_timedwait n=1+ result=-1 error=%d min_us=1000", ETIMEDOUT);
	want("name=sem_clockwait n=1+ result=-1 error=%d min_us=1000", ETIMEDOUT);
}

/* ---- cancellation ---- */

static int cleaned, pipe_fds[2];

static void clean_up(void *mutex_or_null)
{
	cleaned++;
	if (mutex_or_null)
		CHECK(!pthread_mutex_unlock(
			mutex_or_null)); /* an error-checking one: held again, or EPERM */
	usleep(1500);
}

static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static void *wait_to_be_cancelled(void *how)
{
	char letter;

	waiting_tid = (int)syscall(SYS_gettid);
	pthread_cleanup_push(clean_up, how ? &checking : NULL);
	if (how) {
		CHECK(!pthread_mutex_lock(&checking));
		for (;;)
			pthread_cond_wait(&cond, &checking);
	} else {
		CHECK(read(pipe_fds[0], &letter, 1) == 1);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancellation(void)
{
	void *result;
	pthread_t thread;

	CHECK(!pipe(pipe_fds));
	for (int how = 0; how < 2; how++) {
		waiting_tid = 0;
		thread = start(wait_to_be_cancelled, how ? "cond" : NULL);
		while (!waiting_tid)
			sched_yield();
		want("name=%s tid=%d n=1 error=%d result=-1 nesting=0 min_us=1000",
		     how ? "pthread_cond_wait" : "read", waiting_tid, ECANCELED);
		want("name=usleep tid=%d n=1 nesting=0", waiting_tid);
		while (!asleep(waiting_tid))
			usleep(500);
		usleep(2000);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result));
		CHECK(result == PTHREAD_CANCELED && cleaned == how + 1);
	}
}

static void *take_cancelled(void *unused)
{
	(void)unused;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	sem_wait(&sem); /* free, but a cancellation point all the same */
	return NULL;
}

static volatile int spun;

static void *cancel_anywhere(void *unused)
{
	char letter;

	(void)unused;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	spun = 1;
	for (;;)
		if (pread(0, &letter, 0, 0) > 0)
			return NULL;
}

static void cancel_points(void)
{
	void *result;

	CHECK(!sem_init(&sem, 0, 5));
	CHECK(!pthread_join(start(take_cancelled, NULL), &result));
	CHECK(result == PTHREAD_CANCELED);
	for (int i = 0; i < 50; i++) { /* asynchronous: wherever it happens to be in the wrapper */
		pthread_t thread;

		spun = 0;
		thread = start(cancel_anywhere, NULL);
		while (!spun)
			sched_yield();
		usleep(rand() % 200);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result));
		CHECK(result == PTHREAD_CANCELED);
	}
	usleep(1000);
	want("name=usleep tid=%d n=51 nesting=0", getpid());
}

static void leave(int sig)
{
	(void)sig;
	pthread_exit("left");
}

static void *read_for_ever(void *unused)
{
	char letter;

	(void)unused;
	waiting_tid = (int)syscall(SYS_gettid);
	CHECK(read(pipe_fds[0], &letter, 1) == 1);
	return NULL;
}

static void exit_in_handler(void)
{
	void *result;
	pthread_t thread;

	signal(SIGUSR1, leave);
	CHECK(!pipe(pipe_fds));
	waiting_tid = 0;
	thread = start(read_for_ever, NULL);
	while (!waiting_tid || !asleep(waiting_tid))
		usleep(500);
	usleep(2000);
	CHECK(!pthread_kill(thread, SIGUSR1));
	CHECK(!pthread_join(thread, &result));
	CHECK(!strcmp(result, "left"));
	want("name=read tid=%d n=1 error=%d", waiting_tid, ECANCELED);
}

/* ---- many, small, named ---- */

static void *sleep_a_little(void *arg)
{
	usleep(1);
	return arg;
}

static void many_threads(void)
{
	static pthread_t thread[500];

	for (int wave = 0; wave < 10; wave++) {
		for (int i = 0; i < 500; i++)
			thread[i] = start(sleep_a_little, &thread[i]);
		for (int i = 0; i < 500; i++) {
			void *result;

			CHECK(!pthread_join(thread[i], &result) && result == &thread[i]);
		}
	}
	want("name=pthread_create n=5000 error=0");
	want("name=usleep n=5000 nesting=0 error=0");
}

static void *use_small_stack(void *unused)
{
	char buf[16];
	FILE *file;

	(void)unused;
	CHECK((file = fopen("/proc/self/comm", "r")));
	CHECK(fgets(buf, sizeof(buf), file));
	CHECK(!fclose(file));
	usleep(1000);
	CHECK(write(pipe_fds[1], "x", 1) == 1 && read(pipe_fds[0], buf, 1) == 1);
	return NULL;
}

static void small_stacks(void)
{
	pthread_attr_t a;
	pthread_t thread;

	CHECK(!pipe(pipe_fds));
	CHECK(!pthread_attr_init(&a));
	/* As small as may be: 16 KiB on x86-64, 128 KiB on aarch64. */
	CHECK(!pthread_attr_setstacksize(&a, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
	for (int i = 0; i < 20; i++) {
		CHECK(!pthread_create(&thread, &a, use_small_stack, NULL));
		CHECK(!pthread_join(thread, NULL));
	}
	want("name=usleep n=20");
	want0("name=fopen n=20 path=/proc/self/comm");
}

static void *be_named(void *unused)
{
	(void)unused;
	waiting_tid = (int)syscall(SYS_gettid);
	want_name(waiting_tid, "from-outside");
	want_name(waiting_tid, "from-inside");
	want_name(waiting_tid, "by-prctl");
	CHECK(!pthread_setname_np(pthread_self(), "from-inside"));
	CHECK(!prctl(PR_SET_NAME, "by-prctl", 0, 0, 0));
	while (waiting_tid)
		usleep(500);
	return NULL;
}

static void thread_names(void)
{
	char name[16];
	pthread_t thread;

	waiting_tid = 0;
	thread = start(be_named, NULL);
	while (!waiting_tid)
		sched_yield();
	usleep(3000);
	CHECK(!pthread_setname_np(thread, "from-outside"));
	CHECK(pthread_setname_np(thread, "sixteen-letters-") == ERANGE);
	CHECK(!pthread_getname_np(thread, name, sizeof(name)) && !strcmp(name, "from-outside"));
	waiting_tid = 0;
	CHECK(!pthread_join(thread, NULL));
}

static void *meet(void *barrier)
{
	int r;

	if (!waiting_tid)
		waiting_tid = (int)syscall(SYS_gettid);
	r = pthread_barrier_wait(barrier);

	CHECK(!r || r == PTHREAD_BARRIER_SERIAL_THREAD);
	return NULL;
}

static void joins(void)
{
	struct timespec deadline, begin, now;
	pthread_barrier_t b;
	void *result;
	pthread_t thread;

	CHECK(!pthread_barrier_init(&b, NULL, 2));
	waiting_tid = 0;
	thread = start(meet, &b);
	while (!waiting_tid)
		sched_yield();
	until_asleep(getpid(), waiting_tid);
	CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
	UNTIL_DEADLINE(CLOCK_REALTIME, deadline,
		       pthread_timedjoin_np(thread, &result, &deadline) == ETIMEDOUT);
	UNTIL_DEADLINE(CLOCK_MONOTONIC, deadline,
		       pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &deadline) ==
			       ETIMEDOUT);
	meet(&b);
	CHECK(!pthread_join(thread, &result) && !result);
	want("name=pthread_barrier_wait n=1+ object=%lu error=0 min_us=1000", (unsigned long)&b);
	want("name=pthread_timedjoin_np n=1+ object=%lu error=%d min_us=1000",
	     (unsigned long)thread, ETIMEDOUT);
	want("name=pthread_clockjoin_np n=1+ object=%lu error=%d min_us=1000",
	     (unsigned long)thread, ETIMEDOUT);
}

/* Calls that hang are reported, too: a worker in a wait when the program ends, and when it is
 * killed. */
static void *hang(void *unused)
{
	(void)unused;
	CHECK(!pthread_mutex_lock(&mutex));
	waiting_tid = (int)syscall(SYS_gettid);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
}

static void hang_at_exit(void)
{
	start(hang, NULL);
	while (!waiting_tid || !asleep(waiting_tid))
		usleep(500);
	usleep(2000);
	want("name=pthread_cond_wait tid=%d n=1 open=1 object=%lu", waiting_tid,
	     (unsigned long)&cond);
}

static void hang_and_be_killed(void)
{
	int fds[2];
	char letter;

	start(hang, NULL);
	while (!waiting_tid || !asleep(waiting_tid))
		usleep(500);
	CHECK(!pipe(fds));
	want("name=pthread_cond_wait tid=%d n=1 open=1 object=%lu", waiting_tid,
	     (unsigned long)&cond);
	want("name=read tid=%d n=1 open=1 object=%d", getpid(), fds[0]);
	printf("#status 137\n");
	fflush(stdout);
	if (!fork()) {
		until_asleep(getppid(), getppid());
		kill(getppid(), SIGKILL);
		_exit(0);
	}
	CHECK(read(fds[0], &letter, 1) < 0);
}

static const struct scenario scenarios[] = {
	{"contended", contended},
	{"spinning", spinning},
	{"uncontended", uncontended},
	{"kinds", kinds},
	{"ping-pong", ping_pong},
	{"deadlines", deadlines},
	{"cancellation", cancellation},
	{"cancel-points", cancel_points},
	{"exit-in-handler", exit_in_handler},
	{"many-threads", many_threads},
	{"small-stacks", small_stacks},
	{"thread-names", thread_names},
	{"joins", joins},
	{"hang-at-exit", hang_at_exit},
	{"hang-and-be-killed", hang_and_be_killed},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
