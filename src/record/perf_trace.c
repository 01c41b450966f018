/*
 * perf_trace.c - the kernel's tracepoints: their numbers and the fields of their records, as
 * tracefs describes them.
 *
 * A format file has one line a field: its declaration in C, offset, size and sign. Records are
 * printed field by field as name=value; the kernel's own print formats are expressions in C and are
 * not evaluated.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "record/perf_private.h"

enum kind { NUMBER, TEXT, DYNAMIC_TEXT, RELATIVE_TEXT, POINTER, BYTES };

struct field {
	char name[48];
	uint32_t offset, size;
	bool is_signed;
	enum kind kind;
};

struct ws_trace_format {
	uint64_t id;
	struct field *fields;
	size_t n, cap;
};

/* ---- the format ---- */

static enum kind kind_of(const char *declaration, size_t n, uint32_t size)
{
	char *d = ws_strndup(declaration, n);
	bool text = strstr(d, "char") && !strstr(d, "unsigned char") && strchr(d, '[');
	enum kind k = strstr(d, "__data_loc")  ? text ? DYNAMIC_TEXT : BYTES
		      : strstr(d, "__rel_loc") ? text ? RELATIVE_TEXT : BYTES
		      : text		       ? TEXT
		      : strchr(d, '*')	       ? POINTER
		      : strchr(d, '[') || size > 8 || (size & (size - 1)) ? BYTES
									  : NUMBER;

	free(d);
	return k;
}

/* "field:char comm[16];	offset:8;	size:16;	signed:1;" */
static void parse_field(struct ws_trace_format *f, const char *line)
{
	const char *end = strchr(line, ';'), *from;
	unsigned offset, size, is_signed = 0;
	struct field *field;
	size_t n;

	if (!end ||
	    sscanf(end, "; offset:%u; size:%u; signed:%u", &offset, &size, &is_signed) < 2 ||
	    offset > 65535 || size > 65535 || f->n >= 256)
		return;
	n = (size_t)(end - line);
	while (n && line[n - 1] != ' ' &&
	       line[n - 1] != '*') /* the name is the last word, or what stands before its '[' */
		n--;
	from = line + n;
	n = strcspn(from, "[;");
	if (!n || n >= sizeof(field->name))
		return;
	ws_grow(f->fields, f->cap, f->n + 1);
	field = &f->fields[f->n++];
	*field = (struct field){.offset = offset,
				.size = size,
				.is_signed = is_signed,
				.kind = kind_of(line, (size_t)(end - line), size)};
	memcpy(field->name, from, n);
}

struct ws_trace_format *ws_trace_parse(const char *text, size_t n)
{
	struct ws_trace_format *f = ws_calloc(1, sizeof(*f));
	char *copy = ws_strndup(text, n), *rest = copy;

	for (char *line; (line = strsep(&rest, "\n"));) {
		if (!strncmp(line, "ID:", 3))
			f->id = strtoull(line + 3, NULL, 10);
		line += strspn(line, " \t");
		if (!strncmp(line, "field:", 6))
			parse_field(f, line + 6);
	}
	free(copy);
	if (!f->id || !f->n) {
		ws_trace_free(f);
		return NULL;
	}
	return f;
}

/* The text of the event's description, up to 64 KiB of it; freed by the caller. */
static char *read_format(int folder, const char *name, size_t *n, struct ws_err *e)
{
	char path[512], *text = ws_malloc(65536);
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/format", name);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	*n = 0;
	while (fd >= 0 && *n < 65536 && (got = read(fd, text + *n, 65536 - *n)) > 0)
		*n += (size_t)got;
	if (fd < 0 && errno == ENOENT)
		ws_fail(e, "the kernel has no tracepoint %s", name);
	else if (fd < 0 || got < 0)
		ws_fail_errno(e, "tracepoint %s cannot be read", name);
	if (fd >= 0)
		close(fd);
	return text;
}

struct ws_trace_format *ws_trace_open(int folder, const char *name, struct ws_err *e)
{
	struct ws_trace_format *f = NULL;
	char *text;
	size_t n;

	if (strstr(name, "..") ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/-") !=
		    strlen(name)) {
		ws_fail(e, "'%s' is no tracepoint: give subsystem/event", name);
		return NULL;
	}
	text = read_format(folder, name, &n, e);
	if (n && !(f = ws_trace_parse(text, n)))
		ws_fail(e, "the description of tracepoint %s cannot be understood", name);
	free(text);
	return f;
}

void ws_trace_free(struct ws_trace_format *f)
{
	if (f)
		free(f->fields);
	free(f);
}

uint64_t ws_trace_id(const struct ws_trace_format *f)
{
	return f->id;
}

/* ---- records ---- */

