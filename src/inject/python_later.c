/*
 * python_later.c - finds an interpreter that the program loads with dlopen: embedding, plug-ins in
 * Python.
 *
 * When it starts, CPython makes the condition variables of its GIL, which lie in its own data: so a
 * library with python in its name initialises one inside itself. Its symbols show whether it is the
 * interpreter. The calling library is looked up in /proc/self/maps, by system calls alone: the
 * dynamic loader knows it, too, but its lock may be held by a thread that waits for this one. Few
 * programs initialise condition variables in the data of libraries, and no more than TRIES of them
 * are looked at.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "inject/bind.h"
#include "inject/python.h"

#define TRIES 16
#define NEAR (UINT64_C(1) << 28) /* a library's data is never farther from its code */
#define LINE 4400		 /* line of /proc/self/maps: a path and what precedes it */

static int (*real_init)(pthread_cond_t *, const pthread_condattr_t *);
static _Atomic int tried;

/* ---- which file is mapped at an address ---- */

static const char *read_hex(const char *text, uint64_t *values)
{
	for (*values = 0;; text++) {
		if (*text >= '0' && *text <= '9')
			*values = *values << 4 | (uint64_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			*values = *values << 4 | (uint64_t)(*text - 'a' + 10);
		else
			return text;
	}
}

/* The path in the line "from-to ... /path" if its range covers `at`; NULL if it does not, or maps
 * no file. */
static const char *covers_code(const char *line, uint64_t at)
{
	uint64_t from, to;
	const char *text = read_hex(line, &from);

	if (*text++ != '-')
		return NULL;
	text = read_hex(text, &to);
	while (*text && *text != '/')
		text++;
	return at >= from && at < to && *text ? text : NULL;
}

/* The path of the file mapped at `at`, into `line`, which has room for LINE bytes; NULL when there
 * is none. */
static const char *read_path_at(uint64_t at, char *line)
{
	long fd = ws_raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps",
				 O_RDONLY | O_CLOEXEC, 0, 0, 0),
	     got;
	const char *path = NULL;
	char piece[1024];
	size_t n = 0;

	while (fd >= 0 && !path &&
	       (got = ws_raw_syscall(SYS_read, fd, (long)piece, sizeof(piece), 0, 0, 0)) > 0)
		for (long i = 0; i < got && !path; i++) {
			if (piece[i] != '\n') {
				line[n] = piece[i];
				n += n < LINE - 1;
				continue;
			}
			line[n] = 0;
			path = covers_code(line, at);
			n = 0;
		}
	if (fd >= 0)
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return path;
}

/* Whether the file's name contains python. */
static bool is_named_python(const char *path)
{
	static const char word[] = "python";
	const char *name = path;

	for (const char *text = path; *text; text++)
		name = *text == '/' ? text + 1 : name;
	for (; *name; name++) {
		size_t n = 0;

		while (word[n] && name[n] == word[n])
			n++;
		if (!word[n])
			return true;
	}
	return false;
}

/* ---- the interpreter ---- */

/* Keep the library loaded from now on, because functions found in it are called later. */
static void begin_with_interpreter(const char *path)
{
	void *(*open)(const char *, int) = ws_find_symbol("dlopen");
	void *library = open ? open(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;

	if (!library || !ws_find_symbol_in(library, "_PyRuntime"))
		return;
	ws_python.library = library;
	ws_python_begin_recording();
}

static WS_NOINLINE void look_for_interpreter(const void *cond, const void *caller)
{
	uint64_t code = (uint64_t)(uintptr_t)caller, data = (uint64_t)(uintptr_t)cond;
	char line[LINE];
	const char *path;

	if ((data > code ? data - code : code - data) > NEAR ||
	    atomic_fetch_add(&tried, 1) >= TRIES)
		return;
	path = read_path_at(code, line);
	if (path && is_named_python(path))
		begin_with_interpreter(path);
}

WS_EXPORT int pthread_cond_init(pthread_cond_t *restrict cond,
				const pthread_condattr_t *restrict attr);
int pthread_cond_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	if (ws_unlikely(!real_init))
		real_init = ws_find_next_symbol("pthread_cond_init");
	if (ws_unlikely(attr && !ws_python.runtime && ws_rt->arena &&
			ws_rt->features & WS_FEATURE_PYTHON))
		look_for_interpreter(cond, __builtin_return_address(0));
	return real_init(cond, attr);
}
