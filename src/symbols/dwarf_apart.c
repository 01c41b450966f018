/*
 * dwarf_apart.c - see dwarf_apart.h. The reader writes its results into a pipe: for each address a
 * head and its calls with their texts, and a final head at the end. Its output is checked, since
 * the file that it reads may have crashed the reader or taken it over.
 */
#include "symbols/dwarf_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

enum {
	MOST_CALLS = 64, /* more than ws_dwarf_find reports at an address */
	MOST_TEXT = 1 << 20,
	STARVED = 3 /* exit status of a reader that found no memory */
};

struct find_head {
	uint64_t index; /* of the address; END: there are no more */
	uint64_t units; /* at the end: of struct ws_dwarf_missing */
	uint32_t count; /* of calls; at the end: 1 when information was read */
	uint32_t file;	/* at the end: bytes of the name of a missing file, 0 for none */
	uint64_t unoptimised, optimised; /* at the end: of struct ws_dwarf_missing */
};
#define END UINT64_MAX

struct call_head {
	uint64_t begin;
	uint32_t line, inlined;
	uint32_t name, file; /* bytes of the texts that follow, with their NUL; 0: none */
};

/* ---- the reader ---- */

static void end_starved(void)
{
	_exit(STARVED);
}

static uint32_t count_text_bytes(const char *text)
{
	if (!text)
		return 0;
	return (uint32_t)ws_min(strlen(text), (size_t)MOST_TEXT - 1) + 1;
}

static void send_text(FILE *pipe, const char *text, uint32_t bytes)
{
	if (!bytes)
		return;
	fwrite(text, 1, bytes - 1, pipe);
	fputc(0, pipe);
}

static void send_calls(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t count)
{
	const struct find_head head = {.index = i,
				       .count = (uint32_t)ws_min(count, (size_t)MOST_CALLS)};

	fwrite(&head, sizeof(head), 1, ctx);
	for (uint32_t n = 0; n < head.count; n++) {
		const struct call_head call = {.begin = calls[n].begin,
					       .line = calls[n].line,
					       .inlined = calls[n].inlined,
					       .name = count_text_bytes(calls[n].name),
					       .file = count_text_bytes(calls[n].file)};

		fwrite(&call, sizeof(call), 1, ctx);
		send_text(ctx, calls[n].name, call.name);
		send_text(ctx, calls[n].file, call.file);
	}
}

/* Messages of the C library or libdw about a damaged file are not meant for the user. */
static void be_quiet(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dup2(fd, STDERR_FILENO);
	close(fd);
}

/* The signal handlers, clean-up lists and limits of this process belong to its parent: a reader
 * removes nothing, passes nothing on, leaves no core and ends with its parent. */
