/*
 * top.c - the command `top`: recordings that are under way, in a terminal.
 *
 * Escape sequences that every terminal of today understands, no library: the page is written anew
 * from its upper left corner each time, each line cleared behind its end, on the alternate screen.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/ticks.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "cli/top_attach.h"
#include "cli/top_text.h"
#include "query/activity.h"
#include "query/operand.h"
#include "record/recordings.h"

struct options {
	bool once;
	int64_t attach;
	double interval;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"once", 0, WS_OPT_FLAG, AT(once), NULL, NULL,
	 "Print one page about the next second as plain text and end; one for every recording when "
	 "none is named.",
	 NULL},
	{"attach", 0, WS_OPT_INT, AT(attach), "PID", NULL,
	 "Record this process, which is already running, for as long as top shows it; nothing is "
	 "kept.",
	 NULL},
	{"interval", 'i', WS_OPT_SECONDS, AT(interval), "SECONDS", NULL,
	 "Time between two updates; --once covers one such interval.", "1"},
	{NULL},
};

/* ---- the terminal ---- */

static volatile sig_atomic_t asked_to_end, asked_to_stop;

static void note_end(int sig)
{
	asked_to_end = sig;
}

static void note_stop(int sig)
{
	(void)sig;
	asked_to_stop = 1;
}

static void note_nothing(int sig)
{
	(void)sig; /* it only ends a wait */
}

static struct termios cooked;

static void write_all(const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(STDOUT_FILENO, text, size);

		if (n < 0 && errno != EINTR)
			return;
		text += ws_max(n, 0);
		size -= (size_t)ws_max(n, 0);
	}
}

static void write_text(const char *text)
{
	write_all(text, strlen(text));
}

static void enter_screen(void)
{
	struct termios raw = cooked;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	write_text("\033[?1049h\033[?25l"); /* the other screen, no cursor */
}

static void leave_screen(void)
{
	write_text("\033[?25h\033[?1049l");
	tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
}

static void set_handler(int sig, void (*fn)(int))
{
	struct sigaction action = {.sa_handler = fn};

	sigemptyset(&action.sa_mask);
	sigaction(sig, &action, NULL);
}

/* ---- recordings ---- */

struct top {
	const struct options *options;
	struct ws_top_recording own; /* of --attach */
	char *title;		     /* instead of the report's path; NULL: that */
	char *named; /* the report on the command line, or NULL: all recordings of the user */
	struct ws_recordings running;
	size_t chosen; /* of the running ones */
	char *shown;   /* path of the one that is looked at */
	int recorder;
	struct ws_activity *activity;
	struct ws_activity_look look;
	size_t scroll;
};

static void stop_watching(struct top *top)
{
	ws_activity_close(top->activity);
	ws_activity_free_look(&top->look);
	free(top->shown);
	top->look = (struct ws_activity_look){0};
	top->activity = NULL;
	top->shown = NULL;
}

static bool watch_recording(struct top *top, const char *path, int recorder, struct ws_err *err)
{
	if (top->shown && !strcmp(top->shown, path))
		return true;
	stop_watching(top);
	top->activity = ws_activity_open(path, err);
	top->shown = ws_strdup(path);
	top->recorder = recorder;
	return top->activity && ws_activity_look(top->activity, &top->look, err);
}

/* The recording that is shown: the one that is named, else the chosen one of those that run. False
 * with a message when there is none. */
static bool choose_recording(struct top *top, struct ws_err *err)
{
	if (top->named)
		return watch_recording(top, top->named, 0, err);
	ws_recordings_find(&top->running);
	if (!top->running.count) {
		ws_fail(err,
			"no recording of yours is running on this machine; 'warpsight profile' "
			"starts one");
		return false;
	}
	/* Others may have come or gone before it in the list. */
	for (size_t i = 0; top->shown && i < top->running.count; i++)
		if (!strcmp(top->running.list[i].report, top->shown))
			top->chosen = i;
	top->chosen = ws_min(top->chosen, top->running.count - 1);
	return watch_recording(top, top->running.list[top->chosen].report,
			       top->running.list[top->chosen].recorder, err);
}

