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
	struct ws_into *o;
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
static bool next_line(struct perf *p, char **line, size_t *n)
{
	for (;;) {
		char *start = p->buffer + p->at, *end = memchr(start, '\n', p->len - p->at);

		if (end || (p->eof && p->at < p->len) || p->len - p->at >= LINE) {
			*n = end ? (size_t)(end - start) : p->len - p->at;
			*n = *n < LINE ? *n : LINE;
			p->at += *n + (end != NULL && start + *n == end);
			if (*n && start[*n - 1] == '\r')
				(*n)--;
			start[*n] = 0;
			*line = start;
			p->lines++;
			return true;
		}
		if (p->eof)
			return false;
		memmove(p->buffer, start, p->len - p->at);
		p->len -= p->at;
		p->at = 0;
		{
			size_t got = ws_source_read(p->source, p->buffer + p->len,
						    sizeof(p->buffer) - 1 - p->len);

			p->len += got;
			p->eof = !got;
		}
	}
}

/* ---- an event's line ---- */

/* "1234.567890:" as nanoseconds; the start of the field in *from and what follows in *rest. */
static bool find_time(const char *line, const char **from, const char **rest, uint64_t *ns)
{
	for (const char *s = line; *s; s++) {
		const char *p = s;
		uint64_t seconds = 0, fraction = 0;
		int digits = 0;

		if ((s != line && s[-1] != ' ' && s[-1] != '\t') || !isdigit((unsigned char)*s))
			continue;
		for (; isdigit((unsigned char)*p) && seconds < UINT64_C(10000000000); p++)
			seconds = seconds * 10 + (uint64_t)(*p - '0');
		if (*p++ != '.')
			continue;
		for (; isdigit((unsigned char)*p) && digits < 9; p++, digits++)
			fraction = fraction * 10 + (uint64_t)(*p - '0');
		if (!digits || *p != ':')
			continue;
		for (; digits < 9; digits++)
			fraction *= 10;
		*ns = seconds * 1000000000 + fraction;
		*from = s;
		*rest = p + 1;
		return true;
	}
	return false;
}

/* The number that ends at `end`, or -1; *before gets where it begins. */
static int64_t number_before(const char *line, const char *end, const char **before)
{
	const char *p = end;

	while (p > line && isdigit((unsigned char)p[-1]))
		p--;
	*before = p;
	return p < end && end - p < 11 ? strtoll(p, NULL, 10) : -1;
}

static const char *skip_back(const char *line, const char *p)
{
	while (p > line && (p[-1] == ' ' || p[-1] == '\t'))
		p--;
	return p;
}

/* Events that do not tell their thread (-F without pid and tid) are of one that is called as they
 * say, or not at all. */
static bool nameless(struct perf *p, const char *line, const char *end, uint64_t at)
{
	size_t n;
	uint32_t process;

	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	n = (size_t)(skip_back(line, end) - line);
	process = ws_into_process(p->o, UINT64_C(1) << 40 | XXH3_64bits(line, n) >> 25, 0);
	if (n && !ws_into_process_of(p->o, process)->name)
		ws_into_process_of(p->o, process)->name = ws_into_string(p->o, line, n);
	p->sample.thread = ws_into_thread(p->o, process, 0, at);
	if (n)
		ws_into_name_thread(p->o, p->sample.thread, line, n, 10);
	return true;
}