static int64_t number(const struct field *f, const void *raw)
{
	const char *at = (const char *)raw + f->offset;
	uint64_t v = 0;
	unsigned shift = 64 - 8 * f->size;

	memcpy(&v, at, f->size); /* little-endian, as all machines that this is built for */
	return f->is_signed ? (int64_t)(v << shift) >> shift : (int64_t)v;
}

static bool inside(const struct field *f, size_t size)
{
	return (size_t)f->offset + f->size <= size;
}

bool ws_trace_number(const struct ws_trace_format *f, const char *name, const void *raw,
		     size_t size, int64_t *value)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->fields[i].kind == NUMBER && !strcmp(f->fields[i].name, name) &&
		    inside(&f->fields[i], size)) {
			*value = number(&f->fields[i], raw);
			return true;
		}
	return false;
}

static void print_text(const char *raw, size_t size, size_t offset, size_t n, struct ws_text *out)
{
	if (offset > size)
		return;
	n = n < size - offset ? n : size - offset;
	n = strnlen(raw + offset, n);
	for (size_t i = 0; i < n; i++)
		ws_text_printf(out, "%c",
			       isprint((unsigned char)raw[offset + i]) ? raw[offset + i] : '?');
}

static void print_field(const struct field *f, const char *raw, size_t size, struct ws_text *out)
{
	uint32_t where;

	switch (f->kind) {
	case NUMBER:
		ws_text_printf(out, "%lld", (long long)number(f, raw));
		break;
	case POINTER:
		ws_text_printf(out, "0x%llx",
			       f->size <= 8 ? (unsigned long long)number(f, raw) : 0ull);
		break;
	case TEXT:
		print_text(raw, size, f->offset, f->size, out);
		break;
	case DYNAMIC_TEXT:
	case RELATIVE_TEXT: /* the upper half says how long, the lower where */
		memcpy(&where, raw + f->offset, f->size < 4 ? f->size : 4);
		print_text(raw, size,
			   (where & 0xffff) + (f->kind == RELATIVE_TEXT ? f->offset + 4 : 0),
			   where >> 16, out);
		break;
	case BYTES:
		for (uint32_t i = 0; i < f->size && i < 64; i++)
			ws_text_printf(out, "%02x", (unsigned char)raw[f->offset + i]);
		break;
	}
}

void ws_trace_text(const struct ws_trace_format *f, const void *raw, size_t size,
		   struct ws_text *out)
{
	ws_text_add(out, "", 0);
	for (size_t i = 0; i < f->n; i++) {
		const struct field *field = &f->fields[i];

		if (!strncmp(field->name, "common_", 7) || !inside(field, size) ||
		    (field->kind >= DYNAMIC_TEXT && field->kind <= RELATIVE_TEXT &&
		     field->size != 4))
			continue;
		ws_text_printf(out, "%s%s=", out->len ? " " : "", field->name);
		print_field(field, raw, size, out);
	}
}

/* ---- lists ---- */

static void expand_subsystem(int folder, const char *subsystem,
			     void (*fn)(void *ctx, const char *name), void *ctx)
{
	int fd = strchr(subsystem, '.')
			 ? -1
			 : openat(folder, subsystem, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	bool any = false;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		char *name;

		if (e->d_name[0] == '.' || e->d_type != DT_DIR)
			continue;
		name = ws_format("%s/%s", subsystem, e->d_name);
		fn(ctx, name);
		free(name);
		any = true;
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	if (!any)
		fn(ctx, subsystem); /* says what is wrong with it */
}

void ws_trace_expand(int folder, const char *list, void (*fn)(void *ctx, const char *name),
		     void *ctx)
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		char *name = ws_strndup(at, n), *slash;

		if ((slash = strchr(name, ':'))) /* both spellings are about */
			*slash = '/';
		slash = strchr(name, '/');
		if (slash && !strcmp(slash, "/*")) {
			*slash = 0;
			expand_subsystem(folder, name, fn, ctx);
		} else if (n) {
			fn(ctx, name);
		}
		free(name);
		at += n + (at[n] == ',');
	}
}

struct listing {
	char **v;
	size_t n, cap;
};

static void list_one(void *ctx, const char *name)
{
	struct listing *l = ctx;

	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = ws_strdup(name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int ws_trace_list(struct ws_text *out, struct ws_err *e)
{
	int folder = ws_tracefs_open(NULL, e);
	DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
	struct listing l = {0};

	if (folder < 0)
		return -1;
	for (struct dirent *d; dir && (d = readdir(dir));)
		if (d->d_name[0] != '.' && d->d_type == DT_DIR)
			expand_subsystem(dirfd(dir), d->d_name, list_one, &l);
	if (dir)
		closedir(dir);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_name);
	for (size_t i = 0; i < l.n; i++) {
		if (strchr(l.v[i], '/')) /* a subsystem without events stands for itself */
			ws_text_printf(out, "%s\n", l.v[i]);
		free(l.v[i]);
	}
	free(l.v);
	return 0;
}