static void choose_next(struct top *top, size_t step)
{
	struct ws_err err;

	if (top->running.count < 2)
		return;
	top->chosen = (top->chosen + step) % top->running.count;
	top->scroll = 0;
	watch_recording(top, top->running.list[top->chosen].report,
			top->running.list[top->chosen].recorder, &err);
}

/* ---- pages ---- */

static void draw_page(struct top *top)
{
	struct winsize size = {0};
	struct ws_top_page page = {.report = ws_text_or(top->title, top->shown),
				   .recorder = top->recorder,
				   .number = top->chosen + 1,
				   .of = ws_max(top->running.count, (size_t)1),
				   .width = 80,
				   .height = 23,
				   .scroll = top->scroll,
				   .keys = true};
	struct ws_text text = {0};

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row) {
		page.width = size.ws_col;
		page.height = ws_max(size.ws_row - 1, 1);
	}
	ws_text_puts(&text, "\033[H");
	ws_add_top_page(&text, &page, &top->look, "\033[K\n");
	ws_text_puts(&text, "\033[J");
	write_all(text.text, text.len);
	ws_text_free(&text);
}

static void print_page(const struct top *top, size_t number, size_t of)
{
	struct ws_top_page page = {.report = ws_text_or(top->title, top->shown),
				   .recorder = top->recorder,
				   .number = number,
				   .of = of,
				   .width = ws_get_output_width()};
	struct ws_text text = {0};

	ws_add_top_page(&text, &page, &top->look, "\n");
	fwrite(text.text, 1, text.len, stdout);
	ws_text_free(&text);
}

/* ---- keys ---- */

static const struct key {
	const char *bytes;
	int scroll, other;
	bool quit;
} keys[] = {
	{"q", 0, 0, true},	  {"Q", 0, 0, true},	   {"\033[A", -1, 0, false},
	{"\033[B", 1, 0, false},  {"\033[C", 0, 1, false}, {"\033[D", 0, -1, false},
	{"\033OA", -1, 0, false}, {"\033OB", 1, 0, false}, {"\033OC", 0, 1, false},
	{"\033OD", 0, -1, false}, {"k", -1, 0, false},	   {"j", 1, 0, false},
};

static void follow_key(struct top *top, const struct key *key)
{
	if (key->quit)
		asked_to_end = SIGINT;
	if (key->scroll < 0 && top->scroll)
		top->scroll--;
	if (key->scroll > 0)
		top->scroll++;
	if (key->other)
		choose_next(top, key->other > 0 ? 1 : top->running.count - 1);
}

static void read_keys(struct top *top)
{
	char bytes[64];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (!n) /* the terminal is gone */
		asked_to_end = SIGHUP;
	for (ssize_t at = 0; at < n;) {
		size_t len = 1;

		for (size_t i = 0; i < WS_COUNT(keys); i++)
			if (!strncmp(keys[i].bytes, bytes + at, strlen(keys[i].bytes)) &&
			    strlen(keys[i].bytes) <= (size_t)(n - at)) {
				follow_key(top, &keys[i]);
				len = strlen(keys[i].bytes);
				break;
			}
		at += (ssize_t)len;
	}
}

/* Wait until `until` (raw ns); pages are drawn anew when keys or a new size of the window ask for
 * it. */
static void wait_for_keys(struct top *top, uint64_t until)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	while (!asked_to_end) {
		uint64_t now = ws_read_raw_ns();
		int ready;

		if (now >= until)
			return;
		ready = poll(&input, 1, (int)((until - now) / 1000000 + 1));
		if (asked_to_stop) {
			asked_to_stop = 0;
			leave_screen();
			raise(SIGSTOP);
			enter_screen();
		} else if (ready > 0) {
			read_keys(top);
		}
		if (ready)
			draw_page(top);
	}
}

/* ---- the command ---- */

