/*
 * limits.c - programs that live within limits, one case each: limits CASE.
 *
 *   space   500,000 KiB of address space, of which 400,000 are allocated while calls are traced
 *   later   calls first; then a limit of 64 MiB beyond what is there, of which 56 are allocated
 *   lock    all memory is locked, present and future; under a limit of at most 64 MiB as another
 *           user, if we are root
 *   stalled the limit of space, and calls while the parent, which must be the recorder, is stopped
 *   files   no file may be larger than a page, no further descriptor be opened
 *   grown   the mapping of the recording is larger than its hooks know, as when the thread that
 *           grows it loses the processor; calls while the parent is stopped
 *   outlive PID  commands and a changing environment when the recorder PID has gone
 *   sockets a shell in a user namespace, under a filter that kills who makes a socket
 *   crowd   300,000 KiB of address space and 600 threads that make calls at once
 *
 * Prints what a program can tell without us: the same with and without a recording.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024ul * KIB)

/* The number that /proc/self/status gives for `name`, in bytes. */
static unsigned long read_status(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long value = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = strtoul(line + strlen(name), NULL, 10) * KIB;
	if (file)
		fclose(file);
	return value;
}

static void make_calls(int calls)
{
	char byte;
	int fd = open("/dev/null", O_RDONLY);

	for (int i = 0; i < calls; i++)
		if (read(fd, &byte, 1))
			abort();
	close(fd);
}

static void set_limit(int which, unsigned long bytes)
{
	struct rlimit limit;

	getrlimit(which, &limit);
	if (limit.rlim_max > bytes)
		limit.rlim_max = bytes;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(which, &limit))
		perror("setrlimit");
}

/* Pieces of a MiB that can be had, up to `most`, with calls between them. */
static int allocate(int most)
{
	int got = 0;

	while (got < most && malloc(MIB - 64 * KIB)) {
		make_calls(100);
		got++;
	}
	return got;
}

static int run_lock(void)
{
	set_limit(RLIMIT_MEMLOCK, 64 * MIB);
	if (!geteuid() && setresuid(65534, 65534, 65534))
		return 1;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		printf("mlockall: %s\n", strerror(errno));
	make_calls(200000);
	printf("locked less than 32 MiB: %d\n", read_status("VmLck:") < 32 * MIB);
	printf("pieces locked too: %d\n", allocate(2));
	return 0;
}

static int run_stalled(void)
{
	set_limit(RLIMIT_AS, 500000 * KIB);
	kill(getppid(), SIGSTOP);
	make_calls(400000);
	kill(getppid(), SIGCONT);
	return 0;
}

static int run_files(void)
{
	set_limit(RLIMIT_FSIZE, 4096);
	set_limit(RLIMIT_NOFILE, 4);
	make_calls(400000);
	return 0;
}

static int run_grown(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned long from = 0, end;
	char line[512];

	while (file && !from && fgets(line, sizeof(line), file))
		if ((!strstr(line, "/warpsight-") && !strstr(line, ":warpsight-")) ||
		    sscanf(line, "%lx-%lx", &from, &end) != 2)
			from = 0;
	if (file)
		fclose(file);
	if (!from || mremap((void *)from, end - from, end - from + MIB, 0) != (void *)from)
		return 1;
	kill(getppid(), SIGSTOP);
	make_calls(400000);
	kill(getppid(), SIGCONT);
	return 0;
}

static int run_outlive(pid_t recorder)
{
	unsigned long before = 0;
	char text[32];

	while (!kill(recorder, 0))
		usleep(20000);
	for (int i = 0; i < 240; i++) {
		if (i == 40)
			before = read_status("VmSize:");
		snprintf(text, sizeof(text), "%d", i);
		if (setenv("STEP", text, 1) || system(":"))
			return 1;
	}
	printf("grew by less than 512 KiB: %d\n", read_status("VmSize:") < before + 512 * KIB);
	return 0;
}

/* Returns only when it cannot be tried here. */
static int run_sockets(void)
{
	struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						offsetof(struct seccomp_data, nr)),
				       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
				       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
				       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	if (unshare(CLONE_NEWUSER) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 77;
	execl("/bin/sh", "sh", "-c", "echo under a filter; exit 5", (char *)NULL);
	return 77;
}

#define CROWD 600

static pthread_barrier_t crowd;

static void *make_calls_together(void *arg)
{
	pthread_barrier_wait(&crowd);
	make_calls(3);
	pthread_barrier_wait(&crowd);
	return arg;
}

static int run_crowd(void)
{
	pthread_t thread[CROWD];
	pthread_attr_t attr;

	set_limit(RLIMIT_AS, 300000 * KIB);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * KIB);
	pthread_barrier_init(&crowd, NULL, CROWD);
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&thread[i], &attr, make_calls_together, NULL))
			_exit(1);
	for (int i = 0; i < CROWD; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "";
	int status = 2;

	if (!strcmp(which, "space")) {
		set_limit(RLIMIT_AS, 500000 * KIB);
		make_calls(200000);
		status = printf("allocated %d MiB\n", allocate(400)) < 0;
	} else if (!strcmp(which, "later")) {
		make_calls(200000);
		set_limit(RLIMIT_AS, read_status("VmSize:") + 64 * MIB);
		status = printf("allocated %d MiB\n", allocate(56)) < 0;
	} else if (!strcmp(which, "lock")) {
		status = run_lock();
	} else if (!strcmp(which, "stalled")) {
		status = run_stalled();
	} else if (!strcmp(which, "files")) {
		status = run_files();
	} else if (!strcmp(which, "outlive") && argc > 2) {
		status = run_outlive(atoi(argv[2]));
	} else if (!strcmp(which, "grown")) {
		status = run_grown();
	} else if (!strcmp(which, "sockets")) {
		status = run_sockets();
	} else if (!strcmp(which, "crowd")) {
		status = run_crowd();
	}
	printf("%s: %d\n", which, status);
	return status;
}
