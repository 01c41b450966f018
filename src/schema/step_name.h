/*
 * step_name.h - which texts are names of steps: step, iteration, iter, train step, training step,
 * train_step, training_step or ProfilerStep in any case, with or without a number after it.
 */
#ifndef WS_SCHEMA_STEP_NAME_H
#define WS_SCHEMA_STEP_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the text without a number at its end and what joins that to the name. */
size_t ws_step_stem(const char *text, size_t len);
/* Whether a text of `len` bytes is the name of a step; with `name`, of one of that name, or of it
 * and a number. */
bool ws_is_step_name(const char *text, size_t len, const char *name);
/* The number at its end; false when there is none, or one of more than 32 bits. */
bool ws_read_step_number(const char *text, size_t len, uint32_t *number);

#endif
