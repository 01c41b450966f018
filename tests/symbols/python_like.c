/* python_like.c - a library with the tables of an extension module of Python, by the layouts of
 * CPython's public structures. It is linked without a symbol table. */
#include <stddef.h>
#include <stdint.h>

struct method {
	const char *name;
	void *(*function)(void *, void *);
	int flags;
	const char *text;
};

struct module {
	uintptr_t head[5];
	const char *name, *text;
	intptr_t size;
	struct method *methods;
};

struct sequence {
	void *functions[10];
};

struct type {
	uintptr_t head[3];
	const char *name;
	intptr_t size, item_size;
	uintptr_t before[7];
	struct sequence *sequence;
	uintptr_t between[15];
	struct method *methods;
	uintptr_t after[20];
};

struct slot {
	int number;
	void *function;
};

struct spec {
	const char *name;
	int size, item_size;
	unsigned flags;
	struct slot *slots;
};

#define FUNCTION(name, number)                                                 \
	__attribute__((noinline)) static void *name(void *first, void *second) \
	{                                                                      \
		__asm__ volatile("" ::"i"(number));                            \
		return first < second ? first : second;                        \
	}
FUNCTION(collect, 1)
FUNCTION(freeze, 2)
FUNCTION(pop, 3)
FUNCTION(contains, 4)
FUNCTION(match, 5)
FUNCTION(lone, 6)
FUNCTION(unknown, 7)

/* As min and max are: a few instructions that jump to what does the work. */
__attribute__((noinline)) static void *pick(void *first, void *second, int which)
{
	__asm__ volatile("" ::"i"(8));
	return which ? first : second;
}
static void *low(void *first, void *second)
{
	return pick(first, second, 0);
}
static void *high(void *first, void *second)
{
	return pick(first, second, 5);
}

__attribute__((noinline)) static void *merge(void *first, void *second, int which)
{
	__asm__ volatile("" ::"i"(9));
	return which ? second : first;
}
__attribute__((visibility("default"))) void *PyModule_Update(void *first, void *second)
{
	return merge(first, second, 1);
}
__attribute__((visibility("default"))) void *PyModule_Merge(void *first, void *second)
{
	return first == second ? first : merge(first, second, first < second);
}

enum { NO_ARGUMENTS = 4, ONE = 8, METHODS = 64 };

struct method module_methods[] = {{"collect", collect, NO_ARGUMENTS, "text"},
				  {"freeze", freeze, ONE, NULL},
				  {"high", high, ONE, NULL},
				  {"low", low, ONE, NULL},
				  {0}},
	      type_methods[] = {{"pop", pop, ONE, NULL}, {0}},
	      spec_methods[] = {{"match", match, ONE, NULL}, {0}},
	      lone_method = {"lone", lone, ONE, NULL};
struct module made_up = {.name = "tidy", .size = -1, .methods = module_methods};
struct sequence items = {.functions = {[7] = (void *)contains}};
struct type stack = {.name = "tidy.Stack", .size = 48, .sequence = &items, .methods = type_methods};
struct slot slots[] = {{57, (void *)unknown}, {METHODS, spec_methods}, {0}};
struct spec pattern = {.name = "tidy.Pattern", .size = 40, .slots = slots};

__attribute__((visibility("default"))) void *const PyModule_Places[] = {
	(void *)collect, (void *)freeze,  (void *)pop,	(void *)contains, (void *)match,
	(void *)lone,	 (void *)unknown, (void *)pick, (void *)merge,
};
