/*
 * perf_script.c - the text that `perf script` prints: samples with their stacks, and tracepoints.
 *
 * An event is a line "comm pid/tid [cpu] seconds: period event:" and, for samples, a line a frame, innermost first: blanks,
 * address, function and offset, module in brackets. An empty line ends it. Which of the fields there are depends on how perf was
 * called, so the line is read around the one field that is always there, the time.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"

enum { LINE = 64 << 10, DEPTH = 1024 };

struct frame_text {
	uint32_t symbol, module;
	uint64_t address;
	bool kernel;
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
	uint64_t lines, samples, odd;
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
			size_t got = ws_source_read(p->source, p->buffer + p->len, sizeof(p->buffer) - 1 - p->len);

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
		} else if (q > line && !isdigit((unsigned char)q[-1])) {
			while (q > line && q[-1] != ' ')
				q--;
			q = skip_back(line, q);
			if (q == line)
				return false;
		} else {
			break;
		}
	}
	tid = number_before(line, q, &before);
	if (tid < 0)
		return false;
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
		ws_into_process_of(p->o, process)->name = ws_into_string(p->o, line, (size_t)(q - line));
	p->sample.thread = ws_into_thread(p->o, process, (uint64_t)tid, at);
	ws_into_name_thread(p->o, p->sample.thread, line, (size_t)(q - line), 10);
	return true;
}

static bool parse_frame(struct perf *p, const char *line);

/* "  250000 cycles:ppp: " and what follows: the text of a tracepoint, or a frame when stacks are not printed. */
static void parse_event(struct perf *p, const char *rest)
{
	const char *end;
	char *after;
	size_t n;

	while (*rest == ' ' || *rest == '\t')
		rest++;
	if (isdigit((unsigned char)*rest)) {
		p->sample.weight = strtoull(rest, &after, 10);
		rest = after + strspn(after, " \t");
	} else {
		p->sample.weight = 1;
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
	if (*end && !parse_frame(p, end))
		p->text = ws_into_text(p->o, end);
}

/* ---- a frame's line ---- */

static bool parse_frame(struct perf *p, const char *line)
{
	char *after;
	uint64_t address;
	const char *name, *end, *open;
	struct frame_text *f;

	line += strspn(line, " \t");
	if (!isxdigit((unsigned char)*line))
		return false;
	address = strtoull(line, &after, 16);
	if (*after != ' ' || after - line < 4)
		return false;
	name = after + 1;
	end = name + strlen(name);
	while (end > name && end[-1] == ' ')
		end--;
	open = end;
	if (end > name && end[-1] == ')') { /* modules may have brackets in their names: the last one that a blank stands before */
		const char *from = end - name > 10 && !memcmp(end - 11, " (deleted))", 11) ? end - 11 : end - 1;

		for (open = from; open > name && !(*open == '(' && open[-1] == ' '); open--)
			;
		if (*open != '(')
			open = end;
	}
	if (open == end)
		return false;
	if (p->depth == DEPTH) {
		p->sample.flags |= WS_SAMPLE_TRUNCATED;
		return true;
	}
	f = &p->frames[p->depth++];
	f->address = address;
	f->module = ws_into_string(p->o, open + 1, (size_t)(end - open - 2)); /* with " (deleted)", as perf says it */
	f->kernel = open[1] == '[' && (end - open < 6 || memcmp(open + 1, "[vdso", 5));
	end = skip_back(name, open);
	for (const char *s = end; s > name + 1; s--) /* "+0x1f" */
		if (s[-1] == 'x' && s[-2] == '0' && s > name + 2 && s[-3] == '+') {
			end = s - 3;
			break;
		} else if (!isxdigit((unsigned char)s[-1]) && s[-1] != 'x') {
			break;
		}
	if (end - name == 9 && !memcmp(name, "[unknown]", 9))
		f->symbol = 0;
	else
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
		const struct frame_text *t = &p->frames[i];

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
	if (p->open && (*line == ' ' || *line == '\t') && parse_frame(p, line))
		return;
	finish(p);
	p->sample = (struct ws_row_sample){0};
	p->depth = 0;
	p->text = 0;
	if (!find_time(line, &from, &rest, &at) || !parse_who(p, line, from, at)) {
		p->odd++;
		return;
	}
	p->open = true;
	p->sample.start = at;
	ws_into_time(p->o, at);
	parse_event(p, rest);
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
	ws_into_note_n(o, p->odd, "Lines that are no event of perf script were left out.");
	if (ws_source_broken(s))
		ws_into_note(o, "The text is broken: %s. What stands before was read.", ws_source_broken(s));
	free(p);
	if (o->rows == before && !o->full)
		ws_into_stop(o, "%s holds no events of perf script", o->path);
	return o->full ? -1 : 0;
}