/* "comm pid/tid [cpu] flags " before the time. */
static bool parse_who(struct perf *p, const char *line, const char *end, uint64_t at)
{
	const char *q = skip_back(line, end), *before;
	int64_t pid, tid;
	uint32_t process;

	p->sample.cpu = WS_NO_U32;
	for (;;) { /* [cpu], and flags such as d..3. */
		if (q > line && q[-1] == ']') {
			int64_t cpu = number_before(line, q - 1, &before);

			if (cpu < 0 || before == line || before[-1] != '[')
				return false;
			p->sample.cpu = (uint32_t)cpu;
			q = skip_back(line, before - 1);
			if (q > line && !isdigit((unsigned char)q[-1]))
				return nameless(p, line, q, at);
		} else if (q > line && !isdigit((unsigned char)q[-1])) {
			while (q > line && q[-1] != ' ')
				q--;
			q = skip_back(line, q);
			if (q == line)
				return nameless(p, line, end, at);
		} else {
			break;
		}
	}
	tid = number_before(line, q, &before);
	if (tid < 0)
		return q == line && nameless(p, line, q, at);
	pid = tid;
	if (before > line && before[-1] == '/') {
		pid = number_before(line, before - 1, &before);
		if (pid < 0)
			return false;
	}
	q = skip_back(line, before);
	while (line < q && (*line == ' ' || *line == '\t'))
		line++;
	process = ws_into_process(p->o, (uint64_t)pid, (uint32_t)pid);
	if (!ws_into_process_of(p->o, process)->name)
		ws_into_process_of(p->o, process)->name =
			ws_into_string(p->o, line, (size_t)(q - line));
	p->sample.thread = ws_into_thread(p->o, process, (uint64_t)tid, at);
	ws_into_name_thread(p->o, p->sample.thread, line, (size_t)(q - line), 10);
	if (p->threads.n < WS_INTO_MOST)
		ws_map_set(&p->threads, (uint64_t)tid, p->sample.thread);
	return true;
}

/* ---- switches of threads ---- */

static uint32_t known_thread(struct perf *p, uint64_t tid, const char *comm, size_t n)
{
	uint32_t id = (uint32_t)ws_map_get(&p->threads, tid, NULL), process;

	if (id)
		return id;
	process = ws_into_process(p->o, tid, (uint32_t)tid);
	id = ws_into_thread(p->o, process, tid, WS_NO_TIME);
	if (n) {
		if (!ws_into_process_of(p->o, process)->name)
			ws_into_process_of(p->o, process)->name = ws_into_string(p->o, comm, n);
		ws_into_name_thread(p->o, id, comm, n, 5);
	}
	if (p->threads.n < WS_INTO_MOST)
		ws_map_set(&p->threads, tid, id);
	return id;
}

static void put_span(struct perf *p, uint64_t tid, uint32_t thread, uint64_t start, uint64_t at,
		     uint8_t after)
{
	uint64_t cpu = 0, woken = WS_NO_TIME, waker = 0;
	struct ws_row_sched *row;

	ws_map_take(&p->on_cpu, tid, &cpu);
	if (ws_map_take(&p->woken, tid << 1 | 1, &woken))
		ws_map_take(&p->wakers, tid << 1 | 1, &waker);
	row = ws_into_row(p->o, WS_TABLE_sched);
	*row = (struct ws_row_sched){.start = start,
				     .end = at == WS_NO_TIME || at > start ? at : start,
				     .thread = thread,
				     .cpu = cpu ? (uint32_t)cpu - 1 : WS_NO_U32,
				     .woken = woken,
				     .waker = (uint32_t)waker,
				     .after = after};
}

static void span_ends(struct perf *p, uint64_t tid, uint32_t thread, uint64_t at, uint8_t after)
{
	uint64_t start;

	if (ws_map_take(&p->on, tid, &start))
		put_span(p, tid, thread, start, at, after);
}

