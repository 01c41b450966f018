/*
 * badexec.c - exec and its relatives with arguments that the kernel, or the C library, refuses:
 * what each returns is printed, and how a child ended that called it. The output must be the same
 * whoever looks on.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *nowhere;	    /* nothing is mapped there */
static char *cut_text;	    /* a text that runs into a page that is not there */
static char **cut_list;	    /* a list that does */
static char *bad_list[2];   /* a list with a bad text */
static char *mixed_list[3]; /* and with a good one before it */
static char *cut_texts[2];
static char *good_argv[] = {"true", NULL};
static char **volatile no_list; /* NULL, which the compiler would see */
static char *volatile no_text;
static char program[] = "/bin/true";

/* A page with another behind it in which there is nothing. */
static char *map_last_page(size_t page)
{
	char *memory =
		mmap(NULL, page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || munmap(memory + page, page))
		exit(1);
	return memory;
}

static void make_bad_memory(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = page / sizeof(char *) / 2;

	cut_text = map_last_page(page) + page - 7;
	memset(cut_text, 'x', 7);
	nowhere = cut_text + 7;
	cut_list = (char **)(void *)map_last_page(page) + count;
	for (size_t i = 0; i < count; i++)
		cut_list[i] = program;
	cut_texts[0] = cut_text;
	bad_list[0] = nowhere;
	mixed_list[0] = program;
	mixed_list[1] = nowhere;
}

static void print_end(const char *what, int status)
{
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", what, WTERMSIG(status));
	else
		printf("%s: exit %d\n", what, WEXITSTATUS(status));
	fflush(stdout);
}

/* A call that may succeed or crash, in a child: its exit status is the errno. */
#define IN_CHILD(call)                        \
	do {                                  \
		pid_t child_ = fork();        \
		int status_ = 0;              \
		if (!child_) {                \
			errno = 0;            \
			(void)!(call);        \
			_exit(errno);         \
		}                             \
		waitpid(child_, &status_, 0); \
		print_end(#call, status_);    \
	} while (0)

/* posix_spawn and its relative: what it returns, and how the child ended. */
#define SPAWN(call)                                      \
	do {                                             \
		pid_t pid = -1;                          \
		int r_ = call, status_ = 0;              \
		printf("%s: returns %d\n", #call, r_);   \
		if (!r_ && waitpid(-1, &status_, 0) > 0) \
			print_end(#call, status_);       \
		fflush(stdout);                          \
	} while (0)

static void try_exec(void)
{
	IN_CHILD(execve(nowhere, good_argv, environ));
	IN_CHILD(execve(no_text, good_argv, environ));
	IN_CHILD(execve((char *)(uintptr_t)0xdead000000000000, good_argv, environ));
	IN_CHILD(execve(cut_text, good_argv, environ));
	IN_CHILD(execve(program, (char **)(void *)nowhere, environ));
	IN_CHILD(execve(program, bad_list, environ));
	IN_CHILD(execve(program, cut_list, environ));
	IN_CHILD(execve(program, no_list, environ));
	IN_CHILD(execve(program, good_argv, (char **)(void *)nowhere));
	IN_CHILD(execve(program, good_argv, bad_list));
	IN_CHILD(execve(program, good_argv, mixed_list));
	IN_CHILD(execve(program, good_argv, cut_list));
	IN_CHILD(execve(program, good_argv, cut_texts));
	IN_CHILD(execve(program, good_argv, (char **)(void *)((char *)mixed_list + 1)));
	IN_CHILD(execve(program, good_argv, no_list));
	IN_CHILD(execve(program, no_list, no_list));
	IN_CHILD(execve("", good_argv, environ));
	IN_CHILD(execv(nowhere, good_argv));
	IN_CHILD(execl(nowhere, "x", (char *)NULL));
	IN_CHILD(execvp(nowhere, good_argv));
	IN_CHILD(execvp("true", bad_list));
	IN_CHILD(execvpe("true", good_argv, bad_list));
	IN_CHILD(execvpe("true", good_argv, no_list));
	IN_CHILD(fexecve(-1, good_argv, environ));
	IN_CHILD(fexecve(open(program, O_RDONLY), no_list, environ));
	IN_CHILD(fexecve(open(program, O_RDONLY), good_argv, no_list));
	IN_CHILD(fexecve(open(program, O_RDONLY), good_argv, bad_list));
	IN_CHILD(fexecve(open(program, O_RDONLY), bad_list, environ));
	IN_CHILD(execveat(AT_FDCWD, nowhere, good_argv, environ, 0));
	IN_CHILD(execveat(AT_FDCWD, no_text, good_argv, environ, AT_EMPTY_PATH));
	IN_CHILD(execveat(-5, program, good_argv, bad_list, 0));
}

static void try_spawn(void)
{
	SPAWN(posix_spawn(&pid, nowhere, NULL, NULL, good_argv, environ));
	SPAWN(posix_spawn(&pid, no_text, NULL, NULL, good_argv, environ));
	SPAWN(posix_spawn(&pid, cut_text, NULL, NULL, good_argv, environ));
	SPAWN(posix_spawn(&pid, program, NULL, NULL, bad_list, environ));
	IN_CHILD(posix_spawn(NULL, program, NULL, NULL, no_list, environ));
	SPAWN(posix_spawn(&pid, program, NULL, NULL, good_argv, bad_list));
	SPAWN(posix_spawn(&pid, program, NULL, NULL, good_argv, cut_list));
	SPAWN(posix_spawn(&pid, program, NULL, NULL, good_argv, no_list));
	IN_CHILD(posix_spawn(NULL, program, NULL, NULL, good_argv, environ));
	SPAWN(posix_spawn(&pid, "/no/such/program", NULL, NULL, good_argv, environ));
	SPAWN(posix_spawnp(&pid, nowhere, NULL, NULL, good_argv, environ));
	SPAWN(posix_spawnp(&pid, "true", NULL, NULL, good_argv, bad_list));
	SPAWN(posix_spawnp(&pid, "", NULL, NULL, good_argv, environ));
	IN_CHILD(posix_spawn((pid_t *)(void *)nowhere, program, NULL, NULL, good_argv, environ));
	IN_CHILD(posix_spawn(NULL, program, (void *)nowhere, NULL, good_argv, environ));
}

/* system and popen hand on `environ`, which is the program's to spoil. */
static void try_shell(void)
{
	char **own = environ;
	FILE *file;

	environ = bad_list;
	printf("system: %d\n", system("exit 3"));
	file = popen("exit 4", "r");
	environ = own;
	if (file)
		printf("popen: %d\n", pclose(file));
	else
		printf("popen: errno %d\n", errno);
	printf("popen of a bad kind: %d\n", popen("true", "?") == NULL && errno == EINVAL);
}

int main(void)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	make_bad_memory();
	try_exec();
	try_spawn();
	try_shell();
	return 0;
}
