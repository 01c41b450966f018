/* files.c - scenarios: descriptors and their paths, streams, variadic functions, errno, sandboxes.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "scenario.h"

static char folder[4096];

static const char *in_folder(const char *name)
{
	static char path[4][8300];
	static int next;
	char *at = path[next++ & 3];

	if (!*folder)
		CHECK(getcwd(folder, sizeof(folder)));
	snprintf(at, sizeof(path[0]), "%s/%s", folder, name);
	return at;
}

/*
 * One descriptor, file after file: removed before the next is made, so that file systems reuse the
 * inode number as well. Each write is large enough to last over the threshold.
 */
static void reused_descriptors(void)
{
	enum { FILES = 60, WRITES = 3, SIZE = 1 << 18 };
	char *data = calloc(1, SIZE);

	for (int i = 0; i < FILES; i++) {
		const char *path;
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "reused-%d", i);
		path = in_folder(name);
		fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
		CHECK(fd >= 0);
		for (int k = 0; k < WRITES; k++)
			CHECK(write(fd, data, SIZE) == SIZE);
		want("name=write n=%d path=%s object=%d", WRITES, path, fd);
		want0("name=open n=1 path=%s object=%d result=%d", path, fd, fd);
		close(fd);
		CHECK(!unlink(path));
	}
	free(data);
}

static void long_paths(void)
{
	char name[251], path[4096];
	int fd, dirs = 0;

	memset(name, 'n', 250);
	name[250] = 0;
	CHECK(getcwd(folder, sizeof(folder)));
	strcpy(path, folder);
	for (; dirs < 6; dirs++) {
		CHECK(!mkdir(name, 0700) || errno == EEXIST);
		CHECK(!chdir(name));
		strcat(path, "/");
		strcat(path, name);
	}
	fd = open("deep", O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0);
	CHECK(ftruncate(fd, 1 << 20) == 0);
	CHECK(!posix_fallocate(fd, 0, 1 << 20));
	CHECK(!fsync(fd));
	want0("name=open n=1 path=deep");
	want0("name=posix_fallocate n=1 path=%s/deep error=0", path);
	close(fd);
	CHECK(!unlink("deep"));
	for (; dirs; dirs--)
		CHECK(!chdir("..") && !rmdir(name));
}

static void *write_late(void *fd)
{
	until_asleep(getpid(), getpid()); /* the first thread, in the call that is to wait */
	CHECK(write(*(int *)fd, "x", 1) == 1);
	return NULL;
}

static void *add_late(void *fd)
{
	uint64_t one = 1;

	until_asleep(getpid(), getpid());
	CHECK(write(*(int *)fd, &one, 8) == 8);
	return NULL;
}

static void write_soon(pthread_t *thread, int *fd)
{
	CHECK(!pthread_create(thread, NULL, write_late, fd));
}

/* Every function that waits for a descriptor, waiting. */
static void waiting(void)
{
	struct timespec second = {1, 0};
	struct epoll_event ev = {.events = EPOLLIN};
	struct pollfd pfd;
	int p[2], s[2], ep;
	struct iovec part;
	struct msghdr msghdr = {.msg_iov = &part, .msg_iovlen = 1};
	pthread_t t;
	fd_set set;
	char c;

	CHECK(!pipe(p) && !socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	part = (struct iovec){&c, 1};
	pfd = (struct pollfd){p[0], POLLIN, 0};
	ep = epoll_create1(0);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev));
