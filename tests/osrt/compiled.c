/*
 * compiled.c - scenarios that depend on how a program is compiled: with _FORTIFY_SOURCE and 64-bit
 * file offsets, whose functions have other names, and against the condition variables of before
 * glibc 2.3.2. Built with -O2 -D_FORTIFY_SOURCE=2 -D_FILE_OFFSET_BITS=64.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "scenario.h"

static void *add_late(void *fd)
{
	until_asleep(getpid(), getpid()); /* the first thread, in the call that is to wait */
	CHECK(write(*(int *)fd, "xyz\n", 4) == 4);
	return NULL;
}

/* Sizes that the compiler does not know, so that it checks at run time. */
static volatile size_t size = 4;
static volatile int flags = O_RDONLY, one = 1;

static void fortified(void)
{
	struct pollfd fds[1];
	char buf[64];
	int p[2], s[2];
	pthread_t t;
	FILE *file;

	CHECK(!pipe(p) && !socketpair(AF_UNIX, SOCK_STREAM, 0, s));
#define LATE(fd, call)                                        \
	CHECK(!pthread_create(&t, NULL, add_late, &(fd)[1])); \
	CHECK(call);                                          \
	CHECK(!pthread_join(t, NULL))
	LATE(p, read(p[0], buf, size) == 4);
	want("name=read n=1 result=4 object=%d path=pipe:* min_us=1000", p[0]);
	LATE(s, recv(s[0], buf, size, 0) == 4);
	want("name=recv n=1 result=4 object=%d min_us=1000", s[0]);
	LATE(s, recvfrom(s[0], buf, size, 0, NULL, NULL) == 4);
	want("name=recvfrom n=1 result=4 object=%d min_us=1000", s[0]);
	fds[0] = (struct pollfd){p[0], POLLIN, 0};
	LATE(p, poll(fds, (nfds_t)one, 1000) == 1);
	want("name=poll n=1 result=1 min_us=1000");
	file = fdopen(p[0], "r");
	CHECK(file && fgets(buf, (int)size + 1, file) && !strcmp(buf, "xyz\n"));
	LATE(p, fgets(buf, (int)size + 1, file) && !strcmp(buf, "xyz\n"));
	want("name=fgets n=1 object=%d path=pipe:* min_us=1000", p[0]);
	LATE(p, fread(buf, 1, size, file) == 4);
	want("name=fread n=1 object=%d result=4 min_us=1000", p[0]);
	CHECK(open("/nonexistent/fortified", flags) == -1 && errno == ENOENT);
	want0("name=open64 n=1 path=/nonexistent/fortified error=%d", ENOENT);
}

static void big_offsets(void)
{
	static char data[1 << 18];
	int fd = open("big", O_CREAT | O_RDWR, 0600);
	FILE *file;

	CHECK(fd >= 0);
	CHECK(pwrite(fd, data, sizeof(data), 0x300000000) == sizeof(data));
	CHECK(pread(fd, data, size << 16, 0x300000000) == (ssize_t)sizeof(data));
	CHECK(lseek(fd, 0, SEEK_END) == 0x300000000 + (off_t)sizeof(data));
	file = fopen("big", "r");
	CHECK(file && !fclose(file) && !unlink("big"));
	want("name=pwrite64 n=1 result=%zu object=%d", sizeof(data), fd);
	want("name=pread64 n=1 result=%zu object=%d", sizeof(data), fd);
	want0("name=fopen64 n=1 path=big");
}

#if defined(__x86_64__)
int old_wait(pthread_cond_t *, pthread_mutex_t *), old_signal(pthread_cond_t *);
int old_init(pthread_cond_t *, const pthread_condattr_t *);
int old_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *),
	old_destroy(pthread_cond_t *);
__asm__(".symver old_wait, pthread_cond_wait@GLIBC_2.2.5\n.symver old_signal, "
	"pthread_cond_signal@GLIBC_2.2.5\n"
	".symver old_init, pthread_cond_init@GLIBC_2.2.5\n.symver old_timedwait, "
	"pthread_cond_timedwait@GLIBC_2.2.5\n"
	".symver old_destroy, pthread_cond_destroy@GLIBC_2.2.5\n");

static struct {
	pthread_cond_t cond;
	pthread_mutex_t mutex;
	int set;
} old = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *signals_late(void *unused)
{
	(void)unused;
	usleep(5000);
	CHECK(!pthread_mutex_lock(&old.mutex));
	old.set = 1;
	CHECK(!old_signal(&old.cond));
	CHECK(!pthread_mutex_unlock(&old.mutex));
	return NULL;
}

/* The old condition variable is a pointer: functions of the new kind would scribble over what
 * follows it. */
static void old_conditions(void)
{
	struct timespec time;
	pthread_t thread;

	CHECK(!old_init(&old.cond, NULL));
	memset((char *)&old.cond + sizeof(void *), 0x5a, sizeof(old.cond) - sizeof(void *));
	CHECK(!pthread_mutex_lock(&old.mutex));
	clock_gettime(CLOCK_REALTIME, &time);
	CHECK(old_timedwait(&old.cond, &old.mutex, &time) == ETIMEDOUT);
	CHECK(!pthread_create(&thread, NULL, signals_late, NULL));
	while (!old.set)
		CHECK(!old_wait(&old.cond, &old.mutex));
	CHECK(!pthread_mutex_unlock(&old.mutex) && !pthread_join(thread, NULL));
	for (size_t i = sizeof(void *); i < sizeof(old.cond); i++)
		CHECK(((unsigned char *)&old.cond)[i] == 0x5a);
	CHECK(!old_destroy(&old.cond));
	want("name=usleep n=1");
}
#endif

static const struct scenario scenarios[] = {
	{"fortified", fortified},
	{"big-offsets", big_offsets},
#if defined(__x86_64__)
	{"old-conditions", old_conditions},
#endif
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
