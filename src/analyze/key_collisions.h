/* key_collisions.h - whether keys of Python's sets and dictionaries have the same hash value. */
#ifndef WS_ANALYZE_KEY_COLLISIONS_H
#define WS_ANALYZE_KEY_COLLISIONS_H

#include "analyze/model.h"

/*
 * Each look-up of an object whose class has __hash__ or __eq__ computes the hash value once, and
 * compares once where it finds the key: comparing that takes several times as long as hashing
 * compares keys that are not the one. Values of the interpreter's own types (texts, numbers, tuples
 * of them) hardly ever collide.
 */
bool ws_do_keys_collide(const struct ws_model *model);

#endif