#define WAIT(fd, name, object, call, consume)     \
	write_soon(&t, &(fd)[1]);                 \
	CHECK(call);                              \
	if (consume)                              \
		CHECK(read((fd)[0], &c, 1) == 1); \
	CHECK(!pthread_join(t, NULL));            \
	want("name=%s n=1+ min_us=1000 result=1 error=0 object=%d", name, object)
	WAIT(p, "read", p[0], read(p[0], &c, 1) == 1, 0);
	WAIT(p, "readv", p[0], readv(p[0], &part, 1) == 1, 0);
	WAIT(p, "poll", 0, poll(&pfd, 1, 1000) == 1, 1);
	WAIT(p, "ppoll", 0, ppoll(&pfd, 1, &second, NULL) == 1, 1);
	FD_ZERO(&set);
	FD_SET(p[0], &set);
	WAIT(p, "select", 0, select(p[0] + 1, &set, NULL, NULL, NULL) == 1, 1);
	FD_SET(p[0], &set);
	WAIT(p, "pselect", 0, pselect(p[0] + 1, &set, NULL, NULL, &second, NULL) == 1, 1);
	WAIT(p, "epoll_wait", ep, epoll_wait(ep, &ev, 1, 1000) == 1, 1);
	WAIT(p, "epoll_pwait", ep, epoll_pwait(ep, &ev, 1, 1000, NULL) == 1, 1);
	if (epoll_pwait2(ep, &ev, 1, &(struct timespec){0, 1000}, NULL) == 0) {
		WAIT(p, "epoll_pwait2", ep, epoll_pwait2(ep, &ev, 1, &second, NULL) == 1, 1);
	}
	WAIT(s, "recv", s[0], recv(s[0], &c, 1, 0) == 1, 0);
	WAIT(s, "recvfrom", s[0], recvfrom(s[0], &c, 1, 0, NULL, NULL) == 1, 0);
	WAIT(s, "recvmsg", s[0], recvmsg(s[0], &msghdr, 0) == 1, 0);
	want("name=read n=1+ object=%d path=pipe:[*", p[0]);
	want("name=recv n=1 object=%d path=socket:[*", s[0]);
	want("name=epoll_wait n=1 path=anon_inode:*");
}

/* Arguments behind the dots arrive. */
static void variadic(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 5};
	struct mq_attr attr = {.mq_maxmsg = 3, .mq_msgsize = 17}, got = {0};
	union semun {
		int val;
		struct semid_ds *buf;
	} arg;
	struct semid_ds ds;
	struct stat st;
	char name[64], *at, *to;
	int fd, n, id, p[2];
	mqd_t q;

	umask(0);
	fd = open(in_folder("mode"), O_CREAT | O_RDWR, 0641);
	CHECK(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 07777) == 0641);
	CHECK(write(fd, "0123456789", 10) == 10);
	CHECK(fcntl(fd, F_DUPFD, 100) == 100 && !close(100));
	CHECK(!fcntl(fd, F_SETLK, &lock));
	CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(openat(AT_FDCWD, in_folder("mode2"), O_CREAT | O_RDWR, 0604) >= 0 &&
	      !stat(in_folder("mode2"), &st) && (st.st_mode & 07777) == 0604);
	CHECK(!pipe(p) && write(p[1], "abc", 3) == 3 && !ioctl(p[0], FIONREAD, &n) && n == 3);
	at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	strcpy(at, "moved");
	to = mmap(NULL, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mremap(at, 8192, 16384, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to &&
	      !strcmp(to, "moved"));
	CHECK(!prctl(PR_SET_NAME, "five", 0, 0, 0) && !prctl(PR_GET_NAME, name) &&
	      !strcmp(name, "five"));
	id = semget(IPC_PRIVATE, 2, 0600);
	if (id >= 0) {
		arg.val = 7;
		CHECK(!semctl(id, 1, SETVAL, arg) && semctl(id, 1, GETVAL) == 7 &&
		      semctl(id, 0, GETVAL) == 0);
		arg.buf = &ds;
		CHECK(!semctl(id, 0, IPC_STAT, arg) && ds.sem_nsems == 2 &&
		      !semctl(id, 0, IPC_RMID));
	}
	snprintf(name, sizeof(name), "/ws-osrt-%d", getpid());
	q = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
	if (q != (mqd_t)-1) {
		CHECK(!mq_getattr(q, &got) && got.mq_maxmsg == 3 && got.mq_msgsize == 17);
		CHECK(!mq_unlink(name));
	}
	CHECK(ftruncate(fd, 0) == 0 && posix_fallocate(fd, 0, -1) == EINVAL);
	CHECK(!unlink(in_folder("mode")) && !unlink(in_folder("mode2")));
}

/* errno is the call's when it failed and the program's own when it did not, whether recorded or
 * not. */
