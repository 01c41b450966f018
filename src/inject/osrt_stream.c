/*
 * osrt_stream.c - stream functions that mostly find what they need in the stream's buffer. They may
 * be called a million times a second, and taking a character from a buffer is not worth a clock
 * read: if the buffer has it and nobody holds the stream's lock, the function is called directly.
 * The fields looked at are those that the inline forms of getc_unlocked and putc_unlocked are
 * compiled to, so they cannot change. (The lock's first word is glibc's own: were it ever something
 * else, too much or too little would be timed.)
 */
#include <features.h>
#undef __USE_EXTERN_INLINES /* the functions, not what headers make of them */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/choose.h"
#include "inject/osrt.h"

#undef getc
#undef putc
#undef getc_unlocked
#undef putc_unlocked
#undef fread_unlocked
#undef fwrite_unlocked

size_t __fread_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
int _IO_getc(FILE *file);
int _IO_putc(int c, FILE *file);

/* Copying more than this takes measurable time. */
#define SMALL 512u

static inline bool is_unlocked(const FILE *file)
{
	return !file->_lock || !__atomic_load_n((const int *)file->_lock, __ATOMIC_RELAXED);
}

static inline bool can_read_buffered(const FILE *file, size_t n)
{
	return file && n && n <= SMALL && file->_IO_read_end >= file->_IO_read_ptr &&
	       (size_t)(file->_IO_read_end - file->_IO_read_ptr) >= n && is_unlocked(file);
}

static inline bool can_write_buffered(const FILE *file, size_t n)
{
	return file && n <= SMALL && file->_IO_write_end > file->_IO_write_ptr &&
	       (size_t)(file->_IO_write_end - file->_IO_write_ptr) > n && is_unlocked(file);
}

static inline size_t multiply_small(size_t size, size_t n)
{
	return size <= SMALL && n <= SMALL ? size * n : SMALL + 1;
}

/* size: bytes of an item if the result counts items, otherwise 0. */
#define STREAM(symbol, ret, params, args, quick) STREAM_OF(symbol, ret, params, args, quick, 0)
#define STREAM_OF(symbol, ret, params, args, quick, size)                               \
	WS_EXPORT ret symbol params;                                                    \
	static __attribute__((noinline)) ret timed_##symbol params                      \
	{                                                                               \
		WS_OSRT_BODY_HELD(WS_OSRT_##symbol, ret, WS_OSRT_REAL(symbol), args, f, \
				  (uint32_t)ws_min(size, UINT32_MAX));                  \
	}                                                                               \
	ret symbol params                                                               \
	{                                                                               \
		if (ws_likely(quick))                                                   \
			return WS_OSRT_REAL(symbol) args;                               \
		return timed_##symbol args;                                             \
	}

STREAM(fgetc, int, (FILE * f), (f), can_read_buffered(f, 1))
STREAM(fgetc_unlocked, int, (FILE * f), (f), can_read_buffered(f, 1))
STREAM(getc, int, (FILE * f), (f), can_read_buffered(f, 1))
STREAM(_IO_getc, int, (FILE * f), (f), can_read_buffered(f, 1))
STREAM(getc_unlocked, int, (FILE * f), (f), can_read_buffered(f, 1))
STREAM(fputc, int, (int c, FILE *f), (c, f), can_write_buffered(f, 1))
STREAM(fputc_unlocked, int, (int c, FILE *f), (c, f), can_write_buffered(f, 1))
STREAM(putc, int, (int c, FILE *f), (c, f), can_write_buffered(f, 1))
STREAM(_IO_putc, int, (int c, FILE *f), (c, f), can_write_buffered(f, 1))
STREAM(putc_unlocked, int, (int c, FILE *f), (c, f), can_write_buffered(f, 1))
STREAM_OF(fread, size_t, (void *to, size_t size, size_t n, FILE *f), (to, size, n, f),
	  can_read_buffered(f, multiply_small(size, n)), size)
STREAM_OF(fread_unlocked, size_t, (void *to, size_t size, size_t n, FILE *f), (to, size, n, f),
	  can_read_buffered(f, multiply_small(size, n)), size)
STREAM_OF(fwrite, size_t, (const void *from, size_t size, size_t n, FILE *f), (from, size, n, f),
	  can_write_buffered(f, multiply_small(size, n)), size)
STREAM_OF(fwrite_unlocked, size_t, (const void *from, size_t size, size_t n, FILE *f),
	  (from, size, n, f), can_write_buffered(f, multiply_small(size, n)), size)

STREAM_OF(__fread_chk, size_t, (void *to, size_t room, size_t size, size_t n, FILE *f),
	  (to, room, size, n, f), false, size)
STREAM_OF(__fread_unlocked_chk, size_t, (void *to, size_t room, size_t size, size_t n, FILE *f),
	  (to, room, size, n, f), false, size)

WS_EXPORT void flockfile(FILE *file);
void flockfile(FILE *file)
{
	__typeof__(&flockfile) real = WS_OSRT_REAL(flockfile);
	struct ws_call call;

	if (!ws_osrt_begin(&call, WS_OSRT_flockfile, WS_OSRT_WORD(file))) {
		real(file);
		return;
	}
	real(file);
	ws_osrt_end(&call, WS_OSRT_flockfile, 0, WS_OSRT_WORD(file));
}

/* The path must be looked up while the descriptor is open, and the stream no longer exists
 * afterwards. */
WS_EXPORT int fclose(FILE *file);
int fclose(FILE *file)
{
	__typeof__(&fclose) real = WS_OSRT_REAL(fclose);
	struct ws_osrt_found found;
	struct ws_call call;
	uint64_t end;
	int r;

	found.fd = file ? file->_fileno : -1;
	if (found.fd < 0 || !ws_osrt_thread())
		return real(file);
	ws_osrt_find_path(found.fd, &found);
	if (!ws_osrt_begin(&call, WS_OSRT_fclose, (uint64_t)found.fd))
		return real(file);
	WS_OSRT_UNWINDABLE();
	r = real(file);
	end = ws_rt_read_ticks();
	if (ws_osrt_over(&call, end))
		ws_osrt_record_call_of(WS_OSRT_fclose, &call, end, r, &found);
	return r;
}