/* A wake-up before is of this span: kept under an odd key until the span ends. */
static void span_begins(struct perf *p, uint64_t tid, uint64_t at)
{
	uint64_t woken, waker = 0;

	if (!tid || p->on.n >= WS_INTO_MOST)
		return;
	ws_map_set(&p->on, tid, at);
	ws_map_set(&p->on_cpu, tid, p->sample.cpu == WS_NO_U32 ? 0 : (uint64_t)p->sample.cpu + 1);
	if (ws_map_take(&p->woken, tid << 1, &woken) && woken <= at) {
		ws_map_take(&p->wakers, tid << 1, &waker);
		ws_map_set(&p->woken, tid << 1 | 1, woken);
		ws_map_set(&p->wakers, tid << 1 | 1, waker);
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
static bool take_side(const char *text, const char *end, const char *name, struct side *s)
{
	char key[32];
	size_t n = (size_t)snprintf(key, sizeof(key), "%scomm=", name);
	const char *at = memmem(text, (size_t)(end - text), key, n), *pid, *p;

	*s = (struct side){.state = ""};
	if (at) {
		s->comm = at + n;
		n = (size_t)snprintf(key, sizeof(key), " %spid=", name);
		pid = memmem(s->comm, (size_t)(end - s->comm), key, n);
		if (!pid)
			return false;
		s->n = (size_t)(pid - s->comm);
		s->tid = strtoull(pid + n, NULL, 10);
		n = (size_t)snprintf(key, sizeof(key), " %sstate=", name);
		p = memmem(pid, (size_t)(end - pid), key, n);
		s->state = p ? p + n : "";
		return true;
	}
	for (pid = memmem(text, (size_t)(end - text), " [", 2); pid;
	     pid = memmem(pid + 1, (size_t)(end - pid - 1), " [", 2)) {
		for (p = pid; p > text && isdigit((unsigned char)p[-1]); p--)
			;
		if (p == pid || p == text || p[-1] != ':')
			continue;
		s->comm = text + strspn(text, " ");
		s->n = (size_t)(p - 1 - s->comm);
		s->tid = strtoull(p, NULL, 10);
		p = memchr(pid, ']', (size_t)(end - pid));
		s->state = p && p + 2 < end && p[1] == ' ' ? p + 2 : "";
		return s->comm < p;
	}
	return false;
}

static void take_switch(struct perf *p, const char *text, uint64_t at)
{
	const char *arrow = strstr(text, " ==> ");
	struct side prev, next;

	if (!arrow || !take_side(text, arrow, "prev_", &prev) ||
	    !take_side(arrow + 5, arrow + strlen(arrow), "next_", &next)) {
		ws_into_note(p->o,
			     "Switches of threads in a form that is not known were left out.");
		return;
	}
	span_ends(p, prev.tid, known_thread(p, prev.tid, prev.comm, prev.n), at,
		  after_of(prev.state));
	span_begins(p, next.tid, at);
	if (next.tid)
		known_thread(p, next.tid, next.comm, next.n);
}

static void take_waking(struct perf *p, const char *text, uint64_t at)
{
	struct side s;

	if (!take_side(text, text + strlen(text), "", &s) || !s.tid ||
	    ws_map_get(&p->on, s.tid, NULL) || ws_map_get(&p->woken, s.tid << 1, NULL) ||
	    p->woken.n >= WS_INTO_MOST)
		return; /* it runs, or waits to run already: sched_wakeup repeats what sched_waking
			   said */
	ws_map_set(&p->woken, s.tid << 1, at);
	ws_map_set(&p->wakers, s.tid << 1, p->sample.thread);
}

/* "PERF_RECORD_SWITCH_CPU_WIDE OUT preempt next pid/tid: 22/22", about the thread of the line. */
static void take_switch_record(struct perf *p, const char *text, uint64_t tid)
{
	const char *out = strstr(text, " OUT");

	if (out)
		span_ends(p, tid, p->sample.thread, p->sample.start,
			  strstr(out, "preempt") ? WS_AFTER_PREEMPTED : WS_AFTER_BLOCKED);
	else if (strstr(text, " IN"))
		span_begins(p, tid, p->sample.start);
}

static bool is_named(const char *name, size_t n, const char *what)
{
	size_t m = strlen(what);

	return n >= m && !memcmp(name + n - m, what, m) && (n == m || name[n - m - 1] == ':');
}

/* A tracepoint of scheduling, besides being a row of its own. */
static void take_sched(struct perf *p, const char *name, size_t n, const char *text)
{
	if (is_named(name, n, "sched_switch"))
		take_switch(p, text, p->sample.start);
	else if (is_named(name, n, "sched_waking") || is_named(name, n, "sched_wakeup") ||
		 is_named(name, n, "sched_wakeup_new"))
		take_waking(p, text, p->sample.start);
}

static bool parse_frame(struct perf *p, const char *line, bool below);

/* "401136 main+0x10 (/bin/prog)": an address, and then no word that ends in a colon as events do.
 */
static bool is_place(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef"), word;

	if (n < 4 || s[n] != ' ')
		return false;
	s += n + strspn(s + n, " ");
	word = strcspn(s, " ");
	return word && s[word - 1] != ':';
}

/* "  250000 cycles:ppp: " and what follows: the text of a tracepoint, or a frame when stacks are
 * not printed. */
static void parse_event(struct perf *p, const char *rest)
{
	const char *end;
	char *after;
	size_t n;

	rest += strspn(rest, " \t");
	p->sample.weight = 1;
	if (is_place(rest) &&
	    parse_frame(p, rest, false)) { /* neither period nor event are printed */
		p->event_name = ws_into_text(p->o, "sample");
		p->sample.event = ws_into_event(p->o, p->event_name);
		return;
	}
	if (isdigit((unsigned char)*rest)) {
		p->sample.weight = strtoull(rest, &after, 10);
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
		p->sample.flags |= WS_SAMPLE_CLOCK;
	p->event_name = ws_into_string(p->o, rest, n);
	p->sample.event = ws_into_event(p->o, p->event_name);
	if (!end)
		return;
	end += strspn(end, " \t");
	if (!*end || parse_frame(p, end, false))
		return;
	p->text = ws_into_text(p->o, end);
	take_sched(p, rest, n, end);
}

/* ---- a frame's line ---- */

/* The bracket that opens a module which ends at `end`; NULL when there is none. Paths may have
 * brackets and blanks in them. */
static const char *module_open(const char *name, const char *end)
{
	const char *open = end - 1;
	int depth = 0;

	for (const char *s = end; s > name; s--) { /* the one that belongs to the last */
		depth += s[-1] == ')' ? 1 : s[-1] == '(' ? -1 : 0;
		if (depth)
			continue;
		if (s - 1 > name && s[-2] == ' ')
			return s - 1;
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
	for (const char *s = end; s > name; s--)
		if (s < end && *s == ' ' && s[-1] == ')' && (open = module_open(name, s)) &&
		    (open[1] == '/' || open[1] == '['))
			return s;
	return NULL;
}

/* Other numbers may come before the address: what was accessed, its kind ("|OP LOAD|LVL L1
 * hit|..."), a weight. */
static const char *last_number(const char *name, uint64_t *address)
{
	const char *bar = *name == '|' ? strrchr(name, '|') : NULL, *s = bar ? bar : name;

	while (*s) {
		size_t n = strspn(s, "0123456789abcdef"), blanks = strspn(s + n, " ");

		if (n && blanks && s[n + blanks] && s[n + blanks] != '(') {
			*address = strtoull(s, NULL, 16);
			name = s + n + blanks;
		} else if (!bar) {
			break;
		}
		s += strcspn(s, " ");
		s += strspn(s, " ");
		if (bar && name > bar && s > name)
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
	for (const char *s = end; s > name + 1; s--) /* "+0x1f" */
		if (s[-1] == 'x' && s[-2] == '0' && s > name + 2 && s[-3] == '+')
			return s - 3;
		else if (!isxdigit((unsigned char)s[-1]) && s[-1] != 'x')
			break;
	return end;
}

/* A frame, in a line of its own below its event or behind the event. */
static bool parse_frame(struct perf *p, const char *line, bool below)
{
	char *after;
	uint64_t address;
	const char *name, *end, *stop, *open;
	struct frame_text *f;

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
	if (p->depth == DEPTH) {
		p->sample.flags |= WS_SAMPLE_TRUNCATED;
		return true;
	}
	f = &p->frames[p->depth++];
	*f = (struct frame_text){0};
	if (open) {
		f->module = ws_into_string(
			p->o, open + 1,
			(size_t)(end - open - 2)); /* with " (deleted)", as perf says it */
		f->kernel = open[1] == '[' && (end - open < 6 || memcmp(open + 1, "[vdso", 5));
		f->inlined = end - open == 9 && !memcmp(open, "(inlined)", 9);
	}
	if (!open)
		f->kernel = address >> 63;
	if (!below && open)
		name = last_number(name, &address);
	f->address = address;
	end = without_offset(name, skip_back(name, open ? open : stop));
	if (end > name && !(end - name == 9 && !memcmp(name, "[unknown]", 9)))
		f->symbol = ws_into_string(p->o, name, (size_t)(end - name));
	return true;
}

/* ---- rows ---- */

static void finish(struct perf *p)
{
	struct ws_row_sample *row;
	uint32_t stack = 0, frame = 0;

	if (!p->open)
		return;
	p->open = false;
	if (p->text && !p->depth) { /* a tracepoint */
		struct ws_row_ftrace *f = ws_into_row(p->o, WS_TABLE_ftrace);

		*f = (struct ws_row_ftrace){.start = p->sample.start,
					    .thread = p->sample.thread,
					    .cpu = p->sample.cpu == WS_NO_U32 ? 0 : p->sample.cpu,
					    .name = p->event_name,
					    .text = p->text};
		return;
	}
	for (int i = p->depth; i--;) {
		struct frame_text *t = &p->frames[i];

		if (t->inlined &&
		    i + 1 < p->depth) { /* into the function that comes next, and so in its file */
			t->module = t[1].module;
			t->kernel = t[1].kernel;
		}
		frame = ws_into_frame(p->o, t->symbol, t->module, t->address, t->kernel,
				      t->kernel ? WS_UNWIND_KERNEL : WS_UNWIND_UNKNOWN);
		if (i)
			stack = ws_into_stack(p->o, stack, frame);
	}
	p->sample.frame = frame;
	p->sample.callers = stack;
	p->sample.state = WS_STATE_RUNNING;
	if (p->depth && p->frames[0].kernel)
		p->sample.flags |= WS_SAMPLE_KERNEL;
	row = ws_into_row(p->o, WS_TABLE_sample);
	*row = p->sample;
	p->samples++;
}

static void take_line(struct perf *p, const char *line, size_t n)
{
	const char *from, *rest;
	uint64_t at;

	if (!n || line[strspn(line, " \t")] == 0) {
		finish(p);
		return;
	}
	if (*line == '#')
		return;
	if (p->open && (*line == ' ' || *line == '\t') && parse_frame(p, line, true))
		return;
	if (p->open && (*line == ' ' || *line == '\t') && !find_time(line, &from, &rest, &at)) {
		p->extra++; /* branches, registers, source lines */
		return;
	}
	finish(p);
	p->sample = (struct ws_row_sample){0};
	p->depth = 0;
	p->text = 0;
	if (!find_time(line, &from, &rest, &at) || !parse_who(p, line, from, at)) {
		p->odd++;
		return;
	}
	p->sample.start = at;
	ws_into_time(p->o, at);
	rest += strspn(rest, " \t");
	if (!strncmp(rest, "PERF_RECORD_", 12)) {
		if (!strncmp(rest + 12, "SWITCH", 6))
			take_switch_record(p, rest, ws_into_thread_of(p->o, p->sample.thread)->tid);
		else
			ws_into_note(
				p->o,
				"Records of processes and maps (PERF_RECORD_...) were left out.");
		return;
	}
	p->open = true;
	parse_event(p, rest);
}

/* What was on a core at the end. */
static void finish_spans(struct perf *p)
{
	for (size_t i = 0; i < p->on.size; i++) {
		uint64_t tid = p->on.slots[i].key;

		if (p->on.used[i])
			put_span(p, tid, known_thread(p, tid, NULL, 0), p->on.slots[i].value,
				 WS_NO_TIME, WS_AFTER_UNKNOWN);
	}
}

int ws_perf_script_import(struct ws_into *o, struct ws_source *s)
{
	struct perf *p = ws_calloc(1, sizeof(*p));
	uint64_t before = o->rows;
	char *line;
	size_t n;

	p->o = o;
	p->source = s;
	while (!o->full && next_line(p, &line, &n)) {
		take_line(p, line, n);
		if (!(p->lines & 0xfff)) {
			ws_writer_commit(o->w);
			ws_into_progress(o, ws_source_done(s), ws_source_size(s));
			if (ws_writer_error(o->w, NULL))
				break;
		}
	}
	finish(p);
	finish_spans(p);
	ws_into_note_n(o, p->extra,
		       "Lines below events that are no frames (branches, registers, source lines) "
		       "were left out.");
	ws_into_note_n(o, p->odd, "Lines that are no event of perf script were left out.");
	if (ws_source_broken(s))
		ws_into_note(o, "The text is broken: %s. What stands before was read.",
			     ws_source_broken(s));
	ws_map_free(&p->threads);
	ws_map_free(&p->on);
	ws_map_free(&p->on_cpu);
	ws_map_free(&p->woken);
	ws_map_free(&p->wakers);
	free(p);
	if (o->rows == before && !o->full)
		ws_into_stop(o, "%s holds no events of perf script", o->path);
	return o->full ? -1 : 0;
}