static void error_numbers(void)
{
	struct timespec ms = {0, 1000000};
	void *volatile nowhere = (void *)8;
	char buf[4096];
	int fd, p[2];
	FILE *file;

	errno = 1234;
	CHECK(!nanosleep(&ms, NULL) && errno == 1234);
	CHECK(!usleep(1000) && errno == 1234);
	fd = open("/etc/passwd", O_RDONLY);
	CHECK(fd >= 0 && errno == 1234);
	CHECK(read(fd, buf, sizeof(buf)) > 0 && errno == 1234);
	file = fopen("/etc/passwd", "r");
	CHECK(file && errno == 1234 && fgets(buf, sizeof(buf), file) &&
	      fread(buf, 1, sizeof(buf), file) > 0);
	while (fgets(buf, sizeof(buf), file))
		;
	CHECK(fgetc(file) == EOF && errno == 1234 && !ferror(file)); /* end of file is no error */
	CHECK(!fclose(file) && errno == 1234);
	CHECK(open("/nonexistent/file", O_RDONLY) == -1 && errno == ENOENT);
	CHECK(!fopen("/nonexistent/stream", "r") && errno == ENOENT);
	CHECK(open(nowhere, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(openat(-1, nowhere, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(truncate(nowhere, 0) == -1 && errno == EFAULT);
	CHECK(pread(fd, nowhere, 10, 0) == -1 && errno == EFAULT);
	CHECK(write(-1, "", 1) == -1 && errno == EBADF);
	CHECK(read(12345, buf, 1) == -1 && errno == EBADF);
	CHECK(!pipe(p) && !fcntl(p[0], F_SETFL, O_NONBLOCK));
	CHECK(read(p[0], buf, 1) == -1 && errno == EAGAIN);
	errno = 1234;
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 77, nowhere, NULL) == EFAULT && errno == 1234);
	file = fdopen(p[0], "w"); /* not open for writing at the other end's price: writes fail */
	CHECK(!file && errno == EINVAL);
	want("name=nanosleep n=1 result=0 error=0");
	want0("name=open path=/nonexistent/file n=1 result=-1 error=%d", ENOENT);
	want0("name=fopen path=/nonexistent/stream n=1 result=0 error=%d", ENOENT);
	want0("name=fgetc n=0 error=1234");
	want0("name=fgets n=0 error=1234");
}

static void streams(void)
{
	const char *path = in_folder("stream");
	char line[64], *grown = NULL;
	size_t room = 0, sum = 0;
	wchar_t wide[32];
	FILE *file;
	int c;

	file = fopen(path, "w+");
	CHECK(file);
	for (int i = 0; i < 5000; i++) {
		CHECK(fputc('a' + i % 26, file) == 'a' + i % 26);
		CHECK(putc('\n', file) == '\n');
		CHECK(fputs("line\n", file) >= 0);
		CHECK(fwrite("block\n", 2, 3, file) == 3);
		CHECK(putc_unlocked('u', file) == 'u' && fputc_unlocked('\n', file) == '\n');
	}
	CHECK(!fflush(file) && !fsync(fileno(file)));
	CHECK(ftell(file) == 5000L * (2 + 5 + 6 + 2));
	rewind(file);
	for (int i = 0; i < 5000; i++) {
		CHECK(fgetc(file) == 'a' + i % 26 && getc(file) == '\n');
		CHECK(fgets(line, sizeof(line), file) && !strcmp(line, "line\n"));
		CHECK(fread(line, 1, 6, file) == 6 && !memcmp(line, "block\n", 6));
		CHECK(getline(&grown, &room, file) == 2 && !strcmp(grown, "u\n"));
	}
	CHECK(fgetc(file) == EOF && feof(file));
	rewind(file);
	CHECK(ungetc('!', file) == '!' && getc(file) == '!');
	while ((c = getc_unlocked(file)) != EOF)
		sum += (size_t)c;
	CHECK(sum > 1000000);
	flockfile(file);
	CHECK(!ftrylockfile(file));
	funlockfile(file);
	funlockfile(file);
	CHECK(freopen(path, "w+", file));
	CHECK(fputwc(L'w', file) == L'w' && fputws(L"ide\n", file) >= 0);
	rewind(file);
	CHECK(fgetws(wide, 32, file) && !wcscmp(wide, L"wide\n") && fgetwc(file) == WEOF);
	want0("name=fopen n=1 path=%s object=%d", path, fileno(file));
	want0("name=fsync n=1 path=%s object=%d", path, fileno(file));
	want0("name=fflush n=1 path=%s object=%d error=0", path, fileno(file));
	want0("name=freopen n=1 path=%s", path);
	want0("name=fgetc n=0 error=2");
	CHECK(fputc('x', file) == 'x' && !fclose(file)); /* closing writes */
	want0("name=fclose n=1 path=%s", path);
	file = open_memstream(&grown, &room);
	CHECK(file && fputs("memory", file) >= 0 && !fclose(file) && !strcmp(grown, "memory"));
	file = fmemopen(line, sizeof(line), "r");
	CHECK(file && fgetc(file) != EOF && !fclose(file));
	file = fopen("/dev/full", "w");
	CHECK(file && fputs("x", file) >= 0 && fflush(file) == EOF && errno == ENOSPC);
	CHECK(fclose(file) == 0 || errno == ENOSPC);
	CHECK(!fflush(NULL));
	CHECK(!unlink(path));
}

static void interrupted(int sig)
{
	(void)sig;
}

static void *interrupt(void *thread)
{
	until_asleep(getpid(), getpid());
	CHECK(!pthread_kill(*(pthread_t *)thread, SIGUSR1));
	return NULL;
}

/* A stream that fails, after waiting. */
static void stream_errors(void)
{
	struct sigaction action = {.sa_handler = interrupted};
	pthread_t thread, self = pthread_self();
	FILE *file;
	int p[2];

	CHECK(!pipe(p) && !sigaction(SIGUSR1, &action, NULL));
	file = fdopen(p[0], "r");
	CHECK(file && !pthread_create(&thread, NULL, interrupt, &self));
	CHECK(fgetc(file) == EOF && errno == EINTR && ferror(file));
	CHECK(!pthread_join(thread, NULL));
	want("name=fgetc n=1 error=%d result=-1 path=pipe:* object=%d", EINTR, p[0]);
}

/* One inode serves all anonymous files: each descriptor must be asked. */
static void anonymous(void)
{
	struct itimerspec it = {.it_value.tv_nsec = 3000000};
	uint64_t n = 1;

	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		int fds[2];

		fds[0] = fds[1] = eventfd(0, 0);
		CHECK(!pthread_create(&thread, NULL, add_late, fds));
		CHECK(read(fds[0], &n, 8) == 8);
		CHECK(!pthread_join(thread, NULL));
		close(fds[0]);
		CHECK(timerfd_create(CLOCK_MONOTONIC, 0) == fds[0]);
		CHECK(!timerfd_settime(fds[0], 0, &it, NULL));
		CHECK(read(fds[0], &n, 8) == 8);
		close(fds[0]);
	}
	want("name=read n=3 path=anon_inode:[eventfd]");
	want("name=read n=3 path=anon_inode:[timerfd]");
}

static void copies(void)
{
	char *data = calloc(1, 1 << 20);
	int from = open(in_folder("from"), O_CREAT | O_RDWR, 0600),
	    to = open(in_folder("to"), O_CREAT | O_RDWR, 0600), p[2];
	off_t at = 0;
	off64_t in_at = 0, out_at = 0;
	ssize_t n;

	CHECK(write(from, data, 1 << 20) == 1 << 20);
	CHECK(sendfile(to, from, &at, 1 << 20) == 1 << 20 && at == 1 << 20);
	n = copy_file_range(from, &in_at, to, &out_at, 1 << 20, 0);
	CHECK(n > 0 ? in_at == n && out_at == n
		    : errno == EXDEV || errno == EINVAL || errno == ENOSYS);
	CHECK(!pipe(p));
	in_at = 0;
	CHECK(splice(from, &in_at, p[1], NULL, 4096, 0) == 4096);
	CHECK(pread(from, data, 1 << 20, 0) == 1 << 20 && pwrite(to, data, 1 << 20, 5) == 1 << 20);
	CHECK(!flock(from, LOCK_EX) && !fdatasync(to) && !fallocate(to, 0, 0, 1 << 20));
	want("name=sendfile n=1 result=%d path=%s", 1 << 20, in_folder("from"));
	want("name=pwrite n=1 result=%d path=%s", 1 << 20, in_folder("to"));
	want0("name=fdatasync n=1 path=%s", in_folder("to"));
	CHECK(!unlink(in_folder("from")) && !unlink(in_folder("to")));
	free(data);
}

static void close_everything(void)
{
	char *data = calloc(1, 1 << 20);
	int fd;

	for (int i = 3; i < 1024; i++)
		close(i);
	CHECK((fd = open(in_folder("after"), O_CREAT | O_RDWR, 0600)) == 3);
	CHECK(write(fd, data, 1 << 20) == 1 << 20);
	want("name=write n=1 object=3 path=%s", in_folder("after"));
	fflush(stdout);
	close(0);
	close(2);
	usleep(1000);
	want("name=usleep n=1");
	CHECK(!unlink(in_folder("after")));
}

/* Which may not look whether the other sleeps. */
static void *write_in_sandbox(void *fd)
{
	usleep(50000);
	CHECK(write(*(int *)fd, "x", 1) == 1);
	return NULL;
}

/* A program that forbids itself what finding paths takes is not killed by our finding them. */
static void sandbox(void)
{
#define DENY(nr)                                       \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		DENY(SYS_statx),
		DENY(SYS_fstat),
		DENY(SYS_readlinkat),
		DENY(SYS_openat),
		DENY(SYS_sigaltstack),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
	int fd = open("/dev/zero", O_RDONLY), p[2];
	char *data = malloc(1 << 20);
	FILE *file = fopen("/dev/zero", "r");
	pthread_t thread;
	char letter;

	CHECK(!pipe(p));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		printf("no seccomp here\n");
		return;
	}
	CHECK(read(fd, data, 1 << 20) == 1 << 20);
	CHECK(!pthread_create(&thread, NULL, write_in_sandbox, &p[1]));
	CHECK(read(p[0], &letter, 1) == 1);
	CHECK(!pthread_join(thread, NULL));
	CHECK(fread(data, 1, 1 << 16, file) == 1 << 16 && !fclose(file));
	want("name=read object=%d result=%d n=1", fd, 1 << 20);
	want("name=read object=%d result=1 n=1", p[0]);
}

