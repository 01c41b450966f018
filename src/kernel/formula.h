/*
 * formula.h - values made of metrics: numbers, names of metrics, + - * / and parentheses. The
 * formulas are those of sections.def and derived.def.
 */
#ifndef WS_KERNEL_FORMULA_H
#define WS_KERNEL_FORMULA_H

#include <stddef.h>

/* Gives the value of the metric called `name` (`n` characters); NAN when it is not known. */
typedef double (*ws_metric_getter)(void *context, const char *name, size_t n);

/* The value of a formula; NAN when one of its metrics is not known, or a divisor is 0. */
double ws_evaluate_formula(const char *formula, ws_metric_getter get, void *context);

#endif
