/*
 * choose.h - the smaller or larger of two values, the order of two values, a text or its default.
 * Without these macros every use would need conditional operators.
 */
#ifndef WS_BASE_CHOOSE_H
#define WS_BASE_CHOOSE_H

/* Arguments are evaluated once; the result has the type that the operator ?: gives the two. */
#define ws_min(a, b) WS_PICK_NUMBERED(<, a, b, __COUNTER__)
#define ws_max(a, b) WS_PICK_NUMBERED(>, a, b, __COUNTER__)

/* `value` unless it is zero or NULL, otherwise `fallback`, which is evaluated only then. */
#define ws_or(value, fallback) WS_OR_NUMBERED(value, fallback, __COUNTER__)
#define WS_OR_NUMBERED(value, fallback, number) WS_OR(value, fallback, number)
#define WS_OR(value, fallback, number)                                        \
	__extension__({                                                       \
		__typeof__(1 ? (value) : (fallback)) given##number = (value); \
		given##number ? given##number : (fallback);                   \
	})

/* `bits` if `condition` holds, otherwise 0. */
#define ws_bits_if(condition, bits) ((condition) ? (bits) : 0)

/* -1, 0 or 1, as comparison functions for qsort return it. Arguments are evaluated twice. */
#define ws_compare(a, b) (((a) > (b)) - ((a) < (b)))

/* The number makes the names unique to each use, so that uses can be nested. */
#define WS_PICK_NUMBERED(op, a, b, number) WS_PICK(op, a, b, number)
#define WS_PICK(op, a, b, number)                                                    \
	__extension__({                                                              \
		__typeof__(1 ? (a) : (b)) first##number = (a), second##number = (b); \
		first##number op second##number ? first##number : second##number;    \
	})

/* "s" unless there is exactly one. */
static inline const char *ws_plural(unsigned long long count)
{
	return count == 1 ? "" : "s";
}

/* `text`, or `fallback` when it is NULL. */
static inline const char *ws_text_or(const char *text, const char *fallback)
{
	return text ? text : fallback;
}

#endif
