/* repeat.h - the steps of a program that marks none: its kernels come in a sequence that repeats.
 */
#ifndef WS_ANALYZE_REPEAT_H
#define WS_ANALYZE_REPEAT_H

#include "analyze/model.h"

/*
 * Find the sequence of launches of `model->process` that repeats most, and make each repetition a
 * step: from the call that launched its first kernel to that of the next. Returns whether there is
 * one, with at least four repetitions that cover at least half of the launches.
 */
bool ws_find_repeated_steps(const struct ws_model *model, struct ws_steps *steps);

#endif
