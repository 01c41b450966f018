/*
 * perf_trace.c - reads from tracefs the numbers of the kernel's tracepoints and the fields of their
 * records.
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
#include "base/choose.h"
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
	enum kind kind_k = strstr(d, "__data_loc")  ? text ? DYNAMIC_TEXT : BYTES
			   : strstr(d, "__rel_loc") ? text ? RELATIVE_TEXT : BYTES
			   : text		    ? TEXT
			   : strchr(d, '*')	    ? POINTER
			   : strchr(d, '[') || size > 8 || (size & (size - 1)) ? BYTES
									       : NUMBER;

	free(d);
	return kind_k;
}

/* "field:char comm[16];	offset:8;	size:16;	signed:1;" */
static void parse_field(struct ws_trace_format *format, const char *line)
{
	const char *end = strchr(line, ';'), *from;
	unsigned offset, size, is_signed = 0;
	struct field *field;
	size_t n;

	if (!end ||
	    sscanf(end, "; offset:%u; size:%u; signed:%u", &offset, &size, &is_signed) < 2 ||
	    offset > 65535 || size > 65535 || format->n >= 256)
		return;
	n = (size_t)(end - line);
	while (n && line[n - 1] != ' ' &&
	       line[n - 1] != '*') /* the name is the last word, up to its '[' if it has one */
		n--;
	from = line + n;
	n = strcspn(from, "[;");
	if (!n || n >= sizeof(field->name))
		return;
	ws_grow(format->fields, format->cap, format->n + 1);
	field = &format->fields[format->n++];
	*field = (struct field){.offset = offset,
				.size = size,
				.is_signed = is_signed,
				.kind = kind_of(line, (size_t)(end - line), size)};
	memcpy(field->name, from, n);
}

struct ws_trace_format *ws_trace_parse(const char *text, size_t n)
{
	struct ws_trace_format *format = ws_calloc(1, sizeof(*format));
	char *copy = ws_strndup(text, n), *rest = copy;

	for (char *line; (line = strsep(&rest, "\n"));) {
		if (!strncmp(line, "ID:", 3))
			format->id = strtoull(line + 3, NULL, 10);
		line += strspn(line, " \t");
		if (!strncmp(line, "field:", 6))
			parse_field(format, line + 6);
	}
	free(copy);
	if (!format->id || !format->n) {
		ws_trace_free(format);
		return NULL;
	}
	return format;
}

/* The text of the event's description, up to 64 KiB of it; freed by the caller. */
static char *read_format(int folder, const char *name, size_t *n, struct ws_err *err)
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
		ws_fail(err, "the kernel has no tracepoint %s", name);
	else if (fd < 0 || got < 0)
		ws_fail_errno(err, "tracepoint %s cannot be read", name);
	if (fd >= 0)
		close(fd);
	return text;
}

struct ws_trace_format *ws_trace_open(int folder, const char *name, struct ws_err *err)
{
	struct ws_trace_format *format = NULL;
	char *text;
	size_t n;

	if (strstr(name, "..") ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/-") !=
		    strlen(name)) {
		ws_fail(err, "'%s' is no tracepoint: give subsystem/event", name);
		return NULL;
	}
	text = read_format(folder, name, &n, err);
	if (n && !(format = ws_trace_parse(text, n)))
		ws_fail(err, "the description of tracepoint %s cannot be understood", name);
	free(text);
	return format;
}

void ws_trace_free(struct ws_trace_format *format)
{
	if (format)
		free(format->fields);
	free(format);
}

uint64_t ws_trace_id(const struct ws_trace_format *format)
{
	return format->id;
}

/* ---- records ---- */

static int64_t number(const struct field *field, const void *raw)
{
	const char *at = (const char *)raw + field->offset;
	uint64_t v = 0;
	unsigned shift = 64 - 8 * field->size;

	memcpy(&v, at, field->size); /* little-endian, as all machines that this is built for */
	return field->is_signed ? (int64_t)(v << shift) >> shift : (int64_t)v;
}

