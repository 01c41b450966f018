/*
 * perf_script.c - the text that `perf script` prints: samples with their stacks, and tracepoints.
 *
 * An event is a line "comm pid/tid [cpu] seconds: period event:" and, for samples, a line for each
 * frame, innermost first: blanks, address, function and offset, module in brackets. An empty line
 * ends it. Which fields are printed depends on how perf was called, so the line is read around the
 * one field that must be there, the time. Lines below an event that are not frames (branches,
 * source lines, registers) are skipped.
 *
 * Context switches become spans on cores. They are read from the tracepoints sched_switch,
 * sched_waking and sched_wakeup, in the format of the kernel or of perf's plug-ins, and from the
 * lines of --show-switch-events.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "import/formats.h"

enum { LINE = 64 << 10, DEPTH = 1024 }; /* longest line, bytes; deepest stack */

struct frame_text {
	uint32_t symbol, module;
	uint64_t address;
	bool kernel, inlined;
};

struct perf_text {
	struct ws_importer *importer;
	struct ws_input *source;
	char buffer[2 * LINE];
	size_t offset, length;
	bool eof;
	/* The current event. */
	bool open;
	struct ws_row_sample sample;
	struct frame_text frames[DEPTH]; /* innermost first */
	int depth;
	uint32_t tracepoint_text; /* of a tracepoint */
	uint32_t event_name;
	uint64_t lines, samples;
	uint64_t odd_lines, extra_lines; /* lines that are not events; lines below an event that are
					    not frames */
	struct ws_map threads;		 /* tid -> thread */
	struct ws_map running_since;	 /* tid -> when it was switched to */
	struct ws_map running_on; /* tid -> the core that it was switched to on, + 1; 0: unknown */
	struct ws_map woken, wakers; /* tid -> when it was made runnable, and by which thread */
};

/* Remove the first line from the buffer, up to LINE bytes; `end` is its newline, or NULL if there
 * is none. */
static char *remove_line(struct perf_text *perf, const char *end, size_t *length)
{
	char *start = perf->buffer + perf->offset;

	*length = perf->length - perf->offset;
	if (end)
		*length = (size_t)(end - start);
	*length = ws_min(*length, (size_t)LINE);
	perf->offset += *length + (end && start + *length == end);
	if (*length && start[*length - 1] == '\r')
		(*length)--;
	start[*length] = 0;
	perf->lines++;
	return start;
}

/* Move the rest of the text to the start of the buffer and read more after it. */
static void fill_buffer(struct perf_text *perf)
{
	size_t got;

	memmove(perf->buffer, perf->buffer + perf->offset, perf->length - perf->offset);
	perf->length -= perf->offset;
	perf->offset = 0;
	got = ws_read_input(perf->source, perf->buffer + perf->length,
			    sizeof(perf->buffer) - 1 - perf->length);
	perf->length += got;
	perf->eof = !got;
}

/* The next line without its end, NUL-terminated. False at the end of the text. */
static bool next_line(struct perf_text *perf, char **line, size_t *length)
{
	for (;;) {
		const char *end =
			memchr(perf->buffer + perf->offset, '\n', perf->length - perf->offset);

		if (end || (perf->eof && perf->offset < perf->length) ||
		    perf->length - perf->offset >= LINE) {
			*line = remove_line(perf, end, length);
			return true;
		}
		if (perf->eof)
			return false;
		fill_buffer(perf);
	}
}

/* ---- an event's line ---- */

/* Find "1234.567890:" in a line and read it as nanoseconds; *from gets the start of the field,
 * *rest what follows it. */
