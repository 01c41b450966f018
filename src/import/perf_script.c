/*
 * perf_script.c - the text that `perf script` prints: samples with their stacks, and tracepoints.
 *
 * An event is a line "comm pid/tid [cpu] seconds: period event:" and, for samples, a line a frame,
 * innermost first: blanks, address, function and offset, module in brackets. An empty line ends it.
 * Which of the fields there are depends on how perf was called, so the line is read around the one
 * field that must be there, the time. Lines below an event that are no frames (branches, source
 * lines, registers) are passed over.
 *
 * Switches of threads make spans on cores: from the tracepoints sched_switch, sched_waking and
 * sched_wakeup, in the kernel's words or in those of perf's plug-ins, and from the lines of
 * --show-switch-events.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "import/formats.h"

enum { LINE = 64 << 10, DEPTH = 1024 };

struct frame_text {
	uint32_t symbol, module;
	uint64_t address;
	bool kernel, inlined;
};

struct perf {
	struct ws_into *into;
	struct ws_source *source;
	char buffer[2 * LINE];
	size_t at, len;
	bool eof;
	/* the event in hand */
	bool open;
	struct ws_row_sample sample;
	struct frame_text frames[DEPTH]; /* innermost first */
	int depth;
	uint32_t text; /* of a tracepoint */
	uint32_t event_name;
	uint64_t lines, samples, odd, extra;
	struct ws_map threads;	     /* tid -> thread, as met */
	struct ws_map on, on_cpu;    /* tid -> when it was switched to, and on which core + 1 */
	struct ws_map woken, wakers; /* tid -> when it was made runnable, and by which thread */
};

/* The next line without its end, NUL-terminated. False at the end of the text. */
static bool next_line(struct perf *perf, char **line, size_t *n)
{
	for (;;) {
		char *start = perf->buffer + perf->at,
		     *end = memchr(start, '\n', perf->len - perf->at);

		if (end || (perf->eof && perf->at < perf->len) || perf->len - perf->at >= LINE) {
			*n = end ? (size_t)(end - start) : perf->len - perf->at;
			*n = *n < LINE ? *n : LINE;
			perf->at += *n + (end != NULL && start + *n == end);
			if (*n && start[*n - 1] == '\r')
				(*n)--;
			start[*n] = 0;
			*line = start;
			perf->lines++;
			return true;
		}
		if (perf->eof)
			return false;
		memmove(perf->buffer, start, perf->len - perf->at);
		perf->len -= perf->at;
		perf->at = 0;
		{
			size_t got = ws_source_read(perf->source, perf->buffer + perf->len,
						    sizeof(perf->buffer) - 1 - perf->len);

			perf->len += got;
			perf->eof = !got;
		}
	}
}

/* ---- an event's line ---- */

/* "1234.567890:" as nanoseconds; the start of the field in *from and what follows in *rest. */
static bool find_time(const char *line, const char **from, const char **rest, uint64_t *ns)
{
	for (const char *text = line; *text; text++) {
		const char *at = text;
		uint64_t seconds = 0, fraction = 0;
		int digits = 0;

		if ((text != line && text[-1] != ' ' && text[-1] != '\t') ||
		    !isdigit((unsigned char)*text))
			continue;
		for (; isdigit((unsigned char)*at) && seconds < UINT64_C(10000000000); at++)
			seconds = seconds * 10 + (uint64_t)(*at - '0');
		if (*at++ != '.')
			continue;
		for (; isdigit((unsigned char)*at) && digits < 9; at++, digits++)
			fraction = fraction * 10 + (uint64_t)(*at - '0');
		if (!digits || *at != ':')
			continue;
		for (; digits < 9; digits++)
			fraction *= 10;
		*ns = seconds * 1000000000 + fraction;
		*from = text;
		*rest = at + 1;
		return true;
	}
	return false;
}

/* The number that ends at `end`, or -1; *before gets where it begins. */
static int64_t number_before(const char *line, const char *end, const char **before)
{
	const char *at = end;

	while (at > line && isdigit((unsigned char)at[-1]))
		at--;
	*before = at;
	return at < end && end - at < 11 ? strtoll(at, NULL, 10) : -1;
}

static const char *skip_back(const char *line, const char *at)
{
	while (at > line && (at[-1] == ' ' || at[-1] == '\t'))
		at--;
	return at;
}

