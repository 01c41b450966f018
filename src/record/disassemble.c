/* disassemble.c - see disassemble.h. */
#include "record/disassemble.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"

enum { SECONDS_MOST = 20, LINE_MOST = 1 << 16, NAME_ROOM = 4096, COMPLAINT_ROOM = 200 };
#define OUTPUT_MOST (UINT64_C(256) << 20)
#define MEMORY_MOST (UINT64_C(4) << 30)

/* ---- finding it ---- */

static char *try_folder(const char *folder, size_t length, const char *below)
{
	char *path = ws_format("%.*s%s/nvdisasm", (int)length, folder, below);

	if (length && !access(path, X_OK))
		return path;
	free(path);
	return NULL;
}

static char *search_path(const char *folders)
{
	char *found = NULL;

	for (size_t n; folders && *folders && !found; folders += n + (folders[n] != 0)) {
		n = strcspn(folders, ":");
		found = try_folder(folders, n, "");
	}
	return found;
}

char *ws_find_disassembler(void)
{
	const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
	char *found = search_path(getenv("PATH"));

	for (size_t i = 0; i < WS_COUNT(homes) && !found; i++)
		if (homes[i])
			found = try_folder(homes[i], strlen(homes[i]), "/bin");
	return found;
}

/* ---- its output ---- */

/* "\t.section\t.text.NAME,..." begins a function. "\t.sectionflags\t..." and "\t.sectioninfo\t...",
 * which the code of some compilers has, follow within it. */
static bool read_section(char *function, const char *line)
{
	static const char word[] = ".section";
	const char *at = line + strspn(line, " \t");
	size_t n;

	if (strncmp(at, word, strlen(word)))
		return false;
	at += strlen(word);
	if (*at != ' ' && *at != '\t')
		return true;
	at += strspn(at, " \t");
	*function = 0;
	if (strncmp(at, ".text.", 6))
		return true;
	at += 6;
	n = strcspn(at, ", \t\n");
	if (n < NAME_ROOM) {
		memcpy(function, at, n);
		function[n] = 0;
	}
	return true;
}

void ws_read_disassembly(char *function, const char *line, ws_instruction_fn found, void *context)
{
	char text[1024];
	const char *at = line + strspn(line, " \t");
	char *end;
	uint64_t pc;
	size_t n;

	if (read_section(function, line) || !*function || strncmp(at, "/*", 2))
		return;
	pc = strtoull(at + 2, &end, 16);
	if (end == at + 2 || strncmp(end, "*/", 2))
		return;
	at = end + 2 + strspn(end + 2, " \t{");
	n = strcspn(at, ";\n");
	while (n && isspace((unsigned char)at[n - 1]))
		n--;
	if (!n || n >= sizeof(text) || *at == '/')
		return;
	memcpy(text, at, n);
	text[n] = 0;
	found(context, function, pc, text);
}

struct output {
	char function[NAME_ROOM], line[LINE_MOST];
	char complaint[COMPLAINT_ROOM]; /* the beginning of what it printed as errors */
	size_t complaint_length;
	size_t length;
	uint64_t bytes;
	ws_instruction_fn found;
	void *context;
};

static void take_output(struct output *output, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != '\n') {
			if (output->length < LINE_MOST - 1)
				output->line[output->length++] = bytes[i];
			continue;
		}
		output->line[output->length] = 0;
		output->length = 0;
		ws_read_disassembly(output->function, output->line, output->found, output->context);
	}
	output->bytes += count;
}

static void take_errors(struct output *output, const char *bytes, size_t count)
{
	size_t n = ws_min(count, COMPLAINT_ROOM - 1 - output->complaint_length);

	memcpy(output->complaint + output->complaint_length, bytes, n);
	output->complaint_length += n;
	output->bytes += count;
}

/* ---- running it ---- */

/* In the new process: only functions that are safe after a fork. */
static _Noreturn void become_disassembler(char *arguments[], int out, int errors)
{
	char *environment[] = {NULL};
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS_MOST, SECONDS_MOST});
	setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY_MOST, MEMORY_MOST});
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
		_exit(127);
	execve(arguments[0], arguments, environment);
	_exit(127);
}

static int64_t read_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What there is to read; false at the end. */
static bool read_some(int fd, struct output *output,
		      void (*take)(struct output *, const char *, size_t))
{
	char bytes[1 << 16];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n > 0)
		take(output, bytes, (size_t)n);
	return n > 0 || (n < 0 && errno == EINTR);
}

/* Read until the end; false when it takes too long or prints too much. */
static bool read_output(int out, int errors, struct output *output)
{
	int64_t end = read_clock_ms() + 2 * SECONDS_MOST * 1000, left;
	struct pollfd wait[] = {{out, POLLIN, 0}, {errors, POLLIN, 0}};

	while ((left = end - read_clock_ms()) > 0 && output->bytes < OUTPUT_MOST) {
		if (poll(wait, WS_COUNT(wait), (int)left) <= 0)
			continue;
		if (wait[1].revents && !read_some(errors, output, take_errors))
			wait[1].fd = -1;
		if (wait[0].revents && !read_some(out, output, take_output))
			wait[0].fd = -1;
		if (wait[0].fd < 0 && wait[1].fd < 0)
			return true;
	}
	return false;
}

/* Its first line of errors, or else how it ended; NULL when it ended well. */
static char *explain(const struct output *output, bool whole, int status)
{
	const char *text = output->complaint + strspn(output->complaint, " \t\n");

	if (whole && WIFEXITED(status) && !WEXITSTATUS(status))
		return NULL;
	if (*text)
		return ws_format("nvdisasm says: %.*s", (int)strcspn(text, "\n"), text);
	if (!whole)
		return ws_strdup("nvdisasm took too long or printed too much");
	if (WIFEXITED(status))
		return ws_format("nvdisasm ended with status %d", WEXITSTATUS(status));
	return ws_format("nvdisasm was ended by signal %d", WTERMSIG(status));
}

static void close_both(const int *pipes)
{
	close(pipes[0]);
	close(pipes[1]);
}

char *ws_disassemble(const char *program, const char *cubin, uint32_t symbol,
		     ws_instruction_fn found, void *context)
{
	char number[16], *why = NULL;
	char *arguments[] = {(char *)program, (char *)"-c",
			     (char *)cubin,   symbol ? (char *)"-fun" : NULL,
			     number,	      NULL};
	struct output *output;
	int out[2], errors[2], status = -1;
	bool whole = false;
	pid_t pid;

	snprintf(number, sizeof(number), "%u", symbol);
	if (pipe2(out, O_CLOEXEC))
		return ws_strdup(strerror(errno));
	if (pipe2(errors, O_CLOEXEC)) {
		close_both(out);
		return ws_strdup(strerror(errno));
	}
	output = ws_calloc(1, sizeof(*output));
	output->found = found;
	output->context = context;
	pid = fork();
	if (!pid)
		become_disassembler(arguments, out[1], errors[1]);
	close(out[1]);
	close(errors[1]);
	if (pid > 0)
		whole = read_output(out[0], errors[0], output);
	close(out[0]);
	close(errors[0]);
	if (pid > 0 && !whole)
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	why = pid > 0 ? explain(output, whole, status) : ws_strdup("it could not be started");
	free(output);
	return why;
}
