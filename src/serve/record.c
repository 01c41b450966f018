/*
 * record.c - see record.h.
 *
 * The program is this one again (child.h) with the arguments "profile ... -- COMMAND", and of the
 * page's request nothing goes into these but which of five fixed words are there. A thread reads
 * what it writes, of which the end is kept, waits for it, and adds its report to the page. The
 * command is in a process group of its own, so that Ctrl+C in the terminal reaches the server
 * alone, which then stops the command in order.
 */
#include "serve/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
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
	struct ws_recorder *r = ws_calloc(1, sizeof(*r));

	r->view = view;
	r->command = command;
	r->report = -1;
	r->leave[0] = r->leave[1] = -1;
	pthread_mutex_init(&r->lock, NULL);
	return r;
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

static bool is_on(const struct ws_params *p, const char *name)
{
	const char *s = p->get(p->ctx, name);

	return s && !strcmp(s, "1");
}

static char *trace_option(const struct ws_params *p)
{
	struct ws_text t = {0};

	ws_text_puts(&t, "--trace=");
	for (size_t i = 0; i < WS_COUNT(domains); i++)
		if (is_on(p, domains[i]))
			ws_text_printf(&t, "%s%s", t.s[t.len - 1] == '=' ? "" : ",", domains[i]);
	if (t.s[t.len - 1] == '=')
		ws_text_puts(&t, "none");
	return t.s;
}

/* Ended by NULL. The caller frees them by free_arguments. */
static char **arguments(const struct ws_recorder *r, const struct ws_params *p)
{
	bool sample = is_on(p, "sample");
	size_t n = 0, k = 0;
	char **v;

	while (r->command[n])
		n++;
	v = ws_calloc(n + 8, sizeof(*v));
	v[k++] = (char *)"warpsight";
	v[k++] = (char *)"profile";
	v[k++] = trace_option(p);
	v[k++] = ws_format("--output=%s", r->file);
	v[k++] = (char *)(sample ? "--sample=process-tree" : "--sample=none");
	v[k++] = (char *)(sample ? "--cpuctxsw=process-tree" : "--cpuctxsw=none");
	v[k++] = (char *)"--";
	memcpy(v + k, r->command, n * sizeof(*v));
	return v;
}

static void free_arguments(char **v)
{
	free(v[2]);
	free(v[3]);
	free(v);
}

/* ---- watching ---- */

static void keep(struct ws_recorder *r, const char *bytes, size_t n)
{
	pthread_mutex_lock(&r->lock);
	ws_text_add(&r->output, bytes, n);
	if (r->output.len > 2 * MOST_OUTPUT) {
		memmove(r->output.s, r->output.s + r->output.len - MOST_OUTPUT, MOST_OUTPUT);
		r->output.len = MOST_OUTPUT;
		r->output.s[MOST_OUTPUT] = 0;
	}
	pthread_mutex_unlock(&r->lock);
}

/* Once it is waited for, its number may become another's: it is forgotten in the same moment. */
static bool has_ended(struct ws_recorder *r, int *status)
{
	bool ended;

	pthread_mutex_lock(&r->lock);
	ended = waitpid(r->pid, status, WNOHANG) == r->pid;
	if (ended)
		r->pid = 0;
	pthread_mutex_unlock(&r->lock);
	return ended;
}

/* Once there is something in it, the report is shown and grows on the page (live.c). */
static void show_growing(struct ws_recorder *r)
{
	struct ws_report *report = r->report < 0 && !access(r->file, F_OK)
					   ? ws_report_open_plain(r->file, NULL)
					   : NULL;
	struct ws_err e;
	int number;

	if (!report)
		return;
	if (!ws_report_live(report) || !ws_lanes_have_rows(report)) {
		ws_report_close(report);
		return;
	}
	number = ws_view_add(r->view, report, r->file, &e);
	pthread_mutex_lock(&r->lock);
	r->report = number;
	pthread_mutex_unlock(&r->lock);
}

/*
 * Until it has ended; its descendants may hold the pipe for longer. False when it is to be left to
 * itself.
 */
static bool read_output(struct ws_recorder *r, int *status)
{
	struct pollfd fds[] = {{.fd = r->out, .events = POLLIN}, {.fd = r->leave[0]}};
	bool ended = false;
	char bytes[4096];

	for (;;) {
		int got = poll(fds, 2, ended ? 0 : fds[0].fd < 0 ? 20 : 200);
		ssize_t n;

		if (got > 0 && fds[1].revents)
			return ended;
		if (got > 0 && fds[0].revents) {
			n = read(r->out, bytes, sizeof(bytes));
			if (n > 0)
				keep(r, bytes, (size_t)n);
			else if (!(n < 0 && errno == EINTR))
				fds[0].fd = -1;
			continue;
		}
		if (ended)
			return true;
		show_growing(r);
		ended = has_ended(r, status);
	}
}