/* Events that do not tell their thread (-F without pid and tid) are of one that is called as they
 * say, or not at all. */
static bool nameless(struct perf *perf, const char *line, const char *end, uint64_t at)
{
	size_t n;
	uint32_t process;

	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	n = (size_t)(skip_back(line, end) - line);
	process = ws_into_process(perf->into, UINT64_C(1) << 40 | XXH3_64bits(line, n) >> 25, 0);
	if (n && !ws_into_process_of(perf->into, process)->name)
		ws_into_process_of(perf->into, process)->name = ws_into_string(perf->into, line, n);
	perf->sample.thread = ws_into_thread(perf->into, process, 0, at);
	if (n)
		ws_into_name_thread(perf->into, perf->sample.thread, line, n, 10);
	return true;
}

/* "comm pid/tid [cpu] flags " before the time. */
static bool parse_who(struct perf *perf, const char *line, const char *end, uint64_t at)
{
	const char *q = skip_back(line, end), *before;
	int64_t pid, tid;
	uint32_t process;

	perf->sample.cpu = WS_NO_U32;
	for (;;) { /* [cpu], and flags such as d..3. */
		if (q > line && q[-1] == ']') {
			int64_t cpu = number_before(line, q - 1, &before);

			if (cpu < 0 || before == line || before[-1] != '[')
				return false;
			perf->sample.cpu = (uint32_t)cpu;
			q = skip_back(line, before - 1);
			if (q > line && !isdigit((unsigned char)q[-1]))
				return nameless(perf, line, q, at);
		} else if (q > line && !isdigit((unsigned char)q[-1])) {
			while (q > line && q[-1] != ' ')
				q--;
			q = skip_back(line, q);
			if (q == line)
				return nameless(perf, line, end, at);
		} else {
			break;
		}
	}
	tid = number_before(line, q, &before);
	if (tid < 0)
		return q == line && nameless(perf, line, q, at);
	pid = tid;
	if (before > line && before[-1] == '/') {
		pid = number_before(line, before - 1, &before);
		if (pid < 0)
			return false;
	}
	q = skip_back(line, before);
	while (line < q && (*line == ' ' || *line == '\t'))
		line++;
	process = ws_into_process(perf->into, (uint64_t)pid, (uint32_t)pid);
	if (!ws_into_process_of(perf->into, process)->name)
		ws_into_process_of(perf->into, process)->name =
			ws_into_string(perf->into, line, (size_t)(q - line));
	perf->sample.thread = ws_into_thread(perf->into, process, (uint64_t)tid, at);
	ws_into_name_thread(perf->into, perf->sample.thread, line, (size_t)(q - line), 10);
	if (perf->threads.n < WS_INTO_MOST)
		ws_map_set(&perf->threads, (uint64_t)tid, perf->sample.thread);
	return true;
}

/* ---- switches of threads ---- */

static uint32_t known_thread(struct perf *perf, uint64_t tid, const char *comm, size_t n)
{
	uint32_t id = (uint32_t)ws_map_get(&perf->threads, tid, NULL), process;

	if (id)
		return id;
	process = ws_into_process(perf->into, tid, (uint32_t)tid);
	id = ws_into_thread(perf->into, process, tid, WS_NO_TIME);
	if (n) {
		if (!ws_into_process_of(perf->into, process)->name)
			ws_into_process_of(perf->into, process)->name =
				ws_into_string(perf->into, comm, n);
		ws_into_name_thread(perf->into, id, comm, n, 5);
	}
	if (perf->threads.n < WS_INTO_MOST)
		ws_map_set(&perf->threads, tid, id);
	return id;
}

static void put_span(struct perf *perf, uint64_t tid, uint32_t thread, uint64_t start, uint64_t at,
		     uint8_t after)
{
	uint64_t cpu = 0, woken = WS_NO_TIME, waker = 0;
	struct ws_row_sched *row;

	ws_map_take(&perf->on_cpu, tid, &cpu);
	if (ws_map_take(&perf->woken, tid << 1 | 1, &woken))
		ws_map_take(&perf->wakers, tid << 1 | 1, &waker);
	row = ws_into_row(perf->into, WS_TABLE_sched);
	*row = (struct ws_row_sched){.start = start,
				     .end = at == WS_NO_TIME || at > start ? at : start,
				     .thread = thread,
				     .cpu = cpu ? (uint32_t)cpu - 1 : WS_NO_U32,
				     .woken = woken,
				     .waker = (uint32_t)waker,
				     .after = after};
}

