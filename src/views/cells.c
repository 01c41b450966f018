/* cells.c - cells of texts, threads and times, and the state that making them needs. */
#include "views/cells.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/text.h"
#include "views/choose.h"
#include "views/tables.h"

/* ---- strings, threads, times ---- */

enum { STRING_CLEAN = 1, STRING_BROKEN = 2, STRING_USED = WS_STRING_USED };

/* Beside this thread, those of columns.c note which texts are used. */
static void note(struct ws_export *x, uint32_t id, uint8_t what)
{
	if (!(__atomic_load_n(&x->strings[id], __ATOMIC_RELAXED) & what))
		__atomic_fetch_or(&x->strings[id], what, __ATOMIC_RELAXED);
}

/* Valid text of a string id. Ids beyond the dictionary are empty strings. */
const char *ws_x_bytes(struct ws_export *x, uint32_t id, size_t *len)
{
	const char *s = ws_report_string(x->r, id, len);
	struct ws_text t = {0};

	if (id > x->string_count || x->strings[id] & STRING_CLEAN)
		return s;
	if (!(x->strings[id] & STRING_BROKEN) && ws_utf8_valid(s, *len)) {
		note(x, id, STRING_CLEAN);
		return s;
	}
	note(x, id, STRING_BROKEN);
	if (!x->repaired)
		x->repaired = ws_calloc(x->string_count + 1, sizeof(*x->repaired));
	if (!x->repaired[id]) {
		ws_text_utf8(&t, s, *len);
		x->repaired[id] = t.s; /* holds no NUL */
	}
	*len = strlen(x->repaired[id]);
	return x->repaired[id];
}

struct ws_xcell ws_x_text(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = id && id <= x->string_count ? WS_X_TEXT : WS_X_NULL, .id = id};

	if (c.kind == WS_X_TEXT && !x->ids_only)
		c.s = ws_x_bytes(x, id, &c.n);
	return c;
}

struct ws_xcell ws_x_blob(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = id && !x->no_blobs ? WS_X_BLOB : WS_X_NULL, .id = id};

	if (c.kind == WS_X_BLOB && !x->ids_only)
		c.s = ws_report_string(x->r, id, &c.n);
	return c;
}

struct ws_xcell ws_x_string(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = WS_X_NULL};

	if (!id || id > x->string_count)
		return c;
	c.kind = WS_X_STRING;
	c.id = ws_report_string_key(x->r, id);
	if (c.id > x->string_count)
		c.id = id;
	if (x->ids_only)
		return c;
	c.s = ws_x_bytes(x, c.id, &c.n);
	note(x, c.id, STRING_USED);
	return c;
}

/* The report's own number of a text, or 0: so that an export's import, exported again, has the same
 * numbers. */
static uint32_t text_id(struct ws_export *x, const char *s, size_t n)
{
	const char *none = ws_report_string(
		x->r, 0, NULL); /* what is read of numbers that the report does not define */
	uint32_t id;
	size_t len;

	for (uint32_t i = x->texts.n ? 0 : x->string_count; i;
	     i--) { /* of equal ones the first counts */
		const char *text = ws_report_string(x->r, i, &len);

		if (text != none)
			ws_map_set(&x->texts, XXH3_64bits(text, len), i);
	}
	id = (uint32_t)ws_map_get(&x->texts, XXH3_64bits(s, n), NULL);
	if (!id)
		return 0;
	s = memcmp(ws_report_string(x->r, id, &len), s, len < n ? len : n) ? NULL : s;
	return s && len == n ? id : 0;
}

struct ws_xcell ws_x_extra(struct ws_export *x, const char *s, size_t n)
{
	struct ws_text *t, made = {0};
	size_t i = 0;
	uint32_t id = text_id(x, s, n);

	if (id)
		return ws_x_string(x, id);
	ws_text_puts(&made, "");
	ws_text_utf8(&made, s, n);
	while (i < x->extra_count &&
	       (x->extra[i].len != made.len || memcmp(x->extra[i].s, made.s, made.len)))
		i++; /* there are few */
	if (i < x->extra_count) {
		t = &x->extra[i];
		ws_text_free(&made);
		return (struct ws_xcell){.kind = WS_X_STRING,
					 .id = x->string_count + (uint32_t)i + 1,
					 .s = t->s,
					 .n = t->len};
	}
	ws_grow(x->extra, x->extra_cap, x->extra_count + 1);
	t = &x->extra[x->extra_count++];
	*t = made;
	return (struct ws_xcell){.kind = WS_X_STRING,
				 .id = x->string_count + (uint32_t)x->extra_count,
				 .s = t->s,
				 .n = t->len};
}

struct ws_xcell ws_x_own(struct ws_export *x, const char *s)
{
	struct ws_text *t;

	ws_grow(x->own, x->own_cap, x->own_count + 1);
	t = &x->own[x->own_count++];
	memset(t, 0, sizeof(*t));
	ws_text_puts(t, "");
	ws_text_utf8(t, s, strlen(s));
	return (struct ws_xcell){.kind = WS_X_TEXT, .s = t->s, .n = t->len};
}

struct ws_xcell ws_x_thread(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_thread(x->who, (uint32_t)id)->global_tid)
		  : ws_x_null();
}

struct ws_xcell ws_x_process(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_process(x->who, (uint32_t)id)->global_pid)
		  : ws_x_null();
}

struct ws_xcell ws_x_time(struct ws_export *x, uint64_t t)
{
	return ws_x_int((int64_t)(t - x->base));
}

struct ws_xcell ws_x_ntime(struct ws_export *x, uint64_t t)
{
	return t == WS_NO_TIME ? ws_x_null() : ws_x_time(x, t);
}

/* ---- begin and end ---- */

void ws_export_begin(struct ws_export *x, const struct ws_report *r)
{
	memset(x, 0, sizeof(*x));
	x->r = r;
	x->input = ws_report_path(r);
	x->who = ws_who_open(r);
	x->zero = x->base = ws_time_zero(r);
	x->last = ws_time_last(r);
	x->string_count = ws_report_string_count(r);
	x->strings = ws_calloc((size_t)x->string_count + 1, 1);
}

void ws_export_end(struct ws_export *x)
{
	for (uint32_t i = 0; x->repaired && i <= x->string_count; i++)
		free(x->repaired[i]);
	for (size_t i = 0; i < x->extra_count; i++)
		ws_text_free(&x->extra[i]);
	free(x->repaired);
	for (size_t i = 0; i < x->own_count; i++)
		ws_text_free(&x->own[i]);
	free(x->own);
	free(x->extra);
	ws_export_free_pile(x);
	free(x->strings);
	ws_choose_free(x);
	ws_map_free(&x->texts);
	ws_export_foreign_free(x);
	ws_who_close(x->who);
}