static void *watch(void *arg)
{
	struct ws_recorder *r = arg;
	struct ws_err e = {.msg = ""};
	struct ws_report *report;
	int status = 0, number = -1;

	if (read_output(r, &status)) {
		number = r->report;
		if (number >= 0)
			ws_live_look(r->view, (size_t)number);
		report = number < 0 ? ws_report_open_plain(r->file, &e) : NULL;
		if (report)
			number = ws_view_add(r->view, report, r->file, &e);
	}
	close(r->out);
	pthread_mutex_lock(&r->lock);
	r->status = status;
	r->report = number;
	r->problem = e;
	r->running = false;
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void forget_run(struct ws_recorder *r)
{
	if (r->watched)
		pthread_join(r->watcher, NULL);
	r->watched = false;
	for (int i = 0; i < 2; i++) {
		if (r->leave[i] >= 0)
			close(r->leave[i]);
		r->leave[i] = -1;
	}
	free(r->file);
	r->file = NULL;
	r->output.len = 0;
	r->report = -1;
	r->stops = 0;
	r->problem.msg[0] = 0;
}

static int start(struct ws_recorder *r, const struct ws_params *p, struct ws_err *e)
{
	char **argv;
	int rc;

	forget_run(r);
	r->file = new_name();
	if (!r->file)
		return ws_fail(e, "there is no free name for a report in the current folder");
	if (pipe2(r->leave, O_CLOEXEC))
		return ws_fail_errno(e, "cannot start the recording");
	argv = arguments(r, p);
	rc = ws_child_start(argv, &r->pid, &r->out, e);
	free_arguments(argv);
	if (rc)
		return -1;
	r->running = true;
	r->runs++;
	r->watched = !pthread_create(&r->watcher, NULL, watch, r);
	if (r->watched)
		return 0;
	kill(r->pid, SIGTERM);
	waitpid(r->pid, NULL, 0);
	close(r->out);
	r->running = false;
	return ws_fail(e, "cannot start the recording: there are too many threads");
}

int ws_recorder_start(struct ws_recorder *r, const struct ws_params *p, struct ws_err *e)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	rc = r->running ? ws_fail(e, "a recording is under way already") : start(r, p, e);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

int ws_recorder_stop(struct ws_recorder *r, struct ws_err *e)
{
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	if (!r->running || !r->pid)
		rc = ws_fail(e, "no recording is under way");
	else
		kill(r->pid, r->stops++ ? SIGTERM : SIGINT);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void ws_recorder_free(struct ws_recorder *r)
{
	struct ws_err ignored;
	bool running = true;

	if (!r)
		return;
	if (!ws_recorder_stop(r, &ignored))
		for (int ms = 0; running && ms < PATIENCE_MS; ms += 20) {
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			pthread_mutex_lock(&r->lock);
			running = r->running;
			pthread_mutex_unlock(&r->lock);
		}
	if (r->leave[1] >= 0)
		close(r->leave[1]);
	r->leave[1] = -1;
	forget_run(r);
	ws_text_free(&r->output);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ---- telling ---- */

static void put_command(const struct ws_recorder *r, struct ws_text *t)
{
	ws_put_key(t, "command");
	ws_text_puts(t, "[");
	for (char **c = r->command; *c; c++) {
		ws_put_comma(t);
		ws_text_json(t, *c, strlen(*c));
	}
	ws_text_puts(t, "]");
}

int ws_api_record(struct ws_call *c, struct ws_err *e)
{
	struct ws_recorder *r = c->view->rec;
	size_t from;

	if (!r)
		return ws_fail(e, "this page cannot record: begin it by 'warpsight view --record "
				  "-- COMMAND'");
	pthread_mutex_lock(&r->lock);
	from = r->output.len > MOST_OUTPUT ? r->output.len - MOST_OUTPUT : 0;
	ws_text_puts(c->out, "{");
	put_command(r, c->out);
	ws_put_int(c->out, "running", r->running);
	ws_put_int(c->out, "runs", (int64_t)r->runs);
	ws_put_int(c->out, "status",
		   WIFEXITED(r->status) ? WEXITSTATUS(r->status) : 128 + WTERMSIG(r->status));
	ws_put_int(c->out, "report", r->report);
	ws_put_string(c->out, "file", r->file ? r->file : "");
	ws_put_string(c->out, "problem", r->problem.msg);
	ws_put_text(c->out, "output", r->output.s ? r->output.s + from : "", r->output.len - from);
	ws_text_puts(c->out, "}");
	pthread_mutex_unlock(&r->lock);
	return 0;
}