static void span_ends(struct perf *perf, uint64_t tid, uint32_t thread, uint64_t at, uint8_t after)
{
	uint64_t start;

	if (ws_map_take(&perf->on, tid, &start))
		put_span(perf, tid, thread, start, at, after);
}

/* A wake-up before is of this span: kept under an odd key until the span ends. */
static void span_begins(struct perf *perf, uint64_t tid, uint64_t at)
{
	uint64_t woken, waker = 0;

	if (!tid || perf->on.n >= WS_INTO_MOST)
		return;
	ws_map_set(&perf->on, tid, at);
	ws_map_set(&perf->on_cpu, tid,
		   perf->sample.cpu == WS_NO_U32 ? 0 : (uint64_t)perf->sample.cpu + 1);
	if (ws_map_take(&perf->woken, tid << 1, &woken) && woken <= at) {
		ws_map_take(&perf->wakers, tid << 1, &waker);
		ws_map_set(&perf->woken, tid << 1 | 1, woken);
		ws_map_set(&perf->wakers, tid << 1 | 1, waker);
	}
}

static uint8_t after_of(const char *state)
{
	switch (*state) {
	case 'R':
		return WS_AFTER_PREEMPTED;
	case 'S':
	case 'I':
		return WS_AFTER_SLEEPING;
	case 'D':
	case 'K':
		return WS_AFTER_UNINTERRUPTIBLE;
	case 'T':
	case 't':
		return WS_AFTER_STOPPED;
	case 'X':
	case 'Z':
		return WS_AFTER_DEAD;
	default:
		return WS_AFTER_UNKNOWN;
	}
}

/* One side of a switch, or who is woken. */
struct side {
	const char *comm, *state;
	size_t n;
	uint64_t tid;
};

/* "NAMEcomm=my prog NAMEpid=11 NAMEprio=120 NAMEstate=S", or "my prog:11 [120] S" as perf's plug-in
 * has it. */
static bool take_side(const char *text, const char *end, const char *name, struct side *side)
{
	char key[32];
	size_t n = (size_t)snprintf(key, sizeof(key), "%scomm=", name);
	const char *at = memmem(text, (size_t)(end - text), key, n), *pid, *from;

	*side = (struct side){.state = ""};
	if (at) {
		side->comm = at + n;
		n = (size_t)snprintf(key, sizeof(key), " %spid=", name);
		pid = memmem(side->comm, (size_t)(end - side->comm), key, n);
		if (!pid)
			return false;
		side->n = (size_t)(pid - side->comm);
		side->tid = strtoull(pid + n, NULL, 10);
		n = (size_t)snprintf(key, sizeof(key), " %sstate=", name);
		from = memmem(pid, (size_t)(end - pid), key, n);
		side->state = from ? from + n : "";
		return true;
	}
	for (pid = memmem(text, (size_t)(end - text), " [", 2); pid;
	     pid = memmem(pid + 1, (size_t)(end - pid - 1), " [", 2)) {
		for (from = pid; from > text && isdigit((unsigned char)from[-1]); from--)
			;
		if (from == pid || from == text || from[-1] != ':')
			continue;
		side->comm = text + strspn(text, " ");
		side->n = (size_t)(from - 1 - side->comm);
		side->tid = strtoull(from, NULL, 10);
		from = memchr(pid, ']', (size_t)(end - pid));
		side->state = from && from + 2 < end && from[1] == ' ' ? from + 2 : "";
		return side->comm < from;
	}
	return false;
}

static void take_switch(struct perf *perf, const char *text, uint64_t at)
{
	const char *arrow = strstr(text, " ==> ");
	struct side prev, next;

	if (!arrow || !take_side(text, arrow, "prev_", &prev) ||
	    !take_side(arrow + 5, arrow + strlen(arrow), "next_", &next)) {
		ws_into_note(perf->into,
			     "Switches of threads in a form that is not known were left out.");
		return;
	}
	span_ends(perf, prev.tid, known_thread(perf, prev.tid, prev.comm, prev.n), at,
		  after_of(prev.state));
	span_begins(perf, next.tid, at);
	if (next.tid)
		known_thread(perf, next.tid, next.comm, next.n);
}