/* In the strict mode a thread may read, write and exit, and not even look at the clock. */
static void strict(void)
{
	char *data = malloc(1 << 20);
	int fd = open("/dev/zero", O_RDONLY), status;
	pid_t child;

	CHECK(read(fd, data, 1 << 20) == 1 << 20);
	want("name=read object=%d pid=%d n=1", fd, (int)getpid());
	fflush(stdout);
	child = fork();
	if (!child) {
		CHECK(read(fd, data, 1 << 20) == 1 << 20);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			_exit(7);
		syscall(SYS_exit,
			read(fd, data, 1 << 20) == 1 << 20 && write(1, "", 0) == 0 ? 7 : 8);
	}
	want("name=read object=%d pid=%d n=1", fd, (int)child);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* As programs do that look functions up by name, and read the loader's last message. */
static void looked_up(void)
{
	ssize_t (*by_default)(int, void *, size_t) =
		(ssize_t(*)(int, void *, size_t))dlsym(RTLD_DEFAULT, "read");
	int (*sleep_by_next)(useconds_t) = (int (*)(useconds_t))dlsym(RTLD_NEXT, "usleep");
	int fd = open("/dev/zero", O_RDONLY);
	char *data = malloc(1 << 20);
	const char *message;

	CHECK(by_default && sleep_by_next);
	CHECK(!dlsym(RTLD_DEFAULT, "no_such_function_anywhere"));
	CHECK(by_default(fd, data, 1 << 20) == 1 << 20);
	CHECK(!sleep_by_next(1000));
	epoll_pwait2(-1, NULL, 0, NULL, NULL);
	message = dlerror();
	CHECK(message && strstr(message, "no_such_function_anywhere"));
	want("name=read n=1 result=%d path=/dev/zero", 1 << 20);
	want("name=usleep n=1");
}

static const struct scenario scenarios[] = {
	{"reused-descriptors", reused_descriptors},
	{"long-paths", long_paths},
	{"waiting", waiting},
	{"variadic", variadic},
	{"error-numbers", error_numbers},
	{"streams", streams},
	{"stream-errors", stream_errors},
	{"anonymous", anonymous},
	{"copies", copies},
	{"close-everything", close_everything},
	{"sandbox", sandbox},
	{"strict", strict},
	{"looked-up", looked_up},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
