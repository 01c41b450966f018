/*
 * record.c - see record.h.
 *
 * The program is this one again (child.h) with the arguments "profile ... -- COMMAND", and of the
 * page's request nothing goes into these but which of five fixed words are there. A thread reads
 * what it writes, of which the end is kept, waits for it, and adds its report to the page. The
 * command is in a process group of its own, so that Ctrl+C in the terminal reaches the server
 * alone, which then stops the command in order. A server that is killed stops it too (child.h).
 */
#include "serve/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "text/text.h"
#include "serve/child.h"
#include "serve/live.h"

enum { MOST_OUTPUT = 64 << 10, MOST_REPORTS = 100000, PATIENCE_MS = 10000 };

struct ws_recorder {
	struct ws_view *view;
	char **command;
	pthread_mutex_t lock;
	pthread_t watcher;
	bool watched; /* there is a thread to join */
	bool running;
	int leave[2]; /* a pipe: closed at its writing end, the watcher leaves the command to itself
		       */
	unsigned stops; /* asked for */
	pid_t pid;
	int out; /* reading end of its output */
	char *file;
	struct ws_text output; /* the end of it */
	uint64_t runs;
	int status; /* of wait */
	int report; /* its number; -1 for none */
	struct ws_err problem;
};

struct ws_recorder *ws_recorder_new(struct ws_view *view, char **command)
{
	struct ws_recorder *recorder = ws_calloc(1, sizeof(*recorder));

	recorder->view = view;
	recorder->command = command;
	recorder->report = -1;
	recorder->leave[0] = recorder->leave[1] = -1;
	pthread_mutex_init(&recorder->lock, NULL);
	return recorder;
}

/* ---- starting ---- */

static const char *const domains[] = {"nvtx", "cuda", "osrt", "python-gil"};

/* reportN.wsrep, new; profile refuses should another take it meanwhile. */
static char *new_name(void)
{
	for (int i = 1; i < MOST_REPORTS; i++) {
		char *name = ws_format("report%d.wsrep", i);

		if (access(name, F_OK) && errno == ENOENT)
			return name;
		free(name);
	}
	return NULL;
}

static bool is_on(const struct ws_params *params, const char *name)
{
	const char *text = params->get(params->ctx, name);

	return text && !strcmp(text, "1");
}

static char *trace_option(const struct ws_params *params)
{
	struct ws_text text = {0};

	ws_text_puts(&text, "--trace=");
	for (size_t i = 0; i < WS_COUNT(domains); i++)
		if (is_on(params, domains[i]))
			ws_text_printf(&text, "%s%s", text.text[text.len - 1] == '=' ? "" : ",",
				       domains[i]);
	if (text.text[text.len - 1] == '=')
		ws_text_puts(&text, "none");
	return text.text;
}

/* Ended by NULL. The caller frees them by free_arguments. */
static char **make_arguments(const struct ws_recorder *recorder, const struct ws_params *params)
{
	bool sample = is_on(params, "sample");
	size_t n = 0, k = 0;
	char **v;

	while (recorder->command[n])
		n++;
	v = ws_calloc(n + 8, sizeof(*v));
	v[k++] = (char *)"warpsight";
	v[k++] = (char *)"profile";
	v[k++] = trace_option(params);
	v[k++] = ws_format("--output=%s", recorder->file);
	v[k++] = (char *)(sample ? "--sample=process-tree" : "--sample=none");
	v[k++] = (char *)(sample ? "--cpuctxsw=process-tree" : "--cpuctxsw=none");
	v[k++] = (char *)"--";
	memcpy(v + k, recorder->command, n * sizeof(*v));
	return v;
}

static void free_arguments(char **v)
{
	free(v[2]);
	free(v[3]);
	free(v);
}

/* ---- watching ---- */

static void keep_line(struct ws_recorder *recorder, const char *bytes, size_t n)
{
	pthread_mutex_lock(&recorder->lock);
	ws_text_add(&recorder->output, bytes, n);
	if (recorder->output.len > 2 * MOST_OUTPUT) {
		memmove(recorder->output.text,
			recorder->output.text + recorder->output.len - MOST_OUTPUT, MOST_OUTPUT);
		recorder->output.len = MOST_OUTPUT;
		recorder->output.text[MOST_OUTPUT] = 0;
	}
	pthread_mutex_unlock(&recorder->lock);
}