static void take_waking(struct perf *perf, const char *text, uint64_t at)
{
	struct side side;

	if (!take_side(text, text + strlen(text), "", &side) || !side.tid ||
	    ws_map_get(&perf->on, side.tid, NULL) ||
	    ws_map_get(&perf->woken, side.tid << 1, NULL) || perf->woken.n >= WS_INTO_MOST)
		return; /* it runs, or waits to run already: sched_wakeup repeats what sched_waking
			   said */
	ws_map_set(&perf->woken, side.tid << 1, at);
	ws_map_set(&perf->wakers, side.tid << 1, perf->sample.thread);
}

/* "PERF_RECORD_SWITCH_CPU_WIDE OUT preempt next pid/tid: 22/22", about the thread of the line. */
static void take_switch_record(struct perf *perf, const char *text, uint64_t tid)
{
	const char *out = strstr(text, " OUT");

	if (out)
		span_ends(perf, tid, perf->sample.thread, perf->sample.start,
			  strstr(out, "preempt") ? WS_AFTER_PREEMPTED : WS_AFTER_BLOCKED);
	else if (strstr(text, " IN"))
		span_begins(perf, tid, perf->sample.start);
}

static bool is_named(const char *name, size_t n, const char *what)
{
	size_t m = strlen(what);

	return n >= m && !memcmp(name + n - m, what, m) && (n == m || name[n - m - 1] == ':');
}

/* A tracepoint of scheduling, besides being a row of its own. */
static void take_sched(struct perf *perf, const char *name, size_t n, const char *text)
{
	if (is_named(name, n, "sched_switch"))
		take_switch(perf, text, perf->sample.start);
	else if (is_named(name, n, "sched_waking") || is_named(name, n, "sched_wakeup") ||
		 is_named(name, n, "sched_wakeup_new"))
		take_waking(perf, text, perf->sample.start);
}

static bool parse_frame(struct perf *perf, const char *line, bool below);

/* "401136 main+0x10 (/bin/prog)": an address, and then no word that ends in a colon as events do.
 */
static bool is_place(const char *text)
{
	size_t n = strspn(text, "0123456789abcdef"), word;

	if (n < 4 || text[n] != ' ')
		return false;
	text += n + strspn(text + n, " ");
	word = strcspn(text, " ");
	return word && text[word - 1] != ':';
}

/* "  250000 cycles:ppp: " and what follows: the text of a tracepoint, or a frame when stacks are
 * not printed. */
static void parse_event(struct perf *perf, const char *rest)
{
	const char *end;
	char *after;
	size_t n;

	rest += strspn(rest, " \t");
	perf->sample.weight = 1;
	if (is_place(rest) &&
	    parse_frame(perf, rest, false)) { /* neither period nor event are printed */
		perf->event_name = ws_into_text(perf->into, "sample");
		perf->sample.event = ws_into_event(perf->into, perf->event_name);
		return;
	}
	if (isdigit((unsigned char)*rest)) {
		perf->sample.weight = strtoull(rest, &after, 10);
		rest = after + strspn(after, " \t");
	}
	end = strchr(rest, ' ');
	n = end ? (size_t)(end - rest) : strlen(rest);
	while (n && rest[n - 1] == ':')
		n--;
	if (!n) {
		rest = "sample";
		n = 6;
		end = NULL;
	}
	if (n >= 5 && memmem(rest, n, "clock", 5))
		perf->sample.flags |= WS_SAMPLE_CLOCK;
	perf->event_name = ws_into_string(perf->into, rest, n);
	perf->sample.event = ws_into_event(perf->into, perf->event_name);
	if (!end)
		return;
	end += strspn(end, " \t");
	if (!*end || parse_frame(perf, end, false))
		return;
	perf->text = ws_into_text(perf->into, end);
	take_sched(perf, rest, n, end);
}

/* ---- a frame's line ---- */

/* The bracket that opens a module which ends at `end`; NULL when there is none. Paths may have
 * brackets and blanks in them. */
static const char *module_open(const char *name, const char *end)
{
	const char *open = end - 1;
	int depth = 0;

	for (const char *text = end; text > name; text--) { /* the one that belongs to the last */
		depth += text[-1] == ')' ? 1 : text[-1] == '(' ? -1 : 0;
		if (depth)
			continue;
		if (text - 1 > name && text[-2] == ' ')
			return text - 1;
		break;
	}
	if (end - name > 10 && !memcmp(end - 11, " (deleted))", 11))
		open = end - 11;
	while (open > name &&
	       !(*open == '(' &&
		 open[-1] == ' ')) /* they do not match: the last one that a blank stands before */
		open--;
	return *open == '(' && open > name ? open : NULL;
}

