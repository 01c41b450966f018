/* bind.c - see bind.h. */
#include "inject/bind.h"

#include <dlfcn.h>
#include <stddef.h>

#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
#endif

/* glibc keeps the first 32 keys' values inside the thread descriptor. */
#define KEYS_INSIDE 32

static int (*real_setspecific)(pthread_key_t, const void *);

void *ws_find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

void *ws_find_symbol_in(void *library, const char *name)
{
	return dlsym(library, name);
}

void *ws_find_next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int ws_create_key(pthread_key_t *key, void (*destructor)(void *))
{
	int (*create)(pthread_key_t *, void (*)(void *)) = ws_find_symbol("pthread_key_create");

	real_setspecific = ws_find_symbol("pthread_setspecific");
	return create && real_setspecific && !create(key, destructor) && *key < KEYS_INSIDE;
}

void ws_set_key_value(pthread_key_t key, const void *value)
{
	real_setspecific(key, value);
}

void ws_register_atfork(void (*child)(void))
{
	int (*reg)(void (*)(void), void (*)(void), void (*)(void), void *) =
		ws_find_symbol("__register_atfork");

	if (reg)
		reg(NULL, NULL, child, NULL);
}