/* Once it is waited for, its number may become another's: it is forgotten in the same moment. */
static bool has_ended(struct ws_recorder *recorder, int *status)
{
	bool ended;

	pthread_mutex_lock(&recorder->lock);
	ended = waitpid(recorder->pid, status, WNOHANG) == recorder->pid;
	if (ended)
		recorder->pid = 0;
	pthread_mutex_unlock(&recorder->lock);
	return ended;
}

/* Once there is something in it, the report is shown and grows on the page (live.c). */
static void show_growing(struct ws_recorder *recorder)
{
	struct ws_report *report = recorder->report < 0 && !access(recorder->file, F_OK)
					   ? ws_report_open_plain(recorder->file, NULL)
					   : NULL;
	struct ws_err err;
	int number;

	if (!report)
		return;
	if (!ws_report_is_live(report) || !ws_lanes_have_rows(report)) {
		ws_report_close(report);
		return;
	}
	number = ws_view_add(recorder->view, report, recorder->file, &err);
	pthread_mutex_lock(&recorder->lock);
	recorder->report = number;
	pthread_mutex_unlock(&recorder->lock);
}

/*
 * Until it has ended; its descendants may hold the pipe for longer. False when it is to be left to
 * itself.
 */
static bool read_output(struct ws_recorder *recorder, int *status)
{
	struct pollfd fds[] = {{.fd = recorder->out, .events = POLLIN}, {.fd = recorder->leave[0]}};
	bool ended = false;
	char bytes[4096];

	for (;;) {
		int got = poll(fds, 2, ended ? 0 : fds[0].fd < 0 ? 20 : 200);
		ssize_t n;

		if (got > 0 && fds[1].revents)
			return ended;
		if (got > 0 && fds[0].revents) {
			n = read(recorder->out, bytes, sizeof(bytes));
			if (n > 0)
				keep_line(recorder, bytes, (size_t)n);
			else if (!(n < 0 && errno == EINTR))
				fds[0].fd = -1;
			continue;
		}
		if (ended)
			return true;
		show_growing(recorder);
		ended = has_ended(recorder, status);
	}
}

static void wait_and_show(struct ws_recorder *recorder)
{
	struct ws_err err = {.msg = ""};
	struct ws_report *report;
	int status = 0, number = -1;

	if (read_output(recorder, &status)) {
		number = recorder->report;
		if (number >= 0)
			ws_live_look(recorder->view, (size_t)number);
		report = number < 0 ? ws_report_open_plain(recorder->file, &err) : NULL;
		if (report)
			number = ws_view_add(recorder->view, report, recorder->file, &err);
	}
	close(recorder->out);
	pthread_mutex_lock(&recorder->lock);
	recorder->status = status;
	recorder->report = number;
	recorder->problem = err;
	recorder->running = false;
	pthread_mutex_unlock(&recorder->lock);
}

/* What the thread is given, and answers once the command was started or was not. */
struct start {
	struct ws_recorder *recorder;
	char **argv;
	sem_t answered;
	int rc;
	struct ws_err *err;
};

/* The command is interrupted when the thread that started it ends: that is this one, which lasts
 * until the command's end or the server's, however that comes. */
static void *watch_recording(void *arg)
{
	struct start *start = arg;
	struct ws_recorder *recorder = start->recorder;
	int rc = ws_child_start(start->argv, WS_CHILD_INTERRUPTED, &recorder->pid, &recorder->out,
				start->err);

	start->rc = rc;
	sem_post(&start->answered); /* `start` is gone from here on */
	if (!rc)
		wait_and_show(recorder);
	return NULL;
}

static int start_watcher(struct ws_recorder *recorder, char **argv, struct ws_err *err)
{
	struct start start = {.recorder = recorder, .argv = argv, .err = err};

	sem_init(&start.answered, 0, 0);
	recorder->watched = !pthread_create(&recorder->watcher, NULL, watch_recording, &start);
	if (recorder->watched)
		while (sem_wait(&start.answered) && errno == EINTR)
			;
	else
		start.rc = ws_fail(err, "cannot start the recording: there are too many threads");
	sem_destroy(&start.answered);
	return start.rc;
}