/* Branches, instructions and registers may follow in the line when stacks are not printed. */
static const char *module_end(const char *name, const char *end)
{
	const char *open;

	if (end > name && end[-1] == ')')
		return end;
	for (const char *text = end; text > name; text--)
		if (text < end && *text == ' ' && text[-1] == ')' &&
		    (open = module_open(name, text)) && (open[1] == '/' || open[1] == '['))
			return text;
	return NULL;
}

/* Other numbers may come before the address: what was accessed, its kind ("|OP LOAD|LVL L1
 * hit|..."), a weight. */
static const char *last_number(const char *name, uint64_t *address)
{
	const char *bar = *name == '|' ? strrchr(name, '|') : NULL, *text = bar ? bar : name;

	while (*text) {
		size_t n = strspn(text, "0123456789abcdef"), blanks = strspn(text + n, " ");

		if (n && blanks && text[n + blanks] && text[n + blanks] != '(') {
			*address = strtoull(text, NULL, 16);
			name = text + n + blanks;
		} else if (!bar) {
			break;
		}
		text += strcspn(text, " ");
		text += strspn(text, " ");
		if (bar && name > bar && text > name)
			break;
	}
	return name;
}

/* Without modules (-F ip,sym): an address, and a symbol or nothing. */
static bool is_bare(const char *line, const char *after, const char *name, const char *end,
		    bool below)
{
	uint64_t at;

	if (below)
		return !find_time(line, &line, &after,
				  &at); /* an event whose program has a name like a number */
	return after - line >= 6 && (name >= end || memmem(name, (size_t)(end - name), "+0x", 3));
}

static const char *without_offset(const char *name, const char *end)
{
	for (const char *text = end; text > name + 1; text--) /* "+0x1f" */
		if (text[-1] == 'x' && text[-2] == '0' && text > name + 2 && text[-3] == '+')
			return text - 3;
		else if (!isxdigit((unsigned char)text[-1]) && text[-1] != 'x')
			break;
	return end;
}

/* A frame, in a line of its own below its event or behind the event. */
static bool parse_frame(struct perf *perf, const char *line, bool below)
{
	char *after;
	uint64_t address;
	const char *name, *end, *stop, *open;
	struct frame_text *text;

	line += strspn(line, " \t");
	if (!isxdigit((unsigned char)*line))
		return false;
	address = strtoull(line, &after, 16);
	if ((*after && *after != ' ') || after - line < 4)
		return false;
	name = after + strspn(after, " ");
	stop = skip_back(name, name + strlen(name));
	end = module_end(name, stop);
	open = end ? module_open(name, end) : NULL;
	if (!open && !is_bare(line, after, name, stop, below))
		return false;
	if (perf->depth == DEPTH) {
		perf->sample.flags |= WS_SAMPLE_TRUNCATED;
		return true;
	}
	text = &perf->frames[perf->depth++];
	*text = (struct frame_text){0};
	if (open) {
		text->module = ws_into_string(
			perf->into, open + 1,
			(size_t)(end - open - 2)); /* with " (deleted)", as perf says it */
		text->kernel = open[1] == '[' && (end - open < 6 || memcmp(open + 1, "[vdso", 5));
		text->inlined = end - open == 9 && !memcmp(open, "(inlined)", 9);
	}
	if (!open)
		text->kernel = address >> 63;
	if (!below && open)
		name = last_number(name, &address);
	text->address = address;
	end = without_offset(name, skip_back(name, open ? open : stop));
	if (end > name && !(end - name == 9 && !memcmp(name, "[unknown]", 9)))
		text->symbol = ws_into_string(perf->into, name, (size_t)(end - name));
	return true;
}

/* ---- rows ---- */