static int show_pages(struct top *top)
{
	uint64_t step = (uint64_t)(top->options->interval * 1e9), next = ws_read_raw_ns();
	struct ws_err err = {""};
	bool ok = true;

	tcgetattr(STDIN_FILENO, &cooked);
	set_handler(SIGINT, note_end);
	set_handler(SIGTERM, note_end);
	set_handler(SIGHUP, note_end);
	set_handler(SIGTSTP, note_stop);
	set_handler(SIGWINCH, note_nothing);
	enter_screen();
	while (!asked_to_end && ok && top->look.state != WS_FOLLOW_FINISHED) {
		draw_page(top);
		next = ws_max(next + step, ws_read_raw_ns());
		wait_for_keys(top, next);
		if (!asked_to_end)
			ok = choose_recording(top, &err) &&
			     ws_activity_look(top->activity, &top->look, &err);
	}
	leave_screen();
	if (asked_to_end)
		return WS_EXIT_OK;
	if (top->title)
		ws_say("%s has ended", top->title);
	else if (top->shown)
		ws_say("%s is finished; 'warpsight stats' and 'warpsight view' show it",
		       top->shown);
	return WS_EXIT_OK;
}

static int print_look(struct top *top, size_t number, size_t of)
{
	double seconds = top->options->interval;
	struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	struct ws_err err;

	if (top->look.state == WS_FOLLOW_LIVE)
		nanosleep(&time, NULL);
	if (!ws_activity_look(top->activity, &top->look, &err)) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	print_page(top, number, of);
	return WS_EXIT_OK;
}

/* One page of the named recording, or of each that runs. */
static int print_once(struct top *top)
{
	size_t count = ws_max(top->running.count, (size_t)1);
	int status = WS_EXIT_OK;

	for (size_t i = 0; i < count; i++) {
		struct ws_err err;

		if (i)
			putchar('\n');
		if (!top->named && !watch_recording(top, top->running.list[i].report,
						    top->running.list[i].recorder, &err))
			continue; /* it has just ended */
		status = ws_max(status, print_look(top, i + 1, count));
	}
	return status;
}

static int run_top(void *values, int argc, char **argv)
{
	struct top top = {.options = values};
	struct ws_err err = {""};
	int status = WS_EXIT_FAIL;

	if (argc > 1) {
		ws_say("top: one recording at a time, but %d are given", argc);
		return WS_EXIT_USAGE;
	}
	if (top.options->interval < 0.1 || top.options->interval > 3600) {
		ws_say("--interval: %g s is not between 0.1 and 3600", top.options->interval);
		return WS_EXIT_USAGE;
	}
	if (argc && top.options->attach) {
		ws_say("top: either a report or --attach, but both are given");
		return WS_EXIT_USAGE;
	}
	if (top.options->attach) {
		if (ws_top_begin_recording(&top.own, top.options->attach, &err)) {
			ws_say("%s", err.msg);
			ws_top_end_recording(&top.own);
			return WS_EXIT_FAIL;
		}
		top.named = ws_strdup(top.own.report);
		top.title = ws_format("process %lld", (long long)top.options->attach);
	}
	if (argc)
		top.named = ws_find_operand_report(argv[0]);
	if (!choose_recording(&top, &err))
		ws_say("%s", err.msg);
	else if (top.look.state == WS_FOLLOW_FINISHED)
		ws_say("%s is finished, and top shows recordings that are under way; 'warpsight "
		       "stats' and 'warpsight view' show it",
		       top.shown);
	else if (top.options->once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		status = print_once(&top);
	else
		status = show_pages(&top);
	stop_watching(&top);
	ws_top_end_recording(&top.own);
	ws_recordings_free(&top.running);
	free(top.named);
	free(top.title);
	return status;
}

const struct ws_command ws_cmd_top = {
	.name = "top",
	.summary = "Show what is being recorded right now, in the terminal.",
	.usage = "[options] [REPORT] | [options] --attach PID",
	.details = "Shows a recording that is under way, once a second: how busy the GPUs are, "
		   "which kernels and NVTX ranges ended, which threads ran and what they waited "
		   "in, what was lost. Without REPORT these are the recordings that you have "
		   "running on this machine; the left and right arrow keys go from one to the "
		   "next. Up and down scroll, q ends. Recording goes on as before: only what is "
		   "new in the report is read, from its file.\n\n"
		   "Events count when they have ended: a range that has been open for minutes is "
		   "not shown. Where standard input or output is no terminal, one page is printed, "
		   "as with --once.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight top\n"
		    "warpsight top --once report1.wsrep\n"
		    "warpsight top --attach 4711",
	.run = run_top,
};
