/*
 * bind.h - binds the few C library functions that moved between libraries in glibc's history, so
 * that hooks built here load with any glibc from 2.28 on: dlsym by its oldest version, the pthread
 * functions through dlsym.
 */
#ifndef WS_BIND_H
#define WS_BIND_H

#include <pthread.h>

#include "base/compiler.h"

/* dlsym(RTLD_NEXT, name) seen from the calling library would need the caller; these ask the default
 * scope. */
WS_EXPORT void *ws_find_symbol(const char *name);
/* The same in an open library and its dependencies. */
void *ws_find_symbol_in(void *library, const char *name);
/* Find the next definition of `name` behind the library that this is linked into. Callers that need
 * the result again keep it themselves. */
void *ws_find_next_symbol(const char *name);

/* Returns 1 when the ends of threads can be observed: by a key with a slot inside the thread
 * itself, so that setting it never allocates. */
int ws_create_key(pthread_key_t *key, void (*destructor)(void *));
void ws_set_key_value(pthread_key_t key, const void *value);
/* Call `child` in every child that the C library forks. */
void ws_register_atfork(void (*child)(void));

#endif