static void finish(struct perf *perf)
{
	struct ws_row_sample *row;
	uint32_t stack = 0, frame = 0;

	if (!perf->open)
		return;
	perf->open = false;
	if (perf->text && !perf->depth) { /* a tracepoint */
		struct ws_row_ftrace *row_ftrace = ws_into_row(perf->into, WS_TABLE_ftrace);

		*row_ftrace = (struct ws_row_ftrace){
			.start = perf->sample.start,
			.thread = perf->sample.thread,
			.cpu = perf->sample.cpu == WS_NO_U32 ? 0 : perf->sample.cpu,
			.name = perf->event_name,
			.text = perf->text};
		return;
	}
	for (int i = perf->depth; i--;) {
		struct frame_text *text = &perf->frames[i];

		if (text->inlined && i + 1 < perf->depth) { /* into the function that comes next,
								 and so in its file */
			text->module = text[1].module;
			text->kernel = text[1].kernel;
		}
		frame = ws_into_frame(perf->into, text->symbol, text->module, text->address,
				      text->kernel,
				      text->kernel ? WS_UNWIND_KERNEL : WS_UNWIND_UNKNOWN);
		if (i)
			stack = ws_into_stack(perf->into, stack, frame);
	}
	perf->sample.frame = frame;
	perf->sample.callers = stack;
	perf->sample.state = WS_STATE_RUNNING;
	if (perf->depth && perf->frames[0].kernel)
		perf->sample.flags |= WS_SAMPLE_KERNEL;
	row = ws_into_row(perf->into, WS_TABLE_sample);
	*row = perf->sample;
	perf->samples++;
}

static void take_line(struct perf *perf, const char *line, size_t n)
{
	const char *from, *rest;
	uint64_t at;

	if (!n || line[strspn(line, " \t")] == 0) {
		finish(perf);
		return;
	}
	if (*line == '#')
		return;
	if (perf->open && (*line == ' ' || *line == '\t') && parse_frame(perf, line, true))
		return;
	if (perf->open && (*line == ' ' || *line == '\t') && !find_time(line, &from, &rest, &at)) {
		perf->extra++; /* branches, registers, source lines */
		return;
	}
	finish(perf);
	perf->sample = (struct ws_row_sample){0};
	perf->depth = 0;
	perf->text = 0;
	if (!find_time(line, &from, &rest, &at) || !parse_who(perf, line, from, at)) {
		perf->odd++;
		return;
	}
	perf->sample.start = at;
	ws_into_time(perf->into, at);
	rest += strspn(rest, " \t");
	if (!strncmp(rest, "PERF_RECORD_", 12)) {
		if (!strncmp(rest + 12, "SWITCH", 6))
			take_switch_record(perf, rest,
					   ws_into_thread_of(perf->into, perf->sample.thread)->tid);
		else
			ws_into_note(
				perf->into,
				"Records of processes and maps (PERF_RECORD_...) were left out.");
		return;
	}
	perf->open = true;
	parse_event(perf, rest);
}

/* What was on a core at the end. */
static void finish_spans(struct perf *perf)
{
	for (size_t i = 0; i < perf->on.size; i++) {
		uint64_t tid = perf->on.slots[i].key;

		if (perf->on.used[i])
			put_span(perf, tid, known_thread(perf, tid, NULL, 0),
				 perf->on.slots[i].value, WS_NO_TIME, WS_AFTER_UNKNOWN);
	}
}

int ws_perf_script_import(struct ws_into *into, struct ws_source *source)
{
	struct perf *perf = ws_calloc(1, sizeof(*perf));
	uint64_t before = into->rows;
	char *line;
	size_t n;

	perf->into = into;
	perf->source = source;
	while (!into->full && next_line(perf, &line, &n)) {
		take_line(perf, line, n);
		if (!(perf->lines & 0xfff)) {
			ws_writer_commit(into->writer);
			ws_into_progress(into, ws_source_done(source), ws_source_size(source));
			if (ws_writer_error(into->writer, NULL))
				break;
		}
	}
	finish(perf);
	finish_spans(perf);
	ws_into_note_n(into, perf->extra,
		       "Lines below events that are no frames (branches, registers, source lines) "
		       "were left out.");
	ws_into_note_n(into, perf->odd, "Lines that are no event of perf script were left out.");
	if (ws_source_broken(source))
		ws_into_note(into, "The text is broken: %s. What stands before was read.",
			     ws_source_broken(source));
	ws_map_free(&perf->threads);
	ws_map_free(&perf->on);
	ws_map_free(&perf->on_cpu);
	ws_map_free(&perf->woken);
	ws_map_free(&perf->wakers);
	free(perf);
	if (into->rows == before && !into->full)
		ws_into_stop(into, "%s holds no events of perf script", into->path);
	return into->full ? -1 : 0;
}