static void forget_run(struct ws_recorder *recorder)
{
	if (recorder->watched)
		pthread_join(recorder->watcher, NULL);
	recorder->watched = false;
	for (int i = 0; i < 2; i++) {
		if (recorder->leave[i] >= 0)
			close(recorder->leave[i]);
		recorder->leave[i] = -1;
	}
	free(recorder->file);
	recorder->file = NULL;
	recorder->output.len = 0;
	recorder->report = -1;
	recorder->stops = 0;
	recorder->problem.msg[0] = 0;
}

static int start_recording(struct ws_recorder *recorder, const struct ws_params *params,
			   struct ws_err *err)
{
	char **argv;
	int rc;

	forget_run(recorder);
	recorder->file = new_name();
	if (!recorder->file)
		return ws_fail(err, "there is no free name for a report in the current folder");
	if (pipe2(recorder->leave, O_CLOEXEC))
		return ws_fail_errno(err, "cannot start the recording");
	argv = make_arguments(recorder, params);
	rc = start_watcher(recorder, argv, err);
	free_arguments(argv);
	if (rc)
		return -1;
	/* The watcher takes it back under the lock, which is ours until then. */
	recorder->running = true;
	recorder->runs++;
	return 0;
}

int ws_recorder_start(struct ws_recorder *recorder, const struct ws_params *params,
		      struct ws_err *err)
{
	int rc;

	pthread_mutex_lock(&recorder->lock);
	rc = recorder->running ? ws_fail(err, "a recording is under way already")
			       : start_recording(recorder, params, err);
	pthread_mutex_unlock(&recorder->lock);
	return rc;
}

int ws_recorder_stop(struct ws_recorder *recorder, struct ws_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&recorder->lock);
	if (!recorder->running || !recorder->pid)
		rc = ws_fail(err, "no recording is under way");
	else
		kill(recorder->pid, recorder->stops++ ? SIGTERM : SIGINT);
	pthread_mutex_unlock(&recorder->lock);
	return rc;
}

void ws_recorder_free(struct ws_recorder *recorder)
{
	struct ws_err ignored;
	bool running = true;

	if (!recorder)
		return;
	if (!ws_recorder_stop(recorder, &ignored))
		for (int ms = 0; running && ms < PATIENCE_MS; ms += 20) {
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			pthread_mutex_lock(&recorder->lock);
			running = recorder->running;
			pthread_mutex_unlock(&recorder->lock);
		}
	if (recorder->leave[1] >= 0)
		close(recorder->leave[1]);
	recorder->leave[1] = -1;
	forget_run(recorder);
	ws_text_free(&recorder->output);
	pthread_mutex_destroy(&recorder->lock);
	free(recorder);
}

/* ---- telling ---- */

static void put_command(const struct ws_recorder *recorder, struct ws_text *text)
{
	ws_put_json_key(text, "command");
	ws_text_puts(text, "[");
	for (char **c = recorder->command; *c; c++) {
		ws_put_json_comma(text);
		ws_put_quoted_json(text, *c, strlen(*c));
	}
	ws_text_puts(text, "]");
}

int ws_api_record(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_recorder *recorder = call->view->rec;
	size_t from;

	if (!recorder)
		return ws_fail(err, "this page cannot record: begin it by 'warpsight view --record "
				    "-- COMMAND'");
	pthread_mutex_lock(&recorder->lock);
	from = recorder->output.len > MOST_OUTPUT ? recorder->output.len - MOST_OUTPUT : 0;
	ws_text_puts(call->out, "{");
	put_command(recorder, call->out);
	ws_put_json_int(call->out, "running", recorder->running);
	ws_put_json_int(call->out, "runs", (int64_t)recorder->runs);
	ws_put_json_int(call->out, "status",
			WIFEXITED(recorder->status) ? WEXITSTATUS(recorder->status)
						    : 128 + WTERMSIG(recorder->status));
	ws_put_json_int(call->out, "report", recorder->report);
	ws_put_json_string(call->out, "file", ws_text_or(recorder->file, ""));
	ws_put_json_string(call->out, "problem", recorder->problem.msg);
	ws_put_json_text(call->out, "output",
			 recorder->output.text ? recorder->output.text + from : "",
			 recorder->output.len - from);
	ws_text_puts(call->out, "}");
	pthread_mutex_unlock(&recorder->lock);
	return 0;
}