static void become_reader(pid_t parent, double limit_s)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
	const rlim_t seconds = (rlim_t)limit_s + 1;

	for (size_t i = 0; i < WS_COUNT(ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	ws_out_of_memory = end_starved;
	be_quiet();
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	if (limit_s > 0) {
		signal(SIGXCPU, SIG_DFL);
		setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

_Noreturn static void read_and_send(const struct ws_elf *elf, struct ws_dwarf_query query, int fd)
{
	struct ws_dwarf_missing missing = {0};
	struct find_head end = {.index = END};
	FILE *pipe = fdopen(fd, "w");

	if (!pipe)
		_exit(STARVED);
	query.found = send_calls;
	query.ctx = pipe;
	end.count = !ws_dwarf_find(elf, &query, &missing, NULL);
	end.units = missing.units;
	end.unoptimised = missing.unoptimised;
	end.optimised = missing.optimised;
	end.file = count_text_bytes(missing.file);
	fwrite(&end, sizeof(end), 1, pipe);
	send_text(pipe, missing.file, end.file);
	_exit(fclose(pipe) != 0);
}

/* ---- its parent ---- */

/* False at the end of the pipe or at an error. Signals interrupt reading: SIGCHLD comes when
 * another reader ends. */
static bool receive_bytes(FILE *pipe, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		done += fread((char *)to + done, 1, bytes - done, pipe);
		if (done < bytes && (!ferror(pipe) || errno != EINTR))
			return false;
		clearerr(pipe);
	}
	return true;
}

/* A text of so many bytes, in a buffer that lives until the next call for it; NULL in *text for
 * none. */
static bool receive_text(FILE *pipe, uint32_t bytes, struct ws_text *buffer, const char **text)
{
	*text = NULL;
	if (!bytes)
		return true;
	if (bytes > MOST_TEXT)
		return false;
	ws_grow(buffer->text, buffer->cap, bytes);
	if (!receive_bytes(pipe, buffer->text, bytes) || buffer->text[bytes - 1])
		return false;
	*text = buffer->text;
	return true;
}

struct receiver {
	FILE *pipe;
	const struct ws_dwarf_query *query;
	bool ended; /* all has come */
	bool *seen; /* by address: each comes once */
	struct ws_text texts[2 * MOST_CALLS];
};

static bool receive_call(struct receiver *receiver, size_t n, struct ws_dwarf_call *call)
{
	struct call_head head;

	if (!receive_bytes(receiver->pipe, &head, sizeof(head)))
		return false;
	*call = (struct ws_dwarf_call){
		.begin = head.begin, .line = head.line, .inlined = head.inlined != 0};
	return receive_text(receiver->pipe, head.name, &receiver->texts[2 * n], &call->name) &&
	       receive_text(receiver->pipe, head.file, &receiver->texts[2 * n + 1], &call->file);
}

static bool receive_find(struct receiver *receiver, const struct find_head *head)
{
	struct ws_dwarf_call calls[MOST_CALLS];

	if (head->index >= receiver->query->count || receiver->seen[head->index] || !head->count ||
	    head->count > MOST_CALLS)
		return false;
	receiver->seen[head->index] = true;
	for (uint32_t n = 0; n < head->count; n++)
		if (!receive_call(receiver, n, &calls[n]))
			return false;
	receiver->query->found(receiver->query->ctx, head->index, calls, head->count);
	return true;
}

/* 0 or -1 as the reader's ws_dwarf_find; -1 too when it ended before that. */
static int receive_all(struct receiver *receiver, struct ws_dwarf_missing *missing)
{
	struct find_head head;
	const char *file;

	while (receive_bytes(receiver->pipe, &head, sizeof(head))) {
		if (head.index != END) {
			if (!receive_find(receiver, &head))
				return -1;
			continue;
		}
		if (!receive_text(receiver->pipe, head.file, &receiver->texts[0], &file))
			return -1;
		missing->units = head.units;
		missing->unoptimised = head.unoptimised;
		missing->optimised = head.optimised;
		if (file)
			missing->file = ws_strdup(file);
		receiver->ended = true;
		return -!head.count;
	}
	return -1;
}

static double to_seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void wait_for_reader(pid_t pid, struct ws_dwarf_reader *reader)
{
	struct rusage usage = {0};
	int status = 0;
	pid_t got;

	while ((got = wait4(pid, &status, 0, &usage)) < 0 && errno == EINTR)
		;
	if (got != pid)
		return;
	reader->spent_s = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
	if (WIFSIGNALED(status))
		reader->signal = WTERMSIG(status);
	reader->starved = WIFEXITED(status) && WEXITSTATUS(status) == STARVED;
}

int ws_dwarf_receive(int fd, const struct ws_dwarf_query *query, struct ws_dwarf_missing *missing,
		     struct ws_dwarf_reader *reader)
{
	struct receiver *receiver = ws_calloc(1, sizeof(*receiver));
	int rc = -1;

	receiver->query = query;
	receiver->seen = ws_calloc(query->count, sizeof(*receiver->seen));
	receiver->pipe = fdopen(fd, "r");
	if (receiver->pipe) {
		rc = receive_all(receiver, missing);
		fclose(receiver->pipe);
	} else {
		close(fd);
	}
	reader->cut = !receiver->ended;
	for (size_t i = 0; i < WS_COUNT(receiver->texts); i++)
		free(receiver->texts[i].text);
	free(receiver->seen);
	free(receiver);
	return rc;
}

/* ---- readers under way ---- */

struct ws_dwarf_apart {
	struct ws_dwarf_query query;
	struct ws_dwarf_missing missing; /* set when this process has read by itself */
	struct ws_dwarf_reader *reader;
	pid_t pid;		     /* of the reader; 0: there is none */
	int fd, rc;		     /* its pipe; the result without a reader */
	struct ws_dwarf_apart *next; /* of those that are under way */
};

static struct ws_dwarf_apart *under_way; /* used by the thread that looks up symbols */

/* A pipe whose reading end another process holds does not break when this one closes it: its writer
 * would wait for ever. */
static void close_other_pipes(void)
{
	for (const struct ws_dwarf_apart *other = under_way; other; other = other->next)
		close(other->fd);
}

static void read_here(struct ws_dwarf_apart *apart, const struct ws_elf *elf)
{
	apart->rc = ws_dwarf_find(elf, &apart->query, &apart->missing, NULL);
}

struct ws_dwarf_apart *ws_dwarf_start_apart(const struct ws_elf *elf,
					    const struct ws_dwarf_query *query,
					    struct ws_dwarf_reader *reader)
{
	struct ws_dwarf_apart *apart = ws_calloc(1, sizeof(*apart));
	pid_t parent = getpid(), pid;
	int ends[2], error;

	*apart = (struct ws_dwarf_apart){.query = *query, .reader = reader, .rc = -1};
	if (pipe2(ends, O_CLOEXEC)) {
		read_here(apart, elf);
		return apart;
	}
	pid = fork();
	if (!pid) {
		become_reader(parent, reader->limit_s);
		close_other_pipes();
		close(ends[0]);
		read_and_send(elf, *query, ends[1]);
	}
	error = errno;
	close(ends[1]);
	if (pid > 0) {
		apart->pid = pid;
		apart->fd = ends[0];
		apart->next = under_way;
		under_way = apart;
		return apart;
	}
	close(ends[0]);
	reader->starved = error == ENOMEM;
	if (!reader->starved)
		read_here(apart, elf);
	return apart;
}

int ws_dwarf_finish_apart(struct ws_dwarf_apart *apart, struct ws_dwarf_missing *missing)
{
	struct ws_dwarf_apart **at = &under_way;
	int rc = apart->rc;

	*missing = apart->missing;
	if (apart->pid) {
		while (*at != apart)
			at = &(*at)->next;
		*at = apart->next;
		rc = ws_dwarf_receive(apart->fd, &apart->query, missing, apart->reader);
		wait_for_reader(apart->pid, apart->reader);
	}
	free(apart);
	return rc;
}
