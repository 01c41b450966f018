/* spinlib.c - a library for hard.c: a function that does nearly nothing, and one that burns CPU
 * time in NAME, a function of its own. */
#include <time.h>

__attribute__((visibility("default"))) void tiny(void);
__attribute__((visibility("default"))) void spin_here(clock_t end);

static volatile unsigned long sink;

__attribute__((noinline)) void tiny(void)
{
	sink++;
}

static __attribute__((noinline, noclone)) void NAME(clock_t end)
{
	while (clock() < end)
		for (int i = 0; i < 20000; i++)
			sink += (unsigned long)i;
}

void spin_here(clock_t end)
{
	NAME(end);
	__asm__ volatile("");
}
