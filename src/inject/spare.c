/* spare.c - see spare.h. */
#include "inject/spare.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/rt.h"

#define PIECES 4
#define PIECE_BYTES 16384

static _Alignas(16) char pieces[PIECES][PIECE_BYTES];
static atomic_flag is_taken[PIECES];

void *ws_spare_take(size_t bytes)
{
	long p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p >= 0 || p <= -4096)
		return (void *)p;
	for (int i = 0; i < PIECES && bytes <= PIECE_BYTES; i++)
		if (!atomic_flag_test_and_set(&is_taken[i]))
			return memset(pieces[i], 0, bytes);
	return NULL;
}

void ws_spare_give(void *memory, size_t bytes)
{
	for (int i = 0; i < PIECES; i++)
		if (memory == pieces[i]) {
			atomic_flag_clear(&is_taken[i]);
			return;
		}
	ws_raw_syscall(SYS_munmap, (long)memory, (long)bytes, 0, 0, 0, 0);
}
