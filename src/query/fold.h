/*
 * fold.h - names that differ only in numbers as one: "iteration 17" and "iteration 18" are
 * "iteration #". Otherwise, loops and operators that write a counter into their names would give
 * each of thousands of names its own table line, colour and row.
 *
 * A form is a name with # for each number. Texts of a report are folded where more than
 * WS_FOLD_NAMES share the form. Two forms are tried, one after the other:
 *
 *   1. numbers that stand alone, beside no letter, digit or underscore, and not between < and >:
 *      "aten::to, op_id = 123", "step 3/10", "[128, 256]", "at 0x7f10"
 *   2. for the names that are left, all numbers, template arguments and "layer4" too
 *
 * So "layer4 iteration 17" keeps its layer, and types, template arguments and names such as
 * sm80_xmma_gemm_f16f16 or conv2d stay as they are unless more than WS_FOLD_NAMES names differ in
 * nothing else. All texts of the report count, not those of a table or a window: a name is folded
 * everywhere or nowhere.
 */
#ifndef WS_QUERY_FOLD_H
#define WS_QUERY_FOLD_H

#include "base/mem.h"
#include "store/store.h"

enum { WS_FOLD_NAMES = 100 };

/* YES folds numbers that stand alone wherever two names share the form. */
enum ws_fold_mode { WS_FOLD_AUTO, WS_FOLD_YES, WS_FOLD_NO };

struct ws_fold;

/* Nothing is read until a key is first asked for; the report must outlive the fold. All functions
 * below may be called from several threads, and with NULL for names as they are. */
struct ws_fold *ws_fold_open(const struct ws_report *report, enum ws_fold_mode mode);
void ws_fold_close(struct ws_fold *fold); /* NULL is fine */
/* Whether any names of the report are folded. */
bool ws_fold_any(const struct ws_fold *fold);
/* A string's id that stands for all names shown as this one: those of the same form or, where the
 * name is not folded, of the same text, as in ws_report_string_key. */
uint32_t ws_fold_key(const struct ws_fold *fold, const struct ws_report *report, uint32_t id);
/* The same for all ids from 0 to ws_report_string_count. */
void ws_fold_keys(const struct ws_fold *fold, const struct ws_report *report, uint32_t *keys);
/* Whether the name is shown as a form. */
bool ws_fold_is_form(const struct ws_fold *fold, uint32_t id);
/* What a name is shown as; valid as long as the fold and the report. */
const char *ws_fold_name(const struct ws_fold *fold, const struct ws_report *report, uint32_t id,
			 size_t *length);

/* Whether ws_fold_name has given a form. */
bool ws_fold_was_used(const struct ws_fold *fold);

/*
 * Append the text with # for its numbers: for those that stand alone or, with `all`, for every one.
 */
void ws_put_folded(struct ws_text *text, const char *name, size_t length, bool all);

#endif