static bool find_time(const char *line, const char **from, const char **rest, uint64_t *ns)
{
	for (const char *p = line; *p; p++) {
		const char *at = p;
		uint64_t seconds = 0, fraction = 0;
		int digits = 0;

		if ((p != line && p[-1] != ' ' && p[-1] != '\t') || !isdigit((unsigned char)*p))
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
		*from = p;
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
	if (at == end || end - at >= 11)
		return -1;
	return strtoll(at, NULL, 10);
}

/* Skip backwards over the blanks that end at `at`. */
static const char *skip_blanks_back(const char *line, const char *at)
{
	while (at > line && (at[-1] == ' ' || at[-1] == '\t'))
		at--;
	return at;
}

/* Events without a thread (-F without pid and tid) are assigned to one that is named after their
 * command, if they have one. Always true. */
static bool use_named_thread(struct perf_text *perf, const char *line, const char *end, uint64_t at)
{
	size_t length;
	uint32_t process;

	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	length = (size_t)(skip_blanks_back(line, end) - line);
	process = ws_importer_intern_process(
		perf->importer, UINT64_C(1) << 40 | XXH3_64bits(line, length) >> 25, 0);
	if (length && !ws_importer_get_process(perf->importer, process)->name)
		ws_importer_get_process(perf->importer, process)->name =
			ws_importer_add_string(perf->importer, line, length);
	perf->sample.thread = ws_importer_intern_thread(perf->importer, process, 0, at);
	if (length)
		ws_importer_name_thread(perf->importer, perf->sample.thread, line, length, 10);
	return true;
}

/* Read "comm pid/tid [cpu] flags ", which stands before the time. False when it is not there. */
static bool parse_thread(struct perf_text *perf, const char *line, const char *end, uint64_t at)
{
	const char *p = skip_blanks_back(line, end), *before;
	int64_t pid, tid;
	uint32_t process;

	perf->sample.cpu = WS_NO_U32;
	for (;;) { /* [cpu], and flags such as d..3. */
		if (p > line && p[-1] == ']') {
			int64_t cpu = number_before(line, p - 1, &before);

			if (cpu < 0 || before == line || before[-1] != '[')
				return false;
			perf->sample.cpu = (uint32_t)cpu;
			p = skip_blanks_back(line, before - 1);
			if (p > line && !isdigit((unsigned char)p[-1]))
				return use_named_thread(perf, line, p, at);
		} else if (p > line && !isdigit((unsigned char)p[-1])) {
			while (p > line && p[-1] != ' ')
				p--;
			p = skip_blanks_back(line, p);
			if (p == line)
				return use_named_thread(perf, line, end, at);
		} else {
			break;
		}
	}
	tid = number_before(line, p, &before);
	if (tid < 0)
		return p == line && use_named_thread(perf, line, p, at);
	pid = tid;
	if (before > line && before[-1] == '/') {
		pid = number_before(line, before - 1, &before);
		if (pid < 0)
			return false;
	}
	p = skip_blanks_back(line, before);
	while (line < p && (*line == ' ' || *line == '\t'))
		line++;
	process = ws_importer_intern_process(perf->importer, (uint64_t)pid, (uint32_t)pid);
	if (!ws_importer_get_process(perf->importer, process)->name)
		ws_importer_get_process(perf->importer, process)->name =
			ws_importer_add_string(perf->importer, line, (size_t)(p - line));
	perf->sample.thread = ws_importer_intern_thread(perf->importer, process, (uint64_t)tid, at);
	ws_importer_name_thread(perf->importer, perf->sample.thread, line, (size_t)(p - line), 10);
	if (perf->threads.count < WS_IMPORT_LIMIT)
		ws_map_set(&perf->threads, (uint64_t)tid, perf->sample.thread);
	return true;
}

/* ---- context switches ---- */

/* The thread with a tid, made and named after its command if it is new. */
static uint32_t find_thread(struct perf_text *perf, uint64_t tid, const char *comm, size_t length)
{
	uint32_t id = (uint32_t)ws_map_get(&perf->threads, tid, NULL), process;

	if (id)
		return id;
	process = ws_importer_intern_process(perf->importer, tid, (uint32_t)tid);
	id = ws_importer_intern_thread(perf->importer, process, tid, WS_NO_TIME);
	if (length) {
		if (!ws_importer_get_process(perf->importer, process)->name)
			ws_importer_get_process(perf->importer, process)->name =
				ws_importer_add_string(perf->importer, comm, length);
		ws_importer_name_thread(perf->importer, id, comm, length, 5);
	}
	if (perf->threads.count < WS_IMPORT_LIMIT)
		ws_map_set(&perf->threads, tid, id);
	return id;
}

/* Write a span from `start` to `at`, which is WS_NO_TIME when its end is not known. */
static void put_span(struct perf_text *perf, uint64_t tid, uint32_t thread, uint64_t start,
		     uint64_t at, uint8_t after)
{
	uint64_t cpu = 0, woken = WS_NO_TIME, waker = 0;
	struct ws_row_sched *row;

	ws_map_remove(&perf->running_on, tid, &cpu);
	if (ws_map_remove(&perf->woken, tid << 1 | 1, &woken))
		ws_map_remove(&perf->wakers, tid << 1 | 1, &waker);
	row = ws_importer_add_row(perf->importer, WS_TABLE_sched);
	*row = (struct ws_row_sched){.start = start,
				     .end = ws_max(at, start), /* WS_NO_TIME is the largest */
				     .thread = thread,
				     .cpu = (uint32_t)cpu - 1, /* 0 becomes WS_NO_U32 */
				     .woken = woken,
				     .waker = (uint32_t)waker,
				     .after = after};
}

static void end_span(struct perf_text *perf, uint64_t tid, uint32_t thread, uint64_t at,
		     uint8_t after)
{
	uint64_t start;

	if (ws_map_remove(&perf->running_since, tid, &start))
		put_span(perf, tid, thread, start, at, after);
}

/* The preceding wake-up belongs to this span: it is kept under an odd key until the span ends. */
static void begin_span(struct perf_text *perf, uint64_t tid, uint64_t at)
{
	uint64_t woken, waker = 0;

	if (!tid || perf->running_since.count >= WS_IMPORT_LIMIT)
		return;
	ws_map_set(&perf->running_since, tid, at);
	ws_map_set(&perf->running_on, tid, (uint32_t)(perf->sample.cpu + 1)); /* 0 for WS_NO_U32 */
	if (ws_map_remove(&perf->woken, tid << 1, &woken) && woken <= at) {
		ws_map_remove(&perf->wakers, tid << 1, &waker);
		ws_map_set(&perf->woken, tid << 1 | 1, woken);
		ws_map_set(&perf->wakers, tid << 1 | 1, waker);
	}
}

/* What a thread does after it was switched out, by the letter of its state. */
static uint8_t classify_state(const char *state)
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

/* A thread in a tracepoint: either side of a switch, or the one that is woken. */
struct switch_side {
	const char *comm, *state;
	size_t comm_length;
	uint64_t tid;
};

/* What follows NAMEkey in a text; NULL when it is not there. */
static const char *find_value(const char *text, const char *end, const char *name, const char *key)
{
	char full[32];
	size_t length = (size_t)snprintf(full, sizeof(full), "%s%s", name, key);
	const char *at = memmem(text, (size_t)(end - text), full, length);

	return at ? at + length : NULL;
}

/* "my prog NAMEpid=11 NAMEprio=120 NAMEstate=S", from side->comm on. */
static bool parse_kernel_side(const char *end, const char *name, struct switch_side *side)
{
	const char *pid, *state;
	char key[32];

	snprintf(key, sizeof(key), " %s", name);
	pid = find_value(side->comm, end, key, "pid=");
	if (!pid)
		return false;
	side->comm_length = (size_t)(pid - side->comm) - strlen(key) - 4;
	side->tid = strtoull(pid, NULL, 10);
	state = find_value(pid, end, key, "state=");
	if (state)
		side->state = state;
	return true;
}

/* "NAMEcomm=my prog NAMEpid=11 NAMEprio=120 NAMEstate=S", or "my prog:11 [120] S" as perf's plug-in
 * prints it. */
static bool parse_side(const char *text, const char *end, const char *name,
		       struct switch_side *side)
{
	const char *pid, *from;

	*side = (struct switch_side){.state = ""};
	side->comm = find_value(text, end, name, "comm=");
	if (side->comm)
		return parse_kernel_side(end, name, side);
	for (pid = memmem(text, (size_t)(end - text), " [", 2); pid;
	     pid = memmem(pid + 1, (size_t)(end - pid - 1), " [", 2)) {
		for (from = pid; from > text && isdigit((unsigned char)from[-1]); from--)
			;
		if (from == pid || from == text || from[-1] != ':')
			continue;
		side->comm = text + strspn(text, " ");
		side->comm_length = (size_t)(from - 1 - side->comm);
		side->tid = strtoull(from, NULL, 10);
		from = memchr(pid, ']', (size_t)(end - pid));
		if (from && from + 2 < end && from[1] == ' ')
			side->state = from + 2;
		return side->comm < from;
	}
	return false;
}

static void read_switch(struct perf_text *perf, const char *text, uint64_t at)
{
	const char *arrow = strstr(text, " ==> ");
	struct switch_side prev, next;

	if (!arrow || !parse_side(text, arrow, "prev_", &prev) ||
	    !parse_side(arrow + 5, arrow + strlen(arrow), "next_", &next)) {
		ws_importer_add_note(
			perf->importer,
			"Switches of threads in a form that is not known were left out.");
		return;
	}
	end_span(perf, prev.tid, find_thread(perf, prev.tid, prev.comm, prev.comm_length), at,
		 classify_state(prev.state));
	begin_span(perf, next.tid, at);
	if (next.tid)
		find_thread(perf, next.tid, next.comm, next.comm_length);
}

static void read_waking(struct perf_text *perf, const char *text, uint64_t at)
{
	struct switch_side side;

	if (!parse_side(text, text + strlen(text), "", &side) || !side.tid ||
	    ws_map_get(&perf->running_since, side.tid, NULL) ||
	    ws_map_get(&perf->woken, side.tid << 1, NULL) || perf->woken.count >= WS_IMPORT_LIMIT)
		return; /* it already runs or is runnable: sched_wakeup repeats sched_waking */
	ws_map_set(&perf->woken, side.tid << 1, at);
	ws_map_set(&perf->wakers, side.tid << 1, perf->sample.thread);
}

/* "PERF_RECORD_SWITCH_CPU_WIDE OUT preempt next pid/tid: 22/22", about the thread of the line. */
static void read_switch_record(struct perf_text *perf, const char *text, uint64_t tid)
{
	const char *out = strstr(text, " OUT");

	if (out)
		end_span(perf, tid, perf->sample.thread, perf->sample.start,
			 strstr(out, "preempt") ? WS_AFTER_PREEMPTED : WS_AFTER_BLOCKED);
	else if (strstr(text, " IN"))
		begin_span(perf, tid, perf->sample.start);
}

/* Whether it is the event `what`, perhaps preceded by the name of its group. */
static bool is_event_named(const char *name, size_t length, const char *what)
{
	size_t suffix = strlen(what);

	return length >= suffix && !memcmp(name + length - suffix, what, suffix) &&
	       (length == suffix || name[length - suffix - 1] == ':');
}

/* Read a tracepoint of the scheduler, which also becomes a row of its own. */
static void read_sched_tracepoint(struct perf_text *perf, const char *name, size_t length,
				  const char *text)
{
	if (is_event_named(name, length, "sched_switch"))
		read_switch(perf, text, perf->sample.start);
	else if (is_event_named(name, length, "sched_waking") ||
		 is_event_named(name, length, "sched_wakeup") ||
		 is_event_named(name, length, "sched_wakeup_new"))
		read_waking(perf, text, perf->sample.start);
}

static bool parse_frame(struct perf_text *perf, const char *line, bool below);

/* "401136 main+0x10 (/bin/prog)": an address, followed by a word that does not end in a colon, as
 * the names of events do. */
static bool is_code_address(const char *text)
{
	size_t length = strspn(text, "0123456789abcdef"), word;

	if (length < 4 || text[length] != ' ')
		return false;
	text += length + strspn(text + length, " ");
	word = strcspn(text, " ");
	return word && text[word - 1] != ':';
}

/* Read "  250000 cycles:ppp: " and what follows: the text of a tracepoint, or a frame when stacks
 * are not printed. */
static void parse_event(struct perf_text *perf, const char *rest)
{
	const char *end;
	char *after;
	size_t length;

	rest += strspn(rest, " \t");
	perf->sample.weight = 1;
	/* Neither the period nor the event is printed. */
	if (is_code_address(rest) && parse_frame(perf, rest, false)) {
		perf->event_name = ws_importer_add_text(perf->importer, "sample");
		perf->sample.event = ws_importer_intern_event(perf->importer, perf->event_name);
		return;
	}
	if (isdigit((unsigned char)*rest)) {
		perf->sample.weight = strtoull(rest, &after, 10);
		rest = after + strspn(after, " \t");
	}
	end = strchr(rest, ' ');
	length = strcspn(rest, " ");
	while (length && rest[length - 1] == ':')
		length--;
	if (!length) {
		rest = "sample";
		length = 6;
		end = NULL;
	}
	if (length >= 5 && memmem(rest, length, "clock", 5))
		perf->sample.flags |= WS_SAMPLE_CLOCK;
	perf->event_name = ws_importer_add_string(perf->importer, rest, length);
	perf->sample.event = ws_importer_intern_event(perf->importer, perf->event_name);
	if (!end)
		return;
	end += strspn(end, " \t");
	if (!*end || parse_frame(perf, end, false))
		return;
	perf->tracepoint_text = ws_importer_add_text(perf->importer, end);
	read_sched_tracepoint(perf, rest, length, end);
}

/* ---- a frame's line ---- */

/* The bracket that opens the module which ends at `end`; NULL when there is none. Paths may contain
 * brackets and blanks. */
static const char *find_module_start(const char *name, const char *end)
{
	const char *open = end - 1;
	int depth = 0;

	for (const char *p = end; p > name; p--) { /* the one that matches the last */
		depth += (p[-1] == ')') - (p[-1] == '(');
		if (depth)
			continue;
		if (p - 1 > name && p[-2] == ' ')
			return p - 1;
		break;
	}
	if (end - name > 10 && !memcmp(end - 11, " (deleted))", 11))
		open = end - 11;
	/* They do not match: take the last one with a blank before it. */
	while (open > name && !(*open == '(' && open[-1] == ' '))
		open--;
	return open > name && *open == '(' ? open : NULL;
}

/* Where the module at the end of a frame ends; NULL when there is none. Branches, instructions and
 * registers may follow it in the line when stacks are not printed. */
static const char *find_module_end(const char *name, const char *end)
{
	const char *open;

	if (end > name && end[-1] == ')')
		return end;
	for (const char *p = end; p > name; p--)
		if (p < end && *p == ' ' && p[-1] == ')' && (open = find_module_start(name, p)) &&
		    (open[1] == '/' || open[1] == '['))
			return p;
	return NULL;
}

/* Other numbers may come before the address: what was accessed, the kind of access ("|OP LOAD|LVL
 * L1 hit|..."), a weight. *address gets the last one; returns what follows it. */
static const char *skip_numbers(const char *name, uint64_t *address)
{
	const char *bar = NULL, *text = name;

	if (*name == '|')
		text = bar = strrchr(name, '|');

	while (*text) {
		size_t length = strspn(text, "0123456789abcdef"),
		       blanks = strspn(text + length, " ");

		if (length && blanks && text[length + blanks] && text[length + blanks] != '(') {
			*address = strtoull(text, NULL, 16);
			name = text + length + blanks;
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
static bool is_bare_frame(const char *line, const char *after, const char *name, const char *end,
			  bool below)
{
	uint64_t at;

	/* It may be an event of a program with a name like a number. */
	if (below)
		return !find_time(line, &line, &after, &at);
	return after - line >= 6 && (name >= end || memmem(name, (size_t)(end - name), "+0x", 3));
}

/* Where a name ends before its offset, "+0x1f". */
static const char *find_offset_start(const char *name, const char *end)
{
	for (const char *p = end; p > name + 1; p--)
		if (p[-1] == 'x' && p[-2] == '0' && p > name + 2 && p[-3] == '+')
			return p - 3;
		else if (!isxdigit((unsigned char)p[-1]) && p[-1] != 'x')
			break;
	return end;
}

/* Set the module of a frame to the one between `open` and `end`, with " (deleted)" as perf prints
 * it. */
static void set_module(struct perf_text *perf, struct frame_text *frame, const char *open,
		       const char *end)
{
	frame->module = ws_importer_add_string(perf->importer, open + 1, (size_t)(end - open - 2));
	frame->kernel = open[1] == '[' && (end - open < 6 || memcmp(open + 1, "[vdso", 5));
	frame->inlined = end - open == 9 && !memcmp(open, "(inlined)", 9);
}

/* Read a frame, from a line of its own `below` its event or from behind the event. False when it is
 * none. */
static bool parse_frame(struct perf_text *perf, const char *line, bool below)
{
	char *after;
	uint64_t address;
	const char *name, *end, *stop, *open = NULL;
	struct frame_text *frame;

	line += strspn(line, " \t");
	if (!isxdigit((unsigned char)*line))
		return false;
	address = strtoull(line, &after, 16);
	if ((*after && *after != ' ') || after - line < 4)
		return false;
	name = after + strspn(after, " ");
	stop = skip_blanks_back(name, name + strlen(name));
	end = find_module_end(name, stop);
	if (end)
		open = find_module_start(name, end);
	if (!open && !is_bare_frame(line, after, name, stop, below))
		return false;
	if (perf->depth == DEPTH) {
		perf->sample.flags |= WS_SAMPLE_TRUNCATED;
		return true;
	}
	frame = &perf->frames[perf->depth++];
	*frame = (struct frame_text){0};
	if (open) {
		set_module(perf, frame, open, end);
		stop = open;
	} else {
		frame->kernel = address >> 63;
	}
	if (!below && open)
		name = skip_numbers(name, &address);
	frame->address = address;
	end = find_offset_start(name, skip_blanks_back(name, stop));
	if (end > name && !(end - name == 9 && !memcmp(name, "[unknown]", 9)))
		frame->symbol = ws_importer_add_string(perf->importer, name, (size_t)(end - name));
	return true;
}

/* ---- rows ---- */

static void put_tracepoint(struct perf_text *perf)
{
	struct ws_row_ftrace *row = ws_importer_add_row(perf->importer, WS_TABLE_ftrace);

	*row = (struct ws_row_ftrace){.start = perf->sample.start,
				      .thread = perf->sample.thread,
				      .name = perf->event_name,
				      .text = perf->tracepoint_text};
	if (perf->sample.cpu != WS_NO_U32)
		row->cpu = perf->sample.cpu;
}

/* Write the current event, if any. */
static void finish_event(struct perf_text *perf)
{
	struct ws_row_sample *row;
	uint32_t stack = 0, frame = 0;

	if (!perf->open)
		return;
	perf->open = false;
	if (perf->tracepoint_text && !perf->depth) {
		put_tracepoint(perf);
		return;
	}
	for (int i = perf->depth; i--;) {
		struct frame_text *part = &perf->frames[i];
		uint8_t method = WS_UNWIND_UNKNOWN;

		/* It is inlined into the next function, and so in the same module. */
		if (part->inlined && i + 1 < perf->depth) {
			part->module = part[1].module;
			part->kernel = part[1].kernel;
		}
		if (part->kernel)
			method = WS_UNWIND_KERNEL;
		frame = ws_importer_intern_frame(perf->importer, part->symbol, part->module,
						 part->address, part->kernel, method);
		if (i)
			stack = ws_importer_intern_stack(perf->importer, stack, frame);
	}
	perf->sample.frame = frame;
	perf->sample.callers = stack;
	perf->sample.state = WS_STATE_RUNNING;
	if (perf->depth && perf->frames[0].kernel)
		perf->sample.flags |= WS_SAMPLE_KERNEL;
	row = ws_importer_add_row(perf->importer, WS_TABLE_sample);
	*row = perf->sample;
	perf->samples++;
}

static void read_line(struct perf_text *perf, const char *line, size_t length)
{
	const char *from, *rest;
	uint64_t at;

	if (!length || line[strspn(line, " \t")] == 0) {
		finish_event(perf);
		return;
	}
	if (*line == '#')
		return;
	if (perf->open && (*line == ' ' || *line == '\t') && parse_frame(perf, line, true))
		return;
	if (perf->open && (*line == ' ' || *line == '\t') && !find_time(line, &from, &rest, &at)) {
		perf->extra_lines++; /* branches, registers, source lines */
		return;
	}
	finish_event(perf);
	perf->sample = (struct ws_row_sample){0};
	perf->depth = 0;
	perf->tracepoint_text = 0;
	if (!find_time(line, &from, &rest, &at) || !parse_thread(perf, line, from, at)) {
		perf->odd_lines++;
		return;
	}
	perf->sample.start = at;
	ws_importer_include_time(perf->importer, at);
	rest += strspn(rest, " \t");
	if (!strncmp(rest, "PERF_RECORD_", 12)) {
		if (!strncmp(rest + 12, "SWITCH", 6))
			read_switch_record(
				perf, rest,
				ws_importer_get_thread(perf->importer, perf->sample.thread)->tid);
		else
			ws_importer_add_note(
				perf->importer,
				"Records of processes and maps (PERF_RECORD_...) were left out.");
		return;
	}
	perf->open = true;
	parse_event(perf, rest);
}

/* Write the spans of threads that are still on a core at the end. */
static void finish_spans(struct perf_text *perf)
{
	for (size_t i = 0; i < perf->running_since.size; i++) {
		uint64_t tid = perf->running_since.slots[i].key;

		if (perf->running_since.used[i])
			put_span(perf, tid, find_thread(perf, tid, NULL, 0),
				 perf->running_since.slots[i].value, WS_NO_TIME, WS_AFTER_UNKNOWN);
	}
}

int ws_import_perf_script(struct ws_importer *importer, struct ws_input *source)
{
	struct perf_text *perf = ws_calloc(1, sizeof(*perf));
	uint64_t before = importer->rows;
	char *line;
	size_t length;

	perf->importer = importer;
	perf->source = source;
	while (!importer->stopped && next_line(perf, &line, &length)) {
		read_line(perf, line, length);
		if (!(perf->lines & 0xfff)) {
			ws_writer_commit(importer->writer);
			ws_importer_show_progress(importer, ws_count_input_read(source),
						  ws_find_input_size(source));
			if (ws_writer_error(importer->writer, NULL))
				break;
		}
	}
	finish_event(perf);
	finish_spans(perf);
	ws_importer_add_notes(
		importer, perf->extra_lines,
		"Lines below events that are no frames (branches, registers, source lines) "
		"were left out.");
	ws_importer_add_notes(importer, perf->odd_lines,
			      "Lines that are no event of perf script were left out.");
	if (ws_explain_broken_input(source))
		ws_importer_add_note(importer,
				     "The text is broken: %s. What stands before was read.",
				     ws_explain_broken_input(source));
	ws_map_free(&perf->threads);
	ws_map_free(&perf->running_since);
	ws_map_free(&perf->running_on);
	ws_map_free(&perf->woken);
	ws_map_free(&perf->wakers);
	free(perf);
	if (importer->rows == before && !importer->stopped)
		ws_importer_stop(importer, "%s holds no events of perf script", importer->path);
	return ws_importer_get_status(importer);
}