static bool inside(const struct field *field, size_t size)
{
	return (size_t)field->offset + field->size <= size;
}

bool ws_trace_number(const struct ws_trace_format *format, const char *name, const void *raw,
		     size_t size, int64_t *value)
{
	for (size_t i = 0; i < format->n; i++)
		if (format->fields[i].kind == NUMBER && !strcmp(format->fields[i].name, name) &&
		    inside(&format->fields[i], size)) {
			*value = number(&format->fields[i], raw);
			return true;
		}
	return false;
}

bool ws_trace_offset(const struct ws_trace_format *format, const char *name, uint32_t *offset)
{
	for (size_t i = 0; i < format->n; i++)
		if (!strcmp(format->fields[i].name, name)) {
			*offset = format->fields[i].offset;
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

static void print_field(const struct field *field, const char *raw, size_t size,
			struct ws_text *out)
{
	uint32_t where;

	switch (field->kind) {
	case NUMBER:
		ws_text_printf(out, "%lld", (long long)number(field, raw));
		break;
	case POINTER:
		ws_text_printf(out, "0x%llx",
			       field->size <= 8 ? (unsigned long long)number(field, raw) : 0ull);
		break;
	case TEXT:
		print_text(raw, size, field->offset, field->size, out);
		break;
	case DYNAMIC_TEXT:
	case RELATIVE_TEXT: /* the upper half is the length, the lower the offset */
		memcpy(&where, raw + field->offset, ws_min(field->size, 4));
		print_text(raw, size,
			   (where & 0xffff) +
				   (field->kind == RELATIVE_TEXT ? field->offset + 4 : 0),
			   where >> 16, out);
		break;
	case BYTES:
		for (uint32_t i = 0; i < field->size && i < 64; i++)
			ws_text_printf(out, "%02x", (unsigned char)raw[field->offset + i]);
		break;
	}
}

void ws_trace_text(const struct ws_trace_format *format, const void *raw, size_t size,
		   struct ws_text *out)
{
	ws_text_add(out, "", 0);
	for (size_t i = 0; i < format->n; i++) {
		const struct field *field = &format->fields[i];

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

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char *name;

		if (entry->d_name[0] == '.' || entry->d_type != DT_DIR)
			continue;
		name = ws_format("%s/%s", subsystem, entry->d_name);
		fn(ctx, name);
		free(name);
		any = true;
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	if (!any)
		fn(ctx, subsystem); /* fn reports what is wrong with it */
}

void ws_trace_expand(int folder, const char *list, void (*fn)(void *ctx, const char *name),
		     void *ctx)
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		char *name = ws_strndup(at, n), *slash;

		if ((slash = strchr(name, ':'))) /* both spellings are in use */
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
	struct listing *listing = ctx;

	ws_grow(listing->v, listing->cap, listing->n + 1);
	listing->v[listing->n++] = ws_strdup(name);
}

static int by_name(const void *first, const void *second)
{
	return strcmp(*(char *const *)first, *(char *const *)second);
}

int ws_trace_list(struct ws_text *out, struct ws_err *err)
{
	int folder = ws_tracefs_open(NULL, err);
	DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
	struct listing listing = {0};

	if (folder < 0)
		return -1;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && entry->d_type == DT_DIR)
			expand_subsystem(dirfd(dir), entry->d_name, list_one, &listing);
	if (dir)
		closedir(dir);
	if (listing.n)
		qsort(listing.v, listing.n, sizeof(*listing.v), by_name);
	for (size_t i = 0; i < listing.n; i++) {
		if (strchr(listing.v[i], '/')) /* a subsystem without events stands for itself */
			ws_text_printf(out, "%s\n", listing.v[i]);
		free(listing.v[i]);
	}
	free(listing.v);
	return 0;
}
